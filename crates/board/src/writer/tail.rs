//! The segment that takes the next message, open for writing.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::thread;

use crate::files::{Files, Part};
use crate::segment::row_bytes;
use crate::{BoardConfig, BoardError};

/// Bytes that are collected before they are written: few system calls, little memory.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Tail {
    pub(super) clues: Appender,
    pub(super) payloads: Appender,
    pub(super) index: Appender,
}

impl Tail {
    /// Creates the files of a segment. There are none of that name, or something else is writing here.
    pub(super) fn create(files: &Files, number: u64) -> Result<Self, BoardError> {
        let create = |part| Appender::create(files.segment(number, part));
        Ok(Self {
            clues: create(Part::Clues)?,
            payloads: create(Part::Payloads)?,
            index: create(Part::Index)?,
        })
    }

    /// Opens the files of a segment and cuts them to the `messages` that are committed.
    pub(super) fn open(
        files: &Files,
        config: &BoardConfig,
        number: u64,
        messages: u64,
        payload_bytes: u64,
    ) -> Result<Self, BoardError> {
        let open = |part, committed| Appender::open(files.segment(number, part), committed);
        Ok(Self {
            clues: open(Part::Clues, messages * u64::from(config.clue_bytes))?,
            payloads: open(Part::Payloads, payload_bytes)?,
            index: open(Part::Index, messages * row_bytes(config))?,
        })
    }

    pub(super) fn write(&mut self, clue: &[u8], payload: &[u8], row: &[u8]) -> Result<(), BoardError> {
        self.clues.write(clue)?;
        self.payloads.write(payload)?;
        self.index.write(row)
    }

    /// Hands everything collected to the operating system.
    pub(super) fn flush(&mut self) -> Result<(), BoardError> {
        self.clues.flush()?;
        self.payloads.flush()?;
        self.index.flush()
    }

    /// Waits until everything flushed is on disk. The three files at once: the file system then needs to wait for the disk
    /// once, not three times.
    pub(super) fn sync(&self) -> Result<(), BoardError> {
        thread::scope(|scope| {
            let others = [&self.clues, &self.payloads]
                .map(|file| thread::Builder::new().spawn_scoped(scope, || file.sync()).map_err(|_| file));
            let mut result = self.index.sync();
            for other in others {
                let synced = match other {
                    Ok(thread) => match thread.join() {
                        Ok(synced) => synced,
                        Err(panic) => std::panic::resume_unwind(panic),
                    },
                    // No thread to be had.
                    Err(file) => file.sync(),
                };
                result = result.and(synced);
            }
            result
        })
    }
}

/// A file that grows.
#[derive(Debug)]
pub(super) struct Appender {
    pub(super) file: File,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl Appender {
    fn create(path: PathBuf) -> Result<Self, BoardError> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        Ok(Self { file: file.map_err(BoardError::io("create", &path))?, path, buffer: Vec::new() })
    }

    fn open(path: PathBuf, committed: u64) -> Result<Self, BoardError> {
        let mut file = OpenOptions::new().write(true).open(&path).map_err(BoardError::io("open", &path))?;
        let found = file.metadata().map_err(BoardError::io("inspect", &path))?.len();
        if found < committed {
            return Err(BoardError::Length { path, expected: committed, or_more: true, found });
        }
        if found > committed {
            file.set_len(committed).map_err(BoardError::io("cut", &path))?;
        }
        file.seek(SeekFrom::Start(committed)).map_err(BoardError::io("write", &path))?;
        Ok(Self { file, path, buffer: Vec::new() })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BoardError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), BoardError> {
        self.file.write_all(&self.buffer).map_err(BoardError::io("write", &self.path))?;
        self.buffer.clear();
        Ok(())
    }

    fn sync(&self) -> Result<(), BoardError> {
        self.file.sync_data().map_err(BoardError::io("sync", &self.path))
    }
}
