//! One module for each subcommand.

mod bench;
mod board;
mod completions;
#[cfg(feature = "serve")]
mod credentials;
mod demo;
mod detect;
mod digest;
mod fetch;
mod keys;
mod lookup;
mod man;
mod outbox;
mod params;
#[cfg(feature = "serve")]
mod plan;
mod read;
#[cfg(feature = "serve")]
mod registrations;
mod search;
mod send;
#[cfg(feature = "serve")]
mod serve;
mod sync;

use crate::{arguments::Command, error::CliError, session::Session};

/// Runs a command.
pub fn run(session: &Session, command: Command) -> Result<(), CliError> {
    match command {
        Command::Keys(command) => keys::run(session, command),
        Command::Board(command) => board::run(session, command),
        Command::Detect(arguments) => detect::run(session, &arguments),
        Command::Digest(arguments) => digest::run(session, &arguments),
        Command::Read(arguments) => read::run(session, &arguments),
        Command::Send(arguments) => send::run(session, &arguments),
        Command::Outbox(command) => outbox::run(session, command),
        Command::Lookup(arguments) => lookup::run(session, &arguments),
        Command::Sync(arguments) => sync::run(session, &arguments),
        Command::Fetch(command) => fetch::run(session, command),
        Command::Search(command) => search::run(session, command),
        Command::Demo(arguments) => demo::run(session, &arguments),
        Command::Bench(command) => bench::run(session, command),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => serve::run(session, &arguments),
        #[cfg(feature = "serve")]
        Command::Credentials(command) => credentials::run(session, command),
        #[cfg(feature = "serve")]
        Command::Registrations(command) => registrations::run(session, command),
        #[cfg(feature = "serve")]
        Command::Mirror(arguments) => serve::mirror(session, &arguments),
        #[cfg(feature = "serve")]
        Command::Plan(arguments) => plan::run(session, &arguments),
        Command::Params(arguments) => params::run(session, &arguments),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { directory } => man::run(session, directory.as_ref()),
    }
}
