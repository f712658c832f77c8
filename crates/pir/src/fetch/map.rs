//! Read-only memory maps of an epoch's files.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapOptions};

use crate::PirError;

/// A whole file, mapped.
#[derive(Debug)]
pub(crate) struct Map {
    path: PathBuf,
    mmap: Mmap,
}

impl Map {
    /// Maps a file that must have exactly `len` bytes, at least one.
    pub(crate) fn open(path: &Path, len: u64) -> Result<Self, PirError> {
        let file = File::open(path).map_err(PirError::io("open", path))?;
        let found = file.metadata().map_err(PirError::io("inspect", path))?.len();
        if found != len {
            return Err(PirError::Length { path: path.into(), expected: len, found });
        }
        let too_large = |_| PirError::io("map", path)(std::io::ErrorKind::OutOfMemory.into());
        let bytes = usize::try_from(len).map_err(too_large)?;
        // SAFETY: the mapped bytes do not change and the file does not get shorter while it is mapped: an epoch is sealed,
        // nothing in this crate opens its files for writing once they have their name, and the file had its length just
        // now. That no other program changes the files of an epoch in use is the condition under which an epoch
        // may be used at all; docs/format.md states it.
        let mmap = unsafe { MmapOptions::new().len(bytes).map(&file) };
        Ok(Self { path: path.into(), mmap: mmap.map_err(PirError::io("map", path))? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.mmap
    }
}
