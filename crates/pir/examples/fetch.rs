//! A private fetch: two servers hold the same records, and neither learns which one is read.
//!
//!     cargo run --release -p restante-pir --example fetch

use std::error::Error;

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_pir::fetch::{Answer, Catalog, Content, Epoch, EpochBuilder, Query, answer, decode};
use restante_scan::Runner;

fn main() -> Result<(), Box<dyn Error>> {
    // A sealed snapshot, a copy of which each server has.
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("epoch");
    let mut builder = EpochBuilder::create(&path, 64, Content::Padded)?;
    for number in 0..1000 {
        builder.push(format!("record {number}").as_bytes())?;
    }
    builder.seal()?;
    let servers = [Epoch::open(&path)?, Epoch::open(&path)?];

    // The client has the catalogue, the hashes of all records, and asks for two. It always asks for four, so that their number does
    // not show. A real program seeds its generator from the operating system.
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let (state, queries) = Catalog::open(&path)?.query(&[7, 500], 4, &mut rng)?;
    let runner = Runner::new(0)?;
    let mut answers = Vec::new();
    for (server, query) in servers.iter().zip(&queries) {
        let query = Query::from_file(&query.to_file())?;
        answers.push(Answer::from_file(&answer(server, &query, &runner)?.to_file())?);
    }
    // Both answers together give the records; each is checked against its hash.
    let records = decode(&state, &answers[0], &answers[1])?;
    for record in &records {
        println!("{}: {}", record.index, String::from_utf8_lossy(&record.content));
    }
    assert_eq!(records[1].content.as_slice(), b"record 500");
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
