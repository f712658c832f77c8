//! JSON bodies, and short texts.

use std::str::FromStr;

use restante_clue::ClueParameters;
use restante_ring::Backend;
use restante_wire::relay::{
    Credential, DirectoryInfo, EpochList, HeadStatus, Hex, JobList, JobRequest, JobStatus, KeyStatus,
    PostResult, Problem, RegisterRequest, Registered, RelayInfo, RelayKey, StandingRequest, Token,
};
use serde::{Serialize, de::DeserializeOwned};

/// Writes a value that was read, reads it and writes it again: it must not have changed.
fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value: Result<T, _> = serde_path_to_error::deserialize(&mut reader);
    let Ok(value) = value else { return };
    let _ = reader.end();
    let text = serde_json::to_string(&value).ok();
    let again = text.as_ref().and_then(|text| serde_json::from_str::<T>(text).ok());
    let again = again.and_then(|value| serde_json::to_string(&value).ok());
    assert!(text.is_some() && text == again, "what is written is not what is read");
}

/// Bodies that clients send.
pub(crate) fn requests(bytes: &[u8]) {
    read::<RegisterRequest>(bytes);
    read::<StandingRequest>(bytes);
    read::<JobRequest>(bytes);
}

/// Bodies that relays send.
pub(crate) fn answers(bytes: &[u8]) {
    read::<RelayInfo>(bytes);
    read::<DirectoryInfo>(bytes);
    read::<PostResult>(bytes);
    read::<Registered>(bytes);
    read::<KeyStatus>(bytes);
    read::<JobStatus>(bytes);
    read::<JobList>(bytes);
    read::<EpochList>(bytes);
    read::<Problem>(bytes);
    if let Ok(status) = serde_json::from_slice::<HeadStatus>(bytes) {
        let _ = serde_json::to_string(&status);
    }
}

/// Texts of headers, paths, settings and arguments.
pub(crate) fn texts(bytes: &[u8]) {
    fn parse<T: FromStr>(text: &str) {
        let _ = text.parse::<T>();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    parse::<Token>(text);
    parse::<Credential>(text);
    parse::<RelayKey>(text);
    parse::<ClueParameters>(text);
    parse::<Backend>(text);
    if let Ok(hex) = text.parse::<Hex<16>>() {
        assert_eq!(hex.to_string(), text, "a value has one text");
    }
}

/// One of each body, as text.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let (id, hash, key) = ("ab".repeat(16), "cd".repeat(32), "01".repeat(8));
    let status = format!(
        "{{\"key\":\"{id}\",\"kind\":\"stream\",\"state\":\"ready\",\"bytes\":5,\"uploaded\":5,\"registered\":7,\
         \"standing\":{{\"first\":0,\"complete_to\":4}}}}"
    );
    let texts = [
        format!("{{\"kind\":\"compact\",\"parameters\":\"{key}\",\"bytes\":5,\"hash\":\"{hash}\"}}"),
        "{\"first\":8}".into(),
        format!(
            "{{\"id\":\"{id}\",\"kind\":\"compact\",\"first\":0,\"end\":9,\"capacity\":5,\"payload_bytes\":6}}"
        ),
        format!("{{\"token\":\"rst1_{hash}\",\"key\":{status}}}"),
        status,
        format!(
            "{{\"type\":\"about:blank\",\"title\":\"t\",\"status\":400,\"code\":\"malformed\",\"detail\":\"{id}\"}}"
        ),
        format!(
            "{{\"messages\":[{{\"index\":3,\"replayed\":false}}],\"head\":{{\"parameters\":\"{key}\",\"relay\":\"{hash}\",\
                 \"count\":4,\"root\":\"{hash}\",\"time\":5,\"signature\":\"{hash}{hash}\",\"retained_from\":0}}}}"
        ),
        format!(
            "{{\"version\":\"{id}\",\"entries\":3,\"schema\":\"{key}\",\"parameters\":\"{key}\",\"hash_bits\":8,\
                 \"hash_key\":\"{hash}\",\"columns\":3,\"query_bytes\":5,\"answer_bytes\":6}}"
        ),
        format!("rst1_{hash}"),
        format!("rsc1_{hash}"),
        id,
        "standard".into(),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}
