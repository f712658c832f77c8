//! `restante bench detect-stream`: detection with the stream digest, and what surrounds it.

use std::{ops::Range, time::Instant};

use rayon::prelude::*;
use restante_client::Account;
use restante_clue::{BoundClue, ClueParameters};
use restante_omr::stream::{
    BLOCK, Decoder, DetectionKey, Detector, PreparedKey, StreamContext, StreamDigest,
};

use crate::{BOARD, Bench, BenchError, Measurement, TODAY, bound, kernels, peak_rss_bytes};

/// Clues are made for as many addresses, of which recipients come first.
const ADDRESSES: usize = 16;

/// The work.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Messages to detect in.
    pub messages: u64,
    /// Recipients served in one pass.
    pub recipients: usize,
    /// The kind of clues.
    pub clue: ClueParameters,
}

/// Detects once.
///
/// # Errors
///
/// [`BenchError::Wrong`] if a pertinent message was not detected.
pub fn measure(bench: &Bench<'_>, sizes: &Sizes) -> Result<Measurement, BenchError> {
    let Sizes { messages, recipients, clue } = *sizes;
    let context = bench.stream_context(clue)?;
    let mut rng = bench.rng()?;
    let accounts: Vec<_> = (0..recipients.max(ADDRESSES)).map(|_| Account::random(clue, &mut rng)).collect();
    let (clues, clue_seconds) = make_clues(bench, &accounts, messages)?;
    let clues: Vec<BoundClue<'_>> =
        (0..).zip(&clues).map(|(index, clue)| bound(clue, &u64::to_le_bytes(index))).collect();

    let (prepared, keys) = prepare(&context, &accounts[..recipients])?;

    let detector = Detector::new(&context)?;
    let seed = bench.seed()?;
    let bar = bench.progress("detecting", messages);
    let start = Instant::now();
    let digests =
        detector.detect_with(bench.runner, &prepared, 0, &clues, &seed, |count| bar.inc(count as u64))?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let peak = peak_rss_bytes();

    let file = digests[0].to_file(&context);
    let decode_seconds = decode(&context, &accounts[0], messages, &file)?;

    let bfv = context.bfv();
    let ntt = kernels::transform_seconds(&bfv.ciphertext_basis().plans()[0]);
    let plan = &bfv.ciphertext_basis().plans()[0];
    let product = kernels::correlate_seconds(plan.modulus().as_u64(), plan.backend())?;
    let work = detector.work(messages, recipients);
    let limit = work.transforms as f64 * ntt + work.products as f64 * product;
    let threads = bench.runner.threads();
    let per = messages as f64 * recipients as f64;
    Ok(described(bench, sizes)
        .with("seconds", seconds)
        .with("us_per_message_recipient", 1e6 * seconds / per)
        .with("messages_per_hour", 3600.0 * messages as f64 / seconds)
        .with("limit_seconds", limit)
        .with("limit_ratio", seconds * threads as f64 / limit)
        .with("transforms", work.transforms)
        .with("products", work.products)
        .with("transform_us", 1e6 * ntt)
        .with("products_per_second", 1.0 / product)
        .with("detection_key_bytes", DetectionKey::file_bytes(&context))
        .with("clue_bytes", clue.clue_bytes())
        .with("digest_bytes", file.len())
        .with("digest_bytes_per_message", file.len() as f64 / messages as f64)
        .with("own_digest_bytes", half_bytes(messages, context.parameters().short.c0_bits()))
        .with("public_digest_bytes", half_bytes(messages, context.parameters().short.c1_bits()))
        .with("decode_us_per_message", 1e6 * decode_seconds / messages as f64)
        .with("clue_us", 1e6 * clue_seconds)
        .with("key_seconds", keys.make)
        .with("prepare_seconds", keys.prepare)
        .with("prepare_common_seconds", keys.common)
        .with("peak_rss_bytes", peak))
}

/// The work, as a measurement's first fields.
fn described(bench: &Bench<'_>, sizes: &Sizes) -> Measurement {
    Measurement::new()
        .with("bench", "detect-stream")
        .with("messages", sizes.messages)
        .with("recipients", sizes.recipients)
        .with("threads", bench.runner.threads())
        .with("backend", bench.backend.to_string())
        .with("clue", sizes.clue.name())
}

/// The bytes of one half of a digest, with so many bits a coefficient.
fn half_bytes(messages: u64, bits: u32) -> u64 {
    2 * messages.div_ceil(BLOCK as u64) * (BLOCK as u64 * u64::from(bits)).div_ceil(8)
}

/// Seconds that a detection key takes: to make it, to prepare it for a pass when it is stored, and to make what it has in common with
/// others, once for all of them.
struct KeySeconds {
    make: f64,
    prepare: f64,
    common: f64,
}

/// Keys that a relay prepares for a pass, unless it is told otherwise.
const KEYS_PER_PASS: usize = 32;

/// The accounts' detection keys.
fn prepare(
    context: &StreamContext,
    accounts: &[Account],
) -> Result<(Vec<PreparedKey>, KeySeconds), BenchError> {
    let recipients = accounts.len() as f64;
    let start = Instant::now();
    let files = accounts
        .iter()
        .map(|account| Ok(account.recipient_secret(context)?.detection_key()?.to_file()))
        .collect::<Result<Vec<_>, BenchError>>()?;
    let make = start.elapsed().as_secs_f64() / recipients;
    let prepare = |file: &Vec<u8>| Ok(PreparedKey::new(&DetectionKey::from_file(context, file)?));
    let start = Instant::now();
    files.first().map(prepare).transpose()?;
    let first = start.elapsed().as_secs_f64();
    // A relay prepares keys for one pass after the other, in the memory of those before.
    drop(files.iter().take(KEYS_PER_PASS).map(prepare).collect::<Result<Vec<_>, BenchError>>()?);
    let start = Instant::now();
    drop(files.iter().take(KEYS_PER_PASS).map(prepare).collect::<Result<Vec<_>, BenchError>>()?);
    let seconds = start.elapsed().as_secs_f64() / recipients.min(KEYS_PER_PASS as f64);
    let prepared = files.iter().map(prepare).collect::<Result<Vec<_>, BenchError>>()?;
    Ok((prepared, KeySeconds { make, prepare: seconds, common: (first - seconds).max(0.0) }))
}

/// Clues for the first accounts in turn, and the seconds that one took a thread.
fn make_clues(
    bench: &Bench<'_>,
    accounts: &[Account],
    messages: u64,
) -> Result<(Vec<Vec<u8>>, f64), BenchError> {
    let senders: Vec<_> =
        accounts.iter().take(ADDRESSES).map(|account| account.address().prepare()).collect();
    let bar = bench.progress("making clues", messages);
    let start = Instant::now();
    let chunks: Vec<_> = (0..messages).step_by(1024).map(|first| first..messages.min(first + 1024)).collect();
    let make = |range: Range<u64>| {
        let mut rng = bench.rng()?;
        bar.inc(range.end - range.start);
        let clue = |index: u64| {
            senders[index as usize % ADDRESSES].make_clue(&BOARD, TODAY, &index.to_le_bytes(), &mut rng)
        };
        Ok(range.map(clue).collect())
    };
    let clues = bench
        .runner
        .install(|| chunks.into_par_iter().map(make).collect::<Result<Vec<Vec<_>>, BenchError>>())?;
    let seconds = start.elapsed().as_secs_f64() * bench.runner.threads() as f64 / messages as f64;
    bar.finish_and_clear();
    Ok((clues.concat(), seconds))
}

/// The recipient's side: the seconds that it takes. A digest without one of the recipient's messages is an error.
fn decode(context: &StreamContext, account: &Account, messages: u64, file: &[u8]) -> Result<f64, BenchError> {
    let decoder = Decoder::new(&account.recipient_secret(context)?)?;
    let start = Instant::now();
    let digest = StreamDigest::from_file(context, file)?;
    let found = decoder.pertinent(&digest)?;
    let seconds = start.elapsed().as_secs_f64();
    let missing =
        (0..messages).step_by(ADDRESSES).filter(|index| found.binary_search(index).is_err()).count();
    if missing > 0 {
        return Err(BenchError::Wrong(format!("{missing} pertinent messages were not detected")));
    }
    Ok(seconds)
}
