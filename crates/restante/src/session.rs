//! Shared by all commands: threads, back end, randomness, and where output goes.

use chacha20::ChaCha20Rng;
use indicatif::{ProgressBar, ProgressStyle};
use rand_core::SeedableRng;
use restante_clue::ClueParameters;
use restante_omr::{
    compact::{CompactContext, CompactParameters},
    stream::{StreamContext, StreamParameters},
};
use restante_ring::{Backend, sample::Seed};
use restante_scan::Runner;

use crate::{arguments::Global, error::CliError, files::Outputs};

/// The settings of one run.
#[derive(Debug)]
pub struct Session {
    pub json: bool,
    pub backend: Backend,
    pub runner: Runner,
    /// The files that the command may write.
    pub outputs: Outputs,
    /// As they were given on the command line.
    #[cfg(feature = "serve")]
    pub threads: Option<u16>,
    progress: bool,
}

impl Session {
    pub fn new(global: &Global, outputs: Outputs) -> Result<Self, CliError> {
        let backend = match &global.backend {
            Some(name) => name.parse().map_err(|error| CliError::Usage(format!("--backend: {error}")))?,
            None => Backend::best(),
        };
        let runner = Runner::new(global.threads.unwrap_or(0).into())
            .map_err(|error| CliError::Environment(format!("cannot start threads: {error}")))?;
        Ok(Self {
            json: global.json,
            backend,
            runner,
            outputs,
            #[cfg(feature = "serve")]
            threads: global.threads,
            progress: !global.quiet,
        })
    }

    /// A bar on standard error, if that is a terminal.
    pub fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        if !self.progress {
            return ProgressBar::hidden();
        }
        let style =
            ProgressStyle::with_template("{msg:20} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}");
        let bar = ProgressBar::new(total).with_message(what);
        match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// The stream digest for a kind of clues.
    pub fn stream_context(&self, clue: ClueParameters) -> Result<StreamContext, CliError> {
        Ok(StreamContext::new(StreamParameters::new(clue)?, self.backend)?)
    }

    /// A fresh seed.
    pub fn seed(&self) -> Result<Seed, CliError> {
        let Ok(seed) = Seed::random(&mut self.rng()?);
        Ok(seed)
    }

    /// The compact digest for a kind of clues, or its small ring without security.
    pub fn compact_context(&self, clue: ClueParameters, insecure: bool) -> Result<CompactContext, CliError> {
        let parameters =
            if insecure { CompactParameters::insecure(clue)? } else { CompactParameters::new(clue)? };
        Ok(CompactContext::new(parameters, self.backend)?)
    }

    /// A generator seeded by the operating system.
    pub fn rng(&self) -> Result<ChaCha20Rng, CliError> {
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        getrandom::fill(&mut *seed)
            .map_err(|error| CliError::Environment(format!("cannot draw random bytes: {error}")))?;
        Ok(ChaCha20Rng::from_seed(*seed))
    }
}
