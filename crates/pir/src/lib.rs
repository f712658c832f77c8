//! Private retrieval: getting a record out of a table without the table's servers learning which one.
//!
//! * [`fetch`]: record i of a sealed snapshot, from two servers that do not collude.
//! * [`search`]: every record with a given selector, from one server.
//!
//! The protocol, what each party learns, and the limits are in `docs/fetch.md`; every file's layout is in
//! `docs/format.md`.

#![deny(unsafe_code)]

mod error;
pub mod fetch;
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "the responder uses it"))]
pub mod search;

pub use error::PirError;
