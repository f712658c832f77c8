//! The requests and answers that `testvectors/scripts/exchanges.py` made from docs/protocol.md.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::support::*;
use restante_load::Response;
use restante_wire::binding::Period;
use restante_wire::relay::{SignedHead, media};
use serde_json::Value;

const EXCHANGES: &str = include_str!("../../../../testvectors/1/exchanges.json");

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn digits(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Bytes in parts: hexadecimal digits, or a byte and how many times it follows.
fn assemble(parts: &Value) -> Vec<u8> {
    let part = |part: &Value| match part.as_str() {
        Some(text) => digits(text),
        None => vec![part["byte"].as_u64().unwrap() as u8; part["times"].as_u64().unwrap() as usize],
    };
    parts.as_array().unwrap().iter().flat_map(part).collect()
}

fn fields(value: &Value) -> Vec<(String, String)> {
    let fields = value.as_object().unwrap().iter();
    fields.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// What an answer has that it should not have, or the other way round.
fn difference(found: &Response, expected: &Value) -> Option<String> {
    if u64::from(found.status) != expected["status"].as_u64().unwrap() {
        return Some(format!("status {}: {}", found.status, String::from_utf8_lossy(&found.body)));
    }
    for (name, value) in fields(&expected["headers"]) {
        if found.header(&name) != Some(&value) {
            return Some(format!("{name}: {:?}, expected {value}", found.header(&name)));
        }
    }
    if expected["problem"].is_object() {
        let problem = problem(found);
        let (code, field) = (text(&expected["problem"], "code"), expected["problem"]["field"].as_str());
        return (problem.code() != code || problem.field.as_deref() != field).then(|| format!("{problem:?}"));
    }
    let mut json: Value = serde_json::from_slice(&found.body).unwrap_or_default();
    for (name, value) in expected["json_contains"].as_object().into_iter().flatten() {
        if json[name] != *value {
            return Some(format!("{name} in {json}"));
        }
    }
    if let Some(wanted) = expected.get("json") {
        let mut wanted = wanted.clone();
        for pointer in expected["json_varies"].as_array().unwrap() {
            for value in [&mut json, &mut wanted] {
                let Some(place) = value.pointer_mut(pointer.as_str().unwrap()) else {
                    return Some(format!("no {pointer} in {value}"));
                };
                *place = Value::Null;
            }
        }
        return (json != wanted).then(|| format!("{json}, expected {wanted}"));
    }
    if expected["body"].is_array() {
        let (mut body, mut wanted) = (found.body.clone(), assemble(&expected["body"]));
        if body.len() != wanted.len() {
            return Some(format!("{} bytes, expected {}", body.len(), wanted.len()));
        }
        for range in expected["body_varies"].as_array().unwrap() {
            let [start, length] = [0, 1].map(|place| range[place].as_u64().unwrap() as usize);
            body[start..start + length].fill(0);
            wanted[start..start + length].fill(0);
        }
        let place = body.iter().zip(&wanted).position(|(one, other)| one != other);
        return place.map(|place| format!("another byte at {place}"));
    }
    None
}

#[test]
fn a_relay_answers_as_the_exchanges_say() {
    let vectors: Value = serde_json::from_str(EXCHANGES).unwrap();
    assert_eq!(vectors["format_version"], 1);
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("identity"), digits(text(&vectors["relay"], "identity"))).unwrap();
    let mut settings = config(scratch.path());
    settings.clue = text(&vectors["relay"], "clue").into();
    settings.board_id_for_tests = Some(text(&vectors["relay"], "board").parse().unwrap());
    settings.period_for_tests = Some(Period(vectors["relay"]["period"].as_u64().unwrap() as u32));
    settings.segment_capacity = vectors["relay"]["segment_capacity"].as_u64().unwrap() as u32;
    settings.standing_seconds = vectors["relay"]["standing_seconds"].as_u64().unwrap();
    let relay = TestRelay::start(settings);
    assert_eq!(relay.key.to_string(), text(&vectors["relay"], "key"));

    let mut saved: HashMap<String, String> = HashMap::new();
    for exchange in vectors["exchanges"].as_array().unwrap() {
        let (name, request, expected) = (text(exchange, "name"), &exchange["request"], &exchange["answer"]);
        let mut headers = fields(&request["headers"]);
        for (_, value) in &mut headers {
            for (name, secret) in &saved {
                *value = value.replace(&format!("{{{name}}}"), secret);
            }
        }
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = request.get("body").map(assemble);
        let deadline = Instant::now() + Duration::from_secs(120);
        let response = loop {
            let mut connection = relay.connect();
            let (method, path) = (text(request, "method"), text(request, "path"));
            let response = connection.send(method, path, &headers, body.as_deref()).unwrap();
            match difference(&response, expected) {
                None => break response,
                Some(difference) => {
                    let wait = expected["until"] == true && Instant::now() < deadline;
                    assert!(wait, "{name}: {difference}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        };
        if response.header("content-type") == Some(media::HEAD) {
            assert!(SignedHead::from_file(&response.body).unwrap().is_signed_by(&relay.key), "{name}");
        }
        for (name, pointer) in expected.get("save").map(fields).into_iter().flatten() {
            let json: Value = response.json().unwrap();
            saved.insert(name, json.pointer(&pointer).unwrap().as_str().unwrap().to_owned());
        }
    }
}
