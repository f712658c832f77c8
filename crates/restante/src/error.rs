//! Why a command failed, and the exit code that says so to scripts.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use restante_board::BoardError;
use restante_client::{LetterError, RelayError, relay::Stopped};
use restante_dpf::DpfError;
use restante_omr::OmrError;
use restante_pir::PirError;
use restante_tables::TableError;
use restante_wire::WireError;
use thiserror::Error;

/// A failure; its variant decides the exit code.
#[derive(Debug, Error)]
pub enum CliError {
    /// The job ran, and its result is not what it should be.
    #[error("{0}")]
    Job(String),
    /// Arguments that do not fit together.
    #[error("{0}")]
    Usage(String),
    /// A file was read and refused.
    #[error("{}: {reason}", .path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// Input that is not in one file, or whose error names the file already.
    #[error("{0}")]
    Refused(String),
    /// A relay refused a request, or its answer was refused: another time it may be otherwise.
    #[error("{0}")]
    Relay(String),
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
    /// Whoever read standard output has closed it, as `head` does: no failure of ours.
    #[error("standard output was closed")]
    OutputClosed,
    /// Messages were received, are kept, and could not be shown.
    #[error(
        "{count} messages could not be shown{}: they are kept beside the state, and the next run shows them",
        .reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
    )]
    Unshown {
        /// How many.
        count: usize,
        /// The operating system's reason.
        reason: Option<String>,
    },
    /// The operating system refused something that has no path, or whose error names it already.
    #[error("{0}")]
    Environment(String),
}

impl CliError {
    /// 1: the job's result is bad; 2: usage (as `clap` has it); 3: an input was refused; 4: the system refused; 5: all was done, and
    /// messages are left to be shown.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::OutputClosed => 0,
            Self::Job(_) => 1,
            Self::Usage(_) => 2,
            Self::Input { .. } | Self::Refused(_) | Self::Relay(_) => 3,
            Self::System { .. } | Self::Environment(_) => 4,
            Self::Unshown { .. } => 5,
        })
    }

    /// The causes behind the error, where they are known apart from it.
    fn causes(&self) -> Vec<String> {
        match self {
            Self::Input { reason, .. } | Self::Unshown { reason: Some(reason), .. } => vec![reason.clone()],
            Self::System { reason, .. } => vec![reason.to_string()],
            _ => Vec::new(),
        }
    }

    /// The line that says on standard error why a command failed, as [`failure_line`] has it.
    pub fn line(&self, json: bool) -> String {
        failure_line(json, &self.to_string(), &self.causes())
    }

    /// Whether the same may succeed later, though nobody changes what was asked for.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Relay(_) | Self::System { .. } | Self::Environment(_))
    }

    /// A fault of a file.
    pub fn input(path: &Path) -> impl FnOnce(&dyn std::fmt::Display) -> Self + '_ {
        move |reason| Self::Input { path: path.into(), reason: reason.to_string() }
    }

    /// The operating system's error about a file.
    pub fn system(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |reason| Self::System { action, path, reason }
    }
}

/// Why a command failed, as a line: for a person, or one JSON object with `error` and `causes`.
pub fn failure_line(json: bool, error: &str, causes: &[String]) -> String {
    if json {
        serde_json::json!({ "error": error, "causes": causes }).to_string()
    } else {
        format!("restante: {error}")
    }
}

impl From<BoardError> for CliError {
    fn from(error: BoardError) -> Self {
        match error {
            BoardError::Io { .. } | BoardError::Locked { .. } => Self::Environment(error.to_string()),
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<LetterError> for CliError {
    fn from(error: LetterError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<RelayError> for CliError {
    fn from(error: RelayError) -> Self {
        match &error {
            RelayError::Unavailable { .. } => Self::Environment(error.to_string()),
            RelayError::Configuration(_) => Self::Refused(error.to_string()),
            _ if error.is_misbehaviour() => Self::Job(error.to_string()),
            _ => Self::Relay(error.to_string()),
        }
    }
}

impl From<Stopped<CliError>> for CliError {
    fn from(stopped: Stopped<CliError>) -> Self {
        match stopped {
            Stopped::Relay(error) => error.into(),
            Stopped::Host(error) => error,
        }
    }
}

impl From<OmrError> for CliError {
    fn from(error: OmrError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<WireError> for CliError {
    fn from(error: WireError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<DpfError> for CliError {
    fn from(error: DpfError) -> Self {
        Self::Refused(error.to_string())
    }
}

#[cfg(feature = "serve")]
impl From<restante_server::ServerError> for CliError {
    fn from(error: restante_server::ServerError) -> Self {
        use restante_server::ServerError;
        match error {
            ServerError::Config(reason) => Self::Usage(reason),
            ServerError::Board(error) => error.into(),
            ServerError::Format { .. } | ServerError::Omr(_) | ServerError::MirrorSettings { .. } => {
                Self::Refused(error.to_string())
            }
            error => Self::Environment(error.to_string()),
        }
    }
}

impl From<PirError> for CliError {
    fn from(error: PirError) -> Self {
        match error {
            PirError::Io { .. } => Self::Environment(error.to_string()),
            PirError::Board(error) => error.into(),
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<TableError> for CliError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Io { .. } => Self::Environment(error.to_string()),
            TableError::Pir(error) => error.into(),
            TableError::Board(error) => error.into(),
            _ => Self::Refused(error.to_string()),
        }
    }
}
