//! The command line of Restante: a thin shell over the library crates.
//!
//! `arguments` says what can be asked, `commands` has a module for each subcommand, `session` holds what they share: threads,
//! back end, and where output goes.

#![forbid(unsafe_code)]

mod arguments;
mod cache;
mod commands;
mod corpus;
mod error;
mod files;
mod http;
mod mail;
mod printer;
mod report;
mod session;

use std::process::ExitCode;

use clap::Parser;

use crate::{arguments::Arguments, error::CliError, session::Session};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome =
        Session::new(&arguments.global).and_then(|session| commands::run(&session, arguments.command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, CliError::OutputClosed) {
                printer::complain(&error.to_string());
            }
            error.exit_code()
        }
    }
}
