//! Queries to the directory, answered together.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use restante_pir::search::{Query, prepare, respond};

use crate::ServerError;
use crate::batches::{Asked, Batches, Pass, Queue};
use crate::detection::Detection;
use crate::directory::{Directories, Directory};
use crate::limits::Memory;
use crate::metrics::Metrics;
use crate::refusal::Refusal;

/// The way to the thread that answers queries to the directory.
pub(crate) type Searcher = Batches<SearchPass>;

/// A query that was checked against the directory.
pub(crate) struct DirectoryQuery {
    pub(crate) directory: Arc<Directory>,
    pub(crate) query: Query,
    /// The right to the query's memory.
    pub(crate) own: Memory,
    /// The right to the answer's.
    pub(crate) answer: Memory,
}

/// Reads the directory once for several queries.
#[derive(Debug)]
pub(crate) struct SearchPass {
    directories: Arc<Directories>,
    detection: Arc<Detection>,
}

impl SearchPass {
    pub(crate) fn new(directories: Arc<Directories>, detection: Arc<Detection>) -> Self {
        Self { directories, detection }
    }
}

impl Pass for SearchPass {
    type Query = DirectoryQuery;
    /// The memory of a pass was counted when the directory was read.
    type Shared = ();
    type Found = Vec<u8>;
    type Answer = (Vec<u8>, Memory);

    const NAMES: (&'static str, &'static str) = ("search", "a pass for queries to the directory");

    fn gather(&self, first: Asked<Self>, queue: &Queue<Self>) -> Option<(Vec<Asked<Self>>, ())> {
        let directory = first.query.directory.clone();
        let mut asked = vec![first];
        // As many as the memory was counted for.
        while asked.len() < directory.queries
            && let Some(one) = queue.try_pop(|one| Arc::ptr_eq(&one.query.directory, &directory))
        {
            asked.push(one);
        }
        Some((asked, ()))
    }

    /// Expands the queries one after the other, answers them in one pass, and forgets them.
    fn run(
        &self,
        queries: &[&DirectoryQuery],
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Vec<u8>>, ServerError> {
        let Some(first) = queries.first() else { return Ok(Vec::new()) };
        let (scheme, runner) = (self.directories.scheme(), self.detection.runner());
        let mut prepared = Vec::with_capacity(queries.len());
        for one in queries {
            if !goes_on() {
                return Ok(Vec::new());
            }
            prepared.push(prepare(scheme, &one.query, true, runner)?);
        }
        let prepared: Vec<_> = prepared.iter().collect();
        let (window, note) = (&first.directory.window, &first.directory.answer_note);
        let answers = respond(&prepared, window, 0, note, runner, |_| {})?;
        Ok(answers.iter().map(|answer| answer.to_file(scheme)).collect())
    }

    fn answer(query: DirectoryQuery, found: Vec<u8>, _shared: &mut ()) -> Self::Answer {
        let DirectoryQuery { own, answer, .. } = query;
        drop(own);
        (found, answer)
    }

    fn refuse(error: &ServerError) -> Refusal {
        Refusal::internal(error)
    }

    fn counter(metrics: &Metrics) -> &Counter {
        &metrics.searches
    }
}
