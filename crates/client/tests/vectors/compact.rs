//! `testvectors/1/compact.json`, made by `testvectors/scripts/compact.py`.

use restante_clue::ClueParameters;
use restante_omr::OmrError;
use restante_omr::compact::{
    CompactContext, CompactDigest, CompactParameters, CompactSecret, Decoder, Detector, DigestRequest,
    Payload, PreparedKey, Retrieved,
};
use restante_ring::{Backend, sample::Seed};
use restante_wire::Envelope;
use serde_json::{Value, json};

use crate::{account, array, bytes, detection, hash, text, wire_name};

const VECTORS: &str = include_str!("../../../../testvectors/1/compact.json");
/// The digest that a detector made and the script reads.
const DETECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testvectors/compact.digest");

fn vectors() -> Value {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(vectors["format_version"], 1);
    vectors
}

fn context() -> CompactContext {
    let parameters = CompactParameters::insecure(ClueParameters::STANDARD).unwrap();
    CompactContext::new(parameters, Backend::best()).unwrap()
}

fn secret(context: &CompactContext, vectors: &Value) -> CompactSecret {
    account(vectors).compact_secret(context).unwrap()
}

fn request(vector: &Value) -> DigestRequest {
    let number = |name: &str| vector[name].as_u64().unwrap();
    DigestRequest {
        range: number("first")..number("end"),
        capacity: number("capacity") as usize,
        payload_bytes: number("payload_bytes") as usize,
    }
}

#[test]
fn parameter_and_key_ids_are_those_of_the_document() {
    let (vectors, context) = (vectors(), context());
    let expected = &vectors["account"][0];
    let real = CompactParameters::new(ClueParameters::STANDARD).unwrap();
    assert_eq!(real.id().to_string(), text(expected, "real_parameters"));
    assert_eq!(context.id().to_string(), text(expected, "parameters"));
    assert_eq!(secret(&context, &vectors).key_id().to_string(), text(expected, "key"));
}

/// Checks what a digest says, as the vector has it.
fn check(decoder: &Decoder, context: &CompactContext, file: &[u8], vector: &Value) {
    let digest = CompactDigest::from_file(context, file).unwrap();
    assert_eq!(digest.to_file(context), file);
    assert_eq!(*digest.request(), request(vector));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found = decoder.decode(&digest).unwrap();
    let found = found.iter().map(|Retrieved { index, payload, payload_bytes }| {
        json!({ "index": index, "payload": hex(payload), "payload_bytes": payload_bytes })
    });
    assert_eq!(Value::from_iter(found), vector["found"]);
}

#[test]
fn digests_that_were_made_from_messages_are_decoded() {
    let (vectors, context) = (vectors(), context());
    let decoder = Decoder::new(&secret(&context, &vectors)).unwrap();
    for vector in vectors["written"].as_array().unwrap() {
        check(&decoder, &context, &bytes(vector, "file"), vector);
    }
}

fn detect(vectors: &Value, context: &CompactContext) -> Vec<u8> {
    let (expected, request) = (&vectors["detected"][0], request(&vectors["detected"][0]));
    let clues = detection::clues();
    let clues = detection::views(&clues);
    let payloads = expected["payloads"].as_array().unwrap().iter();
    let payloads: Vec<Vec<u8>> = payloads.map(|payload| crate::digits(payload.as_str().unwrap())).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let key = secret(context, vectors).detection_key().unwrap();
    let (detector, prepared) = (Detector::new(context).unwrap(), PreparedKey::new(key.clone()));
    let seed = Seed::from(array(expected, "slots_seed"));
    let first = request.range.start;
    let vector = detector.pertinency(&[&prepared], first, &clues, &seed, |_| ()).unwrap();
    let payloads = Payload::source(first, &payloads);
    let digests = detector.digests(&[&key], &[&vector[0]], &request, payloads, |_| ()).unwrap();
    digests[0].to_file(context)
}

#[test]
fn a_detector_s_digest_says_what_the_script_reads_in_it() {
    let (vectors, context) = (vectors(), context());
    let expected = &vectors["detected"][0];
    let file = std::fs::read(DETECTED).unwrap();
    check(&Decoder::new(&secret(&context, &vectors)).unwrap(), &context, &file, expected);
    // The detector gives the same bits as when the file was made.
    assert_eq!(hash(&file), text(expected, "file_hash"));
    assert!(detect(&vectors, &context) == file);
}

/// Makes the file that the script reads. Only if the detector's arithmetic changes: all of `detected` but its hash is needed for it.
#[test]
#[ignore = "overwrites testvectors/compact.digest"]
fn the_detector_s_digest_is_made_again() {
    std::fs::write(DETECTED, detect(&vectors(), &context())).unwrap();
}

fn name(error: &OmrError) -> &'static str {
    match error {
        OmrError::Range { .. } => "range",
        OmrError::Request { .. } => "request",
        OmrError::ForeignDigest { .. } => "foreign",
        OmrError::InvalidBlock { .. } => "noise",
        OmrError::Overflow { .. } => "overflow",
        OmrError::DamagedDigest(_) => "damaged",
        OmrError::Wire(error) => wire_name(error),
        other => panic!("{other} has no name in the vectors"),
    }
}

#[test]
fn wrong_digests_are_refused() {
    let (vectors, context) = (vectors(), context());
    let decoder = Decoder::new(&secret(&context, &vectors)).unwrap();
    let decode =
        |file: &[u8]| CompactDigest::from_file(&context, file).and_then(|digest| decoder.decode(&digest));
    let (base, rest) = vectors["bad"].as_array().unwrap().split_first().unwrap();
    let base = bytes(base, "file");
    assert_eq!(decode(&base).unwrap().len(), 2);
    for vector in rest {
        let file = match vector["offset"].as_u64() {
            None => bytes(vector, "file"),
            Some(offset) => {
                let envelope = Envelope::open(&base).unwrap();
                let (mut body, change) = (envelope.body.to_vec(), bytes(vector, "bytes"));
                body.resize(body.len().max(offset as usize + change.len()), 0);
                body[offset as usize..][..change.len()].copy_from_slice(&change);
                Envelope { body: &body, ..envelope }.seal()
            }
        };
        let error = decode(&file).expect_err(text(vector, "reason"));
        assert_eq!(name(&error), text(vector, "error"), "{}: {error}", text(vector, "reason"));
    }
}
