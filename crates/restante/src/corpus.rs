//! Text to post: one message a line.

use std::path::Path;

use restante_client::MAX_TEXT_BYTES;

use crate::{error::CliError, files};

/// Sentences from letters of Charles Dickens; `corpus/README.md` has the source.
const LETTERS: &str = include_str!("../../../corpus/letters.txt");

/// The characters of Unicode 15.0.0, as CSV; `corpus/README.md` has the source.
pub const CHARACTERS: &str = include_str!("../../../corpus/characters.csv");
/// The schema to search them by name.
pub const CHARACTERS_SCHEMA: &str = include_str!("../../../corpus/characters.toml");

/// The lines of a file, or of the corpus that is shipped. Empty lines are left out.
pub fn load(path: Option<&Path>) -> Result<Vec<String>, CliError> {
    let Some(path) = path else { return Ok(LETTERS.lines().map(String::from).collect()) };
    let bytes = files::read(path)?;
    let refused = CliError::input(path);
    let lines = bytes.split(|&byte| byte == b'\n').enumerate();
    let lines = lines.map(|(index, line)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line)
            .map_err(|_| format!("line {} is not UTF-8 text, expected one message a line", index + 1))?;
        if text.len() > MAX_TEXT_BYTES {
            let length = text.len();
            return Err(format!("line {} has {length} bytes, expected at most {MAX_TEXT_BYTES}", index + 1));
        }
        Ok(text.to_owned())
    });
    let lines: Result<Vec<String>, String> =
        lines.filter(|line| !line.as_ref().is_ok_and(String::is_empty)).collect();
    match lines {
        Err(reason) => Err(refused(&reason)),
        Ok(lines) if lines.is_empty() => Err(refused(&"no text, expected one message a line")),
        Ok(lines) => Ok(lines),
    }
}
