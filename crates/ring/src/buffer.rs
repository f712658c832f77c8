//! Storage for polynomials, reused.
//!
//! A polynomial of a deep circuit takes megabytes and lives for milliseconds. Given back to the system each time, its pages
//! would be fetched and cleared again for the next one, which takes as long as a transform. So long buffers are kept, up to a
//! limit. Whoever stores secrets in a polynomial clears it (`Zeroize`) before it comes here.

use std::{
    ops::{Deref, DerefMut},
    sync::Mutex,
};

use crate::{AlignedVec, Word};

/// Buffers shorter than this many words are left to the allocator.
const MIN_WORDS: usize = 1 << 14;
/// The most words that are kept.
const MAX_KEPT_WORDS: usize = 1 << 26;

/// Buffers that nobody uses.
#[derive(Debug)]
pub struct Pool<W> {
    kept: Mutex<(usize, Vec<AlignedVec<W>>)>,
}

impl<W: Word> Pool<W> {
    /// An empty pool.
    pub(crate) const fn new() -> Self {
        Self { kept: Mutex::new((0, Vec::new())) }
    }

    /// The shortest buffer that is long enough, but not more than twice as long.
    fn take(&self, len: usize) -> Option<AlignedVec<W>> {
        let mut kept = self.kept.lock().ok()?;
        let fits = |buffer: &AlignedVec<W>| (len..=2 * len).contains(&buffer.capacity());
        // Mostly the one that was given back last.
        let exact = kept.1.iter().rposition(|buffer| buffer.capacity() == len);
        let index = exact.or_else(|| {
            let candidates = kept.1.iter().enumerate().filter(|(_, buffer)| fits(buffer));
            candidates.min_by_key(|(_, buffer)| buffer.capacity()).map(|(index, _)| index)
        })?;
        let buffer = kept.1.swap_remove(index);
        kept.0 -= buffer.capacity();
        Some(buffer)
    }

    fn put(&self, buffer: AlignedVec<W>) {
        if let Ok(mut kept) = self.kept.lock()
            && kept.0 + buffer.capacity() <= MAX_KEPT_WORDS
        {
            kept.0 += buffer.capacity();
            kept.1.push(buffer);
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
