//! The three loops that touch every node, once per instruction set.
//!
//! All back ends compute the same function bit for bit; the portable one is the definition. A back end is picked once,
//! by what the CPU reports, and its functions work on whole batches, so that the choice costs nothing per node. The
//! vector back ends share one generic kernel, [`kernel`]; each adds only the dozen instructions that differ.

use std::fmt;
use std::sync::LazyLock;

use crate::Variant;
use crate::output::Group;

#[cfg(target_arch = "x86_64")]
mod aes_ni;
#[cfg(target_arch = "x86_64")]
mod kernel;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;

/// An implementation of the tree's inner loops that this CPU can run.
#[derive(Clone, Copy)]
pub struct Backend(&'static Operations);

impl Backend {
    /// All back ends that this CPU can run, the fastest first. The last one is always the portable one.
    pub fn available() -> &'static [Self] {
        static AVAILABLE: LazyLock<Vec<Backend>> = LazyLock::new(|| {
            let mut available = Vec::new();
            #[cfg(target_arch = "x86_64")]
            {
                available.extend(vaes512::detect().map(Backend));
                available.extend(vaes256::detect().map(Backend));
                available.extend(aes_ni::detect().map(Backend));
            }
            available.push(Backend(&portable::OPERATIONS));
            available
        });
        &AVAILABLE
    }

    /// The fastest back end that this CPU can run.
    pub fn best() -> Self {
        Self::available()[0]
    }

    /// Its name: "vaes-512", "vaes-256", "aes-ni" or "portable".
    pub fn name(self) -> &'static str {
        self.0.name
    }

    pub(crate) fn operations(self) -> &'static Operations {
        self.0
    }

    /// The blocks of [`Backend::encrypt_only`] that are in flight at once.
    pub fn encrypt_only_blocks(self) -> usize {
        self.0.encrypt_only_blocks
    }

    /// Nothing but AES in registers, `rounds` times on every block in flight: how long the AES of an evaluation takes at least.
    pub fn encrypt_only(self, rounds: u64) -> u128 {
        (self.0.encrypt_only)(rounds)
    }

    /// Fills memory with the stores of evaluations into large slices: how long their output takes at least.
    pub fn fill(self, memory: &mut [u8]) {
        (self.0.fill)(memory);
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backend({})", self.0.name)
    }
}

/// The functions of a back end. The entries are safe to call: an `Operations` is only handed out after detection.
pub(crate) struct Operations {
    pub(crate) name: &'static str,
    /// `expand(variant, parents, correction, children)`: the three children of every parent, in the tree's order,
    /// corrected where the parent's control bit is set. `children` is three times as long as `parents`.
    pub(crate) expand: fn(Variant, &[u128], &[u128; 3], &mut [u128]),
    /// `convert(conversion, seeds, out, stream)`: the output share of every leaf, in rows of
    /// [`Conversion::row_bytes`], which `out` holds exactly as many of as there are seeds. Bytes of a row behind the
    /// last whole block of the output are unspecified. `stream` asks for stores that bypass the caches.
    pub(crate) convert: fn(&Conversion, &[u128], &mut [u8], bool),
    /// The number of blocks of [`Operations::encrypt_only`] that are in flight at once.
    pub(crate) encrypt_only_blocks: usize,
    /// `encrypt_only(rounds)`: nothing but AES in registers, `rounds` times on every block in flight.
    pub(crate) encrypt_only: fn(u64) -> u128,
    /// Fills memory with stores of the kind that `convert` uses when asked to stream.
    pub(crate) fill: fn(&mut [u8]),
}

/// The step from leaf seeds to output shares, for one key.
pub(crate) struct Conversion {
    /// The number of AES blocks of a leaf's output.
    blocks: usize,
    /// `sigma(j)` for block j of an output, padded to whole vectors.
    tweaks: Vec<u128>,
    /// The output correction word, padded likewise with zeros.
    correction: zeroize::Zeroizing<Vec<u128>>,
    group: Group,
    /// Whether shares are negated: those of party 1 in an additive group are.
    negate: bool,
}

impl Conversion {
    /// Blocks per row are a multiple of this, so that every back end writes whole vectors.
    const ROW_BLOCKS: usize = 4;

    pub(crate) fn new(correction_word: &[u8], group: Group, negate: bool) -> Self {
        let blocks = correction_word.len().div_ceil(16);
        let padded = blocks.next_multiple_of(Self::ROW_BLOCKS);
        let mut correction = zeroize::Zeroizing::new(vec![0; padded]);
        for (block, bytes) in correction.iter_mut().zip(correction_word.chunks(16)) {
            let mut whole = [0; 16];
            whole[..bytes.len()].copy_from_slice(bytes);
            *block = u128::from_le_bytes(whole);
        }
        let tweaks = (0..padded as u128).map(crate::hash::sigma).collect();
        Self { blocks, tweaks, correction, group, negate }
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.tweaks.len() * 16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash::{FIXED_KEYS, OUTPUT_KEY, control_mask, sigma};

    /// The definition, one block at a time.
    fn hash(key: usize, block: u128) -> u128 {
        use aes::cipher::{BlockCipherEncrypt, KeyInit};
        let mut state = sigma(block).to_le_bytes().into();
        aes::Aes128::new(&FIXED_KEYS[key].into()).encrypt_block(&mut state);
        u128::from_le_bytes(state.into()) ^ sigma(block)
    }

    fn children(variant: Variant, parent: u128, correction: &[u128; 3]) -> [u128; 3] {
        let (first, second) = (hash(0, parent), hash(1, parent));
        let third = match variant {
            Variant::Plain => hash(2, parent),
            Variant::HalfTree => first ^ second ^ parent,
        };
        let mask = control_mask(parent);
        [first ^ mask & correction[0], second ^ mask & correction[1], third ^ mask & correction[2]]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn all_back_ends_expand_as_defined(
            parents in proptest::collection::vec(any::<u128>(), 0..80),
            words in any::<[u128; 2]>(),
            third in any::<u128>(),
        ) {
            for (variant, third) in [(Variant::Plain, third), (Variant::HalfTree, words[0] ^ words[1])] {
                let correction = [words[0], words[1], third];
                let expected: Vec<u128> =
                    parents.iter().flat_map(|&parent| children(variant, parent, &correction)).collect();
                for backend in Backend::available() {
                    let mut found = vec![0; parents.len() * 3];
                    (backend.0.expand)(variant, &parents, &correction, &mut found);
                    prop_assert_eq!(&found, &expected, "{} {:?}", backend.name(), variant);
                }
            }
        }

        #[test]
        fn all_back_ends_convert_as_defined(
            seeds in proptest::collection::vec(any::<u128>(), 0..9),
            word in proptest::collection::vec(any::<u8>(), 0..300),
            offset in 0usize..64,
            stream: bool,
        ) {
            for (group, negate) in [(Group::Xor, false), (Group::Add, false), (Group::Add, true)] {
                let conversion = Conversion::new(&word, group, negate);
                let row_bytes = conversion.row_bytes();
                for backend in Backend::available() {
                    let mut out = vec![0; offset + seeds.len() * row_bytes];
                    (backend.0.convert)(&conversion, &seeds, &mut out[offset..], stream);
                    for (leaf, &seed) in seeds.iter().enumerate() {
                        for block in 0..word.len() / 16 {
                            let at = offset + leaf * row_bytes + block * 16;
                            let pad = hash(OUTPUT_KEY, seed ^ block as u128) ^ sigma(block as u128);
                            let masked = u128::from_le_bytes(word[block * 16..][..16].try_into().unwrap())
                                & control_mask(seed);
                            let expected = match group {
                                Group::Xor => pad ^ masked,
                                Group::Add => {
                                    let lane = |shift: u32| {
                                        let sum = ((pad >> shift) as u64).wrapping_add((masked >> shift) as u64);
                                        u128::from(if negate { sum.wrapping_neg() } else { sum }) << shift
                                    };
                                    lane(0) | lane(64)
                                }
                            };
                            let found = u128::from_le_bytes(out[at..at + 16].try_into().unwrap());
                            prop_assert_eq!(found, expected, "{} {:?}", backend.name(), group);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_portable_back_end_is_always_there() {
        assert_eq!(Backend::available().last().map(|backend| backend.name()), Some("portable"));
    }

    #[test]
    fn fill_reaches_every_byte() {
        for backend in Backend::available() {
            for (start, end) in [(0, 0), (3, 5), (1, 257), (16, 272), (0, 1024)] {
                let mut memory = vec![0xa5; 1024];
                (backend.0.fill)(&mut memory[start..end]);
                assert!(memory[start..end].iter().all(|&byte| byte == 0), "{}", backend.name());
                assert!(memory[..start].iter().chain(&memory[end..]).all(|&byte| byte == 0xa5));
            }
            assert_ne!((backend.0.encrypt_only)(1), (backend.0.encrypt_only)(2));
        }
    }
}
