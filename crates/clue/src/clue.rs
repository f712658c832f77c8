//! The clue itself and its encoding.

use restante_wire::{
    BitReader, BitWriter, Decode, Encode, Reader, WireError,
    binding::{Binding, Period},
    merkle::Hash,
};

use crate::{COORDINATES, ClueError, ClueParameters};

/// An encoded clue and what it is bound to: what a detector is given for each message.
///
/// The binding is computed from the board's id and the message's hashes, as [`Binding::new`] says.
#[derive(Debug, Clone, Copy)]
pub struct BoundClue<'a> {
    /// The encoded clue.
    pub bytes: &'a [u8],
    /// The binding of its message.
    pub binding: Binding,
}

/// An encryption of zero under the addressee's clue key, shifted by a tag that depends on the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clue {
    parameters: ClueParameters,
    period: Period,
    /// n residues, multiples of 2^d.
    a: Vec<u32>,
    b: [u32; COORDINATES],
}

impl Clue {
    /// A clue with any contents: a' is n residues modulo q, of which the d low bits are rounded away.
    ///
    /// Fails unless there are n coefficients and all, and both coordinates of b', are below q.
    pub fn from_coefficients(
        parameters: ClueParameters,
        period: Period,
        a: &[u32],
        b: [u32; COORDINATES],
    ) -> Result<Self, ClueError> {
        if a.len() != parameters.degree() {
            return Err(ClueError::Length { found: a.len(), expected: parameters.degree() });
        }
        let modulus = parameters.modulus();
        if let Some(&value) = a.iter().chain(&b).find(|&&value| value >= modulus) {
            return Err(ClueError::Coefficient { value, modulus });
        }
        Ok(Self::rounded(parameters, period, a.to_vec(), b))
    }

    /// Like [`Clue::from_coefficients`] for what is known to be residues, in constant time.
    pub(crate) fn rounded(
        parameters: ClueParameters,
        period: Period,
        mut a: Vec<u32>,
        b: [u32; COORDINATES],
    ) -> Self {
        a.iter_mut().for_each(|value| *value = parameters.round(*value) << parameters.dropped_bits());
        Self { parameters, period, a, b }
    }

    /// The same period and a' with another b'.
    pub(crate) fn with_coordinates(self, b: [u32; COORDINATES]) -> Self {
        Self { b, ..self }
    }

    /// The parameters that the clue was made for.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// The period that it was made for.
    pub fn period(&self) -> Period {
        self.period
    }

    /// The n coefficients of a', residues modulo q whose d low bits are zero.
    pub fn a(&self) -> &[u32] {
        &self.a
    }

    /// The l coordinates of b', residues modulo q.
    pub fn b(&self) -> &[u32; COORDINATES] {
        &self.b
    }

    /// The hash of the bound part, which a board takes once.
    pub fn bound_hash(&self) -> Hash {
        let mut bytes = Vec::new();
        self.encode_bound(&mut bytes);
        Hash::of(&bytes)
    }

    fn encode_bound(&self, out: &mut Vec<u8>) {
        out.reserve(self.parameters.clue_bytes());
        out.extend_from_slice(&self.period.0.to_le_bytes());
        let mut bits = BitWriter::new(out);
        let (dropped, width) = (self.parameters.dropped_bits(), self.parameters.stored_bits());
        self.a.iter().for_each(|&value| bits.write((value >> dropped).into(), width));
        bits.finish();
    }
}

/// The bound part of an encoded clue: all of it but b'. Its contents are not checked.
///
/// Fails unless the clue has the length that the parameters say.
pub fn bound_part<'a>(parameters: &ClueParameters, bytes: &'a [u8]) -> Result<&'a [u8], ClueError> {
    let (found, expected) = (bytes.len(), parameters.clue_bytes());
    if found != expected {
        return Err(ClueError::ClueBytes { found, expected });
    }
    Ok(&bytes[..parameters.bound_bytes()])
}

impl Encode for Clue {
    fn encode(&self, out: &mut Vec<u8>) {
        self.encode_bound(out);
        write_residues(&self.parameters, &self.b, out);
    }
}

impl Decode<ClueParameters> for Clue {
    const WHAT: &'static str = "clue";

    fn decode(parameters: &ClueParameters, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut a = vec![0; parameters.degree()];
        let (period, b) = read_clue(parameters, reader, &mut a)?;
        Ok(Self { parameters: *parameters, period, a, b })
    }
}

/// Unpacks an encoded clue without allocation: a' into `a`, which must have n places, and period and b' as the result.
///
/// All are residues modulo q, those of a' with their d low bits zero. On an error, `a` holds no particular values.
pub fn unpack_coefficients(
    parameters: &ClueParameters,
    bytes: &[u8],
    a: &mut [u32],
) -> Result<(Period, [u32; COORDINATES]), ClueError> {
    if a.len() != parameters.degree() {
        return Err(ClueError::Length { found: a.len(), expected: parameters.degree() });
    }
    let mut reader = Reader::new(Clue::WHAT, bytes);
    let parts = read_clue(parameters, &mut reader, a)?;
    reader.finish()?;
    Ok(parts)
}

fn read_clue(
    parameters: &ClueParameters,
    reader: &mut Reader<'_>,
    a: &mut [u32],
) -> Result<(Period, [u32; COORDINATES]), WireError> {
    let period = Period(reader.u32()?);
    let largest = parameters.round(parameters.modulus() - 1);
    read_packed(reader, "coefficient of a clue", parameters.stored_bits(), largest, a)?;
    a.iter_mut().for_each(|value| *value <<= parameters.dropped_bits());
    let mut b = [0; COORDINATES];
    read_residues(parameters, reader, "coordinate of a clue", &mut b)?;
    Ok((period, b))
}

/// Reads `out.len()` packed integers, each at most `largest`, and the zero padding behind them.
pub(crate) fn read_packed(
    reader: &mut Reader<'_>,
    what: &'static str,
    width: u32,
    largest: u32,
    out: &mut [u32],
) -> Result<(), WireError> {
    let mut bits = BitReader::new(reader, out.len(), width)?;
    for value in out {
        let found = bits.read(width);
        if found > largest.into() {
            return Err(WireError::OutOfRange { what, found, expected: format!("0 to {largest}") });
        }
        *value = found as u32;
    }
    bits.finish()
}

/// Reads packed residues.
pub(crate) fn read_residues(
    parameters: &ClueParameters,
    reader: &mut Reader<'_>,
    what: &'static str,
    out: &mut [u32],
) -> Result<(), WireError> {
    read_packed(reader, what, parameters.residue_bits(), parameters.modulus() - 1, out)
}

/// Writes packed residues.
pub(crate) fn write_residues(parameters: &ClueParameters, values: &[u32], out: &mut Vec<u8>) {
    let mut bits = BitWriter::new(out);
    values.iter().for_each(|&value| bits.write(value.into(), parameters.residue_bits()));
    bits.finish();
}
