//! An outbox loses nothing and mixes nothing up.

use std::time::Duration;

use restante_client::relay::{
    Cause, Destination, Driver, Host, KnownRelay, Outboxes, PostMachine, Reply, Request, Response, Retries,
};
use restante_load::Connection;

use super::{
    relay::{RelayProcess, free_address, texts},
    *,
};

fn waiting(place: &Place) -> Vec<(String, usize)> {
    let boxes = Outboxes::from_file(&fs::read(place.path("box")).unwrap()).unwrap();
    boxes.iter().map(|(destination, outbox)| (destination.relay.clone(), outbox.waiting())).collect()
}

fn send(url: &str, to: &str, text: &str) -> String {
    format!("send --relay {url} --to {to}.address --text {text} --outbox box --attempts 1")
}

#[test]
fn messages_that_wait_are_listed_and_can_be_removed() {
    let place = Place::new();
    place.run("keys new alice");
    let address = free_address();
    let url = format!("http://{address}");
    place.refuse("outbox list box", 4, &["box"]);
    assert!(!place.path("box").exists());
    for text in ["one", "three"] {
        place.refuse(&send(&url, "alice", text), 4, &["waits in box"]);
    }
    let listed = place.json("outbox list box");
    let tickets: Vec<&str> = listed.iter().map(|line| line["ticket"].as_str().unwrap()).collect();
    assert_eq!(listed.iter().map(|line| line["bytes"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 5]);
    assert!(listed.iter().all(|line| line["relay"] == url && line["may_be_posted"] == false));
    let text = String::from_utf8(place.command("outbox list box").output().unwrap().stdout).unwrap();
    assert!(text.lines().zip(&tickets).all(|(line, ticket)| line.starts_with(ticket)), "{text}");

    // All or none.
    let unknown = "00".repeat(16);
    place.refuse(
        &format!("outbox remove box {} {unknown}", tickets[0]),
        3,
        &[&unknown, "nothing is removed"],
    );
    assert_eq!(waiting(&place), [(url.clone(), 2)]);
    assert_eq!(place.json(&format!("outbox remove box {}", tickets[0]))[0]["removed"], 1);
    assert_eq!(place.json("outbox list box").len(), 1);
    let _relay = RelayProcess::start_at(&place, &address, "--data relay");
    place.run(&send(&url, "alice", "five"));
    assert!(place.json("outbox list box").is_empty());
    assert_eq!(texts(&place, &url, "alice"), ["three", "five"]);
}

#[test]
fn overlapping_sends_lose_no_message() {
    let place = Place::new();
    place.run("keys new alice");
    let address = free_address();
    let url = format!("http://{address}");
    let children: Vec<_> = (0..6)
        .map(|number| {
            let mut command = place.command(&send(&url, "alice", &format!("text-{number}")));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        check_refusal("send", &output, 4, &["connection was refused", "waits in box"]);
    }
    assert_eq!(waiting(&place), [(url.clone(), 6)]);

    // The same with a relay that is there: each is posted once, and every call says where its own is.
    let relay = RelayProcess::start_at(&place, &address, "--data relay");
    let children: Vec<_> = (6..10)
        .map(|number| {
            let mut command =
                place.command(&format!("{} --json", send(&url, "alice", &format!("text-{number}"))));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut indices: Vec<u64> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            report["index"].as_u64().unwrap()
        })
        .collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), 4);
    let mut found = texts(&place, &relay.url, "alice");
    found.sort();
    assert_eq!(found, (0..10).map(|number| format!("text-{number}")).collect::<Vec<_>>());
    assert!(waiting(&place).is_empty());
    // What left the outbox is in the record.
    let record = fs::read_to_string(place.path("box.sent")).unwrap();
    let mut recorded: Vec<u64> = record
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["relay"].as_str(), Some(url.as_str()));
            line["index"].as_u64().unwrap()
        })
        .collect();
    recorded.sort_unstable();
    assert_eq!(recorded, (0..10).collect::<Vec<_>>());
    #[cfg(unix)]
    for name in ["box", "box.sent", "box.lock"] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_message_is_posted_to_its_own_relay_only() {
    let place = Place::new();
    place.run("keys new alice");
    let (address, other) = (free_address(), RelayProcess::start(&place, "--data other"));
    let url = format!("http://{address}");
    place.refuse(&send(&url, "alice", "for-one"), 4, &["waits in box"]);
    let report = &place.json(&send(&other.url, "alice", "for-other"))[0];
    assert_eq!(report["posted"], 1);
    assert_eq!(report["waiting"], serde_json::json!([{ "relay": url, "clue": "standard", "messages": 1 }]));
    assert_eq!(texts(&place, &other.url, "alice"), ["for-other"]);
    assert_eq!(waiting(&place), [(url.clone(), 1)]);
    let relay = RelayProcess::start_at(&place, &address, "--data relay");
    let report = &place.json(&send(&format!("HTTP://{address}/"), "alice", "more"))[0];
    assert_eq!((&report["posted"], &report["waiting"]), (&2.into(), &serde_json::json!([])));
    assert_eq!(texts(&place, &relay.url, "alice"), ["for-one", "more"]);
}

#[test]
fn what_cannot_be_posted_keeps_nothing_else_back() {
    let place = Place::new();
    place.run("keys new alice");
    place.run("keys new bob --clue short");
    let address = free_address();
    let url = format!("http://{address}");
    place.refuse(&send(&url, "alice", "waits"), 4, &[]);
    fs::write(place.path("relay.toml"), "log = \"error\"\nclue = \"short\"\n").unwrap();
    let relay = RelayProcess::start_at(&place, &address, "--config relay.toml --data relay");
    let output = place.command(&send(&url, "bob", "goes")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && told.contains("1 messages wait for") && told.contains("standard"),
        "{told}"
    );
    assert_eq!(texts(&place, &relay.url, "bob"), ["goes"]);
    assert_eq!(waiting(&place), [(url, 1)]);
}

#[test]
fn several_recipients_get_a_message_each() {
    let place = Place::new();
    for name in ["alice", "bob"] {
        place.run(&format!("keys new {name}"));
    }
    let relay = RelayProcess::start(&place, "--data relay");
    let both = format!("send --relay {} --to alice.address --to bob.address --text both", relay.url);
    let report = &place.json(&both)[0];
    let ids: Vec<&str> =
        report["messages"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && report["posted"] == 2, "{report}");
    for name in ["alice", "bob"] {
        assert_eq!(texts(&place, &relay.url, name), ["both"]);
    }
    // One that cannot be read keeps all from being sent.
    place.refuse(&both.replace("bob.address", "missing"), 4, &["missing"]);
    assert_eq!(texts(&place, &relay.url, "alice"), ["both"]);
}

/// Posts over one connection.
struct Poster(Connection);

impl Host for Poster {
    type Error = std::convert::Infallible;

    fn ask(&mut self, request: Request) -> Result<Reply, Self::Error> {
        let fields: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = (!request.body.is_empty()).then_some(&request.body[..]);
        Ok(match self.0.send(request.method.name(), &request.path, &fields, body) {
            Ok(answer) => {
                Reply::Answer(Response { status: answer.status, headers: answer.headers, body: answer.body })
            }
            Err(_) => Reply::Broken(Cause::default()),
        })
    }

    fn clock(&mut self) -> Duration {
        Duration::MAX
    }

    fn sleep(&mut self, _: Duration) {}

    fn now(&mut self) -> u64 {
        now()
    }
}

/// A process that is killed when the relay has answered leaves its receipts in the outbox. They get into the record, once, and do
/// not come back.
#[test]
fn receipts_that_a_killed_process_has_left_are_recorded_once() {
    let place = Place::new();
    place.run("keys new alice");
    let relay = RelayProcess::start(&place, "--data relay");
    let address = Address::from_file(&fs::read(place.path("alice.address")).unwrap()).unwrap();
    let parameters = *address.parameters();
    let mut boxes = Outboxes::new();
    // One of them is for a relay that nothing is sent to any more.
    for name in [relay.url.as_str(), "https://other.example"] {
        let destination = Destination { relay: name.into(), key: None, parameters };
        let outbox = boxes.outbox(&destination).unwrap();
        let mut rng = ChaCha20Rng::from_seed([name.len() as u8; 32]);
        outbox.push(&address, name.as_bytes(), &mut rng).unwrap();
        let mut machine = PostMachine::new(outbox.clone(), KnownRelay::default(), 3600, Retries::default());
        let mut poster = Poster(Connection::open(relay.address.parse().unwrap()).unwrap());
        Driver::new().run(&mut machine, &mut poster, &mut rng, |_| Ok(())).unwrap();
        *outbox = machine.outbox().clone();
        assert_eq!(outbox.receipts().count(), 1);
    }
    fs::write(place.path("box"), boxes.to_file()).unwrap();
    for number in 0..3 {
        let report = &place.json(&send(&relay.url, "alice", &format!("text-{number}")))[0];
        assert_eq!((&report["posted"], &report["index"]), (&1.into(), &(2 + number).into()));
        let record = fs::read_to_string(place.path("box.sent")).unwrap();
        let mut recorded: Vec<u64> = record
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["index"].as_u64().unwrap())
            .collect();
        recorded.sort_unstable();
        assert_eq!(recorded, (0..3 + number).collect::<Vec<_>>());
        assert_eq!(Outboxes::from_file(&fs::read(place.path("box")).unwrap()).unwrap(), Outboxes::new());
    }
}

/// A message that the relay never takes stays, and is named; what is sent afterwards goes out.
#[test]
fn a_message_that_is_too_long_for_the_relay_keeps_no_later_one_back() {
    let place = Place::new();
    place.run("keys new alice");
    fs::write(place.path("relay.toml"), "log = \"error\"\n[limits]\nbatch_bytes = 10000\n").unwrap();
    let relay = RelayProcess::start(&place, "--config relay.toml --data relay");
    let long = "x".repeat(5000);
    place.refuse(&send(&relay.url, "alice", &long), 3, &["8192 bytes, the relay takes 7", "waits in box"]);
    let output = place.command(&send(&relay.url, "alice", "short")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("still there"), "{told}");
    assert_eq!(texts(&place, &relay.url, "alice"), ["short"]);
    assert_eq!(waiting(&place), [(relay.url.clone(), 1)]);
}
