//! Media types. The version is part of the name: a body of another version is another type.

/// Status, requests and results as JSON.
pub const JSON: &str = "application/json";
/// An error (RFC 9457).
pub const PROBLEM: &str = "application/problem+json";
/// Server-sent events.
pub const EVENTS: &str = "text/event-stream";
/// [`SignedHead`](super::SignedHead).
pub const HEAD: &str = "application/vnd.restante.head.v2";
/// [`PostBatch`](super::PostBatch).
pub const POST: &str = "application/vnd.restante.post.v2";
/// [`Page`](super::Page).
pub const PAGE: &str = "application/vnd.restante.page.v2";
/// A [`ConsistencyProof`](crate::merkle::ConsistencyProof) in an envelope.
pub const CONSISTENCY: &str = "application/vnd.restante.consistency.v1";
/// A part of a detection key's file.
pub const KEY_PART: &str = "application/vnd.restante.key-part.v1";
/// A stream digest's file.
pub const STREAM_DIGEST: &str = "application/vnd.restante.stream-digest.v1";
/// A compact digest's file.
pub const COMPACT_DIGEST: &str = "application/vnd.restante.compact-digest.v1";
/// [`DigestList`](super::DigestList).
pub const DIGESTS: &str = "application/vnd.restante.digests.v1";
/// The file "epoch" of a private fetch.
pub const EPOCH: &str = "application/vnd.restante.epoch.v1";
/// The file "hashes" of a private fetch.
pub const EPOCH_HASHES: &str = "application/vnd.restante.epoch-hashes.v1";
/// A private fetch's query to one server.
pub const FETCH_QUERY: &str = "application/vnd.restante.fetch-query.v1";
/// One server's answer to a private fetch.
pub const FETCH_ANSWER: &str = "application/vnd.restante.fetch-answer.v1";
/// A query to a directory: a search query's file.
pub const SEARCH_QUERY: &str = "application/vnd.restante.search-query.v1";
/// The answer to it: a search answer's file.
pub const SEARCH_ANSWER: &str = "application/vnd.restante.search-answer.v1";
