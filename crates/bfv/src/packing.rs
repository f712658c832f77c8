//! Polynomials on the wire: limb after limb, each residue in as many bits as its prime has.

use restante_ring::{Basis, Form, Poly, Word};
use restante_wire::{BitReader, BitWriter, Reader, WireError, packed_bytes};

/// Bytes that a polynomial takes.
pub(crate) fn poly_bytes<W: Word>(basis: &Basis<W>) -> usize {
    basis.plans().iter().map(|plan| packed_bytes(basis.degree(), plan.modulus().bits())).sum()
}

pub(crate) fn encode_poly<W: Word, F: Form>(poly: &Poly<W, F>, out: &mut Vec<u8>) {
    for (plan, values) in poly.limbs() {
        let mut bits = BitWriter::new(out);
        values.iter().for_each(|&value| bits.write(value.into(), plan.modulus().bits()));
        bits.finish();
    }
}

pub(crate) fn decode_poly<W: Word, F: Form>(
    basis: &Basis<W>,
    reader: &mut Reader<'_>,
) -> Result<Poly<W, F>, WireError> {
    let mut poly = Poly::zero(basis);
    for (plan, values) in poly.limbs_mut() {
        let modulus = plan.modulus();
        let mut bits = BitReader::new(reader, values.len(), modulus.bits())?;
        for value in values.iter_mut() {
            let residue = bits.read(modulus.bits());
            if residue >= modulus.as_u64() {
                return Err(WireError::OutOfRange {
                    what: "residue",
                    found: residue,
                    expected: format!("below {modulus}", modulus = modulus.as_u64()),
                });
            }
            *value = W::truncate(residue);
        }
        bits.finish()?;
    }
    Ok(poly)
}
