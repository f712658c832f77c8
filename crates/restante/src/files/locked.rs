//! Files that are read, changed and written again.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use super::{Existing, lock, lock_file, read, resolved, with_extension, write};
use crate::{error::CliError, report::note};

/// A file that this process alone reads and writes, until this is dropped.
///
/// It is what one process after the other makes of it only if it is read *under the lock*: what was read before is of no use.
#[derive(Debug)]
pub struct Locked {
    path: PathBuf,
    _lock: File,
}

impl Locked {
    /// Takes a file that another process must not have.
    ///
    /// # Errors
    ///
    /// [`CliError::Environment`] if another one has it.
    pub fn now(path: &Path) -> Result<Self, CliError> {
        Ok(Self { path: resolved(path), _lock: lock(path)? })
    }

    /// Takes a file as soon as no other process has it.
    pub fn wait(path: &Path) -> Result<Self, CliError> {
        Self::wait_saying(path, None)
    }

    /// The same, and says why it takes time, if it does.
    pub fn wait_saying(path: &Path, reason: Option<&str>) -> Result<Self, CliError> {
        let (lock_path, lock) = lock_file(path)?;
        let failed = |error| CliError::system("lock", &lock_path)(error);
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                if let Some(reason) = reason {
                    note!("restante: {reason}");
                }
                lock.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self { path: resolved(path), _lock: lock })
    }

    /// The file's contents; nothing if there is none.
    pub fn read(&self) -> Result<Option<Zeroizing<Vec<u8>>>, CliError> {
        if self.path.try_exists().map_err(CliError::system("inspect", &self.path))? {
            Ok(Some(Zeroizing::new(read(&self.path)?)))
        } else {
            Ok(None)
        }
    }

    /// Replaces the file, whole or not at all.
    pub fn write(&self, bytes: &[u8]) -> Result<(), CliError> {
        write(&self.path, bytes, Existing::Replace)
    }

    /// Adds a line to the file beside this one whose name has `extension` appended. A line that a crash has torn stays alone.
    pub fn append_beside(&self, extension: &str, line: &str) -> Result<(), CliError> {
        use std::io::{Read, Seek, SeekFrom, Write};

        let path = with_extension(&self.path, extension);
        let mut options = File::options();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(CliError::system("open", &path))?;
        super::keep_private(&file, &path)?;
        let append = |file: &mut File| {
            let mut last = [b'\n'];
            if file.metadata()?.len() > 0 {
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
            }
            let start = if last == [b'\n'] { "" } else { "\n" };
            file.write_all(format!("{start}{line}\n").as_bytes())?;
            file.sync_all()?;
            File::open(super::folder_of(&path))?.sync_all()
        };
        append(&mut file).map_err(CliError::system("write", &path))
    }

    /// The text of that file, if there is one.
    pub fn read_beside(&self, extension: &str) -> Result<String, CliError> {
        let path = with_extension(&self.path, extension);
        if fs::exists(&path).map_err(CliError::system("inspect", &path))? {
            super::read_text(&path)
        } else {
            Ok(String::new())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::thread;

    use super::*;

    #[test]
    fn no_change_is_lost_among_many_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("counter");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let file = Locked::wait(&path).unwrap();
                        let mut bytes = file.read().unwrap().unwrap_or_default();
                        bytes.push(0);
                        file.write(&bytes).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read(&path).unwrap().len(), 80);
        let file = Locked::now(&path).unwrap();
        assert!(matches!(Locked::now(&path), Err(CliError::Environment(_))));
        drop(file);
        Locked::now(&path).unwrap();
    }

    /// One file by two names is one file.
    #[test]
    #[cfg(unix)]
    fn a_link_to_a_file_does_not_pass_its_lock() {
        use std::os::unix::fs::{MetadataExt, symlink};

        let scratch = tempfile::tempdir().unwrap();
        let [path, link] = ["file", "link"].map(|name| scratch.path().join(name));
        symlink("file", &link).unwrap();
        let file = Locked::now(&link).unwrap();
        assert!(Locked::now(&path).is_err());
        file.write(b"one").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn lines_are_added_behind_a_torn_one() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("box");
        let file = Locked::now(&path).unwrap();
        assert_eq!(file.read_beside("sent").unwrap(), "");
        file.append_beside("sent", "one").unwrap();
        let record = scratch.path().join("box.sent");
        fs::write(&record, "one\ntw").unwrap();
        file.append_beside("sent", "three").unwrap();
        assert_eq!(file.read_beside("sent").unwrap(), "one\ntw\nthree\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
