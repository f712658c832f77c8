//! Private search: all records with a given selector, from one server that learns neither the selector nor the records.
//!
//! | step | types |
//! |---|---|
//! | both agree on records, buckets and parameters | [`Layout`], [`FieldKind`], [`SelectorHash`], [`Preset`], [`Scheme`], [`Shape`] |
//! | the querier chooses sizes and asks | [`Plan`], [`RecordSizes`], [`Query`], [`QueryState`], [`QueryNote`], [`StateNote`] |
//! | the responder sorts records into a window | [`Value`], [`WindowBuilder`], [`WindowLimits`], [`Cut`], [`Window`], [`ChunkSource`] |
//! | the responder answers | [`prepare`], [`PreparedQuery`], [`respond`], [`SearchScan`], [`AnswerNote`] |
//! | the querier opens | [`SearchAnswer`], [`Opened`], [`Reading`], [`Found`] |
//!
//! `examples/search.rs` is a whole search. Its parts in the clear, without the encryption between them:
//!
//! ```
//! use restante_pir::search::{
//!     ChunkSource, Cut, FieldKind, Layout, Reading, SelectorHash, SelectorKind, Value, WindowBuilder, WindowLimits,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The querier draws a hash function; the responder sorts its records with it.
//! # let key = [7; 32];
//! let hash = SelectorHash::new(SelectorKind::Bytes, 8, key)?; // In earnest: SelectorHash::random.
//! let layout = Layout::new(vec![("name".into(), FieldKind::Text)])?;
//! let cut = Cut { hash: hash.clone(), chunk_bytes: 64 };
//! let mut builder = WindowBuilder::new(&[cut], WindowLimits::default())?;
//! for (selector, name) in [("U+0041", "LATIN CAPITAL LETTER A"), ("U+0042", "LATIN CAPITAL LETTER B")] {
//!     let mut record = Vec::new();
//!     layout.encode(&[Value::Text(name.into())], &mut record)?;
//!     builder.push(selector.as_bytes(), &record)?;
//! }
//! let window = &builder.seal()?[0];
//!
//! // What the encrypted search does blindly: it takes the chunks of one bucket.
//! let mut reading = Reading::new(&hash, &["U+0042"]);
//! let place = window.buckets().binary_search(&hash.locate(b"U+0042").bucket).expect("it is there");
//! for column in 0..window.columns() {
//!     let mut chunk = [0; 64];
//!     window.read_chunk(place, column, &mut chunk)?;
//!     reading.push(0, &chunk)?;
//! }
//! let found = reading.finish().remove(0)?;
//! assert!(found.is_complete());
//! assert_eq!(layout.decode(&found.records[0])?, [Value::Text("LATIN CAPITAL LETTER B".into())]);
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! Records of up to [`MAX_RECORD_BYTES`], 2^30 of them in a window; buckets of up to [`MAX_COLUMNS`] chunks.
//! Larger ones are refused. An answer counts the records that the responder's own limits cut off.

mod answer;
mod bucket;
mod hash;
#[cfg(feature = "server")]
mod noise;
mod note;
mod packing;
mod plan;
mod preset;
mod query;
mod reading;
mod record;
#[cfg(feature = "server")]
mod responder;
mod scheme;
mod shape;
mod source;
#[cfg(feature = "server")]
mod store;
#[cfg(all(test, feature = "server"))]
mod tests;
mod varint;
#[cfg(feature = "server")]
mod window;

pub use answer::{Opened, SearchAnswer};
pub use bucket::{Found, HEADER_BYTES};
pub use hash::{
    CHECK_BYTES, Location, MAX_HASH_BITS, MIN_HASH_BITS, SelectorHash, SelectorKind, number_selector,
    refuse_repeated,
};
#[cfg(feature = "server")]
pub use noise::NoiseEstimate;
pub use note::{AnswerNote, QueryNote, StateNote, WrittenSelector};
pub use plan::{Plan, RecordSizes};
pub use preset::Preset;
pub use query::{Query, QueryState};
pub use reading::Reading;
pub use record::{FieldKind, Layout, MAX_FIELDS, MAX_NAME_BYTES, MAX_RECORD_BYTES, Value};
#[cfg(feature = "server")]
pub use responder::{PreparedQuery, SearchScan, SearchShard, SearchSums, prepare, respond};
pub use scheme::Scheme;
pub use shape::{MAX_NOTE_BYTES, MAX_SELECTORS, MAX_SHARING, Shape};
pub use source::{ChunkSource, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};
#[cfg(feature = "server")]
pub use window::{Cut, MAX_COLUMNS, MAX_WINDOW_RECORDS, Window, WindowBuilder, WindowLimits};
