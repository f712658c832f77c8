//! `restante search`.

mod answer;
mod demo;
mod notes;
mod open;
mod plan;
mod query;
mod selectors;
mod table;

use crate::{arguments::SearchCommand, error::CliError, session::Session};

/// Runs a command.
pub fn run(session: &Session, command: SearchCommand) -> Result<(), CliError> {
    match command {
        SearchCommand::Query(arguments) => query::run(session, &arguments),
        SearchCommand::Answer(arguments) => answer::run(session, &arguments),
        SearchCommand::Open(arguments) => open::run(session, &arguments),
        SearchCommand::Plan(arguments) => plan::run(session, &arguments),
        SearchCommand::Demo(arguments) => demo::run(session, &arguments),
    }
}
