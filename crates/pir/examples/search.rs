//! A private search at the real parameters: one server, which learns neither the name nor the records.
//!
//!     cargo run --release -p restante-pir --example search

use std::error::Error;

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_pir::search::{
    AnswerNote, Cut, FieldKind, Layout, Preset, Query, Reading, Scheme, SearchAnswer, SelectorHash,
    SelectorKind, Shape, Value, WindowBuilder, WindowLimits, prepare, respond,
};
use restante_ring::Backend;
use restante_scan::Runner;

const TABLE: [(&str, &str); 4] =
    [("Pip", "Satis House"), ("Joe", "the forge"), ("Pip", "Barnard's Inn"), ("Estella", "Richmond")];

fn main() -> Result<(), Box<dyn Error>> {
    let scheme = Scheme::new(Preset::standard(), Backend::best())?;
    let layout = Layout::new(vec![("place".into(), FieldKind::Text)])?;

    // The querier hashes the name, with a fresh key, and encrypts where it points to. A real program seeds its generator from the
    // operating system.
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let hash = SelectorHash::random(SelectorKind::Bytes, 8, &mut rng)?;
    let shape = Shape::new(8, 1)?;
    let bucket = hash.locate(b"Pip").bucket;
    let (state, query) = Query::new(&scheme, shape, &[bucket], b"", b"", &mut rng)?;
    let query = query.to_file(&scheme);

    // The responder sorts its records by the same hash, and computes on all of them alike.
    let cut = Cut { hash: hash.clone(), chunk_bytes: shape.chunk_bytes(scheme.preset()) };
    let mut builder = WindowBuilder::new(&[cut], WindowLimits::default())?;
    for (name, place) in TABLE {
        let mut record = Vec::new();
        layout.encode(&[Value::Text(place.into())], &mut record)?;
        builder.push(name.as_bytes(), &record)?;
    }
    let window = &builder.seal()?[0];
    let runner = Runner::new(0)?;
    let prepared = prepare(&scheme, &Query::from_file(&scheme, &query)?, false, &runner)?;
    let note = AnswerNote { records: TABLE.len() as u64, ..AnswerNote::default() };
    let answer = respond(&[&prepared], window, 0, &note.to_bytes(), &runner, |_| ())?[0].to_file(&scheme);

    // The querier decrypts its bucket, and keeps what has the name in it.
    let opened = state.open(&scheme, &SearchAnswer::from_file(&scheme, &answer)?)?;
    let mut reading = Reading::new(&hash, &["Pip"]);
    for chunk in opened.chunks(0) {
        reading.push(0, chunk)?;
    }
    let found = reading.finish().remove(0)?;
    for record in &found.records {
        println!("Pip: {:?}", layout.decode(record)?);
    }
    println!("query {} bytes, answer {} bytes", query.len(), answer.len());
    assert!(found.is_complete() && found.records.len() == 2);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
