//! Records of a window, in memory up to a limit and in a file without a name beyond it.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::PirError;

/// Bytes that are only ever appended. The last [`limit`](Self::new) of them are in memory at most.
#[derive(Debug)]
pub(super) struct RecordStore {
    limit: usize,
    folder: PathBuf,
    file: Option<File>,
    /// How many bytes are in the file; the rest is in `tail`.
    filed: u64,
    tail: Vec<u8>,
}

impl RecordStore {
    /// An empty store that keeps up to `limit` bytes in memory and puts others into a file in `folder`, which goes with the store.
    pub(super) fn new(limit: usize, folder: PathBuf) -> Self {
        Self { limit, folder, file: None, filed: 0, tail: Vec::new() }
    }

    /// The number of bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.filed + self.tail.len() as u64
    }

    /// Appends bytes and returns where they start. After an error nothing more can be relied on.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<u64, PirError> {
        if !self.tail.is_empty() && self.tail.len() + bytes.len() > self.limit {
            let file = match &mut self.file {
                Some(file) => file,
                None => {
                    let made = tempfile::tempfile_in(&self.folder);
                    self.file.insert(made.map_err(PirError::io("make a file in", &self.folder))?)
                }
            };
            file.write_all(&self.tail).map_err(PirError::io("write records to a file in", &self.folder))?;
            self.filed += self.tail.len() as u64;
            self.tail.clear();
        }
        let start = self.bytes();
        self.tail.extend_from_slice(bytes);
        Ok(start)
    }

    /// Fills `out` from `offset` on.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), PirError> {
        let in_file = self.filed.saturating_sub(offset).min(out.len() as u64) as usize;
        let (from_file, from_tail) = out.split_at_mut(in_file);
        let failed = PirError::io("read records from a file in", &self.folder);
        let end = || io::Error::from(io::ErrorKind::UnexpectedEof);
        if !from_tail.is_empty() {
            let start = (offset + in_file as u64 - self.filed) as usize;
            match self.tail.get(start..start + from_tail.len()) {
                Some(bytes) => from_tail.copy_from_slice(bytes),
                None => return Err(failed(end())),
            }
        }
        if from_file.is_empty() {
            return Ok(());
        }
        self.file.as_ref().map_or_else(|| Err(end()), |file| read_at(file, from_file, offset)).map_err(failed)
    }
}

#[cfg(unix)]
fn read_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                out = &mut out[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bytes_come_back_from_memory_and_file(
            pieces in vec(vec(any::<u8>(), 0..64), 0..40), limit in 0usize..400, from: u16, length: u16
        ) {
            let mut store = RecordStore::new(limit, std::env::temp_dir());
            let mut expected = Vec::new();
            for piece in &pieces {
                prop_assert_eq!(store.push(piece).unwrap(), expected.len() as u64);
                expected.extend_from_slice(piece);
                prop_assert!(store.tail.len() <= limit.max(piece.len()));
            }
            prop_assert_eq!(store.bytes(), expected.len() as u64);
            let from = from as usize % (expected.len() + 1);
            let mut out = vec![0; length as usize % (expected.len() - from + 1)];
            store.read(from as u64, &mut out).unwrap();
            prop_assert_eq!(&out[..], &expected[from..from + out.len()]);
            let mut past = vec![0; expected.len() - from + 1];
            prop_assert!(store.read(from as u64, &mut past).is_err());
        }
    }
}
