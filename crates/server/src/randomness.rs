//! Randomness.

use crate::ServerError;

/// Fills an array with random bytes from the operating system.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), ServerError> {
    getrandom::fill(bytes)
        .map_err(|error| ServerError::Environment(format!("cannot draw random bytes: {error}")))
}
