//! BFV homomorphic encryption (Fan and Vercauteren, ePrint 2012/144) over RNS rings.
//!
//! A ciphertext (c0, c1) over Z_Q\[X\]/(X^N + 1) encrypts m modulo t under s if c0 + c1 s = Q/t m + noise. What is
//! here:
//!
//! | module or type | subject |
//! |---|---|
//! | [`Parameters`], [`Context`] | degree, moduli, the check against the homomorphic encryption standard, precomputation |
//! | [`Encoder`] | slots and coefficients of plaintexts, and their forms in ciphertext rings |
//! | [`SecretKey`] | key generation, symmetric encryption with a seeded uniform half, decryption, noise measurement |
//! | [`Ciphertext`], [`SeededCiphertext`] | addition, multiplication by plaintexts, the wire form |
//! | [`KeySwitchingKey`], [`GaloisKey`] | hybrid key switching, slot rotations, hoisting |
//! | [`FineGaloisKey`] | automorphisms with little noise under a short special modulus |
//! | [`ShortCiphertext`] | a ciphertext switched to short power-of-two moduli: what a digest is made of |
//! | [`Chain`], [`Leveled`] | deep circuits: levels, products, relinearisation, rotations and key switching at any level |
//! | [`ring_switch`] | from a large ring to a small one |
//! | [`noise`] | how large noise will be |
//!
//! **Warning.** BFV is secure against chosen plaintexts only. Nothing derived from a decryption, not even whether it
//! succeeded, may go back to whoever computed on the ciphertexts.

#![forbid(unsafe_code)]

mod chain;
mod ciphertext;
mod context;
mod encoding;
mod error;
mod gadget;
mod galois;
mod key_switching;
mod leveled;
pub mod noise;
mod packing;
pub mod ring_switch;
mod secret_key;
mod security;
mod short;

pub use chain::Chain;
pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use context::{Context, Parameters, Security};
pub use encoding::Encoder;
pub use error::BfvError;
pub use gadget::FineGaloisKey;
pub use galois::GaloisKey;
pub use key_switching::{Decomposition, KeySwitchingKey};
pub use leveled::{Leveled, PhaseNoise};
pub use secret_key::{Noise, SecretKey};
pub use security::{DEGREES, DISTRIBUTIONS, ERROR, max_modulus_bits};
pub use short::{ShortCiphertext, ShortDecryptor, ShortModuli, ShortPlaintext};
