//! A recipient's secrets.

use rand_core::CryptoRng;
use restante_clue::{Clue, ClueParameters, ClueSecretKey};
use restante_letter::{Address, ClueHash, LetterError, OpeningKey, open_file, split_record};
use restante_omr::{
    OmrError,
    compact::{CompactContext, CompactSecret},
    stream::{RecipientSecret, StreamContext},
};
use restante_ring::sample::Seed;
use restante_wire::{
    Decode, Envelope, Kind, Reader,
    binding::{Binding, BoardId, MessageHashes, split_clue},
    relay::{Credential, Hex, JobId, Token},
};
use zeroize::Zeroizing;

/// Everything that a recipient keeps secret, recovered from one 32-byte seed.
///
/// Clue key, detection key and encryption key come from seeds that are derived for one purpose each, so that giving
/// away one of them says nothing about the others.
///
/// ```
/// use restante_client::{Account, ClueParameters};
/// # use rand_core::SeedableRng;
/// # let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
///
/// let account = Account::random(ClueParameters::STANDARD, &mut rng);
/// // The file is the seed, in the clear: encrypt it. All else comes from it again.
/// let file = account.to_file();
/// assert_eq!(Account::from_file(&file)?.address(), account.address());
/// # Ok::<(), restante_client::LetterError>(())
/// ```
pub struct Account {
    seed: Seed,
    clue_key: ClueSecretKey,
    opening_key: OpeningKey,
    address: Address,
}

impl Account {
    /// The version of the file format.
    pub const VERSION: u16 = 2;

    /// A new account.
    pub fn random(parameters: ClueParameters, rng: &mut impl CryptoRng) -> Self {
        let Ok(seed) = Seed::random(rng);
        Self::from_seed(parameters, seed)
    }

    /// The account that belongs to a seed.
    pub fn from_seed(parameters: ClueParameters, seed: Seed) -> Self {
        let clue_key = ClueSecretKey::new(parameters, &seed.derive("account/clue", &[]));
        let opening_key = OpeningKey::from_seed(seed.derive("account/payload", &[]).as_bytes());
        let address = Address::new(clue_key.clue_key().clone(), &opening_key);
        Self { seed, clue_key, opening_key, address }
    }

    /// Reads a secret key file for any known clue parameters.
    pub fn from_file(bytes: &[u8]) -> Result<Self, LetterError> {
        let (parameters, body) = open_file(bytes, Kind::SecretKey, Self::VERSION)?;
        let mut reader = Reader::new("secret key", body);
        let seed = Seed::from(*Zeroizing::new(reader.array()?));
        reader.finish()?;
        Ok(Self::from_seed(parameters, seed))
    }

    /// The secret key file: an envelope around the seed. It is not encrypted.
    pub fn to_file(&self) -> Zeroizing<Vec<u8>> {
        let envelope = Envelope {
            kind: Kind::SecretKey,
            version: Self::VERSION,
            parameters: self.parameters().id(),
            body: self.seed.as_bytes(),
        };
        Zeroizing::new(envelope.seal())
    }

    /// The clue parameters.
    pub fn parameters(&self) -> &ClueParameters {
        self.clue_key.parameters()
    }

    /// The address, which senders get.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The key that recognises this account's clues.
    pub fn clue_secret_key(&self) -> &ClueSecretKey {
        &self.clue_key
    }

    /// The secret seed that the detection key, and the secret key that opens digests, are made from.
    pub fn detection_seed(&self) -> Seed {
        self.seed.derive("account/detection", &[])
    }

    /// As [`Account::detection_seed`], for other detection keys of the same account: each number gives seeds of its own, 0 those of
    /// `detection_seed`. Keys with different numbers have nothing in common that anybody but the account could see.
    pub fn detection_seed_of(&self, rotation: u64) -> Seed {
        match rotation {
            0 => self.detection_seed(),
            rotation => self.seed.derive("account/rotated-detection", &[rotation]),
        }
    }

    /// The secret that makes this account's detection key and opens the digests made with it.
    ///
    /// Fails if the context is for other clue parameters.
    pub fn recipient_secret(&self, context: &StreamContext) -> Result<RecipientSecret, OmrError> {
        self.recipient_secret_of(context, 0)
    }

    /// As [`Account::recipient_secret`], for the detection key with a number ([`Account::detection_seed_of`]).
    pub fn recipient_secret_of(
        &self,
        context: &StreamContext,
        rotation: u64,
    ) -> Result<RecipientSecret, OmrError> {
        RecipientSecret::generate(context, &self.detection_seed_of(rotation), &self.clue_key)
    }

    /// The secret that makes this account's compact detection key and opens the compact digests made with it.
    ///
    /// Fails if the context is for other clue parameters.
    pub fn compact_secret(&self, context: &CompactContext) -> Result<CompactSecret, OmrError> {
        self.compact_secret_of(context, 0)
    }

    /// As [`Account::compact_secret`], for the detection key with a number ([`Account::detection_seed_of`]).
    pub fn compact_secret_of(
        &self,
        context: &CompactContext,
        rotation: u64,
    ) -> Result<CompactSecret, OmrError> {
        CompactSecret::generate(context, &self.detection_seed_of(rotation), &self.clue_key)
    }

    /// Names the registration of a detection key, by its file's hash, that a credential pays for. Only this account can tell: whoever gave the credential
    /// out cannot, and so cannot find the registration's token.
    pub fn request_id(&self, credential: &Credential, key_hash: Hex<32>) -> Hex<16> {
        let purpose = [credential.hash(), key_hash.0].concat();
        let seed = self.seed.derive("account/registration", &[]);
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::keyed_hash(seed.as_bytes(), &purpose).as_bytes()[..16]);
        Hex(id)
    }

    /// Names this account in a state. Nobody else can tell from that whose the state is.
    pub(crate) fn state_id(&self) -> [u8; 16] {
        let seed = self.seed.derive("account/state", &[]);
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(seed.as_bytes()).as_bytes()[..16]);
        id
    }

    /// Notes a message of this account's, by its binding, for a state: nobody else can tell from that which message it is.
    pub(crate) fn own_message(&self, binding: &Binding) -> [u8; 32] {
        let seed = self.seed.derive("account/own-message", &[]);
        *blake3::keyed_hash(seed.as_bytes(), &binding.0).as_bytes()
    }

    /// Names a compact digest that is ordered in a round under a registration. It follows from what it is for, so that a client that was
    /// killed names the same again though nothing was written down, and shares nothing with the names under another registration.
    pub(crate) fn job_id(&self, token: &Token, round: u64, job: &[u8]) -> JobId {
        let seed = self.seed.derive("account/job", &[round]);
        let mut id = [0; 16];
        let name = [&token.hash()[..], job].concat();
        id.copy_from_slice(&blake3::keyed_hash(seed.as_bytes(), &name).as_bytes()[..16]);
        JobId(id)
    }

    /// Whether a message of a board, an encoded clue and a payload, is for this account, but for the rates that its parameters state. A
    /// clue that was changed, or that goes with another payload or board, is for nobody.
    pub fn is_pertinent(&self, board: &BoardId, clue: &[u8], payload: &[u8]) -> Result<bool, LetterError> {
        self.is_pertinent_with(clue, &MessageHashes::of(split_clue(clue).0, payload).binding(board))
    }

    /// As [`Account::is_pertinent`], for whoever has the message's binding.
    pub fn is_pertinent_with(&self, clue: &[u8], binding: &Binding) -> Result<bool, LetterError> {
        Ok(self.clue_key.is_pertinent(&Clue::from_bytes(self.parameters(), clue)?, binding))
    }

    /// The text in the payload that was posted on a board with an encoded clue.
    ///
    /// [`LetterError::NotForUs`] if the payload is another account's, belongs to another clue or board, or was changed.
    pub fn open(&self, board: &BoardId, clue: &[u8], payload: &[u8]) -> Result<Vec<u8>, LetterError> {
        self.open_with(&ClueHash::of_clue(board, clue), payload)
    }

    pub(crate) fn open_with(&self, clue: &ClueHash, payload: &[u8]) -> Result<Vec<u8>, LetterError> {
        self.opening_key.open(clue, payload)
    }

    /// The text in a record from [`crate::digest_record`], as a compact digest of a board delivers it; errors as in [`Account::open`].
    pub fn open_record(&self, board: &BoardId, record: &[u8]) -> Result<Vec<u8>, LetterError> {
        let (clue, payload) = split_record(board, record)?;
        self.open_with(&clue, payload)
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("parameters", self.parameters()).finish_non_exhaustive()
    }
}
