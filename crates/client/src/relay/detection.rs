//! The keys that an account needs to have its mail detected.

use restante_clue::ClueParameters;
use restante_omr::{
    compact::{self, CompactContext, CompactDetectionKey},
    stream::{self, DetectionKey, KeyId, StreamContext, StreamParameters},
};
use restante_ring::Backend;
use restante_wire::{
    ParameterId,
    relay::{self, DigestKind, Hex},
};

use super::RelayError;
use crate::Account;

/// An account's detection key as it is uploaded, and what opens the digests made with it. Made once and kept: it takes a few
/// milliseconds.
///
/// ```
/// use restante_client::{Account, Backend, ClueParameters, Detection};
/// # use rand_core::SeedableRng;
/// # let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
///
/// let account = Account::random(ClueParameters::STANDARD, &mut rng);
/// let detection = Detection::new(&account, Backend::best())?;
/// // What a relay gets, by `relay::RegisterMachine`.
/// assert_eq!(detection.upload().bytes(), detection.key_file().len() as u64);
/// # Ok::<(), restante_client::RelayError>(())
/// ```
#[derive(Debug)]
pub struct Detection {
    context: StreamContext,
    decoder: stream::Decoder,
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
        Self::rotated(account, 0, backend)
    }

    /// With the detection key of a number, [`Account::detection_seed_of`].
    ///
    /// # Errors
    ///
    /// [`RelayError::Omr`].
    pub fn rotated(account: &Account, rotation: u64, backend: Backend) -> Result<Self, RelayError> {
        let context = StreamContext::new(StreamParameters::new(*account.parameters())?, backend)?;
        let secret = account.recipient_secret_of(&context, rotation)?;
        let key: DetectionKey = secret.detection_key()?;
        let (decoder, key_file) = (stream::Decoder::new(&secret)?, key.to_file());
        let key_id = KeyId::of_file(&key_file);
        Ok(Self { context, decoder, key_file, key_id })
    }

    /// The digest's parameters.
    pub fn context(&self) -> &StreamContext {
        &self.context
    }

    /// The decoder, which opens digests.
    pub fn decoder(&self) -> &stream::Decoder {
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

    /// The file as [`RegisterMachine`](crate::relay::RegisterMachine) takes it.
    pub fn upload(&self) -> KeyFile<'_> {
        KeyFile {
            kind: DigestKind::Stream,
            parameters: self.context.id(),
            clue: self.context.parameters().clue,
            bytes: self.key_file.len() as u64,
            hash: Hex(*blake3::hash(&self.key_file).as_bytes()),
            contents: Some(&self.key_file),
        }
    }
}

/// The decoder of an account's compact digests. The detection key itself is 162 MB and is not kept: it is in
/// a file, or is made again by [`Account::compact_secret`].
///
/// ```no_run
/// use restante_client::{Account, Backend, ClueParameters, CompactContext, CompactDetection,
/// CompactParameters};
/// # use rand_core::SeedableRng;
/// # let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
///
/// let account = Account::random(ClueParameters::STANDARD, &mut rng);
/// let context = CompactContext::new(CompactParameters::new(ClueParameters::STANDARD)?, Backend::best())?;
/// let key = account.compact_secret(&context)?.detection_key()?.to_file();
/// std::fs::write("compact.key", &key)?;
/// // The relay gets the file, part by part; the digests are opened without it.
/// let detection = CompactDetection::new(&account, &context)?;
/// let upload = detection.upload(*blake3::hash(&key).as_bytes());
/// assert_eq!(upload.bytes(), key.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CompactDetection {
    context: CompactContext,
    decoder: compact::Decoder,
    key_id: KeyId,
}

impl CompactDetection {
    /// For compact digests.
    ///
    /// # Errors
    ///
    /// [`RelayError::Omr`].
    pub fn new(account: &Account, context: &CompactContext) -> Result<Self, RelayError> {
        Self::rotated(account, 0, context)
    }

    /// With the detection key of a number, [`Account::detection_seed_of`].
    ///
    /// # Errors
    ///
    /// [`RelayError::Omr`].
    pub fn rotated(account: &Account, rotation: u64, context: &CompactContext) -> Result<Self, RelayError> {
        let secret = account.compact_secret_of(context, rotation)?;
        let decoder = compact::Decoder::new(&secret)?;
        Ok(Self { context: context.clone(), decoder, key_id: secret.key_id() })
    }

    /// The digest's parameters.
    pub fn context(&self) -> &CompactContext {
        &self.context
    }

    /// The decoder, which opens digests.
    pub fn decoder(&self) -> &compact::Decoder {
        &self.decoder
    }

    /// The id that digests name, [`CompactDetectionKey::id`]. A registration's id is another, that of the file.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The file as [`RegisterMachine`](crate::relay::RegisterMachine) takes it: of its bytes, which the caller keeps, the machine has
    /// only their BLAKE3 hash, and asks for parts of them by [`Request::key_part`](crate::relay::Request::key_part).
    pub fn upload(&self, hash: [u8; 32]) -> KeyFile<'static> {
        KeyFile {
            kind: DigestKind::Compact,
            parameters: self.context.id(),
            clue: self.context.parameters().clue,
            bytes: CompactDetectionKey::file_bytes(&self.context) as u64,
            hash: Hex(hash),
            contents: None,
        }
    }
}

/// A detection key's file on its way to a relay: what it is, and its bytes unless the caller keeps them.
#[derive(Debug, Clone, Copy)]
pub struct KeyFile<'a> {
    pub(crate) kind: DigestKind,
    pub(crate) parameters: ParameterId,
    pub(crate) clue: ClueParameters,
    pub(crate) bytes: u64,
    pub(crate) hash: Hex<32>,
    pub(crate) contents: Option<&'a [u8]>,
}

impl KeyFile<'_> {
    /// The kind of digests that the key is for.
    pub fn kind(&self) -> DigestKind {
        self.kind
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The id that a registration of it has.
    pub fn id(&self) -> relay::KeyId {
        relay::KeyId::of(&self.hash)
    }
}

/// The decoder for a client's delivery.
#[derive(Debug, Clone, Copy)]
pub enum AnyDetection<'a> {
    /// There are no digests.
    None,
    /// Stream digests.
    Stream(&'a Detection),
    /// Compact digests.
    Compact(&'a CompactDetection),
}
