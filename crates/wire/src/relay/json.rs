//! Requests and answers in JSON. Bytes are lower-case hexadecimal, sizes are bytes, times are seconds since 1970.
//!
//! Readers ignore fields that they do not know in answers; a relay refuses them in requests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Hex, JobId, KeyId, RelayKey, SignedHead, Token};
use crate::{ParameterId, binding::BoardId, merkle::Hash};

/// The version of the protocol. It changes with what is said; paths keep their `/v1`, which names the routes.
pub const PROTOCOL: u32 = 2;

/// A relay and its limits: `GET /v1/parameters`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelayInfo {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The key that signs heads. A client that has another one from elsewhere trusts that one.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub relay: RelayKey,
    /// The board.
    pub board: BoardInfo,
    /// The kinds of digests.
    pub digests: Vec<DigestInfo>,
    /// The settings of private fetch, if the relay serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<FetchInfo>,
    /// Limits.
    pub limits: LimitsInfo,
}

/// A board's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BoardInfo {
    /// The board's id, which messages are made for. A mirror has that of its origin.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: Hex<16>,
    /// The parameter id of the clues.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub parameters: Hex<8>,
    /// Bytes of every clue.
    pub clue_bytes: u32,
    /// Bytes of the longest payload.
    pub payload_bytes_max: u32,
    /// Messages in a segment.
    pub segment_capacity: u32,
}

/// A kind of digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DigestKind {
    /// About 13 bytes a message; the client sees every message's distance.
    Stream,
    /// Its size depends on the capacity, not on the range.
    Compact,
}

impl fmt::Display for DigestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "stream",
            Self::Compact => "compact",
        })
    }
}

/// A kind of digest that a relay makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DigestInfo {
    /// The kind.
    pub kind: DigestKind,
    /// The parameter id of detection keys and digests.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub parameters: Hex<8>,
    /// Bytes of a detection key's file.
    pub key_bytes: u64,
    /// Messages of a block: a stream digest grows by whole blocks, the work for a compact one does.
    pub block: u32,
    /// Bytes of a digest for one block, its header included; of a compact digest, those of the largest.
    pub block_bytes: u64,
    /// The most messages of one digest.
    pub messages_max: u64,
    /// The largest capacity, for kinds that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_max: Option<u32>,
    /// The most bytes of each payload that a digest holds, for kinds that hold any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes_max: Option<u32>,
}

/// The settings of private fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FetchInfo {
    /// Bytes of a record.
    pub record_bytes: u32,
    /// The part of a message that a record holds: "clue", "payload" or "message".
    pub part: String,
    /// An epoch ends at a multiple of so many messages.
    pub messages: u64,
    /// An epoch ends at least every so many seconds while messages come, so that none waits longer for one; there is no such time if
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// The server that this relay is for queries, 0 or 1; either one if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<u8>,
}

/// A directory of addresses, and what a query to it has to be like: `GET /v1/directory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DirectoryInfo {
    /// Names this version of the directory: another one when an entry or the hash key changes.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub version: Hex<16>,
    /// The number of entries.
    pub entries: u64,
    /// The schema id of the entries.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub schema: Hex<8>,
    /// The parameter id of search queries.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub parameters: Hex<8>,
    /// log2 of the number of buckets.
    pub hash_bits: u32,
    /// The key that names are hashed with in every query to this version.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hash_key: Hex<32>,
    /// Ciphertexts of an answer.
    pub columns: u32,
    /// Bytes of every query.
    pub query_bytes: u64,
    /// Bytes of every answer.
    pub answer_bytes: u64,
}

/// A relay's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitsInfo {
    /// Messages of a batch.
    pub batch_messages: u32,
    /// Bytes of a batch's body.
    pub batch_bytes: u64,
    /// Messages of a page.
    pub page_messages: u32,
    /// Bytes of a page's messages, except that a page has one message at least.
    pub page_bytes: u64,
    /// Bytes of one part of an upload.
    pub upload_part_bytes: u64,
    /// Messages of a job.
    pub job_messages: u64,
    /// Jobs of a registration that are not deleted yet.
    pub jobs: u32,
    /// Seconds for which a posted id is remembered.
    pub id_seconds: u64,
    /// Seconds for which a finished job is kept.
    pub job_seconds: u64,
}

/// A head in JSON: `GET /v1/head`, and part of other answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeadStatus {
    /// The parameter id of the clues.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub parameters: Hex<8>,
    /// The board's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub board: Hex<16>,
    /// The signer's key.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub relay: RelayKey,
    /// The number of messages.
    pub count: u64,
    /// The root over them.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root: Hex<32>,
    /// When it was signed.
    pub time: u64,
    /// The signature.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signature: Hex<64>,
    /// Index of the first message that the relay still has. The signature does not cover it.
    pub retained_from: u64,
}

impl HeadStatus {
    /// A signed head in JSON.
    pub fn new(head: &SignedHead, retained_from: u64) -> Self {
        Self {
            parameters: head.parameters.into(),
            board: Hex(head.board.0),
            relay: head.relay,
            count: head.count,
            root: head.root.into(),
            time: head.time,
            signature: head.signature,
            retained_from,
        }
    }

    /// The signed head, for verification.
    pub fn signed(&self) -> SignedHead {
        SignedHead {
            parameters: ParameterId(self.parameters.0),
            board: BoardId(self.board.0),
            relay: self.relay,
            count: self.count,
            root: Hash(self.root.0),
            time: self.time,
            signature: self.signature,
        }
    }
}

/// The answer to `POST /v1/messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PostResult {
    /// For each message of the batch, in its order.
    pub messages: Vec<Posted>,
    /// A head that counts all of them: what the relay can be held to.
    pub head: HeadStatus,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Posted {
    /// Its index on the board.
    pub index: u64,
    /// Whether an earlier request had posted it.
    pub replayed: bool,
}

/// A new registration: `POST /v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    /// The kind of digests that the key is for.
    pub kind: DigestKind,
    /// The parameter id that its file names.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub parameters: Hex<8>,
    /// Bytes of its file.
    pub bytes: u64,
    /// BLAKE3 hash of its file. Its first 16 bytes are the key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hash: Hex<32>,
}

/// The answer to a new registration. The token is shown this once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Registered {
    /// Owns the registration.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub token: Token,
    /// The registration.
    pub key: KeyStatus,
}

/// A registration: `GET /v1/keys/{key}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyStatus {
    /// The key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: KeyId,
    /// The kind of digests.
    pub kind: DigestKind,
    /// Whether the relay has the whole key.
    pub state: KeyState,
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes that the relay has.
    pub uploaded: u64,
    /// When it was registered.
    pub registered: u64,
    /// The standing order, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<StandingStatus>,
}

/// Whether a relay has a whole key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KeyState {
    /// Parts are missing.
    Uploading,
    /// It has been verified and can be used.
    Ready,
}

/// Asks for digests of all messages as they come, or for phase 1 of compact ones: `PUT /v1/keys/{key}/standing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct StandingRequest {
    /// Index of the first message to look at; without it, the next that will be posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
}

/// A standing order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StandingStatus {
    /// Index of the first message that digests, or a compact key's pertinency vectors, are kept for: a multiple of the block.
    pub first: u64,
    /// Index behind the last message that they take account of.
    pub complete_to: u64,
}

/// Asks for a digest: `POST /v1/keys/{key}/jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// 16 random bytes that become the job's id. The same request again is answered with the same job.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: JobId,
    /// The kind of digest.
    pub kind: DigestKind,
    /// Index of the first message.
    pub first: u64,
    /// Index behind the last; without it, the number of messages when the request is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// The number of pertinent messages that the digest has room for, for kinds that have such a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Bytes of each payload that the digest holds, for kinds that hold any; 0, and the default, for indices only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u32>,
}

/// How far a job is: `GET /v1/keys/{key}/jobs/{job}`, and the data of its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobStatus {
    /// The job's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: JobId,
    /// The kind of digest.
    pub kind: DigestKind,
    /// Index of the first message.
    pub first: u64,
    /// Index behind the last: the digest is complete up to here.
    pub complete_to: u64,
    /// The room for pertinent messages, where there is a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The room for each payload, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u32>,
    /// Where it stands.
    pub state: JobState,
    /// Messages that are done. It starts again at 0 when the relay has restarted.
    pub done: u64,
    /// When it was accepted.
    pub created: u64,
    /// Bytes of the result, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// BLAKE3 hash of the result, once there is one.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_hash: Option<Hex<32>>,
    /// Why it failed, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Where a job stands. `done` and `failed` are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Waits for its turn.
    Queued,
    /// Runs.
    Running,
    /// The result can be read.
    Done,
    /// There will be no result.
    Failed,
}

impl JobState {
    /// Whether nothing more will change.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }

    /// The name, as in JSON and as an event's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The jobs of a registration: `GET /v1/keys/{key}/jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobList {
    /// The jobs, the oldest first.
    pub jobs: Vec<JobStatus>,
}

/// The epochs of private fetch: `GET /v1/epochs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EpochList {
    /// The epochs that can be asked, the newest first.
    pub epochs: Vec<EpochStatus>,
}

/// An epoch of private fetch. Record i is message `first + i`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EpochStatus {
    /// The epoch's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub epoch: Hex<32>,
    /// Index of the first message.
    pub first: u64,
    /// Index behind the last message.
    pub complete_to: u64,
    /// Bytes of a record.
    pub record_bytes: u32,
}

/// An error (RFC 9457): the body of every answer with a status of 400 or more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:restante:problem:` and a code that does not change. docs/protocol.md lists them.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code's meaning.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The fault of this request, and the right form.
    pub detail: String,
    /// The place of the fault: a header (`header:content-type`), a parameter (`query:first`, `path:key`), a field of a JSON
    /// body (`body:hash`) or a part of a binary one (`body:messages`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Seconds to wait before the next attempt, as in the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// The beginning of every type.
    pub const TYPE_PREFIX: &'static str = "urn:restante:problem:";

    /// The code.
    pub fn code(&self) -> &str {
        self.kind.strip_prefix(Self::TYPE_PREFIX).unwrap_or(&self.kind)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn json_is_as_documented() {
        let request: JobRequest = serde_json::from_str(
            r#"{"id": "000102030405060708090a0b0c0d0e0f", "kind": "stream", "first": 4096}"#,
        )
        .unwrap();
        assert_eq!((request.first, request.end, request.kind), (4096, None, DigestKind::Stream));
        let unknown =
            r#"{"id": "000102030405060708090a0b0c0d0e0f", "kind": "stream", "first": 0, "lsat": 1}"#;
        assert!(serde_json::from_str::<JobRequest>(unknown).unwrap_err().to_string().contains("lsat"));
        assert_eq!(serde_json::to_string(&JobState::Queued).unwrap(), r#""queued""#);
        let problem = Problem {
            kind: "urn:restante:problem:offset".into(),
            title: "The upload goes on elsewhere".into(),
            status: 409,
            detail: "offset 7, expected 5".into(),
            field: Some("header:upload-offset".into()),
            retry_after: None,
        };
        assert_eq!(problem.code(), "offset");
        let text = serde_json::to_string(&problem).unwrap();
        assert!(text.starts_with(r#"{"type":"urn:restante:problem:offset","#) && !text.contains("retry"));
    }
}
