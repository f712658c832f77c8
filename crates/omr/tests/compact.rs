//! The compact digest in a small insecure ring: the real circuit, against the test in the clear.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::LazyLock;

use restante_clue::{BoundClue, Clue, ClueMaker, ClueParameters, ClueSecretKey};
use restante_omr::{
    OmrError,
    compact::{
        CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, CompactSecret, Decoder,
        Detector, DigestRequest, Payload, PertinencyVector, PreparedKey, Retrieved, audit,
    },
};
use restante_ring::{
    Backend,
    sample::{Seed, Stream},
};
use restante_scan::Runner;
use restante_wire::{
    Encode, Kind, WireError,
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};

/// Messages in a block.
const BLOCK: usize = 2048;

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
    secret: CompactSecret,
    key: CompactDetectionKey,
}

impl Recipient {
    fn new(context: &CompactContext, name: u8) -> Self {
        let seed = Seed::from([name; 32]);
        let clue = ClueSecretKey::new(context.parameters().clue, &seed.derive("clue", &[]));
        let secret = CompactSecret::generate(context, &seed.derive("detection", &[]), &clue).unwrap();
        let key = secret.detection_key().unwrap();
        Self { maker: clue.clue_key().prepare(), clue, secret, key }
    }
}

fn context(backend: Backend) -> CompactContext {
    CompactContext::new(CompactParameters::insecure(ClueParameters::STANDARD).unwrap(), backend).unwrap()
}

static CONTEXT: LazyLock<CompactContext> = LazyLock::new(|| context(Backend::best()));
static RECIPIENTS: LazyLock<Vec<Recipient>> =
    LazyLock::new(|| (0..2).map(|name| Recipient::new(&CONTEXT, name)).collect());
static KEYS: LazyLock<Vec<PreparedKey>> =
    LazyLock::new(|| RECIPIENTS.iter().map(|recipient| PreparedKey::new(recipient.key.clone())).collect());

fn public_keys() -> Vec<&'static CompactDetectionKey> {
    RECIPIENTS.iter().map(|recipient| &recipient.key).collect()
}

fn keys() -> Vec<&'static PreparedKey> {
    KEYS.iter().collect()
}

/// Decides the slots.
fn seed() -> Seed {
    Seed::from([55; 32])
}

/// A board on which messages are for a recipient where `addressee` says so.
struct Board {
    messages: Vec<Message>,
    payloads: Vec<Vec<u8>>,
}

impl Board {
    fn new(count: usize, addressee: impl Fn(usize) -> Option<usize>) -> Self {
        let parameters = ClueParameters::STANDARD;
        let stranger = ClueSecretKey::new(parameters, &Seed::from([99; 32])).clue_key().prepare();
        let mut stream = Seed::from([77; 32]).stream("test/clues", &[]);
        let messages = (0..count).map(|index| {
            let maker = addressee(index).map_or(&stranger, |r| &RECIPIENTS[r].maker);
            Message::made(maker, &mut stream, index as u64)
        });
        let messages = messages.collect();
        let payloads = (0..count).map(|index| {
            let mut payload = vec![0; 20 + index % 30];
            Seed::from([78; 32]).stream("test/payload", &[index as u64]).bytes(&mut payload);
            payload
        });
        Self { messages, payloads: payloads.collect() }
    }

    fn clues(&self) -> Vec<BoundClue<'_>> {
        views(&self.messages)
    }

    fn payloads(&self, range: std::ops::Range<usize>) -> Vec<&[u8]> {
        self.payloads[range].iter().map(Vec::as_slice).collect()
    }

    /// What a recipient should find.
    fn expected(&self, recipient: usize, request: &DigestRequest) -> Vec<Retrieved> {
        let range = request.range.start as usize..request.range.end as usize;
        let pertinent = range.filter(|&index| pertinent(recipient, &self.messages[index]));
        pertinent
            .map(|index| {
                let payload = &self.payloads[index];
                let kept = request.payload_bytes.min(payload.len());
                let payload_bytes = if request.payload_bytes == 0 { 0 } else { payload.len() };
                Retrieved { index: index as u64, payload: payload[..kept].to_vec(), payload_bytes }
            })
            .collect()
    }
}

/// Two and a half blocks: messages for the recipients around the borders of blocks, and elsewhere.
static BOARD: LazyLock<Board> = LazyLock::new(|| {
    Board::new(2 * BLOCK + 900, |index| match index {
        0 | 5 | 2047 | 2048 | 4095 | 4096 => Some(0),
        1 | 2046 | 4900 => Some(1),
        2100..2110 => Some(0),
        _ => None,
    })
});
static VECTORS: LazyLock<Vec<PertinencyVector>> = LazyLock::new(|| {
    Detector::new(&CONTEXT).unwrap().pertinency(&keys(), 0, &BOARD.clues(), &seed(), |_| ()).unwrap()
});

/// The test in the clear.
fn pertinent(recipient: usize, message: &Message) -> bool {
    RECIPIENTS[recipient].clue.is_pertinent(&message.clue, &message.binding)
}

fn request(range: std::ops::Range<u64>, capacity: usize, payload_bytes: usize) -> DigestRequest {
    DigestRequest { range, capacity, payload_bytes }
}

fn digests(request: &DigestRequest) -> Vec<CompactDigest> {
    let range = request.range.start as usize..request.range.end as usize;
    let vectors: Vec<_> = VECTORS.iter().collect();
    let payloads = BOARD.payloads(range);
    Detector::new(&CONTEXT)
        .unwrap()
        .digests(&public_keys(), &vectors, request, Payload::source(request.range.start, &payloads), |_| ())
        .unwrap()
}

fn decode(recipient: usize, digest: &CompactDigest) -> Result<Vec<Retrieved>, OmrError> {
    let file = digest.to_file(&CONTEXT);
    assert_eq!(file.len(), CompactDigest::file_bytes(&CONTEXT, digest.request()));
    let digest = CompactDigest::from_file(&CONTEXT, &file).unwrap();
    Decoder::new(&RECIPIENTS[recipient].secret).unwrap().decode(&digest)
}

/// The bits of noise that every stage must leave: 2^6 standard deviations are far beyond what ever happens.
const MARGIN_BITS: f64 = 6.0;

#[test]
fn every_stage_agrees_with_plaintext_arithmetic_and_has_noise_to_spare() {
    let detector = Detector::new(&CONTEXT).unwrap();
    let honest = Board::new(BLOCK, |index| (index % 5 == 0).then_some(0));
    // Clues of no honest sender, which make the plaintexts as large and as regular as can be: constants, and one clue over and over whose
    // coefficients follow a root of X^N + 1.
    let shaped: Vec<u32> = (0..1024)
        .map(|index| {
            if f64::cos(f64::from(index) * 3.0 * std::f64::consts::PI / 1024.0) > 0.0 {
                393_216
            } else {
                393_217
            }
        })
        .collect();
    // One message again and again, as no board takes it: its binding is the same everywhere, too.
    let shaped: Vec<_> = (0..BLOCK).map(|_| Message::crafted(&shaped, [0, 0])).collect();
    let hostile: Vec<_> = (0..BLOCK as u32)
        .map(|index| {
            let a = vec![[0, 1, 393_216, 786_432][index as usize % 4]; 1024];
            Message::crafted(&a, [index * 383 % 786_433, 0])
        })
        .collect();
    for messages in [honest.messages, hostile, shaped] {
        let views = views(&messages);
        let distances = messages.iter().map(|one| RECIPIENTS[0].clue.distances(&one.clue, &one.binding));
        let distances: Vec<_> = distances.collect();
        let (reports, _) =
            audit::phase1(&detector, &RECIPIENTS[0].secret, &KEYS[0], &views, &distances, &seed());
        // Affine step, range checks and join, then each of the 20 products of the zero test.
        assert_eq!(reports.len(), 26);
        for report in reports {
            println!("{report:?}");
            assert!(report.exact, "{report:?}");
            assert!(report.noise.budget_bits() >= MARGIN_BITS, "{report:?}");
            assert!(report.noise.root_bits <= audit::stable_root_bits(&CONTEXT), "{report:?}");
        }
    }
}

#[test]
fn packing_leaves_noise_to_spare() {
    let detector = Detector::new(&CONTEXT).unwrap();
    for (capacity, payload_bytes) in [(50, 0), (50, 300), (255, 40)] {
        let request = request(0..BOARD.messages.len() as u64, capacity, payload_bytes);
        let payloads = BOARD.payloads(0..BOARD.messages.len());
        let noise = audit::packed(
            &detector,
            &RECIPIENTS[0].secret,
            &RECIPIENTS[0].key,
            &VECTORS[0],
            &request,
            &payloads,
        )
        .unwrap();
        assert_eq!(noise.len(), request.ciphertexts(&CONTEXT));
        assert!(noise.iter().all(|noise| noise.budget_bits() >= MARGIN_BITS), "{noise:?}");
    }
}

#[test]
fn pertinency_vectors_hold_the_test_in_the_clear() {
    for (recipient, vector) in RECIPIENTS.iter().zip(&*VECTORS) {
        let file = vector.to_file(&CONTEXT);
        assert_eq!(file.len(), PertinencyVector::file_bytes(&CONTEXT, vector.count()));
        let vector = PertinencyVector::from_file(&CONTEXT, &file).unwrap();
        assert_eq!(vector.to_file(&CONTEXT), file);
        let (bits, noise) = audit::pertinent(&recipient.secret, &vector);
        let expected: Vec<_> =
            BOARD.messages.iter().map(|one| recipient.clue.is_pertinent(&one.clue, &one.binding)).collect();
        assert_eq!(bits, expected);
        assert!(noise.iter().all(|noise| noise.budget_bits() >= MARGIN_BITS), "{noise:?}");
    }
}

#[test]
fn digests_hold_what_is_pertinent_in_any_range_with_any_payload_size() {
    let all = BOARD.messages.len() as u64;
    for (range, capacity, payload_bytes) in [
        (0..all, 50, 0),
        (0..all, 16, 49),
        (0..2048, 3, 10),
        (2047..2049, 2, 30),
        (2048..4096, 63, 22),
        (4096..4097, 1, 100),
        (6..2047, 1, 0),
        (100..100, 1, 5),
        (1..all - 1, 64, 23),
        (0..all, 128, 7),
        (0..all, 255, 0),
    ] {
        let request = request(range, capacity, payload_bytes);
        for (recipient, digest) in digests(&request).iter().enumerate() {
            let found = decode(recipient, digest).unwrap();
            assert_eq!(found, BOARD.expected(recipient, &request), "{request:?}");
        }
    }
}

/// The board in vectors of a block, of a part of one, and of a block and a part, each of a pass with slots of its own; for each recipient.
static SEQUENCES: LazyLock<[Vec<PertinencyVector>; 2]> = LazyLock::new(|| {
    let detector = Detector::new(&CONTEXT).unwrap();
    let cuts = [0, BLOCK, 2105, BOARD.messages.len()];
    let passes = cuts.windows(2).enumerate().map(|(pass, cut)| {
        let (clues, seed) = (BOARD.clues(), Seed::from([60 + pass as u8; 32]));
        detector.pertinency(&keys(), cut[0] as u64, &clues[cut[0]..cut[1]], &seed, |_| ()).unwrap()
    });
    let mut sequences = [Vec::new(), Vec::new()];
    for pass in passes {
        sequences.iter_mut().zip(pass).for_each(|(sequence, vector)| sequence.push(vector));
    }
    sequences
});

#[test]
fn vectors_in_sequence_are_as_good_as_one_for_any_range_within_them() {
    let detector = Detector::new(&CONTEXT).unwrap();
    let all = BOARD.messages.len() as u64;
    // The places in the sequence that are given; more than is needed is allowed.
    for (range, places, capacity, payload_bytes) in [
        (0..all, 0..3, 50, 49),
        (0..all, 0..3, 255, 0),
        (1..all - 1, 0..3, 64, 23),
        (6..2047, 0..1, 1, 0),
        (6..2047, 0..3, 1, 5),
        (2047..2105, 0..2, 12, 30),
        (2048..2105, 1..2, 12, 30),
        (2104..2106, 1..3, 3, 12),
        (2050..4901, 1..3, 63, 22),
        (2105..2105, 1..3, 3, 12),
        (2105..2106, 1..3, 3, 12),
    ] {
        let request = request(range, capacity, payload_bytes);
        let payloads = BOARD.payloads(request.range.start as usize..request.range.end as usize);
        let views = SEQUENCES.each_ref().map(|vectors| vectors[places.clone()].iter().collect::<Vec<_>>());
        let made = detector
            .digests_of_sequences(
                &public_keys(),
                &views.each_ref().map(Vec::as_slice),
                &request,
                Payload::source(request.range.start, &payloads),
                |_| (),
            )
            .unwrap();
        for (recipient, digest) in made.iter().enumerate() {
            let found = decode(recipient, digest).unwrap();
            assert_eq!(found, BOARD.expected(recipient, &request), "{request:?} from {places:?}");
        }
    }
}

/// One vector for several digests: the same vector gives the same digest, byte for byte, and no request changes it.
#[test]
fn a_vector_serves_many_digests() {
    let detector = Detector::new(&CONTEXT).unwrap();
    let vector = &SEQUENCES[0][0];
    let before = vector.to_file(&CONTEXT);
    let make = |request: &DigestRequest| {
        let payloads = BOARD.payloads(request.range.start as usize..request.range.end as usize);
        let source = Payload::source(request.range.start, &payloads);
        detector.digests(&[&RECIPIENTS[0].key], &[vector], request, source, |_| ()).unwrap().remove(0)
    };
    let requests = [request(0..2048, 20, 10), request(0..2048, 100, 0), request(5..6, 1, 30)];
    let digests = requests.each_ref().map(make);
    for (request, digest) in requests.iter().zip(&digests) {
        assert_eq!(decode(0, digest).unwrap(), BOARD.expected(0, request));
        assert_eq!(make(request), *digest);
    }
    assert_eq!(vector.to_file(&CONTEXT), before);
}

#[test]
fn sequences_with_gaps_overlaps_and_what_does_not_belong_are_refused() {
    let detector = Detector::new(&CONTEXT).unwrap();
    let [own, others] = SEQUENCES.each_ref();
    let ask = |range: std::ops::Range<u64>, sequences: &[&[&PertinencyVector]]| {
        let keys = &public_keys()[..sequences.len()];
        let source = Payload::source(0, &[]);
        let request = request(range, 5, 0);
        detector.digests_of_sequences(keys, sequences, &request, source, |_| ()).unwrap_err()
    };
    let gap = ask(0..5, &[&[&own[0], &own[2]]]);
    assert_eq!(gap, OmrError::Sequence { place: 1, found: 2105, expected: 2048 });
    assert_eq!(
        gap.to_string(),
        "pertinency vector 1 of a sequence begins at message 2105, expected 2048, where the one before it ends"
    );
    let overlap = ask(0..5, &[&[&own[0], &own[1], &VECTORS[0]]]);
    assert_eq!(overlap, OmrError::Sequence { place: 2, found: 0, expected: 2105 });
    let twice = ask(0..5, &[&[&own[0], &own[0]]]);
    assert_eq!(twice, OmrError::Sequence { place: 1, found: 0, expected: 2048 });
    let foreign = ask(0..5, &[&[&own[0], &others[1]]]);
    assert!(matches!(foreign, OmrError::ForeignDigest { .. }), "{foreign}");
    // The keys' vectors are of one pass at the first place only; one has more than the other.
    let clues = BOARD.clues();
    let other =
        detector.pertinency(&[&KEYS[1]], 2048, &clues[2048..2105], &Seed::from([9; 32]), |_| ()).unwrap();
    assert_eq!(ask(0..5, &[&[&own[0], &own[1]], &[&others[0], &other[0]]]), OmrError::OtherPass);
    assert_eq!(ask(0..5, &[&[&own[0], &own[1]], &[&others[0]]]), OmrError::OtherPass);
    for (range, sequence) in [(0..2106, &own[..2]), (2047..2049, &own[1..]), (0..0, &own[1..])] {
        let sequence: Vec<_> = sequence.iter().collect();
        let error = ask(range, &[&sequence]);
        assert!(matches!(error, OmrError::NotCovered { .. }), "{error}");
    }
    assert!(matches!(ask(3..3, &[&[]]), OmrError::NotCovered { .. }));
}

#[test]
fn one_more_than_the_capacity_is_an_overflow() {
    // Ten messages for the first recipient.
    let (range, count) = (2100..2110, 10);
    for capacity in [count - 1, count, count + 1] {
        let request = request(range.clone(), capacity, 12);
        let found = decode(0, &digests(&request)[0]);
        if capacity < count {
            assert_eq!(found, Err(OmrError::Overflow { capacity }));
            assert_eq!(found.unwrap_err().to_string(), "overflow: more than 9 pertinent messages");
        } else {
            assert_eq!(found.unwrap(), BOARD.expected(0, &request));
        }
    }
}

#[test]
fn blocks_in_which_all_messages_are_pertinent_overflow_too() {
    let board = Board::new(70, |_| Some(0));
    let detector = Detector::new(&CONTEXT).unwrap();
    let vector = detector.pertinency(&[&KEYS[0]], 0, &board.clues(), &seed(), |_| ()).unwrap();
    for (end, capacity) in [(70, 63), (64, 63), (63, 63), (70, 70)] {
        let request = request(0..end, capacity, 30);
        let payloads = board.payloads(0..end as usize);
        let digest = detector
            .digests(
                &[&RECIPIENTS[0].key],
                &[&vector[0]],
                &request,
                Payload::source(request.range.start, &payloads),
                |_| (),
            )
            .unwrap();
        let found = decode(0, &digest[0]);
        if end as usize > capacity {
            assert_eq!(found, Err(OmrError::Overflow { capacity }));
        } else {
            assert_eq!(found.unwrap(), board.expected(0, &request));
        }
    }
}

#[test]
fn damaged_digests_are_errors() {
    let request = request(0..2048, 63, 40);
    let digest = &digests(&request)[0];
    let file = digest.to_file(&CONTEXT);
    let decoder = Decoder::new(&RECIPIENTS[0].secret).unwrap();
    // Damage that comes with a right checksum: one bit of each part of the body.
    for place in (24 + 44..file.len() - 16).step_by(701) {
        let mut body = file[24..file.len() - 16].to_vec();
        body[place - 24] ^= 0x40;
        let envelope = restante_wire::Envelope {
            kind: Kind::CompactDigest,
            version: 2,
            parameters: CONTEXT.id(),
            body: &body,
        };
        let damaged = CompactDigest::from_file(&CONTEXT, &envelope.seal()).unwrap();
        match decoder.decode(&damaged) {
            // A bit that the rounding of the ciphertext makes no difference to.
            Ok(found) => assert_eq!(found, BOARD.expected(0, &request), "byte {place}"),
            Err(error) => assert!(
                matches!(
                    error,
                    OmrError::DamagedDigest(_) | OmrError::Overflow { .. } | OmrError::InvalidBlock { .. }
                ),
                "byte {place}: {error}"
            ),
        }
    }
    let mut flipped = file.clone();
    flipped[2000] ^= 1;
    let corrupted = CompactDigest::from_file(&CONTEXT, &flipped);
    assert!(matches!(corrupted, Err(OmrError::Wire(WireError::Corrupted { kind: Kind::CompactDigest }))));
    for cut in [0, 3, 30, 60, file.len() - 1] {
        assert!(CompactDigest::from_file(&CONTEXT, &file[..cut]).is_err());
    }
    let foreign = Decoder::new(&RECIPIENTS[1].secret).unwrap().decode(digest);
    assert!(matches!(foreign, Err(OmrError::ForeignDigest { .. })));
}

#[test]
fn threads_and_back_ends_do_not_change_a_bit() {
    let request = request(2040..2110, 20, 30);
    let expected = digests(&request);
    let vectors: Vec<_> = VECTORS.iter().collect();
    let payloads = BOARD.payloads(2040..2110);
    for threads in [1, 2, 3] {
        let (vector, found) = Runner::new(threads).unwrap().install(|| {
            let detector = Detector::new(&CONTEXT).unwrap();
            let vector = detector.pertinency(&[&KEYS[0]], 0, &BOARD.clues()[..100], &seed(), |_| ()).unwrap();
            (
                vector,
                detector
                    .digests(
                        &public_keys(),
                        &vectors,
                        &request,
                        Payload::source(request.range.start, &payloads),
                        |_| (),
                    )
                    .unwrap(),
            )
        });
        assert_eq!(found, expected, "{threads} threads");
        let detector = Detector::new(&CONTEXT).unwrap();
        let again = detector.pertinency(&[&KEYS[0]], 0, &BOARD.clues()[..100], &seed(), |_| ()).unwrap();
        assert_eq!(vector[0].to_file(&CONTEXT), again[0].to_file(&CONTEXT));
    }
    let files: Vec<_> = VECTORS.iter().map(|vector| vector.to_file(&CONTEXT)).collect();
    let reference = Detector::new(&CONTEXT).unwrap();
    let reference = reference.pertinency(&[&KEYS[0]], 0, &BOARD.clues()[..100], &seed(), |_| ()).unwrap();
    for backend in Backend::available() {
        let context = context(backend);
        let load = |recipient: &Recipient| {
            PreparedKey::new(CompactDetectionKey::from_file(&context, &recipient.key.to_file()).unwrap())
        };
        let keys: Vec<_> = RECIPIENTS.iter().map(load).collect();
        let keys: Vec<&PreparedKey> = keys.iter().collect();
        let detector = Detector::new(&context).unwrap();
        let vector = detector.pertinency(&keys[..1], 0, &BOARD.clues()[..100], &seed(), |_| ()).unwrap();
        assert_eq!(vector[0].to_file(&context), reference[0].to_file(&CONTEXT), "{backend}");
        let vectors: Vec<_> =
            files.iter().map(|file| PertinencyVector::from_file(&context, file).unwrap()).collect();
        let vectors: Vec<_> = vectors.iter().collect();
        let keys: Vec<_> = keys.iter().map(|key| key.key()).collect();
        let found = detector
            .digests(&keys, &vectors, &request, Payload::source(request.range.start, &payloads), |_| ())
            .unwrap();
        assert_eq!(found[0].to_file(&context), expected[0].to_file(&CONTEXT), "{backend}");
    }
}

#[test]
fn detection_keys_survive_their_file() {
    let file = RECIPIENTS[0].key.to_file();
    assert_eq!(file.len(), CompactDetectionKey::file_bytes(&CONTEXT));
    let loaded = CompactDetectionKey::from_file(&CONTEXT, &file).unwrap();
    assert_eq!(loaded.to_file(), file, "saving a loaded key changes nothing");
    assert_eq!(loaded.id(), RECIPIENTS[0].secret.key_id());
    assert_eq!(CompactDetectionKey::id_of_file(&file).unwrap(), loaded.id());
    let again = RECIPIENTS[0].secret.detection_key().unwrap();
    assert_eq!(again.to_file(), file);
    let envelope = restante_wire::Envelope { version: 1, ..restante_wire::Envelope::open(&file).unwrap() };
    let error = CompactDetectionKey::from_file(&CONTEXT, &envelope.seal()).unwrap_err().to_string();
    assert!(error.ends_with("an earlier version made it: make it anew from the secret key"), "{error}");
    for cut in [0, 3, 30, 60, file.len() - 1] {
        assert!(CompactDetectionKey::from_file(&CONTEXT, &file[..cut]).is_err());
    }
}

#[test]
fn bad_input_is_named() {
    let detector = Detector::new(&CONTEXT).unwrap();
    let clue = BOARD.clues()[0];
    let (cut, expected) = (BoundClue { bytes: &clue.bytes[1..], ..clue }, clue.bytes.len());
    let error = detector.pertinency(&keys(), 0, &[clue, cut], &seed(), |_| ()).unwrap_err();
    assert_eq!(error, OmrError::ClueBytes { index: 1, found: expected - 1, expected });
    assert!(detector.pertinency(&keys(), u64::MAX, &[clue], &seed(), |_| ()).is_err());

    let vectors: Vec<_> = VECTORS.iter().collect();
    let ask = |request: &DigestRequest, payloads: &[&[u8]]| {
        detector
            .digests(
                &public_keys(),
                &vectors,
                request,
                Payload::source(request.range.start, payloads),
                |_| (),
            )
            .unwrap_err()
    };
    for (capacity, payload_bytes, what) in
        [(0, 0, "capacity"), (256, 0, "capacity"), (1, 4097, "payload size")]
    {
        let error = ask(&request(0..5, capacity, payload_bytes), &[]);
        assert!(matches!(&error, OmrError::Request { what: found, .. } if *found == what), "{error}");
    }
    let end = BOARD.messages.len() as u64;
    assert!(matches!(ask(&request(0..end + 1, 1, 0), &[]), OmrError::NotCovered { .. }));
    assert!(matches!(ask(&request(0..786_433, 1, 0), &[]), OmrError::Range { .. }));
    let reversed = request(std::ops::Range { start: 5, end: 4 }, 1, 0);
    assert!(matches!(ask(&reversed, &[]), OmrError::Request { what: "end of the range", .. }));
    assert!(matches!(ask(&request(0..3, 1, 5), &[&[]]), OmrError::Request { found: 1, .. }));
    let swapped: Vec<_> = vectors.iter().rev().copied().collect();
    let foreign =
        detector.digests(&public_keys(), &swapped, &request(0..5, 1, 0), Payload::source(0, &[]), |_| ());
    assert!(matches!(foreign, Err(OmrError::ForeignDigest { .. })));

    let other = detector.pertinency(&[&KEYS[1]], 0, &BOARD.clues(), &Seed::from([56; 32]), |_| ()).unwrap();
    assert!(!other[0].shares_pass(vectors[0]));
    let passes = detector.digests(
        &public_keys(),
        &[vectors[0], &other[0]],
        &request(0..5, 1, 0),
        Payload::source(0, &[]),
        |_| (),
    );
    assert_eq!(passes.unwrap_err(), OmrError::OtherPass);

    let short = ClueSecretKey::new(ClueParameters::SHORT, &Seed::from([1; 32]));
    let error = CompactSecret::generate(&CONTEXT, &Seed::from([1; 32]), &short).unwrap_err();
    assert!(matches!(error, OmrError::Parameters { what: "clue key", .. }), "{error}");
    assert!(CompactParameters::insecure(ClueParameters::SHORT).is_err());
}

/// Clues that would match many recipients at once match nobody, nor do copies and sums of one recipient's clues (REVIEW P2). The same
/// a' in the same message does, which a board does not take: the last of them.
#[test]
fn snake_eye_clues_copies_and_sums_match_nobody() {
    let board = Board::new(90, |_| Some(0));
    let mut forged = vec![Message::crafted(&[0; 1024], [0, 0]), Message::crafted(&[1; 1024], [0, 0])];
    for (payload, three) in (1_000..).zip(board.messages.windows(3)) {
        let [first, second, third] = [&three[0], &three[1], &three[2]];
        forged.push(first.moved([0, 0], payload));
        forged.push(first.moved([1, 786_432], payload));
        forged.push(combined(&[(1, first), (1, second), (-1, third)], payload));
        forged.push(combined(&[(2, first), (-1, second)], payload));
        forged.push(combined(&[(3, first), (-2, second)], payload));
    }
    forged.push(board.messages[7].moved([1, 0], 7));
    let detector = Detector::new(&CONTEXT).unwrap();
    let vectors = detector.pertinency(&keys(), 0, &views(&forged), &seed(), |_| ()).unwrap();
    let last = forged.len() - 1;
    assert!(last > 400);
    for (index, (recipient, vector)) in RECIPIENTS.iter().zip(&vectors).enumerate() {
        let mut expected = vec![false; last];
        expected.push(index == 0);
        assert_eq!(audit::pertinent(&recipient.secret, vector).0, expected);
    }
}

/// Indices go up to 2^64 - 1, where the end of a block is beyond them.
#[test]
fn the_last_indices_are_found_too() {
    let board = Board::new(10, |index| (index % 4 == 0).then_some(0));
    let detector = Detector::new(&CONTEXT).unwrap();
    let first = u64::MAX - 10;
    let vector = detector.pertinency(&[&KEYS[0]], first, &board.clues(), &seed(), |_| ()).unwrap();
    for skipped in [0, 3] {
        let request = request(first + skipped..u64::MAX, 5, 0);
        let digest = detector
            .digests(&[&RECIPIENTS[0].key], &[&vector[0]], &request, Payload::source(0, &[]), |_| ())
            .unwrap();
        let found: Vec<u64> = decode(0, &digest[0]).unwrap().iter().map(|found| found.index).collect();
        let expected: Vec<u64> = (skipped..10).filter(|index| index % 4 == 0).map(|i| first + i).collect();
        assert_eq!(found, expected);
    }
}

/// A file says which key it is for, and whoever makes it can write any.
#[test]
fn vectors_and_digests_of_other_parameters_are_refused() {
    let mut parameters = CompactParameters::insecure(ClueParameters::STANDARD).unwrap();
    parameters.bfv.ciphertext_moduli.swap(3, 4);
    parameters.digest_degree /= 2;
    let other = CompactContext::new(parameters, Backend::best()).unwrap();
    assert_ne!(other.id(), CONTEXT.id());
    let key = &RECIPIENTS[0].key;
    let seal =
        |kind, body: &[u8]| restante_wire::Envelope { kind, version: 2, parameters: other.id(), body }.seal();

    let request = request(0..5, 3, 0);
    let size = PertinencyVector::file_bytes(&other, 5) - restante_wire::Envelope::OVERHEAD_BYTES;
    let mut body = vec![0; size];
    body[8] = 5;
    body[16..32].copy_from_slice(&key.id().0);
    body[64] = 1;
    let vector = PertinencyVector::from_file(&other, &seal(Kind::PertinencyVector, &body)).unwrap();
    let detector = Detector::new(&CONTEXT).unwrap();
    let error = detector.digests(&[key], &[&vector], &request, Payload::source(0, &[]), |_| ()).unwrap_err();
    assert!(matches!(error, OmrError::Parameters { what: "pertinency vector", .. }), "{error}");

    let size = CompactDigest::file_bytes(&other, &request) - restante_wire::Envelope::OVERHEAD_BYTES;
    let mut body = vec![0; size];
    (body[8], body[16], body[24]) = (5, 3, 1);
    body[28..44].copy_from_slice(&key.id().0);
    let digest = CompactDigest::from_file(&other, &seal(Kind::CompactDigest, &body)).unwrap();
    let error = Decoder::new(&RECIPIENTS[0].secret).unwrap().decode(&digest).unwrap_err();
    assert!(matches!(error, OmrError::Parameters { what: "compact digest", .. }), "{error}");
}
