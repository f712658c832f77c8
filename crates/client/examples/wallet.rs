//! A wallet's loop: post a message to itself, then look for mail every few seconds.
//!
//!     restante serve --data relay
//!     cargo run --release -p restante-client --example wallet -- 127.0.0.1:7300
//!
//! The client crate decides what is sent; sockets, the clock, randomness and files are the wallet's. A real one uses a library for
//! HTTP and TLS, two relays and `Delivery::Private`: see `restante sync`, and docs/client.md.

use std::{
    error::Error,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{
    Account, AnyDetection,
    relay::{
        Cause, Delivery, KnownRelay, Outbox, PostMachine, Reply, Request, Response, Retries, Side, Step,
        SyncConfig, SyncMachine, SyncState,
    },
};
use restante_clue::ClueParameters;

const PARAMETERS: ClueParameters = ClueParameters::STANDARD;

fn main() -> Result<(), Box<dyn Error>> {
    let relay = std::env::args().nth(1).ok_or("expected the relay's address, such as 127.0.0.1:7300")?;
    let directory = std::env::temp_dir().join("restante-wallet");
    fs::create_dir_all(&directory)?;
    let state_path = directory.join("state");
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    // The account is in one file, which a real wallet would encrypt.
    let secret_path = directory.join("secret");
    let account = match fs::read(&secret_path) {
        Ok(file) => Account::from_file(&file)?,
        Err(_) => Account::random(PARAMETERS, &mut rng),
    };
    save(&secret_path, &account.to_file())?;

    // Post. A wallet saves the outbox before and after each request; its messages are then posted once, whatever happens.
    let mut outbox = Outbox::new(PARAMETERS);
    outbox.push(account.address(), b"a note to myself", &mut rng)?;
    let mut machine = PostMachine::new(outbox, KnownRelay::default(), 3600, Retries::default());
    loop {
        match machine.step() {
            Step::Ask(request) => {
                let reply = ask(&relay, &request);
                let result = machine.respond(reply, now(), &mut rng);
                save(&directory.join("outbox"), &machine.outbox().to_file())?;
                result?;
            }
            Step::Wait(time) => thread::sleep(time),
            Step::Done => break,
        }
    }
    for receipt in machine.outbox().receipts() {
        println!("posted as message {}", receipt.index);
    }

    // Read, on a schedule that nothing changes: a real wallet goes on for ever.
    let mut state = match fs::read(&state_path) {
        Ok(file) => SyncState::from_file(&file)?,
        Err(_) => SyncState::new(PARAMETERS, 0, [KnownRelay::default(); 2]),
    };
    let config = SyncConfig::new(Delivery::Whole { second: false });
    for _round in 0..3 {
        let mut machine = SyncMachine::new(&account, AnyDetection::None, config, state.clone())?;
        loop {
            match machine.step() {
                Step::Ask(request) => {
                    thread::sleep(request.pace);
                    let reply = ask(&relay, &request);
                    let result = machine.respond(reply, now(), &mut rng);
                    for message in machine.take_received() {
                        println!("message {}: {}", message.index, String::from_utf8_lossy(&message.text));
                    }
                    state = machine.state().clone();
                    save(&state_path, &state.to_file())?;
                    match result {
                        Err(error) if error.is_retryable() => break,
                        result => result?,
                    }
                }
                Step::Wait(time) => thread::sleep(time),
                Step::Done => break,
            }
        }
        println!("complete to message {}", state.complete_to());
        thread::sleep(Duration::from_secs(2));
    }
    Ok(())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Writes a file that is replaced whole or not at all.
fn save(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    fs::write(&draft, bytes)?;
    fs::rename(draft, path)
}

/// Sends a request over plain HTTP. Whatever goes wrong is one thing for a machine: no answer.
fn ask(relay: &str, request: &Request) -> Reply {
    assert_eq!(request.relay, Side::First, "there is one relay");
    send(relay, request).map_or(Reply::Broken(Cause::default()), Reply::Answer)
}

fn send(relay: &str, request: &Request) -> Option<Response> {
    let mut stream = TcpStream::connect(relay).ok()?;
    let mut head = format!("{} {} HTTP/1.1\r\nhost: {relay}\r\n", request.method.name(), request.path);
    for (name, value) in &request.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(value) = &request.authorization {
        head += &format!("authorization: {}\r\n", **value);
    }
    head += &format!("content-length: {}\r\nconnection: close\r\n\r\n", request.body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&request.body)).ok()?;
    let mut answer = Vec::new();
    stream.take(request.answer_bytes_max + (64 << 10)).read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(answer[..end].to_vec()).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let fields = lines.filter_map(|line| line.split_once(':'));
    let headers = fields.map(|(name, value)| (name.to_string(), value.trim().to_string())).collect();
    let response = Response { status, headers, body: answer[end + 4..].to_vec() };
    // A body that was cut short is no answer.
    let length = response.header("content-length").and_then(|length| length.parse::<usize>().ok());
    (length.unwrap_or(0) == response.body.len()).then_some(response)
}
