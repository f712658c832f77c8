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
                assert!(matches!(problem.code(), "storage" | "internal"), "{problem:?}");
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
    assert!(matches!(response.status, 201 | 500 | 507));

    std::fs::remove_file(&ballast).unwrap();
    for one in &refused {
        assert_eq!(posted(&post(&mut client, vec![one.clone()])).messages[0].index, accepted.len() as u64);
        accepted.push(one.clone());
    }
    let check = |client: &mut restante_server::load::Connection| {
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
