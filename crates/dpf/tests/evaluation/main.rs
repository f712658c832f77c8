//! Both parties' shares combine to the point function, and every way of evaluating gives the same shares.

#![allow(clippy::unwrap_used)] // In the helpers of tests as in the tests.

mod reference;

use chacha20::ChaCha20Rng;
use proptest::prelude::*;
use rand_core::SeedableRng;
use restante_dpf::{
    Backend, Bits, Bytes, DpfError, DpfKey, Evaluator, Integers, MAX_DOMAIN, Output, Parameters, Variant,
    generate,
};
use restante_wire::Encode;

const VARIANTS: [Variant; 2] = [Variant::Plain, Variant::HalfTree];

/// What the tests need to know of an output group.
trait Sample: Output<Element: PartialEq + std::fmt::Debug> {
    type Owned: AsMessage<Self>;
    fn message(self) -> Self::Owned;
    /// The elements that `points` outcomes fill.
    fn len(self, points: u64) -> usize;
    fn combine(ours: Self::Element, theirs: Self::Element) -> Self::Element;
    /// All outcomes of the point function.
    fn function(self, domain: u64, point: u64) -> Vec<Self::Element>;
    /// The elements of one outcome as the reference gives them.
    fn from_reference(bytes: Vec<u8>) -> Vec<Self::Element>;
    /// The outcome at `point - start` of a range's shares.
    fn pick(self, shares: &[Self::Element], index: u64) -> Vec<Self::Element>;
}

trait AsMessage<O: Output> {
    fn get(&self) -> &O::Message;
}

impl AsMessage<Bits> for bool {
    fn get(&self) -> &bool {
        self
    }
}

impl AsMessage<Bytes> for Vec<u8> {
    fn get(&self) -> &[u8] {
        self
    }
}

impl AsMessage<Integers> for u64 {
    fn get(&self) -> &u64 {
        self
    }
}

impl Sample for Bits {
    type Owned = bool;

    fn message(self) -> bool {
        true
    }

    fn len(self, points: u64) -> usize {
        points.div_ceil(8) as usize
    }

    fn combine(ours: u8, theirs: u8) -> u8 {
        ours ^ theirs
    }

    fn function(self, domain: u64, point: u64) -> Vec<u8> {
        let mut all = vec![0; self.len(domain)];
        all[(point / 8) as usize] = 1 << (point % 8);
        all
    }

    fn from_reference(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn pick(self, shares: &[u8], index: u64) -> Vec<u8> {
        vec![shares[(index / 8) as usize] >> (index % 8) & 1]
    }
}

impl Sample for Bytes {
    type Owned = Vec<u8>;

    fn message(self) -> Vec<u8> {
        (0..self.0).map(|i| (i % 251 + 1) as u8).collect()
    }

    fn len(self, points: u64) -> usize {
        points as usize * self.0 as usize
    }

    fn combine(ours: u8, theirs: u8) -> u8 {
        ours ^ theirs
    }

    fn function(self, domain: u64, point: u64) -> Vec<u8> {
        let mut all = vec![0; self.len(domain)];
        all[self.len(point)..self.len(point + 1)].copy_from_slice(&self.message());
        all
    }

    fn from_reference(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn pick(self, shares: &[u8], index: u64) -> Vec<u8> {
        shares[self.len(index)..self.len(index + 1)].to_vec()
    }
}

impl Sample for Integers {
    type Owned = u64;

    fn message(self) -> u64 {
        0xfedc_ba98_7654_3210
    }

    fn len(self, points: u64) -> usize {
        points as usize
    }

    fn combine(ours: u64, theirs: u64) -> u64 {
        ours.wrapping_add(theirs)
    }

    fn function(self, domain: u64, point: u64) -> Vec<u64> {
        let mut all = vec![0; domain as usize];
        all[point as usize] = self.message();
        all
    }

    fn from_reference(bytes: Vec<u8>) -> Vec<u64> {
        vec![u64::from_le_bytes(bytes.try_into().unwrap())]
    }

    fn pick(self, shares: &[u64], index: u64) -> Vec<u64> {
        vec![shares[index as usize]]
    }
}

fn keys<O: Sample>(parameters: &Parameters<O>, point: u64, seed: u8) -> [DpfKey<O>; 2] {
    let mut rng = ChaCha20Rng::from_seed([seed; 32]);
    generate(parameters, point, parameters.output().message().get(), &mut rng).unwrap()
}

fn all<O: Sample>(evaluator: &Evaluator<'_, O>, parameters: &Parameters<O>) -> Vec<O::Element> {
    let mut out = vec![O::Element::default(); parameters.output().len(parameters.domain())];
    evaluator.all(&mut out).unwrap();
    out
}

/// Full evaluation on every back end, combined, and each party's share of some outcomes against the reference.
fn check<O: Sample>(domain: u64, output: O, variant: Variant, point: u64) {
    let parameters = Parameters::new(domain, output, variant).unwrap();
    let keys = keys(&parameters, point, domain as u8);
    let [ours, theirs] = keys.each_ref().map(|key| all(&key.evaluator(), &parameters));
    let combined: Vec<_> = ours.iter().zip(&theirs).map(|(&a, &b)| O::combine(a, b)).collect();
    assert_eq!(combined, output.function(domain, point), "{parameters:?}, {point}");
    for (key, shares) in keys.iter().zip([ours, theirs]) {
        let bytes = key.to_bytes();
        assert_eq!(bytes.len(), parameters.key_bytes());
        let reference = reference::Key::parse(&bytes);
        for sample in [0, point.saturating_sub(1), point, (point + 1).min(domain - 1), domain / 2, domain - 1]
        {
            let expected = O::from_reference(reference.outcome(sample));
            assert_eq!(output.pick(&shares, sample), expected, "{parameters:?}, {sample}");
        }
        for backend in Backend::available() {
            assert!(all(&Evaluator::new(key, backend), &parameters) == shares, "{backend:?} {parameters:?}");
        }
    }
}

/// All points of tiny domains, the ends and the middle of others.
fn check_points<O: Sample>(domain: u64, output: O) {
    for variant in VARIANTS {
        match domain {
            0..=10 => (0..domain).for_each(|point| check(domain, output, variant, point)),
            _ => [0, domain / 2, domain - 1].iter().for_each(|&point| check(domain, output, variant, point)),
        }
    }
}

const SMALL_DOMAINS: [u64; 15] = [1, 2, 3, 4, 8, 9, 10, 26, 27, 28, 80, 81, 82, 242, 244];

#[test]
fn bit_shares_combine_to_the_point_function() {
    SMALL_DOMAINS.iter().for_each(|&domain| check_points(domain, Bits));
    [1023, 1024, 1025, 27 * 1024 - 1, 27 * 1024, 27 * 1024 + 1, 500_000]
        .iter()
        .for_each(|&domain| check_points(domain, Bits));
}

#[test]
fn byte_shares_combine_to_the_point_function() {
    for domain in SMALL_DOMAINS {
        for message_bytes in [0, 1, 15, 16, 17, 32, 48, 64, 65, 100, 128, 200, 256] {
            check_points(domain, Bytes(message_bytes));
        }
    }
    for (domain, message_bytes) in [
        (3, 4096),
        (28, 4096),
        (2187, 128),
        (2188, 200),
        (6560, 32),
        (8748, 32),
        (8749, 32),
        (20_000, 17),
        (2, 70_000),
    ] {
        check_points(domain, Bytes(message_bytes));
    }
}

#[test]
fn integer_shares_add_up_to_the_point_function() {
    SMALL_DOMAINS.iter().for_each(|&domain| check_points(domain, Integers));
    [16 * 81 - 1, 16 * 81, 16 * 81 + 1, 100_003].iter().for_each(|&domain| check_points(domain, Integers));
}

#[test]
fn a_false_bit_and_a_zero_are_shared_too() {
    let mut rng = ChaCha20Rng::from_seed([8; 32]);
    let parameters = Parameters::new(5000, Bits, Variant::HalfTree).unwrap();
    let keys = generate(&parameters, 99, &false, &mut rng).unwrap();
    let [ours, theirs] = keys.each_ref().map(|key| all(&key.evaluator(), &parameters));
    assert_eq!(ours, theirs);
    let parameters = Parameters::new(5000, Integers, Variant::HalfTree).unwrap();
    let keys = generate(&parameters, 99, &0, &mut rng).unwrap();
    let [ours, theirs] = keys.each_ref().map(|key| all(&key.evaluator(), &parameters));
    assert!(ours.iter().zip(&theirs).all(|(ours, theirs)| ours.wrapping_add(*theirs) == 0));
}

fn check_large<O: Sample>(domain: u64, output: O) {
    for variant in VARIANTS {
        let parameters = Parameters::new(domain, output, variant).unwrap();
        for point in [0, 1, domain / 3, domain / 2 + 7, domain - 2, domain - 1] {
            let keys = keys(&parameters, point, 17);
            let bytes = keys.each_ref().map(|key| key.to_bytes());
            let samples =
                [0, point.saturating_sub(1), point, (point + 1).min(domain - 1), domain / 5, domain - 1];
            for sample in samples {
                let mut shares = [0, 1].map(|_| vec![O::Element::default(); output.pick_len()]);
                for ((key, bytes), share) in keys.iter().zip(&bytes).zip(&mut shares) {
                    key.evaluator().point(sample, share).unwrap();
                    assert_eq!(*share, O::from_reference(reference::Key::parse(bytes).outcome(sample)));
                }
                let combined: Vec<_> =
                    shares[0].iter().zip(&shares[1]).map(|(&a, &b)| O::combine(a, b)).collect();
                let expected = if sample == point {
                    output.pick(&output.function(1, 0), 0)
                } else {
                    vec![O::Element::default(); output.pick_len()]
                };
                assert_eq!(combined, expected, "{parameters:?} {sample}");
            }
            // A range across the point, which starts at a multiple of eight.
            let start = point.saturating_sub(1000) / 8 * 8;
            let end = point.saturating_add(1000).min(domain);
            let [ours, theirs] = keys.each_ref().map(|key| {
                let mut out = vec![O::Element::default(); output.len(end - start)];
                key.evaluator().range(start..end, &mut out).unwrap();
                out
            });
            let combined: Vec<_> = ours.iter().zip(&theirs).map(|(&a, &b)| O::combine(a, b)).collect();
            assert_eq!(combined, output.function(end - start, point - start), "{parameters:?}");
        }
    }
}

trait PickLen: Sample {
    fn pick_len(self) -> usize {
        self.pick(&self.function(1, 0), 0).len()
    }
}
impl<O: Sample> PickLen for O {}

#[test]
fn large_domains_are_right_where_sampled() {
    for domain in
        [1 << 20, 3u64.pow(14), 3u64.pow(20) - 1, 3u64.pow(20), 3u64.pow(20) + 1, 1 << 63, MAX_DOMAIN]
    {
        check_large(domain, Bits);
        check_large(domain, Bytes(16));
        check_large(domain, Bytes(128));
        check_large(domain, Integers);
    }
}

fn check_range<O: Sample>(domain: u64, output: O, variant: Variant, point: u64, (start, end): (u64, u64)) {
    let parameters = Parameters::new(domain, output, variant).unwrap();
    let start = if O::KIND == Bits::KIND { start / 8 * 8 } else { start };
    let key = &keys(&parameters, point, 5)[1];
    for backend in Backend::available() {
        let evaluator = Evaluator::new(key, backend);
        let all = all(&evaluator, &parameters);
        let mut range = vec![O::Element::default(); output.len(end - start)];
        evaluator.range(start..end, &mut range).unwrap();
        for index in 0..end - start {
            assert_eq!(output.pick(&range, index), output.pick(&all, start + index), "{parameters:?}");
        }
        let mut blocks = Vec::new();
        let mut next = start;
        evaluator
            .blocks(start..end, |first, elements| {
                assert_eq!(first, next);
                assert!(first == start || first.is_multiple_of(parameters.outcomes_per_leaf()));
                blocks.extend_from_slice(elements);
                next = if O::KIND == Bits::KIND {
                    first + 8 * elements.len() as u64
                } else {
                    first + (elements.len() / output.pick_len().max(1)) as u64
                };
            })
            .unwrap();
        assert_eq!(blocks, range, "{parameters:?}");
        let mut one = vec![O::Element::default(); output.pick_len()];
        evaluator.point(point, &mut one).unwrap();
        assert_eq!(one, output.pick(&all, point));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn ranges_blocks_and_points_agree(
        domain in 1u64..3000,
        message_bytes in 0u32..300,
        ends in any::<(u64, u64)>(),
        point: u64,
        half: bool,
    ) {
        let variant = VARIANTS[usize::from(half)];
        let point = point % domain;
        let (a, b) = (ends.0 % (domain + 1), ends.1 % (domain + 1));
        let range = (a.min(b), a.max(b));
        check_range(domain, Bytes(message_bytes), variant, point, range);
        check_range(domain, Integers, variant, point, range);
        check_range(domain, Bits, variant, point, range);
    }

    #[test]
    fn ranges_of_many_leaves_agree(
        domain in 100_000u64..400_000,
        ends in any::<(u64, u64)>(),
        point: u64,
    ) {
        let (a, b) = (ends.0 % (domain + 1), ends.1 % (domain + 1));
        check_range(domain, Bits, Variant::HalfTree, point % domain, (a.min(b), a.max(b)));
    }
}

#[test]
fn wrong_requests_are_errors() {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let parameters = Parameters::new(100, Bytes(4), Variant::HalfTree).unwrap();
    assert_eq!(
        generate(&parameters, 100, &[0; 4], &mut rng).unwrap_err(),
        DpfError::PointOutside { domain: 100 }
    );
    assert_eq!(
        generate(&parameters, 99, &[0; 5], &mut rng).unwrap_err(),
        DpfError::MessageLength { found: 5, expected: 4 }
    );
    let [key, _] = generate(&parameters, 99, &[0; 4], &mut rng).unwrap();
    let evaluator = key.evaluator();
    assert_eq!(
        evaluator.all(&mut [0; 399]).unwrap_err(),
        DpfError::OutputLength { found: 399, expected: 400 }
    );
    assert_eq!(
        evaluator.range(90..101, &mut [0; 44]).unwrap_err(),
        DpfError::RangeOutside { start: 90, end: 101, domain: 100 }
    );
    #[expect(clippy::reversed_empty_ranges)]
    let backwards = 9..3;
    assert!(evaluator.blocks(backwards, |_, _| unreachable!()).is_err());
    assert!(evaluator.point(100, &mut [0; 4]).is_err());
    assert!(evaluator.point(0, &mut [0; 3]).is_err());
    assert_eq!(evaluator.range(50..50, &mut []), Ok(()));

    let parameters = Parameters::new(100, Bits, Variant::HalfTree).unwrap();
    let [key, _] = generate(&parameters, 99, &true, &mut rng).unwrap();
    let evaluator = key.evaluator();
    assert_eq!(evaluator.range(4..12, &mut [0; 1]).unwrap_err(), DpfError::RangeUnaligned { start: 4 });
    // What the last byte holds beyond the range is zero, however the range ends.
    let mut bits = [0xff; 2];
    evaluator.range(88..99, &mut bits).unwrap();
    assert_eq!(bits[1] >> 3, 0);
}

#[test]
fn output_memory_may_have_any_alignment_and_size() {
    // Large enough for the stores that bypass the caches.
    let parameters = Parameters::new(300_000, Bytes(32), Variant::HalfTree).unwrap();
    let [key, _] = keys(&parameters, 7, 3);
    let expected = all(&key.evaluator(), &parameters);
    for backend in Backend::available() {
        let mut memory = vec![0; expected.len() + 64];
        for offset in [0, 1, 8, 16, 24, 32, 48] {
            let out = &mut memory[offset..][..expected.len()];
            Evaluator::new(&key, backend).all(out).unwrap();
            assert!(out == expected, "{backend:?} {offset}");
        }
    }
}
