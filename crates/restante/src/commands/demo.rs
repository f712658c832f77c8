//! `restante demo`: the whole path on real text.

mod compact;

use std::{collections::HashMap, path::Path, time::Instant};

use rand_core::Rng;
use restante_bench::peak_rss_bytes;
use restante_board::{Board, BoardWriter};
use restante_client::{Account, LetterError, Sender};
use restante_omr::stream::{Decoder, DetectionKey, Detector, PreparedKey, StreamDigest};
use serde_json::{Value, json};

use super::board;
use crate::{
    arguments::{DemoArguments, DigestKind},
    corpus,
    error::CliError,
    letters::shortened,
    report::{Report, print_line},
    session::Session,
    units::{self, count},
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

/// A recipient's findings.
#[derive(Default)]
struct Outcome {
    delivered: usize,
    misdelivered: usize,
    false_positives: usize,
    decode_seconds: f64,
    /// The digest, and the messages that it pointed at.
    downloaded_bytes: usize,
    /// The first of the delivered letters, with their indices.
    letters: Vec<(u64, Vec<u8>)>,
}

/// Letters of each recipient that are kept to be shown.
const LETTERS_EACH: usize = 2;
/// Letters that are shown.
const LETTERS_SHOWN: usize = 5;

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

    let figures = Figures {
        expected: recipients.iter().map(|recipient| recipient.sent.len()).sum(),
        distinct_texts: lines.len(),
        whole_board_bytes: whole_board(&board)?,
        sizes,
        posting_seconds,
        detecting_seconds,
        start,
    };
    if !session.json {
        print_table(&recipients, &outcomes)?;
        print_letters(&recipients, &outcomes)?;
    }
    figures.print(session, arguments, &recipients, &outcomes)
}

/// The demonstration's measurements.
struct Figures {
    expected: usize,
    distinct_texts: usize,
    whole_board_bytes: u64,
    sizes: Sizes,
    posting_seconds: f64,
    detecting_seconds: f64,
    start: Instant,
}

impl Figures {
    /// Prints them, and fails if a message is missing or went astray.
    fn print(
        &self,
        session: &Session,
        arguments: &DemoArguments,
        recipients: &[Recipient],
        outcomes: &[Outcome],
    ) -> Result<(), CliError> {
        let sum = |value: fn(&Outcome) -> usize| outcomes.iter().map(value).sum::<usize>();
        let (delivered, misdelivered) = (sum(|o| o.delivered), sum(|o| o.misdelivered));
        let people = outcomes.len().max(1);
        let decoding: f64 = outcomes.iter().map(|outcome| outcome.decode_seconds).sum();
        let pairs = arguments.messages as f64 * f64::from(arguments.recipients);
        let mut report = Report::new()
            .with("messages", arguments.messages)
            .with("recipients", arguments.recipients)
            .with("expected", self.expected)
            .with("delivered", delivered)
            .with("misdelivered", misdelivered)
            .with("false_positives", sum(|o| o.false_positives))
            .with("distinct_texts", self.distinct_texts)
            .with("clue_bytes", arguments.clue.clue.clue_bytes())
            .with("detection_key_bytes", self.sizes.detection_key)
            .with("digest_bytes", self.sizes.digest)
            .with("downloaded_bytes_per_recipient", sum(|o| o.downloaded_bytes) / people)
            .with("whole_board_bytes", self.whole_board_bytes)
            .with("posting_seconds", self.posting_seconds)
            .with("detecting_seconds", self.detecting_seconds)
            .with("us_per_message_recipient", 1e6 * self.detecting_seconds / pairs)
            .with("decode_seconds", decoding / people as f64)
            .with("threads", session.runner.threads())
            .with("backend", session.backend.to_string())
            .with("peak_rss_bytes", peak_rss_bytes())
            .with("seconds", self.start.elapsed().as_secs_f64());
        if session.json {
            report = report.with("letters", letters_json(recipients, outcomes));
        }
        let printed = report.print(session.json);
        if !session.json && printed.is_ok() {
            print_line(&format!(
                "\nEach recipient downloaded {} (the digest and the messages it points at); \
                 to read the whole board, as without detection, each would have downloaded {}.",
                units::bytes((sum(|o| o.downloaded_bytes) / people) as f64),
                units::bytes(self.whole_board_bytes as f64)
            ))?;
        }
        if delivered != self.expected || misdelivered != 0 {
            return Err(CliError::Job(format!(
                "{delivered} of {} messages were delivered, {misdelivered} misdelivered: expected all and none",
                self.expected
            )));
        }
        printed
    }
}

/// The whole board: all clues and payloads.
fn whole_board(board: &Board) -> Result<u64, CliError> {
    (0..board.len()).try_fold(0, |sum, index| {
        let message = board.message(index)?;
        Ok(sum + (message.clue.len() + message.payload.len()) as u64)
    })
}

fn print_table(recipients: &[Recipient], outcomes: &[Outcome]) -> Result<(), CliError> {
    print_line(&format!("{:<46} {:>8} {:>9} {:>15}", "recipient", "sent", "received", "false positives"))?;
    for (recipient, outcome) in recipients.iter().zip(outcomes) {
        print_line(&format!(
            "{:<46} {:>8} {:>9} {:>15}",
            recipient.account.address().fingerprint(),
            count(recipient.sent.len() as u64),
            count(outcome.delivered as u64),
            count(outcome.false_positives as u64)
        ))?;
    }
    print_line("")
}

/// A few of the delivered letters: recipients by turns.
fn a_few<'a>(
    recipients: &'a [Recipient],
    outcomes: &'a [Outcome],
) -> impl Iterator<Item = (String, u64, &'a [u8])> {
    let of_turn = move |turn: usize| {
        recipients.iter().zip(outcomes).filter_map(move |(recipient, outcome)| {
            let (index, text) = outcome.letters.get(turn)?;
            Some((recipient.account.address().fingerprint().to_string(), *index, &text[..]))
        })
    };
    (0..LETTERS_EACH).flat_map(of_turn).take(LETTERS_SHOWN)
}

fn print_letters(recipients: &[Recipient], outcomes: &[Outcome]) -> Result<(), CliError> {
    print_line("some of the letters that were delivered")?;
    for (name, index, text) in a_few(recipients, outcomes) {
        let name: String = name.chars().take(9).collect();
        print_line(&format!("{name:<9} {index:>8}  {}", shortened(text, 80)))?;
    }
    print_line("")
}

fn letters_json(recipients: &[Recipient], outcomes: &[Outcome]) -> Value {
    let letters = a_few(recipients, outcomes);
    let letters = letters.map(|(recipient, index, text)| {
        json!({ "recipient": recipient, "index": index, "text": String::from_utf8_lossy(text) })
    });
    letters.collect::<Vec<_>>().into()
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
        let mut outcome = Outcome {
            decode_seconds: start.elapsed().as_secs_f64(),
            downloaded_bytes: digest.len(),
            ..Outcome::default()
        };
        for index in indices {
            let message = board.message(index)?;
            outcome.downloaded_bytes += message.clue.len() + message.payload.len();
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
                Some(&line) if lines[line].as_bytes() == text => {
                    self.delivered += 1;
                    if self.letters.len() < LETTERS_EACH {
                        self.letters.push((index, text));
                    }
                }
                _ => self.misdelivered += 1,
            },
            Err(_) => self.false_positives += 1,
        }
    }
}
