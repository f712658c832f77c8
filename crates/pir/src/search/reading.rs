//! The querier's side: records out of chunks.

use crate::PirError;
use crate::search::bucket::{self, Found};
use crate::search::hash::{Location, SelectorHash};

/// Puts the answers to a query's selectors together, column by column, for one window.
#[derive(Debug)]
pub struct Reading {
    selectors: Vec<(Location, Vec<u8>)>,
}

impl Reading {
    /// Starts with nothing for each of the query's selectors.
    pub fn new(hash: &SelectorHash, selectors: &[impl AsRef<[u8]>]) -> Self {
        let located = selectors.iter().map(|selector| (hash.locate(selector.as_ref()), Vec::new()));
        Self { selectors: located.collect() }
    }

    /// Adds the next chunk, in the order of columns, of the bucket of selector `place`. Takes memory for as many bytes: whoever
    /// reads an answer from outside bounds its columns first.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] if the query has no such selector.
    pub fn push(&mut self, place: usize, chunk: &[u8]) -> Result<(), PirError> {
        let selectors = self.selectors.len();
        let Some((_, text)) = self.selectors.get_mut(place) else {
            return Err(PirError::Size {
                what: "the place of a selector in the query",
                found: place as u64,
                expected: format!("less than {selectors}"),
            });
        };
        text.extend_from_slice(chunk);
        Ok(())
    }

    /// The records of each selector, in the query's order.
    ///
    /// # Errors
    ///
    /// Each on its own: [`PirError::Bucket`] if what came back for a selector is no bucket, or ends before the bucket does.
    pub fn finish(self) -> Vec<Result<Found, PirError>> {
        let selectors = self.selectors.into_iter().enumerate();
        let read = |(selector, (location, text)): (usize, (Location, Vec<u8>))| {
            bucket::read(&location, &text).map_err(|reason| PirError::Bucket { selector, reason })
        };
        selectors.map(read).collect()
    }
}
