//! Who a clue is pertinent to: always its addressee, hardly ever anybody else.

use restante_clue::{COORDINATES, Clue, ClueMaker, ClueParameters, ClueSecretKey};
use restante_ring::{
    Modulus,
    sample::{Seed, Stream},
};

fn recipients(parameters: ClueParameters, count: u64) -> Vec<ClueSecretKey> {
    let seed = Seed::from([11; 32]);
    (0..count).map(|index| ClueSecretKey::new(parameters, &seed.derive("test/recipient", &[index]))).collect()
}

fn stream(purpose: &str) -> Stream {
    Seed::from([12; 32]).stream(purpose, &[])
}

/// Makes 100,000 clues for 64 recipients and compares the distances with what `scripts/clue_range.py` prints.
fn check_pertinent_clues(parameters: ClueParameters, standard_deviation: f64) {
    let mut stream = stream("test/pertinent");
    let mut squares = 0.0;
    let mut count = 0u32;
    for recipient in recipients(parameters, 64) {
        let maker = recipient.clue_key().prepare();
        for _ in 0..1563 {
            let clue = maker.make(&mut stream);
            assert!(recipient.is_pertinent(&clue), "{parameters}: missed after {count} clues");
            squares += recipient.distances(&clue).map(|x| (x as f64).powi(2)).iter().sum::<f64>();
            count += 1;
        }
    }
    assert!(count >= 100_000);
    // The norms of a key's s and e change the variance of its clues by about 3.5 %, so that the mean over 64 keys is
    // off by 0.45 %, and its root by half of that.
    let measured = (squares / (COORDINATES as f64 * f64::from(count))).sqrt();
    let relative = (measured / standard_deviation - 1.0).abs();
    assert!(relative < 0.0125, "{parameters}: {measured}, not {standard_deviation}");
}

#[test]
fn no_pertinent_clue_is_missed_standard() {
    check_pertinent_clues(ClueParameters::STANDARD, 17.1400);
}

#[test]
fn no_pertinent_clue_is_missed_short() {
    check_pertinent_clues(ClueParameters::SHORT, 122.3564);
}

/// Tests 2^20 foreign clues. The rate for both coordinates is too small to be seen, but that of one coordinate is not,
/// nor is that of both being in a much wider range, which shows that they are independent.
fn check_foreign_clues(parameters: ClueParameters) {
    let q = f64::from(parameters.modulus());
    let range = i64::from(parameters.range());
    let wide = i64::from(parameters.modulus() / 64);
    let recipients = recipients(parameters, 1024);
    let addressee = ClueSecretKey::new(parameters, &Seed::from([13; 32]));
    let maker = addressee.clue_key().prepare();
    let mut stream = stream("test/foreign");
    let (mut near, mut both_near, mut both_wide) = ([0u32; COORDINATES], 0u32, 0u32);
    for _ in 0..1024 {
        let clue = maker.make(&mut stream);
        for recipient in &recipients {
            let distances = recipient.distances(&clue);
            (0..COORDINATES).for_each(|c| near[c] += u32::from(distances[c].abs() <= range));
            both_near += u32::from(recipient.is_pertinent(&clue));
            both_wide += u32::from(distances.iter().all(|x| x.abs() <= wide));
        }
    }
    let trials = f64::from(1 << 20);
    let check = |what, found: u32, limit: i64, coordinates| {
        let expected = trials * ((2 * limit + 1) as f64 / q).powi(coordinates);
        let deviation = (f64::from(found) - expected).abs() / expected.sqrt();
        assert!(deviation < 5.5, "{parameters}, {what}: {found}, expected {expected}");
    };
    near.into_iter().for_each(|found| check("one coordinate", found, range, 1));
    check("both in a wide range", both_wide, wide, 2);
    // Poisson with mean 0.11 for the one preset and 5.5 for the other.
    let mean = trials * parameters.false_positive_rate();
    assert!(f64::from(both_near) < 6.0 + 5.0 * mean, "{parameters}: {both_near} false positives");
}

#[test]
fn foreign_clues_pass_at_the_stated_rate_standard() {
    check_foreign_clues(ClueParameters::STANDARD);
}

#[test]
fn foreign_clues_pass_at_the_stated_rate_short() {
    check_foreign_clues(ClueParameters::SHORT);
}

#[test]
fn a_clue_matches_its_addressee_only() {
    for parameters in ClueParameters::ALL {
        let recipients = recipients(parameters, 64);
        let mut stream = stream("test/addressee");
        for (index, addressee) in recipients.iter().enumerate() {
            let clue = addressee.clue_key().prepare().make(&mut stream);
            for (other, recipient) in recipients.iter().enumerate() {
                assert_eq!(recipient.is_pertinent(&clue), other == index, "{parameters}: {index}, {other}");
            }
        }
    }
}

/// Clues crafted to match everybody ("snake-eye"): a' so small that a' s is small for every s.
///
/// An attacker knows every tag, so b' takes each recipient's tag, too, which matches that one recipient.
#[test]
fn crafted_clues_match_at_most_one_of_64_recipients() {
    for parameters in ClueParameters::ALL {
        let recipients = recipients(parameters, 64);
        let mut stream = stream("test/crafted");
        let mut found_by_tag = 0;
        for a in crafted(&parameters, &mut stream) {
            let mut coordinates =
                vec![[0; COORDINATES], [1; COORDINATES], [parameters.modulus() - 1; COORDINATES]];
            coordinates.push(uniform(&parameters, &mut stream).try_into().unwrap());
            coordinates.extend(recipients.iter().step_by(7).map(|recipient| *recipient.tag()));
            for (place, b) in coordinates.into_iter().enumerate() {
                let clue = Clue::from_coefficients(parameters, &a, b).unwrap();
                let matches = recipients.iter().filter(|recipient| recipient.is_pertinent(&clue)).count();
                assert!(matches <= 1, "{parameters}: {matches} recipients");
                found_by_tag += usize::from(place > 3 && matches == 1);
            }
        }
        // Without the tag these clues would match: all but the densest hit each tag that they were aimed at.
        let aimed = 20 * 10;
        assert!((aimed - 5..=aimed).contains(&found_by_tag), "{parameters}: {found_by_tag} of {aimed}");
    }
}

/// Zero, monomials with both signs, sparse and dense small polynomials.
fn crafted(parameters: &ClueParameters, stream: &mut Stream) -> Vec<Vec<u32>> {
    let (degree, q) = (parameters.degree(), parameters.modulus());
    let unit = 1 << parameters.dropped_bits();
    let mut crafted = vec![vec![0; degree]];
    for exponent in [0, 1, 2, 511, 512, 1023] {
        for value in [unit, q - unit] {
            let mut monomial = vec![0; degree];
            monomial[exponent] = value;
            crafted.push(monomial);
        }
    }
    for nonzero in [2, 7, 16] {
        let mut sparse = vec![0; degree];
        let mut places = vec![0; 2 * nonzero];
        stream.bytes(&mut places);
        for pair in places.chunks(2) {
            sparse[usize::from(u16::from_le_bytes([pair[0], pair[1]])) % degree] = unit;
        }
        crafted.push(sparse);
    }
    for _ in 0..4 {
        let mut small = vec![0; degree];
        stream.ternary(&mut small);
        let unit = i64::from(unit);
        crafted.push(small.iter().map(|value| (value * unit).rem_euclid(q.into()) as u32).collect());
    }
    crafted
}

fn uniform(parameters: &ClueParameters, stream: &mut Stream) -> Vec<u32> {
    let modulus = Modulus::new(parameters.modulus().into()).expect("q is prime");
    let mut values = vec![0; COORDINATES];
    stream.uniform(&modulus, &mut values);
    values
}

#[test]
fn clues_of_one_key_look_unrelated() {
    let recipient = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([14; 32]));
    let maker: ClueMaker = recipient.clue_key().prepare();
    let mut stream = stream("test/unrelated");
    let [first, second] = [maker.make(&mut stream), maker.make(&mut stream)];
    // Two uniform polynomials agree in about n / q coefficients.
    let same = first.a().iter().zip(second.a()).filter(|(x, y)| x == y).count();
    assert!(same < 8, "{same} equal coefficients");
    assert_ne!(first.b(), second.b());
}
