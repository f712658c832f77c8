//! Comma-separated values (RFC 4180), read strictly.
//!
//! The first row has the names of the columns. A cell in quotes may hold delimiters, line ends and, doubled, quotes. Empty lines
//! are no rows; write `""` for an empty cell in a table of one column. Unlike lenient readers this one refuses a quote inside of a
//! plain cell, anything between a closing quote and the next delimiter, a quote that is never closed, and a row
//! with more or fewer cells than the header: all of these lose records otherwise without a word.

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
    splitter: Splitter,
    /// The line in which the row being read started.
    start: u64,
    columns: Option<Columns>,
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
            splitter: Splitter::new(schema.csv().delimiter, MAX_COLUMNS),
            start: 0,
            columns: None,
        }
    }

    /// The cells of the next row, or what else there is.
    fn split(&mut self, deadline: Option<Instant>) -> Result<Result<Vec<Cell>, Next>, TableError> {
        loop {
            let fed = match self.lines.next(deadline)? {
                Line::Pause => return Ok(Err(Next::Pause)),
                Line::End if self.splitter.is_open() => {
                    self.splitter.reset();
                    let reason = "a quote is opened and not closed, expected a second one";
                    return Err(self.origin.skip(self.start, reason.into()));
                }
                Line::End => return Ok(Err(Next::End)),
                Line::Overlong => Err(too_long()),
                Line::Text(text) => {
                    if !self.splitter.is_open() {
                        self.start = self.lines.number();
                        if matches!(text.as_slice(), b"" | b"\r") {
                            continue;
                        }
                    }
                    self.splitter.feed(&text)
                }
            };
            match fed {
                Ok(None) => {}
                Ok(Some(cells)) => return Ok(Ok(cells)),
                Err(reason) => {
                    if !self.splitter.is_open() {
                        self.start = self.lines.number();
                    }
                    self.splitter.reset();
                    return Err(self.origin.skip(self.start, reason));
                }
            }
        }
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
                Ok(Ok(header)) => header,
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
        let cells = match self.split(deadline)? {
            Ok(cells) => cells,
            Err(other) => return Ok(other),
        };
        let Some(columns) = &self.columns else { return Ok(Next::End) };
        if cells.len() != columns.count {
            let reason = format!("{} cells, expected {}", cells.len(), columns.count);
            return Err(self.origin.skip(self.start, reason));
        }
        let null = self.schema.csv().null.as_deref();
        let row = self.origin.row(&self.schema, self.start, |field, _, kind| {
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
    bytes: usize,
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

impl Splitter {
    fn new(delimiter: u8, max_cells: usize) -> Self {
        let (cells, cell) = (Vec::new(), Cell::default());
        Self { delimiter, max_cells, cells, cell, state: State::Start, bytes: 0 }
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
        self.bytes += line.len() + 1;
        if self.bytes > MAX_ROW_BYTES {
            return Err(too_long());
        }
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
                (State::Closed, _) => {
                    return Err(
                        "something follows a closing quote, expected a delimiter or the line's end".into()
                    );
                }
                (_, b'"') => {
                    return Err(
                        "a quote in a plain cell, expected the cell in quotes and quotes in it doubled"
                            .into(),
                    );
                }
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
            let end = matches!(next, Ok(Next::End)) || all.len() > 50;
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
        let all = read(&schema(""), b"key,text,number\na,\"x,1\nb,y,2\n");
        assert!(all[0].as_ref().unwrap_err().contains("line 2: a quote is opened and not closed"));
        assert_eq!(all[1], Ok(Next::End));
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
