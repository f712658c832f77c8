//! The clue itself and its encoding.

use restante_wire::{BitReader, BitWriter, Decode, Encode, Reader, WireError};

use crate::{COORDINATES, ClueError, ClueParameters};

/// An encryption of zero under the addressee's clue key, shifted by its tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clue {
    parameters: ClueParameters,
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
        Ok(Self::rounded(parameters, a.to_vec(), b))
    }

    /// Like [`Clue::from_coefficients`] for what is known to be residues, in constant time.
    pub(crate) fn rounded(parameters: ClueParameters, mut a: Vec<u32>, b: [u32; COORDINATES]) -> Self {
        a.iter_mut().for_each(|value| *value = parameters.round(*value) << parameters.dropped_bits());
        Self { parameters, a, b }
    }

    /// The parameters that the clue was made for.
    pub fn parameters(&self) -> &ClueParameters {
        &self.parameters
    }

    /// The n coefficients of a', residues modulo q whose d low bits are zero.
    pub fn a(&self) -> &[u32] {
        &self.a
    }

    /// The l coordinates of b', residues modulo q.
    pub fn b(&self) -> &[u32; COORDINATES] {
        &self.b
    }
}

impl Encode for Clue {
    fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.parameters.clue_bytes());
        let mut bits = BitWriter::new(out);
        let (dropped, width) = (self.parameters.dropped_bits(), self.parameters.stored_bits());
        self.a.iter().for_each(|&value| bits.write((value >> dropped).into(), width));
        bits.finish();
        write_coordinates(&self.parameters, &self.b, out);
    }
}

impl Decode<ClueParameters> for Clue {
    const WHAT: &'static str = "clue";

    fn decode(parameters: &ClueParameters, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut a = vec![0; parameters.degree()];
        let b = read_clue(parameters, reader, &mut a)?;
        Ok(Self { parameters: *parameters, a, b })
    }
}

/// Unpacks an encoded clue without allocation: a' into `a`, which must have n places, and b' as the result.
///
/// All are residues modulo q, those of a' with their d low bits zero. On an error, `a` holds no particular values.
pub fn unpack_coefficients(
    parameters: &ClueParameters,
    bytes: &[u8],
    a: &mut [u32],
) -> Result<[u32; COORDINATES], ClueError> {
    if a.len() != parameters.degree() {
        return Err(ClueError::Length { found: a.len(), expected: parameters.degree() });
    }
    let mut reader = Reader::new(Clue::WHAT, bytes);
    let b = read_clue(parameters, &mut reader, a)?;
    reader.finish()?;
    Ok(b)
}

fn read_clue(
    parameters: &ClueParameters,
    reader: &mut Reader<'_>,
    a: &mut [u32],
) -> Result<[u32; COORDINATES], WireError> {
    let largest = parameters.round(parameters.modulus() - 1);
    read_packed(reader, "coefficient of a clue", parameters.stored_bits(), largest, a)?;
    a.iter_mut().for_each(|value| *value <<= parameters.dropped_bits());
    read_coordinates(parameters, reader, "coordinate of a clue")
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

/// Reads l packed residues.
pub(crate) fn read_coordinates(
    parameters: &ClueParameters,
    reader: &mut Reader<'_>,
    what: &'static str,
) -> Result<[u32; COORDINATES], WireError> {
    let mut values = [0; COORDINATES];
    read_packed(reader, what, parameters.residue_bits(), parameters.modulus() - 1, &mut values)?;
    Ok(values)
}

/// Writes l packed residues.
pub(crate) fn write_coordinates(parameters: &ClueParameters, values: &[u32; COORDINATES], out: &mut Vec<u8>) {
    let mut bits = BitWriter::new(out);
    values.iter().for_each(|&value| bits.write(value.into(), parameters.residue_bits()));
    bits.finish();
}
