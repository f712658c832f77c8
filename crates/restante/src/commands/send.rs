//! `restante send`.

use std::{
    io::{Read, stdin},
    path::Path,
};

use restante_client::{
    Address, Contact, MAX_TEXT_BYTES,
    relay::{Destination, Driver, KnownRelay, PostMachine, Receipt, Retries},
};
use restante_wire::{Envelope, Kind, relay::Hex};
use serde_json::{Value, json};

use super::outbox::{Store, receipt_json};
use crate::{
    arguments::SendArguments,
    error::CliError,
    files,
    http::{self, Relays},
    report::{Report, note},
    session::Session,
};

/// How old a head may be, in seconds.
const TOLERANCE_SECONDS: u64 = 3600;

pub fn run(session: &Session, arguments: &SendArguments) -> Result<(), CliError> {
    let recipients =
        arguments.to.iter().map(|to| recipient(arguments, to)).collect::<Result<Vec<_>, CliError>>()?;
    // Whether they can be reached is known before anything is kept.
    for (destination, _) in &recipients {
        Relays::new(&[&destination.relay], &arguments.reach)?;
    }
    let text = text(arguments)?;
    let mut rng = session.rng()?;
    let mut store = Store::new(arguments.outbox.as_ref());
    let mut own: Vec<(Destination, Hex<16>)> = Vec::new();
    store.change(|boxes| {
        for (destination, address) in &recipients {
            let outbox = boxes.outbox(destination)?;
            own.push((destination.clone(), outbox.push(address, &text, &mut rng)?));
        }
        Ok(())
    })?;

    // One process at a time posts; what others have put into the outbox by then is posted with it.
    let _posting = store.posting()?;
    store.settle()?;
    let boxes = store.load()?;
    let waiting: Vec<Destination> = boxes
        .iter()
        .filter(|(_, outbox)| outbox.waiting() > 0)
        .map(|(destination, _)| destination.clone())
        .collect();
    // That of this call first: what waits from before must not keep it from being sent.
    let (mut mine, rest): (Vec<_>, Vec<_>) =
        waiting.into_iter().partition(|one| recipients.iter().any(|(destination, _)| destination == one));
    let is_reached = |one: &Destination| {
        recipients.iter().any(|(own, _)| {
            own.relay == one.relay && (own.key == one.key || own.key.is_none() || one.key.is_none())
        })
    };
    let (same_relay, elsewhere): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_reached);
    let own_count = mine.len();
    mine.extend(same_relay);
    let Posting { posted, failure, others } =
        post_all(session, arguments, &mut store, &mine, own_count, &own)?;
    let boxes = store.load()?;
    let waiting: Vec<Value> = boxes
        .iter()
        .filter(|(one, outbox)| outbox.waiting() > 0 && (elsewhere.contains(one) || others.contains(one)))
        .map(|(one, outbox)| {
            let (relay, clue) = (&one.relay, one.parameters.name());
            note!("restante: {} messages wait for {relay} ({clue} clues)", outbox.waiting());
            json!({ "relay": relay, "clue": clue, "messages": outbox.waiting() })
        })
        .collect();
    if let Some(error) = failure {
        return Err(unsent(error, arguments.outbox.as_deref()));
    }
    report(session, arguments, &store, &own, &posted, waiting)
}

/// The result of posting.
#[derive(Default)]
struct Posting {
    posted: Vec<Receipt>,
    /// Why a message of this call was not posted.
    failure: Option<CliError>,
    /// Where only messages from before were not.
    others: Vec<Destination>,
}

/// Posts what waits for some destinations, of which the first `own_count` are those of this call's messages.
fn post_all(
    session: &Session,
    arguments: &SendArguments,
    store: &mut Store,
    destinations: &[Destination],
    own_count: usize,
    own: &[(Destination, Hex<16>)],
) -> Result<Posting, CliError> {
    let mut all = Posting::default();
    for (place, destination) in destinations.iter().enumerate() {
        let (receipts, outcome) =
            post(session, arguments, store, destination).unwrap_or_else(|error| (Vec::new(), Err(error)));
        all.posted.extend(receipts);
        let Err(error) = outcome else { continue };
        // One that waits from before may be the one that fails.
        let record = store.sent()?;
        let mine = own.iter().filter(|(to, _)| to == destination);
        let is_lacking =
            mine.map(|(_, ticket)| ticket).any(|ticket| receipt_of(ticket, &all.posted, &record).is_none());
        if place < own_count && is_lacking {
            all.failure = all.failure.or(Some(error));
        } else {
            note!("restante: {}: what waits from before is still there: {error}", destination.relay);
            all.others.push(destination.clone());
        }
    }
    Ok(all)
}

/// Posts what waits for one destination. Gives the receipts, and what came in the way of others.
fn post(
    session: &Session,
    arguments: &SendArguments,
    store: &mut Store,
    destination: &Destination,
) -> Result<(Vec<Receipt>, Result<(), CliError>), CliError> {
    let mut relays = Relays::new(&[&destination.relay], &arguments.reach)?;
    let mut rng = session.rng()?;
    let retries = Retries { attempts: arguments.attempts, ..Retries::default() };
    // A key that is said now holds for what waits from before, too.
    let key = destination.key.or(arguments.relay_key);
    let known = key.map_or(KnownRelay::default(), KnownRelay::pinned);
    let outbox = store.load()?.outbox(destination)?.clone();
    let tickets = outbox.tickets();
    let mut machine = PostMachine::new(outbox, known, TOLERANCE_SECONDS, retries);
    // What is to be sent is kept before the first request, and what came of it after every answer.
    let outcome = Driver::new().run(&mut machine, &mut relays, &mut rng, |machine| {
        store.put(destination, machine.outbox(), &tickets)
    });
    let receipts = machine.outbox().clone().take_receipts();
    store.finish(destination, machine.outbox(), &tickets)?;
    Ok((receipts, outcome.map_err(CliError::from)))
}

/// Where a message goes, and to whom.
fn recipient(arguments: &SendArguments, to: &Path) -> Result<(Destination, Address), CliError> {
    let file = files::read(to)?;
    let refused = |error: restante_client::LetterError| CliError::input(to)(&error);
    let contact = match Envelope::open(&file).map(|envelope| envelope.kind) {
        Ok(Kind::Contact) => Some(Contact::from_file(&file).map_err(refused)?),
        _ => None,
    };
    let address = match &contact {
        Some(contact) => contact.address().clone(),
        None => Address::from_file(&file).map_err(refused)?,
    };
    let url = arguments.relay.as_deref().or(contact.as_ref().map(Contact::relay));
    let url = url.ok_or_else(|| CliError::Usage("expected --relay, or a contact for --to".into()))?;
    let key = arguments.relay_key.or(contact.as_ref().and_then(Contact::relay_key));
    let (relay, _) = http::base(url, arguments.reach.proxy.as_deref())?;
    Ok((Destination { relay, key, parameters: *address.parameters() }, address))
}

fn text(arguments: &SendArguments) -> Result<Vec<u8>, CliError> {
    if let Some(text) = &arguments.text {
        return Ok(text.as_bytes().to_vec());
    }
    let mut text = Vec::new();
    let source = Path::new("standard input");
    let read = stdin().lock().take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut text);
    read.map_err(CliError::system("read", source))?;
    Ok(text)
}

/// The same failure, with what became of the message.
fn unsent(error: CliError, outbox: Option<&Path>) -> CliError {
    let fate = match outbox {
        Some(path) => format!("the message waits in {}", path.display()),
        None => "the message is not kept; with --outbox it would be".into(),
    };
    match error {
        CliError::Environment(reason) => CliError::Environment(format!("{reason}; {fate}")),
        CliError::Relay(reason) => CliError::Relay(format!("{reason}; {fate}")),
        CliError::Refused(reason) => CliError::Refused(format!("{reason}; {fate}")),
        CliError::Job(reason) => CliError::Job(format!("{reason}; {fate}")),
        other => other,
    }
}

fn report(
    session: &Session,
    arguments: &SendArguments,
    store: &Store<'_>,
    own: &[(Destination, Hex<16>)],
    posted: &[Receipt],
    waiting: Vec<Value>,
) -> Result<(), CliError> {
    // What another process has posted meanwhile is in the record.
    let record = store.sent()?;
    let mut messages = Vec::new();
    for (to, (destination, ticket)) in arguments.to.iter().zip(own) {
        let Some(receipt) = receipt_of(ticket, posted, &record) else {
            return Err(CliError::Job("the relay gave no receipt".into()));
        };
        messages.push((to, destination, receipt));
    }
    let Some((_, destination, last)) = messages.last() else {
        return Err(CliError::Job("the relay gave no receipt".into()));
    };
    let field = |name: &str| last.get(name).cloned().unwrap_or(Value::Null);
    let mut report = Report::new()
        .with("index", field("index"))
        .with("id", field("id"))
        .with("posted", posted.len())
        .with("relay", field("relay_key"))
        .with("relay_key_known_before", destination.key.is_some())
        .with("messages_on_board", field("messages_on_board"));
    if messages.len() > 1 {
        let all = messages.iter().map(|(to, destination, receipt)| {
            json!({ "to": to.display().to_string(), "relay": destination.relay, "index": receipt["index"], "id": receipt["id"] })
        });
        report = report.with("messages", all.collect::<Vec<Value>>());
    }
    if session.json || !waiting.is_empty() {
        report = report.with("waiting", waiting);
    }
    report.print(session.json)
}

/// The receipt for a message: of this call, or the newest in the record.
fn receipt_of(ticket: &Hex<16>, posted: &[Receipt], record: &[Value]) -> Option<Value> {
    let receipt = posted.iter().find(|receipt| receipt.ticket == *ticket);
    let recorded = |line: &&Value| line["ticket"] == ticket.to_string();
    receipt.map(receipt_json).or_else(|| record.iter().rev().find(recorded).cloned())
}
