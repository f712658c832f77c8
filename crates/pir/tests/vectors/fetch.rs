//! `testvectors/1/fetch.json`, made by `testvectors/scripts/fetch.py`.

use restante_pir::PirError;
use restante_pir::fetch::{Answer, Catalog, Content, EpochBuilder, EpochInfo, Query, State, answer, decode};
use restante_scan::Runner;
use restante_wire::WireError;
use serde_json::Value;

use crate::{digits, hex, text};

fn vectors() -> Value {
    let vectors: Value = serde_json::from_str(include_str!("../../../../testvectors/1/fetch.json")).unwrap();
    assert_eq!(vectors["format_version"], 1);
    vectors
}

fn indices(vector: &Value, name: &str) -> Vec<u64> {
    vector[name].as_array().unwrap().iter().map(|index| index.as_u64().unwrap()).collect()
}

/// The records of an epoch, or what is padded to them.
fn payloads(vector: &Value) -> Vec<Vec<u8>> {
    match vector["payloads"].as_array() {
        Some(payloads) => payloads.iter().map(digits).collect(),
        None => (0..vector["records"].as_u64().unwrap()).map(|i| (i * i).to_le_bytes().to_vec()).collect(),
    }
}

#[test]
fn epochs_answers_and_records_are_those_of_the_script() {
    let runner = Runner::new(1).unwrap();
    for vector in vectors()["good"].as_array().unwrap() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("epoch");
        let content = match text(vector, "content") {
            "raw" => Content::Raw,
            _ => Content::Padded,
        };
        let record_bytes = vector["record_bytes"].as_u64().unwrap() as usize;
        let mut builder = EpochBuilder::create(&path, record_bytes, content).unwrap();
        payloads(vector).iter().for_each(|payload| builder.push(payload).unwrap());
        let epoch = builder.seal().unwrap();
        assert_eq!(epoch.id().to_string(), text(vector, "id"));
        assert_eq!(epoch.info().root().to_string(), text(vector, "root"));
        assert_eq!(hex(&epoch.info().to_file()), text(vector, "epoch"));
        assert_eq!(EpochInfo::from_file(&digits(&vector["epoch"])).unwrap(), *epoch.info());
        let table = std::fs::read(path.join("hashes")).unwrap();
        assert_eq!(blake3::hash(&table).to_string(), text(vector, "hashes_hash"));
        Catalog::new(epoch.info().clone(), table).unwrap();

        let answers = [0, 1].map(|party| {
            let query = Query::from_file(&digits(&vector["queries"][party])).unwrap();
            assert_eq!((usize::from(query.party()), query.epoch()), (party, epoch.id()));
            assert_eq!(hex(&query.to_file()), vector["queries"][party].as_str().unwrap());
            let made = answer(&epoch, &query, &runner).unwrap();
            assert_eq!(hex(&made.to_file()), vector["answers"][party].as_str().unwrap());
            Answer::from_file(&digits(&vector["answers"][party])).unwrap()
        });
        let state = State::from_file(&digits(&vector["state"])).unwrap();
        assert_eq!(hex(&state.to_file()), text(vector, "state"));
        let fetched = decode(&state, &answers[0], &answers[1]).unwrap();
        assert_eq!(state.fetches(), fetched.len() + indices(vector, "dummies").len());
        let (wanted, payloads) = (indices(vector, "wanted"), payloads(vector));
        assert_eq!(fetched.iter().map(|one| one.index).collect::<Vec<_>>(), wanted);
        assert!(fetched.iter().all(|one| *one.content == payloads[one.index as usize]));
    }
}

fn wire_name(error: &WireError) -> &'static str {
    match error {
        WireError::Truncated { .. } => "truncated",
        WireError::Trailing { .. } => "trailing",
        WireError::OutOfRange { .. } => "out-of-range",
        WireError::WrongKind { .. } => "wrong-kind",
        WireError::UnsupportedVersion { .. } => "unsupported-version",
        WireError::WrongParameters { .. } => "wrong-parameters",
        WireError::Corrupted { .. } => "corrupted",
        other => panic!("{other} has no name in the vectors"),
    }
}

#[test]
fn wrong_files_are_refused() {
    for vector in vectors()["bad"].as_array().unwrap() {
        let file = digits(&vector["file"]);
        let read = match text(vector, "type") {
            "epoch" => EpochInfo::from_file(&file).map(drop),
            "query" => Query::from_file(&file).map(drop),
            "answer" => Answer::from_file(&file).map(drop),
            "state" => State::from_file(&file).map(drop),
            other => panic!("no type {other}"),
        };
        match read.expect_err(text(vector, "reason")) {
            PirError::Wire(error) => {
                assert_eq!(wire_name(&error), text(vector, "error"), "{}: {error}", text(vector, "reason"));
            }
            other => panic!("{}: {other}", text(vector, "reason")),
        }
    }
}

#[test]
fn answers_to_something_else_are_refused() {
    let vectors = vectors();
    let state = State::from_file(&digits(&vectors["good"][1]["state"])).unwrap();
    for vector in vectors["refused"].as_array().unwrap() {
        let [first, second] =
            [0, 1].map(|place| Answer::from_file(&digits(&vector["answers"][place])).unwrap());
        let name = match decode(&state, &first, &second).expect_err(text(vector, "reason")) {
            PirError::EpochMismatch { .. } => "epoch",
            PirError::SameParty { .. } => "same-server",
            PirError::OtherQuery { .. } => "other-query",
            PirError::Size { .. } => "size",
            PirError::WrongRecord { .. } => "wrong-record",
            other => panic!("{other} has no name in the vectors"),
        };
        assert_eq!(name, text(vector, "error"), "{}", text(vector, "reason"));
    }
}
