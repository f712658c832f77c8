//! Registration with credentials: a use is spent once, whatever is repeated or crashes, and nothing else registers a key.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::*;
use restante_load::{Connection, Response};
use restante_server::{
    Config, CredentialTerms, Registration, RegistrationConfig, issue_credentials, revoke_credentials,
};
use restante_wire::relay::{Credential, Hex, KeyState, RegisterRequest, Registered, headers, media};

fn closed(data: &Path) -> Config {
    Config { registration: RegistrationConfig { policy: Registration::Credential }, ..config(data) }
}

fn terms(stream: u32) -> CredentialTerms {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    CredentialTerms { stream, compact: 0, expires: now + 3600 }
}

fn ask(client: &mut Connection, credential: &Credential, id: u8, request: &RegisterRequest) -> Response {
    let (authorization, id) = (format!("Bearer {}", credential.reveal()), Hex([id; 16]).to_string());
    let fields = [
        ("content-type", media::JSON),
        ("authorization", authorization.as_str()),
        (headers::REQUEST_ID, id.as_str()),
    ];
    client.send("POST", "/v1/keys", &fields, Some(&json(request))).unwrap()
}

fn registered(response: &Response) -> Registered {
    assert_eq!(response.status, 201, "{}", String::from_utf8_lossy(&response.body));
    response.json().unwrap()
}

/// State and uses of a credential, as operators see it.
fn seen(relay: &TestRelay, id: &Hex<16>) -> Option<(String, u64)> {
    let mut operator = Connection::open(relay.operations).unwrap();
    let all: serde_json::Value = operator.send("GET", "/credentials", &[], None).unwrap().json().unwrap();
    let one = all["credentials"].as_array().unwrap().iter().find(|one| one["id"] == id.to_string())?.clone();
    Some((one["state"].as_str().unwrap().into(), one["stream"][0].as_u64().unwrap()))
}

fn wait_for(relay: &TestRelay, id: &Hex<16>, state: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while seen(relay, id).is_none_or(|(found, _)| found != state) {
        assert!(Instant::now() < deadline, "{:?}", seen(relay, id));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_use_is_spent_once_and_registers_the_same_key_as_often_as_it_is_asked_for() {
    let scratch = tempfile::tempdir().unwrap();
    // Before the relay ever ran.
    let (name, credential) = issue_credentials(scratch.path(), 1, &terms(2)).unwrap().remove(0);
    let relay = TestRelay::start(closed(scratch.path()));
    let mut client = relay.connect();
    let (alice, bob) = (Recipient::new(1), Recipient::new(2));
    let first = registered(&ask(&mut client, &credential, 1, &alice.request()));
    // The answer is lost, the request comes again, and again after a crash.
    let again = registered(&ask(&mut client, &credential, 1, &alice.request()));
    assert_eq!((first.token.hash(), &first.key), (again.token.hash(), &again.key));
    drop(relay);
    let relay = TestRelay::start(closed(scratch.path()));
    let mut client = relay.connect();
    let again = registered(&ask(&mut client, &credential, 1, &alice.request()));
    assert_eq!(first.token.hash(), again.token.hash());
    assert_eq!(seen(&relay, &name), Some(("usable".into(), 1)));

    // It is a registration like any other; asking again does not undo what was uploaded.
    let authorization = format!("Bearer {}", first.token.reveal());
    let owner = Owner { path: format!("/v1/keys/{}", first.key.key), authorization };
    assert_eq!(owner.upload(&mut client, 0, &alice.file).status, 200);
    let again = registered(&ask(&mut client, &credential, 1, &alice.request()));
    assert_eq!((again.key.state, again.token.hash()), (KeyState::Ready, first.token.hash()));
    // What was deleted can be registered again for the same use, and has the same token.
    assert_eq!(owner.send(&mut client, "DELETE", "", None).status, 204);
    let again = registered(&ask(&mut client, &credential, 1, &alice.request()));
    assert_eq!((again.key.state, again.token.hash()), (KeyState::Uploading, first.token.hash()));

    // The same id for another key is a mistake; another id is another use.
    let field = Some("header:restante-request-id");
    assert_refused(&ask(&mut client, &credential, 1, &bob.request()), 409, "conflict", field);
    assert_eq!(seen(&relay, &name), Some(("usable".into(), 1)));
    let second = registered(&ask(&mut client, &credential, 2, &bob.request()));
    assert_ne!(second.token.hash(), first.token.hash());
    assert_eq!(seen(&relay, &name), Some(("spent".into(), 2)));
    let field = Some("header:authorization");
    assert_refused(&ask(&mut client, &credential, 3, &bob.request()), 403, "credential-spent", field);
    registered(&ask(&mut client, &credential, 2, &bob.request()));
    assert_eq!(seen(&relay, &name), Some(("spent".into(), 2)));
}

#[test]
fn nothing_but_a_credential_registers_a_key() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(closed(scratch.path()));
    let mut client = relay.connect();
    let request = Recipient::new(1).request();
    let body = json(&request);
    let id = "0".repeat(32);
    let unknown = format!("Bearer rsc1_{}", "0".repeat(64));
    let token = format!("Bearer rst1_{}", "0".repeat(64));
    for fields in [
        vec![],
        vec![("authorization", "Bearer nothing")],
        vec![("authorization", token.as_str()), (headers::REQUEST_ID, id.as_str())],
        vec![("authorization", unknown.as_str()), (headers::REQUEST_ID, id.as_str())],
    ] {
        let fields = [&fields[..], &[("content-type", media::JSON)]].concat();
        let response = client.send("POST", "/v1/keys", &fields, Some(&body)).unwrap();
        assert_refused(&response, 401, "credential", Some("header:authorization"));
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
    }
    for wrong in [vec![], vec![(headers::REQUEST_ID, "7")]] {
        let fields =
            [&wrong[..], &[("content-type", media::JSON), ("authorization", unknown.as_str())]].concat();
        let response = client.send("POST", "/v1/keys", &fields, Some(&body)).unwrap();
        assert_refused(&response, 400, "malformed", Some("header:restante-request-id"));
    }
    // Issued and revoked while it runs. What was registered stays; nothing more is.
    let (name, credential) = issue_credentials(scratch.path(), 1, &terms(2)).unwrap().remove(0);
    wait_for(&relay, &name, "usable");
    let one = registered(&ask(&mut client, &credential, 1, &request));
    revoke_credentials(scratch.path(), &[name]).unwrap();
    wait_for(&relay, &name, "revoked");
    let field = Some("header:authorization");
    assert_refused(&ask(&mut client, &credential, 2, &request), 403, "credential-revoked", field);
    let authorization = format!("Bearer {}", one.token.reveal());
    let owner = Owner { path: format!("/v1/keys/{}", one.key.key), authorization };
    assert_eq!(owner.upload(&mut client, 0, &Recipient::new(1).file).status, 200);
    // Posting and reading need none, and clients do not see the operator's route.
    fill(&mut client, 2);
    assert_eq!(client.send("GET", "/credentials", &[], None).unwrap().status, 404);

    // Expired.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let short = CredentialTerms { expires: now + 4, ..terms(1) };
    let (name, credential) = issue_credentials(scratch.path(), 1, &short).unwrap().remove(0);
    wait_for(&relay, &name, "expired");
    assert_refused(&ask(&mut client, &credential, 1, &request), 403, "credential-expired", field);
    // Nothing on the disk is a credential or a request's id.
    drop(relay);
    let stored = std::fs::read(scratch.path().join("registry.redb")).unwrap();
    let contains = |text: &[u8]| stored.windows(text.len()).any(|window| window == text);
    assert!(contains(name.to_string().as_bytes()), "the registry is not what is looked at");
    assert!(
        !contains(credential.as_bytes()) && !contains(Hex(*credential.as_bytes()).to_string().as_bytes())
    );
    assert!(!contains(&[1; 16]) && !contains(Hex([1; 16]).to_string().as_bytes()));
}

#[test]
fn many_who_use_one_credential_at_once_get_no_more_than_it_is_good_for() {
    let scratch = tempfile::tempdir().unwrap();
    let (name, credential) = issue_credentials(scratch.path(), 1, &terms(3)).unwrap().remove(0);
    let relay = TestRelay::start(closed(scratch.path()));
    let request = Recipient::new(1).request();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        // Each id comes twice.
        let threads: Vec<_> = (0..16u8)
            .map(|number| {
                let (mut client, credential, request) = (relay.connect(), &credential, &request);
                scope.spawn(move || ask(&mut client, credential, number / 2, request).status)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let granted: Vec<bool> = statuses.chunks(2).map(|pair| pair.contains(&201)).collect();
    assert!(statuses.iter().all(|status| matches!(status, 201 | 403)), "{statuses:?}");
    assert!(statuses.chunks(2).all(|pair| pair[0] == pair[1]), "{statuses:?}");
    assert_eq!(granted.into_iter().filter(|granted| *granted).count(), 3);
    assert_eq!(seen(&relay, &name), Some(("spent".into(), 3)));
}
