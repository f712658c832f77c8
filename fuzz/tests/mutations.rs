//! The fuzz targets on valid files and on many changed ones. Checksums are made right again, so that changes get past them.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_fuzz::{DECODERS, seeds::valid_files};
use restante_wire::Envelope;

/// Changed files tried for each valid one and decoder.
const ROUNDS: usize = 150;
/// The same for files of megabytes.
const LARGE_ROUNDS: usize = 20;
const LARGE_BYTES: usize = 1 << 20;

/// One random change: bits, runs, cuts, insertions, extreme integers.
fn change(bytes: &mut Vec<u8>, rng: &mut ChaCha20Rng) {
    let mut below = |limit: usize| rng.next_u64() as usize % limit.max(1);
    let place = below(bytes.len());
    // Headers matter more than their share.
    let place = if below(2) == 0 { place } else { place % 64 };
    match below(6) {
        0 => bytes[place] ^= 1 << below(8),
        1 => bytes[place] = 0xff,
        2 => bytes.truncate(place.max(1)),
        3 => bytes.extend(vec![0; 1 + below(100)]),
        4 => {
            let end = bytes.len().min(place + 8);
            bytes[place..end].fill(if below(2) == 0 { 0xff } else { 0 });
        }
        _ => {
            let end = bytes.len().min(place + 1 + below(4));
            bytes.drain(place..end);
        }
    }
    if bytes.is_empty() {
        bytes.push(0);
    }
}

#[test]
fn decoders_return_whatever_the_bytes_are() {
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    for file in valid_files() {
        // Every decoder sees every kind of file.
        DECODERS.iter().for_each(|(_, decode)| decode(&file));
        for _ in 0..if file.len() < LARGE_BYTES { ROUNDS } else { LARGE_ROUNDS } {
            let mut raw = file.clone();
            change(&mut raw, &mut rng);
            let sealed = Envelope::open(&file).ok().map(|envelope| {
                let mut body = envelope.body.to_vec();
                if !body.is_empty() {
                    change(&mut body, &mut rng);
                }
                Envelope { body: &body, ..envelope }.seal()
            });
            for bytes in [Some(raw), sealed].into_iter().flatten() {
                DECODERS.iter().for_each(|(_, decode)| decode(&bytes));
            }
        }
    }
    for length in [0, 1, 23, 24, 39, 40, 41, 100, 5000] {
        for byte in [0, 0xff] {
            DECODERS.iter().for_each(|(_, decode)| decode(&vec![byte; length]));
        }
    }
}
