//! What the machine allows: the figure that an answer is measured against, taken in the same run.

use std::hint::black_box;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use restante_scan::{Runner, Scan};

use crate::fetch::{Backend, Epoch};

/// The time for the threads of `runner` to read every byte of an epoch's mapping once and XOR its words: no answer takes
/// less. The first touch of a fresh mapping costs more; read it once before measuring.
pub fn read(epoch: &Epoch, runner: &Runner) -> Duration {
    let shards: Vec<&[u8]> = epoch.bytes().chunks(16 << 20).collect();
    let start = Instant::now();
    match runner.run(&ReadScan(PhantomData), &shards, |_| ()) {
        Ok(sum) => black_box(sum),
    };
    start.elapsed()
}

struct ReadScan<'a>(PhantomData<&'a [u8]>);

impl<'a> Scan for ReadScan<'a> {
    type Shard = &'a [u8];
    type Partial = u64;
    type Answer = u64;
    type Error = std::convert::Infallible;

    fn empty(&self) -> u64 {
        0
    }

    fn scan(&self, shard: &&'a [u8]) -> Result<u64, Self::Error> {
        Ok(Backend::best().read(shard))
    }

    fn merge(&self, sum: &mut u64, partial: u64) {
        *sum ^= partial;
    }

    fn finish(&self, sum: u64) -> u64 {
        sum
    }
}
