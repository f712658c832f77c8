//! The compact digest from end to end: a pertinency vector, a digest of it with payloads, and what its owner reads.
//!
//! It runs in a ring that is small enough to watch and protects nothing. In the real one (`CompactParameters::new`) a block has
//! 65,536 messages and takes minutes, and all else is the same.
//!
//!     cargo run --release -p restante-omr --example compact

use std::error::Error;

use restante_clue::{BoundClue, ClueKey, ClueParameters, ClueSecretKey};
use restante_omr::{
    OmrError,
    compact::{
        CompactContext, CompactDetectionKey, CompactDigest, CompactParameters, CompactSecret, Decoder,
        Detector, DigestRequest, Payload, PreparedKey,
    },
};
use restante_ring::{
    Backend,
    sample::{Seed, Stream},
};
use restante_wire::{
    Encode,
    binding::{Binding, BoardId, MessageHashes, Period, split_clue},
    merkle::Hash,
};

const BOARD: BoardId = BoardId([7; 16]);
const DAY: Period = Period(20_000);
const PERTINENT: [usize; 2] = [17, 90];

/// A clue for the owner of a key, bound to the board and the payload.
fn write(to: &ClueKey, payload: &[u8], stream: &mut Stream) -> Vec<u8> {
    let draft = to.prepare().draft(DAY, stream);
    let binding = Binding::new(&BOARD, &draft.bound_hash(), &Hash::of(payload));
    draft.bind(&binding).to_bytes()
}

fn main() -> Result<(), Box<dyn Error>> {
    let parameters = CompactParameters::insecure(ClueParameters::STANDARD)?;
    let context = CompactContext::new(parameters, Backend::best())?;

    // The account. A real program draws every seed from the operating system.
    let account = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([1; 32]));
    let secret = CompactSecret::generate(&context, &Seed::from([2; 32]), &account)?;
    let key_file = secret.detection_key()?.to_file();
    println!("detection key: {} bytes", key_file.len());

    // Senders write to the board. Two messages are for the account.
    let stranger = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([3; 32]));
    let mut stream = Seed::from([4; 32]).stream("example/clues", &[]);
    let messages: Vec<(Vec<u8>, String)> = (0..100)
        .map(|index| {
            let payload = format!("message {index}");
            let to = if PERTINENT.contains(&index) { &account } else { &stranger };
            (write(to.clue_key(), payload.as_bytes(), &mut stream), payload)
        })
        .collect();

    // Phase 1: clues and key to a pertinency vector, one encrypted bit for each message.
    let detector = Detector::new(&context)?;
    let key = PreparedKey::new(CompactDetectionKey::from_file(&context, &key_file)?);
    let clues: Vec<BoundClue<'_>> = messages
        .iter()
        .map(|(clue, payload)| {
            let binding = MessageHashes::of(split_clue(clue).0, payload.as_bytes()).binding(&BOARD);
            BoundClue { bytes: clue, binding }
        })
        .collect();
    let vectors = detector.pertinency(&[&key], 0, &clues, &Seed::from([5; 32]), |_| ())?;

    // Phase 2: a digest for up to 8 messages and the first 16 bytes of each payload. Its size does not depend on the range.
    let request = DigestRequest { range: 0..100, capacity: 8, payload_bytes: 16 };
    let payloads: Vec<&[u8]> = messages.iter().map(|(_, payload)| payload.as_bytes()).collect();
    let source = Payload::source(0, &payloads);
    let digests = detector.digests::<OmrError>(&[key.key()], &[&vectors[0]], &request, source, |_| ())?;
    let digest_file = digests[0].to_file(&context);
    println!("digest: {} bytes", digest_file.len());

    // The owner decrypts it. What is found must not show in any request: see SECURITY.md.
    let digest = CompactDigest::from_file(&context, &digest_file)?;
    let found = Decoder::new(&secret)?.decode(&digest)?;
    for message in &found {
        println!("{}: {}", message.index, String::from_utf8_lossy(&message.payload));
    }
    assert_eq!(found.iter().map(|message| message.index as usize).collect::<Vec<_>>(), PERTINENT);
    assert_eq!(found[1].payload, b"message 90");
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
