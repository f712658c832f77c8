//! `restante demo`: the whole path on real text.

mod compact;

use std::{collections::HashMap, path::Path, time::Instant};

use rand_core::Rng;
use restante_bench::peak_rss_bytes;
use restante_board::{Board, BoardWriter};
use restante_client::{Account, LetterError, Sender};
use restante_omr::stream::{Decoder, DetectionKey, Detector, PreparedKey, StreamDigest};

use super::board;
use crate::{
    arguments::{DemoArguments, DigestKind},
    corpus,
    error::CliError,
    report::{Report, grouped, print_line},
    session::Session,
};

/// Addresses of people who get the messages that are not for a recipient.
const STRANGERS: usize = 16;
/// One message in this many is for a recipient.
const PERTINENT_SHARE: u64 = 64;

/// About as many messages are for each recipient at most.
const MESSAGES_EACH: u64 = 128;

/// A recipient, and what was sent to it.
struct Recipient {
    account: Account,
    /// Index on the board to index in the corpus, of every message that was sent to it.
    sent: HashMap<u64, usize>,
}

/// What a recipient found.
#[derive(Default)]
struct Outcome {
    delivered: usize,
    misdelivered: usize,
    false_positives: usize,
    decode_seconds: f64,
}

pub fn run(session: &Session, arguments: &DemoArguments) -> Result<(), CliError> {
    let start = Instant::now();
    let lines = corpus::load(arguments.corpus.as_deref())?;
    let scratch;
    let path = match &arguments.board {
        Some(path) => path,
        None => {
            scratch = tempfile::tempdir()
                .map_err(CliError::system("make a directory in", &std::env::temp_dir()))?;
            scratch.path()
        }
    };
    let (mut recipients, strangers) = people(session, arguments)?;

    let posting = Instant::now();
    let board = fill_board(session, path, arguments.messages, &lines, &mut recipients, &strangers)?;
    let posting_seconds = posting.elapsed().as_secs_f64();

    let detecting = Instant::now();
    let (outcomes, sizes) = match arguments.digest {
        DigestKind::Stream => stream(session, &recipients, &board, &lines)?,
        DigestKind::Compact => compact::run(session, arguments.insecure, &recipients, &board, &lines)?,
    };
    let decoding: f64 = outcomes.iter().map(|outcome| outcome.decode_seconds).sum();
    let detecting_seconds = detecting.elapsed().as_secs_f64() - decoding;

    let sum = |value: fn(&Outcome) -> usize| outcomes.iter().map(value).sum::<usize>();
    let expected: usize = recipients.iter().map(|recipient| recipient.sent.len()).sum();
    let (delivered, misdelivered) = (sum(|o| o.delivered), sum(|o| o.misdelivered));
    let seconds = start.elapsed().as_secs_f64();
    let per_message = 1e6 * detecting_seconds / (arguments.messages as f64 * f64::from(arguments.recipients));
    if !session.json {
        print_table(&recipients, &outcomes)?;
    }
    let report = Report::new()
        .with("messages", arguments.messages)
        .with("recipients", arguments.recipients)
        .with("expected", expected)
        .with("delivered", delivered)
        .with("misdelivered", misdelivered)
        .with("false_positives", sum(|o| o.false_positives))
        .with("distinct_texts", lines.len())
        .with("clue_bytes", arguments.clue.clue.clue_bytes())
        .with("detection_key_bytes", sizes.detection_key)
        .with("digest_bytes", sizes.digest)
        .with("posting_seconds", posting_seconds)
        .with("detecting_seconds", detecting_seconds)
        .with("us_per_message_recipient", per_message)
        .with("decode_seconds", decoding / outcomes.len() as f64)
        .with("threads", session.runner.threads())
        .with("backend", session.backend.to_string())
        .with("peak_rss_bytes", peak_rss_bytes())
        .with("seconds", seconds);
    let printed = report.print(session);
    if delivered != expected || misdelivered != 0 {
        return Err(CliError::Job(format!(
            "{delivered} of {expected} messages were delivered, {misdelivered} misdelivered: expected all and none"
        )));
    }
    printed
}

/// The recipients, and whoever else gets messages.
fn people(session: &Session, arguments: &DemoArguments) -> Result<(Vec<Recipient>, Vec<Sender>), CliError> {
    let (clue, mut rng) = (arguments.clue.clue, session.rng()?);
    let recipients = (0..arguments.recipients)
        .map(|_| Recipient { account: Account::random(clue, &mut rng), sent: HashMap::new() })
        .collect();
    let strangers = (0..STRANGERS).map(|_| Account::random(clue, &mut rng).address().prepare()).collect();
    Ok((recipients, strangers))
}

/// A line for each recipient.
fn print_table(recipients: &[Recipient], outcomes: &[Outcome]) -> Result<(), CliError> {
    print_line(&format!("{:<46} {:>8} {:>9} {:>15}", "recipient", "sent", "received", "false positives"))?;
    for (recipient, outcome) in recipients.iter().zip(outcomes) {
        let name = recipient.account.address().fingerprint();
        print_line(&format!(
            "{name:<46} {:>8} {:>9} {:>15}",
            grouped(recipient.sent.len() as u64),
            grouped(outcome.delivered as u64),
            outcome.false_positives
        ))?;
    }
    print_line("")
}

/// Posts messages: most to strangers, the others to recipients by turns, at random places.
fn fill_board(
    session: &Session,
    path: &Path,
    messages: u64,
    lines: &[String],
    recipients: &mut [Recipient],
    strangers: &[Sender],
) -> Result<Board, CliError> {
    let clue = *recipients[0].account.parameters();
    let mut rng = session.rng()?;
    let senders: Vec<_> = recipients.iter().map(|recipient| recipient.account.address().prepare()).collect();
    // A compact digest holds 255 messages at most: far fewer than that come to each recipient.
    let share = PERTINENT_SHARE.max(messages / (recipients.len() as u64 * MESSAGES_EACH));
    let mut turn = 0;
    let mut jobs: Vec<(&Sender, &[u8])> = Vec::with_capacity(messages as usize);
    for index in 0..messages {
        let line = index as usize % lines.len();
        let sender = if rng.next_u64() % share == 0 || index == 0 {
            turn = (turn + 1) % recipients.len();
            recipients[turn].sent.insert(index, line);
            &senders[turn]
        } else {
            &strangers[rng.next_u64() as usize % strangers.len()]
        };
        jobs.push((sender, lines[line].as_bytes()));
    }
    board::create(session, path, clue)?;
    let mut writer = BoardWriter::open(path)?;
    let bar = session.progress("posting", messages);
    board::write_messages(session, &mut writer, &jobs, |count| bar.inc(count))?;
    bar.finish_and_clear();
    drop(writer);
    Ok(Board::open(path)?)
}

/// Files' sizes.
struct Sizes {
    detection_key: usize,
    digest: usize,
}

/// Detection with stream digests: the detector has the board and the detection keys, as files.
fn stream(
    session: &Session,
    recipients: &[Recipient],
    board: &Board,
    lines: &[String],
) -> Result<(Vec<Outcome>, Sizes), CliError> {
    let context = session.stream_context(*recipients[0].account.parameters())?;
    let secrets =
        recipients.iter().map(|r| r.account.recipient_secret(&context)).collect::<Result<Vec<_>, _>>()?;
    let keys = secrets
        .iter()
        .map(|secret| {
            let file = secret.detection_key()?.to_file();
            Ok(PreparedKey::new(&DetectionKey::from_file(&context, &file)?))
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    let clues = board::bound_clues(board, 0..board.len())?;
    let bar = session.progress("detecting", clues.len() as u64);
    let seed = session.seed()?;
    let digests =
        Detector::new(&context)?
            .detect_with(&session.runner, &keys, 0, &clues, &seed, |messages| bar.inc(messages as u64))?;
    bar.finish_and_clear();
    let digests: Vec<_> = digests.iter().map(|digest| digest.to_file(&context)).collect();

    let mut outcomes = Vec::new();
    for ((recipient, secret), digest) in recipients.iter().zip(&secrets).zip(&digests) {
        let start = Instant::now();
        let indices = Decoder::new(secret)?.pertinent(&StreamDigest::from_file(&context, digest)?)?;
        let mut outcome = Outcome { decode_seconds: start.elapsed().as_secs_f64(), ..Outcome::default() };
        for index in indices {
            let message = board.message(index)?;
            let opened = recipient.account.open(&board.config().id, message.clue, message.payload);
            outcome.count(recipient, index, opened, lines);
        }
        outcomes.push(outcome);
    }
    let digest = digests.first().map_or(0, Vec::len);
    Ok((outcomes, Sizes { detection_key: DetectionKey::file_bytes(&context), digest }))
}

impl Outcome {
    /// Counts a message that was found at an index.
    fn count(
        &mut self,
        recipient: &Recipient,
        index: u64,
        opened: Result<Vec<u8>, LetterError>,
        lines: &[String],
    ) {
        match opened {
            Ok(text) => match recipient.sent.get(&index) {
                Some(&line) if lines[line].as_bytes() == text => self.delivered += 1,
                _ => self.misdelivered += 1,
            },
            Err(_) => self.false_positives += 1,
        }
    }
}
