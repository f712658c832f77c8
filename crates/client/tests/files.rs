//! Secret key and address files.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_client::{Account, Address, BoardId, LetterError, Period};
use restante_clue::ClueParameters;
use restante_ring::sample::Seed;
use restante_wire::{Envelope, Kind, ParameterId, WireError};

const BOARD: BoardId = BoardId([0xb0; 16]);

fn account(seed: u8) -> Account {
    Account::from_seed(ClueParameters::STANDARD, Seed::from([seed; 32]))
}

/// The envelope with a body of the test's choice, its checksum right.
fn file(kind: Kind, parameters: ParameterId, body: &[u8]) -> Vec<u8> {
    Envelope { kind, version: 2, parameters, body }.seal()
}

#[test]
fn an_account_is_recovered_from_its_file() {
    for parameters in ClueParameters::ALL {
        let account = Account::from_seed(parameters, Seed::from([1; 32]));
        let recovered = Account::from_file(&account.to_file()).unwrap();
        assert_eq!(recovered.parameters(), &parameters);
        assert_eq!(recovered.address(), account.address());
        assert_eq!(recovered.detection_seed().as_bytes(), account.detection_seed().as_bytes());
        let (old, new) = (account.clue_secret_key(), recovered.clue_secret_key());
        assert_eq!(old.secret_coefficients(), new.secret_coefficients());
        assert_eq!(old.tags(), new.tags());
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let message =
            account.address().prepare().write_message(&BOARD, Period(20_000), b"text", &mut rng).unwrap();
        assert_eq!(recovered.open(&BOARD, &message.clue, &message.payload), Ok(b"text".to_vec()));
    }
}

#[test]
fn an_address_comes_back_and_has_a_stable_fingerprint() {
    let address = account(1).address().clone();
    let file = address.to_file();
    assert_eq!(file.len(), 40 + 2627 + 1216);
    let read = Address::from_file(&file).unwrap();
    assert_eq!(read, address);
    assert_eq!(read.fingerprint(), address.fingerprint());
    let groups: Vec<_> = read.fingerprint().split('-').map(str::len).collect();
    assert_eq!(groups, [4; 8]);
    assert_ne!(account(2).address().fingerprint(), address.fingerprint());
    let short = Account::from_seed(ClueParameters::SHORT, Seed::from([1; 32]));
    assert_ne!(short.address().fingerprint(), address.fingerprint());
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let (secret, address) = (account(1).to_file(), account(1).address().to_file());
    for bytes in [&*secret, &address] {
        for position in (0..bytes.len()).step_by(7) {
            let mut changed = bytes.to_vec();
            changed[position] ^= 0x10;
            assert!(Account::from_file(&changed).is_err() && Address::from_file(&changed).is_err());
            let cut = &bytes[..position];
            assert!(Account::from_file(cut).is_err() && Address::from_file(cut).is_err());
        }
    }
    assert!(matches!(Account::from_file(&address), Err(LetterError::Wire(WireError::WrongKind { .. }))));
    assert!(matches!(Address::from_file(&secret), Err(LetterError::Wire(WireError::WrongKind { .. }))));
    assert_eq!(Address::from_file(b"hello").unwrap_err(), LetterError::Wire(WireError::ForeignFile));
}

#[test]
fn wrong_bodies_are_refused_even_with_a_right_checksum() {
    let id = ClueParameters::STANDARD.id();
    let address = account(1).address().to_file();
    let body = Envelope::open(&address).unwrap().body.to_vec();
    let read = |body: &[u8]| Address::from_file(&file(Kind::Address, id, body));
    assert!(read(&body).is_ok());
    for length in [0, 31, 32, 2626, 2627, body.len() - 1] {
        assert!(matches!(read(&body[..length]), Err(LetterError::Wire(WireError::Truncated { .. }))));
    }
    let mut changed = body.clone();
    changed.push(0);
    assert!(matches!(read(&changed), Err(LetterError::Wire(WireError::Trailing { left: 1, .. }))));
    // A coefficient of the clue key of 2^20 - 1 or more is no residue.
    changed = body.clone();
    changed[32..35].fill(0xff);
    assert!(matches!(read(&changed), Err(LetterError::Wire(WireError::OutOfRange { .. }))));
    // ML-KEM keys hold 12-bit coefficients below 3329 (FIPS 203, section 7.2).
    changed = body.clone();
    changed[2627..2630].fill(0xff);
    assert_eq!(read(&changed).unwrap_err(), LetterError::InvalidPublicKey);

    let foreign = file(Kind::Address, ParameterId::of("other"), &body);
    assert!(matches!(Address::from_file(&foreign), Err(LetterError::UnknownParameters { .. })));
    for length in [0, 31, 33] {
        assert!(Account::from_file(&file(Kind::SecretKey, id, &vec![1; length])).is_err());
    }
    let version = Envelope { kind: Kind::Address, version: 1, parameters: id, body: &body }.seal();
    assert!(matches!(
        Address::from_file(&version),
        Err(LetterError::Wire(WireError::UnsupportedVersion { found: 1, supported: 2, .. }))
    ));
}

#[test]
fn debug_output_holds_no_secret() {
    let account = account(7);
    let text = format!("{account:?} {:?}", account.clue_secret_key());
    assert!(!text.contains('['), "{text}");
    assert!(text.len() < 500, "{text}");
}
