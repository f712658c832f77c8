//! `testvectors/1/detect.json`, made by `testvectors/scripts/detect.py`.

use restante_clue::{BoundClue, ClueParameters, bound_part};
use restante_omr::OmrError;
use restante_omr::stream::{
    Decoder, DetectionKey, Detector, PreparedKey, RecipientSecret, StreamContext, StreamDigest,
    StreamParameters,
};
use restante_ring::{Backend, Modulus, sample::Seed};
use restante_wire::{
    BitWriter, Encode, Envelope, Kind, ParameterId,
    binding::{Binding, BoardId},
    merkle::Hash,
};
use serde_json::Value;

use crate::{account, array, bytes, digits, hash, text, wire_name};

const VECTORS: &str = include_str!("../../../../testvectors/1/detect.json");
/// The digest that the script made.
const WRITTEN: &[u8] = include_bytes!("../../../../testvectors/1/stream.digest");
/// The digest that a detector made and the script reads.
const DETECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testvectors/detector.digest");

fn vectors() -> Value {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(vectors["format_version"], 1);
    vectors
}

fn context() -> StreamContext {
    StreamContext::new(StreamParameters::new(ClueParameters::STANDARD).unwrap(), Backend::best()).unwrap()
}

fn secret(context: &StreamContext, vectors: &Value) -> RecipientSecret {
    account(vectors).recipient_secret(context).unwrap()
}

#[test]
fn an_account_s_keys_follow_from_its_seed() {
    let vectors = vectors();
    let (expected, account) = (&vectors["account"][0], account(&vectors));
    assert_eq!(*account.to_file(), bytes(expected, "secret_file"));
    assert_eq!(hash(&account.address().clue_key().to_bytes()), text(expected, "clue_key_hash"));
    let context = context();
    let file = secret(&context, &vectors).detection_key().unwrap().to_file();
    assert_eq!(file.len() as u64, expected["detection_key_bytes"].as_u64().unwrap());
    assert_eq!(hash(&file), text(expected, "detection_key_hash"));
}

/// Checks what a digest says, as the vector has it.
fn check(decoder: &Decoder, context: &StreamContext, file: &[u8], expected: &Value) {
    assert_eq!(hash(file), text(expected, "file_hash"));
    let digest = StreamDigest::from_file(context, file).unwrap();
    assert_eq!(digest.to_file(context), file);
    assert_eq!(digest.first(), expected["first"].as_u64().unwrap());
    let distances = serde_json::to_value(&*decoder.distances(&digest).unwrap()).unwrap();
    assert_eq!(distances, expected["distances"]);
    assert_eq!(serde_json::to_value(decoder.pertinent(&digest).unwrap()).unwrap(), expected["pertinent"]);
}

#[test]
fn a_digest_that_was_made_from_distances_is_decoded() {
    let (vectors, context) = (vectors(), context());
    let decoder = Decoder::new(&secret(&context, &vectors)).unwrap();
    check(&decoder, &context, WRITTEN, &vectors["written"][0]);
}

/// The clues of the detectors' digests, with their bindings: those in the vectors, and otherwise any residues.
pub(crate) fn clues() -> Vec<(Vec<u8>, Binding)> {
    let vectors = vectors();
    let expected = &vectors["detected"][0];
    let seed = Seed::from(array(expected, "clue_seed"));
    let clue = |number: u64| {
        if let Some(clue) = expected["clues"][number.to_string()].as_str() {
            return digits(clue);
        }
        let mut residues = vec![0u32; 1026];
        seed.stream("testvectors/clue", &[number]).uniform(&Modulus::new(786_433).unwrap(), &mut residues);
        let mut clue = u32::try_from(expected["period"].as_u64().unwrap()).unwrap().to_le_bytes().to_vec();
        for part in [&residues[..1024], &residues[1024..]] {
            let mut bits = BitWriter::new(&mut clue);
            part.iter().for_each(|&residue| bits.write(residue.into(), 20));
            bits.finish();
        }
        clue
    };
    let board = BoardId(bytes(expected, "board").try_into().unwrap());
    let payloads = expected["payloads"].as_array().unwrap();
    assert_eq!(payloads.len(), 40);
    let bound = |(number, payload): (u64, &Value)| {
        let clue = clue(number);
        let bound = Hash::of(bound_part(&ClueParameters::STANDARD, &clue).unwrap());
        let binding = Binding::new(&board, &bound, &Hash::of(&digits(payload.as_str().unwrap())));
        (clue, binding)
    };
    (0..).zip(payloads).map(bound).collect()
}

pub(crate) fn views(clues: &[(Vec<u8>, Binding)]) -> Vec<BoundClue<'_>> {
    clues.iter().map(|(bytes, binding)| BoundClue { bytes, binding: *binding }).collect()
}

fn detect(vectors: &Value, context: &StreamContext) -> Vec<u8> {
    let expected = &vectors["detected"][0];
    let clues = clues();
    let clues = views(&clues);
    let key = PreparedKey::new(&secret(context, vectors).detection_key().unwrap());
    let detector = Detector::new(context).unwrap();
    let seed = Seed::from(array(expected, "factors_seed"));
    detector.detect(&[key], expected["first"].as_u64().unwrap(), &clues, &seed).unwrap()[0].to_file(context)
}

#[test]
fn a_detector_s_digest_says_what_the_script_reads_in_it() {
    let (vectors, context) = (vectors(), context());
    let expected = &vectors["detected"][0];
    let clues: Vec<Vec<u8>> = clues().into_iter().map(|(clue, _)| clue).collect();
    assert_eq!(hash(&clues.concat()), text(expected, "clues_hash"));
    let file = std::fs::read(DETECTED).unwrap();
    check(&Decoder::new(&secret(&context, &vectors)).unwrap(), &context, &file, expected);
    // The detector gives the same bits as when the file was made.
    assert_eq!(hash(&detect(&vectors, &context)), text(expected, "file_hash"));
}

/// Makes the file that the script reads. Only if the detector's arithmetic, and so the format, changes: `detected` in the vectors
/// needs all but the distances for it.
#[test]
#[ignore = "overwrites testvectors/detector.digest"]
fn the_detector_s_digest_is_made_again() {
    std::fs::write(DETECTED, detect(&vectors(), &context())).unwrap();
}

/// A file with what a vector changes in it, sealed anew.
fn patched(file: &[u8], vector: &Value) -> Vec<u8> {
    let envelope = Envelope::open(file).unwrap();
    let mut body = envelope.body.to_vec();
    if let Some(length) = vector["length"].as_u64() {
        body.resize(length as usize, 0);
    }
    if let Some(offset) = vector["offset"].as_u64() {
        let replacement = bytes(vector, "bytes");
        body[offset as usize..][..replacement.len()].copy_from_slice(&replacement);
    }
    let kind = match vector["kind"].as_u64() {
        Some(3) => Kind::DetectionKey,
        Some(4) => Kind::StreamDigest,
        _ => envelope.kind,
    };
    let version = vector["version"].as_u64().map_or(envelope.version, |version| version as u16);
    let parameters = vector["parameters"].as_str().map(|text| ParameterId(digits(text).try_into().unwrap()));
    Envelope { kind, version, parameters: parameters.unwrap_or(envelope.parameters), body: &body }.seal()
}

fn name(error: &OmrError) -> &'static str {
    match error {
        OmrError::Range { .. } => "range",
        OmrError::ForeignDigest { .. } => "foreign",
        OmrError::InvalidBlock { .. } => "noise",
        OmrError::Wire(error) => wire_name(error),
        OmrError::Bfv(restante_bfv::BfvError::Wire(error)) => wire_name(error),
        other => panic!("{other} has no name in the vectors"),
    }
}

#[test]
fn wrong_keys_and_digests_are_refused() {
    let (vectors, context) = (vectors(), context());
    let secret = secret(&context, &vectors);
    let key = secret.detection_key().unwrap().to_file();
    let decoder = Decoder::new(&secret).unwrap();
    for vector in vectors["bad"].as_array().unwrap() {
        let read = match text(vector, "file") {
            "key" => DetectionKey::from_file(&context, &patched(&key, vector)).map(drop),
            _ => StreamDigest::from_file(&context, &patched(WRITTEN, vector))
                .and_then(|digest| decoder.distances(&digest).map(drop)),
        };
        let error = read.expect_err(text(vector, "reason"));
        assert_eq!(name(&error), text(vector, "error"), "{}: {error}", text(vector, "reason"));
    }
}
