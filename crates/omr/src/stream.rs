//! The stream digest: for each message the two distances of its clue, encrypted.
//!
//! A clue (a', b') is pertinent if x_c = b'_c - (a' s)_c - <T_c, h> is small for both coordinates c, h being its binding's vector. With
//! slot j of a ciphertext for message j, the detector computes all x_c of a block of D = 4096 messages: a product of the plaintext
//! matrix of their a' and h with the encrypted secrets, by diagonals. The ciphertexts of x_0 and x_1, switched to short moduli,
//! *are* the digest: the recipient decrypts them and looks at the range in the clear. So the circuit has no
//! multiplication of ciphertexts, and the ring stays small.
//!
//! # One set of diagonals for both coordinates
//!
//! With S = (s_0, -s_1, ..., -s_(n-1)), repeated with period n along the slots, and D_k\[j\] the coefficient of a'_j
//! with index -(j+k) modulo n,
//!
//! ```text
//! (a' s)_0 = sum over k of rot_k(S) D_k,
//! (a' s)_1 = sum over k of rot_(k+1)(S) D_k + 2 s_1 a'_0,
//! ```
//!
//! since (a' s)_1 pairs a'_(-i) with s_(i+1), as a rotation of S does, except for the sign of s_1. The diagonals, whose
//! transforms are nearly all of the cost for one recipient, are therefore encoded once for both coordinates, and once
//! for all recipients.
//!
//! # Random factors
//!
//! The detector multiplies all that it takes of message j, a', b' and h, by a factor rho_j that it draws anew for each digest, so
//! that no choice of clues makes the noise larger than that of random plaintexts. The digest holds rho_j x_j and the
//! factors' seed.
//!
//! # Baby steps and giant steps
//!
//! With k = 64 g + b, the sum is that over g of rot_(64 g)(sum over b of rot_b(S) rot_(-64 g)(D_k)). The detection
//! key holds an encryption of S and a key for rotations by one; the server makes the 64 baby steps once per recipient, one
//! after the other. Giant steps follow Horner's rule with a key for rotations by 64. That key switches with one digit
//! only: its noise is large, but it comes after the products, where it no longer matters.
//!
//! # First halves and second halves
//!
//! Keys with one public seed have their uniform halves in common ([`PublicSeed`]). So the second halves of all these ciphertexts, and
//! the digits that key switching takes of them, are the same for all such keys, and are made once for a block. First halves are never
//! divided by P on the way, since no digits are taken of them: the digest's are rounded once, from QP.
//!
//! # Tags
//!
//! The tags, and the sign of s_1, come out of the same sums. Let T'_0 = (T_0, 0), T'_1 = (T_1, 2 s_1), eight entries each, and G =
//! (h, a'_0) of each message. The key's second ciphertext encrypts V, with
//!
//! ```text
//! V[j] = T'_(j mod 2)[floor(j / 64) mod 8]    in slot j of each row.
//! ```
//!
//! Giant steps g = 0, ..., 7 have two more plaintexts each, P_(g,b) for b = 0 and 1. Before the rotation by 64 g, the message in slot i of
//! a row is looked at in slot j = i + 64 g. With y = floor((j + b) / 64) mod 8, P_(g,b) holds G_y of that message there if j + b is
//! even, and 0 otherwise. Where it is not 0,
//!
//! ```text
//! rot_b(V)[j] = V[j + b] = T'_0[y],    rot_(b+1)(V)[j] = V[j + b + 1] = T'_1[y],
//! ```
//!
//! the latter since 64 is even, so that j + b and j + b + 1 have the same y. As g goes from 0 to 7, y takes each value once. So
//! the sums of P_(g,b) rot_b(V) are <T_0, h> in every slot, those of P_(g,b) rot_(b+1)(V) are <T_1, h> + 2 s_1 a'_0: 16
//! plaintexts serve both coordinates and all recipients, and V takes two rotations by one.

mod decoder;
mod detection_key;
mod detector;
mod digest;
#[cfg(feature = "rayon")]
mod parallel;
mod parameters;
mod public;
mod randomizer;

pub use crate::key_id::KeyId;
pub use decoder::{Decoder, PertinentBlock};
pub use detection_key::{DetectionKey, RecipientSecret};
pub use detector::{Detector, PreparedKey, Work};
pub use digest::StreamDigest;
#[cfg(feature = "rayon")]
pub use parallel::{Block, Blocks, DetectionScan};
pub use parameters::{BLOCK, StreamContext, StreamParameters};
pub use public::PublicSeed;
