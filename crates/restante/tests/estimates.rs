//! Every preset and every limit has its row in `scripts/estimates.txt`, with at least the security that is claimed.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;

const TABLE: &str = include_str!("../../../scripts/estimates.txt");
/// Places of the attacks in a row, behind id, name and model: those that a claim is about.
const ATTACKS: [(&str, usize); 4] = [("usvp", 0), ("bdd", 1), ("dual", 4), ("dual-hyb", 5)];

/// The rows of the table with an id: for each the estimates of the seven attacks, as they are written.
fn rows() -> HashMap<&'static str, Vec<&'static str>> {
    let is_id = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let rows = TABLE.lines().filter_map(|line| {
        let (id, rest) = line.split_once(' ')?;
        let (_, figures) = rest.split_once(" MATZOV ")?;
        is_id(id).then(|| (id, figures.split_whitespace().collect::<Vec<_>>()))
    });
    rows.collect()
}

fn lattices() -> Vec<Value> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_restante")).args(["params", "--lattices", "--json"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_preset_and_every_limit_has_an_estimate() {
    let (rows, lattices) = (rows(), lattices());
    assert_eq!(
        lattices.len(),
        13,
        "four of clues and stream digests, two of the compact one, search, six limits"
    );
    for lattice in lattices {
        let name = lattice["name"].as_str().unwrap();
        let id = lattice["lattice_id"].as_str().unwrap();
        let row = rows.get(id).unwrap_or_else(|| {
            panic!(
                "{name}: no row {id} in scripts/estimates.txt: run scripts/estimate.py on what has changed"
            )
        });
        let claimed = lattice["claimed_bits"].as_f64().unwrap();
        assert!(claimed >= 128.0, "{name} claims {claimed} bits");
        for (attack, place) in ATTACKS {
            // "inf": the estimator's search found no attack at all.
            let bits: f64 =
                row[place].parse().unwrap_or_else(|_| panic!("{name}, {attack}: {:?}", row[place]));
            assert!(bits >= claimed, "{name}: {attack} takes 2^{bits}, claimed are 2^{claimed}");
        }
    }
}
