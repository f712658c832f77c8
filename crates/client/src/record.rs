//! What a compact digest with payloads holds of a message.

use std::ops::Range;

use restante_omr::compact::{DigestRequest, Payload};

use crate::payload::{self, RECORD_OVERHEAD_BYTES};

/// What a compact digest with payloads holds of a message: the bound hash of its clue, then the payload.
/// [`Account::open_record`](crate::Account::open_record) opens it.
pub fn digest_record(clue: &[u8], payload: &[u8]) -> Vec<u8> {
    payload::record(clue, payload)
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
