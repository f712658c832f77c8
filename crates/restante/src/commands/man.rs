//! `restante man`: a manual page for every command.

use std::{fs, path::Path};

use clap::Command;
use clap_mangen::Man;

use crate::{
    arguments,
    error::CliError,
    files::Work,
    report::{Report, write_bytes},
    session::Session,
};

pub fn run(session: &Session, directory: Option<&Work>) -> Result<(), CliError> {
    let mut table = arguments::table().disable_help_subcommand(true);
    // Gives every command its whole name, and the options of all.
    table.build();
    let Some(directory) = directory else {
        return write_bytes(&page(&table)?.1);
    };
    fs::create_dir_all(directory).map_err(CliError::system("make", directory))?;
    let mut pages = Vec::new();
    collect(&table, &mut pages)?;
    for (name, page) in &pages {
        session.outputs.write(&directory.output(name), page)?;
    }
    Report::new().with("pages", pages.len()).print(session.json)
}

/// The pages of a command and of all below it.
fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), CliError> {
    pages.push(page(command)?);
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| collect(command, pages))
}

/// The name and the contents of a command's page.
fn page(command: &Command) -> Result<(String, Vec<u8>), CliError> {
    let man = Man::new(command.clone());
    let name = man.get_filename();
    let mut page = Vec::new();
    man.render(&mut page).map_err(CliError::system("make", Path::new(&name)))?;
    Ok((name, page))
}
