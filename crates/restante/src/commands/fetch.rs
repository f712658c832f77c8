//! `restante fetch`: private fetch from two servers, on files.

mod demo;

use std::{fs, path::Path, time::Instant};

use restante_board::Board;
use restante_pir::{
    PirError,
    fetch::{self, Answer, Catalog, Content, Epoch, EpochBuilder, Fetched, Part, Query, State},
};

use crate::{
    arguments::{
        FetchAnswerArguments, FetchBuildArguments, FetchCommand, FetchOpenArguments, FetchQueryArguments,
    },
    error::CliError,
    files::{self, Output},
    report::{Report, print_line},
    session::Session,
};

pub fn run(session: &Session, command: FetchCommand) -> Result<(), CliError> {
    match command {
        FetchCommand::Build(arguments) => build(session, &arguments),
        FetchCommand::Query(arguments) => query(session, &arguments),
        FetchCommand::Answer(arguments) => answer(session, &arguments),
        FetchCommand::Open(arguments) => open(session, &arguments),
        FetchCommand::Verify { epoch } => verify(session, &epoch),
        FetchCommand::Demo(arguments) => demo::run(session, &arguments),
    }
}

fn build(session: &Session, arguments: &FetchBuildArguments) -> Result<(), CliError> {
    let start = Instant::now();
    let content = if arguments.board.is_some() { Content::Padded } else { Content::Raw };
    let mut builder = match (&arguments.append_to, arguments.record_bytes) {
        (Some(path), _) => {
            let old = Epoch::open(path)?;
            if old.info().content() != content {
                let reason = "its records are of the other kind: a board's are padded, a file's are not";
                return Err(CliError::input(path)(&reason));
            }
            EpochBuilder::extend(&*arguments.out, &old)?
        }
        (None, Some(record_bytes)) => EpochBuilder::create(&*arguments.out, record_bytes, content)?,
        (None, None) => return Err(CliError::Usage("--record-bytes or --append-to is needed".into())),
    };
    let before = builder.len();
    match (&arguments.board, &arguments.file) {
        (Some(path), _) => append_board(session, &mut builder, path, arguments.part)?,
        (None, Some(path)) => builder.push_file(path)?,
        (None, None) => return Err(CliError::Usage("--board or --file is needed".into())),
    }
    let added = builder.len() - before;
    let epoch = builder.seal()?;
    describe(&epoch).with("added", added).with("seconds", start.elapsed().as_secs_f64()).print(session.json)
}

/// Adds the messages behind those that the epoch has.
fn append_board(
    session: &Session,
    builder: &mut EpochBuilder,
    path: &Path,
    part: Part,
) -> Result<(), CliError> {
    let board = Board::open(path)?;
    if builder.len() > board.len() {
        let reason = format!("{} messages, but the epoch to append to has {}", board.len(), builder.len());
        return Err(CliError::input(path)(&reason));
    }
    let bar = session.progress("copying", board.len() - builder.len());
    while builder.len() < board.len() {
        let first = builder.len();
        let end = board.len().min(first + 1024);
        builder.push_board(&board, part, first..end)?;
        bar.inc(end - first);
    }
    bar.finish_and_clear();
    Ok(())
}

fn describe(epoch: &Epoch) -> Report {
    Report::new()
        .with("epoch", epoch.path().display().to_string())
        .with("id", epoch.id().to_string())
        .with("records", epoch.info().records())
        .with("record_bytes", epoch.info().record_bytes())
        .with("root", epoch.info().root().to_string())
}

fn query(session: &Session, arguments: &FetchQueryArguments) -> Result<(), CliError> {
    let catalog = Catalog::open(&arguments.epoch_info)?;
    let id = catalog.id().to_string();
    if arguments.id.as_ref().is_some_and(|expected| *expected != id) {
        return Err(CliError::input(&arguments.epoch_info)(&format!("epoch {id}, expected the one of --id")));
    }
    let (state, [first, second]) = catalog
        .query(&arguments.index, arguments.pad_to, &mut session.rng()?)
        .map_err(|error| match error {
            PirError::Size { .. } => CliError::Usage(error.to_string()),
            other => other.into(),
        })?;
    // The state first: queries without one would be of no use.
    session.outputs.write(&arguments.state, &state.to_file())?;
    session.outputs.write(&arguments.out_a, &first.to_file())?;
    session.outputs.write(&arguments.out_b, &second.to_file())?;
    Report::new()
        .with("id", id)
        .with("fetches", arguments.pad_to)
        .with("query_bytes", catalog.info().query_bytes(arguments.pad_to)?)
        .with("answer_bytes", catalog.info().answer_bytes(arguments.pad_to)?)
        .print(session.json)
}

fn answer(session: &Session, arguments: &FetchAnswerArguments) -> Result<(), CliError> {
    if arguments.query.len() != arguments.out.len() {
        let (queries, outs) = (arguments.query.len(), arguments.out.len());
        return Err(CliError::Usage(format!(
            "{queries} --query, but {outs} --out: expected one for each query"
        )));
    }
    let epoch = Epoch::open(&arguments.epoch)?;
    let queries = arguments
        .query
        .iter()
        .map(|path| load(path, Query::from_file))
        .collect::<Result<Vec<_>, CliError>>()?;
    for (path, query) in arguments.query.iter().zip(&queries) {
        if query.epoch() != epoch.id() {
            let (what, expected, found) = ("the query", epoch.id(), query.epoch());
            return Err(CliError::input(path)(&PirError::EpochMismatch { what, expected, found }));
        }
    }
    let queries: Vec<&Query> = queries.iter().collect();
    let bar = session.progress("answering", epoch.info().records());
    let start = Instant::now();
    let answers =
        fetch::answer_with(&epoch, &queries, &session.runner, session.backend, |records| bar.inc(records))?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let mut bytes = 0;
    for (path, answer) in arguments.out.iter().zip(&answers) {
        let file = answer.to_file();
        bytes += file.len();
        session.outputs.write(path, &file)?;
    }
    Report::new()
        .with("id", epoch.id().to_string())
        .with("queries", queries.len())
        .with("fetches", queries.iter().map(|query| query.fetches()).sum::<usize>())
        .with("answer_bytes", bytes)
        .with("seconds", seconds)
        .print(session.json)
}

fn open(session: &Session, arguments: &FetchOpenArguments) -> Result<(), CliError> {
    let [first, second] = arguments.answer.as_slice() else {
        let found = arguments.answer.len();
        return Err(CliError::Usage(format!("{found} --answer, expected two: one of each server")));
    };
    let state = load(&arguments.state, State::from_file)?;
    let [first, second] = [load(first, Answer::from_file)?, load(second, Answer::from_file)?];
    let fetched = fetch::decode(&state, &first, &second)?;
    if let Some(folder) = &arguments.out {
        fs::create_dir_all(&**folder).map_err(CliError::system("create", folder))?;
        for record in &fetched {
            session.outputs.write(&folder.join(&record.index.to_string()), &record.content)?;
        }
    }
    fetched.iter().try_for_each(|record| print_record(session, record, arguments.out.as_ref()))
}

fn print_record(session: &Session, record: &Fetched, folder: Option<&Output>) -> Result<(), CliError> {
    let report = Report::new().with("index", record.index).with("bytes", record.content.len());
    let content = match folder {
        Some(folder) => folder.join(&record.index.to_string()).display().to_string(),
        None => record.content.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if !session.json {
        return print_line(&format!("{}\t{content}", record.index));
    }
    report.with(if folder.is_some() { "file" } else { "hex" }, content).print(session.json)
}

fn verify(session: &Session, path: &Path) -> Result<(), CliError> {
    let epoch = Epoch::open(path)?;
    epoch.verify().map_err(|error| match CliError::from(error) {
        CliError::Refused(reason) => CliError::Job(reason),
        other => other,
    })?;
    describe(&epoch).with("verified", true).print(session.json)
}

fn load<T>(path: &Path, read: impl FnOnce(&[u8]) -> Result<T, PirError>) -> Result<T, CliError> {
    let bytes = zeroize::Zeroizing::new(files::read(path)?);
    read(&bytes).map_err(|error| CliError::input(path)(&error))
}
