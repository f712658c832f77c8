//! Which field of a record is the selector, and which fields come back.
//!
//! A schema is a small TOML file that responder and querier share:
//!
//! ```toml
//! [selector]
//! field = "email"        # or: number = true, the record's number, counted from 0
//! type = "text"          # text, integer or bytes [text]
//! fold = "ascii-case"    # exact: bytes are compared; ascii-case: A to Z are a to z [exact]
//!
//! [[return]]             # once for each field that comes back, in this order
//! field = "name"
//! type = "text"          # text, integer, real, boolean or bytes
//! max-bytes = 200        # the longest text or string of bytes; a longer one is an error [4194304]
//!
//! [csv]                  # only read for CSV
//! delimiter = ";"        # one ASCII character [,]
//! null = "NULL"          # the cell that means null, if it is not quoted [none]
//! ```
//!
//! Text is UTF-8. It is compared byte by byte, after folding if the schema says so: no Unicode normalisation, so that "é" in one
//! character and in two are different selectors. An integer selector is compared as a number. Bytes are written in hexadecimal
//! in CSV, JSON and queries.

use std::fs;
use std::path::Path;

use restante_pir::search::{FieldKind, Layout, SelectorKind, number_selector};
use restante_wire::ParameterId;
use serde::Deserialize;

use crate::TableError;
use crate::value::{from_hex, parse_integer};

/// The largest schema file in bytes.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;
/// The longest text or string of bytes in a field.
const MAX_FIELD_BYTES: usize = 4 << 20;

/// How text selectors are made comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// Not at all.
    Exact,
    /// ASCII letters of both cases are the same.
    AsciiCase,
}

/// What a record is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Its number in the table, counted from 0.
    Number,
    /// A field.
    Field {
        /// The field's name.
        name: String,
        /// [`FieldKind::Text`], [`FieldKind::Integer`] or [`FieldKind::Bytes`].
        kind: FieldKind,
        /// How texts are compared.
        fold: Fold,
    },
}

/// How CSV is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// What separates cells.
    pub delimiter: u8,
    /// The unquoted cell that means null.
    pub null: Option<String>,
}

/// Which field is the selector, which fields come back, and how a table is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    selector: Selector,
    layout: Layout,
    max_bytes: Vec<usize>,
    csv: CsvOptions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    selector: SelectorTable,
    #[serde(rename = "return")]
    fields: Vec<FieldTable>,
    #[serde(default)]
    csv: CsvTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SelectorTable {
    #[serde(default)]
    number: bool,
    field: Option<String>,
    #[serde(rename = "type")]
    kind: Option<Kind>,
    fold: Option<Fold>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FieldTable {
    field: String,
    #[serde(rename = "type")]
    kind: Kind,
    max_bytes: Option<usize>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct CsvTable {
    delimiter: Option<String>,
    null: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Text,
    Integer,
    Real,
    Boolean,
    Bytes,
}

impl From<Kind> for FieldKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text,
            Kind::Integer => Self::Integer,
            Kind::Real => Self::Real,
            Kind::Boolean => Self::Boolean,
            Kind::Bytes => Self::Bytes,
        }
    }
}

impl Schema {
    /// Reads a schema file.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`]; [`TableError::Schema`], with the line if it is the syntax that is wrong.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let failed = || TableError::io("read", &path.display().to_string());
        let bytes = fs::metadata(path).map_err(failed())?.len();
        let refused = |reason| TableError::Schema { path: path.into(), reason };
        if bytes > MAX_SCHEMA_BYTES {
            return Err(refused(format!("{bytes} bytes, expected a schema of at most {MAX_SCHEMA_BYTES}")));
        }
        let text = fs::read(path).map_err(failed())?;
        let text = String::from_utf8(text).map_err(|_| refused("not UTF-8 text, expected TOML".into()))?;
        Self::parse(&text).map_err(refused)
    }

    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// What is wrong, and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let selector = match (file.selector.number, file.selector.field) {
            (true, None) => {
                if file.selector.kind.is_some() || file.selector.fold.is_some() {
                    return Err("selector: a number has no type and no fold".into());
                }
                Selector::Number
            }
            (false, Some(name)) => {
                let kind = file.selector.kind.map_or(FieldKind::Text, FieldKind::from);
                let fold = file.selector.fold.unwrap_or(Fold::Exact);
                if matches!(kind, FieldKind::Real | FieldKind::Boolean) {
                    return Err(format!(
                        "selector: type {}, expected \"text\", \"integer\" or \"bytes\"",
                        kind.name()
                    ));
                }
                if fold != Fold::Exact && kind != FieldKind::Text {
                    return Err(format!(
                        "selector: a fold for type {}, expected one for text only",
                        kind.name()
                    ));
                }
                Selector::Field { name, kind, fold }
            }
            _ => return Err("selector: expected either field = \"name\" or number = true".into()),
        };
        let mut max_bytes = Vec::new();
        for field in &file.fields {
            let limit = field.max_bytes.unwrap_or(MAX_FIELD_BYTES);
            if limit > MAX_FIELD_BYTES {
                return Err(format!(
                    "field {:?}: max-bytes is {limit}, expected at most {MAX_FIELD_BYTES}",
                    field.field
                ));
            }
            max_bytes.push(limit);
        }
        let fields = file.fields.into_iter().map(|field| (field.field, field.kind.into()));
        let layout = Layout::new(fields.collect()).map_err(|error| error.to_string())?;
        let delimiter = match file.csv.delimiter.as_deref().map(str::as_bytes) {
            None => b',',
            Some(&[delimiter]) if delimiter.is_ascii() && !b"\"\r\n".contains(&delimiter) => delimiter,
            Some(_) => {
                return Err(
                    "csv: expected a delimiter of one ASCII character, no quote and no line end".into()
                );
            }
        };
        Ok(Self { selector, layout, max_bytes, csv: CsvOptions { delimiter, null: file.csv.null } })
    }

    /// What records are found by.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The kind of selector that a query's hash function is made for.
    pub fn selector_kind(&self) -> SelectorKind {
        match self.selector {
            Selector::Number => SelectorKind::Number,
            Selector::Field { .. } => SelectorKind::Bytes,
        }
    }

    /// The fields that come back.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The longest text or string of bytes in field `place` of the layout.
    pub(crate) fn max_bytes(&self, place: usize) -> usize {
        self.max_bytes.get(place).copied().unwrap_or(MAX_FIELD_BYTES)
    }

    /// How CSV is written.
    pub fn csv(&self) -> &CsvOptions {
        &self.csv
    }

    /// Names what responder and querier must agree on: the selector and the layout, not the limits and how the table is written.
    pub fn id(&self) -> ParameterId {
        let selector = match &self.selector {
            Selector::Number => "number".into(),
            Selector::Field { name, kind, fold } => {
                format!("field {} {name} {} {fold:?}", name.len(), kind.name())
            }
        };
        ParameterId::of(&format!("restante/1/search/schema\n{}\n{selector}", self.layout.id()))
    }

    /// The selector that a querier writes as `text`; `place` is where it stands in the query, for the error.
    ///
    /// # Errors
    ///
    /// [`TableError::Selector`] if it is not of the schema's type. The text is not in the error.
    pub fn selector_of(&self, place: usize, text: &str) -> Result<Vec<u8>, TableError> {
        let parsed = match &self.selector {
            Selector::Number => text
                .parse::<u64>()
                .map(|number| number_selector(number).to_vec())
                .map_err(|_| "not a record's number, expected digits".to_owned()),
            Selector::Field { kind: FieldKind::Integer, .. } => parse_integer(text).map(integer_selector),
            Selector::Field { kind: FieldKind::Bytes, .. } => from_hex(text),
            Selector::Field { fold, .. } => Ok(fold_text(text.to_owned(), *fold)),
        };
        parsed.map_err(|reason| TableError::Selector { place, reason })
    }
}

/// An integer as a selector: its decimal form.
pub(crate) fn integer_selector(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// A text as a selector.
pub(crate) fn fold_text(mut text: String, fold: Fold) -> Vec<u8> {
    if fold == Fold::AsciiCase {
        text.make_ascii_lowercase();
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    const RETURN: &str = "[[return]]\nfield = \"name\"\ntype = \"text\"\nmax-bytes = 9\n";

    fn parse(selector: &str) -> Result<Schema, String> {
        Schema::parse(&format!("[selector]\n{selector}\n{RETURN}"))
    }

    #[test]
    fn selectors_are_compared_as_the_schema_says() {
        let exact = parse("field = 'email'").unwrap();
        assert_eq!(exact.selector_of(0, "É a B").unwrap(), "É a B".as_bytes());
        let folded = parse("field = 'email'\nfold = 'ascii-case'").unwrap();
        assert_eq!(folded.selector_of(0, "É a B").unwrap(), "É a b".as_bytes());
        let integer = parse("field = 'age'\ntype = 'integer'").unwrap();
        assert_eq!(integer.selector_of(0, "-7").unwrap(), b"-7");
        assert_eq!(integer.selector_of(0, "007").unwrap(), b"7");
        let bytes = parse("field = 'hash'\ntype = 'bytes'").unwrap();
        assert_eq!(bytes.selector_of(0, "00fF").unwrap(), [0, 255]);
        let number = parse("number = true").unwrap();
        assert_eq!(number.selector_of(0, "258").unwrap(), number_selector(258));
        assert_eq!(number.selector_kind(), SelectorKind::Number);
        for (schema, text) in
            [(&integer, "secret"), (&bytes, "secre"), (&bytes, "secret"), (&number, "-1secret")]
        {
            let error = schema.selector_of(3, text).unwrap_err().to_string();
            assert!(error.starts_with("selector 3 ") && !error.contains("secre"), "{error}");
        }
    }

    #[test]
    fn what_is_shared_decides_the_id() {
        let one = parse("field = 'email'").unwrap();
        for other in ["field = 'mail'", "number = true", "field = 'email'\nfold = 'ascii-case'"] {
            assert_ne!(one.id(), parse(other).unwrap().id());
        }
        let csv = Schema::parse(&format!("[selector]\nfield = 'email'\n{RETURN}[csv]\ndelimiter = ';'"));
        assert_eq!(one.id(), csv.unwrap().id());
    }

    #[test]
    fn malformed_schemas_are_refused_with_what_was_expected() {
        let long = "[[return]]\nfield = \"x\"\ntype = \"bytes\"\nmax-bytes = 4194305\n";
        let cases = [
            ("field = 'a'\nnumber = true", "", "expected either"),
            ("", "", "expected either"),
            ("field = 'a'\ntype = 'real'", "", "expected \"text\", \"integer\" or \"bytes\""),
            ("field = 'a'\ntype = 'integer'\nfold = 'ascii-case'", "", "text only"),
            ("number = true\ntype = 'text'", "", "no type"),
            ("field = 'a'\nkind = 'text'", "", "unknown field"),
            ("field = 'a'\ntype = 'string'", "", "unknown variant"),
            ("field = 'a'", RETURN, "two of that name"),
            ("field = 'a'", long, "at most 4194304"),
            ("field = 'a'", "[csv]\ndelimiter = ';;'", "one ASCII character"),
            ("field = 'a'", "[csv]\ndelimiter = '\"'", "no quote"),
        ];
        for (selector, more, expected) in cases {
            let error = Schema::parse(&format!("[selector]\n{selector}\n{RETURN}{more}")).unwrap_err();
            assert!(error.contains(expected), "{error} does not say {expected}");
        }
        assert!(Schema::parse("[selector]\nfield = 'a'\n[[return").unwrap_err().contains("line 3"));
        assert!(Schema::parse("[selector]\nfield = 'a'\nreturn = []").unwrap_err().contains("unknown field"));
    }
}
