//! What the machine allows: the figures that a full evaluation is measured against, taken in the same run.
//!
//! An evaluation takes at least its AES calls ([`Parameters::aes_blocks`](crate::Parameters::aes_blocks)) divided by
//! [`aes_blocks_per_second`], and at least its output bytes divided by [`store_bytes_per_second`].

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::Backend;

/// How long each figure is measured for.
const MEASURED: Duration = Duration::from_millis(150);

/// AES-128 blocks per second on one core with the instructions of `backend`, out of registers: the best of several runs.
pub fn aes_blocks_per_second(backend: Backend) -> f64 {
    const ROUNDS: u64 = 2000;
    let operations = backend.operations();
    let blocks = ROUNDS as f64 * operations.encrypt_only_blocks as f64;
    blocks / best_of(|| black_box((operations.encrypt_only)(black_box(ROUNDS)))).as_secs_f64()
}

/// Bytes per second that one core writes into `memory`, which should be as large as the output in question, with the
/// kind of stores that large evaluations use: the best of several runs, so without the first touch of fresh pages.
pub fn store_bytes_per_second(backend: Backend, memory: &mut [u8]) -> f64 {
    let best = best_of(|| {
        (backend.operations().fill)(black_box(&mut *memory));
    });
    memory.len() as f64 / best.as_secs_f64()
}

fn best_of<T>(mut run: impl FnMut() -> T) -> Duration {
    let started = Instant::now();
    let mut best = Duration::MAX;
    let mut runs = 0;
    while started.elapsed() < MEASURED || runs < 3 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed());
        runs += 1;
    }
    best.max(Duration::from_nanos(1))
}
