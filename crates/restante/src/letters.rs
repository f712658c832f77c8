//! How a message is given to a person or a program: its bytes as they are, or a form from which they follow.

use std::{
    fmt::Write,
    io::{IsTerminal, stdout},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use restante_client::Period;
use serde_json::{Map, Value};

use crate::{
    error::CliError,
    files::{self, Output},
    report::write_bytes,
    session::Session,
    units,
};

/// A message to print.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub index: u64,
    /// The day that its sender made it for.
    pub day: Option<Period>,
    pub text: &'a [u8],
}

/// Where messages go, and in what form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Letters {
    /// A terminal: one line each, with index, day and text, and everything escaped that is not printed as it is.
    Terminal,
    /// A pipe or a file: index, a tab, the bytes as they are, and a line end.
    Bytes,
    /// One JSON object a line.
    Json,
    /// A file for each message, named after its index, which has its bytes and nothing else; what is printed names them.
    Directory { folder: Output, json: bool },
}

impl Letters {
    /// For standard output, or for a directory.
    pub fn new(session: &Session, folder: Option<&Output>) -> Result<Self, CliError> {
        Ok(match folder {
            Some(folder) => {
                std::fs::create_dir_all(&**folder).map_err(CliError::system("create", folder))?;
                Self::Directory { folder: folder.clone(), json: session.json }
            }
            None if session.json => Self::Json,
            None if stdout().is_terminal() => Self::Terminal,
            None => Self::Bytes,
        })
    }

    /// A message, as it is printed.
    pub fn render(&self, Line { index, day, text: message }: &Line<'_>) -> Vec<u8> {
        let date = day.map(units::date);
        match self {
            Self::Terminal => {
                let date = date.unwrap_or_else(|| "-".into());
                format!("{index}\t{date}\t{}\n", escaped(message)).into_bytes()
            }
            Self::Bytes => [format!("{index}\t").as_bytes(), message, b"\n"].concat(),
            Self::Json => {
                let mut object = Map::from_iter([
                    ("index".to_owned(), Value::from(*index)),
                    ("day".to_owned(), date.into()),
                ]);
                let (name, value) = match std::str::from_utf8(message) {
                    Ok(text) => ("text", text.to_owned()),
                    Err(_) => ("base64", BASE64_STANDARD.encode(message)),
                };
                object.insert(name.into(), value.into());
                format!("{}\n", Value::Object(object)).into_bytes()
            }
            Self::Directory { folder, json } => {
                let (file, bytes) = (folder.join(&index.to_string()).display().to_string(), message.len());
                if *json {
                    format!(
                        "{}\n",
                        serde_json::json!({ "index": index, "day": date, "bytes": bytes, "file": file })
                    )
                } else {
                    format!("{index}\t{file}\n")
                }
                .into_bytes()
            }
        }
    }

    /// Delivers a message that is kept nowhere else: a file for it is made, and never written over.
    ///
    /// # Errors
    ///
    /// [`CliError`]; the message is then not to be counted as delivered.
    pub fn deliver_new(&self, line: &Line<'_>) -> Result<(), CliError> {
        if let Self::Directory { folder, .. } = self {
            files::write_new(&folder.join(&line.index.to_string()), line.text)?;
        }
        write_bytes(&self.render(line))
    }

    /// Delivers a message.
    ///
    /// # Errors
    ///
    /// [`CliError`]; the message is then not to be counted as delivered.
    pub fn deliver(&self, session: &Session, line: &Line<'_>) -> Result<(), CliError> {
        if let Self::Directory { folder, .. } = self {
            session.outputs.write(&folder.join(&line.index.to_string()), line.text)?;
        }
        write_bytes(&self.render(line))
    }
}

/// Text for a terminal: printable characters as they are, everything else escaped, so that the bytes follow from it. A message must
/// not move the cursor, or turn the order of what is read around.
pub fn escaped(message: &[u8]) -> String {
    let mut out = String::with_capacity(message.len());
    for chunk in message.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                _ if is_shown(character) => out.push(character),
                _ => out.extend(character.escape_unicode()),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// The beginning of a message for a terminal, in at most so many characters: [`escaped`], with "..." for what was left out.
pub fn shortened(message: &[u8], characters: usize) -> String {
    // No character takes more than four bytes; what lies behind is not looked at.
    let beginning = message.get(..message.len().min(4 * characters)).unwrap_or(message);
    let text = escaped(beginning);
    if beginning.len() == message.len() && text.chars().count() <= characters {
        return text;
    }
    text.chars().take(characters.saturating_sub(3)).chain("...".chars()).collect()
}

/// Neither a control character nor one that shows nothing and changes what is around it: Unicode's directional marks, separators,
/// joiners but the two that scripts and emoji need, tags, and the byte order mark.
fn is_shown(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    const BYTES: &[u8] = b"\x82\xa3key\xc4";

    #[test]
    fn bytes_are_never_bent() {
        let line = |text| Line { index: 7, day: Some(Period(20_454)), text };
        assert_eq!(Letters::Bytes.render(&line(BYTES)), b"7\t\x82\xa3key\xc4\n");
        assert_eq!(Letters::Terminal.render(&line(b"a")), b"7\t2026-01-01\ta\n");
        assert_eq!(Letters::Terminal.render(&Line { day: None, ..line(b"a") }), b"7\t-\ta\n");
        let json =
            |message| -> Value { serde_json::from_slice(&Letters::Json.render(&line(message))).unwrap() };
        assert_eq!(json(b"a")["day"], "2026-01-01");
        let found = json(BYTES);
        assert_eq!(BASE64_STANDARD.decode(found["base64"].as_str().unwrap()).unwrap(), BYTES);
        assert!(found.get("text").is_none());
        for text in ["", "\0", "zwölf\r\n\"", "\u{feff}a\u{fffd}"] {
            let found = json(text.as_bytes());
            assert_eq!((found["text"].as_str(), found.get("base64")), (Some(text), None));
        }
    }

    #[test]
    fn a_terminal_gets_nothing_that_acts_on_it() {
        assert_eq!(escaped(BYTES), "\\x82\\xa3key\\xc4");
        assert_eq!(escaped("“zwölf” 漢字 👩‍💻 e\u{301}".as_bytes()), "“zwölf” 漢字 👩‍💻 e\u{301}");
        assert_eq!(escaped(b"a\\n\n\r\t\x1b[31m\x7f\0"), "a\\\\n\\n\\r\\t\\u{1b}[31m\\u{7f}\\u{0}");
        for hidden in ['\u{9b}', '\u{202e}', '\u{2066}', '\u{2028}', '\u{200b}', '\u{feff}', '\u{e0041}'] {
            let shown = escaped(format!("a{hidden}b").as_bytes());
            assert_eq!(shown, format!("a{}b", hidden.escape_unicode()));
        }
    }

    #[test]
    fn beginnings_are_short_and_safe() {
        assert_eq!(shortened(b"short", 5), "short");
        assert_eq!(shortened(b"longer than that", 9), "longer...");
        assert_eq!(shortened("漢字漢字漢字".as_bytes(), 5), "漢字...");
        for message in [vec![b'\x1b'; 9], vec![0xff; 1 << 20], "\u{202e}".repeat(99).into_bytes()] {
            let text = shortened(&message, 40);
            assert!(text.chars().count() <= 40 && text.chars().all(is_shown), "{text}");
        }
    }
}
