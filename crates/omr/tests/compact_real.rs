//! The compact digest with its real parameters, end to end, once: minutes of work, and 3 GiB of memory.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Instant;

use restante_clue::{BoundClue, Clue, ClueParameters, ClueSecretKey};
use restante_omr::compact::{
    CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, CompactSecret, Decoder, Detector,
    DigestRequest, Payload, PreparedKey, Retrieved, audit,
};
use restante_ring::{Backend, sample::Seed};
use restante_wire::{
    Encode,
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};

const MESSAGES: usize = 65_536;
const PAYLOAD_BYTES: usize = 612;
const CAPACITY: usize = 50;
/// The bits of noise that every stage must leave.
const MARGIN_BITS: f64 = 6.0;

#[test]
fn a_full_block_of_real_clues_becomes_a_digest_of_its_messages() {
    let mut last = Instant::now();
    let mut lap = |what: &str| {
        let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = memory.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("").to_owned();
        println!("{what}: {:.2} s, {peak}", last.elapsed().as_secs_f64());
        last = Instant::now();
    };
    let parameters = CompactParameters::new(ClueParameters::STANDARD).unwrap();
    println!("log2 QP = {:.1}", parameters.bfv.key_modulus_bits());
    let context = CompactContext::new(parameters, Backend::best()).unwrap();
    lap("context");
    let seed = Seed::from([1; 32]);
    let clue = ClueSecretKey::new(ClueParameters::STANDARD, &seed.derive("clue", &[]));
    let secret = CompactSecret::generate(&context, &seed.derive("detection", &[]), &clue).unwrap();
    let file = secret.detection_key().unwrap().to_file();
    lap("detection key");
    println!("detection key: {} bytes, {:?}", file.len(), CompactDetectionKey::part_bytes(&context));
    assert_eq!(file.len(), CompactDetectionKey::file_bytes(&context));
    let key = PreparedKey::new(CompactDetectionKey::from_file(&context, &file).unwrap());
    lap("prepared key");

    let stranger = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([2; 32])).clue_key().prepare();
    let maker = clue.clue_key().prepare();
    let mut stream = Seed::from([3; 32]).stream("test/clues", &[]);
    // As many as the digest holds, on both sides of where the slots' second row begins.
    let pertinent = |index: usize| index % 1311 == 0;
    let payloads: Vec<Vec<u8>> = (0..MESSAGES)
        .map(|index| {
            let mut payload = vec![0; PAYLOAD_BYTES];
            Seed::from([4; 32]).stream("test/payload", &[index as u64]).bytes(&mut payload);
            payload
        })
        .collect();
    let clues: Vec<(Clue, Binding)> = (0..MESSAGES)
        .map(|i| {
            let draft = if pertinent(i) { &maker } else { &stranger }.draft(Period(20_000), &mut stream);
            let payload = Hash::of(&payloads[i]);
            let binding = Binding::new(&BoardId([1; 16]), &draft.bound_hash(), &payload);
            (draft.bind(&binding), binding)
        })
        .collect();
    let bytes: Vec<_> = clues.iter().map(|(clue, _)| clue.to_bytes()).collect();
    let views = bytes.iter().zip(&clues).map(|(bytes, (_, binding))| BoundClue { bytes, binding: *binding });
    let views: Vec<_> = views.collect();
    let distances: Vec<_> = clues.iter().map(|(one, binding)| clue.distances(one, binding)).collect();
    lap("board");

    let detector = Detector::new(&context).unwrap();
    let (reports, vector) =
        audit::phase1(&detector, &secret, &key, &views, &distances, &seed.derive("slots", &[]));
    lap("phase 1 with its audit");
    for report in &reports {
        println!("{report:?}");
    }
    for report in reports {
        assert!(report.exact, "{report:?}");
        assert!(report.noise.budget_bits() >= MARGIN_BITS, "{report:?}");
        assert!(report.noise.root_bits <= audit::stable_root_bits(&context), "{report:?}");
    }
    let request =
        DigestRequest { range: 0..MESSAGES as u64, capacity: CAPACITY, payload_bytes: PAYLOAD_BYTES };
    let payload_views: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let keys = [key.key()];
    let digest = detector
        .digests(&keys, &[&vector], &request, Payload::source(0, &payload_views), |_| ())
        .unwrap()
        .remove(0);
    lap("phase 2");
    let file = digest.to_file(&context);
    println!("digest: {} bytes", file.len());
    let digest = CompactDigest::from_file(&context, &file).unwrap();
    let noise = audit::packed(&detector, &secret, key.key(), &vector, &request, &payload_views).unwrap();
    println!("packed: {noise:?}");
    assert!(noise.iter().all(|noise| noise.budget_bits() >= MARGIN_BITS), "{noise:?}");
    lap("phase 2 with its audit");
    let decoder = Decoder::new(&secret).unwrap();
    let found = decoder.decode(&digest).unwrap();
    lap("decoding");
    let expected: Vec<_> = (0..MESSAGES)
        .filter(|&index| clue.is_pertinent(&clues[index].0, &clues[index].1))
        .map(|index| Retrieved {
            index: index as u64,
            payload: payloads[index].clone(),
            payload_bytes: PAYLOAD_BYTES,
        })
        .collect();
    assert_eq!(expected.len(), CAPACITY);
    assert_eq!(found, expected);
}
