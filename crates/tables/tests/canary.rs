//! No error says what a field holds: a canary in every field of every format, with everything around it broken in every way.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Cursor;

use restante_pir::search::{Cut, SelectorHash, WindowLimits};
use restante_tables::{
    CsvRows, JsonRows, Next, Rows, Schema, TableError, WholeInput, WindowRule, Windows, measure,
};

/// What must never be told, and what a decoder may make of it.
const CANARY: &str = "CaNaRy4711";

fn assert_silent(text: &str, about: &str) {
    let lower = text.to_lowercase();
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let decimal = CANARY.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    for told in [CANARY.to_lowercase(), "4711".into(), "canary".into(), hex, decimal] {
        assert!(!lower.contains(&told), "{about}: {text}");
    }
}

/// Everything that reading says: each error as a person and as a debugger sees it.
fn said(mut rows: Box<dyn Rows + '_>) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..10_000 {
        match rows.next(None) {
            Ok(Next::End) => break,
            Ok(_) => {}
            Err(error) => {
                said.push(format!("{error}\n{error:?}"));
                if !matches!(error, TableError::Row { .. }) {
                    break;
                }
            }
        }
    }
    said
}

const KINDS: [&str; 5] = ["text", "integer", "real", "boolean", "bytes"];

fn schema(selector: &str) -> Schema {
    let fields: String = KINDS
        .iter()
        .map(|kind| {
            let limit = if matches!(*kind, "text" | "bytes") { "max-bytes = 4\n" } else { "" };
            format!("[[return]]\nfield = 'f-{kind}'\ntype = '{kind}'\n{limit}")
        })
        .collect();
    Schema::parse(&format!("[selector]\n{selector}\n{fields}[csv]\nmax-lines = 3\n")).unwrap()
}

/// Bytes to put before and behind each byte of a good text, and in its place.
const NOISE: [&[u8]; 9] = [b"", b"\"", b"\n", b"\xff", b",", b"\\", b"}", b"\0", b"\r\n"];

/// Every change of one place of `good`.
fn broken(good: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    (0..=good.len()).flat_map(move |place| {
        NOISE.into_iter().flat_map(move |noise| {
            let inserted = [&good[..place], noise, &good[place..]].concat();
            let replaced = [&good[..place], noise, good.get(place + 1..).unwrap_or_default()].concat();
            [inserted, replaced, good[..place].to_vec()]
        })
    })
}

/// Both readers on a text, for selectors of each type.
fn check(text: &[u8], csv: bool, errors: &mut usize) {
    for selector in
        ["number = true", "field = 'k'", "field = 'k'\ntype = 'integer'", "field = 'k'\ntype = 'bytes'"]
    {
        let schema = schema(selector);
        let source = || Box::new(WholeInput(Cursor::new(text.to_vec())));
        let open = || -> Box<dyn Rows> {
            if csv {
                Box::new(CsvRows::new(&schema, "table", source()))
            } else {
                Box::new(JsonRows::new(&schema, "table", source()))
            }
        };
        for error in said(open()) {
            *errors += 1;
            assert_silent(&error, &String::from_utf8_lossy(text));
        }
        if let Err(error) = measure(&mut *open(), &schema, false) {
            assert_silent(&error.to_string(), "measure");
        }
        let cut =
            Cut { hash: SelectorHash::new(schema.selector_kind(), 8, [1; 32]).unwrap(), chunk_bytes: 64 };
        let rule = WindowRule { skip_malformed: true, ..WindowRule::default() };
        let mut windows = Windows::new(open(), &schema, &[cut], WindowLimits::default(), rule).unwrap();
        match windows.next_window() {
            Ok(Some(window)) => {
                if let Some(error) = &window.first_malformed {
                    assert_silent(&format!("{error} {error:?}"), "window");
                }
                // What was left out is counted, and the rest of the text is in rows or empty.
                assert_eq!(window.malformed > 0, window.malformed_bytes > 0);
                assert!(window.malformed_bytes <= text.len() as u64);
            }
            Ok(None) => {}
            Err(error) => assert_silent(&format!("{error} {error:?}"), "windows"),
        }
    }
}

#[test]
fn csv_errors_hold_nothing_of_a_field() {
    let header = "k,f-text,f-integer,f-real,f-boolean,f-bytes\n";
    let mut errors = 0;
    for place in 0..6 {
        for quote in ["", "\""] {
            let cells: Vec<String> = (0..6)
                .map(|cell| {
                    if cell == place {
                        format!("{quote}{CANARY}{quote}")
                    } else {
                        ["1", "x", "2", "0.5", "true", "00"][cell].to_owned()
                    }
                })
                .collect();
            let good = format!("{header}{}\n3,y,4,1,false,01\n", cells.join(","));
            let row = header.len()..good.len();
            for bad in broken(&good.as_bytes()[row]) {
                check(&[header.as_bytes(), &bad].concat(), true, &mut errors);
            }
        }
    }
    assert!(errors > 10_000, "{errors}");
    // In the header, too: what a column is called may be the first row of a table without one.
    let good = format!("{CANARY},k,f-text,f-integer,f-real,f-boolean,f-bytes\n");
    for bad in broken(good.as_bytes()) {
        check(&bad, true, &mut errors);
    }
}

#[test]
fn json_errors_hold_nothing_of_a_field() {
    let mut errors = 0;
    let names = ["k", "f-text", "f-integer", "f-real", "f-boolean", "f-bytes", "other"];
    let others = ["\"1\"", "\"x\"", "2", "0.5", "true", "\"00\"", "null"];
    let canaries = [
        format!("\"{CANARY}\""),
        format!("[\"{CANARY}\"]"),
        format!("{{\"{CANARY}\":1}}"),
        "4711e4711".into(),
        format!("\"{CANARY}\\ud800\""),
        CANARY.into(),
    ];
    for place in 0..names.len() {
        for canary in &canaries {
            let member = |at: usize| {
                let value = if at == place { canary } else { others[at] };
                format!("\"{}\":{value}", names[at])
            };
            let members: Vec<String> = (0..names.len()).map(member).collect();
            let good = format!("{{{}}}\n{{\"k\":\"2\"}}\n", members.join(","));
            // Each text is long; every seventh change of it is enough of them.
            for bad in broken(good.as_bytes()).skip(place).step_by(7) {
                check(&bad, false, &mut errors);
            }
        }
    }
    assert!(errors > 10_000, "{errors}");
}

#[test]
fn schema_errors_hold_nothing_of_the_file() {
    // A file that is no schema, given in its place, and a schema with a value that nobody should see.
    let files = [
        format!("password = \"{CANARY}\"\n"),
        format!("[selector]\nfield = 'k'\nfold = '{CANARY}'\n[[return]]\nfield = 't'\ntype = '{CANARY}'\n"),
        format!(
            "[selector]\nfield = 'k'\n[[return]]\nfield = 't'\ntype = 'text'\n[csv]\ndelimiter = '{CANARY}'\nnull = '{CANARY}'\n"
        ),
        format!("[selector]\n{CANARY} = 1\n[{CANARY}]\nx = 1\n"),
        format!("{{\"key\":\"{CANARY}\"}}\n"),
        format!("a,b\n{CANARY},2\n"),
    ];
    let mut refused = 0;
    for good in &files {
        for bad in broken(good.as_bytes()) {
            let Ok(text) = String::from_utf8(bad) else { continue };
            if let Err(error) = Schema::parse(&text) {
                refused += 1;
                assert_silent(&error, &text);
            }
        }
    }
    assert!(refused > 5_000, "{refused}");
}

#[test]
fn selector_errors_hold_nothing_of_a_selector() {
    for selector in ["number = true", "field = 'k'\ntype = 'integer'", "field = 'k'\ntype = 'bytes'"] {
        let error = schema(selector).selector_of(0, CANARY).unwrap_err();
        assert_silent(&format!("{error} {error:?}"), selector);
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_errors_hold_nothing_of_a_field() {
    use restante_tables::{Format, Input, open};
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/one-bad.parquet");
    let good = std::fs::read(data).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let schema = |kind: &str| {
        let text =
            format!("[selector]\nfield = 'id'\n[[return]]\nfield = 'text'\ntype = '{kind}'\nmax-bytes = 8\n");
        Schema::parse(&text).unwrap()
    };
    let mut errors = 0;
    let mut check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        for kind in ["text", "bytes", "integer"] {
            let said = match open(&schema(kind), Input::File(&path), Format::Parquet) {
                Ok(rows) => said(rows),
                Err(error) => vec![format!("{error}\n{error:?}")],
            };
            errors += said.len();
            said.iter().for_each(|error| assert_silent(error, kind));
        }
    };
    check(&good);
    // Every byte with some of its bits turned round, and every length.
    for place in 0..good.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[place] ^= mask;
            check(&bad);
        }
        check(&good[..place]);
    }
    assert!(errors > 1_000, "{errors}");
}
