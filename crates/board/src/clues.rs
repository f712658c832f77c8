use std::iter::FusedIterator;
use std::ops::{Index, Range};
use std::sync::Arc;

use restante_wire::binding::Binding;

use crate::BoardConfig;
use crate::segment::Segment;

/// The clues of an index range, in order, straight from the memory map.
///
/// Many threads may read one value at once. Clues are not hashed on the way; [`crate::Board::verify`] does that.
#[derive(Debug, Clone)]
pub struct Clues<'a> {
    segments: &'a [Arc<Segment>],
    config: BoardConfig,
    range: Range<u64>,
}

impl<'a> Clues<'a> {
    /// The range lies within the segments.
    pub(crate) fn new(segments: &'a [Arc<Segment>], config: BoardConfig, range: Range<u64>) -> Self {
        Self { segments, config, range }
    }

    /// The number of clues.
    pub fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The indices on the board.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The size of every clue in bytes.
    pub fn clue_bytes(&self) -> usize {
        self.config.clue_bytes as usize
    }

    /// The clue at `position` of the range: of the message `range().start + position`.
    #[inline]
    pub fn get(&self, position: usize) -> Option<&'a [u8]> {
        let index = self.range.start.checked_add(position as u64).filter(|index| *index < self.range.end)?;
        let (segment, place) = self.config.locate(index);
        let start = place as usize * self.clue_bytes();
        self.segments.get(segment as usize)?.clues().get(start..start + self.clue_bytes())
    }

    /// The binding of the clue at `position` of the range, from the hashes in the index: some 0.2 us, and no look at the payload.
    #[inline]
    pub fn binding(&self, position: usize) -> Option<Binding> {
        let index = self.range.start.checked_add(position as u64).filter(|index| *index < self.range.end)?;
        let (segment, place) = self.config.locate(index);
        Some(self.segments.get(segment as usize)?.binding(place))
    }

    /// The clue at `position` of the range together with what it is bound to: what a detector takes.
    #[inline]
    pub fn bound(&self, position: usize) -> Option<(&'a [u8], Binding)> {
        Some((self.get(position)?, self.binding(position)?))
    }

    /// The clues one by one.
    pub fn iter(&self) -> ClueIter<'a> {
        ClueIter { positions: 0..self.len(), clues: self.clone() }
    }

    /// The clues one by one, each with what it is bound to.
    pub fn iter_bound(&self) -> impl Iterator<Item = (&'a [u8], Binding)> + use<'a> {
        let clues = self.clone();
        (0..self.len()).filter_map(move |position| clues.bound(position))
    }

    /// The clues in as few pieces as there are: for each segment, the index of its first message and its clues one
    /// after the other, `clue_bytes()` bytes each.
    pub fn runs(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let Self { segments, config, range } = self.clone();
        let mut next = range.start;
        std::iter::from_fn(move || {
            if next >= range.end {
                return None;
            }
            let (first, (segment, place)) = (next, config.locate(next));
            next = range.end.min(first - place + u64::from(config.segment_capacity));
            let clue_bytes = config.clue_bytes as usize;
            let start = place as usize * clue_bytes;
            let end = start + (next - first) as usize * clue_bytes;
            Some((first, segments.get(segment as usize)?.clues().get(start..end)?))
        })
    }
}

/// # Panics
///
/// When the position is not less than [`Clues::len`].
impl Index<usize> for Clues<'_> {
    type Output = [u8];

    fn index(&self, position: usize) -> &[u8] {
        match self.get(position) {
            Some(clue) => clue,
            None => panic!("position {position} in a range of {} clues", self.len()),
        }
    }
}

impl<'a> IntoIterator for &Clues<'a> {
    type Item = &'a [u8];
    type IntoIter = ClueIter<'a>;

    fn into_iter(self) -> ClueIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Clues`].
#[derive(Debug, Clone)]
pub struct ClueIter<'a> {
    clues: Clues<'a>,
    positions: Range<usize>,
}

impl<'a> Iterator for ClueIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.clues.get(self.positions.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.positions.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<&'a [u8]> {
        self.clues.get(self.positions.nth(n)?)
    }
}

impl DoubleEndedIterator for ClueIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.clues.get(self.positions.next_back()?)
    }
}

impl ExactSizeIterator for ClueIter<'_> {}
impl FusedIterator for ClueIter<'_> {}
