//! A second relay that follows the first: what it takes over is verified, and both answer private fetch.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::*;
use restante_load::Connection;
use restante_pir::fetch::{Answer, Catalog, decode};
use restante_server::{Config, FetchConfig, MirrorConfig, Relay, RetentionConfig, TlsConfig};
use restante_wire::relay::{EpochList, media};

fn fetching(data: &Path, server: u8) -> Config {
    let mut config = config(data);
    let part = "message".into();
    config.fetch = Some(FetchConfig {
        record_bytes: 2700,
        part,
        messages: 64,
        window: 128,
        seconds: 3600,
        server: Some(server),
    });
    config
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn epochs(client: &mut Connection) -> EpochList {
    client.send("GET", "/v1/epochs", &[], None).unwrap().json().unwrap()
}

#[test]
fn a_mirror_follows_verifies_and_serves_private_fetch() {
    let (first, second, fork) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = fetching(first.path(), 0);
    let source = TestRelay::start(settings.clone());
    // The same port again, later.
    settings.listen = source.address;
    let mut client = source.connect();
    fill(&mut client, 100);
    let mut follow = fetching(second.path(), 1);
    let url = format!("http://{}", source.address);
    follow.mirror =
        Some(MirrorConfig { url: url.clone(), relay: source.key, seconds: 1, authority: None, proxy: None });
    let mirror = TestRelay::start(follow);
    let mut other = mirror.connect();
    fill(&mut client, 170);
    let count = |client: &mut Connection, relay: &TestRelay| head(client, &relay.key).count;
    wait("the mirror follows", || count(&mut other, &mirror) == 270);
    let (a, b) = (head(&mut client, &source.key), head(&mut other, &mirror.key));
    assert_eq!((a.count, a.root), (b.count, b.root));
    assert_ne!(a.relay, b.relay);
    let refused = post(&mut other, vec![message(1)]);
    assert_refused(&refused, 403, "read-only", None);

    // Both make the same epochs, and neither is asked for a record.
    wait("both have the epoch", || {
        let end = |client: &mut Connection| epochs(client).epochs.first().map(|epoch| epoch.complete_to);
        end(&mut client) == Some(256) && end(&mut other) == Some(256)
    });
    let epoch = epochs(&mut client).epochs[0].clone();
    assert_eq!(epoch, epochs(&mut other).epochs[0]);
    assert_eq!((epoch.first, epoch.complete_to), (128, 256));
    let folder = tempfile::tempdir().unwrap();
    for (name, path) in [("epoch", ""), ("hashes", "/hashes")] {
        let response = client.send("GET", &format!("/v1/epochs/{}{path}", epoch.epoch), &[], None).unwrap();
        assert_eq!(response.status, 200);
        std::fs::write(folder.path().join(name), response.body).unwrap();
    }
    let catalog = Catalog::open(folder.path()).unwrap();
    let (state, queries) = catalog.query(&[5, 77], 4, &mut rng(1)).unwrap();
    let path = format!("/v1/epochs/{}/fetch", epoch.epoch);
    let headers = [("content-type", media::FETCH_QUERY)];
    let ask = |client: &mut Connection, server: usize| {
        client.send("POST", &path, &headers, Some(&queries[server].to_file())).unwrap()
    };
    let answers =
        [ask(&mut client, 0), ask(&mut other, 1)].map(|response| Answer::from_file(&response.body).unwrap());
    let fetched = decode(&state, &answers[0], &answers[1]).unwrap();
    for (record, index) in fetched.iter().zip([5, 77]) {
        let message = &page(&mut client, epoch.first + index, epoch.first + index + 1).messages[0];
        assert_eq!(*record.content, [message.clue.as_slice(), &message.payload].concat());
    }
    assert_refused(&ask(&mut client, 1), 422, "invalid", Some("body:server"));
    assert_refused(&ask(&mut other, 0), 422, "invalid", Some("body:server"));

    // The source shows another board under the same key: the mirror stays with what it has.
    drop((client, source));
    std::fs::create_dir_all(fork.path()).unwrap();
    std::fs::copy(first.path().join("identity"), fork.path().join("identity")).unwrap();
    let forked = TestRelay::start(Config { data: fork.path().into(), ..settings.clone() });
    let mut client = forked.connect();
    for _ in 0..3 {
        fill(&mut client, 120);
    }
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(count(&mut other, &mirror), 270);
    assert_eq!(head(&mut other, &mirror.key).root, a.root);
    drop((client, forked));

    // The real one again, with more messages; it has forgotten old ones, which the mirror has.
    settings.retention = RetentionConfig { seconds: None, bytes: Some(400_000) };
    let source = TestRelay::start(settings);
    let mut client = source.connect();
    wait("old messages are forgotten", || {
        let response = client.send("GET", "/v1/messages?first=0", &[], None).unwrap();
        response.status == 410
    });
    let gone = client.send("GET", "/v1/messages?first=0", &[], None).unwrap();
    assert_refused(&gone, 410, "gone", Some("query:first"));
    fill(&mut client, 10);
    wait("the mirror goes on", || count(&mut other, &mirror) == 280);
    assert_eq!(head(&mut client, &source.key).root, head(&mut other, &mirror.key).root);
    page(&mut other, 0, 10);
    let late = head(&mut client, &source.key);
    late.verify_continues(&a, &consistency(&mut client, a.count, late.count)).unwrap();
}

fn metric(relay: &TestRelay, name: &str) -> u64 {
    let text = String::from_utf8(relay.operate("GET", "/metrics").body).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("restante_{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The last messages of the epochs that a relay lists, newest first.
fn ends(relay: &TestRelay) -> Vec<u64> {
    epochs(&mut relay.connect()).epochs.iter().map(|epoch| epoch.complete_to).collect()
}

#[test]
fn epochs_end_by_time_and_two_relays_agree_where() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Ten seconds behind the hour: messages are of today, and a mirror takes none of a day that has not begun.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let clock = restante_server::TestClock::new(now - now % 3600 + 10);
    let timed = |data: &Path, server| {
        let mut settings = fetching(data, server);
        settings.time = restante_server::TimeSource::test(&clock);
        settings.period_for_tests = Some(today());
        settings
    };
    let source = TestRelay::start(timed(first.path(), 0));
    let mut client = source.connect();
    let mut follow = timed(second.path(), 1);
    let url = format!("http://{}", source.address);
    follow.mirror = Some(MirrorConfig { seconds: 1, ..MirrorConfig::new(url, source.key) });
    fill(&mut client, 10);
    let mirror = TestRelay::start(follow.clone());
    std::thread::sleep(Duration::from_secs(1));
    // Neither by number nor by time.
    assert_eq!((ends(&source), ends(&mirror)), (vec![], vec![]));
    clock.advance(3600);
    wait("an epoch of ten messages on both", || ends(&source) == [10] && ends(&mirror) == [10]);
    assert_eq!(epochs(&mut client), epochs(&mut mirror.connect()));
    // Without new messages there is nothing to end.
    clock.advance(3600);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(ends(&source), [10]);
    // Across a multiple of 64: one epoch by number, one by time, with the window behind the multiple and what came since.
    fill(&mut client, 190);
    wait("an epoch by number", || ends(&source)[0] == 192 && ends(&mirror)[0] == 192);
    clock.advance(3600);
    wait("an epoch by time", || ends(&source)[0] == 200 && ends(&mirror)[0] == 200);
    let [a, b] = [&source, &mirror].map(|relay| epochs(&mut relay.connect()).epochs[0].clone());
    assert_eq!(a, b);
    assert_eq!((a.first, a.complete_to), (64, 200));
    // Whoever starts again has the same, and ends none anew for having been away.
    source.stop();
    let source = TestRelay::start(timed(first.path(), 0));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(epochs(&mut source.connect()).epochs[0], a);
}

#[test]
fn a_relay_that_forgets_what_epochs_need_says_that_there_are_no_new_ones() {
    let scratch = tempfile::tempdir().unwrap();
    let settings = || Config { segment_capacity: 16, ..fetching(scratch.path(), 0) };
    let relay = TestRelay::start(settings());
    fill(&mut relay.connect(), 200);
    wait("the first epoch", || ends(&relay) == [192]);
    assert_eq!(metric(&relay, "fetch_stopped"), 0);
    relay.stop();
    let mut forgetful = settings();
    forgetful.retention = RetentionConfig { seconds: None, bytes: Some(1) };
    let relay = TestRelay::start(forgetful);
    wait("messages are forgotten", || metric(&relay, "retained_from") == 192);
    // The epoch that ends at 256 would begin at 128.
    fill(&mut relay.connect(), 60);
    wait("the relay says so", || metric(&relay, "fetch_stopped") == 1);
    assert_eq!(ends(&relay), [192]);
    relay.stop();
    // It is over with an epoch that has its messages.
    let relay = TestRelay::start(settings());
    let retained = metric(&relay, "retained_from");
    fill(&mut relay.connect(), 140);
    wait("a new epoch", || ends(&relay)[0] == 384);
    assert!(retained <= 256 && metric(&relay, "messages") == 400);
    wait("the relay says that, too", || metric(&relay, "fetch_stopped") == 0);
}

#[test]
fn a_mirror_is_ready_while_it_follows_and_says_how_far_behind_it_is() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = config(first.path());
    let source = TestRelay::start(settings.clone());
    settings.listen = source.address;
    fill(&mut source.connect(), 10);
    let mut follow = config(second.path());
    let url = format!("http://{}", source.address);
    follow.mirror = Some(MirrorConfig { seconds: 1, ..MirrorConfig::new(&url, source.key) });
    let mirror = TestRelay::start(follow);
    let ready = || mirror.operate("GET", "/readyz");
    wait("the mirror is ready", || ready().status == 204);
    wait("the metrics say so", || (metric(&mirror, "messages"), metric(&mirror, "mirror_behind")) == (10, 0));
    assert_eq!(metric(&source, "mirror_lag_seconds"), 0);
    source.stop();
    wait("a mirror without its origin is not ready", || ready().status == 503);
    let reason = problem(&ready()).detail;
    assert!(reason.contains(&url), "{reason}");
    wait("and falls behind", || metric(&mirror, "mirror_lag_seconds") >= 3);
    let source = TestRelay::start(settings);
    wait("the mirror is ready again", || ready().status == 204);
    drop(source);
}

#[test]
fn a_mirror_whose_settings_do_not_fit_its_origin_says_so_and_ends() {
    let (first, second, third) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = TestRelay::start(fetching(first.path(), 0));
    let mut settings = config(third.path());
    settings.board_id_for_tests = Some(restante_wire::binding::BoardId([9; 16]));
    let other = TestRelay::start(settings);
    fill(&mut source.connect(), 3);
    let follow = |change: &dyn Fn(&mut Config)| {
        let mut follow = fetching(second.path(), 1);
        let url = format!("http://{}", source.address);
        follow.mirror = Some(MirrorConfig { seconds: 1, ..MirrorConfig::new(url, source.key) });
        change(&mut follow);
        TestRelay::start(follow).failure()
    };
    let mirror = |config: &mut Config| config.mirror.clone().unwrap();
    // The first takes the board's id over and nothing else.
    let said = follow(&|config| config.fetch.as_mut().unwrap().server = Some(0));
    assert!(said.contains("fetch.server is 0 on both"), "{said}");
    let said = follow(&|config| config.fetch.as_mut().unwrap().record_bytes = 2800);
    assert!(said.contains("fetch.record_bytes"), "{said}");
    let said = follow(&|config| {
        config.fetch = None;
        let url = format!("http://{}", other.address);
        config.mirror = Some(MirrorConfig { url, relay: other.key, ..mirror(config) });
    });
    assert!(said.contains("it has board"), "{said}");
    let said = follow(&|config| {
        config.fetch = None;
        config.mirror = Some(MirrorConfig { relay: other.key, ..mirror(config) });
    });
    assert!(said.contains("is not signed by"), "{said}");
    let said = follow(&|config| {
        config.fetch = None;
        config.mirror = Some(MirrorConfig { url: "ftp://a".into(), ..mirror(config) });
    });
    assert!(said.contains("mirror.url"), "{said}");
}

#[test]
fn a_mirror_takes_nothing_from_a_relay_with_another_key() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = TestRelay::start(config(first.path()));
    fill(&mut source.connect(), 10);
    let mut follow = config(second.path());
    let mut relay = source.key;
    relay.0[0] ^= 1;
    follow.mirror = Some(MirrorConfig {
        url: format!("http://{}", source.address),
        relay,
        seconds: 1,
        authority: None,
        proxy: None,
    });
    // A new mirror takes its board's id from a head of its origin's, and does not start without.
    let error = Relay::open(follow).err().unwrap().to_string();
    assert!(error.contains("not signed by"), "{error}");
}

#[test]
fn a_mirror_follows_over_tls_and_trusts_its_authority_only() {
    let (first, second, third, files) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let [certificate, key, foreign] = ["certificate", "key", "foreign"].map(|name| files.path().join(name));
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    std::fs::write(&foreign, other.cert.pem()).unwrap();
    // Filled before it speaks TLS, with the plain client of these tests.
    let mut settings = config(first.path());
    let source = TestRelay::start(settings.clone());
    fill(&mut source.connect(), 10);
    source.stop();
    settings.tls = Some(TlsConfig { certificate: certificate.clone(), key });
    let source = TestRelay::start(settings);
    let follow = |data: &Path, authority: &Path| {
        let mut follow = config(data);
        let (url, relay) = (format!("https://{}", source.address), source.key);
        follow.mirror =
            Some(MirrorConfig { url, relay, seconds: 1, authority: Some(authority.into()), proxy: None });
        follow
    };
    let trusting = TestRelay::start(follow(second.path(), &certificate));
    let error = Relay::open(follow(third.path(), &foreign)).err().unwrap().to_string();
    assert!(error.contains("certificate"), "{error}");
    let mut client = trusting.connect();
    wait("the mirror follows", || head(&mut client, &trusting.key).count == 10);
}
