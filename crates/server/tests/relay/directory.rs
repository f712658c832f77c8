//! The directory: names are found, and what is no query to it is refused.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::Caller;
use crate::support::*;
use restante_client::directory::{preset, query_note, query_shape};
use restante_client::relay::{Lookup, LookupMachine, Retries};
use restante_client::{Account, Address};
use restante_load::{Connection, Response};
use restante_pir::search::{Query, Scheme, SelectorHash, SelectorKind, Shape};
use restante_ring::Backend;
use restante_server::{Config, DirectoryConfig, Relay};
use restante_wire::relay::{DirectoryInfo, media};

/// Names with an address each, and the folder that the relay reads.
fn people(folder: &Path, names: &[&str]) -> Vec<Address> {
    let people = names.iter().enumerate().map(|(number, name)| {
        let address = Account::random(CLUE, &mut rng(number as u8)).address().clone();
        std::fs::write(folder.join(format!("{name}.address")), address.to_file()).unwrap();
        address
    });
    people.collect()
}

fn with_directory(data: &Path, folder: &Path) -> Config {
    Config { directory: Some(DirectoryConfig::new(folder)), ..config(data) }
}

fn describe(client: &mut Connection) -> DirectoryInfo {
    let response = client.send("GET", "/v1/directory", &[], None).unwrap();
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    response.json().unwrap()
}

fn look_up(client: &mut Connection, name: &str) -> Lookup {
    let mut machine = LookupMachine::new(name, Backend::best(), Retries::default()).unwrap();
    Caller::new(client, &[]).run(&mut machine);
    machine.outcome().unwrap().clone()
}

fn search(client: &mut Connection, version: &str, body: &[u8]) -> Response {
    let headers = [("content-type", media::SEARCH_QUERY)];
    client.send("POST", &format!("/v1/search?version={version}"), &headers, Some(body)).unwrap()
}

#[test]
fn names_are_found_and_others_are_not() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names = ["alice", "Bob Builder", "zoë", "Ελένη", "名前", "a.b@example.org"];
    let addresses = people(folder.path(), &names);
    std::fs::write(folder.path().join(".being-written"), b"x").unwrap();
    let relay = TestRelay::start(with_directory(data.path(), folder.path()));
    let mut client = relay.connect();
    let info = describe(&mut client);
    assert_eq!((info.entries, info.hash_bits, info.columns), (6, 8, 1));
    let found = |address: &Address| Lookup::Found(Box::new(address.clone()));
    for (name, address) in names.iter().zip(&addresses) {
        assert_eq!(look_up(&mut client, name), found(address), "{name}");
    }
    assert_eq!(look_up(&mut client, "ALICE"), found(&addresses[0]));
    assert_eq!(look_up(&mut client, "bob builder"), found(&addresses[1]));
    // Neither other letters are folded, nor is anything normalised; and a part of a name is not the name.
    for name in ["ZOË", "zoe\u{308}", "ελένη", "alic", "alice ", "bob"] {
        assert_eq!(look_up(&mut client, name), Lookup::NotFound, "{name}");
    }
}

#[test]
fn several_queries_at_once_get_an_answer_each() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names = ["a", "b", "c"];
    let addresses = people(folder.path(), &names);
    let relay = TestRelay::start(with_directory(data.path(), folder.path()));
    std::thread::scope(|scope| {
        for (name, address) in names.iter().zip(&addresses) {
            let mut client = relay.connect();
            scope.spawn(move || {
                assert_eq!(look_up(&mut client, name), Lookup::Found(Box::new(address.clone())));
            });
        }
    });
}

#[test]
fn an_empty_directory_has_nobody_and_a_relay_without_one_says_so() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let relay = TestRelay::start(with_directory(data.path(), folder.path()));
    assert_eq!(look_up(&mut relay.connect(), "alice"), Lookup::NotFound);
    drop(relay);
    let relay = TestRelay::start(config(data.path()));
    let mut client = relay.connect();
    assert_refused(&client.send("GET", "/v1/directory", &[], None).unwrap(), 404, "not-found", None);
    assert_refused(&search(&mut client, &"0".repeat(32), b"x"), 404, "not-found", None);
}

#[test]
fn what_is_no_query_to_this_directory_is_refused() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    people(folder.path(), &["alice"]);
    let relay = TestRelay::start(with_directory(data.path(), folder.path()));
    let mut client = relay.connect();
    let info = describe(&mut client);
    let version = info.version.to_string();
    let scheme = Scheme::new(preset(), Backend::best()).unwrap();
    let (hash, shape) = query_shape(&info).unwrap();
    let note = query_note(&hash).unwrap();
    let query = |shape: Shape, buckets: &[u32], note: &[u8]| {
        Query::new(&scheme, shape, buckets, note, &[], &mut rng(1)).unwrap().1.to_file(&scheme)
    };
    let good = query(shape, &[5], &note);
    assert_eq!(good.len() as u64, info.query_bytes);
    let answer = search(&mut client, &version, &good);
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.header("content-type"), Some(media::SEARCH_ANSWER));
    assert_eq!(answer.body.len() as u64, info.answer_bytes);

    // Another version, one that is none, two. What is refused before its body was read may end the connection.
    let other = format!("{:032x}", 7);
    assert_refused(&search(&mut relay.connect(), &other, &good), 409, "conflict", Some("query:version"));
    for wrong in ["7", &format!("{version}&version={version}")] {
        assert_refused(&search(&mut relay.connect(), wrong, &good), 400, "malformed", Some("query:version"));
    }
    // Another size.
    let mut long = good.clone();
    long.push(0);
    let field = Some("header:content-length");
    assert_refused(&search(&mut relay.connect(), &version, &long), 413, "too-large", field);
    assert_refused(
        &search(&mut relay.connect(), &version, &good[..good.len() - 1]),
        422,
        "invalid",
        Some("body"),
    );
    // The right size and another shape: nine bits of 8 and 1 need as many ciphertexts.
    let nine = Shape::new(9, 1).unwrap();
    let wide = query(nine, &[5], &note);
    assert_eq!(wide.len(), good.len());
    assert_refused(&search(&mut client, &version, &wide), 422, "invalid", Some("body:shape"));
    let shared = query(Shape::new(8, 2).unwrap(), &[5, 6], &note);
    assert_eq!(shared.len(), good.len());
    assert_refused(&search(&mut client, &version, &shared), 422, "invalid", Some("body:shape"));
    // A key of the querier's own.
    let own = query_note(&SelectorHash::new(SelectorKind::Bytes, 8, [1; 32]).unwrap()).unwrap();
    let own = query(shape, &[5], &own);
    assert_refused(&search(&mut client, &version, &own), 422, "invalid", Some("body:note"));
    // Something changed in it, another kind of file, another type of body.
    let mut changed = good.clone();
    changed[5000] ^= 1;
    assert_refused(&search(&mut client, &version, &changed), 422, "invalid", Some("body:checksum"));
    let mut kind = answer.body.clone();
    kind.resize(good.len(), 0);
    assert_eq!(search(&mut client, &version, &kind).status, 422);
    let path = format!("/v1/search?version={version}");
    let typed = relay.connect().send("POST", &path, &[("content-type", media::JSON)], Some(&good)).unwrap();
    assert_refused(&typed, 415, "media-type", Some("header:content-type"));
}

#[test]
fn too_many_queries_are_told_to_come_back() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    people(folder.path(), &["alice"]);
    let mut config = with_directory(data.path(), folder.path());
    // One query at a time, one that waits.
    config.threads = 1;
    config.limits.searches_waiting = 1;
    config.limits.search_memory_bytes = 48 << 20;
    let relay = TestRelay::start(config);
    let mut client = relay.connect();
    let info = describe(&mut client);
    let scheme = Scheme::new(preset(), Backend::best()).unwrap();
    let (hash, shape) = query_shape(&info).unwrap();
    let note = query_note(&hash).unwrap();
    let query = Query::new(&scheme, shape, &[5], &note, &[], &mut rng(1)).unwrap().1.to_file(&scheme);
    let version = info.version.to_string();
    let mut statuses: Vec<(u16, bool)> = Vec::new();
    // Whether queries meet is up to the system; in some round they do.
    for _ in 0..20 {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let (mut client, query, version) = (relay.connect(), &query, &version);
                    scope.spawn(move || {
                        let response = search(&mut client, version, query);
                        (response.status, response.header("retry-after").is_some())
                    })
                })
                .collect();
            statuses.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        });
        if statuses.iter().any(|(status, _)| *status == 503) {
            break;
        }
    }
    assert!(statuses.iter().all(|status| matches!(status, (200, false) | (503, true))), "{statuses:?}");
    for expected in [200, 503] {
        assert!(statuses.iter().any(|(status, _)| *status == expected), "{statuses:?}");
    }
}

#[test]
fn a_directory_with_something_wrong_in_it_is_not_served() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    people(folder.path(), &["alice"]);
    let refused = |expected: &str| {
        let error = Relay::open(with_directory(data.path(), folder.path())).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let path = |name: &str| folder.path().join(name);
    let alice = std::fs::read(path("alice.address")).unwrap();
    std::fs::write(path("ALICE.address"), &alice).unwrap();
    refused("for the same name as");
    std::fs::remove_file(path("ALICE.address")).unwrap();
    for (name, contents) in [
        ("bob.txt", alice.as_slice()),
        ("bob.address", &alice[..100]),
        ("bob.address", b""),
        ("a\nb.address", alice.as_slice()),
        ("bob.address", &vec![0; 70_000]),
    ] {
        std::fs::write(path(name), contents).unwrap();
        refused(name);
        std::fs::remove_file(path(name)).unwrap();
    }
    let short = Account::random(restante_clue::ClueParameters::SHORT, &mut rng(9));
    std::fs::write(path("bob.address"), short.address().to_file()).unwrap();
    refused("for clue parameters");
    std::fs::remove_file(path("bob.address")).unwrap();
    std::fs::create_dir(path("more")).unwrap();
    refused("no file");
    std::fs::remove_dir(path("more")).unwrap();
    let mut config = with_directory(data.path(), folder.path());
    config.limits.search_memory_bytes = 1 << 20;
    assert!(Relay::open(config).unwrap_err().to_string().contains("limits.search_memory_bytes"));
}

/// `--nocapture` shows the figures.
#[test]
fn names_are_found_among_a_thousand() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = Account::random(CLUE, &mut rng(1)).address().to_file();
    for number in 0..1000 {
        std::fs::write(folder.path().join(format!("name {number}.address")), &address).unwrap();
    }
    let start = Instant::now();
    let relay = TestRelay::start(with_directory(data.path(), folder.path()));
    let opened: Duration = start.elapsed();
    let mut client = relay.connect();
    println!("{:?} address {} bytes, opened in {opened:?}", describe(&mut client), address.len());
    for (name, expected) in [("name 7", true), ("name 999", true), ("nobody", false)] {
        let start = Instant::now();
        let found = matches!(look_up(&mut client, name), Lookup::Found(_));
        println!("{name}: {found}, {:?}", start.elapsed());
        assert_eq!(found, expected, "{name}");
    }
}

fn looked_at_often(data: &Path, path: &Path) -> Config {
    let mut config = with_directory(data, path);
    config.directory.as_mut().unwrap().seconds = 1;
    config
}

/// Waits for another version than this.
fn changed(client: &mut Connection, before: &DirectoryInfo) -> DirectoryInfo {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let now = describe(client);
        if now.version != before.version {
            return now;
        }
        assert!(Instant::now() < deadline, "the directory was not read again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_directory_that_changes_is_read_again_and_one_that_breaks_stays() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [alice, bob] = people(folder.path(), &["alice", "bob"]).try_into().unwrap();
    let relay = TestRelay::start(looked_at_often(data.path(), folder.path()));
    let mut client = relay.connect();
    let found = |address: &Address| Lookup::Found(Box::new(address.clone()));
    let path = |name: &str| folder.path().join(name);
    let first = describe(&mut client);
    let scheme = Scheme::new(preset(), Backend::best()).unwrap();
    let (hash, shape) = query_shape(&first).unwrap();
    let note = query_note(&hash).unwrap();
    let old = Query::new(&scheme, shape, &[5], &note, &[], &mut rng(1)).unwrap().1.to_file(&scheme);

    // Added under a name that is not looked at, and renamed, as docs/operating.md says.
    let carol = Account::random(CLUE, &mut rng(50)).address().clone();
    std::fs::write(path(".carol"), carol.to_file()).unwrap();
    std::fs::rename(path(".carol"), path("carol.address")).unwrap();
    let second = changed(&mut client, &first);
    assert_eq!((second.entries, second.hash_key == first.hash_key), (3, false));
    assert_eq!(look_up(&mut client, "carol"), found(&carol));
    assert_eq!(look_up(&mut client, "alice"), found(&alice));
    // A query for what it was before says so, and is not answered from what it is now.
    let version = first.version.to_string();
    assert_refused(&search(&mut client, &version, &old), 409, "conflict", Some("query:version"));
    let version = second.version.to_string();
    assert_refused(&search(&mut client, &version, &old), 422, "invalid", Some("body:note"));

    // Renamed, removed, replaced.
    std::fs::rename(path("carol.address"), path("caroline.address")).unwrap();
    let third = changed(&mut client, &second);
    assert_eq!(look_up(&mut client, "carol"), Lookup::NotFound);
    assert_eq!(look_up(&mut client, "caroline"), found(&carol));
    std::fs::remove_file(path("bob.address")).unwrap();
    let fourth = changed(&mut client, &third);
    assert_eq!((fourth.entries, look_up(&mut client, "bob")), (2, Lookup::NotFound));
    std::fs::write(path(".alice"), bob.to_file()).unwrap();
    std::fs::rename(path(".alice"), path("alice.address")).unwrap();
    let fifth = changed(&mut client, &fourth);
    assert_eq!(look_up(&mut client, "alice"), found(&bob));

    // Broken, in several ways: the directory stays as it was, and is read again when nothing is wrong any more.
    let whole = bob.to_file();
    for (name, contents) in
        [("broken.address", &b"no address"[..]), ("readme.txt", b"x"), ("ALICE.address", whole.as_slice())]
    {
        std::fs::write(path(name), contents).unwrap();
        std::fs::write(path("dora.address"), &whole).unwrap();
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(describe(&mut client).version, fifth.version, "{name}");
        assert_eq!(look_up(&mut client, "dora"), Lookup::NotFound);
        assert_eq!(look_up(&mut client, "alice"), found(&bob));
        std::fs::remove_file(path(name)).unwrap();
        std::fs::remove_file(path("dora.address")).unwrap();
    }
    let away = folder.path().with_extension("away");
    std::fs::rename(folder.path(), &away).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(look_up(&mut client, "alice"), found(&bob));
    std::fs::rename(&away, folder.path()).unwrap();
    std::fs::write(path("dora.address"), &whole).unwrap();
    let last = changed(&mut client, &fifth);
    assert_eq!((last.entries, look_up(&mut client, "dora")), (3, found(&bob)));
}

#[test]
fn who_looks_up_while_the_directory_changes_finds_whom_they_look_for() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = people(folder.path(), &["alice"]).remove(0);
    let relay = TestRelay::start(looked_at_often(data.path(), folder.path()));
    let mut client = relay.connect();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = SetAtEnd(&stop);
        let looking: Vec<_> = (0..2)
            .map(|_| {
                let (mut client, stop, address) = (relay.connect(), &stop, &address);
                scope.spawn(move || {
                    let mut rounds = 0;
                    while rounds == 0 || !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        assert_eq!(look_up(&mut client, "alice"), Lookup::Found(Box::new(address.clone())));
                        rounds += 1;
                    }
                    rounds
                })
            })
            .collect();
        let mut version = describe(&mut client);
        for number in 0..4 {
            let name = folder.path().join(format!("{number}.address"));
            std::fs::write(folder.path().join(".new"), address.to_file()).unwrap();
            std::fs::rename(folder.path().join(".new"), name).unwrap();
            version = changed(&mut client, &version);
        }
        drop(end);
        assert!(looking.into_iter().all(|thread| thread.join().unwrap() > 0));
    });
}

#[test]
fn a_directory_can_be_one_file() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [alice, bob] = people(folder.path(), &["alice", "bob"]).try_into().unwrap();
    let hex =
        |address: &Address| address.to_file().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let path = folder.path().join("people.toml");
    let write = |text: String| {
        std::fs::write(folder.path().join("new"), text).unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
    };
    write(format!("alice = \"{}\"\n", hex(&alice)));
    let relay = TestRelay::start(looked_at_often(data.path(), &path));
    let mut client = relay.connect();
    let first = describe(&mut client);
    assert_eq!(look_up(&mut client, "ALICE"), Lookup::Found(Box::new(alice.clone())));
    write(format!("alice = \"{}\"\n\"Bob Builder\" = \"{}\"\n", hex(&alice), hex(&bob)));
    let second = changed(&mut client, &first);
    assert_eq!(look_up(&mut client, "bob builder"), Lookup::Found(Box::new(bob.clone())));
    write("alice = ".into());
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(describe(&mut client).version, second.version);
    drop(relay);
    for (text, expected) in [
        ("alice = ".to_owned(), "TOML"),
        ("alice = 5".into(), "\"alice\""),
        ("alice = \"0g\"".into(), "\"alice\""),
        ("alice = \"012\"".into(), "\"alice\""),
        ("alice = \"00\"".into(), "\"alice\""),
        (format!("alice = \"{0}\"\nAlice = \"{0}\"", hex(&alice)), "the same name"),
    ] {
        write(text);
        let error = Relay::open(with_directory(data.path(), &path)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("people.toml"), "{error}");
    }
}
