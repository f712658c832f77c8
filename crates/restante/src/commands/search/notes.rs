//! What goes along with queries, states and answers.

use std::path::Path;

use restante_pir::search::SelectorHash;
use restante_tables::Schema;
use restante_wire::{Encode, ParameterId, Reader, WireError};
use zeroize::Zeroizing;

use super::selectors::Written;
use crate::error::CliError;

/// The longest agreement that goes along; a longer one is cut, as it is only there for messages.
const MAX_AGREEMENT_BYTES: usize = 16 << 10;

/// In the clear: for which schema a query is, and how selectors are hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryNote {
    pub schema: ParameterId,
    pub hash: SelectorHash,
    /// What the schema's id covers, in words, so that another schema can say where it differs. Empty in older files.
    pub agreement: String,
}

impl QueryNote {
    pub fn new(schema: &Schema, hash: SelectorHash) -> Self {
        Self { schema: schema.id(), hash, agreement: agreement(schema) }
    }

    /// The bytes of a note for a schema.
    pub fn bytes(schema: &Schema) -> usize {
        8 + 34 + agreement(schema).len()
    }

    /// Schema id (8 bytes), selector hash (34), agreement (the rest).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.head();
        out.extend_from_slice(self.agreement.as_bytes());
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("note of a search query", bytes);
        let mut note = Self::read_head(&mut reader)?;
        note.agreement = rest(reader)?;
        Ok(note)
    }

    fn head(&self) -> Vec<u8> {
        let mut out = self.schema.0.to_vec();
        self.hash.encode(&mut out);
        out
    }

    fn read_head(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let schema = ParameterId(reader.array()?);
        let hash = restante_wire::Decode::decode(&(), reader)?;
        Ok(Self { schema, hash, agreement: String::new() })
    }

    /// Refuses a file that is for another schema.
    pub fn check(&self, schema: &Schema, path: &Path) -> Result<(), CliError> {
        let (found, expected) = (self.schema, schema.id());
        if found == expected {
            return Ok(());
        }
        let differences = match self.agreement.is_empty() {
            true => Vec::new(),
            false => schema.differences(&self.agreement),
        };
        let told = match differences.is_empty() {
            true => String::new(),
            false => format!(": {}", differences.join("; ")),
        };
        Err(CliError::input(path)(&format!(
            "for another schema ({found}) than the one given ({expected}){told}"
        )))
    }
}

fn agreement(schema: &Schema) -> String {
    let mut text = schema.agreement();
    while text.len() > MAX_AGREEMENT_BYTES {
        text.truncate(text.rfind('\n').unwrap_or(0));
    }
    text
}

/// What is left, as text.
fn rest(mut reader: Reader<'_>) -> Result<String, WireError> {
    let left = reader.remaining();
    let text = reader.bytes(left)?.to_vec();
    let wrong = |_| WireError::OutOfRange {
        what: "the number of bytes of a note's agreement that are not UTF-8",
        found: left as u64,
        expected: "none".into(),
    };
    String::from_utf8(text).map_err(wrong)
}

/// What a querier keeps: the same, and the selectors as they were written. Secret.
pub struct StateNote {
    pub query: QueryNote,
    pub selectors: Vec<Written>,
}

impl StateNote {
    /// The query's note without the agreement, number of selectors (4), then for each its text and what is hashed, each after its
    /// length (4); the agreement (the rest).
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(self.query.head());
        out.extend_from_slice(&(self.selectors.len() as u32).to_le_bytes());
        for (text, hashed) in &self.selectors {
            for bytes in [text.as_bytes(), hashed] {
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
        }
        out.extend_from_slice(self.query.agreement.as_bytes());
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("note of a search state", bytes);
        let mut query = QueryNote::read_head(&mut reader)?;
        let count = reader.u32()?;
        let mut selectors = Vec::new();
        for _ in 0..count {
            let length = reader.u32()? as usize;
            let text =
                String::from_utf8(reader.bytes(length)?.to_vec()).map_err(|_| WireError::OutOfRange {
                    what: "the number of selectors in a state that are not UTF-8",
                    found: 1,
                    expected: "none".into(),
                })?;
            let length = reader.u32()? as usize;
            selectors.push((text, reader.bytes(length)?.to_vec()));
        }
        query.agreement = rest(reader)?;
        Ok(Self { query, selectors })
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
        let schema =
            Schema::parse("[selector]\nfield = 'k'\n[[return]]\nfield = 't'\ntype = 'text'\n").unwrap();
        let query = QueryNote::new(&schema, hash);
        let bytes = query.to_bytes();
        assert_eq!(bytes.len(), QueryNote::bytes(&schema));
        assert_eq!(QueryNote::from_bytes(&bytes).unwrap(), query);
        assert!(QueryNote::from_bytes(&bytes[1..]).is_err());
        assert!(QueryNote::from_bytes(&[&bytes[..], &[0xff]].concat()).is_err());
        // Older notes end here.
        assert_eq!(QueryNote::from_bytes(&bytes[..42]).unwrap().agreement, "");

        let selectors = vec![(String::new(), Vec::new()), ("\u{e9}".into(), vec![0, 255])];
        let state = StateNote { query: query.clone(), selectors: selectors.clone() };
        let bytes = state.to_bytes();
        let read = StateNote::from_bytes(&bytes).unwrap();
        assert_eq!((read.query, read.selectors), (query, selectors));
        let agreement = agreement(&schema).len();
        for cut in 0..bytes.len() - agreement {
            assert!(StateNote::from_bytes(&bytes[..cut]).is_err());
        }
        assert!(StateNote::from_bytes(&bytes[..bytes.len() - agreement]).is_ok());
    }

    #[test]
    fn a_mismatch_of_schemas_says_what_differs() {
        let one = "[selector]\nfield = 'k'\n[[return]]\nfield = 't'\ntype = 'text'\n";
        let other = Schema::parse(&one.replace("'text'", "'bytes'")).unwrap();
        let hash = SelectorHash::new(SelectorKind::Bytes, 12, [3; 32]).unwrap();
        let mut note = QueryNote::new(&Schema::parse(one).unwrap(), hash);
        let error = note.check(&other, Path::new("query")).unwrap_err().to_string();
        assert!(
            error.contains("field 1 that comes back is \"t\" (text) there and \"t\" (bytes) here"),
            "{error}"
        );
        note.agreement = String::new();
        let error = note.check(&other, Path::new("query")).unwrap_err().to_string();
        assert!(error.contains("for another schema") && !error.contains("field"), "{error}");
    }
}
