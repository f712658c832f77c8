//! Slow, wrong and hostile clients: every one of them is refused in a way that names what was wrong, and the relay goes on.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(target_os = "linux")]

#[path = "support/http2.rs"]
mod frames;
#[path = "support/relay.rs"]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use restante_load::{Connection, Response};
use restante_wire::relay::{Hex, JobRequest, MessageId, PostBatch, RegisterRequest, media};
use support::*;

/// Memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Sends bytes as they are and reads whatever comes.
fn raw(relay: &TestRelay, bytes: &[u8]) -> Response {
    let mut connection = relay.connect();
    connection.stream().write_all(bytes).unwrap();
    connection.read(false).unwrap()
}

fn quick(config: &mut restante_server::Config) {
    config.limits.header_seconds = 1;
    config.limits.body_seconds = 1;
    config.limits.body_bytes_per_second = 1 << 20;
    config.limits.idle_seconds = 2;
}

#[test]
fn bodies_that_are_half_sent_endless_or_of_another_length() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    quick(&mut settings);
    let relay = TestRelay::start(settings);
    let body = PostBatch(vec![message(1)]).to_body(CLUE.id());
    let start = |length: &str| {
        format!("POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-type: {}\r\n{length}\r\n\r\n", media::POST)
            .into_bytes()
    };
    let announced = start(&format!("content-length: {}", body.len()));

    // Half a body, and then nothing.
    let slow = raw(&relay, &[announced.as_slice(), &body[..body.len() / 2]].concat());
    assert_refused(&slow, 408, "timeout", Some("body"));
    // A byte now and then.
    let mut dripping = relay.connect();
    dripping.stream().write_all(&announced).unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) && dripping.stream().write_all(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
        if began.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    assert_refused(&dripping.read(false).unwrap(), 408, "timeout", Some("body"));
    // No length, and one that is over the limit: refused before anything is read.
    assert_refused(
        &raw(&relay, &start("transfer-encoding: chunked")),
        411,
        "length",
        Some("header:content-length"),
    );
    let long = raw(&relay, &start("content-length: 99999999999"));
    assert_refused(&long, 413, "too-large", Some("header:content-length"));
    // JSON that does not end.
    let mut endless = relay.connect();
    endless.stream().write_all(b"POST /v1/keys HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    for _ in 0..40 {
        if endless.stream().write_all(format!("400\r\n{}\r\n", " ".repeat(1024)).as_bytes()).is_err() {
            break;
        }
    }
    assert_refused(&endless.read(false).unwrap(), 413, "too-large", Some("body"));
    // A longer body than announced: the rest is not a request.
    let more = raw(&relay, &[start(&format!("content-length: {}", body.len() - 1)), body.clone()].concat());
    assert_refused(&more, 422, "invalid", Some("body"));
    // A header that does not end.
    let mut header = relay.connect();
    header.stream().write_all(b"GET /v1/head HTTP/1.1\r\nhost: a\r\n").unwrap();
    let mut bytes = Vec::new();
    header.stream().read_to_end(&mut bytes).unwrap();
    // A header that is too long.
    let long = format!("GET /v1/head HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(1 << 20));
    let mut header = relay.connect();
    let _ = header.stream().write_all(long.as_bytes());
    assert!(header.read(false).map_or(431, |response| response.status) >= 400);
    // Nothing at all.
    let mut silent = relay.connect();
    assert_eq!(silent.stream().read_to_end(&mut bytes).unwrap_or(0), 0);
    // What is no HTTP.
    let mut other = relay.connect();
    other.stream().write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").unwrap();
    assert!(other.read(false).map_or(400, |response| response.status) >= 400);

    fill(&mut relay.connect(), 3);
}

#[test]
fn bodies_with_wrong_contents_name_what_is_wrong() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.batch_messages = 4;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    let send = |client: &mut Connection, media_type: &str, body: &[u8]| {
        client.send("POST", "/v1/messages", &[("content-type", media_type)], Some(body)).unwrap()
    };
    let good = PostBatch(vec![message(1)]).to_body(CLUE.id());
    assert_refused(&send(&mut client, "text/plain", &good), 415, "media-type", Some("header:content-type"));
    let mut changed = good.clone();
    changed[100] ^= 1;
    assert_refused(&send(&mut client, media::POST, &changed), 422, "invalid", Some("body:checksum"));
    assert_refused(&send(&mut client, media::POST, &good[..50]), 422, "invalid", Some("body"));
    assert_refused(&send(&mut client, media::POST, b""), 422, "invalid", Some("body:kind"));
    let other = PostBatch(vec![message(1)]).to_body(restante_clue::ClueParameters::SHORT.id());
    assert_refused(&send(&mut client, media::POST, &other), 422, "invalid", Some("body:parameters"));
    let none = PostBatch(vec![]).to_body(CLUE.id());
    assert_refused(&send(&mut client, media::POST, &none), 422, "invalid", Some("body:messages"));
    let many = PostBatch((0..5).map(message).collect()).to_body(CLUE.id());
    assert_refused(&send(&mut client, media::POST, &many), 413, "too-large", Some("body:messages"));
    let twice = PostBatch(
        vec![message(1), message(2), message(2)]
            .into_iter()
            .map(|mut one| {
                one.id = MessageId([one.payload[0]; 16]);
                one
            })
            .collect(),
    )
    .to_body(CLUE.id());
    assert_refused(&send(&mut client, media::POST, &twice), 422, "invalid", Some("body:messages[2].id"));
    let mut long = message(1);
    long.payload = vec![0; 65_537];
    let long = PostBatch(vec![message(2), long]).to_body(CLUE.id());
    assert_refused(
        &send(&mut client, media::POST, &long),
        413,
        "too-large",
        Some("body:messages[1].payload"),
    );
    assert_eq!(head(&mut client, &relay.key).count, 0);

    for (path, status, code, field) in [
        ("/v1/messages", 400, "malformed", "query:first"),
        ("/v1/messages?first=-1", 400, "malformed", "query:first"),
        ("/v1/messages?first=1", 416, "range", "query:first"),
        ("/v1/messages?first=0&end=1", 416, "range", "query:end"),
        ("/v1/messages?first=0&first=0", 400, "malformed", "query:first"),
        ("/v1/messages?first=99999999999999999999999", 400, "malformed", "query:first"),
        ("/v1/consistency?from=0", 400, "malformed", "query:to"),
        ("/v1/consistency?from=0&to=1", 416, "range", "query:to"),
    ] {
        assert_refused(&client.send("GET", path, &[], None).unwrap(), status, code, Some(field));
    }
    // Tricks with paths lead nowhere.
    for path in [
        "/v1/keys/../../identity",
        "/v1/keys/..%2f..%2fidentity",
        "/v1/keys/%2e%2e/content",
        "/v1/epochs/../../../etc/passwd/hashes",
        "/../identity",
        "//identity",
        "/v1/keys/0123456789ABCDEF0123456789ABCDEF",
        "/v1/keys/%00",
    ] {
        let response = client.send("GET", path, &[], None).unwrap();
        assert!(matches!(response.status, 400 | 401 | 404 | 405), "{path}: {}", response.status);
        problem(&response);
    }
}

#[test]
fn keys_that_are_not_what_they_were_said_to_be() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    fill(&mut client, 2);
    let alice = Recipient::new(1);
    let register = |client: &mut Connection, body: &[u8]| {
        client.send("POST", "/v1/keys", &[("content-type", media::JSON)], Some(body)).unwrap()
    };
    let request = alice.request();
    for (body, status, code, field) in [
        (b"{".to_vec(), 400, "malformed", "body"),
        (b"{}".to_vec(), 400, "malformed", "body:kind"),
        (br#"{"kind":"better"}"#.to_vec(), 400, "malformed", "body:kind"),
        (br#"{"kind":"stream","parameters":"zz"}"#.to_vec(), 400, "malformed", "body:parameters"),
        (br#"{"kind":"stream","token":1}"#.to_vec(), 400, "malformed", "body:token"),
        (
            json(&RegisterRequest { parameters: Hex([0; 8]), ..request.clone() }),
            422,
            "invalid",
            "body:parameters",
        ),
        (json(&RegisterRequest { bytes: 1, ..request.clone() }), 422, "invalid", "body:bytes"),
        (json(&RegisterRequest { bytes: u64::MAX, ..request.clone() }), 422, "invalid", "body:bytes"),
        ([json(&request), b"{}".to_vec()].concat(), 400, "malformed", "body"),
        (vec![b'['; 10_000], 400, "malformed", "body:[0]"),
    ] {
        assert_refused(&register(&mut client, &body), status, code, Some(field));
    }
    // The right length and another hash.
    let owner = Owner::announce(&mut client, &request);
    let mut changed = alice.file.clone();
    changed[5000] ^= 1;
    assert_refused(&owner.upload(&mut client, 0, &changed), 422, "invalid", Some("body:hash"));
    assert_eq!(owner.status(&mut client).uploaded, 0);
    // The right hash of something that is no key.
    let hash = restante_wire::merkle::Hash::of(&changed).into();
    let other = Owner::announce(&mut client, &RegisterRequest { hash, ..request.clone() });
    assert_refused(&other.upload(&mut client, 0, &changed), 422, "invalid", Some("body:checksum"));
    // A key for other parameters, under the announced ones.
    let mut foreign = alice.file.clone();
    foreign[8] ^= 1;
    let body_end = foreign.len() - 16;
    let checksum = restante_wire::merkle::Hash::of(&foreign[..body_end]);
    foreign[body_end..].copy_from_slice(&checksum.0[..16]);
    let hash = restante_wire::merkle::Hash::of(&foreign).into();
    let other = Owner::announce(&mut client, &RegisterRequest { hash, ..request.clone() });
    assert_refused(&other.upload(&mut client, 0, &foreign), 422, "invalid", Some("body:parameters"));
    // Too much.
    let longer = [alice.file.as_slice(), b"more"].concat();
    assert_refused(&owner.upload(&mut client, 0, &longer), 413, "too-large", Some("header:content-length"));
    assert_eq!(owner.upload(&mut client, 0, &alice.file).status, 200);

    let job = |first, end, capacity| JobRequest { capacity, ..stream_job(first, end) };
    for (request, status, code, field) in [
        (job(0, Some(3), None), 416, "range", "body:end"),
        (job(2, None, None), 416, "range", "body:first"),
        (job(u64::MAX, Some(1), None), 416, "range", "body:first"),
        (job(0, None, Some(4)), 422, "invalid", "body:capacity"),
    ] {
        let response = owner.send(&mut client, "POST", "/jobs", Some(&json(&request)));
        assert_refused(&response, status, code, Some(field));
    }
}

#[test]
fn ten_thousand_idle_connections_take_little_and_keep_nobody_out() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.connections = 2000;
    settings.limits.connections_per_address = 1500;
    let relay = TestRelay::start(settings);
    // What is open before is not touched.
    let mut client = relay.connect();
    fill(&mut client, 1);
    let before = resident_bytes();
    let mut idle = Vec::new();
    for place in 0..10_000u32 {
        match TcpStream::connect(relay.address) {
            Ok(mut stream) => {
                if place % 2 == 0 {
                    let _ = stream.write_all(b"GET /v1/head HT");
                }
                idle.push(stream);
            }
            // This process has no more descriptors.
            Err(_) => break,
        }
        if idle.len() > 3000 {
            idle.drain(..1000);
        }
        // Whoever asks now and then is served all along.
        if place % 200 == 0 {
            assert_eq!(client.send("GET", "/v1/head", &[], None).unwrap().status, 200);
        }
    }
    assert!(idle.len() > 400);
    fill(&mut client, 1);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes for idle connections");
    drop(idle);
    let deadline = Instant::now() + Duration::from_secs(30);
    let served = loop {
        let answer =
            Connection::open(relay.address).and_then(|mut new| new.send("GET", "/v1/head", &[], None));
        if answer.is_ok() || Instant::now() > deadline {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(served.unwrap().status, 200);
}

#[test]
fn memory_for_bodies_is_bounded_and_readers_that_do_not_read_are_hung_up_on() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    quick(&mut settings);
    settings.limits.body_seconds = 3;
    settings.limits.idle_seconds = 20;
    settings.limits.body_memory_bytes = 20 << 20;
    settings.limits.batch_bytes = 4 << 20;
    settings.limits.page_bytes = 4 << 20;
    let relay = TestRelay::start(settings);
    let announce = |length: usize| {
        let mut connection = relay.connect();
        let header = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-type: {}\r\ncontent-length: {length}\r\n\r\nRSTN",
            media::POST
        );
        connection.stream().write_all(header.as_bytes()).unwrap();
        connection
    };
    let waiting: Vec<_> = (0..2).map(|_| announce(4 << 20)).collect();
    std::thread::sleep(Duration::from_millis(300));
    let refused = announce(4 << 20).read(false).unwrap();
    assert_refused(&refused, 503, "busy", None);
    assert_eq!(refused.header("retry-after"), Some("1"));
    // A small one still fits, and later the large ones again.
    fill(&mut relay.connect(), 1);
    for mut connection in waiting {
        assert_refused(&connection.read(false).unwrap(), 408, "timeout", Some("body"));
    }
    let mut client = relay.connect();
    let mut large = Vec::new();
    for number in 0..60 {
        let mut one = message(number);
        one.payload = vec![7; 60_000];
        large.push(one);
    }
    assert_eq!(post(&mut client, large).status, 200);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let mut connection = relay.connect();
            connection.stream().write_all(b"GET /v1/messages?first=0 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            connection
        })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let response = client.send("GET", "/v1/messages?first=0", &[], None).unwrap();
        if response.status == 200 {
            break;
        }
        assert_eq!(response.status, 503);
        assert!(Instant::now() < deadline, "readers that do not read hold the memory");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(readers);
}

#[test]
fn too_many_of_anything_is_refused_with_a_time_to_come_back() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.keys = 3;
    settings.limits.uploads = 2;
    settings.limits.jobs = 2;
    settings.limits.requests_per_key = 4;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    fill(&mut client, 2);
    let alice = Recipient::new(1);
    let owner = Owner::register(&mut client, &alice);
    let first = Owner::announce(&mut client, &alice.request());
    Owner::announce(&mut client, &alice.request());
    let body = json(&alice.request());
    let headers = [("content-type", media::JSON)];
    let full = client.send("POST", "/v1/keys", &headers, Some(&body)).unwrap();
    assert_refused(&full, 503, "busy", None);
    assert_eq!(first.send(&mut client, "DELETE", "", None).status, 204);
    for _ in 0..2 {
        owner.submit(&mut client, 0, None);
    }
    let one = stream_job(0, None);
    let many = owner.send(&mut client, "POST", "/jobs", Some(&json(&one)));
    assert_refused(&many, 429, "rate", None);
    let mut last = owner.send(&mut client, "GET", "", None);
    for _ in 0..80 {
        if last.status != 200 {
            break;
        }
        last = owner.send(&mut client, "GET", "", None);
    }
    assert_refused(&last, 429, "rate", None);
    assert!(last.header("retry-after").is_some());
    // Others are not touched by that.
    fill(&mut client, 1);
}

#[test]
fn the_reserve_of_the_disk_is_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.disk_reserve_bytes = 1 << 60;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    let refused = post(&mut client, vec![message(1)]);
    assert_refused(&refused, 507, "storage", None);
    assert_eq!(refused.header("retry-after"), Some("60"));
    let body = json(&Recipient::new(1).request());
    let headers = [("content-type", media::JSON)];
    assert_refused(&client.send("POST", "/v1/keys", &headers, Some(&body)).unwrap(), 507, "storage", None);
    assert_refused(&client.send("GET", "/readyz", &[], None).unwrap(), 507, "storage", None);
    assert_eq!(client.send("GET", "/v1/head", &[], None).unwrap().status, 200);
}

#[test]
fn memory_is_bounded_however_many_streams_there_are() {
    use frames::*;
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.body_memory_bytes = 16 << 20;
    settings.limits.body_seconds = 60;
    settings.limits.requests_per_address = 100_000;
    let relay = TestRelay::start(settings);
    fill(&mut relay.connect(), 1);
    let before = resident_bytes();
    // 100 connections with 64 streams each, which announce 8 MiB and send 64 KiB in all, and then reset everything and begin anew.
    let mut header = header(true, "/v1/messages");
    header.truncate(header.len() - 19);
    header.extend_from_slice(&[0x0f, 0x10, media::POST.len() as u8]);
    header.extend_from_slice(media::POST.as_bytes());
    // content-length.
    header.extend_from_slice(&[0x0f, 0x0d, 7]);
    header.extend_from_slice(b"8388608");
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = Frames::open(relay.address, &[]);
        for round in 0..4u32 {
            let streams = (0..16).map(|place| 1 + 2 * (round * 16 + place));
            let mut bytes = Vec::new();
            for stream in streams.clone() {
                bytes.extend(frame(HEADERS, END_HEADERS, stream, &header));
                bytes.extend(frame(DATA, 0, stream, &[7; 1000]));
            }
            if round < 3 {
                bytes.extend(streams.flat_map(|stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])));
            }
            // Who does this is hung up on at some point.
            if client.0.write_all(&bytes).is_err() {
                break;
            }
        }
        clients.push(client);
    }
    std::thread::sleep(Duration::from_secs(1));
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 150 << 20, "{grown} bytes for streams");
    drop(clients);
    let deadline = Instant::now() + Duration::from_secs(30);
    while post(&mut relay.connect(), vec![message(2)]).status != 200 {
        assert!(Instant::now() < deadline, "the memory does not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn handshakes_that_do_not_end_are_given_up() {
    let (scratch, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let [certificate, key] = ["certificate", "key"].map(|name| files.path().join(name));
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let mut settings = config(scratch.path());
    quick(&mut settings);
    settings.tls = Some(restante_server::TlsConfig { certificate, key });
    let relay = TestRelay::start(settings);
    for start in
        [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(relay.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(start).unwrap();
        let mut bytes = Vec::new();
        // An alert at most, and the end.
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.len() < 32, "{bytes:?}");
    }
    // Byte by byte, so that something always moves.
    let mut dripping = TcpStream::connect(relay.address).unwrap();
    let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[7; 400]].concat();
    let began = Instant::now();
    let cut = hello.iter().position(|byte| {
        std::thread::sleep(Duration::from_millis(50));
        dripping.write_all(&[*byte]).is_err()
    });
    assert!(cut.is_some(), "still there after {:?}", began.elapsed());
}
