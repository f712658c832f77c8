//! A panic in a pass is that pass' failure, and not the end of its thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ServerError;
use crate::metrics::Metrics;

/// Does some work. A panic is an error that says so, is counted, and is for the log.
///
/// What the work has changed must be whole between any two statements, or not be used again.
pub(crate) fn caught<T>(
    metrics: &Metrics,
    what: &'static str,
    work: impl FnOnce() -> Result<T, ServerError>,
) -> Result<T, ServerError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        metrics.panics.inc();
        tracing::error!("{what} panicked; the relay goes on without it");
        Err(ServerError::Panicked { what })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_counted() {
        let metrics = Metrics::new();
        assert!(matches!(caught(&metrics, "this", || Ok(1)), Ok(1)));
        let failed = caught(&metrics, "this", || -> Result<(), _> { panic!("on purpose") });
        assert!(matches!(failed, Err(ServerError::Panicked { what: "this" })));
        assert!(metrics.text().contains("restante_panics_total 1"));
    }
}
