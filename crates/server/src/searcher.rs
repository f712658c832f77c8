//! Queries to the directory, answered together.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use restante_pir::PirError;
use restante_pir::search::{Query, Scheme, prepare, respond};
use restante_scan::Runner;
use tokio::sync::oneshot;

use crate::ServerError;
use crate::detection::Detection;
use crate::directory::{Directories, Directory};
use crate::limits::{Memory, origin};
use crate::metrics::Metrics;
use crate::panics::{self, caught};
use crate::queue::{self, FairQueue, Waiting};
use crate::refusal::{Answer, Refusal};

struct Asked {
    directory: Arc<Directory>,
    query: Query,
    /// The right to the query's memory.
    _query: Memory,
    /// The right to the answer's memory.
    memory: Memory,
    answer: oneshot::Sender<Answer<(Vec<u8>, Memory)>>,
}

impl Waiting for Asked {
    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    fn refuse(self, refusal: Refusal) {
        drop(self.answer.send(Err(refusal)));
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

/// The way to the thread that answers queries.
#[derive(Debug, Clone)]
pub(crate) struct Searcher(FairQueue<IpAddr, Asked>);

impl Searcher {
    /// Starts the thread. It stops when the queue is closed and empty.
    pub(crate) fn start(
        directories: Option<Arc<Directories>>,
        detection: Arc<Detection>,
        metrics: Arc<Metrics>,
        waiting: usize,
    ) -> Result<(Self, JoinHandle<()>), ServerError> {
        let queue: FairQueue<IpAddr, Asked> = FairQueue::new(waiting);
        let this = Self(queue.clone());
        let thread = panics::thread("search", metrics.clone(), move || {
            let Some(directories) = &directories else { return };
            while let Some(first) = queue.pop() {
                let directory = first.directory.clone();
                let mut now = vec![first];
                // As many as the memory was counted for.
                while now.len() < directory.queries
                    && let Some(asked) = queue.try_pop(|asked| Arc::ptr_eq(&asked.directory, &directory))
                {
                    now.push(asked);
                }
                let answers = caught(&metrics, "a pass for queries to the directory", || {
                    Ok(answer(directories.scheme(), &directory, &now, detection.runner())?)
                });
                match answers {
                    Ok(answers) => {
                        metrics.searches.inc_by(answers.len() as u64);
                        for (asked, own) in now.into_iter().zip(answers) {
                            drop(asked.answer.send(Ok((own, asked.memory))));
                        }
                    }
                    Err(error) => {
                        let refusal = Refusal::internal(&error);
                        now.into_iter().for_each(|asked| asked.refuse(refusal.clone()));
                    }
                }
            }
        })?;
        Ok((this, thread))
    }

    /// Takes no more queries.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Answers a query that was checked against its directory. The memory of query and answer moves with it.
    pub(crate) async fn answer(
        &self,
        directory: Arc<Directory>,
        query: Query,
        [own, memory]: [Memory; 2],
    ) -> Answer<(Vec<u8>, Memory)> {
        let (answer, found) = oneshot::channel();
        let asked = Asked { directory, query, _query: own, memory, answer };
        self.0.push(origin(), asked, &queue::busy("too many queries are waiting", 2))?;
        found.await.map_err(|_| Refusal::stopping())?
    }
}

/// Expands some queries, answers them in one pass, and forgets them; no answers if nobody waits any more.
fn answer(
    scheme: &Scheme,
    directory: &Directory,
    asked: &[Asked],
    runner: &Runner,
) -> Result<Vec<Vec<u8>>, PirError> {
    let mut prepared = Vec::with_capacity(asked.len());
    for one in asked {
        if asked.iter().all(Waiting::is_abandoned) {
            return Ok(Vec::new());
        }
        prepared.push(prepare(scheme, &one.query, true, runner)?);
    }
    let queries: Vec<_> = prepared.iter().collect();
    let answers = respond(&queries, &directory.window, 0, &directory.answer_note, runner, |_| {})?;
    Ok(answers.iter().map(|answer| answer.to_file(scheme)).collect())
}
