#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[allow(unsafe_code)] // SIMD intrinsics, in this module and nowhere else.
mod backend;
mod error;
mod evaluate;
mod generate;
mod hash;
mod key;
mod output;
mod parameters;

pub use backend::Backend;
pub use error::DpfError;
pub use evaluate::Evaluator;
pub use generate::generate;
pub use key::DpfKey;
pub use output::{Bits, Bytes, Integers, Output};
pub use parameters::{MAX_DOMAIN, Parameters, Variant};
