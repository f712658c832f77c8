//! Everything step by step through the binary, on files, and what it says to bad input.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_board::BoardWriter;
use restante_client::Address;
use serde_json::Value;
use tempfile::TempDir;

/// A directory to run in.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
        command.current_dir(self.0.path()).args(arguments.split(' ')).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed; gives its output.
    fn run(&self, arguments: &str) -> String {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "restante {arguments}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must print JSON objects, one a line.
    fn json(&self, arguments: &str) -> Vec<Value> {
        self.run(&format!("{arguments} --json"))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Runs a command that must fail with this exit code and these words on standard error, and without a panic.
    fn refuse(&self, arguments: &str, code: i32, words: &[&str]) {
        check_refusal(arguments, &self.command(arguments).output().unwrap(), code, words);
    }
}

fn check_refusal(what: &str, output: &Output, code: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{what}: {errors}");
    assert!(!errors.contains("panicked"), "{what}: {errors}");
    for word in words {
        assert!(errors.contains(word), "{what}: {word:?} is not in {errors:?}");
    }
}

fn copy_changed(from: &Path, to: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(from).unwrap();
    change(&mut bytes);
    fs::write(to, bytes).unwrap();
}

/// Alice and Bob with ten messages each on a board, and one more for Alice.
fn correspondence() -> Place {
    let place = Place::new();
    for name in ["alice", "bob"] {
        place.run(&format!("keys new {name}"));
    }
    place.run("board init board");
    let lines: String = (0..20).map(|i| format!("line {i}: \u{201c}zwölf\u{201d}\r\n\n")).collect();
    fs::write(place.path("lines.txt"), lines).unwrap();
    let imported = place.json("board import board --corpus lines.txt --to alice.address --to bob.address");
    assert_eq!((&imported[0]["first"], &imported[0]["messages"]), (&0.into(), &20.into()));
    let posted = place.json("board post board --to alice.address --text Hello");
    assert_eq!(posted[0]["index"], 20);
    place
}

#[test]
fn mail_finds_its_addressee_step_by_step() {
    let place = correspondence();
    // The detector's side: a board and two detection keys. It works where no secret is.
    let detector = Place::new();
    for name in ["alice.detection", "bob.detection"] {
        fs::copy(place.path(name), detector.path(name)).unwrap();
    }
    let board = place.path("board").display().to_string();
    detector.run(&format!(
        "detect --board {board} --key alice.detection --out alice.digest --key bob.detection --out bob.digest"
    ));
    // The recipients' side: a secret, a digest, and a range of messages that somebody exported.
    place.run("board export board --range 0..21 --out messages");
    for name in ["alice", "bob"] {
        fs::copy(detector.path(&format!("{name}.digest")), place.path(&format!("{name}.digest"))).unwrap();
        let own = if name == "alice" { 0 } else { 1 };
        let mut expected: Vec<(u64, String)> =
            (own..20).step_by(2).map(|i| (i, format!("line {i}: \u{201c}zwölf\u{201d}"))).collect();
        if name == "alice" {
            expected.push((20, "Hello".into()));
        }
        for source in ["--board board", "--messages messages"] {
            let found: Vec<(u64, String)> = place
                .json(&format!("read --secret {name}.secret --digest {name}.digest {source}"))
                .iter()
                .map(|line| (line["index"].as_u64().unwrap(), line["text"].as_str().unwrap().to_owned()))
                .collect();
            assert_eq!(found, expected, "{name}, {source}");
        }
        let indices = place.run(&format!("read --secret {name}.secret --digest {name}.digest"));
        let expected: String = expected.iter().map(|(index, _)| format!("{index}\n")).collect();
        assert_eq!(indices, expected);
    }
    place.refuse("read --secret bob.secret --digest alice.digest", 3, &["alice.digest", "detection key"]);

    // A part of the board, and the same from the portable back end with another number of threads.
    let part = "detect --board board --key bob.detection --range 5..8 --out";
    place.run(&format!("{part} one.digest"));
    place.run(&format!("{part} two.digest --backend scalar --threads 3"));
    for digest in ["one.digest", "two.digest"] {
        assert_eq!(place.run(&format!("read --secret bob.secret --digest {digest}")), "5\n7\n");
    }
    place.run("board export board --range 5..6 --out one.messages");
    let read = "read --secret bob.secret --digest one.digest --messages one.messages";
    place.refuse(read, 3, &["message 7 is missing", "5..6"]);
}

/// Anybody who knows an address can post nonsense to it. That must not hide the messages that follow.
#[test]
fn malformed_messages_do_not_stop_the_reader() {
    let place = correspondence();
    let address = Address::from_file(&fs::read(place.path("alice.address")).unwrap()).unwrap();
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let message = address.prepare().write_message(b"unread", &mut rng).unwrap();
    let mut writer = BoardWriter::open(place.path("board")).unwrap();
    writer.append(&message.clue, &[7; 100]).unwrap();
    let mut changed = message.payload.clone();
    changed[1200] ^= 1;
    writer.append(&message.clue, &changed).unwrap();
    writer.commit().unwrap();
    drop(writer);
    place.run("board post board --to alice.address --text Afterwards");
    place.run("detect --board board --key alice.detection --range 20..24 --out alice.digest");
    let read =
        place.command("read --secret alice.secret --digest alice.digest --board board").output().unwrap();
    assert!(read.status.success());
    assert_eq!(String::from_utf8_lossy(&read.stdout), "20\tHello\n23\tAfterwards\n");
    assert!(String::from_utf8_lossy(&read.stderr).contains("message 21 cannot be opened"));
}

#[test]
fn keys_can_be_made_again_and_are_never_lost_by_accident() {
    let place = Place::new();
    let made = place.json("keys new carol --clue short");
    let secret = fs::read(place.path("carol.secret")).unwrap();
    place.refuse("keys new carol", 3, &["carol.secret", "--force"]);
    assert_eq!(fs::read(place.path("carol.secret")).unwrap(), secret);
    let again = place.json("keys address carol.secret --out again.address --detection again.detection");
    assert_eq!(again[0]["fingerprint"], made[0]["fingerprint"]);
    for extension in ["address", "detection"] {
        let [first, second] =
            ["carol", "again"].map(|name| fs::read(place.path(&format!("{name}.{extension}"))).unwrap());
        assert_eq!(first, second, "{extension}");
    }
    for (extension, kind) in
        [("secret", "secret key"), ("address", "address"), ("detection", "detection key")]
    {
        assert_eq!(place.json(&format!("keys show carol.{extension}"))[0]["kind"], kind);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(place.path("carol.secret")).unwrap().permissions().mode() & 0o077, 0);
    }
}

#[test]
fn files_have_the_sizes_that_params_announces() {
    let place = correspondence();
    let presets = place.json("params");
    let standard = presets.iter().find(|preset| preset["preset"] == "stream-standard").unwrap();
    let bytes = |name: &str| fs::metadata(place.path(name)).unwrap().len();
    assert_eq!(standard["detection_key_bytes"], bytes("alice.detection"));
    assert_eq!(standard["clue_bytes"].as_u64().unwrap() * 21, bytes("board/segments/0000000000.clues"));
    place.run("detect --board board --key alice.detection --out all.digest");
    place.run("detect --board board --key alice.detection --range 0..0 --out none.digest");
    assert_eq!(standard["digest_bytes_per_block"], bytes("all.digest") - bytes("none.digest"));
    assert_eq!(place.run("read --secret alice.secret --digest none.digest"), "");
    for preset in &presets {
        let security =
            ["ring_security_bits", "clue_security_bits"].map(|field| preset[field].as_u64().unwrap());
        assert!(security.iter().all(|&bits| bits >= 128), "{preset}");
    }
}

#[test]
fn the_demonstration_delivers_everything_and_ends_with_one_line_of_json() {
    let place = Place::new();
    let output = place.json("demo --messages 700 --recipients 3 --threads 2");
    let last = output.last().unwrap();
    assert_eq!(output.len(), 1);
    assert_eq!((last["messages"].as_u64(), last["recipients"].as_u64()), (Some(700), Some(3)));
    assert!(last["expected"].as_u64().unwrap() > 0 && last["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(last["delivered"], last["expected"]);
    assert_eq!(last["misdelivered"], 0);

    fs::write(place.path("own.txt"), "first\nsecond\n").unwrap();
    let own = place.json("demo --messages 65 --recipients 1 --corpus own.txt --clue short --board kept");
    assert_eq!((&own[0]["distinct_texts"], &own[0]["clue_bytes"]), (&2.into(), &2053.into()));
    assert_eq!(place.json("board stats kept --verify")[0]["messages"], 65);
}

/// The same demonstration with compact digests, in the ring for tests.
#[test]
fn the_demonstration_delivers_everything_in_compact_digests() {
    let output =
        Place::new().json("demo --digest compact --insecure --messages 3000 --recipients 2 --threads 2");
    let last = output.last().unwrap();
    assert!(last["expected"].as_u64().unwrap() > 10);
    assert_eq!((&last["delivered"], &last["misdelivered"]), (&last["expected"], &0.into()));
}

/// With the real parameters: a minute of work.
#[test]
fn compact_digests_are_made_and_read_step_by_step() {
    let place = Place::new();
    place.run("keys new alice --compact");
    let presets = place.json("params");
    let preset = presets.iter().find(|preset| preset["preset"] == "compact-standard").unwrap();
    assert_eq!(preset["detection_key_bytes"], fs::metadata(place.path("alice.compact")).unwrap().len());
    place.run("board init board");
    let lines: String = (0..9).map(|i| format!("line {i}\n")).collect();
    fs::write(place.path("lines.txt"), lines).unwrap();
    place.run("keys new bob");
    place.run("board import board --corpus lines.txt --to alice.address --to bob.address");
    let key = &place.json("keys show alice.compact")[0];
    assert_eq!(key["bytes"], fs::metadata(place.path("alice.compact")).unwrap().len());

    // A detector that has no secret.
    let detector = Place::new();
    fs::rename(place.path("alice.compact"), detector.path("alice.compact")).unwrap();
    let board = place.path("board").display().to_string();
    let sizes = "--capacity 8 --payload-bytes 1536";
    let made = &detector.json(&format!(
        "detect --digest compact --board {board} --key alice.compact --out whole --pertinency vector {sizes}"
    ))[0];
    assert_eq!(made["digest_bytes"], fs::metadata(detector.path("whole")).unwrap().len());
    let again = format!("digest --board {board} --key alice.compact --pertinency vector");
    detector.run(&format!("{again} --out part --range 2..7 {sizes}"));
    detector.run(&format!("{again} --out indices --capacity 8"));
    detector.run(&format!("{again} --out few --capacity 2"));
    detector.refuse(&format!("{again} --out x --range 2..11"), 3, &["11"]);

    let read = |digest: &str| -> Vec<String> {
        let file = detector.path(digest).display().to_string();
        let lines = place.run(&format!("read --secret alice.secret --digest {file}"));
        lines.lines().map(str::to_owned).collect()
    };
    let texts = |indices: &[u64]| indices.iter().map(|i| format!("{i}\tline {i}")).collect::<Vec<_>>();
    assert_eq!(read("whole"), texts(&[0, 2, 4, 6, 8]));
    assert_eq!(read("part"), texts(&[2, 4, 6]));
    assert_eq!(read("indices"), ["0", "2", "4", "6", "8"]);
    let few = detector.path("few").display().to_string();
    place.refuse(&format!("read --secret alice.secret --digest {few}"), 3, &["overflow: more than 2"]);
    let whole = detector.path("whole").display().to_string();
    place.refuse(&format!("read --secret bob.secret --digest {whole}"), 3, &["detection key"]);
}

#[test]
fn benchmarks_print_every_field() {
    let line = &Place::new().json(
        "bench detect-compact --insecure --messages 100 --recipients 2 --capacity 5 --payload-bytes 30 --threads 1",
    )[0];
    for field in [
        "phase1_seconds",
        "phase2_seconds",
        "decode_seconds",
        "precompute_bytes",
        "limit_ratio",
        "digest_bytes",
    ] {
        assert!(line[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {line}");
    }
    let line = &Place::new().json("bench detect-stream --messages 100 --recipients 2 --threads 1")[0];
    let numbers = [
        "messages",
        "recipients",
        "threads",
        "seconds",
        "us_per_message_recipient",
        "detection_key_bytes",
        "clue_bytes",
        "digest_bytes",
        "peak_rss_bytes",
        "limit_ratio",
    ];
    for field in numbers {
        assert!(line[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {line}");
    }
    assert_eq!(line["bench"], "detect-stream");
    assert!(line["backend"].is_string());
}

#[test]
fn bad_input_is_named_and_harms_nothing() {
    let place = correspondence();
    place.run("detect --board board --key alice.detection --out alice.digest");
    let detect = |key: &str| format!("detect --board board --key {key} --out x.digest");
    let read = |digest: &str| format!("read --secret alice.secret --digest {digest} --board board");

    for (name, kind) in [("alice.detection", "detection key"), ("alice.digest", "stream digest")] {
        let command = if kind == "detection key" { detect("bad") } else { read("bad") };
        copy_changed(&place.path(name), &place.path("bad"), |bytes| bytes.truncate(bytes.len() / 2));
        place.refuse(&command, 3, &["bad", "truncated"]);
        copy_changed(&place.path(name), &place.path("bad"), |bytes| bytes[5000] ^= 4);
        place.refuse(&command, 3, &["bad", kind, "corrupted"]);
        copy_changed(&place.path(name), &place.path("bad"), |bytes| bytes.push(0));
        place.refuse(&command, 3, &["bad", "1 unexpected bytes"]);
        fs::write(place.path("bad"), "PK\u{3}\u{4}").unwrap();
        place.refuse(&command, 3, &["bad", "not a restante file"]);
        place.refuse(&command.replace("bad", "missing"), 4, &["missing", "No such file"]);
        fs::write(place.path("bad"), "").unwrap();
        place.refuse(&command, 3, &["bad", "not a restante file"]);
    }
    place.refuse(&detect("alice.address"), 3, &["alice.address", "found address, expected detection key"]);
    place.refuse(&read("alice.secret"), 3, &["alice.secret", "found secret key, expected stream digest"]);
    assert!(!place.path("x.digest").exists());

    // Other parameters.
    place.run("keys new dora --clue short");
    place.refuse(&detect("dora.detection"), 3, &["dora.detection", "is for parameters"]);
    place.refuse("board post board --to dora.address --text x", 3, &["dora.address", "short", "standard"]);

    // Ranges, boards, usage.
    let beyond = "detect --board board --key alice.detection --out x.digest --range 0..22";
    place.refuse(beyond, 3, &["0..22", "21 messages"]);
    place.refuse(&beyond.replace("0..22", "7..3"), 2, &["7..3", "0..4096"]);
    place.refuse("board export board --range 20..22 --out x", 3, &["20..22"]);
    place.refuse("board stats lines.txt", 4, &["lines.txt", "Not a directory"]);
    place.refuse("board stats nothing", 4, &["nothing"]);
    place.refuse("board init board", 3, &["board", "new or an empty directory"]);
    place.refuse(
        "detect --board board --key alice.detection --key bob.detection --out x",
        2,
        &["2 --key", "1 --out"],
    );
    place.refuse("params --backend avx1024", 2, &["avx1024", "scalar, avx2 or avx512"]);
    place.refuse("nonsense", 2, &["nonsense"]);

    // An empty board is a board.
    place.run("board init empty");
    place.run("detect --board empty --key alice.detection --out empty.digest");
    assert_eq!(place.run("read --secret alice.secret --digest empty.digest"), "");

    // Text.
    fs::write(place.path("latin"), b"good\nbad \xe9\n").unwrap();
    place.refuse("board import board --corpus latin --to bob.address", 3, &["latin", "line 2", "UTF-8"]);
    fs::write(place.path("long"), vec![b'x'; 70_000]).unwrap();
    place.refuse("board import board --corpus long --to bob.address", 3, &["long", "line 1", "at most"]);
    fs::write(place.path("blank"), "\n\n").unwrap();
    place.refuse("demo --corpus blank", 3, &["blank", "one message a line"]);

    // A damaged board.
    let clues = place.path("board/segments/0000000000.clues");
    copy_changed(&clues, &clues, |bytes| bytes[3000] ^= 1);
    place.refuse("board stats board", 3, &["0000000000.clues"]);

    // Nothing of all this changed the board's messages.
    copy_changed(&clues, &clues, |bytes| bytes[3000] ^= 1);
    assert_eq!(place.json("board stats board --verify")[0]["messages"], 21);
}

/// A file system of 200 kB: smaller than a detection key.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_no_half_written_file() {
    let place = Place::new();
    fs::create_dir(place.path("small")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=200k none small && {} keys new small/erin; code=$?; ls -A small; exit $code",
        env!("CARGO_BIN_EXE_restante")
    );
    // Mounting takes a namespace of its own, which root always may make, and most systems let anybody.
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(place.0.path())
        .output()
        .unwrap();
    check_refusal("keys new", &output, 4, &["small/erin.detection", "No space left"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let mut child =
        Place::new().command("params").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

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
        "fetch query --epoch-info client --id {id} --pad-to 4 --out-a a.query --out-b b.query --state state"
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
    let board = restante_board::Board::open(place.path("board")).unwrap();
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
    place.refuse(&format!("{plan} characters.csv"), 3, &["characters.toml", "line 2", "name"]);
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
        4,
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
    querier.refuse("search open --schema other.toml --state state --answer a", 3, &["schema"]);
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
}
