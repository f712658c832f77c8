//! `restante credentials`.

use std::path::PathBuf;

use restante_server::{Config, CredentialTerms, issue_credentials, revoke_credentials};
use serde_json::json;

use crate::{
    arguments::{CredentialsCommand, RelayData},
    environment::variables,
    error::CliError,
    http::now,
    report::{Report, print_line},
    session::Session,
};

pub fn run(session: &Session, command: CredentialsCommand) -> Result<(), CliError> {
    match command {
        CredentialsCommand::New { relay, count, stream, compact, days } => {
            let terms = CredentialTerms { stream, compact, expires: now() + days * 24 * 3600 };
            for (id, credential) in issue_credentials(&data(relay)?, count as usize, &terms)? {
                let credential = credential.reveal();
                print_line(&if session.json {
                    json!({ "id": id, "credential": credential }).to_string()
                } else {
                    format!("{id} {credential}")
                })?;
            }
            Ok(())
        }
        CredentialsCommand::Revoke { relay, ids } => {
            revoke_credentials(&data(relay)?, &ids)?;
            // The relay revokes them; whether it knows them is in its log, and `GET /credentials` shows what became of each.
            Report::new().with("to_be_revoked", ids.len()).print(session.json)
        }
    }
}

fn data(relay: RelayData) -> Result<PathBuf, CliError> {
    let config = Config::load(relay.config.as_deref(), variables("RESTANTE_")?)?;
    Ok(relay.data.map_or(config.data, |data| data.to_path_buf()))
}
