#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use chacha20::ChaCha20Rng;
use indicatif::ProgressBar;
use rand_core::SeedableRng;
use restante_client::{BoardId, Period};
use restante_clue::{BoundClue, ClueParameters};
use restante_omr::{
    compact::{CompactContext, CompactParameters},
    stream::{StreamContext, StreamParameters},
};
use restante_ring::{Backend, sample::Seed};
use restante_scan::Runner;
use restante_wire::binding::{MessageHashes, split_clue};

pub mod detect_compact;
pub mod detect_stream;
pub mod dpf;
mod error;
pub mod fetch;
pub mod kernels;
mod machine;
mod measurement;
#[cfg(feature = "serve")]
pub mod relay;
pub mod search;

pub use error::BenchError;
pub use machine::{peak_rss_bytes, processor_seconds};
pub use measurement::Measurement;

/// Where and when measured clues are made.
const BOARD: BoardId = BoardId([7; 16]);
const TODAY: Period = Period(20_000);

/// The machine as a measurement uses it.
pub struct Bench<'a> {
    /// The kernels.
    pub backend: Backend,
    /// The threads.
    pub runner: &'a Runner,
    /// Makes a progress bar from a name and a number of steps.
    pub progress: &'a (dyn Fn(&'static str, u64) -> ProgressBar + Sync),
}

impl Bench<'_> {
    fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        (self.progress)(what, total)
    }

    fn stream_context(&self, clue: ClueParameters) -> Result<StreamContext, BenchError> {
        Ok(StreamContext::new(StreamParameters::new(clue)?, self.backend)?)
    }

    fn compact_context(&self, clue: ClueParameters, insecure: bool) -> Result<CompactContext, BenchError> {
        let parameters =
            if insecure { CompactParameters::insecure(clue)? } else { CompactParameters::new(clue)? };
        Ok(CompactContext::new(parameters, self.backend)?)
    }

    fn seed(&self) -> Result<Seed, BenchError> {
        let Ok(seed) = Seed::random(&mut self.rng()?);
        Ok(seed)
    }

    /// A generator seeded by the operating system.
    fn rng(&self) -> Result<ChaCha20Rng, BenchError> {
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        getrandom::fill(&mut *seed)
            .map_err(|error| BenchError::Environment(format!("cannot draw random bytes: {error}")))?;
        Ok(ChaCha20Rng::from_seed(*seed))
    }
}

/// A clue of a message as a detector takes it.
fn bound<'a>(clue: &'a [u8], payload: &[u8]) -> BoundClue<'a> {
    let binding = MessageHashes::of(split_clue(clue).0, payload).binding(&BOARD);
    BoundClue { bytes: clue, binding }
}
