//! Clues: short ciphertexts by which a message's addressee recognises it, and nobody else does.
//!
//! A clue is an encryption of zero under ring-LWE, with a tag of its message added. For a secret s, a public uniform
//! polynomial a, an error e and a matrix T in Z_q^(l x kappa), all in or over Z_q\[X\]/(X^n + 1):
//!
//! ```text
//! clue key   a, b = a s + e, T
//! clue       period, a' = a r + e1, b'_c = (b r + e2)_c + <T_c, h>  for c < l
//! binding    h = H(board, period, a', payload) in Z_q^kappa: see restante_wire::binding
//! distances  x_c = b'_c - (a' s)_c - <T_c, h>  =  (e r + e2 - e1 s)_c    if the clue was made with this key
//! ```
//!
//! with r and s ternary and e, e1, e2 small. A clue is pertinent if every distance lies in [-range, range]; the
//! distances of a foreign clue are uniform. The scheme is that of Liu and Tromer, "Oblivious Message Retrieval"
//! (CRYPTO 2022, ePrint 2021/1256), in the ring form of Liu, Tromer and Wang, "PerfOMR" (USENIX Security 2024, ePrint
//! 2024/204), with one difference, the tag <T_c, h>.
//!
//! Without a tag the clue a' = 0, b' = 0, or any with a tiny a', is pertinent to every recipient, and a few such messages
//! overflow everybody's digest (the snake-eye attack, ePrint 2024/510). With a tag that is the same for all of a recipient's
//! clues, anybody who sees one of them can make more: b' may be moved within the range, and sums of clues whose coefficients
//! add up to 1 keep the tag. Here each message has a tag of its own, a linear function of a hash of a' and
//! of all that the clue is to go with. Whoever lacks T makes a pertinent clue with the probability of a false positive at each
//! try, whatever clues they have seen, with one exception: the same a' in the same message with another b'. Boards
//! therefore take each [`Clue::bound_hash`] once. docs/detect.md has the definition and the argument.
//!
//! ```
//! use restante_clue::{ClueParameters, ClueSecretKey};
//! use restante_ring::sample::Seed;
//! use restante_wire::{binding::{Binding, BoardId, Period}, merkle::Hash};
//!
//! let [alice, bob] = [1, 2].map(|byte| ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([byte; 32])));
//! let maker = alice.clue_key().prepare();
//! // A real sender draws the seed of each stream from the operating system.
//! let draft = maker.draft(Period(20_000), &mut Seed::from([3; 32]).stream("example", &[]));
//! // The payload may depend on the draft's hash, and the clue depends on the payload.
//! let binding = Binding::new(&BoardId([4; 16]), &draft.bound_hash(), &Hash::of(b"payload"));
//! let clue = draft.bind(&binding);
//! assert!(alice.is_pertinent(&clue, &binding));
//! assert!(!bob.is_pertinent(&clue, &binding));
//! let elsewhere = Binding::new(&BoardId([5; 16]), &clue.bound_hash(), &Hash::of(b"payload"));
//! assert!(!alice.is_pertinent(&clue, &elsewhere));
//! ```

#![forbid(unsafe_code)]

mod clue;
mod error;
mod key;
mod maker;
mod negacyclic;
mod parameters;
mod tags;
#[cfg(test)]
mod vectors;

pub use clue::{BoundClue, Clue, bound_part, unpack_coefficients};
pub use error::ClueError;
pub use key::{ClueKey, ClueSecretKey};
pub use maker::{ClueDraft, ClueMaker};
pub use parameters::{BINDING, COORDINATES, ClueParameters, PERIOD_BYTES};
