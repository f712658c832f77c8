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
        /// What was being done.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system says.
        reason: io::Error,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the operating system says.
        reason: io::Error,
    },
    /// The data directory is of another version, or holds something else.
    #[error("{} is {found}, expected {expected}", .path.display())]
    Format {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What would have been right.
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
        /// What is wrong.
        reason: String,
    },
    /// The relay that this one mirrors did not answer as it should.
    #[error("the relay at {url}: {reason}")]
    Mirror {
        /// Its address.
        url: String,
        /// What is wrong.
        reason: String,
    },
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
            Self::Registry { reason, .. } => {
                reason.contains("No space left") || reason.contains("os error 28")
            }
            _ => false,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
