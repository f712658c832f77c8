//! Downloads that broke off go on where they were.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::support::*;
use restante_server::FetchConfig;
use restante_wire::merkle::Hash;
use restante_wire::relay::{EpochList, Hex};

#[test]
fn a_result_goes_on_where_it_broke_off() {
    let scratch = tempfile::tempdir().unwrap();
    let relay = TestRelay::start(config(scratch.path()));
    let mut client = relay.connect();
    fill(&mut client, 5);
    let owner = Owner::register(&mut client, &Recipient::new(1));
    let job = owner.submit(&mut client, 0, None);
    let whole = owner.result(&mut client, job.id);
    let path = format!("{}/jobs/{}/result", owner.path, job.id);
    let mut get = |method: &str, fields: &[(&str, &str)]| {
        let fields = [&[("authorization", owner.authorization.as_str())], fields].concat();
        client.send(method, &path, &fields, None).unwrap()
    };
    let plain = get("GET", &[]);
    assert_eq!((plain.status, plain.header("accept-ranges")), (200, Some("bytes")));
    let tag = plain.header("etag").unwrap().to_owned();
    assert_eq!(tag, format!("\"{}\"", Hex(Hash::of(&whole).0)));
    // In three parts, as a client gets it that is cut off twice.
    let (mut parts, mut have) = (Vec::new(), 0);
    for end in [whole.len() / 3, whole.len() / 2, whole.len()] {
        let range = format!(
            "bytes={have}-{}",
            if end == whole.len() { String::new() } else { (end - 1).to_string() }
        );
        let part = get("GET", &[("range", &range), ("if-range", &tag)]);
        let place = format!("bytes {have}-{}/{}", end - 1, whole.len());
        assert_eq!((part.status, part.header("content-range")), (206, Some(place.as_str())));
        assert_eq!(part.header("etag"), Some(tag.as_str()));
        assert_eq!(part.header("restante-complete-to"), plain.header("restante-complete-to"));
        parts.extend(part.body);
        have = end;
    }
    assert_eq!(parts, whole);
    let last = get("GET", &[("range", "bytes=-7")]);
    assert_eq!((last.status, last.body.as_slice()), (206, &whole[whole.len() - 7..]));
    // Nothing is left, another file, several parts, another unit.
    let none = get("GET", &[("range", &format!("bytes={}-", whole.len()))]);
    assert_refused(&none, 416, "range", Some("header:range"));
    assert_eq!(none.header("content-range"), Some(format!("bytes */{}", whole.len()).as_str()));
    for fields in [
        [("range", "bytes=5-"), ("if-range", "\"other\"")],
        [("range", "bytes=0-1,5-6"), ("if-range", tag.as_str())],
        [("range", "messages=0-1"), ("if-range", tag.as_str())],
    ] {
        let response = get("GET", &fields);
        assert!(response.status == 200 && response.body == whole, "{fields:?}");
    }
    let only = get("HEAD", &[]);
    assert_eq!(only.header("content-length"), Some(whole.len().to_string().as_str()));
}

#[test]
fn so_does_an_epochs_table_of_hashes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.fetch = Some(FetchConfig {
        record_bytes: 4200,
        part: "message".into(),
        messages: 16,
        window: 64,
        seconds: 0,
        server: None,
    });
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    fill(&mut client, 32);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let epoch = loop {
        let list: EpochList = client.send("GET", "/v1/epochs", &[], None).unwrap().json().unwrap();
        match list.epochs.first() {
            Some(epoch) if epoch.complete_to == 32 => break epoch.epoch,
            _ => assert!(std::time::Instant::now() < deadline, "no epoch"),
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let path = format!("/v1/epochs/{epoch}/hashes");
    let whole = client.send("GET", &path, &[], None).unwrap();
    assert_eq!((whole.status, whole.body.len()), (200, 32 * 32));
    let tag = whole.header("etag").unwrap();
    let rest = client.send("GET", &path, &[("range", "bytes=100-"), ("if-range", tag)], None).unwrap();
    assert_eq!((rest.status, rest.body.as_slice()), (206, &whole.body[100..]));
}
