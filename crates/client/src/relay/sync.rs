//! Finding and reading mail: one round of a fixed schedule.
//!
//! A round asks for the relays' parameters and heads, checks that the heads continue the remembered ones and each other, and
//! then, as configured,
//!
//! * reads every new message, clue and payload, checks the page against the head, and tests the clues itself ([`Delivery::Whole`]); or
//! * takes digests from the first relay, and fetches a fixed number of records privately from both ([`Delivery::Private`]); or
//! * has the first relay make compact digests, which hold the messages themselves ([`Delivery::Compact`]).
//!
//! **What is sent follows from public things alone**: the configuration, the heads, the lists of epochs, the lengths of answers, the
//! cursors (which follow from those), and failures of the network. Nothing that the client decrypts has an influence, not even that
//! something does not decrypt: a relay could otherwise change a ciphertext or a record and see from the reaction what was in it.
//!
//! **When it is sent does not either.** Between two requests answers are checked, which takes the same for everybody, and kept as they
//! came. They are read when the round's last request is answered ([`SyncMachine::finish`], in `reading.rs`). What is kept until then is
//! bounded by [`Bounds`], in bytes, messages and answers that everybody in the client's place gets; a round that has reached its bounds
//! ends, and the next one goes on. The one thing that is decrypted in between are stream digests, as a query for what they name has to
//! follow: all blocks of them at one place in the round, with the same work whatever is in them.

mod compact;
mod fetch;
mod own;
mod reading;
mod settings;
mod state;

use std::{collections::VecDeque, fmt, ops::Range, time::Duration};

use rand_core::CryptoRng;
use restante_omr::{
    OmrError,
    stream::{DetectionKey, StreamDigest},
};
use restante_pir::fetch::MAX_FETCHES;
use restante_wire::{
    binding::Period,
    merkle::ConsistencyProof,
    relay::{DigestKind, DigestList, EpochList, EpochStatus, HeadStatus, Page, RelayInfo, SignedHead, media},
};
use zeroize::Zeroizing;

use self::{
    compact::JobTask,
    fetch::Fetch,
    own::OwnMessages,
    reading::{Digest, Kept},
};
use super::{
    Machine, Method, RelayError, Reply, Request, Response, Side, Step,
    checks::{check_board, check_digests, check_epochs, check_fetch},
    exchange::Attempts,
    heads::{self, Verdict, inconsistent},
};
use crate::{Account, AnyDetection};

pub use self::{
    reading::{Finished, Work},
    settings::{Again, Bounds, Compact, Delivery, Outcome, Private, Received, SyncConfig, Tail},
    state::SyncState,
};

/// One round.
///
/// ```no_run
/// # use rand_core::CryptoRng;
/// use restante_client::{Account, AnyDetection, Detection, relay::*};
///
/// # fn example<H: Host<Error = std::io::Error>>(
/// #     account: &Account, detection: &Detection, mut state: SyncState, host: &mut H, rng: &mut impl
/// CryptoRng,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let config = SyncConfig::new(Delivery::Private(Private { fetches: 32, tail: Tail::Wait }));
/// let mut driver = Driver::new();
/// let mut schedule = Schedule::every(host.clock(), std::time::Duration::from_secs(60));
/// loop {
///     let mut machine = SyncMachine::new(account, AnyDetection::Stream(detection), config, state)?;
///     let ended = driver.run(&mut machine, host, rng, |_| Ok(()));
///     // When the next round begins is fixed before anything is read.
///     let arrival = driver.arrival().unwrap_or_default();
///     let next = schedule.next(arrival, machine.outcome().unfinished);
///     let finished = machine.finish(rng);
///     finished.save(
///         |round, letters| std::fs::write(format!("letters-{round}"), format!("{}", letters.len())),
///         |state| std::fs::write("state", state.to_file()),
///     )?;
///     state = finished.state;
///     // Only now is it looked at whether the round failed; what may pass is tried again in the next.
///     match (ended, next) {
///         (Err(Stopped::Relay(error)), Some(_)) if error.is_retryable() => eprintln!("{error}"),
///         (ended, _) => ended?,
///     }
///     let Some(next) = next else { break };
///     wait_until(host, next);
/// }
/// # Ok(())
/// # }
/// ```
pub struct SyncMachine<'a> {
    account: &'a Account,
    detection: AnyDetection<'a>,
    config: SyncConfig,
    /// The state that the round ends with. Its cursors follow the answers that have come; what those hold is not in it yet.
    state: SyncState,
    attempts: Attempts,
    /// The time that the relay is given to work on a digest before it is asked again.
    pause: Option<Duration>,
    polls: u32,
    restarts: u32,
    jobs: u32,
    tasks: VecDeque<Task>,
    infos: [Option<RelayInfo>; 2],
    epochs: [Vec<EpochStatus>; 2],
    /// Index of the first message that the first relay still has.
    retained_from: u64,
    /// The first relay's head that the round began with.
    before: Option<SignedHead>,
    fetch: Option<Fetch>,
    /// Stream digests that have come and are not decrypted.
    digests: Vec<Digest>,
    /// The messages that decrypted digests add to the backlog, ascending. They are apart from that, so that
    /// no long list is copied between two requests.
    found: Zeroizing<Vec<u64>>,
    /// Everything else that has come and is not read.
    kept: Vec<Kept>,
    /// How much that is.
    kept_answers: u32,
    kept_messages: u64,
    kept_bytes: u64,
    received: Vec<Received>,
    outcome: Outcome,
    work: Work,
    /// The messages of this round alone.
    own_of_round: OwnMessages,
}

/// A step of a round.
enum Task {
    Ask(Ask),
    Local(Local),
}

/// A step that takes a request.
enum Ask {
    Parameters(Side),
    Head(Side),
    Continues { side: Side, older: Box<SignedHead>, newer: Box<SignedHead> },
    Agreement { side: Side, shorter: Box<SignedHead>, longer: Box<SignedHead> },
    Epochs(Side),
    Pages(Range<u64>),
    Digests { end: u64 },
    EpochHeader,
    Query(Side),
    Job(JobTask),
}

/// A step that takes none.
enum Local {
    /// Compares the two relays' heads.
    Agree,
    /// Decides what comes next, now that heads and epochs are known.
    Plan,
    /// A page whose head is accepted.
    KeepPage { page: Box<Page>, asked: Range<u64> },
    /// Both answers to a query are there.
    KeepRecords,
    /// Decides on the next compact digest of the round, whose board has so many messages.
    NextJob { end: u64 },
    /// Reads what no epoch holds.
    ReadTail,
}

impl From<Ask> for Task {
    fn from(ask: Ask) -> Self {
        Self::Ask(ask)
    }
}

impl From<Local> for Task {
    fn from(local: Local) -> Self {
        Self::Local(local)
    }
}

impl<'a> SyncMachine<'a> {
    /// A round that goes on from `state`. Private and compact delivery need the detection key that is registered at the first relay.
    ///
    /// # Errors
    ///
    /// [`RelayError::Configuration`] for settings that contradict each other, and for a state that is another account's.
    pub fn new(
        account: &'a Account,
        detection: AnyDetection<'a>,
        config: SyncConfig,
        mut state: SyncState,
    ) -> Result<Self, RelayError> {
        state.claim(account)?;
        let tasks = first_tasks(&config, needs_second(&config, detection, &state)?);
        Ok(Self {
            account,
            detection,
            config,
            before: state.relays[0].head,
            state,
            attempts: Attempts::new(config.retries),
            pause: None,
            polls: 0,
            restarts: 0,
            jobs: 0,
            tasks,
            infos: [None, None],
            epochs: [Vec::new(), Vec::new()],
            retained_from: 0,
            fetch: None,
            digests: Vec::new(),
            found: Zeroizing::default(),
            kept: Vec::new(),
            kept_answers: 0,
            kept_messages: 0,
            kept_bytes: 0,
            received: Vec::new(),
            outcome: Outcome::default(),
            work: Work::default(),
            own_of_round: OwnMessages::default(),
        })
    }

    /// The outcome so far: its public part, until the round is finished.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// How much has been decrypted so far.
    pub fn work(&self) -> Work {
        self.work
    }

    fn request(&self) -> Option<Request> {
        let get = |side, path: &str| Request::new(side, Method::Get, path).accept(media::JSON);
        let Some(Task::Ask(ask)) = self.tasks.front() else { return None };
        Some(match ask {
            Ask::Parameters(side) => get(*side, "/v1/parameters"),
            Ask::Head(side) => get(*side, "/v1/head"),
            Ask::Continues { side, older, newer } => heads::ask_consistency(*side, older.count, newer.count),
            Ask::Agreement { side, shorter, longer } => {
                heads::ask_consistency(*side, shorter.count, longer.count)
            }
            Ask::Epochs(side) => get(*side, "/v1/epochs"),
            Ask::Pages(range) => {
                let Range { start, end } = self.page_range(range);
                let path = format!("/v1/messages?first={start}&end={end}");
                let request = Request::new(Side::First, Method::Get, path).accept(media::PAGE);
                request.at_most(self.page_bytes_max())
            }
            Ask::Digests { .. } => {
                let registration = self.state.registration(DigestKind::Stream)?;
                let path = registration.path(&format!("/digests?first={}", self.state.complete_to));
                let request = Request::new(Side::First, Method::Get, path).accept(media::DIGESTS);
                request.token(registration.token()).at_most(self.config.answer_bytes_max)
            }
            Ask::EpochHeader => self.fetch.as_ref()?.ask_header(),
            Ask::Query(side) => self.fetch.as_ref()?.ask(*side),
            Ask::Job(task) => self.ask_for_job(task)?,
        })
    }

    fn page_bytes_max(&self) -> u64 {
        // The head, the proof of at most 128 hashes, and the frame.
        const FRAME_BYTES: u64 = 8 << 10;
        let info = self.infos[0].as_ref();
        let bytes = info.map_or(0, |info| {
            let longest = u64::from(info.board.clue_bytes) + 4 + u64::from(info.board.payload_bytes_max);
            info.limits.page_bytes.max(longest)
        });
        bytes.saturating_add(FRAME_BYTES).min(self.config.answer_bytes_max)
    }

    /// The messages to ask for next of a range: no more than the round has room for.
    fn page_range(&self, range: &Range<u64>) -> Range<u64> {
        let room = self.config.bounds.messages.saturating_sub(self.kept_messages).max(1);
        range.start..range.end.min(range.start.saturating_add(room))
    }

    /// Counts an answer whose contents are kept.
    fn count(&mut self, messages: u64, response: &Response) {
        self.kept_answers += 1;
        self.kept_messages = self.kept_messages.saturating_add(messages);
        self.kept_bytes = self.kept_bytes.saturating_add(response.body.len() as u64);
    }

    /// Whether nothing more may be kept in this round.
    fn is_full(&self) -> bool {
        let Bounds { answers, messages, bytes } = self.config.bounds;
        self.kept_answers >= answers || self.kept_messages >= messages || self.kept_bytes >= bytes
    }
}

impl Machine for SyncMachine<'_> {
    fn step(&mut self) -> Step {
        if let Some(wait) = self.attempts.wait().or_else(|| self.pause.take()) {
            return Step::Wait(wait);
        }
        match self.request() {
            Some(request) => Step::Ask(Request { pace: self.config.pace, ..request }),
            None => Step::Done,
        }
    }

    /// As [`Machine::respond`] says.
    ///
    /// # Errors
    ///
    /// [`RelayError`]: the round's requests are over. What came before is not lost: [`SyncMachine::finish`].
    fn respond(&mut self, reply: Reply, now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let Some(request) = self.request() else { return Ok(()) };
        let judged = self.attempts.judge(reply, request.answer_bytes_max, rng);
        if let (Err(RelayError::TooLong { .. }), Some(Task::Ask(Ask::Job(_)))) = (&judged, self.tasks.front())
        {
            // The next round orders another.
            self.state.job = None;
        }
        let Some(response) = judged? else { return Ok(()) };
        let Some(Task::Ask(ask)) = self.tasks.pop_front() else { return Ok(()) };
        let fetching = matches!(ask, Ask::EpochHeader | Ask::Query(_));
        if fetching && response.status == 404 {
            // The list of epochs was older than their end: nothing to do with what is wanted from it.
            self.outcome.epoch_gone = true;
            self.fetch = None;
            self.tasks.retain(|task| matches!(task, Task::Local(Local::ReadTail)));
        } else if response.status != 200 && !matches!(ask, Ask::Job(_)) {
            self.tasks.push_front(ask.into());
            let has_token = request.relay == Side::First && request.authorization.is_some();
            return Err(if has_token { response.refusal_of_token() } else { response.refusal() });
        } else {
            self.take(ask, &response, now, rng)?;
        }
        while let Some(local) = self.next_local() {
            self.settle(local)?;
        }
        let counted = self.state.relays[0].head.map_or(0, |head| head.count);
        self.outcome.behind = counted.saturating_sub(self.state.complete_to);
        Ok(())
    }
}

impl SyncMachine<'_> {
    /// Takes the answer to a task's request.
    fn take(
        &mut self,
        ask: Ask,
        response: &Response,
        now: u64,
        rng: &mut impl CryptoRng,
    ) -> Result<(), RelayError> {
        match ask {
            Ask::Parameters(side) => {
                let info: RelayInfo = response.json("the relay's parameters")?;
                check_board(side, &info, self.account.parameters())?;
                self.outcome.first_use[side.index()] = self.state.relays[side.index()].meet(side, &info)?;
                self.infos[side.index()] = Some(info);
            }
            Ask::Head(side) => {
                let status: HeadStatus = response.json("the head")?;
                if side == Side::First {
                    self.retain(status.retained_from)?;
                }
                self.meet(side, &status.signed(), now)?;
            }
            Ask::Continues { side, older, newer } => {
                let proof = heads::read_consistency(&response.body)?;
                let verdict = newer.verify_continues(&older, &proof);
                verdict.map_err(|reason| inconsistent(side, &older, &newer, reason))?;
                self.state.relays[side.index()].accept(*newer);
            }
            Ask::Agreement { shorter, longer, .. } => {
                let proof = heads::read_consistency(&response.body)?;
                agree(shorter, longer, &proof)?;
            }
            Ask::Epochs(side) => {
                let list: EpochList = response.json("the list of epochs")?;
                self.epochs[side.index()] = check_epochs(side, list.epochs)?;
            }
            Ask::Pages(range) => self.take_page(range, response, now)?,
            Ask::Digests { end } => self.take_digests(end, response)?,
            Ask::EpochHeader => {
                self.decrypt_digests();
                if let Some(fetch) = &mut self.fetch {
                    fetch.take_header(response, [&self.state.backlog, &self.found], rng)?;
                }
            }
            Ask::Query(side) => {
                if let Some(fetch) = &mut self.fetch {
                    fetch.take_answer(side, response)?;
                }
            }
            Ask::Job(task) => self.take_job(task, response)?,
        }
        Ok(())
    }

    /// Takes note of what the first relay has forgotten, if it is nothing that the client has not read.
    fn retain(&mut self, retained_from: u64) -> Result<(), RelayError> {
        let complete_to = self.state.complete_to;
        if retained_from > complete_to {
            return Err(RelayError::Forgotten { complete_to, retained_from });
        }
        self.retained_from = retained_from;
        Ok(())
    }

    /// Takes the next step, if it needs no request.
    fn next_local(&mut self) -> Option<Local> {
        match self.tasks.pop_front()? {
            Task::Local(local) => Some(local),
            ask => {
                self.tasks.push_front(ask);
                None
            }
        }
    }

    /// Does what takes no request.
    fn settle(&mut self, local: Local) -> Result<(), RelayError> {
        match local {
            Local::Agree => {
                let [Some(first), Some(second)] = self.state.relays.map(|relay| relay.head) else {
                    return Ok(());
                };
                self.same_board()?;
                let (side, shorter, longer) = if first.count >= second.count {
                    (Side::First, Box::new(second), Box::new(first))
                } else {
                    (Side::Second, Box::new(first), Box::new(second))
                };
                if shorter.count == longer.count || shorter.count == 0 {
                    return agree(shorter, longer, &heads::no_proof()?);
                }
                self.tasks.push_front(Ask::Agreement { side, shorter, longer }.into());
            }
            Local::Plan => self.plan()?,
            Local::KeepPage { page, asked } => self.keep_page(*page, asked)?,
            Local::KeepRecords => self.keep_records(),
            Local::NextJob { end } => self.next_job(end)?,
            // Where digests end at the round's bounds, the tail is not known yet.
            Local::ReadTail if self.outcome.unfinished => {}
            Local::ReadTail => {
                let end = self.state.relays[0].head.map_or(0, |head| head.count);
                self.push_pages(self.state.fetched_to.max(self.retained_from)..end);
            }
        }
        Ok(())
    }

    fn push_pages(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.tasks.push_back(Ask::Pages(range).into());
        }
    }

    /// Plans what follows heads and epochs. It depends on nothing else but the cursors, which are public too.
    fn plan(&mut self) -> Result<(), RelayError> {
        let counts = self.state.relays.map(|relay| relay.head.map_or(0, |head| head.count));
        match self.config.delivery {
            Delivery::Whole { .. } => self.push_pages(self.state.complete_to..counts[0]),
            Delivery::Range { first, end } => {
                self.push_pages(first.max(self.retained_from)..end.min(counts[0]));
            }
            Delivery::Compact(_) => self.tasks.push_front(Local::NextJob { end: counts[0] }.into()),
            Delivery::Private(private) => self.plan_private(private, counts)?,
        }
        Ok(())
    }

    /// Digests up to the board's end or the newest epoch's, and a query to that.
    fn plan_private(&mut self, private: Private, counts: [u64; 2]) -> Result<(), RelayError> {
        let ([Some(first), Some(second)], AnyDetection::Stream(detection)) = (&self.infos, self.detection)
        else {
            return Err(RelayError::Configuration("private delivery needs two relays and a detection key"));
        };
        let (kind, context) = (DigestKind::Stream, detection.context());
        let key_bytes = DetectionKey::file_bytes(context) as u64;
        check_digests(Side::First, first, kind, context.id(), key_bytes)?;
        let (info, server) = check_fetch([first, second])?;
        let longest = u64::from(first.board.clue_bytes) + 4 + u64::from(first.board.payload_bytes_max);
        self.outcome.short_records = u64::from(info.record_bytes) < longest;

        let common = self.epochs[0].iter().filter(|epoch| {
            self.epochs[1].contains(epoch)
                && epoch.record_bytes == info.record_bytes
                && epoch.first < epoch.complete_to
                && epoch.complete_to <= counts[0].min(counts[1])
        });
        let epoch = common.max_by_key(|epoch| (epoch.complete_to, epoch.epoch)).cloned();
        self.outcome.epoch_end = epoch.as_ref().map(|epoch| epoch.complete_to);
        self.outcome.epoch_seconds = info.seconds;
        let epoch_end = self.outcome.epoch_end.unwrap_or(0);
        if let Some(epoch) = &epoch {
            self.push_pages(self.state.fetched_to.max(self.retained_from)..epoch.first);
        }
        let end = match private.tail {
            Tail::Wait => counts[0],
            Tail::Read => epoch_end,
        };
        if self.state.complete_to < end {
            self.tasks.push_back(Ask::Digests { end }.into());
        }
        if let Some(epoch) = epoch {
            let windows = (epoch_end / info.messages).saturating_sub(self.state.fetched_to / info.messages);
            let fetches = u64::from(private.fetches).saturating_mul(windows.saturating_add(1));
            let fetches = fetches.min(MAX_FETCHES as u64) as usize;
            self.fetch = Some(Fetch::new(epoch, server, fetches));
            self.tasks.extend([
                Ask::EpochHeader.into(),
                Ask::Query(Side::First).into(),
                Ask::Query(Side::Second).into(),
                Local::KeepRecords.into(),
            ]);
        }
        if private.tail == Tail::Read {
            self.tasks.push_back(Local::ReadTail.into());
        }
        Ok(())
    }

    /// Accepts a head, or asks for the proof that it continues the remembered one.
    fn meet(&mut self, side: Side, head: &SignedHead, now: u64) -> Result<(), RelayError> {
        let relay = &mut self.state.relays[side.index()];
        let parameters = self.account.parameters().id();
        match relay.check(side, head, parameters, now, self.config.tolerance_seconds)? {
            Verdict::Accepted => relay.accept(*head),
            Verdict::Continues(older) => {
                let (older, newer) = (Box::new(older), Box::new(*head));
                self.tasks.push_front(Ask::Continues { side, older, newer }.into());
            }
        }
        Ok(())
    }

    fn take_page(&mut self, asked: Range<u64>, response: &Response, now: u64) -> Result<(), RelayError> {
        let parameters = self.account.parameters();
        let page = Page::from_body(parameters.id(), parameters.clue_bytes(), &response.body)?;
        let Range { start: first, end } = self.page_range(&asked);
        if page.first != first || page.messages.is_empty() || page.end() > end {
            let (found_first, found_end) = (page.first, page.end());
            return Err(RelayError::PageRange { found_first, found_end, first, end });
        }
        // The page comes first, its head's proof before it: the board may have grown since the head was asked for.
        self.count(page.messages.len() as u64, response);
        let head = page.head;
        self.tasks.push_front(Local::KeepPage { page: Box::new(page), asked }.into());
        let known = self.state.relays[0].head;
        if known.is_none_or(|known| (known.count, known.root) != (head.count, head.root)) {
            self.meet(Side::First, &head, now)?;
        }
        Ok(())
    }

    /// Keeps a page, and goes on behind it.
    fn keep_page(&mut self, page: Page, asked: Range<u64>) -> Result<(), RelayError> {
        page.verify().map_err(|reason| RelayError::Page { first: page.first, reason })?;
        self.check_periods(&page)?;
        let (first, end) = (page.first, page.end());
        // A range that was asked for may begin behind the cursors, which know nothing of what is in between.
        let state = &mut self.state;
        for cursor in [&mut state.complete_to, &mut state.fetched_to, &mut state.looked_to] {
            if first <= *cursor {
                *cursor = end.max(*cursor);
            }
        }
        self.kept.push(Kept::Page(page));
        self.outcome.read_to = end;
        if end < asked.end && self.is_full() {
            // What would come behind the pages presumes that they are there.
            self.outcome.unfinished = true;
            self.tasks.clear();
        } else if end < asked.end {
            self.tasks.push_front(Ask::Pages(end..asked.end).into());
        }
        Ok(())
    }

    /// Refuses pages on which a message comes after its period has closed, or before it has begun by the time that the relay signed.
    /// It follows from what everybody sees.
    fn check_periods(&mut self, page: &Page) -> Result<(), RelayError> {
        let mut latest = self.state.pages.filter(|(end, _)| *end == page.first).map(|(_, latest)| latest);
        for (index, message) in (page.first..).zip(&page.messages) {
            let period = Period::of_clue(&message.clue).unwrap_or(Period(0));
            let least = latest.map_or(Period(0), Period::oldest_open);
            let most = Period::latest_at(page.head.time);
            if period < least || period > most {
                let (found, least, most) = (period.0, least.0, most.0);
                return Err(RelayError::Period { index, found, least, most });
            }
            latest = latest.max(Some(period));
        }
        self.state.pages = latest.map(|latest| (page.end(), latest));
        Ok(())
    }

    /// Checks that both relays have one board.
    fn same_board(&self) -> Result<(), RelayError> {
        match self.state.relays.map(|relay| relay.board) {
            [Some(first), Some(second)] if first != second => {
                Err(RelayError::unexpected(Side::Second, "board", second, first))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the digests of an answer, and moves the cursor to where they end. Errors are those that do not depend on what only the
    /// client can decrypt.
    fn take_digests(&mut self, end: u64, response: &Response) -> Result<(), RelayError> {
        let AnyDetection::Stream(detection) = self.detection else { return Ok(()) };
        let complete_to = response.complete_to()?;
        let files = DigestList::from_body(detection.context().id(), &response.body)?.0;
        let start = self.state.complete_to;
        let mut covered = start;
        let mut digests = Vec::new();
        for file in files {
            let digest = StreamDigest::from_file(detection.context(), &file)?;
            if digest.key() != detection.key_id() {
                let (found, expected) = (digest.key().to_string(), detection.key_id().to_string());
                return Err(OmrError::ForeignDigest { found, expected }.into());
            }
            let range = digest.first()..digest.first().saturating_add(digest.count());
            if range.start > covered {
                return Err(RelayError::DigestGap { found: range.start, expected: covered });
            }
            if range.end <= covered {
                continue;
            }
            digests.push(Digest { digest, fresh: covered..range.end });
            covered = range.end;
        }
        if covered < complete_to {
            return Err(RelayError::DigestGap { found: covered, expected: complete_to });
        }
        // Beyond the signed head nothing is known to be on the board: the next round looks there again.
        let limit = covered.min(end).max(start);
        digests.iter_mut().for_each(|one| one.fresh.end = one.fresh.end.min(limit));
        self.digests.extend(digests);
        self.count(0, response);
        self.state.complete_to = limit;
        // A second look is for compact digests; those from before may have left something to look at.
        if self.state.looked_to >= start {
            self.state.looked_to = limit;
        }
        if start < limit && limit < end {
            if self.is_full() {
                self.outcome.unfinished = true
            } else {
                self.tasks.push_front(Ask::Digests { end }.into())
            }
        }
        Ok(())
    }

    /// Keeps both answers to the query. The cursor moves whatever is in them: what could not be fetched stays in the backlog.
    fn keep_records(&mut self) {
        let Some(fetch) = self.fetch.take() else { return };
        self.state.fetched_to = self.state.fetched_to.max(fetch.range().end.min(self.state.complete_to));
        self.kept.push(Kept::Records(Box::new(fetch)));
    }
}

impl fmt::Debug for SyncMachine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncMachine").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Checks that a delivery has what it needs, and says whether that includes a second relay.
fn needs_second(
    config: &SyncConfig,
    detection: AnyDetection<'_>,
    state: &SyncState,
) -> Result<bool, RelayError> {
    let registered = |kind| state.registration(kind).is_some_and(|one| one.is_complete());
    let (second, demands) = match config.delivery {
        Delivery::Whole { second } => (second, vec![]),
        Delivery::Range { .. } => (false, vec![]),
        Delivery::Private(private) => {
            let key = state.registration(DigestKind::Stream).map(|one| one.key().0);
            let has_key = registered(DigestKind::Stream)
                && matches!(detection, AnyDetection::Stream(one) if Some(one.key_id().0) == key);
            let demands = vec![
                (has_key, "private delivery needs a registered detection key"),
                ((1..=MAX_FETCHES as u32).contains(&private.fetches), "there are 1 to 1024 fetches"),
            ];
            (true, demands)
        }
        Delivery::Compact(compact) => {
            let has_key = matches!(detection, AnyDetection::Compact(_)) && registered(DigestKind::Compact);
            (compact.second, vec![(has_key, "compact delivery needs a registered compact detection key")])
        }
    };
    if let Some((_, demand)) = demands.into_iter().find(|(met, _)| !met) {
        return Err(RelayError::Configuration(demand));
    }
    if let Delivery::Compact(compact) = config.delivery {
        compact.check()?;
    }
    Ok(second)
}

/// The first steps of a round.
fn first_tasks(config: &SyncConfig, both: bool) -> VecDeque<Task> {
    let mut tasks = VecDeque::from([Ask::Parameters(Side::First).into()]);
    if both {
        tasks.push_back(Ask::Parameters(Side::Second).into());
    }
    tasks.push_back(Ask::Head(Side::First).into());
    if both {
        tasks.extend([Ask::Head(Side::Second).into(), Local::Agree.into()]);
    }
    if matches!(config.delivery, Delivery::Private(_)) {
        tasks.extend([Ask::Epochs(Side::First).into(), Ask::Epochs(Side::Second).into()]);
    }
    tasks.push_back(Local::Plan.into());
    tasks
}

/// Checks that of two relays' boards one begins with the other.
fn agree(
    shorter: Box<SignedHead>,
    longer: Box<SignedHead>,
    proof: &ConsistencyProof,
) -> Result<(), RelayError> {
    longer.verify_continues(&shorter, proof).map_err(|reason| RelayError::Fork { shorter, longer, reason })
}
