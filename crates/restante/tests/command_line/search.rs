//! Private search.

use super::*;

#[test]
fn a_search_is_planned_from_the_table() {
    let place = Place::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    for name in ["characters.csv", "characters.toml"] {
        fs::copy(corpus.join(name), place.path(name)).unwrap();
    }
    let plan = "search plan --schema characters.toml --table";
    let found = &place.json(&format!("{plan} characters.csv"))[0];
    // 65 characters have the name <control>.
    let expected = [("records", 34_888), ("max_hits", 65), ("chunk_bytes", 32_768), ("columns", 1)];
    expected.iter().for_each(|&(name, value)| assert_eq!(found[name], value, "{name}"));
    let bits = found["hash_bits"].as_u64().unwrap();
    assert!((8..16).contains(&bits));
    let fewer = &place.json(&format!("{plan} characters.csv --hash-bits 24 --hits 1 --selectors 64"))[0];
    assert_eq!(fewer["hash_bits"], 24);
    assert!(
        fewer["max_records_per_bucket"].as_u64().unwrap() < found["max_records_per_bucket"].as_u64().unwrap()
    );

    place.refuse(&format!("{plan} missing.csv"), 4, &["missing.csv"]);
    place.refuse(&format!("{plan} characters.toml"), 2, &["characters.toml", "--format"]);
    place.refuse(&format!("{plan} characters.csv --format xml"), 2, &["xml"]);
    place.refuse(&format!("{plan} characters.csv --hash-bits 25"), 3, &["hash bits", "25", "8 to 24"]);
    fs::write(place.path("bad.csv"), "code,name,category,block,decomposition\n0041,A,Lu,Basic Latin\n")
        .unwrap();
    place.refuse(&format!("{plan} bad.csv"), 3, &["bad.csv", "line 2", "4 cells, expected 5"]);
    fs::write(place.path("characters.toml"), "[selector]\nname = 1\n").unwrap();
    place.refuse(
        &format!("{plan} characters.csv"),
        3,
        &["characters.toml", "line 2: an unknown key", "field"],
    );
}

/// A table of orders in the three formats' common subset, with everything that could be mistaken in it.
fn orders(place: &Place) -> Vec<(String, u64)> {
    let schema = "[selector]\nfield = 'who'\n[[return]]\nfield = 'n'\ntype = 'integer'\n[[return]]\nfield = 'what'\ntype = 'text'\n";
    fs::write(place.path("orders.toml"), schema).unwrap();
    let names = ["ann", "b\u{e9}a", "a,b", "\"q\"", "", "ann "];
    let orders: Vec<(String, u64)> =
        (0..300u64).map(|n| (names[(n * n % 7 % 6) as usize].to_owned(), n)).collect();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let rows =
        orders.iter().map(|(who, n)| format!("{},{n},{}\n", quoted(who), quoted(&format!("item\n{n}"))));
    fs::write(place.path("orders.csv"), format!("who,n,what\n{}", rows.collect::<String>())).unwrap();
    orders
}

/// The numbers of the records that `search open` prints, by selector.
fn hits(output: &str) -> Vec<(String, u64)> {
    let lines = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            let n = line["record"]["n"].as_u64().unwrap();
            assert_eq!(line["record"]["what"], format!("item\n{n}"));
            (line["selector"].as_str().unwrap().to_owned(), n)
        })
        .collect()
}

#[test]
fn records_are_searched_step_by_step() {
    let querier = Place::new();
    let orders = orders(&querier);
    fs::write(querier.path("who"), "b\u{e9}a\na,b\nnobody\n").unwrap();
    let made = &querier.json(
        "search query --schema orders.toml --selector ann --selectors who --hash-bits 9 --out query --state state",
    )[0];
    assert_eq!((&made["selectors"], &made["sharing"]), (&4.into(), &4.into()));
    assert_eq!(made["query_bytes"], fs::metadata(querier.path("query")).unwrap().len());
    // A second query that hashes alike shares the pass; a third does not.
    querier.run("search query --schema orders.toml --selector ann --hash-of query --out second --state second.state --sharing 4");
    querier.run(
        "search query --schema orders.toml --selector nobody --hash-bits 8 --out third --state third.state",
    );
    querier.refuse(
        "search query --schema orders.toml --selector x --hash-bits 8 --out lost --state state",
        3,
        &["state"],
    );
    assert!(!querier.path("lost").exists());

    // The responder has the table and the queries, and no state.
    let responder = Place::new();
    for name in ["orders.toml", "orders.csv", "query", "second", "third"] {
        fs::copy(querier.path(name), responder.path(name)).unwrap();
    }
    let answered = &responder.json(
        "search answer --schema orders.toml --table orders.csv --query query --out a --query second --out b --query third --out c",
    )[0];
    assert_eq!((&answered["queries"], &answered["passes"]), (&3.into(), &2.into()));
    assert_eq!((&answered["windows"], &answered["records"]), (&1.into(), &300.into()));
    responder.refuse(
        "search answer --schema orders.toml --table orders.csv --query query --out a --out b",
        2,
        &["--out"],
    );
    responder.refuse(
        "search answer --schema orders.toml --table orders.csv --query a --out x",
        3,
        &["search answer"],
    );

    for name in ["a", "b", "c"] {
        fs::copy(responder.path(name), querier.path(name)).unwrap();
    }
    let expected = |names: &[&str]| -> Vec<(String, u64)> {
        names.iter().flat_map(|name| orders.iter().filter(move |(who, _)| who == name)).cloned().collect()
    };
    let open = "search open --schema orders.toml --state";
    assert_eq!(
        hits(&querier.run(&format!("{open} state --answer a"))),
        expected(&["ann", "b\u{e9}a", "a,b"])
    );
    assert_eq!(hits(&querier.run(&format!("{open} second.state --answer b"))), expected(&["ann"]));
    assert_eq!(querier.run(&format!("{open} third.state --answer c")), "");
    let csv = querier.run(&format!("{open} second.state --answer b --output csv"));
    assert!(csv.starts_with("window,selector,n,what\n"), "{csv}");
    querier.refuse(&format!("{open} state --answer b"), 3, &["b:", "another"]);
    copy_changed(&querier.path("a"), &querier.path("cut"), |bytes| bytes.truncate(bytes.len() / 2));
    querier.refuse(&format!("{open} state --answer cut"), 3, &["cut"]);
    let other = "[selector]\nfield = 'who'\n[[return]]\nfield = 'n'\ntype = 'integer'\n";
    fs::write(querier.path("other.toml"), other).unwrap();
    let differs = ["another schema", "field 2, \"what\" (text), is there alone"];
    querier.refuse("search open --schema other.toml --state state --answer a", 3, &differs);
    querier.refuse("search answer --schema other.toml --table orders.csv --query query --out x", 3, &differs);
}

#[test]
fn streams_are_searched_window_by_window_and_limits_are_told() {
    let place = Place::new();
    let orders = orders(&place);
    place.run("search query --schema orders.toml --selector ann --hash-bits 8 --out query --state state");
    let answer = "search answer --schema orders.toml --query query --out answer";
    let answered = &place.json(&format!("{answer} --table orders.csv --window-records 128 --less-memory"))[0];
    assert_eq!((&answered["windows"], &answered["records"]), (&3.into(), &300.into()));
    let found = place.run(
        "search open --schema orders.toml --state state --answer answer.0 --answer answer.1 --answer answer.2",
    );
    let expected: Vec<_> = orders.iter().filter(|(who, _)| who == "ann").cloned().collect();
    assert_eq!(hits(&found), expected);
    let windows = found.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert!(windows.zip(&expected).all(|(line, (_, n))| line["window"] == n / 128));

    // The same rows from a pipe.
    let mut child = place.command(&format!("{answer}.pipe --table - --format csv --window-records 200"));
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::copy(&mut fs::File::open(place.path("orders.csv")).unwrap(), &mut child.stdin.take().unwrap())
        .unwrap();
    assert!(child.wait().unwrap().success());
    let piped = place
        .run("search open --schema orders.toml --state state --answer answer.pipe.0 --answer answer.pipe.1");
    assert_eq!(hits(&piped), expected);

    place.run(&format!("{answer} --table orders.csv --hits 5"));
    let output =
        place.command("search open --schema orders.toml --state state --answer answer").output().unwrap();
    assert_eq!(hits(std::str::from_utf8(&output.stdout).unwrap()), expected[..5]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(&format!("NOT all: {} were cut off", expected.len() - 5)), "{told}");

    fs::write(place.path("bad.csv"), "who,n,what\na,1,x\nb,two,x\n").unwrap();
    place.refuse(&format!("{answer} --table bad.csv"), 3, &["line 3", "n", "integer"]);
    place.run(&format!("{answer} --table bad.csv --skip-malformed"));
}

/// What `search open --json` says of an answer, by selector.
fn summaries(place: &Place, arguments: &str) -> Vec<Value> {
    let output = place.command(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn an_answer_is_complete_only_if_every_row_was_searched() {
    let place = Place::new();
    let schema = "[selector]\nfield = 'who'\n[[return]]\nfield = 'n'\ntype = 'integer'\n[[return]]\nfield = 'what'\ntype = 'text'\n";
    fs::write(place.path("orders.toml"), schema).unwrap();
    let rows: Vec<String> = (0..1000).map(|n| format!("w{n},{n},\"item {n}\"\n")).collect();
    // One quote that is not closed, in the tenth of a thousand rows: CaNaRy must be in no message.
    let mut bad = rows.clone();
    bad[9] = "w9,9,\"CaNaRy-pin-4711\n".into();
    for (name, rows) in [("good.csv", &rows), ("bad.csv", &bad)] {
        fs::write(place.path(name), format!("who,n,what\n{}", rows.concat())).unwrap();
    }
    place.run("search query --schema orders.toml --selector w9 --selector w500 --hash-bits 8 --out query --state state");
    let answer = "search answer --schema orders.toml --query query --out answer --table";
    let open = "search open --schema orders.toml --state state --answer answer";

    let answered = &place.json(&format!("{answer} good.csv"))[0];
    assert_eq!((&answered["records"], &answered["complete"]), (&1000.into(), &true.into()));
    assert_eq!(answered["skipped_rows"], 0);
    let found = summaries(&place, open);
    assert!(found.iter().all(|one| one["complete"] == true && one["skipped_rows"] == 0), "{found:?}");
    assert!(found.iter().all(|one| one["hits"] == 1));

    // The row's first line is named, and what it would have swallowed.
    place.refuse(&format!("{answer} bad.csv"), 3, &["bad.csv, line 11: a quote is opened"]);
    let output = place.command(&format!("{answer} bad.csv --skip-malformed --json")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("1 malformed rows (22 bytes)") && told.contains("line 11"), "{told}");
    assert!(!told.contains("CaNaRy") && !told.contains("4711"), "{told}");
    let answered: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answered["records"], &answered["complete"]), (&999.into(), &false.into()));
    assert_eq!((&answered["skipped_rows"], &answered["skipped_bytes"]), (&1.into(), &22.into()));
    let found = summaries(&place, open);
    assert_eq!((&found[0]["hits"], &found[1]["hits"]), (&0.into(), &1.into()));
    for one in &found {
        assert_eq!((&one["complete"], &one["skipped_rows"]), (&false.into(), &1.into()));
        assert_eq!((&one["skipped_bytes"], &one["records"]), (&22.into(), &999.into()));
    }
    let output = place.command(open).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("NOT all: 1 rows (22 bytes) of the table were malformed and not searched"),
        "{told}"
    );

    // Window by window, only the one that left it out is incomplete.
    place.run(&format!("{answer} bad.csv --skip-malformed --window-records 500"));
    for (window, complete) in [(0, false), (1, true)] {
        let found = summaries(&place, &format!("{open}.{window}"));
        assert!(found.iter().all(|one| one["complete"] == complete), "{window}: {found:?}");
    }
}

#[test]
fn blank_selectors_are_hinted_at() {
    let place = Place::new();
    orders(&place);
    fs::write(place.path("blank.csv"), "who,n,what\n,1,a\n,2,b\nann,3,c\nx,y,z\n").unwrap();
    let plan = "search plan --schema orders.toml --table blank.csv";
    place.refuse(plan, 3, &["line 5"]);
    let output = place.command(&format!("{plan} --skip-malformed --json")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("2 records have the empty text as selector") && told.contains("null = \"\""),
        "{told}"
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["rows_with_empty_selector"], &found["skipped_rows"]), (&2.into(), &1.into()));
}

#[test]
fn plans_of_searches_are_exact() {
    let place = Place::new();
    orders(&place);
    let plan = &place.json("search plan --schema orders.toml --table orders.csv --selectors 3")[0];
    let bits = plan["hash_bits"].as_u64().unwrap();
    place.run(&format!("search query --schema orders.toml --selector ann --selector x --selector y --hash-bits {bits} --out q --state s"));
    assert_eq!(plan["query_bytes"], fs::metadata(place.path("q")).unwrap().len());
    place.run("search answer --schema orders.toml --table orders.csv --query q --out a");
    if plan["columns"] == 1 {
        assert_eq!(plan["answer_bytes"], fs::metadata(place.path("a")).unwrap().len());
    }
    assert!(plan["estimated_search_seconds"].as_f64().is_some());
}

#[test]
fn characters_are_found_by_name() {
    let found = &Place::new().json("search demo")[0];
    assert_eq!((&found["selectors"], &found["records"]), (&4.into(), &34_888.into()));
    assert_eq!(found["found"], 67);
}

#[test]
fn benchmarks_of_search_print_every_field() {
    let line = &Place::new().json("bench search --mib 8 --record-bytes 65536 --hash-bits 10 --threads 1")[0];
    let fields = [
        "records",
        "record_bytes",
        "hash_bits",
        "queries",
        "threads",
        "mib_per_second",
        "hours_per_tib",
        "core_hours_per_tib",
        "hours_per_tib_on_16_cores",
        "query_bytes",
        "answer_bytes",
        "query_seconds",
        "setup_seconds",
        "finish_seconds_per_column",
        "open_seconds",
        "peak_rss_bytes",
        "limit_ratio",
    ];
    for field in fields {
        assert!(line[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {line}");
    }
    // A TiB is 2^20 MiB, an hour 3,600 seconds: 282 MiB a second are 1.03 hours.
    let number = |field: &str| line[field].as_f64().unwrap();
    let seconds = number("hours_per_tib") * 3600.0;
    assert!((seconds * number("mib_per_second") / 1_048_576.0 - 1.0).abs() < 1e-9, "{line}");
    assert_eq!(number("core_hours_per_tib"), number("hours_per_tib"), "one thread");
}
