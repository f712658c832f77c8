//! Clues: short ciphertexts by which a message's addressee recognises it, and nobody else does.
//!
//! A clue is an encryption of zero under ring-LWE, with a tag of the address added. For a secret s, a public uniform
//! polynomial a, an error e and a tag u in Z_q^l, all in or over Z_q\[X\]/(X^n + 1):
//!
//! ```text
//! clue key   a, b = a s + e, u
//! clue       a' = a r + e1,  b'_c = (b r + e2)_c + u_c  for c < l
//! distances  x_c = b'_c - (a' s)_c - u_c  =  (e r + e2 - e1 s)_c    if the clue was made with this key
//! ```
//!
//! with r and s ternary and e, e1, e2 small. A clue is pertinent if every distance lies in [-range, range]; the
//! distances of a foreign clue are uniform. The scheme is that of Liu and Tromer, "Oblivious Message Retrieval"
//! (CRYPTO 2022, ePrint 2021/1256), in the ring form of Liu, Tromer and Wang, "PerfOMR" (USENIX Security 2024, ePrint
//! 2024/204), with one difference, the tag: without it the clue a' = 0, b' = 0, or any with a tiny a', is pertinent to
//! every recipient, and a few such messages overflow everybody's digest (the snake-eye attack, ePrint 2024/510). With
//! it, a clue can be made for one address, as an honest one can, but not for many.
//!
//! ```
//! use restante_clue::{ClueParameters, ClueSecretKey};
//! use restante_ring::sample::Seed;
//!
//! let [alice, bob] = [1, 2].map(|byte| ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([byte; 32])));
//! let maker = alice.clue_key().prepare();
//! // A real sender draws the seed of each stream from the operating system.
//! let clue = maker.make(&mut Seed::from([3; 32]).stream("example", &[]));
//! assert!(alice.is_pertinent(&clue));
//! assert!(!bob.is_pertinent(&clue));
//! ```

#![forbid(unsafe_code)]

mod clue;
mod error;
mod key;
mod maker;
mod negacyclic;
mod parameters;
#[cfg(test)]
mod vectors;

pub use clue::{Clue, unpack_coefficients};
pub use error::ClueError;
pub use key::{ClueKey, ClueSecretKey};
pub use maker::ClueMaker;
pub use parameters::{COORDINATES, ClueParameters};
