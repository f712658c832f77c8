//! The recipient's side: from a digest to indices and payloads.

use restante_bfv::ShortDecryptor;
use restante_ring::{Modulus, primes::primitive_root};
use zeroize::Zeroizing;

use super::{CompactContext, CompactDigest, CompactSecret, columns};
use crate::{KeyId, OmrError};

/// The largest standard deviation of a valid ciphertext's decryption error, more than twice what rounding makes it; that of random
/// bytes, or of what another key made, is 0.29.
const MAX_ERROR_DEVIATION: f64 = 0.125;

/// A pertinent message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrieved {
    /// Its index.
    pub index: u64,
    /// Its payload, or as much of it as the digest holds.
    pub payload: Vec<u8>,
    /// The length of the whole payload; zero in a digest of indices only.
    pub payload_bytes: usize,
}

/// Decrypts digests that were made with one detection key.
#[derive(Debug)]
pub struct Decoder {
    context: CompactContext,
    decryptor: ShortDecryptor,
    key: KeyId,
    t: Modulus<u64>,
}

impl Decoder {
    /// A decoder for the digests of the detection keys that `secret` makes.
    pub fn new(secret: &CompactSecret) -> Result<Self, OmrError> {
        let key = secret.key_id();
        let t = *secret.context().circuit().context().plaintext_plan().modulus();
        let decryptor = ShortDecryptor::new(secret.digest())?;
        Ok(Self { context: secret.context().clone(), decryptor, key, t })
    }

    /// The pertinent messages, by ascending index. A false positive is possible at the rate of the clue parameters; the
    /// payload's authentication settles it.
    ///
    /// [`OmrError::Overflow`] if there are more than the digest's capacity, [`OmrError::DamagedDigest`] if no messages
    /// give these sums.
    ///
    /// From the decrypted sums on, the time depends on how many messages are pertinent, and a little on
    /// which. Neither that nor an error may show: the next request must go out at a time that was set before.
    pub fn decode(&self, digest: &CompactDigest) -> Result<Vec<Retrieved>, OmrError> {
        let (found, expected) = (digest.parameters, self.context.id());
        if found != expected {
            return Err(OmrError::Parameters { what: "compact digest", found, expected });
        }
        if digest.key != self.key {
            let (found, expected) = (digest.key.to_string(), self.key.to_string());
            return Err(OmrError::ForeignDigest { found, expected });
        }
        let request = &digest.request;
        let messages = request.range.end - request.range.start;
        let sums = self.sums(digest)?;
        let powers = &sums[0];
        let count = powers[0];
        if count > messages {
            return Err(OmrError::DamagedDigest("it counts more messages than the range has"));
        }
        if count > request.capacity as u64 {
            return Err(OmrError::Overflow { capacity: request.capacity });
        }
        let count = count as usize;
        let locator = self.locator(&powers[..=count]);
        let nodes = self.roots(&locator, messages);
        if nodes.len() != count {
            return Err(OmrError::DamagedDigest("its power sums are those of no messages"));
        }
        let solver = Solver::new(&self.t, &locator, &nodes);
        let mut columns = Zeroizing::new(vec![vec![0; sums.len()]; count]);
        for (index, sums) in sums.iter().enumerate() {
            let values = solver.solve(sums);
            if !self.is_consistent(&nodes, &values, sums) {
                return Err(OmrError::DamagedDigest("its sums contradict each other"));
            }
            columns.iter_mut().zip(values.iter()).for_each(|(column, &value)| column[index] = value as u32);
        }
        let message = |(node, columns): (&u64, &Vec<u32>)| {
            let index = request.range.start + node - 1;
            if request.payload_bytes == 0 {
                return Ok(Retrieved { index, payload: Vec::new(), payload_bytes: 0 });
            }
            let (payload_bytes, payload) = columns::read(request.payload_bytes, columns)
                .ok_or(OmrError::DamagedDigest("a payload has digits that no bytes give"))?;
            Ok(Retrieved { index, payload, payload_bytes })
        };
        if columns.iter().any(|column| column[0] != 1) {
            return Err(OmrError::DamagedDigest("a message is counted more than once"));
        }
        nodes.iter().zip(columns.iter()).map(message).collect()
    }

    /// F_l(e) for each column l.
    fn sums(&self, digest: &CompactDigest) -> Result<Zeroizing<Vec<Vec<u64>>>, OmrError> {
        let request = &digest.request;
        let per_ciphertext = request.columns_per_ciphertext(&self.context);
        let equations = request.equations();
        let inverse = self.t.inv(digest.factor);
        let order = 2 * self.context.degree() as u64;
        let root = primitive_root(&self.t, order)?;
        // Slot (row, column) of the ring of degree K holds the value at psi^(N/K (+-3^column)).
        let root = self.t.pow(root, (self.context.degree() / equations) as u64);
        let order = 2 * equations as u64;
        let powers = std::iter::successors(Some(1), |power| Some(power * 3 % order)).take(equations / 2);
        let powers: Vec<u64> = powers.collect();
        let exponents = powers.iter().copied().chain(powers.iter().map(|power| order - power));
        // For each e, the powers of its point, times what undoes the factor.
        let points: Vec<Vec<u64>> = exponents
            .map(|exponent| {
                let point = self.t.pow(root, exponent);
                let powers = std::iter::successors(Some(inverse), |power| Some(self.t.mul(*power, point)));
                powers.take(equations).collect()
            })
            .collect();
        let short = self.context.parameters().short;
        let mut coefficients = Vec::with_capacity(digest.ciphertexts.len());
        for (block, ciphertext) in digest.ciphertexts.iter().enumerate() {
            let plaintext = self.decryptor.decrypt(ciphertext, short);
            let (deviation, limit) = (plaintext.error_deviation, MAX_ERROR_DEVIATION);
            if deviation > limit {
                return Err(OmrError::InvalidBlock { block, deviation, limit });
            }
            coefficients.push(plaintext.coefficients);
        }
        let columns = (0..request.columns()).map(|column| {
            let coefficients = &coefficients[column / per_ciphertext];
            let own = coefficients.iter().skip(column % per_ciphertext).step_by(per_ciphertext);
            let own: Zeroizing<Vec<u64>> = Zeroizing::new(own.copied().collect());
            points.iter().map(|powers| self.inner_product(powers, &own)).collect()
        });
        Ok(Zeroizing::new(columns.collect()))
    }

    /// The polynomial with the nodes as its roots, from its constant coefficient up, from their power sums 0 to m.
    ///
    /// Newton's identities: i e_i = sum over j = 1 ..= i of (-1)^(j-1) e_(i-j) p_j.
    fn locator(&self, sums: &[u64]) -> Zeroizing<Vec<u64>> {
        let t = &self.t;
        let mut elementary = Zeroizing::new(Vec::with_capacity(sums.len()));
        elementary.push(1);
        for i in 1..sums.len() {
            let sum = (1..=i).fold(0, |sum, j| {
                let term = t.mul(elementary[i - j], sums[j]);
                if j % 2 == 1 { t.add(sum, term) } else { t.sub(sum, term) }
            });
            elementary.push(t.mul(sum, t.inv(t.reduce(i as u64))));
        }
        let signed = elementary.iter().enumerate();
        let signed = signed.map(|(i, &value)| if i % 2 == 1 { t.neg(value) } else { value });
        Zeroizing::new(signed.rev().collect())
    }

    /// The roots among 1 ..= messages, ascending: by evaluation at all of them, in floating point, where integers below 2^53
    /// are exact.
    fn roots(&self, locator: &[u64], messages: u64) -> Zeroizing<Vec<u64>> {
        const LANES: usize = 16;
        // Adding and subtracting this rounds to the nearest integer.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let t = self.t.as_u64() as f64;
        let inverse = 1.0 / t;
        let coefficients: Zeroizing<Vec<f64>> =
            Zeroizing::new(locator.iter().rev().map(|&value| self.t.to_signed(value) as f64).collect());
        // No more roots than its degree.
        let mut roots = Zeroizing::new(Vec::with_capacity(locator.len()));
        for first in (1..=messages).step_by(LANES) {
            let points: [f64; LANES] =
                std::array::from_fn(|lane| self.t.to_signed(self.t.reduce(first + lane as u64)) as f64);
            let mut values = [0.0; LANES];
            for &coefficient in coefficients.iter() {
                for (value, point) in values.iter_mut().zip(points) {
                    let sum = *value * point + coefficient;
                    *value = sum - ((sum * inverse + ROUND) - ROUND) * t;
                }
            }
            let zeros = (first..=messages).zip(values).filter(|(_, value)| *value == 0.0);
            roots.extend(zeros.map(|(point, _)| point));
        }
        roots
    }

    /// Whether all sums are those of these values at these nodes.
    fn is_consistent(&self, nodes: &[u64], values: &[u64], sums: &[u64]) -> bool {
        let mut terms = Zeroizing::new(values.to_vec());
        sums.iter().all(|&sum| {
            let total = self.t.reduce(terms.iter().sum());
            terms.iter_mut().zip(nodes).for_each(|(term, node)| *term = *term * node % self.t.as_u64());
            total == sum
        })
    }

    /// Residues are below 2^20: 2^24 products fit 64 bits.
    fn inner_product(&self, a: &[u64], b: &[u64]) -> u64 {
        self.t.reduce(a.iter().zip(b).map(|(a, b)| a * b).sum())
    }
}

/// The inverse of a Vandermonde matrix: row j has the coefficients of the polynomial that is 1 at node j and 0 at the others.
struct Solver<'a> {
    t: &'a Modulus<u64>,
    rows: Zeroizing<Vec<Vec<u64>>>,
}

impl<'a> Solver<'a> {
    fn new(t: &'a Modulus<u64>, locator: &[u64], nodes: &[u64]) -> Self {
        let rows = nodes.iter().map(|&node| {
            let node = t.reduce(node);
            // locator / (X - node), by synthetic division.
            let mut quotient = vec![0; locator.len() - 1];
            let mut carry = 0;
            for (place, &coefficient) in locator.iter().enumerate().skip(1).rev() {
                carry = t.add(t.mul(carry, node), coefficient);
                quotient[place - 1] = carry;
            }
            let value = quotient.iter().rev().fold(0, |sum, &c| t.add(t.mul(sum, node), c));
            let inverse = t.inv(value);
            quotient.iter_mut().for_each(|coefficient| *coefficient = t.mul(*coefficient, inverse));
            quotient
        });
        Self { t, rows: Zeroizing::new(rows.collect()) }
    }

    /// The values v_j with sum over j of x_j^e v_j = sums[e] for e below their number.
    fn solve(&self, sums: &[u64]) -> Zeroizing<Vec<u64>> {
        let value = |row: &Vec<u64>| self.t.reduce(row.iter().zip(sums).map(|(a, b)| a * b).sum());
        Zeroizing::new(self.rows.iter().map(value).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use restante_bfv::ShortCiphertext;
    use restante_clue::{ClueParameters, ClueSecretKey};
    use restante_ring::{Backend, sample::Seed};
    use restante_wire::Reader;

    use super::*;
    use crate::compact::{CompactParameters, DigestRequest};

    fn decoder() -> Decoder {
        let parameters = CompactParameters::insecure(ClueParameters::STANDARD).unwrap();
        let context = CompactContext::new(parameters, Backend::best()).unwrap();
        let clue = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([2; 32]));
        let secret = CompactSecret::generate(&context, &Seed::from([1; 32]), &clue).unwrap();
        Decoder::new(&secret).unwrap()
    }

    #[test]
    fn nodes_and_values_come_back_from_their_sums() {
        let decoder = decoder();
        let t = 786_433;
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let nodes = proptest::collection::btree_set(1u64..=786_432, 0..70);
        runner
            .run(&(nodes, any::<u64>()), |(nodes, salt)| {
                let nodes: Vec<u64> = nodes.into_iter().collect();
                let values: Vec<u64> = nodes.iter().map(|node| node.wrapping_mul(salt | 1) % t).collect();
                let sums = |values: &[u64]| -> Vec<u64> {
                    let power = |node: u64, e: usize| (0..e).fold(1, |power, _| power * node % t);
                    (0..72)
                        .map(|e| nodes.iter().zip(values).map(|(&n, v)| power(n, e) * v % t).sum::<u64>() % t)
                        .collect()
                };
                let powers = sums(&vec![1; nodes.len()]);
                prop_assert_eq!(powers[0], nodes.len() as u64);
                let locator = decoder.locator(&powers[..=nodes.len()]);
                prop_assert_eq!(&*decoder.roots(&locator, 786_432), &nodes);
                let solver = Solver::new(&decoder.t, &locator, &nodes);
                let given = sums(&values);
                prop_assert_eq!(&*solver.solve(&given), &values);
                prop_assert!(decoder.is_consistent(&nodes, &values, &given));
                let mut damaged = given;
                damaged[71] = (damaged[71] + 1) % t;
                prop_assert!(!decoder.is_consistent(&nodes, &values, &damaged));
                Ok(())
            })
            .unwrap();
    }

    /// A digest of these sums that decrypts without an error, as anybody can make one: c1 is zero.
    fn forged(
        context: &CompactContext,
        key: KeyId,
        request: &DigestRequest,
        sums: &[Vec<u64>],
    ) -> CompactDigest {
        let t = *context.circuit().context().plaintext_plan().modulus();
        let (equations, degree) = (request.equations(), context.parameters().digest_degree);
        let psi = t.pow(
            primitive_root(&t, 2 * context.degree() as u64).unwrap(),
            (context.degree() / equations) as u64,
        );
        let exponent = |e: usize| {
            let power = (0..e % (equations / 2)).fold(1, |power, _| power * 3 % (2 * equations as u64));
            if e < equations / 2 { power } else { 2 * equations as u64 - power }
        };
        // The transform's inverse by definition: coefficient a is the mean of value times point^-a.
        let coefficient = |sums: &[u64], a: usize| {
            let terms = sums
                .iter()
                .enumerate()
                .map(|(e, &sum)| t.mul(sum, t.inv(t.pow(psi, exponent(e) * a as u64))));
            t.mul(terms.fold(0, |total, term| t.add(total, term)), t.inv(equations as u64))
        };
        let per_ciphertext = request.columns_per_ciphertext(context);
        let short = context.parameters().short;
        let ciphertexts = sums.chunks(per_ciphertext).map(|columns| {
            let mut bytes = Vec::new();
            let mut writer = restante_wire::BitWriter::new(&mut bytes);
            for place in 0..degree {
                let column = columns.get(place % per_ciphertext);
                let m = column.map_or(0, |sums| coefficient(sums, place / per_ciphertext));
                let rounded = ((m << (short.c0_bits() + 1)) / t.as_u64()).div_ceil(2);
                writer.write(rounded % (1 << short.c0_bits()), short.c0_bits());
            }
            writer.finish();
            bytes.resize(short.ciphertext_bytes(degree), 0);
            ShortCiphertext::decode(degree, short, &mut Reader::new("test", &bytes)).unwrap()
        });
        let ciphertexts = ciphertexts.collect();
        CompactDigest { parameters: context.id(), request: request.clone(), key, factor: 1, ciphertexts }
    }

    /// A detector can put any sums into a digest. Sums that no set of messages has are an error.
    #[test]
    fn sums_that_a_malicious_detector_makes_up_are_refused() {
        let decoder = decoder();
        let t = 786_433;
        let request = DigestRequest { range: u64::MAX - 100..u64::MAX, capacity: 63, payload_bytes: 2 };
        let decode = |columns: [Vec<u64>; 3]| {
            decoder.decode(&forged(&decoder.context, decoder.key, &request, &columns))
        };
        let power = |node: u64, e: usize| (0..e).fold(1, |power, _| power * node % t);
        // The sums of messages with these nodes, that many times each.
        let sums = |messages: &[(u64, u64)]| -> Vec<u64> {
            (0..64)
                .map(|e| messages.iter().map(|&(node, v)| power(node, e) * v % t).sum::<u64>() % t)
                .collect()
        };
        let [one, last] = [(1, 1), (100, 1)];
        let found = decode([sums(&[one, last]), sums(&[(1, 2), (100, 700)]), sums(&[(1, 0x3031)])]).unwrap();
        let expected = [(u64::MAX - 100, vec![0x31, 0x30], 2), (u64::MAX - 1, vec![0, 0], 700)];
        assert_eq!(found.len(), 2);
        for (found, (index, payload, payload_bytes)) in found.into_iter().zip(expected) {
            assert_eq!(found, Retrieved { index, payload, payload_bytes });
        }
        let nothing = || sums(&[]);
        assert_eq!(decode([nothing(), nothing(), nothing()]), Ok(vec![]));
        let refused = |columns| assert!(matches!(decode(columns), Err(OmrError::DamagedDigest(_))));
        // Nodes behind the range, none, and two of one; a message with a weight; more messages than there are.
        refused([sums(&[(101, 1)]), nothing(), nothing()]);
        refused([sums(&[(0, 1)]), nothing(), nothing()]);
        refused([sums(&[(t - 1, 1)]), nothing(), nothing()]);
        refused([sums(&[(7, 2)]), nothing(), nothing()]);
        refused([sums(&[(7, 2), (9, t - 1)]), nothing(), nothing()]);
        refused([sums(&[(7, 101)]), nothing(), nothing()]);
        refused([sums(&[(7, t - 1)]), nothing(), nothing()]);
        // Columns of messages that are not there, and digits that no bytes give.
        refused([nothing(), nothing(), sums(&[(3, 5)])]);
        refused([sums(&[one]), nothing(), sums(&[(2, 5)])]);
        refused([sums(&[one]), sums(&[(1, 2)]), sums(&[(1, 0x10000)])]);
        refused([sums(&[one]), sums(&[(1, 1)]), sums(&[(1, 0x100)])]);
        assert_eq!(
            decode([sums(&[(7, 64)]), nothing(), nothing()]),
            Err(OmrError::Overflow { capacity: 63 })
        );
        let mut stream = Seed::from([3; 32]).stream("test", &[]);
        for count in 0..=63 {
            let mut random = [(); 3].map(|()| {
                let mut sums = vec![0; 64];
                stream.uniform(&decoder.t, &mut sums);
                sums
            });
            random[0][0] = count;
            refused(random);
        }
    }
}
