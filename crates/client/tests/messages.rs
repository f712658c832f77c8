//! Messages reach their recipient whole, and nobody else.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{Account, BoardId, LetterError, MAX_TEXT_BYTES, PAYLOAD_BYTES, Period};
use restante_clue::ClueParameters;

const BOARD: BoardId = BoardId([0xb0; 16]);
const DAY: Period = Period(20_000);

/// Encapsulated key, length and tag, from RFC 9180 and the X-Wing draft.
const OVERHEAD_BYTES: usize = 1120 + 4 + 16;

fn account(seed: u8) -> (Account, ChaCha20Rng) {
    let mut rng = ChaCha20Rng::from_seed([seed; 32]);
    (Account::random(ClueParameters::STANDARD, &mut rng), rng)
}

#[test]
fn every_length_around_every_size_class_comes_back() {
    let (account, mut rng) = account(1);
    let sender = account.address().prepare();
    let mut lengths = vec![0, 1, 2];
    lengths
        .extend(PAYLOAD_BYTES.iter().flat_map(|bytes| [bytes - OVERHEAD_BYTES, bytes - OVERHEAD_BYTES + 1]));
    assert_eq!(lengths.pop(), Some(MAX_TEXT_BYTES + 1));
    for length in lengths {
        let text: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
        let message = sender.write_message(&BOARD, DAY, &text, &mut rng).unwrap();
        let expected = PAYLOAD_BYTES.into_iter().find(|bytes| length + OVERHEAD_BYTES <= *bytes).unwrap();
        assert_eq!(message.payload.len(), expected);
        assert_eq!(message.clue.len(), account.parameters().clue_bytes());
        assert_eq!(account.is_pertinent(&BOARD, &message.clue, &message.payload), Ok(true));
        assert_eq!(account.open(&BOARD, &message.clue, &message.payload), Ok(text));
    }
    let text = vec![0; MAX_TEXT_BYTES + 1];
    let error = sender.write_message(&BOARD, DAY, &text, &mut rng).unwrap_err();
    assert_eq!(error, LetterError::MessageTooLong { found: MAX_TEXT_BYTES + 1 });
    assert!(error.to_string().contains(&MAX_TEXT_BYTES.to_string()), "{error}");
}

#[test]
fn both_presets_carry_messages() {
    for parameters in ClueParameters::ALL {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let account = Account::random(parameters, &mut rng);
        let message = account.address().prepare().write_message(&BOARD, DAY, b"text", &mut rng).unwrap();
        assert_eq!(account.is_pertinent(&BOARD, &message.clue, &message.payload), Ok(true));
        assert_eq!(account.open(&BOARD, &message.clue, &message.payload), Ok(b"text".to_vec()));
    }
}

#[test]
fn any_changed_bit_is_refused() {
    let (account, mut rng) = account(3);
    let message = account.address().prepare().write_message(&BOARD, DAY, b"text", &mut rng).unwrap();
    // Every byte once, with a bit that wanders, and every bit of the last bytes of each part.
    let every_byte = (0..message.payload.len()).map(|byte| byte * 8 + byte % 8);
    let edges = [1120, message.payload.len() - 16, message.payload.len()];
    let every_bit = edges.into_iter().flat_map(|edge| (edge - 2) * 8..edge * 8);
    for bit in every_byte.chain(every_bit) {
        let mut payload = message.payload.clone();
        payload[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(account.open(&BOARD, &message.clue, &payload), Err(LetterError::NotForUs), "bit {bit}");
    }
    let changed = |bit: usize| {
        let mut clue = message.clue.clone();
        clue[bit / 8] ^= 1 << (bit % 8);
        clue
    };
    // The tail says whom a message is for, and nothing else hangs on it: a board takes only one for a bound part.
    let tail = (message.clue.len() - 5) * 8;
    for bit in [tail + 19, tail + 39] {
        let clue = changed(bit);
        assert_eq!(account.is_pertinent(&BOARD, &clue, &message.payload), Ok(false), "tail, bit {bit}");
    }
    for bit in [0, 31, 32, 77, tail - 1] {
        let clue = changed(bit);
        assert_eq!(
            account.open(&BOARD, &clue, &message.payload),
            Err(LetterError::NotForUs),
            "clue bit {bit}"
        );
    }
}

#[test]
fn payloads_are_bound_to_their_clue_and_account() {
    let (alice, mut rng) = account(4);
    let (bob, _) = account(5);
    let sender = alice.address().prepare();
    let first = sender.write_message(&BOARD, DAY, b"first", &mut rng).unwrap();
    let second = sender.write_message(&BOARD, DAY, b"second", &mut rng).unwrap();
    assert_ne!(first.clue, second.clue);
    assert_eq!(alice.open(&BOARD, &first.clue, &second.payload), Err(LetterError::NotForUs));
    assert_eq!(bob.open(&BOARD, &first.clue, &first.payload), Err(LetterError::NotForUs));
    assert_eq!(bob.is_pertinent(&BOARD, &first.clue, &first.payload), Ok(false));
}

#[test]
fn no_other_length_is_read() {
    let (account, mut rng) = account(6);
    let message = account.address().prepare().write_message(&BOARD, DAY, &[1; 1000], &mut rng).unwrap();
    assert_eq!(message.payload.len(), 4096);
    for length in 0..4096 {
        let expected = if PAYLOAD_BYTES.contains(&length) {
            LetterError::NotForUs
        } else {
            LetterError::PayloadSize { found: length }
        };
        assert_eq!(account.open(&BOARD, &message.clue, &message.payload[..length]), Err(expected));
    }
    let mut longer = message.payload.clone();
    longer.push(0);
    assert_eq!(account.open(&BOARD, &message.clue, &longer), Err(LetterError::PayloadSize { found: 4097 }));
    assert!(matches!(
        account.is_pertinent(&BOARD, &message.clue[1..], &message.payload),
        Err(LetterError::Wire(_))
    ));
}
