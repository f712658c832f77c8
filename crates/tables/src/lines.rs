//! Lines of a file or a stream, with an end to how long one may be.

use std::io::{self, Read};
use std::time::Instant;

use crate::TableError;

/// The longest row in bytes, as it is written: 4 MiB of contents as hexadecimal digits or escapes, and room for others.
pub const MAX_ROW_BYTES: usize = 32 << 20;

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A source's next bytes, or why there are none.
#[derive(Debug)]
pub enum Fill {
    /// These bytes; at least one.
    Bytes(Vec<u8>),
    /// The deadline passed first.
    Pause,
    /// The source has ended.
    End,
}

/// Where the bytes of a table come from.
pub trait Source {
    /// The next bytes, waiting for them until the deadline if there is one.
    ///
    /// # Errors
    ///
    /// The operating system's reason.
    fn fill(&mut self, deadline: Option<Instant>) -> io::Result<Fill>;
}

/// An input that has an end. It looks at no deadline.
#[derive(Debug)]
pub struct WholeInput<R>(pub R);

impl<R: Read> Source for WholeInput<R> {
    fn fill(&mut self, _: Option<Instant>) -> io::Result<Fill> {
        let mut bytes = vec![0; 1 << 16];
        loop {
            match self.0.read(&mut bytes) {
                Ok(0) => return Ok(Fill::End),
                Ok(read) => {
                    bytes.truncate(read);
                    return Ok(Fill::Bytes(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The lines of a source.
pub(crate) struct Lines {
    input: String,
    source: Box<dyn Source>,
    bytes: Vec<u8>,
    start: usize,
    /// The beginning of a line whose end has not been seen.
    partial: Vec<u8>,
    /// Whether the line being read is too long: what is left of it is skipped.
    overlong: bool,
    lines: u64,
    /// The size of the line that is being read, then of the one that was returned last, with its line feed.
    written: u64,
    ended: bool,
    /// Whether the line that was returned last is complete.
    complete: bool,
}

/// The result of [`Lines::next`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its line feed.
    Text(Vec<u8>),
    /// A line of more than [`MAX_ROW_BYTES`].
    Overlong,
    Pause,
    End,
}

impl Lines {
    pub(crate) fn new(input: &str, source: Box<dyn Source>) -> Self {
        Self {
            input: input.into(),
            source,
            bytes: Vec::new(),
            start: 0,
            partial: Vec::new(),
            overlong: false,
            lines: 0,
            written: 0,
            ended: false,
            complete: true,
        }
    }

    /// The number of the line that was returned last, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.lines
    }

    /// The bytes of the line that was returned last, as it is written: with its line feed and a byte order mark.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// The next line, without the line feed. Text behind the last line feed is a line, too, once
    /// the source has ended.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Result<Line, TableError> {
        if std::mem::take(&mut self.complete) {
            self.written = 0;
        }
        loop {
            let left = &self.bytes[self.start..];
            let end = left.iter().position(|&byte| byte == b'\n');
            let part = &left[..end.unwrap_or(left.len())];
            self.written += part.len() as u64 + u64::from(end.is_some());
            self.overlong |= self.partial.len() + part.len() > MAX_ROW_BYTES;
            if self.overlong {
                self.partial = Vec::new();
            } else {
                self.partial.extend_from_slice(part);
            }
            if let Some(end) = end {
                self.start += end + 1;
                return Ok(self.take());
            }
            self.bytes.clear();
            self.start = 0;
            if self.ended {
                return Ok(if self.partial.is_empty() && !self.overlong {
                    self.complete = true;
                    Line::End
                } else {
                    self.take()
                });
            }
            match self.source.fill(deadline).map_err(TableError::io("read", &self.input))? {
                Fill::Bytes(bytes) => self.bytes = bytes,
                Fill::Pause => return Ok(Line::Pause),
                Fill::End => self.ended = true,
            }
        }
    }

    fn take(&mut self) -> Line {
        self.lines += 1;
        self.complete = true;
        if std::mem::take(&mut self.overlong) {
            return Line::Overlong;
        }
        let mut text = std::mem::take(&mut self.partial);
        if self.lines == 1 && text.starts_with(UTF8_MARK) {
            text.drain(..UTF8_MARK.len());
        }
        Line::Text(text)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::collections::VecDeque;

    use super::*;

    /// A stream whose pieces and pauses are known.
    pub(crate) struct Script(pub(crate) VecDeque<Option<Vec<u8>>>);

    impl Script {
        pub(crate) fn new(pieces: &[Option<&str>]) -> Box<Self> {
            Box::new(Self(pieces.iter().map(|piece| piece.map(|text| text.as_bytes().to_vec())).collect()))
        }
    }

    impl Source for Script {
        fn fill(&mut self, _: Option<Instant>) -> io::Result<Fill> {
            Ok(match self.0.pop_front() {
                Some(Some(bytes)) => Fill::Bytes(bytes),
                Some(None) => Fill::Pause,
                None => Fill::End,
            })
        }
    }

    fn text(line: &str) -> Line {
        Line::Text(line.as_bytes().to_vec())
    }

    #[test]
    fn lines_end_at_line_feeds_wherever_the_pieces_end() {
        let pieces = [
            Some("\u{feff}on"),
            Some("e\r"),
            None,
            Some("\n\ntw\ro"),
            Some("\nthree\n"),
            Some("\u{feff}last"),
        ];
        let mut lines = Lines::new("test", Script::new(&pieces));
        let expected = [
            Line::Pause,
            text("one\r"),
            text(""),
            text("tw\ro"),
            text("three"),
            text("\u{feff}last"),
            Line::End,
        ];
        let written = [0, 8, 1, 5, 6, 7, 0];
        for (expected, written) in expected.into_iter().zip(written) {
            let line = lines.next(None).unwrap();
            assert!(line == Line::Pause || lines.written() == written, "{line:?}: {}", lines.written());
            assert_eq!(line, expected);
        }
        assert_eq!(lines.number(), 5);
        assert_eq!(lines.next(None).unwrap(), Line::End);
    }

    #[test]
    fn an_endless_line_is_skipped_and_takes_no_memory() {
        let piece = "x".repeat(1 << 20);
        let mut pieces = vec![Some(piece.as_str()); 100];
        pieces.push(Some("x\nnext"));
        let mut lines = Lines::new("test", Script::new(&pieces));
        assert_eq!(lines.next(None).unwrap(), Line::Overlong);
        assert_eq!(lines.written(), (100 << 20) + 2);
        assert_eq!(lines.next(None).unwrap(), text("next"));
        assert_eq!(lines.number(), 2);
    }
}
