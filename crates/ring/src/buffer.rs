//! Storage for polynomials, reused.
//!
//! A polynomial of a deep circuit takes megabytes and lives for milliseconds. Given back to the system each
//! time, its pages would be fetched and cleared again for the next one, which takes as long as a transform;
//! even a short one would be cleared before it is filled. So buffers are kept, up to a limit. A polynomial
//! with secrets is cleared (`Zeroize`) by its owner before it comes here.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::Mutex,
};

use crate::{AlignedVec, Word};

/// Buffers shorter than this many words are left to the allocator.
const MIN_WORDS: usize = 1 << 12;
/// The most words that are kept.
const MAX_KEPT_WORDS: usize = 1 << 26;

/// Buffers that nobody uses. A thread that finds another one here goes to the allocator: that takes less time than waiting.
#[derive(Debug)]
pub struct Pool<W> {
    kept: Mutex<Kept<W>>,
}

#[derive(Debug)]
struct Kept<W> {
    words: usize,
    by_capacity: BTreeMap<usize, Vec<AlignedVec<W>>>,
}

impl<W: Word> Pool<W> {
    /// An empty pool.
    pub(crate) const fn new() -> Self {
        Self { kept: Mutex::new(Kept { words: 0, by_capacity: BTreeMap::new() }) }
    }

    /// The shortest buffer that is long enough, but not more than twice as long.
    fn take(&self, len: usize) -> Option<AlignedVec<W>> {
        let mut kept = self.kept.try_lock().ok()?;
        let buffer = kept.by_capacity.range_mut(len..=2 * len).find_map(|(_, buffers)| buffers.pop())?;
        kept.words -= buffer.capacity();
        Some(buffer)
    }

    fn put(&self, buffer: AlignedVec<W>) {
        if let Ok(mut kept) = self.kept.try_lock()
            && kept.words + buffer.capacity() <= MAX_KEPT_WORDS
        {
            kept.words += buffer.capacity();
            kept.by_capacity.entry(buffer.capacity()).or_default().push(buffer);
        }
    }
}

/// Residues, aligned to a cache line.
#[derive(Debug)]
pub(crate) struct Buffer<W: Word>(AlignedVec<W>);

impl<W: Word> Buffer<W> {
    /// A buffer whose contents are any words.
    pub(crate) fn any(len: usize) -> Self {
        if len >= MIN_WORDS
            && let Some(mut buffer) = W::pool().take(len)
        {
            buffer.resize(len, W::default());
            return Self(buffer);
        }
        Self(AlignedVec::from_iter(64, std::iter::repeat_n(W::default(), len)))
    }

    /// A buffer of zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut buffer = Self::any(len);
        buffer.fill(W::default());
        buffer
    }
}

impl<W: Word> Clone for Buffer<W> {
    fn clone(&self) -> Self {
        let mut copy = Self::any(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl<W: Word> Drop for Buffer<W> {
    fn drop(&mut self) {
        if self.0.capacity() >= MIN_WORDS {
            W::pool().put(std::mem::replace(&mut self.0, AlignedVec::new(64)));
        }
    }
}

impl<W: Word> Deref for Buffer<W> {
    type Target = [W];

    fn deref(&self) -> &[W] {
        &self.0
    }
}

impl<W: Word> DerefMut for Buffer<W> {
    fn deref_mut(&mut self) -> &mut [W] {
        &mut self.0
    }
}
