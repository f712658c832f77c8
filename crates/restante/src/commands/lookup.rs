//! `restante lookup`.

use std::time::{Duration, Instant};

use restante_client::relay::{Driver, Host, Lookup, LookupMachine, Reply, Request, Retries};

use crate::{
    arguments::LookupArguments,
    error::CliError,
    http::Relays,
    report::{Report, note},
    session::Session,
};

pub fn run(session: &Session, arguments: &LookupArguments) -> Result<(), CliError> {
    let relays = Relays::new(&[&arguments.relay], &arguments.connection.reach)?;
    let retries = Retries { attempts: arguments.connection.attempts, ..Retries::default() };
    let mut machine = LookupMachine::new(&arguments.name, session.backend, retries)?;
    let mut rng = session.rng()?;
    let start = Instant::now();
    let mut host = Counting { relays, sent: 0 };
    Driver::new().run(&mut machine, &mut host, &mut rng, |_| Ok(()))?;
    let sent = host.sent;
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
        .print(session.json)?;
    if !session.json {
        note!(
            "restante: compare the fingerprint with the one that the owner says: a relay can list a false address"
        );
    }
    Ok(())
}

/// A relay, and the bytes that were sent to it.
struct Counting {
    relays: Relays,
    sent: usize,
}

impl Host for Counting {
    type Error = CliError;

    fn ask(&mut self, request: Request) -> Result<Reply, CliError> {
        self.sent += request.body.len();
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
