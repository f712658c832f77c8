//! Two relays and three people, as processes: real text arrives, once, though the second relay is away for a while.

#![cfg(feature = "serve")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use restante_client::relay::SyncState;
use restante_wire::relay::DigestKind;
use serde_json::Value;
use tempfile::TempDir;

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

/// What a relay serves: epochs of 8 messages, and digests of blocks that are not full after a second.
const CONFIG: &str = "standing_seconds = 1\nlog = \"error\"\n[fetch]\nrecord_bytes = 4200\npart = \"message\"\n\
                      messages = 8\nwindow = 64\n";

fn command(place: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.current_dir(place.path()).args(arguments).args(["--json", "--quiet"]).stdin(Stdio::null());
    command
}

fn run(place: &TempDir, arguments: &[&str]) -> Output {
    command(place, arguments).output().unwrap()
}

/// Runs a command that must succeed, and gives the JSON lines that it printed.
fn lines(place: &TempDir, arguments: &[&str]) -> Vec<Value> {
    let output = run(place, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A relay's process; it ends with the test.
struct RelayProcess {
    child: Child,
    url: String,
    operations: String,
    key: String,
}

impl RelayProcess {
    fn start(place: &TempDir, arguments: &[&str]) -> Self {
        let all = [arguments, &["--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0"]].concat();
        let mut child = command(place, &all).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let report: Value = serde_json::from_str(&line).unwrap();
        let url = format!("http://{}", report["listen"].as_str().unwrap());
        let operations = report["operations"].as_str().unwrap().into();
        Self { child, url, operations, key: report["relay"].as_str().unwrap().into() }
    }

    fn stop(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The URL of a server that says 401 to everything.
fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut text, mut byte) = (stream.unwrap(), Vec::new(), [0]);
            while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                text.push(byte[0]);
            }
            let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
        }
    });
    url
}

/// Tries until it is so. The wait is for other processes, whose speed is not what is tested.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(200));
    }
    panic!("{what} did not happen");
}

fn sync_arguments<'a>(person: &'a [String; 2], first: &'a RelayProcess, second: &'a str) -> Vec<&'a str> {
    let [secret, state] = person;
    let relays = ["sync", "--relay", &first.url, "--relay-key", &first.key, "--second-relay", second];
    [&relays[..], &["--account", secret, "--state", state, "--pace", "0", "--attempts", "2"]].concat()
}

/// The messages of one call, each with its index.
fn sync(place: &TempDir, person: &[String; 2], first: &RelayProcess, second: &str) -> Vec<(u64, String)> {
    let printed = lines(place, &sync_arguments(person, first, second));
    let messages = printed.iter().filter(|line| line.get("text").is_some());
    messages.map(|line| (line["index"].as_u64().unwrap(), line["text"].as_str().unwrap().into())).collect()
}

#[test]
fn three_people_read_their_mail_through_two_relays() {
    let place = tempfile::tempdir().unwrap();
    let letters =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/letters.txt")).unwrap();
    let letters: Vec<&str> = letters.lines().filter(|line| line.len() < 300).take(40).collect();
    for (name, server) in [("a", 0), ("b", 1)] {
        fs::write(place.path().join(format!("{name}.toml")), format!("{CONFIG}server = {server}\n")).unwrap();
    }
    let first = RelayProcess::start(&place, &["serve", "--config", "a.toml", "--data", "a"]);
    let mirror = || {
        let arguments =
            ["mirror", "--of", &first.url, "--relay", &first.key, "--config", "b.toml", "--data", "b"];
        RelayProcess::start(&place, &arguments)
    };
    let second = mirror();
    let people = PEOPLE.map(|name| {
        lines(&place, &["keys", "new", name]);
        [format!("{name}.secret"), format!("{name}.state")]
    });
    let mut sent: [Vec<(u64, String)>; 3] = Default::default();
    let mut received: [Vec<(u64, String)>; 3] = Default::default();
    let post = |range: std::ops::Range<usize>, sent: &mut [Vec<(u64, String)>; 3]| {
        for number in range {
            // Carol gets a single message; the others share the rest.
            let person = if number == 5 { 2 } else { number % 2 };
            let address = format!("{}.address", PEOPLE[person]);
            let posted = lines(
                &place,
                &[
                    "send",
                    "--relay",
                    &first.url,
                    "--relay-key",
                    &first.key,
                    "--to",
                    &address,
                    "--text",
                    letters[number],
                ],
            );
            sent[person].push((posted[0]["index"].as_u64().unwrap(), letters[number].into()));
        }
    };
    post(0..16, &mut sent);
    for (person, (sent, received)) in people.iter().zip(sent.iter().zip(&mut received)) {
        wait_until("the first half", || {
            received.extend(sync(&place, person, &first, &second.url));
            received.len() == sent.len()
        });
    }

    // The second relay goes away. What it is needed for fails, and nothing is lost by that.
    second.stop();
    post(16..32, &mut sent);
    let away = "http://127.0.0.1:9";
    for person in &people {
        let output = run(&place, &sync_arguments(person, &first, away));
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((report["round"].as_str(), report["messages"].as_u64()), (Some("failed"), Some(0)));
    }
    // It is not the second relay's to refuse the first one's registration.
    let output = run(&place, &sync_arguments(&people[0], &first, &refusing()));
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let state = SyncState::from_file(&fs::read(place.path().join(&people[0][1])).unwrap()).unwrap();
    assert!(state.registration(DigestKind::Stream).is_some_and(|one| one.is_complete()));
    let second = mirror();
    for (person, (sent, received)) in people.iter().zip(sent.iter().zip(&mut received)) {
        wait_until("the second half", || {
            received.extend(sync(&place, person, &first, &second.url));
            received.len() >= sent.len()
        });
        // Once, and nothing else.
        received.extend(sync(&place, person, &first, &second.url));
        received.sort();
        assert_eq!(received, sent);
    }

    // Another detection key: the next round registers it, and takes the old one back.
    let rotated = lines(&place, &["keys", "rotate", "bob.secret", "--state", "bob.state"]);
    assert_eq!(rotated[0]["retired"].as_u64(), Some(1));
    assert!(sync(&place, &people[1], &first, &second.url).is_empty());
    let again = lines(&place, &["keys", "rotate", "bob.secret", "--state", "bob.state"]);
    assert_eq!(again[0]["retired"].as_u64(), Some(1), "the first one is gone");
    assert_ne!(rotated[0]["detection_key_id"], again[0]["detection_key_id"]);

    // Who has lost everything but the secret key finds the same, from one relay and without its digests.
    for (person, sent) in people.iter().zip(&sent) {
        let [secret, _] = person;
        let fresh = format!("{secret}.fresh");
        let printed = lines(
            &place,
            &["sync", "--relay", &first.url, "--account", secret, "--state", &fresh, "--pace", "0"],
        );
        let (report, messages) = printed.split_last().unwrap();
        let texts: Vec<_> = messages.iter().map(|line| line["text"].as_str().unwrap()).collect();
        assert_eq!(texts, sent.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>());
        assert_eq!((report["complete_to"].as_u64(), report["behind"].as_u64()), (Some(32), Some(0)));
    }

    // A range can be read whole, again, by whoever has come further.
    let alice = &people[0];
    let read =
        ["sync", "--relay", &first.url, "--account", &alice[0], "--state", &alice[1], "--read", "4..12"];
    let printed = lines(&place, &read);
    let (report, messages) = printed.split_last().unwrap();
    let indices: Vec<_> = messages.iter().map(|line| line["index"].as_u64().unwrap()).collect();
    let expected: Vec<_> =
        sent[0].iter().map(|(index, _)| *index).filter(|index| (4..12).contains(index)).collect();
    assert_eq!((indices, report["complete_to"].as_u64()), (expected, Some(32)));

    // The other relay is another: its key is not the one that was given.
    let output = run(
        &place,
        &[
            "sync",
            "--relay",
            &second.url,
            "--relay-key",
            &first.key,
            "--account",
            "alice.secret",
            "--state",
            "x",
        ],
    );
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

/// With real parameters: a key of 162 MB, and a digest of the board.
#[test]
#[ignore = "minutes of work and 4 GiB of memory; crates/server/tests/relay/client.rs does the same in a small ring"]
fn mail_comes_in_a_compact_digest_from_one_relay() {
    let place = tempfile::tempdir().unwrap();
    lines(&place, &["keys", "new", "alice", "--compact"]);
    lines(&place, &["keys", "new", "bob"]);
    fs::write(place.path().join("relay.toml"), "log = \"error\"\n[compact]\nenabled = true\n").unwrap();
    let relay = RelayProcess::start(&place, &["serve", "--config", "relay.toml", "--data", "relay"]);
    for (to, text) in [("alice", "one"), ("bob", "not hers"), ("alice", "two")] {
        let address = format!("{to}.address");
        lines(&place, &["send", "--relay", &relay.url, "--to", &address, "--text", text]);
    }
    let sync = [
        "sync",
        "--relay",
        &relay.url,
        "--account",
        "alice.secret",
        "--state",
        "state",
        "--delivery",
        "compact",
        "--capacity",
        "8",
        "--poll",
        "1",
    ];
    let mut texts = Vec::new();
    wait_until("the digest", || {
        let printed = lines(&place, &sync);
        texts.extend(printed.iter().filter_map(|line| line["text"].as_str().map(str::to_owned)));
        printed.last().unwrap()["complete_to"].as_u64() == Some(3)
    });
    assert_eq!(texts, ["one", "two"]);
    let printed = lines(&place, &sync);
    assert_eq!((printed.len(), printed[0]["waiting"].as_bool()), (1, Some(false)));
}

/// Nothing is asked before the key is there: the relay is not.
#[test]
fn compact_delivery_needs_the_key_of_the_account() {
    let place = tempfile::tempdir().unwrap();
    lines(&place, &["keys", "new", "alice"]);
    let sync = |rest: &[&str]| {
        let arguments = [
            "sync",
            "--relay",
            "http://127.0.0.1:9",
            "--account",
            "alice.secret",
            "--state",
            "s",
            "--attempts",
            "1",
        ];
        let output = run(&place, &[&arguments[..], rest].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = sync(&["--delivery", "compact"]);
    assert!(code == Some(3) && text.contains("alice.compact") && text.contains("restante keys"), "{text}");
    fs::copy(place.path().join("alice.detection"), place.path().join("other")).unwrap();
    let (code, text) = sync(&["--delivery", "compact", "--compact-key", "other"]);
    assert!(code == Some(3) && text.contains("other"), "{text}");
    assert_eq!(sync(&["--delivery", "private"]).0, Some(2));
    assert_eq!(sync(&["--delivery", "compact", "--payload-bytes", "1535"]).0, Some(2));
    assert_eq!(sync(&["--read", "3..5", "--whole"]).0, Some(2));
    assert_eq!(sync(&["--read", "3..5"]).0, Some(4));
}

#[test]
fn a_state_is_for_one_process_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    lines(&place, &["keys", "new", "alice"]);
    let url = refusing();
    let sync = ["sync", "--relay", &url, "--account", "alice.secret", "--state", "s", "--attempts", "1"];
    let rotate = ["keys", "rotate", "alice.secret", "--state", "s"];
    let new = [&rotate[..], &["--new"]].concat();
    let code = |arguments: &[&str]| run(&place, arguments).status.code();
    assert_eq!((code(&rotate), code(&new), code(&new)), (Some(3), Some(0), Some(3)), "a state is made once");
    let lock = File::create(place.path().join("s.lock")).unwrap();
    lock.lock().unwrap();
    for arguments in [&sync[..], &rotate] {
        let output = run(&place, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(4) && text.contains("in use by another process"), "{text}");
    }
    drop(lock);
    assert_eq!((code(&sync), code(&rotate)), (Some(3), Some(0)));
}

#[test]
fn a_schedule_goes_on_after_a_refusal() {
    let place = tempfile::tempdir().unwrap();
    lines(&place, &["keys", "new", "alice"]);
    let url = refusing();
    let sync = ["sync", "--relay", &url, "--account", "alice.secret", "--state", "s", "--every", "1"];
    // As for a person: with --json a round's line is an object on standard output.
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.current_dir(place.path()).args(sync).arg("--quiet").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let said: Vec<_> = BufReader::new(child.stderr.take().unwrap()).lines().take(4).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let [rounds, reasons] = ["the round failed", "status 401"]
        .map(|words| said.iter().flatten().filter(|line| line.contains(words)).count());
    assert_eq!((rounds, reasons), (2, 2), "{said:?}");
}

#[test]
fn what_cannot_be_sent_waits_in_the_outbox() {
    let place = tempfile::tempdir().unwrap();
    lines(&place, &["keys", "new", "alice"]);
    let send = |url: &str, text: &str| {
        let arguments =
            ["send", "--relay", url, "--to", "alice.address", "--text", text, "--outbox", "outbox"];
        run(&place, &[&arguments[..], &["--attempts", "1"]].concat())
    };
    let output = send("http://127.0.0.1:9", "first");
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let relay = RelayProcess::start(&place, &["serve", "--data", "a"]);
    let output = send(&relay.url, "second");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["posted"].as_u64(), Some(1), "what waits for another relay stays");
    assert_eq!(report["waiting"][0]["relay"].as_str(), Some("http://127.0.0.1:9"));
    let printed = lines(
        &place,
        &["sync", "--relay", &relay.url, "--account", "alice.secret", "--state", "s", "--whole"],
    );
    let texts: Vec<_> = printed.iter().filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(texts, ["second"]);
    let refusals = [
        (["--relay", "http://relay.example"], 2),
        (["--relay", "ftp://localhost"], 2),
        (["--relay-key", "00"], 2),
    ];
    for (wrong, code) in refusals {
        let output = run(&place, &[&["send", "--to", "alice.address", "--text", "x"][..], &wrong].concat());
        assert_eq!(output.status.code(), Some(code), "{wrong:?}");
    }
}

#[test]
fn a_relay_is_reached_over_tls_by_those_who_trust_its_authority() {
    let place = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let files = [
        ("certificate", own.cert.pem()),
        ("key", own.signing_key.serialize_pem()),
        ("foreign", other.cert.pem()),
        ("a.toml", "log = \"error\"\n[tls]\ncertificate = \"certificate\"\nkey = \"key\"\n".into()),
    ];
    files.iter().for_each(|(name, text)| fs::write(place.path().join(name), text).unwrap());
    let relay = RelayProcess::start(&place, &["serve", "--config", "a.toml", "--data", "a"]);
    let url = relay.url.replace("http://", "https://");
    lines(&place, &["keys", "new", "alice"]);
    let send = ["send", "--relay", &url, "--to", "alice.address", "--text", "over TLS", "--attempts", "1"];
    // The usual authorities do not know this one, and another one is not it.
    for trust in [&[][..], &["--authority", "foreign"]] {
        let output = run(&place, &[&send[..], trust].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(4) && text.contains("its certificate was refused"), "{text}");
    }
    lines(&place, &[&send[..], &["--authority", "certificate"]].concat());
    let sync =
        ["sync", "--relay", &url, "--account", "alice.secret", "--state", "s", "--authority", "certificate"];
    let printed = lines(&place, &sync);
    assert_eq!(printed[0]["text"].as_str(), Some("over TLS"));
    let wrong = [&send[..], &["--authority", "key"]].concat();
    assert_eq!(run(&place, &wrong).status.code(), Some(3), "a key is no certificate");
}

#[test]
fn an_address_is_looked_up_by_name() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    lines(&place, &["keys", "new", "alice"]);
    fs::create_dir(path("directory")).unwrap();
    fs::copy(path("alice.address"), path("directory/Alice Li\u{e9}.address")).unwrap();
    fs::write(path("relay.toml"), "log = \"error\"\n[directory]\npath = \"directory\"\n").unwrap();
    let relay = RelayProcess::start(&place, &["serve", "--config", "relay.toml", "--data", "relay"]);
    let look_up = |name: &str| run(&place, &["lookup", "--relay", &relay.url, name, "--out", "found"]);
    let output = look_up("alice li\u{e9}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(path("found")).unwrap(), fs::read(path("alice.address")).unwrap());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["fingerprint"].as_str().unwrap().len(), 39);
    fs::remove_file(path("found")).unwrap();
    // As an accent of its own, and not at all.
    for name in ["Alice Lie\u{301}", "alice"] {
        let output = look_up(name);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(!path("found").exists());
    }
    assert_eq!(look_up("a\nb").status.code(), Some(3));
}

#[test]
fn a_key_is_registered_with_a_credential_and_not_without() {
    let place = tempfile::tempdir().unwrap();
    let closed = CONFIG.replace("[fetch]", "[registration]\npolicy = \"credential\"\n[fetch]");
    for (name, server) in [("a.toml", 0), ("b.toml", 1)] {
        fs::write(place.path().join(name), format!("{closed}server = {server}\n")).unwrap();
    }
    let new = ["credentials", "new", "--config", "a.toml", "--data", "a", "--count", "2"];
    let issued = lines(&place, &new);
    assert_eq!(issued.len(), 2);
    fs::write(place.path().join("mine"), format!("{}\n", issued[0]["credential"].as_str().unwrap())).unwrap();
    fs::write(place.path().join("other"), format!("rsc1_{}", "0".repeat(64))).unwrap();
    let first = RelayProcess::start(&place, &["serve", "--config", "a.toml", "--data", "a"]);
    let of = ["mirror", "--of", &first.url, "--relay", &first.key, "--config", "b.toml", "--data", "b"];
    let second = RelayProcess::start(&place, &of);
    lines(&place, &["keys", "new", "alice"]);
    let person = ["alice.secret".to_string(), "alice.state".to_string()];
    let arguments = sync_arguments(&person, &first, &second.url);
    for trust in [&[][..], &["--credential", "other"]] {
        let output = run(&place, &[&arguments[..], trust].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(3) && text.contains("credential"), "{text}");
    }
    let with = [&arguments[..], &["--credential", "mine"]].concat();
    lines(&place, &["send", "--relay", &first.url, "--to", "alice.address", "--text", "not needed for this"]);
    wait_until("a round", || run(&place, &with).status.success());
    // A lost state costs nothing: the same account gets the same registration.
    fs::remove_file(place.path().join("alice.state")).unwrap();
    wait_until("another round", || run(&place, &with).status.success());
    let operator = first.operations.parse().unwrap();
    let mut operator = restante_load::Connection::open(operator).unwrap();
    let seen: Value = operator.send("GET", "/credentials", &[], None).unwrap().json().unwrap();
    let mine =
        seen["credentials"].as_array().unwrap().iter().find(|one| one["id"] == issued[0]["id"]).unwrap();
    assert_eq!(mine["stream"], serde_json::json!([1, 1]));
    let id = issued[1]["id"].as_str().unwrap();
    assert_eq!(lines(&place, &["credentials", "revoke", "--data", "a", id])[0]["to_be_revoked"], 1);
    assert_eq!(run(&place, &["credentials", "revoke", "--data", "a", "7"]).status.code(), Some(2));
}
