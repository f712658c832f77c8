//! A panic in a pass is that pass' failure, and not the end of its thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::ServerError;
use crate::metrics::Metrics;

/// How long a thread waits after a panic before it goes on.
const PAUSE: Duration = Duration::from_millis(500);

/// A thread of the relay, which works until the relay stops. What panics outside of a pass is counted and logged as well, and the work
/// begins anew: no thread ends without a word.
pub(crate) fn thread(
    name: impl Into<String>,
    metrics: Arc<Metrics>,
    mut work: impl FnMut() + Send + 'static,
) -> Result<JoinHandle<()>, ServerError> {
    let name = name.into();
    let thread = std::thread::Builder::new().name(name.clone());
    let started = thread.spawn(move || {
        while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
            metrics.panics.inc();
            tracing::error!("the thread \"{name}\" panicked; it begins anew");
            std::thread::sleep(PAUSE);
        }
    });
    started.map_err(|error| ServerError::Environment(format!("cannot start a thread: {error}")))
}

/// Does some work. A panic is an error that says so, is counted, and is for the log.
///
/// The work must leave its data whole between any two statements, or nobody may use that data again.
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
    fn a_thread_outlives_panics_between_its_passes() {
        let metrics = Arc::new(Metrics::new());
        let mut begun = 0;
        let work = move || {
            begun += 1;
            assert!(begun > 2, "on purpose");
        };
        assert!(thread("test", metrics.clone(), work).is_ok_and(|thread| thread.join().is_ok()));
        assert!(metrics.text().contains("restante_panics_total 2"));
    }

    #[test]
    fn a_panic_is_an_error_and_counted() {
        let metrics = Metrics::new();
        assert!(matches!(caught(&metrics, "this", || Ok(1)), Ok(1)));
        let failed = caught(&metrics, "this", || -> Result<(), _> { panic!("on purpose") });
        assert!(matches!(failed, Err(ServerError::Panicked { what: "this" })));
        assert!(metrics.text().contains("restante_panics_total 1"));
    }
}
