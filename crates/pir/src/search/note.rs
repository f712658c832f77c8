//! Notes: the little that goes along with queries, states and answers. A querier and a responder agree by them, and nothing else defines them.

use restante_wire::{Decode, Encode, ParameterId, Reader, WireError};
use zeroize::Zeroizing;

use crate::search::{FieldKind, Layout, SelectorHash};

/// In the clear beside a query: for which schema it is, and how selectors are hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryNote {
    /// The schema's id.
    pub schema: ParameterId,
    /// How selectors are hashed.
    pub hash: SelectorHash,
    /// The things that the schema's id covers, in words, so that another schema can say where it differs.
    /// Empty in older files, and where the schema is fixed.
    pub agreement: String,
}

impl QueryNote {
    /// The longest agreement that goes along; a longer one is cut, as it is only there for messages.
    pub const MAX_AGREEMENT_BYTES: usize = 16 << 10;
    /// The bytes of a note before its agreement.
    pub const HEAD_BYTES: usize = 8 + 34;

    /// A note; whole lines are cut off an agreement that is too long.
    pub fn new(schema: ParameterId, hash: SelectorHash, agreement: &str) -> Self {
        Self { schema, hash, agreement: Self::cut(agreement).into() }
    }

    /// The id of a schema: the layout of what comes back, and the selector, which is a field's name, kind and
    /// way of folding (`Exact`, `AsciiCase`), or `None` for the record's number.
    pub fn schema_id(layout: &Layout, selector: Option<(&str, FieldKind, &str)>) -> ParameterId {
        let selector = match selector {
            None => "number".into(),
            // The length keeps a name from passing for another and a kind.
            Some((name, kind, fold)) => format!("field {} {name} {} {fold}", name.len(), kind.name()),
        };
        ParameterId::of(&format!("restante/1/search/schema\n{}\n{selector}", layout.id()))
    }

    /// The bytes of a note with an agreement.
    pub fn bytes(agreement: &str) -> usize {
        Self::HEAD_BYTES + Self::cut(agreement).len()
    }

    fn cut(mut agreement: &str) -> &str {
        while agreement.len() > Self::MAX_AGREEMENT_BYTES {
            agreement = &agreement[..agreement.rfind('\n').unwrap_or(0)];
        }
        agreement
    }

    /// Schema id (8 bytes), selector hash (34), agreement (the rest).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.head();
        out.extend_from_slice(self.agreement.as_bytes());
        out
    }

    /// Reads what [`QueryNote::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`WireError`] for fewer bytes, hashes that there are not, and an agreement that is no UTF-8.
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
        let hash = SelectorHash::decode(&(), reader)?;
        Ok(Self { schema, hash, agreement: String::new() })
    }
}

/// Reads the rest as text.
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

/// A selector as it was written, and the bytes of it that are hashed.
pub type WrittenSelector = (String, Vec<u8>);

/// A querier keeps it with its state: the query's note, and the selectors as they were written. Secret.
pub struct StateNote {
    /// The query's note.
    pub query: QueryNote,
    /// The selectors.
    pub selectors: Vec<WrittenSelector>,
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

    /// Reads what [`StateNote::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`WireError`] for fewer bytes, and for texts that are no UTF-8.
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

/// The rows of a window that were searched, and those that were not.
///
/// A search found all there is only if nothing was left out: [`AnswerNote::is_complete`] for the window, and
/// [`Found::is_complete`](crate::search::Found::is_complete) for a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnswerNote {
    /// Rows that were searched.
    pub records: u64,
    /// Rows without a selector, which no search could find.
    pub unselected: u64,
    /// Rows that were not understood and left out: whatever they hold was not searched.
    pub malformed: u64,
    /// The bytes of those rows, as the table has them.
    pub malformed_bytes: u64,
    /// Records that limits cut off, over all buckets.
    pub dropped: u64,
}

impl AnswerNote {
    /// The version of the format. Version 1 was 32 bytes without a version: four of the numbers.
    pub const VERSION: u8 = 2;
    /// The bytes of a note.
    pub const BYTES: usize = 1 + 5 * 8;
    const OLD_BYTES: usize = 4 * 8;

    /// Whether every row of the window was searched.
    pub fn is_complete(&self) -> bool {
        self.malformed == 0 && self.malformed_bytes == 0
    }

    /// The version (1 byte), then the five numbers in their order (8 each).
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = vec![Self::VERSION];
        for number in [self.records, self.unselected, self.malformed, self.malformed_bytes, self.dropped] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Reads what [`AnswerNote::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`WireError`] for another version or length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("note of a search answer", bytes);
        // Version 1 had no version in it.
        let found = match bytes.len() {
            Self::OLD_BYTES => 1,
            _ => reader.u8()?,
        };
        if found != Self::VERSION {
            let reason = match found {
                1 => {
                    "answered by an earlier program, which did not tell what it left out: have the query answered again"
                }
                _ => "use a program of the responder's version",
            };
            let (what, found) = ("the format version of a search answer's note", found.into());
            return Err(WireError::OutOfRange {
                what,
                found,
                expected: format!("{} ({reason})", Self::VERSION),
            });
        }
        let note = Self {
            records: reader.u64()?,
            unselected: reader.u64()?,
            malformed: reader.u64()?,
            malformed_bytes: reader.u64()?,
            dropped: reader.u64()?,
        };
        reader.finish()?;
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;
    use crate::search::SelectorKind;

    #[test]
    fn notes_of_queries_and_states_read_back_and_nothing_else_does() {
        let hash = SelectorHash::new(SelectorKind::Bytes, 12, [3; 32]).unwrap();
        let agreement = "selector\tk\nfield\tt";
        let query = QueryNote::new(ParameterId([7; 8]), hash, agreement);
        let bytes = query.to_bytes();
        assert_eq!(bytes.len(), QueryNote::bytes(agreement));
        assert_eq!(QueryNote::from_bytes(&bytes).unwrap(), query);
        assert!(QueryNote::from_bytes(&bytes[1..]).is_err());
        assert!(QueryNote::from_bytes(&[&bytes[..], &[0xff]].concat()).is_err());
        // Older notes end here.
        assert_eq!(QueryNote::from_bytes(&bytes[..QueryNote::HEAD_BYTES]).unwrap().agreement, "");

        let selectors = vec![(String::new(), Vec::new()), ("\u{e9}".into(), vec![0, 255])];
        let state = StateNote { query: query.clone(), selectors: selectors.clone() };
        let bytes = state.to_bytes();
        let read = StateNote::from_bytes(&bytes).unwrap();
        assert_eq!((read.query, read.selectors), (query, selectors));
        for cut in 0..bytes.len() - agreement.len() {
            assert!(StateNote::from_bytes(&bytes[..cut]).is_err());
        }
        assert!(StateNote::from_bytes(&bytes[..bytes.len() - agreement.len()]).is_ok());
    }

    #[test]
    fn a_long_agreement_is_cut_at_a_line() {
        let hash = SelectorHash::new(SelectorKind::Bytes, 12, [3; 32]).unwrap();
        let agreement = "some line\n".repeat(2000);
        let note = QueryNote::new(ParameterId([7; 8]), hash, &agreement);
        assert_eq!(note.agreement.len(), 16_379);
        assert_eq!(note.to_bytes().len(), QueryNote::bytes(&agreement));
        assert!(agreement.starts_with(&note.agreement) && note.agreement.ends_with("line"));
    }

    #[test]
    fn notes_read_back_and_older_ones_are_named() {
        let note =
            AnswerNote { records: 1, unselected: 2, malformed: 3, malformed_bytes: 4, dropped: u64::MAX };
        let bytes = note.to_bytes();
        assert_eq!(bytes.len(), AnswerNote::BYTES);
        assert_eq!(AnswerNote::from_bytes(&bytes).unwrap(), note);
        for length in 0..bytes.len() {
            assert!(AnswerNote::from_bytes(&bytes[..length]).is_err());
        }
        assert!(AnswerNote::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        // Four numbers, as earlier programs wrote them.
        let error = AnswerNote::from_bytes(&[0; 32]).unwrap_err().to_string();
        assert!(error.contains("version") && error.contains("is 1, expected 2"), "{error}");
        assert!(error.contains("have the query answered again"), "{error}");
    }

    #[test]
    fn a_window_with_rows_left_out_is_not_complete() {
        assert!(AnswerNote { records: 5, unselected: 1, dropped: 9, ..AnswerNote::default() }.is_complete());
        assert!(!AnswerNote { malformed: 1, ..AnswerNote::default() }.is_complete());
        assert!(!AnswerNote { malformed_bytes: 1, ..AnswerNote::default() }.is_complete());
    }
}
