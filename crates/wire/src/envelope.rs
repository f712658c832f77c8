//! What a file or an HTTP body starts and ends with.
//!
//! ```text
//! offset  bytes  field
//!      0      4  "RSTN"
//!      4      1  kind
//!      5      1  zero
//!      6      2  format version of that kind
//!      8      8  parameter id
//!     16      8  length of the body
//!     24      …  body
//!      …     16  BLAKE3 of everything before, cut to 16 bytes
//! ```
//!
//! The checksum finds damage, not forgery: whoever may write a file can compute it.

use std::fmt;

use crate::{Reader, WireError};

const MAGIC: [u8; 4] = *b"RSTN";
const HEADER_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 16;

/// What an envelope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// A recipient's secret seed.
    SecretKey = 1,
    /// What a sender needs to write to a recipient.
    Address = 2,
    /// What a detector needs to work for a recipient.
    DetectionKey = 3,
    /// A stream digest.
    StreamDigest = 4,
    /// A key of a distributed point function.
    DpfKey = 5,
    /// A private fetch's query to one server.
    FetchQuery = 6,
    /// One server's answer to a private fetch.
    FetchAnswer = 7,
    /// What the client keeps to open the answers to its fetch.
    FetchState = 8,
    /// What a board is: its parameters and sizes.
    BoardManifest = 9,
    /// How many messages of a board are committed, and their root hash.
    BoardHead = 10,
    /// The root hash of a full, immutable segment of a board.
    SegmentSeal = 11,
    /// A range of a board's messages.
    Messages = 12,
    /// What an epoch is: a snapshot of fixed-size records to fetch from.
    FetchEpoch = 13,
    /// What a detector needs for a recipient's compact digests.
    CompactDetectionKey = 14,
    /// Which messages are pertinent, encrypted.
    PertinencyVector = 15,
    /// A compact digest.
    CompactDigest = 16,
    /// A private search's query.
    SearchQuery = 17,
    /// The answer to a private search, for one window of records.
    SearchAnswer = 18,
    /// What the querier keeps to open the answers to its search.
    SearchState = 19,
    /// How many messages a relay's board has and their root hash, signed by the relay.
    SignedHead = 32,
    /// Messages to post.
    PostBatch = 33,
    /// A range of a relay's messages, the head that counts them, and the proof.
    Page = 34,
    /// The proof that one head's messages begin with another's.
    ConsistencyProof = 35,
    /// Digests one after the other.
    DigestList = 36,
    /// From which segment on a board still has its messages.
    BoardRetention = 37,
    /// What a client keeps between two rounds with its relays.
    SyncState = 48,
    /// Messages that a client has not posted yet, or has a receipt for.
    Outbox = 49,
    /// An entry of an address book.
    Contact = 50,
}

impl Kind {
    const ALL: [Self; 28] = [
        Self::SecretKey,
        Self::Address,
        Self::DetectionKey,
        Self::StreamDigest,
        Self::DpfKey,
        Self::FetchQuery,
        Self::FetchAnswer,
        Self::FetchState,
        Self::BoardManifest,
        Self::BoardHead,
        Self::SegmentSeal,
        Self::Messages,
        Self::FetchEpoch,
        Self::CompactDetectionKey,
        Self::PertinencyVector,
        Self::CompactDigest,
        Self::SearchQuery,
        Self::SearchAnswer,
        Self::SearchState,
        Self::SignedHead,
        Self::PostBatch,
        Self::Page,
        Self::ConsistencyProof,
        Self::DigestList,
        Self::BoardRetention,
        Self::SyncState,
        Self::Outbox,
        Self::Contact,
    ];

    fn from_byte(byte: u8) -> Result<Self, WireError> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte).ok_or(WireError::UnknownKind(byte))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecretKey => "secret key",
            Self::Address => "address",
            Self::DetectionKey => "detection key",
            Self::StreamDigest => "stream digest",
            Self::DpfKey => "DPF key",
            Self::FetchQuery => "fetch query",
            Self::FetchAnswer => "fetch answer",
            Self::FetchState => "fetch state",
            Self::BoardManifest => "board manifest",
            Self::BoardHead => "board head",
            Self::SegmentSeal => "segment seal",
            Self::Messages => "range of messages",
            Self::FetchEpoch => "fetch epoch",
            Self::CompactDetectionKey => "compact detection key",
            Self::PertinencyVector => "pertinency vector",
            Self::CompactDigest => "compact digest",
            Self::SearchQuery => "search query",
            Self::SearchAnswer => "search answer",
            Self::SearchState => "search state",
            Self::SignedHead => "signed head",
            Self::PostBatch => "batch of messages to post",
            Self::Page => "page of messages",
            Self::ConsistencyProof => "consistency proof",
            Self::DigestList => "list of digests",
            Self::BoardRetention => "board retention",
            Self::SyncState => "sync state",
            Self::Outbox => "outbox",
            Self::Contact => "contact",
        })
    }
}

/// Names a parameter set: the first 8 bytes of the BLAKE3 hash of its canonical description.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParameterId(pub [u8; 8]);

impl ParameterId {
    /// For formats that do not depend on parameters.
    pub const NONE: Self = Self([0; 8]);

    /// The id of the parameter set that `description` describes completely.
    pub fn of(description: &str) -> Self {
        let mut id = [0; 8];
        id.copy_from_slice(&blake3::hash(description.as_bytes()).as_bytes()[..8]);
        Self(id)
    }
}

impl fmt::Display for ParameterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ParameterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParameterId({self})")
    }
}

/// A body together with what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// What the body is.
    pub kind: Kind,
    /// The version of that kind's format.
    pub version: u16,
    /// The parameters that the body was made for.
    pub parameters: ParameterId,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// The bytes that an envelope adds to its body.
    pub const OVERHEAD_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;

    /// Header, body and checksum.
    pub fn seal(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + Self::OVERHEAD_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.kind as u8, 0]);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.parameters.0);
        out.extend_from_slice(&(self.body.len() as u64).to_le_bytes());
        out.extend_from_slice(self.body);
        let checksum = blake3::hash(&out);
        out.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
        out
    }

    /// What goes before and behind a body that is in parts: header and checksum, as [`Envelope::seal`] writes them. A large body
    /// need not be copied then.
    pub fn frame(
        kind: Kind,
        version: u16,
        parameters: ParameterId,
        parts: &[&[u8]],
    ) -> ([u8; HEADER_BYTES], [u8; CHECKSUM_BYTES]) {
        let length = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = kind as u8;
        header[6..8].copy_from_slice(&version.to_le_bytes());
        header[8..16].copy_from_slice(&parameters.0);
        header[16..].copy_from_slice(&length.to_le_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(&header);
        for part in parts {
            hasher.update(part);
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        checksum.copy_from_slice(&hasher.finalize().as_bytes()[..CHECKSUM_BYTES]);
        (header, checksum)
    }

    /// Checks the frame and gives access to the body. What the body is made for is the caller's to check.
    pub fn open(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("file", bytes);
        if reader.array::<4>().map_err(|_| WireError::ForeignFile)? != MAGIC {
            return Err(WireError::ForeignFile);
        }
        let kind = Kind::from_byte(reader.u8()?)?;
        let zero = reader.u8()?;
        if zero != 0 {
            return Err(WireError::OutOfRange {
                what: "reserved header byte",
                found: zero.into(),
                expected: "0".into(),
            });
        }
        let version = reader.u16()?;
        let parameters = ParameterId(reader.array()?);
        let len = reader.u64()?;
        let body_bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let body = reader.bytes(body_bytes)?;
        let checksum = reader.array::<CHECKSUM_BYTES>()?;
        reader.finish()?;
        let expected = blake3::hash(&bytes[..HEADER_BYTES + body_bytes]);
        if expected.as_bytes()[..CHECKSUM_BYTES] != checksum {
            return Err(WireError::Corrupted { kind });
        }
        Ok(Self { kind, version, parameters, body })
    }

    /// Like [`Envelope::open`], and checks that the body is what the caller can read.
    pub fn open_as(
        bytes: &'a [u8],
        kind: Kind,
        version: u16,
        parameters: ParameterId,
    ) -> Result<Self, WireError> {
        let envelope = Self::open(bytes)?;
        if envelope.kind != kind {
            return Err(WireError::WrongKind { expected: kind, found: envelope.kind });
        }
        if envelope.version != version {
            return Err(WireError::UnsupportedVersion { kind, found: envelope.version, supported: version });
        }
        if envelope.parameters != parameters {
            return Err(WireError::WrongParameters {
                kind,
                expected: parameters,
                found: envelope.parameters,
            });
        }
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let parameters = ParameterId::of("test");
        Envelope { kind: Kind::Address, version: 3, parameters, body: b"body" }.seal()
    }

    #[test]
    fn opens_what_it_sealed() {
        let bytes = sealed();
        let envelope = Envelope::open_as(&bytes, Kind::Address, 3, ParameterId::of("test")).unwrap();
        assert_eq!(envelope.body, b"body");
        assert_eq!(bytes.len(), 4 + Envelope::OVERHEAD_BYTES);
    }

    #[test]
    fn a_body_in_parts_has_the_same_frame() {
        let (header, checksum) =
            Envelope::frame(Kind::Address, 3, ParameterId::of("test"), &[b"bo", b"", b"dy"]);
        assert_eq!([&header[..], b"body", &checksum].concat(), sealed());
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_an_error() {
        let bytes = sealed();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Envelope::open(&changed).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Envelope::open(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(matches!(Envelope::open(&longer), Err(WireError::Trailing { left: 1, .. })));
    }

    #[test]
    fn says_what_was_expected() {
        let bytes = sealed();
        let parameters = ParameterId::of("test");
        assert_eq!(
            Envelope::open_as(&bytes, Kind::DetectionKey, 3, parameters),
            Err(WireError::WrongKind { expected: Kind::DetectionKey, found: Kind::Address })
        );
        assert!(matches!(
            Envelope::open_as(&bytes, Kind::Address, 4, parameters),
            Err(WireError::UnsupportedVersion { found: 3, supported: 4, .. })
        ));
        assert!(matches!(
            Envelope::open_as(&bytes, Kind::Address, 3, ParameterId::NONE),
            Err(WireError::WrongParameters { .. })
        ));
        assert_eq!(Envelope::open(b"PK\x03\x04 something else"), Err(WireError::ForeignFile));
        assert_eq!(Envelope::open(b""), Err(WireError::ForeignFile));
    }
}
