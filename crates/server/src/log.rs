//! Structured logs on standard error.

use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use crate::ServerError;

/// Starts logging as JSON lines, with a level, or levels by target: `info,hyper=debug`.
///
/// No line has anything of a message, a key, a token or a network address: routes are logged as templates.
///
/// # Errors
///
/// [`ServerError::Config`] for a filter that cannot be read.
pub fn start(filter: &str) -> Result<(), ServerError> {
    let targets = targets(filter)?;
    // A standard error that is closed is nothing to panic about, as the report of it on standard error would.
    let lines =
        tracing_subscriber::fmt::layer().json().log_internal_errors(false).with_writer(std::io::stderr);
    let started = tracing_subscriber::registry().with(targets).with(lines).try_init();
    // Somebody else's logging is as good.
    drop(started);
    Ok(())
}

fn targets(filter: &str) -> Result<Targets, ServerError> {
    // The parser would take spans and fields for the name of a target, and nothing would be logged.
    if filter.contains(['[', ']', '{', '}']) {
        return Err(ServerError::Config("log: expected levels by target, without spans and fields".into()));
    }
    filter.parse().map_err(|error| ServerError::Config(format!("log: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use tracing::Level;

    use super::*;

    #[test]
    fn levels_are_those_of_targets() {
        let found = targets("info,restante_server=debug,hyper=off").unwrap();
        for (target, level, enabled) in [
            ("restante_server::writer", Level::DEBUG, true),
            ("restante_server", Level::TRACE, false),
            ("tokio", Level::INFO, true),
            ("tokio", Level::DEBUG, false),
            ("hyper", Level::ERROR, false),
        ] {
            assert_eq!(found.would_enable(target, &level), enabled, "{target} {level}");
        }
        assert!(targets("trace").unwrap().would_enable("h2", &Level::TRACE));
    }

    #[test]
    fn filters_that_would_log_nothing_are_refused() {
        for filter in ["info,restante_server=loud", "[post]=debug", "info,a[b{c}]=debug", "a=b=c"] {
            assert!(matches!(targets(filter), Err(ServerError::Config(_))), "{filter}");
        }
    }
}
