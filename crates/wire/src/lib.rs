#![doc = include_str!("../README.md")]
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
