//! The digest and its file.

use std::ops::Range;

use restante_bfv::ShortCiphertext;
use restante_wire::{Envelope, Kind, ParameterId, Reader, WireError};

use super::{CompactContext, CompactParameters, columns, detection_key::MIN_EQUATIONS};
use crate::{KeyId, OmrError};

const VERSION: u16 = 2;

/// The range, capacity and payload size of a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRequest {
    /// The messages.
    pub range: Range<u64>,
    /// k: how many pertinent messages it can hold.
    pub capacity: usize,
    /// How many bytes of each payload it holds; zero for indices only.
    pub payload_bytes: usize,
}

impl DigestRequest {
    /// Checks the sizes.
    pub fn check(&self) -> Result<(), OmrError> {
        let limit = CompactParameters::MAX_MESSAGES;
        let Range { start: first, end } = self.range;
        if end < first {
            let expected = format!("at least {first}");
            return Err(OmrError::Request { what: "end of the range", found: end, expected });
        }
        let count = end - first;
        if count > limit {
            return Err(OmrError::Range { first, count, limit });
        }
        let sizes = [
            ("capacity", self.capacity, 1, CompactParameters::MAX_CAPACITY),
            ("payload size", self.payload_bytes, 0, CompactParameters::MAX_PAYLOAD_BYTES),
        ];
        for (what, found, least, most) in sizes {
            if !(least..=most).contains(&found) {
                let expected = format!("{least} to {most}");
                return Err(OmrError::Request { what, found: found as u64, expected });
            }
        }
        Ok(())
    }

    /// K: the number of sums of each column, a power of two above k.
    pub(super) fn equations(&self) -> usize {
        (self.capacity + 1).next_power_of_two().max(MIN_EQUATIONS)
    }

    /// The number of columns.
    pub(super) fn columns(&self) -> usize {
        columns::count(self.payload_bytes)
    }

    /// The number of columns in a ciphertext.
    pub(super) fn columns_per_ciphertext(&self, context: &CompactContext) -> usize {
        context.parameters().digest_degree / self.equations()
    }

    /// The number of ciphertexts, for sizes that [`DigestRequest::check`] accepts.
    pub fn ciphertexts(&self, context: &CompactContext) -> usize {
        self.columns().div_ceil(self.columns_per_ciphertext(context))
    }
}

/// The pertinent messages of a range, encrypted for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactDigest {
    /// The parameters of the ciphertexts.
    pub(super) parameters: ParameterId,
    pub(super) request: DigestRequest,
    pub(super) key: KeyId,
    /// The factor of every coefficient, modulo t.
    pub(super) factor: u64,
    pub(super) ciphertexts: Vec<ShortCiphertext>,
}

impl CompactDigest {
    /// The request that it answers.
    pub fn request(&self) -> &DigestRequest {
        &self.request
    }

    /// The detection key that it was made with.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// The bytes of a digest's file, for sizes that [`DigestRequest::check`] accepts.
    pub fn file_bytes(context: &CompactContext, request: &DigestRequest) -> usize {
        let CompactParameters { short, digest_degree, .. } = *context.parameters();
        Envelope::OVERHEAD_BYTES + 44 + request.ciphertexts(context) * short.ciphertext_bytes(digest_degree)
    }

    /// The file: first index and end of the range (64 bits each), capacity, payload size and factor (32 bits each), key id,
    /// then the ciphertexts.
    pub fn to_file(&self, context: &CompactContext) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::file_bytes(context, &self.request));
        let DigestRequest { range, capacity, payload_bytes } = &self.request;
        body.extend_from_slice(&range.start.to_le_bytes());
        body.extend_from_slice(&range.end.to_le_bytes());
        for value in [*capacity as u32, *payload_bytes as u32, self.factor as u32] {
            body.extend_from_slice(&value.to_le_bytes());
        }
        body.extend_from_slice(&self.key.0);
        let short = context.parameters().short;
        self.ciphertexts.iter().for_each(|ciphertext| ciphertext.encode(short, &mut body));
        let parameters = self.parameters;
        Envelope { kind: Kind::CompactDigest, version: VERSION, parameters, body: &body }.seal()
    }

    /// Reads a file.
    pub fn from_file(context: &CompactContext, bytes: &[u8]) -> Result<Self, OmrError> {
        let envelope = Envelope::open_as(bytes, Kind::CompactDigest, VERSION, context.id())?;
        let mut reader = Reader::new("compact digest", envelope.body);
        let range = reader.u64()?..reader.u64()?;
        let (capacity, payload_bytes) = (reader.u32()? as usize, reader.u32()? as usize);
        let request = DigestRequest { range, capacity, payload_bytes };
        request.check()?;
        let (factor, t) = (reader.u32()?, context.parameters().bfv.plaintext_modulus);
        if factor == 0 || u64::from(factor) >= t {
            let expected = format!("1 to {}", t - 1);
            return Err(
                WireError::OutOfRange { what: "factor of a digest", found: factor.into(), expected }.into()
            );
        }
        let key = KeyId(reader.array()?);
        let CompactParameters { short, digest_degree, .. } = *context.parameters();
        let ciphertexts = (0..request.ciphertexts(context))
            .map(|_| ShortCiphertext::decode(digest_degree, short, &mut reader))
            .collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Self { parameters: context.id(), request, key, factor: factor.into(), ciphertexts })
    }
}
