//! Any sequence of operations leaves the board with what a plain vector would hold.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;
use restante_board::{Board, BoardError, BoardWriter};

#[path = "reference/board.rs"]
mod reference;

use reference::{CLUE_BYTES, assert_holds, config, messages};

#[derive(Debug, Clone)]
enum Operation {
    Append(Vec<(Vec<u8>, Vec<u8>)>),
    AppendWrongClue(Vec<u8>),
    AppendLongPayload(usize),
    Commit,
    Rollback,
    Reopen,
    Refresh,
    ReadRange(f64, f64),
}

fn operation() -> impl Strategy<Value = Operation> {
    let clue = prop::collection::vec(any::<u8>(), CLUE_BYTES).prop_map(|mut clue| {
        // One day, and 15 more bytes that tell clues apart.
        clue[..4].fill(7);
        clue
    });
    let payload = prop::collection::vec(any::<u8>(), 0..=300);
    let wrong =
        prop::collection::vec(any::<u8>(), 0..60).prop_filter("wrong", |clue| clue.len() != CLUE_BYTES);
    prop_oneof![
        6 => prop::collection::vec((clue, payload), 0..12).prop_map(Operation::Append),
        1 => wrong.prop_map(Operation::AppendWrongClue),
        1 => (301usize..2000).prop_map(Operation::AppendLongPayload),
        4 => Just(Operation::Commit),
        1 => Just(Operation::Rollback),
        1 => Just(Operation::Reopen),
        2 => Just(Operation::Refresh),
        3 => (0.0..1.1, 0.0..1.1).prop_map(|(start, end)| Operation::ReadRange(start, end)),
    ]
}

/// Runs the operations on a board and on two vectors.
fn run(path: &Path, capacity: u32, operations: &[Operation]) {
    let mut reader = Board::create(path, &config(capacity)).unwrap();
    assert_holds(&reader, &[]);
    let mut writer = BoardWriter::open(path).unwrap();
    let (mut committed, mut staged) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for operation in operations {
        match operation {
            Operation::Append(batch) => {
                for (clue, payload) in batch {
                    let index = writer.append(clue, payload).unwrap();
                    assert_eq!(index, (committed.len() + staged.len()) as u64);
                    staged.push((clue.clone(), payload.clone()));
                }
            }
            Operation::AppendWrongClue(clue) => assert!(matches!(
                writer.append(clue, b""),
                Err(BoardError::ClueSize { found, expected: 24 }) if found == clue.len()
            )),
            Operation::AppendLongPayload(len) => assert!(matches!(
                writer.append(&[0; CLUE_BYTES], &vec![0; *len]),
                Err(BoardError::PayloadSize { found, limit: 300 }) if found == *len
            )),
            Operation::Commit => {
                committed.append(&mut staged);
                assert_eq!(writer.commit().unwrap(), committed.len() as u64);
            }
            Operation::Rollback => {
                staged.clear();
                writer.rollback().unwrap();
            }
            Operation::Reopen => {
                staged.clear();
                assert!(matches!(BoardWriter::open(path), Err(BoardError::Locked { .. })));
                drop(writer);
                writer = BoardWriter::open(path).unwrap();
            }
            Operation::Refresh => {
                seen = committed.len();
                assert_eq!(reader.refresh().unwrap(), seen as u64);
            }
            Operation::ReadRange(start, end) => read_range(&reader, *start, *end, &committed[..seen]),
        }
        assert_eq!((writer.len(), writer.staged()), (committed.len() as u64, staged.len() as u64));
        assert_holds(&reader, &committed[..seen]);
    }
    let board = Board::open(path).unwrap();
    assert_holds(&board, &committed);
    board.verify().unwrap();
    assert_eq!(writer.head(), board.head());
    let stats = board.stats();
    assert_eq!(stats.head, board.head());
    assert_eq!(stats.clue_bytes, (committed.len() * CLUE_BYTES) as u64);
    assert_eq!(stats.payload_bytes, committed.iter().map(|(_, payload)| payload.len() as u64).sum::<u64>());
    assert_eq!(stats.segments, (committed.len() as u64).div_ceil(capacity.into()));
    assert_eq!(stats.sealed_segments, committed.len() as u64 / u64::from(capacity));
}

fn read_range(board: &Board, start: f64, end: f64, expected: &[(Vec<u8>, Vec<u8>)]) {
    let count = expected.len() as f64;
    let (start, end) = ((start * count) as usize, (end * count) as usize);
    let Some(expected) = expected.get(start..end) else {
        let error = board.clues(start as u64..end as u64).unwrap_err().to_string();
        assert_eq!(error, format!("no messages {start}..{end}: the board has {} messages", board.len()));
        return;
    };
    let clues = board.clues(start as u64..end as u64).unwrap();
    let expected: Vec<&[u8]> = expected.iter().map(|(clue, _)| &clue[..]).collect();
    assert_eq!((clues.len(), clues.is_empty()), (expected.len(), expected.is_empty()));
    assert_eq!(clues.iter().collect::<Vec<_>>(), expected);
    assert!(clues.iter().rev().eq(expected.iter().rev().copied()));
    assert_eq!(clues.get(expected.len()), None);
    assert_eq!(clues.get(usize::MAX), None);
    let mut next = start as u64;
    let mut joined = Vec::new();
    for (first, run) in clues.runs() {
        assert_eq!(first, next);
        assert!(!run.is_empty() && run.len().is_multiple_of(CLUE_BYTES));
        next += (run.len() / CLUE_BYTES) as u64;
        joined.extend_from_slice(run);
    }
    assert_eq!(joined, expected.concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_board_is_a_vector(level in 0u32..6, operations in prop::collection::vec(operation(), 0..30)) {
        let scratch = tempfile::tempdir().unwrap();
        run(&scratch.path().join("board"), 1 << level, &operations);
    }
}

#[test]
fn the_root_depends_on_neither_segments_nor_commits() {
    let expected = messages(100);
    for (capacity, batch) in [(1, 100), (2, 1), (16, 7), (64, 64), (128, 3)] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("board");
        Board::create(&path, &config(capacity)).unwrap();
        let mut writer = BoardWriter::open(&path).unwrap();
        for batch in expected.chunks(batch) {
            for (clue, payload) in batch {
                writer.append(clue, payload).unwrap();
            }
            writer.commit().unwrap();
        }
        assert_holds(&Board::open(&path).unwrap(), &expected);
    }
}

#[test]
fn a_range_beyond_the_board_is_an_error_that_names_the_count() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("board");
    let board = Board::create(&path, &config(4)).unwrap();
    assert!(board.is_empty() && board.clues(0..0).unwrap().is_empty());
    assert_eq!(board.payload(0).unwrap_err().to_string(), "no messages 0..1: the board has 0 messages");
    board.verify().unwrap();
    let reversed = std::ops::Range { start: 1, end: 0 };
    for range in [0..1, 1..1, reversed, 0..u64::MAX, u64::MAX..u64::MAX] {
        assert!(matches!(board.clues(range), Err(BoardError::OutOfRange { messages: 0, .. })));
    }
    assert!(matches!(board.message(u64::MAX), Err(BoardError::OutOfRange { messages: 0, .. })));
}

#[test]
fn clues_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>(_: &T) {}
    let scratch = tempfile::tempdir().unwrap();
    let board = Board::create(scratch.path().join("board"), &config(4)).unwrap();
    shareable(&board);
    shareable(&board.clues(0..0).unwrap());
}
