//! Private fetch: record i of a sealed snapshot, from two servers that do not collude.
//!
//! Both servers hold the same [`Epoch`]. A client that has the epoch's [`Catalog`] makes a [`Query`] for each server and keeps
//! a [`State`]; each server makes one pass over all records ([`answer`]); [`decode`] combines the two [`Answer`]s and
//! checks every record against its hash.
//!
//! The query to a server is one key of a distributed point function for each fetch (Boyle, Gilboa and Ishai, ePrint 2018/707,
//! section 3.2.3 and "PIR" in section 1): its bits, one for each record, are the server's share of the unit vector of i. The
//! server XORs the records whose bit is set, so that the two answers differ by exactly record i.
//!
//! ```
//! # #[cfg(feature = "server")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use chacha20::ChaCha20Rng;
//! use rand_core::SeedableRng;
//! use restante_pir::fetch::{Catalog, Content, EpochBuilder, answer, decode};
//! use restante_scan::Runner;
//!
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("epoch");
//! let mut builder = EpochBuilder::create(&path, 16, Content::Raw)?;
//! for record in [b"the first record", b"the other record"] {
//!     builder.push(record)?;
//! }
//! let epoch = builder.seal()?;
//!
//! let mut rng = ChaCha20Rng::from_seed([7; 32]); // In earnest: a seed from the operating system.
//! let (state, queries) = Catalog::open(&path)?.query(&[1], 4, &mut rng)?;
//! let runner = Runner::new(1)?;
//! let answers = [answer(&epoch, &queries[0], &runner)?, answer(&epoch, &queries[1], &runner)?];
//! assert_eq!(decode(&state, &answers[0], &answers[1])?[0].content.as_slice(), b"the other record");
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "server"))]
//! # fn main() {}
//! ```
//!
//! # Limits
//!
//! Records of 8 bytes to 64 KiB, up to 2^32 of them, and up to 1,024 fetches in a query. Larger ones are
//! refused.

mod answer;
#[cfg(feature = "server")]
#[allow(unsafe_code)] // Calls of functions with vector instructions, in this module.
mod backend;
#[cfg(feature = "server")]
mod builder;
mod catalog;
#[cfg(feature = "server")]
mod epoch;
mod info;
#[cfg(feature = "server")]
#[allow(unsafe_code)] // Memory maps, in this module.
mod map;
mod query;
#[cfg(feature = "server")]
mod serve;
mod sizes;
mod state;

pub use answer::Answer;
#[cfg(feature = "server")]
pub use backend::read as read_words;
#[cfg(feature = "server")]
pub use builder::{EpochBuilder, Part};
pub use catalog::Catalog;
#[cfg(feature = "server")]
pub use epoch::Epoch;
pub use info::{Content, EpochId, EpochInfo, MAX_RECORD_BYTES, MAX_RECORDS, MIN_RECORD_BYTES};
pub use query::{MAX_FETCHES, Query};
pub use restante_ring::Backend;
#[cfg(feature = "server")]
pub use serve::{AnswerFile, Piece, answer, answer_all, answer_files, answer_with, scan_bytes};
pub use state::{Fetched, State, UncheckedState, decode, decode_each, decode_unchecked};
