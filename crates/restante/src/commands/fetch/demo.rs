//! `restante fetch demo`: two servers, three clients, real messages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use rand_core::Rng;
use restante_board::{Board, BoardWriter};
use restante_client::Account;
use restante_clue::ClueParameters;
use restante_pir::fetch::{Answer, Catalog, Content, Epoch, EpochBuilder, Fetched, Part, State, decode};

use crate::{
    arguments::FetchDemoArguments,
    commands::board,
    corpus,
    error::CliError,
    files::{self, Existing},
    report::Report,
    session::Session,
};

pub fn run(session: &Session, arguments: &FetchDemoArguments) -> Result<(), CliError> {
    let start = Instant::now();
    let lines = corpus::load(arguments.corpus.as_deref())?;
    let scratch =
        tempfile::tempdir().map_err(CliError::system("make a directory in", &std::env::temp_dir()))?;
    let clue = ClueParameters::STANDARD;
    let account = Account::random(clue, &mut session.rng()?);
    let board = fill_board(session, &scratch.path().join("board"), arguments.records, &lines, &account)?;

    // What everybody downloads; each server has a copy of its own.
    let published = scratch.path().join("epoch");
    let (epoch, record_bytes) = publish(&board, clue, &published)?;
    let servers = ["a", "b"].map(|name| scratch.path().join(name));
    servers.iter().try_for_each(|server| copy_epoch(&published, &server.join("epoch")))?;

    // Clients that want nothing, one message, and as many as a batch holds.
    let catalog = Catalog::open(&published)?;
    let fetches = usize::from(arguments.fetches);
    let mut clients = Vec::new();
    for (client, real) in [0, 1, fetches].into_iter().enumerate() {
        clients.push(ask(session, &catalog, &servers, client, (real, fetches))?);
    }

    let answering = Instant::now();
    let processes = servers.each_ref().map(|server| start_server(session, server, clients.len()));
    let processes = processes.into_iter().collect::<Result<Vec<_>, _>>()?;
    processes.into_iter().try_for_each(finish)?;
    let answering_seconds = answering.elapsed().as_secs_f64();

    let (mut expected, mut right) = (0, 0);
    for (client, (indices, state)) in clients.iter().enumerate() {
        let fetched = combine(&servers, client, state)?;
        expected += indices.len();
        let is_right = |index: u64, record: &Fetched| {
            let Some((clue, payload)) = record.content.split_at_checked(clue.clue_bytes()) else {
                return false;
            };
            let text = account.open(&board.config().id, clue, payload);
            record.index == index
                && text.is_ok_and(|text| text == lines[index as usize % lines.len()].as_bytes())
        };
        right += indices.iter().zip(&fetched).filter(|(index, record)| is_right(**index, record)).count();
    }
    let printed = Report::new()
        .with("records", board.len())
        .with("record_bytes", record_bytes)
        .with("epoch_bytes", epoch.bytes().len())
        .with("id", epoch.id().to_string())
        .with("servers", servers.len())
        .with("clients", clients.len())
        .with("fetches_per_client", fetches)
        .with("expected", expected)
        .with("right", right)
        .with("query_bytes", catalog.info().query_bytes(fetches)?)
        .with("answer_bytes", catalog.info().answer_bytes(fetches)?)
        .with("answering_seconds", answering_seconds)
        .with("seconds", start.elapsed().as_secs_f64())
        .print(session.json);
    if right == expected {
        printed
    } else {
        Err(CliError::Job(format!("{right} of {expected} records are right: expected all")))
    }
}

fn fill_board(
    session: &Session,
    path: &Path,
    messages: u64,
    lines: &[String],
    account: &Account,
) -> Result<Board, CliError> {
    board::create(session, path, *account.parameters())?;
    let sender = account.address().prepare();
    let jobs: Vec<_> =
        (0..messages).map(|index| (&sender, lines[index as usize % lines.len()].as_bytes())).collect();
    let mut writer = BoardWriter::open(path)?;
    let bar = session.progress("posting", messages);
    board::write_messages(session, &mut writer, &jobs, |count| bar.inc(count))?;
    bar.finish_and_clear();
    drop(writer);
    Ok(Board::open(path)?)
}

/// Makes an epoch of a board's messages, and gives it with the bytes of its records.
fn publish(board: &Board, clue: ClueParameters, path: &Path) -> Result<(Epoch, usize), CliError> {
    let longest = (0..board.len())
        .try_fold(0, |longest, index| Ok::<_, CliError>(longest.max(board.message(index)?.payload.len())))?;
    let record_bytes = (4 + clue.clue_bytes() + longest).next_multiple_of(64);
    let mut builder = EpochBuilder::create(path, record_bytes, Content::Padded)?;
    builder.push_board(board, Part::Message, 0..board.len())?;
    Ok((builder.seal()?, record_bytes))
}

/// Writes a client's queries, of which some fetches are real, to both servers' directories; gives the indices and the state.
fn ask(
    session: &Session,
    catalog: &Catalog,
    servers: &[PathBuf; 2],
    client: usize,
    (real, fetches): (usize, usize),
) -> Result<(Vec<u64>, State), CliError> {
    let mut rng = session.rng()?;
    let indices: Vec<u64> = (0..real).map(|_| rng.next_u64() % catalog.info().records()).collect();
    let (state, queries) = catalog.query(&indices, fetches, &mut rng)?;
    for (server, query) in servers.iter().zip(&queries) {
        files::write(&server.join(format!("{client}.query")), &query.to_file(), Existing::Replace)?;
    }
    Ok((indices, state))
}

/// Reads a client's answers from both servers' directories, and opens them.
fn combine(servers: &[PathBuf; 2], client: usize, state: &State) -> Result<Vec<Fetched>, CliError> {
    let [first, second] = servers.each_ref().map(|server| {
        let path = server.join(format!("{client}.answer"));
        let file = files::read(&path)?;
        Answer::from_file(&file).map_err(|error| CliError::input(&path)(&error))
    });
    Ok(decode(state, &first?, &second?)?)
}

/// Copies what a server needs, and checks that it arrived.
fn copy_epoch(from: &Path, to: &Path) -> Result<(), CliError> {
    fs::create_dir_all(to).map_err(CliError::system("create", to))?;
    for name in ["epoch", "records"] {
        let from = from.join(name);
        fs::copy(&from, to.join(name)).map_err(CliError::system("copy", &from))?;
    }
    Epoch::open(to)?;
    Ok(())
}

/// Starts this program as a server that answers all queries in its directory in one pass.
fn start_server(session: &Session, directory: &Path, clients: usize) -> Result<(PathBuf, Child), CliError> {
    let program = std::env::current_exe().map_err(CliError::system("find", Path::new("this program")))?;
    let mut command = Command::new(&program);
    command.current_dir(directory).args(["fetch", "answer", "--epoch", "epoch", "--quiet", "--threads"]);
    command.arg(session.runner.threads().to_string());
    for client in 0..clients {
        command.args(["--query", &format!("{client}.query"), "--out", &format!("{client}.answer")]);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    Ok((directory.into(), child.map_err(CliError::system("start", &program))?))
}

fn finish((directory, mut child): (PathBuf, Child)) -> Result<(), CliError> {
    let status = child.wait().map_err(CliError::system("wait for the server in", &directory))?;
    if status.success() {
        Ok(())
    } else {
        Err(CliError::Job(format!("the server in {} failed: {status}", directory.display())))
    }
}
