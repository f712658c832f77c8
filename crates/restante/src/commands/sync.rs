//! `restante sync`.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use chacha20::ChaCha20Rng;
use restante_client::{
    Account, Detection, RelayError,
    relay::{
        Delivery, KnownRelay, Outcome, Private, Received, RegisterMachine, Registration, Retries, Side, Step,
        SyncConfig, SyncMachine, SyncState, Tail,
    },
};
use restante_wire::relay::Credential;
use serde_json::json;
use zeroize::Zeroizing;

use super::keys::load_account;
use crate::{
    arguments::SyncArguments,
    error::CliError,
    files::{self, Existing},
    http::{Relays, now},
    report::{Report, print_line},
    session::Session,
};

pub fn run(session: &Session, arguments: &SyncArguments) -> Result<(), CliError> {
    let account = load_account(&arguments.account)?;
    let delivery = match (arguments.second_relay.is_some(), arguments.whole) {
        (true, false) => {
            let tail = if arguments.read_tail { Tail::Read } else { Tail::Wait };
            Delivery::Private(Private { fetches: arguments.fetches, tail })
        }
        (second, _) => Delivery::Whole { second },
    };
    let detection = match delivery {
        Delivery::Private(_) => Some(Detection::new(&account, session.backend)?),
        _ => None,
    };
    let config = SyncConfig {
        pace: Duration::from_millis(arguments.pace),
        retries: Retries { attempts: arguments.connection.attempts, ..Retries::default() },
        ..SyncConfig::new(delivery)
    };
    let urls: Vec<&str> = [Some(&arguments.relay), arguments.second_relay.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let mut client = Client {
        session,
        path: &arguments.state,
        account: &account,
        detection: detection.as_ref(),
        config,
        relays: Relays::new(&urls, arguments.connection.authority.as_deref())?,
        rng: session.rng()?,
        state: load_state(arguments, &account)?,
        credential: arguments.credential.as_deref().map(load_credential).transpose()?,
    };
    if let Some(index) = arguments.skip_to {
        client.state.skip_to(index);
        client.keep()?;
    }
    if arguments.forget_heads {
        client.state.forget_heads();
        client.keep()?;
    }
    let Some(every) = arguments.every else { return client.round() };
    let every = Duration::from_secs(every);
    let mut next = Instant::now();
    loop {
        match client.round() {
            Ok(()) => {}
            // A relay that cannot be reached now can be at the next round, and nothing else changes on the schedule.
            Err(CliError::Environment(reason)) => eprintln!("restante: {reason}"),
            Err(error) => return Err(error),
        }
        // The schedule stands, however long a round took.
        while next <= Instant::now() {
            next += every;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn load_state(arguments: &SyncArguments, account: &Account) -> Result<SyncState, CliError> {
    let path = &arguments.state;
    let pins = [arguments.relay_key, arguments.second_relay_key];
    if !path.exists() {
        let relays = pins.map(|key| key.map_or(KnownRelay::default(), KnownRelay::pinned));
        return Ok(SyncState::new(*account.parameters(), arguments.first, relays));
    }
    let state = SyncState::from_file(&files::read(path)?).map_err(|error| CliError::input(path)(&error))?;
    for (side, pin) in [Side::First, Side::Second].into_iter().zip(pins) {
        let known = state.relay(side).key;
        if let (Some(pin), Some(known)) = (pin, known)
            && pin != known
        {
            let reason = format!("it is for the {side} relay {known}, not {pin}");
            return Err(CliError::input(path)(&reason));
        }
    }
    Ok(state)
}

/// The credential in a file: the last word of its text, so that a line of `restante credentials new` will do.
fn load_credential(path: &Path) -> Result<Credential, CliError> {
    let text = Zeroizing::new(files::read(path)?);
    let word = std::str::from_utf8(&text).ok().and_then(|text| text.split_whitespace().next_back());
    let refused = |reason: String| CliError::input(path)(&reason);
    word.ok_or_else(|| refused("it holds no credential".into()))?.parse().map_err(refused)
}

struct Client<'a> {
    session: &'a Session,
    path: &'a Path,
    account: &'a Account,
    detection: Option<&'a Detection>,
    config: SyncConfig,
    relays: Relays,
    rng: ChaCha20Rng,
    state: SyncState,
    credential: Option<Credential>,
}

impl Client<'_> {
    fn keep(&self) -> Result<(), CliError> {
        files::write(self.path, &self.state.to_file(), Existing::Replace)
    }

    fn round(&mut self) -> Result<(), CliError> {
        if let Some(detection) = self.detection
            && !self.state.registration().is_some_and(Registration::is_complete)
        {
            self.register(detection)?;
        }
        let config = self.config;
        let mut machine = SyncMachine::new(self.account, self.detection, config, self.state.clone())?;
        let mut messages = 0;
        loop {
            match machine.step() {
                Step::Ask(request) => {
                    let reply = self.relays.ask(&request);
                    let result = machine.respond(reply, now(), &mut self.rng);
                    let received = machine.take_received();
                    messages += received.len();
                    // Printed before the state counts them as done: after a crash in between they are printed again.
                    received.iter().try_for_each(|message| self.print(message))?;
                    self.state = machine.state().clone();
                    if matches!(result, Err(RelayError::Unauthorized)) {
                        // The next round registers again.
                        self.state.set_registration(None);
                    }
                    self.keep()?;
                    result?;
                }
                Step::Wait(time) => thread::sleep(time),
                Step::Done => break,
            }
        }
        self.report(machine.outcome(), messages)
    }

    fn register(&mut self, detection: &Detection) -> Result<(), CliError> {
        let (known, kept) = (*self.state.relay(Side::First), self.state.registration().cloned());
        let first = self.state.complete_to();
        let mut machine = RegisterMachine::new(detection, known, kept, first, self.config.retries);
        if let Some(credential) = &self.credential {
            machine = machine.with_credential(self.account, credential.clone());
        }
        loop {
            match machine.step() {
                Step::Ask(request) => {
                    let reply = self.relays.ask(&request);
                    let result = machine.respond(reply, &mut self.rng);
                    self.state.set_registration(machine.registration().cloned());
                    self.state.set_relay(Side::First, *machine.known());
                    self.keep()?;
                    result?;
                }
                Step::Wait(time) => thread::sleep(time),
                Step::Done => return Ok(()),
            }
        }
    }

    fn print(&self, message: &Received) -> Result<(), CliError> {
        let text = String::from_utf8_lossy(&message.text);
        print_line(&match self.session.json {
            true => json!({ "index": message.index, "text": text }).to_string(),
            false => format!("{}\t{}", message.index, text.escape_debug()),
        })
    }

    fn report(&self, outcome: &Outcome, messages: usize) -> Result<(), CliError> {
        for (side, first_use) in [Side::First, Side::Second].into_iter().zip(outcome.first_use) {
            if let (true, Some(key)) = (first_use, self.state.relay(side).key) {
                eprintln!(
                    "restante: the {side} relay's key is taken from itself: {key}. Compare it with what its operator says."
                );
            }
        }
        for (what, lost) in [("no epoch holds", &outcome.overdue), ("no record holds", &outcome.too_long)] {
            if !lost.is_empty() {
                eprintln!(
                    "restante: {what} messages {lost:?}: reading their range, whole, is the only way to them, and shows"
                );
            }
        }
        let unreadable: Vec<_> =
            outcome.unreadable.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
        let report = Report::new()
            .with("round", "done")
            .with("messages", messages)
            .with("complete_to", self.state.complete_to())
            .with("behind", outcome.behind)
            .with("backlog", outcome.backlog)
            .with("overdue", outcome.overdue.clone())
            .with("too_long", outcome.too_long.clone())
            .with("unreadable", unreadable)
            .with("wrong_records", outcome.wrong_records)
            .with("unopened", outcome.unopened);
        match self.session.json {
            true => report.print(self.session),
            false => Ok(()),
        }
    }
}
