//! The key that signs heads.

use ed25519_dalek::SigningKey;
use zeroize::Zeroizing;

use crate::ServerError;
use crate::files::{DataDirectory, read_limited, write_whole};
use crate::randomness::random;

/// Reads the relay's key, or makes one.
pub(crate) fn load(data: &DataDirectory) -> Result<SigningKey, ServerError> {
    let path = data.identity();
    if !path.exists() {
        let mut seed = Zeroizing::new([0; 32]);
        random(&mut *seed)?;
        write_whole(&path, &*seed)?;
    }
    let bytes = Zeroizing::new(read_limited(&path, 32)?);
    let seed: &[u8; 32] = bytes.as_slice().try_into().map_err(|_| ServerError::Format {
        path,
        found: format!("{} bytes long", bytes.len()),
        expected: "32 bytes".into(),
    })?;
    Ok(SigningKey::from_bytes(seed))
}
