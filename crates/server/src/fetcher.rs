//! Queries to epochs, answered together.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use restante_pir::fetch::{AnswerFile, Epoch, Query, answer_files, scan_bytes};

use crate::batches::{Asked, Batches, Pass, Queue};
use crate::detection::Detection;
use crate::limits::{Budget, Memory, Share};
use crate::metrics::Metrics;
use crate::queue::{self, Waiting};
use crate::refusal::{Answer, Code, Refusal};
use crate::{Limits, ServerError};

/// Queries that share a pass.
const QUERIES: usize = 64;

/// The way to the thread that answers queries to epochs.
pub(crate) type Fetcher = Batches<FetchPass>;

/// A query that was checked against its epoch.
pub(crate) struct EpochQuery {
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) query: Query,
    /// The right to the query's memory.
    pub(crate) memory: Memory,
}

/// Reads an epoch once for several queries.
#[derive(Debug)]
pub(crate) struct FetchPass {
    detection: Arc<Detection>,
    budget: Budget,
    threads: usize,
}

impl FetchPass {
    pub(crate) fn new(detection: Arc<Detection>, limits: &Limits) -> Self {
        let budget = Budget::new(limits.fetch_memory_bytes, Duration::from_secs(limits.idle_seconds));
        let threads = detection.runner().threads();
        Self { detection, budget, threads }
    }

    /// Refuses a number of fetches for which there is never enough memory.
    pub(crate) fn check(&self, epoch: &Epoch, fetches: usize) -> Answer<()> {
        let (found, most) = (scan_bytes(epoch.info(), &[fetches], self.threads), self.budget.bytes());
        if found <= most {
            return Ok(());
        }
        let detail = format!(
            "{fetches} fetches take about {found} bytes of memory, and limits.fetch_memory_bytes is {most}: ask for fewer at a time"
        );
        Err(Refusal::new(Code::TooLarge, detail).at("body:fetches"))
    }
}

impl Pass for FetchPass {
    type Query = EpochQuery;
    /// The memory of the pass, of which each answer keeps its part until it is sent.
    type Shared = Share;
    type Found = AnswerFile;
    type Answer = (AnswerFile, Share);

    const NAMES: (&'static str, &'static str) = ("fetch", "a pass for fetch queries");

    fn gather(&self, first: Asked<Self>, queue: &Queue<Self>) -> Option<(Vec<Asked<Self>>, Share)> {
        let epoch = first.query.epoch.clone();
        let need = |fetches: &[usize]| scan_bytes(epoch.info(), fetches, self.threads);
        let busy = || queue::busy("the memory for answers is taken", 2);
        let mut fetches = vec![first.query.query.fetches()];
        let goes_on = || !first.is_abandoned() && !queue.is_closed();
        let Some(mut share) = self.budget.wait(need(&fetches), goes_on) else {
            first.refuse(busy());
            return None;
        };
        let mut asked = vec![first];
        while asked.len() < QUERIES {
            let with = |one: &Asked<Self>| {
                let all: Vec<usize> = fetches.iter().copied().chain([one.query.query.fetches()]).collect();
                need(&all)
            };
            let fits = |one: &Asked<Self>| one.query.epoch.id() == epoch.id() && share.could_grow(with(one));
            let Some(one) = queue.try_pop(fits) else { break };
            // This thread alone takes memory, so that what could be had is there.
            if !share.grow(with(&one)) {
                one.refuse(busy());
                break;
            }
            fetches.push(one.query.query.fetches());
            asked.push(one);
        }
        Some((asked, share))
    }

    fn run(
        &self,
        queries: &[&EpochQuery],
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<AnswerFile>, ServerError> {
        let Some(first) = queries.first() else { return Ok(Vec::new()) };
        let all: Vec<&Query> = queries.iter().map(|one| &one.query).collect();
        let files = answer_files(&first.epoch, &all, self.detection.runner(), |_| goes_on())?;
        Ok(files.unwrap_or_default())
    }

    fn answer(query: EpochQuery, found: AnswerFile, shared: &mut Share) -> Self::Answer {
        drop(query.memory);
        let own = shared.split(found.bytes() as u64);
        (found, own)
    }

    fn refuse(error: &ServerError) -> Refusal {
        match error {
            // For another number of records, or so.
            ServerError::Pir(error) => Refusal::new(Code::Invalid, error.to_string()).at("body"),
            error => Refusal::internal(error),
        }
    }

    fn counter(metrics: &Metrics) -> &Counter {
        &metrics.fetches
    }
}
