//! The query that a querier sends, and the state that it keeps.

use rand_core::CryptoRng;
use restante_bfv::{FineGaloisKey, KeySwitchingKey, SecretKey, SeededCiphertext};
use restante_ring::sample::Seed;
use restante_wire::{Envelope, Kind, ParameterId, Reader, WireError};
use zeroize::Zeroizing;

use crate::PirError;
use crate::search::packing;
use crate::search::scheme::Scheme;
use crate::search::shape::{
    MAX_NOTE_BYTES, MAX_SECRET_NOTE_BYTES, MAX_SELECTORS, QUERY_HEADER_BYTES, STATE_BYTES, Shape,
};

/// The hash by which an answer says which query it is to.
pub(crate) type QueryDigest = [u8; 16];

/// A query to a responder: indicators of its selectors' buckets, encrypted, and the keys to compute on them.
///
/// It shows how many selectors and buckets there are, and the note; not the buckets. The encryption is secure against chosen
/// plaintexts only: whoever computes answers must not learn what came of them, not even whether they could be opened.
#[derive(Debug, Clone)]
pub struct Query {
    preset: ParameterId,
    shape: Shape,
    selectors: usize,
    note: Vec<u8>,
    public: Seed,
    /// For each group its ciphertexts.
    packed: Vec<SeededCiphertext<u64>>,
    galois: FineGaloisKey<u64>,
    relinearisation: KeySwitchingKey<u64>,
    digest: QueryDigest,
}

/// The querier's state, with which it opens answers. Secret.
#[derive(Clone)]
pub struct QueryState {
    pub(crate) preset: ParameterId,
    pub(crate) secret: Seed,
    pub(crate) query: QueryDigest,
    pub(crate) shape: Shape,
    pub(crate) selectors: usize,
    note: Zeroizing<Vec<u8>>,
}

impl Query {
    /// The version of the format.
    pub const VERSION: u16 = 1;

    /// A query for the records in some buckets, in the order in which they come back.
    ///
    /// `note` goes with the query in the clear, `secret_note` with the state: what the records' side needs again.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for too many selectors, a bucket outside the shape, or too long a note.
    pub fn new(
        scheme: &Scheme,
        shape: Shape,
        buckets: &[u32],
        note: &[u8],
        secret_note: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<(QueryState, Self), PirError> {
        shape.check_selectors(buckets.len())?;
        check_buckets(shape, buckets)?;
        check_note("the size of a query's note", note.len(), MAX_NOTE_BYTES)?;
        check_note("the size of a state's note", secret_note.len(), MAX_SECRET_NOTE_BYTES)?;
        let Ok(secret_seed) = Seed::random(rng);
        // Bound to all that is encrypted: a generator that repeats itself cannot make two queries with the same uniform halves
        // and errors.
        let mut contents = Zeroizing::new(vec![u64::from(shape.hash_bits), shape.sharing() as u64]);
        contents.extend(buckets.iter().map(|&bucket| u64::from(bucket)));
        let public = secret_seed.derive("search/public", &contents);
        let secret = secret_key(scheme, &secret_seed);
        let mut packed = Vec::new();
        for (group, buckets) in buckets.chunks(shape.sharing()).enumerate() {
            let messages = packing::pack(scheme, &shape, buckets).map_err(restante_bfv::BfvError::from)?;
            packed.extend(
                messages
                    .iter()
                    .enumerate()
                    .map(|(index, message)| secret.encrypt(ciphertext_seed(&public, group, index), message)),
            );
        }
        let galois = FineGaloisKey::generate(
            &secret,
            scheme.galois_element(),
            scheme.preset().pieces,
            &galois_seed(&public),
        )?;
        let relinearisation =
            KeySwitchingKey::relinearisation(&secret, Scheme::DIGITS, relinearisation_seed(&public))?;
        let preset = scheme.preset().id();
        let mut query = Self {
            preset,
            shape,
            selectors: buckets.len(),
            note: note.to_vec(),
            public,
            packed,
            galois,
            relinearisation,
            digest: [0; 16],
        };
        query.digest = digest(&query.body(scheme));
        let state = QueryState {
            preset,
            secret: secret_seed,
            query: query.digest,
            shape,
            selectors: buckets.len(),
            note: Zeroizing::new(secret_note.to_vec()),
        };
        Ok((state, query))
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of selectors.
    pub fn selectors(&self) -> usize {
        self.selectors
    }

    /// The note that goes with the query in the clear.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    pub(crate) fn preset(&self) -> ParameterId {
        self.preset
    }

    pub(crate) fn digest(&self) -> QueryDigest {
        self.digest
    }

    /// The ciphertexts of a group.
    pub(crate) fn packed(&self, scheme: &Scheme, group: usize) -> &[SeededCiphertext<u64>] {
        let count = self.shape.packed(scheme.preset());
        &self.packed[group * count..(group + 1) * count]
    }

    pub(crate) fn galois(&self) -> &FineGaloisKey<u64> {
        &self.galois
    }

    pub(crate) fn relinearisation(&self) -> &KeySwitchingKey<u64> {
        &self.relinearisation
    }

    /// The query as a file.
    pub fn to_file(&self, scheme: &Scheme) -> Vec<u8> {
        let (parameters, body) = (scheme.preset().id(), self.body(scheme));
        Envelope { kind: Kind::SearchQuery, version: Self::VERSION, parameters, body: &body }.seal()
    }

    fn body(&self, scheme: &Scheme) -> Vec<u8> {
        let bytes = self.shape.query_bytes(scheme, self.selectors, self.note.len());
        let mut out = Vec::with_capacity(bytes - Envelope::OVERHEAD_BYTES);
        encode_shape(&self.shape, &mut out);
        out.extend_from_slice(&(self.selectors as u32).to_le_bytes());
        out.extend_from_slice(&(self.note.len() as u32).to_le_bytes());
        out.extend_from_slice(self.public.as_bytes());
        out.extend_from_slice(&self.note);
        self.packed.iter().for_each(|ciphertext| ciphertext.encode_body(&mut out));
        self.galois.encode_body(&mut out);
        self.relinearisation.encode_body(&mut out);
        out
    }

    /// Reads what [`Query::to_file`] wrote.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`] if it is malformed, of another length than its first fields imply, or for another preset.
    pub fn from_file(scheme: &Scheme, bytes: &[u8]) -> Result<Self, PirError> {
        let envelope = Envelope::open_as(bytes, Kind::SearchQuery, Self::VERSION, scheme.preset().id())?;
        let mut reader = Reader::new("search query", envelope.body);
        let shape = decode_shape(&mut reader)?;
        let selectors = reader.count("number of selectors of a search query", 1..=MAX_SELECTORS as u32)?;
        let note_bytes = reader.count("size of a search query's note", 0..=MAX_NOTE_BYTES as u32)?;
        let public = Seed::from(reader.array()?);
        let expected = shape.query_bytes(scheme, selectors, note_bytes)
            - (Envelope::OVERHEAD_BYTES + QUERY_HEADER_BYTES);
        check_left(&reader, "search query", expected)?;
        let note = reader.bytes(note_bytes)?.to_vec();
        let context = scheme.context();
        let mut packed = Vec::new();
        for group in 0..shape.groups(selectors) {
            for index in 0..shape.packed(scheme.preset()) {
                let seed = ciphertext_seed(&public, group, index);
                packed.push(SeededCiphertext::decode_body(context, seed, &mut reader)?);
            }
        }
        let galois = FineGaloisKey::decode_body(
            context,
            scheme.galois_element(),
            scheme.preset().pieces,
            &galois_seed(&public),
            &mut reader,
        )?;
        let relinearisation = KeySwitchingKey::decode_body(
            context,
            Scheme::DIGITS,
            relinearisation_seed(&public),
            &mut reader,
        )?;
        reader.finish()?;
        let digest = digest(envelope.body);
        let preset = envelope.parameters;
        Ok(Self { preset, shape, selectors, note, public, packed, galois, relinearisation, digest })
    }
}

impl QueryState {
    /// The version of the format.
    pub const VERSION: u16 = 1;

    /// The shape of the query.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of selectors of the query.
    pub fn selectors(&self) -> usize {
        self.selectors
    }

    /// The secret note that the query was made with.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// The state as a file, which holds the secret key.
    pub fn to_file(&self, scheme: &Scheme) -> Zeroizing<Vec<u8>> {
        let mut body = Zeroizing::new(Vec::with_capacity(STATE_BYTES + self.note.len()));
        body.extend_from_slice(self.secret.as_bytes());
        body.extend_from_slice(&self.query);
        encode_shape(&self.shape, &mut body);
        body.extend_from_slice(&(self.selectors as u32).to_le_bytes());
        body.extend_from_slice(&(self.note.len() as u32).to_le_bytes());
        body.extend_from_slice(&self.note);
        let (kind, parameters) = (Kind::SearchState, scheme.preset().id());
        Zeroizing::new(Envelope { kind, version: Self::VERSION, parameters, body: &body }.seal())
    }

    /// Reads what [`QueryState::to_file`] wrote.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`].
    pub fn from_file(scheme: &Scheme, bytes: &[u8]) -> Result<Self, PirError> {
        let envelope = Envelope::open_as(bytes, Kind::SearchState, Self::VERSION, scheme.preset().id())?;
        let mut reader = Reader::new("search state", envelope.body);
        let secret = Seed::from(reader.array()?);
        let query = reader.array()?;
        let shape = decode_shape(&mut reader)?;
        let selectors = reader.count("number of selectors of a search state", 1..=MAX_SELECTORS as u32)?;
        let note_bytes = reader.count("size of a search state's note", 0..=MAX_SECRET_NOTE_BYTES as u32)?;
        let note = Zeroizing::new(reader.bytes(note_bytes)?.to_vec());
        reader.finish()?;
        Ok(Self { preset: envelope.parameters, secret, query, shape, selectors, note })
    }
}

impl std::fmt::Debug for QueryState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryState").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// The secret key of a query.
pub(crate) fn secret_key(scheme: &Scheme, seed: &Seed) -> SecretKey<u64> {
    SecretKey::generate(scheme.context(), &seed.derive("search/secret", &[]))
}

fn ciphertext_seed(public: &Seed, group: usize, index: usize) -> Seed {
    public.derive("search/indicators", &[group as u64, index as u64])
}

fn galois_seed(public: &Seed) -> Seed {
    public.derive("search/automorphism", &[])
}

fn relinearisation_seed(public: &Seed) -> Seed {
    public.derive("search/relinearisation", &[])
}

fn digest(body: &[u8]) -> QueryDigest {
    let mut hasher = blake3::Hasher::new_derive_key("restante/1/search/query");
    hasher.update(body);
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

fn encode_shape(shape: &Shape, out: &mut Vec<u8>) {
    out.extend_from_slice(&[shape.hash_bits as u8, shape.sharing_bits as u8]);
}

fn decode_shape(reader: &mut Reader<'_>) -> Result<Shape, WireError> {
    let [hash_bits, sharing_bits] = reader.array()?;
    let sharing = 1usize.checked_shl(sharing_bits.into()).unwrap_or(0);
    Shape::new(hash_bits.into(), sharing).map_err(|error| WireError::OutOfRange {
        what: "shape of a search",
        found: u64::from(hash_bits) << 8 | u64::from(sharing_bits),
        expected: error.to_string(),
    })
}

/// Checks the length of a body before anything is allocated for it.
pub(crate) fn check_left(reader: &Reader<'_>, what: &'static str, needed: usize) -> Result<(), WireError> {
    match reader.remaining() {
        left if left < needed => Err(WireError::Truncated { what, needed, left }),
        left if left > needed => Err(WireError::Trailing { what, left: left - needed }),
        _ => Ok(()),
    }
}

/// Checks that something was made or read for the preset that it is used with.
pub(crate) fn check_preset(kind: Kind, scheme: &Scheme, found: ParameterId) -> Result<(), WireError> {
    match scheme.preset().id() {
        expected if expected == found => Ok(()),
        expected => Err(WireError::WrongParameters { kind, expected, found }),
    }
}

/// Checks that all buckets are of the shape.
fn check_buckets(shape: Shape, buckets: &[u32]) -> Result<(), PirError> {
    // Every bucket is looked at. Whether there is an error may be known, and then which one is wrong.
    let outside = buckets.iter().fold(0, |outside, bucket| outside | bucket >> shape.hash_bits) != 0;
    #[cfg(restante_ctgrind)]
    let outside = restante_ctgrind::declassified(outside);
    if outside {
        let wrong = buckets.iter().position(|bucket| bucket >> shape.hash_bits != 0);
        return Err(PirError::Size {
            what: "the place of a selector whose bucket is too large",
            found: wrong.unwrap_or(0) as u64,
            expected: format!("buckets below 2^{}", shape.hash_bits),
        });
    }
    Ok(())
}

pub(crate) fn check_note(what: &'static str, found: usize, limit: usize) -> Result<(), PirError> {
    if found > limit {
        return Err(PirError::Size { what, found: found as u64, expected: format!("up to {limit}") });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::collections::BTreeSet;

    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;
    use restante_ring::{Backend, Evaluation, Poly};

    use super::*;
    use crate::search::preset::Preset;

    #[test]
    fn no_two_uniform_halves_are_equal_even_if_the_generator_repeats_itself() {
        let scheme = Scheme::new(Preset::insecure_for_tests(), Backend::best()).unwrap();
        let shape = Shape::new(9, 2).unwrap();
        let mut seen = BTreeSet::new();
        let mut halves = 0;
        for buckets in [[1, 2, 3], [1, 2, 4]] {
            let mut rng = ChaCha20Rng::from_seed([1; 32]);
            let (_, query) = Query::new(&scheme, shape, &buckets, b"", b"", &mut rng).unwrap();
            let fresh: Vec<_> = query.packed.iter().map(|ciphertext| ciphertext.expand().c1).collect();
            let rows = query.galois.rows().iter().map(|row| &row[1]);
            let rows = rows.chain(query.relinearisation.rows().map(|row| row[1]));
            for half in fresh.iter().chain(rows) {
                // Limbs too are from streams of their own, which start with other words even where primes are alike.
                let limbs = |half: &Poly<u64, Evaluation>| {
                    half.limbs().map(|(_, values)| values[..4].to_vec()).collect::<Vec<_>>()
                };
                halves += half.basis().limbs();
                seen.extend(limbs(half));
            }
        }
        assert_eq!(seen.len(), halves);
    }

    #[test]
    fn nothing_secret_is_in_the_debug_form() {
        let scheme = Scheme::new(Preset::insecure_for_tests(), Backend::best()).unwrap();
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let shape = Shape::new(8, 1).unwrap();
        let (state, _) = Query::new(&scheme, shape, &[171], b"", b"\xab\xab\xab", &mut rng).unwrap();
        let text = format!("{state:?}");
        assert!(!text.contains("171"), "{text}");
    }
}
