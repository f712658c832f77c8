//! The names of a board's files, and how files and directories are made durable.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::BoardError;

/// The files of one board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    root: PathBuf,
}

/// The files of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Clues,
    Payloads,
    Index,
    Seal,
    /// A seal that is being written.
    SealDraft,
}

impl Part {
    const ALL: [Self; 5] = [Self::Clues, Self::Payloads, Self::Index, Self::Seal, Self::SealDraft];

    fn extension(self) -> &'static str {
        match self {
            Self::Clues => "clues",
            Self::Payloads => "payloads",
            Self::Index => "index",
            Self::Seal => "seal",
            Self::SealDraft => "seal.tmp",
        }
    }
}

impl Files {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.root.join("manifest")
    }

    pub(crate) fn manifest_draft(&self) -> PathBuf {
        self.root.join("manifest.tmp")
    }

    pub(crate) fn head(&self) -> PathBuf {
        self.root.join("head")
    }

    pub(crate) fn retention(&self) -> PathBuf {
        self.root.join("retention")
    }

    pub(crate) fn retention_draft(&self) -> PathBuf {
        self.root.join("retention.tmp")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Takes the writer's lock, which lasts as long as the file is open.
    pub(crate) fn take_lock(&self) -> Result<File, BoardError> {
        let path = self.lock();
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(BoardError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(BoardError::Locked { path }),
            Err(TryLockError::Error(error)) => Err(BoardError::io("lock", path)(error)),
        }
    }

    pub(crate) fn segments(&self) -> PathBuf {
        self.root.join("segments")
    }

    pub(crate) fn segment(&self, number: u64, part: Part) -> PathBuf {
        self.root.join("segments").join(format!("{number:010}.{}", part.extension()))
    }

    /// The files in the directory of segments whose names are those of this format. Others are none of ours.
    pub(crate) fn list_segments(&self) -> Result<Vec<(u64, Part, PathBuf)>, BoardError> {
        let directory = self.segments();
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).map_err(BoardError::io("list", &directory))? {
            let entry = entry.map_err(BoardError::io("list", &directory))?;
            let name = entry.file_name();
            let Some((number, extension)) = name.to_str().and_then(|name| name.split_once('.')) else {
                continue;
            };
            let Some(part) = Part::ALL.into_iter().find(|part| part.extension() == extension) else {
                continue;
            };
            let Ok(parsed) = number.parse::<u64>() else { continue };
            if format!("{parsed:010}") == number {
                found.push((parsed, part, entry.path()));
            }
        }
        Ok(found)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), BoardError> {
    // Elsewhere a directory cannot be opened as a file; the names are durable with the files there.
    if cfg!(unix) {
        let directory = File::open(path).map_err(BoardError::io("open", path))?;
        directory.sync_all().map_err(BoardError::io("sync", path))?;
    }
    Ok(())
}

/// Writes a whole new file and makes it durable; its name is durable once its directory is.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), BoardError> {
    let mut file = File::create(path).map_err(BoardError::io("create", path))?;
    file.write_all(bytes).map_err(BoardError::io("write", path))?;
    file.sync_all().map_err(BoardError::io("sync", path))
}

/// Makes `path` appear with all of `bytes` or not at all, by way of `draft` in the same directory.
pub(crate) fn replace_durably(path: &Path, draft: &Path, bytes: &[u8]) -> Result<(), BoardError> {
    let written = write_durably(draft, bytes)
        .and_then(|()| fs::rename(draft, path).map_err(BoardError::io("name", path)));
    if let Err(error) = written {
        // The draft is of no use, and on a full disk its space is.
        let _ = fs::remove_file(draft);
        return Err(error);
    }
    sync_directory(path.parent().unwrap_or(path))
}
