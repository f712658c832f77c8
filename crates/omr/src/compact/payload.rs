//! Payloads as phase 2 takes them.

use std::{borrow::Cow, ops::Range};

use crate::OmrError;

/// A payload, or as much of it as a digest holds, and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload<'a> {
    /// The first bytes: all of them, or at least as many as the digest takes.
    pub bytes: Cow<'a, [u8]>,
    /// The length of the whole payload.
    pub length: usize,
}

impl<'a> Payload<'a> {
    /// Payloads that lie in memory, those of the messages `first ..`, as [`super::Detector::digests`] asks for them.
    pub fn source(
        first: u64,
        payloads: &'a [&'a [u8]],
    ) -> impl FnMut(Range<u64>) -> Result<Vec<Payload<'a>>, OmrError> {
        move |range| {
            let place = |index: u64| index.checked_sub(first).and_then(|place| usize::try_from(place).ok());
            let part =
                place(range.start).zip(place(range.end)).and_then(|(start, end)| payloads.get(start..end));
            let part = part.ok_or_else(|| OmrError::Request {
                what: "number of payloads",
                found: payloads.len() as u64,
                expected: format!("those of messages {} to {}", range.start, range.end),
            })?;
            Ok(part.iter().map(|&bytes| Payload::from(bytes)).collect())
        }
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.into(), length: bytes.len() }
    }
}
