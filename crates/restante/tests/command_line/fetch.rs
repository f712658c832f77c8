//! Private fetch.

use super::*;

/// A board of twenty-one messages as an epoch, and what a client does with it.
#[test]
fn records_are_fetched_step_by_step() {
    let place = correspondence();
    let built = place.json("fetch build --board board --record-bytes 4200 --out epoch");
    assert_eq!((&built[0]["records"], &built[0]["record_bytes"]), (&21.into(), &4200.into()));
    let id = built[0]["id"].as_str().unwrap();
    assert_eq!(place.json("fetch verify epoch")[0]["verified"], true);
    // The client holds no records, the servers no hashes.
    for (directory, names) in [("client", ["epoch", "hashes"]), ("server", ["epoch", "records"])] {
        fs::create_dir(place.path(directory)).unwrap();
        for name in names {
            fs::copy(place.path("epoch").join(name), place.path(directory).join(name)).unwrap();
        }
    }
    let query = format!(
        "fetch query --epoch-info client --id {id} --pad-to 4 --out-a a.query --out-b b.query --state state --force"
    );
    let answers = [
        "fetch answer --epoch server --query a.query --out a.answer",
        "fetch answer --epoch epoch --query b.query --out b.answer --threads 3 --backend scalar",
    ];
    let open = "fetch open --state state --answer a.answer --answer b.answer";
    let mut sizes = Vec::new();
    for indices in ["", " --index 20", " --index 0 --index 20 --index 7 --index 7"] {
        let asked = place.json(&format!("{query}{indices}"));
        answers.iter().for_each(|command| drop(place.run(command)));
        let bytes = |name: &str| fs::metadata(place.path(name)).unwrap().len();
        assert_eq!(asked[0]["query_bytes"], bytes("a.query"));
        assert_eq!(asked[0]["answer_bytes"], bytes("b.answer"));
        sizes.push(["a.query", "b.query", "a.answer", "b.answer", "state"].map(bytes));
        let found: Vec<u64> =
            place.json(open).iter().map(|record| record["index"].as_u64().unwrap()).collect();
        let expected: Vec<u64> =
            indices.split(" --index ").skip(1).map(|index| index.parse().unwrap()).collect();
        assert_eq!(found, expected);
    }
    assert!(sizes.windows(2).all(|pair| pair[0] == pair[1]));
    place.run(&format!("{open} --out records"));
    let board = Board::open(place.path("board")).unwrap();
    let message = board.message(7).unwrap();
    assert_eq!(fs::read(place.path("records/7")).unwrap(), [message.clue, message.payload].concat());
    assert!(place.run(open).starts_with("0\t"));

    // Several queries in one pass.
    place.run("fetch answer --epoch epoch --query a.query --out 1 --query b.query --out 2");
    place.run("fetch open --state state --answer 2 --answer 1");

    // Another epoch, the same server twice, an answer to an earlier query, damage.
    place.run("board post board --to alice.address --text More");
    let longer = place.json("fetch build --board board --append-to epoch --out longer");
    assert_eq!((&longer[0]["records"], &longer[0]["added"]), (&22.into(), &1.into()));
    let rebuilt = place.json("fetch build --board board --record-bytes 4200 --out again");
    assert_eq!(longer[0]["id"], rebuilt[0]["id"]);
    place.refuse("fetch answer --epoch longer --query a.query --out x", 3, &["a.query", "is for epoch", id]);
    place.refuse(&query.replace("client", "longer"), 3, &["longer", "--id"]);
    place.refuse("fetch open --state state --answer 1 --answer 1", 3, &["both answers are from server 0"]);
    place.refuse("fetch open --state state --answer 1", 2, &["1 --answer", "two"]);
    fs::rename(place.path("state"), place.path("old")).unwrap();
    place.run(&query);
    place.refuse("fetch open --state state --answer 1 --answer 2", 3, &["to another query"]);
    place.run("fetch open --state old --answer 1 --answer 2");
    for (name, command) in [
        ("a.query", "fetch answer --epoch epoch --query bad --out x"),
        ("a.answer", "fetch open --state old --answer bad --answer 2"),
        ("old", "fetch open --state bad --answer 1 --answer 2"),
    ] {
        copy_changed(&place.path(name), &place.path("bad"), |bytes| bytes.truncate(bytes.len() / 2));
        place.refuse(command, 3, &["bad", "truncated"]);
        copy_changed(&place.path(name), &place.path("bad"), |bytes| bytes[60] ^= 4);
        place.refuse(command, 3, &["bad", "corrupted"]);
        fs::copy(place.path("alice.address"), place.path("bad")).unwrap();
        place.refuse(command, 3, &["bad", "found address, expected fetch"]);
        place.refuse(&command.replace("bad", "missing"), 4, &["missing", "No such file"]);
    }
    assert!(!place.path("x").exists());
    place.refuse(&format!("{query} --index 21"), 3, &["outside the epoch of 21 records"]);
    place.refuse(&query.replace("--pad-to 4", "--pad-to 0"), 2, &["number of fetches", "1 to 1024"]);
    place.refuse("fetch build --board board --record-bytes 4200 --out epoch", 3, &["not in use"]);
    place.refuse("fetch build --board board --record-bytes 4000 --out y", 3, &["record 0", "at most 3996"]);
    place.refuse("fetch build --file a.query --record-bytes 100 --out y", 3, &["a.query ends after"]);
    place.refuse("fetch build --file a.query --append-to epoch --out y", 3, &["epoch", "other kind"]);
    place.refuse("fetch build --board board --out y", 2, &["--record-bytes"]);
    place.refuse("fetch verify board", 3, &["board is not an epoch"]);
    assert!(!place.path("y").exists());
    let records = place.path("epoch/records");
    copy_changed(&records, &records, |bytes| bytes[5000] ^= 1);
    place.refuse("fetch verify epoch", 1, &["records", "record 1 does not match"]);
}

#[test]
fn two_servers_serve_real_messages() {
    let place = Place::new();
    let found = &place.json("fetch demo --records 50 --fetches 3 --threads 1")[0];
    assert_eq!((&found["expected"], &found["right"]), (&4.into(), &4.into()));
}

#[test]
fn benchmarks_of_fetch_print_every_field() {
    let place = Place::new();
    let line = &place.json("bench fetch --mib 1 --record-bytes 1024 --queries 2 --threads 1")[0];
    let fields = [
        "gib_per_second",
        "read_gib_per_second",
        "limit_ratio",
        "us_per_query",
        "query_bytes",
        "answer_bytes",
        "peak_rss_bytes",
    ];
    for field in fields {
        assert!(line[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {line}");
    }
    let lines = place.json("bench dpf --threads 1");
    let (mut operations, mut variants) = (Vec::new(), Vec::new());
    for line in &lines {
        assert_eq!(line["bench"], "dpf");
        operations.push(line["operation"].as_str().unwrap());
        variants.push(line["variant"].as_str().unwrap());
        for field in ["depth", "message_bytes", "seconds", "limit_seconds", "limit_ratio", "key_bytes"] {
            assert!(line[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {line}");
        }
        assert!(line["backend"].is_string());
    }
    for (found, expected) in [
        (&mut operations, &["full-evaluation", "full-evaluation-bits", "generate"][..]),
        (&mut variants, &["half-tree", "plain"]),
    ] {
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, expected);
    }
}
