//! The compact digest: its size depends on how many pertinent messages it can hold, not on the board.
//!
//! *Phase 1* needs the clues and a detection key only: for each block of N = 65536 messages, one message to a slot (the detector draws which: see `slots.rs`), it
//! makes the *pertinency vector*, a ciphertext with 1 in the slots of pertinent messages and 0 in the others. *Phase 2* makes a
//! digest for a range, a capacity k and a payload size from the pertinency vectors and the payloads.
//!
//! # Phase 1
//!
//! The distances x_0 and x_1 of every message, as for the stream digest; z_c = product of (x_c^2 - i^2) over the range; z = z_0^2 +
//! z_0 z_1 - z_1^2, which is zero only if both are, as 5 is no square modulo t; and 1 - z^(t-1). About 30 levels, in BGV form
//! (see [`restante_bfv::Leveled`]).
//!
//! # Phase 2
//!
//! With PV the pertinency vector, v_j\[l\] for l = 0, 1, ... the columns of message j (a 1, its payload's length, its payload
//! in digits modulo t) and x_j = 1 + its place in the range, the digest holds the sums
//!
//! ```text
//! F_l(e) = sum over j of PV_j x_j^e v_j[l],    e = 0, ..., K - 1 > k.
//! ```
//!
//! F_0(0) is the number of pertinent messages, F_0(1 ..) are the power sums of their places, which Newton's identities and a search
//! for roots turn into the places; then each column's sums are a Vandermonde system, whose solution is unique. There are more
//! equations than unknowns, and those left over are checked.
//!
//! Slot s of A_d = rot_d(PV) Pow_d holds PV_j x_j^e for j = s + d, where e depends on s alone: s modulo K, in effect. Then the sum
//! over d of A_d rot_d(v\[l\]), folded to K slots, is F_l. The products rot_d(v\[l\]) need no transform of their own: a rotation
//! permutes evaluations. So each column takes one transform modulo t and two modulo primes, for all K equations and all
//! recipients, where a matrix with a row for each equation and column takes K times as many. Folding, a trace to the
//! ring of degree K, leaves room for N/K columns in one ciphertext: they are packed pair by pair (Chen, Dai, Kim and Song,
//! ePrint 2020/015), every fourth coefficient, and switched to the ring of degree N/4.
//!
//! # More than k
//!
//! Decoding then gives [`crate::OmrError::Overflow`], never a wrong message. A client must not react visibly,
//! to that or any other error: not by asking again at once, nor by halving the range, which would tell the
//! detector that it has many messages, and one that makes up digests, bit by bit, the secret key. Nor should
//! it ask for a larger capacity later on: that tells when there was an overflow. A client that looks at
//! ranges again, with more room or by a stream digest, must do so in any case.

mod affine;
pub mod audit;
mod columns;
mod compression;
mod decoder;
mod detection_key;
mod detector;
mod digest;
pub mod failure;
mod is_zero;
mod parameters;
mod payload;
mod pertinency;
mod range_check;
mod slots;

pub use affine::PreparedKey;
pub use decoder::{Decoder, Retrieved};
pub use detection_key::{CompactDetectionKey, CompactSecret};
pub use detector::{Detector, Stage, Work};
pub use digest::{CompactDigest, DigestRequest};
pub use parameters::{CompactContext, CompactParameters, Schedule};
pub use payload::Payload;
pub use pertinency::PertinencyVector;
