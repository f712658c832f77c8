//! Structured logs on standard error.

use tracing_subscriber::EnvFilter;

use crate::ServerError;

/// Starts logging as JSON lines, with a filter as `tracing` has it.
///
/// No line has anything of a message, a key, a token or a network address: routes are logged as templates.
///
/// # Errors
///
/// [`ServerError::Config`] for a filter that cannot be read.
pub fn start(filter: &str) -> Result<(), ServerError> {
    let filter = EnvFilter::try_new(filter).map_err(|error| ServerError::Config(format!("log: {error}")))?;
    // A standard error that is closed is nothing to panic about, as the report of it on standard error would.
    let started = tracing_subscriber::fmt()
        .json()
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .try_init();
    // Somebody else's logging is as good.
    drop(started);
    Ok(())
}
