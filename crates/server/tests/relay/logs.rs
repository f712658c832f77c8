//! What the log and the metrics never say, however much they say.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::frames::{Client, finish};
use crate::support::*;
use restante_load::Connection;
use restante_server::{CredentialTerms, Registration, issue_credentials};
use restante_wire::relay::{Hex, PostMessage, headers, media};

/// Tells the child where its data directory is.
const CHILD: &str = "RESTANTE_TEST_LOGGING_RELAY";

/// Not a test by itself: the relay that logs everything there is.
#[test]
fn child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    restante_server::start_logging("trace").unwrap();
    let mut settings = config(&folder.join("relay"));
    settings.registration.policy = Registration::Credential;
    let relay = TestRelay::start(settings);
    let text = format!("{} {}", relay.address, relay.operations);
    std::fs::write(folder.join("address.tmp"), text).unwrap();
    std::fs::rename(folder.join("address.tmp"), folder.join("address")).unwrap();
    while !folder.join("stop").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_of_tokens_messages_keys_and_clients_is_logged_at_any_level() {
    let scratch = tempfile::tempdir().unwrap();
    let terms = CredentialTerms { stream: 1, compact: 0, expires: u64::MAX };
    let (_, credential) = issue_credentials(&scratch.path().join("relay"), 1, &terms).unwrap().remove(0);
    let log = scratch.path().join("log");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["logs::child", "--exact", "--nocapture"])
        .env(CHILD, scratch.path())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let addresses = loop {
        if let Ok(text) = std::fs::read_to_string(scratch.path().join("address")) {
            break text;
        }
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "the relay did not start");
        std::thread::sleep(Duration::from_millis(10));
    };
    let (address, operations) = addresses.split_once(' ').unwrap();
    let (address, operations) = (address.parse().unwrap(), operations.parse().unwrap());

    // Everything that is secret or somebody's, as text that is found again.
    let text = "a word that nobody else says";
    let one = PostMessage { payload: text.as_bytes().repeat(3), ..message(1) };
    let mut client = Connection::open(address).unwrap();
    let local = client.stream().local_addr().unwrap();
    posted(&post(&mut client, vec![one.clone()]));
    let alice = Recipient::new(1);
    let (authorization, id) = (format!("Bearer {}", credential.reveal()), Hex([0xc7; 16]).to_string());
    let fields = [
        ("content-type", media::JSON),
        ("authorization", authorization.as_str()),
        (headers::REQUEST_ID, id.as_str()),
    ];
    let response = client.send("POST", "/v1/keys", &fields, Some(&json(&alice.request()))).unwrap();
    let registered: restante_wire::relay::Registered = response.json().unwrap();
    let path = format!("/v1/keys/{}", registered.key.key);
    let owner = Owner { path, authorization: format!("Bearer {}", registered.token.reveal()) };
    assert_eq!(owner.upload(&mut client, 0, &alice.file).status, 200);
    let job = owner.submit(&mut client, 0, None);
    owner.result(&mut client, job.id);
    // What is refused, too, and what goes over HTTP/2.
    assert_eq!(
        client.send("GET", &format!("/v1/keys/{text}").replace(' ', "-"), &[], None).unwrap().status,
        400
    );
    let wrong = Owner { path: owner.path.clone(), authorization: format!("Bearer rst1_{}", "ab".repeat(32)) };
    assert_eq!(wrong.send(&mut client, "GET", "", None).status, 401);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut client = Client::open(address, &h2::client::Builder::new()).await;
        let own = [("authorization", owner.authorization.as_str())];
        let events = format!("{}/jobs/{}/events", owner.path, job.id);
        let answer = client.begin("GET", &events, &own, None).await.unwrap();
        assert_eq!(finish(answer).await.unwrap().status, 200);
        let body = restante_wire::relay::PostBatch(vec![one]).to_body(CLUE.id());
        let fields = [("content-type", media::POST)];
        assert_eq!(client.send("POST", "/v1/messages", &fields, Some(&body)).await.unwrap().status, 200);
    });
    let metrics = Connection::open(operations).unwrap().send("GET", "/metrics", &[], None).unwrap();
    std::fs::write(scratch.path().join("stop"), "").unwrap();
    assert!(child.wait().unwrap().success());

    let log = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    assert!(log.contains("\"TRACE\"") && log.contains("/v1/keys/{key}/jobs"), "the log is not at work");
    let metrics = String::from_utf8(metrics.body).unwrap();
    let digits = |authorization: &str| authorization.rsplit('_').next().unwrap().to_owned();
    let hash = Hex(restante_wire::merkle::Hash::of(&alice.file).0).to_string();
    for (what, secret) in [
        ("the credential", digits(&authorization)),
        ("the request's id", id),
        ("the token", digits(&owner.authorization)),
        ("a wrong token", "ab".repeat(32)),
        ("the payload", text.to_owned()),
        ("a path", text.replace(' ', "-")),
        ("the key's id", registered.key.key.to_string()),
        ("the key's hash", hash),
        ("the job", job.id.to_string()),
        ("the client's address", local.to_string()),
        ("the client's port", format!(":{}", local.port())),
    ] {
        let found = log.lines().find(|line| line.contains(&secret));
        assert!(found.is_none(), "{what} is in the log: {found:?}");
        assert!(!metrics.contains(&secret), "{what} is in the metrics");
    }
    // As numbers, the way byte strings are shown.
    let shown = format!("{:?}", &text.as_bytes()[..8]);
    assert!(!log.contains(shown.trim_matches(['[', ']'])));
    let shown = format!("{:?}", &credential.as_bytes()[..8]);
    assert!(!log.contains(shown.trim_matches(['[', ']'])));
}
