//! The speed of the kernels alone on this machine, now: the limits that measured times are compared with.

use std::{
    hint::black_box,
    marker::PhantomData,
    time::{Duration, Instant},
};

use restante_bfv::BfvError;
use restante_omr::OmrError;
use restante_pir::{PirError, fetch::Epoch, search::Scheme};
use restante_ring::{
    AlignedVec, Backend, Column, EncryptedPairs, NttPlan, PlainPairs, Tiles, Word, correlate,
    multiply_accumulate, primes::ntt_primes,
};
use restante_scan::{Runner, Scan};

use crate::BenchError;

/// How long a measurement runs at least.
const SECONDS: f64 = 0.2;

/// Seconds for one forward or inverse transform: the mean of both.
pub fn transform_seconds<W: Word>(plan: &NttPlan<W>) -> f64 {
    let mut values = AlignedVec::from_iter(64, (0..plan.degree() as u64).map(W::truncate));
    repeat(|| {
        plan.forward(black_box(&mut values));
        plan.inverse(black_box(&mut values));
    }) / 2.0
}

/// Seconds for one product of residues and its addition, with operands that stay in the first-level cache.
pub fn multiply_accumulate_seconds<W: Word>(plan: &NttPlan<W>) -> f64 {
    const ROWS: usize = 64;
    const COLUMNS: usize = 4;
    let mut tiles = [Tiles::new(ROWS, plan.degree()), Tiles::new(ROWS, plan.degree())];
    let row: Vec<W> = (0..plan.degree() as u64).map(|value| plan.modulus().reduce(value * 7919)).collect();
    tiles.iter_mut().for_each(|tiles| (0..ROWS).for_each(|index| tiles.set_row(index, &row)));
    let columns = [Column { tiles: &tiles[1], first_row: 0 }; COLUMNS];
    let mut outputs = vec![vec![W::default(); plan.degree()]; COLUMNS];
    let seconds = repeat(|| {
        let mut slices: Vec<_> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        multiply_accumulate(plan, black_box(&tiles[0]), &columns, &mut slices);
    });
    seconds / (ROWS * COLUMNS * plan.degree()) as f64
}

/// Seconds for one product of factors and its addition in the sums of the stream digest's detector, three of which serve two
/// plaintexts and both coordinates, with operands that stay in the second-level cache.
///
/// # Errors
///
/// [`BenchError::Omr`] for a modulus that is no prime of the kind that the detector has.
pub fn correlate_seconds(modulus: u64, backend: Backend) -> Result<f64, BenchError> {
    const PAIRS: usize = 32;
    const MATRICES: usize = 4;
    const COLUMNS: usize = 4;
    let plan = NttPlan::<u32>::with_backend(modulus, 128, backend).map_err(OmrError::from)?;
    let row: Vec<u32> = (0..plan.degree() as u64).map(|value| plan.modulus().reduce(value * 7919)).collect();
    let mut plain = PlainPairs::new(MATRICES, PAIRS, plan.degree());
    (0..MATRICES).for_each(|matrix| plain.set_matrix(&plan, matrix, &vec![&row; 2 * PAIRS]));
    let encrypted = EncryptedPairs::new(&plan, &[[&row[..]; 3]; PAIRS]);
    let mut outputs = vec![vec![0; plan.degree()]; 2 * MATRICES * COLUMNS];
    let seconds = repeat(|| {
        let mut slices: Vec<_> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        correlate(&plan, black_box(&plain), 0..MATRICES, &[&encrypted; COLUMNS], &mut slices);
    });
    Ok(seconds / (3 * PAIRS * MATRICES * COLUMNS * plan.degree()) as f64)
}

/// The kernels' time for a chunk of a search.
#[derive(Debug, Clone, Copy)]
pub struct SearchKernels {
    limbs: f64,
    /// One transform.
    pub transform_seconds: f64,
    /// A chunk's products with an entry of one inner table, over all limbs.
    pub products_seconds: f64,
}

impl SearchKernels {
    /// Measures both.
    ///
    /// # Errors
    ///
    /// [`BenchError::Bfv`] for a ring without transforms.
    pub fn measure(scheme: &Scheme) -> Result<Self, BenchError> {
        let preset = scheme.preset();
        let bfv = |error| PirError::from(BfvError::from(error));
        let prime = ntt_primes(preset.inner_bits[0], preset.degree, 1).map_err(bfv)?[0];
        let plan = NttPlan::<u64>::with_backend(prime, preset.degree, scheme.backend()).map_err(bfv)?;
        let limbs = preset.inner_bits.len() as f64;
        Ok(Self {
            limbs,
            transform_seconds: transform_seconds(&plan),
            products_seconds: 2.0 * limbs * preset.degree as f64 * multiply_accumulate_seconds(&plan),
        })
    }

    /// A chunk, for some ciphertexts: its transforms once, its products for each.
    pub fn chunk_seconds(&self, ciphertexts: usize) -> f64 {
        self.limbs * self.transform_seconds + ciphertexts as f64 * self.products_seconds
    }
}

/// The shortest of several runs of a repetition, per call.
fn repeat(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    let mut calls = 1;
    while begin.elapsed().as_secs_f64() < SECONDS {
        let start = Instant::now();
        (0..calls).for_each(|_| work());
        let seconds = start.elapsed().as_secs_f64();
        best = best.min(seconds / f64::from(calls));
        if seconds < SECONDS / 50.0 {
            calls *= 2;
        }
    }
    best
}

/// The time for about `blocks` AES-128 blocks on one core with the instructions of `backend`, with nothing loaded or stored:
/// scaled to `blocks` exactly. An evaluation of a point function has
/// [`Parameters::aes_blocks`](restante_dpf::Parameters::aes_blocks) of them.
pub fn aes(backend: restante_dpf::Backend, blocks: u64) -> Duration {
    let at_once = backend.encrypt_only_blocks() as u64;
    let rounds = blocks.div_ceil(at_once).max(1);
    let start = Instant::now();
    black_box(backend.encrypt_only(black_box(rounds)));
    let measured = start.elapsed();
    measured.mul_f64(blocks as f64 / (rounds * at_once) as f64)
}

/// The time for one core to overwrite `memory` with zeros, with the stores that evaluations into large slices use. The first
/// touch of fresh pages costs much more; overwrite memory once before measuring.
pub fn store(backend: restante_dpf::Backend, memory: &mut [u8]) -> Duration {
    let start = Instant::now();
    backend.fill(black_box(memory));
    start.elapsed()
}

/// The time for the threads of `runner` to read every byte of an epoch's mapping once and XOR its words: no answer takes less. The
/// first touch of a fresh mapping costs more; read it once before measuring.
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
        Ok(restante_pir::fetch::read_words(Backend::best(), shard))
    }

    fn merge(&self, sum: &mut u64, partial: u64) {
        *sum ^= partial;
    }

    fn finish(&self, sum: u64) -> u64 {
        sum
    }
}
