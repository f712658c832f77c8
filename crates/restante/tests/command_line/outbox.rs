//! An outbox loses nothing and mixes nothing up.

use restante_client::relay::Outboxes;

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
