//! The data directory, and how files in it appear.
//!
//! ```text
//! DIRECTORY/
//!   format            "restante relay 1"
//!   lock              a running relay holds an exclusive lock on it
//!   clock             the newest time that this relay has known (seconds since 1970, 8 bytes), and 8 bytes of its BLAKE3
//!   identity          the seed of the key that signs heads (32 bytes, secret)
//!   board/            the board (docs/format.md)
//!   registry.redb     ids of messages, registrations, jobs, credentials
//!   credentials/      orders of the operator about credentials, until they are taken over
//!   keys/HASH         detection keys, named by their BLAKE3 hash
//!   uploads/ID        keys that are not complete yet, named by registration
//!   results/ID-JOB    digests of finished jobs
//!   standing/ID       standing digests of a registration, block after block
//!   pertinency/ID-FIRST-END, pertinency/ID-JOB-FIRST-END
//!                     pertinency vectors of a standing order, and of a job that is not done
//!   epochs/FIRST-END  epochs of private fetch
//!   evidence-INDEX.json
//!                     proof that the origin of this mirror has a clue twice
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use restante_wire::relay::{Hex, JobId, RegistrationId};

use crate::ServerError;

const FORMAT: &str = "restante relay 1\n";

/// The data directory of one relay.
#[derive(Debug, Clone)]
pub(crate) struct DataDirectory {
    root: PathBuf,
}

impl DataDirectory {
    /// Makes the directory if there is none, checks its version, and takes its lock.
    pub(crate) fn open(root: &Path) -> Result<(Self, File), ServerError> {
        create_private_folders(root)?;
        warn_of_readers(root);
        let this = Self { root: root.into() };
        let path = root.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(ServerError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let reason = std::io::Error::other("another relay uses this directory");
                return Err(ServerError::io("lock", &path)(reason));
            }
            Err(TryLockError::Error(error)) => return Err(ServerError::io("lock", &path)(error)),
        }
        this.check_format()?;
        for directory in ["credentials", "keys", "uploads", "results", "standing", "pertinency", "epochs"] {
            let path = root.join(directory);
            create_private_folders(&path)?;
        }
        // The registry makes its file itself, for everybody to read.
        let registry = this.registry();
        if !registry.exists() {
            create_private(&registry).map_err(ServerError::io("create", &registry))?;
        }
        sync_directory(root)?;
        Ok((this, lock))
    }

    /// A directory without the file is new if nothing else of a relay is in it. Another version is refused: there is none
    /// yet from which to migrate.
    fn check_format(&self) -> Result<(), ServerError> {
        let path = self.root.join("format");
        match fs::read_to_string(&path) {
            Ok(text) if text == FORMAT => Ok(()),
            Ok(text) => Err(ServerError::Format {
                path,
                found: format!("{:?}", text.chars().take(40).collect::<String>()),
                expected: format!("{FORMAT:?}; this program reads no other version"),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if self.registry().exists() {
                    return Err(ServerError::io("read", &path)(error));
                }
                write_whole(&path, FORMAT.as_bytes())
            }
            Err(error) => Err(ServerError::io("read", &path)(error)),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn identity(&self) -> PathBuf {
        self.root.join("identity")
    }

    pub(crate) fn clock(&self) -> PathBuf {
        self.root.join("clock")
    }

    pub(crate) fn board(&self) -> PathBuf {
        self.root.join("board")
    }

    pub(crate) fn registry(&self) -> PathBuf {
        self.root.join("registry.redb")
    }

    pub(crate) fn key(&self, hash: &Hex<32>) -> PathBuf {
        self.root.join("keys").join(hash.to_string())
    }

    pub(crate) fn upload(&self, registration: &RegistrationId) -> PathBuf {
        self.root.join("uploads").join(registration.to_string())
    }

    pub(crate) fn result(&self, registration: &RegistrationId, job: &JobId) -> PathBuf {
        self.root.join("results").join(format!("{registration}-{job}"))
    }

    pub(crate) fn standing(&self, registration: &RegistrationId) -> PathBuf {
        self.root.join("standing").join(registration.to_string())
    }

    pub(crate) fn pertinency(&self) -> PathBuf {
        self.root.join("pertinency")
    }

    pub(crate) fn epochs(&self) -> PathBuf {
        self.root.join("epochs")
    }

    /// Bytes that are free for this program on the disk of the directory.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.root).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

/// Makes a directory that only its owner may read, and those above it that there are not.
pub(crate) fn create_private_folders(path: &Path) -> Result<(), ServerError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(ServerError::io("create", path))
}

/// Says if others on this machine can read a directory that was made by somebody else, or by an earlier version.
fn warn_of_readers(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            let (path, mode) = (path.display().to_string(), format!("{mode:o}"));
            tracing::warn!(path, mode, "others on this machine can read the data directory: chmod 700");
        }
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), ServerError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(ServerError::io("sync", path))
}

/// A file that appears under its name whole and durably, or not at all. Readable by its owner alone.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    let draft = PathBuf::from(draft);
    let written = create_private(&draft).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    });
    if let Err(error) = written {
        // The draft is of no use, and on a full disk its space is.
        let _ = fs::remove_file(&draft);
        return Err(ServerError::io("write", path)(error));
    }
    sync_directory(folder)
}

/// Creates or empties a file that only its owner may read.
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, ServerError> {
    let file = File::open(path).map_err(ServerError::io("open", path))?;
    // At most one byte more is read than there is: the room does not have to double at the end.
    let length = file.metadata().map_or(0, |file| file.len()).min(limit);
    let mut bytes = Vec::with_capacity(length as usize + 1);
    file.take(limit + 1).read_to_end(&mut bytes).map_err(ServerError::io("read", path))?;
    if bytes.len() as u64 > limit {
        let found = format!("longer than {limit} bytes");
        return Err(ServerError::Format { path: path.into(), found, expected: "a shorter file".into() });
    }
    Ok(bytes)
}

/// Removes a file; that it is not there is as good.
pub(crate) fn remove(path: &Path) -> Result<(), ServerError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ServerError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
