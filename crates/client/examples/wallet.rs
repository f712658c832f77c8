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
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{
    Account, AnyDetection,
    relay::{
        Bounds, Cause, Delivery, Driver, Host, KnownRelay, Outbox, PostMachine, Received, Reply, Request,
        Response, Retries, Schedule, Side, Stopped, SyncConfig, SyncMachine, SyncState, wait_until,
    },
};
use restante_clue::ClueParameters;

const PARAMETERS: ClueParameters = ClueParameters::STANDARD;

fn main() -> Result<(), Box<dyn Error>> {
    let relay = std::env::args().nth(1).ok_or("expected the relay's address, such as 127.0.0.1:7300")?;
    run(relay, &std::env::temp_dir().join("restante-wallet"), 3)
}

/// So many rounds, with a wallet in a folder.
pub fn run(relay: String, directory: &Path, rounds: u32) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(directory)?;
    let (state_path, outbox_path) = (directory.join("state"), directory.join("outbox"));
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);
    let (mut driver, mut line) = (Driver::new(), Line { relay, start: Instant::now() });

    // The account is in one file, which a real wallet would encrypt. That it cannot be read is no reason to make another.
    let secret_path = directory.join("secret");
    let account = match read(&secret_path)? {
        Some(file) => Account::from_file(&file)?,
        None => Account::random(PARAMETERS, &mut rng),
    };
    save(&secret_path, &account.to_file())?;

    post(&account, &outbox_path, &mut driver, &mut line, &mut rng)?;

    // Read, on a schedule that nothing changes: a real wallet goes on for ever.
    let mut state = match read(&state_path)? {
        Some(file) => SyncState::from_file(&file)?,
        None => SyncState::new(PARAMETERS, 0, KnownRelay::default()),
    };
    let mut schedule = Schedule::every(line.clock(), Duration::from_secs(2));
    // No more in a round than is read before the next begins. A real wallet measures how long a message takes.
    let bounds = Bounds::for_device(Duration::from_micros(500), schedule.rest());
    let config = SyncConfig { bounds, ..SyncConfig::new(Delivery::Whole { second: false }) };
    for _round in 0..rounds {
        let mut machine = SyncMachine::new(&account, AnyDetection::None, config, state)?;
        // Between two requests there is nothing to save.
        let ended = driver.run(&mut machine, &mut line, &mut rng, |_| Ok(()));
        // When the next round begins is fixed before what came is read.
        let arrival = driver.arrival().unwrap_or_default();
        let next = schedule.next(arrival, machine.outcome().unfinished).unwrap_or_default();
        let finished = machine.finish(&mut rng);
        finished.save(
            |round, messages| save(&directory.join(format!("mail-{round}")), &mail(messages)),
            |state| save(&state_path, &state.to_file()),
        )?;
        state = finished.state;
        match ended {
            Err(Stopped::Relay(error)) if error.is_retryable() => show(&error.to_string()),
            ended => ended?,
        }
        // What a person sees comes last, and on a thread of its own where the output may block.
        for message in &finished.received {
            show(&format!("message {}: {}", message.index, String::from_utf8_lossy(&message.text)));
        }
        show(&format!("complete to message {}", state.complete_to()));
        let next = schedule.put_off(next, line.clock());
        wait_until(&mut line, next);
    }
    Ok(())
}

/// Posts a note. The driver has the outbox saved before the first request and after each answer; its messages
/// are then posted once, whatever happens.
fn post(
    account: &Account,
    path: &Path,
    driver: &mut Driver,
    line: &mut Line,
    rng: &mut ChaCha20Rng,
) -> Result<(), Box<dyn Error>> {
    let mut outbox = match read(path)? {
        Some(file) => Outbox::from_file(&file)?,
        None => Outbox::new(PARAMETERS),
    };
    outbox.push(account.address(), b"a note to myself", rng)?;
    let mut machine = PostMachine::new(outbox, KnownRelay::default(), 3600, Retries::default());
    driver.run(&mut machine, line, rng, |machine| save(path, &machine.outbox().to_file()))?;
    for receipt in machine.outbox().receipts() {
        show(&format!("posted as message {}", receipt.index));
    }
    Ok(())
}

/// A file, if there is one.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Shows a line, if anybody looks: that nobody does is no reason to stop.
fn show(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A round's messages as lines. A real wallet has a database, and forgets what a later round of the same number wrote.
fn mail(messages: &[Received]) -> Vec<u8> {
    let line =
        |one: &Received| format!("{}\t{}\n", one.index, String::from_utf8_lossy(&one.text).escape_debug());
    messages.iter().map(line).collect::<String>().into_bytes()
}

/// One relay, over plain HTTP, and this machine's clocks.
struct Line {
    relay: String,
    start: Instant,
}

impl Host for Line {
    type Error = std::io::Error;

    /// Whatever goes wrong is one thing for a machine: no answer.
    fn ask(&mut self, request: Request) -> Result<Reply, Self::Error> {
        assert_eq!(request.relay, Side::First, "there is one relay");
        Ok(send(&self.relay, &request).map_or(Reply::Broken(Cause::default()), Reply::Answer))
    }

    fn clock(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
    }

    fn now(&mut self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }
}

/// Writes a file that is replaced whole or not at all.
fn save(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    fs::write(&draft, bytes)?;
    fs::rename(draft, path)
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
