//! What happens when the operating system refuses, with a file of the writer exchanged for one that fails.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;

use restante_wire::ParameterId;

use super::*;

fn scratch() -> (tempfile::TempDir, BoardWriter) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("board");
    let config = BoardConfig { segment_capacity: 4, ..BoardConfig::new(ParameterId::of("test"), 8) };
    Board::create(&path, &config).unwrap();
    let mut writer = BoardWriter::open(&path).unwrap();
    for number in 0..6u64 {
        writer.append(&number.to_le_bytes(), b"committed").unwrap();
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
        writer.append(&[1; 8], b"lost").unwrap();
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

        assert_eq!(writer.append(&[2; 8], b"kept").unwrap(), 6);
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
    writer.append(&[1; 8], b"lost").unwrap();
    writer.tail.as_mut().unwrap().payloads.file = full_device();
    let error = writer.append(&[1; 8], b"fills the segment").unwrap_err();
    assert!(is_full(&error, "0000000001.payloads"), "{error}");
    assert_eq!((writer.head(), writer.staged()), (before, 0));
    assert_eq!(writer.append(&[2; 8], b"kept").unwrap(), 6);
}

#[test]
fn a_failed_publication_stops_the_writer_and_keeps_the_board() {
    let (directory, mut writer) = scratch();
    let path = directory.path().join("board");
    let before = writer.head();
    writer.append(&[1; 8], b"unknown").unwrap();
    // Not open for writing.
    writer.head_file = File::open(path.join("head")).unwrap();
    assert!(matches!(writer.commit(), Err(BoardError::Io { .. })));
    assert!(matches!(writer.commit(), Err(BoardError::Stopped { .. })));
    assert!(matches!(writer.append(&[1; 8], b""), Err(BoardError::Stopped { .. })));
    assert!(matches!(writer.rollback(), Err(BoardError::Stopped { .. })));
    drop(writer);
    let mut writer = BoardWriter::open(&path).unwrap();
    assert_eq!(writer.head(), before);
    assert_eq!(writer.append(&[2; 8], b"kept").unwrap(), 6);
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
        writer.append(&number.to_le_bytes(), b"committed").unwrap();
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
