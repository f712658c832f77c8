//! The vectors of `testvectors/1/clue.json`, made by `testvectors/scripts/clue.py` from the definition.

use restante_wire::{
    Decode, Encode,
    binding::{Binding, BoardId, Period},
    merkle::Hash,
};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    Clue, ClueKey, ClueMaker, ClueParameters, ClueSecretKey, maker::Randomness, tags::Tags,
    unpack_coefficients,
};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../testvectors/1/clue.json")).unwrap()
}

fn parameters(vector: &Value) -> ClueParameters {
    ClueParameters::by_name(vector["parameters"].as_str().unwrap()).unwrap()
}

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|integer| integer.as_i64().unwrap()).collect()
}

fn residues(value: &Value) -> Vec<u32> {
    integers(value).into_iter().map(|value| value.try_into().unwrap()).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap();
    assert!(digits.is_ascii() && digits.len() % 2 == 0);
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn keys_clues_and_distances_are_those_of_the_definition() {
    let vectors = vectors();
    let good = vectors["good"].as_array().unwrap();
    assert_eq!(good.len(), 4);
    for vector in good {
        let parameters = parameters(vector);
        let a = residues(&vector["a"]);
        let mut tags = Tags(Default::default());
        tags.0.as_flattened_mut().copy_from_slice(&residues(&vector["T"]));
        let secret = ClueSecretKey::from_parts(
            parameters,
            Zeroizing::new(integers(&vector["s"])),
            &integers(&vector["e"]),
            tags,
            bytes(&vector["a_seed"]).try_into().unwrap(),
            &a,
        );
        let key_bytes = bytes(&vector["clue_key"]);
        assert_eq!(secret.clue_key().to_bytes(), key_bytes);
        let key = ClueKey::from_bytes(&parameters, &key_bytes).unwrap();
        assert_eq!(&key, secret.clue_key());

        let errors = [integers(&vector["e1"]), integers(&vector["e2"])].concat();
        let randomness =
            Randomness { r: Zeroizing::new(integers(&vector["r"])), errors: Zeroizing::new(errors) };
        let period = Period(vector["period"].as_u64().unwrap().try_into().unwrap());
        let draft = ClueMaker::with_uniform(&key, a).draft_from(period, &randomness);
        assert_eq!(draft.bound_hash().0.as_slice(), bytes(&vector["bound_hash"]));
        let board = BoardId(bytes(&vector["board"]).try_into().unwrap());
        let payload = Hash::of(&bytes(&vector["payload"]));
        let binding = Binding::new(&board, &draft.bound_hash(), &payload);
        assert_eq!(binding.0.as_slice(), bytes(&vector["binding"]));
        assert_eq!(parameters.binding_vector(&binding).as_slice(), residues(&vector["h"]));
        let clue = draft.bind(&binding);
        let clue_bytes = bytes(&vector["clue"]);
        assert_eq!(clue.to_bytes(), clue_bytes);
        assert_eq!(Clue::from_bytes(&parameters, &clue_bytes).as_ref(), Ok(&clue));
        let distances = integers(&vector["distances"]);
        assert_eq!(secret.distances(&clue, &binding).to_vec(), distances);
        let near = distances.iter().all(|x| x.unsigned_abs() <= parameters.range().into());
        assert_eq!(secret.is_pertinent(&clue, &binding), near);
    }
}

#[test]
fn bad_clues_and_keys_are_refused() {
    let vectors = vectors();
    let (clues, keys) = (&vectors["bad_clues"], &vectors["bad_clue_keys"]);
    for vector in clues.as_array().unwrap() {
        let (parameters, clue) = (parameters(vector), bytes(&vector["clue"]));
        let mut a = vec![0; parameters.degree()];
        assert!(Clue::from_bytes(&parameters, &clue).is_err(), "{}", vector["comment"]);
        assert!(unpack_coefficients(&parameters, &clue, &mut a).is_err(), "{}", vector["comment"]);
    }
    for vector in keys.as_array().unwrap() {
        let key = ClueKey::from_bytes(&parameters(vector), &bytes(&vector["clue_key"]));
        assert!(key.is_err(), "{}", vector["comment"]);
    }
    assert_eq!((clues.as_array().unwrap().len(), keys.as_array().unwrap().len()), (16, 6));
}
