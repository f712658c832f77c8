//! The only unsafe code: read-only memory maps of the committed part of a file.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::BoardError;

/// The first bytes of a file, mapped.
#[derive(Debug)]
pub(crate) struct Map {
    /// `None` for an empty file, which cannot be mapped.
    mmap: Option<Mmap>,
}

impl Map {
    /// Maps the first `len` bytes of the file. It may be longer unless `exact`; a shorter one is an error, because
    /// touching a mapped page behind the end of a file kills the process.
    pub(crate) fn open(path: &Path, len: u64, exact: bool) -> Result<Self, BoardError> {
        let file = File::open(path).map_err(BoardError::io("open", path))?;
        let found = file.metadata().map_err(BoardError::io("inspect", path))?.len();
        if found < len || (exact && found != len) {
            return Err(BoardError::Length { path: path.into(), expected: len, or_more: !exact, found });
        }
        if len == 0 {
            return Ok(Self { mmap: None });
        }
        let len = usize::try_from(len)
            .map_err(|_| BoardError::io("map", path)(std::io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: the mapped bytes do not change and the file does not get shorter than `len` while it is mapped: they are
        // committed, and the writer, of which the lock file admits one, only writes behind the committed length
        // and never cuts below it. The file was long enough just now. That no other program changes the files of
        // a board in use is the condition under which a board may be used at all; docs/format.md states it.
        let mmap = unsafe { MmapOptions::new().len(len).map(&file) };
        Ok(Self { mmap: Some(mmap.map_err(BoardError::io("map", path))?) })
    }

    /// No bytes.
    pub(crate) fn empty() -> Self {
        Self { mmap: None }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.mmap.as_deref().unwrap_or_default()
    }
}
