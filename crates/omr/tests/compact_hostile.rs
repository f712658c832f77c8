//! Phase 1 at full size on blocks that somebody made to spoil it: minutes of work, and 3 GiB of memory. A step of `.ci/run`.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use restante_clue::{BoundClue, Clue, ClueParameters, ClueSecretKey};
use restante_omr::compact::{
    CompactContext, CompactParameters, CompactSecret, Detector, DigestRequest, PreparedKey, audit, failure,
};
use restante_ring::{Backend, sample::Seed};
use restante_wire::binding::{Binding, BoardId, Period};
use restante_wire::merkle::Hash;
use restante_wire::{BitWriter, Decode, Encode};

const CLUE: ClueParameters = ClueParameters::STANDARD;
const MESSAGES: usize = 65_536;
const PERIOD: Period = Period(20_000);

/// What a payload, a number here, binds a clue to.
fn binding(bound: &Hash, payload: usize) -> Binding {
    Binding::new(&BoardId([5; 16]), bound, &Hash::of(&payload.to_le_bytes()))
}

/// A clue with these residues, whatever they are.
fn clue(a: impl Iterator<Item = u32>, b: u32) -> Vec<u8> {
    let mut bytes = PERIOD.0.to_le_bytes().to_vec();
    let mut writer = BitWriter::new(&mut bytes);
    a.for_each(|value| writer.write(value.into(), 20));
    (0..2).for_each(|_| writer.write(b.into(), 20));
    writer.finish();
    assert_eq!(bytes.len(), CLUE.clue_bytes());
    bytes
}

/// `failure` states a probability for values at roots that stay below one unit; what is measured must be far below.
#[test]
#[ignore = "three minutes"]
fn no_block_that_can_be_posted_comes_near_the_limit_at_any_level() {
    let context = CompactContext::new(CompactParameters::new(CLUE).unwrap(), Backend::best()).unwrap();
    let seed = Seed::from([8; 32]);
    let owner = ClueSecretKey::new(CLUE, &seed.derive("clue", &[]));
    let secret = CompactSecret::generate(&context, &seed.derive("detection", &[]), &owner).unwrap();
    let key = PreparedKey::new(secret.detection_key().unwrap());
    let detector = Detector::new(&context).unwrap();
    let (q, degree) = (CLUE.modulus(), CLUE.degree());
    // Half of q and one more are the largest plaintexts, of either sign.
    let (low, high) = (q / 2, q / 2 + 1);
    let cosine = |k: usize, turns: usize| (std::f64::consts::PI * (k * turns) as f64 / degree as f64).cos();
    let shaped = |turns| clue((0..degree).map(|k| if cosine(k, turns) > 0.0 { low } else { high }), low);
    let draft = owner.clue_key().prepare().draft(PERIOD, &mut seed.stream("test", &[]));
    let bound = draft.bound_hash();
    let honest = draft.bind(&binding(&bound, 0)).to_bytes();
    let blocks: [(&str, Vec<Vec<u8>>); 3] = [
        // Every message counts, and every diagonal repeats itself.
        ("one honest clue, posted 65,536 times", vec![honest.clone()]),
        ("the largest residue everywhere", vec![clue((0..degree).map(|_| low), low)]),
        ("shaped after complex roots, eight kinds, and honest ones between", {
            (0..8).map(|i| shaped(2 * i + 1)).chain([honest.clone()]).collect()
        }),
    ];
    for (name, kinds) in blocks {
        // One payload for each kind, so that what clues are bound to repeats itself as they do.
        let bound: Vec<(Clue, Binding)> = kinds
            .iter()
            .map(|bytes| {
                let clue = Clue::from_bytes(&CLUE, bytes).unwrap();
                let binding = binding(&clue.bound_hash(), 0);
                (clue, binding)
            })
            .collect();
        let clues: Vec<BoundClue<'_>> = (0..MESSAGES)
            .map(|i| BoundClue { bytes: &kinds[i % kinds.len()], binding: bound[i % kinds.len()].1 })
            .collect();
        let distances: Vec<_> = bound.iter().map(|(clue, binding)| owner.distances(clue, binding)).collect();
        let distances: Vec<_> = (0..MESSAGES).map(|i| distances[i % distances.len()]).collect();
        let slots = seed.derive("slots", &[]);
        let (reports, vector) = audit::phase1(&detector, &secret, &key, &clues, &distances, &slots);
        println!("{name}");
        for report in &reports {
            let at_roots = report.at_roots(&context);
            println!(
                "  level {:2} {:14} at roots {:6.3}, budget {:6.1} bits",
                report.level,
                report.name,
                at_roots.unwrap_or(0.0),
                report.noise.budget_bits()
            );
            assert!(report.exact, "{name}: {report:?}");
            assert!(report.noise.budget_bits() >= 6.0, "{name}: {report:?}");
            // From here a value comes back with ease, from 0.85 on it would grow.
            assert!(at_roots.is_none_or(|value| value < 0.6), "{name}: {report:?}");
            if report.name.starts_with("distance") {
                assert!(at_roots.is_some_and(|value| value < 2.0 * failure::AFFINE), "{name}: {report:?}");
            }
        }
        let (bits, _) = audit::pertinent(&secret, &vector);
        let range = u64::from(CLUE.range());
        let near = |distances: &[i64; 2]| distances.iter().all(|x| x.unsigned_abs() <= range);
        assert!(bits.iter().eq(distances.iter().map(near).collect::<Vec<_>>().iter()), "{name}");
        if kinds.len() == 1 {
            continue;
        }
        // Payloads of the largest bytes for the last block.
        let payload = [0xff; 22];
        let payloads: Vec<&[u8]> = vec![&payload; MESSAGES];
        let request = DigestRequest { range: 0..MESSAGES as u64, capacity: 50, payload_bytes: 22 };
        let noise = audit::packed(&detector, &secret, key.key(), &vector, &request, &payloads).unwrap();
        println!("  packed: {noise:?}");
        assert!(noise.iter().all(|noise| noise.budget_bits() >= 6.0), "{noise:?}");
    }
}
