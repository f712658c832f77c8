//! The program as a relay sees it, through a proxy that notes times: for people with no, one and a thousand messages, whose output is
//! read, read slowly, not read at all, or closed.

#![cfg(feature = "serve")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{
    Address,
    relay::{Cause, Driver, Host, KnownRelay, Outbox, PostMachine, Reply, Request, Response, Retries},
};
use restante_load::Connection;
use serde_json::Value;
use tempfile::TempDir;

const PEOPLE: [&str; 3] = ["none", "one", "many"];
const MANY: u64 = 1000;

fn command(place: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.current_dir(place.path()).args(arguments).arg("--quiet").stdin(Stdio::null());
    command
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Posts over one connection.
struct Poster(Connection);

impl Host for Poster {
    type Error = std::convert::Infallible;

    fn ask(&mut self, request: Request) -> Result<Reply, Self::Error> {
        let fields: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = (!request.body.is_empty()).then_some(&request.body[..]);
        Ok(match self.0.send(request.method.name(), &request.path, &fields, body) {
            Ok(answer) => {
                Reply::Answer(Response { status: answer.status, headers: answer.headers, body: answer.body })
            }
            Err(_) => Reply::Broken(Cause::default()),
        })
    }

    fn clock(&mut self) -> Duration {
        Duration::MAX
    }

    fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
    }

    fn now(&mut self) -> u64 {
        std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
    }
}

/// A relay on whose board the second of three people has a message and the third a thousand.
fn world() -> (TempDir, Process, String) {
    world_with("", MANY, |number| format!("{number:0200}").into_bytes())
}

/// The same with other settings and texts.
fn world_with(settings: &str, messages: u64, text: impl Fn(u64) -> Vec<u8>) -> (TempDir, Process, String) {
    let place = tempfile::tempdir().unwrap();
    for name in PEOPLE {
        assert!(command(&place, &["keys", "new", name]).stdout(Stdio::null()).status().unwrap().success());
    }
    fs::write(place.path().join("relay.toml"), format!("log = \"error\"\n{settings}")).unwrap();
    let serve = ["serve", "--config", "relay.toml", "--data", "relay", "--json", "--listen", "127.0.0.1:0"];
    let mut serve = command(&place, &[&serve[..], &["--operations", "127.0.0.1:0"]].concat());
    let mut relay = Process(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(relay.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();
    let address = report["listen"].as_str().unwrap().to_owned();

    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let [_, one, many] = PEOPLE.map(|name| {
        let file = fs::read(place.path().join(format!("{name}.address"))).unwrap();
        Address::from_file(&file).unwrap()
    });
    let mut outbox = Outbox::new(*one.parameters());
    for number in 0..messages {
        outbox.push(&many, &text(number), &mut rng).unwrap();
    }
    // Behind the first page.
    for _ in 0..100 {
        outbox.push(&one, b"the only one, some times", &mut rng).unwrap();
    }
    let mut machine = PostMachine::new(outbox, KnownRelay::default(), 3600, Retries::default());
    let mut poster = Poster(Connection::open(address.parse().unwrap()).unwrap());
    let posted = Driver::new().run(&mut machine, &mut poster, &mut rng, |_| Ok(()));
    assert!(posted.is_ok() && machine.outbox().waiting() == 0, "{posted:?}");
    (place, relay, address)
}

/// What went through a proxy: when, whether to the relay, and what.
type Passed = Arc<Mutex<Vec<(Instant, Option<String>)>>>;

/// A proxy before a relay, and what passes it: bytes to the relay with their text, bytes from it without.
fn watched(relay: &str) -> (String, Passed) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (passed, relay) = (Passed::default(), relay.to_owned());
    let note = Arc::clone(&passed);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&relay).unwrap());
            let ends = [(&client, &server), (&server, &client)]
                .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()));
            for (direction, (mut from, mut to)) in ends.into_iter().enumerate() {
                let note = Arc::clone(&note);
                thread::spawn(move || {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        let text =
                            (direction == 0).then(|| String::from_utf8_lossy(&bytes[..count]).into_owned());
                        note.lock().unwrap().push((Instant::now(), text));
                        if to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    drop(to.shutdown(Shutdown::Both));
                });
            }
        }
    });
    (url, passed)
}

/// The requests: the path of each, when it came, and how long after the last byte of the answer before it.
fn requests(passed: &Passed) -> Vec<(String, Instant, Duration)> {
    let passed = passed.lock().unwrap();
    let mut found = Vec::new();
    let mut last = None;
    for (time, text) in passed.iter() {
        match text.as_ref().and_then(|text| text.strip_prefix("GET ")) {
            Some(text) => {
                let path = text.split(' ').next().unwrap().to_owned();
                found.push((path, *time, last.map_or(Duration::ZERO, |last| *time - last)));
            }
            None => last = Some(*time),
        }
    }
    found
}

/// Tries until it is so. The wait is for other processes, whose speed is not what is tested.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} did not happen");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Read,
    Slow,
    Full,
    Closed,
    /// A file for each message.
    Files,
}

/// Starts a sync whose standard output somebody reads, or not, and whose standard error nobody does.
fn start(place: &TempDir, url: &str, name: &str, state: &str, rest: &[&str], output: Output) -> Process {
    let secret = format!("{name}.secret");
    let arguments = ["sync", "--relay", url, "--account", &secret, "--state", state, "--whole"];
    let mut command = command(place, &[&arguments[..], rest].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if output == Output::Closed {
        child.stdout = None;
        child.stderr = None;
    }
    Process(child)
}

/// The indices of the messages in a program's output; the last line may be cut off.
fn indices(text: &str) -> Vec<u64> {
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect()
}

fn show(place: &TempDir, url: &str, name: &str, state: &str) -> (Option<i32>, Vec<u64>) {
    let mut process = start(place, url, name, state, &["--pace", "0"], Output::Read);
    let mut text = String::new();
    process.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    (process.0.wait().unwrap().code(), indices(&text))
}

/// With the code before, the gap behind the page with a thousand messages was 355 ms for their recipient; a full output stopped the
/// requests, and a closed one ended them. The machine may be busy with other things: medians of several tries are compared.
#[test]
fn what_a_person_is_shown_changes_no_gap_between_requests() {
    let (place, _relay, address) = world();
    for output in [Output::Read, Output::Slow, Output::Full, Output::Closed, Output::Files] {
        let mut gaps: [[Vec<Duration>; 3]; 3] = Default::default();
        for number in 0..5 {
            for (person, gaps) in PEOPLE.iter().zip(&mut gaps) {
                let (url, passed) = watched(&address);
                let state = format!("{person}-{output:?}-{number}");
                let folder = format!("letters-{state}");
                let rest = ["--pace", "120", "--out", &folder];
                let rest = if output == Output::Files { &rest[..] } else { &rest[..2] };
                let mut process = start(&place, &url, person, &state, rest, output);
                if output == Output::Slow {
                    let mut stdout = process.0.stdout.take().unwrap();
                    thread::spawn(move || {
                        let mut bytes = [0; 100];
                        while let Ok(1..) = stdout.read(&mut bytes) {
                            thread::sleep(Duration::from_millis(5));
                        }
                    });
                }
                // The state is saved, or nothing more is to come.
                wait_until("the round", || place.path().join(&state).exists());
                let seen = requests(&passed);
                let paths: Vec<_> = seen.iter().map(|(path, ..)| path.split('?').next().unwrap()).collect();
                assert_eq!(
                    paths,
                    ["/v1/parameters", "/v1/head", "/v1/messages", "/v1/messages"],
                    "{person} {output:?}"
                );
                gaps.iter_mut().zip(&seen[1..]).for_each(|(gaps, (_, _, gap))| gaps.push(*gap));
            }
        }
        for place in 0..3 {
            let median = |person: usize| {
                let mut gaps = gaps[person][place].clone();
                gaps.sort_unstable();
                gaps[gaps.len() / 2]
            };
            for person in [1, 2] {
                let (here, there) = (median(person), median(0));
                assert!(
                    here.abs_diff(there) < Duration::from_millis(60),
                    "{output:?} {place}: {here:?} {there:?}"
                );
            }
        }
    }
}

/// Rounds go on at their times though nobody reads what they bring, no page is asked for twice, and the next run shows what was not shown.
#[test]
fn a_full_or_closed_output_stops_no_rounds_and_loses_no_message() {
    let (place, _relay, address) = world();
    for output in [Output::Full, Output::Closed] {
        let (url, passed) = watched(&address);
        let state = format!("state-{output:?}");
        let mut process = start(&place, &url, "many", &state, &["--pace", "0", "--every", "1"], output);
        let heads = || requests(&passed).iter().filter(|(path, ..)| path == "/v1/head").count();
        wait_until("five rounds", || heads() >= 5);
        let pages = requests(&passed).into_iter().filter(|(path, ..)| path.starts_with("/v1/messages"));
        let pages: Vec<_> = pages.map(|(path, ..)| path).collect();
        assert_eq!(pages.len(), pages.iter().collect::<BTreeSet<_>>().len(), "{pages:?}");
        assert!(process.0.try_wait().unwrap().is_none());
        process.0.kill().unwrap();
        process.0.wait().unwrap();
        let mut first = String::new();
        if let Some(mut stdout) = process.0.stdout.take() {
            stdout.read_to_string(&mut first).unwrap();
        }
        let mut shown = indices(&first);
        assert_eq!(shown.is_empty(), output == Output::Closed);
        assert!(shown.len() < MANY as usize);
        let (code, rest) = show(&place, &url, "many", &state);
        assert_eq!(code, Some(0));
        shown.extend(rest);
        let distinct: BTreeSet<u64> = shown.iter().copied().collect();
        assert_eq!(distinct, (0..MANY).collect(), "{output:?}");
        assert!(shown.len() <= MANY as usize + 1, "at most the one that was being shown comes again");
        assert!(!place.path().join(format!("{state}.mail")).exists(), "nothing is left to show");
        assert_eq!(show(&place, &url, "many", &state), (Some(0), vec![]));
    }
}

/// A run whose output is closed does its round, saves it, and says by its exit code that messages are left; closed standard error is
/// no reason to panic.
#[test]
fn one_round_with_a_closed_output_is_complete_and_says_so() {
    let (place, _relay, address) = world();
    let url = format!("http://{address}");
    for (person, expected) in [("none", 0), ("one", 5)] {
        let mut process = start(&place, &url, person, person, &["--pace", "0"], Output::Closed);
        assert_eq!(process.0.wait().unwrap().code(), Some(expected), "{person}");
    }
    let (code, shown) = show(&place, &url, "one", "one");
    assert_eq!((code, shown), (Some(0), (MANY..MANY + 100).collect()));
}

/// The directory of the state is away for some rounds: they go on at their times and from where they are, nothing is shown that the
/// state does not count, and when the disk takes files again everything is kept and shown, once.
#[test]
fn a_disk_that_takes_nothing_stops_no_rounds_and_loses_no_message() {
    let (place, _relay, address) = world();
    let (url, passed) = watched(&address);
    let [here, away] = ["box", "away"].map(|name| place.path().join(name));
    fs::create_dir(&here).unwrap();
    let rest = ["--pace", "200", "--every", "1"];
    let mut process = start(&place, &url, "many", "box/state", &rest, Output::Read);
    let (text, mut stdout) = (Arc::new(Mutex::new(Vec::new())), process.0.stdout.take().unwrap());
    let shown = Arc::clone(&text);
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut bytes) {
            shown.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    });
    let seen = |name: &str| requests(&passed).into_iter().filter(|(path, ..)| path.starts_with(name)).count();
    wait_until("a request", || seen("/v1/head") > 0);
    fs::rename(&here, &away).unwrap();
    wait_until("rounds", || {
        let last = requests(&passed)
            .iter()
            .filter(|(path, ..)| path.ends_with(&format!("end={}", MANY + 100)))
            .count();
        last > 0
    });
    let heads = seen("/v1/head");
    wait_until("more rounds", || seen("/v1/head") > heads + 2);
    assert!(text.lock().unwrap().is_empty() && !away.join("state").exists());
    fs::rename(&away, &here).unwrap();
    wait_until("the state", || here.join("state").exists());
    wait_until("all messages", || {
        text.lock().unwrap().iter().filter(|byte| **byte == b'\n').count() >= MANY as usize
    });
    let pages = requests(&passed).into_iter().filter(|(path, ..)| path.starts_with("/v1/messages"));
    let pages: Vec<_> = pages.map(|(path, ..)| path).collect();
    assert_eq!(pages.len(), pages.iter().collect::<BTreeSet<_>>().len(), "{pages:?}");
    drop(process);
    let found = indices(&String::from_utf8(text.lock().unwrap().clone()).unwrap());
    assert_eq!(found, (0..MANY).collect::<Vec<_>>());
    assert_eq!(show(&place, &url, "many", "box/state"), (Some(0), vec![]));
}

/// No file may be longer than 16 KiB, messages and state both fail: the round is the same as that of somebody without messages, the
/// exit code says that something is wrong, and the next run gets everything.
#[test]
#[cfg(unix)]
fn a_round_that_cannot_be_kept_is_complete_and_comes_again() {
    let (place, _relay, address) = world();
    let mut paths = Vec::new();
    for person in ["none", "many"] {
        let (url, passed) = watched(&address);
        let program = env!("CARGO_BIN_EXE_restante");
        let line = format!(
            "trap '' XFSZ; ulimit -f 16; exec {program} sync --relay {url} --account {person}.secret --state {person} --whole --pace 0 --quiet"
        );
        let mut command = Command::new("sh");
        let output = command.current_dir(place.path()).args(["-c", &line]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{errors}");
        assert!(output.stdout.is_empty() && !place.path().join(person).exists(), "{errors}");
        paths.push(requests(&passed).into_iter().map(|(path, ..)| path).collect::<Vec<_>>());
    }
    assert_eq!(paths[0], paths[1]);
    let (code, shown) = show(&place, &format!("http://{address}"), "many", "many");
    assert_eq!((code, shown), (Some(0), (0..MANY).collect()));
}

/// More than 64 MiB of text in one round, which an ordinary relay with large pages and somebody with the address can bring about, is
/// kept as anything is: no client gets stuck in front of it.
#[test]
fn a_round_of_many_long_messages_is_kept() {
    let long = |number: u64| {
        let mut text = vec![b'x'; 64_000];
        text[..8].copy_from_slice(format!("{number:08}").as_bytes());
        text
    };
    let (place, _relay, address) = world_with("[limits]\npage_bytes = 8388608\n", 1130, long);
    let url = format!("http://{address}");
    let mut process = start(&place, &url, "many", "many", &["--pace", "0"], Output::Read);
    let mut text = Vec::new();
    process.0.stdout.take().unwrap().read_to_end(&mut text).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
    let found: Vec<u64> = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| std::str::from_utf8(line).unwrap().split('\t').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(found, (0..1130).collect::<Vec<_>>());
    assert_eq!(show(&place, &url, "many", "many"), (Some(0), vec![]));
}
