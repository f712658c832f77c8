//! Queries of one kind that wait for a thread, which answers those together that can share a pass over the data.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;

use crate::ServerError;
use crate::limits::origin;
use crate::metrics::Metrics;
use crate::panics::{self, caught};
use crate::queue::{self, FairQueue, Waiting};
use crate::refusal::{Answer, Refusal};

/// A kind of query, and a pass over its data.
pub(crate) trait Pass: Send + Sync + 'static {
    /// A query that was checked against its data, with the right to its memory.
    type Query: Send;
    /// Shared by all queries of a pass while it runs.
    type Shared;
    /// A pass' result for a query.
    type Found;
    /// The answer to whoever asked.
    type Answer: Send;

    /// Names the thread, and a pass in the log.
    const NAMES: (&'static str, &'static str);

    /// Takes what a pass for a query needs, before anything is allocated, and other queries out of the queue that can share it. None
    /// if the query was refused, or nobody waits for it any more.
    fn gather(&self, first: Asked<Self>, queue: &Queue<Self>) -> Option<(Vec<Asked<Self>>, Self::Shared)>;

    /// Answers some queries in one pass, in their order; no answers if `goes_on` says no meanwhile.
    fn run(
        &self,
        queries: &[&Self::Query],
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Self::Found>, ServerError>;

    /// Gives what was found the memory that it keeps.
    fn answer(query: Self::Query, found: Self::Found, shared: &mut Self::Shared) -> Self::Answer;

    /// Whom a failure is told.
    fn refuse(error: &ServerError) -> Refusal;

    /// Where answers are counted.
    fn counter(metrics: &Metrics) -> &Counter;
}

/// A query that somebody waits for.
pub(crate) struct Asked<P: Pass + ?Sized> {
    pub(crate) query: P::Query,
    answer: oneshot::Sender<Answer<P::Answer>>,
}

impl<P: Pass + ?Sized> Waiting for Asked<P> {
    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    fn refuse(self, refusal: Refusal) {
        drop(self.answer.send(Err(refusal)));
    }
}

/// Queries that wait: networks have lanes.
pub(crate) type Queue<P> = FairQueue<IpAddr, Asked<P>>;

/// The way to the thread that answers queries of a kind.
pub(crate) struct Batches<P: Pass> {
    pass: Arc<P>,
    queue: Queue<P>,
}

impl<P: Pass> Clone for Batches<P> {
    fn clone(&self) -> Self {
        Self { pass: self.pass.clone(), queue: self.queue.clone() }
    }
}

impl<P: Pass> std::fmt::Debug for Batches<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Batches").field(&P::NAMES.0).finish()
    }
}

impl<P: Pass> Batches<P> {
    /// Starts the thread, with a queue of at most `waiting` queries. It stops when the queue is closed and empty.
    pub(crate) fn start(
        pass: P,
        metrics: Arc<Metrics>,
        waiting: usize,
    ) -> Result<(Self, JoinHandle<()>), ServerError> {
        let this = Self { pass: Arc::new(pass), queue: FairQueue::new(waiting) };
        let worker = this.clone();
        let thread = panics::thread(P::NAMES.0, metrics.clone(), move || {
            while let Some(first) = worker.queue.pop() {
                if let Some((asked, shared)) = worker.pass.gather(first, &worker.queue) {
                    worker.work(asked, shared, &metrics);
                }
            }
        })?;
        Ok((this, thread))
    }

    /// How queries of this kind are answered.
    pub(crate) fn pass(&self) -> &P {
        &self.pass
    }

    /// Takes no more queries.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Answers a query. Its memory moves with it: it is taken for as long as the work goes on, whether or not anybody waits.
    pub(crate) async fn ask(&self, query: P::Query) -> Answer<P::Answer> {
        let (answer, found) = oneshot::channel();
        self.queue.push(
            origin(),
            Asked { query, answer },
            &queue::busy("too many queries are waiting", 2),
        )?;
        found.await.map_err(|_| Refusal::stopping())?
    }

    fn work(&self, asked: Vec<Asked<P>>, mut shared: P::Shared, metrics: &Metrics) {
        match self.run(&asked, metrics) {
            Ok(found) => send(asked, found, &mut shared, metrics),
            Err(error) if asked.len() == 1 => {
                asked.into_iter().for_each(|one| one.refuse(P::refuse(&error)));
            }
            // The others are not to blame for one of them.
            Err(_) => {
                for one in asked {
                    match self.run(std::slice::from_ref(&one), metrics) {
                        Ok(found) => send(vec![one], found, &mut shared, metrics),
                        Err(error) => one.refuse(P::refuse(&error)),
                    }
                }
            }
        }
    }

    fn run(&self, asked: &[Asked<P>], metrics: &Metrics) -> Result<Vec<P::Found>, ServerError> {
        let queries: Vec<&P::Query> = asked.iter().map(|one| &one.query).collect();
        let senders: Vec<_> = asked.iter().map(|one| &one.answer).collect();
        let goes_on = || senders.iter().any(|answer| !answer.is_closed());
        caught(metrics, P::NAMES.1, || self.pass.run(&queries, &goes_on))
    }
}

fn send<P: Pass>(asked: Vec<Asked<P>>, found: Vec<P::Found>, shared: &mut P::Shared, metrics: &Metrics) {
    P::counter(metrics).inc_by(found.len() as u64);
    for (one, found) in asked.into_iter().zip(found) {
        drop(one.answer.send(Ok(P::answer(one.query, found, shared))));
    }
}
