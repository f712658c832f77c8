//! The schema of a table: the field that is the selector, and the fields that come back.
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
//! max-lines = 1000       # the most lines of a row with line ends in quoted cells [1000]
//! ```
//!
//! Text is UTF-8. It is compared byte by byte, after folding if the schema says so: no Unicode normalisation, so that "é" in one
//! character and in two are different selectors. An integer selector is compared as a number. Bytes are written in hexadecimal
//! in CSV, JSON and queries.

use std::fs;
use std::path::Path;

use restante_pir::search::{FieldKind, Layout, QueryNote, SelectorKind, number_selector};
use restante_wire::ParameterId;

use crate::TableError;
use crate::value::{from_hex, parse_integer};

mod parse;

/// The largest schema file in bytes.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;
/// The longest text or string of bytes in a field.
const MAX_FIELD_BYTES: usize = 4 << 20;

/// How text selectors are made comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Not at all.
    Exact,
    /// ASCII letters of both cases are the same.
    AsciiCase,
}

impl Fold {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Exact, Self::AsciiCase];

    /// Its name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::AsciiCase => "ascii-case",
        }
    }

    /// Its name in a schema's id.
    fn id(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::AsciiCase => "AsciiCase",
        }
    }
}

/// The field or number by which a record is found.
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
    /// The byte between cells.
    pub delimiter: u8,
    /// The unquoted cell that means null.
    pub null: Option<String>,
    /// The most lines of a row. A row that goes on for more is malformed in its first line.
    pub max_lines: u32,
}

impl CsvOptions {
    /// The most lines of a row unless the schema says otherwise.
    pub const MAX_LINES: u32 = 1000;
}

/// The field that is the selector, the fields that come back, and how a table is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    selector: Selector,
    layout: Layout,
    max_bytes: Vec<usize>,
    csv: CsvOptions,
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
    /// The mistakes, with their places and what was expected: every mistake that does not follow from
    /// another. It quotes the names of fields and nothing else of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::schema(text).map_err(|mistakes| mistakes.join("; "))
    }

    /// The field or number by which records are found.
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
            Selector::Number => None,
            Selector::Field { name, kind, fold } => Some((name.as_str(), *kind, fold.id())),
        };
        QueryNote::schema_id(&self.layout, selector)
    }

    /// All that the id covers, in words, so that another schema can say where it differs: the selector, then each field that
    /// comes back, a line for each.
    pub fn agreement(&self) -> String {
        let selector = match &self.selector {
            Selector::Number => "number".into(),
            Selector::Field { name, kind, fold } => {
                format!("{}\t{}\t{}", plain(name), kind.name(), fold.name())
            }
        };
        let fields =
            self.layout.fields().iter().map(|(name, kind)| format!("{}\t{}", plain(name), kind.name()));
        [selector].into_iter().chain(fields).collect::<Vec<_>>().join("\n")
    }

    /// Where the schema with that [`Schema::agreement`] differs from this one, in words, each difference on its own.
    /// `agreement` may come from outside; names in it are shown cut and escaped.
    pub fn differences(&self, agreement: &str) -> Vec<String> {
        let own = self.agreement();
        let (mut own, mut other) = (own.split('\n'), agreement.split('\n'));
        let mut differences = Vec::new();
        let (selector, theirs) = (own.next().unwrap_or_default(), other.next().unwrap_or_default());
        if selector != theirs {
            differences.push(format!("the selector is {} there and {} here", shown(theirs), shown(selector)));
        }
        let (own, other): (Vec<&str>, Vec<&str>) = (own.collect(), other.collect());
        for place in 0..own.len().max(other.len()) {
            let number = place + 1;
            match (own.get(place), other.get(place)) {
                (Some(here), Some(there)) if here == there => {}
                (Some(here), Some(there)) => differences.push(format!(
                    "field {number} that comes back is {} there and {} here",
                    shown(there),
                    shown(here)
                )),
                (Some(here), None) => {
                    differences.push(format!("field {number}, {}, is here alone", shown(here)));
                }
                (None, Some(there)) => {
                    differences.push(format!("field {number}, {}, is there alone", shown(there)));
                }
                (None, None) => {}
            }
        }
        differences
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

/// A name without what separates the parts of an agreement.
fn plain(name: &str) -> String {
    name.replace(['\t', '\n'], " ")
}

/// A line of an agreement, cut and escaped.
fn shown(line: &str) -> String {
    const LENGTH: usize = 80;
    let cut = |text: &str| text.chars().take(LENGTH).collect::<String>();
    match line.split_once('\t') {
        Some((name, kind)) => format!("{:?} ({})", cut(name), cut(kind).replace('\t', ", ").escape_debug()),
        None => format!("the record's {}", cut(line).escape_debug()),
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
            (
                "field = 'a'\nkind = 'text'",
                "",
                "line 3: an unknown key, expected number, field, type or fold",
            ),
            (
                "field = 'a'\ntype = 'string'",
                "",
                "line 3: type is none of text, integer, real, boolean or bytes",
            ),
            ("field = 'a'\ntype = 1", "", "line 3: type is an integer, expected a string"),
            ("field = ''", "", "line 2: field is empty"),
            ("field = 'a'", "[other]\n", "an unknown table"),
            ("field = 'a'", "[csv]\nmax-lines = 0", "max-lines is 0, expected 1 to"),
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
        assert!(Schema::parse("[selector]\nfield = 'a'\nreturn = []").unwrap_err().contains("unknown key"));
    }

    #[test]
    fn all_mistakes_of_a_schema_come_at_once() {
        let text = "[selector]\nname = 'a'\n[[return]]\nfield = 'x'\ntype = 'string'\n[[return]]\nfield = 'y'\n\
            type = 'text'\nmax-bytes = -1\n[csv]\ndelimiter = 5\n";
        let error = Schema::parse(text).unwrap_err();
        for expected in [
            "line 2: an unknown key",
            "line 5: type is none",
            "line 9: max-bytes is -1",
            "line 11: delimiter",
        ] {
            assert!(error.contains(expected), "{error}: not {expected}");
        }
    }

    #[test]
    fn another_schema_says_where_it_differs() {
        let one = parse("field = 'email'").unwrap();
        assert_eq!(one.differences(&one.agreement()), Vec::<String>::new());
        let other = Schema::parse(
            "[selector]\nfield = 'mail'\nfold = 'ascii-case'\n[[return]]\nfield = 'name'\ntype = 'bytes'\n\
            [[return]]\nfield = 'age'\ntype = 'integer'\n",
        );
        let expected = [
            "the selector is \"mail\" (text, ascii-case) there and \"email\" (text, exact) here",
            "field 1 that comes back is \"name\" (bytes) there and \"name\" (text) here",
            "field 2, \"age\" (integer), is there alone",
        ];
        assert_eq!(one.differences(&other.unwrap().agreement()), expected);
        // What comes from outside is cut and escaped.
        let strange = format!("\u{1b}{}\ttext\texact\nname\ttext", "x".repeat(1000));
        let shown = one.differences(&strange).remove(0);
        assert!(shown.len() < 200 && !shown.contains('\u{1b}'), "{shown}");
    }
}
