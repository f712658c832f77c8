use std::io;
use std::path::PathBuf;

use restante_board::BoardError;
use restante_omr::OmrError;
use restante_pir::PirError;
use thiserror::Error;

/// Why a relay did not start, or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration cannot be used.
    #[error("configuration: {0}")]
    Config(String),
    /// The operating system refused something.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// The data directory is of another version, or holds something else.
    #[error("{} is {found}, expected {expected}", .path.display())]
    Format {
        /// The file that says so.
        path: PathBuf,
        /// The contents that were found.
        found: String,
        /// The contents that would be right.
        expected: String,
    },
    /// The board refused.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// Detection refused.
    #[error(transparent)]
    Omr(#[from] OmrError),
    /// Private fetch refused.
    #[error(transparent)]
    Pir(#[from] PirError),
    /// The registry refused.
    #[error("the registry {}: {reason}", .path.display())]
    Registry {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
        /// Whether there was no room on the disk.
        full: bool,
    },
    /// The relay that this one mirrors did not answer as it should.
    #[error("the relay at {url}: {reason}")]
    Mirror {
        /// Its address.
        url: String,
        /// The fault.
        reason: String,
    },
    /// The settings of a mirror are not those of the relay that it is to follow.
    #[error("[mirror] does not fit the relay at {url}: {reason}")]
    MirrorSettings {
        /// Its address.
        url: String,
        /// The fault.
        reason: String,
    },
    /// Some work panicked, which is a fault of the program.
    #[error("{what} panicked")]
    Panicked {
        /// Which work.
        what: &'static str,
    },
    /// A board that is followed does not keep to the rule for clues.
    #[error("{0}")]
    Rule(String),
    /// The system has no threads, or no random bytes.
    #[error("{0}")]
    Environment(String),
}

impl ServerError {
    /// For `map_err`: names what was being done to which path.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::Io { action, path: path.into(), reason }
    }

    /// Whether there was no room on the disk.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Io { reason, .. } | Self::Board(BoardError::Io { reason, .. }) => is_full(reason),
            Self::Pir(PirError::Io { reason, .. }) => is_full(reason),
            Self::Registry { full, .. } => *full,
            _ => false,
        }
    }
}

/// Whether an error says that a disk, a quota or a file has no more room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_recognised_wherever_it_comes_from() {
        // ENOSPC, EDQUOT, EFBIG.
        for number in [28, 122, 27] {
            let error = || io::Error::from_raw_os_error(number);
            assert!(ServerError::io("write", "file")(error()).is_full());
            let board = BoardError::Io { action: "write", path: "file".into(), reason: error() };
            assert!(ServerError::from(board).is_full());
            let pir = PirError::Io { action: "write", path: "file".into(), reason: error() };
            assert!(ServerError::from(pir).is_full());
        }
        // EIO.
        assert!(!ServerError::io("write", "file")(io::Error::from_raw_os_error(5)).is_full());
    }
}
