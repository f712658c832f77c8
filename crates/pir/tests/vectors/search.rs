//! `testvectors/1/search.json`, made by `testvectors/scripts/search.py`.

use std::collections::BTreeMap;
use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use restante_pir::PirError;
use restante_pir::search::{
    ChunkSource, Preset, Query, QueryState, Scheme, SearchAnswer, Shape, prepare, respond,
};
use restante_ring::Backend;
use restante_scan::Runner;
use serde_json::Value;

use crate::{digits, hex, text};

/// The responder's answer that the script opens.
const RESPONDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testvectors/search.answer");

fn vectors() -> Value {
    let vectors: Value = serde_json::from_str(include_str!("../../../../testvectors/1/search.json")).unwrap();
    assert_eq!(vectors["format_version"], 1);
    vectors
}

fn scheme() -> Scheme {
    Scheme::new(Preset::insecure_for_tests(), Backend::best()).unwrap()
}

fn shape(expected: &Value) -> Shape {
    let number = |name: &str| expected[name].as_u64().unwrap();
    Shape::new(number("hash_bits") as u32, number("sharing") as usize).unwrap()
}

/// Randomness that is given.
struct Given(Vec<u8>);

impl TryRng for Given {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("a query draws a seed")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("a query draws a seed")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0);
        Ok(())
    }
}

impl TryCryptoRng for Given {}

fn query(scheme: &Scheme, expected: &Value) -> (QueryState, Query) {
    let buckets = expected["buckets"].as_array().unwrap().iter();
    let buckets: Vec<u32> = buckets.map(|bucket| bucket.as_u64().unwrap() as u32).collect();
    let mut given = Given(digits(&expected["secret_seed"]));
    let (note, secret_note) = (digits(&expected["note"]), digits(&expected["state_note"]));
    Query::new(scheme, shape(expected), &buckets, &note, &secret_note, &mut given).unwrap()
}

#[test]
fn a_query_and_its_state_follow_from_the_seed() {
    let (vectors, scheme) = (vectors(), scheme());
    let expected = &vectors["query"];
    assert_eq!(scheme.preset().id().to_string(), text(expected, "preset"));
    let (state, query) = query(&scheme, expected);
    let file = query.to_file(&scheme);
    assert_eq!(file.len() as u64, expected["query_bytes"].as_u64().unwrap());
    assert_eq!(blake3::hash(&file).to_string(), text(expected, "query_hash"));
    assert_eq!(hex(&state.to_file(&scheme)), text(expected, "state"));
    assert_eq!(Query::from_file(&scheme, &file).unwrap().to_file(&scheme), file);
    let state = QueryState::from_file(&scheme, &digits(&expected["state"])).unwrap();
    assert_eq!(hex(&state.to_file(&scheme)), text(expected, "state"));
}

/// Checks that an answer says what the vectors have for each selector.
fn check(scheme: &Scheme, expected: &Value, file: &[u8]) -> SearchAnswer {
    let state = QueryState::from_file(scheme, &digits(&expected["state"])).unwrap();
    let answer = SearchAnswer::from_file(scheme, file).unwrap();
    assert_eq!(answer.to_file(scheme), file);
    let opened = state.open(scheme, &answer).unwrap();
    for (selector, contents) in expected["contents"].as_array().unwrap().iter().enumerate() {
        assert_eq!(opened.chunks(selector).collect::<Vec<_>>().concat(), digits(contents));
    }
    answer
}

#[test]
fn an_answer_that_was_made_from_its_contents_is_opened() {
    let (vectors, scheme) = (vectors(), scheme());
    let written = &vectors["written"];
    let answer = check(&scheme, &vectors["query"], &digits(&written["file"]));
    assert_eq!(answer.window(), written["window"].as_u64().unwrap());
    assert_eq!(u64::from(answer.columns()), written["columns"].as_u64().unwrap());
    assert_eq!(answer.note(), digits(&written["note"]));
}

/// The table of the responder's answer.
struct Table {
    shape: Shape,
    chunk_bytes: usize,
    buckets: Vec<u32>,
    contents: BTreeMap<u32, Vec<u8>>,
}

impl ChunkSource for Table {
    fn hash_bits(&self) -> u32 {
        self.shape.hash_bits()
    }

    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn columns(&self) -> u32 {
        (0..self.buckets.len()).map(|place| self.bucket_columns(place)).max().unwrap_or(0)
    }

    fn buckets(&self) -> &[u32] {
        &self.buckets
    }

    fn bucket_columns(&self, place: usize) -> u32 {
        self.contents[&self.buckets[place]].len().div_ceil(self.chunk_bytes) as u32
    }

    fn read_chunk(&self, place: usize, column: u32, chunk: &mut [u8]) -> Result<usize, PirError> {
        let bytes = &self.contents[&self.buckets[place]];
        let bytes = &bytes[bytes.len().min(column as usize * chunk.len())..];
        let length = bytes.len().min(chunk.len());
        chunk[..length].copy_from_slice(&bytes[..length]);
        chunk[length..].fill(0);
        Ok(length)
    }
}

fn answer(scheme: &Scheme, vectors: &Value) -> Vec<u8> {
    let (_, query) = query(scheme, &vectors["query"]);
    let shape = shape(&vectors["query"]);
    let table = vectors["responded"]["table"].as_object().unwrap().iter();
    let contents: BTreeMap<u32, Vec<u8>> =
        table.map(|(bucket, bytes)| (bucket.parse().unwrap(), digits(bytes))).collect();
    let buckets = contents.keys().copied().collect();
    let table = Table { shape, chunk_bytes: shape.chunk_bytes(scheme.preset()), buckets, contents };
    let runner = Runner::new(1).unwrap();
    let prepared = prepare(scheme, &query, false, &runner).unwrap();
    let answers = respond(&[&prepared], &table, 7, b"", &runner, |_| ()).unwrap();
    answers[0].to_file(scheme)
}

#[test]
fn a_responder_s_answer_says_what_the_script_reads_in_it() {
    let (vectors, scheme) = (vectors(), scheme());
    let file = std::fs::read(RESPONDED).unwrap();
    check(&scheme, &vectors["query"], &file);
    // The responder gives the same bits as when the file was made.
    assert_eq!(blake3::hash(&file).to_string(), text(&vectors["responded"], "file_hash"));
    assert!(answer(&scheme, &vectors) == file);
}

/// Makes the file that the script opens. Only if a responder's arithmetic changes: `query` and `table` in the vectors are needed for it.
#[test]
#[ignore = "overwrites testvectors/search.answer"]
fn the_responder_s_answer_is_made_again() {
    std::fs::write(RESPONDED, answer(&scheme(), &vectors())).unwrap();
}
