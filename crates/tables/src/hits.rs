//! The records that a search found, written with the selector and the window that it belongs to.

use restante_pir::search::{AnswerNote, Found, Value};
use serde_json::{Map, Value as Json};

use crate::output::{CsvOutput, json_record, put_cell};
use crate::{Schema, TableError};

/// How hits are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HitFormat {
    /// An object a line: `window`, `selector`, and `record`, an object.
    JsonLines,
    /// A header, then a row for each hit: window, selector, and the fields that come back.
    Csv,
}

/// Writes hits.
#[derive(Debug)]
pub struct HitWriter {
    schema: Schema,
    format: HitFormat,
    csv: CsvOutput,
    started: bool,
}

impl HitWriter {
    /// Writes records as the schema has them; in CSV with its delimiter and its cell for null.
    pub fn new(schema: &Schema, format: HitFormat) -> Self {
        let null = schema.csv().null.as_deref().unwrap_or_default();
        let csv = CsvOutput::new(schema.csv().delimiter, null);
        Self { schema: schema.clone(), format, csv, started: false }
    }

    /// Appends the hits of `selector` in a window to `out`.
    ///
    /// # Errors
    ///
    /// [`TableError::Pir`] if a record is not what the schema says. None of these hits is appended then.
    pub fn write(
        &mut self,
        window: u64,
        selector: &str,
        found: &Found,
        out: &mut Vec<u8>,
    ) -> Result<(), TableError> {
        let layout = self.schema.layout();
        let records: Result<Vec<Vec<Value>>, _> =
            found.records.iter().map(|record| layout.decode(record)).collect();
        let records = records?;
        let delimiter = self.schema.csv().delimiter;
        if self.format == HitFormat::Csv && !self.started {
            for name in ["window", "selector"] {
                put_cell(name, delimiter, out);
                out.push(delimiter);
            }
            self.csv.write_header(layout, out);
        }
        self.started = true;
        for values in &records {
            match self.format {
                HitFormat::Csv => {
                    put_cell(&window.to_string(), delimiter, out);
                    out.push(delimiter);
                    put_cell(selector, delimiter, out);
                    out.push(delimiter);
                    self.csv.write(values, out);
                }
                HitFormat::JsonLines => {
                    let mut object = named(window, selector);
                    object.insert("record".into(), json_record(layout, values).into());
                    out.extend_from_slice(Json::Object(object).to_string().as_bytes());
                    out.push(b'\n');
                }
            }
        }
        Ok(())
    }
}

/// How many hits there were and whether they are all: what a limit cut off, how many rows of the window were not understood and so
/// not searched, and how many other records shared the bucket.
pub fn hit_summary(window: u64, selector: &str, found: &Found, note: &AnswerNote) -> Map<String, Json> {
    let mut object = named(window, selector);
    object.insert("hits".into(), found.records.len().into());
    object.insert("complete".into(), (found.is_complete() && note.is_complete()).into());
    object.insert("cut_off".into(), found.cut_off.into());
    object.insert("dropped_from_bucket".into(), found.bucket_dropped.into());
    object.insert("others_in_bucket".into(), found.others.into());
    object.insert("records".into(), note.records.into());
    object.insert("skipped_rows".into(), note.malformed.into());
    object.insert("skipped_bytes".into(), note.malformed_bytes.into());
    object.insert("rows_without_selector".into(), note.unselected.into());
    object.insert("dropped_records".into(), note.dropped.into());
    object
}

fn named(window: u64, selector: &str) -> Map<String, Json> {
    let mut object = Map::new();
    object.insert("window".into(), window.into());
    object.insert("selector".into(), selector.into());
    object
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn schema() -> Schema {
        Schema::parse("[selector]\nfield = 'k'\n[[return]]\nfield = 't'\ntype = 'text'\n").unwrap()
    }

    fn found(texts: &[&str]) -> Found {
        let encode = |text: &&str| {
            let mut record = Vec::new();
            schema().layout().encode(&[Value::Text((*text).into())], &mut record).unwrap();
            record
        };
        Found { records: texts.iter().map(encode).collect(), cut_off: 3, bucket_dropped: 4, others: 5 }
    }

    fn written(format: HitFormat) -> String {
        let (mut writer, mut out) = (HitWriter::new(&schema(), format), Vec::new());
        writer.write(0, "a,b", &found(&["1", "\"2\""]), &mut out).unwrap();
        writer.write(0, "c", &found(&[]), &mut out).unwrap();
        writer.write(7, "c", &found(&["3"]), &mut out).unwrap();
        let damaged = Found { records: vec![vec![0xff]], ..Found::default() };
        let length = out.len();
        assert!(writer.write(8, "d", &damaged, &mut out).is_err());
        assert_eq!(out.len(), length);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hits_are_written_with_their_selector() {
        let expected = "window,selector,t\n0,\"a,b\",1\n0,\"a,b\",\"\"\"2\"\"\"\n7,c,3\n";
        assert_eq!(written(HitFormat::Csv), expected);
        let expected = "{\"window\":0,\"selector\":\"a,b\",\"record\":{\"t\":\"1\"}}\n\
            {\"window\":0,\"selector\":\"a,b\",\"record\":{\"t\":\"\\\"2\\\"\"}}\n\
            {\"window\":7,\"selector\":\"c\",\"record\":{\"t\":\"3\"}}\n";
        assert_eq!(written(HitFormat::JsonLines), expected);
        let note = AnswerNote { records: 6, unselected: 7, malformed: 8, malformed_bytes: 9, dropped: 10 };
        let summary = Json::Object(hit_summary(2, "c", &found(&["3"]), &note)).to_string();
        let expected = "{\"window\":2,\"selector\":\"c\",\"hits\":1,\"complete\":false,\"cut_off\":3,\
            \"dropped_from_bucket\":4,\"others_in_bucket\":5,\"records\":6,\"skipped_rows\":8,\"skipped_bytes\":9,\
            \"rows_without_selector\":7,\"dropped_records\":10}";
        assert_eq!(summary, expected);
    }

    #[test]
    fn nothing_is_complete_if_a_row_was_left_out() {
        let whole = Found { records: vec![], ..Found::default() };
        let complete = |found, note| hit_summary(0, "c", found, &note)["complete"].as_bool().unwrap();
        assert!(complete(
            &whole,
            AnswerNote { records: 5, unselected: 2, dropped: 3, ..AnswerNote::default() }
        ));
        assert!(!complete(&whole, AnswerNote { malformed: 1, ..AnswerNote::default() }));
        assert!(!complete(&found(&[]), AnswerNote::default()));
    }
}
