//! `restante board`.

use std::{
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use rand_core::Rng;
use restante_board::{Board, BoardConfig, BoardId, BoardWriter, Period};
use restante_client::{MAX_TEXT_BYTES, Message, MessageRange, Sender};
use restante_clue::{BoundClue, ClueParameters};

use super::keys::load_address;
use crate::{
    arguments::BoardCommand,
    corpus,
    error::CliError,
    files::{self, Existing},
    http::now,
    report::Report,
    session::Session,
};

/// Messages that are written before they are made durable together.
const BATCH: usize = 4096;

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
        .print(session)
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
    Report::new().with("index", index).print(session)
}

fn import(session: &Session, path: &Path, corpus: &Path, to: &[PathBuf]) -> Result<(), CliError> {
    let lines = corpus::load(Some(corpus))?;
    let mut writer = BoardWriter::open(path)?;
    let senders = to.iter().map(|to| sender_for(&writer, to)).collect::<Result<Vec<_>, _>>()?;
    let first = writer.len();
    let jobs: Vec<_> =
        lines.iter().zip(senders.iter().cycle()).map(|(line, sender)| (sender, line.as_bytes())).collect();
    let bar = session.progress("posting", jobs.len() as u64);
    write_messages(session, &mut writer, &jobs, |count| bar.inc(count))?;
    bar.finish_and_clear();
    Report::new().with("first", first).with("messages", jobs.len()).print(session)
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
                    let messages =
                        chunk.iter().map(|(sender, text)| sender.write_message(&board, today, text, &mut rng));
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

fn export(session: &Session, path: &Path, range: Option<Range<u64>>, out: &Path) -> Result<(), CliError> {
    let board = Board::open(path)?;
    let clue = clue_parameters(&board)?;
    let range = checked_range(&board, range)?;
    let messages = range.clone().map(|index| {
        let message = board.message(index)?;
        Ok(Message { clue: message.clue.to_vec(), payload: message.payload.to_vec() })
    });
    let messages = MessageRange::new(&clue, board.config().id, range.start, messages.collect::<Result<_, CliError>>()?)?;
    files::write(out, &messages.to_file(&clue), Existing::Replace)?;
    Report::new()
        .with("first", range.start)
        .with("messages", range.end - range.start)
        .with("out", out.display().to_string())
        .print(session)
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
    report.print(session)
}
