//! A crash leaves some of what was written behind the last commit, in any combination. None of it may show, and nothing
//! that was committed may be lost.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use restante_board::{Board, BoardError, BoardWriter};

#[path = "reference/board.rs"]
mod reference;

use reference::{assert_holds, config, copy, message, messages};

/// Appends the next `count` messages and commits them.
fn post(writer: &mut BoardWriter, count: u64) {
    for index in writer.len()..writer.len() + count {
        let (clue, payload) = message(index);
        assert_eq!(writer.append(&clue, &payload).unwrap(), index);
    }
    writer.commit().unwrap();
}

/// A board before and after a commit that goes from one segment into the next.
struct Crash {
    scratch: tempfile::TempDir,
}

const BEFORE: u64 = 6;
const AFTER: u64 = 11;

impl Crash {
    fn new() -> Self {
        let crash = Self { scratch: tempfile::tempdir().unwrap() };
        let board = crash.scratch.path().join("board");
        Board::create(&board, &config(4)).unwrap();
        let mut writer = BoardWriter::open(&board).unwrap();
        post(&mut writer, 3);
        post(&mut writer, BEFORE - 3);
        copy(&board, &crash.before());
        post(&mut writer, AFTER - BEFORE);
        copy(&board, &crash.after());
        crash
    }

    fn before(&self) -> PathBuf {
        self.scratch.path().join("before")
    }

    fn after(&self) -> PathBuf {
        self.scratch.path().join("after")
    }

    /// A fresh copy of one of the two to damage.
    fn copy_of(&self, state: &Path) -> PathBuf {
        let path = self.scratch.path().join("crashed");
        let _ = fs::remove_dir_all(&path);
        copy(state, &path);
        path
    }
}

/// Checks that readers see `count` messages now, that a writer repairs the board without losing one, and that it goes on.
fn assert_recovers(path: &Path, count: u64, case: &str) {
    let reader = Board::open(path).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_holds(&reader, &messages(count));
    let mut writer = BoardWriter::open(path).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(writer.len(), count, "{case}");
    post(&mut writer, 3);
    let board = Board::open(path).unwrap();
    assert_holds(&board, &messages(count + 3));
    board.verify().unwrap_or_else(|error| panic!("{case}: {error}"));
    // What the snapshot from before the repair has mapped did not change.
    assert_holds(&reader, &messages(count));
}

const DATA: [&str; 3] = ["clues", "payloads", "index"];

#[test]
fn any_part_of_an_unfinished_batch_is_cut() {
    let crash = Crash::new();
    for extension in DATA {
        for segment in [1, 2] {
            let name = format!("segments/{segment:010}.{extension}");
            let written = fs::read(crash.after().join(&name)).unwrap();
            let committed = fs::read(crash.before().join(&name)).unwrap_or_default();
            assert!(written.starts_with(&committed) && written.len() > committed.len());
            // Every length for the short files, and every seventh for the others.
            let step = if written.len() < 100 { 1 } else { 7 };
            for len in (committed.len()..=written.len()).step_by(step) {
                let path = crash.copy_of(&crash.before());
                fs::write(path.join(&name), &written[..len]).unwrap();
                assert_recovers(&path, BEFORE, &format!("{name} written up to byte {len}"));
            }
        }
    }
}

#[test]
fn a_whole_batch_without_its_head_is_cut() {
    let crash = Crash::new();
    let path = crash.copy_of(&crash.after());
    fs::copy(crash.before().join("head"), path.join("head")).unwrap();
    fs::remove_file(path.join("segments/0000000001.seal")).unwrap();
    assert_recovers(&path, BEFORE, "head not written");
}

#[test]
fn garbage_and_zeros_behind_the_last_commit_are_cut() {
    let crash = Crash::new();
    for filling in [0, 0xff, b'R'] {
        for len in [1, 23, 24, 80, 81, 82, 4096, 10_000] {
            let path = crash.copy_of(&crash.before());
            for extension in DATA {
                let name = path.join(format!("segments/0000000001.{extension}"));
                let mut bytes = fs::read(&name).unwrap();
                bytes.resize(bytes.len() + len, filling);
                fs::write(&name, bytes).unwrap();
                fs::write(path.join(format!("segments/0000000002.{extension}")), vec![filling; len]).unwrap();
            }
            fs::write(path.join("segments/0000000001.seal.tmp"), vec![filling; len]).unwrap();
            assert_recovers(&path, BEFORE, &format!("{len} bytes {filling}"));
        }
    }
}

#[test]
fn a_torn_head_is_the_one_before_or_the_one_after() {
    let crash = Crash::new();
    let [before, after] = [crash.before(), crash.after()].map(|path| fs::read(path.join("head")).unwrap());
    let differing: Vec<usize> = (0..before.len()).filter(|&byte| before[byte] != after[byte]).collect();
    let mut seen = [false; 2];
    for &cut in &differing {
        let path = crash.copy_of(&crash.after());
        // A seal is written after the head is durable, so it is not there yet.
        fs::remove_file(path.join("segments/0000000001.seal")).unwrap();
        fs::write(path.join("head"), [&after[..cut], &before[cut..]].concat()).unwrap();
        let count = Board::open(&path).unwrap().len();
        assert!([BEFORE, AFTER].contains(&count), "torn at {cut}: {count} messages");
        seen[usize::from(count == AFTER)] = true;
        assert_recovers(&path, count, &format!("head torn at {cut}"));
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn committed_messages_are_never_cut_instead_of_reported() {
    let crash = Crash::new();
    for extension in DATA {
        for segment in 0..3 {
            let name = format!("segments/{segment:010}.{extension}");
            let committed = fs::read(crash.after().join(&name)).unwrap();
            for len in 0..committed.len() {
                let path = crash.copy_of(&crash.after());
                fs::write(path.join(&name), &committed[..len]).unwrap();
                let files = reference::files_of(&path);
                for error in [Board::open(&path).err(), BoardWriter::open(&path).err()] {
                    let Some(BoardError::Length { path: file, expected, found, .. }) = error else {
                        panic!("{name} cut to {len}: {error:?}")
                    };
                    assert!(file.ends_with(&name));
                    assert_eq!((expected, found), (committed.len() as u64, len as u64));
                }
                assert_eq!(reference::files_of(&path), files, "nothing was touched");
            }
            let path = crash.copy_of(&crash.after());
            fs::remove_file(path.join(&name)).unwrap();
            let error = BoardWriter::open(&path).unwrap_err().to_string();
            assert!(error.contains(&name), "{error}");
        }
    }
}

#[test]
fn an_older_head_does_not_cut_sealed_segments() {
    let crash = Crash::new();
    let path = crash.copy_of(&crash.after());
    fs::copy(crash.before().join("head"), path.join("head")).unwrap();
    let error = BoardWriter::open(&path).unwrap_err();
    assert!(matches!(error, BoardError::SealBeyondHead { messages: BEFORE, .. }), "{error}");
    fs::copy(crash.after().join("head"), path.join("head")).unwrap();
    assert_recovers(&path, AFTER, "its own head put back");
}
