//! Files: read with a limit, written whole or not at all, and never one for another.
//!
//! [`Outputs`] is how a command writes what a person named on its command line, [`Locked`] how a file is read, changed and written
//! again, [`Lines`] and [`read_text`] how text is read.

mod locked;
mod outputs;
mod text;

use std::{
    fs::{self, File, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use tempfile::Builder;

pub use locked::Locked;
pub use outputs::{Kept, Output, Outputs, Work};
pub use text::{Lines, read_text};

use crate::error::CliError;

/// The largest file that is read into memory: 4 GiB, more than the digest of the largest range.
const MAX_BYTES: u64 = 1 << 32;

/// A file's contents.
pub fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    read_at_most(path, MAX_BYTES)
}

/// A file's contents, which have a limit. A pipe, whose length nobody knows before, is held to it as well.
fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>, CliError> {
    let file = File::open(path).map_err(CliError::system("open", path))?;
    let length = file.metadata().map_err(CliError::system("inspect", path))?.len();
    let too_long = |found: &str| CliError::input(path)(&format!("{found} bytes, expected at most {limit}"));
    if length > limit {
        return Err(too_long(&length.to_string()));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(limit + 1).read_to_end(&mut bytes).map_err(CliError::system("read", path))?;
    if bytes.len() as u64 > limit { Err(too_long("more")) } else { Ok(bytes) }
}

/// Whether [`write()`] may replace a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Replace,
    Refuse,
}

/// Writes a file of the program's own, in a place of its own: a state, something in a temporary directory. What a person named goes
/// through [`Outputs`].
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), CliError> {
    write_with(&resolved(path), existing, |file| file.write_all(bytes))
}

/// Writes a file that is not there, and never over another, nor through a link. One with the same contents will do.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    match write_with(path, Existing::Refuse, |file| file.write_all(bytes)) {
        Err(CliError::System { reason, .. }) if reason.kind() == std::io::ErrorKind::AlreadyExists => {
            let is_file = fs::symlink_metadata(path)
                .is_ok_and(|found| found.is_file() && found.len() == bytes.len() as u64);
            if is_file && read(path)? == bytes {
                return Ok(());
            }
            Err(CliError::input(path)(
                &"it exists with other contents, and is left as it is: move it away, or give another directory",
            ))
        }
        outcome => outcome,
    }
}

/// Writes a file that appears under its name only when it is complete and durable. Readable by its owner alone, from its first byte.
fn write_with(
    path: &Path,
    existing: Existing,
    fill: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), CliError> {
    let folder = folder_of(path);
    let mut file =
        Builder::new().prefix(".restante-").tempfile_in(folder).map_err(CliError::system("write", path))?;
    fill(file.as_file_mut()).map_err(CliError::system("write", path))?;
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

/// Sees to it that only its owner, who must be this user, reads a file that was there already.
pub fn keep_private(file: &File, path: &Path) -> Result<(), CliError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        // Whoever is not the owner may not.
        let done = file.set_permissions(fs::Permissions::from_mode(0o600));
        done.map_err(CliError::system("take from other readers", path))?;
    }
    #[cfg(not(unix))]
    let _ = (file, path);
    Ok(())
}

/// The directory that a path is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The file that a path leads to, through symbolic links, whether it is there or not: where a replacement has to go, lest it replace
/// the link.
fn resolved(path: &Path) -> PathBuf {
    if fs::exists(path).unwrap_or(false) {
        // The link to a pipe (/dev/stdout) leads to no name.
        return fs::canonicalize(path).unwrap_or_else(|_| path.into());
    }
    let mut path = path.to_path_buf();
    // As many links as Linux follows.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => break,
        }
    }
    match (fs::canonicalize(folder_of(&path)), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// The name of a file that belongs to another one, whatever link led to that: its name with an extension appended.
pub fn beside(path: &Path, extension: &str) -> PathBuf {
    with_extension(&resolved(path), extension)
}

/// Takes a file for this process alone, until what is returned is dropped: with the lock on an empty file beside it, `NAME.lock`, as
/// the file itself is replaced whenever it is written.
pub fn lock(path: &Path) -> Result<File, CliError> {
    let (path, file) = lock_file(path)?;
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

fn lock_file(path: &Path) -> Result<(PathBuf, File), CliError> {
    let path = beside(path, "lock");
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path).map_err(CliError::system("open", &path))?;
    Ok((path, file))
}

/// A path with an extension appended to its last part, whatever dots that has.
pub fn with_extension(name: &Path, extension: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn a_limit_is_named_when_it_is_hit_and_no_byte_is_dropped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [7; 10]).unwrap();
        assert_eq!(read_at_most(file.path(), 10).unwrap(), [7; 10]);
        let error = read_at_most(file.path(), 9).unwrap_err().to_string();
        assert!(error.contains("10 bytes, expected at most 9"), "{error}");
        // A pipe says nothing of its length.
        #[cfg(target_os = "linux")]
        for (limit, is_read) in [(10, true), (9, false)] {
            use std::os::fd::AsRawFd;
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(&[7; 10]).unwrap();
            drop(writer);
            let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
            assert_eq!(read_at_most(Path::new(&path), limit).is_ok(), is_read, "{limit}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_path_is_what_it_leads_to() {
        let scratch = tempfile::tempdir().unwrap();
        let place = |name: &str| scratch.path().canonicalize().unwrap().join(name);
        fs::create_dir(place("folder")).unwrap();
        std::os::unix::fs::symlink("folder/new", place("link")).unwrap();
        std::os::unix::fs::symlink("link", place("second")).unwrap();
        std::os::unix::fs::symlink("round", place("round")).unwrap();
        for name in ["folder/new", "link", "second", "folder/../folder/new"] {
            assert_eq!(resolved(&place(name)), place("folder/new"), "{name}");
        }
        resolved(&place("round"));
        // What belongs to a file is beside it, whichever name was given.
        for name in ["folder/new", "link", "second"] {
            assert_eq!(beside(&place(name), "mail"), place("folder/new.mail"), "{name}");
        }
    }
}
