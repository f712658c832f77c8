//! Bytes that somebody is still writing.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::TableError;
use crate::lines::{Fill, Source};

/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 16;
/// Pieces that wait to be taken: 1 MiB at most is read ahead.
const PIECES: usize = 16;

/// A pipe or a growing file, read by a thread of its own so that waiting for more can end at a deadline.
#[derive(Debug)]
pub struct Follow {
    pieces: Receiver<io::Result<Vec<u8>>>,
    gone: Arc<AtomicBool>,
}

impl Follow {
    /// Follows a pipe, until whoever writes it closes it.
    pub fn pipe(reader: impl Read + Send + 'static) -> Self {
        Self::start(reader, |_| Ok(true))
    }

    /// Follows a file: once its end is reached, looks every `interval` whether there is more, without end. The file
    /// may only grow; one that is replaced under the same name is not noticed.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`] if it cannot be opened. Later, an error if it gets shorter.
    pub fn file(path: &Path, interval: Duration) -> Result<Self, TableError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(TableError::io("open", &name))?;
        let watched = file.try_clone().map_err(TableError::io("open", &name))?;
        Ok(Self::start(file, move |read| {
            let bytes = watched.metadata()?.len();
            if bytes < read {
                let reason = format!("it has {bytes} bytes after {read} were read, expected it to grow");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            thread::sleep(interval);
            Ok(false)
        }))
    }

    /// `at_end` gets the number of bytes read and says whether that is the end.
    fn start(
        mut reader: impl Read + Send + 'static,
        at_end: impl Fn(u64) -> io::Result<bool> + Send + 'static,
    ) -> Self {
        let (sender, pieces) = sync_channel(PIECES);
        let gone = Arc::new(AtomicBool::new(false));
        let is_gone = Arc::clone(&gone);
        thread::spawn(move || {
            let mut total = 0;
            while !is_gone.load(Ordering::Relaxed) {
                match read_piece(&mut reader, &sender, &mut total)
                    .and_then(|more| if more { Ok(false) } else { at_end(total) })
                {
                    Ok(false) => {}
                    Ok(true) => return,
                    Err(error) => {
                        // Nobody listens any more: nobody wants to know.
                        let _ = sender.send(Err(error));
                        return;
                    }
                }
            }
        });
        Self { pieces, gone }
    }
}

/// Reads and sends a piece; false at the end of the input.
fn read_piece(
    reader: &mut impl Read,
    sender: &SyncSender<io::Result<Vec<u8>>>,
    total: &mut u64,
) -> io::Result<bool> {
    let mut piece = vec![0; PIECE_BYTES];
    let read = match reader.read(&mut piece) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
        read => read?,
    };
    piece.truncate(read);
    *total += read as u64;
    if read == 0 {
        return Ok(false);
    }
    sender.send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into()).map(|()| true)
}

impl Source for Follow {
    fn fill(&mut self, deadline: Option<Instant>) -> io::Result<Fill> {
        let received = match deadline {
            None => self.pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => self.pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(piece) => piece.map(Fill::Bytes),
            Err(RecvTimeoutError::Timeout) => Ok(Fill::Pause),
            Err(RecvTimeoutError::Disconnected) => Ok(Fill::End),
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::io::Write;

    use super::*;

    /// Whatever comes until `count` bytes are there.
    fn take(follow: &mut Follow, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            match follow.fill(None).unwrap() {
                Fill::Bytes(bytes) => all.extend_from_slice(&bytes),
                other => panic!("{other:?} after {} bytes", all.len()),
            }
        }
        all
    }

    #[test]
    fn what_is_appended_is_read_and_what_is_cut_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"one\n").unwrap();
        let mut follow = Follow::file(file.path(), Duration::from_millis(1)).unwrap();
        assert_eq!(take(&mut follow, 4), b"one\n");
        assert!(matches!(follow.fill(Some(Instant::now())).unwrap(), Fill::Pause));
        file.write_all(b"two\n").unwrap();
        assert_eq!(take(&mut follow, 4), b"two\n");
        file.as_file().set_len(3).unwrap();
        let error = follow.fill(None).unwrap_err();
        assert!(error.to_string().contains("expected it to grow"));
    }

    #[test]
    fn a_pipe_ends_when_it_is_closed() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut follow = Follow::pipe(reader);
        assert!(matches!(follow.fill(Some(Instant::now())).unwrap(), Fill::Pause));
        let text = vec![b'x'; 3 * PIECE_BYTES * PIECES];
        let expected = text.clone();
        let writing = thread::spawn(move || writer.write_all(&text).unwrap());
        assert!(take(&mut follow, expected.len()) == expected);
        writing.join().unwrap();
        assert!(matches!(follow.fill(None).unwrap(), Fill::End));
    }
}
