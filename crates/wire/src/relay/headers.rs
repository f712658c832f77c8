//! Names of header fields.

/// Index behind the last message that an answer takes account of.
pub const COMPLETE_TO: &str = "restante-complete-to";
/// Offset of the first byte of an upload's part, or the number of bytes that the relay has.
pub const UPLOAD_OFFSET: &str = "upload-offset";
/// The bytes of the whole upload.
pub const UPLOAD_LENGTH: &str = "upload-length";
/// Names a registration that a credential pays for: 32 hexadecimal digits, random and secret, the same when the request is repeated.
pub const REQUEST_ID: &str = "restante-request-id";
