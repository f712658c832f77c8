//! A board takes each clue once, but for its tail, and its days only move on: whatever the batches, the segments, and the restarts.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use restante_board::{Board, BoardError, BoardWriter};

#[path = "reference/board.rs"]
mod reference;

use reference::{CLUE_BYTES, ID, TAIL, config};

/// A clue of a day; another number is another bound part.
fn clue(day: u32, number: u64) -> Vec<u8> {
    let mut clue = vec![0; CLUE_BYTES];
    clue[..4].copy_from_slice(&day.to_le_bytes());
    clue[4..12].copy_from_slice(&number.to_le_bytes());
    clue
}

/// The same but for the tail.
fn bent(clue: &[u8]) -> Vec<u8> {
    let mut bent = clue.to_vec();
    bent[CLUE_BYTES - TAIL] ^= 1;
    bent
}

fn board(capacity: u32) -> (tempfile::TempDir, std::path::PathBuf, BoardWriter) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("board");
    Board::create(&path, &config(capacity)).unwrap();
    let writer = BoardWriter::open(&path).unwrap();
    (scratch, path, writer)
}

fn assert_duplicate(writer: &mut BoardWriter, clue: &[u8], payload: &[u8], first: u64) {
    let (head, staged) = (writer.head(), writer.staged());
    for error in [writer.check(clue, payload), writer.append(clue, payload).map(drop)] {
        let error = error.unwrap_err();
        assert!(matches!(error, BoardError::Duplicate { first: found } if found == first), "{error}");
    }
    assert_eq!((writer.head(), writer.staged()), (head, staged), "nothing else happened");
}

fn assert_closed(writer: &mut BoardWriter, day: u32, least: u32) {
    for error in [writer.check(&clue(day, 999), b""), writer.append(&clue(day, 999), b"").map(drop)] {
        let error = error.unwrap_err();
        assert!(
            matches!(error, BoardError::ClosedPeriod { found, least: open } if (found, open) == (day, least)),
            "{error}"
        );
    }
}

#[test]
fn a_clue_is_taken_once_whatever_comes_with_it() {
    let (_scratch, path, mut writer) = board(4);
    let one = clue(20_000, 1);
    writer.append(&one, b"one").unwrap();
    // In the same batch, with another payload, and with another tail.
    assert_duplicate(&mut writer, &one, b"one", 0);
    assert_duplicate(&mut writer, &one, b"two", 0);
    assert_duplicate(&mut writer, &bent(&one), b"one", 0);
    writer.commit().unwrap();
    // In a later batch, and in a later segment.
    for number in 2..10 {
        assert_duplicate(&mut writer, &bent(&one), b"one", 0);
        writer.append(&clue(20_000, number), b"").unwrap();
        writer.commit().unwrap();
    }
    assert_duplicate(&mut writer, &clue(20_000, 9), b"", 8);
    // Another day is another clue.
    writer.append(&clue(20_001, 1), b"one").unwrap();
    writer.commit().unwrap();
    Board::open(&path).unwrap().verify().unwrap();
}

#[test]
fn what_was_rolled_back_may_come_again() {
    let (_scratch, _path, mut writer) = board(4);
    writer.append(&clue(20_000, 1), b"").unwrap();
    writer.commit().unwrap();
    for number in 2..9 {
        writer.append(&clue(20_000 + number, number.into()), b"").unwrap();
    }
    assert_closed(&mut writer, 20_005, 20_006);
    writer.rollback().unwrap();
    // The days have gone back with the messages, and the first message is still known.
    assert_duplicate(&mut writer, &clue(20_000, 1), b"", 0);
    for number in 2..9 {
        writer.append(&clue(20_000, number), b"").unwrap();
    }
    writer.commit().unwrap();
    assert_duplicate(&mut writer, &clue(20_000, 1), b"", 0);
    assert_duplicate(&mut writer, &clue(20_000, 8), b"", 7);
}

#[test]
fn days_close_two_behind_the_latest() {
    let (_scratch, path, mut writer) = board(4);
    let mut number = 0;
    let mut post = |writer: &mut BoardWriter, day| {
        number += 1;
        writer.append(&clue(day, number), b"").unwrap();
        writer.commit().unwrap();
    };
    for day in [100, 98, 101, 99, 100, 99, 101, 99, 103] {
        post(&mut writer, day);
    }
    for day in [0, 98, 99, 100] {
        assert_closed(&mut writer, day, 101);
    }
    for day in [101, 102, 103, 104] {
        post(&mut writer, day);
    }
    assert_closed(&mut writer, 101, 102);
    post(&mut writer, u32::MAX);
    assert_closed(&mut writer, u32::MAX - 3, u32::MAX - 2);
    post(&mut writer, u32::MAX - 2);
    Board::open(&path).unwrap().verify().unwrap();
}

/// As if the program was killed and started again.
fn restarted(writer: BoardWriter, path: &Path) -> BoardWriter {
    drop(writer);
    BoardWriter::open(path).unwrap()
}

#[test]
fn a_restart_forgets_no_clue_of_an_open_day() {
    for capacity in [1, 2, 4, 64] {
        let (_scratch, path, mut writer) = board(capacity);
        let mut posted = Vec::new();
        for (place, day) in [50, 50, 51, 49, 50, 52, 51, 50, 53, 51, 52, 52, 53].into_iter().enumerate() {
            posted.push((day, clue(day, place as u64)));
            writer.append(&posted[place].1, b"").unwrap();
            if place % 3 == 0 {
                writer.commit().unwrap();
            }
            // What was not committed is gone with the program.
            let committed = writer.len() as usize;
            if place % 5 == 4 {
                writer = restarted(writer, &path);
                for (_, one) in &posted[committed..] {
                    writer.append(one, b"").unwrap();
                }
                writer.commit().unwrap();
            }
        }
        writer.commit().unwrap();
        writer = restarted(writer, &path);
        for (index, (day, one)) in (0..).zip(&posted) {
            match day {
                51.. => assert_duplicate(&mut writer, &bent(one), b"again", index),
                _ => assert_closed(&mut writer, *day, 51),
            }
        }
    }
}

#[test]
fn what_a_kill_left_behind_the_last_commit_may_come_again() {
    let (scratch, path, mut writer) = board(4);
    let clues: Vec<Vec<u8>> = (0..11).map(|number| clue(70, number)).collect();
    for one in &clues[..3] {
        writer.append(one, b"").unwrap();
    }
    writer.commit().unwrap();
    let before = fs::read(path.join("head")).unwrap();
    for one in &clues[3..] {
        writer.append(one, b"").unwrap();
    }
    writer.commit().unwrap();
    // The files of both commits with the head of the first: the program was killed before it wrote the second.
    let killed = scratch.path().join("killed");
    reference::copy(&path, &killed);
    fs::write(killed.join("head"), before).unwrap();
    for number in 0..2 {
        fs::remove_file(killed.join(format!("segments/{number:010}.seal"))).unwrap();
    }
    let mut writer = BoardWriter::open(&killed).unwrap();
    assert_duplicate(&mut writer, &clues[2], b"", 2);
    for one in &clues[3..] {
        writer.append(one, b"").unwrap();
    }
    writer.commit().unwrap();
    Board::open(&killed).unwrap().verify().unwrap();
}

#[test]
fn clues_of_open_days_are_known_after_their_messages_are_forgotten() {
    let (scratch, path, mut writer) = board(2);
    for number in 0..8 {
        writer.append(&clue(60 + number as u32 / 4, number), b"payload").unwrap();
    }
    writer.commit().unwrap();
    assert_eq!(writer.forget(6).unwrap(), 6);
    let index = |number: u64| path.join(format!("segments/{number:010}.index"));
    assert!(!path.join("segments/0000000000.clues").exists());
    for _ in 0..2 {
        for number in 0..8 {
            assert_duplicate(&mut writer, &clue(60 + number as u32 / 4, number), b"", number);
        }
        writer = restarted(writer, &path);
    }
    // A copy knows them too.
    let copy = scratch.path().join("copy");
    Board::open(&path).unwrap().copy_to(&copy).unwrap();
    assert_duplicate(&mut BoardWriter::open(&copy).unwrap(), &clue(60, 1), b"", 1);
    // Damage to what is kept is found.
    let bytes = fs::read(index(0)).unwrap();
    let mut changed = bytes.clone();
    changed[20] ^= 1;
    drop(writer);
    fs::write(index(0), changed).unwrap();
    assert!(matches!(BoardWriter::open(&path), Err(BoardError::Root { path, .. }) if path == index(0)));
    fs::write(index(0), bytes).unwrap();
    // When its days are closed, the rest of a forgotten segment goes.
    let mut writer = BoardWriter::open(&path).unwrap();
    for (day, left) in [(64, [true, true, true]), (65, [false, false, true]), (66, [false, false, false])] {
        writer.append(&clue(day, 99), b"").unwrap();
        writer.commit().unwrap();
        writer.forget(0).unwrap();
        assert_eq!([0, 1, 2].map(|number| index(number).exists()), left, "day {day}");
    }
    writer = restarted(writer, &path);
    assert_closed(&mut writer, 63, 64);
    Board::open(&path).unwrap().verify().unwrap();
}

#[test]
fn bindings_follow_from_the_index() {
    let (_scratch, path, mut writer) = board(4);
    for number in 0..11 {
        writer.append(&clue(90, number), &[number as u8; 3]).unwrap();
    }
    writer.commit().unwrap();
    let board = Board::open(&path).unwrap();
    assert_eq!((board.config().id, board.head().board), (ID, ID));
    let clues = board.clues(3..11).unwrap();
    for position in 0..8 {
        let (bytes, binding) = clues.bound(position).unwrap();
        let number = position as u64 + 3;
        assert_eq!(bytes, clue(90, number));
        let hash = |bytes: &[u8]| blake3::hash(bytes).as_bytes().to_vec();
        let parts = [ID.0.to_vec(), hash(&bytes[..CLUE_BYTES - TAIL]), hash(&[number as u8; 3])];
        assert_eq!(binding.0, blake3::derive_key("restante/2/clue/binding", &parts.concat()));
    }
    assert!(clues.bound(8).is_none() && clues.binding(usize::MAX).is_none());
}
