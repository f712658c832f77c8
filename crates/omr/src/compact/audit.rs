//! Phase 1 with the secrets in hand: each stage against plaintext arithmetic, with its noise. For tests, and for choosing
//! parameters.

use restante_bfv::{Leveled, PhaseNoise};
use restante_clue::BoundClue;
use restante_ring::sample::Seed;

use super::{
    CompactDetectionKey, CompactSecret, Detector, DigestRequest, Payload, PertinencyVector, PreparedKey,
    is_zero, range_check, slots::Slots,
};
use crate::OmrError;

/// The result of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageReport {
    /// The stage.
    pub name: &'static str,
    /// The level of its result.
    pub level: usize,
    /// The noise of its result.
    pub noise: PhaseNoise,
    /// Whether every slot holds what plaintext arithmetic modulo t gives.
    pub exact: bool,
}

/// Runs phase 1 on one block, messages 0 .., that have these distances from the recipient, and looks at every stage.
pub fn phase1(
    detector: &Detector,
    secret: &CompactSecret,
    key: &PreparedKey,
    clues: &[BoundClue<'_>],
    distances: &[[i64; 2]],
    seed: &Seed,
) -> (Vec<StageReport>, PertinencyVector) {
    let context = detector.context();
    let chain = context.circuit();
    let t = *chain.context().plaintext_plan().modulus();
    let slots = Slots::new(seed, 0, context.degree());
    let mut reports = Vec::new();
    let mut report = |name, ciphertext: &Leveled<u64>, expected: &dyn Fn(&[i64; 2]) -> u64| {
        let coefficients = secret.circuit().decrypt_leveled(chain, ciphertext);
        let values = chain.context().encoder().coefficients_to_slots(coefficients);
        let mut messages = slots.of(0..distances.len()).iter().zip(distances);
        let exact = messages.all(|(&slot, distances)| values[slot as usize] == expected(distances));
        let noise = secret.circuit().leveled_noise(chain, ciphertext);
        reports.push(StageReport { name, level: ciphertext.level(), noise, exact });
    };
    let range = u64::from(context.parameters().clue.range());
    let vanishing = |x: i64| {
        let y = t.mul(t.from_signed(x), t.from_signed(x));
        (0..=range).fold(1, |product, i| t.mul(product, t.sub(y, i * i)))
    };
    let joined = |x: &[i64; 2]| is_zero::form(&t, x.map(vanishing));
    let x = detector.affine(&[key], clues, &slots).remove(0);
    report("distance 0", &x[0], &|x| t.from_signed(x[0]));
    report("distance 1", &x[1], &|x| t.from_signed(x[1]));
    let checks = x.each_ref().map(|x| range_check::check(context, key, x));
    report("range check 0", &checks[0], &|x| vanishing(x[0]));
    report("range check 1", &checks[1], &|x| vanishing(x[1]));
    let z = is_zero::join(context, key, &checks);
    report("join", &z, &joined);
    let mut exponent = 2;
    let bits = is_zero::is_zero_watched(context, key, &z, |power| {
        report("power", power, &|x| t.pow(joined(x), exponent));
        exponent = if exponent == 2 { 3 } else { 2 * exponent };
    });
    report("zero test", &bits, &|x| u64::from(joined(x) == 0));
    let blocks = vec![context.pertinency().adopt(bits, 0)];
    (
        reports,
        PertinencyVector {
            parameters: context.id(),
            first: 0,
            count: clues.len() as u64,
            key: key.id(),
            seed: seed.clone(),
            blocks,
        },
    )
}

/// The bits of a pertinency vector, block after block, and the noise of each block.
pub fn pertinent(secret: &CompactSecret, vector: &PertinencyVector) -> (Vec<bool>, Vec<PhaseNoise>) {
    let chain = secret.context().pertinency();
    let mut bits = Vec::new();
    let noise = vector.blocks.iter().zip(0..).map(|(block, index)| {
        let coefficients = secret.pertinency().decrypt_leveled(chain, block);
        let slots = chain.context().encoder().coefficients_to_slots(coefficients);
        let places = Slots::new(&vector.seed, index, slots.len());
        bits.extend(places.of(0..slots.len()).iter().map(|&slot| slots[slot as usize] == 1));
        secret.pertinency().leveled_noise(chain, block)
    });
    let noise = noise.collect();
    bits.truncate(vector.count as usize);
    (bits, noise)
}

/// The noise of a digest's ciphertexts where it is largest: packed, and not yet switched to the digest's ring.
pub fn packed(
    detector: &Detector,
    secret: &CompactSecret,
    key: &CompactDetectionKey,
    vector: &PertinencyVector,
    request: &DigestRequest,
    payloads: &[&[u8]],
) -> Result<Vec<PhaseNoise>, OmrError> {
    let chain = secret.context().packing();
    let (compression, sums) = detector.packed(
        &[key],
        &[&[vector]],
        request,
        Payload::source(request.range.start, payloads),
        |_| (),
    )?;
    let sums = sums.into_iter().flatten().flatten();
    let noise = sums.map(|mut sum| {
        compression.fold(key, &mut sum);
        secret.packing().leveled_noise(chain, &sum)
    });
    Ok(noise.collect())
}

impl StageReport {
    /// The largest value at a root, in units of what the level is longer by than the next one: what `failure` follows.
    pub fn at_roots(&self, context: &super::CompactContext) -> Option<f64> {
        let bits = super::failure::level_bits(context);
        let unit = bits.get(self.level)?;
        Some((self.noise.root_bits + (context.degree() as f64).log2() / 2.0 - unit).exp2())
    }
}

/// log2 of the largest value at a root from which squaring returns with ease: half of what it would grow from.
pub fn stable_root_bits(context: &super::CompactContext) -> f64 {
    let bits: Vec<f64> =
        (0..context.circuit().levels()).map(|level| context.circuit().basis(level).log2()).collect();
    let shortest = bits.windows(2).map(|pair| pair[0] - pair[1]).fold(f64::INFINITY, f64::min);
    shortest - (context.degree() as f64).log2() / 2.0 - 1.0
}

#[cfg(test)]
mod tests {
    use restante_clue::{ClueParameters, ClueSecretKey};
    use restante_ring::Backend;
    use restante_wire::binding::Binding;

    use super::*;
    use crate::compact::{CompactContext, CompactParameters, columns};

    /// Payloads are what senders choose. The largest plaintexts that there are, shaped after a complex root by somebody who knows every slot, are
    /// sqrt(3) times as long as random ones, and so is what products add to the noise: less than one bit.
    #[test]
    fn hostile_payloads_add_less_than_a_bit_of_noise() {
        let context = CompactContext::new(
            CompactParameters::insecure(ClueParameters::STANDARD).unwrap(),
            Backend::best(),
        )
        .unwrap();
        let degree = context.degree();
        let seed = Seed::from([5; 32]);
        let clue = ClueSecretKey::new(ClueParameters::STANDARD, &seed);
        let secret = CompactSecret::generate(&context, &seed, &clue).unwrap();
        let key = PreparedKey::new(secret.detection_key().unwrap());
        let detector = Detector::new(&context).unwrap();
        let clues = vec![vec![0; context.parameters().clue.clue_bytes()]; degree];
        let binding = Binding([0; 32]);
        let clues: Vec<_> = clues.iter().map(|bytes| BoundClue { bytes, binding }).collect();
        let vector = detector.pertinency(&[&key], 0, &clues, &seed, |_| ()).unwrap().remove(0);
        let request = DigestRequest { range: 0..degree as u64, capacity: 50, payload_bytes: 22 };
        let slots = Slots::new(&seed, 0, degree);
        let encoder = context.circuit().context().encoder();
        let shaped = |turns: usize| {
            let coefficients = (0..degree).map(|k| {
                let angle = std::f64::consts::PI * (k * turns) as f64 / degree as f64;
                if angle.cos() > 0.0 { 393_216 } else { 393_217 }
            });
            encoder.coefficients_to_slots(coefficients.collect())
        };
        let mut random = vec![0; degree];
        seed.stream("test", &[]).uniform(encoder.plan().modulus(), &mut random);
        let noise = |values: Vec<u64>| {
            let payloads: Vec<Vec<u8>> = slots
                .of(0..degree)
                .iter()
                .map(|&slot| {
                    let digit = values[slot as usize] as u32;
                    // The highest of nine digits stays zero: not all that are below t have room there.
                    let digits = [1, 22].into_iter().chain([digit; 8]).chain([0]).collect::<Vec<_>>();
                    columns::read(22, &digits).unwrap().1
                })
                .collect();
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            let noise = packed(&detector, &secret, key.key(), &vector, &request, &payloads).unwrap();
            (noise[0].deviation_bits, noise[0].max_bits)
        };
        let honest = noise(random);
        for turns in [1, 3, degree / 2 + 1] {
            let hostile = noise(shaped(turns));
            println!("{honest:?} {hostile:?}");
            assert!(hostile.0 < honest.0 + 1.0 && hostile.1 < honest.1 + 2.0, "{honest:?} {hostile:?}");
        }
    }
}
