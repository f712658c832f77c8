#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod error;
pub mod fetch;
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "the responder uses it"))]
pub mod search;

pub use error::PirError;
