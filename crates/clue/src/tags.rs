//! The matrix T and the tags that it gives messages.

use restante_ring::Modulus;
use zeroize::Zeroize;

use crate::{BINDING, COORDINATES};

/// T: l rows of kappa residues modulo q. It lets its holder make clues for the owner, so it is wiped, and
/// never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tags(pub(crate) [[u32; BINDING]; COORDINATES]);

impl Tags {
    /// <T_c, h> for each c. No branch, index or division depends on T.
    pub(crate) fn of(&self, modulus: &Modulus<u32>, h: &[u32; BINDING]) -> [u32; COORDINATES] {
        self.0
            .each_ref()
            .map(|row| row.iter().zip(h).fold(0, |sum, (&entry, &h)| modulus.add(sum, modulus.mul(entry, h))))
    }
}

impl Drop for Tags {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Tags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tags(..)")
    }
}
