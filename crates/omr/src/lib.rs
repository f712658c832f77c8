//! Oblivious message retrieval: a detector finds out, for a recipient whose *detection key* it holds, which messages of
//! a board are *pertinent*, without learning which they are.
//!
//! Every message carries a clue (see `restante_clue`). The detector evaluates the recipient's test on all clues under
//! homomorphic encryption and returns a *digest*, which only the recipient can decrypt.
//!
//! * [`stream`]: the stream digest. About 13 bytes a message, a detection key of 212 kB, no bound on
//!   the number of pertinent messages.
//! * [`compact`]: the compact digest, of constant size. It holds the indices of up to k pertinent messages, with their payloads
//!   if wanted; the detection key is large.
//!
//! Both use the same clues.
//!
//! **Warning.** What a detection key reveals and what it does not is said in SECURITY.md. A client must not react
//! visibly to what it decrypts: not by a retry, nor by fetching a number of messages that depends on it.

#![forbid(unsafe_code)]

pub mod compact;
mod diagonals;
mod error;
mod key_id;
pub mod stream;

pub use error::OmrError;
pub use key_id::KeyId;
