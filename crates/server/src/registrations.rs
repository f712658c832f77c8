//! Registrations as operators see and remove them.

use restante_wire::relay::{DigestKind, RegistrationId};
use serde::{Deserialize, Serialize};

use crate::{Relay, ServerError};

/// A registration, as operators see it. Nothing here opens the registration or names its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegistrationStatus {
    /// Names it to the operator, and to nobody else.
    pub id: RegistrationId,
    /// The kind of digests.
    pub kind: DigestKind,
    /// Whether the key was uploaded.
    pub ready: bool,
    /// Bytes of the key.
    pub bytes: u64,
    /// The day on which it was registered, in seconds since 1970.
    pub registered_day: u64,
    /// The day on which it was last used, in seconds since 1970.
    pub used_day: u64,
    /// Whether there is a standing order.
    pub standing: bool,
    /// Its jobs.
    pub jobs: usize,
}

const DAY: u64 = 24 * 3600;

impl Relay {
    /// All registrations, those first that were used the longest ago.
    pub fn registrations(&self) -> Vec<RegistrationStatus> {
        let counts = self.jobs.counts();
        let status = |one: crate::keys::Registration| RegistrationStatus {
            id: one.id,
            kind: one.kind,
            ready: one.ready,
            bytes: one.bytes,
            registered_day: one.registered / DAY * DAY,
            used_day: one.used * DAY,
            standing: one.standing.is_some(),
            jobs: counts.get(&one.id).copied().unwrap_or(0),
        };
        let mut all: Vec<_> = self.keys.all().into_iter().map(status).collect();
        all.sort_by_key(|one| (one.used_day, one.registered_day, one.id));
        all
    }

    /// Removes a registration and all that belongs to it; false if there is none with this id.
    ///
    /// # Errors
    ///
    /// [`ServerError`] of the registry and of files.
    pub fn remove_registration(&self, id: &RegistrationId) -> Result<bool, ServerError> {
        let Some(removed) = self.keys.remove(id)? else { return Ok(false) };
        self.forget(removed)?;
        Ok(true)
    }
}
