//! What a board must hold, worked out the slow way.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use restante_board::{Board, BoardConfig, BoardId, Hash};
use restante_wire::ParameterId;

pub const CLUE_BYTES: usize = 24;
/// Bytes of a clue's tail.
pub const TAIL: usize = 5;
pub const ID: BoardId = BoardId([0xb0; 16]);

pub fn config(segment_capacity: u32) -> BoardConfig {
    BoardConfig {
        segment_capacity,
        payload_bytes_max: 300,
        ..BoardConfig::new(ID, ParameterId::of("board tests"), CLUE_BYTES as u32)
    }
}

/// The clue and the payload that the tests post as message `index`; the payload has 0 to 99 bytes, and there are 40 messages a day.
pub fn message(index: u64) -> (Vec<u8>, Vec<u8>) {
    let mut stream = blake3::Hasher::new().update(&index.to_le_bytes()).finalize_xof();
    let mut bytes = vec![0; CLUE_BYTES + (index * 37 % 100) as usize];
    stream.fill(&mut bytes);
    bytes[..4].copy_from_slice(&(20_000 + index as u32 / 40).to_le_bytes());
    let payload = bytes.split_off(CLUE_BYTES);
    (bytes, payload)
}

/// The Merkle tree hash as RFC 6962, section 2.1, defines it, with BLAKE3.
pub fn root(messages: &[(Vec<u8>, Vec<u8>)]) -> Hash {
    let hash = |parts: &[&[u8]]| *blake3::hash(&parts.concat()).as_bytes();
    Hash(match messages {
        [] => hash(&[]),
        [(clue, payload)] => {
            let (bound, tail) = clue.split_at(clue.len() - TAIL);
            hash(&[&[0], &hash(&[bound]), &hash(&[payload]), tail])
        }
        _ => {
            let mut left = 1;
            while left * 2 < messages.len() {
                left *= 2;
            }
            hash(&[&[1], &root(&messages[..left]).0, &root(&messages[left..]).0])
        }
    })
}

/// Checks that the board holds exactly `messages`, by every way of reading it.
pub fn assert_holds(board: &Board, messages: &[(Vec<u8>, Vec<u8>)]) {
    let count = messages.len() as u64;
    assert_eq!(board.len(), count);
    assert_eq!(board.head().root, root(messages));
    let clues = board.clues(0..count).unwrap();
    assert!(clues.iter().eq(messages.iter().map(|(clue, _)| &clue[..])));
    for (index, (clue, payload)) in (0..).zip(messages) {
        let message = board.message(index).unwrap();
        assert_eq!((message.clue, message.payload), (&clue[..], &payload[..]), "message {index}");
    }
    assert!(board.payload(count).is_err());
}

/// The first `count` messages.
pub fn messages(count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count).map(message).collect()
}

/// All files below a directory, with their contents.
pub fn files_of(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_of(&path));
        } else {
            let contents = fs::read(&path).unwrap();
            files.push((path, contents));
        }
    }
    files.sort();
    files
}

/// A copy of a board's directory as it is at this moment.
pub fn copy(from: &Path, to: &Path) {
    for (path, contents) in files_of(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, contents).unwrap();
    }
    fs::create_dir_all(to.join("segments")).unwrap();
}
