//! `restante sync`.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use chacha20::ChaCha20Rng;
use restante_client::{
    Account, AnyDetection, CompactDetection, Detection, KeyFile, RelayError,
    relay::{
        Again, Compact, Delivery, KnownRelay, Outcome, Private, Received, RegisterMachine, Registration,
        RetireMachine, Retries, Side, Step, SyncConfig, SyncMachine, SyncState, Tail,
    },
};
use restante_omr::compact::CompactDetectionKey;
use restante_wire::relay::{Credential, DigestKind};
use zeroize::Zeroizing;

use super::keys::load_account;
use crate::{
    arguments::{CompactOptions, DeliveryName, SyncArguments},
    cache::Cache,
    error::CliError,
    files::{self, Existing},
    http::{Relays, now},
    letters::Letters,
    report::{Report, note},
    session::Session,
};

pub fn run(session: &Session, arguments: &SyncArguments) -> Result<(), CliError> {
    let account = load_account(&arguments.account)?;
    let delivery = delivery(arguments)?;
    let _lock = files::lock(&arguments.state)?;
    let state = load_state(arguments, &account)?;
    let keys = match delivery {
        Delivery::Private(_) => {
            let rotation = state.rotation(DigestKind::Stream);
            Keys::Stream(Box::new(Detection::rotated(&account, rotation, session.backend)?))
        }
        Delivery::Compact(_) => {
            let context = session.compact_context(*account.parameters(), false)?;
            let file = match &arguments.compact.compact_key {
                Some(path) => path.clone(),
                None => arguments.account.with_extension("compact"),
            };
            let rotation = state.rotation(DigestKind::Compact);
            Keys::Compact(Box::new(CompactDetection::rotated(&account, rotation, &context)?), file)
        }
        _ => Keys::None,
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
        keys,
        config,
        relays: Relays::new(&urls, &arguments.connection.reach)?,
        rng: session.rng()?,
        state,
        credential: arguments.credential.as_deref().map(load_credential).transpose()?,
    };
    if matches!(delivery, Delivery::Private(_)) && !arguments.no_cache {
        let folder = arguments.cache.as_ref().map(|folder| folder.to_path_buf());
        let folder = folder.unwrap_or_else(|| files::with_extension(&arguments.state, "cache"));
        client.relays.keep_in(Cache::new(folder));
    }
    if let Some(index) = arguments.skip_to {
        client.state.skip_to(index);
        keep(client.path, &client.state)?;
    }
    if arguments.forget_heads {
        client.state.forget_heads();
        keep(client.path, &client.state)?;
    }
    let Some(every) = arguments.every else { return client.round() };
    let every = Duration::from_secs(every);
    let mut next = Instant::now();
    loop {
        match client.round() {
            Ok(()) => {}
            // A relay that cannot be reached now, or refuses, may serve the next round, and nothing else changes on the schedule. What a
            // relay has shown that an honest one cannot, and wrong settings, are for a person.
            Err(error) if error.may_pass() => note!("restante: {error}"),
            Err(error) => return Err(error),
        }
        // The schedule stands, however long a round took.
        while next <= Instant::now() {
            next += every;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn delivery(arguments: &SyncArguments) -> Result<Delivery, CliError> {
    if let Some(Range { start: first, end }) = arguments.read {
        return Ok(Delivery::Range { first, end });
    }
    let second = arguments.second_relay.is_some();
    let name = match arguments.delivery {
        Some(name) => name,
        None if second && !arguments.whole => DeliveryName::Private,
        None => DeliveryName::Whole,
    };
    Ok(match name {
        DeliveryName::Whole => Delivery::Whole { second },
        DeliveryName::Private if !second => {
            return Err(CliError::Usage("--delivery private needs --second-relay".into()));
        }
        DeliveryName::Private => {
            let tail = if arguments.read_tail { Tail::Read } else { Tail::Wait };
            Delivery::Private(Private { fetches: arguments.fetches, tail })
        }
        DeliveryName::Compact => {
            let CompactOptions { capacity, payload_bytes, second_look, poll, .. } = arguments.compact;
            let settings = Compact::new(capacity.into(), payload_bytes.into());
            let again = Some(second_look).filter(|messages| *messages > 0);
            let again = again.map(|messages| Again { messages, capacity: 255 });
            Delivery::Compact(Compact { second, again, poll: Duration::from_secs(poll), ..settings })
        }
    })
}

/// What digests are detected with, and opened.
enum Keys {
    None,
    Stream(Box<Detection>),
    /// With the file of the detection key.
    Compact(Box<CompactDetection>, PathBuf),
}

impl Keys {
    fn kind(&self) -> Option<DigestKind> {
        match self {
            Self::None => None,
            Self::Stream(_) => Some(DigestKind::Stream),
            Self::Compact(..) => Some(DigestKind::Compact),
        }
    }

    fn detection(&self) -> AnyDetection<'_> {
        match self {
            Self::None => AnyDetection::None,
            Self::Stream(detection) => AnyDetection::Stream(detection),
            Self::Compact(detection, _) => AnyDetection::Compact(detection),
        }
    }

    /// What is uploaded. The file of a compact key is checked first: it is large, and a relay could not tell that it is another
    /// account's.
    fn upload(&self) -> Result<Option<KeyFile<'_>>, CliError> {
        Ok(match self {
            Self::None => None,
            Self::Stream(detection) => Some(detection.upload()),
            Self::Compact(detection, path) => {
                if !path.exists() {
                    let reason = "no such file, expected the account's compact detection key: `restante keys address` with --compact makes it, `restante keys rotate` another";
                    return Err(CliError::input(path)(&reason));
                }
                let file = files::read(path)?;
                let id =
                    CompactDetectionKey::id_of_file(&file).map_err(|error| CliError::input(path)(&error))?;
                let upload = detection.upload(*blake3::hash(&file).as_bytes());
                if id != detection.key_id() || file.len() as u64 != upload.bytes() {
                    let reason = format!("it is the key {id}, the account's is {}", detection.key_id());
                    return Err(CliError::input(path)(&reason));
                }
                Some(upload)
            }
        })
    }

    fn read_part(&self, part: &Range<u64>) -> Result<Vec<u8>, CliError> {
        let Self::Compact(_, path) = self else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let mut file = File::open(path).map_err(CliError::system("open", path))?;
        file.seek(SeekFrom::Start(part.start))
            .and_then(|_| file.take(part.end - part.start).read_to_end(&mut bytes))
            .map_err(CliError::system("read", path))?;
        Ok(bytes)
    }
}

fn load_state(arguments: &SyncArguments, account: &Account) -> Result<SyncState, CliError> {
    let path = &arguments.state;
    let pins = [arguments.relay_key, arguments.second_relay_key];
    if !path.exists() {
        let relays = pins.map(|key| key.map_or(KnownRelay::default(), KnownRelay::pinned));
        return Ok(SyncState::new(*account.parameters(), arguments.first, relays));
    }
    let file = Zeroizing::new(files::read(path)?);
    let mut state = SyncState::from_file(&file).map_err(|error| CliError::input(path)(&error))?;
    for (side, pin) in [Side::First, Side::Second].into_iter().zip(pins) {
        match (pin, state.relay(side).key) {
            (Some(pin), Some(known)) if pin != known => {
                let reason = format!("it is for the {side} relay {known}, not {pin}");
                return Err(CliError::input(path)(&reason));
            }
            (Some(pin), None) => state.set_relay(side, KnownRelay::pinned(pin)),
            _ => {}
        }
    }
    Ok(state)
}

/// The credential in a file: the last word of its text, so that a line of `restante credentials new` will do.
fn load_credential(path: &Path) -> Result<Credential, CliError> {
    let text = Zeroizing::new(files::read_text(path)?);
    let word = text.split_whitespace().next_back();
    let refused = |reason: String| CliError::input(path)(&reason);
    word.ok_or_else(|| refused("it holds no credential".into()))?.parse().map_err(refused)
}

struct Client<'a> {
    session: &'a Session,
    path: &'a Path,
    account: &'a Account,
    keys: Keys,
    config: SyncConfig,
    relays: Relays,
    rng: ChaCha20Rng,
    state: SyncState,
    credential: Option<Credential>,
}

impl Client<'_> {
    fn round(&mut self) -> Result<(), CliError> {
        if let Some(kind) = self.keys.kind()
            && !self.state.registration(kind).is_some_and(Registration::is_complete)
        {
            self.register(kind)?;
        }
        let detection = self.keys.detection();
        let mut machine = SyncMachine::new(self.account, detection, self.config, self.state.clone())?;
        let mut messages = 0;
        let ended = loop {
            match machine.step() {
                Step::Ask(request) => {
                    let reply = self.relays.ask(&request);
                    let result = machine.respond(reply, now(), &mut self.rng);
                    let received = machine.take_received();
                    messages += received.len();
                    // Printed before the state counts them as done: after a crash in between they are printed again.
                    received.iter().try_for_each(|message| print(self.session, message))?;
                    self.state = machine.state().clone();
                    if let (Err(RelayError::Unauthorized), Some(kind)) = (&result, self.keys.kind()) {
                        // The next round registers again, and takes this one back in case that the relay knows it after all.
                        self.state.retire(kind);
                    }
                    keep(self.path, &self.state)?;
                    if result.as_ref().is_err_and(|error| !error.is_retryable()) {
                        self.relays.distrust()?;
                    }
                    if result.is_err() {
                        break result;
                    }
                }
                Step::Wait(time) => self.relays.wait(time),
                Step::Done => break Ok(()),
            }
        };
        // Also where it failed: what was found until then is not named again.
        let outcome = machine.outcome().clone();
        self.report(&outcome, messages, ended.is_ok())?;
        ended?;
        match outcome.waiting || outcome.failed.is_some() {
            true => Ok(()),
            false => self.retire(),
        }
    }

    /// Takes keys back that others have taken the place of, now that there was a round with those.
    fn retire(&mut self) -> Result<(), CliError> {
        if self.state.retired().is_empty() {
            return Ok(());
        }
        self.relays.reconnect();
        let mut machine = RetireMachine::new(self.state.retired().to_vec(), self.config.retries);
        loop {
            match machine.step() {
                Step::Ask(request) => {
                    let reply = self.relays.ask(&request);
                    let result = machine.respond(reply, &mut self.rng);
                    self.state.set_retired(machine.registrations());
                    keep(self.path, &self.state)?;
                    if let Err(error) = result {
                        // The next round tries again.
                        note!("restante: an old detection key could not be taken back: {error}");
                        break;
                    }
                }
                Step::Wait(time) => self.relays.wait(time),
                Step::Done => break,
            }
        }
        self.relays.reconnect();
        Ok(())
    }

    fn register(&mut self, kind: DigestKind) -> Result<(), CliError> {
        let Some(key) = self.keys.upload()? else { return Ok(()) };
        let (known, kept) = (*self.state.relay(Side::First), self.state.registration(kind).cloned());
        let first = self.state.complete_to();
        let bar = self.session.progress("uploading", key.bytes());
        let mut machine = RegisterMachine::new(key, known, kept, first, self.config.retries);
        if let Some(credential) = &self.credential {
            machine = machine.with_credential(self.account, credential.clone());
        }
        loop {
            match machine.step() {
                Step::Ask(mut request) => {
                    if let Some(part) = request.key_part.take() {
                        bar.set_position(part.start);
                        request.body = self.keys.read_part(&part)?;
                    }
                    let reply = self.relays.ask(&request);
                    let result = machine.respond(reply, &mut self.rng);
                    self.state.set_registration(kind, machine.registration().cloned());
                    self.state.set_relay(Side::First, *machine.known());
                    keep(self.path, &self.state)?;
                    result?;
                }
                Step::Wait(time) => self.relays.wait(time),
                Step::Done => {
                    bar.finish_and_clear();
                    return Ok(());
                }
            }
        }
    }

    fn report(&self, outcome: &Outcome, messages: usize, is_done: bool) -> Result<(), CliError> {
        for (side, first_use) in [Side::First, Side::Second].into_iter().zip(outcome.first_use) {
            if let (true, Some(key)) = (first_use, self.state.relay(side).key) {
                note!(
                    "restante: the {side} relay's key is taken from itself: {key}. Compare it with what its operator says."
                );
            }
        }
        for (what, lost) in [("no epoch holds", &outcome.overdue), ("no record holds", &outcome.too_long)] {
            if !lost.is_empty() {
                note!(
                    "restante: {what} messages {lost:?}: reading their range, whole, is the only way to them, and shows"
                );
            }
        }
        let ranges = |ranges: &[Range<u64>]| -> Vec<String> {
            ranges.iter().map(|range| format!("{}..{}", range.start, range.end)).collect()
        };
        let lost: Vec<Range<u64>> = self.state.lost().collect();
        if !lost.is_empty() {
            note!(
                "restante: no digest of {} could be read so far: where no second look follows, --read is the only way to messages there, and shows",
                ranges(&lost).join(", ")
            );
        }
        if let Some(reason) = &outcome.failed {
            note!("restante: the relay could not make a digest: {reason}");
        }
        let report = Report::new()
            .with("round", if is_done { "done" } else { "failed" })
            .with("messages", messages)
            .with("complete_to", self.state.complete_to())
            .with("behind", outcome.behind)
            .with("backlog", outcome.backlog)
            .with("overdue", outcome.overdue.clone())
            .with("too_long", outcome.too_long.clone())
            .with("unreadable", ranges(&outcome.unreadable))
            .with("overflowed", ranges(&outcome.overflowed))
            .with("lost", ranges(&lost))
            .with("waiting", outcome.waiting)
            .with("wrong_records", outcome.wrong_records)
            .with("unopened", outcome.unopened);
        match self.session.json {
            true => report.print(self.session),
            false => Ok(()),
        }
    }
}

fn keep(path: &Path, state: &SyncState) -> Result<(), CliError> {
    files::write(path, &state.to_file(), Existing::Replace)
}

fn print(session: &Session, message: &Received) -> Result<(), CliError> {
    Letters::new(session, None)?.deliver(session, message.index, &message.text)
}
