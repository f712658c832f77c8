//! Text to post: one message a line.

use std::path::Path;

use restante_client::MAX_TEXT_BYTES;

use crate::{error::CliError, files::Lines};

/// Sentences from letters of Charles Dickens; `corpus/README.md` has the source.
const LETTERS: &str = include_str!("../../../corpus/letters.txt");

/// The characters of Unicode 15.0.0, as CSV; `corpus/README.md` has the source.
pub const CHARACTERS: &str = include_str!("../../../corpus/characters.csv");
/// The schema to search them by name.
pub const CHARACTERS_SCHEMA: &str = include_str!("../../../corpus/characters.toml");

/// The lines of a file, or of the corpus that is shipped. Empty lines are left out.
pub fn load(path: Option<&Path>) -> Result<Vec<String>, CliError> {
    let Some(path) = path else { return Ok(LETTERS.lines().map(String::from).collect()) };
    let texts = messages(path)?.collect::<Result<Vec<String>, CliError>>()?;
    if texts.is_empty() { Err(nothing(path)) } else { Ok(texts) }
}

/// The lines of a file or a pipe (- for standard input) that are not empty, one after the other.
pub fn messages(path: &Path) -> Result<impl Iterator<Item = Result<String, CliError>> + '_, CliError> {
    let lines = if path == Path::new("-") {
        Lines::new(Box::new(std::io::stdin()), MAX_TEXT_BYTES)
    } else {
        Lines::open(path, MAX_TEXT_BYTES)?
    };
    let lines = lines.map(|line| line.map(|(_, text)| text).map_err(|error| error.of(path)));
    Ok(lines.filter(|line| !line.as_ref().is_ok_and(String::is_empty)))
}

/// The error of a text without any message.
pub fn nothing(path: &Path) -> CliError {
    CliError::input(path)(&"no text, expected one message a line")
}
