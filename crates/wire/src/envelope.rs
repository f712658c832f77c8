//! The start and the end of a file or an HTTP body.
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
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const CHECKSUM_BYTES: usize = 16;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// A recipient's secret seed.
    SecretKey = 1,
    /// An address: a sender needs it to write to a recipient.
    Address = 2,
    /// A detection key: a detector needs it to work for a recipient.
    DetectionKey = 3,
    /// A stream digest.
    StreamDigest = 4,
    /// A key of a distributed point function.
    DpfKey = 5,
    /// A private fetch's query to one server.
    FetchQuery = 6,
    /// One server's answer to a private fetch.
    FetchAnswer = 7,
    /// A client's secret state between the queries of a fetch and the answers.
    FetchState = 8,
    /// A board's manifest: its parameters and sizes.
    BoardManifest = 9,
    /// How many messages of a board are committed, and their root hash.
    BoardHead = 10,
    /// The root hash of a full, immutable segment of a board.
    SegmentSeal = 11,
    /// A range of a board's messages.
    Messages = 12,
    /// The header of an epoch, a snapshot of fixed-size records to fetch from.
    FetchEpoch = 13,
    /// A detection key for compact digests.
    CompactDetectionKey = 14,
    /// The pertinent messages of a range, marked under encryption.
    PertinencyVector = 15,
    /// A compact digest.
    CompactDigest = 16,
    /// A private search's query.
    SearchQuery = 17,
    /// The answer to a private search, for one window of records.
    SearchAnswer = 18,
    /// A querier's secret state between the query of a search and the answers.
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
    /// A client's state between two rounds with its relays.
    SyncState = 48,
    /// Messages that a client has not posted yet, or has a receipt for.
    Outbox = 49,
    /// An entry of an address book.
    Contact = 50,
    /// An outbox for each relay.
    Outboxes = 51,
}

impl Kind {
    const ALL: [Self; 29] = [
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
        Self::Outboxes,
    ];

    /// The advice about a file that an earlier version of the program made.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::SecretKey => {
                "an earlier version made it, and nobody can write to its address any more: make a new \
                 account and give its address out again"
            }
            Self::Address | Self::Contact => "an earlier version made it: ask its owner for a new address",
            Self::DetectionKey | Self::CompactDetectionKey => {
                "an earlier version made it: make it anew from the secret key"
            }
            Self::StreamDigest | Self::PertinencyVector | Self::CompactDigest | Self::DigestList => {
                "an earlier version made it: have it made anew"
            }
            Self::BoardManifest
            | Self::BoardHead
            | Self::SegmentSeal
            | Self::BoardRetention
            | Self::Messages
            | Self::FetchEpoch => {
                "an earlier version made it, whose messages this one cannot read: make a new board"
            }
            Self::SignedHead | Self::PostBatch | Self::Page | Self::ConsistencyProof => {
                "an earlier version made it: relay and client must be of one version"
            }
            Self::SyncState | Self::Outbox | Self::Outboxes => {
                "an earlier version made it, for messages that this one cannot read: begin with a new one"
            }
            Self::DpfKey
            | Self::FetchQuery
            | Self::FetchAnswer
            | Self::FetchState
            | Self::SearchQuery
            | Self::SearchAnswer
            | Self::SearchState => "an earlier version made it: begin with a new query",
        }
    }

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
            Self::Outboxes => "outboxes",
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

/// The fields before the body.
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) version: u16,
    pub(crate) parameters: ParameterId,
    pub(crate) body_bytes: u64,
}

impl Header {
    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = self.kind as u8;
        header[6..8].copy_from_slice(&self.version.to_le_bytes());
        header[8..16].copy_from_slice(&self.parameters.0);
        header[16..].copy_from_slice(&self.body_bytes.to_le_bytes());
        header
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if reader.array::<4>().map_err(|_| WireError::ForeignFile)? != MAGIC {
            return Err(WireError::ForeignFile);
        }
        let kind = Kind::from_byte(reader.u8()?)?;
        let zero = reader.u8()?;
        if zero != 0 {
            let (what, expected) = ("reserved header byte", "0".into());
            return Err(WireError::OutOfRange { what, found: zero.into(), expected });
        }
        let version = reader.u16()?;
        let parameters = ParameterId(reader.array()?);
        Ok(Self { kind, version, parameters, body_bytes: reader.u64()? })
    }

    /// Whether it is what a caller can read.
    pub(crate) fn check(&self, kind: Kind, version: u16, parameters: ParameterId) -> Result<(), WireError> {
        if self.kind != kind {
            return Err(WireError::WrongKind { expected: kind, found: self.kind });
        }
        if self.version != version {
            return Err(WireError::UnsupportedVersion { kind, found: self.version, supported: version });
        }
        if self.parameters != parameters {
            return Err(WireError::WrongParameters { kind, expected: parameters, found: self.parameters });
        }
        Ok(())
    }
}

/// A body together with what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The kind of the body.
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
        let Self { kind, version, parameters, body } = *self;
        out.extend_from_slice(
            &Header { kind, version, parameters, body_bytes: body.len() as u64 }.to_bytes(),
        );
        out.extend_from_slice(self.body);
        let checksum = blake3::hash(&out);
        out.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
        out
    }

    /// The bytes before and behind a body that is in parts: header and checksum, as [`Envelope::seal`] writes them. A large body
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

    /// Checks the frame and gives access to the body. The caller checks the kind, the version and the
    /// parameters.
    pub fn open(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("file", bytes);
        let Header { kind, version, parameters, body_bytes } = Header::read(&mut reader)?;
        let body_bytes = usize::try_from(body_bytes).unwrap_or(usize::MAX);
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
        let body_bytes = envelope.body.len() as u64;
        let header = Header {
            kind: envelope.kind,
            version: envelope.version,
            parameters: envelope.parameters,
            body_bytes,
        };
        header.check(kind, version, parameters)?;
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
        let earlier = Envelope::open_as(&bytes, Kind::Address, 4, parameters).unwrap_err();
        assert!(matches!(earlier, WireError::UnsupportedVersion { found: 3, supported: 4, .. }));
        assert_eq!(
            earlier.to_string(),
            "address has format version 3, this program reads version 4: an earlier version made it: ask its owner for \
             a new address"
        );
        let later = Envelope::open_as(&bytes, Kind::Address, 2, parameters).unwrap_err().to_string();
        assert!(
            later.ends_with("this program reads version 2: a later version of the program made it"),
            "{later}"
        );
        assert!(matches!(
            Envelope::open_as(&bytes, Kind::Address, 3, ParameterId::NONE),
            Err(WireError::WrongParameters { .. })
        ));
        assert_eq!(Envelope::open(b"PK\x03\x04 something else"), Err(WireError::ForeignFile));
        assert_eq!(Envelope::open(b""), Err(WireError::ForeignFile));
    }
}
