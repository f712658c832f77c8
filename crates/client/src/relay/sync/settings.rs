//! The settings of a round of finding mail, and its outcome.

use std::{fmt, ops::Range, time::Duration};

use restante_wire::binding::Period;
use zeroize::Zeroizing;

use crate::{PAYLOAD_BYTES, RelayError, relay::Retries};

/// How a client gets its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Reads every message of the board. No detection key, no trust in anybody's digest, one relay; some thousand bytes for each
    /// message of the board, whoever it is for. With `second` the heads of another relay that mirrors the first are compared.
    Whole {
        /// Whether there is a second relay.
        second: bool,
    },
    /// Digests from the first relay and private fetch from both.
    Private(Private),
    /// Compact digests from one relay, which hold the messages.
    Compact(Compact),
    /// Reads the messages `first .. end`, whoever they are for, and goes no further: the only way to what a digest or a record had no
    /// room for. It shows that something was there.
    Range {
        /// Index of the first message.
        first: u64,
        /// Index behind the last.
        end: u64,
    },
}

/// The settings of private delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Private {
    /// Fetches of a round, and once more for each epoch's worth of messages that were added since the last one; at most 1,024
    /// together. What does not fit waits for the next rounds.
    pub fetches: u32,
    /// The treatment of messages that no epoch holds yet.
    pub tail: Tail,
}

/// The treatment of messages that no epoch holds yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// They wait for one.
    Wait,
    /// All of them are read, whoever they are for. Of use to clients that ask seldom: one that asks often reads the whole board that
    /// way.
    Read,
}

/// The settings of compact delivery. They stay the same for as long as the account is used: a relay sees when they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compact {
    /// Whether there is a second relay, whose head is compared.
    pub second: bool,
    /// How many messages a digest has room for, 1 to 255.
    pub capacity: u32,
    /// How much of each payload a digest holds: at least the 1,536 bytes of the smallest.
    pub payload_bytes: u32,
    /// The most messages of the board that one digest is for. Longer ranges are split here, or where the relay has its limit.
    pub messages: u64,
    /// The second look.
    pub again: Option<Again>,
    /// The time between two questions whether a digest is ready.
    pub poll: Duration,
    /// How often that is asked in a round. The next round goes on waiting for the same digest.
    pub polls: u32,
}

/// The second look at everything. For each window of the board that the client has passed there is one more digest, whether there was
/// anything wrong with those before or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// Messages of a window, which ends at a multiple of it. Where the relay's limit is smaller, that.
    pub messages: u64,
    /// How many messages its digest has room for, 1 to 255.
    pub capacity: u32,
}

impl Compact {
    /// The most digests of a round, so that a relay whose limits make them tiny cannot keep a client busy in one for ever. A digest also
    /// counts as so many messages as it has room for, and as more if that is more than 64 ([`Bounds::messages`](super::Bounds::messages)). The next round goes on behind them.
    pub const JOBS_MAX: u32 = 64;

    /// Digests of at most 65,536 messages (a block), a second look at each such window with room for 255, a question every 10 seconds for
    /// at most an hour.
    pub fn new(capacity: u32, payload_bytes: u32) -> Self {
        Self {
            second: false,
            capacity,
            payload_bytes,
            messages: 1 << 16,
            again: Some(Again { messages: 1 << 16, capacity: 255 }),
            poll: Duration::from_secs(10),
            polls: 360,
        }
    }

    pub(super) fn check(&self) -> Result<(), RelayError> {
        let again = self.again.unwrap_or(Again { messages: 1, capacity: 1 });
        let demands = [
            (self.capacity > 0 && again.capacity > 0, "a digest has room for at least one message"),
            (self.messages > 0 && again.messages > 0, "a digest is for at least one message of the board"),
            (self.payload_bytes >= PAYLOAD_BYTES[0] as u32, "the smallest payload has 1536 bytes"),
        ];
        match demands.into_iter().find(|(met, _)| !met) {
            Some((_, demand)) => Err(RelayError::Configuration(demand)),
            None => Ok(()),
        }
    }
}

/// How much a round takes before it ends, and the next one goes on behind it. All of it is public: the number of messages, not of those
/// that are for the client. What is kept until the round's end has at most [`Bounds::bytes`] and one answer, and what is then read is
/// bounded by [`Bounds::messages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Pages, answers with stream digests, and compact digests.
    pub answers: u32,
    /// Messages that are read whole, and those that compact digests have room for.
    pub messages: u64,
    /// Bytes of these answers.
    pub bytes: u64,
}

impl Default for Bounds {
    /// 512 answers, 8,192 messages (some 3 seconds of a processor if all of them are for the client), 64 MiB.
    fn default() -> Self {
        Self { answers: 512, messages: 8192, bytes: 64 << 20 }
    }
}

impl Bounds {
    /// For a device that takes so long to open a message, and has `rest` to read what a round brought ([`Schedule::rest`](crate::relay::Schedule::rest)):
    /// no more messages than it opens in half of that, 8,192 at most and 64 at least. The number is a power of two, as a relay sees it.
    pub fn for_device(each: Duration, rest: Duration) -> Self {
        let most = (rest / 2).as_nanos() / each.as_nanos().max(1);
        let most = u64::try_from(most).unwrap_or(u64::MAX).clamp(64, 8192);
        Self { messages: 1 << most.ilog2(), ..Self::default() }
    }
}

/// The settings of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncConfig {
    /// How messages are got.
    pub delivery: Delivery,
    /// How old, or how far in the future, a head may be, in seconds.
    pub tolerance_seconds: u64,
    /// Attempts and waits.
    pub retries: Retries,
    /// [`Request::pace`](crate::relay::Request::pace) of every request.
    pub pace: Duration,
    /// The longest answer that is read, in bytes.
    pub answer_bytes_max: u64,
    /// Where a round ends.
    pub bounds: Bounds,
}

impl SyncConfig {
    /// An hour's tolerance, a pace of 50 ms, answers of at most 64 MiB.
    pub fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            tolerance_seconds: 3600,
            retries: Retries::default(),
            pace: Duration::from_millis(50),
            answer_bytes_max: 64 << 20,
            bounds: Bounds::default(),
        }
    }
}

/// A message that was found and opened.
#[derive(Clone, PartialEq, Eq)]
pub struct Received {
    /// Its index on the board.
    pub index: u64,
    /// The day that its sender made it for. Compact digests do not say it.
    pub day: Option<Period>,
    /// The text.
    pub text: Zeroizing<Vec<u8>>,
}

/// The outcome of a round. For the client alone: no request may depend on it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether a relay's key was taken from the relay itself.
    pub first_use: [bool; 2],
    /// Messages that the relays' heads count and the client does not know about yet.
    pub behind: u64,
    /// The round ended at its [`Bounds`], or at [`Compact::JOBS_MAX`], and the relay had more. The next one goes on behind it. It is public:
    /// the next round may begin sooner because of it ([`Schedule`](crate::relay::Schedule)).
    pub unfinished: bool,
    /// Index up to which the last page went, if there were pages: where [`Delivery::Range`] goes on if it is unfinished.
    pub read_to: u64,
    /// Messages that are still to be fetched.
    pub backlog: usize,
    /// Those of the backlog that no epoch of both relays holds yet: they wait for one. The others wait for the fetches of later rounds.
    pub awaiting_epoch: usize,
    /// Private delivery: index behind the last message that an epoch of both relays holds; `None` if they have none in common.
    pub epoch_end: Option<u64>,
    /// Private delivery: the first relay ends an epoch at least every so many seconds while messages come, if it says so.
    pub epoch_seconds: Option<u64>,
    /// Messages that were to be fetched, and that no epoch holds any more, or that the backlog had no room for. Reading the range that they are in, whole, is the only
    /// way to them, and shows that something was in that range.
    pub overdue: Vec<u64>,
    /// Messages that are longer than a record, or than what a compact digest holds of each: the relays leave those out. Reading their
    /// range is the only way to them, too.
    pub too_long: Vec<u64>,
    /// Ranges whose digests do not decrypt: the relay has changed them.
    pub unreadable: Vec<Range<u64>>,
    /// Ranges with more messages than a compact digest had room for.
    pub overflowed: Vec<Range<u64>>,
    /// Those of the unreadable and overflowed ranges of compact digests that there will be no second look at.
    pub lost: Vec<Range<u64>>,
    /// The relay had not finished a compact digest when the round ended, or had made as many as a round takes
    /// ([`Compact::JOBS_MAX`]): the next one goes on with it.
    pub waiting: bool,
    /// Why the relay could not make a compact digest. The next round asks again.
    pub failed: Option<String>,
    /// Fetched records that are no mail of this account, although the digest said so: one of the relays has changed them. They are asked
    /// for again.
    pub wrong_records: u32,
    /// Messages that were addressed to this account, or seemed to be, and cannot be opened: false positives of detection, and
    /// malformed payloads.
    pub unopened: u32,
    /// Messages that were read before, and left out. A board has each once: the relay does not keep to the rule for clues, or makes up
    /// what it delivers.
    pub repeated: u32,
    /// Messages of a day that was closed, or had not begun, when they came to the board, by the heads that the relay has signed. They
    /// were left out.
    pub misdated: u32,
    /// The records are too short for the longest messages that the board takes: those cannot be fetched.
    pub short_records: bool,
    /// The epoch was gone before it was asked: nothing was fetched in this round.
    pub epoch_gone: bool,
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").finish_non_exhaustive()
    }
}

impl fmt::Debug for Outcome {
    /// Without what says which messages are whose.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("first_use", &self.first_use)
            .field("behind", &self.behind)
            .field("unfinished", &self.unfinished)
            .field("short_records", &self.short_records)
            .field("epoch_gone", &self.epoch_gone)
            .field("epoch_end", &self.epoch_end)
            .field("epoch_seconds", &self.epoch_seconds)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_devices_take_less_at_once() {
        let messages = |each: f64, rest: f64| {
            Bounds::for_device(Duration::from_secs_f64(each), Duration::from_secs_f64(rest)).messages
        };
        assert_eq!(messages(0.000_34, 10.0), 8192);
        // Ten times slower than a processor of 2024: 2,048 messages are 7 seconds, 1,024 are 3.5.
        assert_eq!((messages(0.003_4, 10.0), messages(0.000_34, 0.25)), (1024, 256));
        assert_eq!((messages(9.0, 1.0), messages(0.0, 1.0), messages(1.0, 0.0)), (64, 8192, 64));
    }
}
