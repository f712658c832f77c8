//! Readers of files that are no part of the interface, for fuzz targets.

use std::path::Path;

use crate::mail::{self, Mail};

/// A file of messages that wait to be shown, beside a state with one round behind it.
///
/// # Panics
///
/// If what was opened once is refused the second time, or messages come twice.
pub fn mail(path: &Path) {
    let Ok(mut mail) = Mail::open(path, 1) else { return };
    let Ok(waiting) = mail.waiting() else { unreachable!("opening reads all messages that may be shown") };
    let mut shown = 0;
    while let Ok(Some(letter)) = mail.next() {
        assert!(mail.shown(&letter).is_ok(), "it can be written");
        shown += 1;
    }
    assert_eq!(shown, waiting);
    drop(mail);
    assert!(Mail::open(path, 1).is_ok_and(|mail| mail.waiting().is_ok_and(|left| left == 0)));
}

/// Makes the hashes in such a file right, as far as its lengths allow, so that a change gets past them.
pub fn mend_mail(bytes: &mut [u8]) {
    mail::mend(bytes);
}

/// A valid one.
///
/// # Errors
///
/// The system's error.
pub fn valid_mail(path: &Path) -> std::io::Result<Vec<u8>> {
    let letters = [(3, "hello"), (9, ""), (11, "twice")];
    let letters = letters.map(|(index, text)| restante_client::relay::Received {
        index,
        day: (index > 3).then_some(restante_client::Period(20_000)),
        text: text.as_bytes().to_vec().into(),
    });
    let written = Mail::open(path, 0).and_then(|mut mail| {
        mail.append(1, &letters[..2])?;
        mail.count();
        mail.append(2, &letters[2..])
    });
    written.map_err(|error| std::io::Error::other(error.to_string()))?;
    std::fs::read(path)
}
