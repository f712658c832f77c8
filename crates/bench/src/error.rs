use std::{io, path::PathBuf};

use restante_bfv::BfvError;
use restante_dpf::DpfError;
use restante_letter::LetterError;
use restante_omr::OmrError;
use restante_pir::PirError;
use thiserror::Error;

/// Why a measurement was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The work was done, and its result is wrong.
    #[error("{0}")]
    Wrong(String),
    /// Sizes that do not fit together.
    #[error("{0}")]
    Sizes(String),
    /// The operating system refused something.
    #[error("cannot {action} {}: {reason}", .path.display())]
    System {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// The operating system refused something that has no path, or the relay that is measured refused a request.
    #[error("{0}")]
    Environment(String),
    /// Detection.
    #[error(transparent)]
    Omr(#[from] OmrError),
    /// Fetch or search.
    #[error(transparent)]
    Pir(#[from] PirError),
    /// Point functions.
    #[error(transparent)]
    Dpf(#[from] DpfError),
    /// A ring without transforms.
    #[error(transparent)]
    Bfv(#[from] BfvError),
    /// Messages.
    #[error(transparent)]
    Letter(#[from] LetterError),
    /// A relay that does not start.
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Server(#[from] restante_server::ServerError),
}

impl BenchError {
    pub(crate) fn system(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |reason| Self::System { action, path, reason }
    }
}
