//! Queries to the directory, answered together.

use std::sync::Arc;
use std::thread::JoinHandle;

use restante_pir::PirError;
use restante_pir::search::{Query, Scheme, prepare, respond};
use restante_scan::Runner;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::ServerError;
use crate::detection::Detection;
use crate::directory::{Directories, Directory};
use crate::metrics::Metrics;
use crate::problem::{Answer, Code, Refusal};

struct Asked {
    directory: Arc<Directory>,
    query: Query,
    /// The right to the query's memory.
    permit: OwnedSemaphorePermit,
    answer: oneshot::Sender<Answer<Vec<u8>>>,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

/// The way to the thread that answers queries.
#[derive(Debug, Clone)]
pub(crate) struct Searcher(mpsc::Sender<Asked>);

impl Searcher {
    /// Starts the thread. It stops when every handle is gone.
    pub(crate) fn start(
        directories: Option<Arc<Directories>>,
        detection: Arc<Detection>,
        metrics: Arc<Metrics>,
        waiting: usize,
    ) -> Result<(Self, JoinHandle<()>), ServerError> {
        let (sender, mut receiver) = mpsc::channel::<Asked>(waiting);
        let thread = std::thread::Builder::new()
            .name("search".into())
            .spawn(move || {
                let Some(directories) = directories else { return };
                let mut next: Option<Asked> = None;
                while let Some(first) = next.take().or_else(|| receiver.blocking_recv()) {
                    let directory = first.directory.clone();
                    let mut now = vec![first];
                    while now.len() < directory.queries
                        && next.is_none()
                        && let Ok(asked) = receiver.try_recv()
                    {
                        match Arc::ptr_eq(&asked.directory, &directory) {
                            true => now.push(asked),
                            false => next = Some(asked),
                        }
                    }
                    // Whoever has hung up gets no answer.
                    now.retain(|asked| !asked.answer.is_closed());
                    let answers = answer(directories.scheme(), &directory, &now, detection.runner());
                    let answers = answers.map_err(|error| Refusal::internal(&error));
                    metrics.searches.inc_by(now.len() as u64);
                    for (place, asked) in now.into_iter().enumerate() {
                        let own = match &answers {
                            Ok(files) => files.get(place).cloned().ok_or_else(Refusal::stopping),
                            Err(refusal) => Err(refusal.clone()),
                        };
                        drop(asked.permit);
                        drop(asked.answer.send(own));
                    }
                }
            })
            .map_err(|error| ServerError::Environment(format!("cannot start a thread: {error}")))?;
        Ok((Self(sender), thread))
    }

    /// Answers a query that was checked against its directory.
    pub(crate) async fn answer(
        &self,
        directory: Arc<Directory>,
        query: Query,
        permit: OwnedSemaphorePermit,
    ) -> Answer<Vec<u8>> {
        let (answer, found) = oneshot::channel();
        match self.0.try_send(Asked { directory, query, permit, answer }) {
            Ok(()) => found.await.map_err(|_| Refusal::stopping())?,
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(Refusal::new(Code::Busy, "too many queries are waiting").retry_after(2))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Refusal::stopping()),
        }
    }
}

/// Expands some queries, answers them in one pass, and forgets them.
fn answer(
    scheme: &Scheme,
    directory: &Directory,
    asked: &[Asked],
    runner: &Runner,
) -> Result<Vec<Vec<u8>>, PirError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let prepared = asked
        .iter()
        .map(|asked| prepare(scheme, &asked.query, true, runner))
        .collect::<Result<Vec<_>, _>>()?;
    let queries: Vec<_> = prepared.iter().collect();
    let answers = respond(&queries, &directory.window, 0, &directory.answer_note, runner, |_| {})?;
    Ok(answers.iter().map(|answer| answer.to_file(scheme)).collect())
}
