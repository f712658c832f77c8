//! A copy of a board while its writer goes on.

use std::fs;
use std::path::Path;

use crate::files::{Files, Part, replace_durably, sync_directory, write_durably};
use crate::{Board, BoardError, head, retention};

impl Board {
    /// Copies the snapshot into a new directory. The writer and other readers are not disturbed.
    ///
    /// # Errors
    ///
    /// [`BoardError::Io`]; what is there then is not a board.
    pub fn copy_to(&self, path: impl AsRef<Path>) -> Result<(), BoardError> {
        let path = path.as_ref();
        let to = Files::new(path);
        for directory in [path.to_path_buf(), to.segments()] {
            fs::create_dir(&directory).map_err(BoardError::io("create", &directory))?;
        }
        for segment in &self.segments {
            let number = segment.number();
            if number >= self.forgotten {
                for (part, bytes) in segment.parts() {
                    write_durably(&to.segment(number, part), bytes)?;
                }
            } else if let Some(index) = segment.kept_index()? {
                write_durably(&to.segment(number, Part::Index), index.bytes())?;
            }
            if segment.is_sealed() {
                let seal = segment.path(Part::Seal);
                let bytes = fs::read(&seal).map_err(BoardError::io("read", &seal))?;
                write_durably(&to.segment(number, Part::Seal), &bytes)?;
            }
        }
        if self.forgotten > 0 {
            retention::write(&to, &self.config, self.forgotten)?;
        }
        write_durably(&to.head(), &head::head_file(self.head, self.config.parameters))?;
        sync_directory(&to.segments())?;
        sync_directory(path)?;
        // Last, as when a board is created: from now on it is one.
        replace_durably(&to.manifest(), &to.manifest_draft(), &self.config.to_manifest())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_wire::ParameterId;
    use restante_wire::binding::BoardId;

    use super::*;
    use crate::{BoardConfig, BoardWriter};

    #[test]
    fn a_copy_is_the_board_of_its_moment() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("board");
        let config = BoardConfig {
            segment_capacity: 4,
            tail_bytes: 0,
            ..BoardConfig::new(BoardId([1; 16]), ParameterId::NONE, 4)
        };
        let mut board = Board::create(&path, &config).unwrap();
        let mut writer = BoardWriter::open(&path).unwrap();
        for (count, forget) in [(0, 0), (3, 0), (4, 0), (11, 0), (14, 8)] {
            while writer.len() < count {
                writer.append(&(writer.len() as u32).to_le_bytes(), b"payload").unwrap();
                writer.commit().unwrap();
            }
            writer.forget(forget).unwrap();
            board.follow(&writer).unwrap();
            writer.append(b"late", b"not in the copy").unwrap();
            let to = scratch.path().join(format!("copy-{count}"));
            board.copy_to(&to).unwrap();
            writer.rollback().unwrap();
            let copy = Board::open(&to).unwrap();
            copy.verify().unwrap();
            assert_eq!(copy.head(), board.head());
            assert_eq!(copy.retained_from(), forget);
            let mut more = BoardWriter::open(&to).unwrap();
            assert_eq!(more.append(b"more", b"").unwrap(), count);
            more.commit().unwrap();
        }
    }
}
