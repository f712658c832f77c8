//! `restante bench`: measurements as JSON lines, each beside a limit that is measured in the same run. They are made in `restante-bench`.

use indicatif::ProgressBar;
use restante_bench::{Bench, BenchError, Measurement, detect_compact, detect_stream, dpf, fetch, search};

use crate::{arguments::BenchCommand, error::CliError, report::Report, session::Session};

pub fn run(session: &Session, command: BenchCommand) -> Result<(), CliError> {
    let progress = |what: &'static str, total: u64| -> ProgressBar { session.progress(what, total) };
    let bench = Bench { backend: session.backend, runner: &session.runner, progress: &progress };
    let found = match command {
        BenchCommand::Dpf => dpf::measure(&bench)?,
        BenchCommand::Fetch(arguments) => vec![fetch::measure(&bench, &arguments.into())?],
        BenchCommand::Search(arguments) => vec![search::measure(&bench, &arguments.into())?],
        BenchCommand::DetectStream { messages, recipients, clue } => {
            let sizes = detect_stream::Sizes { messages, recipients: recipients.into(), clue: clue.clue };
            vec![detect_stream::measure(&bench, &sizes)?]
        }
        BenchCommand::DetectCompact { messages, recipients, sizes, insecure } => {
            let sizes = detect_compact::Sizes {
                messages,
                recipients: recipients.into(),
                capacity: sizes.capacity.into(),
                payload_bytes: sizes.payload_bytes.into(),
                insecure,
            };
            vec![detect_compact::measure(&bench, &sizes)?]
        }
        #[cfg(feature = "serve")]
        BenchCommand::Relay(arguments) => {
            let threads = session.threads.unwrap_or(0).into();
            vec![restante_bench::relay::measure(&bench, &arguments.into_sizes(threads))?]
        }
    };
    found
        .into_iter()
        .map(Measurement::into_fields)
        .try_for_each(|fields| Report::from(fields).print(session.json))
}

impl From<BenchError> for CliError {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Wrong(what) => Self::Job(what),
            BenchError::Sizes(what) => Self::Usage(what),
            BenchError::System { action, path, reason } => Self::System { action, path, reason },
            BenchError::Environment(what) => Self::Environment(what),
            error => Self::Refused(error.to_string()),
        }
    }
}
