//! `restante registrations`.

use std::{net::SocketAddr, path::Path};

use restante_load::{Connection, Response};
use restante_server::{Config, RegistrationStatus};
use restante_wire::{
    binding::Period,
    relay::{Hex, Problem},
};
use serde::Deserialize;
use serde_json::json;

use crate::{
    arguments::{OperatorsOptions, RegistrationsCommand},
    error::CliError,
    report::{Report, print_line},
    session::Session,
    units::date,
};

#[derive(Deserialize)]
struct Listed {
    registrations: Vec<RegistrationStatus>,
}

pub fn run(session: &Session, command: RegistrationsCommand) -> Result<(), CliError> {
    match command {
        RegistrationsCommand::List { relay } => {
            let listed: Listed = ask(&relay, "GET", "/registrations", |answer| answer.json())?;
            listed.registrations.iter().try_for_each(|one| {
                let RegistrationStatus {
                    id,
                    kind,
                    ready,
                    bytes,
                    registered_day,
                    used_day,
                    standing,
                    jobs,
                    ..
                } = one;
                print_line(&if session.json {
                    json!(one).to_string()
                } else {
                    format!(
                        "{id} {kind} {} {bytes} bytes, registered {}, used {}, {jobs} jobs{}",
                        if *ready { "ready" } else { "uploading" },
                        date(Period::of(*registered_day)),
                        date(Period::of(*used_day)),
                        if *standing { ", standing order" } else { "" }
                    )
                })
            })
        }
        RegistrationsCommand::Remove { relay, ids } => {
            let removed = ids.iter().try_fold(0, |removed, id: &Hex<16>| {
                ask(&relay, "DELETE", &format!("/registrations/{id}"), |_| Ok(removed + 1))
            })?;
            Report::new().with("removed", removed).print(session.json)
        }
    }
}

/// Asks the operators' address of a relay.
fn ask<T>(
    relay: &OperatorsOptions,
    method: &str,
    path: &str,
    read: impl FnOnce(&Response) -> std::io::Result<T>,
) -> Result<T, CliError> {
    let address: SocketAddr = match relay.operations {
        Some(address) => address,
        None => Config::load(relay.config.as_deref(), environment()?)?.operations,
    };
    let place = format!("the operators' address of a relay, {address}");
    let failed = |error| CliError::system("ask", Path::new(&place))(error);
    let answer = Connection::open(address)
        .and_then(|mut relay| relay.send(method, path, &[], None))
        .map_err(failed)?;
    match answer.status {
        200..300 => read(&answer).map_err(failed),
        status => {
            let reason = answer
                .json::<Problem>()
                .map_or_else(|_| format!("status {status}"), |problem| problem.detail);
            Err(failed(std::io::Error::other(reason)))
        }
    }
}

/// The environment. What is not Unicode is refused where it would be read.
fn environment() -> Result<Vec<(String, String)>, CliError> {
    let ours = std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"RESTANTE_"));
    ours.map(|(name, value)| match (name.into_string(), value.into_string()) {
        (Ok(name), Ok(value)) => Ok((name, value)),
        (name, _) => {
            let name = name.unwrap_or_else(|name| name.to_string_lossy().into_owned());
            Err(CliError::Usage(format!("the environment's {name} is not Unicode")))
        }
    })
    .collect()
}
