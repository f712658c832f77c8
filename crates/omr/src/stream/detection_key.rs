//! Detection keys, which recipients give to detectors.

use restante_bfv::{Context, GaloisKey, KeySwitchingKey, SecretKey, SeededCiphertext};
use restante_clue::ClueSecretKey;
use restante_ring::sample::Seed;
use restante_wire::{Envelope, Kind, Reader};
use zeroize::{Zeroize, Zeroizing};

use super::{PublicSeed, StreamContext, public::KeyParts};
use crate::{
    OmrError,
    diagonals::{secret_entry, tag_entry},
    key_id::KeyId,
};

const VERSION: u16 = 3;
/// Baby steps rotate a noise that the products then multiply: a digit per modulus keeps it small.
const BABY_DIGITS: usize = 2;
/// Giant steps rotate what has been multiplied already.
const GIANT_DIGITS: usize = 1;

/// A recipient's secrets: those of its clues, and that of the encryption that its detection key is made with.
pub struct RecipientSecret {
    context: StreamContext,
    bfv: SecretKey<u32>,
    /// S and V, as plaintexts.
    plaintexts: Zeroizing<Vec<Vec<u32>>>,
    /// Where the detection key's uniform halves come from.
    public: PublicSeed,
}

impl RecipientSecret {
    /// The secret that a seed determines, for the clues that `clue` finds pertinent and [`PublicSeed::COMMON`].
    pub fn generate(context: &StreamContext, seed: &Seed, clue: &ClueSecretKey) -> Result<Self, OmrError> {
        Self::generate_for(context, PublicSeed::COMMON, seed, clue)
    }

    /// The secret that a seed determines for a public seed. Another public seed gives another secret.
    pub fn generate_for(
        context: &StreamContext,
        public: PublicSeed,
        seed: &Seed,
        clue: &ClueSecretKey,
    ) -> Result<Self, OmrError> {
        let (found, expected) = (clue.parameters().id(), context.parameters().clue.id());
        if found != expected {
            return Err(OmrError::Parameters { what: "clue key", found, expected });
        }
        let plaintexts = plaintexts(context, clue);
        // Keys have their uniform halves in common. Two with one secret, or with one error, would give the difference of what they
        // encrypt away. So all that a key encrypts, and how, and under which halves, decides its secret and its errors.
        let mut layout = blake3::Hasher::new_keyed(seed.derive("omr/layout", &[]).as_bytes());
        layout.update(&context.id().0);
        for value in [VERSION as usize, BABY_DIGITS, GIANT_DIGITS] {
            layout.update(&(value as u64).to_le_bytes());
        }
        layout.update(&public.to_bytes());
        plaintexts.iter().flatten().for_each(|value| {
            layout.update(&value.to_le_bytes());
        });
        let seed = Seed::from(*layout.finalize().as_bytes());
        layout.zeroize();
        Ok(Self {
            context: context.clone(),
            bfv: SecretKey::generate(context.bfv(), &seed.derive("omr/secret", &[])),
            public,
            plaintexts,
        })
    }

    /// The context.
    pub fn context(&self) -> &StreamContext {
        &self.context
    }

    pub(super) fn bfv(&self) -> &SecretKey<u32> {
        &self.bfv
    }

    /// The detection key. The same call gives the same key.
    pub fn detection_key(&self) -> Result<DetectionKey, OmrError> {
        let context = self.context.bfv();
        let seed = self.public.seed(self.context.id());
        let encrypt = |index: usize| self.bfv.encrypt(ciphertext_seed(&seed, index), &self.plaintexts[index]);
        let galois = |index: usize, steps, digits| {
            GaloisKey::generate(&self.bfv, element(context, steps), digits, key_seed(&seed, index))
        };
        Ok(DetectionKey {
            context: self.context.clone(),
            public: self.public,
            secret: encrypt(0),
            tags: encrypt(1),
            baby: galois(0, 1, BABY_DIGITS)?,
            giant: galois(1, self.context.parameters().baby_steps, GIANT_DIGITS)?,
            id: None,
        })
    }
}

impl std::fmt::Debug for RecipientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecipientSecret").finish_non_exhaustive()
    }
}

/// The coefficients of S and V.
fn plaintexts(context: &StreamContext, clue: &ClueSecretKey) -> Zeroizing<Vec<Vec<u32>>> {
    let encoder = context.bfv().encoder();
    let degree = context.bfv().degree();
    let t = encoder.plan().modulus();
    let steps = context.parameters().baby_steps;
    let encode = |entry: &dyn Fn(usize) -> i64| {
        let slots = (0..degree).map(|slot| t.from_signed(entry(slot % (degree / 2))));
        encoder.slots_to_coefficients(&Zeroizing::new(slots.collect::<Vec<_>>()))
    };
    Zeroizing::new(vec![
        encode(&|column| secret_entry(clue, column)),
        encode(&|column| tag_entry(clue, steps, column)),
    ])
}

/// Given to detectors by a recipient: encryptions of its clue secret and tags, and two rotation keys. Their uniform halves are
/// those of all keys with the same public seed; secrets and errors are each key's own.
#[derive(Debug, Clone)]
pub struct DetectionKey {
    pub(super) context: StreamContext,
    pub(super) public: PublicSeed,
    /// S in slots.
    pub(super) secret: SeededCiphertext<u32>,
    /// V in slots.
    pub(super) tags: SeededCiphertext<u32>,
    /// Rotation by one.
    pub(super) baby: GaloisKey<u32>,
    /// Rotation by the number of baby steps.
    pub(super) giant: GaloisKey<u32>,
    /// The hash of its file, if it was read from one.
    id: Option<KeyId>,
}

impl DetectionKey {
    /// The bytes of a key's file.
    pub fn file_bytes(context: &StreamContext) -> usize {
        let bfv = context.bfv();
        Envelope::OVERHEAD_BYTES
            + PublicSeed::BYTES
            + 2 * SeededCiphertext::body_bytes(bfv)
            + KeySwitchingKey::body_bytes(bfv, BABY_DIGITS)
            + KeySwitchingKey::body_bytes(bfv, GIANT_DIGITS)
    }

    /// The file: the public seed's name, then S, V and the two rotation keys without their uniform halves.
    pub fn to_file(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::file_bytes(&self.context));
        body.extend_from_slice(&self.public.to_bytes());
        [&self.secret, &self.tags].into_iter().for_each(|part| part.encode_body(&mut body));
        [&self.baby, &self.giant].into_iter().for_each(|key| key.key().encode_body(&mut body));
        let parameters = self.context.id();
        Envelope { kind: Kind::DetectionKey, version: VERSION, parameters, body: &body }.seal()
    }

    /// Reads a file.
    pub fn from_file(context: &StreamContext, bytes: &[u8]) -> Result<Self, OmrError> {
        let envelope = Envelope::open_as(bytes, Kind::DetectionKey, VERSION, context.id())?;
        let mut reader = Reader::new("detection key", envelope.body);
        let public = PublicSeed::read(&mut reader)?;
        let (bfv, seed) = (context.bfv(), public.seed(context.id()));
        let mut ciphertext =
            |index| SeededCiphertext::decode_body(bfv, ciphertext_seed(&seed, index), &mut reader);
        let [secret, tags] = [ciphertext(0)?, ciphertext(1)?];
        let mut galois = |index, steps, digits| {
            GaloisKey::decode_body(bfv, element(bfv, steps), digits, key_seed(&seed, index), &mut reader)
        };
        let baby = galois(0, 1, BABY_DIGITS)?;
        let giant = galois(1, context.parameters().baby_steps, GIANT_DIGITS)?;
        reader.finish()?;
        // A key has one encoding.
        let id = Some(KeyId::of_file(bytes));
        Ok(Self { context: context.clone(), public, secret, tags, baby, giant, id })
    }

    pub(super) fn parts(&self) -> KeyParts<'_> {
        KeyParts {
            public: self.public,
            bfv: self.context.bfv(),
            baby_steps: self.context.parameters().baby_steps,
            secret: &self.secret,
            tags: &self.tags,
            baby: &self.baby,
            giant: &self.giant,
        }
    }

    /// Where its uniform halves come from.
    pub fn public_seed(&self) -> PublicSeed {
        self.public
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        self.id.unwrap_or_else(|| KeyId::of_file(&self.to_file()))
    }
}

fn element(context: &Context<u32>, steps: usize) -> u64 {
    GaloisKey::<u32>::rotation_element(context.degree(), steps)
}

/// Each ciphertext and each key has a seed of its own, and they in turn a stream for each row and limb.
fn ciphertext_seed(public: &Seed, index: usize) -> Seed {
    public.derive("omr/ciphertext", &[index as u64])
}

fn key_seed(public: &Seed, index: usize) -> Seed {
    public.derive("omr/galois-key", &[index as u64])
}

#[cfg(test)]
mod tests {
    use restante_clue::ClueParameters;
    use restante_ring::{Backend, Evaluation, Poly};

    use super::*;
    use crate::stream::StreamParameters;

    /// A secret and its key.
    type Keys = (RecipientSecret, DetectionKey);

    fn keys(clue: ClueParameters, public: PublicSeed, seed: u8, account: u8) -> Keys {
        let context = StreamContext::new(StreamParameters::new(clue).unwrap(), Backend::best()).unwrap();
        let clue = ClueSecretKey::new(clue, &Seed::from([account; 32]));
        let secret = RecipientSecret::generate_for(&context, public, &Seed::from([seed; 32]), &clue).unwrap();
        let key = secret.detection_key().unwrap();
        (secret, key)
    }

    /// The uniform halves of a key, limb by limb.
    fn uniform_limbs(key: &DetectionKey) -> Vec<Vec<u32>> {
        let ciphertexts = [&key.secret, &key.tags].map(|ciphertext| ciphertext.expand().c1);
        let rows = [&key.baby, &key.giant].into_iter().flat_map(|key| key.key().rows());
        let all: Vec<_> = ciphertexts.into_iter().chain(rows.map(|[_, c1]| c1.clone())).collect();
        all.iter().flat_map(|poly| poly.limbs().map(|(_, values)| values.to_vec())).collect()
    }

    /// c0 + c1 s for the encryption of S, modulo the first prime.
    fn phase((secret, key): &Keys) -> Vec<u32> {
        let basis = key.context.bfv().ciphertext_basis();
        let s = Poly::from_signed(basis, secret.bfv().coefficients()).into_evaluation();
        let ciphertext = key.secret.expand();
        let mut phase: Poly<u32, Evaluation> = ciphertext.c0;
        phase.mul_add_assign(&ciphertext.c1, &s);
        phase.into_coefficient().limb(0).to_vec()
    }

    /// Keys that differ in one thing at a time: the seed of the account's detection key (another account's, or another rotation's),
    /// what they encrypt, the relay, the period, the kind of clues. Under the same uniform halves, the difference of two keys with one
    /// secret would be that of their errors and plaintexts. So secrets are independent, and so are errors.
    #[test]
    fn keys_with_the_same_uniform_halves_have_nothing_else_in_common() {
        let (standard, common) = (ClueParameters::STANDARD, PublicSeed::COMMON);
        let all = [
            keys(standard, common, 1, 1),
            keys(standard, common, 2, 1),
            keys(standard, common, 1, 2),
            keys(standard, PublicSeed { domain: [1; 32], ..common }, 1, 1),
            keys(standard, PublicSeed { period: 1, ..common }, 1, 1),
            keys(ClueParameters::SHORT, common, 1, 1),
        ];
        let uniform: Vec<_> = all.iter().map(|(_, key)| uniform_limbs(key)).collect();
        for (a, one) in all.iter().enumerate() {
            // No two limbs of a key come from one stream.
            let mut limbs = uniform[a].clone();
            limbs.sort();
            limbs.dedup();
            assert_eq!(limbs.len(), uniform[a].len());
            for (b, other) in all.iter().enumerate().skip(a + 1) {
                let same = one.1.public == other.1.public && one.1.context.id() == other.1.context.id();
                let equal = uniform[a].iter().zip(&uniform[b]).filter(|(x, y)| x == y).count();
                assert_eq!(equal, if same { uniform[a].len() } else { 0 }, "{a}, {b}");
                // Independent ternary secrets agree in a third of 4,096 places, give or take five deviations of 30.
                let [x, y] = [one, other].map(|(secret, _)| secret.bfv().coefficients());
                let agree = x.iter().zip(y).filter(|(x, y)| x == y).count();
                assert!((1215..1516).contains(&agree), "{a}, {b}: {agree}");
                assert_ne!(one.1.id(), other.1.id());
            }
        }
        // The same plaintext under two seeds: what is left of the difference is that of two Gaussians of deviation 3.2.
        let modulus = *all[0].1.context.bfv().ciphertext_basis().plans()[0].modulus();
        for other in [&all[1], &all[3], &all[4]] {
            let pairs = phase(&all[0]).into_iter().zip(phase(other));
            let differences: Vec<i64> = pairs.map(|(x, y)| modulus.to_signed(modulus.sub(x, y))).collect();
            let squares: i64 = differences.iter().map(|difference| difference * difference).sum();
            let variance = squares as f64 / differences.len() as f64;
            assert!((17.0..24.5).contains(&variance), "{variance}");
            // Nor are they negatives or multiples of each other: the sums vary as much.
            assert!(differences.iter().filter(|&&difference| difference == 0).count() < 600);
        }
    }
}
