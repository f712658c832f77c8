//! The messages that a board has forgotten: all segments before a number, of which the seals alone are left.
//!
//! The number is written first and durably; only then do files go. The next writer removes the files that a
//! crash left.

use std::fs;
use std::io::ErrorKind;

use restante_wire::{Envelope, Kind, Reader};

use crate::config::VERSION;
use crate::files::{Files, Part, replace_durably, sync_directory};
use crate::segment::read_small;
use crate::{BoardConfig, BoardError};

/// The number of segments whose messages are forgotten.
pub(crate) fn read(files: &Files, config: &BoardConfig) -> Result<u64, BoardError> {
    let path = files.retention();
    let bytes = match read_small(&path, 8 + Envelope::OVERHEAD_BYTES) {
        Err(BoardError::Io { reason, .. }) if reason.kind() == ErrorKind::NotFound => return Ok(0),
        bytes => bytes?,
    };
    Envelope::open_as(&bytes, Kind::BoardRetention, VERSION, config.parameters)
        .and_then(|envelope| {
            let mut reader = Reader::new("board retention", envelope.body);
            let number = reader.u64()?;
            reader.finish().map(|()| number)
        })
        .map_err(|reason| BoardError::Format { path, reason })
}

/// Makes it durable that the segments before `number` are forgotten.
pub(crate) fn write(files: &Files, config: &BoardConfig, number: u64) -> Result<(), BoardError> {
    let body = number.to_le_bytes();
    let (kind, parameters) = (Kind::BoardRetention, config.parameters);
    let file = Envelope { kind, version: VERSION, parameters, body: &body }.seal();
    replace_durably(&files.retention(), &files.retention_draft(), &file)
}

/// Removes what is left of the segments before `number`, except for their seals, and for the index of those from `open_from` on: it
/// has the clues of open periods, which the board must not take again.
pub(crate) fn remove_forgotten(files: &Files, number: u64, open_from: u64) -> Result<(), BoardError> {
    let mut removed = false;
    for (segment, part, path) in files.list_segments()? {
        let kept = part == Part::Seal || (part == Part::Index && segment >= open_from);
        if segment < number && !kept {
            fs::remove_file(&path).map_err(BoardError::io("remove", &path))?;
            removed = true;
        }
    }
    if removed { sync_directory(&files.segments()) } else { Ok(()) }
}
