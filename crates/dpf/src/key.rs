//! A party's key and its serialised form.
//!
//! ```text
//! offset      bytes      field
//!      0          1      format version, 1
//!      1          1      party, 0 or 1
//!      2          1      variant: 0 plain, 1 half-tree
//!      3          1      outputs: 0 bits, 1 byte strings, 2 integers
//!      4          4      message length in bytes; 0 for bits, 8 for integers
//!      8          8      number of points of the domain
//!     16         16      root seed
//!     32        32 d     for each level, the correction words of children 0 and 1
//!      …  ceil(d / 8)    plain variant only: the control bit of child 2's correction word, bit l for level l
//!      …          L      output correction word, as long as a leaf's output
//! ```
//!
//! Integers are little-endian. The depth d and the length L follow from the header: see [`Parameters`]. Unused bits are
//! zero, so that a key has one encoding only.

use std::fmt;

use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, Reader, WireError};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::hash::CONTROL_BIT;
use crate::parameters::Variant;
use crate::{DpfError, Output, Parameters};

/// One party's share of a point function. It hides the point and the message from that party.
///
/// It is wiped from memory when dropped, and its `Debug` form shows public parameters only.
#[derive(Clone)]
pub struct DpfKey<O: Output> {
    pub(crate) parameters: Parameters<O>,
    pub(crate) party: u8,
    pub(crate) seed: u128,
    pub(crate) levels: Zeroizing<Vec<[u128; 3]>>,
    pub(crate) output_word: Zeroizing<Vec<u8>>,
}

const HEADER_BYTES: usize = 16;

impl<O: Output> DpfKey<O> {
    /// The version of the serialised form.
    pub const VERSION: u16 = 1;

    /// The function's domain and outputs.
    pub fn parameters(&self) -> &Parameters<O> {
        &self.parameters
    }

    /// The party that holds this key: 0 or 1.
    pub fn party(&self) -> u8 {
        self.party
    }

    /// The key as a file of its own.
    pub fn seal(&self) -> Zeroizing<Vec<u8>> {
        let body = Zeroizing::new(self.to_bytes());
        let envelope = Envelope {
            kind: Kind::DpfKey,
            version: Self::VERSION,
            parameters: ParameterId::NONE,
            body: &body,
        };
        Zeroizing::new(envelope.seal())
    }

    /// Reads what [`DpfKey::seal`] wrote.
    pub fn open(bytes: &[u8]) -> Result<Self, DpfError> {
        let envelope = Envelope::open_as(bytes, Kind::DpfKey, Self::VERSION, ParameterId::NONE)?;
        Ok(Self::from_bytes(&(), envelope.body)?)
    }
}

impl<O: Output> Parameters<O> {
    /// The length of a serialised key.
    pub fn key_bytes(&self) -> usize {
        HEADER_BYTES + 16 + 32 * self.depth() + self.third_bits_bytes() + self.leaf_bytes()
    }

    fn third_bits_bytes(&self) -> usize {
        match self.variant() {
            Variant::Plain => self.depth().div_ceil(8),
            Variant::HalfTree => 0,
        }
    }

    /// The bits of the last byte of an output correction word that belong to no outcome.
    fn unused_output_bits(&self) -> u8 {
        if O::KIND == crate::Bits::KIND && self.outcomes_per_leaf() < 8 {
            u8::MAX << self.outcomes_per_leaf()
        } else {
            0
        }
    }

    pub(crate) fn clear_unused_output_bits(&self, output_word: &mut [u8]) {
        if let Some(last) = output_word.last_mut() {
            *last &= !self.unused_output_bits();
        }
    }
}

impl<O: Output> Encode for DpfKey<O> {
    fn encode(&self, out: &mut Vec<u8>) {
        let parameters = &self.parameters;
        out.reserve_exact(parameters.key_bytes());
        out.extend_from_slice(&[Self::VERSION as u8, self.party, parameters.variant() as u8, O::KIND]);
        out.extend_from_slice(&parameters.output().message_bytes().to_le_bytes());
        out.extend_from_slice(&parameters.domain().to_le_bytes());
        out.extend_from_slice(&self.seed.to_le_bytes());
        for [first, second, _] in self.levels.iter() {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&second.to_le_bytes());
        }
        if parameters.variant() == Variant::Plain {
            for levels in self.levels.chunks(8) {
                let bits =
                    levels.iter().rev().fold(0, |bits, [_, _, third]| bits << 1 | (third >> 127) as u8);
                out.push(bits);
            }
        }
        out.extend_from_slice(&self.output_word);
    }
}

impl<O: Output> Decode for DpfKey<O> {
    const WHAT: &'static str = O::NAME;

    fn decode(_context: &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        byte_in(reader, "version of a DPF key", Self::VERSION as u8..=Self::VERSION as u8)?;
        let party = byte_in(reader, "party of a DPF key", 0..=1)?;
        let variant = byte_in(reader, "variant of a DPF key", 0..=1)?;
        byte_in(reader, "kind of outputs of a DPF key", O::KIND..=O::KIND)?;
        let message_bytes = reader.u32()?;
        let output = O::with_message_bytes(message_bytes).ok_or_else(|| WireError::OutOfRange {
            what: "message length of a DPF key",
            found: message_bytes.into(),
            expected: "0 for bits, 8 for integers".into(),
        })?;
        let domain = reader.u64()?;
        let parameters =
            Parameters::new(domain, output, Variant::ALL[usize::from(variant)]).map_err(|_| {
                WireError::OutOfRange {
                    what: "domain of a DPF key",
                    found: domain,
                    expected: format!("1 to {}", crate::MAX_DOMAIN),
                }
            })?;

        let seed = u128::from_le_bytes(reader.array()?);
        let words = reader.bytes(32 * parameters.depth())?.as_chunks::<16>().0.as_chunks::<2>().0;
        let third_bits = reader.bytes(parameters.third_bits_bytes())?;
        let output_word = Zeroizing::new(reader.bytes(parameters.leaf_bytes())?.to_vec());

        let mut levels = Zeroizing::new(Vec::with_capacity(parameters.depth()));
        for (level, [first, second]) in words.iter().enumerate() {
            let (first, second) = (u128::from_le_bytes(*first), u128::from_le_bytes(*second));
            let third = match third_bits.get(level / 8) {
                Some(bits) => (first ^ second) & !CONTROL_BIT | u128::from(bits >> (level % 8) & 1) << 127,
                None => first ^ second,
            };
            levels.push([first, second, third]);
        }
        if let Some(last) = third_bits.last() {
            let used = (parameters.depth() - 1) % 8 + 1;
            check_zero("unused control bits of a DPF key", u32::from(*last) >> used)?;
        }
        if let Some(last) = output_word.last() {
            check_zero("unused output bits of a DPF key", (last & parameters.unused_output_bits()).into())?;
        }
        Ok(Self { parameters, party, seed, levels, output_word })
    }
}

fn byte_in(
    reader: &mut Reader<'_>,
    what: &'static str,
    range: std::ops::RangeInclusive<u8>,
) -> Result<u8, WireError> {
    let found = reader.u8()?;
    if !range.contains(&found) {
        let expected = if range.start() == range.end() {
            range.start().to_string()
        } else {
            format!("{} to {}", range.start(), range.end())
        };
        return Err(WireError::OutOfRange { what, found: found.into(), expected });
    }
    Ok(found)
}

fn check_zero(what: &'static str, found: u32) -> Result<(), WireError> {
    match found {
        0 => Ok(()),
        found => Err(WireError::OutOfRange { what, found: found.into(), expected: "zero".into() }),
    }
}

impl<O: Output> fmt::Debug for DpfKey<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpfKey")
            .field("domain", &self.parameters.domain())
            .field("variant", &self.parameters.variant())
            .field("outputs", &O::NAME)
            .field("party", &self.party)
            .finish_non_exhaustive()
    }
}

impl<O: Output> Drop for DpfKey<O> {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

impl<O: Output> ZeroizeOnDrop for DpfKey<O> {}
