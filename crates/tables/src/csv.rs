//! Comma-separated values (RFC 4180), read strictly.
//!
//! The first row has the names of the columns. A cell in quotes may hold delimiters, line ends and, doubled, quotes. Empty lines
//! are no rows; write `""` for an empty cell in a table of one column. Unlike lenient readers this one refuses a quote inside of a
//! plain cell, anything between a closing quote and the next delimiter, a quote that is never closed, and a row
//! with more or fewer cells than the header: all of these lose records otherwise without a word.
//!
//! A quote that is not closed would take the rows behind it along. So a row that goes on in further lines and comes to no good end
//! (the table ends, the row has more lines or bytes than it may, a quote inside of it is stray, or it comes to another number of
//! cells than the header) is malformed in its *first line alone*, and reading resumes with the second: one bad quote costs one line. The lines of a row that is not complete yet are
//! kept for that; each line is looked at again at most as many times as a row may have lines.

use std::collections::VecDeque;
use std::mem;
use std::time::Instant;

use restante_pir::search::{FieldKind, Value};

use crate::TableError;
use crate::lines::{Line, Lines, MAX_ROW_BYTES, Source};
use crate::rows::{Next, Origin, Rows};
use crate::schema::{Schema, Selector};
use crate::value::parse_value;

/// The most columns of a table.
const MAX_COLUMNS: usize = 1 << 14;

/// The rows of a CSV file or stream.
pub struct CsvRows {
    schema: Schema,
    origin: Origin,
    lines: Lines,
    /// Lines that were read and have to be looked at again.
    again: VecDeque<Numbered>,
    splitter: Splitter,
    /// The lines of the row being read.
    row: Vec<Numbered>,
    /// The bytes of those lines.
    row_bytes: u64,
    columns: Option<Columns>,
}

/// A line, its number and its size as it is written.
struct Numbered {
    number: u64,
    written: u64,
    /// `None` if it is too long.
    text: Option<Vec<u8>>,
}

/// The cells of a row, where it starts and its bytes.
struct Cells {
    start: u64,
    bytes: u64,
    cells: Vec<Cell>,
}

/// Where in a row the fields are that the schema asks for: the selector, if it is a field, then those that come back.
struct Columns {
    count: usize,
    places: Vec<usize>,
}

impl CsvRows {
    /// Reads rows from `source`; `input` names it in errors.
    pub fn new(schema: &Schema, input: &str, source: Box<dyn Source>) -> Self {
        Self {
            schema: schema.clone(),
            origin: Origin::new(input, "line"),
            lines: Lines::new(input, source),
            again: VecDeque::new(),
            splitter: Splitter::new(schema.csv().delimiter, MAX_COLUMNS),
            row: Vec::new(),
            row_bytes: 0,
            columns: None,
        }
    }

    /// The next line, or what else there is.
    fn line(&mut self, deadline: Option<Instant>) -> Result<Result<Numbered, Next>, TableError> {
        if let Some(line) = self.again.pop_front() {
            return Ok(Ok(line));
        }
        let text = match self.lines.next(deadline)? {
            Line::Pause => return Ok(Err(Next::Pause)),
            Line::End => return Ok(Err(Next::End)),
            Line::Overlong => None,
            Line::Text(text) => Some(text),
        };
        Ok(Ok(Numbered { number: self.lines.number(), written: self.lines.written(), text }))
    }

    /// The cells of the next row, or what else there is.
    fn split(&mut self, deadline: Option<Instant>) -> Result<Result<Cells, Next>, TableError> {
        loop {
            let line = match self.line(deadline)? {
                Ok(line) => line,
                Err(Next::End) if !self.row.is_empty() => {
                    let alone = "a quote is opened and not closed, expected a second one";
                    return Err(self.give_up(alone, "the table ends"));
                }
                Err(other) => return Ok(Err(other)),
            };
            if self.row.is_empty() && matches!(line.text.as_deref(), Some(b"" | b"\r")) {
                continue;
            }
            self.row_bytes += line.written;
            let fed = match &line.text {
                _ if self.row.len() as u64 == u64::from(self.schema.csv().max_lines) => {
                    Err("that is more lines than the schema's max-lines".into())
                }
                None => Err(too_long()),
                Some(_) if self.row_bytes > MAX_ROW_BYTES as u64 => Err(too_long()),
                Some(text) => self.splitter.feed(text),
            };
            self.row.push(line);
            match fed {
                Ok(None) => {}
                Ok(Some(cells)) => {
                    // Of several lines, that is a quote at a wrong place as often as not.
                    if let Some(count) = self.columns.as_ref().map(|columns| columns.count)
                        && count != cells.len()
                    {
                        let reason = format!("{} cells, expected {count}", cells.len());
                        return Err(self.give_up(&reason, &reason));
                    }
                    let start = self.row[0].number;
                    self.row.clear();
                    return Ok(Ok(Cells { start, bytes: mem::take(&mut self.row_bytes), cells }));
                }
                Err(reason) => return Err(self.give_up(&reason, &reason)),
            }
        }
    }

    /// The row being read is malformed in its first line; what follows is looked at again. `alone` says why of a row of one line,
    /// `reason` of one of several.
    fn give_up(&mut self, alone: &str, reason: &str) -> TableError {
        self.splitter.reset();
        self.row_bytes = 0;
        let mut row = mem::take(&mut self.row).into_iter();
        let Some(first) = row.next() else {
            return self.origin.skip(self.lines.number(), 0, reason.into());
        };
        let more = row.len();
        let last = row.as_slice().last().map_or(first.number, |line| line.number);
        row.rev().for_each(|line| self.again.push_front(line));
        let reason = match more {
            0 => alone.to_owned(),
            _ => format!(
                "a quote is opened and not closed as it should be in this and the {more} lines after it (up to line {last}: \
                 {reason}), expected a second one; reading resumes at line {}",
                first.number + 1
            ),
        };
        self.origin.skip(first.number, first.written, reason)
    }

    fn find_columns(&self, header: &[Cell]) -> Result<Columns, TableError> {
        let selector = match self.schema.selector() {
            Selector::Number => None,
            Selector::Field { name, .. } => Some(name),
        };
        // Without a selector field, place 0 is never looked at.
        let mut places = if selector.is_none() { vec![0] } else { Vec::new() };
        for name in selector.into_iter().chain(self.schema.layout().fields().iter().map(|(name, _)| name)) {
            let mut found =
                header.iter().enumerate().filter(|(_, cell)| cell.bytes == name.as_bytes()).map(|(i, _)| i);
            let reason = match (found.next(), found.next()) {
                (Some(place), None) => {
                    places.push(place);
                    continue;
                }
                (None, _) => format!("no column {name:?}, expected one of that name in the first row"),
                (Some(_), Some(_)) => format!("two columns {name:?}, expected one"),
            };
            return Err(TableError::Table { input: self.origin.input.clone(), reason });
        }
        Ok(Columns { count: header.len(), places })
    }
}

impl Rows for CsvRows {
    fn next(&mut self, deadline: Option<Instant>) -> Result<Next, TableError> {
        if self.columns.is_none() {
            let header = match self.split(deadline) {
                Ok(Ok(header)) => header.cells,
                Ok(Err(other)) => return Ok(other),
                // Without a header there are no rows.
                Err(error @ TableError::Row { .. }) => {
                    return Err(TableError::Table {
                        input: self.origin.input.clone(),
                        reason: format!("the header is malformed: {error}"),
                    });
                }
                Err(error) => return Err(error),
            };
            let columns = self.find_columns(&header)?;
            self.splitter.max_cells = columns.count;
            self.origin = Origin::new(&self.origin.input, self.origin.unit);
            self.columns = Some(columns);
        }
        let Cells { start, bytes, cells } = match self.split(deadline)? {
            Ok(cells) => cells,
            Err(other) => return Ok(other),
        };
        let Some(columns) = &self.columns else { return Ok(Next::End) };
        let null = self.schema.csv().null.as_deref();
        let row = self.origin.row(&self.schema, start, bytes, |field, _, kind| {
            columns
                .places
                .get(field)
                .and_then(|&place| cells.get(place))
                .map_or(Ok(Value::Missing), |cell| cell_value(cell, kind, null))
        })?;
        Ok(Next::Row(row))
    }
}

fn cell_value(cell: &Cell, kind: FieldKind, null: Option<&str>) -> Result<Value, String> {
    let is_text = matches!(kind, FieldKind::Text | FieldKind::Bytes);
    let is_null = null.map(str::as_bytes) == Some(&cell.bytes) || cell.bytes.is_empty() && !is_text;
    if is_null && !cell.quoted {
        return Ok(Value::Null);
    }
    let text = std::str::from_utf8(&cell.bytes).map_err(|_| "not UTF-8 text".to_owned())?;
    parse_value(kind, text)
}

/// A cell of a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Cell {
    bytes: Vec<u8>,
    quoted: bool,
}

/// Cuts rows into cells, line by line.
struct Splitter {
    delimiter: u8,
    max_cells: usize,
    cells: Vec<Cell>,
    cell: Cell,
    state: State,
}

/// Where in a cell the splitter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Plain,
    Quoted,
    /// Behind a quote that closes the cell, or is the first of two.
    Closed,
}

const AFTER_QUOTE: &str = "something follows a closing quote, expected a delimiter or the line's end";
const QUOTE_IN_PLAIN: &str = "a quote in a plain cell, expected the cell in quotes and quotes in it doubled";

impl Splitter {
    fn new(delimiter: u8, max_cells: usize) -> Self {
        let (cells, cell) = (Vec::new(), Cell::default());
        Self { delimiter, max_cells, cells, cell, state: State::Start }
    }

    /// Whether the row goes on in the next line.
    fn is_open(&self) -> bool {
        self.state == State::Quoted
    }

    fn reset(&mut self) {
        *self = Self::new(self.delimiter, self.max_cells);
    }

    /// Takes a line in; the cells, if a row ends with it.
    fn feed(&mut self, line: &[u8]) -> Result<Option<Vec<Cell>>, String> {
        let mut place = 0;
        while let Some(&byte) = line.get(place) {
            // What has no meaning of its own is taken at once.
            let rest = &line[place..];
            let plain = match self.state {
                State::Quoted => rest.iter().position(|&byte| byte == b'"').unwrap_or(rest.len()),
                State::Closed => 0,
                State::Start | State::Plain => {
                    let special = |&byte: &u8| byte == self.delimiter || byte == b'"' || byte == b'\r';
                    rest.iter().position(special).unwrap_or(rest.len())
                }
            };
            if plain > 0 {
                self.cell.bytes.extend_from_slice(&rest[..plain]);
                place += plain;
                if self.state == State::Start {
                    self.state = State::Plain;
                }
                continue;
            }
            place += 1;
            let is_line_end = byte == b'\r' && place == line.len();
            match (self.state, byte) {
                (State::Quoted, _) => self.state = State::Closed,
                _ if is_line_end => {}
                (State::Start, b'"') => {
                    self.cell.quoted = true;
                    self.state = State::Quoted;
                }
                (State::Closed, b'"') => {
                    self.cell.bytes.push(b'"');
                    self.state = State::Quoted;
                }
                (_, byte) if byte == self.delimiter => self.end_cell()?,
                (State::Closed, _) => return Err(AFTER_QUOTE.into()),
                (_, b'"') => return Err(QUOTE_IN_PLAIN.into()),
                _ => {
                    self.cell.bytes.push(byte);
                    self.state = State::Plain;
                }
            }
        }
        if self.is_open() {
            self.cell.bytes.push(b'\n');
            return Ok(None);
        }
        self.end_cell()?;
        let cells = mem::take(&mut self.cells);
        self.reset();
        Ok(Some(cells))
    }

    fn end_cell(&mut self) -> Result<(), String> {
        if self.cells.len() == self.max_cells {
            return Err(format!("more cells than {}, which is what was expected", self.max_cells));
        }
        self.cells.push(mem::take(&mut self.cell));
        self.state = State::Start;
        Ok(())
    }
}

fn too_long() -> String {
    format!("more than {MAX_ROW_BYTES} bytes, expected a shorter row (is a quote not closed?)")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::lines::WholeInput;
    use crate::lines::tests::Script;
    use crate::output::put_cell;

    fn schema(more: &str) -> Schema {
        let text = "[selector]\nfield = 'key'\n[[return]]\nfield = 'text'\ntype = 'text'\nmax-bytes = 100\n\
            [[return]]\nfield = 'number'\ntype = 'integer'\n";
        Schema::parse(&format!("{text}{more}")).unwrap()
    }

    fn read(schema: &Schema, text: &[u8]) -> Vec<Result<Next, String>> {
        let mut rows =
            CsvRows::new(schema, "table", Box::new(WholeInput(std::io::Cursor::new(text.to_vec()))));
        let mut all = Vec::new();
        loop {
            let next = rows.next(None).map_err(|error| error.to_string());
            let end = matches!(next, Ok(Next::End)) || all.len() > 100;
            all.push(next);
            if end {
                return all;
            }
        }
    }

    fn row(selector: &str, text: &str, number: Option<i64>) -> Result<Next, String> {
        let values = vec![Value::Text(text.into()), number.map_or(Value::Null, Value::Integer)];
        Ok(Next::Row(crate::Row { selector: Some(selector.as_bytes().to_vec()), values }))
    }

    #[test]
    fn cells_with_delimiters_quotes_and_line_ends() {
        let text = "number,key,skipped,text\r\n1,a,,plain\r\n\r\n-2,\"b,\"\"c\"\"\",x,\"two\r\nlines\n\"\n,,,\"\"\n3,\u{e9},,\u{1f600}";
        let expected = [
            row("a", "plain", Some(1)),
            row("b,\"c\"", "two\r\nlines\n", Some(-2)),
            row("", "", None),
            row("\u{e9}", "\u{1f600}", Some(3)),
            Ok(Next::End),
        ];
        assert_eq!(read(&schema(""), text.as_bytes()), expected);
    }

    #[test]
    fn malformed_rows_name_their_line_and_what_was_expected() {
        let cases: [(&[u8], &str); 9] = [
            (b"a,x", "line 4: 2 cells, expected 3"),
            (b"a,x,1,2", "line 4: more cells than 3"),
            (b"a,x,one", "line 4: field \"number\": not an integer"),
            (b"a,x,9223372036854775808", "line 4: field \"number\": not an integer"),
            (b"a,x\"y\",1", "line 4: a quote in a plain cell"),
            (b"a,\"x\"y,1", "line 4: something follows a closing quote"),
            (b"a,\xff,1", "line 4: field \"text\": not UTF-8"),
            (b"\xff,x,1", "line 4: field \"key\": not UTF-8"),
            (
                b"a,12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901,1",
                "line 4: field \"text\": 101 bytes, expected at most 100",
            ),
        ];
        for (bad, expected) in cases {
            // The quoted cell before takes two lines; the row behind is read.
            let text = [b"key,text,number\nz,\"\n\",0\n", bad, b"\nb,y,2\n"].concat();
            let all = read(&schema(""), &text);
            assert_eq!(all[0], row("z", "\n", Some(0)));
            let error = all[1].as_ref().unwrap_err();
            assert!(error.starts_with("table, ") && error.contains(expected), "{error}: not {expected}");
            assert_eq!(all[2..], [row("b", "y", Some(2)), Ok(Next::End)]);
        }
        let all = read(&schema(""), b"key,text,number\nb,\"y,2");
        assert!(all[0].as_ref().unwrap_err().contains("line 2: a quote is opened and not closed, expected"));
        assert_eq!(all[1], Ok(Next::End));
    }

    #[test]
    fn a_quote_that_is_not_closed_costs_one_line() {
        // To the table's end; to another quote that is stray then; for more lines than a row may have.
        let plain = |lines: usize| (0..lines).map(|n| format!("k{n},t,{n}\n")).collect::<String>();
        let limit = schema("[csv]\nmax-lines = 20\n");
        for (schema, behind, expected) in [
            (&schema(""), plain(40), "in this and the 40 lines after it (up to line 42: the table ends"),
            (
                &schema(""),
                plain(9) + "q,\"quoted\",1\n" + &plain(9),
                "the 10 lines after it (up to line 12: something follows",
            ),
            (
                &limit,
                plain(40),
                "the 20 lines after it (up to line 22: that is more lines than the schema's max-lines",
            ),
        ] {
            let all = read(schema, format!("key,text,number\na,\"x,1\n{behind}").as_bytes());
            let error = all[0].as_ref().unwrap_err();
            assert!(error.starts_with("table, line 2: ") && error.contains(expected), "{error}");
            assert!(error.ends_with("reading resumes at line 3"), "{error}");
            assert_eq!(all.len(), 2 + behind.lines().count());
            assert_eq!(all[1], row("k0", "t", Some(0)));
            assert!(all[1..].iter().all(Result::is_ok));
        }
        // A row may have as many lines as the schema says.
        let long = format!("key,text,number\na,\"{}\",1\n", "\n".repeat(19));
        assert_eq!(read(&limit, long.as_bytes())[0], row("a", &"\n".repeat(19), Some(1)));
        assert!(read(&limit, long.replace("\"\n", "\"\n\n").as_bytes())[0].is_err());
    }

    #[test]
    fn every_byte_is_in_a_row_or_counted() {
        let text = b"key,text,number\na,\"x,1\r\nb,y,2\n\n\xff,z,3\nc,z\nd,\"\n\",x\ne,z,4";
        let mut rows =
            CsvRows::new(&schema(""), "table", Box::new(WholeInput(std::io::Cursor::new(text.to_vec()))));
        let mut refused = Vec::new();
        let mut good = 0;
        loop {
            match rows.next(None) {
                Ok(Next::Row(_)) => good += 1,
                Ok(_) => break,
                Err(TableError::Row { place, bytes, .. }) => refused.push((place, bytes)),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((good, refused), (2, vec![(2, 8), (5, 6), (6, 4), (7, 8)]));
    }

    #[test]
    fn headers_must_have_the_columns() {
        for (header, expected) in [
            ("key,text", "no column \"number\""),
            ("key,text,number,text", "two columns \"text\""),
            ("key,te\"xt", "header is malformed"),
        ] {
            let all = read(&schema(""), header.as_bytes());
            assert!(all[0].as_ref().unwrap_err().contains(expected), "{all:?}");
        }
        assert_eq!(read(&schema(""), b""), [Ok(Next::End)]);
    }

    #[test]
    fn null_is_what_the_schema_says() {
        let text = b"key;text;number\nNULL;NULL;NULL\n\"NULL\";\"NULL\";1\n";
        let schema = schema("[csv]\ndelimiter = ';'\nnull = 'NULL'\n");
        let all = read(&schema, text);
        let nothing = crate::Row { selector: None, values: vec![Value::Null, Value::Null] };
        assert_eq!(all, [Ok(Next::Row(nothing)), row("NULL", "NULL", Some(1)), Ok(Next::End)]);
    }

    #[test]
    fn a_stream_may_pause_inside_of_a_cell() {
        let pieces =
            [Some("key,te"), None, Some("xt,number\na,\"x\n"), None, Some("y\""), None, Some(",1\n")];
        let mut rows = CsvRows::new(&schema(""), "table", Script::new(&pieces));
        for _ in 0..3 {
            assert_eq!(rows.next(None).unwrap(), Next::Pause);
        }
        assert_eq!(rows.next(None).unwrap(), row("a", "x\ny", Some(1)).unwrap());
        assert_eq!(rows.next(None).unwrap(), Next::End);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(cells in vec(("[ -~\u{e9}\r\n\",;]{0,12}", "[ -~\u{e9}\r\n\",;]{0,12}", any::<i64>()), 0..8)) {
            let mut text = b"key,text,number\n".to_vec();
            for (key, value, number) in &cells {
                put_cell(key, b',', &mut text);
                text.push(b',');
                put_cell(value, b',', &mut text);
                text.extend_from_slice(format!(",{number}\n").as_bytes());
            }
            let mut expected: Vec<_> = cells.iter().map(|(key, text, number)| row(key, text, Some(*number))).collect();
            expected.push(Ok(Next::End));
            prop_assert_eq!(read(&schema(""), &text), expected);
        }
    }
}
