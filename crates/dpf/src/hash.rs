//! The fixed-key hash functions of the tree.
//!
//! `H_i(x) = AES_{K_i}(sigma(x)) ^ sigma(x)` with `sigma(left || right) = (left ^ right) || left`: the circular
//! correlation robust hash of Guo, Katz, Wang and Yu (ePrint 2019/074, section 7.3), as the half-tree paper (Guo et al.,
//! ePrint 2022/1431) uses it. A block is a `u128` whose little-endian bytes are the AES input; `left` is its upper half.
//! `docs/fetch.md` has the definition and the derivation of the keys, `docs/dpf.md` the proof.

/// The strings that the fixed keys are derived from: `K_i` is the first 16 bytes of the BLAKE3 hash of the i-th string.
#[cfg(test)]
const KEY_DERIVATIONS: [&str; 4] = [
    "restante dpf v1: fixed AES-128 key, child 0",
    "restante dpf v1: fixed AES-128 key, child 1",
    "restante dpf v1: fixed AES-128 key, child 2",
    "restante dpf v1: fixed AES-128 key, output",
];

/// The keys of the hash functions for the three children and for the outputs. They are public.
pub(crate) const FIXED_KEYS: [[u8; 16]; 4] = [
    0x70a9d3a877536bd53b0af0dfe6777dffu128.to_be_bytes(),
    0xadb2ae7b8f1da1f602a9c375be135f16u128.to_be_bytes(),
    0x62f0a02a6562772c6f56b1cf8037cc43u128.to_be_bytes(),
    0x2e8137a37a72cb21b83cfee7ed49c4e4u128.to_be_bytes(),
];

/// The index in [`FIXED_KEYS`] of the hash that turns leaf seeds into outputs.
pub(crate) const OUTPUT_KEY: usize = 3;

/// The linear orthomorphism: both it and its XOR with the identity are permutations.
pub(crate) const fn sigma(block: u128) -> u128 {
    let (left, right) = (block >> 64, block & u64::MAX as u128);
    ((left ^ right) << 64) | left
}

/// The control bit of a block is its highest one, which is the cheapest to spread over a vector.
pub(crate) const CONTROL_BIT: u128 = 1 << 127;

/// All ones if the block's control bit is set, zero otherwise.
pub(crate) const fn control_mask(block: u128) -> u128 {
    (block.cast_signed() >> 127).cast_unsigned()
}

/// Round keys, each repeated so that a vector of up to four blocks loads at once.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
pub(crate) struct RoundKeys(pub(crate) [[u128; 4]; 11]);

/// The round keys of [`FIXED_KEYS`].
#[cfg(target_arch = "x86_64")]
pub(crate) static ROUND_KEYS: [RoundKeys; 4] = [
    RoundKeys::expand(FIXED_KEYS[0]),
    RoundKeys::expand(FIXED_KEYS[1]),
    RoundKeys::expand(FIXED_KEYS[2]),
    RoundKeys::expand(FIXED_KEYS[3]),
];

#[cfg(target_arch = "x86_64")]
impl RoundKeys {
    /// The key expansion of FIPS 197, section 5.2, at compile time.
    const fn expand(key: [u8; 16]) -> Self {
        let sbox = sbox();
        let mut words = [[0u8; 4]; 44];
        let mut round_constant = 1;
        let mut i = 0;
        while i < 44 {
            words[i] = if i < 4 {
                [key[4 * i], key[4 * i + 1], key[4 * i + 2], key[4 * i + 3]]
            } else {
                let [a, b, c, d] = words[i - 1];
                let mut word = [a, b, c, d];
                if i % 4 == 0 {
                    word = [
                        sbox[b as usize] ^ round_constant,
                        sbox[c as usize],
                        sbox[d as usize],
                        sbox[a as usize],
                    ];
                    round_constant = multiply(round_constant, 2);
                }
                let old = words[i - 4];
                [word[0] ^ old[0], word[1] ^ old[1], word[2] ^ old[2], word[3] ^ old[3]]
            };
            i += 1;
        }
        let mut keys = [[0; 4]; 11];
        let mut round = 0;
        while round < 11 {
            let mut block = 0u128;
            let mut byte = 16;
            while byte > 0 {
                byte -= 1;
                block = block << 8 | words[4 * round + byte / 4][byte % 4] as u128;
            }
            keys[round] = [block; 4];
            round += 1;
        }
        Self(keys)
    }
}

/// The product in the AES field, GF(2)[x] / (x^8 + x^4 + x^3 + x + 1).
#[cfg(target_arch = "x86_64")]
const fn multiply(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (a, b, 0);
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = a << 1 ^ if a & 0x80 != 0 { 0x1b } else { 0 };
        b >>= 1;
    }
    product
}

/// FIPS 197, section 5.1.1: the inverse in the field, then an affine map. Only public keys pass through it.
#[cfg(target_arch = "x86_64")]
const fn sbox() -> [u8; 256] {
    let mut table = [0x63; 256];
    // Runs through all units as powers of the generator 3, and through their inverses as powers of 1/3 = 0xf6.
    let (mut unit, mut inverse) = (1u8, 1u8);
    let mut i = 0;
    while i < 255 {
        table[unit as usize] ^= inverse
            ^ inverse.rotate_left(1)
            ^ inverse.rotate_left(2)
            ^ inverse.rotate_left(3)
            ^ inverse.rotate_left(4);
        unit = multiply(unit, 3);
        inverse = multiply(inverse, 0xf6);
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_keys_are_derived_as_stated() {
        for (key, derivation) in FIXED_KEYS.iter().zip(KEY_DERIVATIONS) {
            assert_eq!(key, &blake3::hash(derivation.as_bytes()).as_bytes()[..16], "{derivation}");
        }
    }

    #[test]
    fn sigma_is_an_orthomorphism() {
        // Linear, so it is enough that sigma^2 ^ sigma ^ id = 0: then both sigma and sigma ^ id are invertible.
        for bit in 0..128 {
            let block = 1u128 << bit;
            assert_eq!(sigma(sigma(block)) ^ sigma(block) ^ block, 0);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn key_expansion_matches_fips_197() {
        // Appendix A.1: every round key. Appendix C.1: the last two.
        let expanded = [
            0x2b7e151628aed2a6abf7158809cf4f3cu128,
            0xa0fafe1788542cb123a339392a6c7605,
            0xf2c295f27a96b9435935807a7359f67f,
            0x3d80477d4716fe3e1e237e446d7a883b,
            0xef44a541a8525b7fb671253bdb0bad00,
            0xd4d1c6f87c839d87caf2b8bc11f915bc,
            0x6d88a37a110b3efddbf98641ca0093fd,
            0x4e54f70e5f5fc9f384a64fb24ea6dc4f,
            0xead27321b58dbad2312bf5607f8d292f,
            0xac7766f319fadc2128d12941575c006e,
            0xd014f9a8c9ee2589e13f0cc8b6630ca6,
        ];
        let keys = RoundKeys::expand(expanded[0].to_be_bytes()).0;
        for (key, expected) in keys.iter().zip(expanded) {
            assert!(key.iter().all(|block| block.to_le_bytes() == expected.to_be_bytes()));
        }
        let keys = RoundKeys::expand(0x000102030405060708090a0b0c0d0e0fu128.to_be_bytes()).0;
        for (round, expected) in
            [(9, 0x549932d1f08557681093ed9cbe2c974eu128), (10, 0x13111d7fe3944a17f307a78b4d2b30c5)]
        {
            assert_eq!(keys[round][0].to_le_bytes(), expected.to_be_bytes());
        }
    }

    /// Every back end is compared with this implementation of the cipher.
    #[test]
    fn the_cipher_is_that_of_fips_197() {
        use aes::{
            Aes128,
            cipher::{BlockCipherEncrypt, KeyInit},
        };
        // Appendices B and C.1.
        for (key, input, output) in [
            (
                0x2b7e151628aed2a6abf7158809cf4f3cu128,
                0x3243f6a8885a308d313198a2e0370734u128,
                0x3925841d02dc09fbdc118597196a0b32u128,
            ),
            (
                0x000102030405060708090a0b0c0d0e0f,
                0x00112233445566778899aabbccddeeff,
                0x69c4e0d86a7b0430d8cdb78070b4c55a,
            ),
        ] {
            let mut block = input.to_be_bytes().into();
            Aes128::new(&key.to_be_bytes().into()).encrypt_block(&mut block);
            assert_eq!(u128::from_be_bytes(block.into()), output);
        }
    }
}
