//! The messages between a relay and its clients. docs/protocol.md describes the routes.
//!
//! Bodies are either JSON, for what is small and read by people too, or binary, inside an
//! [`Envelope`](crate::Envelope): each binary body has a media type of its own ([`media`]). The module needs
//! no operating system.

mod bodies;
mod head;
mod hex;
mod ids;
mod json;
mod token;

pub mod headers;
pub mod media;

pub use bodies::{DigestList, MAX_BATCH, MAX_DIGESTS, Page, PageMessage, PostBatch, PostMessage};
pub use head::{RelayKey, SignedHead, decode_relay_key, encode_relay_key};
pub use hex::Hex;
pub use ids::{JobId, KeyId, MessageId, RegistrationId};
pub use json::*;
pub use token::{Credential, Token};
