//! Text to values.

use restante_pir::search::{FieldKind, Value};

/// A whole number in decimal digits.
pub(crate) fn parse_integer(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "not an integer, expected digits for -2^63 to 2^63 - 1".into())
}

/// Hexadecimal digits of either case, two for each byte.
pub(crate) fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> =
        digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
    bytes.ok_or_else(|| "not bytes, expected pairs of hexadecimal digits".into())
}

/// Hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value of type `kind` that is written as `text`.
pub(crate) fn parse_value(kind: FieldKind, text: &str) -> Result<Value, String> {
    Ok(match kind {
        FieldKind::Text => Value::Text(text.into()),
        FieldKind::Integer => Value::Integer(parse_integer(text)?),
        FieldKind::Real => {
            Value::Real(text.parse().map_err(|_| "not a number, expected one like -1.5e3".to_owned())?)
        }
        FieldKind::Boolean => match text {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => return Err("not a boolean, expected true or false".into()),
        },
        FieldKind::Bytes => Value::Bytes(from_hex(text)?),
    })
}

/// Checks the length of a text or of bytes.
pub(crate) fn check_length(value: &Value, max_bytes: usize) -> Result<(), String> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    if length <= max_bytes { Ok(()) } else { Err(format!("{length} bytes, expected at most {max_bytes}")) }
}
