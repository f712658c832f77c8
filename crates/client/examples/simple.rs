//! A whole mailbox with sockets: an account, a letter to it, and reading the board.
//!
//!     restante serve --data relay
//!     cargo run --release -p restante-client --example simple -- http://127.0.0.1:7300 mailbox
//!
//! The folder keeps account, outbox and state: a second run goes on behind the first. `wallet.rs` has rounds
//! on a schedule, and docs/client.md what a messenger does besides: it pins its relay's key, and takes
//! `Delivery::Private` from two relays.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{error::Error, fs, io, path::Path};

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{Account, AnyDetection, ClueParameters, relay::*};
use ureq::{Agent, http};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, relay, folder] = &arguments[..] else { return Err("expected a relay's URL and a folder".into()) };
    print!("{}", run(relay, Path::new(folder))?);
    Ok(())
}

/// Reads and writes the mailbox in a folder, and gives the letters that are new.
pub fn run(relay: &str, folder: &Path) -> Result<String, Box<dyn Error>> {
    let (mut driver, mut http) = (Driver::new(), Http::new(relay));
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);
    let [secret, sent, state] = ["secret", "outbox", "state"].map(|name| folder.join(name));

    // A new account begins where the board ends: nothing before can be for it.
    if !fs::exists(&secret)? {
        fs::create_dir_all(folder)?;
        let (parameters, known) = (ClueParameters::STANDARD, KnownRelay::default());
        let mut machine = MeetMachine::new(parameters, known, 3600, Retries::default());
        driver.run(&mut machine, &mut http, &mut rng, |_| Ok(()))?;
        let first = machine.messages().ok_or("the relay did not say where its board ends")?;
        save(&state, &SyncState::new(parameters, first, *machine.known()).to_file())?;
        save(&sent, &Outbox::new(parameters).to_file())?;
        save(&secret, &Account::random(parameters, &mut rng).to_file())?;
    }
    let account = Account::from_file(&fs::read(secret)?)?;
    let known = SyncState::from_file(&fs::read(&state)?)?;

    // Whoever has the address writes to it. The outbox is kept before anything is sent, so that each letter
    // is posted once.
    let mut outbox = Outbox::from_file(&fs::read(&sent)?)?;
    outbox.push(account.address(), b"meet at noon", &mut rng)?;
    let mut machine = PostMachine::new(outbox, *known.relay(Side::First), 3600, Retries::default());
    driver.run(&mut machine, &mut http, &mut rng, |machine| save(&sent, &machine.outbox().to_file()))?;

    // A round reads what is new. Letters are kept first, then the state, which counts them as read.
    let config = SyncConfig::new(Delivery::Whole { second: false });
    let mut machine = SyncMachine::new(&account, AnyDetection::None, config, known)?;
    let ended = driver.run(&mut machine, &mut http, &mut rng, |_| Ok(()));
    let finished = machine.finish(&mut rng);
    let line = |letter: &Received| format!("{}: {}\n", letter.index, letter.text.escape_ascii());
    let letters: String = finished.received.iter().map(line).collect();
    finished.save(
        |round, _| save(&folder.join(format!("letters-{round}")), letters.as_bytes()),
        |now| save(&state, &now.to_file()),
    )?;
    ended?;
    Ok(letters)
}

/// A file appears whole or not at all.
fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path.with_extension("draft"), bytes)?;
    fs::rename(path.with_extension("draft"), path)
}

/// One relay, and this machine's clocks.
struct Http(String, Agent, Instant);

impl Http {
    fn new(relay: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
        let config = config.user_agent("restante").timeout_global(Some(Duration::from_secs(300)));
        Self(relay.into(), config.build().new_agent(), Instant::now())
    }

    fn send(&self, request: Request) -> Result<Response, ureq::Error> {
        let asked =
            http::Request::builder().method(request.method.name()).uri(self.0.clone() + &request.path);
        let secret = request.authorization.iter().map(|value| ("authorization", &**value));
        let fields = request.headers.iter().map(|(name, value)| (*name, value)).chain(secret);
        let asked = fields.fold(asked, |asked, (name, value)| asked.header(name, value));
        let mut answer = if request.body.is_empty() {
            self.1.run(asked.body(())?)?
        } else {
            self.1.run(asked.body(request.body)?)?
        };
        let fields = answer.headers().iter().filter_map(|(name, value)| Some((name, value.to_str().ok()?)));
        let headers = fields.map(|(name, value)| (name.to_string(), value.into())).collect();
        let body = answer.body_mut().with_config().limit(request.answer_bytes_max).read_to_vec()?;
        Ok(Response { status: answer.status().as_u16(), headers, body })
    }
}

impl Host for Http {
    type Error = io::Error;

    fn ask(&mut self, request: Request) -> io::Result<Reply> {
        Ok(self.send(request).map_or_else(|_| Reply::Broken(Cause::default()), Reply::Answer))
    }

    fn clock(&mut self) -> Duration {
        self.2.elapsed()
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn now(&mut self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }
}
