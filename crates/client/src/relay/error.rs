use std::time::Duration;

use restante_omr::OmrError;
use restante_pir::PirError;
use restante_wire::{
    ParameterId, WireError,
    binding::BoardId,
    merkle::ProofError,
    relay::{Hex, RelayKey, SignedHead},
};
use thiserror::Error;

use super::{Cause, Side};
use crate::LetterError;

/// Why a task with a relay failed. What came before is not lost: see the state of the machine.
///
/// No variant depends on which messages are whose: where something that only the client can decrypt turns out wrong, the machine
/// goes on as if nothing had happened, and says so in its outcome.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The relay could not be reached, or was overloaded, until the attempts were used up. Try again later.
    #[error("the relay did not serve the request in {attempts} attempts: {}", why(*status, *cause))]
    Unavailable {
        /// The last status; none if the connection failed.
        status: Option<u16>,
        /// Why it failed, then.
        cause: Option<Cause>,
        /// How often the request was sent.
        attempts: u32,
        /// How long the relay wants to be left alone.
        retry_after: Duration,
    },
    /// The relay refused the request for good.
    #[error("the relay refused: status {status}, {code}: {detail} ({field:?})")]
    Refused {
        /// The status.
        status: u16,
        /// The code in docs/protocol.md.
        code: String,
        /// The relay's words about it.
        detail: String,
        /// The field that was wrong.
        field: Option<String>,
    },
    /// The first relay does not take the token, or has forgotten the registration: register again, with the old one put away
    /// ([`SyncState::retire`](super::SyncState::retire)). A request that carried none is [`RelayError::Refused`].
    #[error("the relay does not accept the token of this registration")]
    Unauthorized,
    /// The relay lets only holders of its operator's credentials register, and does not take this one.
    #[error("the relay does not let this key be registered: {code}: {detail}")]
    Credential {
        /// The code in docs/protocol.md: `credential` if there was none that it knows.
        code: String,
        /// The relay's words about it.
        detail: String,
    },
    /// The relay no longer has what was asked for.
    #[error("the relay no longer has it: {detail}")]
    Gone {
        /// The relay's words about it.
        detail: String,
    },
    /// The relay says that it no longer has messages that the client has not seen. Whether it ever gave them up, or hides them, only
    /// another relay can tell. [`SyncState::skip_to`](super::SyncState::skip_to) goes on without them.
    #[error(
        "the relay has no messages before {retained_from} any more, and those from {complete_to} on were not seen"
    )]
    Forgotten {
        /// Index up to which the client has seen the board.
        complete_to: u64,
        /// Index of the first message that the relay has.
        retained_from: u64,
    },
    /// An answer was longer than asked for.
    #[error("the answer has {found} bytes, expected at most {limit}")]
    TooLong {
        /// Its length.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A header field is missing or cannot be read.
    #[error("the answer's field {name} is missing or no number")]
    Header {
        /// The field.
        name: &'static str,
    },
    /// An answer in JSON cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Json {
        /// The right value.
        what: &'static str,
        /// The fault in it.
        reason: String,
    },
    /// A binary answer cannot be read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The relay speaks about something else than it should.
    #[error("{what} of the {side} relay is {found}, expected {expected}")]
    Unexpected {
        /// The thing that differs.
        what: &'static str,
        /// The relay.
        side: Side,
        /// The value that it gives.
        found: String,
        /// The value that would have been right.
        expected: String,
    },
    /// The relay's board, or its kind of digest, is for other parameters.
    #[error("the {side} relay's {what} are for parameters {found}, expected {expected}")]
    Parameters {
        /// The clues or the digests.
        what: &'static str,
        /// The relay.
        side: Side,
        /// The relay's.
        found: ParameterId,
        /// The client's.
        expected: ParameterId,
    },
    /// The relay is not the one that it was.
    #[error("the {side} relay has the key {found}, expected {expected}")]
    ForeignRelay {
        /// The relay.
        side: Side,
        /// The key that it says it has.
        found: RelayKey,
        /// The key that the client knows.
        expected: RelayKey,
    },
    /// The relay has another board than it had. Messages are made for one board, and heads of two say nothing of each other.
    #[error("the {side} relay has board {found}, expected {expected}")]
    OtherBoard {
        /// The relay.
        side: Side,
        /// The board that it shows.
        found: BoardId,
        /// The board that the client knows.
        expected: BoardId,
    },
    /// A message on the board is of a day that was closed before it came, or had not begun: the relay does not keep to the rule for clues.
    #[error(
        "message {index} is of period {found}, and the board was open for {least} to {most} when it came"
    )]
    Period {
        /// Its index.
        index: u64,
        /// Its period.
        found: u32,
        /// The oldest period that was open.
        least: u32,
        /// The latest.
        most: u32,
    },
    /// A message was made for the day of the head that the relay has signed, and the relay does not take messages of that day.
    #[error(
        "the relay refuses messages of period {period} (days since 1970), the day of the head that it has just signed; its clock \
         is wrong, or was: {detail}"
    )]
    Clock {
        /// The period.
        period: u32,
        /// The relay's words about it.
        detail: String,
    },
    /// A head is not signed by the relay.
    #[error("the head of the {side} relay has no valid signature of {relay}")]
    Signature {
        /// The relay.
        side: Side,
        /// Its key.
        relay: RelayKey,
    },
    /// The board has fewer messages than it had: some are hidden.
    #[error("the {side} relay's board has {found} messages, it had {remembered}")]
    Shrunk {
        /// The relay.
        side: Side,
        /// Messages that the client has a signed head for.
        remembered: u64,
        /// Messages now.
        found: u64,
    },
    /// A head is older than the one before, or than the client tolerates, or from the future: one of the clocks is wrong, or the relay
    /// is frozen.
    #[error(
        "the {side} relay's head is dated {time}, expected {least} to {most} (seconds since 1970): this machine's clock or the relay's \
         is wrong, or the relay shows an old board"
    )]
    Stale {
        /// The relay.
        side: Side,
        /// When the head was signed.
        time: u64,
        /// The earliest time that is accepted.
        least: u64,
        /// The latest.
        most: u64,
    },
    /// The relay does not show that a head continues the one before: messages were dropped, changed or reordered, or the proof is
    /// none. Two heads that are signed and not consistent are evidence.
    #[error("the {side} relay's board does not continue the one it showed before: {reason}")]
    Inconsistent {
        /// The relay.
        side: Side,
        /// The remembered head.
        older: Box<SignedHead>,
        /// The new one.
        newer: Box<SignedHead>,
        /// The part that the proof lacks.
        reason: ProofError,
    },
    /// The two relays show different boards.
    #[error("the two relays' boards differ: {reason}")]
    Fork {
        /// The head with fewer messages.
        shorter: Box<SignedHead>,
        /// The other relay's.
        longer: Box<SignedHead>,
        /// The part that the proof lacks.
        reason: ProofError,
    },
    /// A page does not match the head that counts it.
    #[error("the page at {first} is not what the head counts: {reason}")]
    Page {
        /// Index of its first message.
        first: u64,
        /// The part that the proof lacks.
        reason: ProofError,
    },
    /// A page is not the range that was asked for.
    #[error("the page holds messages {found_first}..{found_end}, asked for {first}..{end}")]
    PageRange {
        /// First index of the page.
        found_first: u64,
        /// Its end.
        found_end: u64,
        /// The first index asked for.
        first: u64,
        /// The end asked for.
        end: u64,
    },
    /// The digests leave messages out that the relay says they are complete for.
    #[error("the digests go on at {found}, expected at most {expected}: messages are left out")]
    DigestGap {
        /// Where the next digest starts, or where they end.
        found: u64,
        /// Where it would have to start, or what they are said to be complete to.
        expected: u64,
    },
    /// A digest is not the one whose hash the relay announced.
    #[error("the digest of {first}..{end} has the hash {found}, announced was {announced}")]
    DigestHash {
        /// First index of its range.
        first: u64,
        /// The end.
        end: u64,
        /// Its hash.
        found: Hex<32>,
        /// The hash in the job's status.
        announced: Hex<32>,
    },
    /// The receipt does not fit what was posted.
    #[error("the relay's receipt is for {found} messages and does not cover the {posted} that were posted")]
    Receipt {
        /// Messages that were posted.
        posted: usize,
        /// Messages of the receipt.
        found: usize,
    },
    /// A posted message is not where its receipt says: the relay has dropped or changed it.
    #[error("message {index} on the board is not the one that was posted")]
    Missing {
        /// Its index.
        index: u64,
    },
    /// A message is too long for the relay.
    #[error("a message's payload has {found} bytes, the relay takes {limit}")]
    PayloadBytes {
        /// Its length.
        found: usize,
        /// The limit.
        limit: u64,
    },
    /// The configuration lacks something.
    #[error("{0}")]
    Configuration(&'static str),
    /// A key of the account could not be made, or a clue read.
    #[error(transparent)]
    Client(#[from] LetterError),
    /// Detection refused something.
    #[error(transparent)]
    Omr(#[from] OmrError),
    /// Private fetch refused something.
    #[error(transparent)]
    Pir(#[from] PirError),
}

impl RelayError {
    /// Whether the same task may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Whether a relay has shown something that an honest one cannot, as opposed to being unavailable, misconfigured or asked for the
    /// wrong thing.
    pub fn is_misbehaviour(&self) -> bool {
        matches!(
            self,
            Self::Signature { .. }
                | Self::Shrunk { .. }
                | Self::OtherBoard { .. }
                | Self::Period { .. }
                | Self::Inconsistent { .. }
                | Self::Fork { .. }
                | Self::Page { .. }
                | Self::PageRange { .. }
                | Self::DigestGap { .. }
                | Self::DigestHash { .. }
                | Self::Receipt { .. }
                | Self::Missing { .. }
        )
    }

    pub(super) fn unexpected(
        side: Side,
        what: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) -> Self {
        Self::Unexpected { what, side, found: found.to_string(), expected: expected.to_string() }
    }
}

fn why(status: Option<u16>, cause: Option<Cause>) -> String {
    match (status, cause) {
        (Some(status), _) => {
            let meaning = match status {
                429 => ", it has too much to do",
                507 => ", it has no space left",
                _ => "",
            };
            format!("status {status}{meaning}")
        }
        (None, cause) => cause.unwrap_or_default().to_string(),
    }
}
