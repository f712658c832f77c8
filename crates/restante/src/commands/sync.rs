//! `restante sync`.

mod keys;

use std::{
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use chacha20::ChaCha20Rng;
use indicatif::ProgressBar;
use restante_client::{
    Account, BoardId, Period, RelayError,
    relay::{
        Again, Bounds, Compact, Delivery, Driver, Finished, Host, KnownRelay, MeetMachine, Private, Received,
        RegisterMachine, Registration, Reply, Request, RetireMachine, Retries, Schedule, Side, Stopped,
        SyncConfig, SyncMachine, SyncState, Tail, wait_until,
    },
};
use restante_wire::relay::{Credential, DigestKind};
use serde_json::Value;
use zeroize::Zeroizing;

use self::keys::Keys;
use super::keys::load_account;
use crate::{
    arguments::{CompactOptions, DeliveryName, SyncArguments},
    error::CliError,
    files::{self, Existing},
    http::Relays,
    letters::Letters,
    mail::Mail,
    printer::Printer,
    report::{Report, note},
    session::Session,
    units::{self, count},
};

pub fn run(session: &Session, arguments: &SyncArguments) -> Result<(), CliError> {
    let account = load_account(&arguments.account)?;
    let delivery = delivery(arguments)?;
    let _lock = files::lock(&arguments.state)?;
    let every = arguments.every.map(Duration::from_secs);
    let config = SyncConfig {
        bounds: bounds(session, &account, every)?,
        pace: Duration::from_millis(arguments.pace),
        retries: Retries { attempts: arguments.connection.attempts, ..Retries::default() },
        ..SyncConfig::new(delivery)
    };
    let urls: Vec<&str> = [Some(&arguments.relay), arguments.second_relay.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let mut relays = Relays::new(&urls, &arguments.connection.reach)?;
    let mut rng = session.rng()?;
    let state = load_state(arguments, &account, &config, (&mut relays, &mut rng))?;
    let keys = Keys::new(session, arguments, (&account, &state), delivery)?;
    let mail = Mail::open(&files::beside(&arguments.state, "mail"), state.rounds())?;
    let mut client = Client {
        session,
        path: &arguments.state,
        account: &account,
        keys: &keys,
        config,
        relays,
        driver: Driver::new(),
        rng,
        printer: Printer::start(mail, Letters::new(session, arguments.out.as_ref())?)?,
        saved_rounds: state.rounds(),
        unsaved: Unsaved::default(),
        is_unfinished: false,
        start: None,
        state,
        credential: arguments.credential.as_deref().map(load_credential).transpose()?,
    };
    if let Some(index) = arguments.skip_to {
        client.state.skip_to(index);
        keep(client.path, &client.state)?;
    }
    if arguments.forget_heads {
        client.state.forget_heads();
        keep(client.path, &client.state)?;
    }
    // What an earlier run received and could not show.
    client.printer.show();
    let outcome = client.rounds(every);
    // Everything is saved by now. Who reads slowly is waited for, but not for ever where others may wait for the exit code.
    let shown = client.printer.finish(every.map(|_| Duration::from_secs(2)));
    outcome.and(shown)
}

/// Rounds that this machine has time to read, whatever is in them: it opens a message of its own to see how fast it is.
fn bounds(session: &Session, account: &Account, every: Option<Duration>) -> Result<Bounds, CliError> {
    let schedule = every.map_or_else(Schedule::once, |every| Schedule::every(Duration::ZERO, every));
    let (board, day) = (BoardId([0; 16]), Period(0));
    let message = account.address().prepare().write_message(&board, day, b"", &mut session.rng()?)?;
    let mut each = Duration::MAX;
    for _ in 0..8 {
        let start = Instant::now();
        account.is_pertinent(&board, &message.clue, &message.payload)?;
        account.open(&board, &message.clue, &message.payload)?;
        each = each.min(start.elapsed());
    }
    Ok(Bounds::for_device(each, schedule.rest()))
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

/// The state, or a new one, for which a relay may be asked where a day begins.
fn load_state(
    arguments: &SyncArguments,
    account: &Account,
    config: &SyncConfig,
    (relays, rng): (&mut Relays, &mut ChaCha20Rng),
) -> Result<SyncState, CliError> {
    let path = &arguments.state;
    let pins = [arguments.relay_key, arguments.second_relay_key];
    if !path.try_exists().map_err(CliError::system("inspect", path))? {
        let [mut known, second] = pins.map(|key| key.map_or(KnownRelay::default(), KnownRelay::pinned));
        let (parameters, mut first) = (*account.parameters(), arguments.first);
        if let Some(day) = arguments.since {
            let machine = MeetMachine::new(parameters, known, config.tolerance_seconds, config.retries);
            let mut machine = machine.since(day);
            Driver::new().run(&mut machine, relays, rng, |_| Ok(()))?;
            (known, first) = (*machine.known(), machine.first().unwrap_or(first));
        }
        return Ok(SyncState::new(parameters, first, known).with_second(second));
    }
    let file = Zeroizing::new(files::read(path)?);
    let mut state = SyncState::from_file(&file).map_err(|error| CliError::input(path)(&error))?;
    state.claim(account).map_err(|error| CliError::input(path)(&error))?;
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
    keys: &'a Keys,
    config: SyncConfig,
    relays: Relays,
    driver: Driver,
    rng: ChaCha20Rng,
    printer: Printer,
    state: SyncState,
    /// A copy of it for the next round.
    start: Option<SyncState>,
    /// Rounds that the state on the disk has behind it.
    saved_rounds: u64,
    unsaved: Unsaved,
    /// Whether the last round ended at its bounds.
    is_unfinished: bool,
    credential: Option<Credential>,
}

/// Messages that the disk did not take. The rounds go on from the state in memory, lest a relay see that they repeat themselves; the next run
/// begins at the state that was saved last.
#[derive(Default)]
struct Unsaved {
    messages: Vec<Received>,
    /// The state on the disk is an older one.
    is_behind: bool,
    /// More messages than memory is given for: nothing is saved any more, and the next run gets them again.
    is_too_much: bool,
}

impl Unsaved {
    const BYTES_MAX: usize = 64 << 20;
}

/// The relays, with what a request lacks that is for a part of a key's file.
struct Line<'a> {
    relays: &'a mut Relays,
    keys: &'a Keys,
    bar: &'a ProgressBar,
}

impl Host for Line<'_> {
    type Error = CliError;

    fn ask(&mut self, mut request: Request) -> Result<Reply, CliError> {
        if let Some(part) = request.key_part.take() {
            self.bar.set_position(part.start);
            request.body = self.keys.read_part(&part)?;
        }
        self.relays.ask(request)
    }

    fn clock(&mut self) -> Duration {
        self.relays.clock()
    }

    fn sleep(&mut self, time: Duration) {
        self.relays.sleep(time);
    }

    fn now(&mut self) -> u64 {
        self.relays.now()
    }
}

impl Client<'_> {
    /// Rounds at fixed times, or one.
    fn rounds(&mut self, every: Option<Duration>) -> Result<(), CliError> {
        let mut schedule = match every {
            Some(every) => Schedule::every(self.relays.clock(), every),
            None => Schedule::once(),
        };
        loop {
            let (next, result) = self.round(&mut schedule);
            match (result, next) {
                (Ok(()), _) => {}
                // A relay that cannot be reached now, or refuses, may serve the next round, and a disk may have room again. Nothing
                // else changes on the schedule. What a relay has shown that an honest one cannot, and wrong settings, are for a person.
                (Err(error), Some(_)) if error.may_pass() => note!("restante: {error}"),
                (Err(error), _) => return Err(error),
            }
            let Some(next) = next else {
                if let (Delivery::Range { first, end }, true) = (self.config.delivery, self.is_unfinished) {
                    note!("restante: there is more than a run takes: go on with --read {first}..{end}");
                }
                return Ok(());
            };
            // Before the wait, as copying it takes longer for a longer backlog.
            self.start = Some(self.state.clone());
            let next = schedule.put_off(next, self.relays.clock());
            wait_until(&mut self.relays, next);
        }
    }

    /// One round, and when the next one begins: fixed before anything that it has brought is looked at.
    fn round(&mut self, schedule: &mut Schedule) -> (Option<Duration>, Result<(), CliError>) {
        let keys = self.keys;
        let kind = keys.kind();
        if let Some(kind) = kind
            && !self.state.registration(kind).is_some_and(Registration::is_complete)
            && let Err(error) = self.register(kind)
        {
            self.start = None;
            return (schedule.next(self.relays.clock(), false), Err(error));
        }
        let state = self.start.take().unwrap_or_else(|| self.state.clone());
        let machine = SyncMachine::new(self.account, keys.detection(), self.config, state);
        let mut machine = match machine {
            Ok(machine) => machine,
            Err(error) => return (None, Err(error.into())),
        };
        // Between two requests of a round there is nothing to keep.
        let ended = self.driver.run(&mut machine, &mut self.relays, &mut self.rng, |_| Ok(()));
        let (waiting, unfinished) = (machine.outcome().waiting, machine.outcome().unfinished);
        self.is_unfinished = unfinished;
        let is_over = ended.is_ok() && !waiting && machine.outcome().failed.is_none();
        let retired = if is_over { self.retire() } else { None };
        if let (true, Delivery::Range { end, .. }) = (unfinished, self.config.delivery) {
            self.config.delivery = Delivery::Range { first: machine.outcome().read_to, end };
        }
        let arrival = self.driver.arrival().unwrap_or_else(|| self.relays.clock());
        let next = schedule.next(arrival, ended.is_ok() && unfinished);

        // From here on until then nobody sees what happens.
        let mut finished = machine.finish(&mut self.rng);
        if let Some(retired) = retired {
            finished.state.set_retired(&retired);
        }
        if let (Err(Stopped::Relay(RelayError::Unauthorized)), Some(kind)) = (&ended, kind) {
            // The next round registers again, and takes this one back in case that the relay knows it after all.
            finished.state.retire(kind);
        }
        let wrong = finished.error.take();
        let ended = ended.and(wrong.map_or(Ok(()), |error| Err(Stopped::Relay(error))));
        let saved = self.save(&finished);
        self.state = finished.state.clone();
        self.printer.show();
        self.report(&finished, ended.is_ok(), next);
        (next, ended.map_err(CliError::from).and(saved))
    }

    /// Keeps messages and state. What cannot be kept now is tried again behind the next round.
    fn save(&mut self, finished: &Finished) -> Result<(), CliError> {
        self.unsaved.is_behind = true;
        if self.unsaved.is_too_much {
            let reason = "the disk took nothing, and there were too many messages to remember: the next run gets them again";
            return Err(CliError::Environment(reason.into()));
        }
        self.unsaved.messages.append(&mut finished.received.clone());
        let mut mail = self.printer.mail();
        // All that the state on the disk lacks, under the number of the round behind that one.
        let saved = finished.save(
            |_, _| mail.append(self.saved_rounds.saturating_add(1), &self.unsaved.messages),
            |state| keep(self.path, state),
        );
        if let Err(error) = saved {
            drop(mail);
            let bytes: usize = self.unsaved.messages.iter().map(|message| message.text.len()).sum();
            if bytes > Unsaved::BYTES_MAX {
                (self.unsaved.is_too_much, self.unsaved.messages) = (true, Vec::new());
            }
            return Err(error);
        }
        mail.count();
        drop(mail);
        (self.saved_rounds, self.unsaved) = (finished.state.rounds(), Unsaved::default());
        Ok(())
    }

    /// Takes keys back that others have taken the place of, now that there was a round with those. Gives what is left of them.
    fn retire(&mut self) -> Option<Vec<Registration>> {
        if self.state.retired().is_empty() {
            return None;
        }
        self.relays.reconnect();
        let (retired, pace) = (self.state.retired().to_vec(), self.config.pace);
        let mut machine = RetireMachine::new(retired, pace, self.config.retries);
        // What was taken back and is not saved is asked for once more: the relay then does not know it.
        let result = self.driver.run(&mut machine, &mut self.relays, &mut self.rng, |_| Ok(()));
        if let Err(stopped) = result {
            // The next round tries again.
            let error = CliError::from(stopped);
            note!("restante: an old detection key could not be taken back: {error}");
        }
        self.relays.reconnect();
        Some(machine.registrations().to_vec())
    }

    fn register(&mut self, kind: DigestKind) -> Result<(), CliError> {
        if self.unsaved.is_behind {
            // Saving the registration would save a state that counts messages as done that are nowhere.
            return Err(CliError::Environment("no key is registered while the state cannot be saved".into()));
        }
        let Some(key) = self.keys.upload()? else { return Ok(()) };
        let (known, kept) = (*self.state.relay(Side::First), self.state.registration(kind).cloned());
        if kept.is_none() {
            self.relays.reconnect();
        }
        let first = self.state.complete_to();
        let bar = self.session.progress("uploading", key.bytes());
        let mut machine = RegisterMachine::new(key, known, kept, first, self.config.retries);
        if let Some(credential) = &self.credential {
            machine = machine.with_credential(self.account, credential.clone());
        }
        let mut line = Line { relays: &mut self.relays, keys: self.keys, bar: &bar };
        let (state, path) = (&mut self.state, self.path);
        self.driver.run(&mut machine, &mut line, &mut self.rng, |machine| {
            state.set_registration(kind, machine.registration().cloned());
            state.set_relay(Side::First, *machine.known());
            keep(path, state)
        })?;
        bar.finish_and_clear();
        self.start = None;
        Ok(())
    }

    /// Says what a round has brought. It runs behind the round's last request, and waits for nobody.
    fn report(&mut self, finished: &Finished, is_done: bool, next: Option<Duration>) {
        self.warn(finished);
        if self.session.json {
            self.printer.line(self.json(finished, is_done).to_string());
        } else {
            let until = next.map(|next| next.saturating_sub(self.relays.clock()));
            note!("restante: {}", summary(finished, is_done, until));
        }
    }

    /// A round's report for a person, besides its messages.
    fn warn(&self, finished: &Finished) {
        let outcome = &finished.outcome;
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
        let lost: Vec<Range<u64>> = self.state.lost().collect();
        if !lost.is_empty() {
            note!(
                "restante: messages of {} could not be read so far: where no second look follows, --read is the only way to them, and shows",
                ranges(&lost).join(", ")
            );
        }
        if outcome.repeated > 0 && !matches!(self.config.delivery, Delivery::Range { .. })
            || outcome.misdated > 0
        {
            note!(
                "restante: {} messages were left out that were read before, and {} of days that were closed: the relay does not keep to the rule for clues, or makes up what it delivers",
                outcome.repeated,
                outcome.misdated
            );
        }
        if let Some(reason) = &outcome.failed {
            note!("restante: the relay could not make a digest: {reason}");
        }
    }

    /// A round, for programs.
    fn json(&self, finished: &Finished, is_done: bool) -> Value {
        let outcome = &finished.outcome;
        let lost: Vec<Range<u64>> = self.state.lost().collect();
        let report = Report::new()
            .with("round", if is_done { "done" } else { "failed" })
            .with("messages", finished.received.len())
            .with("complete_to", self.state.complete_to())
            .with("behind", outcome.behind)
            .with("unfinished", outcome.unfinished)
            .with("backlog", outcome.backlog)
            .with("awaiting_epoch", outcome.awaiting_epoch)
            .with("epoch_end", outcome.epoch_end)
            .with("epoch_seconds", outcome.epoch_seconds)
            .with("overdue", outcome.overdue.clone())
            .with("too_long", outcome.too_long.clone())
            .with("unreadable", ranges(&outcome.unreadable))
            .with("overflowed", ranges(&outcome.overflowed))
            .with("lost", ranges(&lost))
            .with("waiting", outcome.waiting)
            .with("wrong_records", outcome.wrong_records)
            .with("unopened", outcome.unopened)
            .with("repeated", outcome.repeated)
            .with("misdated", outcome.misdated);
        report.into_json()
    }
}

fn ranges(ranges: &[Range<u64>]) -> Vec<String> {
    ranges.iter().map(|range| format!("{}..{}", range.start, range.end)).collect()
}

/// A round in one line: what is new, how much is to come, and why it is not there yet.
fn summary(finished: &Finished, is_done: bool, until: Option<Duration>) -> String {
    let outcome = &finished.outcome;
    let new = match finished.received.len() {
        0 => "no new message".into(),
        1 => "1 new message".into(),
        number => format!("{} new messages", count(number as u64)),
    };
    let mut parts = vec![if is_done { new } else { format!("the round failed; {new}") }];
    if outcome.behind > 0 {
        let behind = count(outcome.behind);
        parts.push(if outcome.unfinished {
            format!("{behind} on the board to be read: more than a round takes")
        } else {
            format!("{behind} on the board to be read: the relay has made no digest of them yet")
        });
    }
    if outcome.epoch_gone {
        parts.push("nothing was fetched, as the epoch went before it was asked".into());
    }
    let awaiting = outcome.awaiting_epoch.min(outcome.backlog);
    if awaiting > 0 {
        let often = outcome
            .epoch_seconds
            .map(|time| format!(", which the relay ends every {} at least", units::seconds(time as f64)));
        let awaiting = count(awaiting as u64);
        parts.push(format!("{awaiting} wait for an epoch of private fetch{}", often.unwrap_or_default()));
    }
    let fetchable = outcome.backlog.saturating_sub(awaiting);
    if fetchable > 0 {
        parts.push(format!("{} wait for the fetches of later rounds", count(fetchable as u64)));
    }
    if outcome.waiting {
        parts.push("the relay is still making a compact digest".into());
    }
    if let Some(until) = until {
        parts.push(format!("next round in {}", units::seconds(until.as_secs_f64().round())));
    }
    parts.join("; ")
}

fn keep(path: &Path, state: &SyncState) -> Result<(), CliError> {
    files::write(path, &state.to_file(), Existing::Replace)
}
