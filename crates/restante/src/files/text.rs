//! Text that others wrote: UTF-8, with or without a byte order mark at its start, lines ended in either way.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use super::read;
use crate::error::CliError;

/// U+FEFF, which some editors put in front of a text. It is no part of it.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The text of a file, without the byte order mark that it may start with.
pub fn read_text(path: &Path) -> Result<String, CliError> {
    let mut bytes = read(path)?;
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    let other_mark = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        CliError::input(path)(&not_utf8(line, other_mark))
    })
}

fn not_utf8(line: usize, other_mark: bool) -> String {
    if other_mark {
        "it starts with the byte order mark of UTF-16, expected UTF-8 text".into()
    } else {
        format!("line {line} is not UTF-8 text")
    }
}

/// The lines of a text, one after the other: only one of them is in memory.
pub struct Lines {
    reader: BufReader<Box<dyn Read>>,
    number: usize,
    line_bytes_max: usize,
}

impl Lines {
    /// Of a file or a pipe.
    pub fn open(path: &Path, line_bytes_max: usize) -> Result<Self, CliError> {
        let file = File::open(path).map_err(CliError::system("open", path))?;
        Ok(Self::new(Box::new(file), line_bytes_max))
    }

    /// Of anything.
    pub fn new(reader: Box<dyn Read>, line_bytes_max: usize) -> Self {
        Self { reader: BufReader::with_capacity(1 << 16, reader), number: 0, line_bytes_max }
    }

    fn line(&mut self) -> Result<Option<String>, LineError> {
        let mut line = Vec::new();
        // A mark, the text, and the two characters that may end it.
        let room = (MARK.len() + self.line_bytes_max + 2) as u64;
        let read = self.reader.by_ref().take(room).read_until(b'\n', &mut line).map_err(LineError::Read)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let other_mark =
            self.number == 1 && (line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]));
        if self.number == 1 && line.starts_with(MARK) {
            line.drain(..MARK.len());
            if line.is_empty() {
                return Ok(None);
            }
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        let (number, limit) = (self.number, self.line_bytes_max);
        if line.len() > limit {
            let reason = format!("line {number} has more than {limit} bytes, expected at most {limit}");
            return Err(LineError::Refused(reason));
        }
        String::from_utf8(line).map(Some).map_err(|_| LineError::Refused(not_utf8(number, other_mark)))
    }
}

/// Why there is no next line.
#[derive(Debug)]
pub enum LineError {
    /// The operating system could not read it.
    Read(std::io::Error),
    /// It is not what was expected.
    Refused(String),
}

impl LineError {
    /// As an error of the file.
    pub fn of(self, path: &Path) -> CliError {
        match self {
            Self::Read(error) => CliError::system("read", path)(error),
            Self::Refused(reason) => CliError::input(path)(&reason),
        }
    }
}

/// The number of each line, from 1, and its text.
impl Iterator for Lines {
    type Item = Result<(usize, String), LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line().map(|line| line.map(|line| (self.number, line))).transpose()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn lines(bytes: &[u8], limit: usize) -> Result<Vec<String>, LineError> {
        let bytes = bytes.to_vec();
        Lines::new(Box::new(std::io::Cursor::new(bytes)), limit).map(|line| Ok(line?.1)).collect()
    }

    #[test]
    fn one_byte_order_mark_is_no_part_of_the_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bytes, text) in
            [("", ""), ("\u{feff}", ""), ("\u{feff}a\r\n", "a\r\n"), ("\u{feff}\u{feff}a", "\u{feff}a")]
        {
            std::fs::write(file.path(), bytes).unwrap();
            assert_eq!(read_text(file.path()).unwrap(), text);
            let expected: Vec<&str> = text.lines().collect();
            assert_eq!(lines(bytes.as_bytes(), 10).unwrap(), expected);
        }
        // Only at the start.
        assert_eq!(lines("a\n\u{feff}b".as_bytes(), 10).unwrap(), ["a", "\u{feff}b"]);
        for bytes in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a"] {
            std::fs::write(file.path(), bytes).unwrap();
            assert!(read_text(file.path()).unwrap_err().to_string().contains("UTF-16"));
            assert!(matches!(lines(bytes, 10), Err(LineError::Refused(reason)) if reason.contains("UTF-16")));
        }
        std::fs::write(file.path(), b"good\nb\xe9d\n").unwrap();
        assert!(read_text(file.path()).unwrap_err().to_string().contains("line 2 is not UTF-8"));
    }

    #[test]
    fn lines_end_in_either_way_and_have_a_limit() {
        assert_eq!(lines(b"a\r\n\nb\r\r\nc", 2).unwrap(), ["a", "", "b\r", "c"]);
        assert_eq!(lines(b"abc\r\nabc\n", 3).unwrap(), ["abc", "abc"]);
        for long in ["abcd", "abcd\n", "abc\r", "a\nabcdefghij\n", "\u{feff}abcd"] {
            assert!(
                matches!(lines(long.as_bytes(), 3), Err(LineError::Refused(reason)) if reason.contains("at most 3"))
            );
        }
        assert!(
            matches!(lines(b"a\nb\xe9", 9), Err(LineError::Refused(reason)) if reason.contains("line 2"))
        );
    }
}
