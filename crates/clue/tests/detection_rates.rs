//! Who a clue is pertinent to: always its addressee, hardly ever anybody else.

use restante_clue::{COORDINATES, Clue, ClueMaker, ClueParameters, ClueSecretKey};
use restante_ring::sample::{Seed, Stream};
use restante_wire::{
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};

fn recipients(parameters: ClueParameters, count: u64) -> Vec<ClueSecretKey> {
    let seed = Seed::from([11; 32]);
    (0..count).map(|index| ClueSecretKey::new(parameters, &seed.derive("test/recipient", &[index]))).collect()
}

fn stream(purpose: &str) -> Stream {
    Seed::from([12; 32]).stream(purpose, &[])
}

/// A clue for some message.
fn make(maker: &ClueMaker, stream: &mut Stream) -> (Clue, Binding) {
    let mut payload = [0; 32];
    stream.bytes(&mut payload);
    let draft = maker.draft(Period(20_000), stream);
    let binding = Binding::new(&BoardId([1; 16]), &draft.bound_hash(), &Hash(payload));
    (draft.bind(&binding), binding)
}

/// Makes 100,000 clues for 64 recipients and compares the distances with what `scripts/clue_range.py` prints.
fn check_pertinent_clues(parameters: ClueParameters, standard_deviation: f64) {
    let mut stream = stream("test/pertinent");
    let mut squares = 0.0;
    let mut count = 0u32;
    for recipient in recipients(parameters, 64) {
        let maker = recipient.clue_key().prepare();
        for _ in 0..1563 {
            let (clue, binding) = make(&maker, &mut stream);
            assert!(recipient.is_pertinent(&clue, &binding), "{parameters}: missed after {count} clues");
            squares += recipient.distances(&clue, &binding).map(|x| (x as f64).powi(2)).iter().sum::<f64>();
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
        let (clue, binding) = make(&maker, &mut stream);
        for recipient in &recipients {
            let distances = recipient.distances(&clue, &binding);
            (0..COORDINATES).for_each(|c| near[c] += u32::from(distances[c].abs() <= range));
            both_near += u32::from(recipient.is_pertinent(&clue, &binding));
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
            let (clue, binding) = make(&addressee.clue_key().prepare(), &mut stream);
            for (other, recipient) in recipients.iter().enumerate() {
                assert_eq!(
                    recipient.is_pertinent(&clue, &binding),
                    other == index,
                    "{parameters}: {index}, {other}"
                );
            }
        }
    }
}

#[test]
fn clues_of_one_key_look_unrelated() {
    let recipient = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([14; 32]));
    let maker: ClueMaker = recipient.clue_key().prepare();
    let mut stream = stream("test/unrelated");
    let [(first, _), (second, _)] = [make(&maker, &mut stream), make(&maker, &mut stream)];
    // Two uniform polynomials agree in about n / q coefficients.
    let same = first.a().iter().zip(second.a()).filter(|(x, y)| x == y).count();
    assert!(same < 8, "{same} equal coefficients");
    assert_ne!(first.b(), second.b());
}
