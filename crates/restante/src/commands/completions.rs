//! `restante completions`: what a shell needs to complete the command line.

use clap_complete::Shell;

use crate::{arguments, error::CliError, report::write_bytes};

pub fn run(shell: Shell) -> Result<(), CliError> {
    // Written to memory first: the generator panics where its output ends.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut arguments::table(), "restante", &mut script);
    write_bytes(&script)
}
