//! Posting messages.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

use rand_core::CryptoRng;
use restante_clue::ClueParameters;
use restante_letter::{Address, LetterError, MAX_TEXT_BYTES, Message, PUBLIC_KEY_BYTES, open_file};
use restante_wire::{
    Decode, Encode, Envelope, Kind, Reader, WireError,
    binding::{BoardId, Period},
    merkle::Hash,
    relay::{HeadStatus, Hex, MessageId, PostBatch, PostMessage, PostResult, RelayInfo, SignedHead, media},
};
use zeroize::Zeroizing;

use super::{
    KnownRelay, Machine, Method, RelayError, Reply, Request, Response, Retries, Side, Step,
    checks::check_board,
    exchange::Attempts,
    heads::{self, Verdict, inconsistent},
};

/// Messages on their way to one relay's board: each with the id under which the relay takes it once, and with its receipt when it is there.
///
/// A message is bound to its board and its day. So it is made when the relay's board is known, and made anew, with a new id, when its
/// day has closed before it was posted. Until then text and address are kept here: the file is secret. They are wiped when the
/// message is posted.
///
/// Saved before the first attempt and after every answer, it makes sure that a message is posted once, whatever breaks.
#[derive(Clone, PartialEq, Eq)]
pub struct Outbox {
    parameters: ClueParameters,
    messages: Vec<Item>,
}

#[derive(Clone, PartialEq, Eq)]
enum Item {
    Waiting(Box<Waiting>),
    Posted(Box<Receipt>),
}

/// A message that is not known to be posted.
#[derive(Clone, PartialEq, Eq)]
struct Waiting {
    ticket: Hex<16>,
    address: Address,
    text: Zeroizing<Vec<u8>>,
    /// The message as it is posted, and the board that it was made for.
    made: Option<(BoardId, PostMessage)>,
}

impl Item {
    fn ticket(&self) -> Hex<16> {
        match self {
            Self::Waiting(waiting) => waiting.ticket,
            Self::Posted(receipt) => receipt.ticket,
        }
    }
}

impl Waiting {
    /// Makes what is posted, with a fresh id.
    fn make(&mut self, board: BoardId, day: Period, rng: &mut impl CryptoRng) -> Result<(), LetterError> {
        let sender = self.address.prepare();
        let Message { clue, payload } = sender.write_message(&board, day, &self.text, rng)?;
        let mut id = MessageId([0; 16]);
        rng.fill_bytes(&mut id.0);
        self.made = Some((board, PostMessage { id, clue, payload }));
        Ok(())
    }
}

/// A message that is not known to be posted.
#[derive(Debug, Clone, Copy)]
pub struct WaitingMessage<'a> {
    /// The ticket that [`Outbox::push`] gave for it.
    pub ticket: Hex<16>,
    /// Its recipient.
    pub to: &'a Address,
    /// The length of its text.
    pub text_bytes: usize,
    /// Whether it was made, so that a request with it may have reached the relay.
    pub may_be_posted: bool,
}

/// A relay's word that a message is on its board. The relay can be held to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The ticket that [`Outbox::push`] gave for it.
    pub ticket: Hex<16>,
    /// The id that it was posted with.
    pub id: MessageId,
    /// Its index.
    pub index: u64,
    /// Its leaf in the hash tree.
    pub leaf: Hash,
    /// A head that counts it.
    pub head: SignedHead,
}

impl Outbox {
    /// The version of the file format.
    pub const VERSION: u16 = 2;

    /// An outbox for a board with these clues.
    pub fn new(parameters: ClueParameters) -> Self {
        Self { parameters, messages: Vec::new() }
    }

    /// The clue parameters.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// Adds a message, and gives its ticket: a name of its own, which the id that it is posted with is not, as that changes when the
    /// message is made anew.
    ///
    /// # Errors
    ///
    /// [`LetterError::MessageTooLong`], and [`LetterError::Wire`] for an address of other clue parameters.
    pub fn push(
        &mut self,
        address: &Address,
        text: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<Hex<16>, LetterError> {
        let (found, expected) = (address.parameters().id(), self.parameters.id());
        if found != expected {
            return Err(WireError::WrongParameters { kind: Kind::Address, found, expected }.into());
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(LetterError::MessageTooLong { found: text.len() });
        }
        let (address, text) = (address.clone(), Zeroizing::new(text.to_vec()));
        let mut ticket = Hex([0; 16]);
        rng.fill_bytes(&mut ticket.0);
        self.messages.push(Item::Waiting(Box::new(Waiting { ticket, address, text, made: None })));
        Ok(ticket)
    }

    /// The tickets of all messages, posted or not, in the order of [`Outbox::push`].
    pub fn tickets(&self) -> Vec<Hex<16>> {
        self.messages.iter().map(Item::ticket).collect()
    }

    /// Adds what another outbox for the same board holds, but for the messages with these tickets: what others have put into its
    /// file while those were being posted from here.
    pub fn take_added(&mut self, stored: &Self, known: &[Hex<16>]) {
        let added = stored.messages.iter().filter(|item| !known.contains(&item.ticket()));
        self.messages.extend(added.cloned());
    }

    /// Messages that are not known to be posted.
    pub fn waiting(&self) -> usize {
        self.items().count()
    }

    /// The messages that are not known to be posted, in the order of [`Outbox::push`].
    pub fn waiting_messages(&self) -> impl Iterator<Item = WaitingMessage<'_>> {
        self.items().map(|waiting| WaitingMessage {
            ticket: waiting.ticket,
            to: &waiting.address,
            text_bytes: waiting.text.len(),
            may_be_posted: waiting.made.is_some(),
        })
    }

    /// Removes a message that is not known to be posted, and gives whether it was there. No [`PostMachine`] may be at work with it.
    pub fn remove(&mut self, ticket: &Hex<16>) -> bool {
        let before = self.messages.len();
        self.messages.retain(|item| matches!(item, Item::Posted(_)) || item.ticket() != *ticket);
        self.messages.len() < before
    }

    fn items(&self) -> impl Iterator<Item = &Waiting> {
        self.messages.iter().filter_map(|item| match item {
            Item::Waiting(waiting) => Some(&**waiting),
            Item::Posted(_) => None,
        })
    }

    fn items_mut(&mut self) -> impl Iterator<Item = &mut Waiting> {
        self.messages.iter_mut().filter_map(|item| match item {
            Item::Waiting(waiting) => Some(&mut **waiting),
            Item::Posted(_) => None,
        })
    }

    /// The receipts, in the order of [`Outbox::push`].
    pub fn receipts(&self) -> impl Iterator<Item = &Receipt> {
        self.messages.iter().filter_map(|item| match item {
            Item::Posted(receipt) => Some(&**receipt),
            Item::Waiting(_) => None,
        })
    }

    /// Removes the messages that are posted.
    pub fn take_receipts(&mut self) -> Vec<Receipt> {
        let receipts = self.receipts().copied().collect();
        self.messages.retain(|item| matches!(item, Item::Waiting(_)));
        receipts
    }

    /// The file: docs/format.md. It holds texts that are not posted yet.
    pub fn to_file(&self) -> Zeroizing<Vec<u8>> {
        // At once, so that no half-grown copy stays behind in memory.
        let texts: usize = self.items().map(|waiting| waiting.text.len()).sum();
        let frame = 256 + self.parameters.clue_key_bytes() + PUBLIC_KEY_BYTES + self.parameters.clue_bytes();
        let payloads = self.items().filter_map(|one| one.made.as_ref()).map(|(_, one)| one.payload.len());
        let capacity = texts + payloads.sum::<usize>() + self.messages.len() * frame;
        let mut body = Zeroizing::new(Vec::with_capacity(capacity + 4));
        body.extend_from_slice(&(self.messages.len() as u32).to_le_bytes());
        for item in &self.messages {
            match item {
                Item::Posted(receipt) => {
                    body.push(POSTED);
                    body.extend_from_slice(&receipt.ticket.0);
                    body.extend_from_slice(&receipt.id.0);
                    body.extend_from_slice(&receipt.index.to_le_bytes());
                    body.extend_from_slice(&receipt.leaf.0);
                    receipt.head.encode(&mut body);
                }
                Item::Waiting(waiting) => {
                    body.push(if waiting.made.is_some() { MADE } else { WRITTEN });
                    body.extend_from_slice(&waiting.ticket.0);
                    waiting.address.encode_body(&mut body);
                    body.extend_from_slice(&(waiting.text.len() as u32).to_le_bytes());
                    body.extend_from_slice(&waiting.text);
                    if let Some((board, message)) = &waiting.made {
                        body.extend_from_slice(&board.0);
                        body.extend_from_slice(&message.id.0);
                        body.extend_from_slice(&message.clue);
                        body.extend_from_slice(&(message.payload.len() as u32).to_le_bytes());
                        body.extend_from_slice(&message.payload);
                    }
                }
            }
        }
        let parameters = self.parameters.id();
        Zeroizing::new(
            Envelope { kind: Kind::Outbox, version: Self::VERSION, parameters, body: &body }.seal(),
        )
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`LetterError::Wire`], [`LetterError::UnknownParameters`], [`LetterError::InvalidPublicKey`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, LetterError> {
        let (parameters, body) = open_file(bytes, Kind::Outbox, Self::VERSION)?;
        let mut reader = Reader::new("outbox", body);
        let mut messages = Vec::new();
        for _ in 0..reader.u32()? {
            messages.push(match reader.u8()? {
                POSTED => Item::Posted(Box::new(Receipt {
                    ticket: Hex(reader.array()?),
                    id: MessageId(reader.array()?),
                    index: reader.u64()?,
                    leaf: Hash(reader.array()?),
                    head: SignedHead::decode(&parameters.id(), &mut reader)?,
                })),
                state @ (WRITTEN | MADE) => {
                    let ticket = Hex(reader.array()?);
                    let address = Address::decode_body(&parameters, &mut reader)?;
                    let text_bytes = reader.u32()? as usize;
                    let text = Zeroizing::new(reader.bytes(text_bytes)?.to_vec());
                    let made = match state {
                        MADE => {
                            let (board, id) = (BoardId(reader.array()?), MessageId(reader.array()?));
                            let clue = reader.bytes(parameters.clue_bytes())?.to_vec();
                            let payload_bytes = reader.u32()? as usize;
                            let payload = reader.bytes(payload_bytes)?.to_vec();
                            Some((board, PostMessage { id, clue, payload }))
                        }
                        _ => None,
                    };
                    Item::Waiting(Box::new(Waiting { ticket, address, text, made }))
                }
                found => {
                    let (what, expected) = ("state of a message", "0 to 2".into());
                    return Err(WireError::OutOfRange { what, found: found.into(), expected }.into());
                }
            });
        }
        reader.finish()?;
        Ok(Self { parameters, messages })
    }
}

const WRITTEN: u8 = 0;
const MADE: u8 = 1;
const POSTED: u8 = 2;

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("parameters", &self.parameters)
            .field("waiting", &self.waiting())
            .field("posted", &self.receipts().count())
            .finish_non_exhaustive()
    }
}

/// Posts what waits in an outbox.
///
/// The sizes of messages and their number show; so does when they are posted, and from where. A sender who minds posts at fixed times
/// and through a network that hides addresses.
///
/// ```no_run
/// # use rand_core::CryptoRng;
/// use restante_client::{Account, ClueParameters, relay::*};
///
/// # fn example<H: Host<Error = std::io::Error>>(
/// #     account: &Account, known: KnownRelay, host: &mut H, rng: &mut impl CryptoRng,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut outbox = Outbox::new(ClueParameters::STANDARD);
/// outbox.push(account.address(), b"meet at noon", rng)?;
/// let mut machine = PostMachine::new(outbox, known, 3600, Retries::default());
/// Driver::new().run(&mut machine, host, rng, |machine| std::fs::write("outbox",
/// machine.outbox().to_file()))?; for receipt in machine.outbox().receipts() {
///     println!("message {}", receipt.index);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PostMachine {
    outbox: Outbox,
    known: KnownRelay,
    tolerance_seconds: u64,
    attempts: Attempts,
    tasks: VecDeque<Task>,
    limits: Option<(usize, u64)>,
    payload_bytes_max: u64,
    /// The day of the newest head: what messages are made for.
    day: Period,
    /// Messages that were made anew because the board had their clue.
    barred: u32,
    /// Messages that cannot be posted, so that they do not keep back the others. They stay in the outbox.
    held: Vec<Hex<16>>,
    /// Why the first of them cannot.
    refusal: Option<RelayError>,
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
        Self {
            outbox,
            known,
            tolerance_seconds,
            attempts,
            tasks,
            limits: None,
            payload_bytes_max: 0,
            day: Period(0),
            barred: 0,
            held: Vec::new(),
            refusal: None,
        }
    }

    /// The messages and their receipts: to be saved after every answer.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The relay as it is known now: to be saved with the outbox.
    pub fn known(&self) -> &KnownRelay {
        &self.known
    }

    fn request(&self) -> Option<Request> {
        Some(match self.tasks.front()? {
            Task::Parameters => Request::new(SIDE, Method::Get, "/v1/parameters").accept(media::JSON),
            // Nothing is left to post.
            Task::Head if self.outbox.waiting() == 0 => return None,
            Task::Head => Request::new(SIDE, Method::Get, "/v1/head").accept(media::JSON),
            Task::Post => {
                let batch = PostBatch(self.batch().into_iter().map(|(_, message)| message.clone()).collect());
                if batch.0.is_empty() {
                    return None;
                }
                let body = batch.to_body(self.outbox.parameters.id());
                Request::new(SIDE, Method::Post, "/v1/messages").accept(media::JSON).body(media::POST, body)
            }
            Task::Continues(heads) => heads::ask_consistency(SIDE, heads.0.count, heads.1.count),
        })
    }

    /// The next messages, as many as the relay takes at once, each with its ticket.
    fn batch(&self) -> Vec<(Hex<16>, &PostMessage)> {
        let (messages, bytes) = self.limits.unwrap_or((1, u64::MAX));
        let mut left = bytes.saturating_sub(Envelope::OVERHEAD_BYTES as u64 + 4);
        let mut batch = Vec::new();
        let made = self.outbox.items().filter(|waiting| !self.held.contains(&waiting.ticket));
        let made = made.filter_map(|waiting| Some((waiting.ticket, &waiting.made.as_ref()?.1)));
        for (ticket, message) in made.take(messages) {
            let size = (16 + message.clue.len() + 4 + message.payload.len()) as u64;
            if !batch.is_empty() && size > left {
                break;
            }
            left = left.saturating_sub(size);
            batch.push((ticket, message));
        }
        batch
    }

    /// Goes on without a message that cannot be posted.
    fn hold(&mut self, ticket: Hex<16>, refusal: RelayError) {
        self.held.push(ticket);
        self.refusal.get_or_insert(refusal);
    }
}

impl Machine for PostMachine {
    fn step(&mut self) -> Step {
        self.attempts.wait().map_or_else(|| self.request().into(), Step::Wait)
    }

    /// As [`Machine::respond`] says.
    ///
    /// # Errors
    ///
    /// [`RelayError`]. The outbox keeps the receipts that it has; what it lacks can be posted again. What is wrong with one
    /// message alone is said when all others are posted.
    fn respond(&mut self, reply: Reply, now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let Some(request) = self.request() else { return Ok(()) };
        let Some(response) = self.attempts.judge(reply, request.answer_bytes_max, rng)? else {
            return Ok(());
        };
        self.take(&response, now, rng)?;
        let is_over = matches!(self.tasks.front(), Some(Task::Post)) && self.batch().is_empty();
        match self.refusal.take_if(|_| is_over) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }
}

impl PostMachine {
    fn take(&mut self, response: &Response, now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        if response.status != 200 {
            let refusal = response.refusal();
            return match (self.tasks.front(), refused_place(&refusal)) {
                (Some(Task::Post), Some(place)) => self.take_refusal(place, refusal, rng),
                _ => Err(refusal),
            };
        }
        match self.tasks.front().cloned() {
            Some(Task::Parameters) => self.take_parameters(response)?,
            Some(Task::Head) => {
                let head = response.json::<HeadStatus>("the head")?.signed();
                let verdict = self.known.check(
                    SIDE,
                    &head,
                    self.outbox.parameters.id(),
                    now,
                    self.tolerance_seconds.min(Period::LENGTH.as_secs()),
                )?;
                self.tasks.pop_front();
                self.day = Period::of(head.time);
                self.remember(verdict, head);
                return self.make(head.board, rng);
            }
            Some(Task::Post) => return self.take_receipts(response, now),
            Some(Task::Continues(heads)) => {
                let (older, newer) = *heads;
                let proof = heads::read_consistency(&response.body)?;
                let verdict = newer.verify_continues(&older, &proof);
                verdict.map_err(|reason| inconsistent(SIDE, &older, &newer, reason))?;
                self.known.accept(newer);
            }
            None => {}
        }
        self.tasks.pop_front();
        Ok(())
    }

    fn take_parameters(&mut self, response: &Response) -> Result<(), RelayError> {
        let info: RelayInfo = response.json("the relay's parameters")?;
        check_board(SIDE, &info, &self.outbox.parameters)?;
        self.known.meet(SIDE, &info)?;
        let messages = info.limits.batch_messages.clamp(1, restante_wire::relay::MAX_BATCH);
        self.limits = Some((messages as usize, info.limits.batch_bytes));
        self.payload_bytes_max = info.board.payload_bytes_max.into();
        Ok(())
    }

    /// Makes what waits, for the board that the relay's signed head is of: parameters are not signed, and a message for a board that
    /// somebody on the way has named would be lost. The day is the head's, too: the machine's own would tell readers of the board
    /// that its clock is before or behind midnight.
    fn make(&mut self, relays: BoardId, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        // A batch holds one message at least.
        let frame = Envelope::OVERHEAD_BYTES + 4 + 16 + self.outbox.parameters.clue_bytes() + 4;
        let room = self.limits.map_or(u64::MAX, |(_, bytes)| bytes.saturating_sub(frame as u64));
        let (day, limit) = (self.day, self.payload_bytes_max.min(room));
        let mut held = Vec::new();
        for waiting in self.outbox.items_mut() {
            match &waiting.made {
                Some((board, _)) if *board != relays => {
                    let error = RelayError::OtherBoard { side: SIDE, found: relays, expected: *board };
                    held.push((waiting.ticket, error));
                    continue;
                }
                Some(_) => {}
                None => waiting.make(relays, day, rng)?,
            }
            let found = waiting.made.as_ref().map_or(0, |(_, message)| message.payload.len());
            if found as u64 > limit {
                held.push((waiting.ticket, RelayError::PayloadBytes { found, limit }));
            }
        }
        held.into_iter().for_each(|(ticket, error)| self.hold(ticket, error));
        Ok(())
    }

    /// Goes on after a refusal of one message of the batch. It is made anew if its day is closed, or the board has its clue: ids come
    /// first, so it is one that the relay does not have, and the clue is another message's, of somebody who saw this one on its way.
    fn take_refusal(
        &mut self,
        place: usize,
        refusal: RelayError,
        rng: &mut impl CryptoRng,
    ) -> Result<(), RelayError> {
        let Some((ticket, _)) = self.batch().get(place).copied() else { return Err(refusal) };
        let day = self.day;
        let Some(waiting) = self.outbox.items_mut().find(|waiting| waiting.ticket == ticket) else {
            return Err(refusal);
        };
        let Some((board, message)) = &waiting.made else { return Err(refusal) };
        let board = *board;
        match &refusal {
            // Another one made now would be refused, too.
            RelayError::Refused { code, detail, .. }
                if code == CLOSED && Period::of_clue(&message.clue) == Some(day) =>
            {
                return Err(RelayError::Clock { period: day.0, detail: detail.clone() });
            }
            RelayError::Refused { code, .. } if code == CLOSED => waiting.make(board, day, rng)?,
            RelayError::Refused { code, .. } if code == DUPLICATE && self.barred < BARRED_MAX => {
                self.barred += 1;
                waiting.make(board, day, rng)?;
            }
            _ => self.hold(ticket, refusal),
        }
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
        let batch: Vec<Hex<16>> = self.batch().into_iter().map(|(ticket, _)| ticket).collect();
        let posted = batch.len();
        let counted = result.messages.iter().all(|message| message.index < head.count);
        if result.messages.len() != posted || !counted {
            return Err(RelayError::Receipt { posted, found: result.messages.len() });
        }
        let places: HashMap<Hex<16>, u64> =
            batch.into_iter().zip(result.messages.iter().map(|message| message.index)).collect();
        for item in &mut self.outbox.messages {
            let Item::Waiting(waiting) = item else { continue };
            let Some((&index, (_, message))) = places.get(&waiting.ticket).zip(waiting.made.as_ref()) else {
                continue;
            };
            let (ticket, id, leaf) = (waiting.ticket, message.id, message.leaf());
            *item = Item::Posted(Box::new(Receipt { ticket, id, index, leaf, head }));
        }
        if let Some(verdict) = verdict {
            self.day = Period::of(head.time);
            self.remember(verdict, head);
        }
        Ok(())
    }

    fn remember(&mut self, verdict: Verdict, head: SignedHead) {
        match verdict {
            Verdict::Accepted => self.known.accept(head),
            Verdict::Continues(older) => self.tasks.push_front(Task::Continues(Box::new((older, head)))),
        }
    }
}

/// Codes of refusals of a clue.
const CLOSED: &str = "period";
const DUPLICATE: &str = "duplicate";
/// The most messages that a machine makes anew because of [`DUPLICATE`]: whoever can bar every message can also drop it.
const BARRED_MAX: u32 = 16;

/// The place in the batch of the one message that a refusal is about.
fn refused_place(refusal: &RelayError) -> Option<usize> {
    let RelayError::Refused { field: Some(field), .. } = refusal else { return None };
    let (place, _) = field.strip_prefix("body:messages[")?.split_once("].")?;
    place.parse().ok()
}
