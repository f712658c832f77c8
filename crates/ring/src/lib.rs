#![doc = include_str!("../README.md")]

mod automorphism;
mod backend;
mod basis;
mod buffer;
mod convert;
#[cfg(test)]
mod crt;
mod error;
mod modulus;
mod ntt;
mod packed;
mod pairs;
mod parallel;
mod planes;
mod poly;
mod primality;
pub mod primes;
mod rescale;
mod roots;
pub mod sample;
mod shorten;
mod tile_rows;
mod tiles;
mod vectors;
mod word;

pub use automorphism::Automorphism;
pub use backend::Backend;
pub use basis::Basis;
pub use convert::{BaseConverter, Divider};
pub use error::RingError;
pub use modulus::{Modulus, Multiplier};
pub use ntt::NttPlan;
pub use packed::{Unpacker, transpose_lines};
pub use pairs::{ChunkMap, correlate, correlate_horner};
pub use parallel::{for_each, join};
pub use planes::{EncryptedPairs, PlainPairs};
pub use poly::{Coefficient, Evaluation, Form, Poly};
pub use rescale::Rescaler;
pub use shorten::Shortener;
pub use tiles::{Column, Tiles, multiply_accumulate, multiply_accumulate_each, multiply_accumulate_rows};
pub use word::Word;

/// A vector whose first element is aligned to a cache line, so that no vector load straddles two.
pub type AlignedVec<T> = aligned_vec::AVec<T, aligned_vec::ConstAlign<64>>;
