//! Readers of files that are no part of the interface, for fuzz targets.

use restante_wire::ParameterId;

/// Reads an order about credentials.
pub fn order(bytes: &[u8]) {
    crate::credentials::try_order(bytes);
}

/// Reads a directory that is one file.
pub fn directory_table(bytes: &[u8], parameters: ParameterId) {
    crate::directory::try_table(bytes, parameters);
}
