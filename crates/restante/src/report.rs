//! Everything that is printed: results, as text or as JSON, on standard output, and notes for a person on standard error.
//!
//! A result that nobody reads any more is [`CliError::OutputClosed`]. Notes are nobody's business but a person's: [`note!`] and
//! [`count_down`] never wait for who reads them, and never fail, so that nothing else depends on it.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};

use crate::{error::CliError, units};

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
    pub fn print(self, json: bool) -> Result<(), CliError> {
        if json {
            return print_line(&self.into_json().to_string());
        }
        self.lines().iter().try_for_each(|line| print_line(line))
    }

    /// The values for a person, one a line, below each other.
    fn lines(&self) -> Vec<String> {
        let labels: Vec<String> = self.0.keys().map(|name| format!("{}:", units::label(name))).collect();
        let width = labels.iter().map(String::len).max().unwrap_or(0);
        let values = self.0.iter().map(|(name, value)| units::named(name, value));
        labels.iter().zip(values).map(|(label, value)| format!("{label:<width$} {value}")).collect()
    }
}

impl From<Map<String, Value>> for Report {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields)
    }
}

/// Prints a line to standard output. Nobody reading it any more is an error, but a quiet one.
pub fn print_line(line: &str) -> Result<(), CliError> {
    write_bytes(format!("{line}\n").as_bytes())
}

/// Writes bytes to standard output, as [`print_line`] does. They are out when this returns.
pub fn write_bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::system("write to", Path::new("standard output"))(error),
    })
}

/// Prints a line for a person, on standard error: [`tell`] with a format.
macro_rules! note {
    ($($text:tt)*) => { $crate::report::tell(format!($($text)*)) };
}
pub(crate) use note;

/// Prints a line for a person, on standard error, without waiting until it is out. If nobody reads for long, lines are left out.
pub fn tell(line: String) {
    say(Said::Line(line));
}

/// Shows how long it is until a request is sent again. The caller does the waiting.
pub fn count_down(time: Duration) {
    say(Said::CountDown(Instant::now() + time));
}

/// Waits until everything was said, or for ten seconds.
pub fn finish() {
    let Some(teller) = TELLER.get() else { return };
    let end = Instant::now() + Duration::from_secs(10);
    let (sender, receiver) = channel();
    let mut last = Said::Finish(sender);
    loop {
        match teller.try_send(last) {
            Ok(()) => break,
            Err(TrySendError::Full(said)) if Instant::now() < end => last = said,
            Err(_) => return,
        }
        thread::sleep(Duration::from_millis(10));
    }
    // That it took too long is nothing to be told, either.
    let _ = receiver.recv_timeout(end.saturating_duration_since(Instant::now()));
}

/// Lines that may wait to be printed.
const WAITING: usize = 256;
static TELLER: OnceLock<SyncSender<Said>> = OnceLock::new();
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

enum Said {
    Line(String),
    CountDown(Instant),
    Finish(Sender<()>),
}

fn say(said: Said) {
    let teller = TELLER.get_or_init(|| {
        let (sender, receiver) = sync_channel(WAITING);
        // Without a thread the channel has no end, and nothing is printed.
        drop(thread::Builder::new().name("notes".into()).spawn(move || print_notes(&receiver)));
        sender
    });
    if teller.try_send(said).is_err() {
        LEFT_OUT.fetch_add(1, Ordering::Relaxed);
    }
}

fn print_notes(said: &Receiver<Said>) {
    // Whether it can be written is nobody's business.
    let write = |text: &str| drop(io::stderr().lock().write_all(text.as_bytes()));
    let is_terminal = io::stderr().is_terminal();
    let mut until = None;
    loop {
        let next = match until {
            None => said.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(end) => {
                let left = Instant::saturating_duration_since(&end, Instant::now());
                if !left.is_zero() {
                    write(&format!("\rrestante: trying again in {} s\x1b[K", left.as_secs_f64().ceil()));
                }
                said.recv_timeout(left.min(Duration::from_secs(1)))
            }
        };
        if until.is_some_and(|end| next.is_ok() || end <= Instant::now()) {
            write("\r\x1b[K");
            until = None;
        }
        match next {
            Ok(Said::Line(line)) => {
                let left_out = LEFT_OUT.swap(0, Ordering::Relaxed);
                if left_out > 0 {
                    write(&format!("restante: {left_out} lines were left out here, as nobody read them\n"));
                }
                write(&format!("{line}\n"));
            }
            Ok(Said::CountDown(end)) if is_terminal => until = Some(end),
            Ok(Said::CountDown(end)) => {
                let left = Instant::saturating_duration_since(&end, Instant::now());
                write(&format!("restante: trying again in {} s\n", left.as_secs_f64().ceil()));
            }
            Ok(Said::Finish(done)) => drop(done.send(())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_below_each_other() {
        let report = Report::new().with("digest_bytes", 4200).with("seconds", 130.2).with("index", 12345);
        let lines = ["digest size: 4.2 kB", "time:        2 min 10 s", "index:       12345"];
        assert_eq!(report.lines(), lines);
    }
}
