#![doc = include_str!("../README.md")]
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
