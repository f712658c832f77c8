//! Rows cut into windows, each sorted for the queries.

use std::time::{Duration, Instant};

use restante_pir::search::{Cut, Window, WindowBuilder, WindowLimits};

use crate::TableError;
use crate::rows::{Next, Rows};
use crate::schema::Schema;

/// When a window ends. Whichever comes first counts; without either there is one window, which ends with the table.
///
/// A window also ends when it has as many records as its limits allow: so the memory for a stream is bounded, by what
/// [`WindowBuilder`] says for that many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowRule {
    /// After so many records.
    pub records: Option<u64>,
    /// After so long, counted from the end of the window before. If no row came, the window is empty.
    pub time: Option<Duration>,
    /// Leave malformed rows out and count them, in place of stopping at the first.
    pub skip_malformed: bool,
}

/// A window, sorted.
#[derive(Debug)]
pub struct Filled {
    /// The window's number, counted from 0.
    pub number: u64,
    /// The window for each of the queries, in their order.
    pub windows: Vec<Window>,
    /// The records in it.
    pub records: u64,
    /// Rows that are not in it because they have no selector.
    pub unselected: u64,
    /// Rows that are not in it because they are malformed.
    pub malformed: u64,
    /// The bytes of those rows, as [`TableError::Row`] counts them.
    pub malformed_bytes: u64,
    /// The error of the first of them.
    pub first_malformed: Option<TableError>,
}

/// The windows of a table or a stream.
pub struct Windows<'a> {
    rows: Box<dyn Rows + 'a>,
    schema: Schema,
    cuts: Vec<Cut>,
    limits: WindowLimits,
    rule: WindowRule,
    next: u64,
    ended: bool,
}

impl<'a> Windows<'a> {
    /// Windows of `rows` for the queries that want `cuts`.
    ///
    /// # Errors
    ///
    /// [`TableError::Table`] for windows of no records or no time; [`TableError::Pir`] for limits or chunk sizes that are not allowed.
    pub fn new(
        rows: Box<dyn Rows + 'a>,
        schema: &Schema,
        cuts: &[Cut],
        limits: WindowLimits,
        rule: WindowRule,
    ) -> Result<Self, TableError> {
        if rule.records == Some(0) || rule.time == Some(Duration::ZERO) || limits.records == 0 {
            return Err(TableError::Table {
                input: "the windows".into(),
                reason: "no records or no time, expected at least one".into(),
            });
        }
        WindowBuilder::new(cuts, limits.clone())?;
        let (schema, cuts) = (schema.clone(), cuts.to_vec());
        Ok(Self { rows, schema, cuts, limits, rule, next: 0, ended: false })
    }

    /// The next window; none after the table's end. A table without rows has one window, an empty one; behind others there is none
    /// that is empty only because the table ended.
    ///
    /// # Errors
    ///
    /// The errors of a row, of the file and of the sorting of records. The windows are over then.
    pub fn next_window(&mut self) -> Result<Option<Filled>, TableError> {
        if self.ended {
            return Ok(None);
        }
        let window = self.fill();
        self.ended |= window.is_err();
        window
    }

    fn fill(&mut self) -> Result<Option<Filled>, TableError> {
        let deadline = self.rule.time.and_then(|time| Instant::now().checked_add(time));
        let mut builder = WindowBuilder::new(&self.cuts, self.limits.clone())?;
        let (mut unselected, mut malformed, mut malformed_bytes, mut first_malformed) = (0, 0, 0, None);
        let mut record = Vec::new();
        while !builder.is_full() && self.rule.records.is_none_or(|records| builder.records() < records) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let row = match self.rows.next(deadline) {
                Ok(Next::Row(row)) => row,
                Ok(Next::Pause) => break,
                Ok(Next::End) => {
                    self.ended = true;
                    break;
                }
                Err(error @ TableError::Row { bytes, .. }) if self.rule.skip_malformed => {
                    malformed += 1;
                    malformed_bytes += bytes;
                    first_malformed.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(selector) = row.selector else {
                unselected += 1;
                continue;
            };
            record.clear();
            self.schema.layout().encode(&row.values, &mut record)?;
            builder.push(&selector, &record)?;
        }
        let number = self.next;
        let records = builder.records();
        if self.ended && number > 0 && records + unselected + malformed == 0 {
            return Ok(None);
        }
        self.next += 1;
        let windows = builder.seal()?;
        Ok(Some(Filled { number, windows, records, unselected, malformed, malformed_bytes, first_malformed }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_pir::search::{ChunkSource, Reading, SelectorHash, Value};

    use super::*;
    use crate::JsonRows;
    use crate::lines::tests::Script;

    const SCHEMA: &str = "[selector]\nfield = 'key'\n[[return]]\nfield = 'n'\ntype = 'integer'\n";

    fn windows(pieces: &[Option<&str>], limits: WindowLimits, rule: WindowRule) -> Windows<'static> {
        let schema = Schema::parse(SCHEMA).unwrap();
        let hash = SelectorHash::new(schema.selector_kind(), 8, [1; 32]).unwrap();
        let rows = Box::new(JsonRows::new(&schema, "stream", Script::new(pieces)));
        Windows::new(rows, &schema, &[Cut { hash, chunk_bytes: 64 }], limits, rule).unwrap()
    }

    /// The records that a search for "k" finds in a window.
    fn search(filled: &Filled) -> Vec<i64> {
        let window = &filled.windows[0];
        let hash = &window.cut().hash;
        let mut reading = Reading::new(hash, &["k"]);
        if let Ok(place) = window.buckets().binary_search(&hash.locate(b"k").bucket) {
            for column in 0..window.bucket_columns(place) {
                let mut chunk = [0; 64];
                window.read_chunk(place, column, &mut chunk).unwrap();
                reading.push(0, &chunk).unwrap();
            }
        }
        let found = reading.finish().remove(0).unwrap();
        let layout = Schema::parse(SCHEMA).unwrap().layout().clone();
        let values = found.records.iter().map(|record| layout.decode(record).unwrap().remove(0));
        values
            .map(|value| if let Value::Integer(number) = value { number } else { panic!("{value:?}") })
            .collect()
    }

    fn rows(numbers: std::ops::Range<i64>) -> String {
        numbers
            .map(|n| format!("{{\"key\":\"{}\",\"n\":{n}}}\n", if n % 2 == 0 { "k" } else { "x" }))
            .collect()
    }

    fn all(mut windows: Windows<'_>) -> Vec<Vec<i64>> {
        let mut all = Vec::new();
        while let Some(filled) = windows.next_window().unwrap() {
            assert_eq!(filled.number, all.len() as u64);
            all.push(search(&filled));
        }
        all
    }

    #[test]
    fn windows_by_number_meet_without_gap_and_overlap() {
        let text = rows(0..10);
        for (records, expected) in [
            (1, (0..10).map(|n| if n % 2 == 0 { vec![n] } else { vec![] }).collect()),
            (4, vec![vec![0, 2], vec![4, 6], vec![8]]),
            (5, vec![vec![0, 2, 4], vec![6, 8]]),
            (10, vec![vec![0, 2, 4, 6, 8]]),
            (11, vec![vec![0, 2, 4, 6, 8]]),
        ] {
            let rule = WindowRule { records: Some(records), ..WindowRule::default() };
            assert_eq!(all(windows(&[Some(&text)], WindowLimits::default(), rule)), expected);
            // The limit on records ends windows in the same places.
            let limits = WindowLimits { records, ..WindowLimits::default() };
            assert_eq!(all(windows(&[Some(&text)], limits, WindowRule::default())), expected);
        }
    }

    #[test]
    fn windows_by_time_end_at_pauses_even_if_they_are_empty() {
        let [first, second] = [rows(0..3), rows(3..7)];
        let (head, tail) = second.split_at(30);
        let pieces = [Some(&*first), None, None, Some(head), None, Some(tail)];
        let rule = WindowRule { time: Some(Duration::from_secs(1000)), ..WindowRule::default() };
        let found = all(windows(&pieces, WindowLimits::default(), rule));
        // A row whose end had not come belongs to the window in which it comes.
        assert_eq!(found, [vec![0, 2], vec![], vec![], vec![4, 6]]);
    }

    #[test]
    fn rows_without_selector_and_malformed_rows_are_counted() {
        let text = format!("{}{{\"n\":1}}\n{{\"key\":1}}\noops\n{}", rows(0..2), rows(2..4));
        let rule = WindowRule { skip_malformed: true, ..WindowRule::default() };
        let mut skipping = windows(&[Some(&text)], WindowLimits::default(), rule);
        let filled = skipping.next_window().unwrap().unwrap();
        assert_eq!((filled.records, filled.unselected, filled.malformed), (4, 1, 2));
        assert_eq!(filled.malformed_bytes, 10 + 5);
        assert!(filled.first_malformed.as_ref().unwrap().to_string().contains("line 4"));
        assert_eq!(search(&filled), [0, 2]);
        assert!(skipping.next_window().unwrap().is_none());
        let mut strict = windows(&[Some(&text)], WindowLimits::default(), WindowRule::default());
        assert!(strict.next_window().unwrap_err().to_string().contains("line 4"));
        assert!(strict.next_window().unwrap().is_none());
    }

    #[test]
    fn an_empty_table_is_one_empty_window() {
        assert_eq!(all(windows(&[], WindowLimits::default(), WindowRule::default())), [Vec::<i64>::new()]);
    }
}
