//! Prepared detection keys, kept between passes.
//!
//! Making one takes about as long as detecting for it in two blocks, and a relay with many standing orders comes to them in the same order
//! again and again. Where not all fit, replacing the one that was used least recently would replace every key just before it is
//! needed. So what is kept stays, until it has not been used for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use restante_omr::stream::PreparedKey;
use restante_wire::relay::Hex;

use crate::locks::lock;

/// A key that has not been used for so long makes room for others.
const UNUSED: Duration = Duration::from_secs(600);

/// Some prepared keys, by the hash of the key's file.
#[derive(Debug)]
pub(super) struct PreparedKeys {
    kept: Mutex<HashMap<Hex<32>, (Instant, Arc<PreparedKey>)>>,
    /// How many are kept at most.
    most: usize,
}

impl PreparedKeys {
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }

    pub(super) fn get(&self, hash: &Hex<32>) -> Option<Arc<PreparedKey>> {
        let mut kept = lock(&self.kept);
        let (used, key) = kept.get_mut(hash)?;
        *used = Instant::now();
        Some(key.clone())
    }

    /// Keeps a key if there is room.
    pub(super) fn put(&self, hash: Hex<32>, key: &Arc<PreparedKey>) {
        let mut kept = lock(&self.kept);
        if kept.len() >= self.most {
            kept.retain(|_, (used, _)| used.elapsed() < UNUSED);
        }
        if kept.len() < self.most {
            kept.insert(hash, (Instant::now(), key.clone()));
        }
    }

    /// Forgets a key that was deleted.
    pub(super) fn forget(&self, hash: &Hex<32>) {
        lock(&self.kept).remove(hash);
    }
}
