//! The state that a client keeps between two rounds.

use std::{fmt, ops::Range};

use rand_core::CryptoRng;
use restante_clue::ClueParameters;
use restante_letter::{LetterError, open_file};
use restante_wire::{
    Decode, Encode, Envelope, Kind, Reader, WireError,
    binding::{BoardId, Period},
    relay::{DigestKind, JobId},
};
use zeroize::Zeroizing;

use super::own::OwnMessages;
use crate::{
    Account, RelayError,
    relay::{KnownRelay, Registration, Side},
};

/// Where a client is with its relays: their heads, how far it has seen the board, what is still to be fetched, the digest that it waits
/// for, and the tokens. Secret.
///
/// After a loss everything but the tokens follows from the account's seed and the board: start from [`SyncState::new`] at an index
/// before the first message of interest, and register again.
///
/// ```
/// use restante_client::{ClueParameters, relay::{KnownRelay, SyncState}};
///
/// // One relay, from its board's first message on. `MeetMachine` says where a board ends.
/// let state = SyncState::new(ClueParameters::STANDARD, 0, KnownRelay::default());
/// assert_eq!(SyncState::from_file(&state.to_file())?.complete_to(), 0);
/// # Ok::<(), restante_client::LetterError>(())
/// ```
#[derive(Clone)]
pub struct SyncState {
    pub(super) parameters: ClueParameters,
    /// Whose it is, by `Account::state_id`.
    owner: Option<[u8; 16]>,
    pub(super) relays: [KnownRelay; 2],
    pub(super) complete_to: u64,
    pub(super) fetched_to: u64,
    /// Ascending.
    pub(super) backlog: Zeroizing<Vec<u64>>,
    /// Index up to which there was a second look; it is not larger than `complete_to`.
    pub(super) looked_to: u64,
    /// First index and end of ranges whose digests could not be read: ascending, apart from each other.
    pub(super) lost: Zeroizing<Vec<[u64; 2]>>,
    pub(super) job: Option<Job>,
    /// The messages that were opened lately.
    pub(super) own: OwnMessages,
    /// Index up to which pages were read without a gap, and the latest period on them.
    pub(super) pages: Option<(u64, Period)>,
    /// Rounds that are over.
    pub(super) rounds: u64,
    stream: Key,
    compact: Key,
    retired: Vec<Registration>,
}

/// A detection key of the account: its number, and its registration.
#[derive(Clone, Default)]
struct Key {
    rotation: u64,
    registration: Option<Registration>,
}

/// A compact digest that was asked for, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) range: Range<u64>,
    pub(super) capacity: u32,
    pub(super) payload_bytes: u32,
    /// Whether the range has been looked at before.
    pub(super) again: bool,
}

impl SyncState {
    /// The version of the file format.
    pub const VERSION: u16 = 4;

    /// The file's length is a multiple of this: it says nothing about a backlog of less than some 14,000 messages, nor about one's own
    /// last messages, and nor does the time that writing it takes.
    pub const FILE_BYTES: usize = 1 << 18;

    /// The most lost ranges that are kept apart.
    pub const LOST_MAX: usize = 4096;
    /// The most messages that wait to be fetched. What is beyond is drawn by lot, and named ([`Outcome::overdue`](super::Outcome::overdue)).
    pub const BACKLOG_MAX: usize = 1 << 18;

    /// A client of one relay that has seen nothing, and wants to see messages from `first` on;
    /// [`MeetMachine`](crate::relay::MeetMachine) says where the board ends. A relay whose key is known is
    /// pinned to it.
    pub fn new(parameters: ClueParameters, first: u64, relay: KnownRelay) -> Self {
        Self {
            parameters,
            owner: None,
            relays: [relay, KnownRelay::default()],
            complete_to: first,
            fetched_to: first,
            backlog: Zeroizing::default(),
            looked_to: first,
            lost: Zeroizing::default(),
            job: None,
            own: OwnMessages::default(),
            pages: None,
            rounds: 0,
            stream: Key::default(),
            compact: Key::default(),
            retired: Vec::new(),
        }
    }

    /// Makes it the account's, if it is nobody's yet. Its cursors say what *that* account has read: with another one's state, everything
    /// before them would be lost without a word. [`SyncMachine`](super::SyncMachine) does so, too.
    ///
    /// # Errors
    ///
    /// [`RelayError::Configuration`] if it is another account's.
    pub fn claim(&mut self, account: &Account) -> Result<(), RelayError> {
        if self.parameters != *account.parameters() {
            return Err(RelayError::Configuration("the state is for other clues than the account"));
        }
        let id = account.state_id();
        if *self.owner.get_or_insert(id) == id {
            Ok(())
        } else {
            Err(RelayError::Configuration("the state is another account's"))
        }
    }

    /// The same with a second relay, for deliveries that ask two.
    pub fn with_second(mut self, relay: KnownRelay) -> Self {
        self.set_relay(Side::Second, relay);
        self
    }

    /// The clue parameters.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// The board, if a relay has been met.
    pub fn board(&self) -> Option<BoardId> {
        self.relays[0].board
    }

    /// A relay as it is known.
    pub fn relay(&self, side: Side) -> &KnownRelay {
        &self.relays[side.index()]
    }

    /// Takes what another machine has learnt about a relay.
    pub fn set_relay(&mut self, side: Side, known: KnownRelay) {
        self.relays[side.index()] = known;
    }

    /// Index up to which the client knows which messages are its own.
    pub fn complete_to(&self) -> u64 {
        self.complete_to
    }

    /// How many rounds are over. A caller that keeps messages before the state can tell by it which of them the state counts as done
    /// ([`Finished::save`](super::Finished::save)).
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Messages that are known to be the client's, probably, and wait to be fetched.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Ranges with messages that could not be read: those of compact digests that had more messages than there was room for, or that the
    /// relay has changed, and single messages that are too long or that no epoch holds any more. A second look takes the former off, and
    /// [`Delivery::Range`](super::Delivery::Range) any. When there are more than [`SyncState::LOST_MAX`], neighbours become one, with
    /// what is between them.
    pub fn lost(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.lost.iter().map(|&[first, end]| first..end)
    }

    /// The registration of the detection key of a kind, at the first relay.
    pub fn registration(&self, kind: DigestKind) -> Option<&Registration> {
        self.key(kind).registration.as_ref()
    }

    /// Keeps the registration of the detection key of a kind, or forgets it.
    pub fn set_registration(&mut self, kind: DigestKind, registration: Option<Registration>) {
        if let Some(new) = &registration {
            // A relay gives the same token again for the same credential: that one is in use.
            let is_new =
                |old: &Registration| old.key() == new.key() && old.token().hash() == new.token().hash();
            self.retired.retain(|old| !is_new(old));
            let before = self.key(kind).registration.as_ref();
            if kind == DigestKind::Compact && !before.is_some_and(is_new) {
                // Its name would tell the relay whose registration the new one follows.
                self.job = None;
            }
        }
        self.key_mut(kind).registration = registration;
    }

    /// Puts the registration of the detection key of a kind with those that are to be taken back. It is for one that the relay does
    /// not accept the token of ([`RelayError::Unauthorized`](crate::RelayError::Unauthorized)): if the relay knows it after all, it
    /// is deleted, and if not, nothing is lost.
    pub fn retire(&mut self, kind: DigestKind) {
        if kind == DigestKind::Compact {
            self.job = None;
        }
        let old = self.key_mut(kind).registration.take();
        self.retired.extend(old);
    }

    /// The number of the account's detection key of a kind: [`Account::detection_seed_of`](crate::Account::detection_seed_of).
    pub fn rotation(&self, kind: DigestKind) -> u64 {
        self.key(kind).rotation
    }

    /// Goes over to another detection key of a kind, whose number is drawn, so that none comes back that was drawn before. It is to be
    /// registered; the old registration is in [`SyncState::retired`] from then on.
    ///
    /// The number is in the state alone. After a loss [`SyncState::new`] begins with number 0, the account's first key, which a relay
    /// may know: rotate the new state before it is registered.
    pub fn rotate(&mut self, kind: DigestKind, rng: &mut impl CryptoRng) {
        let rotation = rng.next_u64().max(1);
        if kind == DigestKind::Compact {
            // It was asked for with the old key.
            self.job = None;
        }
        let old = std::mem::replace(self.key_mut(kind), Key { rotation, registration: None });
        self.retired.extend(old.registration);
    }

    /// Registrations that others have taken the place of, for [`RetireMachine`](crate::relay::RetireMachine).
    pub fn retired(&self) -> &[Registration] {
        &self.retired
    }

    /// Keeps the registrations that the relay still has.
    pub fn set_retired(&mut self, registrations: &[Registration]) {
        self.retired = registrations.to_vec();
    }

    fn key(&self, kind: DigestKind) -> &Key {
        match kind {
            DigestKind::Compact => &self.compact,
            DigestKind::Stream => &self.stream,
        }
    }

    fn key_mut(&mut self, kind: DigestKind) -> &mut Key {
        match kind {
            DigestKind::Compact => &mut self.compact,
            DigestKind::Stream => &mut self.stream,
        }
    }

    /// Gives up the messages before `index`, which the relays no longer have.
    pub fn skip_to(&mut self, index: u64) {
        self.complete_to = self.complete_to.max(index);
        self.fetched_to = self.fetched_to.max(index);
        self.looked_to = self.looked_to.max(index);
        self.backlog.retain(|&message| message >= index);
        self.find(0..index);
    }

    /// Forgets the heads, and with them what they would show of a relay's lies so far. It is the only way on when a relay has forgotten
    /// so much that it cannot prove any more that its board continues them ([`RelayError::Gone`](crate::RelayError::Gone)). The relays'
    /// keys stay.
    pub fn forget_heads(&mut self) {
        self.relays.iter_mut().for_each(|relay| relay.head = None);
    }

    /// Notes that a message could not be read.
    pub(super) fn lose_message(&mut self, index: u64) {
        self.lose(index..index.saturating_add(1));
    }

    /// Notes that a range could not be read.
    pub(super) fn lose(&mut self, range: Range<u64>) {
        self.find(range.clone());
        let place = self.lost.partition_point(|[first, _]| *first < range.start);
        self.lost.insert(place, [range.start, range.end]);
        // Neighbours become one.
        let mut merged = Zeroizing::new(Vec::<[u64; 2]>::with_capacity(self.lost.len()));
        for &[first, end] in self.lost.iter() {
            match merged.last_mut() {
                Some(last) if last[1] == first => last[1] = end,
                _ => merged.push([first, end]),
            }
        }
        if merged.len() > Self::LOST_MAX {
            let pairs = merged.chunks(2).filter_map(|pair| Some([pair.first()?[0], pair.last()?[1]]));
            merged = Zeroizing::new(pairs.collect());
        }
        self.lost = merged;
    }

    /// The parts of a range that could not be read.
    pub(super) fn lost_within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let parts = self.lost().map(|lost| lost.start.max(range.start)..lost.end.min(range.end));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Notes that a range has been read.
    pub(super) fn find(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut rest = Zeroizing::new(Vec::with_capacity(self.lost.len() + 1));
        for &[first, end] in self.lost.iter() {
            let parts = [[first, end.min(range.start)], [first.max(range.end), end]];
            rest.extend(parts.into_iter().filter(|[first, end]| first < end));
        }
        self.lost = rest;
    }

    /// The file: docs/format.md.
    pub fn to_file(&self) -> Zeroizing<Vec<u8>> {
        // At once, so that no half-grown copy stays behind in memory.
        let capacity = 1024
            + 8 * self.backlog.len()
            + 16 * self.lost.len()
            + 128 * self.retired.len()
            + self.own.file_bytes();
        let mut body = Zeroizing::new(Vec::with_capacity(capacity.next_multiple_of(Self::FILE_BYTES)));
        self.relays.iter().for_each(|relay| relay.encode(&mut body));
        body.extend_from_slice(&self.complete_to.to_le_bytes());
        body.extend_from_slice(&self.fetched_to.to_le_bytes());
        body.extend_from_slice(&(self.backlog.len() as u64).to_le_bytes());
        self.backlog.iter().for_each(|index| body.extend_from_slice(&index.to_le_bytes()));
        body.extend_from_slice(&self.looked_to.to_le_bytes());
        body.extend_from_slice(&(self.lost.len() as u64).to_le_bytes());
        self.lost.iter().flatten().for_each(|index| body.extend_from_slice(&index.to_le_bytes()));
        body.push(self.job.is_some().into());
        if let Some(job) = &self.job {
            job.encode(&mut body);
        }
        for Key { rotation, registration } in [&self.stream, &self.compact] {
            body.extend_from_slice(&rotation.to_le_bytes());
            body.push(registration.is_some().into());
            if let Some(registration) = registration {
                registration.encode(&mut body);
            }
        }
        body.extend_from_slice(&(self.retired.len() as u32).to_le_bytes());
        self.retired.iter().for_each(|registration| registration.encode(&mut body));
        self.own.encode(&mut body);
        body.push(self.pages.is_some().into());
        if let Some((end, latest)) = self.pages {
            body.extend_from_slice(&end.to_le_bytes());
            body.extend_from_slice(&latest.0.to_le_bytes());
        }
        body.extend_from_slice(&self.rounds.to_le_bytes());
        body.push(self.owner.is_some().into());
        body.extend_from_slice(self.owner.as_ref().map_or(&[], <[u8; 16]>::as_slice));
        let bytes = body.len() + Envelope::OVERHEAD_BYTES;
        body.resize(bytes.next_multiple_of(Self::FILE_BYTES) - Envelope::OVERHEAD_BYTES, 0);
        let (kind, version, parameters) = (Kind::SyncState, Self::VERSION, self.parameters.id());
        Zeroizing::new(Envelope { kind, version, parameters, body: &body }.seal())
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`LetterError::Wire`], [`LetterError::UnknownParameters`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, LetterError> {
        let (parameters, body) = open_file(bytes, Kind::SyncState, Self::VERSION)?;
        let mut reader = Reader::new("sync state", body);
        let mut relay = || KnownRelay::decode(&parameters.id(), &mut reader);
        let (first, second) = (relay()?, relay()?);
        let complete_to = reader.u64()?;
        let fetched_to = at_most("end of what was fetched", reader.u64()?, complete_to)?;
        let mut state = Self::new(parameters, complete_to, first).with_second(second);
        state.fetched_to = fetched_to;
        let count = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
        let indices = reader.bytes(count.saturating_mul(8))?.as_chunks::<8>().0;
        state.backlog = Zeroizing::new(indices.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect());
        if let Some(&[before, found]) = state.backlog.array_windows().find(|[before, next]| before >= next) {
            let expected = format!("more than {before}");
            return Err(WireError::OutOfRange { what: "index of the backlog", found, expected }.into());
        }
        state.looked_to = at_most("end of the second look", reader.u64()?, complete_to)?;
        state.lost = read_lost(&mut reader)?;
        state.job = read_option(&mut reader)?;
        for key in [&mut state.stream, &mut state.compact] {
            let rotation = reader.u64()?;
            *key = Key { rotation, registration: read_option(&mut reader)? };
        }
        for _ in 0..reader.u32()? {
            state.retired.push(Registration::decode(&(), &mut reader)?);
        }
        state.own = OwnMessages::decode(&mut reader)?;
        if reader.flag()? {
            state.pages = Some((reader.u64()?, Period(reader.u32()?)));
        }
        state.rounds = reader.u64()?;
        if reader.flag()? {
            state.owner = Some(reader.array()?);
        }
        read_padding(&mut reader, bytes.len())?;
        reader.finish()?;
        Ok(state)
    }
}

fn at_most(what: &'static str, found: u64, limit: u64) -> Result<u64, WireError> {
    if found <= limit {
        Ok(found)
    } else {
        Err(WireError::OutOfRange { what, found, expected: format!("at most {limit}") })
    }
}

/// The zeros at the end, of which there are no more than it takes.
fn read_padding(reader: &mut Reader<'_>, file_bytes: usize) -> Result<(), WireError> {
    let count = reader.remaining();
    if count >= SyncState::FILE_BYTES || !file_bytes.is_multiple_of(SyncState::FILE_BYTES) {
        let (what, expected) = ("padding", format!("up to a multiple of {} bytes", SyncState::FILE_BYTES));
        return Err(WireError::OutOfRange { what, found: count as u64, expected });
    }
    match reader.bytes(count)?.iter().find(|byte| **byte != 0) {
        Some(&found) => {
            Err(WireError::OutOfRange { what: "padding", found: found.into(), expected: "zeros".into() })
        }
        None => Ok(()),
    }
}

fn read_option<T: Decode>(reader: &mut Reader<'_>) -> Result<Option<T>, WireError> {
    if reader.flag()? { Ok(Some(T::decode(&(), reader)?)) } else { Ok(None) }
}

fn read_lost(reader: &mut Reader<'_>) -> Result<Zeroizing<Vec<[u64; 2]>>, WireError> {
    let count = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
    let bytes = reader.bytes(count.saturating_mul(16))?.as_chunks::<8>().0;
    let mut lost = Zeroizing::new(Vec::with_capacity(bytes.len() / 2));
    let mut least = 0;
    for [first, end] in bytes.as_chunks::<2>().0 {
        let [first, end] = [first, end].map(|bytes| u64::from_le_bytes(*bytes));
        // Apart from the one before, and not empty.
        if first < least || end <= first {
            let expected = format!("a range from {least} on");
            return Err(WireError::OutOfRange { what: "start of a lost range", found: first, expected });
        }
        least = end.saturating_add(1);
        lost.push([first, end]);
    }
    Ok(lost)
}

impl Encode for Job {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.range.start.to_le_bytes());
        out.extend_from_slice(&self.range.end.to_le_bytes());
        out.extend_from_slice(&self.capacity.to_le_bytes());
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        out.push(self.again.into());
    }
}

impl Decode for Job {
    const WHAT: &'static str = "job";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (id, start, end) = (JobId(reader.array()?), reader.u64()?, reader.u64()?);
        if end <= start {
            let expected = format!("more than {start}");
            return Err(WireError::OutOfRange { what: "end of a job", found: end, expected });
        }
        let (capacity, payload_bytes) = (reader.u32()?, reader.u32()?);
        Ok(Self { id, range: start..end, capacity, payload_bytes, again: reader.flag()? })
    }
}

impl fmt::Debug for SyncState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncState")
            .field("parameters", &self.parameters.name())
            .field("complete_to", &self.complete_to)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of indices.
        #[test]
        fn lost_ranges_are_those_of_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..20), 1..30)) {
            let mut state = SyncState::new(ClueParameters::STANDARD, 0, KnownRelay::default());
            let mut set = std::collections::BTreeSet::new();
            for (lose, first, length) in steps {
                let range = first..first + length;
                if lose {
                    state.lose(range.clone());
                    set.extend(range);
                } else {
                    state.find(range.clone());
                    set.retain(|index| !range.contains(index));
                }
                prop_assert_eq!(state.lost().flatten().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
                prop_assert!(state.lost.windows(2).all(|pair| pair[0][1] < pair[1][0]));
                let within: Vec<u64> = state.lost_within(&(10..40)).into_iter().flatten().collect();
                prop_assert_eq!(within, set.range(10..40).copied().collect::<Vec<_>>());
                let read = SyncState::from_file(&state.to_file()).unwrap();
                prop_assert_eq!(&*read.lost, &*state.lost);
            }
        }
    }

    #[test]
    fn lost_ranges_are_few_and_hide_none() {
        let mut state = SyncState::new(ClueParameters::STANDARD, 0, KnownRelay::default());
        let places = (0..3 * SyncState::LOST_MAX as u64).map(|place| 7 * place + place % 5);
        places.clone().for_each(|place| state.lose_message(place));
        assert!(state.lost().count() <= SyncState::LOST_MAX);
        let mut ranges = state.lost();
        let mut range = ranges.next().unwrap();
        for place in places {
            while range.end <= place {
                range = ranges.next().unwrap();
            }
            assert!(range.contains(&place), "{place}");
        }
    }
}
