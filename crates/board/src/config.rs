use restante_wire::binding::{BoardId, Period, TAIL_BYTES};
use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError};

use crate::BoardError;

/// The longest clue that a board can be made for, in bytes.
pub const CLUE_BYTES_LIMIT: u32 = 1 << 16;
/// The longest payload that a board can be made for, in bytes.
pub const PAYLOAD_BYTES_LIMIT: u32 = 1 << 16;
/// The most messages that a segment can be made for.
pub const SEGMENT_CAPACITY_LIMIT: u32 = 1 << 20;
/// Messages in a segment unless the board is made otherwise: one block of the compact digest.
pub const DEFAULT_SEGMENT_CAPACITY: u32 = 1 << 16;

/// A board's parameters and sizes, fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoardConfig {
    /// The board's id: random for a new board, the origin's for a mirror.
    pub id: BoardId,
    /// The parameter set that the clues belong to.
    pub parameters: ParameterId,
    /// The size of every clue in bytes: a period of 4, what else is bound, and the tail; at most [`CLUE_BYTES_LIMIT`].
    pub clue_bytes: u32,
    /// The bytes at the end of a clue that are not of its bound part.
    pub tail_bytes: u32,
    /// The size of the longest payload in bytes, 1 to [`PAYLOAD_BYTES_LIMIT`].
    pub payload_bytes_max: u32,
    /// Messages in a segment, a power of two up to [`SEGMENT_CAPACITY_LIMIT`].
    pub segment_capacity: u32,
}

impl BoardConfig {
    /// A board for clues of `clue_bytes` bytes of which 5 are their tail, with payloads of up to 64 KiB and 65,536 messages in a
    /// segment. The id is to be drawn at random: messages are made for the board that it names.
    pub fn new(id: BoardId, parameters: ParameterId, clue_bytes: u32) -> Self {
        Self {
            id,
            parameters,
            clue_bytes,
            tail_bytes: TAIL_BYTES as u32,
            payload_bytes_max: PAYLOAD_BYTES_LIMIT,
            segment_capacity: DEFAULT_SEGMENT_CAPACITY,
        }
    }

    /// The bound part of a clue of the right length, and its tail.
    pub(crate) fn split<'a>(&self, clue: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        clue.split_at(clue.len().saturating_sub(self.tail_bytes as usize))
    }

    /// The height of a full segment's subtree.
    pub(crate) fn segment_level(&self) -> u32 {
        self.segment_capacity.trailing_zeros()
    }

    /// The segment of message `index`, and its place there.
    pub(crate) fn locate(&self, index: u64) -> (u64, u64) {
        (index >> self.segment_level(), index & (u64::from(self.segment_capacity) - 1))
    }

    /// Refuses sizes outside the limits.
    pub(crate) fn validate(&self) -> Result<(), BoardError> {
        let sizes = [
            ("clue size in bytes", self.clue_bytes, CLUE_BYTES_LIMIT),
            ("payload bound in bytes", self.payload_bytes_max, PAYLOAD_BYTES_LIMIT),
            ("segment capacity in messages", self.segment_capacity, SEGMENT_CAPACITY_LIMIT),
        ];
        for (what, found, limit) in sizes {
            if !(1..=limit).contains(&found) {
                return Err(BoardError::Config { what, found, expected: format!("1 to {limit}") });
            }
        }
        let least = Period::BYTES as u64 + u64::from(self.tail_bytes);
        if u64::from(self.clue_bytes) < least {
            return Err(BoardError::Config {
                what: "clue size in bytes",
                found: self.clue_bytes,
                expected: format!("at least {least}, for a period and the tail"),
            });
        }
        if !self.segment_capacity.is_power_of_two() {
            return Err(BoardError::Config {
                what: "segment capacity in messages",
                found: self.segment_capacity,
                expected: "a power of two".into(),
            });
        }
        Ok(())
    }

    /// The manifest file.
    pub(crate) fn to_manifest(self) -> Vec<u8> {
        let body = self.to_bytes();
        Envelope { kind: Kind::BoardManifest, version: VERSION, parameters: self.parameters, body: &body }
            .seal()
    }

    /// Reads a manifest file.
    pub(crate) fn from_manifest(bytes: &[u8]) -> Result<Self, WireError> {
        let envelope = Envelope::open(bytes)?;
        // The board says which parameters it is for, so none are expected here.
        let envelope = Envelope::open_as(bytes, Kind::BoardManifest, VERSION, envelope.parameters)?;
        Self::from_bytes(&envelope.parameters, envelope.body)
    }
}

/// The version of the board's directory format: manifest, head, seals and segment files together.
pub(crate) const VERSION: u16 = 2;

impl Encode for BoardConfig {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        for size in [self.clue_bytes, self.tail_bytes, self.payload_bytes_max, self.segment_capacity] {
            out.extend_from_slice(&size.to_le_bytes());
        }
    }
}

impl Decode<ParameterId> for BoardConfig {
    const WHAT: &'static str = "board manifest";

    fn decode(parameters: &ParameterId, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let config = Self {
            parameters: *parameters,
            id: BoardId(reader.array()?),
            clue_bytes: reader.u32()?,
            tail_bytes: reader.u32()?,
            payload_bytes_max: reader.u32()?,
            segment_capacity: reader.u32()?,
        };
        match config.validate() {
            Err(BoardError::Config { what, found, expected }) => {
                Err(WireError::OutOfRange { what, found: found.into(), expected })
            }
            _ => Ok(config),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_sizes_outside_the_limits() {
        let good = BoardConfig::new(BoardId([7; 16]), ParameterId::NONE, 9);
        assert!(good.validate().is_ok());
        assert_eq!(BoardConfig::from_manifest(&good.to_manifest()), Ok(good));
        for bad in [
            BoardConfig { clue_bytes: 0, ..good },
            BoardConfig { clue_bytes: 8, ..good },
            BoardConfig { tail_bytes: 6, ..good },
            BoardConfig { tail_bytes: u32::MAX, ..good },
            BoardConfig { clue_bytes: CLUE_BYTES_LIMIT + 1, ..good },
            BoardConfig { payload_bytes_max: 0, ..good },
            BoardConfig { payload_bytes_max: PAYLOAD_BYTES_LIMIT + 1, ..good },
            BoardConfig { segment_capacity: 0, ..good },
            BoardConfig { segment_capacity: 3, ..good },
            BoardConfig { segment_capacity: SEGMENT_CAPACITY_LIMIT * 2, ..good },
        ] {
            assert!(matches!(bad.validate(), Err(BoardError::Config { .. })), "{bad:?}");
            assert!(matches!(
                BoardConfig::from_manifest(&bad.to_manifest()),
                Err(WireError::OutOfRange { .. })
            ));
        }
    }
}
