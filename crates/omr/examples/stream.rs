//! Oblivious message retrieval from end to end, with the real parameters: an account, senders, a detector, and the account's
//! owner, who finds two messages of many by a stream digest.
//!
//!     cargo run --release -p restante-omr --example stream

use std::error::Error;

use restante_clue::{BoundClue, ClueKey, ClueParameters, ClueSecretKey};
use restante_omr::stream::{
    Decoder, DetectionKey, Detector, PreparedKey, RecipientSecret, StreamContext, StreamDigest,
    StreamParameters,
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
    let context = StreamContext::new(StreamParameters::new(ClueParameters::STANDARD)?, Backend::best())?;

    // The account. Senders get the clue key, the detector gets the detection key. A real program draws every seed from the
    // operating system.
    let account = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([1; 32]));
    let secret = RecipientSecret::generate(&context, &Seed::from([2; 32]), &account)?;
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

    // The detector works out from each message what its clue is bound to, and makes the digest. It learns nothing about which
    // messages are the account's.
    let key = PreparedKey::new(&DetectionKey::from_file(&context, &key_file)?);
    let clues: Vec<BoundClue<'_>> = messages
        .iter()
        .map(|(clue, payload)| {
            let binding = MessageHashes::of(split_clue(clue).0, payload.as_bytes()).binding(&BOARD);
            BoundClue { bytes: clue, binding }
        })
        .collect();
    let digests = Detector::new(&context)?.detect(&[key], 0, &clues, &Seed::from([5; 32]))?;
    let digest_file = digests[0].to_file(&context);
    println!("digest: {} bytes for up to 4,096 messages", digest_file.len());

    // The owner decrypts it. What is found must not show in any request: see SECURITY.md.
    let digest = StreamDigest::from_file(&context, &digest_file)?;
    let found = Decoder::new(&secret)?.pertinent(&digest)?;
    println!("pertinent: {found:?}");
    assert_eq!(found, PERTINENT.map(|index| index as u64));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
