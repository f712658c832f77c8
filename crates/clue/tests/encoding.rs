//! Encoded clues and clue keys: exact sizes, one encoding for each value, everything else refused.

use proptest::prelude::*;
use restante_clue::{
    COORDINATES, Clue, ClueError, ClueKey, ClueParameters, ClueSecretKey, bound_part, unpack_coefficients,
};
use restante_ring::sample::Seed;
use restante_wire::{
    Decode, Encode, WireError,
    binding::{Binding, Period},
    merkle::Hash,
};

fn key(parameters: ClueParameters) -> ClueSecretKey {
    ClueSecretKey::new(parameters, &Seed::from([21; 32]))
}

const PERIOD: Period = Period(20_000);
const BINDING: Binding = Binding([23; 32]);

fn clue(parameters: ClueParameters) -> Clue {
    let maker = key(parameters).clue_key().prepare();
    maker.draft(PERIOD, &mut Seed::from([22; 32]).stream("test", &[])).bind(&BINDING)
}

/// Bits `first..first + width` of the stream whose bit k is bit k mod 8 of byte k / 8.
fn bits(bytes: &[u8], first: usize, width: usize) -> u32 {
    (0..width).map(|i| u32::from(bytes[(first + i) / 8] >> ((first + i) % 8) & 1) << i).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn clues_read_back(
        short: bool,
        period: u32,
        a in proptest::collection::vec(prop_oneof![0u32..786_433, 786_400u32..786_433, 0u32..20], 1024),
        b in [0u32..786_433, 0u32..786_433],
    ) {
        let parameters = ClueParameters::ALL[usize::from(short)];
        let clue = Clue::from_coefficients(parameters, Period(period), &a, b).unwrap();
        let bytes = clue.to_bytes();
        prop_assert_eq!(bytes.len(), parameters.clue_bytes());
        prop_assert_eq!(&Clue::from_bytes(&parameters, &bytes).unwrap(), &clue);
        let mut unpacked = vec![7; 1024];
        prop_assert_eq!(unpack_coefficients(&parameters, &bytes, &mut unpacked).unwrap(), (Period(period), b));
        prop_assert_eq!(unpacked.as_slice(), clue.a());
        let bound = bound_part(&parameters, &bytes).unwrap();
        prop_assert_eq!(bound.len(), parameters.bound_bytes());
        prop_assert_eq!(clue.bound_hash(), Hash::of(bound));
        // The documented layout and rounding.
        prop_assert_eq!(bits(&bytes, 0, 32), period);
        let bytes = &bytes[4..];
        let width = 20 - parameters.dropped_bits() as usize;
        for (i, (&used, &given)) in clue.a().iter().zip(&a).enumerate() {
            prop_assert_eq!(bits(bytes, i * width, width) << parameters.dropped_bits(), used);
            let off = i64::from(used) - i64::from(given);
            let half = (1 << parameters.dropped_bits()) / 2;
            prop_assert!((1 - half..=half).contains(&off) || off == 0, "{} became {}", given, used);
            prop_assert!(used < parameters.modulus());
        }
        for (c, &value) in b.iter().enumerate() {
            prop_assert_eq!(bits(bytes, 1024 * width + 20 * c, 20), value);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_reencode_to_themselves(short: bool, mut bytes in proptest::collection::vec(any::<u8>(), 2569), mask in 0u8..2) {
        let parameters = ClueParameters::ALL[usize::from(short)];
        bytes.truncate(parameters.clue_bytes());
        if mask == 1 {
            // Clearing the top two bits of each value makes all of them residues.
            bytes.iter_mut().for_each(|byte| *byte &= 0x33);
        }
        match Clue::from_bytes(&parameters, &bytes) {
            Ok(clue) => prop_assert_eq!(clue.to_bytes(), bytes),
            Err(error) => {
                prop_assert_eq!(mask, 0);
                let out_of_range = matches!(error, WireError::OutOfRange { .. });
                prop_assert!(out_of_range, "{}", error);
            }
        }
    }
}

#[test]
fn clues_and_keys_of_any_other_length_are_refused() {
    for parameters in ClueParameters::ALL {
        let bytes = clue(parameters).to_bytes();
        let mut a = vec![0; 1024];
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            assert!(matches!(Clue::from_bytes(&parameters, cut), Err(WireError::Truncated { .. })));
            assert!(unpack_coefficients(&parameters, cut, &mut a).is_err());
            let error = ClueError::ClueBytes { found: length, expected: bytes.len() };
            assert_eq!(bound_part(&parameters, cut), Err(error));
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(
            Clue::from_bytes(&parameters, &longer),
            Err(WireError::Trailing { what: "clue", left: 1 })
        );
        assert!(unpack_coefficients(&parameters, &longer, &mut a).is_err());
        assert!(bound_part(&parameters, &longer).is_err());
        assert_eq!(
            unpack_coefficients(&parameters, &bytes, &mut a[1..]),
            Err(ClueError::Length { found: 1023, expected: 1024 })
        );

        let bytes = key(parameters).clue_key().to_bytes();
        assert_eq!(bytes.len(), 2627);
        for length in 0..bytes.len() {
            assert!(ClueKey::from_bytes(&parameters, &bytes[..length]).is_err());
        }
        assert!(ClueKey::from_bytes(&parameters, &[bytes.as_slice(), &[0]].concat()).is_err());
    }
}

#[test]
fn a_clue_for_other_parameters_is_refused() {
    let [standard, short] = ClueParameters::ALL;
    assert!(Clue::from_bytes(&short, &clue(standard).to_bytes()).is_err());
    assert!(Clue::from_bytes(&standard, &clue(short).to_bytes()).is_err());
}

#[test]
fn values_that_are_no_residues_are_refused() {
    let parameters = ClueParameters::STANDARD;
    let q = parameters.modulus();
    let mut a = vec![0; 1024];
    let error = ClueError::Coefficient { value: q, modulus: q };
    for place in 0..COORDINATES {
        let mut b = [q - 1; COORDINATES];
        assert!(Clue::from_coefficients(parameters, PERIOD, &a, b).is_ok());
        b[place] = q;
        assert_eq!(Clue::from_coefficients(parameters, PERIOD, &a, b), Err(error.clone()));
    }
    a[1023] = q;
    assert_eq!(Clue::from_coefficients(parameters, PERIOD, &a, [0; COORDINATES]), Err(error));
    let error = ClueError::Length { found: 1022, expected: 1024 };
    assert_eq!(Clue::from_coefficients(parameters, PERIOD, &a[..1022], [0; COORDINATES]), Err(error));
}

#[test]
fn keys_follow_from_their_seed_and_read_back() {
    for parameters in ClueParameters::ALL {
        let (first, again) = (key(parameters), key(parameters));
        assert_eq!(first.clue_key(), again.clue_key());
        assert_eq!(first.secret_coefficients(), again.secret_coefficients());
        let read = ClueKey::from_bytes(&parameters, &first.clue_key().to_bytes()).unwrap();
        assert_eq!(&read, first.clue_key());
        let clue = read.prepare().draft(PERIOD, &mut Seed::from([23; 32]).stream("test", &[])).bind(&BINDING);
        assert!(first.is_pertinent(&clue, &BINDING));

        // b - a s is the error: at most 4 in magnitude, and not always zero.
        let (a, b, s) = (read.a(), read.b(), first.secret_coefficients());
        let q = i64::from(parameters.modulus());
        let mut errors = 0;
        for (k, &b) in b.iter().enumerate() {
            let sum: i64 = (0..1024)
                .map(|i| {
                    let (j, sign) = if i <= k { (k - i, 1) } else { (1024 + k - i, -1) };
                    sign * i64::from(a[j]) * s[i]
                })
                .sum();
            let error = (i64::from(b) - sum).rem_euclid(q);
            let error = if error > q / 2 { error - q } else { error };
            assert!(error.abs() <= 4, "coefficient {k}: {error}");
            errors += usize::from(error != 0);
        }
        // The discrete Gaussian with sigma 0.5 is zero with probability 0.787.
        assert!((140..300).contains(&errors), "{errors} non-zero errors");
    }
    let other = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([24; 32]));
    let key = key(ClueParameters::STANDARD);
    assert!(other.tags().as_flattened().iter().zip(key.tags().as_flattened()).all(|(x, y)| x != y));
    assert_ne!(other.secret_coefficients(), key.secret_coefficients());
    assert_ne!(other.clue_key().a(), key.clue_key().a());
}

#[test]
fn debug_output_hides_the_secret() {
    let text = format!("{:?}", key(ClueParameters::STANDARD));
    assert!(!text.contains("secret:") && !text.contains("-1"), "{text}");
    let key = key(ClueParameters::STANDARD);
    let text = format!("{:?}", key.clue_key());
    let hidden = key.tags().as_flattened().iter().all(|entry| !text.contains(&format!("[{entry}, ")));
    assert!(hidden && text.contains("Tags(..)"), "whoever has T can make clues");
    let draft = key.clue_key().prepare().draft(PERIOD, &mut Seed::from([22; 32]).stream("test", &[]));
    assert!(format!("{draft:?}").contains("b: [0, 0]"), "b' without its tag, and b' with it, are the tag");
}
