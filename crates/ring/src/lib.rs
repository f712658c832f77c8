//! Modular arithmetic, negacyclic number-theoretic transforms and RNS polynomials for lattice cryptography.
//!
//! Everything lives in rings Z_q\[X\]/(X^N + 1) with N a power of two and q a product of primes that are
//! 1 modulo 2N. Two machine words are served, and a word decides which primes are allowed: see [`Word`].
//!
//! | module | subject |
//! |---|---|
//! | [`Modulus`] | arithmetic modulo one prime |
//! | [`primes`] | primality, primes for a given degree, roots of unity |
//! | [`NttPlan`] | the transform between coefficients and evaluations modulo one prime |
//! | [`Basis`], [`Poly`] | polynomials modulo a product of primes, in either form |
//! | [`BaseConverter`], [`Divider`], [`Shortener`] | moving between products of primes, division with rounding, short moduli |
//! | [`Rescaler`] | division with rounding that keeps residues modulo a plaintext modulus |
//! | [`sample`] | seeds, domain-separated streams, uniform, ternary and discrete Gaussian samplers |
//! | [`Tiles`], [`multiply_accumulate`] | sums of products of many evaluation vectors, reduced once |
//! | [`Unpacker`], [`transpose_lines`] | reading bit-packed residues |
//! | [`Backend`] | which instructions the kernels use |
//!
//! Every back end gives the same result, bit for bit: kernels return canonical residues in [0, q).

mod automorphism;
mod backend;
mod basis;
mod buffer;
mod convert;
mod error;
mod modulus;
mod ntt;
mod packed;
mod parallel;
mod poly;
pub mod primes;
mod rescale;
mod roots;
pub mod sample;
mod shorten;
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
pub use parallel::{for_each, join};
pub use poly::{Coefficient, Evaluation, Form, Poly};
pub use rescale::Rescaler;
pub use shorten::Shortener;
pub use tiles::{Column, Tiles, multiply_accumulate, multiply_accumulate_each, multiply_accumulate_rows};
pub use word::Word;

/// A vector whose first element is aligned to a cache line, so that no vector load straddles two.
pub type AlignedVec<T> = aligned_vec::AVec<T, aligned_vec::ConstAlign<64>>;
