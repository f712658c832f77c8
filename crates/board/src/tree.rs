//! Nodes of the hash tree over the messages, for proofs.

use std::ops::Range;

use restante_wire::merkle::{Frontier, Hash};

use crate::{Board, BoardError};

impl Board {
    /// The leaf of message `index`, as the index of its segment has it: cheap, and without a look at the message.
    ///
    /// # Errors
    ///
    /// [`BoardError::OutOfRange`], [`BoardError::Forgotten`].
    pub fn leaf(&self, index: u64) -> Result<Hash, BoardError> {
        let (segment, place) = self.segment_of(index)?;
        Ok(segment.indexed_leaf(place))
    }

    /// The root over the messages of a range that is a node of the tree: what `RangeProof::build` and
    /// `ConsistencyProof::build` ask for. For forgotten messages, only the roots over whole segments are
    /// known.
    ///
    /// # Errors
    ///
    /// [`BoardError::OutOfRange`], [`BoardError::Forgotten`].
    pub fn subtree(&self, range: Range<u64>) -> Result<Hash, BoardError> {
        let capacity = u64::from(self.config().segment_capacity);
        if range.end > self.len() || range.start > range.end {
            return Err(BoardError::OutOfRange { start: range.start, end: range.end, messages: self.len() });
        }
        if range.is_empty() {
            return Ok(Hash::of(&[]));
        }
        let (first, last) = (range.start / capacity, (range.end - 1) / capacity);
        let mut tree = Frontier::default();
        let mut rest = None;
        for number in first..=last {
            let start = number * capacity;
            let places = range.start.max(start) - start..range.end.min(start + capacity) - start;
            match self.roots.get(number as usize) {
                Some(root) if places == (0..capacity) => tree.push(0, *root),
                _ => {
                    let (segment, _) = self.segment_of(start + places.start)?;
                    rest = Some(segment.subtree(places, capacity));
                }
            }
        }
        // A node over several segments is complete on the left; what is on the right has its own, smaller, shape.
        match rest {
            None => Ok(tree.root()),
            Some(rest) => {
                let mut right = Frontier::default();
                right.push(0, rest);
                Ok(tree.root_with(&right))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_wire::ParameterId;
    use restante_wire::binding::BoardId;
    use restante_wire::merkle::{ConsistencyProof, RangeProof};

    use super::*;
    use crate::{BoardConfig, BoardWriter};

    fn fill(writer: &mut BoardWriter, count: u32) -> Vec<Hash> {
        (0..count)
            .map(|index| {
                writer.append(&index.to_le_bytes(), b"payload").unwrap();
                writer.commit().unwrap();
                writer.head().root
            })
            .collect()
    }

    #[test]
    fn proofs_from_a_board_verify_at_every_size_before_and_after_it_forgets() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("board");
        let config = BoardConfig {
            segment_capacity: 4,
            tail_bytes: 0,
            ..BoardConfig::new(BoardId([1; 16]), ParameterId::NONE, 4)
        };
        let mut board = Board::create(&path, &config).unwrap();
        let mut writer = BoardWriter::open(&path).unwrap();
        let roots = fill(&mut writer, 19);
        board.follow(&writer).unwrap();
        let root = roots[18];
        for forget in [0, 5, 8] {
            let retained = writer.forget(forget).unwrap();
            if forget == 5 {
                board.refresh().unwrap();
            } else {
                board.follow(&writer).unwrap();
            }
            assert_eq!((retained, board.retained_from()), (forget / 4 * 4, forget / 4 * 4));
            assert_eq!(board.head().root, root);
            for opened in [board.clone(), Board::open(&path).unwrap()] {
                opened.verify().unwrap();
                for first in retained..19 {
                    for end in first + 1..=19 {
                        let proof =
                            RangeProof::build(&(first..end), 19, |range| opened.subtree(range)).unwrap();
                        let leaves: Vec<Hash> =
                            (first..end).map(|index| opened.leaf(index).unwrap()).collect();
                        proof.verify(&leaves, first, 19, &root).unwrap();
                    }
                }
                for older in (1..19).filter(|older| *older >= retained || older % 4 == 0) {
                    let proof = ConsistencyProof::build(older, 19, |range| opened.subtree(range)).unwrap();
                    proof.verify((older, &roots[older as usize - 1]), (19, &root)).unwrap();
                }
                if retained > 0 {
                    let index = retained - 1;
                    let forgotten = |error| matches!(error, BoardError::Forgotten { retained_from, .. } if retained_from == retained);
                    assert!(forgotten(opened.message(index).unwrap_err()));
                    assert!(forgotten(opened.payload(0).unwrap_err()));
                    assert!(forgotten(opened.clues(index..19).unwrap_err()));
                    assert!(opened.clues(retained..19).unwrap().iter().count() as u64 == 19 - retained);
                    assert!(ConsistencyProof::build(index, 19, |range| opened.subtree(range)).is_err());
                }
            }
        }
        drop(writer);
        // What a crash left of forgotten segments goes when the next writer opens the board.
        let left_over = path.join("segments/0000000000.clues");
        std::fs::write(&left_over, b"left over").unwrap();
        let mut writer = BoardWriter::open(&path).unwrap();
        assert!(!left_over.exists());
        assert_eq!(writer.append(b"more", b"").unwrap(), 19);
        writer.commit().unwrap();
        board.refresh().unwrap();
        assert_eq!(board.message(19).unwrap().clue, b"more");
    }
}
