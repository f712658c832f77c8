//! Tables to windows to chunks to records, against a search of the same table in the clear.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashMap;
use std::io::Cursor;

use proptest::collection::vec;
use proptest::prelude::*;
use restante_board::{Board, BoardConfig, BoardId, BoardWriter};
use restante_pir::search::{
    ChunkSource, Cut, FieldKind, Found, Reading, SelectorHash, Value, Window, WindowLimits,
};
use restante_tables::{
    BoardRows, CsvOutput, CsvRows, JsonRows, Rows, Schema, WholeInput, WindowRule, Windows, write_json_lines,
};
use restante_wire::ParameterId;

/// What the encrypted search computes: the chunks of each selector's bucket.
fn search(window: &Window, selectors: &[Vec<u8>]) -> Vec<Found> {
    let hash = &window.cut().hash;
    let mut reading = Reading::new(hash, selectors);
    let mut chunk = vec![0; window.chunk_bytes()];
    for (place, selector) in selectors.iter().enumerate() {
        let bucket = window.buckets().binary_search(&hash.locate(selector).bucket);
        for column in 0..window.columns() {
            match bucket {
                Ok(bucket) => window.read_chunk(bucket, column, &mut chunk).map(|_| ()).unwrap(),
                Err(_) => chunk.fill(0),
            }
            reading.push(place, &chunk).unwrap();
        }
    }
    reading.finish().into_iter().map(Result::unwrap).collect()
}

fn cut(schema: &Schema, bits: u32, chunk_bytes: usize) -> Cut {
    Cut { hash: SelectorHash::new(schema.selector_kind(), bits, [3; 32]).unwrap(), chunk_bytes }
}

/// Every hit of each selector in each window.
fn hits(
    rows: Box<dyn Rows + '_>,
    schema: &Schema,
    cut: Cut,
    rule: WindowRule,
    selectors: &[Vec<u8>],
) -> Vec<Vec<Vec<Vec<Value>>>> {
    let mut windows = Windows::new(rows, schema, &[cut], WindowLimits::default(), rule).unwrap();
    let mut all = Vec::new();
    while let Some(filled) = windows.next_window().unwrap() {
        let found = search(&filled.windows[0], selectors);
        let decode = |found: Found| {
            assert!(found.is_complete());
            found.records.iter().map(|record| schema.layout().decode(record).unwrap()).collect()
        };
        all.push(found.into_iter().map(decode).collect());
    }
    all
}

fn input(text: &[u8]) -> Box<WholeInput<Cursor<Vec<u8>>>> {
    Box::new(WholeInput(Cursor::new(text.to_vec())))
}

/// A field name, what comes back of it, and a table of such fields; field 0 is the selector.
#[derive(Debug, Clone)]
struct Table {
    kinds: Vec<FieldKind>,
    rows: Vec<Vec<Value>>,
}

fn value(kind: FieldKind, few: bool) -> BoxedStrategy<Value> {
    let some = match (kind, few) {
        (FieldKind::Text, true) => proptest::sample::select(vec![
            "",
            " ",
            "a",
            "A",
            "e\u{301}",
            "\u{e9}",
            "a,b",
            "\"",
            "x\ny",
            "\u{1f600}",
        ])
        .prop_map(|text| Value::Text(text.into()))
        .boxed(),
        (FieldKind::Text, false) => any::<String>().prop_map(Value::Text).boxed(),
        (FieldKind::Integer, true) => (-3i64..3).prop_map(Value::Integer).boxed(),
        (FieldKind::Integer, false) => any::<i64>().prop_map(Value::Integer).boxed(),
        (FieldKind::Real, _) => (-1e9..1e9).prop_map(Value::Real).boxed(),
        (FieldKind::Boolean, _) => any::<bool>().prop_map(Value::Boolean).boxed(),
        (FieldKind::Bytes, true) => vec(0u8..2, 0..2).prop_map(Value::Bytes).boxed(),
        (FieldKind::Bytes, false) => vec(any::<u8>(), 0..300).prop_map(Value::Bytes).boxed(),
    };
    prop_oneof![1 => Just(Value::Null), 1 => Just(Value::Missing), 8 => some].boxed()
}

fn table() -> impl Strategy<Value = Table> {
    let selector = proptest::sample::select(vec![FieldKind::Text, FieldKind::Integer, FieldKind::Bytes]);
    let fields = vec(proptest::sample::select(&FieldKind::ALL[..]), 0..6);
    (selector, fields).prop_flat_map(|(selector, fields)| {
        let kinds = [vec![selector], fields].concat();
        let row: Vec<_> = kinds.iter().enumerate().map(|(place, &kind)| value(kind, place == 0)).collect();
        (Just(kinds), vec(row, 0..30)).prop_map(|(kinds, rows)| Table { kinds, rows })
    })
}

impl Table {
    fn schema(&self, fold: &str, null: &str) -> Schema {
        let mut text = format!("[selector]\nfield = 'f 0'\ntype = '{}'\n{fold}\n", self.kinds[0].name());
        for (place, kind) in self.kinds.iter().enumerate() {
            text.push_str(&format!("[[return]]\nfield = 'f {place}'\ntype = '{}'\n", kind.name()));
        }
        Schema::parse(&format!("{text}[csv]\nnull = '{null}'\n")).unwrap()
    }

    /// The definition: rows whose selector is there and the same.
    fn reference(&self, range: std::ops::Range<usize>, selector: &Value) -> Vec<Vec<Value>> {
        self.rows[range].iter().filter(|row| row[0] == *selector).cloned().collect()
    }

    fn selectors(&self) -> Vec<(Value, Vec<u8>)> {
        let mut selectors: Vec<(Value, Vec<u8>)> = Vec::new();
        for row in &self.rows {
            let bytes = match &row[0] {
                Value::Text(text) => text.clone().into_bytes(),
                Value::Integer(number) => number.to_string().into_bytes(),
                Value::Bytes(bytes) => bytes.clone(),
                _ => continue,
            };
            if selectors.iter().all(|(_, found)| *found != bytes) {
                selectors.push((row[0].clone(), bytes));
            }
        }
        selectors.push((Value::Text("nobody".into()), b"nobody".to_vec()));
        selectors
    }

    fn check(
        &self,
        rows: Box<dyn Rows + '_>,
        schema: &Schema,
        window: Option<u64>,
        chunk_bytes: usize,
    ) -> Result<(), TestCaseError> {
        let selectors = self.selectors();
        let bytes: Vec<Vec<u8>> = selectors.iter().map(|(_, bytes)| bytes.clone()).collect();
        let rule = WindowRule { records: window, ..WindowRule::default() };
        let found = hits(rows, schema, cut(schema, 8, chunk_bytes), rule, &bytes);
        // A window has so many rows that have a selector.
        let searchable: Vec<usize> = (0..self.rows.len())
            .filter(|&row| !matches!(self.rows[row][0], Value::Null | Value::Missing))
            .collect();
        let size = window.map_or(usize::MAX, |records| records as usize);
        let mut parts: Vec<&[usize]> = searchable.chunks(size).collect();
        if found.len() == parts.len() + 1 {
            parts.push(&[]); // No row at all, or the last ones have no selector.
        }
        prop_assert_eq!(found.len(), parts.len());
        for (part, found) in parts.iter().zip(&found) {
            let range = part.first().map_or(0..0, |&first| first..part[part.len() - 1] + 1);
            for ((selector, _), found) in selectors.iter().zip(found) {
                prop_assert_eq!(found, &self.reference(range.clone(), selector));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn json_lines_are_searched_right(
        table in table(), window in proptest::option::of(1u64..12), chunk_bytes in 64usize..500
    ) {
        let schema = table.schema("", "");
        let mut text = Vec::new();
        table.rows.iter().for_each(|row| write_json_lines(schema.layout(), row, &mut text));
        table.check(Box::new(JsonRows::new(&schema, "table", input(&text))), &schema, window, chunk_bytes)?;
    }

    #[test]
    fn csv_is_searched_right(
        mut table in table(), null in "(|NULL|-)", window in proptest::option::of(1u64..12), chunk_bytes in 64usize..500
    ) {
        // CSV has no missing cells.
        for value in table.rows.iter_mut().flatten() {
            if *value == Value::Missing {
                *value = Value::Null;
            }
        }
        let schema = table.schema("", &null);
        let (output, mut text) = (CsvOutput::new(b',', &null), Vec::new());
        output.write_header(schema.layout(), &mut text);
        for row in &table.rows {
            // An empty line is no row.
            prop_assume!(row.len() > 1 || !null.is_empty() || row[0] != Value::Null);
            output.write(row, &mut text);
        }
        table.check(Box::new(CsvRows::new(&schema, "table", input(&text))), &schema, window, chunk_bytes)?;
    }
}

const CHARACTERS: &str = include_str!("../../../corpus/characters.csv");

#[test]
fn characters_are_found_by_name_and_by_block() {
    for (field, column) in [("name", 1), ("block", 3)] {
        let schema = format!(
            "[selector]\nfield = '{field}'\nfold = 'ascii-case'\n[[return]]\nfield = 'code'\ntype = 'text'\n\
            [[return]]\nfield = 'decomposition'\ntype = 'text'\n"
        );
        let schema = Schema::parse(&schema).unwrap();
        let mut reference: HashMap<String, Vec<Vec<Value>>> = HashMap::new();
        for line in CHARACTERS.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let values = [cells[0], cells[4]].map(|cell| Value::Text(cell.into())).to_vec();
            reference.entry(cells[column].to_lowercase()).or_default().push(values);
        }
        let names = match field {
            "name" => vec!["Latin small letter a", "<control>", "SNOWMAN", "no such name"],
            _ => vec!["Yi Syllables", "basic latin", "Specials", "no such block"],
        };
        let selectors: Vec<Vec<u8>> = names.iter().map(|name| schema.selector_of(0, name).unwrap()).collect();
        let rows = Box::new(CsvRows::new(&schema, "characters.csv", input(CHARACTERS.as_bytes())));
        let found = hits(rows, &schema, cut(&schema, 10, 4096), WindowRule::default(), &selectors).remove(0);
        for (name, found) in names.iter().zip(found) {
            let expected = reference.get(&name.to_lowercase()).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{name}");
            assert_eq!(found.is_empty(), name.starts_with("no "));
        }
    }
}

#[test]
fn messages_of_a_board_are_found_by_index_and_by_hash() {
    let folder = tempfile::tempdir().unwrap();
    let config = BoardConfig {
        id: BoardId([1; 16]),
        parameters: ParameterId::NONE,
        clue_bytes: 8,
        tail_bytes: 0,
        payload_bytes_max: 4096,
        segment_capacity: 16,
    };
    let path = folder.path().join("board");
    Board::create(&path, &config).unwrap();
    let mut writer = BoardWriter::open(&path).unwrap();
    let payload = |index: u64| vec![index as u8; 37 * index as usize % 4096];
    for index in 0..50u64 {
        writer.append(&index.to_le_bytes(), &payload(index)).unwrap();
    }
    writer.commit().unwrap();
    let board = Board::open(&path).unwrap();
    let fields =
        "[[return]]\nfield = 'index'\ntype = 'integer'\n[[return]]\nfield = 'payload'\ntype = 'bytes'\n";
    for selector in
        ["number = true", "field = 'index'\ntype = 'integer'", "field = 'payload-hash'\ntype = 'bytes'"]
    {
        let schema = Schema::parse(&format!("[selector]\n{selector}\n{fields}")).unwrap();
        let wanted = [10u64, 33, 49];
        let selectors: Vec<Vec<u8>> = wanted
            .iter()
            .map(|&index| match selector {
                "number = true" => schema.selector_of(0, &(index - 10).to_string()).unwrap(),
                "field = 'index'\ntype = 'integer'" => schema.selector_of(0, &index.to_string()).unwrap(),
                _ => schema.selector_of(0, blake3::hash(&payload(index)).to_hex().as_str()).unwrap(),
            })
            .collect();
        let rows = Box::new(BoardRows::new(&schema, &board, 10..50).unwrap());
        let found = hits(rows, &schema, cut(&schema, 8, 256), WindowRule::default(), &selectors).remove(0);
        for (index, found) in wanted.iter().zip(found) {
            assert_eq!(found, [vec![Value::Integer(*index as i64), Value::Bytes(payload(*index))]]);
        }
    }
    for (schema, expected) in [
        ("[selector]\nfield = 'hash'\n", "no field \"hash\""),
        ("[selector]\nfield = 'payload'\n", "field \"payload\" as text, expected bytes"),
    ] {
        let schema = Schema::parse(&format!("{schema}{fields}")).unwrap();
        let error = BoardRows::new(&schema, &board, 0..1).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let schema = Schema::parse(&format!("[selector]\nnumber = true\n{fields}")).unwrap();
    assert!(BoardRows::new(&schema, &board, 0..51).is_err());
}
