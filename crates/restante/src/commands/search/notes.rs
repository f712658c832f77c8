//! What goes along with queries, states and answers.

use std::path::Path;

use restante_pir::search::SelectorHash;
use restante_tables::Schema;
use restante_wire::{Encode, ParameterId, Reader, WireError};
use zeroize::Zeroizing;

use super::selectors::Written;
use crate::error::CliError;

/// In the clear: for which schema a query is, and how selectors are hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryNote {
    pub schema: ParameterId,
    pub hash: SelectorHash,
}

impl QueryNote {
    /// The bytes of a note.
    pub const BYTES: usize = 8 + 34;

    pub fn new(schema: &Schema, hash: SelectorHash) -> Self {
        Self { schema: schema.id(), hash }
    }

    /// Schema id (8 bytes), selector hash (34).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.schema.0.to_vec();
        self.hash.encode(&mut out);
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("note of a search query", bytes);
        let note = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(note)
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let schema = ParameterId(reader.array()?);
        Ok(Self { schema, hash: restante_wire::Decode::decode(&(), reader)? })
    }

    /// Refuses a file that is for another schema.
    pub fn check(&self, schema: &Schema, path: &Path) -> Result<(), CliError> {
        let (found, expected) = (self.schema, schema.id());
        if found == expected {
            return Ok(());
        }
        Err(CliError::input(path)(&format!("for schema {found}, the one given is {expected}")))
    }
}

/// What a querier keeps: the same, and the selectors as they were written. Secret.
pub struct StateNote {
    pub query: QueryNote,
    pub selectors: Vec<Written>,
}

impl StateNote {
    /// The query's note, number of selectors (4), then for each its text and what is hashed, each after its length (4).
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(self.query.to_bytes());
        out.extend_from_slice(&(self.selectors.len() as u32).to_le_bytes());
        for (text, hashed) in &self.selectors {
            for bytes in [text.as_bytes(), hashed] {
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
        }
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("note of a search state", bytes);
        let query = QueryNote::decode(&mut reader)?;
        let count = reader.u32()?;
        let mut selectors = Vec::new();
        for _ in 0..count {
            let length = reader.u32()? as usize;
            let text = String::from_utf8_lossy(reader.bytes(length)?).into_owned();
            let length = reader.u32()? as usize;
            selectors.push((text, reader.bytes(length)?.to_vec()));
        }
        reader.finish()?;
        Ok(Self { query, selectors })
    }
}

/// In the clear: what became of a window's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerNote {
    pub records: u64,
    pub unselected: u64,
    pub malformed: u64,
    /// Records that limits cut off, over all buckets.
    pub dropped: u64,
}

impl AnswerNote {
    /// The bytes of a note.
    pub const BYTES: usize = 32;

    pub fn to_bytes(self) -> Vec<u8> {
        [self.records, self.unselected, self.malformed, self.dropped]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect()
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("note of a search answer", bytes);
        let note = Self {
            records: reader.u64()?,
            unselected: reader.u64()?,
            malformed: reader.u64()?,
            dropped: reader.u64()?,
        };
        reader.finish()?;
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_pir::search::SelectorKind;

    use super::*;

    #[test]
    fn notes_read_back_and_nothing_else_does() {
        let hash = SelectorHash::new(SelectorKind::Bytes, 12, [3; 32]).unwrap();
        let query = QueryNote { schema: ParameterId([7; 8]), hash };
        let bytes = query.to_bytes();
        assert_eq!(bytes.len(), QueryNote::BYTES);
        assert_eq!(QueryNote::from_bytes(&bytes).unwrap(), query);
        assert!(QueryNote::from_bytes(&bytes[1..]).is_err());

        let selectors = vec![(String::new(), Vec::new()), ("\u{e9}".into(), vec![0, 255])];
        let state = StateNote { query: query.clone(), selectors: selectors.clone() };
        let bytes = state.to_bytes();
        let read = StateNote::from_bytes(&bytes).unwrap();
        assert_eq!((read.query, read.selectors), (query, selectors));
        for cut in 0..bytes.len() {
            assert!(StateNote::from_bytes(&bytes[..cut]).is_err());
        }

        let answer = AnswerNote { records: 1, unselected: 2, malformed: 3, dropped: u64::MAX };
        assert_eq!(answer.to_bytes().len(), AnswerNote::BYTES);
        assert_eq!(AnswerNote::from_bytes(&answer.to_bytes()).unwrap(), answer);
    }
}
