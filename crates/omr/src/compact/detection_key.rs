//! The detection key for compact digests, which a recipient gives to a detector.

use restante_bfv::{GaloisKey, KeySwitchingKey, SecretKey, SeededCiphertext};
use restante_clue::ClueSecretKey;
use restante_ring::sample::Seed;
use restante_wire::{Envelope, Kind, ParameterId, Reader};
use zeroize::{Zeroize, Zeroizing};

use super::CompactContext;
use crate::{
    KeyId, OmrError,
    diagonals::{secret_entry, tag_entry},
};

const VERSION: u16 = 2;
/// Digests of at most this many equations share their packing keys.
pub(super) const MIN_EQUATIONS: usize = 64;

/// A recipient's secrets: those of its clues, one of the large ring, one of the digest's ring.
pub struct CompactSecret {
    context: CompactContext,
    /// The same secret, for the moduli of each stage.
    circuit: SecretKey<u64>,
    pertinency: SecretKey<u64>,
    packing: SecretKey<u64>,
    /// The digest's.
    digest: SecretKey<u64>,
    /// The digest's, in the large ring.
    embedded: SecretKey<u64>,
    /// S and V, as plaintexts.
    plaintexts: Zeroizing<[Vec<u64>; 2]>,
    /// The seed of the detection key's uniform halves; public.
    public: Seed,
}

impl CompactSecret {
    /// The secret that a seed determines, for the clues that `clue` finds pertinent.
    pub fn generate(context: &CompactContext, seed: &Seed, clue: &ClueSecretKey) -> Result<Self, OmrError> {
        let (found, expected) = (clue.parameters().id(), context.parameters().clue.id());
        if found != expected {
            return Err(OmrError::Parameters { what: "clue key", found, expected });
        }
        let plaintexts = plaintexts(context, clue);
        // All that the key encrypts, and how, decides its secrets, its uniform halves and, with them, its errors: whatever
        // changes, no two keys share a stream.
        let mut layout = blake3::Hasher::new_keyed(seed.derive("omr/compact-layout", &[]).as_bytes());
        layout.update(&context.id().0);
        layout.update(&u64::from(VERSION).to_le_bytes());
        plaintexts.iter().flatten().for_each(|value| {
            layout.update(&value.to_le_bytes());
        });
        let seed = Seed::from(*layout.finalize().as_bytes());
        layout.zeroize();
        let circuit = SecretKey::generate(context.circuit().context(), &seed.derive("omr/secret", &[]));
        let digest = SecretKey::generate(context.digest(), &seed.derive("omr/digest-secret", &[]));
        Ok(Self {
            pertinency: circuit.over(context.pertinency().context()),
            packing: circuit.over(context.packing().context()),
            embedded: SecretKey::embed(context.packing().context(), &digest),
            circuit,
            digest,
            plaintexts,
            public: seed.derive("omr/public", &[]),
            context: context.clone(),
        })
    }

    /// The context.
    pub fn context(&self) -> &CompactContext {
        &self.context
    }

    /// The secret of the circuit: for tests that look at noise.
    pub fn circuit(&self) -> &SecretKey<u64> {
        &self.circuit
    }

    pub(super) fn digest(&self) -> &SecretKey<u64> {
        &self.digest
    }

    pub(super) fn pertinency(&self) -> &SecretKey<u64> {
        &self.pertinency
    }

    pub(super) fn packing(&self) -> &SecretKey<u64> {
        &self.packing
    }

    /// The id of the detection keys that this secret makes.
    pub fn key_id(&self) -> KeyId {
        key_id(self.context.id(), &self.public)
    }

    /// The detection key. The same call gives the same key.
    pub fn detection_key(&self) -> Result<CompactDetectionKey, OmrError> {
        let context = &self.context;
        let degree = context.degree();
        let encrypt = |index: usize| {
            self.circuit.encrypt(seed(&self.public, Part::Ciphertext, index), &self.plaintexts[index])
        };
        let digits = context.parameters().digits;
        let galois = |key: &SecretKey<u64>, index, element, digits| {
            GaloisKey::generate(key, element, digits, seed(&self.public, Part::Key, index))
        };
        let steps = context.parameters().baby_steps;
        let packing = packing_elements(context)
            .enumerate()
            .map(|(index, element)| galois(&self.packing, 6 + index, element, 1));
        Ok(CompactDetectionKey {
            secret: encrypt(0),
            tags: encrypt(1),
            relinearisation: KeySwitchingKey::relinearisation(
                &self.circuit,
                digits,
                seed(&self.public, Part::Key, 0),
            )?,
            baby: galois(&self.circuit, 1, rotation(context, 1), digits)?,
            giant: galois(&self.circuit, 2, rotation(context, steps), digits)?,
            rotate: galois(&self.pertinency, 3, rotation(context, 1), 1)?,
            swap: galois(&self.pertinency, 4, GaloisKey::<u64>::row_swap_element(degree), 1)?,
            to_digest: KeySwitchingKey::generate_to(
                &self.packing,
                &self.embedded,
                1,
                seed(&self.public, Part::Key, 5),
            )?,
            packing: packing.collect::<Result<_, _>>()?,
            public: self.public.clone(),
            context: context.clone(),
        })
    }
}

impl std::fmt::Debug for CompactSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompactSecret").finish_non_exhaustive()
    }
}

/// The coefficients of S and V.
fn plaintexts(context: &CompactContext, clue: &ClueSecretKey) -> Zeroizing<[Vec<u64>; 2]> {
    let encoder = context.circuit().context().encoder();
    let (degree, t) = (context.degree(), encoder.plan().modulus());
    let steps = context.parameters().baby_steps;
    let encode = |entry: &dyn Fn(usize) -> i64| {
        let slots = (0..degree).map(|slot| t.from_signed(entry(slot % (degree / 2))));
        encoder.slots_to_coefficients(&Zeroizing::new(slots.collect::<Vec<_>>()))
    };
    Zeroizing::new([
        encode(&|column| secret_entry(clue, column)),
        encode(&|column| tag_entry(clue, steps, column)),
    ])
}

/// A recipient's key for a detector: encryptions of its clue secret and tags, and evaluation keys.
#[derive(Debug, Clone)]
pub struct CompactDetectionKey {
    pub(super) context: CompactContext,
    public: Seed,
    /// S in slots.
    pub(super) secret: SeededCiphertext<u64>,
    /// V in slots.
    pub(super) tags: SeededCiphertext<u64>,
    pub(super) relinearisation: KeySwitchingKey<u64>,
    /// Rotation by one.
    pub(super) baby: GaloisKey<u64>,
    /// Rotation by the number of baby steps.
    pub(super) giant: GaloisKey<u64>,
    /// Rotation by one, of pertinency vectors.
    pub(super) rotate: GaloisKey<u64>,
    /// Swap of the rows of pertinency vectors.
    pub(super) swap: GaloisKey<u64>,
    /// X -> X^(N/2^j + 1) for j = 0, 1, ...
    pub(super) packing: Vec<GaloisKey<u64>>,
    /// To the digest's secret.
    pub(super) to_digest: KeySwitchingKey<u64>,
}

impl CompactDetectionKey {
    /// The bytes of a key's file.
    pub fn file_bytes(context: &CompactContext) -> usize {
        Envelope::OVERHEAD_BYTES
            + 32
            + Self::part_bytes(context).iter().map(|(_, bytes)| bytes).sum::<usize>()
    }

    /// The bytes of each part of a key, without its uniform halves.
    pub fn part_bytes(context: &CompactContext) -> [(&'static str, usize); 5] {
        let circuit = context.circuit().context();
        let long = KeySwitchingKey::body_bytes(circuit, context.parameters().digits);
        let pertinency = KeySwitchingKey::body_bytes(context.pertinency().context(), 1);
        let packing = KeySwitchingKey::body_bytes(context.packing().context(), 1);
        [
            ("encrypted_secrets", 2 * SeededCiphertext::body_bytes(circuit)),
            ("relinearisation_key", long),
            ("circuit_rotation_keys", 2 * long),
            ("pertinency_rotation_keys", 2 * pertinency),
            ("packing_keys", (packing_elements(context).count() + 1) * packing),
        ]
    }

    /// The file: the public seed, then every part without its uniform half.
    pub fn to_file(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::file_bytes(&self.context));
        body.extend_from_slice(self.public.as_bytes());
        [&self.secret, &self.tags].into_iter().for_each(|part| part.encode_body(&mut body));
        self.relinearisation.encode_body(&mut body);
        let galois = [&self.baby, &self.giant, &self.rotate, &self.swap];
        galois.into_iter().for_each(|key| key.key().encode_body(&mut body));
        self.to_digest.encode_body(&mut body);
        self.packing.iter().for_each(|key| key.key().encode_body(&mut body));
        let parameters = self.context.id();
        Envelope { kind: Kind::CompactDetectionKey, version: VERSION, parameters, body: &body }.seal()
    }

    /// Reads a file.
    pub fn from_file(context: &CompactContext, bytes: &[u8]) -> Result<Self, OmrError> {
        let envelope = Envelope::open_as(bytes, Kind::CompactDetectionKey, VERSION, context.id())?;
        let mut reader = Reader::new("compact detection key", envelope.body);
        let public = Seed::from(reader.array::<32>()?);
        let (circuit, digits) = (context.circuit().context(), context.parameters().digits);
        let ciphertext = |index, reader: &mut Reader<'_>| {
            SeededCiphertext::decode_body(circuit, seed(&public, Part::Ciphertext, index), reader)
        };
        let secret = ciphertext(0, &mut reader)?;
        let tags = ciphertext(1, &mut reader)?;
        let key = |bfv, index, digits, reader: &mut Reader<'_>| {
            KeySwitchingKey::decode_body(bfv, digits, seed(&public, Part::Key, index), reader)
        };
        let galois = |bfv, index, element, digits, reader: &mut Reader<'_>| {
            GaloisKey::decode_body(bfv, element, digits, seed(&public, Part::Key, index), reader)
        };
        let relinearisation = key(circuit, 0, digits, &mut reader)?;
        let baby = galois(circuit, 1, rotation(context, 1), digits, &mut reader)?;
        let steps = context.parameters().baby_steps;
        let giant = galois(circuit, 2, rotation(context, steps), digits, &mut reader)?;
        let pertinency = context.pertinency().context();
        let rotate = galois(pertinency, 3, rotation(context, 1), 1, &mut reader)?;
        let element = GaloisKey::<u64>::row_swap_element(context.degree());
        let swap = galois(pertinency, 4, element, 1, &mut reader)?;
        let to_digest = key(context.packing().context(), 5, 1, &mut reader)?;
        let packing = packing_elements(context)
            .enumerate()
            .map(|(index, element)| galois(context.packing().context(), 6 + index, element, 1, &mut reader))
            .collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Self {
            context: context.clone(),
            public,
            secret,
            tags,
            relinearisation,
            baby,
            giant,
            rotate,
            swap,
            packing,
            to_digest,
        })
    }

    /// The key's id: the hash of its parameters' id and its public seed, which a recipient knows without making the key.
    ///
    /// It is a name, not a checksum: whoever has a key can make a file with the same id and other contents. Keep keys by who brought them,
    /// and do not let one replace another because the ids agree.
    pub fn id(&self) -> KeyId {
        key_id(self.context.id(), &self.public)
    }

    /// The id of the key in a file, without the work of reading it whole.
    pub fn id_of_file(bytes: &[u8]) -> Result<KeyId, OmrError> {
        let envelope = Envelope::open(bytes)?;
        let envelope = Envelope::open_as(bytes, Kind::CompactDetectionKey, VERSION, envelope.parameters)?;
        let mut reader = Reader::new("compact detection key", envelope.body);
        Ok(key_id(envelope.parameters, &Seed::from(reader.array::<32>()?)))
    }

    /// The context.
    pub fn context(&self) -> &CompactContext {
        &self.context
    }
}

enum Part {
    Ciphertext,
    Key,
}

/// Each ciphertext and each key has a seed of its own.
fn seed(public: &Seed, part: Part, index: usize) -> Seed {
    let purpose = match part {
        Part::Ciphertext => "omr/ciphertext",
        Part::Key => "omr/evaluation-key",
    };
    public.derive(purpose, &[index as u64])
}

fn key_id(parameters: ParameterId, public: &Seed) -> KeyId {
    KeyId::of_file(&[b"restante/1/compact-key-id".as_slice(), &parameters.0, public.as_bytes()].concat())
}

fn rotation(context: &CompactContext, steps: usize) -> u64 {
    GaloisKey::<u64>::rotation_element(context.degree(), steps)
}

/// N/2^j + 1, down to what leaves a ring of [`MIN_EQUATIONS`] coefficients fixed.
pub(super) fn packing_elements(context: &CompactContext) -> impl Iterator<Item = u64> + use<> {
    let degree = context.degree();
    (0..(degree / MIN_EQUATIONS).ilog2()).map(move |j| (degree >> j) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use restante_bfv::Ciphertext;
    use restante_clue::ClueParameters;
    use restante_ring::{Backend, Evaluation, Poly};

    use super::*;
    use crate::compact::CompactParameters;

    fn secret(seed: u8, clue: u8) -> CompactSecret {
        let parameters = CompactParameters::insecure(ClueParameters::STANDARD).unwrap();
        let context = CompactContext::new(parameters, Backend::best()).unwrap();
        let clue = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([clue; 32]));
        CompactSecret::generate(&context, &Seed::from([seed; 32]), &clue).unwrap()
    }

    /// Case 24 of the field: rows with one uniform half give the secret away by their difference.
    #[test]
    fn no_two_rows_of_a_key_have_related_uniform_halves() {
        let key = secret(1, 1).detection_key().unwrap();
        let mut halves: Vec<Poly<u64, Evaluation>> = [&key.secret, &key.tags]
            .into_iter()
            .map(|ciphertext| {
                let Ciphertext { c1, .. } = ciphertext.expand();
                c1
            })
            .collect();
        let galois = [&key.baby, &key.giant, &key.rotate, &key.swap].into_iter().chain(&key.packing);
        let keys = galois.map(GaloisKey::key).chain([&key.relinearisation, &key.to_digest]);
        halves.extend(keys.flat_map(|key| key.rows().map(|[_, c1]| c1.clone())));
        assert_eq!(halves.len(), 2 + 3 * 3 + 2 + 1 + key.packing.len());
        let mut compared = 0;
        for (index, a) in halves.iter().enumerate() {
            for b in &halves[..index] {
                for (plan, first) in a.limbs() {
                    let modulus = plan.modulus();
                    let Some((_, second)) =
                        b.limbs().find(|(other, _)| other.modulus().as_u64() == modulus.as_u64())
                    else {
                        continue;
                    };
                    compared += 1;
                    for (m, n) in [(1, 1), (1, -1), (1, 2), (1, -2), (2, 1), (2, -1), (3, 1), (3, -1)] {
                        let (m, n) = (modulus.from_signed(m), modulus.from_signed(n));
                        let zeros = first
                            .iter()
                            .zip(second)
                            .filter(|&(&x, &y)| modulus.add(modulus.mul(m, x), modulus.mul(n, y)) == 0);
                        assert!(zeros.count() < 4);
                    }
                }
            }
        }
        assert!(compared > halves.len());
    }

    #[test]
    fn detection_keys_share_no_stream() {
        let seeds = [secret(1, 1), secret(1, 2), secret(2, 1)].map(|secret| *secret.public.as_bytes());
        assert!(seeds[0] != seeds[1] && seeds[0] != seeds[2] && seeds[1] != seeds[2]);
        // One secret for the moduli of each stage, but not the digest's.
        let secret = secret(1, 1);
        assert_eq!(secret.circuit.coefficients(), secret.packing.coefficients());
        assert_eq!(secret.circuit.coefficients(), secret.pertinency.coefficients());
        assert_ne!(&secret.circuit.coefficients()[..8], &secret.digest.coefficients()[..8]);
        let spread: Vec<i64> = secret.embedded.coefficients().iter().copied().step_by(4).collect();
        assert_eq!(spread, secret.digest.coefficients());
        // A row of the key to the digest's secret is four samples in the digest's ring, whose context has the same Q and P, and
        // so the limit that is enforced for it holds for the key.
        let [large, small] = [&secret.embedded, &secret.digest].map(|secret| secret.context().key_basis());
        assert!(large.moduli().eq(small.moduli()));
        assert_eq!(small.degree(), secret.context.parameters().digest_degree);
    }
}
