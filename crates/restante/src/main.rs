//! The program `restante`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    restante::run()
}
