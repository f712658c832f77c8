//! Versioned binary formats shared by files, HTTP and the browser.
//!
//! Three layers, each usable alone:
//!
//! * [`Encode`] and [`Decode`]: fixed-layout serialisation with explicit lengths. Decoding is strict: it never
//!   allocates more than the input could fill, and leftover bytes are an error.
//! * [`BitWriter`] and [`BitReader`]: arrays of integers of any width from 1 to 64 bits, packed without gaps.
//! * [`Envelope`]: what a file or an HTTP body starts and ends with: what it is, in which version, for which
//!   parameters, and a checksum.
//!
//! Subjects that a server and its clients share and that need no operating system:
//!
//! * [`binding`]: what a clue is bound to.
//! * [`merkle`]: the hash tree over a board's messages, and proofs from it.
//! * `relay` (with the feature of that name): signed heads, request and response bodies, JSON. docs/protocol.md has the routes.
//!
//! The crate knows no cryptographic scheme: every type implements the traits next to its own definition, so that
//! a format and the thing it describes change together.

#![forbid(unsafe_code)]

pub mod binding;
mod bits;
mod codec;
mod envelope;
mod error;
mod hash;
pub mod merkle;
#[cfg(feature = "relay")]
pub mod relay;
mod stream;

pub use bits::{BitReader, BitWriter, packed_bytes};
pub use codec::{Decode, Encode, Reader};
pub use envelope::{Envelope, Kind, ParameterId};
pub use error::WireError;
pub use stream::{BODY_START, EnvelopeWriter, check_envelope};
