//! Requests and answers in JSON.

use restante_wire::relay::{
    DirectoryInfo, EpochList, HeadStatus, JobList, JobRequest, JobStatus, KeyStatus, PostResult, Problem,
    RegisterRequest, Registered, RelayInfo, StandingRequest,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{BAD, GOOD, section, text};

/// Reads a type and writes it again; otherwise the fields that the error is about and its message.
fn rewrite<T: Serialize + DeserializeOwned>(json: &str) -> Result<Value, (String, String)> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value: T = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| (error.path().to_string(), error.inner().to_string()))?;
    reader.end().map_err(|error| (String::new(), error.to_string()))?;
    Ok(serde_json::to_value(value).unwrap())
}

fn read(name: &str, json: &str) -> Result<Value, (String, String)> {
    match name {
        "DirectoryInfo" => rewrite::<DirectoryInfo>(json),
        "EpochList" => rewrite::<EpochList>(json),
        "HeadStatus" => rewrite::<HeadStatus>(json),
        "JobList" => rewrite::<JobList>(json),
        "JobRequest" => rewrite::<JobRequest>(json),
        "JobStatus" => rewrite::<JobStatus>(json),
        "KeyStatus" => rewrite::<KeyStatus>(json),
        "PostResult" => rewrite::<PostResult>(json),
        "Problem" => rewrite::<Problem>(json),
        "RegisterRequest" => rewrite::<RegisterRequest>(json),
        "Registered" => rewrite::<Registered>(json),
        "RelayInfo" => rewrite::<RelayInfo>(json),
        "StandingRequest" => rewrite::<StandingRequest>(json),
        other => panic!("no type {other}"),
    }
}

#[test]
fn what_is_read_is_written_again() {
    for vector in section(GOOD, "json") {
        assert_eq!(read(text(&vector, "type"), &vector["json"].to_string()).as_ref(), Ok(&vector["json"]));
    }
}

#[test]
fn answers_may_have_fields_that_are_not_known() {
    for vector in section(GOOD, "json_extended") {
        assert_eq!(read(text(&vector, "type"), &vector["json"].to_string()).as_ref(), Ok(&vector["meaning"]));
    }
}

#[test]
fn what_is_wrong_is_refused_and_named() {
    for vector in section(BAD, "json") {
        let (path, message) =
            read(text(&vector, "type"), text(&vector, "text")).expect_err(&vector.to_string());
        let field = text(&vector, "field");
        let named = path.rsplit('.').next() == Some(field) || message.contains(&format!("`{field}`"));
        assert!(field.is_empty() || named, "{vector}: {path}: {message}");
    }
}
