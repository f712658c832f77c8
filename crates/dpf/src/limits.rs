//! What the machine allows: the figures that a full evaluation is measured against, taken in the same run.
//!
//! An evaluation takes at least as long as its AES calls ([`Parameters::aes_blocks`](crate::Parameters::aes_blocks)) out
//! of registers, [`aes()`], and at least as long as its output's bytes take to be stored, [`store()`]. On a shared machine,
//! measure these and the evaluation in turn, many times, and compare the best or the median of each.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::Backend;

/// The time for about `blocks` AES-128 blocks on one core with the instructions of `backend`, with nothing loaded or
/// stored: scaled to `blocks` exactly.
pub fn aes(backend: Backend, blocks: u64) -> Duration {
    let operations = backend.operations();
    let rounds = blocks.div_ceil(operations.encrypt_only_blocks as u64).max(1);
    let start = Instant::now();
    black_box((operations.encrypt_only)(black_box(rounds)));
    let measured = start.elapsed();
    measured.mul_f64(blocks as f64 / (rounds as f64 * operations.encrypt_only_blocks as f64))
}

/// The time for one core to overwrite `memory` with zeros, with the stores that evaluations into large slices use. The
/// first touch of fresh pages costs much more; overwrite memory once before measuring.
pub fn store(backend: Backend, memory: &mut [u8]) -> Duration {
    let start = Instant::now();
    (backend.operations().fill)(black_box(memory));
    start.elapsed()
}
