#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

use std::error::Error;

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{Account, Address, BoardId, Detection, Period};
use restante_clue::{BoundClue, ClueParameters};
use restante_dpf::{Bits, Bytes, Integers, Parameters, Variant, generate};
use restante_omr::{
    KeyId,
    stream::{DetectionKey, Detector, PreparedKey, StreamDigest},
};
use restante_pir::search::{Preset, Query, Scheme, SelectorHash, SelectorKind, Shape};
use restante_ring::{Backend, sample::Seed};
use restante_wire::binding::{MessageHashes, split_clue};
use restante_wire::merkle::Hash;

type Failure = Box<dyn Error>;

/// An engine, and the hash of what it computes.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// The hash of its files, in hexadecimal digits.
    pub expected: &'static str,
    files: fn(Backend) -> Result<Vec<Vec<u8>>, Failure>,
}

/// All parts.
pub const PARTS: [Part; 4] = [
    Part {
        name: "messages",
        expected: "806243fa94e40f161a1ce22538937a355605f2c4baf1f048202279b80c342cf8",
        files: messages,
    },
    Part {
        name: "detection",
        expected: "63ebd4fbff847e626db1e289476bc41e495924fe8cfebdd479057009a44b43ce",
        files: detection,
    },
    Part {
        name: "point functions",
        expected: "0381a564b1107bc35bbf4b3853503d1ccc84eedc162393aadbf9c0fdec7dbcdc",
        files: point_functions,
    },
    Part {
        name: "searches",
        expected: "8126a38d38d32b31a881a66fa863a84cd15a244cb8be15f707c06586d0ecb0bd",
        files: searches,
    },
];

impl Part {
    /// The hash of what a back end computes.
    ///
    /// # Errors
    ///
    /// Those of the engine, and where it does not give what it must.
    pub fn hash(&self, backend: Backend) -> Result<String, Failure> {
        let files = (self.files)(backend)?;
        let hashes: Vec<u8> = files.iter().flat_map(|file| Hash::of(file).0).collect();
        Ok(Hash::of(&hashes).0.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn rng(name: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([name; 32])
}

const BOARD: BoardId = BoardId([7; 16]);
const DAY: Period = Period(20_000);

fn account(name: u8) -> Account {
    Account::from_seed(ClueParameters::STANDARD, Seed::from([name; 32]))
}

/// An address, messages to it, and what is read of them.
fn messages(_: Backend) -> Result<Vec<Vec<u8>>, Failure> {
    let account = account(1);
    let address = account.address().to_file();
    let sender = Address::from_file(&address)?.prepare();
    let mut files = vec![account.to_file().to_vec(), address];
    for length in [0, 1_000, 10_000] {
        let message = sender.write_message(&BOARD, DAY, &vec![b'x'; length], &mut rng(2))?;
        let text = account.open(&BOARD, &message.clue, &message.payload)?;
        if !account.is_pertinent(&BOARD, &message.clue, &message.payload)? || text.len() != length {
            return Err("a message is not read as it was written".into());
        }
        files.extend([message.clue, message.payload, text]);
    }
    Ok(files)
}

/// A detection key, the digest of more than a block, and what is found in it.
fn detection(backend: Backend) -> Result<Vec<Vec<u8>>, Failure> {
    const MESSAGES: usize = 4_100;
    const PERTINENT: [usize; 4] = [0, 1_234, 4_095, 4_099];
    let (alice, bob) = (account(1), account(3));
    let [to_alice, to_bob] = [&alice, &bob].map(|account| account.address().prepare());
    let mut rng = rng(4);
    // Few different clues: making one takes longer than detecting it.
    let others: Vec<Vec<u8>> = (0..16).map(|_| to_bob.make_clue(&BOARD, DAY, b"", &mut rng)).collect();
    let hers: Vec<Vec<u8>> =
        PERTINENT.iter().map(|_| to_alice.make_clue(&BOARD, DAY, b"", &mut rng)).collect();
    let clues: Vec<BoundClue<'_>> = (0..MESSAGES)
        .map(|index| match PERTINENT.iter().position(|&place| place == index) {
            Some(place) => hers[place].as_slice(),
            None => others[index % others.len()].as_slice(),
        })
        .map(|bytes| {
            let binding = MessageHashes::of(split_clue(bytes).0, b"").binding(&BOARD);
            BoundClue { bytes, binding }
        })
        .collect();

    let keeper = Detection::new(&alice, backend)?;
    let key = DetectionKey::from_file(keeper.context(), keeper.key_file())?;
    let detector = Detector::new(keeper.context())?;
    let first = 7_000_000;
    let digests = detector.detect(&[PreparedKey::new(&key)], first, &clues, &Seed::from([5; 32]))?;
    let digest = digests.first().ok_or("no digest for a key")?.to_file(keeper.context());
    let found = keeper.decoder().pertinent(&StreamDigest::from_file(keeper.context(), &digest)?)?;
    if found != PERTINENT.map(|place| first + place as u64)
        || keeper.key_id() != KeyId::of_file(keeper.key_file())
    {
        return Err(format!("found {found:?}").into());
    }
    Ok(vec![keeper.key_file().to_vec(), digest])
}

/// Keys and shares of every kind of output and tree.
fn point_functions(_: Backend) -> Result<Vec<Vec<u8>>, Failure> {
    const DOMAIN: u64 = 100_000;
    const POINT: u64 = 77_777;
    let mut files = Vec::new();
    for variant in [Variant::Plain, Variant::HalfTree] {
        for key in generate(&Parameters::new(DOMAIN, Bits, variant)?, POINT, &true, &mut rng(6))? {
            let mut shares = vec![0; DOMAIN.div_ceil(8) as usize];
            key.evaluator().all(&mut shares)?;
            files.extend([key.seal().to_vec(), shares]);
        }
        let parameters = Parameters::new(DOMAIN, Bytes(20), variant)?;
        for key in generate(&parameters, POINT, b"twenty bytes of text", &mut rng(7))? {
            let mut shares = vec![0; 20 * DOMAIN as usize];
            key.evaluator().all(&mut shares)?;
            files.extend([key.seal().to_vec(), shares]);
        }
        for key in generate(&Parameters::new(DOMAIN, Integers, variant)?, POINT, &u64::MAX, &mut rng(8))? {
            let mut shares = vec![0; DOMAIN as usize];
            key.evaluator().all(&mut shares)?;
            files
                .extend([key.seal().to_vec(), shares.iter().flat_map(|share| share.to_le_bytes()).collect()]);
        }
    }
    Ok(files)
}

/// Where a selector is, and a query for it with its state.
fn searches(backend: Backend) -> Result<Vec<Vec<u8>>, Failure> {
    let hash = SelectorHash::new(SelectorKind::Bytes, 12, [9; 32])?;
    let located = hash.locate(b"SNOWMAN");
    let scheme = Scheme::new(Preset::standard(), backend)?;
    let shape = Shape::new(hash.bits(), 1)?;
    let (state, query) = Query::new(&scheme, shape, &[located.bucket], b"note", b"state", &mut rng(10))?;
    let location = [&located.bucket.to_le_bytes(), located.check.as_slice()].concat();
    Ok(vec![location, query.to_file(&scheme), state.to_file(&scheme).to_vec()])
}

/// For a host without anything else: 1 if the part with this index gives what is expected, 0 if it gives something else, 2 if it
/// fails, 3 if there is no such part.
#[allow(unsafe_code, reason = "the name of an exported function; there is no other of this name")]
#[unsafe(no_mangle)]
pub extern "C" fn restante_portability(part: u32) -> u32 {
    match PARTS.get(part as usize).map(|part| (part.expected, part.hash(Backend::best()))) {
        Some((expected, Ok(found))) => u32::from(expected == found),
        Some((_, Err(_))) => 2,
        None => 3,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn every_back_end_computes_what_is_written_down() {
        let expected = PARTS.map(|part| (part.name, part.expected.to_owned()));
        for backend in Backend::available() {
            assert_eq!(PARTS.map(|part| (part.name, part.hash(backend).unwrap())), expected, "{backend}");
        }
    }

    #[test]
    fn a_host_is_told() {
        let parts = PARTS.len() as u32;
        assert_eq!((0..=parts).map(|part| restante_portability(part)).collect::<Vec<_>>(), [1, 1, 1, 1, 3]);
    }
}
