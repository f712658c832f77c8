//! Files, read with a limit and written whole or not at all.

use std::{
    fs::{File, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use tempfile::Builder;

use crate::error::CliError;

/// The largest file that is read into memory: 4 GiB, more than the digest of the largest range.
const MAX_BYTES: u64 = 1 << 32;

/// A file's contents.
pub fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let file = File::open(path).map_err(CliError::system("open", path))?;
    let length = file.metadata().map_err(CliError::system("inspect", path))?.len();
    if length > MAX_BYTES {
        return Err(CliError::input(path)(&format!("{length} bytes, expected at most {MAX_BYTES}")));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(CliError::system("read", path))?;
    Ok(bytes)
}

/// Whether [`write()`] may replace a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Replace,
    Refuse,
}

/// Writes a file that appears under its name only when it is complete and durable. Readable by its owner alone.
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), CliError> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut file =
        Builder::new().prefix(".restante-").tempfile_in(folder).map_err(CliError::system("write", path))?;
    file.write_all(bytes).map_err(CliError::system("write", path))?;
    file.as_file().sync_all().map_err(CliError::system("write", path))?;
    match existing {
        Existing::Replace => file.persist(path),
        Existing::Refuse => file.persist_noclobber(path),
    }
    .map_err(|error| CliError::system("write", path)(error.error))?;
    // The name is durable once its directory is.
    let folder = File::open(folder).and_then(|folder| folder.sync_all());
    folder.map_err(CliError::system("write", path))
}

/// Takes a file for this process alone, until what is returned is dropped: with the lock on an empty file beside it, `NAME.lock`, as
/// the file itself is replaced whenever it is written.
pub fn lock(path: &Path) -> Result<File, CliError> {
    let path = with_extension(path, "lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(CliError::system("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let reason =
                format!("the state is in use by another process, which has locked {}", path.display());
            Err(CliError::Environment(reason))
        }
        Err(TryLockError::Error(error)) => Err(CliError::system("lock", &path)(error)),
    }
}

/// A path with an extension appended to its last part, whatever dots that has.
pub fn with_extension(name: &Path, extension: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}
