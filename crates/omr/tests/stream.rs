//! The stream digest with its real parameters, against the test in the clear.

#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use restante_clue::{Clue, ClueMaker, ClueParameters, ClueSecretKey};
use restante_omr::{
    OmrError,
    stream::{
        BLOCK, Decoder, DetectionKey, Detector, PreparedKey, RecipientSecret, StreamContext, StreamDigest,
        StreamParameters,
    },
};
use restante_ring::{Backend, sample::Seed};
use restante_scan::Runner;
use restante_wire::{Encode, Kind, WireError};

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
        let secret = RecipientSecret::generate(context, &seed.derive("detection", &[]));
        let key = secret.detection_key(&clue).unwrap();
        Self { maker: clue.clue_key().prepare(), clue, secret, key }
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(&self.secret, &self.key).unwrap()
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
fn clues(recipients: &[Recipient], count: usize) -> Vec<Clue> {
    let stranger =
        ClueSecretKey::new(*recipients[0].clue.parameters(), &Seed::from([99; 32])).clue_key().prepare();
    let mut stream = Seed::from([77; 32]).stream("test/clues", &[]);
    (0..count)
        .map(|index| match index % 3 {
            0 => stranger.make(&mut stream),
            _ => recipients[index / 3 % recipients.len()].maker.make(&mut stream),
        })
        .collect()
}

fn views(bytes: &[Vec<u8>]) -> Vec<&[u8]> {
    bytes.iter().map(Vec::as_slice).collect()
}

/// Distances from a digest are exactly those in the clear, for every message, and so are the indices.
fn check_exact(context: &StreamContext, recipients: &[Recipient], count: usize, first: u64) {
    let clues = clues(recipients, count);
    let bytes: Vec<_> = clues.iter().map(Encode::to_bytes).collect();
    let keys: Vec<_> = recipients.iter().map(|recipient| PreparedKey::new(&recipient.key)).collect();
    let digests = Detector::new(context).detect(&keys, first, &views(&bytes)).unwrap();
    assert_eq!(digests.len(), recipients.len());
    for (recipient, digest) in recipients.iter().zip(&digests) {
        let file = digest.to_file(context);
        assert_eq!(file.len(), StreamDigest::file_bytes(context, count as u64));
        let digest = StreamDigest::from_file(context, &file).unwrap();
        assert_eq!((digest.first(), digest.count()), (first, count as u64));
        let distances = recipient.decoder().distances(&digest).unwrap();
        let expected: Vec<_> = clues.iter().map(|clue| recipient.clue.distances(clue)).collect();
        assert_eq!(distances, expected);
        let pertinent = recipient.decoder().pertinent(&digest).unwrap();
        let expected: Vec<_> = (first..)
            .zip(&clues)
            .filter(|(_, clue)| recipient.clue.is_pertinent(clue))
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
    let bytes: Vec<_> = clues(&RECIPIENTS, 2 * BLOCK + 100).iter().map(Encode::to_bytes).collect();
    let clues = views(&bytes);
    let keys: Vec<_> = RECIPIENTS[..1].iter().map(|recipient| PreparedKey::new(&recipient.key)).collect();
    let detector = Detector::new(&CONTEXT);
    let expected = detector.detect(&keys, 7, &clues).unwrap();
    for threads in [1, 2, 3] {
        let runner = Runner::new(threads).unwrap();
        let done = std::sync::atomic::AtomicUsize::new(0);
        let digests = detector
            .detect_with(&runner, &keys, 7, &clues, |messages| {
                done.fetch_add(messages, std::sync::atomic::Ordering::Relaxed);
            })
            .unwrap();
        assert_eq!(digests, expected);
        assert_eq!(done.into_inner(), clues.len());
    }
    for backend in Backend::available() {
        let context = context(ClueParameters::STANDARD, backend);
        let key = DetectionKey::from_file(&context, &RECIPIENTS[0].key.to_file()).unwrap();
        let digests = Detector::new(&context).detect(&[PreparedKey::new(&key)], 7, &clues[..300]).unwrap();
        let reference = detector.detect(&keys, 7, &clues[..300]).unwrap();
        assert_eq!(digests[0].to_file(&context), reference[0].to_file(&CONTEXT), "{backend}");
    }
}

#[test]
fn detection_keys_survive_their_file_and_are_under_a_megabyte() {
    let file = RECIPIENTS[0].key.to_file();
    assert_eq!(file.len(), DetectionKey::file_bytes(&CONTEXT));
    assert!(file.len() < 1_000_000, "{} bytes", file.len());
    let loaded = DetectionKey::from_file(&CONTEXT, &file).unwrap();
    assert_eq!(loaded.to_file(), file);
    assert_eq!(loaded.id(), RECIPIENTS[0].key.id());
    // Made again from the same secrets, it is the same key.
    let again = RECIPIENTS[0].secret.detection_key(&RECIPIENTS[0].clue).unwrap();
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
    let bytes: Vec<_> =
        hostile.iter().map(|a| Clue::from_coefficients(parameters, a, [0, 0]).unwrap().to_bytes()).collect();
    let keys: Vec<_> = RECIPIENTS.iter().map(|recipient| PreparedKey::new(&recipient.key)).collect();
    let digests = Detector::new(&CONTEXT).detect(&keys, 0, &views(&bytes)).unwrap();
    for (recipient, digest) in RECIPIENTS.iter().zip(&digests) {
        assert_eq!(recipient.decoder().pertinent(digest).unwrap(), [0u64; 0]);
    }
}

#[test]
fn bad_input_is_named() {
    let keys = [PreparedKey::new(&RECIPIENTS[0].key)];
    let detector = Detector::new(&CONTEXT);
    let clue = clues(&RECIPIENTS, 1)[0].to_bytes();
    let error = detector.detect(&keys, 0, &[&clue, &clue[1..]]).unwrap_err();
    assert_eq!(error, OmrError::ClueBytes { index: 1, found: clue.len() - 1, expected: clue.len() });

    let digest = &detector.detect(&keys, 0, &[&clue]).unwrap()[0];
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
    let bytes = [vec![0xff; length], noise, clues(&RECIPIENTS, 2)[1].to_bytes()];
    let digests =
        Detector::new(&CONTEXT).detect(&[PreparedKey::new(&RECIPIENTS[0].key)], 0, &views(&bytes)).unwrap();
    assert_eq!(RECIPIENTS[0].decoder().pertinent(&digests[0]).unwrap(), [2]);
}
