//! A relay as a client remembers it, and when it believes a new head.

use restante_wire::{
    Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError,
    binding::BoardId,
    merkle::ConsistencyProof,
    relay::{RelayInfo, RelayKey, SignedHead, decode_relay_key, encode_relay_key},
};

use super::{Method, RelayError, Request, Side};

/// A relay's key and the newest head that was accepted from it.
///
/// The key comes from where the relay's address comes from. Without one, the first key that the relay shows is taken and kept: whoever
/// stands in the way the first time goes unnoticed.
///
/// ```
/// use restante_client::{RelayKey, relay::KnownRelay};
///
/// let key: RelayKey = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a".parse()?;
/// assert_eq!(KnownRelay::pinned(key).key, Some(key));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownRelay {
    /// The key.
    pub key: Option<RelayKey>,
    /// The board's id. A relay has one board for good, and a mirror that of its origin.
    pub board: Option<BoardId>,
    /// The newest head.
    pub head: Option<SignedHead>,
}

/// The proof that a new head needs before it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: it has the messages of the remembered one, or there is none to compare with.
    Accepted,
    /// The proof that it continues the remembered one.
    Continues(SignedHead),
}

impl KnownRelay {
    /// A relay whose key is known.
    pub fn pinned(key: RelayKey) -> Self {
        Self { key: Some(key), ..Self::default() }
    }

    /// Takes the key that a relay says it has, if none is known, and checks that it still has the board that is known.
    pub(super) fn meet(&mut self, side: Side, info: &RelayInfo) -> Result<bool, RelayError> {
        let first_use = self.meet_key(side, info.relay)?;
        self.check_board(side, BoardId(info.board.id.0))?;
        Ok(first_use)
    }

    /// Remembers a head that was accepted, and with the first one the board, which the parameters name without a signature.
    pub(super) fn accept(&mut self, head: SignedHead) {
        self.board = Some(head.board);
        self.head = Some(head);
    }

    fn check_board(&self, side: Side, found: BoardId) -> Result<(), RelayError> {
        match self.board.filter(|expected| *expected != found) {
            Some(expected) => Err(RelayError::OtherBoard { side, found, expected }),
            None => Ok(()),
        }
    }

    fn meet_key(&mut self, side: Side, found: RelayKey) -> Result<bool, RelayError> {
        match self.key {
            Some(expected) if expected != found => Err(RelayError::ForeignRelay { side, found, expected }),
            Some(_) => Ok(false),
            None => {
                self.key = Some(found);
                Ok(true)
            }
        }
    }

    /// Checks everything about a head but that it continues the remembered one.
    pub(super) fn check(
        &self,
        side: Side,
        head: &SignedHead,
        parameters: ParameterId,
        now: u64,
        tolerance_seconds: u64,
    ) -> Result<Verdict, RelayError> {
        let Some(relay) = self.key else {
            return Err(RelayError::Configuration("a head was asked for before the relay's key was known"));
        };
        if head.parameters != parameters {
            let (found, expected) = (head.parameters, parameters);
            return Err(RelayError::Parameters { what: "clues", side, found, expected });
        }
        if !head.is_signed_by(&relay) {
            return Err(RelayError::Signature { side, relay });
        }
        self.check_board(side, head.board)?;
        // A remembered head that was dated ahead of this clock says nothing about the times of those behind it: they would all look
        // old until then. That the board goes on is proved by counts and roots in any case.
        let remembered = self.head.map(|head| head.time).filter(|time| *time <= now).unwrap_or(0);
        let (least, most) =
            (remembered.max(now.saturating_sub(tolerance_seconds)), now.saturating_add(tolerance_seconds));
        let time = head.time;
        if !(least..=most).contains(&time) {
            return Err(RelayError::Stale { side, time, least, most });
        }
        let Some(older) = self.head else { return Ok(Verdict::Accepted) };
        if head.count < older.count {
            return Err(RelayError::Shrunk { side, remembered: older.count, found: head.count });
        }
        if head.count == older.count || older.count == 0 {
            return match head.verify_continues(&older, &no_proof()?) {
                Ok(()) => Ok(Verdict::Accepted),
                Err(reason) => Err(inconsistent(side, &older, head, reason)),
            };
        }
        Ok(Verdict::Continues(older))
    }
}

pub(super) fn inconsistent(
    side: Side,
    older: &SignedHead,
    newer: &SignedHead,
    reason: restante_wire::merkle::ProofError,
) -> RelayError {
    RelayError::Inconsistent { side, older: Box::new(*older), newer: Box::new(*newer), reason }
}

/// Asks for the proof that `to` messages begin with `from`.
pub(super) fn ask_consistency(side: Side, from: u64, to: u64) -> Request {
    let path = format!("/v1/consistency?from={from}&to={to}");
    Request::new(side, Method::Get, path).at_most(PROOF_BYTES_MAX)
}

const PROOF_BYTES_MAX: u64 = 128 * 32 + 4 + Envelope::OVERHEAD_BYTES as u64;

/// The proof for equal counts, and for no messages: it has no hashes.
pub(super) fn no_proof() -> Result<ConsistencyProof, WireError> {
    ConsistencyProof::from_bytes(&(), &0u32.to_le_bytes())
}

/// Reads a consistency proof's body, whatever parameters it names: it depends on none.
pub(super) fn read_consistency(body: &[u8]) -> Result<ConsistencyProof, WireError> {
    let parameters = Envelope::open(body)?.parameters;
    let envelope = Envelope::open_as(body, Kind::ConsistencyProof, 1, parameters)?;
    ConsistencyProof::from_bytes(&(), envelope.body)
}

impl Encode for KnownRelay {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_relay_key(self.key, out);
        out.push(self.board.is_some().into());
        if let Some(board) = &self.board {
            out.extend_from_slice(&board.0);
        }
        out.push(self.head.is_some().into());
        if let Some(head) = &self.head {
            head.encode(out);
        }
    }
}

impl Decode<ParameterId> for KnownRelay {
    const WHAT: &'static str = "known relay";

    fn decode(parameters: &ParameterId, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let key = decode_relay_key(reader)?;
        let board = if reader.flag()? { Some(BoardId(reader.array()?)) } else { None };
        let head = if reader.flag()? { Some(SignedHead::decode(parameters, reader)?) } else { None };
        Ok(Self { key, board, head })
    }
}
