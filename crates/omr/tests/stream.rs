//! The stream digest with its real parameters, against the test in the clear.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::LazyLock;

use restante_clue::{BoundClue, Clue, ClueMaker, ClueParameters, ClueSecretKey};
use restante_omr::{
    OmrError,
    stream::{
        BLOCK, Decoder, DetectionKey, Detector, PreparedKey, PublicSeed, RecipientSecret, StreamContext,
        StreamDigest, StreamParameters,
    },
};
use restante_ring::{
    Backend,
    sample::{Seed, Stream},
};
use restante_scan::Runner;
use restante_wire::{
    Encode, Envelope, Kind, WireError,
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};

const PERIOD: Period = Period(20_000);

/// An encoded clue with its binding.
struct Message {
    clue: Clue,
    bytes: Vec<u8>,
    binding: Binding,
}

impl Message {
    fn new(clue: Clue, payload: u64) -> Self {
        let binding = binding(&clue.bound_hash(), payload);
        Self { bytes: clue.to_bytes(), clue, binding }
    }

    /// An honest one.
    fn made(maker: &ClueMaker, stream: &mut Stream, payload: u64) -> Self {
        let draft = maker.draft(PERIOD, stream);
        let binding = binding(&draft.bound_hash(), payload);
        Self::new(draft.bind(&binding), payload)
    }

    /// One of no honest sender.
    fn crafted(a: &[u32], b: [u32; 2]) -> Self {
        Self::new(Clue::from_coefficients(ClueParameters::STANDARD, PERIOD, a, b).unwrap(), 0)
    }

    /// The same clue but for b'.
    fn moved(&self, by: [u32; 2], payload: u64) -> Self {
        let parameters = *self.clue.parameters();
        let b = [0, 1].map(|c| (self.clue.b()[c] + by[c]) % parameters.modulus());
        Self::new(Clue::from_coefficients(parameters, PERIOD, self.clue.a(), b).unwrap(), payload)
    }
}

fn binding(bound: &Hash, payload: u64) -> Binding {
    Binding::new(&BoardId([1; 16]), bound, &Hash::of(&payload.to_le_bytes()))
}

fn views(messages: &[Message]) -> Vec<BoundClue<'_>> {
    messages.iter().map(|message| BoundClue { bytes: &message.bytes, binding: message.binding }).collect()
}

/// A sum of clues with integer factors, with a payload that it was not made for.
fn combined(terms: &[(i64, &Message)], payload: u64) -> Message {
    let parameters = ClueParameters::STANDARD;
    let q = i64::from(parameters.modulus());
    let sum = |of: &dyn Fn(&Clue) -> u32| {
        let total: i64 = terms.iter().map(|(factor, message)| factor * i64::from(of(&message.clue))).sum();
        total.rem_euclid(q) as u32
    };
    let a: Vec<u32> = (0..parameters.degree()).map(|i| sum(&|clue| clue.a()[i])).collect();
    let b = [0, 1].map(|c| sum(&|clue| clue.b()[c]));
    Message::new(Clue::from_coefficients(parameters, PERIOD, &a, b).unwrap(), payload)
}

struct Recipient {
    clue: ClueSecretKey,
    maker: ClueMaker,
    secret: RecipientSecret,
    key: DetectionKey,
}

impl Recipient {
    fn new(context: &StreamContext, name: u8) -> Self {
        let seed = Seed::from([name; 32]);
        let clue = ClueSecretKey::new(context.parameters().clue, &seed.derive("clue", &[]));
        let secret = RecipientSecret::generate(context, &seed.derive("detection", &[]), &clue).unwrap();
        let key = secret.detection_key().unwrap();
        Self { maker: clue.clue_key().prepare(), clue, secret, key }
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(&self.secret).unwrap()
    }
}

fn context(clue: ClueParameters, backend: Backend) -> StreamContext {
    StreamContext::new(StreamParameters::new(clue).unwrap(), backend).unwrap()
}

static CONTEXT: LazyLock<StreamContext> =
    LazyLock::new(|| context(ClueParameters::STANDARD, Backend::best()));
static RECIPIENTS: LazyLock<Vec<Recipient>> =
    LazyLock::new(|| (0..3).map(|name| Recipient::new(&CONTEXT, name)).collect());

/// Clues for recipients by turns; every third message is for nobody that is here.
fn messages(recipients: &[Recipient], count: usize) -> Vec<Message> {
    let stranger =
        ClueSecretKey::new(*recipients[0].clue.parameters(), &Seed::from([99; 32])).clue_key().prepare();
    let mut stream = Seed::from([77; 32]).stream("test/clues", &[]);
    (0..count)
        .map(|index| {
            let maker = match index % 3 {
                0 => &stranger,
                _ => &recipients[index / 3 % recipients.len()].maker,
            };
            Message::made(maker, &mut stream, index as u64)
        })
        .collect()
}

/// The seed of the random factors.
fn seed() -> Seed {
    Seed::from([55; 32])
}

fn detector_for(context: &StreamContext) -> Detector {
    Detector::new(context).unwrap()
}

/// Distances from a digest are exactly those in the clear, for every message, and so are the indices.
fn check_exact(context: &StreamContext, recipients: &[Recipient], count: usize, first: u64) {
    check_exact_for(context, recipients, &messages(recipients, count), first);
}

fn check_exact_for(context: &StreamContext, recipients: &[Recipient], messages: &[Message], first: u64) {
    let count = messages.len();
    let keys: Vec<_> = recipients.iter().map(|recipient| PreparedKey::new(&recipient.key)).collect();
    let digests = detector_for(context).detect(&keys, first, &views(messages), &seed()).unwrap();
    assert_eq!(digests.len(), recipients.len());
    for (recipient, digest) in recipients.iter().zip(&digests) {
        let file = digest.to_file(context);
        assert_eq!(file.len(), StreamDigest::file_bytes(context, count as u64));
        let digest = StreamDigest::from_file(context, &file).unwrap();
        assert_eq!((digest.first(), digest.count()), (first, count as u64));
        let distances = recipient.decoder().distances(&digest).unwrap();
        let expected = messages.iter().map(|one| recipient.clue.distances(&one.clue, &one.binding));
        assert_eq!(*distances, expected.collect::<Vec<_>>());
        let pertinent = recipient.decoder().pertinent(&digest).unwrap();
        let expected: Vec<_> = (first..)
            .zip(messages)
            .filter(|(_, one)| recipient.clue.is_pertinent(&one.clue, &one.binding))
            .map(|(i, _)| i)
            .collect();
        assert_eq!(pertinent, expected);
    }
}

#[test]
fn digests_hold_the_distances_of_full_and_partly_filled_blocks() {
    for (count, first) in [(BLOCK + 3, 1000), (1, u64::from(u32::MAX)), (0, 0)] {
        check_exact(&CONTEXT, &RECIPIENTS, count, first);
    }
}

#[test]
fn short_clues_work_too() {
    let context = context(ClueParameters::SHORT, Backend::best());
    let recipients = [Recipient::new(&context, 5)];
    check_exact(&context, &recipients, 700, 0);
}

#[test]
fn threads_and_back_ends_do_not_change_a_bit() {
    let messages = messages(&RECIPIENTS, 2 * BLOCK + 100);
    let clues = views(&messages);
    let keys: Vec<_> = RECIPIENTS[..1].iter().map(|recipient| PreparedKey::new(&recipient.key)).collect();
    let detector = detector_for(&CONTEXT);
    let expected = detector.detect(&keys, 7, &clues, &seed()).unwrap();
    for threads in [1, 2, 3] {
        let runner = Runner::new(threads).unwrap();
        let done = std::sync::atomic::AtomicUsize::new(0);
        let digests = detector
            .detect_with(&runner, &keys, 7, &clues, &seed(), |messages| {
                done.fetch_add(messages, std::sync::atomic::Ordering::Relaxed);
            })
            .unwrap();
        for (digest, expected) in digests.iter().zip(&expected) {
            assert_eq!(digest.to_file(&CONTEXT), expected.to_file(&CONTEXT));
        }
        assert_eq!(done.into_inner(), clues.len());
    }
    for backend in Backend::available() {
        let context = context(ClueParameters::STANDARD, backend);
        let key = DetectionKey::from_file(&context, &RECIPIENTS[0].key.to_file()).unwrap();
        let digests =
            detector_for(&context).detect(&[PreparedKey::new(&key)], 7, &clues[..300], &seed()).unwrap();
        let reference = detector.detect(&keys, 7, &clues[..300], &seed()).unwrap();
        assert_eq!(digests[0].to_file(&context), reference[0].to_file(&CONTEXT), "{backend}");
    }
}

#[test]
fn detection_keys_survive_their_file_and_have_the_size_that_is_said() {
    let file = RECIPIENTS[0].key.to_file();
    assert_eq!(file.len(), DetectionKey::file_bytes(&CONTEXT));
    assert_eq!(file.len(), 212_048);
    let loaded = DetectionKey::from_file(&CONTEXT, &file).unwrap();
    assert_eq!(loaded.to_file(), file);
    assert_eq!(loaded.id(), RECIPIENTS[0].key.id());
    // Made again from the same secrets, it is the same key.
    let again = RECIPIENTS[0].secret.detection_key().unwrap();
    assert_eq!(again.to_file(), file);
}

/// A clue that matches many recipients at once would let anybody fill everybody's digest: ePrint 2024/510.
#[test]
fn snake_eye_clues_match_nobody_through_detection() {
    let parameters = CONTEXT.parameters().clue;
    let monomial = |power: usize, value: u32| {
        let mut a = vec![0; parameters.degree()];
        a[power] = value;
        a
    };
    let hostile = [
        vec![0; parameters.degree()],
        monomial(0, 1),
        monomial(500, parameters.modulus() - 1),
        vec![1; parameters.degree()],
    ];
    let messages: Vec<_> = hostile.iter().map(|a| Message::crafted(a, [0, 0])).collect();
    let keys: Vec<_> = RECIPIENTS.iter().map(|recipient| PreparedKey::new(&recipient.key)).collect();
    let digests = detector_for(&CONTEXT).detect(&keys, 0, &views(&messages), &seed()).unwrap();
    for (recipient, digest) in RECIPIENTS.iter().zip(&digests) {
        assert_eq!(recipient.decoder().pertinent(digest).unwrap(), [0u64; 0]);
    }
}

/// REVIEW P2 through the detector: copies and sums of clues are as far away as any foreign clue, in the digest as in the clear. What
/// remains is the same a' in the same message, which a board does not take.
#[test]
fn copies_and_sums_of_clues_match_nobody_through_detection() {
    let known = messages(&RECIPIENTS, 300);
    let own: Vec<&Message> =
        known.iter().filter(|one| RECIPIENTS[0].clue.is_pertinent(&one.clue, &one.binding)).collect();
    let mut forged = Vec::new();
    for (payload, three) in (1_000..).zip(own.windows(3)) {
        let [first, second, third] = [three[0], three[1], three[2]];
        forged.push(first.moved([0, 0], payload));
        forged.push(first.moved([1, 786_432], payload));
        forged.push(combined(&[(1, first), (1, second), (-1, third)], payload));
        forged.push(combined(&[(2, first), (-1, second)], payload));
        forged.push(combined(&[(3, first), (-2, second)], payload));
    }
    assert!(forged.len() > 300);
    check_exact_for(&CONTEXT, &RECIPIENTS, &forged, 0);
    assert!(forged.iter().all(|one| !RECIPIENTS[0].clue.is_pertinent(&one.clue, &one.binding)));
    // The payload of message 1 is number 1.
    let duplicate = known[1].moved([1, 0], 1);
    assert_eq!(duplicate.clue.bound_hash(), known[1].clue.bound_hash());
    assert!(RECIPIENTS[0].clue.is_pertinent(&duplicate.clue, &duplicate.binding));
    check_exact_for(&CONTEXT, &RECIPIENTS, &[duplicate], 0);
}

#[test]
fn keys_and_digests_of_earlier_versions_are_refused_with_what_to_do() {
    let key = RECIPIENTS[0].key.to_file();
    for version in [1, 2] {
        let envelope = Envelope { version, ..Envelope::open(&key).unwrap() };
        let error = DetectionKey::from_file(&CONTEXT, &envelope.seal()).unwrap_err().to_string();
        assert!(error.ends_with("an earlier version made it: make it anew from the secret key"), "{error}");
    }
    let digest = detector_for(&CONTEXT).detect(&[PreparedKey::new(&RECIPIENTS[0].key)], 0, &[], &seed());
    let digest = digest.unwrap()[0].to_file(&CONTEXT);
    let envelope = Envelope { version: 1, ..Envelope::open(&digest).unwrap() };
    let error = StreamDigest::from_file(&CONTEXT, &envelope.seal()).unwrap_err().to_string();
    assert!(error.ends_with("an earlier version made it: have it made anew"), "{error}");
}

#[test]
fn bad_input_is_named() {
    let keys = [PreparedKey::new(&RECIPIENTS[0].key)];
    let detector = detector_for(&CONTEXT);
    let messages = messages(&RECIPIENTS, 1);
    let clue = views(&messages)[0];
    let (cut, expected) = (BoundClue { bytes: &clue.bytes[1..], ..clue }, clue.bytes.len());
    let error = detector.detect(&keys, 0, &[clue, cut], &seed()).unwrap_err();
    assert_eq!(error, OmrError::ClueBytes { index: 1, found: expected - 1, expected });

    let digest = &detector.detect(&keys, 0, &[clue], &seed()).unwrap()[0];
    assert!(matches!(RECIPIENTS[1].decoder().pertinent(digest), Err(OmrError::ForeignDigest { .. })));

    let file = digest.to_file(&CONTEXT);
    let other = context(ClueParameters::SHORT, Backend::best());
    assert!(matches!(
        StreamDigest::from_file(&other, &file),
        Err(OmrError::Wire(WireError::WrongParameters { kind: Kind::StreamDigest, .. }))
    ));
    assert!(matches!(
        DetectionKey::from_file(&CONTEXT, &file),
        Err(OmrError::Wire(WireError::WrongKind { found: Kind::StreamDigest, .. }))
    ));
    // Parameters of keys, clues and contexts are compared.
    let short = Recipient::new(&other, 9);
    let mixed = detector.detect(&[PreparedKey::new(&short.key)], 0, &[clue], &seed());
    assert!(matches!(mixed, Err(OmrError::Parameters { what: "detection key", .. })));
    let mixed = RecipientSecret::generate(&CONTEXT, &Seed::from([1; 32]), &short.clue);
    assert!(matches!(mixed, Err(OmrError::Parameters { what: "clue key", .. })));
    let odd = StreamParameters { baby_steps: 60, ..CONTEXT.parameters().clone() };
    assert!(matches!(StreamContext::new(odd, Backend::best()), Err(OmrError::Inconsistent(_))));

    // Indices that do not fit 64 bits, when detecting and in a digest's file.
    let beyond = detector.detect(&keys, u64::MAX, &[clue, clue], &seed());
    assert!(matches!(beyond, Err(OmrError::Range { first: u64::MAX, count: 2, .. })));
    let envelope = Envelope::open(&file).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = envelope.body.to_vec();
        change(&mut body);
        Envelope { body: &body, ..envelope }.seal()
    };
    let overflow = changed(&|body| body[..8].fill(0xff));
    assert!(matches!(StreamDigest::from_file(&CONTEXT, &overflow), Err(OmrError::Range { .. })));

    // A digest that is well-formed and wrong is noticed: damage with a fresh checksum, and a block of random bytes.
    let middle = 64 + 13_000;
    for wrong in [
        changed(&|body| body[middle..middle + 200].fill(0x5a)),
        changed(&|body| Seed::from([6; 32]).stream("test", &[]).bytes(&mut body[64..])),
    ] {
        let digest = StreamDigest::from_file(&CONTEXT, &wrong).unwrap();
        let found = RECIPIENTS[0].decoder().pertinent(&digest);
        assert!(matches!(found, Err(OmrError::InvalidBlock { block: 0, .. })), "{found:?}");
    }
    for cut in [0, 3, 30, 60, file.len() - 1] {
        assert!(StreamDigest::from_file(&CONTEXT, &file[..cut]).is_err());
    }
    let mut flipped = RECIPIENTS[0].key.to_file();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    assert!(matches!(
        DetectionKey::from_file(&CONTEXT, &flipped),
        Err(OmrError::Wire(WireError::Corrupted { kind: Kind::DetectionKey }))
    ));
}

/// Whatever bytes a board holds, the detector returns something and does not panic.
#[test]
fn any_bytes_of_the_right_length_are_harmless() {
    let length = CONTEXT.parameters().clue.clue_bytes();
    let mut noise = vec![0; length];
    Seed::from([4; 32]).stream("test", &[]).bytes(&mut noise);
    let honest = &messages(&RECIPIENTS, 2)[1];
    let junk = [vec![0xff; length], noise];
    let mut clues: Vec<_> = junk.iter().map(|bytes| BoundClue { bytes, binding: honest.binding }).collect();
    clues.push(BoundClue { bytes: &honest.bytes, binding: honest.binding });
    let digests =
        detector_for(&CONTEXT).detect(&[PreparedKey::new(&RECIPIENTS[0].key)], 0, &clues, &seed()).unwrap();
    assert_eq!(RECIPIENTS[0].decoder().pertinent(&digests[0]).unwrap(), [2]);
}

/// A recipient whose key is for one relay and period.
fn recipient_for(public: PublicSeed, name: u8) -> Recipient {
    let Recipient { clue, maker, .. } = Recipient::new(&CONTEXT, name);
    let secret = RecipientSecret::generate_for(&CONTEXT, public, &Seed::from([name; 32]), &clue).unwrap();
    let key = DetectionKey::from_file(&CONTEXT, &secret.detection_key().unwrap().to_file()).unwrap();
    assert_eq!(key.public_seed(), public);
    Recipient { clue, maker, secret, key }
}

/// A digest is the same, bit for bit, whoever else is in the pass: any number of keys with the same public seed, and keys with
/// others. Each holds the distances, so that second halves and digits are those of the key's own public seed.
#[test]
fn company_in_a_pass_does_not_change_a_bit() {
    let seeds = [
        PublicSeed::COMMON,
        PublicSeed { domain: [7; 32], ..PublicSeed::COMMON },
        PublicSeed { period: 1, ..PublicSeed::COMMON },
    ];
    let recipients: Vec<_> = (20..30).map(|name| recipient_for(seeds[usize::from(name) % 3], name)).collect();
    let messages = messages(&recipients, BLOCK + 50);
    check_exact_for(&CONTEXT, &recipients, &messages, 3);
    let (detector, clues) = (detector_for(&CONTEXT), views(&messages));
    let keys: Vec<_> = recipients.iter().map(|recipient| PreparedKey::new(&recipient.key)).collect();
    let files = |keys: &[PreparedKey]| -> Vec<Vec<u8>> {
        let digests = detector.detect(keys, 3, &clues, &seed()).unwrap();
        digests.iter().map(|digest| digest.to_file(&CONTEXT)).collect()
    };
    let together = files(&keys);
    for few in [0..1, 1..2, 2..5, 3..8, 9..10] {
        assert_eq!(files(&keys[few.clone()]), together[few]);
    }
    // More public seeds than are kept, by turns.
    for period in (2..9).chain([1, 2]) {
        let key = recipient_for(PublicSeed { period, ..PublicSeed::COMMON }, 40).key;
        let (one, other) = (PreparedKey::new(&key), PreparedKey::new(&key));
        assert_eq!(files(&[one]), files(&[other]));
    }
    // Those of one public seed have their second halves in common, and nothing else.
    let short = CONTEXT.parameters().short;
    let first_bytes = BLOCK * short.c0_bits() as usize / 8;
    let half_bytes = short.ciphertext_bytes(BLOCK);
    for (a, one) in together.iter().enumerate() {
        for (b, other) in together.iter().enumerate().skip(a + 1) {
            let same =
                |range: std::ops::Range<usize>| one[24 + 64..][range.clone()] == other[24 + 64..][range];
            assert!(!same(0..first_bytes));
            assert_eq!(same(first_bytes..half_bytes), a % 3 == b % 3, "{a}, {b}");
        }
    }
}

/// What keys have in common is made by the first thread that needs it, and by no thread that waits for another.
#[test]
fn keys_are_prepared_by_several_threads_at_once() {
    let context = context(ClueParameters::STANDARD, Backend::best());
    let recipients: Vec<_> = (0..6).map(|name| Recipient::new(&context, name)).collect();
    let prepared = std::sync::Mutex::new(Vec::new());
    Runner::new(4).unwrap().install(|| {
        restante_ring::for_each(1 << 20, recipients.iter().enumerate(), |(place, recipient)| {
            let key = PreparedKey::new(&recipient.key);
            prepared.lock().unwrap().push((place, key));
        });
    });
    let mut prepared = prepared.into_inner().unwrap();
    prepared.sort_by_key(|(place, _)| *place);
    let keys: Vec<_> = prepared.into_iter().map(|(_, key)| key).collect();
    let messages = messages(&recipients, 20);
    let digests = detector_for(&context).detect(&keys, 0, &views(&messages), &seed()).unwrap();
    for (recipient, digest) in recipients.iter().zip(&digests) {
        let expected = messages.iter().map(|one| recipient.clue.distances(&one.clue, &one.binding));
        assert_eq!(*recipient.decoder().distances(digest).unwrap(), expected.collect::<Vec<_>>());
    }
}

/// A decoder of another public seed's key refuses the digest by its key, before it decrypts anything.
#[test]
fn keys_for_two_relays_of_one_account_are_two_keys() {
    let one = recipient_for(PublicSeed::COMMON, 50);
    let other = recipient_for(PublicSeed { domain: [1; 32], period: 0 }, 50);
    let messages = messages(std::slice::from_ref(&one), 6);
    let digest = detector_for(&CONTEXT).detect(&[PreparedKey::new(&one.key)], 0, &views(&messages), &seed());
    let refused = other.decoder().pertinent(&digest.unwrap()[0]);
    assert!(matches!(refused, Err(OmrError::ForeignDigest { .. })), "{refused:?}");
}
