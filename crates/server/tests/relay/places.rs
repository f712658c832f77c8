//! Whoever takes places and memory without using them keeps nobody else out.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::*;
use restante_load::Connection;
use restante_server::CompactConfig;
use restante_wire::relay::{DigestKind, Hex, JobList, JobState, RegisterRequest, RelayInfo, media};

const FLOOD: [u8; 4] = [127, 0, 7, 1];
const HONEST: [u8; 4] = [127, 0, 9, 1];

#[test]
fn announced_compact_keys_keep_nobody_out() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    let compact =
        CompactConfig { enabled: true, insecure_for_tests: true, keys: 8, ..CompactConfig::default() };
    settings.compact = compact;
    let relay = TestRelay::start(settings);
    let info: RelayInfo = relay.connect().send("GET", "/v1/parameters", &[], None).unwrap().json().unwrap();
    let compact = info.digests.iter().find(|one| one.kind == DigestKind::Compact).unwrap();
    let mut number = 0;
    let mut register = |from: &mut Connection| {
        number += 1;
        let request = RegisterRequest {
            kind: DigestKind::Compact,
            parameters: compact.parameters,
            bytes: compact.key_bytes,
            hash: Hex([number; 32]),
        };
        from.send("POST", "/v1/keys", &[("content-type", media::JSON)], Some(&json(&request))).unwrap().status
    };
    // One network has a quarter of the places for uploads that are not finished.
    let mut flood = relay.connect_from(FLOOD);
    assert_eq!([(); 3].map(|()| register(&mut flood)), [201, 201, 503]);
    // Three more have the others, and somebody else still gets one.
    for network in 1..4 {
        let mut flood = relay.connect_from([127, 0, network, 1]);
        assert_eq!([(); 2].map(|()| register(&mut flood)), [201, 201]);
    }
    assert_eq!(register(&mut relay.connect_from(HONEST)), 201);
}

#[test]
fn jobs_of_many_keys_of_one_network_keep_nobody_out() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.jobs = 8;
    settings.limits.jobs_waiting = 16;
    let relay = TestRelay::start(settings);
    let mut flood = relay.connect_from(FLOOD);
    fill(&mut flood, 8192);
    let [alice, bob] = [1, 2].map(Recipient::new);
    let owners: Vec<Owner> = (0..4).map(|_| Owner::register(&mut flood, &alice)).collect();
    let mut honest = relay.connect_from(HONEST);
    let owner = Owner::register(&mut honest, &bob);
    let mut statuses = Vec::new();
    for owner in &owners {
        for place in 0..8 {
            let request = stream_job(place, Some(8192 - place));
            statuses.push(owner.send(&mut flood, "POST", "/jobs", Some(&json(&request))).status);
        }
    }
    // The flood fills the queue, and what it takes from its own keys does not help it.
    assert!(statuses.iter().filter(|status| **status == 202).count() >= 16, "{statuses:?}");
    let job = owner.submit(&mut honest, 0, Some(64));
    assert_eq!(owner.wait(&mut honest, job.id).state, JobState::Done);
    let lists =
        owners.iter().map(|owner| owner.send(&mut flood, "GET", "/jobs", None).json::<JobList>().unwrap());
    let failed: Vec<_> =
        lists.flat_map(|list| list.jobs).filter(|job| job.state == JobState::Failed).collect();
    assert!(!failed.is_empty());
    for job in failed {
        assert!(job.error.as_ref().unwrap().contains("submit it later"), "{job:?}");
    }
}

fn socket_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn bodies_that_are_announced_and_do_not_come_keep_nobody_out() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = config(scratch.path());
    settings.limits.body_memory_bytes = 70 << 20;
    let largest = settings.limits.batch_bytes;
    let relay = TestRelay::start(settings);
    let mut kept = Vec::new();
    for (size, count) in [(largest, 5u8), (1 << 20, 8), (64 << 10, 16), (6 << 10, 20)] {
        for number in 0..count {
            for network in [7u8, 8] {
                let mut stream = socket_from([127, 0, network, number + 1], relay.address);
                write!(
                    stream,
                    "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: {size}\r\n\r\n",
                    media::POST
                )
                .unwrap();
                kept.push(stream);
            }
        }
    }
    // They have had their time.
    std::thread::sleep(Duration::from_millis(2500));
    let recipient = Recipient::new(1);
    for turn in 0..3 {
        let mut client = relay.connect_from([127, 0, 20 + turn, 1]);
        assert_eq!(post(&mut client, vec![recipient.message("text", turn)]).status, 200, "{turn}");
    }
    // Whose memory it was is told.
    let mut told = 0;
    for stream in &mut kept {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut answer = [0; 12];
        told += u32::from(stream.read_exact(&mut answer).is_ok() && answer == *b"HTTP/1.1 503");
    }
    assert!(told > 0);
}
