//! The demonstration with compact digests.

use std::time::Instant;

use restante_board::Board;
use restante_client::{PAYLOAD_BYTES, RECORD_OVERHEAD_BYTES};
use restante_omr::compact::{
    CompactDetectionKey, CompactDigest, Decoder, Detector, DigestRequest, PreparedKey,
};

use super::{Outcome, Recipient, Sizes};
use crate::{
    commands::board::bound_clues, commands::digest::make_digests, error::CliError, session::Session,
};

/// One recipient after the other: a prepared key takes more than a gigabyte.
pub fn run(
    session: &Session,
    insecure: bool,
    recipients: &[Recipient],
    board: &Board,
    lines: &[String],
) -> Result<(Vec<Outcome>, Sizes), CliError> {
    let context = session.compact_context(*recipients[0].account.parameters(), insecure)?;
    let detector = Detector::new(&context)?;
    let clues = bound_clues(board, 0..board.len())?;
    // The shortest payloads: what does not fit is read from the board, by its index.
    let request = DigestRequest {
        range: 0..board.len(),
        capacity: 255,
        payload_bytes: PAYLOAD_BYTES[0] + RECORD_OVERHEAD_BYTES,
    };
    let bar = session.progress("detecting", recipients.len() as u64);
    let mut outcomes = Vec::new();
    for recipient in recipients {
        let secret = recipient.account.compact_secret(&context)?;
        let file = secret.detection_key()?.to_file();
        let key = CompactDetectionKey::from_file(&context, &file)?;
        drop(file);
        let key = session.runner.install(|| PreparedKey::new(key));
        let keys = [&key];
        let seed = session.seed()?;
        let vectors = session.runner.install(|| detector.pertinency(&keys, 0, &clues, &seed, |_| ()))?;
        let digests = make_digests(session, &detector, &[key.key()], &[&vectors[0]], &request, board)?;
        bar.inc(1);

        let file = digests[0].to_file(&context);
        let start = Instant::now();
        let found = Decoder::new(&secret)?.decode(&CompactDigest::from_file(&context, &file)?)?;
        let mut outcome = Outcome {
            decode_seconds: start.elapsed().as_secs_f64(),
            downloaded_bytes: file.len(),
            ..Outcome::default()
        };
        for message in found {
            let opened = if message.payload.len() == message.payload_bytes {
                recipient.account.open_record(&board.config().id, &message.payload)
            } else {
                let whole = board.message(message.index)?;
                outcome.downloaded_bytes += whole.clue.len() + whole.payload.len();
                recipient.account.open(&board.config().id, whole.clue, whole.payload)
            };
            outcome.count(recipient, message.index, opened, lines);
        }
        outcomes.push(outcome);
    }
    bar.finish_and_clear();
    let detection_key = CompactDetectionKey::file_bytes(&context);
    Ok((outcomes, Sizes { detection_key, digest: CompactDigest::file_bytes(&context, &request) }))
}
