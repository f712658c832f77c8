//! Everything step by step through the binary, on files, and what it says to bad input.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bytes;
mod fetch;
mod manual;
#[cfg(feature = "serve")]
mod outbox;
mod outputs;
mod people;
mod pipes;
#[cfg(feature = "serve")]
mod proxies;
#[cfg(feature = "serve")]
mod relay;
mod search;
mod text;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_board::{Board, BoardWriter, Period};
use restante_client::Address;
use serde_json::Value;
use tempfile::TempDir;

/// Seconds since 1970.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

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
        for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
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

/// A message is made for one board: what somebody copies to another is for nobody there, and a board takes each clue once.
#[test]
fn a_message_that_is_copied_to_another_board_is_for_nobody_there() {
    let place = correspondence();
    let ids: Vec<Value> = ["other", "third"]
        .map(|name| place.json(&format!("board init {name}"))[0]["id"].clone())
        .into_iter()
        .chain([place.json("board stats board")[0]["id"].clone()])
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    let board = Board::open(place.path("board")).unwrap();
    let mut writer = BoardWriter::open(place.path("other")).unwrap();
    for index in 0..board.len() {
        let message = board.message(index).unwrap();
        writer.append(message.clue, message.payload).unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    let detect = |board: &str| {
        place.run(&format!("detect --board {board} --key alice.detection --out {board}.digest"));
        place.run(&format!("read --secret alice.secret --digest {board}.digest --board {board}"))
    };
    assert_eq!((detect("board").lines().count(), detect("other").as_str()), (11, ""));
    // An export belongs to its board: with the digest of the one and the messages of the other nothing opens.
    place.run("board export other --range 0..21 --out other.messages");
    assert_eq!(place.run("read --secret alice.secret --digest board.digest --messages other.messages"), "");
}

/// A board closes its days behind its latest message, and says so to whoever writes with a clock that is behind.
#[test]
fn a_board_of_a_later_day_takes_no_message_of_today() {
    let place = correspondence();
    let mut writer = BoardWriter::open(place.path("board")).unwrap();
    let mut clue = Board::open(place.path("board")).unwrap().message(0).unwrap().clue.to_vec();
    let today = Period::of(now());
    clue[..4].copy_from_slice(&(today.0 + 3).to_le_bytes());
    assert_eq!(writer.append(&clue, b"a clock that is ahead").unwrap(), 21);
    writer.commit().unwrap();
    drop(writer);
    let closed = ["which is closed", "is the clock right?"];
    place.refuse("board post board --to alice.address --text late", 3, &closed);
    place.refuse("board import board --corpus lines.txt --to alice.address", 3, &closed);
    assert_eq!(place.json("board stats board --verify")[0]["messages"], 22);
}

/// Anybody who knows an address can post nonsense to it. That must not hide the messages that follow.
#[test]
fn malformed_messages_do_not_stop_the_reader() {
    let place = correspondence();
    let address = Address::from_file(&fs::read(place.path("alice.address")).unwrap()).unwrap();
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let sender = address.prepare();
    let mut writer = BoardWriter::open(place.path("board")).unwrap();
    let (board, today) = (writer.config().id, Period::of(now()));
    let nonsense = [7; 100];
    writer.append(&sender.make_clue(&board, today, &nonsense, &mut rng), &nonsense).unwrap();
    let mut changed = sender.write_message(&board, today, b"unread", &mut rng).unwrap().payload;
    changed[1200] ^= 1;
    writer.append(&sender.make_clue(&board, today, &changed, &mut rng), &changed).unwrap();
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
    place.refuse("keys new carol", 3, &["carol.secret", "exists already"]);
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
    assert_eq!((&own[0]["distinct_texts"], &own[0]["clue_bytes"]), (&2.into(), &2057.into()));
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
        let lines = place.run(&format!("read --secret alice.secret --digest {file} --board board"));
        lines.lines().map(str::to_owned).collect()
    };
    let texts = |indices: &[u64]| indices.iter().map(|i| format!("{i}\tline {i}")).collect::<Vec<_>>();
    assert_eq!(read("whole"), texts(&[0, 2, 4, 6, 8]));
    assert_eq!(read("part"), texts(&[2, 4, 6]));
    assert_eq!(read("indices"), texts(&[0, 2, 4, 6, 8]));
    let indices = detector.path("indices").display().to_string();
    let alone = place.run(&format!("read --secret alice.secret --digest {indices}"));
    assert_eq!(alone.lines().collect::<Vec<_>>(), ["0", "2", "4", "6", "8"]);
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
        "own_digest_bytes",
        "public_digest_bytes",
        "prepare_seconds",
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
