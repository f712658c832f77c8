//! `restante bench detect-stream`.

use std::time::Instant;

use rayon::prelude::*;
use restante_client::Account;
use restante_clue::{BoundClue, ClueParameters};
use restante_omr::stream::{Decoder, DetectionKey, Detector, PreparedKey, StreamDigest};

use super::{BOARD, TODAY, bound, limits};
use crate::{
    error::CliError,
    report::{Report, peak_rss_bytes},
    session::Session,
};

/// Clues are made for as many addresses, of which recipients come first.
const ADDRESSES: usize = 16;

pub fn run(
    session: &Session,
    messages: u64,
    recipients: usize,
    clue: ClueParameters,
) -> Result<(), CliError> {
    let context = session.stream_context(clue)?;
    let mut rng = session.rng()?;
    let accounts: Vec<_> = (0..recipients.max(ADDRESSES)).map(|_| Account::random(clue, &mut rng)).collect();
    let senders: Vec<_> =
        accounts.iter().take(ADDRESSES).map(|account| account.address().prepare()).collect();

    let bar = session.progress("making clues", messages);
    let start = Instant::now();
    let chunks = (0..messages).step_by(1024).map(|first| first..messages.min(first + 1024));
    let clues = session.runner.install(|| {
        chunks
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|range| {
                let mut rng = session.rng()?;
                bar.inc(range.end - range.start);
                Ok(range
                    .map(|index| {
                        let sender = &senders[index as usize % ADDRESSES];
                        sender.make_clue(&BOARD, TODAY, &index.to_le_bytes(), &mut rng)
                    })
                    .collect::<Vec<_>>())
            })
            .collect::<Result<Vec<_>, CliError>>()
    })?;
    let clue_seconds = start.elapsed().as_secs_f64() * session.runner.threads() as f64 / messages as f64;
    bar.finish_and_clear();
    let clues: Vec<BoundClue<'_>> = (0..)
        .zip(clues.iter().flatten())
        .map(|(index, clue)| bound(clue, &u64::to_le_bytes(index)))
        .collect();

    let start = Instant::now();
    let mut prepared = Vec::new();
    for account in &accounts[..recipients] {
        let key = account.recipient_secret(&context)?.detection_key()?;
        prepared.push(PreparedKey::new(&key));
    }
    let key_seconds = start.elapsed().as_secs_f64() / recipients as f64;

    let detector = Detector::new(&context)?;
    let seed = session.seed()?;
    let bar = session.progress("detecting", messages);
    let start = Instant::now();
    let digests =
        detector.detect_with(&session.runner, &prepared, 0, &clues, &seed, |count| bar.inc(count as u64))?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let peak = peak_rss_bytes();

    // The recipient's side, and that what was measured is right.
    let decoder = Decoder::new(&accounts[0].recipient_secret(&context)?)?;
    let file = digests[0].to_file(&context);
    let start = Instant::now();
    let digest = StreamDigest::from_file(&context, &file)?;
    let found = decoder.pertinent(&digest)?;
    let decode_seconds = start.elapsed().as_secs_f64();
    let missing =
        (0..messages).step_by(ADDRESSES).filter(|index| found.binary_search(index).is_err()).count();
    if missing > 0 {
        return Err(CliError::Job(format!("{missing} pertinent messages were not detected")));
    }

    let bfv = context.bfv();
    let ntt = limits::transform_seconds(&bfv.ciphertext_basis().plans()[0]);
    let product = limits::multiply_accumulate_seconds(&bfv.ciphertext_basis().plans()[0]);
    let work = detector.work(messages, recipients);
    let limit = work.transforms as f64 * ntt + work.products as f64 * product;
    let threads = session.runner.threads();
    let per = messages as f64 * recipients as f64;
    Report::new()
        .with("bench", "detect-stream")
        .with("messages", messages)
        .with("recipients", recipients)
        .with("threads", threads)
        .with("backend", session.backend.to_string())
        .with("clue", clue.name())
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
        .with("decode_us_per_message", 1e6 * decode_seconds / messages as f64)
        .with("clue_us", 1e6 * clue_seconds)
        .with("key_seconds", key_seconds)
        .with("peak_rss_bytes", peak)
        .print(session)
}
