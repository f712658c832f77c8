//! `restante bench detect-compact`: detection with the compact digest, stage by stage.

use std::{sync::Mutex, time::Instant};

use chacha20::ChaCha20Rng;
use restante_client::Account;
use restante_clue::{BoundClue, ClueParameters};
use restante_omr::compact::{
    CompactContext, CompactDetectionKey, CompactDigest, Decoder, Detector, DigestRequest, Payload,
    PertinencyVector, PreparedKey, Stage,
};

use crate::{BOARD, Bench, BenchError, Measurement, TODAY, bound, kernels, peak_rss_bytes};

/// The work.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Messages to detect in.
    pub messages: u64,
    /// Recipients served in one pass.
    pub recipients: usize,
    /// The most pertinent messages that a digest holds.
    pub capacity: usize,
    /// Bytes of each payload that a digest holds; 0 for indices only.
    pub payload_bytes: usize,
    /// A small ring without any security: no measurement, but the same circuit in seconds.
    pub insecure: bool,
}

impl Sizes {
    /// Whose a message is: as many for each recipient as a digest holds, evenly spread, or fewer on a short board.
    fn addressee(&self, index: u64) -> Option<usize> {
        let places = (self.recipients * self.capacity) as u64;
        let stride = (self.messages / places).max(1);
        let turn = index / stride;
        let is_for_somebody = index % stride == 0 && turn < places;
        is_for_somebody.then_some(turn as usize % self.recipients)
    }

    fn payload(&self, index: u64) -> Vec<u8> {
        (0..self.payload_bytes as u64)
            .map(|place| (index.wrapping_mul(0x9e37_79b9) >> (place % 24)) as u8)
            .collect()
    }

    fn clues(&self, accounts: &[Account], rng: &mut ChaCha20Rng) -> Vec<Vec<u8>> {
        let senders: Vec<_> = accounts.iter().map(|account| account.address().prepare()).collect();
        let stranger = Account::random(CLUE, rng).address().prepare();
        let clue = |index: u64| {
            let sender = self.addressee(index).map_or(&stranger, |recipient| &senders[recipient]);
            sender.make_clue(&BOARD, TODAY, &index.to_le_bytes(), rng)
        };
        (0..self.messages).map(clue).collect()
    }
}

const CLUE: ClueParameters = ClueParameters::STANDARD;

/// The time since the stage before, added up for each kind of stage.
struct Laps(Mutex<(Instant, [f64; 4])>);

impl Laps {
    fn reached(&self, stage: Stage) {
        let Ok(mut laps) = self.0.lock() else { return };
        let index = match stage {
            Stage::Affine => 0,
            Stage::RangeCheck => 1,
            Stage::ZeroTest => 2,
            _ => 3,
        };
        laps.1[index] += laps.0.elapsed().as_secs_f64();
        laps.0 = Instant::now();
    }
}

/// Detects once, both phases.
///
/// # Errors
///
/// [`BenchError::Wrong`] if a digest does not hold what it should.
pub fn measure(bench: &Bench<'_>, sizes: &Sizes) -> Result<Measurement, BenchError> {
    let Sizes { messages, recipients, capacity, payload_bytes, insecure } = *sizes;
    let context = bench.compact_context(CLUE, insecure)?;
    let mut rng = bench.rng()?;
    let accounts: Vec<_> = (0..recipients).map(|_| Account::random(CLUE, &mut rng)).collect();
    let clues = sizes.clues(&accounts, &mut rng);
    let clues: Vec<BoundClue<'_>> =
        (0..).zip(&clues).map(|(index, clue)| bound(clue, &u64::to_le_bytes(index))).collect();
    let payloads: Vec<Vec<u8>> = (0..messages).map(|index| sizes.payload(index)).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();

    let start = Instant::now();
    let key = |account: &Account| Ok(account.compact_secret(&context)?.detection_key()?);
    let keys = accounts.iter().map(key).collect::<Result<Vec<CompactDetectionKey>, BenchError>>()?;
    let key_seconds = start.elapsed().as_secs_f64() / recipients as f64;
    let start = Instant::now();
    let keys: Vec<_> = bench.runner.install(|| keys.into_iter().map(PreparedKey::new).collect());
    let prepare_seconds = start.elapsed().as_secs_f64() / recipients as f64;
    let keys: Vec<&PreparedKey> = keys.iter().collect();

    let detector = Detector::new(&context)?;
    let request = DigestRequest { range: 0..messages, capacity, payload_bytes };
    let Detected {
        digests,
        phase1_seconds,
        phase2_seconds,
        stages: [affine, range_check, zero_test, compression],
    } = detect(bench, &detector, &keys, &clues, &request, &payloads)?;
    let peak = peak_rss_bytes();
    let decode_seconds = decode(sizes, &context, &accounts, &digests)?;

    let transform = kernels::transform_seconds(&context.circuit().basis(0).plans()[5]);
    let work = detector.work(messages, recipients, &request);
    let limit = work.transforms as f64 * transform;
    let threads = bench.runner.threads();
    let seconds = phase1_seconds + phase2_seconds;
    Ok(described(bench, sizes, &context)
        .with("seconds", seconds)
        .with("phase1_seconds", phase1_seconds)
        .with("phase2_seconds", phase2_seconds)
        .with("affine_seconds", affine)
        .with("range_check_seconds", range_check)
        .with("zero_test_seconds", zero_test)
        .with("compression_seconds", compression)
        .with("us_per_message_recipient", 1e6 * seconds / (messages as f64 * recipients as f64))
        .with("limit_seconds", limit)
        .with("limit_ratio", seconds * threads as f64 / limit)
        .with("transforms", work.transforms)
        .with("products", work.products)
        .with("transform_us", 1e6 * transform)
        .with("detection_key_bytes", CompactDetectionKey::file_bytes(&context))
        .with("precompute_bytes", PreparedKey::precompute_bytes(&context))
        .with("pertinency_bytes", PertinencyVector::file_bytes(&context, messages))
        .with("clue_bytes", CLUE.clue_bytes())
        .with("digest_bytes", CompactDigest::file_bytes(&context, &request))
        .with("decode_seconds", decode_seconds)
        .with("key_seconds", key_seconds)
        .with("prepare_seconds", prepare_seconds)
        .with("peak_rss_bytes", peak))
}

/// The results of detection, and the times of its parts.
struct Detected {
    digests: Vec<CompactDigest>,
    phase1_seconds: f64,
    phase2_seconds: f64,
    /// Seconds of the stages: affine, range check, zero test, compression.
    stages: [f64; 4],
}

/// Both phases, for all keys.
fn detect(
    bench: &Bench<'_>,
    detector: &Detector,
    keys: &[&PreparedKey],
    clues: &[BoundClue<'_>],
    request: &DigestRequest,
    payloads: &[&[u8]],
) -> Result<Detected, BenchError> {
    let laps = Laps(Mutex::new((Instant::now(), [0.0; 4])));
    let bar = bench.progress("detecting", 4);
    let reached = |stage: Stage| {
        laps.reached(stage);
        bar.inc(1);
    };
    let start = Instant::now();
    let seed = bench.seed()?;
    let vectors = bench.runner.install(|| detector.pertinency(keys, 0, clues, &seed, reached))?;
    let phase1_seconds = start.elapsed().as_secs_f64();
    let public: Vec<&CompactDetectionKey> = keys.iter().map(|key| key.key()).collect();
    let views: Vec<&PertinencyVector> = vectors.iter().collect();
    let start = Instant::now();
    let digests = bench
        .runner
        .install(|| detector.digests(&public, &views, request, Payload::source(0, payloads), reached))?;
    let phase2_seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let stages = laps.0.into_inner().map(|laps| laps.1).unwrap_or_default();
    Ok(Detected { digests, phase1_seconds, phase2_seconds, stages })
}

/// The work, as a measurement's first fields.
fn described(bench: &Bench<'_>, sizes: &Sizes, context: &CompactContext) -> Measurement {
    Measurement::new()
        .with("bench", "detect-compact")
        .with("preset", context.parameters().bfv.name.clone())
        .with("messages", sizes.messages)
        .with("recipients", sizes.recipients)
        .with("capacity", sizes.capacity)
        .with("payload_bytes", sizes.payload_bytes)
        .with("threads", bench.runner.threads())
        .with("backend", bench.backend.to_string())
        .with("clue", CLUE.name())
}

/// The recipients' side: the seconds that it takes one of them. A digest that does not hold its recipient's messages is an error.
fn decode(
    sizes: &Sizes,
    context: &CompactContext,
    accounts: &[Account],
    digests: &[CompactDigest],
) -> Result<f64, BenchError> {
    let mut seconds = 0.0;
    for (recipient, (account, digest)) in accounts.iter().zip(digests).enumerate() {
        let decoder = Decoder::new(&account.compact_secret(context)?)?;
        let file = digest.to_file(context);
        let start = Instant::now();
        let found = decoder.decode(&CompactDigest::from_file(context, &file)?)?;
        seconds += start.elapsed().as_secs_f64() / accounts.len() as f64;
        let expected: Vec<_> =
            (0..sizes.messages).filter(|&index| sizes.addressee(index) == Some(recipient)).collect();
        let right = found.iter().map(|message| message.index).eq(expected.iter().copied())
            && found.iter().all(|message| message.payload == sizes.payload(message.index));
        if !right {
            let (found, expected) = (found.len(), expected.len());
            return Err(BenchError::Wrong(format!(
                "a digest holds {found} messages, or holds them wrongly: expected {expected}"
            )));
        }
    }
    Ok(seconds)
}
