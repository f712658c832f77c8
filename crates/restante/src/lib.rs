//! The command line of Restante: a thin shell over the library crates.
//!
//! `arguments` says what can be asked, `commands` has a module for each subcommand, `session` holds what they share: threads,
//! back end, and where output goes. This is a library for the program and for fuzz targets; it is no interface for others.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
// Everything that is printed goes through `report`: a closed pipe is no panic, and standard error keeps nothing waiting.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod commands;
mod corpus;
mod environment;
mod error;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod letters;
mod mail;
mod printer;
mod proxy;
mod report;
mod session;
mod units;

use std::process::ExitCode;

use crate::{error::CliError, files::Outputs, session::Session};

/// The program: does what its arguments say, and returns how that ended.
pub fn run() -> ExitCode {
    let (command, matches, arguments) = match arguments::parse() {
        Ok(read) => read,
        Err(code) => {
            report::finish();
            return code;
        }
    };
    let json = arguments.global.json;
    let outcome = Outputs::new(&command, &matches, arguments.global.force)
        .and_then(|outputs| Session::new(&arguments.global, outputs))
        .and_then(|session| commands::run(&session, arguments.command));
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, CliError::OutputClosed) {
                report::tell(error.line(json));
            }
            error.exit_code()
        }
    };
    report::finish();
    code
}
