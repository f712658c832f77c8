//! Private search: all records with a given selector, from one server that learns neither the selector nor the records.
//!
//! This part is in the clear: what a record is, which bucket it belongs to, how a window of records becomes the chunks that
//! the responder works on ([`ChunkSource`]), and how the querier gets records back from chunks.

mod source;

pub use source::ChunkSource;
