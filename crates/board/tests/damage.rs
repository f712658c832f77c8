//! A flipped bit in anything committed is found, damage and foreign files get an error that names them, and no input
//! brings the library down.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use restante_board::{Board, BoardConfig, BoardError, BoardWriter};
use restante_wire::ParameterId;

#[path = "reference/board.rs"]
mod reference;

use reference::{assert_holds, config, files_of, message, messages};

const COUNT: u64 = 10;

/// Two sealed segments and half a third.
fn board() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("board");
    Board::create(&path, &config(4)).unwrap();
    let mut writer = BoardWriter::open(&path).unwrap();
    for index in 0..COUNT {
        let (clue, payload) = message(index);
        writer.append(&clue, &payload).unwrap();
        if index % 3 == 0 {
            writer.commit().unwrap();
        }
    }
    writer.commit().unwrap();
    (scratch, path)
}

/// Opens, verifies and reads everything.
fn check(path: &Path) -> Result<(), BoardError> {
    let board = Board::open(path)?;
    board.verify()
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn every_flipped_bit_of_the_committed_data_is_found() {
    let (_scratch, path) = board();
    check(&path).unwrap();
    let mut bits = 0;
    for (file, bytes) in files_of(&path) {
        let committed: Vec<usize> = match name_of(&file) {
            "lock" => Vec::new(),
            // The other slot holds the head before, which is no part of the board any more. Most of a slot is padding,
            // of which a sample will do here.
            "head" => newest_slot(&bytes).filter(|byte| byte % 2048 < 90 || byte % 61 == 0).collect(),
            _ => (0..bytes.len()).collect(),
        };
        for bit in committed.into_iter().flat_map(|byte| byte * 8..byte * 8 + 8) {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, &changed).unwrap();
            let error = match check(&path) {
                Err(error) => error.to_string(),
                Ok(()) => panic!("bit {bit} of {} was missed", file.display()),
            };
            // Clue, payload and index are told apart by name only as far as their segment.
            let stem = name_of(&file).split('.').next().unwrap();
            assert!(
                error.contains(stem) || error.contains("manifest"),
                "bit {bit} of {}: {error}",
                file.display()
            );
            bits += 1;
        }
        fs::write(&file, &bytes).unwrap();
    }
    assert!(bits > 10_000);
    check(&path).unwrap();
}

fn newest_slot(head: &[u8]) -> std::ops::Range<usize> {
    // The sequence number is the first field behind the envelope's header of 24 bytes.
    let sequence = |slot: usize| u64::from_le_bytes(head[slot + 24..slot + 32].try_into().unwrap());
    if sequence(0) > sequence(4096) { 0..4096 } else { 4096..8192 }
}

#[test]
fn a_damaged_newest_head_hides_no_message_and_is_repaired() {
    let (_scratch, path) = board();
    let file = path.join("head");
    let bytes = fs::read(&file).unwrap();
    for bit in newest_slot(&bytes).map(|byte| byte * 8 + byte % 8) {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, &changed).unwrap();
        assert_eq!(Board::open(&path).unwrap().len(), COUNT, "bit {bit}");
    }
    assert!(matches!(check(&path), Err(BoardError::HeadCopy { .. })));
    BoardWriter::open(&path).unwrap();
    check(&path).unwrap();
    assert_holds(&Board::open(&path).unwrap(), &messages(COUNT));
}

#[test]
fn a_payload_is_never_returned_damaged() {
    let (_scratch, path) = board();
    // Mapped before the damage, so that only reading can find it.
    let reader = Board::open(&path).unwrap();
    for segment in 0..3u64 {
        let file = path.join(format!("segments/{segment:010}.payloads"));
        let bytes = fs::read(&file).unwrap();
        let first = segment * 4;
        let mut start = 0;
        for index in first..(first + 4).min(COUNT) {
            let end = start + message(index).1.len();
            for (byte, &value) in bytes.iter().enumerate().take(end).skip(start) {
                write_in_place(&file, byte, value ^ 1 << (byte % 8));
                for other in 0..COUNT {
                    let read = reader.payload(other);
                    if other == index {
                        let error = read.unwrap_err();
                        assert!(
                            matches!(&error, BoardError::Corrupted { path, what: "payload", index: found }
                                if *path == file && *found == index),
                            "{error}"
                        );
                        assert!(reader.message(other).is_err());
                    } else {
                        assert_eq!(read.unwrap(), message(other).1);
                    }
                }
                write_in_place(&file, byte, value);
            }
            start = end;
        }
    }
    reader.verify().unwrap();
}

/// Changes a byte of a file without making it shorter on the way.
fn write_in_place(file: &Path, offset: usize, byte: u8) {
    use std::io::{Seek, SeekFrom, Write};
    let mut file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(offset as u64)).unwrap();
    file.write_all(&[byte]).unwrap();
}

#[test]
fn truncated_lengthened_foreign_and_missing_files_are_named() {
    let (_scratch, path) = board();
    for (file, bytes) in files_of(&path) {
        if name_of(&file) == "lock" {
            continue;
        }
        let mut cases: Vec<(String, Vec<u8>)> = (0..bytes.len())
            .filter(|len| *len < 200 || len % 97 == 0)
            .map(|len| (format!("cut to {len}"), bytes[..len].to_vec()))
            .collect();
        let tail = name_of(&file).starts_with("0000000002");
        if !tail {
            cases.push(("lengthened".into(), [&bytes[..], &[0]].concat()));
        }
        cases.push(("foreign".into(), b"PK\x03\x04".iter().copied().cycle().take(bytes.len()).collect()));
        cases.push(("zeroed".into(), vec![0; bytes.len()]));
        for (case, changed) in cases {
            if changed == bytes {
                continue;
            }
            fs::write(&file, &changed).unwrap();
            let error = check(&path).expect_err(&case).to_string();
            let stem = name_of(&file).split('.').next().unwrap();
            assert!(error.contains(stem), "{} {case}: {error}", file.display());
        }
        fs::remove_file(&file).unwrap();
        match check(&path) {
            // A full segment may be unsealed; its contents are checked against the head.
            Ok(()) => assert!(name_of(&file).ends_with(".seal")),
            Err(BoardError::NotABoard { path: named }) => {
                assert_eq!((name_of(&file), named), ("manifest", path.clone()));
            }
            Err(error) => assert!(error.to_string().contains(name_of(&file)), "{error}"),
        }
        fs::write(&file, &bytes).unwrap();
    }
    check(&path).unwrap();
}

#[test]
fn files_of_another_board_are_refused() {
    let (_scratch, path) = board();
    let scratch = tempfile::tempdir().unwrap();
    let other = scratch.path().join("other");
    let parameters = ParameterId::of("another set");
    Board::create(&other, &BoardConfig { parameters, ..config(4) }).unwrap();
    let manifest = fs::read(path.join("manifest")).unwrap();

    fs::copy(other.join("manifest"), path.join("manifest")).unwrap();
    assert!(matches!(Board::open(&path), Err(BoardError::NoHead { .. })));
    fs::write(path.join("manifest"), &manifest).unwrap();

    let seal = |number: u64| path.join(format!("segments/{number:010}.seal"));
    fs::copy(seal(0), seal(1)).unwrap();
    let error = Board::open(&path).unwrap_err();
    assert!(matches!(error, BoardError::Seal { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!(
            "{} is the seal of segment 0 with 4 messages, expected that of segment 1 with 4 messages",
            seal(1).display()
        )
    );

    let opened = Board::open(&other).unwrap();
    opened.require_parameters(parameters).unwrap();
    let error = opened.require_parameters(ParameterId::of("board tests")).unwrap_err().to_string();
    assert!(error.contains("manifest is for parameters"), "{error}");
}

#[test]
fn a_newer_format_is_refused_by_its_version() {
    use restante_wire::{Envelope, Kind};
    let (_scratch, path) = board();
    let bytes = fs::read(path.join("manifest")).unwrap();
    let envelope = Envelope::open(&bytes).unwrap();
    assert_eq!(envelope.kind, Kind::BoardManifest);
    fs::write(path.join("manifest"), Envelope { version: 3, ..envelope }.seal()).unwrap();
    let error = Board::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("board manifest has format version 3, this program reads version 2: a later"),
        "{error}"
    );
    assert!(BoardWriter::open(&path).is_err());
    // A board from before clues were bound says what to do.
    fs::write(path.join("manifest"), Envelope { version: 1, ..envelope }.seal()).unwrap();
    let error = Board::open(&path).unwrap_err().to_string();
    assert!(error.contains("this program reads version 2: an earlier version made it"), "{error}");
}

#[test]
fn no_board_and_no_room_for_one() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path();
    assert!(matches!(Board::open(path), Err(BoardError::NotABoard { .. })));
    assert!(matches!(BoardWriter::open(path), Err(BoardError::NotABoard { .. })));
    assert!(matches!(Board::open(path.join("absent")), Err(BoardError::Io { .. })));
    assert_eq!(files_of(path), [], "looking for a board leaves nothing behind");
    // An empty directory will do.
    Board::create(path, &config(4)).unwrap();
    assert!(matches!(Board::create(path, &config(4)), Err(BoardError::NotEmpty { .. })));

    let used = path.join("used");
    fs::create_dir(&used).unwrap();
    fs::write(used.join("letter.txt"), "text").unwrap();
    assert!(matches!(Board::create(&used, &config(4)), Err(BoardError::NotEmpty { .. })));
    assert_eq!(files_of(&used).len(), 1);
    assert!(matches!(Board::create(path.join("a/b"), &config(4)), Err(BoardError::Io { .. })));
    assert!(matches!(Board::create(path.join("c"), &config(3)), Err(BoardError::Config { .. })));
    assert!(!path.join("c").exists());

    // What a crash while creating leaves is no board, and no obstacle.
    let crashed = path.join("crashed");
    Board::create(&crashed, &config(4)).unwrap();
    fs::rename(crashed.join("manifest"), crashed.join("manifest.tmp")).unwrap();
    assert!(matches!(Board::open(&crashed), Err(BoardError::NotABoard { .. })));
    Board::create(&crashed, &config(8)).unwrap();
    assert_eq!(Board::open(&crashed).unwrap().config().segment_capacity, 8);
}
