//! What an account needs to have its mail detected.

use restante_omr::stream::{Decoder, DetectionKey, KeyId, StreamContext, StreamParameters};
use restante_ring::Backend;

use crate::{Account, RelayError};

/// An account's detection key as it is uploaded, and what opens the digests made with it. Made once and kept: it takes a few
/// milliseconds.
#[derive(Debug)]
pub struct Detection {
    context: StreamContext,
    decoder: Decoder,
    key_file: Vec<u8>,
    key_id: KeyId,
}

impl Detection {
    /// For stream digests.
    ///
    /// # Errors
    ///
    /// [`RelayError::Omr`].
    pub fn new(account: &Account, backend: Backend) -> Result<Self, RelayError> {
        let context = StreamContext::new(StreamParameters::new(*account.parameters())?, backend)?;
        let secret = account.recipient_secret(&context)?;
        let key: DetectionKey = secret.detection_key()?;
        let (decoder, key_file) = (Decoder::new(&secret)?, key.to_file());
        let key_id = KeyId::of_file(&key_file);
        Ok(Self { context, decoder, key_file, key_id })
    }

    /// The digest's parameters.
    pub fn context(&self) -> &StreamContext {
        &self.context
    }

    /// What opens digests.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The detection key's file, which a relay gets.
    pub fn key_file(&self) -> &[u8] {
        &self.key_file
    }

    /// The detection key's id.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }
}
