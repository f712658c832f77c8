//! `restante bench detect-compact`.

use std::{sync::Mutex, time::Instant};

use restante_client::Account;
use restante_clue::{BoundClue, ClueParameters};
use restante_omr::compact::{
    CompactDetectionKey, CompactDigest, Decoder, Detector, DigestRequest, Payload, PertinencyVector,
    PreparedKey, Stage,
};

use super::{BOARD, TODAY, bound, limits};
use crate::{
    arguments::DigestSizes,
    error::CliError,
    report::{Report, peak_rss_bytes},
    session::Session,
};

pub fn run(
    session: &Session,
    messages: u64,
    recipients: usize,
    sizes: DigestSizes,
    insecure: bool,
) -> Result<(), CliError> {
    let clue = ClueParameters::STANDARD;
    let (capacity, payload_bytes) = (usize::from(sizes.capacity), usize::from(sizes.payload_bytes));
    let context = session.compact_context(clue, insecure)?;
    let mut rng = session.rng()?;
    let accounts: Vec<_> = (0..recipients).map(|_| Account::random(clue, &mut rng)).collect();
    let senders: Vec<_> = accounts.iter().map(|account| account.address().prepare()).collect();
    let stranger = Account::random(clue, &mut rng).address().prepare();

    // As many pertinent messages for each recipient as a digest holds, evenly spread, or fewer on a short board.
    let stride = (messages / (recipients * capacity) as u64).max(1);
    let addressee = |index: u64| {
        let turn = index / stride;
        let wanted = index % stride == 0 && turn < (recipients * capacity) as u64;
        wanted.then_some(turn as usize % recipients)
    };
    let clues: Vec<Vec<u8>> = (0..messages)
        .map(|index| {
            let sender = addressee(index).map_or(&stranger, |recipient| &senders[recipient]);
            sender.make_clue(&BOARD, TODAY, &index.to_le_bytes(), &mut rng)
        })
        .collect();
    let clues: Vec<BoundClue<'_>> =
        (0..).zip(&clues).map(|(index, clue)| bound(clue, &u64::to_le_bytes(index))).collect();
    let payload = |index: u64| -> Vec<u8> {
        (0..payload_bytes as u64)
            .map(|place| (index.wrapping_mul(0x9e37_79b9) >> (place % 24)) as u8)
            .collect()
    };
    let payloads: Vec<Vec<u8>> = (0..messages).map(payload).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();

    let start = Instant::now();
    let keys = accounts
        .iter()
        .map(|account| Ok(account.compact_secret(&context)?.detection_key()?))
        .collect::<Result<Vec<CompactDetectionKey>, CliError>>()?;
    let key_seconds = start.elapsed().as_secs_f64() / recipients as f64;
    let start = Instant::now();
    let keys: Vec<_> = session.runner.install(|| keys.into_iter().map(PreparedKey::new).collect());
    let prepare_seconds = start.elapsed().as_secs_f64() / recipients as f64;

    let keys: Vec<&PreparedKey> = keys.iter().collect();

    // The time since the stage before, added up for each kind of stage.
    let laps = Mutex::new((Instant::now(), [0.0; 4]));
    let bar = session.progress("detecting", 4);
    let reached = |stage: Stage| {
        let Ok(mut laps) = laps.lock() else { return };
        let index = match stage {
            Stage::Affine => 0,
            Stage::RangeCheck => 1,
            Stage::ZeroTest => 2,
            _ => 3,
        };
        laps.1[index] += laps.0.elapsed().as_secs_f64();
        laps.0 = Instant::now();
        bar.inc(1);
    };
    let detector = Detector::new(&context)?;
    let start = Instant::now();
    let seed = session.seed()?;
    let vectors = session.runner.install(|| detector.pertinency(&keys, 0, &clues, &seed, reached))?;
    let phase1_seconds = start.elapsed().as_secs_f64();
    let request = DigestRequest { range: 0..messages, capacity, payload_bytes };
    let public: Vec<&CompactDetectionKey> = keys.iter().map(|key| key.key()).collect();
    let views: Vec<&PertinencyVector> = vectors.iter().collect();
    let start = Instant::now();
    let digests = session
        .runner
        .install(|| detector.digests(&public, &views, &request, Payload::source(0, &payloads), reached))?;
    let phase2_seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let peak = peak_rss_bytes();

    // The recipient's side, and that what was measured is right.
    let mut decode_seconds = 0.0;
    for (recipient, (account, digest)) in accounts.iter().zip(&digests).enumerate() {
        let decoder = Decoder::new(&account.compact_secret(&context)?)?;
        let file = digest.to_file(&context);
        let start = Instant::now();
        let found = decoder.decode(&CompactDigest::from_file(&context, &file)?)?;
        decode_seconds += start.elapsed().as_secs_f64() / recipients as f64;
        let expected: Vec<_> = (0..messages).filter(|&index| addressee(index) == Some(recipient)).collect();
        let right = found.iter().map(|message| message.index).eq(expected.iter().copied())
            && found.iter().all(|message| message.payload == payload(message.index));
        if !right {
            let (found, expected) = (found.len(), expected.len());
            return Err(CliError::Job(format!(
                "a digest holds {found} messages, or holds them wrongly: expected {expected}"
            )));
        }
    }

    let transform = limits::transform_seconds(&context.circuit().basis(0).plans()[5]);
    let work = detector.work(messages, recipients, &request);
    let limit = work.transforms as f64 * transform;
    let threads = session.runner.threads();
    let seconds = phase1_seconds + phase2_seconds;
    let [affine, range_check, zero_test, compression] =
        laps.into_inner().map(|laps| laps.1).unwrap_or_default();
    Report::new()
        .with("bench", "detect-compact")
        .with("preset", context.parameters().bfv.name.clone())
        .with("messages", messages)
        .with("recipients", recipients)
        .with("capacity", capacity)
        .with("payload_bytes", payload_bytes)
        .with("threads", threads)
        .with("backend", session.backend.to_string())
        .with("clue", clue.name())
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
        .with("clue_bytes", clue.clue_bytes())
        .with("digest_bytes", CompactDigest::file_bytes(&context, &request))
        .with("decode_seconds", decode_seconds)
        .with("key_seconds", key_seconds)
        .with("prepare_seconds", prepare_seconds)
        .with("peak_rss_bytes", peak)
        .print(session)
}
