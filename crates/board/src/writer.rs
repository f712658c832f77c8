//! The one writer: stages messages, makes them durable, publishes their number.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::board::read_manifest;
use crate::files::{Files, Part, sync_directory};
use crate::head::{self, HeadRecord};
use crate::rule::Rule;
use crate::segment::{Row, Rows, Seal, row_bytes};
use crate::{Board, BoardConfig, BoardError, Hash, Head, retention};
use restante_wire::binding::Period;
use restante_wire::merkle::Frontier;

mod tail;

use tail::Tail;

/// A board, open for appending. Only one can be open at a time.
///
/// Messages are staged by [`append`](Self::append) and become part of the board, all together, in
/// [`commit`](Self::commit). Dropping the writer drops what is staged.
#[derive(Debug)]
pub struct BoardWriter {
    files: Files,
    config: BoardConfig,
    head_file: File,
    /// The state of the board.
    committed: State,
    /// The sequence number of the newest head.
    sequence: u64,
    /// The state of the board after the next commit.
    staged: State,
    /// The clues of open periods.
    rule: Rule,
    /// The segment that takes the next message; none while the last one is full.
    tail: Option<Tail>,
    /// Whether a segment's files were created since the last commit.
    names_unsynced: bool,
    /// Full segments of the board that have no seal yet.
    unsealed: Vec<Seal>,
    /// Full segments that the next commit makes part of the board.
    filled: Vec<Seal>,
    stopped: bool,
    /// Held until the writer is dropped.
    _lock: File,
}

#[derive(Debug, Clone)]
struct State {
    count: u64,
    /// Bytes of the payloads in the last segment, 0 if that is full.
    tail_payload_bytes: u64,
    full: Frontier,
    tail: Frontier,
}

impl BoardWriter {
    /// Opens a board for appending and cuts what lies behind the last commit.
    ///
    /// # Errors
    ///
    /// [`BoardError::Locked`] if another writer has it open, and those of [`Board::open`]: a board that is damaged where it is
    /// committed is refused and left as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BoardError> {
        let files = Files::new(path.as_ref());
        let config = read_manifest(&files)?;
        let lock = files.take_lock()?;
        let (head, _) = head::read(&files.head(), config.parameters)?;
        let board = Board::load(files.clone(), config, head)?;
        let is_full = |messages| messages == u64::from(config.segment_capacity);
        let mut unsealed = Vec::new();
        let unsealed_segments =
            board.segments.iter().filter(|segment| is_full(segment.messages()) && !segment.is_sealed());
        for segment in unsealed_segments {
            let mut tree = Frontier::default();
            segment.leaves(0..segment.messages())?.into_iter().for_each(|leaf| tree.push(0, leaf));
            unsealed.push(Seal::of(segment, tree.root()));
        }
        let forgotten = board.forgotten;
        let rule = Rule::of_board(&board)?;
        let open_from = open_from(&files, &config, &rule, forgotten)?;
        let partial = board.segments.last().filter(|segment| !is_full(segment.messages()));
        let committed = State {
            count: head.count,
            tail_payload_bytes: partial.map_or(0, |segment| segment.part_bytes()[1]),
            full: board.full.clone(),
            tail: board.tail.clone(),
        };
        drop(board);
        retention::remove_forgotten(&files, forgotten, open_from)?;
        let tail = repair(&files, &config, &committed)?;

        let mut writer = Self {
            head_file: head::open_for_writing(&files.head())?,
            files,
            config,
            staged: committed.clone(),
            committed,
            sequence: head.sequence,
            rule,
            tail,
            names_unsynced: false,
            unsealed,
            filled: Vec::new(),
            stopped: false,
            _lock: lock,
        };
        // The head may have been read from a cache that the last writer could not sync, and a copy of it or the other slot
        // may be damaged: write it again before anything is built upon it.
        writer.publish()?;
        writer.seal();
        Ok(writer)
    }

    /// Checks all for which [`append`](Self::append) refuses a message, except the state of the disk.
    ///
    /// # Errors
    ///
    /// [`BoardError::ClueSize`], [`BoardError::PayloadSize`], [`BoardError::ClosedPeriod`], [`BoardError::Duplicate`].
    pub fn check(&self, clue: &[u8], payload: &[u8]) -> Result<(), BoardError> {
        self.check_sizes(clue, payload)?;
        let row = Row::of(&self.config, clue, payload, 0);
        self.rule.check(row.period, &row.hashes.bound)
    }

    /// Whether the rule for clues lets a message in, from its period and the hash of its clue's bound part.
    ///
    /// # Errors
    ///
    /// [`BoardError::ClosedPeriod`], [`BoardError::Duplicate`].
    pub fn check_clue(&self, period: Period, bound: &Hash) -> Result<(), BoardError> {
        self.rule.check(period, bound)
    }

    /// Stages a message and returns the index that it will have.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check) leave what is staged as it is. After [`BoardError::Io`] (a full disk) nothing is
    /// staged any more, and the board is what it was after the last commit.
    pub fn append(&mut self, clue: &[u8], payload: &[u8]) -> Result<u64, BoardError> {
        self.check_running()?;
        self.check_sizes(clue, payload)?;
        let payload_end = self.staged.tail_payload_bytes + payload.len() as u64;
        let row = Row::of(&self.config, clue, payload, payload_end);
        self.rule.check(row.period, &row.hashes.bound)?;
        let staged = self.stage(clue, payload, &row);
        self.settle(staged)
    }

    fn check_sizes(&self, clue: &[u8], payload: &[u8]) -> Result<(), BoardError> {
        if clue.len() != self.config.clue_bytes as usize {
            return Err(BoardError::ClueSize { found: clue.len(), expected: self.config.clue_bytes });
        }
        if payload.len() > self.config.payload_bytes_max as usize {
            let limit = self.config.payload_bytes_max;
            return Err(BoardError::PayloadSize { found: payload.len(), limit });
        }
        Ok(())
    }

    fn stage(&mut self, clue: &[u8], payload: &[u8], row: &Row<'_>) -> Result<u64, Failure> {
        let index = self.staged.count;
        let (number, place) = self.config.locate(index);
        let tail = match &mut self.tail {
            Some(tail) => tail,
            tail => {
                self.names_unsynced = true;
                tail.insert(Tail::create(&self.files, number)?)
            }
        };
        tail.write(clue, payload, &row.to_bytes())?;
        self.staged.count += 1;
        self.staged.tail_payload_bytes = row.payload_end;
        self.staged.tail.push(0, row.leaf());
        self.rule.take(row, index);
        if place + 1 == u64::from(self.config.segment_capacity) {
            self.finish_segment(number)?;
        }
        Ok(index)
    }

    /// Makes the full segment durable at once, so that a batch over many segments needs the files of one only.
    fn finish_segment(&mut self, number: u64) -> Result<(), Failure> {
        if let Some(mut tail) = self.tail.take() {
            tail.flush()?;
            tail.sync().map_err(Failure::Unknown)?;
        }
        let root = std::mem::take(&mut self.staged.tail).root();
        self.staged.full.push(self.config.segment_level(), root);
        let payload_bytes = std::mem::take(&mut self.staged.tail_payload_bytes);
        self.filled.push(Seal { number, messages: self.config.segment_capacity, payload_bytes, root });
        Ok(())
    }

    /// Makes everything staged part of the board, durably, and returns the number of messages on the board. A
    /// message may be acknowledged to its sender once this has returned.
    ///
    /// # Errors
    ///
    /// [`BoardError::Io`]. If the disk was full, nothing is staged any more and the board is what it was. If the system could not
    /// say what is on disk, the writer stops ([`BoardError::Stopped`]) and the board must be opened again; it then has
    /// all or none of what was staged.
    pub fn commit(&mut self) -> Result<u64, BoardError> {
        self.check_running()?;
        if self.staged.count > self.committed.count {
            let synced = self.sync_staged();
            self.settle(synced)?;
            self.publish()?;
            self.unsealed.append(&mut self.filled);
        }
        self.seal();
        Ok(self.committed.count)
    }

    /// First half of a commit: the messages and the names of their files.
    fn sync_staged(&mut self) -> Result<(), Failure> {
        if let Some(tail) = &mut self.tail {
            tail.flush()?;
            tail.sync().map_err(Failure::Unknown)?;
        }
        if self.names_unsynced {
            sync_directory(&self.files.segments()).map_err(Failure::Unknown)?;
            self.names_unsynced = false;
        }
        Ok(())
    }

    /// Second half of a commit: the head.
    fn publish(&mut self) -> Result<(), BoardError> {
        let head = HeadRecord {
            sequence: self.sequence + 1,
            count: self.staged.count,
            root: self.staged.full.root_with(&self.staged.tail),
        };
        // Until this has succeeded the newest head is one or the other.
        self.stopped = true;
        head::publish(&mut self.head_file, &self.files.head(), head, self.config.parameters)?;
        self.stopped = false;
        self.sequence = head.sequence;
        self.committed = self.staged.clone();
        self.rule.commit();
        Ok(())
    }

    /// Seals the full segments. They are durable without; what cannot be sealed now (for want of space) is tried again after
    /// the next commit, and readers treat it as the unsealed last segment until then.
    fn seal(&mut self) {
        let (files, config) = (&self.files, &self.config);
        self.unsealed.retain(|seal| seal.write(files, config).is_err());
    }

    /// Drops what is staged.
    ///
    /// # Errors
    ///
    /// [`BoardError::Io`] if the files could not be cut; the writer stops then.
    pub fn rollback(&mut self) -> Result<(), BoardError> {
        self.check_running()?;
        self.stopped = true;
        self.tail = None;
        self.filled.clear();
        self.names_unsynced = false;
        self.staged = self.committed.clone();
        self.rule.rollback();
        self.tail = repair(&self.files, &self.config, &self.committed)?;
        self.stopped = false;
        Ok(())
    }

    /// After a failed write the board goes back to the last commit; after a failed sync nobody knows what is on disk, and
    /// trying again would report success for pages that the system has given up.
    fn settle<T>(&mut self, result: Result<T, Failure>) -> Result<T, BoardError> {
        match result {
            Ok(value) => Ok(value),
            Err(Failure::Write(error)) => {
                // If this fails too the writer stops, but the first error is the one to report.
                let _ = self.rollback();
                Err(error)
            }
            Err(Failure::Unknown(error)) => {
                self.stopped = true;
                Err(error)
            }
        }
    }

    fn check_running(&self) -> Result<(), BoardError> {
        if self.stopped {
            return Err(BoardError::Stopped { path: self.files.root().into() });
        }
        Ok(())
    }

    /// Forgets the messages before `index`, rounded down to whole sealed segments, and returns the index of the first message
    /// that is left. The root stays what it was: the seals of what is forgotten remain. Boards that are open
    /// elsewhere keep what they have mapped until they refresh.
    ///
    /// # Errors
    ///
    /// [`BoardError::Io`]. The messages are then forgotten or not; files that are left over are removed next time.
    pub fn forget(&mut self, index: u64) -> Result<u64, BoardError> {
        self.check_running()?;
        let capacity = u64::from(self.config.segment_capacity);
        let sealed = self.unsealed.iter().map(|seal| seal.number).min().unwrap_or(u64::MAX);
        let full = self.committed.count / capacity;
        let wanted = (index / capacity).min(full).min(sealed);
        let forgotten = retention::read(&self.files, &self.config)?;
        if wanted > forgotten {
            retention::write(&self.files, &self.config, wanted)?;
        }
        let open_from = open_from(&self.files, &self.config, &self.rule, wanted.max(forgotten))?;
        retention::remove_forgotten(&self.files, wanted.max(forgotten), open_from)?;
        Ok(wanted.max(forgotten) * capacity)
    }

    /// The newest head, as the head file has it.
    pub(crate) fn record(&self) -> HeadRecord {
        let root = self.committed.full.root_with(&self.committed.tail);
        HeadRecord { sequence: self.sequence, count: self.committed.count, root }
    }

    /// The board's parameters and sizes.
    pub fn config(&self) -> &BoardConfig {
        &self.config
    }

    /// The number of messages on the board, without those that are staged.
    pub fn len(&self) -> u64 {
        self.committed.count
    }

    /// Whether there is no message on the board.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of messages that are staged.
    pub fn staged(&self) -> u64 {
        self.staged.count - self.committed.count
    }

    /// The head, which identifies the committed contents.
    pub fn head(&self) -> Head {
        Head {
            board: self.config.id,
            count: self.committed.count,
            root: self.committed.full.root_with(&self.committed.tail),
            parameters: self.config.parameters,
        }
    }
}

impl Board {
    /// Takes in what `writer` has committed: as [`Board::refresh`], for the writer's own process, without a wait for
    /// the disk.
    ///
    /// # Errors
    ///
    /// As for [`Board::refresh`].
    pub fn follow(&mut self, writer: &BoardWriter) -> Result<u64, BoardError> {
        let mut next = self.clone();
        next.advance(writer.record())?;
        *self = next;
        Ok(self.len())
    }
}

/// A failure, by its consequence for the writer.
#[derive(Debug)]
enum Failure {
    /// A write was refused: cutting the files undoes it.
    Write(BoardError),
    /// A sync failed: what is on disk is unknown.
    Unknown(BoardError),
}

impl From<BoardError> for Failure {
    fn from(error: BoardError) -> Self {
        Self::Write(error)
    }
}

/// The first of the segments before `forgotten` whose clues may be of open periods; `forgotten` if there is none.
fn open_from(files: &Files, config: &BoardConfig, rule: &Rule, forgotten: u64) -> Result<u64, BoardError> {
    let mut indices = files.list_segments()?;
    indices.retain(|(number, part, _)| *part == Part::Index && *number < forgotten);
    indices.sort_unstable_by_key(|(number, ..)| *number);
    for (number, _, path) in indices {
        let last = last_period(config, &path).map_err(BoardError::io("read", &path))?;
        if last.is_some_and(|last| !rule.is_long_closed(last)) {
            return Ok(number);
        }
    }
    Ok(forgotten)
}

/// The period of the last message of a full segment; none if there is less of its index.
fn last_period(config: &BoardConfig, path: &Path) -> io::Result<Option<Period>> {
    let mut file = File::open(path)?;
    let row_bytes = row_bytes(config);
    file.seek(SeekFrom::Start((u64::from(config.segment_capacity) - 1) * row_bytes))?;
    let mut row = Vec::new();
    file.take(row_bytes).read_to_end(&mut row)?;
    Ok((row.len() as u64 == row_bytes).then(|| Rows::new(config, &row).get(0).period))
}

/// Cuts everything behind `committed`, and opens the last segment if it is not full.
fn repair(files: &Files, config: &BoardConfig, committed: &State) -> Result<Option<Tail>, BoardError> {
    let (tail, messages) = config.locate(committed.count);
    let found = files.list_segments()?;
    // A seal is written after the commit that it belongs to. If one is ahead of the head, then the head is an old one,
    // from a backup perhaps, and cutting would destroy what was committed.
    if let Some((_, _, path)) = found.iter().find(|(number, part, _)| *part == Part::Seal && *number >= tail)
    {
        return Err(BoardError::SealBeyondHead { path: path.clone(), messages: committed.count });
    }
    for (number, part, path) in found {
        if part == Part::SealDraft || number > tail || (number == tail && messages == 0) {
            fs::remove_file(&path).map_err(BoardError::io("remove", &path))?;
        }
    }
    if messages == 0 {
        return Ok(None);
    }
    Tail::open(files, config, tail, messages, committed.tail_payload_bytes).map(Some)
}

#[cfg(test)]
mod tests;
