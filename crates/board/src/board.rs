use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use restante_wire::{Envelope, ParameterId};

use crate::files::{Files, Part, replace_durably, sync_directory, write_durably};
use crate::head::{self, HeadRecord};
use crate::segment::{Seal, Segment, read_small};
use crate::{BoardConfig, BoardError, Clues, Hash, Head, retention};
use restante_wire::merkle::Frontier;

/// A manifest's size in bytes.
const MANIFEST_BYTES: usize = 32 + Envelope::OVERHEAD_BYTES;

/// A board, open for reading: a snapshot of what was committed when it was opened or last refreshed.
///
/// Cloning is cheap and gives a second snapshot over the same maps, so that a long job can keep its own while another
/// one moves on.
#[derive(Debug, Clone)]
pub struct Board {
    pub(crate) files: Files,
    pub(crate) config: BoardConfig,
    pub(crate) head: HeadRecord,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The roots of the full segments.
    pub(crate) roots: Vec<Hash>,
    /// The number of segments whose messages the board has forgotten.
    pub(crate) forgotten: u64,
    /// The subtrees of the full segments.
    pub(crate) full: Frontier,
    /// The subtrees within the last segment, while it is not full.
    pub(crate) tail: Frontier,
}

/// A message, read and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its index on the board.
    pub index: u64,
    /// Its clue.
    pub clue: &'a [u8],
    /// Its payload.
    pub payload: &'a [u8],
}

/// The size of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The head, which identifies the contents.
    pub head: Head,
    /// Committed messages.
    pub messages: u64,
    /// Segments, a partly filled last one included.
    pub segments: u64,
    /// Segments that are full and sealed.
    pub sealed_segments: u64,
    /// Bytes of all clues.
    pub clue_bytes: u64,
    /// Bytes of all payloads.
    pub payload_bytes: u64,
    /// Bytes of clues, payloads and index together.
    pub bytes: u64,
}

impl Board {
    /// Creates an empty board in a new or an empty directory, and opens it.
    ///
    /// # Errors
    ///
    /// [`BoardError::Config`] for a size outside its limits, [`BoardError::NotEmpty`] if there is a board or anything else
    /// in the directory already, [`BoardError::Io`]. A board that could not be created leaves nothing behind that
    /// keeps the next attempt from succeeding.
    pub fn create(path: impl AsRef<Path>, config: &BoardConfig) -> Result<Self, BoardError> {
        let path = path.as_ref();
        config.validate()?;
        let made_directory = match fs::create_dir(path) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(BoardError::io("create", path)(error)),
        };
        let files = Files::new(path);
        if !made_directory && !is_vacant(&files)? {
            return Err(BoardError::NotEmpty { path: path.into() });
        }
        let created = Self::create_files(&files, config);
        // What another process is creating here at this moment is not ours to remove.
        let failed = matches!(&created, Err(error) if !matches!(error, BoardError::Locked { .. }));
        if failed && !files.manifest().exists() {
            // As far as it goes: what is left is recognised as a failed attempt by `is_vacant`.
            let _ = fs::remove_file(files.head());
            let _ = fs::remove_dir(files.segments());
            let _ = fs::remove_file(files.lock());
            if made_directory {
                let _ = fs::remove_dir(path);
            }
        }
        created?;
        Self::open(path)
    }

    /// The manifest comes last and all at once: a directory is a board from that moment.
    fn create_files(files: &Files, config: &BoardConfig) -> Result<(), BoardError> {
        let _lock = files.take_lock()?;
        if files.manifest().exists() {
            return Err(BoardError::NotEmpty { path: files.root().into() });
        }
        let segments = files.segments();
        match fs::create_dir(&segments) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(BoardError::io("create", &segments)(error));
            }
            _ => {}
        }
        write_durably(&files.head(), &head::first_head_file(config.parameters))?;
        sync_directory(&segments)?;
        sync_directory(files.root())?;
        replace_durably(&files.manifest(), &files.manifest_draft(), &config.to_manifest())?;
        match files.root().parent() {
            Some(parent) if parent.as_os_str().is_empty() => sync_directory(Path::new(".")),
            Some(parent) => sync_directory(parent),
            None => Ok(()),
        }
    }

    /// Opens a board for reading. It changes nothing on disk, and ignores bytes behind the last commit.
    ///
    /// The messages that are not in a sealed segment are checked against their hashes; the whole is checked against the
    /// root in the head.
    ///
    /// # Errors
    ///
    /// [`BoardError::NotABoard`]; for a file that is damaged, truncated or foreign, an error that names it and says what was
    /// expected.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BoardError> {
        let files = Files::new(path.as_ref());
        let config = read_manifest(&files)?;
        let (head, _) = head::read(&files.head(), config.parameters)?;
        head::wait_until_durable(&files.head())?;
        Self::load(files, config, head)
    }

    /// The board as of `head`.
    pub(crate) fn load(files: Files, config: BoardConfig, head: HeadRecord) -> Result<Self, BoardError> {
        let nothing = HeadRecord { sequence: 0, count: 0, root: Frontier::default().root() };
        let mut board = Self {
            files,
            config,
            head: nothing,
            segments: Vec::new(),
            roots: Vec::new(),
            forgotten: 0,
            full: Frontier::default(),
            tail: Frontier::default(),
        };
        board.advance(head)?;
        Ok(board)
    }

    /// Takes in what was committed since, and returns the number of messages now.
    ///
    /// # Errors
    ///
    /// As for [`Board::open`], and [`BoardError::WentBack`] if the board has lost messages. The snapshot then stays as it was.
    pub fn refresh(&mut self) -> Result<u64, BoardError> {
        let path = self.files.head();
        let (head, _) = head::read(&path, self.config.parameters)?;
        if head == self.head {
            self.forget(retention::read(&self.files, &self.config)?)?;
            return Ok(self.len());
        }
        if head.count < self.head.count {
            return Err(BoardError::WentBack { path, expected: self.head.count, found: head.count });
        }
        head::wait_until_durable(&path)?;
        let mut next = self.clone();
        next.advance(head)?;
        *self = next;
        Ok(self.len())
    }

    /// Maps and checks the messages from the present count to that of `head`.
    pub(crate) fn advance(&mut self, head: HeadRecord) -> Result<(), BoardError> {
        let capacity = u64::from(self.config.segment_capacity);
        let mut count = self.head.count;
        self.forget(retention::read(&self.files, &self.config)?)?;
        while count < head.count {
            let (number, from) = self.config.locate(count);
            let to = capacity.min(head.count - (count - from));
            if number < self.forgotten {
                let seal = self.forgotten_seal(number)?;
                let segment = Segment::forgotten(&self.files, &self.config, &seal);
                self.tail = Frontier::default();
                self.take_full(number, seal.root, segment);
                count += to - from;
                continue;
            }
            let seal = if to == capacity { Seal::read(&self.files, &self.config, number)? } else { None };
            let segment = Segment::open(&self.files, &self.config, number, to, seal.as_ref())?;
            if let (Some(seal), 0) = (&seal, from) {
                self.take_full(number, seal.root, segment);
            } else {
                for leaf in segment.leaves(from..to)? {
                    self.tail.push(0, leaf);
                }
                if to == capacity {
                    let root = std::mem::take(&mut self.tail).root();
                    self.take_full(number, root, segment);
                } else {
                    self.segments.truncate(number as usize);
                    self.segments.push(Arc::new(segment));
                }
            }
            count += to - from;
        }
        let root = self.full.root_with(&self.tail);
        if root != head.root {
            return Err(BoardError::Root { path: self.files.head(), expected: head.root, found: root });
        }
        self.head = head;
        Ok(())
    }

    fn take_full(&mut self, number: u64, root: Hash, segment: Segment) {
        self.full.push(self.config.segment_level(), root);
        self.roots.push(root);
        self.segments.truncate(number as usize);
        self.segments.push(Arc::new(segment));
    }

    /// Drops the maps of the segments before `segment`.
    fn forget(&mut self, segment: u64) -> Result<(), BoardError> {
        let there = self.forgotten.min(self.segments.len() as u64)..segment.min(self.segments.len() as u64);
        for number in there {
            let seal = self.forgotten_seal(number)?;
            let forgotten = Segment::forgotten(&self.files, &self.config, &seal);
            self.segments[number as usize] = Arc::new(forgotten);
        }
        self.forgotten = self.forgotten.max(segment);
        Ok(())
    }

    fn forgotten_seal(&self, number: u64) -> Result<Seal, BoardError> {
        let path = self.files.segment(number, Part::Seal);
        Seal::read(&self.files, &self.config, number)?
            .ok_or_else(|| BoardError::io("open", path)(ErrorKind::NotFound.into()))
    }

    /// Index of the first message that the board still has.
    pub fn retained_from(&self) -> u64 {
        self.forgotten * u64::from(self.config.segment_capacity)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.files.root()
    }

    /// The board's parameters and sizes.
    pub fn config(&self) -> &BoardConfig {
        &self.config
    }

    /// Checks that the board is for `expected`, with an error that names it otherwise.
    ///
    /// # Errors
    ///
    /// [`BoardError::WrongParameters`].
    pub fn require_parameters(&self, expected: ParameterId) -> Result<(), BoardError> {
        let found = self.config.parameters;
        if found != expected {
            return Err(BoardError::WrongParameters { path: self.files.manifest(), expected, found });
        }
        Ok(())
    }

    /// The number of messages.
    pub fn len(&self) -> u64 {
        self.head.count
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// The head, which identifies the contents.
    pub fn head(&self) -> Head {
        Head {
            board: self.config.id,
            count: self.head.count,
            root: self.head.root,
            parameters: self.config.parameters,
        }
    }

    /// The clues of the messages in `range`.
    ///
    /// # Errors
    ///
    /// [`BoardError::OutOfRange`].
    pub fn clues(&self, range: Range<u64>) -> Result<Clues<'_>, BoardError> {
        if range.start > range.end || range.end > self.head.count {
            return Err(BoardError::OutOfRange {
                start: range.start,
                end: range.end,
                messages: self.head.count,
            });
        }
        if !range.is_empty() {
            self.require_retained(range.start)?;
        }
        Ok(Clues::new(&self.segments, self.config, range))
    }

    /// The payload of message `index`, checked against its hash.
    ///
    /// # Errors
    ///
    /// [`BoardError::OutOfRange`], [`BoardError::Corrupted`], [`BoardError::CorruptedIndex`].
    pub fn payload(&self, index: u64) -> Result<&[u8], BoardError> {
        let (segment, place) = self.segment_of(index)?;
        segment.payload(place)
    }

    /// Message `index`, both parts checked against their hashes.
    ///
    /// # Errors
    ///
    /// As for [`Board::payload`].
    pub fn message(&self, index: u64) -> Result<Message<'_>, BoardError> {
        let (segment, place) = self.segment_of(index)?;
        Ok(Message { index, clue: segment.checked_clue(place)?.0, payload: segment.payload(place)? })
    }

    fn require_retained(&self, index: u64) -> Result<(), BoardError> {
        let retained_from = self.retained_from();
        if index < retained_from { Err(BoardError::Forgotten { index, retained_from }) } else { Ok(()) }
    }

    pub(crate) fn segment_of(&self, index: u64) -> Result<(&Segment, u64), BoardError> {
        self.require_retained(index)?;
        let (number, place) = self.config.locate(index);
        self.segments
            .get(number as usize)
            .filter(|segment| place < segment.messages())
            .map(|segment| (&**segment, place))
            .ok_or(BoardError::OutOfRange {
                start: index,
                end: index.saturating_add(1),
                messages: self.head.count,
            })
    }

    /// The size of the board.
    pub fn stats(&self) -> Stats {
        let (mut clue_bytes, mut payload_bytes, mut bytes) = (0, 0, 0);
        for segment in &self.segments {
            let [clues, payloads, index] = segment.part_bytes();
            clue_bytes += clues;
            payload_bytes += payloads;
            bytes += clues + payloads + index;
        }
        Stats {
            head: self.head(),
            messages: self.head.count,
            segments: self.segments.len() as u64,
            sealed_segments: self.segments.iter().filter(|segment| segment.is_sealed()).count() as u64,
            clue_bytes,
            payload_bytes,
            bytes,
        }
    }
}

pub(crate) fn read_manifest(files: &Files) -> Result<BoardConfig, BoardError> {
    let path = files.manifest();
    match read_small(&path, MANIFEST_BYTES) {
        Err(BoardError::Io { reason, .. })
            if reason.kind() == ErrorKind::NotFound && files.root().is_dir() =>
        {
            Err(BoardError::NotABoard { path: files.root().into() })
        }
        bytes => BoardConfig::from_manifest(&bytes?).map_err(|reason| BoardError::Format { path, reason }),
    }
}

/// Whether a board may be created here: nothing is there but, at most, what a failed attempt left.
fn is_vacant(files: &Files) -> Result<bool, BoardError> {
    let path = files.root();
    let left_over = [files.head(), files.lock(), files.segments(), files.manifest_draft()];
    for entry in fs::read_dir(path).map_err(BoardError::io("list", path))? {
        if !left_over.contains(&entry.map_err(BoardError::io("list", path))?.path()) {
            return Ok(false);
        }
    }
    match fs::read_dir(files.segments()) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) => Ok(error.kind() == ErrorKind::NotFound),
    }
}
