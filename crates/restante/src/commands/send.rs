//! `restante send`.

use std::{
    io::{Read, stdin},
    path::Path,
};

use restante_client::{
    Address, Contact, MAX_TEXT_BYTES,
    relay::{Driver, KnownRelay, Outbox, PostMachine, Retries},
};
use restante_wire::{Envelope, Kind};

use crate::{
    arguments::SendArguments,
    error::CliError,
    files::{self, Existing},
    http::Relays,
    report::Report,
    session::Session,
};

/// How old a head may be, in seconds.
const TOLERANCE_SECONDS: u64 = 3600;

pub fn run(session: &Session, arguments: &SendArguments) -> Result<(), CliError> {
    let file = files::read(&arguments.to)?;
    let refused = |error: restante_client::ClientError| CliError::input(&arguments.to)(&error);
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
    let mut relays = Relays::new(&[url], arguments.connection.authority.as_deref())?;

    let mut outbox = match &arguments.outbox {
        Some(path) if path.exists() => {
            Outbox::from_file(&files::read(path)?).map_err(|error| CliError::input(path)(&error))?
        }
        _ => Outbox::new(*address.parameters()),
    };
    let mut rng = session.rng()?;
    outbox.push(address.prepare().write_message(&text(arguments)?, &mut rng)?, &mut rng)?;

    let retries = Retries { attempts: arguments.connection.attempts, ..Retries::default() };
    let known = key.map_or(KnownRelay::default(), KnownRelay::pinned);
    let mut machine = PostMachine::new(outbox, known, TOLERANCE_SECONDS, retries);
    // The outbox is kept before the first request and after every answer.
    Driver::new().run(&mut machine, &mut relays, &mut rng, |machine| {
        keep(arguments.outbox.as_deref(), machine.outbox())
    })?;
    let mut outbox = machine.outbox().clone();
    let receipts = outbox.take_receipts();
    keep(arguments.outbox.as_deref(), &outbox)?;
    let Some(last) = receipts.last() else {
        return Err(CliError::Job("the relay gave no receipt".into()));
    };
    Report::new()
        .with("index", last.index)
        .with("id", last.id.to_string())
        .with("posted", receipts.len())
        .with("relay", last.head.relay.to_string())
        .with("relay_key_known_before", key.is_some())
        .with("messages_on_board", last.head.count)
        .print(session)
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

fn keep(path: Option<&Path>, outbox: &Outbox) -> Result<(), CliError> {
    match path {
        Some(path) => files::write(path, &outbox.to_file(), Existing::Replace),
        None => Ok(()),
    }
}
