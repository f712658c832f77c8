//! The work under way on a connection: an idle connection is closed, and so is one that does not take its answers.
//!
//! That bytes move does not tell: with HTTP/2 a client can answer every ping, and leave the windows of its streams shut.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::limits::Revocable;
use crate::locks::lock;

/// Bytes of an answer that are handed over at a time. A client has to take so many within the limit.
const CHUNK: usize = 64 << 10;

/// Why a connection should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There has been no request for too long.
    Idle,
    /// An answer is not taken.
    Stalled,
}

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<State>);

#[derive(Debug)]
struct State {
    next: u64,
    exchanges: HashMap<u64, Exchange>,
    /// When the last one ended.
    idle: Instant,
}

/// A request and its answer.
#[derive(Debug)]
struct Exchange {
    /// Parts of the answer that wait for the client.
    waiting: usize,
    /// Whether the relay has to say something next.
    relays_turn: bool,
    moved: Instant,
    /// Bytes of the answer that were taken, how long parts of it have waited, and since when one does.
    taken: u64,
    waited: Duration,
    /// Whether its memory is wanted back.
    revocable: Option<Revocable>,
}

impl Exchange {
    /// Whether the client takes its answer too slowly, at a moment or on the whole, or has it taken away.
    fn is_stalled(&self, limit: Duration, bytes_per_second: u64) -> bool {
        let is_waiting = self.waiting > 0;
        let waited = self.waited + if is_waiting { self.moved.elapsed() } else { Duration::ZERO };
        let allowed = limit + Duration::from_secs(self.taken / bytes_per_second.max(1));
        (is_waiting || !self.relays_turn) && self.moved.elapsed() >= limit
            || is_waiting && waited >= allowed
            || self.revocable.as_ref().is_some_and(Revocable::is_revoked)
    }
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { next: 0, exchanges: HashMap::new(), idle: Instant::now() })))
    }

    /// A request has come. It is over when the last copy of this is gone.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<Under> {
        let mut state = lock(&self.0);
        let id = state.next;
        state.next += 1;
        let moved = Instant::now();
        let exchange = Exchange {
            waiting: 0,
            relays_turn: true,
            moved,
            taken: 0,
            waited: Duration::ZERO,
            revocable: None,
        };
        state.exchanges.insert(id, exchange);
        Arc::new(Under { activity: self.clone(), id })
    }

    fn verdict(&self, limit: Duration, bytes_per_second: u64) -> Option<Verdict> {
        let state = lock(&self.0);
        let stalled = |one: &Exchange| one.is_stalled(limit, bytes_per_second);
        match () {
            () if state.exchanges.is_empty() => (state.idle.elapsed() >= limit).then_some(Verdict::Idle),
            () => state.exchanges.values().any(stalled).then_some(Verdict::Stalled),
        }
    }

    /// Waits until the connection should end.
    pub(crate) async fn watch(&self, limit: Duration, bytes_per_second: u64) -> Verdict {
        loop {
            tokio::time::sleep(limit / 4).await;
            if let Some(verdict) = self.verdict(limit, bytes_per_second) {
                return verdict;
            }
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Under {
    activity: Arc<Activity>,
    id: u64,
}

impl Under {
    fn change(&self, change: impl FnOnce(&mut Exchange)) {
        if let Some(exchange) = lock(&self.activity.0).exchanges.get_mut(&self.id) {
            change(exchange);
        }
    }

    /// The answer's memory may be wanted back.
    pub(crate) fn revocable(&self, revocable: Option<Revocable>) {
        self.change(|exchange| exchange.revocable = revocable);
    }

    fn turn(&self, relays: bool) {
        self.change(|exchange| {
            if exchange.relays_turn != relays {
                exchange.relays_turn = relays;
                if exchange.waiting == 0 {
                    exchange.moved = Instant::now();
                }
            }
        });
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        let mut state = lock(&self.activity.0);
        state.exchanges.remove(&self.id);
        if state.exchanges.is_empty() {
            state.idle = Instant::now();
        }
    }
}

/// An answer's body, whose way to the client is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    body: Body,
    /// The rest of the part that came last.
    left: Bytes,
    under: Arc<Under>,
}

impl Watched {
    pub(crate) fn new(body: Body, under: Arc<Under>) -> Self {
        under.turn(false);
        Self { body, left: Bytes::new(), under }
    }
}

/// A part of an answer until it is sent.
struct Part {
    bytes: Bytes,
    under: Arc<Under>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.under.change(|exchange| {
            exchange.waiting = exchange.waiting.saturating_sub(1);
            exchange.waited += exchange.moved.elapsed();
            exchange.taken += self.bytes.len() as u64;
            exchange.moved = Instant::now();
        });
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.left.is_empty() {
            let polled = Pin::new(&mut self.body).poll_frame(context);
            self.under.turn(polled.is_pending());
            let frame = match ready!(polled) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.left = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = self.left.len().min(CHUNK);
        let bytes = self.left.split_to(length);
        self.under.change(|exchange| {
            if exchange.waiting == 0 {
                exchange.moved = Instant::now();
            }
            exchange.waiting += 1;
        });
        let part = Part { bytes, under: self.under.clone() };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, left) = (self.body.size_hint(), self.left.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint.set_lower(hint.lower().saturating_add(left));
        hint
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use http_body_util::BodyExt;

    use super::*;

    const NOW: Duration = Duration::ZERO;
    const LATER: Duration = Duration::from_secs(1000);

    async fn next(body: &mut Watched) -> Option<Bytes> {
        body.frame().await.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_stalls_and_one_that_is_ends() {
        let activity = Activity::new();
        assert_eq!((activity.verdict(NOW, 1), activity.verdict(LATER, 1)), (Some(Verdict::Idle), None));
        let under = activity.begin();
        // The relay takes its time.
        assert_eq!(activity.verdict(NOW, 1), None);
        let bytes: Vec<u8> = (0..CHUNK as u32 + 1000).map(|place| place as u8).collect();
        let mut body = Watched::new(Body::from(bytes.clone()), under);
        assert_eq!((activity.verdict(NOW, 1), activity.verdict(LATER, 1)), (Some(Verdict::Stalled), None));
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        let first = next(&mut body).await.unwrap();
        assert!(!body.is_end_stream());
        assert_eq!((first.len(), body.size_hint().exact()), (CHUNK, Some(1000)));
        let second = next(&mut body).await.unwrap();
        assert_eq!([&first[..], &second[..]].concat(), bytes);
        assert!(next(&mut body).await.is_none());
        // The body is gone, and what was to be sent is not sent.
        drop((body, first));
        assert_eq!(activity.verdict(NOW, 1), Some(Verdict::Stalled));
        drop(second);
        assert_eq!(activity.verdict(NOW, 1), Some(Verdict::Idle));
    }

    #[tokio::test]
    async fn events_that_wait_for_something_to_tell_do_not_stall() {
        let activity = Activity::new();
        let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
        let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
            let bytes = receiver.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), receiver))
        });
        let mut body = Watched::new(Body::from_stream(stream), activity.begin());
        assert!(tokio::time::timeout(Duration::from_millis(1), body.frame()).await.is_err());
        assert_eq!(activity.verdict(NOW, 1), None);
        sender.send(Bytes::from_static(b"x")).await.unwrap();
        let sent = next(&mut body).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(1), body.frame()).await.is_err());
        // Something to tell was not taken.
        assert_eq!(activity.verdict(NOW, 1), Some(Verdict::Stalled));
        drop(sent);
        assert_eq!(activity.verdict(NOW, 1), None);
        drop(body);
        assert_eq!(activity.verdict(NOW, 1), Some(Verdict::Idle));
    }
}
