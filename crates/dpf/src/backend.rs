//! The three loops that touch every node, once per instruction set.
//!
//! All back ends compute the same function bit for bit; the scalar one is the definition. A back end is picked once,
//! by the processor's instructions, and its functions work on whole batches, so that the choice costs nothing per node. The
//! vector back ends share one generic kernel, [`kernel`]; each adds only the dozen instructions that differ.

use std::fmt;
use std::sync::OnceLock;

use crate::Variant;
use crate::output::Group;

#[cfg(target_arch = "x86_64")]
mod aes_ni;
#[cfg(target_arch = "x86_64")]
mod kernel;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod vaes256;
#[cfg(target_arch = "x86_64")]
mod vaes512;

/// A set of processor instructions that the tree's inner loops are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The `aes` crate: constant-time software, or the instructions that it detects.
    Scalar,
    /// AES-NI: one block in each register.
    AesNi,
    /// VAES with AVX2: two blocks in each register.
    Vaes256,
    /// VAES with AVX-512: four blocks in each register.
    Vaes512,
}

impl Backend {
    const ALL: [Self; 4] = [Self::Scalar, Self::AesNi, Self::Vaes256, Self::Vaes512];

    /// Whether this processor has the instructions.
    pub fn is_available(self) -> bool {
        self.detect().is_some()
    }

    /// Every back end that this processor can run, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|backend| backend.is_available())
    }

    /// The fastest back end that this processor can run.
    pub fn best() -> Self {
        static BEST: OnceLock<Backend> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().unwrap_or(Self::Scalar))
    }

    fn detect(self) -> Option<&'static Operations> {
        match self {
            Self::Scalar => Some(&scalar::OPERATIONS),
            #[cfg(target_arch = "x86_64")]
            Self::AesNi => aes_ni::detect(),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256 => vaes256::detect(),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512 => vaes512::detect(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => None,
        }
    }

    /// Its functions; those of the scalar one where this processor lacks the instructions.
    pub(crate) fn operations(self) -> &'static Operations {
        self.detect().unwrap_or(&scalar::OPERATIONS)
    }

    /// The blocks of [`Backend::encrypt_only`] that are in flight at once.
    pub fn encrypt_only_blocks(self) -> usize {
        self.operations().encrypt_only_blocks
    }

    /// Runs AES in registers, `rounds` times on every block in flight: the least time that the AES of an
    /// evaluation takes.
    pub fn encrypt_only(self, rounds: u64) -> u128 {
        (self.operations().encrypt_only)(rounds)
    }

    /// Fills memory with the stores of evaluations into large slices: the least time that their output takes.
    pub fn fill(self, memory: &mut [u8]) {
        (self.operations().fill)(memory);
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::AesNi => "aes-ni",
            Self::Vaes256 => "vaes-256",
            Self::Vaes512 => "vaes-512",
        })
    }
}

/// The functions of a back end. The entries are safe to call: an `Operations` is only handed out after detection.
pub(crate) struct Operations {
    /// `expand(variant, parents, correction, children)`: the three children of every parent, in the tree's order,
    /// corrected where the parent's control bit is set. `children` is three times as long as `parents`.
    pub(crate) expand: fn(Variant, &[u128], &[u128; 3], &mut [u128]),
    /// `convert(conversion, seeds, out, stream)`: the output share of every leaf, in rows of
    /// [`Conversion::row_bytes`], which `out` holds exactly as many of as there are seeds. Bytes of a row behind the
    /// last whole block of the output are unspecified. `stream` asks for stores that bypass the caches.
    pub(crate) convert: fn(&Conversion, &[u128], &mut [u8], bool),
    /// The number of blocks of [`Operations::encrypt_only`] that are in flight at once.
    pub(crate) encrypt_only_blocks: usize,
    /// `encrypt_only(rounds)`: AES in registers, `rounds` times on every block in flight.
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
                    (backend.operations().expand)(variant, &parents, &correction, &mut found);
                    prop_assert_eq!(&found, &expected, "{} {:?}", backend, variant);
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
                    (backend.operations().convert)(&conversion, &seeds, &mut out[offset..], stream);
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
                            prop_assert_eq!(found, expected, "{} {:?}", backend, group);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_scalar_back_end_is_always_there_and_the_best_one_comes_last() {
        let available: Vec<Backend> = Backend::available().collect();
        assert_eq!((available.first(), available.last()), (Some(&Backend::Scalar), Some(&Backend::best())));
    }

    #[test]
    fn fill_reaches_every_byte() {
        for backend in Backend::available() {
            for (start, end) in [(0, 0), (3, 5), (1, 257), (16, 272), (0, 1024)] {
                let mut memory = vec![0xa5; 1024];
                (backend.operations().fill)(&mut memory[start..end]);
                assert!(memory[start..end].iter().all(|&byte| byte == 0), "{backend}");
                assert!(memory[..start].iter().chain(&memory[end..]).all(|&byte| byte == 0xa5));
            }
            assert_ne!(backend.encrypt_only(1), backend.encrypt_only(2));
        }
    }
}
