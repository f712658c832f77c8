//! `restante outbox`, and the file that it shows.

use std::{collections::HashSet, path::Path};

use restante_client::relay::{Destination, Outbox, Outboxes, Receipt, WaitingMessage};
use restante_wire::relay::Hex;
use serde_json::{Value, json};

use crate::{
    arguments::OutboxCommand,
    error::CliError,
    files::{self, Kept, Locked},
    http::now,
    report::{Report, print_line},
    session::Session,
};

/// The record of sent messages has the outbox' name and this.
const SENT: &str = "sent";

pub fn run(session: &Session, command: OutboxCommand) -> Result<(), CliError> {
    match command {
        OutboxCommand::List { outbox } => {
            must_exist(&outbox)?;
            let boxes = Store::new(Some(&outbox)).load()?;
            for (destination, outbox) in boxes.iter() {
                for message in outbox.waiting_messages() {
                    print_line(&line(session, destination, &message))?;
                }
            }
            Ok(())
        }
        OutboxCommand::Remove { outbox, tickets } => {
            must_exist(&outbox)?;
            let mut store = Store::new(Some(&outbox));
            // Whoever posts would put them back.
            let _posting = store.posting()?;
            let mut missing = None;
            store.change(|boxes| {
                missing = tickets.iter().find(|ticket| !boxes.remove(ticket)).copied();
                // All of them, or none.
                missing.map_or(Ok(()), |ticket| {
                    let reason = format!("no message with the ticket {ticket} waits; nothing is removed");
                    Err(CliError::input(&outbox)(&reason))
                })
            })?;
            Report::new().with("removed", tickets.len()).print(session.json)
        }
    }
}

fn must_exist(outbox: &Kept) -> Result<(), CliError> {
    std::fs::metadata(&**outbox).map(drop).map_err(CliError::system("open", outbox))
}

fn line(session: &Session, destination: &Destination, message: &WaitingMessage<'_>) -> String {
    let WaitingMessage { ticket, to, text_bytes, may_be_posted } = message;
    let (relay, to) = (&destination.relay, to.fingerprint());
    if session.json {
        let (ticket, clue) = (ticket.to_string(), destination.parameters.name());
        return json!({
            "ticket": ticket, "relay": relay, "clue": clue, "to": to, "bytes": text_bytes, "may_be_posted": may_be_posted,
        })
        .to_string();
    }
    let posted = if *may_be_posted { ", perhaps posted" } else { "" };
    format!("{ticket} {relay} to {to}, {text_bytes} bytes{posted}")
}

/// The outboxes, in a file that several processes may use at once, or in memory.
pub struct Store<'a> {
    path: Option<&'a Kept>,
    memory: Outboxes,
}

impl<'a> Store<'a> {
    pub fn new(path: Option<&'a Kept>) -> Self {
        Self { path, memory: Outboxes::new() }
    }

    /// Changes the outboxes as they are now; no other process does meanwhile.
    pub fn change(
        &mut self,
        change: impl FnOnce(&mut Outboxes) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let Some(path) = self.path else { return change(&mut self.memory) };
        let file = Locked::wait(path)?;
        let mut boxes = read(&file, path)?;
        change(&mut boxes)?;
        file.write(&boxes.to_file())
    }

    /// The outboxes as they are now.
    pub fn load(&self) -> Result<Outboxes, CliError> {
        match self.path {
            Some(path) => read(&Locked::wait(path)?, path),
            None => Ok(self.memory.clone()),
        }
    }

    /// Lets this process alone post, and waits for another one that does.
    pub fn posting(&self) -> Result<Option<Locked>, CliError> {
        let Some(path) = self.path else { return Ok(None) };
        let reason = format!("another process posts from {}: waiting for it", path.display());
        Locked::wait_saying(&files::with_extension(path, "posting"), Some(&reason)).map(Some)
    }

    /// Puts receipts into the record that a process has left in the outbox which ended before it could.
    pub fn settle(&mut self) -> Result<(), CliError> {
        let boxes = self.load()?;
        for (destination, outbox) in boxes.iter().filter(|(_, outbox)| outbox.receipts().next().is_some()) {
            self.finish(destination, outbox, &outbox.tickets())?;
        }
        Ok(())
    }

    /// Stores what became of the messages with these tickets. Others that were added meanwhile stay.
    pub fn put(
        &mut self,
        destination: &Destination,
        outbox: &Outbox,
        tickets: &[Hex<16>],
    ) -> Result<(), CliError> {
        self.change(|boxes| put(boxes, destination, outbox.clone(), tickets))
    }

    /// Records the receipts, and removes them from the outbox.
    pub fn finish(
        &mut self,
        destination: &Destination,
        outbox: &Outbox,
        tickets: &[Hex<16>],
    ) -> Result<(), CliError> {
        let mut left = outbox.clone();
        let receipts = left.take_receipts();
        if let Some(path) = self.path {
            let file = Locked::wait(path)?;
            // The record first: a crash in between leaves a message in both.
            let recorded: HashSet<String> = recorded(&file)?
                .iter()
                .filter_map(|line| line["ticket"].as_str().map(str::to_owned))
                .collect();
            for receipt in receipts.iter().filter(|one| !recorded.contains(&one.ticket.to_string())) {
                let mut line = receipt_json(receipt);
                line["relay"] = destination.relay.as_str().into();
                line["posted"] = now().into();
                file.append_beside(SENT, &line.to_string())?;
            }
        }
        self.change(|boxes| {
            put(boxes, destination, left, tickets)?;
            boxes.remove_empty();
            Ok(())
        })
    }

    /// The record of messages sent from this outbox.
    pub fn sent(&self) -> Result<Vec<Value>, CliError> {
        self.path.map_or(Ok(Vec::new()), |path| recorded(&Locked::wait(path)?))
    }
}

fn recorded(outbox: &Locked) -> Result<Vec<Value>, CliError> {
    let text = outbox.read_beside(SENT)?;
    // A line that a crash has torn says nothing.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn put(
    boxes: &mut Outboxes,
    destination: &Destination,
    mut outbox: Outbox,
    tickets: &[Hex<16>],
) -> Result<(), CliError> {
    let stored = boxes.outbox(destination)?;
    outbox.take_added(stored, tickets);
    *stored = outbox;
    Ok(())
}

fn read(file: &Locked, path: &Path) -> Result<Outboxes, CliError> {
    match file.read()? {
        Some(bytes) => Outboxes::from_file(&bytes).map_err(|error| CliError::input(path)(&error)),
        None => Ok(Outboxes::new()),
    }
}

pub fn receipt_json(receipt: &Receipt) -> Value {
    json!({
        "ticket": receipt.ticket.to_string(),
        "id": receipt.id.to_string(),
        "index": receipt.index,
        "leaf": receipt.leaf.to_string(),
        "relay_key": receipt.head.relay.to_string(),
        "messages_on_board": receipt.head.count,
        "root": receipt.head.root.to_string(),
        "signed": receipt.head.time,
    })
}
