//! What a client keeps between two rounds.

use std::fmt;

use restante_clue::ClueParameters;
use restante_wire::{Decode, Encode, Envelope, Kind, Reader, WireError};
use zeroize::Zeroizing;

use crate::{
    ClientError,
    address::open_file,
    relay::{KnownRelay, Registration, Side, heads::read_flag},
};

/// Where a client is with its relays: their heads, how far it has seen the board, what is still to be fetched, and the token. Secret.
///
/// After a loss everything but the token follows from the account's seed and the board: start from [`SyncState::new`] at an index
/// before the first message of interest, and register again.
#[derive(Clone)]
pub struct SyncState {
    pub(super) parameters: ClueParameters,
    pub(super) relays: [KnownRelay; 2],
    pub(super) complete_to: u64,
    pub(super) fetched_to: u64,
    pub(super) backlog: Zeroizing<Vec<u64>>,
    pub(super) registration: Option<Registration>,
}

impl SyncState {
    /// The version of the file format.
    pub const VERSION: u16 = 1;

    /// A client that has seen nothing, and wants to see messages from `first` on. Relays whose keys are known are pinned to them.
    pub fn new(parameters: ClueParameters, first: u64, relays: [KnownRelay; 2]) -> Self {
        let backlog = Zeroizing::default();
        Self { parameters, relays, complete_to: first, fetched_to: first, backlog, registration: None }
    }

    /// The clue parameters.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// What is known of a relay.
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

    /// Messages that are known to be the client's, probably, and wait to be fetched.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// The registration at the first relay.
    pub fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref()
    }

    /// Keeps a registration, or forgets it.
    pub fn set_registration(&mut self, registration: Option<Registration>) {
        self.registration = registration;
    }

    /// Gives up the messages before `index`, which the relays no longer have.
    pub fn skip_to(&mut self, index: u64) {
        self.complete_to = self.complete_to.max(index);
        self.fetched_to = self.fetched_to.max(index);
        self.backlog.retain(|&message| message >= index);
    }

    /// Forgets the heads, and with them what they would show of a relay's lies so far. It is the only way on when a relay has forgotten
    /// so much that it cannot prove any more that its board continues them ([`RelayError::Gone`](crate::RelayError::Gone)). The relays'
    /// keys stay.
    pub fn forget_heads(&mut self) {
        self.relays.iter_mut().for_each(|relay| relay.head = None);
    }

    /// The file: both relays (flag and key, flag and head), the two cursors, number of messages of the backlog and their indices,
    /// flag and registration.
    pub fn to_file(&self) -> Zeroizing<Vec<u8>> {
        // At once, so that no half-grown copy stays behind in memory.
        let mut body = Zeroizing::new(Vec::with_capacity(1024 + 8 * self.backlog.len()));
        self.relays.iter().for_each(|relay| relay.encode(&mut body));
        body.extend_from_slice(&self.complete_to.to_le_bytes());
        body.extend_from_slice(&self.fetched_to.to_le_bytes());
        body.extend_from_slice(&(self.backlog.len() as u64).to_le_bytes());
        self.backlog.iter().for_each(|index| body.extend_from_slice(&index.to_le_bytes()));
        body.push(self.registration.is_some().into());
        if let Some(registration) = &self.registration {
            registration.encode(&mut body);
        }
        let (kind, version, parameters) = (Kind::SyncState, Self::VERSION, self.parameters.id());
        Zeroizing::new(Envelope { kind, version, parameters, body: &body }.seal())
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ClientError::Wire`], [`ClientError::UnknownParameters`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, ClientError> {
        let (parameters, body) = open_file(bytes, Kind::SyncState, Self::VERSION)?;
        let mut reader = Reader::new("sync state", body);
        let mut relay = || KnownRelay::decode(&parameters.id(), &mut reader);
        let relays = [relay()?, relay()?];
        let (complete_to, fetched_to) = (reader.u64()?, reader.u64()?);
        if fetched_to > complete_to {
            let (what, expected) = ("end of what was fetched", format!("at most {complete_to}"));
            return Err(WireError::OutOfRange { what, found: fetched_to, expected }.into());
        }
        let count = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
        let indices = reader.bytes(count.saturating_mul(8))?.as_chunks::<8>().0;
        let backlog = Zeroizing::new(indices.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect());
        let registration = match read_flag(&mut reader)? {
            true => Some(Registration::decode(&(), &mut reader)?),
            false => None,
        };
        reader.finish()?;
        Ok(Self { parameters, relays, complete_to, fetched_to, backlog, registration })
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
