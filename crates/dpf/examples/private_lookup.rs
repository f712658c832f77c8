//! Private look-up: two servers hold the same table, a client reads record 48 213, and neither learns which one it was.
//!
//! The client shares the function that is 1 at its index. Each server XORs together the records at which its share is 1.
//! At every index but the client's both servers do the same, so the XOR of the two answers is the record.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_dpf::{Bits, DpfError, DpfKey, Parameters, Variant, generate};
use restante_wire::{Decode, Encode};

const RECORDS: usize = 100_000;
const RECORD_BYTES: usize = 64;

type Record = [u8; RECORD_BYTES];

/// A server's work: one pass over the table, without ever holding the selection as a whole.
fn answer(query: &[u8], table: &[Record]) -> Result<Record, DpfError> {
    let key = DpfKey::<Bits>::from_bytes(&(), query)?;
    let mut sum = [0; RECORD_BYTES];
    key.evaluator().blocks(0..table.len() as u64, |first, selection| {
        for (i, record) in table[first as usize..].iter().take(8 * selection.len()).enumerate() {
            // A mask instead of a branch: which records are summed is nobody's business.
            let mask = (selection[i / 8] >> (i % 8) & 1).wrapping_neg();
            sum.iter_mut().zip(record).for_each(|(sum, byte)| *sum ^= byte & mask);
        }
    })?;
    Ok(sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);
    let mut table = vec![[0; RECORD_BYTES]; RECORDS];
    table.iter_mut().for_each(|record| rng.fill_bytes(record));

    let index = 48_213;
    let parameters = Parameters::new(RECORDS as u64, Bits, Variant::HalfTree)?;
    let queries = generate(&parameters, index, &true, &mut rng)?.map(|key| key.to_bytes());

    let answers = [answer(&queries[0], &table)?, answer(&queries[1], &table)?];
    let record: Vec<u8> = answers[0].iter().zip(&answers[1]).map(|(a, b)| a ^ b).collect();
    assert_eq!(record, table[index as usize]);
    println!("read record {index} of {RECORDS} with two queries of {} bytes", queries[0].len());
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
