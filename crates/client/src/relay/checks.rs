//! Whether a relay is one for this client.

use restante_clue::ClueParameters;
use restante_wire::{
    ParameterId,
    relay::{DigestInfo, DigestKind, EpochStatus, FetchInfo, PROTOCOL, RelayInfo},
};

use super::{RelayError, Side};

/// Checks protocol and clues.
pub(super) fn check_board(side: Side, info: &RelayInfo, clue: &ClueParameters) -> Result<(), RelayError> {
    if info.protocol != PROTOCOL {
        return Err(RelayError::unexpected(side, "protocol", info.protocol, PROTOCOL));
    }
    let (found, expected) = (ParameterId(info.board.parameters.0), clue.id());
    if found != expected {
        return Err(RelayError::Parameters { what: "clues", side, found, expected });
    }
    let (found, expected) = (info.board.clue_bytes, clue.clue_bytes());
    if found as usize == expected {
        Ok(())
    } else {
        Err(RelayError::unexpected(side, "length of clues", found, expected))
    }
}

/// The relay's settings for digests of a kind, which must have these parameters and detection keys of this
/// length.
pub(super) fn check_digests(
    side: Side,
    info: &RelayInfo,
    kind: DigestKind,
    expected: ParameterId,
    key_bytes: u64,
) -> Result<&DigestInfo, RelayError> {
    let mut found = None;
    for digest in info.digests.iter().filter(|digest| digest.kind == kind) {
        if digest.parameters.0 == expected.0 {
            return if digest.key_bytes == key_bytes {
                Ok(digest)
            } else {
                let found = digest.key_bytes;
                Err(RelayError::unexpected(side, "length of detection keys", found, key_bytes))
            };
        }
        found = Some(ParameterId(digest.parameters.0));
    }
    match found {
        Some(found) => Err(RelayError::Parameters { what: "digests", side, found, expected }),
        None => {
            let (found, expected) = (format!("without {kind} digests"), "with them");
            Err(RelayError::unexpected(side, "list of digests", found, expected))
        }
    }
}

/// The settings of private fetch, on which both relays agree, and which server the first one is.
pub(super) fn check_fetch(infos: [&RelayInfo; 2]) -> Result<(FetchInfo, u8), RelayError> {
    let [first, second] = infos.map(|info| info.fetch.as_ref());
    let none = |side| RelayError::unexpected(side, "private fetch", "not offered", "offered");
    let first = first.ok_or_else(|| none(Side::First))?;
    let second = second.ok_or_else(|| none(Side::Second))?;
    for (side, fetch) in [(Side::First, first), (Side::Second, second)] {
        if fetch.part != "message" {
            return Err(RelayError::unexpected(
                side,
                "part of a record",
                format!("{:?}", fetch.part),
                "\"message\"",
            ));
        }
    }
    if first.record_bytes != second.record_bytes {
        let (found, expected) = (second.record_bytes, first.record_bytes);
        return Err(RelayError::unexpected(Side::Second, "record size", found, expected));
    }
    if first.messages == 0 {
        return Err(RelayError::unexpected(Side::First, "messages of an epoch", 0, "at least 1"));
    }
    let server = match (first.server, second.server) {
        (Some(first @ 0..=1), second) if second != Some(first) => first,
        (None, Some(second @ 0..=1)) => 1 - second,
        (None, None) => 0,
        (_, found) => {
            let found = format!("{found:?}");
            return Err(RelayError::unexpected(Side::Second, "server", found, "the other one, 0 or 1"));
        }
    };
    Ok((first.clone(), server))
}

/// The most epochs that a relay may list; each is compared with each of the other's.
const EPOCHS_MAX: usize = 256;

/// A list of epochs that is no longer than it may be.
pub(super) fn check_epochs(side: Side, epochs: Vec<EpochStatus>) -> Result<Vec<EpochStatus>, RelayError> {
    if epochs.len() <= EPOCHS_MAX {
        Ok(epochs)
    } else {
        let expected = format!("at most {EPOCHS_MAX}");
        Err(RelayError::unexpected(side, "number of epochs", epochs.len(), expected))
    }
}
