//! One key alone looks random and says nothing about the point. Statistics can't prove that, but they find the usual
//! mistakes: a missing correction, a control bit that follows the path, an output hash that can be inverted.
//!
//! All randomness is seeded, so a bound of six standard deviations either holds always or never.

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, KeyInit};
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use restante_dpf::{Bits, Bytes, Integers, Parameters, Variant, generate};
use restante_wire::Encode;

const VARIANTS: [Variant; 2] = [Variant::Plain, Variant::HalfTree];

/// Whether `ones` of `total` fair coins is within six standard deviations of the mean.
fn plausible(ones: u64, total: u64) -> bool {
    let deviation = ones as f64 - total as f64 / 2.0;
    deviation.abs() <= 6.0 * (total as f64 / 4.0).sqrt()
}

#[test]
fn shares_of_one_key_look_random_wherever_the_point_is() {
    let mut rng = ChaCha20Rng::from_seed([21; 32]);
    let domain = 1 << 20;
    for variant in VARIANTS {
        for point in [0, 1, 12_345, domain / 2, domain - 1] {
            let parameters = Parameters::new(domain, Bits, variant).unwrap();
            for key in generate(&parameters, point, &true, &mut rng).unwrap() {
                let mut bits = vec![0; domain as usize / 8];
                key.evaluator().all(&mut bits).unwrap();
                let ones = |bits: &[u8]| bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
                assert!(plausible(ones(&bits), domain));
                // Neighbouring bits, bytes and leaves are unrelated.
                for lag in [1, 16, 128, 3 * 128] {
                    let differences: Vec<u8> = bits.iter().zip(&bits[lag..]).map(|(a, b)| a ^ b).collect();
                    assert!(plausible(ones(&differences), 8 * differences.len() as u64), "{lag}");
                }
                // Bytes are equally likely: chi-square with 255 degrees of freedom, mean 255, deviation 22.6.
                let mut counts = [0u64; 256];
                bits.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
                let expected = bits.len() as f64 / 256.0;
                let chi_square: f64 =
                    counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
                assert!((120.0..390.0).contains(&chi_square), "{chi_square}");
            }
        }
    }
}

/// Over many keys, counts how often each bit of `sample` is set.
fn count_bits(keys: u64, mut sample: impl FnMut(&mut ChaCha20Rng) -> Vec<u8>) -> Vec<u64> {
    let mut rng = ChaCha20Rng::from_seed([22; 32]);
    let mut counts = Vec::new();
    for _ in 0..keys {
        let bytes = sample(&mut rng);
        counts.resize(bytes.len() * 8, 0);
        for (bit, count) in counts.iter_mut().enumerate() {
            *count += u64::from(bytes[bit / 8] >> (bit % 8) & 1);
        }
    }
    counts
}

#[test]
fn every_bit_of_a_key_is_fair_wherever_the_point_is() {
    const KEYS: u64 = 4000;
    for variant in VARIANTS {
        for party in [0, 1] {
            for point in [0, 13, 26] {
                let parameters = Parameters::new(27, Bytes(128), variant).unwrap();
                let counts = count_bits(KEYS, |rng| {
                    let keys = generate(&parameters, point, &[0xff; 128], rng).unwrap();
                    keys[party].to_bytes()[16..].to_vec()
                });
                for (bit, &count) in counts.iter().enumerate() {
                    // Behind the levels come the three control bits of the plain variant, padded to a byte.
                    let at = bit as i64 - 8 * (16 + 3 * 32);
                    let padding = variant == Variant::Plain && (3..8).contains(&at);
                    assert!(plausible(count, KEYS) || padding, "{variant:?} {party} {point}: bit {bit}");
                }
            }
        }
    }
}

/// Words that are fair each may still be related: the on-path word of a broken plain variant could equal another one. So the
/// XOR of every pair of 16-byte words of a key is looked at, too.
#[test]
fn no_two_words_of_a_key_are_related() {
    const KEYS: u64 = 2000;
    for variant in VARIANTS {
        for party in [0, 1] {
            for point in [0, 13, 26] {
                let parameters = Parameters::new(27, Bytes(128), variant).unwrap();
                let counts = count_bits(KEYS, |rng| {
                    let key = generate(&parameters, point, &[0; 128], rng).unwrap()[party].to_bytes();
                    let words: Vec<&[u8]> = key[16..16 + 16 + 3 * 32].chunks_exact(16).collect();
                    let pairs = (0..words.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
                    pairs.flat_map(|(i, j)| words[i].iter().zip(words[j]).map(|(a, b)| a ^ b)).collect()
                });
                assert!(counts.iter().all(|&count| plausible(count, KEYS)), "{variant:?} {party} {point}");
            }
        }
    }
}

#[test]
fn every_share_is_fair_at_the_point_and_elsewhere() {
    const KEYS: u64 = 4000;
    for variant in VARIANTS {
        for party in [0, 1] {
            let parameters = Parameters::new(27, Bytes(128), variant).unwrap();
            for at in [11, 12, 13, 0] {
                let counts = count_bits(KEYS, |rng| {
                    let keys = generate(&parameters, 12, &[0; 128], rng).unwrap();
                    let mut share = vec![0; 128];
                    keys[party].evaluator().point(at, &mut share).unwrap();
                    share
                });
                assert!(counts.iter().all(|&count| plausible(count, KEYS)), "{variant:?} {party} {at}");
            }
            let parameters = Parameters::new(700, Integers, variant).unwrap();
            for at in [11, 12, 699] {
                let counts = count_bits(KEYS, |rng| {
                    let keys = generate(&parameters, 12, &1, rng).unwrap();
                    let mut share = [0];
                    keys[party].evaluator().point(at, &mut share).unwrap();
                    share[0].to_le_bytes().to_vec()
                });
                assert!(counts.iter().all(|&count| plausible(count, KEYS)), "{variant:?} {party} {at}");
            }
        }
    }
}

/// If outputs were `AES(seed ^ j)` without feed-forward, whoever knows a message of two blocks could decrypt the other
/// party's leaf seed from each of them, and find them equal at the point alone.
#[test]
fn a_known_message_does_not_reveal_the_point() {
    let derivation = b"restante dpf v1: fixed AES-128 key, output";
    let output_key: [u8; 16] = blake3::hash(derivation).as_bytes()[..16].try_into().unwrap();
    let cipher = Aes128::new(&output_key.into());
    let mut rng = ChaCha20Rng::from_seed([23; 32]);
    for variant in VARIANTS {
        let parameters = Parameters::new(81, Bytes(128), variant).unwrap();
        let mut message = [0; 128];
        rng.fill_bytes(&mut message);
        let [key, _] = generate(&parameters, 40, &message, &mut rng).unwrap();
        let serialised = key.to_bytes();
        let output_word = &serialised[serialised.len() - 128..];
        for leaf in 0..81 {
            let mut share = vec![0; 128];
            key.evaluator().point(leaf, &mut share).unwrap();
            // This party's share is its pad, with or without the correction word; the other's is the rest. In either
            // case the other party's pad comes to one of two values.
            for applied in [false, true] {
                let decrypted = [0, 1].map(|block: usize| {
                    let pad: [u8; 16] = std::array::from_fn(|i| {
                        let at = 16 * block + i;
                        share[at] ^ message[at] ^ if applied { output_word[at] } else { 0 }
                    });
                    let mut state = pad.into();
                    cipher.decrypt_block(&mut state);
                    u128::from_le_bytes(state.0)
                });
                for tweak in [1u128, 1 << 64] {
                    assert_ne!(decrypted[0], decrypted[1] ^ tweak, "{variant:?} {leaf}");
                }
            }
        }
    }
}
