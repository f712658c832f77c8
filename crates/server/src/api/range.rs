//! Files that are sent whole or from some byte on, so that a download that broke off can go on (RFC 9110, section 14).

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use futures_util::StreamExt;
use restante_wire::relay::Hex;
use tokio::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
use tokio_util::io::ReaderStream;

use super::binary;
use super::problem::{Answer, Code, Refusal};
use crate::ServerError;
use crate::limits::BodyMemory;

/// Which part of a file a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(Range<u64>),
    /// Something behind the end.
    Nothing,
}

/// The memory of an answer from a file: bytes that were read and have not been sent, in several places.
const ANSWER_BYTES: u64 = 256 << 10;

/// Answers with a file of `bytes` bytes, or with a part of it. `hash` names its contents. `memory` also bounds how many files are open
/// at once.
pub(super) async fn file(
    memory: &BodyMemory,
    path: &Path,
    bytes: u64,
    hash: &Hex<32>,
    media_type: &'static str,
    fields: &[(&'static str, u64)],
    request: &HeaderMap,
) -> Answer {
    let tag = format!("\"{hash}\"");
    let wanted = wanted(request, bytes, &tag);
    let range = match &wanted {
        Wanted::Whole => 0..bytes,
        Wanted::Part(range) => range.clone(),
        Wanted::Nothing => {
            let detail = format!("nothing of that is among the {bytes} bytes");
            let refusal = Refusal::new(Code::Range, detail).at("header:range");
            let mut response = refusal.into_response();
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{bytes}"));
            return Ok(response);
        }
    };
    let failed = |error| Refusal::from(ServerError::io("read", path)(error));
    let permit = memory.take(ANSWER_BYTES)?;
    let mut file = tokio::fs::File::open(path).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Refusal::new(Code::NotFound, "it was deleted meanwhile"),
        _ => ServerError::io("open", path)(error).into(),
    })?;
    if range.start > 0 {
        file.seek(SeekFrom::Start(range.start)).await.map_err(failed)?;
    }
    let length = range.end - range.start;
    let pieces = ReaderStream::with_capacity(file.take(length), 64 << 10);
    let body = Body::from_stream(pieces.inspect(move |_| {
        // Held until the answer is sent or given up.
        let _ = &permit;
    }));
    let mut response = binary(media_type, body, fields);
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    set(&mut response, header::ETAG, &tag);
    if let Wanted::Part(range) = wanted {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let place = format!("bytes {}-{}/{bytes}", range.start, range.end - 1);
        set(&mut response, header::CONTENT_RANGE, &place);
    }
    Ok(response)
}

fn set(response: &mut Response<Body>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// One range of bytes. Several, other units, and what cannot be read are as if nobody had asked for a part, and so is a part of a
/// file that has changed.
fn wanted(request: &HeaderMap, bytes: u64, tag: &str) -> Wanted {
    let text = |name| request.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if request.contains_key(header::IF_RANGE) && text(header::IF_RANGE) != Some(tag) {
        return Wanted::Whole;
    }
    let mut ranges = request.get_all(header::RANGE).iter();
    let (Some(_), None) = (ranges.next(), ranges.next()) else { return Wanted::Whole };
    let parsed = text(header::RANGE).and_then(|value| value.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = parsed else { return Wanted::Whole };
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        // What is too large for a number is behind every end.
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let range = match (first, number(first), last, number(last)) {
        (_, Some(first), "", _) => first..bytes,
        (_, Some(first), _, Some(last)) if first <= last => first..bytes.min(last.saturating_add(1)),
        ("", _, _, Some(length)) => bytes.saturating_sub(length)..bytes,
        _ => return Wanted::Whole,
    };
    if range.is_empty() { Wanted::Nothing } else { Wanted::Part(range) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn parts_are_what_the_rfc_says() {
        let part = |range| Wanted::Part(range);
        for (asked, bytes, expected) in [
            ("bytes=0-", 10, part(0..10)),
            ("bytes=9-", 10, part(9..10)),
            ("bytes=10-", 10, Wanted::Nothing),
            ("bytes=99999999999999999999999-", 10, Wanted::Nothing),
            ("bytes=0-0", 10, part(0..1)),
            ("bytes=2-5", 10, part(2..6)),
            ("bytes=2-99999999999999999999999", 10, part(2..10)),
            ("bytes=-3", 10, part(7..10)),
            ("bytes=-30", 10, part(0..10)),
            ("bytes=-0", 10, Wanted::Nothing),
            ("bytes=0-", 0, Wanted::Nothing),
            ("bytes=5-2", 10, Wanted::Whole),
            ("bytes=-", 10, Wanted::Whole),
            ("bytes=+1-", 10, Wanted::Whole),
            ("bytes=0-1,3-4", 10, Wanted::Whole),
            ("bytes 0-1", 10, Wanted::Whole),
            ("messages=0-1", 10, Wanted::Whole),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(header::RANGE, HeaderValue::from_static(asked));
            assert_eq!(wanted(&fields, bytes, "\"a\""), expected, "{asked}");
            for (tag, holds) in [("\"a\"", true), ("\"b\"", false), ("W/\"a\"", false), ("a", false)] {
                fields.insert(header::IF_RANGE, HeaderValue::from_static(tag));
                let expected_here = if holds { &expected } else { &Wanted::Whole };
                assert_eq!(wanted(&fields, bytes, "\"a\""), *expected_here, "{asked} {tag}");
            }
        }
        assert_eq!(wanted(&HeaderMap::new(), 10, "\"a\""), Wanted::Whole);
    }
}
