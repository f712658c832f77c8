//! The input of the encrypted half of a search: a window's buckets, cut into chunks.

use crate::PirError;

/// The smallest chunk in bytes: a header, and the beginning of a record, fit.
pub const MIN_CHUNK_BYTES: usize = 64;
/// The largest chunk in bytes.
pub const MAX_CHUNK_BYTES: usize = 1 << 20;

/// A window of records, as a responder sees it: for each bucket that holds something a string of bytes, cut into chunks of
/// one size. Column j is the j-th chunk of every bucket; a bucket that is not listed, and every chunk past a bucket's last, is
/// all zeros.
///
/// A source's contents never change: chunks may be read in any order, several times and from several threads.
pub trait ChunkSource: Sync {
    /// B: a bucket is a number below 2^B.
    fn hash_bits(&self) -> u32;

    /// The size of every chunk in bytes.
    fn chunk_bytes(&self) -> usize;

    /// The number of columns: the chunks of the longest bucket. Public; 0 if no bucket holds anything.
    fn columns(&self) -> u32;

    /// The buckets that hold something, in ascending order. A bucket's *place* is its index in this slice.
    fn buckets(&self) -> &[u32];

    /// The number of chunks of the bucket at `place`: 1 to [`columns`](Self::columns); 0 for a place that does not exist.
    fn bucket_columns(&self, place: usize) -> u32;

    /// Fills `chunk`, which has [`chunk_bytes`](Self::chunk_bytes) bytes, with chunk `column` of the bucket at `place`, and with zeros
    /// behind its end. Returns the number of bytes before those zeros: 0 past the bucket's last chunk.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for a place, or a size of `chunk`, that is not this source's; [`PirError::Io`] if the records lie in
    /// a file that cannot be read.
    fn read_chunk(&self, place: usize, column: u32, chunk: &mut [u8]) -> Result<usize, PirError>;
}
