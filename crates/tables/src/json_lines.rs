//! JSON lines: an object a line.
//!
//! A field whose name the object does not have is missing, which is not the same as null. If a name comes
//! twice, the last value counts. Empty lines are no rows.

use std::time::Instant;

use restante_pir::search::{FieldKind, Value};
use serde_json::Value as Json;

use crate::TableError;
use crate::lines::{Line, Lines, MAX_ROW_BYTES, Source};
use crate::rows::{Next, Origin, Rows};
use crate::schema::Schema;
use crate::value::from_hex;

/// The rows of a file or stream of JSON lines.
pub struct JsonRows {
    schema: Schema,
    origin: Origin,
    lines: Lines,
}

impl JsonRows {
    /// Reads rows from `source`; `input` names it in errors.
    pub fn new(schema: &Schema, input: &str, source: Box<dyn Source>) -> Self {
        Self { schema: schema.clone(), origin: Origin::new(input, "line"), lines: Lines::new(input, source) }
    }
}

impl Rows for JsonRows {
    fn next(&mut self, deadline: Option<Instant>) -> Result<Next, TableError> {
        let text = loop {
            match self.lines.next(deadline)? {
                Line::Pause => return Ok(Next::Pause),
                Line::End => return Ok(Next::End),
                Line::Overlong => {
                    let reason = format!("more than {MAX_ROW_BYTES} bytes, expected a shorter line");
                    return Err(self.origin.skip(self.lines.number(), self.lines.written(), reason));
                }
                Line::Text(text) if text.trim_ascii().is_empty() => {}
                Line::Text(text) => break text,
            }
        };
        let (line, bytes) = (self.lines.number(), self.lines.written());
        let object = match serde_json::from_slice(&text) {
            Ok(Json::Object(object)) => object,
            Ok(other) => {
                return Err(self.origin.skip(
                    line,
                    bytes,
                    format!("{}, expected an object", describe(&other)),
                ));
            }
            // The message of the parser may quote what it read.
            Err(error) => {
                let reason = format!("not JSON from column {} on, expected an object", error.column());
                return Err(self.origin.skip(line, bytes, reason));
            }
        };
        let row = self.origin.row(&self.schema, line, bytes, |_, name, kind| {
            object.get(name).map_or(Ok(Value::Missing), |value| convert(value, kind))
        })?;
        Ok(Next::Row(row))
    }
}

fn convert(json: &Json, kind: FieldKind) -> Result<Value, String> {
    let value = match (kind, json) {
        (_, Json::Null) => Some(Value::Null),
        (FieldKind::Text, Json::String(text)) => Some(Value::Text(text.clone())),
        (FieldKind::Bytes, Json::String(text)) => Some(Value::Bytes(from_hex(text)?)),
        (FieldKind::Integer, Json::Number(number)) => number.as_i64().map(Value::Integer),
        (FieldKind::Real, Json::Number(number)) => number.as_f64().map(Value::Real),
        (FieldKind::Boolean, Json::Bool(value)) => Some(Value::Boolean(*value)),
        _ => None,
    };
    let expected = match kind {
        FieldKind::Text => "a string",
        FieldKind::Integer => "a whole number of -2^63 to 2^63 - 1",
        FieldKind::Real => "a number",
        FieldKind::Boolean => "true or false",
        FieldKind::Bytes => "a string of hexadecimal digits",
    };
    value.ok_or_else(|| format!("{}, expected {expected}", describe(json)))
}

fn describe(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;
    use crate::Row;
    use crate::lines::tests::Script;

    fn rows(pieces: &[Option<&str>]) -> JsonRows {
        let text = "[selector]\nfield = 'key'\nfold = 'ascii-case'\n[[return]]\nfield = 'text'\ntype = 'text'\n\
            [[return]]\nfield = 'bytes'\ntype = 'bytes'\n[[return]]\nfield = 'real'\ntype = 'real'\n\
            [[return]]\nfield = 'boolean'\ntype = 'boolean'\n[[return]]\nfield = 'integer'\ntype = 'integer'\n";
        JsonRows::new(&Schema::parse(text).unwrap(), "table", Script::new(pieces))
    }

    #[test]
    fn missing_is_not_null() {
        let text = "{\"key\":\"A\\u00e9\",\"text\":\"\",\"bytes\":\"00Ff\",\"real\":1,\"boolean\":true,\"integer\":-5,\"x\":[]}\r\n\n\
            {\"text\":null}\n{\"key\":null,\"bytes\":\"\"}";
        let mut rows = rows(&[Some(&text[..20]), None, Some(&text[20..])]);
        assert_eq!(rows.next(None).unwrap(), Next::Pause);
        let mut expect = |selector: Option<&str>, values: [Value; 5]| {
            let selector = selector.map(|text| text.as_bytes().to_vec());
            assert_eq!(rows.next(None).unwrap(), Next::Row(Row { selector, values: values.to_vec() }));
        };
        use Value::{Boolean, Bytes, Integer, Missing, Null, Real, Text};
        expect(
            Some("a\u{e9}"),
            [Text(String::new()), Bytes(vec![0, 255]), Real(1.0), Boolean(true), Integer(-5)],
        );
        expect(None, [Null, Missing, Missing, Missing, Missing]);
        expect(None, [Missing, Bytes(vec![]), Missing, Missing, Missing]);
        assert_eq!(rows.next(None).unwrap(), Next::End);
    }

    #[test]
    fn malformed_rows_name_their_line_and_what_was_expected() {
        for (bad, expected) in [
            ("{\"key\":\"secret", "line 2: not JSON from column"),
            ("[\"secret\"]", "line 2: an array, expected an object"),
            ("{\"key\":[\"secret\"]}", "line 2: field \"key\": an array, expected a string"),
            ("{\"integer\":1.5}", "line 2: field \"integer\": a number, expected a whole number"),
            (
                "{\"integer\":9223372036854775808}",
                "line 2: field \"integer\": a number, expected a whole number",
            ),
            ("{\"bytes\":\"0\"}", "line 2: field \"bytes\": not bytes, expected pairs"),
            ("{\"boolean\":\"secret\"}", "line 2: field \"boolean\": a string, expected true or false"),
            ("{\"text\":\"\\ud800\"}", "line 2: not JSON"),
        ] {
            let text = format!("{{}}\n{bad}\n{{}}\n");
            let mut rows = rows(&[Some(&text)]);
            assert!(matches!(rows.next(None), Ok(Next::Row(_))));
            let error = rows.next(None).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}: not {expected}");
            assert!(matches!(rows.next(None), Ok(Next::Row(_))));
            assert_eq!(rows.next(None).unwrap(), Next::End);
        }
    }
}
