//! The one writer: takes whatever batches wait, commits them together, and only then answers.

mod staging;

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use restante_board::BoardWriter;
use restante_wire::binding::Period;
use restante_wire::relay::{PageMessage, PostMessage, Posted, SignedHead};
use tokio::sync::oneshot;

use crate::ServerError;
use crate::board::BoardView;
use crate::limits::{Memory, origin};
use crate::metrics::Metrics;
use crate::panics::{self, caught};
use crate::queue::{self, FairQueue, Waiting};
use crate::refusal::{Answer, Code, Refusal};
use crate::registry::{IdEntry, Registry};
use staging::Staging;

/// Batches and bytes that one commit takes.
const GROUP_BATCHES: usize = 512;
const GROUP_BYTES: usize = 32 << 20;

/// A request to the writer.
#[derive(Debug)]
enum Request {
    Post { messages: Vec<PostMessage>, memory: Memory, answer: oneshot::Sender<Answer<Receipt>> },
    Append { first: u64, messages: Vec<PageMessage>, answer: oneshot::Sender<Result<(), ServerError>> },
    Forget { index: u64, answer: oneshot::Sender<Result<u64, ServerError>> },
}

impl Waiting for Request {
    /// Whoever has hung up asks again with the same ids. What the relay itself asks for is always wanted.
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Post { answer, .. } if answer.is_closed())
    }

    fn refuse(self, refusal: Refusal) {
        if let Self::Post { answer, .. } = self {
            drop(answer.send(Err(refusal)));
        }
    }
}

/// The answer to a poster.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) messages: Vec<Posted>,
    pub(crate) head: SignedHead,
    pub(crate) retained_from: u64,
}

/// The way to the writer. Networks have lanes, and so has the relay itself.
#[derive(Debug, Clone)]
pub(crate) struct WriterHandle(FairQueue<Option<IpAddr>, Request>);

impl WriterHandle {
    /// Posts a batch and waits until it is durable. Its memory is taken until then, whether or not anybody waits.
    pub(crate) async fn post(&self, messages: Vec<PostMessage>, memory: Memory) -> Answer<Receipt> {
        let (answer, receipt) = oneshot::channel();
        let request = Request::Post { messages, memory, answer };
        self.0.push(
            Some(origin()),
            request,
            &queue::busy("too many messages are waiting for the disk", 1),
        )?;
        receipt.await.map_err(|_| Refusal::stopping())?
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Appends messages that another relay has, from `first` on, which is the number of messages here.
    pub(crate) async fn append(&self, first: u64, messages: Vec<PageMessage>) -> Result<(), ServerError> {
        let stopped = || ServerError::Environment("the writer has stopped".into());
        let (answer, outcome) = oneshot::channel();
        self.0.push_always(None, Request::Append { first, messages, answer }).map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    /// Forgets the messages before `index`, as far as whole segments go.
    pub(crate) fn forget(&self, index: u64) -> Result<u64, ServerError> {
        let stopped = || ServerError::Environment("the writer has stopped".into());
        let (answer, outcome) = oneshot::channel();
        self.0.push_always(None, Request::Forget { index, answer }).map_err(|_| stopped())?;
        outcome.blocking_recv().map_err(|_| stopped())?
    }
}

/// Starts the writer. It stops when the queue is closed, after what waits by then.
pub(crate) fn start(
    writer: BoardWriter,
    registry: Arc<Registry>,
    view: Arc<BoardView>,
    metrics: Arc<Metrics>,
    waiting: usize,
    today: Option<Period>,
) -> Result<(WriterHandle, JoinHandle<()>), ServerError> {
    let queue = FairQueue::new(waiting);
    let handle = WriterHandle(queue.clone());
    let path = view.board().path().to_path_buf();
    let counted = metrics.clone();
    let mut worker = Worker { path, writer: Some(writer), registry, view, metrics, today };
    let thread = panics::thread("writer", counted, move || worker.run(&queue))?;
    Ok((handle, thread))
}

struct Worker {
    path: std::path::PathBuf,
    /// None after a failure that leaves open what is on disk, until the board is open again.
    writer: Option<BoardWriter>,
    registry: Arc<Registry>,
    view: Arc<BoardView>,
    metrics: Arc<Metrics>,
    /// Instead of the clock's, in tests.
    today: Option<Period>,
}

type Batch = (Vec<PostMessage>, oneshot::Sender<Answer<Receipt>>);

impl Worker {
    fn run(&mut self, queue: &FairQueue<Option<IpAddr>, Request>) {
        let metrics = self.metrics.clone();
        while let Some(request) = queue.pop() {
            let done = caught(&metrics, "a commit", || {
                self.work(request, queue);
                Ok(())
            });
            if done.is_err() {
                // What is on disk is found out when the board is opened again. Those who waited are told that they may ask again.
                self.writer = None;
            }
        }
    }

    fn work(&mut self, request: Request, queue: &FairQueue<Option<IpAddr>, Request>) {
        match request {
            Request::Append { first, messages, answer } => drop(answer.send(self.append(first, &messages))),
            Request::Forget { index, answer } => drop(answer.send(self.forget(index))),
            Request::Post { messages, memory, answer } => {
                let mut bytes = size_of_batch(&messages);
                let (mut group, mut taken): (Vec<Batch>, _) = (vec![(messages, answer)], vec![memory]);
                while group.len() < GROUP_BATCHES
                    && bytes < GROUP_BYTES
                    && let Some(Request::Post { messages, memory, answer }) =
                        queue.try_pop(|request| matches!(request, Request::Post { .. }))
                {
                    bytes += size_of_batch(&messages);
                    group.push((messages, answer));
                    taken.push(memory);
                }
                self.post(group);
                drop(taken);
            }
        }
    }

    fn forget(&mut self, index: u64) -> Result<u64, ServerError> {
        let retained = self.writer()?.forget(index)?;
        self.publish()?;
        Ok(retained)
    }

    fn append(&mut self, first: u64, messages: &[PageMessage]) -> Result<(), ServerError> {
        let writer = self.writer()?;
        if writer.len() != first {
            let reason = format!("messages from {first} on for a board of {}", writer.len());
            return Err(ServerError::Environment(reason));
        }
        let staged =
            messages.iter().try_for_each(|message| writer.append(&message.clue, &message.payload).map(drop));
        if let Err(error) = staged {
            if writer.rollback().is_err() {
                self.writer = None;
            }
            return Err(error.into());
        }
        self.finish()
    }

    /// Commits what is staged and publishes it.
    fn finish(&mut self) -> Result<(), ServerError> {
        let before = self.view.board().len();
        let count = self.writer()?.commit()?;
        self.publish()?;
        let capacity = u64::from(self.view.board().config().segment_capacity);
        if count / capacity > before / capacity {
            let time = self.view.clock().now();
            let noted = self.registry.note_segments(before / capacity..count / capacity, time);
            if let Err(error) = noted {
                // Retention by age takes such a segment for as old as the next one.
                tracing::warn!(%error, "the time of a segment was not noted");
            }
        }
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut BoardWriter, ServerError> {
        if self.writer.is_none() {
            self.writer = Some(BoardWriter::open(&self.path)?);
            self.publish()?;
            tracing::warn!("board opened again");
        }
        self.writer.as_mut().ok_or_else(|| ServerError::Environment("the board is not open".into()))
    }

    fn publish(&self) -> Result<(), ServerError> {
        let mut board = (*self.view.board()).clone();
        if let Some(writer) = &self.writer {
            board.follow(writer)?;
            self.view.publish(board);
        }
        Ok(())
    }

    fn post(&mut self, group: Vec<Batch>) {
        let started = std::time::Instant::now();
        let mut answers = Vec::with_capacity(group.len());
        let outcome = self.commit(group, &mut answers);
        if let Err(error) = &outcome {
            if self.writer.as_mut().is_some_and(|writer| writer.rollback().is_err()) {
                // It has stopped: opening the board again finds out what is on disk.
                self.writer = None;
            }
            tracing::error!(%error, "posting failed");
        }
        self.metrics.commit(started.elapsed(), answers.len());
        let (board, head) = self.view.signed();
        for (result, answer) in answers {
            let result = match (&outcome, result) {
                (_, Err(refusal)) => Err(refusal),
                (Err(error), Ok(_)) if error.is_full() => {
                    Err(Refusal::new(Code::Storage, "no space left on the relay's disk"))
                }
                (Err(_), Ok(_)) => Err(Refusal::new(Code::Internal, "the messages could not be stored")),
                (Ok(()), Ok(messages)) => {
                    self.metrics.posted(&messages);
                    Ok(Receipt { messages, head, retained_from: board.retained_from() })
                }
            };
            // Whoever has hung up asks again with the same ids.
            drop(answer.send(result));
        }
    }

    /// Stages the new messages of all batches and commits them. `answers` gets an answer for each batch, which holds if this
    /// succeeds. The ids of a batch differ.
    fn commit(
        &mut self,
        group: Vec<Batch>,
        answers: &mut Vec<(Answer<Vec<Posted>>, oneshot::Sender<Answer<Receipt>>)>,
    ) -> Result<(), ServerError> {
        let mut waiting = group.into_iter();
        let staged = self.stage(&mut waiting, answers);
        // After a failure the rest is answered with it, too.
        answers.extend(waiting.map(|(_, answer)| (Ok(Vec::new()), answer)));
        let new = staged?;
        if new.is_empty() {
            return Ok(());
        }
        self.registry.add_ids(&new)?;
        self.finish()
    }

    fn stage(
        &mut self,
        waiting: &mut std::vec::IntoIter<Batch>,
        answers: &mut Vec<(Answer<Vec<Posted>>, oneshot::Sender<Answer<Receipt>>)>,
    ) -> Result<Vec<IdEntry>, ServerError> {
        let (board, registry, time) = (self.view.board(), self.registry.clone(), self.view.clock().now());
        let mut staging = Staging::new(board, time, self.today.unwrap_or(Period::of(time)));
        let writer = self.writer()?;
        let ids: Vec<[u8; 16]> = waiting
            .as_slice()
            .iter()
            .flat_map(|(messages, _)| messages.iter().map(|message| message.id.0))
            .collect();
        let mut entries = registry.ids(&ids)?.into_iter();
        for (messages, answer) in waiting.by_ref() {
            let own: Vec<Option<IdEntry>> = entries.by_ref().take(messages.len()).collect();
            match staging.batch(writer, &messages, own.into_iter()) {
                Ok(outcome) => answers.push((outcome, answer)),
                Err(error) => {
                    answers.push((Ok(Vec::new()), answer));
                    return Err(error);
                }
            }
        }
        Ok(staging.new)
    }
}

fn size_of_batch(messages: &[PostMessage]) -> usize {
    messages.iter().map(|message| message.clue.len() + message.payload.len()).sum()
}
