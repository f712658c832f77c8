//! Results as text or as JSON.

use std::{
    io::{self, Write},
    path::Path,
};

use serde_json::{Map, Value};

use crate::{error::CliError, session::Session};

/// An ordered list of named values, printed as lines or as one JSON object.
#[derive(Debug, Default)]
pub struct Report(Map<String, Value>);

impl Report {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a value. Names are JSON field names; in text, underscores become spaces.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// The JSON object.
    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    /// Prints to standard output.
    pub fn print(self, session: &Session) -> Result<(), CliError> {
        if session.json {
            return print_line(&self.into_json().to_string());
        }
        self.0.into_iter().try_for_each(|(name, value)| {
            let name = name.replace('_', " ");
            print_line(&match value {
                Value::String(text) => format!("{name}: {text}"),
                value => format!("{name}: {value}"),
            })
        })
    }
}

/// Prints a line to standard output. Nobody reading it any more is an error, but a quiet one.
pub fn print_line(line: &str) -> Result<(), CliError> {
    writeln!(io::stdout().lock(), "{line}").map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::system("write to", Path::new("standard output"))(error),
    })
}

/// Writes bytes to standard output, as [`print_line`] does.
pub fn write_bytes(bytes: &[u8]) -> Result<(), CliError> {
    io::stdout().lock().write_all(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::system("write to", Path::new("standard output"))(error),
    })
}

/// A number with its thousands set off, for tables.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The largest amount of memory that this process has had resident, where the system says so.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The processor time that this process has used, all threads together, where the system says so: what a busy machine does not
/// lengthen. In steps of a hundredth of a second.
pub fn processor_seconds() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in parentheses, may hold anything.
    let (_, fields) = status.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some((times.next()?? + times.next()??) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_off() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(value), text);
        }
    }
}
