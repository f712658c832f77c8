#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod compact;
mod diagonals;
mod error;
mod key_id;
pub mod stream;

pub use error::OmrError;
pub use key_id::KeyId;
