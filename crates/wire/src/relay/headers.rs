//! Names of header fields.

/// Index behind the last message that an answer takes account of.
pub const COMPLETE_TO: &str = "restante-complete-to";
/// Offset of the first byte of an upload's part, or the number of bytes that the relay has.
pub const UPLOAD_OFFSET: &str = "upload-offset";
/// The bytes of the whole upload.
pub const UPLOAD_LENGTH: &str = "upload-length";
