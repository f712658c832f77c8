//! Records: the part of a message that a compact digest with payloads delivers.

use std::ops::Range;

use restante_omr::compact::{DigestRequest, Payload};
use restante_wire::{
    binding::{BoardId, split_clue},
    merkle::Hash,
};

use crate::{LetterError, payload::ClueHash};

/// The bytes of a record before the payload: the bound hash of the message's clue.
pub const RECORD_OVERHEAD_BYTES: usize = 32;

/// A message's record: the bound hash of its clue, then the payload, which opens without the clue.
pub fn digest_record(clue: &[u8], payload: &[u8]) -> Vec<u8> {
    [&Hash::of(split_clue(clue).0).0, payload].concat()
}

/// The hash that binds a record's payload, and the payload. The board is the reader's own: a record of another one does not open.
///
/// # Errors
///
/// [`LetterError::PayloadSize`] for bytes that are too short for a record.
pub fn split_record<'a>(board: &BoardId, record: &'a [u8]) -> Result<(ClueHash, &'a [u8]), LetterError> {
    let parts =
        record.split_first_chunk().map(|(bound, payload)| (ClueHash::new(board, &Hash(*bound)), payload));
    parts.ok_or(LetterError::PayloadSize { found: record.len() })
}

/// A request for digests with `payload_bytes` of each payload, and with room for what else a record holds; 0 is for indices
/// only. [`DigestRequest::check`] says whether there are such digests.
pub fn digest_request(range: Range<u64>, capacity: usize, payload_bytes: usize) -> DigestRequest {
    let payload_bytes = match payload_bytes {
        0 => 0,
        bytes => bytes.saturating_add(RECORD_OVERHEAD_BYTES),
    };
    DigestRequest { range, capacity, payload_bytes }
}

/// A message's record as phase 2 takes it: cut to what the digest has room for, with its whole length.
pub fn digest_payload(request: &DigestRequest, clue: &[u8], payload: &[u8]) -> Payload<'static> {
    let mut record = digest_record(clue, payload);
    let length = record.len();
    record.truncate(request.payload_bytes);
    record.shrink_to_fit();
    Payload { bytes: record.into(), length }
}
