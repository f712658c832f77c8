//! The dealer: splitting a point function into two keys.

use rand_core::CryptoRng;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, Zeroizing};

use crate::backend::{Backend, Conversion};
use crate::hash::{CONTROL_BIT, control_mask};
use crate::output::Group;
use crate::parameters::{MAX_DEPTH, Variant};
use crate::{DpfError, DpfKey, Output, Parameters};

/// Splits the function that is `message` at `point` and zero everywhere else into a key for each of two parties.
///
/// The shares of the parties at any other point combine to zero, at `point` to `message`: by XOR for
/// [`Bits`](crate::Bits) and [`Bytes`](crate::Bytes), by wrapping addition for [`Integers`](crate::Integers). Either key
/// alone is indistinguishable from random bits behind a public header, whatever point and message are.
///
/// Neither branches nor memory addresses depend on the point or the message. The only errors are a point outside the
/// domain and a message of the wrong length.
///
/// Source: `docs/fetch.md`, "Key generation".
pub fn generate<O: Output>(
    parameters: &Parameters<O>,
    point: u64,
    message: &O::Message,
    rng: &mut (impl CryptoRng + ?Sized),
) -> Result<[DpfKey<O>; 2], DpfError> {
    // Whether there is an error may be known.
    let outside = point >= parameters.domain();
    #[cfg(restante_ctgrind)]
    let outside = restante_ctgrind::declassified(outside);
    if outside {
        return Err(DpfError::PointOutside { domain: parameters.domain() });
    }
    parameters.output().check_message(message)?;
    let operations = Backend::best().operations();
    let variant = parameters.variant();

    // The seeds on the path, one per party. They differ in the control bit at every level.
    let mut roots = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *roots);
    let mut seeds = Zeroizing::new([0u128; 2]);
    for (seed, block) in seeds.iter_mut().zip(roots.as_chunks::<16>().0) {
        *seed = u128::from_le_bytes(*block);
    }
    seeds[1] = seeds[0] ^ (seeds[1] | CONTROL_BIT);
    let root_seeds = Zeroizing::new(*seeds);

    let trits = trits(parameters.leaf_of(point), parameters.depth());
    let mut levels = Zeroizing::new(Vec::with_capacity(parameters.depth()));
    let mut children = Zeroizing::new([0; 6]);
    for &trit in &trits[..parameters.depth()] {
        (operations.expand)(variant, &*seeds, &[0; 3], &mut *children);
        let on_path = [0, 1, 2].map(|child: u8| child.ct_eq(&trit));
        let word = correction_word(variant, &children, seeds[0] ^ seeds[1], on_path);
        let (ours, theirs) = children.split_at(3);
        let correction = select(&word, on_path);
        seeds[0] = select(ours, on_path) ^ (control_mask(seeds[0]) & correction);
        seeds[1] = select(theirs, on_path) ^ (control_mask(seeds[1]) & correction);
        levels.push(word);
    }

    let output_word = output_word(parameters, point, message, &seeds);
    Ok([0, 1].map(|party| DpfKey {
        parameters: *parameters,
        party,
        seed: root_seeds[usize::from(party)],
        levels: levels.clone(),
        output_word: output_word.clone(),
    }))
}

/// The correction word of a level: XORed onto the children of the party whose control bit is set, it makes the parties'
/// children equal where they leave the path. On the path they stay different, and opposite in the control bit.
fn correction_word(variant: Variant, children: &[u128; 6], offset: u128, on_path: [Choice; 3]) -> [u128; 3] {
    let differences = [children[0] ^ children[3], children[1] ^ children[4], children[2] ^ children[5]];
    let zero = 0u128;
    match variant {
        // Off the path: the difference. On it: the XOR of the other two, which is known to both parties anyway, with the
        // control bit set right. So but for its control bit the third word follows from the first two.
        Variant::Plain => {
            let all = differences[0] ^ differences[1] ^ differences[2];
            [0, 1, 2].map(|child| {
                let difference = differences[child];
                let body = u128::conditional_select(&difference, &(all ^ difference), on_path[child]);
                let on_path = u128::conditional_select(&0, &CONTROL_BIT, on_path[child]);
                (body & !CONTROL_BIT) | ((difference ^ on_path) & CONTROL_BIT)
            })
        }
        // The parties' difference on the path is the same at every level, the offset; its control bit is 1.
        Variant::HalfTree => {
            let first = differences[0] ^ u128::conditional_select(&zero, &offset, on_path[0]);
            let second = differences[1] ^ u128::conditional_select(&zero, &offset, on_path[1]);
            [first, second, first ^ second]
        }
    }
}

/// The correction word that turns the parties' different leaf outputs into shares of the message.
fn output_word<O: Output>(
    parameters: &Parameters<O>,
    point: u64,
    message: &O::Message,
    seeds: &[u128; 2],
) -> Zeroizing<Vec<u8>> {
    let mut word = Zeroizing::new(vec![0; parameters.leaf_bytes()]);
    let raw = Conversion::new(&word, Group::Xor, false);
    parameters.output().place(message, parameters.slot_of(point), &mut word);
    let row_bytes = raw.row_bytes();
    let mut pads = Zeroizing::new(vec![0; 2 * row_bytes]);
    (Backend::best().operations().convert)(&raw, seeds, &mut pads, false);
    let (ours, theirs) = pads.split_at(row_bytes);
    match crate::output::group::<O>() {
        Group::Xor => {
            for ((word, ours), theirs) in word.iter_mut().zip(ours).zip(theirs) {
                *word ^= ours ^ theirs;
            }
        }
        // Party 0 outputs pad + t W, party 1 the negation of that. Their control bits differ, so the difference of
        // the two t is 1 or -1, by which W is divided.
        Group::Add => {
            let negate = (control_mask(seeds[1])) as u64;
            let words = word.as_chunks_mut::<8>().0.iter_mut();
            let pads = ours.as_chunks::<8>().0.iter().zip(theirs.as_chunks::<8>().0);
            for (word, (ours, theirs)) in words.zip(pads) {
                let sum = u64::from_le_bytes(*word)
                    .wrapping_sub(u64::from_le_bytes(*ours))
                    .wrapping_add(u64::from_le_bytes(*theirs));
                *word = (sum ^ negate).wrapping_sub(negate).to_le_bytes();
            }
        }
    }
    parameters.clear_unused_output_bits(&mut word);
    word
}

/// The one of three blocks that is chosen.
fn select(blocks: &[u128], chosen: [Choice; 3]) -> u128 {
    let mut selected = 0;
    for (block, choice) in blocks.iter().zip(chosen) {
        selected.conditional_assign(block, choice);
    }
    selected
}

/// The ternary digits of a leaf's index, the most significant of `depth` digits first.
fn trits(leaf: u64, depth: usize) -> Zeroizing<[u8; MAX_DEPTH]> {
    let mut digits = Zeroizing::new([0; MAX_DEPTH]);
    let mut rest = leaf;
    for digit in digits[..depth].iter_mut().rev() {
        let quotient = divide_by_three(rest);
        *digit = (rest - 3 * quotient) as u8;
        rest = quotient;
    }
    rest.zeroize();
    digits
}

/// By multiplication with 2^65 / 3, rounded up: the time of a division instruction may depend on its operands.
fn divide_by_three(value: u64) -> u64 {
    ((u128::from(value) * 0xaaaa_aaaa_aaaa_aaab) >> 65) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn divides_by_three(value: u64) {
            prop_assert_eq!(divide_by_three(value), value / 3);
        }

        #[test]
        fn trits_are_ternary_digits(leaf in 0u64..3u64.pow(20)) {
            let value = trits(leaf, 21)[..21].iter().fold(0, |value, &digit| 3 * value + u64::from(digit));
            prop_assert_eq!(value, leaf);
            prop_assert!(trits(leaf, 21).iter().all(|&digit| digit < 3));
        }
    }

    #[test]
    fn divides_the_extremes_by_three() {
        for value in (0..10).chain(u64::MAX - 10..=u64::MAX) {
            assert_eq!(divide_by_three(value), value / 3);
        }
    }
}
