//! Meeting a relay: its key, its board, how many messages that has, and where those of a day begin.

use rand_core::CryptoRng;
use restante_clue::ClueParameters;
use restante_wire::{
    binding::Period,
    relay::{HeadStatus, Page, RelayInfo, SignedHead, media},
};

use super::{
    KnownRelay, Machine, Method, RelayError, Reply, Request, Response, Retries, Side, Step,
    checks::check_board,
    exchange::Attempts,
    heads::{self, Verdict, inconsistent},
};

/// Asks a relay for its parameters and its newest head, and checks both against what is known of it.
///
/// A client that wants no older mail begins at the board's end, which is [`MeetMachine::messages`]. One whose account is from some day
/// begins at [`MeetMachine::first`], with [`MeetMachine::since`]: the relay sees which day that is, about, as it would see the index.
///
///
/// ```no_run
/// # use restante_client::{ClueParameters, relay::*};
/// # use rand_core::CryptoRng;
/// fn begin<H: Host<Error: std::error::Error>>(
///     host: &mut H,
///     rng: &mut impl CryptoRng,
/// ) -> Result<SyncState, Stopped<H::Error>> {
///     let (parameters, known) = (ClueParameters::STANDARD, KnownRelay::default());
///     let mut machine = MeetMachine::new(parameters, known, 3600, Retries::default());
///     Driver::new().run(&mut machine, host, rng, |_| Ok(()))?;
///     Ok(SyncState::new(parameters, machine.messages().unwrap_or(0), *machine.known()))
/// }
/// ```
#[derive(Debug)]
pub struct MeetMachine {
    parameters: ClueParameters,
    known: KnownRelay,
    is_first_use: bool,
    tolerance_seconds: u64,
    attempts: Attempts,
    task: Task,
    search: Option<Search>,
    page_bytes_max: u64,
}

/// The search for the first message of a day, by halves. Whatever is before `low` is older.
#[derive(Debug)]
struct Search {
    day: Period,
    low: u64,
    high: u64,
}

#[derive(Debug)]
enum Task {
    Parameters,
    Head,
    Continues(Box<(SignedHead, SignedHead)>),
    /// One message of the board.
    Probe,
    Done,
}

const SIDE: Side = Side::First;
/// Bytes of a page that are no message: the head, the proof of at most 128 hashes, and the frame.
const FRAME_BYTES: u64 = 8 << 10;
/// Bytes of the longest page that is read.
const PAGE_BYTES_MAX: u64 = 64 << 20;

impl MeetMachine {
    /// A machine for a relay of boards with these clues. A head that is older than the tolerance, or from the
    /// future, is refused.
    pub fn new(
        parameters: ClueParameters,
        known: KnownRelay,
        tolerance_seconds: u64,
        retries: Retries,
    ) -> Self {
        let (attempts, task) = (Attempts::new(retries), Task::Parameters);
        Self {
            parameters,
            known,
            is_first_use: false,
            tolerance_seconds,
            attempts,
            task,
            search: None,
            page_bytes_max: 0,
        }
    }

    /// Looks, besides, for the place where the messages of a day begin, with a request for each halving of the board.
    pub fn since(mut self, day: Period) -> Self {
        self.search = Some(Search { day, low: 0, high: u64::MAX });
        self
    }

    /// With [`MeetMachine::since`]: an index before which every message is older than the day, or forgotten. It is a day or two
    /// early, as clocks differ. None until the machine is done.
    pub fn first(&self) -> Option<u64> {
        let search = self.search.as_ref().filter(|_| matches!(self.task, Task::Done))?;
        Some(search.low)
    }

    /// The relay as it is known now: to be saved.
    pub fn known(&self) -> &KnownRelay {
        &self.known
    }

    /// Whether the relay's key was taken from the relay itself.
    pub fn is_first_use(&self) -> bool {
        self.is_first_use
    }

    /// The number of messages on the board by the newest head, which is the index of the next one; `None`
    /// until the machine is done.
    pub fn messages(&self) -> Option<u64> {
        match self.task {
            Task::Done => self.known.head.map(|head| head.count),
            Task::Parameters | Task::Head | Task::Continues(_) | Task::Probe => None,
        }
    }

    fn request(&self) -> Option<Request> {
        match &self.task {
            Task::Parameters => Some(Request::new(SIDE, Method::Get, "/v1/parameters").accept(media::JSON)),
            Task::Head => Some(Request::new(SIDE, Method::Get, "/v1/head").accept(media::JSON)),
            Task::Continues(heads) => Some(heads::ask_consistency(SIDE, heads.0.count, heads.1.count)),
            Task::Probe => {
                let place = self.search.as_ref()?.place();
                let path = format!("/v1/messages?first={place}&end={}", place + 1);
                Some(Request::new(SIDE, Method::Get, path).accept(media::PAGE).at_most(self.page_bytes_max))
            }
            Task::Done => None,
        }
    }
}

impl Search {
    fn place(&self) -> u64 {
        self.low + (self.high - self.low) / 2
    }

    /// Takes note of the day of the message in the middle; none if it is forgotten.
    ///
    /// A relay takes a message of a day on that day, or on those next to it. So behind one of the day before yesterday, or of a later
    /// one, there may be messages of today before it; before one that is older still there are none.
    fn note(&mut self, day: Option<Period>) {
        let place = self.place();
        if day.is_some_and(|day| day.is_open_after(self.day)) {
            self.high = place;
        } else {
            self.low = place + 1;
        }
    }
}

impl Machine for MeetMachine {
    fn step(&mut self) -> Step {
        self.attempts.wait().map_or_else(|| self.request().into(), Step::Wait)
    }

    /// As [`Machine::respond`] says.
    ///
    /// # Errors
    ///
    /// [`RelayError::ForeignRelay`], [`RelayError::OtherBoard`], [`RelayError::Stale`] and others if the
    /// relay is not the one that is known, or cannot prove that its board goes on.
    fn respond(&mut self, reply: Reply, now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let Some(request) = self.request() else { return Ok(()) };
        let Some(response) = self.attempts.judge(reply, request.answer_bytes_max, rng)? else {
            return Ok(());
        };
        if let (410, Task::Probe, Some(search)) = (response.status, &self.task, &mut self.search) {
            search.note(None);
            self.task = self.search_on();
            return Ok(());
        }
        if response.status != 200 {
            return Err(response.refusal());
        }
        self.task = self.next(&response, now)?;
        Ok(())
    }
}

impl MeetMachine {
    /// The task behind everything that is known of the board.
    fn search_on(&mut self) -> Task {
        let count = self.known.head.map_or(0, |head| head.count);
        match &mut self.search {
            Some(search) => {
                search.high = search.high.min(count);
                if search.low < search.high { Task::Probe } else { Task::Done }
            }
            None => Task::Done,
        }
    }

    fn meet(&mut self, head: SignedHead, now: u64) -> Result<Task, RelayError> {
        match self.known.check(SIDE, &head, self.parameters.id(), now, self.tolerance_seconds)? {
            Verdict::Accepted => self.known.accept(head),
            Verdict::Continues(older) => return Ok(Task::Continues(Box::new((older, head)))),
        }
        Ok(self.search_on())
    }

    fn next(&mut self, response: &Response, now: u64) -> Result<Task, RelayError> {
        match &self.task {
            Task::Parameters => {
                let info: RelayInfo = response.json("the relay's parameters")?;
                check_board(SIDE, &info, &self.parameters)?;
                self.is_first_use = self.known.meet(SIDE, &info)?;
                let longest = u64::from(info.board.clue_bytes) + 4 + u64::from(info.board.payload_bytes_max);
                self.page_bytes_max = (longest + FRAME_BYTES).min(PAGE_BYTES_MAX);
                Ok(Task::Head)
            }
            Task::Head => {
                let head = response.json::<HeadStatus>("the head")?.signed();
                self.meet(head, now)
            }
            Task::Continues(heads) => {
                let (older, newer) = **heads;
                let proof = heads::read_consistency(&response.body)?;
                let verdict = newer.verify_continues(&older, &proof);
                verdict.map_err(|reason| inconsistent(SIDE, &older, &newer, reason))?;
                self.known.accept(newer);
                Ok(self.search_on())
            }
            Task::Probe => {
                let Some(search) = &mut self.search else { return Ok(Task::Done) };
                let place = search.place();
                let page =
                    Page::from_body(self.parameters.id(), self.parameters.clue_bytes(), &response.body)?;
                if (page.first, page.messages.len()) != (place, 1) {
                    let (found_first, found_end) = (page.first, page.end());
                    return Err(RelayError::PageRange {
                        found_first,
                        found_end,
                        first: place,
                        end: place + 1,
                    });
                }
                page.verify().map_err(|reason| RelayError::Page { first: place, reason })?;
                search.note(page.messages.first().and_then(|message| Period::of_clue(&message.clue)));
                let (head, known) = (page.head, self.known.head);
                if known.is_none_or(|known| (known.count, known.root) != (head.count, head.root)) {
                    return self.meet(head, now);
                }
                Ok(self.search_on())
            }
            Task::Done => Ok(Task::Done),
        }
    }
}
