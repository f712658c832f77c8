//! Messages that were received and not shown yet, in a file beside the state: `STATE.mail`.
//!
//! A round's messages are appended before the state counts them as done, and what was shown is taken off, so that whatever closes or
//! blocks the output loses no message, and a crash repeats at most the one that was being shown.
//!
//! ```text
//! offset  bytes  field
//!      0      8  "rstmail2"
//!      8      8  where the first message begins that was not shown
//!     16      8  where the last one ends
//!     24      8  the start of the BLAKE3 hash of these 24 bytes
//!     32      …  messages: length (4), start of the hash of what follows (8), round (8), index (8), day (4, all ones
//!                if it is not known), text
//! ```
//!
//! Bytes behind the last message count for nothing. A round's messages are written with zeros up to a multiple of 64 KiB, also
//! if there are none, so that the disk is written to alike in all rounds with less than that.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use restante_client::{Period, relay::Received};
use zeroize::Zeroizing;

use crate::{error::CliError, files};

const MAGIC: &[u8; 8] = b"rstmail2";
const HEADER_BYTES: u64 = 32;
/// Round, index and day.
const RECORD_HEAD_BYTES: usize = 20;
/// Length and hash.
const FRAME_BYTES: u64 = 12;
const BLOCK_BYTES: usize = 1 << 16;
/// The longest text, and more.
const RECORD_BYTES_MAX: u32 = 1 << 17;

/// The messages of one account that nobody has seen.
#[derive(Debug)]
pub struct Mail {
    file: File,
    path: PathBuf,
    start: u64,
    end: u64,
    /// Where the messages end that the state counts as done: those behind may come again.
    counted: u64,
}

/// A message that is to be shown.
pub struct Letter {
    pub index: u64,
    pub day: Option<Period>,
    pub text: Zeroizing<Vec<u8>>,
    /// Where the next one begins.
    next: u64,
}

impl Mail {
    /// Opens the file, or makes it. `rounds` is the number of rounds that the state has behind it: messages of the next one were written
    /// before a crash, and come again.
    pub fn open(path: &Path, rounds: u64) -> Result<Self, CliError> {
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        // Readable by its owner alone, as the state is.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(CliError::system("open", path))?;
        files::keep_private(&file, path)?;
        let (start, end, counted) = (HEADER_BYTES, HEADER_BYTES, HEADER_BYTES);
        let mut mail = Self { file, path: path.into(), start, end, counted };
        let length = mail.file.metadata().map_err(CliError::system("inspect", path))?.len();
        if length == 0 {
            mail.write_header().map_err(CliError::system("write", path))?;
            return Ok(mail);
        }
        let mut header = [0; HEADER_BYTES as usize];
        let read = read_at(&mail.file, &mut header, 0);
        let number = |place: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[place + byte]));
        (mail.start, mail.end) = (number(8), number(16));
        let is_whole = read.is_ok()
            && header[..8] == *MAGIC
            && header[24..] == blake3::hash(&header[..24]).as_bytes()[..8]
            && (HEADER_BYTES..=mail.end).contains(&mail.start)
            && mail.end <= length;
        if !is_whole {
            return Err(mail.damaged());
        }
        mail.counted = mail.start;
        while let Some((round, letter)) = mail.read(mail.counted)? {
            if round == rounds.saturating_add(1) {
                break;
            }
            mail.counted = letter.next;
        }
        mail.drop_uncounted()?;
        Ok(mail)
    }

    /// Messages that may be shown.
    pub fn waiting(&self) -> Result<usize, CliError> {
        let (mut place, mut count) = (self.start, 0);
        while place < self.counted {
            let Some((_, letter)) = self.read(place)? else { break };
            (place, count) = (letter.next, count + 1);
        }
        Ok(count)
    }

    /// Writes the messages of a round down. They are shown when the state counts them as done ([`Mail::count`]).
    pub fn append(&mut self, round: u64, messages: &[Received]) -> Result<(), CliError> {
        let texts: usize = messages.iter().map(|message| RECORD_HEAD_BYTES + message.text.len()).sum();
        let capacity = texts + messages.len() * FRAME_BYTES as usize + BLOCK_BYTES;
        // At once, so that no half-grown copy stays behind in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        for Received { index, day, text } in messages {
            let day = day.map_or(u32::MAX, |day| day.0).to_le_bytes();
            let mut hasher = blake3::Hasher::new();
            hasher.update(&round.to_le_bytes()).update(&index.to_le_bytes()).update(&day).update(text);
            bytes.extend_from_slice(&((RECORD_HEAD_BYTES + text.len()) as u32).to_le_bytes());
            bytes.extend_from_slice(&hasher.finalize().as_bytes()[..8]);
            bytes.extend_from_slice(&round.to_le_bytes());
            bytes.extend_from_slice(&index.to_le_bytes());
            bytes.extend_from_slice(&day);
            bytes.extend_from_slice(text);
        }
        let added = bytes.len() as u64;
        let padded = bytes.len().max(1).next_multiple_of(BLOCK_BYTES);
        bytes.resize(padded, 0);
        self.end = self.counted;
        // Always, and durably: what is written over next may be what an older header on the disk still counts.
        self.write_header().map_err(CliError::system("write", &self.path))?;
        let written = write_at(&self.file, &bytes, self.end).and_then(|()| self.file.sync_data());
        written.map_err(CliError::system("write", &self.path))?;
        self.end += added;
        self.write_header().map_err(CliError::system("write", &self.path))
    }

    /// Takes off what was written for a round whose state was not. It is written over afterwards, and must count for nothing before.
    fn drop_uncounted(&mut self) -> Result<(), CliError> {
        if self.end == self.counted {
            return Ok(());
        }
        self.end = self.counted;
        self.write_header().map_err(CliError::system("write", &self.path))
    }

    /// Says that the state counts all that was written as done.
    pub fn count(&mut self) {
        self.counted = self.end;
    }

    /// The next message to show.
    pub fn next(&self) -> Result<Option<Letter>, CliError> {
        if self.start >= self.counted {
            return Ok(None);
        }
        Ok(self.read(self.start)?.map(|(_, letter)| letter))
    }

    /// Takes a message off that was shown.
    pub fn shown(&mut self, letter: &Letter) -> Result<(), CliError> {
        self.start = letter.next;
        if self.start == self.end {
            (self.start, self.end, self.counted) = (HEADER_BYTES, HEADER_BYTES, HEADER_BYTES);
        }
        write_at(&self.file, &self.header(), 0).map_err(CliError::system("write", &self.path))?;
        if self.end == HEADER_BYTES {
            self.file.set_len(HEADER_BYTES).map_err(CliError::system("write", &self.path))?;
        }
        Ok(())
    }

    fn header(&self) -> [u8; HEADER_BYTES as usize] {
        let mut header = [0; HEADER_BYTES as usize];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.start.to_le_bytes());
        header[16..24].copy_from_slice(&self.end.to_le_bytes());
        let hash = blake3::hash(&header[..24]);
        header[24..].copy_from_slice(&hash.as_bytes()[..8]);
        header
    }

    fn write_header(&self) -> io::Result<()> {
        write_at(&self.file, &self.header(), 0)?;
        self.file.sync_data()
    }

    /// The message at a place, and its round.
    fn read(&self, place: u64) -> Result<Option<(u64, Letter)>, CliError> {
        if place >= self.end {
            return Ok(None);
        }
        let mut frame = [0; FRAME_BYTES as usize];
        let length = read_at(&self.file, &mut frame, place).ok().map(|()| {
            let [a, b, c, d, ..] = frame;
            u32::from_le_bytes([a, b, c, d])
        });
        let next = length.map_or(u64::MAX, |length| place + FRAME_BYTES + u64::from(length));
        let Some(length) = length.filter(|length| {
            (RECORD_HEAD_BYTES as u32..=RECORD_BYTES_MAX).contains(length) && next <= self.end
        }) else {
            return Err(self.damaged());
        };
        let mut record = Zeroizing::new(vec![0; length as usize]);
        let read = read_at(&self.file, &mut record, place + FRAME_BYTES);
        if read.is_err() || frame[4..] != blake3::hash(&record).as_bytes()[..8] {
            return Err(self.damaged());
        }
        let number = |place: usize| u64::from_le_bytes(std::array::from_fn(|byte| record[place + byte]));
        let [a, b, c, d] = std::array::from_fn(|byte| record[16 + byte]);
        let day = Some(u32::from_le_bytes([a, b, c, d])).filter(|day| *day != u32::MAX).map(Period);
        let (round, index) = (number(0), number(8));
        let text = Zeroizing::new(record[RECORD_HEAD_BYTES..].to_vec());
        Ok(Some((round, Letter { index, day, text, next })))
    }

    fn damaged(&self) -> CliError {
        let reason = "it is no file of messages that wait to be shown, or is damaged: put it away, and read the messages again with --read";
        CliError::input(&self.path)(&reason)
    }
}

fn read_at(mut file: &File, bytes: &mut [u8], place: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(place))?;
    file.read_exact(bytes)
}

fn write_at(mut file: &File, bytes: &[u8], place: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(place))?;
    file.write_all(bytes)
}

/// Makes the hashes right of what looks like such a file.
pub fn mend(bytes: &mut [u8]) {
    let Some((header, records)) = bytes.split_at_mut_checked(HEADER_BYTES as usize) else { return };
    header[..8].copy_from_slice(MAGIC);
    let hash = blake3::hash(&header[..24]);
    header[24..].copy_from_slice(&hash.as_bytes()[..8]);
    let mut rest = records;
    while let Some((frame, behind)) = rest.split_at_mut_checked(FRAME_BYTES as usize) {
        let length = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
        let Some((record, behind)) = behind.split_at_mut_checked(length) else { return };
        frame[4..].copy_from_slice(&blake3::hash(record).as_bytes()[..8]);
        if length == 0 {
            return;
        }
        rest = behind;
    }
}

/// Removes the file if nothing waits in it.
pub fn tidy(mail: &Mail) {
    if mail.start == mail.end && mail.end == HEADER_BYTES {
        // That it stays is as good.
        let _ = fs::remove_file(&mail.path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn messages(range: std::ops::Range<u64>) -> Vec<Received> {
        let message = |index: u64| Received {
            index,
            day: (index % 2 == 0).then_some(Period(index as u32)),
            text: Zeroizing::new(vec![index as u8; 100 * index as usize]),
        };
        range.map(message).collect()
    }

    fn show(mail: &mut Mail, most: usize) -> Vec<u64> {
        let mut shown = Vec::new();
        while shown.len() < most
            && let Some(letter) = mail.next().unwrap()
        {
            assert_eq!(messages(letter.index..letter.index + 1)[0].day, letter.day);
            assert_eq!(*letter.text, vec![letter.index as u8; 100 * letter.index as usize]);
            mail.shown(&letter).unwrap();
            shown.push(letter.index);
        }
        shown
    }

    #[test]
    fn what_was_not_shown_waits_and_what_was_does_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.mail");
        let mut mail = Mail::open(&path, 0).unwrap();
        mail.append(1, &messages(0..4)).unwrap();
        assert_eq!(show(&mut mail, 9), [0; 0], "the state does not count them yet");
        mail.count();
        assert_eq!(show(&mut mail, 3), [0, 1, 2]);
        mail.append(2, &messages(4..6)).unwrap();
        mail.count();
        let mut mail = Mail::open(&path, 2).unwrap();
        assert_eq!(mail.waiting().unwrap(), 3);
        assert_eq!(show(&mut mail, 9), [3, 4, 5]);
        assert_eq!(fs::metadata(&path).unwrap().len(), HEADER_BYTES, "no text stays behind");
        assert_eq!(show(&mut Mail::open(&path, 2).unwrap(), 9), [0; 0]);
    }

    /// Killed between the messages and the state, once and again.
    #[test]
    fn messages_that_the_state_does_not_count_come_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.mail");
        let mut mail = Mail::open(&path, 0).unwrap();
        mail.append(1, &messages(0..2)).unwrap();
        mail.count();
        for _ in 0..2 {
            mail.append(2, &messages(2..5)).unwrap();
            mail = Mail::open(&path, 1).unwrap();
            assert_eq!(mail.waiting().unwrap(), 2);
        }
        // The state could not be written, the process went on.
        mail.append(2, &messages(2..5)).unwrap();
        mail.append(2, &messages(2..7)).unwrap();
        mail.count();
        assert_eq!(show(&mut Mail::open(&path, 2).unwrap(), 99), [0, 1, 2, 3, 4, 5, 6]);
        // Of a state that is gone.
        mail = Mail::open(&path, 2).unwrap();
        mail.append(9, &messages(7..8)).unwrap();
        assert_eq!(show(&mut Mail::open(&path, 0).unwrap(), 99), [7]);
    }

    /// Somebody else may have made the file before, or a backup brought it back.
    #[test]
    #[cfg(unix)]
    fn what_is_written_into_a_file_that_was_there_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.mail");
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        Mail::open(&path, 0).unwrap().append(1, &messages(1..3)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn rounds_with_few_messages_write_as_much_as_those_with_none() {
        let place = tempfile::tempdir().unwrap();
        let lengths = [0, 1, 20].map(|count| {
            let path = place.path().join(count.to_string());
            Mail::open(&path, 0).unwrap().append(1, &messages(0..count)).unwrap();
            fs::metadata(path).unwrap().len()
        });
        assert_eq!(lengths, [HEADER_BYTES + BLOCK_BYTES as u64; 3]);
    }

    #[test]
    fn other_files_and_damaged_ones_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.mail");
        let mut mail = Mail::open(&path, 0).unwrap();
        mail.append(1, &messages(1..3)).unwrap();
        let good = fs::read(&path).unwrap();
        let used = HEADER_BYTES as usize + 2 * 32 + 300;
        for place in (0..used).step_by(3) {
            let mut bad = good.clone();
            bad[place] ^= 4;
            fs::write(&path, &bad).unwrap();
            assert!(Mail::open(&path, 1).is_err(), "{place}");
        }
        for length in [1, 31, 32, used - 1] {
            fs::write(&path, &good[..length]).unwrap();
            assert!(Mail::open(&path, 1).is_err(), "{length}");
        }
    }
}
