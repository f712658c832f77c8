//! Messages and reports on standard output, by a thread of its own: an output that blocks or is closed stops and delays nothing else.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    error::CliError,
    letters::{Letters, Line},
    mail::Mail,
    report::{note, print_line},
};

/// How many lines wait for an output that takes none. What comes then is left out: reports and warnings, no messages, which wait in
/// their file.
const WAITING_MAX: usize = 256;

enum Order {
    /// Show the messages that wait.
    Mail,
    /// Write a line.
    Line(String),
}

/// Standard output, with a thread.
pub struct Printer {
    mail: Arc<Mutex<Mail>>,
    output: Option<SyncSender<Order>>,
    thread: JoinHandle<Option<CliError>>,
}

impl Printer {
    /// Starts the thread.
    pub fn start(mail: Mail, letters: Letters) -> Result<Self, CliError> {
        let mail = Arc::new(Mutex::new(mail));
        let (output, orders) = sync_channel(WAITING_MAX);
        let shared = Arc::clone(&mail);
        let thread =
            thread::Builder::new().name("output".into()).spawn(move || show(&shared, &orders, &letters));
        let thread =
            thread.map_err(|error| CliError::Environment(format!("cannot start a thread: {error}")))?;
        Ok(Self { mail, output: Some(output), thread })
    }

    /// The messages that wait.
    pub fn mail(&self) -> MutexGuard<'_, Mail> {
        lock(&self.mail)
    }

    /// Has the messages shown that wait, some time.
    pub fn show(&self) {
        if let Some(output) = &self.output {
            // A full queue has this order in it, or an output that takes nothing at its head.
            let _ = output.try_send(Order::Mail);
        }
    }

    /// Has a line printed behind the messages.
    pub fn line(&self, line: String) {
        if let Some(output) = &self.output {
            let _ = output.try_send(Order::Line(line));
        }
    }

    /// Waits until everything is shown, or no longer than `patience` if there is one.
    ///
    /// # Errors
    ///
    /// [`CliError::Unshown`] if messages are left, [`CliError::OutputClosed`] and others if only lines are.
    pub fn finish(mut self, patience: Option<Duration>) -> Result<(), CliError> {
        // The thread ends when nobody can tell it anything any more.
        self.output = None;
        // Whoever reads messages through a pager may take his time.
        let outcome = join(self.thread, patience).flatten();
        let mail = lock(&self.mail);
        let count = mail.waiting()?;
        if count > 0 {
            return Err(CliError::Unshown { count, reason: outcome.map(|error| error.to_string()) });
        }
        crate::mail::tidy(&mail);
        outcome.map_or(Ok(()), Err)
    }
}

/// A thread's result, if it ends in time.
fn join<T>(thread: JoinHandle<T>, patience: Option<Duration>) -> Option<T> {
    if let Some(patience) = patience {
        let start = Instant::now();
        while !thread.is_finished() {
            if start.elapsed() >= patience {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    thread.join().ok()
}

fn lock(mail: &Mutex<Mail>) -> MutexGuard<'_, Mail> {
    // A thread that panicked between two writes has left what the file's own rules allow.
    mail.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Shows messages and lines until the output is closed or there are no more orders. The file is not held while the output blocks.
fn show(mail: &Mutex<Mail>, orders: &Receiver<Order>, letters: &Letters) -> Option<CliError> {
    let mut failure = None;
    for order in orders {
        if failure.is_some() {
            // Messages wait in their file for the next run.
            continue;
        }
        let result = match order {
            Order::Line(line) => print_line(&line),
            Order::Mail => show_mail(mail, letters),
        };
        failure = result.err();
        if let Some(error) = &failure
            && !matches!(error, CliError::OutputClosed)
        {
            note!("restante: nothing is shown any more, messages wait for the next run: {error}");
        }
    }
    failure
}

fn show_mail(mail: &Mutex<Mail>, letters: &Letters) -> Result<(), CliError> {
    loop {
        let Some(letter) = lock(mail).next()? else { return Ok(()) };
        letters.deliver_new(&Line { index: letter.index, day: letter.day, text: &letter.text })?;
        lock(mail).shown(&letter)?;
    }
}
