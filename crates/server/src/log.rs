//! Structured logs on standard error.

use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use crate::ServerError;

/// Starts logging as JSON lines, with a level, or levels by target: `info,restante_server=debug`.
///
/// No line has anything of a message, a key, a token or a network address: routes are logged as templates.
///
/// # Errors
///
/// [`ServerError::Config`] for a filter that cannot be read.
pub fn start(filter: &str) -> Result<(), ServerError> {
    let filter: Targets = filter.parse().map_err(|error| ServerError::Config(format!("log: {error}")))?;
    // A standard error that is closed is nothing to panic about, as the report of it on standard error would.
    let lines =
        tracing_subscriber::fmt::layer().json().log_internal_errors(false).with_writer(std::io::stderr);
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    // Somebody else's logging is as good.
    drop(started);
    Ok(())
}
