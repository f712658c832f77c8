//! `restante search`.

mod plan;
mod selectors;
mod table;

use crate::{arguments::SearchCommand, error::CliError, session::Session};

/// Runs a command.
pub fn run(session: &Session, command: SearchCommand) -> Result<(), CliError> {
    match command {
        SearchCommand::Plan(arguments) => plan::run(session, &arguments),
    }
}
