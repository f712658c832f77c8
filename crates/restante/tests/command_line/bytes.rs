//! Bytes come out as they went in.

use std::io::Write;

use super::*;

const BYTES: &[u8] = b"\x82\xa3key\xc4";

fn post(place: &Place, text: &[u8]) {
    let mut child = place.command("board post board --to alice.address");
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_message_that_is_no_text_is_delivered_as_it_is() {
    let place = Place::new();
    place.run("keys new alice");
    place.run("board init board");
    post(&place, BYTES);
    post(&place, "two\nlines \u{1b}[31m\u{feff}".as_bytes());
    post(&place, b"");
    place.run("detect --board board --key alice.detection --out digest");
    place.run("board export board --out messages");
    for source in ["--board board", "--messages messages"] {
        let read = format!("read --secret alice.secret --digest digest {source}");
        let output = place.command(&read).output().unwrap();
        let expected = [b"0\t", BYTES, "\n1\ttwo\nlines \u{1b}[31m\u{feff}\n2\t\n".as_bytes()].concat();
        assert_eq!(output.stdout, expected);
        let lines = place.json(&read);
        assert_eq!((lines[0]["base64"].as_str(), lines[0].get("text")), (Some("gqNrZXnE"), None));
        assert_eq!(lines[1]["text"].as_str(), Some("two\nlines \u{1b}[31m\u{feff}"));
        let folder = if source.contains("board") { "one" } else { "two" };
        let named = place.json(&format!("{read} --out {folder}"));
        assert_eq!(named[1]["file"].as_str(), Some(format!("{folder}/1").as_str()));
        assert_eq!(fs::read(place.path(folder).join("0")).unwrap(), BYTES);
        assert_eq!(fs::read(place.path(folder).join("2")).unwrap(), b"");
        // Again, what is there already.
        place.run(&format!("{read} --out {folder}"));
        fs::write(place.path(folder).join("2"), "something else").unwrap();
        place.refuse(&format!("{read} --out {folder}"), 3, &["it exists"]);
    }
}
