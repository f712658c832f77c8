//! Text files as people have them: byte order marks, blank lines, pipes.

use std::io::Write;

use super::*;

fn found(place: &Place) -> Vec<String> {
    place.run("detect --board board --key alice.detection --out digest --force");
    let read = place.json("read --secret alice.secret --digest digest --board board");
    read.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_message() {
    let place = Place::new();
    place.run("keys new alice");
    place.run("board init board");
    fs::write(place.path("lines"), "\u{feff}first\r\n\r\n\u{feff}third").unwrap();
    place.run("board import board --corpus lines --to alice.address");
    assert_eq!(found(&place), ["first", "\u{feff}third"]);
    fs::write(place.path("wide"), b"\xff\xfea\0\n\0").unwrap();
    place.refuse("board import board --corpus wide --to alice.address", 3, &["wide", "UTF-16"]);
    place.refuse("demo --corpus wide", 3, &["wide", "UTF-16"]);
}

#[test]
fn a_pipe_is_imported_to_its_end_or_to_what_is_wrong_in_it() {
    let place = Place::new();
    place.run("keys new alice");
    place.run("board init board");
    let import = |lines: &[u8]| {
        let mut child = place.command("board import board --corpus - --to alice.address --json");
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines).unwrap();
        child.wait_with_output().unwrap()
    };
    // More than one batch.
    let many: String = (0..5000).map(|number| format!("{number}\n")).collect();
    let output = import(many.as_bytes());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["messages"], 5000);
    check_refusal("a pipe", &import(b"one\ntwo\nb\xe9d\nfour\n"), 3, &["line 3", "the 2 messages before"]);
    check_refusal("a pipe", &import(b"\n\n"), 3, &["no text"]);
    assert_eq!(place.json("board stats board")[0]["messages"], 5002);
    // Of a file nothing is posted.
    fs::write(place.path("bad"), b"one\nb\xe9d\n").unwrap();
    place.refuse("board import board --corpus bad --to alice.address", 3, &["bad", "line 2"]);
    assert_eq!(place.json("board stats board")[0]["messages"], 5002);
}

#[test]
fn the_first_selector_is_found_and_a_blank_line_is_none() {
    let place = Place::new();
    fs::write(place.path("t.toml"), "[selector]\nfield = 'k'\n[[return]]\nfield = 'v'\ntype = 'text'\n")
        .unwrap();
    fs::write(place.path("t.csv"), "k,v\nann,1\nbob,2\n\"\",3\n").unwrap();
    fs::write(place.path("who"), "\u{feff}ann\r\nbob\r\n\r\n").unwrap();
    let search = |selectors: &[&str]| {
        let query = "search query --schema t.toml --hash-bits 8 --out q --state s --force";
        let output = place.command(query).args(selectors).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        place.run("search answer --schema t.toml --table t.csv --query q --out a");
        let hits = place.run("search open --schema t.toml --state s --answer a");
        let mut found: Vec<String> = hits
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["record"]["v"].as_str().unwrap().to_owned()
            })
            .collect();
        found.sort();
        (found.concat(), told)
    };
    let (hits, told) = search(&["--selectors", "who"]);
    assert!(hits == "12" && told.contains("1 blank lines"), "{hits} {told}");
    assert_eq!(search(&["--selectors", "who", "--selector", ""]).0, "123");
}
