//! Which pertinency vectors make up a range: those that there are, and those that are made.

use std::ops::Range;

use crate::vectors::Owner;

/// A vector of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) range: Range<u64>,
    pub(super) owner: Owner,
    /// Whether it is there.
    pub(super) is_stored: bool,
}

/// The vectors that can make up a range.
#[derive(Debug, Clone)]
pub(super) struct Sources<'a> {
    /// The job's own vectors: what it had done when it was stopped.
    pub(super) job: (Owner, &'a [Range<u64>]),
    /// Those of the key's standing order, and from which message on it takes new ones; none without an order.
    pub(super) order: Option<(Owner, &'a [Range<u64>], u64)>,
    /// The messages that the board has.
    pub(super) messages: Range<u64>,
    /// N.
    pub(super) block: u64,
}

impl Sources<'_> {
    /// Vectors in sequence that cover `range`, which the board has. Only the first may begin before it, and only the last end behind it.
    ///
    /// Missing parts are made in whole blocks for the standing order, where it takes them, and otherwise as the job's own. A stored
    /// vector is used where it begins where the one before it ends, or covers the beginning.
    pub(super) fn cover(&self, range: &Range<u64>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let piece = self.stored(range, next).unwrap_or_else(|| self.missing(range, next));
            next = piece.range.end;
            pieces.push(piece);
        }
        pieces
    }

    fn all_stored(&self) -> impl Iterator<Item = (Owner, &Range<u64>)> {
        let order =
            self.order.iter().flat_map(|&(owner, ranges, _)| ranges.iter().map(move |own| (owner, own)));
        order.chain(self.job.1.iter().map(|own| (self.job.0, own)))
    }

    /// The longest way that a stored vector goes on.
    fn stored(&self, range: &Range<u64>, next: u64) -> Option<Piece> {
        self.all_stored()
            .filter(|(_, own)| own.start == next || next == range.start && own.contains(&next))
            .max_by_key(|(_, own)| own.end)
            .filter(|(_, own)| own.end > next)
            .map(|(owner, own)| Piece { range: own.clone(), owner, is_stored: true })
    }

    fn missing(&self, range: &Range<u64>, next: u64) -> Piece {
        let start = next - next % self.block;
        let block = start..start.saturating_add(self.block);
        let mut end = range.end.min(next.saturating_add(self.block));
        if let Some((owner, _, from)) = self.order {
            let is_whole = self.messages.start <= start && block.end <= self.messages.end;
            if start >= from && is_whole && (next == start || next == range.start) {
                return Piece { range: block, owner, is_stored: false };
            }
            // So that the next one can be a whole block.
            end = end.min(block.end);
        }
        let stored = self.all_stored().map(|(_, own)| own.start).filter(|&start| start > next).min();
        let end = stored.map_or(end, |start| end.min(start));
        Piece { range: next..end, owner: self.job.0, is_stored: false }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    #![allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]

    use restante_wire::relay::{JobId, RegistrationId};

    use super::*;

    const JOB: Owner = Owner { registration: RegistrationId([1; 16]), job: Some(JobId([2; 16])) };
    const ORDER: Owner = Owner { registration: RegistrationId([1; 16]), job: None };

    fn cover(
        range: Range<u64>,
        job: &[Range<u64>],
        order: Option<(&[Range<u64>], u64)>,
        messages: Range<u64>,
    ) -> Vec<(u64, u64, &'static str)> {
        let order = order.map(|(ranges, from)| (ORDER, ranges, from));
        let sources = Sources { job: (JOB, job), order, messages, block: 100 };
        let name = |piece: &Piece| match (piece.owner == JOB, piece.is_stored) {
            (true, true) => "job's",
            (true, false) => "for the job",
            (false, true) => "order's",
            (false, false) => "for the order",
        };
        sources.cover(&range).iter().map(|piece| (piece.range.start, piece.range.end, name(piece))).collect()
    }

    #[test]
    fn a_job_alone_is_cut_from_its_first_message_and_goes_on_where_it_was() {
        let whole = [(10, 110, "for the job"), (110, 210, "for the job"), (210, 250, "for the job")];
        assert_eq!(cover(10..250, &[], None, 0..1000), whole);
        let rest = [(10, 110, "job's"), (110, 210, "for the job"), (210, 250, "for the job")];
        assert_eq!(cover(10..250, &[10..110], None, 0..1000), rest);
    }

    #[test]
    fn whole_blocks_are_made_for_the_standing_order() {
        let order: &[Range<u64>] = &[0..100, 100..200];
        let all = [
            (0, 100, "order's"),
            (100, 200, "order's"),
            (200, 300, "for the order"),
            (300, 350, "for the job"),
        ];
        assert_eq!(cover(10..350, &[], Some((order, 0)), 0..360), all);
        // The last block is full already, and is made whole although the job ends inside it.
        assert_eq!(cover(210..250, &[], Some((order, 0)), 0..300), [(200, 300, "for the order")]);
        // The order begins later; or the board has lost the beginning of the block.
        let later = [(10, 100, "for the job"), (100, 200, "for the job"), (200, 300, "for the order")];
        assert_eq!(cover(10..300, &[], Some((&[], 200)), 0..300), later);
        let lost = [(64, 100, "for the job"), (100, 200, "for the order")];
        assert_eq!(cover(64..200, &[], Some((&[], 0)), 64..200), lost);
    }

    #[test]
    fn covers_have_no_gap_and_no_overlap() {
        // Every range, with every choice of some vectors that a job and an order may have.
        let candidates: [(Owner, Range<u64>); 6] = [
            (JOB, 10..110),
            (JOB, 110..210),
            (JOB, 300..333),
            (ORDER, 0..100),
            (ORDER, 100..200),
            (ORDER, 300..400),
        ];
        for chosen in 0..64usize {
            let ranges = |owner| -> Vec<Range<u64>> {
                let own = candidates.iter().enumerate();
                own.filter(|(bit, (of, _))| chosen >> bit & 1 == 1 && *of == owner)
                    .map(|(_, (_, range))| range.clone())
                    .collect()
            };
            let (job, order) = (ranges(JOB), ranges(ORDER));
            for with_order in [false, true] {
                let order = with_order.then_some((order.as_slice(), 0));
                for first in (0..420).step_by(5) {
                    for end in [first + 1, first + 7, 333.max(first + 1), 430] {
                        let pieces = cover(first..end, &job, order, 0..430);
                        assert!(pieces[0].0 <= first && first < pieces[0].1);
                        let last = pieces.len() - 1;
                        assert!(pieces[last].0 < end && end <= pieces[last].1 && pieces[last].1 <= 430);
                        assert!(pieces.windows(2).all(|pair| pair[0].1 == pair[1].0), "{pieces:?}");
                        assert!(pieces.iter().all(|(first, end, _)| end - first <= 100));
                        let stored = |&(first, end, kind): &(u64, u64, &str)| match kind {
                            "job's" => job.contains(&(first..end)),
                            "order's" => order.unwrap().0.contains(&(first..end)),
                            "for the order" => end - first == 100 && first % 100 == 0,
                            _ => true,
                        };
                        assert!(pieces.iter().all(stored));
                    }
                }
            }
        }
    }
}
