//! What somebody can do who reads a board and has no address: nothing beyond chance, but for one thing, which the board
//! prevents. docs/detect.md, Copies.

use restante_clue::{Clue, ClueMaker, ClueParameters, ClueSecretKey};
use restante_ring::sample::{Seed, Stream};
use restante_wire::{
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};

const BOARD: BoardId = BoardId([1; 16]);
const PERIOD: Period = Period(20_000);

fn stream(purpose: &str) -> Stream {
    Seed::from([31; 32]).stream(purpose, &[])
}

fn recipient(parameters: ClueParameters, name: u64) -> ClueSecretKey {
    ClueSecretKey::new(parameters, &Seed::from([32; 32]).derive("test/recipient", &[name]))
}

/// A clue with the payload that it was made for.
struct Message {
    clue: Clue,
    payload: Hash,
}

impl Message {
    fn new(maker: &ClueMaker, stream: &mut Stream) -> Self {
        let mut payload = [0; 32];
        stream.bytes(&mut payload);
        let (draft, payload) = (maker.draft(PERIOD, stream), Hash(payload));
        let binding = Binding::new(&BOARD, &draft.bound_hash(), &payload);
        Self { clue: draft.bind(&binding), payload }
    }

    fn binding(&self) -> Binding {
        Binding::new(&BOARD, &self.clue.bound_hash(), &self.payload)
    }
}

fn messages(recipient: &ClueSecretKey, count: usize, purpose: &str) -> Vec<Message> {
    let (maker, mut stream) = (recipient.clue_key().prepare(), stream(purpose));
    (0..count).map(|_| Message::new(&maker, &mut stream)).collect()
}

/// Forgeries, each of which passes with the probability of a foreign clue if they are worth nothing.
struct Trials {
    parameters: ClueParameters,
    made: u32,
    near: u32,
    wide: u32,
}

impl Trials {
    fn new(parameters: ClueParameters) -> Self {
        Self { parameters, made: 0, near: 0, wide: 0 }
    }

    fn add(&mut self, victim: &ClueSecretKey, clue: &Clue, binding: &Binding) {
        let within =
            |limit: u32| victim.distances(clue, binding).iter().all(|x| x.unsigned_abs() <= u64::from(limit));
        self.made += 1;
        self.near += u32::from(victim.is_pertinent(clue, binding));
        self.wide += u32::from(within(self.parameters.modulus() / 16));
    }

    /// Too many that pass would be seen once in 10^9 runs, and so would distances that are not uniform: a sixty-fourth of all are
    /// expected in the square of half-width q/16.
    fn check(&self, what: &str) {
        let Self { parameters, made, near, wide } = self;
        let mean = f64::from(*made) * parameters.false_positive_rate();
        // The least count that Poisson's distribution exceeds with at most that probability.
        let (mut allowed, mut term, mut below) = (0u32, (-mean).exp(), (-mean).exp());
        while 1.0 - below > 1e-9 {
            allowed += 1;
            term *= mean / f64::from(allowed);
            below += term;
        }
        assert!(*near <= allowed, "{parameters}, {what}: {near} of {made} pass, expected {mean}");
        let side = f64::from(2 * (parameters.modulus() / 16) + 1) / f64::from(parameters.modulus());
        let expected = f64::from(*made) * side * side;
        let deviation = (f64::from(*wide) - expected) / expected.sqrt();
        assert!(
            deviation.abs() < 6.1,
            "{parameters}, {what}: {wide} of {made} in a square, expected {expected}"
        );
    }
}

fn moved(clue: &Clue, period: Period, by: [u32; 2]) -> Clue {
    let (parameters, q) = (*clue.parameters(), clue.parameters().modulus());
    let b = std::array::from_fn(|c| (clue.b()[c] + by[c]) % q);
    Clue::from_coefficients(parameters, period, clue.a(), b).expect("residues")
}

/// REVIEW P2, first half: b' moved within the range, in any message but its own.
#[test]
fn a_copied_clue_is_worth_nothing_in_another_message() {
    for parameters in ClueParameters::ALL {
        let (victim, q) = (recipient(parameters, 0), parameters.modulus());
        let [mut payloads, mut periods, mut boards] = [(); 3].map(|()| Trials::new(parameters));
        for message in messages(&victim, 256, "test/copied") {
            for (i, by) in [[0, 0], [1, 0], [0, q - 1], [q - 9, 14], [30, 30]].into_iter().enumerate() {
                let copy = moved(&message.clue, PERIOD, by);
                assert_eq!(copy.bound_hash(), message.clue.bound_hash());
                let other = Hash::of(&[message.payload.0.as_slice(), &[i as u8]].concat());
                payloads.add(&victim, &copy, &Binding::new(&BOARD, &copy.bound_hash(), &other));
                let elsewhere = BoardId([2 + i as u8; 16]);
                boards.add(&victim, &copy, &Binding::new(&elsewhere, &copy.bound_hash(), &message.payload));
                for period in [Period(19_999), Period(20_001)] {
                    let later = moved(&message.clue, period, by);
                    assert_ne!(later.bound_hash(), message.clue.bound_hash());
                    let binding = Binding::new(&BOARD, &later.bound_hash(), &message.payload);
                    periods.add(&victim, &later, &binding);
                }
            }
        }
        payloads.check("another payload");
        boards.check("another board");
        periods.check("another period");
    }
}

/// A forgery keeps the payload and period, and changes as little of a' as can be.
#[test]
fn a_clue_with_a_slightly_different_a_is_worth_nothing() {
    for parameters in ClueParameters::ALL {
        let victim = recipient(parameters, 1);
        let unit = 1 << parameters.dropped_bits();
        let mut trials = Trials::new(parameters);
        for message in messages(&victim, 64, "test/changed") {
            for place in (0..1024).step_by(127) {
                let mut a = message.clue.a().to_vec();
                a[place] = (a[place] + unit) % (parameters.modulus() - 1);
                let clue = Clue::from_coefficients(parameters, PERIOD, &a, *message.clue.b()).unwrap();
                trials.add(&victim, &clue, &Binding::new(&BOARD, &clue.bound_hash(), &message.payload));
            }
        }
        trials.check("one coefficient of a' changed by one");
    }
}

/// A combination of clues with integer coefficients.
fn combined(parameters: ClueParameters, terms: &[(i64, &Message)]) -> Clue {
    let q = i64::from(parameters.modulus());
    let sum = |of: &dyn Fn(&Clue) -> u32| {
        let total: i64 = terms.iter().map(|(factor, message)| factor * i64::from(of(&message.clue))).sum();
        total.rem_euclid(q) as u32
    };
    let a: Vec<u32> = (0..parameters.degree()).map(|i| sum(&|clue| clue.a()[i])).collect();
    let b = [0, 1].map(|c| sum(&|clue| clue.b()[c]));
    Clue::from_coefficients(parameters, PERIOD, &a, b).expect("residues")
}

/// REVIEW P2, second half: combinations with coefficients that add up to one, which used to keep the tag.
#[test]
fn sums_of_clues_are_worth_nothing() {
    for parameters in ClueParameters::ALL {
        let victim = recipient(parameters, 2);
        let known = messages(&victim, 1_202, "test/sums");
        for factors in [[1, 1, -1], [2, -1, 0], [3, -2, 0]] {
            let mut trials = Trials::new(parameters);
            for three in known.windows(3).step_by(3) {
                let terms: Vec<_> = factors.into_iter().zip(three).collect();
                let clue = combined(parameters, &terms);
                for payload in [three[0].payload, Hash::of(&three[0].payload.0)] {
                    trials.add(&victim, &clue, &Binding::new(&BOARD, &clue.bound_hash(), &payload));
                }
            }
            assert_eq!(trials.made, 800);
            trials.check(&format!("{factors:?}"));
        }
    }
}

/// Whoever knows a thousand clues of one recipient has more combinations, and no better ones.
#[test]
fn a_thousand_clues_of_one_recipient_are_worth_no_more_than_three() {
    let parameters = ClueParameters::STANDARD;
    let victim = recipient(parameters, 3);
    let known = messages(&victim, 1_000, "test/thousand");
    let mut stream = stream("test/choices");
    let mut trials = Trials::new(parameters);
    for number in 0..4_000u32 {
        // Of 3 to 9 clues, with signs that add up to one, which leaves their errors in the range.
        let mut places = [0; 18];
        stream.bytes(&mut places);
        let terms: Vec<(i64, &Message)> = places
            .chunks_exact(2)
            .take([3, 5, 7, 9][number as usize % 4])
            .enumerate()
            .map(|(i, place)| {
                let place = usize::from(u16::from_le_bytes([place[0], place[1]])) % known.len();
                ([1, -1][i % 2], &known[place])
            })
            .collect();
        let clue = combined(parameters, &terms);
        let payload = Hash::of(&number.to_le_bytes());
        trials.add(&victim, &clue, &Binding::new(&BOARD, &clue.bound_hash(), &payload));
    }
    trials.check("combinations of a thousand clues");
}

/// Payloads can be tried until the tag of a forgery agrees with that of the clues it was made from in one of the seven
/// places of h. The six others hide the tag as well as seven do.
#[test]
fn a_partial_collision_is_worth_nothing() {
    let parameters = ClueParameters::STANDARD;
    let (victim, q) = (recipient(parameters, 4), i64::from(parameters.modulus()));
    let known = messages(&victim, 122, "test/partial");
    let mut trials = Trials::new(parameters);
    for (number, three) in (0u64..).zip(known.windows(3)) {
        let clue = combined(parameters, &[(1, &three[0]), (1, &three[1]), (-1, &three[2])]);
        let h = three.iter().map(|message| parameters.binding_vector(&message.binding()));
        let h: Vec<[u32; 7]> = h.collect();
        let bound = clue.bound_hash();
        let binding = (0u64..)
            .map(|trial| Binding::new(&BOARD, &bound, &Hash::of(&(number << 32 | trial).to_le_bytes())))
            .find(|binding| {
                let found = parameters.binding_vector(binding)[0];
                let target = i64::from(h[0][0]) + i64::from(h[1][0]) - i64::from(h[2][0]);
                (i64::from(found) - target).rem_euclid(q) < 200
            });
        trials.add(&victim, &clue, &binding.unwrap());
    }
    assert_eq!(trials.made, 120);
    trials.check("a partial collision");
}

/// Why a draft makes one clue and is gone then: from two with one a', anybody has the difference of their tags without an error.
#[test]
fn two_clues_from_one_draw_would_give_an_equation_for_the_tags() {
    let parameters = ClueParameters::STANDARD;
    let victim = recipient(parameters, 6);
    let q = u64::from(parameters.modulus());
    let payloads = [Hash::of(b"one"), Hash::of(b"two")];
    // The same stream twice, as no sender has it.
    let [first, second] = payloads.map(|payload| {
        let draft = victim.clue_key().prepare().draft(PERIOD, &mut stream("test/one-draw"));
        let binding = Binding::new(&BOARD, &draft.bound_hash(), &payload);
        (draft.bind(&binding), parameters.binding_vector(&binding).map(u64::from))
    });
    assert_eq!(first.0.bound_hash(), second.0.bound_hash());
    for (c, row) in victim.tags().iter().enumerate() {
        let found = (u64::from(first.0.b()[c]) + q - u64::from(second.0.b()[c])) % q;
        let terms = row.iter().zip(first.1.iter().zip(second.1));
        let known = terms.fold(0, |sum, (&entry, (h, other))| (sum + u64::from(entry) * (h + q - other)) % q);
        assert_eq!(found, known);
    }
}

/// What is not promised: whoever has two addresses can try payloads until the tags of both lie close, and the one clue counts for
/// both. One payload in 46,000 will do for `short`, one in two million for `standard`.
#[test]
fn addresses_that_a_sender_has_can_share_a_clue_at_a_price() {
    let parameters = ClueParameters::SHORT;
    let (q, range) = (parameters.modulus(), parameters.range());
    let recipients = [recipient(parameters, 7), recipient(parameters, 8)];
    let zero = Clue::from_coefficients(parameters, PERIOD, &[0; 1024], [0; 2]).unwrap();
    let bound = zero.bound_hash();
    let mut shared = 0;
    for trial in 0..1u32 << 18 {
        let binding = Binding::new(&BOARD, &bound, &Hash::of(&trial.to_le_bytes()));
        let h = parameters.binding_vector(&binding);
        let tags = recipients.each_ref().map(|one| {
            one.tags().map(|row| {
                let sum: u64 = row.iter().zip(h).map(|(&x, h)| u64::from(x) * u64::from(h)).sum();
                (sum % u64::from(q)) as u32
            })
        });
        let gaps = [0, 1].map(|c| (tags[1][c] + q - tags[0][c]) % q);
        let close = gaps.iter().all(|&gap| gap <= 2 * range || q - gap <= 2 * range);
        if close {
            // Half way from one to the other.
            let half = gaps.map(|gap| if gap <= 2 * range { gap / 2 } else { q - (q - gap) / 2 });
            let b = [0, 1].map(|c| (tags[0][c] + half[c]) % q);
            let clue = moved(&zero, PERIOD, b);
            assert!(recipients.iter().all(|one| one.is_pertinent(&clue, &binding)));
            shared += 1;
        }
    }
    // Poisson with mean 5.6.
    assert!((1..=22).contains(&shared), "{shared}");
}

/// What remains: the same a' in the same message, with b' moved. Such copies are pertinent, and they all have the bound hash
/// of the original: a board, which takes each bound hash once, has no place for them.
#[test]
fn a_moved_clue_in_its_own_message_is_pertinent_and_a_duplicate_to_the_board() {
    for parameters in ClueParameters::ALL {
        let (victim, q) = (recipient(parameters, 5), parameters.modulus());
        let near = parameters.range() / 3;
        for message in messages(&victim, 64, "test/own") {
            let [x0, x1] = victim.distances(&message.clue, &message.binding());
            for by in [[1, 0], [0, q - 1], [near, q - near]] {
                let copy = moved(&message.clue, PERIOD, by);
                let signed =
                    by.map(|by| if by > q / 2 { i64::from(by) - i64::from(q) } else { i64::from(by) });
                assert_eq!(victim.distances(&copy, &message.binding()), [x0 + signed[0], x1 + signed[1]]);
                assert_eq!(copy.bound_hash(), message.clue.bound_hash());
            }
            assert!(victim.is_pertinent(&moved(&message.clue, PERIOD, [1, 0]), &message.binding()));
        }
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

/// Clues crafted to match everybody ("snake-eye"): a' so small that a' s is small for every s. Without an address they pass at the
/// rate of false positives; with one they can be aimed at its owner, as an honest clue can, and at nobody else.
#[test]
fn crafted_clues_match_nobody_but_whose_address_the_sender_has() {
    for parameters in ClueParameters::ALL {
        let recipients: Vec<_> = (100..164).map(|name| recipient(parameters, name)).collect();
        let q = parameters.modulus();
        let mut stream = stream("test/crafted");
        let (mut blind, mut aimed, mut hit) = (Trials::new(parameters), 0, 0);
        for (number, a) in crafted(&parameters, &mut stream).into_iter().enumerate() {
            let zero = Clue::from_coefficients(parameters, PERIOD, &a, [0; 2]).unwrap();
            let payload = Hash::of(&[number as u8]);
            let binding = Binding::new(&BOARD, &zero.bound_hash(), &payload);
            for b in [[0, 0], [1, 1], [q - 1, q - 1], [12_345, 678]] {
                let clue = moved(&zero, PERIOD, b);
                recipients.iter().for_each(|recipient| blind.add(recipient, &clue, &binding));
            }
            let h = parameters.binding_vector(&binding);
            for target in recipients.iter().step_by(7) {
                let tag = target.tags().map(|row| {
                    let sum: u64 = row.iter().zip(h).map(|(&x, h)| u64::from(x) * u64::from(h)).sum();
                    (sum % u64::from(q)) as u32
                });
                let clue = moved(&zero, PERIOD, tag);
                let matches = recipients.iter().filter(|one| one.is_pertinent(&clue, &binding)).count();
                assert!(matches <= 1, "{parameters}: {matches} recipients");
                aimed += 1;
                hit += u32::from(target.is_pertinent(&clue, &binding));
            }
        }
        blind.check("crafted");
        // All but the densest, whose a' s is not always small.
        assert!((aimed - 5..=aimed).contains(&hit), "{parameters}: {hit} of {aimed}");
    }
}
