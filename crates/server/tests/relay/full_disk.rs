//! A small disk that fills up: what was acknowledged stays, what does not fit is refused, and when there is room the relay goes on.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;
use restante_wire::relay::{PostMessage, media};

/// A small file system in memory, gone when dropped.
struct SmallDisk(PathBuf, #[allow(dead_code, reason = "removed when dropped")] tempfile::TempDir);

impl SmallDisk {
    /// None without the rights of the system's administrator.
    fn mount(size: &str) -> Option<Self> {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&path);
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(path, scratch))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_refused_and_survived() {
    let Some(disk) = SmallDisk::mount("24m") else {
        eprintln!("skipped: mounting needs the rights of the administrator");
        return;
    };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 6 << 20]).unwrap();
    let relay = TestRelay::start(config(&disk.path().join("relay")));
    let mut client = relay.connect();
    let large = |number: u64| PostMessage { payload: vec![number as u8; 60_000], ..message(number) };
    let mut accepted: Vec<PostMessage> = Vec::new();
    let mut refused = Vec::new();
    for number in 0..1000 {
        let one = large(number);
        let response = post(&mut client, vec![one.clone()]);
        match response.status {
            200 => {
                assert_eq!(posted(&response).messages[0].index, accepted.len() as u64);
                accepted.push(one);
            }
            _ => {
                let problem = problem(&response);
                assert_eq!(problem.code(), "storage", "{problem:?}");
                refused.push(one);
            }
        }
        if refused.len() == 5 {
            break;
        }
    }
    assert!(accepted.len() > 20 && refused.len() == 5, "{} {}", accepted.len(), refused.len());
    // Reading goes on, and everything that was accepted is there.
    let count = head(&mut client, &relay.key).count;
    assert_eq!(count, accepted.len() as u64);
    let body = json(&Recipient::new(1).request());
    let response = client.send("POST", "/v1/keys", &[("content-type", media::JSON)], Some(&body)).unwrap();
    assert!(matches!(response.status, 201 | 507));

    std::fs::remove_file(&ballast).unwrap();
    for one in &refused {
        assert_eq!(posted(&post(&mut client, vec![one.clone()])).messages[0].index, accepted.len() as u64);
        accepted.push(one.clone());
    }
    let check = |client: &mut restante_load::Connection| {
        let mut next = 0;
        while next < accepted.len() as u64 {
            let page = page(client, next, accepted.len() as u64);
            for (found, expected) in page.messages.iter().zip(&accepted[next as usize..]) {
                assert!(found.payload == expected.payload && found.clue == expected.clue);
            }
            next = page.end();
        }
    };
    check(&mut client);
    assert!(posted(&post(&mut client, vec![accepted[3].clone()])).messages[0].replayed);
    relay.stop();
    let relay = TestRelay::start(config(&disk.path().join("relay")));
    check(&mut relay.connect());
}

/// Takes all the room that is left, to the last byte.
fn fill_up(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    for bytes in [1 << 20, 4096, 1] {
        while file.write_all(&vec![1; bytes]).is_ok() {}
    }
}

#[test]
fn every_route_that_writes_says_that_there_is_no_space() {
    let Some(disk) = SmallDisk::mount("40m") else {
        eprintln!("skipped: mounting needs the rights of the administrator");
        return;
    };
    let ballast = disk.path().join("ballast");
    let mut settings = config(&disk.path().join("relay"));
    settings.backup = Some(disk.path().join("backups"));
    settings.limits.jobs = 10_000;
    settings.limits.jobs_waiting = 100_000;
    settings.limits.uploads = 100_000;
    settings.limits.requests_per_key = 100_000;
    settings.limits.requests_per_address = 100_000;
    let relay = TestRelay::start(settings);
    let mut client = relay.connect();
    fill(&mut client, 10);
    let (alice, bob) = (Recipient::new(1), Recipient::new(2));
    let owner = Owner::register(&mut client, &alice);
    let half = Owner::announce(&mut client, &bob.request());
    let (start, rest) = bob.file.split_at(100_000);
    assert_eq!(half.upload(&mut client, 0, start).status, 200);
    let job = owner.submit(&mut client, 0, None);
    let digest = owner.result(&mut client, job.id);

    fill_up(&ballast);
    let storage = |response: &restante_load::Response| {
        let problem = problem(response);
        assert_eq!((response.status, problem.code()), (507, "storage"), "{problem:?}");
        assert_eq!(response.header("retry-after"), Some("60"));
    };
    // The registry has room in its file, for a while.
    let until_refused = |name: &str, ask: &mut dyn FnMut() -> restante_load::Response| {
        for _ in 0..20_000 {
            let response = ask();
            if response.status >= 300 {
                return storage(&response);
            }
            fill_up(&ballast);
        }
        panic!("{name} is never refused");
    };
    let large = PostMessage { payload: vec![7; 60_000], ..message(99) };
    storage(&post(&mut relay.connect(), vec![large.clone()]));
    storage(&half.upload(&mut relay.connect(), 100_000, rest));
    let registration = json(&alice.request());
    let mut other = relay.connect();
    until_refused("a registration", &mut || {
        let headers = [("content-type", media::JSON)];
        other.send("POST", "/v1/keys", &headers, Some(&registration)).unwrap()
    });
    let mut other = relay.connect();
    until_refused("a job", &mut || {
        owner.send(&mut other, "POST", "/jobs", Some(&json(&stream_job(0, None))))
    });
    // Whatever has room in a page of the registry is done, and nothing fails in another way.
    for (method, path, body) in [
        ("PUT", "/standing", Some(&b"{}"[..])),
        ("DELETE", "/standing", None),
        ("DELETE", "/jobs/00000000000000000000000000000000", None),
    ] {
        let response = owner.send(&mut client, method, path, body);
        match response.status {
            200 | 204 | 404 => {}
            _ => storage(&response),
        }
    }
    let mut operator = restante_load::Connection::open(relay.operations).unwrap();
    storage(&operator.send("POST", "/backup", &[], Some(b"")).unwrap());
    // Reading goes on.
    assert_eq!(head(&mut client, &relay.key).count, 10);
    assert_eq!(page(&mut client, 0, 10).messages.len(), 10);
    assert_eq!(owner.result(&mut client, job.id), digest);

    // With room again everything goes on: what was refused was not half done.
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(posted(&post(&mut client, vec![large])).messages[0].index, 10);
    let here = half.status(&mut client).uploaded as usize;
    assert!((100_000..bob.file.len()).contains(&here), "{here}");
    assert_eq!(half.upload(&mut client, here, &bob.file[here..]).status, 200);
    Owner::register(&mut client, &Recipient::new(3));
    let again = half.submit(&mut client, 0, None);
    half.result(&mut client, again.id);
    drop(relay);
    let relay = TestRelay::start(config(&disk.path().join("relay")));
    assert_eq!(head(&mut relay.connect(), &relay.key).count, 11);
    half.result(&mut relay.connect(), again.id);
}
