//! The check of everything that is committed.

use std::sync::Arc;

use crate::board::read_manifest;
use crate::files::Part;
use crate::rule::Rule;
use crate::segment::{Seal, Segment};
use crate::{Board, BoardError, head};
use restante_wire::merkle::Frontier;

impl Board {
    /// Checks every bit of the snapshot: manifest, both copies of the newest head, seals, index, clues, payloads. And that the board
    /// obeys the rule about clues, as far back as it has its messages.
    ///
    /// Reads the whole board, on all cores of the rayon pool it runs in.
    ///
    /// # Errors
    ///
    /// The first damage that was found; the error names the file and, where there is one, the message.
    pub fn verify(&self) -> Result<(), BoardError> {
        let config = read_manifest(&self.files)?;
        let path = self.files.head();
        let head = head::read_intact(&path, config.parameters)?;
        if head.count < self.head.count {
            return Err(BoardError::WentBack { path, expected: self.head.count, found: head.count });
        }
        let (mut full, mut tail) = (Frontier::default(), Frontier::default());
        let mut rule = Rule::default();
        for (number, segment) in self.segments.iter().enumerate() {
            if (number as u64) < self.forgotten {
                full.push(self.config.segment_level(), self.roots[number]);
                continue;
            }
            let leaves = segment.leaves(0..segment.messages())?;
            let rows = segment.rows();
            for place in 0..segment.messages() {
                let row = rows.get(place);
                rule.check(row.period, &row.hashes.bound)?;
                rule.take(&row, number as u64 * u64::from(self.config.segment_capacity) + place);
            }
            rule.commit();
            let is_full = leaves.len() as u64 == u64::from(self.config.segment_capacity);
            leaves.into_iter().for_each(|leaf| tail.push(0, leaf));
            if is_full {
                let root = std::mem::take(&mut tail).root();
                full.push(self.config.segment_level(), root);
                self.verify_seal(segment, root)?;
            }
        }
        let root = full.root_with(&tail);
        if root != self.head.root {
            return Err(BoardError::Root { path, expected: self.head.root, found: root });
        }
        Ok(())
    }

    /// A full segment whose seal is not written yet is none the worse, if it had none when it was opened.
    fn verify_seal(&self, segment: &Arc<Segment>, root: crate::Hash) -> Result<(), BoardError> {
        let path = segment.path(Part::Seal);
        let Some(seal) = Seal::read(&self.files, &self.config, segment.number())? else {
            if segment.is_sealed() {
                return Err(BoardError::io("open", path)(std::io::ErrorKind::NotFound.into()));
            }
            return Ok(());
        };
        if seal.root != root {
            return Err(BoardError::Root { path, expected: seal.root, found: root });
        }
        // Opens the files anew, which checks that they have not become longer since.
        Segment::open(&self.files, &self.config, segment.number(), segment.messages(), Some(&seal)).map(drop)
    }
}
