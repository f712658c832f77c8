//! Readers see, while a writer appends, rolls back and is reopened, nothing but whole commits in their order.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use restante_board::{Board, BoardWriter, Hash};

#[path = "reference/board.rs"]
mod reference;

use reference::{config, message, messages, root};

const COMMITS: u64 = 60;
const READERS: u64 = 3;

/// Sets a flag when it is dropped, so that the readers end when the writer panics, too.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn readers_see_whole_commits_while_a_writer_appends() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("board");
    let first = Board::create(&path, &config(32)).unwrap();
    let acknowledged = AtomicU64::new(0);
    let done = AtomicBool::new(false);

    let (published, seen) = thread::scope(|scope| {
        let end = SetAtEnd(&done);
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut board = first.clone();
                    let mut seen: Vec<(u64, Hash)> = Vec::new();
                    loop {
                        let last_round = done.load(Ordering::Acquire);
                        let least = acknowledged.load(Ordering::Acquire);
                        let before = board.clone();
                        let count = board.refresh().unwrap();
                        assert!(count >= least && count >= before.len());
                        seen.push((count, board.head().root));
                        // The new messages on the new snapshot, and the old one as it was.
                        for index in before.len()..count {
                            let (clue, payload) = message(index);
                            let found = board.message(index).unwrap();
                            assert_eq!((found.clue, found.payload), (&clue[..], &payload[..]));
                        }
                        assert!(before.clues(0..before.len() + 1).is_err());
                        let clues = before.clues(0..before.len()).unwrap();
                        assert!(clues.iter().eq(board.clues(0..before.len()).unwrap().iter()));
                        if seen.len().is_multiple_of(16) {
                            let opened = Board::open(&path).unwrap();
                            assert!(opened.len() >= count);
                            opened.verify().unwrap();
                        }
                        if last_round {
                            return seen;
                        }
                    }
                })
            })
            .collect();

        let mut published = HashMap::from([(0, first.head().root)]);
        let mut writer = BoardWriter::open(&path).unwrap();
        for commit in 0..COMMITS {
            let stage = |writer: &mut BoardWriter| {
                for index in writer.len()..writer.len() + 1 + commit * 13 % 70 {
                    let (clue, payload) = message(index);
                    writer.append(&clue, &payload).unwrap();
                }
            };
            match commit % 8 {
                3 => {
                    stage(&mut writer);
                    writer.rollback().unwrap();
                }
                6 => {
                    stage(&mut writer);
                    drop(writer);
                    writer = BoardWriter::open(&path).unwrap();
                }
                _ => {}
            }
            stage(&mut writer);
            let count = writer.commit().unwrap();
            acknowledged.store(count, Ordering::Release);
            published.insert(count, writer.head().root);
        }
        drop(end);
        (published, readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>())
    });

    let all = messages(*published.keys().max().unwrap());
    for (&count, &found) in &published {
        assert_eq!(found, root(&all[..count as usize]));
    }
    for seen in seen {
        assert_eq!(seen.last().unwrap().0, all.len() as u64);
        assert!(seen.iter().all(|(count, root)| published.get(count) == Some(root)));
        assert!(seen.iter().collect::<std::collections::HashSet<_>>().len() > 2);
    }
}
