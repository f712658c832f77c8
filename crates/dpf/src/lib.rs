//! Distributed point functions on a ternary tree.
//!
//! A *point function* is `message` at one secret point of a domain and zero everywhere else. [`generate`] splits it into two
//! keys of a few hundred bytes. Each party evaluates its [`DpfKey`] at a point, on a range or everywhere; the parties'
//! shares combine to the function's values, and neither key says anything about the point or the message. With that,
//! two servers that do not collude answer a look-up, or count into a histogram, without learning which entry it was.
//!
//! ```
//! use chacha20::ChaCha20Rng;
//! use rand_core::SeedableRng;
//! use restante_dpf::{Bytes, Parameters, Variant, generate};
//!
//! # fn main() -> Result<(), restante_dpf::DpfError> {
//! let mut rng = ChaCha20Rng::from_seed([7; 32]); // In earnest: a seed from the operating system.
//! let parameters = Parameters::new(59_049, Bytes(16), Variant::HalfTree)?;
//! let [ours, theirs] = generate(&parameters, 5, b"sixteen bytes...", &mut rng)?;
//!
//! let mut shares = [vec![0; 59_049 * 16], vec![0; 59_049 * 16]];
//! ours.evaluator().all(&mut shares[0])?;
//! theirs.evaluator().all(&mut shares[1])?;
//! let combined: Vec<u8> = shares[0].iter().zip(&shares[1]).map(|(a, b)| a ^ b).collect();
//! assert_eq!(&combined[5 * 16..6 * 16], b"sixteen bytes...");
//! assert!(combined[6 * 16..].iter().all(|&byte| byte == 0));
//! # Ok(())
//! # }
//! ```
//!
//! * Outputs: [`Bits`], [`Bytes`] of any length, [`Integers`] modulo 2^64. Domains: 1 to 3^40 points.
//! * Both [`Variant`]s of the tree: three AES calls a node, or two.
//! * Back ends, chosen at run time ([`Backend`]): VAES on 512 or 256-bit registers, AES-NI, portable. The portable one
//!   uses the `aes` crate, which runs in constant time on any CPU. All give the same bits.
//!
//! The construction and the key format are described in `docs/fetch.md`, why a key hides its point in `docs/dpf.md`.
//!
//! # Warning
//!
//! The parties must not collude: with both keys, the point is plain. A malicious dealer can hand out keys that are no
//! sharing of a point function; nothing here detects that. Not audited.

#![deny(unsafe_code)]

#[allow(unsafe_code)] // SIMD intrinsics, in this module and nowhere else.
mod backend;
mod error;
mod evaluate;
mod generate;
mod hash;
mod key;
#[cfg(not(target_family = "wasm"))] // There is no clock.
mod output;
mod parameters;

pub use backend::Backend;
pub use error::DpfError;
pub use evaluate::Evaluator;
pub use generate::generate;
pub use key::DpfKey;
pub use output::{Bits, Bytes, Integers, Output};
pub use parameters::{MAX_DOMAIN, Parameters, Variant};
