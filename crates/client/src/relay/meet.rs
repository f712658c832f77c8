//! Meeting a relay: its key, its board, and how many messages that has.

use rand_core::CryptoRng;
use restante_clue::ClueParameters;
use restante_wire::relay::{HeadStatus, RelayInfo, SignedHead, media};

use super::{
    KnownRelay, Machine, Method, RelayError, Reply, Request, Response, Retries, Side, Step,
    checks::check_board,
    exchange::Attempts,
    heads::{self, Verdict, inconsistent},
};

/// Asks a relay for its parameters and its newest head, and checks both against what is known of it.
///
/// A client that wants no older mail begins at the board's end, which is [`MeetMachine::messages`]:
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
}

#[derive(Debug)]
enum Task {
    Parameters,
    Head,
    Continues(Box<(SignedHead, SignedHead)>),
    Done,
}

const SIDE: Side = Side::First;

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
        Self { parameters, known, is_first_use: false, tolerance_seconds, attempts, task }
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
            Task::Parameters | Task::Head | Task::Continues(_) => None,
        }
    }

    fn request(&self) -> Option<Request> {
        match &self.task {
            Task::Parameters => Some(Request::new(SIDE, Method::Get, "/v1/parameters").accept(media::JSON)),
            Task::Head => Some(Request::new(SIDE, Method::Get, "/v1/head").accept(media::JSON)),
            Task::Continues(heads) => Some(heads::ask_consistency(SIDE, heads.0.count, heads.1.count)),
            Task::Done => None,
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
        if response.status != 200 {
            return Err(response.refusal());
        }
        self.task = self.next(&response, now)?;
        Ok(())
    }
}

impl MeetMachine {
    fn next(&mut self, response: &Response, now: u64) -> Result<Task, RelayError> {
        match &self.task {
            Task::Parameters => {
                let info: RelayInfo = response.json("the relay's parameters")?;
                check_board(SIDE, &info, &self.parameters)?;
                self.is_first_use = self.known.meet(SIDE, &info)?;
                Ok(Task::Head)
            }
            Task::Head => {
                let head = response.json::<HeadStatus>("the head")?.signed();
                let parameters = self.parameters.id();
                match self.known.check(SIDE, &head, parameters, now, self.tolerance_seconds)? {
                    Verdict::Accepted => self.known.accept(head),
                    Verdict::Continues(older) => return Ok(Task::Continues(Box::new((older, head)))),
                }
                Ok(Task::Done)
            }
            Task::Continues(heads) => {
                let (older, newer) = **heads;
                let proof = heads::read_consistency(&response.body)?;
                let verdict = newer.verify_continues(&older, &proof);
                verdict.map_err(|reason| inconsistent(SIDE, &older, &newer, reason))?;
                self.known.accept(newer);
                Ok(Task::Done)
            }
            Task::Done => Ok(Task::Done),
        }
    }
}
