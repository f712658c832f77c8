//! A writer is killed in the middle of its work, again and again. Every message that it acknowledged is there and intact.

#![allow(clippy::unwrap_used)]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use restante_board::{Board, BoardError, BoardWriter};

#[path = "reference/board.rs"]
mod reference;

use reference::{assert_holds, config, message, messages};

/// Tells the child where its board is.
const BOARD: &str = "RESTANTE_TEST_BOARD";
const ROUNDS: u64 = 20;
const CAPACITY: u32 = 64;

/// The child: appends and acknowledges until it is killed. Not a test of its own.
#[test]
#[ignore = "run by every_acknowledged_message_survives_a_kill as its child process"]
fn writer_process() {
    let Some(path) = env::var_os(BOARD) else { return };
    let mut writer = BoardWriter::open(path).unwrap();
    let mut acknowledgements = std::io::stdout();
    for batch in 1.. {
        // From one message to several segments at once.
        for index in writer.len()..writer.len() + batch * 7 % 150 + 1 {
            let (clue, payload) = message(index);
            assert_eq!(writer.append(&clue, &payload).unwrap(), index);
        }
        writeln!(acknowledgements, "acknowledged {}", writer.commit().unwrap()).unwrap();
        acknowledgements.flush().unwrap();
    }
}

/// Starts the child, kills it some time after its first acknowledgement, and returns the last one.
fn run_and_kill(path: &Path, delay: Duration) -> u64 {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "writer_process", "--ignored", "--nocapture"])
        .env(BOARD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = lines
        .map(Result::unwrap)
        .filter_map(|line| line.split_once("acknowledged ").and_then(|(_, count)| count.parse().ok()));
    let first: u64 = acknowledged.next().expect("the child acknowledges something");
    let reader = thread::scope(|scope| {
        // Reads on while the child works, so that a full pipe does not stop it between commits.
        let rest = scope.spawn(|| acknowledged.last());
        assert!(matches!(BoardWriter::open(path), Err(BoardError::Locked { .. })));
        thread::sleep(delay);
        child.kill().unwrap();
        rest.join().unwrap()
    });
    let status = child.wait().unwrap();
    assert!(!status.success(), "the child was killed, it did not end");
    reader.unwrap_or(first)
}

#[test]
fn every_acknowledged_message_survives_a_kill() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("board");
    let mut snapshot = Board::create(&path, &config(CAPACITY)).unwrap();
    for round in 0..ROUNDS {
        let acknowledged = run_and_kill(&path, Duration::from_micros(round * 7_919 % 40_000));
        // Readers first: they must do without the repair. The killed writer's last commit may have become complete
        // before it could say so.
        let committed = snapshot.refresh().unwrap();
        assert!(committed >= acknowledged, "round {round}: {committed} of {acknowledged} messages");
        snapshot.verify().unwrap();
        let writer = BoardWriter::open(&path).unwrap();
        assert_eq!(writer.len(), committed);
        drop(writer);
        let board = Board::open(&path).unwrap();
        board.verify().unwrap();
        assert_holds(&board, &messages(committed));
        assert_eq!(board.stats().sealed_segments, committed / u64::from(CAPACITY));
    }
    assert!(snapshot.len() >= ROUNDS);
}
