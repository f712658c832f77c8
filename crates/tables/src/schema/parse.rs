//! Schemas out of TOML.
//!
//! Written out rather than derived, so that every mistake is told at once, with its line, and none with what the file holds: the
//! usual error shows the line that it is about.

use std::ops::Range;

use restante_pir::search::{FieldKind, Layout, MAX_NAME_BYTES};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{CsvOptions, Fold, MAX_FIELD_BYTES, Schema, Selector};

/// The most lines of a row that a schema may allow.
const MAX_LINES: u32 = 1 << 20;
/// The most mistakes that are told.
const MAX_MISTAKES: usize = 10;

/// The mistakes of a schema.
struct Mistakes<'a> {
    text: &'a str,
    found: Vec<String>,
}

impl Mistakes<'_> {
    /// Notes a mistake at a place in the text.
    fn add(&mut self, span: Range<usize>, reason: impl AsRef<str>) {
        let line = 1 + self.text.bytes().take(span.start).filter(|&byte| byte == b'\n').count();
        self.general(format!("line {line}: {}", reason.as_ref()));
    }

    /// Notes a mistake of the whole.
    fn general(&mut self, reason: String) {
        if self.found.len() < MAX_MISTAKES && !self.found.contains(&reason) {
            self.found.push(reason);
        }
    }
}

/// Reads a schema, or says everything that is wrong with it.
pub(super) fn schema(text: &str) -> Result<Schema, Vec<String>> {
    let mut mistakes = Mistakes { text, found: Vec::new() };
    let (file, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        // The message names what the grammar expects; the error's own form would show the line.
        let reason = format!("not TOML: {}", error.message());
        match error.span() {
            Some(span) => mistakes.add(span, reason),
            None => mistakes.general(reason),
        }
    }
    if !errors.is_empty() {
        return Err(mistakes.found);
    }
    let mut root = Table::new("the schema", file.span(), file.get_ref());
    let selector = root.take("selector").and_then(|value| table(value, "selector", &mut mistakes));
    let selector = match selector {
        Some(table) => selector_of(table, &mut mistakes),
        None => {
            mistakes.general("no [selector], expected one with field = \"name\" or number = true".into());
            None
        }
    };
    let mut fields = Vec::new();
    match root.take("return") {
        Some(value) => match value.get_ref() {
            DeValue::Array(array) => {
                fields.extend(array.iter().map(|value| field_of(value, &mut mistakes)));
            }
            _ => mistakes.add(value.span(), "return: expected [[return]] for each field that comes back"),
        },
        None => mistakes.general("no [[return]], expected one for each field that comes back".into()),
    }
    let csv = root.take("csv").and_then(|value| table(value, "csv", &mut mistakes));
    let csv = match csv {
        Some(table) => csv_of(table, &mut mistakes),
        None => CsvOptions { delimiter: b',', null: None, max_lines: CsvOptions::MAX_LINES },
    };
    root.finish("an unknown table or key, expected [selector], [[return]] or [csv]", &mut mistakes);
    if !mistakes.found.is_empty() {
        return Err(mistakes.found);
    }
    let complete: Option<Vec<_>> = fields.into_iter().collect();
    let (Some(selector), Some(fields)) = (selector, complete) else {
        return Err(vec!["the selector or a field is incomplete".into()]);
    };
    let max_bytes = fields.iter().map(|(_, _, max_bytes)| *max_bytes).collect();
    let fields = fields.into_iter().map(|(name, kind, _)| (name, kind)).collect();
    let layout = Layout::new(fields).map_err(|error| vec![error.to_string()])?;
    Ok(Schema { selector, layout, max_bytes, csv })
}

/// A table of a schema, and which of its keys have been looked at.
struct Table<'a> {
    name: &'static str,
    span: Range<usize>,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn new(name: &'static str, span: Range<usize>, table: &'a DeTable<'a>) -> Self {
        Self { name, span, table, known: Vec::new() }
    }

    fn take(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.get(key)
    }

    fn text(&mut self, key: &'static str, mistakes: &mut Mistakes<'_>) -> Option<(&'a str, Range<usize>)> {
        let value = self.take(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some((text, value.span())),
            other => {
                mistakes.add(value.span(), format!("{key} is {}, expected a string", described(other)));
                None
            }
        }
    }

    fn number(
        &mut self,
        key: &'static str,
        allowed: std::ops::RangeInclusive<u32>,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<u32> {
        let value = self.take(key)?;
        let (low, high) = (*allowed.start(), *allowed.end());
        let DeValue::Integer(integer) = value.get_ref() else {
            let found = described(value.get_ref());
            mistakes.add(value.span(), format!("{key} is {found}, expected a number of {low} to {high}"));
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let fitting =
            number.and_then(|number| u32::try_from(number).ok()).filter(|number| allowed.contains(number));
        if fitting.is_none() {
            let found = number.map_or("a long number".into(), |number| number.to_string());
            let expected = if low == 0 { format!("at most {high}") } else { format!("{low} to {high}") };
            mistakes.add(value.span(), format!("{key} is {found}, expected {expected}"));
        }
        fitting
    }

    /// One of some names.
    fn one_of<T: Copy>(
        &mut self,
        key: &'static str,
        names: &[(&'static str, T)],
        mistakes: &mut Mistakes<'_>,
    ) -> Option<T> {
        let (text, span) = self.text(key, mistakes)?;
        let found = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let (last, first) = names.split_last().unwrap_or((&"", &[]));
            mistakes.add(span, format!("{key} is none of {} or {last}", first.join(", ")));
        }
        found
    }

    /// A field's name.
    fn name(&mut self, mistakes: &mut Mistakes<'_>) -> Option<String> {
        let (text, span) = self.text("field", mistakes)?;
        match text.len() {
            0 => mistakes.add(span, "field is empty, expected a name"),
            1..=MAX_NAME_BYTES => return Some(text.into()),
            length => {
                mistakes.add(span, format!("field has {length} bytes, expected at most {MAX_NAME_BYTES}"))
            }
        }
        None
    }

    /// Notes keys that nobody asked for.
    fn finish(self, reason: &str, mistakes: &mut Mistakes<'_>) {
        for key in self.table.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref())) {
            mistakes.add(key.span(), reason);
        }
    }

    /// A mistake about the table as a whole.
    fn wrong(&self, reason: &str, mistakes: &mut Mistakes<'_>) {
        mistakes.add(self.span.clone(), format!("{}: {reason}", self.name));
    }
}

fn table<'a>(
    value: &'a Spanned<DeValue<'a>>,
    name: &'static str,
    mistakes: &mut Mistakes<'_>,
) -> Option<Table<'a>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(Table::new(name, value.span(), table)),
        other => {
            mistakes.add(value.span(), format!("{name} is {}, expected a table", described(other)));
            None
        }
    }
}

fn selector_of(mut table: Table<'_>, mistakes: &mut Mistakes<'_>) -> Option<Selector> {
    let before = mistakes.found.len();
    let number = match table.take("number").map(|value| (value.get_ref(), value.span())) {
        None => false,
        Some((DeValue::Boolean(number), _)) => *number,
        Some((other, span)) => {
            mistakes.add(span, format!("number is {}, expected true or false", described(other)));
            false
        }
    };
    let has_field = table.table.contains_key("field");
    let name = table.name(mistakes);
    let kinds = FieldKind::ALL.map(|kind| (kind.name(), kind));
    let kind = table.one_of("type", &kinds, mistakes);
    let fold = table.one_of("fold", &Fold::ALL.map(|fold| (fold.name(), fold)), mistakes);
    let selector = match (number, has_field) {
        (true, false) => {
            if table.table.contains_key("type") || table.table.contains_key("fold") {
                table.wrong("a number has no type and no fold", mistakes);
            }
            Some(Selector::Number)
        }
        (false, true) => {
            let (kind, fold) = (kind.unwrap_or(FieldKind::Text), fold.unwrap_or(Fold::Exact));
            if matches!(kind, FieldKind::Real | FieldKind::Boolean) {
                let reason = format!("type {}, expected \"text\", \"integer\" or \"bytes\"", kind.name());
                table.wrong(&reason, mistakes);
            }
            if fold != Fold::Exact && kind != FieldKind::Text {
                let reason = format!("a fold for type {}, expected one for text only", kind.name());
                table.wrong(&reason, mistakes);
            }
            name.map(|name| Selector::Field { name, kind, fold })
        }
        _ => {
            table.wrong("expected either field = \"name\" or number = true", mistakes);
            None
        }
    };
    table.finish("an unknown key, expected number, field, type or fold", mistakes);
    selector.filter(|_| mistakes.found.len() == before)
}

/// A field that comes back: its name, its type and its longest value.
fn field_of(value: &Spanned<DeValue<'_>>, mistakes: &mut Mistakes<'_>) -> Option<(String, FieldKind, usize)> {
    let before = mistakes.found.len();
    let mut table = table(value, "return", mistakes)?;
    for key in ["field", "type"] {
        if !table.table.contains_key(key) {
            table.wrong(
                &format!("no {key}, expected field = \"name\" and type = \"text\" or another"),
                mistakes,
            );
        }
    }
    let name = table.name(mistakes);
    let kind = table.one_of("type", &FieldKind::ALL.map(|kind| (kind.name(), kind)), mistakes);
    let max_bytes = table.number("max-bytes", 0..=MAX_FIELD_BYTES as u32, mistakes);
    table.finish("an unknown key, expected field, type or max-bytes", mistakes);
    let complete = (name?, kind?, max_bytes.map_or(MAX_FIELD_BYTES, |bytes| bytes as usize));
    Some(complete).filter(|_| mistakes.found.len() == before)
}

fn csv_of(mut table: Table<'_>, mistakes: &mut Mistakes<'_>) -> CsvOptions {
    let delimiter = match table.text("delimiter", mistakes).map(|(text, span)| (text.as_bytes(), span)) {
        None => b',',
        Some((&[delimiter], _)) if delimiter.is_ascii() && !b"\"\r\n".contains(&delimiter) => delimiter,
        Some((_, span)) => {
            mistakes.add(span, "csv: expected a delimiter of one ASCII character, no quote and no line end");
            b','
        }
    };
    let null = table.text("null", mistakes).map(|(text, _)| text.to_owned());
    let max_lines = table.number("max-lines", 1..=MAX_LINES, mistakes).unwrap_or(CsvOptions::MAX_LINES);
    table.finish("an unknown key, expected delimiter, null or max-lines", mistakes);
    CsvOptions { delimiter, null, max_lines }
}

fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or a time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
