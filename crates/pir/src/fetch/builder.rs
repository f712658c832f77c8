//! Making epochs.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use restante_board::Board;
use restante_wire::merkle::Frontier;
use tempfile::TempDir;

use crate::PirError;
use crate::fetch::Epoch;
use crate::fetch::info::{
    Content, EpochInfo, MAX_RECORDS, RecordHasher, check_record_bytes, info_path, records_path, table_path,
};

/// Writes an epoch. It appears under its name when it is sealed, whole and durable; before that, and if the builder is
/// dropped, there is nothing.
#[derive(Debug)]
pub struct EpochBuilder {
    path: PathBuf,
    draft: TempDir,
    records: BufWriter<File>,
    table: BufWriter<File>,
    hasher: RecordHasher,
    info: EpochInfo,
    /// A record being put together.
    record: Vec<u8>,
}

/// The part of a board's messages that becomes a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The clue.
    Clue,
    /// The payload.
    Payload,
    /// The clue and behind it the payload: what a recipient needs to open a message.
    Message,
}

impl EpochBuilder {
    /// Starts an epoch of records of `record_bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`], [`PirError::Exists`], [`PirError::Io`].
    pub fn create(path: impl AsRef<Path>, record_bytes: usize, content: Content) -> Result<Self, PirError> {
        let record_bytes = check_record_bytes(record_bytes)?;
        let info = EpochInfo { record_bytes, content, records: 0, frontier: Frontier::default() };
        Self::start(path.as_ref(), info, |_| Ok(()))
    }

    /// Starts an epoch with all records of `old`, to append more.
    ///
    /// The records of `old` are not hashed again: the roots of complete subtrees in its header are enough.
    /// Its files are copied, which is free of charge on file systems that share blocks between copies (Btrfs,
    /// XFS), and costs writing them elsewhere.
    ///
    /// # Errors
    ///
    /// As for [`EpochBuilder::create`], and [`PirError::Length`] if the table of hashes of `old` has the wrong length.
    pub fn extend(path: impl AsRef<Path>, old: &Epoch) -> Result<Self, PirError> {
        Self::start(path.as_ref(), old.info().clone(), |draft| {
            let files = [
                (table_path(old.path()), table_path(draft), old.info().table_bytes()),
                (records_path(old.path()), records_path(draft), old.info().record_file_bytes()),
            ];
            for (from, to, expected) in files {
                let found = fs::copy(&from, &to).map_err(PirError::io("copy", &from))?;
                if found != expected {
                    return Err(PirError::Length { path: from, expected, found });
                }
            }
            Ok(())
        })
    }

    fn start(
        path: &Path,
        info: EpochInfo,
        fill: impl FnOnce(&Path) -> Result<(), PirError>,
    ) -> Result<Self, PirError> {
        refuse_existing(path)?;
        let folder = folder_of(path);
        let mut options = tempfile::Builder::new();
        options.prefix(".restante-epoch-");
        // An epoch is public; what keeps others out is the directory that it is put in.
        #[cfg(unix)]
        options.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let draft = options.tempdir_in(folder).map_err(PirError::io("make a directory in", folder))?;
        fill(draft.path())?;
        let open = |path: &Path| -> Result<_, PirError> {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Ok(BufWriter::with_capacity(1 << 18, file.map_err(PirError::io("create", path))?))
        };
        let records = open(&records_path(draft.path()))?;
        let table = open(&table_path(draft.path()))?;
        Ok(Self {
            path: path.into(),
            draft,
            records,
            table,
            hasher: RecordHasher::new(),
            info,
            record: Vec::new(),
        })
    }

    /// The number of records so far.
    pub fn len(&self) -> u64 {
        self.info.records
    }

    /// Whether there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.info.records == 0
    }

    /// Appends a record. In an epoch of [`Content::Raw`] it has exactly the record's size; in one of [`Content::Padded`] it
    /// is a payload, shorter by at least four bytes.
    ///
    /// # Errors
    ///
    /// [`PirError::Source`] with the record's number, [`PirError::Size`] for too many records, [`PirError::Io`]. The epoch
    /// cannot be continued after an error of the system.
    pub fn push(&mut self, content: &[u8]) -> Result<(), PirError> {
        let (size, found) = (self.info.record_bytes(), content.len());
        match self.info.content {
            Content::Raw if found == size => self.write(content),
            Content::Raw => Err(self.misfit(format!("{found} bytes, expected {size}"))),
            Content::Padded if found + Content::LENGTH_BYTES <= size => {
                let mut record = std::mem::take(&mut self.record);
                record.clear();
                record.extend_from_slice(&(found as u32).to_le_bytes());
                record.extend_from_slice(content);
                record.resize(size, 0);
                let written = self.write(&record);
                self.record = record;
                written
            }
            Content::Padded => {
                let fits = size - Content::LENGTH_BYTES;
                Err(self.misfit(format!("a payload of {found} bytes, expected at most {fits}")))
            }
        }
    }

    /// Appends a part of every message of a board in `range`.
    ///
    /// # Errors
    ///
    /// As for [`EpochBuilder::push`], and [`PirError::Board`] for a message that cannot be read or does not match its hash.
    pub fn push_board(&mut self, board: &Board, part: Part, range: Range<u64>) -> Result<(), PirError> {
        for index in range {
            match part {
                Part::Clue => self.push(board.message(index)?.clue)?,
                Part::Payload => self.push(board.payload(index)?)?,
                Part::Message => {
                    let message = board.message(index)?;
                    self.push(&[message.clue, message.payload].concat())?;
                }
            }
        }
        Ok(())
    }

    /// Appends the records of a file that holds nothing else, each of exactly the record's size.
    ///
    /// # Errors
    ///
    /// As for [`EpochBuilder::push`]; [`PirError::Source`] for a last record that is cut off.
    pub fn push_file(&mut self, path: impl AsRef<Path>) -> Result<(), PirError> {
        let path = path.as_ref();
        if self.info.content != Content::Raw {
            return Err(
                self.misfit("a record of a file, expected a payload: the epoch holds padded ones".into())
            );
        }
        let file = File::open(path).map_err(PirError::io("open", path))?;
        let mut file = BufReader::with_capacity(1 << 18, file);
        let size = self.info.record_bytes();
        let mut record = Vec::with_capacity(size);
        loop {
            record.clear();
            file.by_ref().take(size as u64).read_to_end(&mut record).map_err(PirError::io("read", path))?;
            match record.len() {
                0 => return Ok(()),
                found if found < size => {
                    let name = path.display();
                    return Err(
                        self.misfit(format!("{name} ends after {found} bytes of it, expected {size}"))
                    );
                }
                _ => self.write(&record)?,
            }
        }
    }

    /// Makes the epoch durable and gives it its name. There must be at least one record.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`], [`PirError::Exists`], [`PirError::Io`].
    pub fn seal(self) -> Result<Epoch, PirError> {
        if self.is_empty() {
            return Err(too_many_or_none(0));
        }
        let Self { path, draft, records, table, info, .. } = self;
        for (writer, name) in [(records, records_path(draft.path())), (table, table_path(draft.path()))] {
            let file =
                writer.into_inner().map_err(|error| PirError::io("write", &name)(error.into_error()))?;
            file.sync_all().map_err(PirError::io("sync", &name))?;
        }
        let name = info_path(draft.path());
        let mut file = File::create(&name).map_err(PirError::io("create", &name))?;
        file.write_all(&info.to_file()).map_err(PirError::io("write", &name))?;
        file.sync_all().map_err(PirError::io("sync", &name))?;
        sync_directory(draft.path())?;
        refuse_existing(&path)?;
        // Renaming a directory onto one that is not empty fails, so that nothing is replaced even now.
        fs::rename(draft.path(), &path).map_err(PirError::io("name", &path))?;
        // There is nothing left to remove.
        let _ = draft.keep();
        sync_directory(folder_of(&path))?;
        Epoch::open(path)
    }

    fn write(&mut self, record: &[u8]) -> Result<(), PirError> {
        if self.info.records >= MAX_RECORDS {
            return Err(too_many_or_none(self.info.records + 1));
        }
        let hash = self.hasher.hash(record);
        let failed = |error| PirError::io("write", self.draft.path())(error);
        self.records.write_all(record).and_then(|()| self.table.write_all(&hash.0)).map_err(failed)?;
        self.info.frontier.push(0, hash);
        self.info.records += 1;
        Ok(())
    }

    fn misfit(&self, reason: String) -> PirError {
        PirError::Source { record: self.info.records, reason }
    }
}

fn too_many_or_none(found: u64) -> PirError {
    PirError::Size { what: "number of records", found, expected: format!("1 to {MAX_RECORDS}") }
}

fn refuse_existing(path: &Path) -> Result<(), PirError> {
    if path.try_exists().map_err(PirError::io("inspect", path))? {
        Err(PirError::Exists { path: path.into() })
    } else {
        Ok(())
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Makes the names in a directory durable.
fn sync_directory(path: &Path) -> Result<(), PirError> {
    // Elsewhere a directory cannot be opened as a file; the names are durable with the files there.
    if cfg!(unix) {
        let directory = File::open(path).map_err(PirError::io("open", path))?;
        directory.sync_all().map_err(PirError::io("sync", path))?;
    }
    Ok(())
}
