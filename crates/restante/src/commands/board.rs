//! `restante board`.

use std::{
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use rand_core::Rng;
use restante_board::{Board, BoardConfig, BoardId, BoardWriter, Period};
use restante_client::{MAX_TEXT_BYTES, Message, MessageWriter, Sender};
use restante_clue::{BoundClue, ClueParameters};
use restante_wire::Kind;

use super::keys::load_address;
use crate::{
    arguments::BoardCommand,
    corpus,
    error::CliError,
    files::Output,
    http::now,
    report::{Report, note},
    session::Session,
};

/// Messages that are written before they are made durable together.
const BATCH: usize = 4096;
/// Bytes of text after which a batch of imported lines ends in any case.
const BATCH_BYTES: usize = 8 << 20;

pub fn run(session: &Session, command: BoardCommand) -> Result<(), CliError> {
    match command {
        BoardCommand::Init { board, clue } => init(session, &board, clue.clue),
        BoardCommand::Post { board, to, text } => post(session, &board, &to, text),
        BoardCommand::Import { board, corpus, to } => import(session, &board, &corpus, &to),
        BoardCommand::Export { board, range, out } => export(session, &board, range.range, &out),
        BoardCommand::Stats { board, verify } => stats(session, &board, verify),
    }
}

/// Makes an empty board for a kind of clues, with an id of its own.
pub fn create(session: &Session, path: &Path, clue: ClueParameters) -> Result<Board, CliError> {
    let mut id = BoardId([0; 16]);
    session.rng()?.fill_bytes(&mut id.0);
    Ok(Board::create(path, &BoardConfig::new(id, clue.id(), clue.clue_bytes() as u32))?)
}

/// The clues of a range of a board with what they are bound to: what detectors take.
pub fn bound_clues(board: &Board, range: Range<u64>) -> Result<Vec<BoundClue<'_>>, CliError> {
    let clues = board.clues(range)?;
    Ok(clues.iter_bound().map(|(bytes, binding)| BoundClue { bytes, binding }).collect())
}

/// The kind of clues that a board is for.
pub fn clue_parameters(board: &Board) -> Result<ClueParameters, CliError> {
    let id = board.config().parameters;
    ClueParameters::by_id(id).ok_or_else(|| {
        let known: Vec<_> =
            ClueParameters::ALL.iter().map(|clue| format!("{} ({})", clue.id(), clue.name())).collect();
        let reason = format!("a board for parameters {id}, expected one of {}", known.join(", "));
        CliError::input(board.path())(&reason)
    })
}

/// A range of a board: all of it unless the caller says otherwise.
pub fn checked_range(board: &Board, range: Option<Range<u64>>) -> Result<Range<u64>, CliError> {
    let range = range.unwrap_or(0..board.len());
    if range.end > board.len() {
        let reason =
            format!("range {}..{}, but the board has {} messages", range.start, range.end, board.len());
        return Err(CliError::input(board.path())(&reason));
    }
    Ok(range)
}

fn init(session: &Session, path: &Path, clue: ClueParameters) -> Result<(), CliError> {
    let id = create(session, path, clue)?.config().id.to_string();
    Report::new()
        .with("board", path.display().to_string())
        .with("id", id)
        .with("clue", clue.name())
        .print(session.json)
}

fn post(session: &Session, path: &Path, to: &Path, text: Option<String>) -> Result<(), CliError> {
    let text = match text {
        Some(text) => text.into_bytes(),
        None => {
            let mut text = Vec::new();
            let limit = MAX_TEXT_BYTES as u64 + 1;
            let read = std::io::stdin().lock().take(limit).read_to_end(&mut text);
            read.map_err(CliError::system("read", Path::new("standard input")))?;
            text
        }
    };
    let mut writer = BoardWriter::open(path)?;
    let sender = sender_for(&writer, to)?;
    let (board, today) = (writer.config().id, Period::of(now()));
    let message = sender.write_message(&board, today, &text, &mut session.rng()?)?;
    let index = writer.append(&message.clue, &message.payload)?;
    writer.commit()?;
    Report::new().with("index", index).print(session.json)
}

fn import(session: &Session, path: &Path, corpus: &Path, to: &[PathBuf]) -> Result<(), CliError> {
    // A file is read twice: nothing is posted of one with a line that cannot be. A pipe can be read once only.
    let is_file = corpus.is_file();
    let mut expected = 0;
    if is_file {
        for text in corpus::messages(corpus)? {
            text?;
            expected += 1;
        }
        if expected == 0 {
            return Err(corpus::nothing(corpus));
        }
    }
    let mut writer = BoardWriter::open(path)?;
    let senders = to.iter().map(|to| sender_for(&writer, to)).collect::<Result<Vec<_>, _>>()?;
    let first = writer.len();
    let mut senders = senders.iter().cycle();
    let bar = session.progress("posting", expected);
    let mut texts = corpus::messages(corpus)?;
    loop {
        let (mut batch, mut bytes, mut failure) = (Vec::new(), 0, None);
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            match texts.next() {
                Some(Ok(text)) => {
                    bytes += text.len();
                    batch.push(text);
                }
                Some(Err(error)) => {
                    failure = Some(error);
                    break;
                }
                None => break,
            }
        }
        let jobs: Vec<_> =
            batch.iter().zip(&mut senders).map(|(text, sender)| (sender, text.as_bytes())).collect();
        write_messages(session, &mut writer, &jobs, |count| bar.inc(count))?;
        if let Some(error) = failure {
            note!("restante: the {} messages before that line are posted", writer.len() - first);
            return Err(error);
        }
        if batch.is_empty() {
            break;
        }
    }
    bar.finish_and_clear();
    match writer.len() - first {
        0 => Err(corpus::nothing(corpus)),
        messages => Report::new().with("first", first).with("messages", messages).print(session.json),
    }
}

/// Makes messages on every thread and appends them in order. Each batch is durable before the next one is made.
pub fn write_messages(
    session: &Session,
    writer: &mut BoardWriter,
    jobs: &[(&Sender, &[u8])],
    posted: impl Fn(u64),
) -> Result<(), CliError> {
    use rayon::prelude::*;

    let board = writer.config().id;
    for batch in jobs.chunks(BATCH) {
        let today = Period::of(now());
        let messages: Result<Vec<Message>, CliError> = session.runner.install(|| {
            batch
                .par_chunks(64)
                .map(|chunk| {
                    let mut rng = session.rng()?;
                    let messages = chunk
                        .iter()
                        .map(|(sender, text)| sender.write_message(&board, today, text, &mut rng));
                    messages.collect::<Result<Vec<_>, _>>().map_err(CliError::from)
                })
                .try_reduce(Vec::new, |mut all, more| {
                    all.extend(more);
                    Ok(all)
                })
        });
        for message in messages? {
            writer.append(&message.clue, &message.payload)?;
        }
        writer.commit()?;
        posted(batch.len() as u64);
    }
    Ok(())
}

fn sender_for(writer: &BoardWriter, to: &Path) -> Result<Sender, CliError> {
    let address = load_address(to)?;
    let (found, expected) = (address.parameters().id(), writer.config().parameters);
    if found != expected {
        let name = ClueParameters::by_id(expected).map_or("unknown", |clue| clue.name());
        let reason =
            format!("an address for {} clues, but the board is for {name} ones", address.parameters().name());
        return Err(CliError::input(to)(&reason));
    }
    Ok(address.prepare())
}

fn export(session: &Session, path: &Path, range: Option<Range<u64>>, out: &Output) -> Result<(), CliError> {
    let board = Board::open(path)?;
    let clue = clue_parameters(&board)?;
    let range = checked_range(&board, range)?;
    let mut payload_bytes = 0;
    for index in range.clone() {
        payload_bytes += board.payload(index)?.len() as u64;
    }
    let count = range.end - range.start;
    let bar = session.progress("copying", count);
    session.outputs.write_with(out, Some(Kind::Messages), |file| {
        let mut writer =
            MessageWriter::new(file, &clue, board.config().id, range.start, count, payload_bytes)
                .map_err(CliError::system("write", out))?;
        for index in range.clone() {
            let message = board.message(index)?;
            writer.push(message.clue, message.payload).map_err(CliError::system("write", out))?;
            bar.inc(1);
        }
        writer.finish().map(drop).map_err(CliError::system("write", out))
    })?;
    bar.finish_and_clear();
    Report::new()
        .with("first", range.start)
        .with("messages", range.end - range.start)
        .with("out", out.display().to_string())
        .print(session.json)
}

fn stats(session: &Session, path: &Path, verify: bool) -> Result<(), CliError> {
    let board = Board::open(path)?;
    let stats = board.stats();
    let mut report = Report::new()
        .with("messages", stats.messages)
        .with("segments", stats.segments)
        .with("sealed_segments", stats.sealed_segments)
        .with("bytes", stats.bytes)
        .with("clue_bytes", stats.clue_bytes)
        .with("payload_bytes", stats.payload_bytes)
        .with("id", board.config().id.to_string())
        .with("clue", clue_parameters(&board)?.name())
        .with("root", stats.head.root.to_string());
    if verify {
        board.verify().map_err(|error| match CliError::from(error) {
            CliError::Refused(reason) => CliError::Job(reason),
            other => other,
        })?;
        report = report.with("verified", true);
    }
    report.print(session.json)
}
