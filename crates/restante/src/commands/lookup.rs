//! `restante lookup`.

use std::time::Instant;

use restante_client::relay::{Lookup, LookupMachine, Retries, Step};

use crate::{
    arguments::LookupArguments,
    error::CliError,
    http::Relays,
    report::{Report, note},
    session::Session,
};

pub fn run(session: &Session, arguments: &LookupArguments) -> Result<(), CliError> {
    let mut relays = Relays::new(&[&arguments.relay], &arguments.connection.reach)?;
    let retries = Retries { attempts: arguments.connection.attempts, ..Retries::default() };
    let mut machine = LookupMachine::new(&arguments.name, session.backend, retries)?;
    let mut rng = session.rng()?;
    let (start, mut sent) = (Instant::now(), 0);
    loop {
        match machine.step() {
            Step::Ask(request) => {
                sent += request.body.len();
                machine.respond(relays.ask(&request), &mut rng)?;
            }
            Step::Wait(time) => relays.wait(time),
            Step::Done => break,
        }
    }
    let address = match machine.outcome() {
        Some(Lookup::Found(address)) => address,
        Some(Lookup::Unreadable { reason }) => {
            return Err(CliError::Job(format!("the relay's answer cannot be read: {reason}")));
        }
        Some(Lookup::NotFound) | None => {
            return Err(CliError::Job(format!("the directory has no {:?}", arguments.name)));
        }
    };
    let mut report = Report::new().with("name", arguments.name.as_str());
    if let Some(path) = &arguments.out {
        session.outputs.write(path, &address.to_file())?;
        report = report.with("address", path.display().to_string());
    }
    report
        .with("fingerprint", address.fingerprint())
        .with("sent_bytes", sent)
        .with("seconds", start.elapsed().as_secs_f64())
        .print(session)?;
    if !session.json {
        note!(
            "restante: compare the fingerprint with the one that the owner says: a relay can list a false address"
        );
    }
    Ok(())
}
