//! Whether a message that was posted is still on the board.

use std::collections::VecDeque;

use rand_core::CryptoRng;
use restante_clue::ClueParameters;
use restante_wire::relay::{HeadStatus, Page, SignedHead, media};

use super::{
    KnownRelay, Machine, Method, Receipt, RelayError, Reply, Request, Retries, Side, Step,
    exchange::Attempts,
    heads::{self, Verdict, inconsistent},
};

/// Checks a receipt: that the board continues the one that the receipt's head counts, and has the message at its index.
///
/// It asks for that one message, and so tells the relay who posted it, which the relay knew if it was posted the same way. Recipients
/// must not ask for single messages.
///
/// ```no_run
/// # use rand_core::CryptoRng;
/// use restante_client::{ClueParameters, RelayError, relay::*};
///
/// # fn example<H: Host<Error = std::io::Error>>(
/// #     receipt: Receipt, known: KnownRelay, host: &mut H, rng: &mut impl CryptoRng,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut machine = AuditMachine::new(ClueParameters::STANDARD, receipt, known, 3600, Retries::default());
/// match Driver::new().run(&mut machine, host, rng, |_| Ok(())) {
///     Ok(()) => println!("it is there"),
///     Err(Stopped::Relay(RelayError::Missing { index })) => println!("another message is at {index}"),
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AuditMachine {
    parameters: ClueParameters,
    receipt: Receipt,
    known: KnownRelay,
    tolerance_seconds: u64,
    page_bytes_max: u64,
    attempts: Attempts,
    tasks: VecDeque<Task>,
    page: Option<Page>,
}

#[derive(Debug, Clone)]
enum Task {
    Head,
    Receipt,
    Page,
    Continues(Box<(SignedHead, SignedHead)>),
    Compare,
}

const SIDE: Side = Side::First;

impl AuditMachine {
    /// A machine for the relay that gave the receipt, whose key must be known.
    pub fn new(
        parameters: ClueParameters,
        receipt: Receipt,
        known: KnownRelay,
        tolerance_seconds: u64,
        retries: Retries,
    ) -> Self {
        let longest = crate::PAYLOAD_BYTES[crate::PAYLOAD_BYTES.len() - 1];
        let page_bytes_max = (parameters.clue_bytes() + longest) as u64 + (8 << 10);
        let tasks = [Task::Head, Task::Receipt, Task::Page, Task::Compare].into();
        let attempts = Attempts::new(retries);
        let page = None;
        // What the receipt's head is of.
        let known = KnownRelay { board: known.board.or(Some(receipt.head.board)), ..known };
        Self { parameters, receipt, known, tolerance_seconds, page_bytes_max, attempts, tasks, page }
    }

    /// The relay as it is known now: to be saved.
    pub fn known(&self) -> &KnownRelay {
        &self.known
    }

    fn request(&self) -> Option<Request> {
        Some(match self.tasks.front()? {
            Task::Head => Request::new(SIDE, Method::Get, "/v1/head").accept(media::JSON),
            Task::Receipt => heads::ask_consistency(SIDE, self.receipt.head.count, self.known.head?.count),
            Task::Continues(heads) => heads::ask_consistency(SIDE, heads.0.count, heads.1.count),
            Task::Page => {
                let (first, end) = (self.receipt.index, self.receipt.index + 1);
                let path = format!("/v1/messages?first={first}&end={end}");
                Request::new(SIDE, Method::Get, path).accept(media::PAGE).at_most(self.page_bytes_max)
            }
            Task::Compare => return None,
        })
    }
}

impl Machine for AuditMachine {
    /// Says what to do next. [`Step::Done`] means that the message is there.
    fn step(&mut self) -> Step {
        self.attempts.wait().map_or_else(|| self.request().into(), Step::Wait)
    }

    /// As [`Machine::respond`] says.
    ///
    /// # Errors
    ///
    /// [`RelayError::Missing`] if another message is at the index, [`RelayError::Inconsistent`] and others if the relay cannot
    /// prove what it shows.
    fn respond(&mut self, reply: Reply, now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let Some(request) = self.request() else { return Ok(()) };
        let Some(response) = self.attempts.judge(reply, request.answer_bytes_max, rng)? else {
            return Ok(());
        };
        if response.status != 200 {
            return Err(response.refusal());
        }
        let task = self.tasks.pop_front();
        match task {
            Some(Task::Head) => {
                let head = response.json::<HeadStatus>("the head")?.signed();
                self.meet(head, now)?;
            }
            Some(Task::Continues(heads)) => {
                let (older, newer) = *heads;
                self.prove(&older, &newer, &response.body)?;
                self.known.accept(newer);
            }
            Some(Task::Receipt) => {
                if let Some(newer) = self.known.head {
                    self.prove(&self.receipt.head, &newer, &response.body)?;
                }
            }
            Some(Task::Page) => {
                let clue_bytes = self.parameters.clue_bytes();
                let page = Page::from_body(self.parameters.id(), clue_bytes, &response.body)?;
                let (head, known) = (page.head, self.known.head);
                self.page = Some(page);
                if known.is_none_or(|known| (known.count, known.root) != (head.count, head.root)) {
                    self.meet(head, now)?;
                }
            }
            Some(Task::Compare) | None => {}
        }
        self.settle()
    }
}

impl AuditMachine {
    /// Does what needs no request.
    fn settle(&mut self) -> Result<(), RelayError> {
        match (self.tasks.front(), &self.known.head) {
            (Some(Task::Receipt), Some(head)) => {
                let receipt = &self.receipt.head;
                if (receipt.count, receipt.root) == (head.count, head.root) {
                    self.tasks.pop_front();
                }
                Ok(())
            }
            (Some(Task::Compare), _) => {
                self.tasks.pop_front();
                let (Some(page), index) = (&self.page, self.receipt.index) else { return Ok(()) };
                page.verify().map_err(|reason| RelayError::Page { first: index, reason })?;
                match page.messages.as_slice() {
                    [message] if page.first == index && message.leaf() == self.receipt.leaf => Ok(()),
                    _ => Err(RelayError::Missing { index }),
                }
            }
            _ => Ok(()),
        }
    }

    fn meet(&mut self, head: SignedHead, now: u64) -> Result<(), RelayError> {
        match self.known.check(SIDE, &head, self.parameters.id(), now, self.tolerance_seconds)? {
            Verdict::Accepted => self.known.accept(head),
            Verdict::Continues(older) => self.tasks.push_front(Task::Continues(Box::new((older, head)))),
        }
        Ok(())
    }

    fn prove(&self, older: &SignedHead, newer: &SignedHead, body: &[u8]) -> Result<(), RelayError> {
        let proof = heads::read_consistency(body)?;
        let verdict = newer.verify_continues(older, &proof);
        verdict.map_err(|reason| inconsistent(SIDE, older, newer, reason))
    }
}
