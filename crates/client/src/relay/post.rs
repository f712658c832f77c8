//! Posting messages.

use std::collections::VecDeque;

use rand_core::CryptoRng;
use restante_clue::ClueParameters;
use restante_wire::{
    Decode, Encode, Envelope, Kind, Reader, WireError,
    merkle::{Hash, leaf},
    relay::{HeadStatus, Hex, PostBatch, PostMessage, PostResult, RelayInfo, SignedHead, media},
};

use super::{
    KnownRelay, Method, RelayError, Reply, Request, Response, Retries, Side, Step,
    exchange::Attempts,
    heads::{self, Verdict, inconsistent, read_flag},
    sync::check_board,
};
use crate::{ClientError, Message, address::open_file};

/// Messages on their way to a relay: each with the id under which the relay takes it once, and with its receipt when it is there.
///
/// Saved before the first attempt and after every answer, it makes sure that a message is posted once, whatever breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox {
    parameters: ClueParameters,
    messages: Vec<(PostMessage, Option<Receipt>)>,
}

/// What a relay can be held to: that a message is on its board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The id that it was posted with.
    pub id: Hex<16>,
    /// Its index.
    pub index: u64,
    /// Its leaf in the hash tree.
    pub leaf: Hash,
    /// A head that counts it.
    pub head: SignedHead,
}

impl Outbox {
    /// The version of the file format.
    pub const VERSION: u16 = 1;

    /// An outbox for boards with these clues.
    pub fn new(parameters: ClueParameters) -> Self {
        Self { parameters, messages: Vec::new() }
    }

    /// Adds a message, with a fresh id.
    ///
    /// # Errors
    ///
    /// [`ClientError::Wire`] for a clue of other parameters.
    pub fn push(&mut self, message: Message, rng: &mut impl CryptoRng) -> Result<(), ClientError> {
        let (found, expected) = (message.clue.len(), self.parameters.clue_bytes());
        if found != expected {
            let (what, expected) = ("length of a clue", expected.to_string());
            return Err(WireError::OutOfRange { what, found: found as u64, expected }.into());
        }
        let mut id = Hex([0; 16]);
        rng.fill_bytes(&mut id.0);
        let Message { clue, payload } = message;
        self.messages.push((PostMessage { id, clue, payload }, None));
        Ok(())
    }

    /// Messages that are not known to be posted.
    pub fn waiting(&self) -> usize {
        self.messages.iter().filter(|(_, receipt)| receipt.is_none()).count()
    }

    /// The receipts, in the order of [`Outbox::push`].
    pub fn receipts(&self) -> impl Iterator<Item = &Receipt> {
        self.messages.iter().filter_map(|(_, receipt)| receipt.as_ref())
    }

    /// Removes the messages that are posted.
    pub fn take_receipts(&mut self) -> Vec<Receipt> {
        let receipts = self.receipts().copied().collect();
        self.messages.retain(|(_, receipt)| receipt.is_none());
        receipts
    }

    /// The file: number of messages, then for each its id, clue, length of the payload, payload, and a flag and the receipt.
    pub fn to_file(&self) -> Vec<u8> {
        let mut body = (self.messages.len() as u32).to_le_bytes().to_vec();
        for (message, receipt) in &self.messages {
            body.extend_from_slice(&message.id.0);
            body.extend_from_slice(&message.clue);
            body.extend_from_slice(&(message.payload.len() as u32).to_le_bytes());
            body.extend_from_slice(&message.payload);
            body.push(receipt.is_some().into());
            if let Some(receipt) = receipt {
                body.extend_from_slice(&receipt.index.to_le_bytes());
                receipt.head.encode(&mut body);
            }
        }
        let parameters = self.parameters.id();
        Envelope { kind: Kind::Outbox, version: Self::VERSION, parameters, body: &body }.seal()
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ClientError::Wire`], [`ClientError::UnknownParameters`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, ClientError> {
        let (parameters, body) = open_file(bytes, Kind::Outbox, Self::VERSION)?;
        let mut reader = Reader::new("outbox", body);
        let mut messages = Vec::new();
        for _ in 0..reader.u32()? {
            let id = Hex(reader.array()?);
            let clue = reader.bytes(parameters.clue_bytes())?.to_vec();
            let payload_bytes = reader.u32()? as usize;
            let payload = reader.bytes(payload_bytes)?.to_vec();
            let message = PostMessage { id, clue, payload };
            let receipt = match read_flag(&mut reader)? {
                true => {
                    let index = reader.u64()?;
                    let head = SignedHead::decode(&parameters.id(), &mut reader)?;
                    Some(Receipt { id, index, leaf: leaf_of(&message), head })
                }
                false => None,
            };
            messages.push((message, receipt));
        }
        reader.finish()?;
        Ok(Self { parameters, messages })
    }
}

fn leaf_of(message: &PostMessage) -> Hash {
    leaf(&Hash::of(&message.clue), &Hash::of(&message.payload))
}

/// Posts what waits in an outbox.
///
/// The sizes of messages and their number show; so does when they are posted, and from where. A sender who minds posts at fixed times
/// and through a network that hides addresses.
#[derive(Debug)]
pub struct PostMachine {
    outbox: Outbox,
    known: KnownRelay,
    tolerance_seconds: u64,
    attempts: Attempts,
    tasks: VecDeque<Task>,
    limits: Option<(usize, u64)>,
}

#[derive(Debug, Clone)]
enum Task {
    Parameters,
    /// Looks before anything is posted whether the relay's clock and this one agree: afterwards it would be too late.
    Head,
    Post,
    Continues(Box<(SignedHead, SignedHead)>),
}

const SIDE: Side = Side::First;

impl PostMachine {
    /// A machine for one relay. If its head is older than the tolerance, or from the future, nothing is posted.
    pub fn new(outbox: Outbox, known: KnownRelay, tolerance_seconds: u64, retries: Retries) -> Self {
        let tasks = [Task::Parameters, Task::Head, Task::Post].into();
        let attempts = Attempts::new(retries);
        Self { outbox, known, tolerance_seconds, attempts, tasks, limits: None }
    }

    /// The messages and their receipts: to be saved after every answer.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// What is known of the relay: to be saved with the outbox.
    pub fn known(&self) -> &KnownRelay {
        &self.known
    }

    /// What to do next.
    pub fn step(&mut self) -> Step {
        self.attempts.wait().map_or_else(|| self.request().into(), Step::Wait)
    }

    fn request(&self) -> Option<Request> {
        Some(match self.tasks.front()? {
            Task::Parameters => Request::new(SIDE, Method::Get, "/v1/parameters").accept(media::JSON),
            // Nothing is left to post.
            Task::Head if self.batch().is_empty() => return None,
            Task::Head => Request::new(SIDE, Method::Get, "/v1/head").accept(media::JSON),
            Task::Post => {
                let batch = PostBatch(self.batch().into_iter().cloned().collect());
                if batch.0.is_empty() {
                    return None;
                }
                let body = batch.to_body(self.outbox.parameters.id());
                Request::new(SIDE, Method::Post, "/v1/messages").accept(media::JSON).body(media::POST, body)
            }
            Task::Continues(heads) => heads::ask_consistency(SIDE, heads.0.count, heads.1.count),
        })
    }

    /// The next messages, as many as the relay takes at once.
    fn batch(&self) -> Vec<&PostMessage> {
        let (messages, bytes) = self.limits.unwrap_or((1, u64::MAX));
        let mut left = bytes.saturating_sub(Envelope::OVERHEAD_BYTES as u64 + 4);
        let mut batch = Vec::new();
        let waiting = self.outbox.messages.iter().filter(|(_, receipt)| receipt.is_none());
        for (message, _) in waiting.take(messages) {
            let size = (16 + message.clue.len() + 4 + message.payload.len()) as u64;
            if !batch.is_empty() && size > left {
                break;
            }
            left = left.saturating_sub(size);
            batch.push(message);
        }
        batch
    }

    /// Takes what became of the request of the last step. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`RelayError`]. The outbox keeps the receipts that it has; what it lacks can be posted again.
    pub fn respond(&mut self, reply: Reply, now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let Some(request) = self.request() else { return Ok(()) };
        let Some(response) = self.attempts.judge(reply, request.answer_bytes_max, rng)? else {
            return Ok(());
        };
        if response.status != 200 {
            return Err(response.refusal());
        }
        match self.tasks.front().cloned() {
            Some(Task::Parameters) => self.take_parameters(&response)?,
            Some(Task::Head) => {
                let head = response.json::<HeadStatus>("the head")?.signed();
                let verdict = self.known.check(
                    SIDE,
                    &head,
                    self.outbox.parameters.id(),
                    now,
                    self.tolerance_seconds,
                )?;
                self.tasks.pop_front();
                self.remember(verdict, head);
                return Ok(());
            }
            Some(Task::Post) => return self.take_receipts(&response, now),
            Some(Task::Continues(heads)) => {
                let (older, newer) = *heads;
                let proof = heads::read_consistency(&response.body)?;
                let verdict = newer.verify_continues(&older, &proof);
                verdict.map_err(|reason| inconsistent(SIDE, &older, &newer, reason))?;
                self.known.head = Some(newer);
            }
            None => {}
        }
        self.tasks.pop_front();
        Ok(())
    }

    fn take_parameters(&mut self, response: &Response) -> Result<(), RelayError> {
        let info: RelayInfo = response.json("the relay's parameters")?;
        check_board(SIDE, &info, &self.outbox.parameters)?;
        self.known.meet(SIDE, info.relay)?;
        let limit = u64::from(info.board.payload_bytes_max);
        let longest = self.outbox.messages.iter().map(|(message, _)| message.payload.len()).max();
        if let Some(found) = longest.filter(|found| *found as u64 > limit) {
            return Err(RelayError::PayloadBytes { found, limit });
        }
        let messages = info.limits.batch_messages.clamp(1, restante_wire::relay::MAX_BATCH);
        self.limits = Some((messages as usize, info.limits.batch_bytes));
        Ok(())
    }

    fn take_receipts(&mut self, response: &Response, now: u64) -> Result<(), RelayError> {
        let result: PostResult = response.json("the receipt")?;
        let head = result.head.signed();
        let verdict = self.known.check(SIDE, &head, self.outbox.parameters.id(), now, self.tolerance_seconds);
        let verdict = match verdict {
            Ok(verdict) => Some(verdict),
            // The messages are posted, and the head, whose signature holds, is evidence for that whatever the clocks say: a receipt
            // that is refused here would have the sender post them again. The head is not remembered.
            Err(RelayError::Stale { .. }) => None,
            // The receipt of a repeated request may come with a head that another answer has overtaken: the caller repeats it, and
            // nothing is posted twice, as the outbox has the ids.
            Err(error) => return Err(error),
        };
        let posted = self.batch().len();
        let counted = result.messages.iter().all(|message| message.index < head.count);
        if result.messages.len() != posted || !counted {
            return Err(RelayError::Receipt { posted, found: result.messages.len() });
        }
        let mut waiting = self.outbox.messages.iter_mut().filter(|(_, receipt)| receipt.is_none());
        for place in result.messages {
            let Some((message, receipt)) = waiting.next() else { break };
            *receipt = Some(Receipt { id: message.id, index: place.index, leaf: leaf_of(message), head });
        }
        if let Some(verdict) = verdict {
            self.remember(verdict, head);
        }
        Ok(())
    }

    fn remember(&mut self, verdict: Verdict, head: SignedHead) {
        match verdict {
            Verdict::Accepted => self.known.head = Some(head),
            Verdict::Continues(older) => self.tasks.push_front(Task::Continues(Box::new((older, head)))),
        }
    }
}
