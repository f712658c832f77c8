//! Records that came back, as text.

use restante_pir::search::{Layout, Value};
use serde_json::{Map, Number, Value as Json};

use crate::value::to_hex;

/// A record as a JSON object: missing fields are left out, bytes are in hexadecimal, and a real number that JSON cannot hold is the
/// string "NaN", "inf" or "-inf".
pub fn json_record(layout: &Layout, values: &[Value]) -> Map<String, Json> {
    let mut object = Map::new();
    for ((name, _), value) in layout.fields().iter().zip(values) {
        let json = match value {
            Value::Missing => continue,
            Value::Null => Json::Null,
            Value::Text(text) => Json::String(text.clone()),
            Value::Integer(number) => Json::from(*number),
            Value::Real(number) => {
                Number::from_f64(*number).map_or_else(|| Json::String(number.to_string()), Json::Number)
            }
            Value::Boolean(value) => Json::Bool(*value),
            Value::Bytes(bytes) => Json::String(to_hex(bytes)),
        };
        object.insert(name.clone(), json);
    }
    object
}

/// Appends a record as one line of JSON.
pub fn write_json_lines(layout: &Layout, values: &[Value], out: &mut Vec<u8>) {
    out.extend_from_slice(Json::Object(json_record(layout, values)).to_string().as_bytes());
    out.push(b'\n');
}

/// Writes records as CSV. Missing fields and null are both the cell for null.
#[derive(Debug, Clone)]
pub struct CsvOutput {
    delimiter: u8,
    null: String,
}

impl CsvOutput {
    /// With this delimiter, and `null` for null: a text that reads the same is put in quotes. If `null` is empty, texts that are empty
    /// are.
    pub fn new(delimiter: u8, null: &str) -> Self {
        Self { delimiter, null: null.into() }
    }

    /// Appends the names of the fields as a row.
    pub fn write_header(&self, layout: &Layout, out: &mut Vec<u8>) {
        for (place, (name, _)) in layout.fields().iter().enumerate() {
            self.separate(place, out);
            put_cell(name, self.delimiter, out);
        }
        out.push(b'\n');
    }

    /// Appends a record as a row.
    pub fn write(&self, values: &[Value], out: &mut Vec<u8>) {
        for (place, value) in values.iter().enumerate() {
            self.separate(place, out);
            let text = match value {
                Value::Missing | Value::Null => {
                    out.extend_from_slice(self.null.as_bytes());
                    continue;
                }
                Value::Text(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                Value::Real(number) => number.to_string(),
                Value::Boolean(value) => value.to_string(),
                Value::Bytes(bytes) => to_hex(bytes),
            };
            if text == self.null && !text.is_empty() {
                put_quoted(&text, out);
            } else {
                put_cell(&text, self.delimiter, out);
            }
        }
        out.push(b'\n');
    }

    fn separate(&self, place: usize, out: &mut Vec<u8>) {
        if place > 0 {
            out.push(self.delimiter);
        }
    }
}

/// Appends a cell, in quotes if it needs them. An empty one does, where an empty line would be no row.
pub(crate) fn put_cell(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    let plain = |&byte: &u8| byte != delimiter && !b"\"\r\n".contains(&byte);
    if !text.is_empty() && text.as_bytes().iter().all(plain) {
        out.extend_from_slice(text.as_bytes())
    } else {
        put_quoted(text, out)
    }
}

fn put_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_pir::search::FieldKind;

    use super::*;

    #[test]
    fn records_as_text() {
        let kinds =
            [FieldKind::Text, FieldKind::Real, FieldKind::Bytes, FieldKind::Boolean, FieldKind::Integer];
        let fields = kinds.iter().enumerate().map(|(place, &kind)| (format!("f,{place}"), kind));
        let layout = Layout::new(fields.collect()).unwrap();
        let records = [
            [
                Value::Text("a\"b".into()),
                Value::Real(0.5),
                Value::Bytes(vec![0, 255]),
                Value::Boolean(true),
                Value::Integer(-1),
            ],
            [Value::Text(String::new()), Value::Real(f64::NAN), Value::Missing, Value::Null, Value::Null],
            [Value::Text("-".into()), Value::Missing, Value::Missing, Value::Missing, Value::Missing],
        ];
        let (mut json, mut csv) = (Vec::new(), Vec::new());
        let output = CsvOutput::new(b',', "-");
        output.write_header(&layout, &mut csv);
        for values in &records {
            write_json_lines(&layout, values, &mut json);
            output.write(values, &mut csv);
        }
        let expected = "{\"f,0\":\"a\\\"b\",\"f,1\":0.5,\"f,2\":\"00ff\",\"f,3\":true,\"f,4\":-1}\n\
            {\"f,0\":\"\",\"f,1\":\"NaN\",\"f,3\":null,\"f,4\":null}\n{\"f,0\":\"-\"}\n";
        assert_eq!(String::from_utf8(json).unwrap(), expected);
        let expected = "\"f,0\",\"f,1\",\"f,2\",\"f,3\",\"f,4\"\n\"a\"\"b\",0.5,00ff,true,-1\n\"\",NaN,-,-,-\n\"-\",-,-,-,-\n";
        assert_eq!(String::from_utf8(csv).unwrap(), expected);
    }
}
