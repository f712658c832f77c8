//! The relay speaks HTTP/2, with the limits that HTTP/1.1 has, and what HTTP/2 makes possible is limited too.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write;
use std::time::{Duration, Instant};

use crate::frames::*;
use crate::support::*;
use bytes::Bytes;
use h2::client::Builder;
use restante_server::{Config, TlsConfig};
use restante_wire::merkle::Hash;
use restante_wire::relay::{
    Hex, JobStatus, KeyState, KeyStatus, Page, PostBatch, Registered, SignedHead, media,
};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Short times, as slow clients are tested with.
fn quick(config: &mut Config) {
    config.limits.header_seconds = 1;
    config.limits.body_seconds = 1;
    config.limits.body_bytes_per_second = 1 << 20;
    config.limits.idle_seconds = 2;
}

/// One client's whole day.
async fn main_routes(client: &mut Client, relay: &TestRelay) {
    let alice = Recipient::new(1);
    let batch = PostBatch(vec![message(1), alice.message("for alice", random::<1>()[0]), message(3)])
        .to_body(CLUE.id());
    let fields = [("content-type", media::POST)];
    let answer = client.send("POST", "/v1/messages", &fields, Some(&batch)).await.unwrap();
    let first = posted(&answer).messages[0].index;
    let head = client.send("GET", "/v1/head", &[], None).await.unwrap();
    let head = SignedHead::from_file(&head.body).unwrap();
    assert!(head.is_signed_by(&relay.key) && head.count == first + 3);
    let path = format!("/v1/messages?first={first}");
    let page = client.send("GET", &path, &[], None).await.unwrap();
    let page = Page::from_body(CLUE.id(), CLUE.clue_bytes(), &page.body).unwrap();
    page.verify().unwrap();
    assert_eq!(page.messages.len(), 3);

    let fields = [("content-type", media::JSON)];
    let answer = client.send("POST", "/v1/keys", &fields, Some(&json(&alice.request()))).await.unwrap();
    let registered: Registered = answer.json().unwrap();
    let authorization = format!("Bearer {}", registered.token.reveal());
    let own = ("authorization", authorization.as_str());
    let key = format!("/v1/keys/{}", registered.key.key);
    // All but the end first, on a stream of its own.
    let (start, rest) = alice.file.split_at(alice.file.len() - 1000);
    let mut state = KeyState::Uploading;
    for (offset, part) in [(0, start), (start.len(), rest)] {
        let offset = offset.to_string();
        let fields = [own, ("content-type", media::KEY_PART), ("upload-offset", offset.as_str())];
        let answer = client.send("PATCH", &format!("{key}/content"), &fields, Some(part)).await.unwrap();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        state = answer.json::<KeyStatus>().unwrap().state;
    }
    assert_eq!(state, KeyState::Ready);
    let job = stream_job(first, None);
    let fields = [own, ("content-type", media::JSON)];
    let answer = client.send("POST", &format!("{key}/jobs"), &fields, Some(&json(&job))).await.unwrap();
    assert_eq!(answer.status, 202);
    // The stream of events ends with the job; others go on meanwhile.
    let path = format!("{key}/jobs/{}", job.id);
    let events = client.begin("GET", &format!("{path}/events"), &[own], None).await.unwrap();
    assert_eq!(client.send("GET", "/v1/head", &[], None).await.unwrap().status, 200);
    let events = finish(events).await.unwrap();
    assert_eq!(events.header("content-type"), Some(media::EVENTS));
    let text = String::from_utf8(events.body).unwrap();
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let status: JobStatus = serde_json::from_str(last).unwrap();
    let result = client.send("GET", &format!("{path}/result"), &[own], None).await.unwrap();
    assert_eq!(status.result_hash, Some(Hex(Hash::of(&result.body).0)));
    assert_eq!(alice.pertinent(&result.body), [first + 1]);
    let fields = [own, ("range", "bytes=1000-")];
    let part = client.send("GET", &format!("{path}/result"), &fields, None).await.unwrap();
    assert_eq!((part.status, part.body.as_slice()), (206, &result.body[1000..]));

    // What is refused is refused in the same way.
    let answer = client.send("GET", "/v1/messages?first=-1", &[], None).await.unwrap();
    assert_refused(&answer, 400, "malformed", Some("query:first"));
    assert_refused(
        &client.send("GET", &key, &[], None).await.unwrap(),
        401,
        "unauthorized",
        Some("header:authorization"),
    );
    assert_refused(&client.send("DELETE", "/v1/head", &[], None).await.unwrap(), 405, "method", None);
}

#[test]
fn the_main_routes_work_in_the_clear_and_over_tls() {
    let (scratch, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let relay = TestRelay::start(config(scratch.path()));
    block_on(async {
        let mut client = Client::open(relay.address, &Builder::new()).await;
        main_routes(&mut client, &relay).await;
    });
    drop(relay);
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let [certificate, key] = ["certificate", "key"].map(|name| files.path().join(name));
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let settings = Config { tls: Some(TlsConfig { certificate, key }), ..config(scratch.path()) };
    let relay = TestRelay::start(settings);
    block_on(async {
        let mut client = Client::open_tls(relay.address, own.cert.der().clone()).await;
        main_routes(&mut client, &relay).await;
    });
}

#[test]
fn limits_hold_as_they_do_without_it() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.requests_per_address = 30;
    let relay = TestRelay::start(settings);
    block_on(async {
        let mut client = Client::open(relay.address, &Builder::new()).await;
        // Announced and not sent: the answer does not wait for it.
        let request = axum::http::Request::builder()
            .method("POST")
            .uri("http://127.0.0.1/v1/messages")
            .header("content-type", media::POST)
            .header("content-length", "99999999999");
        std::future::poll_fn(|context| client.sender.poll_ready(context)).await.unwrap();
        let (answer, _stream) = client.sender.send_request(request.body(()).unwrap(), false).unwrap();
        assert_refused(&finish(answer).await.unwrap(), 413, "too-large", Some("header:content-length"));
        // No length, the wrong type, a header that is too long.
        let mut post = async |fields: &[(&str, &str)], path: &str| {
            let mut request =
                axum::http::Request::builder().method("POST").uri(format!("http://127.0.0.1{path}"));
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            std::future::poll_fn(|context| client.sender.poll_ready(context)).await.unwrap();
            let (answer, mut stream) = client.sender.send_request(request.body(()).unwrap(), false).unwrap();
            let _ = stream.send_data(Bytes::from_static(b"abc"), true);
            finish(answer).await
        };
        let answer = post(&[("content-type", media::POST)], "/v1/messages").await.unwrap();
        assert_refused(&answer, 411, "length", Some("header:content-length"));
        let answer = post(&[("content-type", "text/plain")], "/v1/keys").await.unwrap();
        assert_refused(&answer, 415, "media-type", Some("header:content-type"));
        let long = "a".repeat(40 << 10);
        let answer = post(&[("x", &long)], "/v1/keys").await;
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 431));
        // The rate counts requests, not connections.
        let mut client = Client::open(relay.address, &Builder::new()).await;
        let mut last = client.send("GET", "/v1/head", &[], None).await.unwrap();
        for _ in 0..400 {
            if last.status != 200 {
                break;
            }
            last = client.send("GET", "/v1/head", &[], None).await.unwrap();
        }
        assert_refused(&last, 429, "rate", None);
    });
}

#[test]
fn a_connection_has_a_number_of_streams_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = Frames::open(relay.address, &[]);
    let (_, settings) = client.until(SETTINGS).unwrap();
    let announced = settings.chunks(6).find(|one| one[..2] == [0, 3]).map(|one| one[5]);
    assert_eq!(announced, Some(64));
    // Bodies that do not come keep their streams open.
    for place in 0..65 {
        client.0.write_all(&frame(HEADERS, END_HEADERS, 1 + 2 * place, &header(true, "/v1/keys"))).unwrap();
    }
    // REFUSED_STREAM for the last, and the others go on.
    assert_eq!(client.until(RST_STREAM), Some((129, vec![0, 0, 0, 7])));
    client.0.write_all(&frame(DATA, END_STREAM, 1, b"{}")).unwrap();
    assert_eq!(client.until(HEADERS).unwrap().0, 1);
    fill(&mut relay.connect(), 1);
}

#[test]
fn streams_that_are_reset_at_once_end_the_connection() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = Frames::open(relay.address, &[]);
    // CVE-2023-44487.
    let burst: Vec<u8> = (0..2000)
        .flat_map(|place| {
            let stream = 1 + 2 * place;
            let open =
                frame(HEADERS, END_HEADERS | END_STREAM, stream, &header(false, "/v1/messages?first=0"));
            [open, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
        })
        .collect();
    // It may be hung up on before it has sent all of it.
    let _ = client.0.write_all(&burst);
    if let Some((_, reason)) = client.until(GOAWAY) {
        // ENHANCE_YOUR_CALM.
        assert_eq!(reason[4..8], [0, 0, 0, 11], "{reason:?}");
    }
    while client.next().is_some() {}
    fill(&mut relay.connect(), 1);
    // A header that does not end is none either.
    let mut client = Frames::open(relay.address, &[]);
    let mut endless = frame(HEADERS, 0, 1, &header(false, "/v1/head"));
    let field = [&[0x00, 1, b'x', 0x7f, 0x81, 0x1e][..], &[b'a'; 4000]].concat();
    endless.extend((0..200).flat_map(|_| frame(CONTINUATION, 0, 1, &field)));
    let _ = client.0.write_all(&endless);
    while client.next().is_some() {}
    fill(&mut relay.connect(), 1);
}

#[test]
fn bodies_that_do_not_come_are_given_up_and_others_go_on() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    quick(&mut settings);
    let relay = TestRelay::start(settings);
    block_on(async {
        let mut client = Client::open(relay.address, &Builder::new()).await;
        let body = PostBatch(vec![message(1)]).to_body(CLUE.id());
        let request = axum::http::Request::builder()
            .method("POST")
            .uri("http://127.0.0.1/v1/messages")
            .header("content-type", media::POST)
            .header("content-length", body.len());
        std::future::poll_fn(|context| client.sender.poll_ready(context)).await.unwrap();
        let (answer, mut stream) = client.sender.send_request(request.body(()).unwrap(), false).unwrap();
        stream.send_data(Bytes::copy_from_slice(&body[..body.len() / 2]), false).unwrap();
        let others = client.send("GET", "/v1/head", &[], None).await.unwrap();
        assert_eq!(others.status, 200);
        assert_refused(&finish(answer).await.unwrap(), 408, "timeout", Some("body"));
        let fields = [("content-type", media::POST)];
        assert_eq!(client.send("POST", "/v1/messages", &fields, Some(&body)).await.unwrap().status, 200);
    });
}

#[test]
fn a_client_that_answers_pings_and_does_nothing_else_is_hung_up_on() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    quick(&mut settings);
    settings.limits.body_memory_bytes = 10 << 20;
    settings.limits.batch_bytes = 4 << 20;
    let relay = TestRelay::start(settings);
    let mut plain = relay.connect();
    let large = (0..60).map(|number| {
        let mut one = message(number);
        one.payload = vec![7; 60_000];
        one
    });
    assert_eq!(post(&mut plain, large.collect()).status, 200);
    // SETTINGS_INITIAL_WINDOW_SIZE 0: nothing of an answer can be sent, though the connection is alive.
    let mut stalled: Vec<Frames> = (0..3)
        .map(|_| {
            let mut client = Frames::open(relay.address, &[0, 4, 0, 0, 0, 0]);
            client.until(SETTINGS).unwrap();
            client.0.write_all(&frame(SETTINGS, ACK, 0, &[])).unwrap();
            let header = header(false, "/v1/messages?first=0");
            client.0.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &header)).unwrap();
            client
        })
        .collect();
    let pinging: Vec<_> = stalled
        .drain(..)
        .map(|mut client| std::thread::spawn(move || while client.until(DATA).is_some() {}))
        .collect();
    // None of them reads, all of them answer pings: they end all the same, and give the memory back.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !pinging.iter().all(|thread| thread.is_finished()) {
        assert!(Instant::now() < deadline, "answers that are not taken are kept");
        std::thread::sleep(Duration::from_millis(50));
    }
    let page = relay.connect().send("GET", "/v1/messages?first=0", &[], None).unwrap();
    assert_eq!(page.status, 200);

    // Without any request.
    let idle = std::thread::spawn({
        let mut client = Frames::open(relay.address, &[]);
        move || {
            let told = client.until(GOAWAY).is_some();
            while client.next().is_some() {}
            told
        }
    });
    while !idle.is_finished() {
        assert!(Instant::now() < deadline, "a connection without a request stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(idle.join().unwrap());
}
