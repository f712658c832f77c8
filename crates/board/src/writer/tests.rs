//! The writer when the operating system refuses, with a file of the writer exchanged for one that fails.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;

use restante_wire::ParameterId;
use restante_wire::binding::BoardId;

use super::*;

/// A clue of day 20,000.
fn clue(number: u64) -> [u8; 8] {
    (20_000 | number << 32).to_le_bytes()
}

fn scratch() -> (tempfile::TempDir, BoardWriter) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("board");
    let config = BoardConfig {
        segment_capacity: 4,
        tail_bytes: 0,
        ..BoardConfig::new(BoardId([1; 16]), ParameterId::of("test"), 8)
    };
    Board::create(&path, &config).unwrap();
    let mut writer = BoardWriter::open(&path).unwrap();
    for number in 0..6u64 {
        writer.append(&clue(number), b"committed").unwrap();
    }
    writer.commit().unwrap();
    (directory, writer)
}

fn full_device() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

fn is_full(error: &BoardError, name: &str) -> bool {
    matches!(error, BoardError::Io { action: "write", path, reason }
        if reason.kind() == ErrorKind::StorageFull && path.ends_with(name))
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_board_as_before_and_the_writer_usable() {
    for part in [Part::Clues, Part::Payloads, Part::Index] {
        let (directory, mut writer) = scratch();
        let path = directory.path().join("board");
        let before = writer.head();
        writer.append(&clue(101), b"lost").unwrap();
        let tail = writer.tail.as_mut().unwrap();
        let (file, name) = match part {
            Part::Clues => (&mut tail.clues.file, "0000000001.clues"),
            Part::Payloads => (&mut tail.payloads.file, "0000000001.payloads"),
            _ => (&mut tail.index.file, "0000000001.index"),
        };
        *file = full_device();
        let error = writer.commit().unwrap_err();
        assert!(is_full(&error, name), "{error}");
        assert_eq!((writer.head(), writer.staged()), (before, 0));
        assert_eq!(Board::open(&path).unwrap().head(), before);

        assert_eq!(writer.append(&clue(102), b"kept").unwrap(), 6);
        assert_eq!(writer.commit().unwrap(), 7);
        let board = Board::open(&path).unwrap();
        board.verify().unwrap();
        assert_eq!(board.payload(6).unwrap(), b"kept");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_while_a_segment_fills_drops_the_whole_batch() {
    let (_directory, mut writer) = scratch();
    let before = writer.head();
    writer.append(&clue(101), b"lost").unwrap();
    writer.tail.as_mut().unwrap().payloads.file = full_device();
    let error = writer.append(&clue(103), b"fills the segment").unwrap_err();
    assert!(is_full(&error, "0000000001.payloads"), "{error}");
    assert_eq!((writer.head(), writer.staged()), (before, 0));
    assert_eq!(writer.append(&clue(102), b"kept").unwrap(), 6);
}

#[test]
fn a_failed_publication_stops_the_writer_and_keeps_the_board() {
    let (directory, mut writer) = scratch();
    let path = directory.path().join("board");
    let before = writer.head();
    writer.append(&clue(101), b"unknown").unwrap();
    // Not open for writing.
    writer.head_file = File::open(path.join("head")).unwrap();
    assert!(matches!(writer.commit(), Err(BoardError::Io { .. })));
    assert!(matches!(writer.commit(), Err(BoardError::Stopped { .. })));
    assert!(matches!(writer.append(&clue(101), b""), Err(BoardError::Stopped { .. })));
    assert!(matches!(writer.rollback(), Err(BoardError::Stopped { .. })));
    drop(writer);
    let mut writer = BoardWriter::open(&path).unwrap();
    assert_eq!(writer.head(), before);
    assert_eq!(writer.append(&clue(102), b"kept").unwrap(), 6);
    assert_eq!(writer.commit().unwrap(), 7);
    Board::open(&path).unwrap().verify().unwrap();
}

#[test]
fn a_seal_that_cannot_be_written_is_written_later() {
    let (directory, mut writer) = scratch();
    let path = directory.path().join("board");
    // A directory where the draft of the seal would be.
    let obstacle = path.join("segments/0000000001.seal.tmp");
    fs::create_dir(&obstacle).unwrap();
    for number in 6..8u64 {
        writer.append(&clue(number), b"committed").unwrap();
    }
    assert_eq!(writer.commit().unwrap(), 8);
    let board = Board::open(&path).unwrap();
    board.verify().unwrap();
    assert_eq!((board.stats().segments, board.stats().sealed_segments), (2, 1));

    fs::remove_dir(&obstacle).unwrap();
    writer.commit().unwrap();
    // The snapshot from before goes on as it is.
    board.verify().unwrap();
    assert_eq!(Board::open(&path).unwrap().stats().sealed_segments, 2);

    fs::remove_file(path.join("segments/0000000000.seal")).unwrap();
    drop(writer);
    BoardWriter::open(&path).unwrap();
    let board = Board::open(&path).unwrap();
    board.verify().unwrap();
    assert_eq!(board.stats().sealed_segments, 2);
}

#[test]
fn a_board_that_breaks_the_rule_does_not_verify() {
    let (directory, mut writer) = scratch();
    let path = directory.path().join("board");
    // A writer that forgets what it has taken.
    writer.rule = Rule::default();
    writer.append(&clue(2), b"again").unwrap();
    writer.commit().unwrap();
    let error = Board::open(&path).unwrap().verify().unwrap_err();
    assert!(matches!(error, BoardError::Duplicate { first: 2 }), "{error}");
    let mut later = clue(7);
    later[..4].copy_from_slice(&20_003u32.to_le_bytes());
    let (directory, mut writer) = scratch();
    writer.append(&later, b"").unwrap();
    writer.rule = Rule::default();
    writer.append(&clue(8), b"closed").unwrap();
    writer.commit().unwrap();
    let error = Board::open(directory.path().join("board")).unwrap().verify().unwrap_err();
    assert!(matches!(error, BoardError::ClosedPeriod { found: 20_000, least: 20_001 }), "{error}");
}
