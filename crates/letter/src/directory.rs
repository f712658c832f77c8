//! A directory: names and addresses, searched without telling the relay for which name.
//!
//! For private search a directory is a table like any other, with this schema (docs/search.md):
//!
//! ```toml
//! [selector]
//! field = "name"
//! fold = "ascii-case"
//! [[return]]
//! field = "name"
//! type = "text"
//! [[return]]
//! field = "address"
//! type = "bytes"
//! ```

use restante_pir::{
    PirError,
    search::{AnswerNote, FieldKind, Layout, Preset, QueryNote, SelectorHash, SelectorKind, Shape, Value},
};
use restante_wire::{ParameterId, relay::DirectoryInfo};

use crate::{Address, Contact, LetterError, contact::check_text};

/// The longest name in bytes.
pub const MAX_NAME_BYTES: usize = Contact::MAX_TEXT_BYTES;
/// Bytes of the note in the clear that goes with a query.
pub const QUERY_NOTE_BYTES: usize = QueryNote::HEAD_BYTES;
/// Bytes of the note that goes with an answer.
pub const ANSWER_NOTE_BYTES: usize = AnswerNote::BYTES;
/// The most columns of a directory: what keeps an answer below 21 MB.
pub const MAX_COLUMNS: u32 = 256;

/// A name and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    name: String,
    address: Address,
}

impl Entry {
    /// An entry.
    ///
    /// # Errors
    ///
    /// As for [`selector`].
    pub fn new(name: &str, address: Address) -> Result<Self, LetterError> {
        selector(name)?;
        Ok(Self { name: name.into(), address })
    }

    /// The name as it is written in the directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The record that comes back for the name.
    ///
    /// # Errors
    ///
    /// [`LetterError::Entry`] if it is too large, which no address is.
    pub fn to_record(&self) -> Result<Vec<u8>, LetterError> {
        let values = [Value::Text(self.name.clone()), Value::Bytes(self.address.to_file())];
        let mut record = Vec::new();
        layout().and_then(|layout| layout.encode(&values, &mut record)).map_err(refuse)?;
        Ok(record)
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`LetterError`] for what is no record, or holds no name or no address.
    pub fn from_record(record: &[u8]) -> Result<Self, LetterError> {
        let values = layout().and_then(|layout| layout.decode(record)).map_err(refuse)?;
        match values.as_slice() {
            [Value::Text(name), Value::Bytes(file)] => Self::new(name, Address::from_file(file)?),
            _ => Err(LetterError::Entry { reason: "name or address is missing, expected both".into() }),
        }
    }
}

/// The bytes that are hashed for a name: its UTF-8, with A to Z as a to z. No other letter is folded, and
/// nothing normalised: "É" is not "é", and "é" in one character is not "é" in two.
///
/// # Errors
///
/// [`LetterError::Text`] for names that are empty, longer than [`MAX_NAME_BYTES`], or hold control characters.
pub fn selector(name: &str) -> Result<Vec<u8>, LetterError> {
    check_text("name", name)?;
    Ok(name.to_ascii_lowercase().into_bytes())
}

/// The id of the schema above.
///
/// # Errors
///
/// None: the fields are fixed.
pub fn schema() -> Result<ParameterId, PirError> {
    Ok(QueryNote::schema_id(&layout()?, Some(("name", FieldKind::Text, "AsciiCase"))))
}

/// The note that goes with every query in the clear. The schema is fixed, so it says no agreement.
///
/// # Errors
///
/// As for [`schema`].
pub fn query_note(hash: &SelectorHash) -> Result<Vec<u8>, PirError> {
    Ok(QueryNote { schema: schema()?, hash: hash.clone(), agreement: String::new() }.to_bytes())
}

/// How the names of a directory are hashed, and the shape that every query to it has.
///
/// # Errors
///
/// [`PirError::Size`] for a number of hash bits that there cannot be.
pub fn query_shape(info: &DirectoryInfo) -> Result<(SelectorHash, Shape), PirError> {
    let hash = SelectorHash::new(SelectorKind::Bytes, info.hash_bits, info.hash_key.0)?;
    Ok((hash, Shape::new(info.hash_bits, 1)?))
}

/// The lattice parameters of queries.
pub fn preset() -> Preset {
    Preset::standard()
}

fn layout() -> Result<Layout, PirError> {
    Layout::new(vec![("name".into(), FieldKind::Text), ("address".into(), FieldKind::Bytes)])
}

fn refuse(error: PirError) -> LetterError {
    LetterError::Entry { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;
    use crate::address::test_address;

    #[test]
    fn entries_read_back_and_every_cut_is_refused() {
        let entry = Entry::new("Zoë", test_address()).unwrap();
        let record = entry.to_record().unwrap();
        assert_eq!(Entry::from_record(&record).unwrap(), entry);
        for length in 0..record.len() {
            assert!(Entry::from_record(&record[..length]).is_err(), "{length}");
        }
        let mut null = Vec::new();
        layout().unwrap().encode(&[Value::Text("a".into()), Value::Null], &mut null).unwrap();
        assert!(matches!(Entry::from_record(&null), Err(LetterError::Entry { .. })));
    }

    #[test]
    fn the_schema_has_its_id() {
        // As `restante search plan` says it for the schema above.
        assert_eq!(schema().unwrap().to_string(), "9a45ee22dec66326");
    }

    #[test]
    fn only_ascii_letters_are_folded() {
        assert_eq!(selector("ALICE Ärger").unwrap(), "alice Ärger".as_bytes());
        assert_ne!(selector("\u{e9}").unwrap(), selector("e\u{301}").unwrap());
        for wrong in ["", "a\nb", &"x".repeat(256)] {
            assert_eq!(selector(wrong).unwrap_err(), LetterError::Text { what: "name" });
        }
    }
}
