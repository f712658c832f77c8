//! Names of detection keys.

/// Names a detection key: the first 16 bytes of the BLAKE3 hash of its file, or for a compact detection key, of its parameters and its
/// public seed, which no two recipients share but anybody can copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// The id of the key whose file, or what stands for it, has these bytes.
    pub fn of_file(bytes: &[u8]) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Self(id)
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
