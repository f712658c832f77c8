//! Operations on single vectors of residues, with a plan's back end: for code that goes limb by limb.

use crate::{Multiplier, NttPlan, Word};

impl<W: Word> NttPlan<W> {
    /// a += b.
    pub fn add(&self, a: &mut [W], b: &[W]) {
        (self.kernels().add)(self.modulus(), a, b);
    }

    /// a -= b.
    pub fn sub(&self, a: &mut [W], b: &[W]) {
        (self.kernels().sub)(self.modulus(), a, b);
    }

    /// a *= b, element by element.
    pub fn mul(&self, a: &mut [W], b: &[W]) {
        (self.kernels().mul)(self.modulus(), a, b);
    }

    /// a += b c, element by element.
    pub fn mul_add(&self, a: &mut [W], b: &[W], c: &[W]) {
        (self.kernels().mul_add)(self.modulus(), a, b, c);
    }

    /// a *= w.
    pub fn scale(&self, a: &mut [W], factor: Multiplier<W>) {
        (self.kernels().scale)(self.modulus(), a, factor);
    }

    /// out = sum over rows i of rows\[i\] weights\[i\]; the rows hold any words below 2^50, not residues only.
    pub fn combine(&self, out: &mut [W], rows: &[&[W]], weights: &[Multiplier<W>]) {
        (self.kernels().combine)(self.modulus(), out, rows, weights);
    }
}
