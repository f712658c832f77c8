//! The meaning of a Parquet column's values, and the type of the schema that they become.
//!
//! | stored as | becomes |
//! |---|---|
//! | string, enum, JSON; binary | text (binary: if it is UTF-8), bytes |
//! | UUID, BSON, interval, fixed length | bytes |
//! | integers of all lengths | integer; an unsigned one of 2^63 or more does not fit |
//! | date | integer: days since 1970-01-01 |
//! | time, timestamp | integer, in the unit of the file: milliseconds, microseconds or nanoseconds |
//! | timestamp of 96 bits (INT96) | integer: nanoseconds since 1970-01-01, if they fit 64 bits |
//! | decimal | text, exact, with as many digits behind the point as its scale; integer, if the scale is 0 |
//! | floating point | real |
//! | boolean | boolean |
//! | a column of nulls without a type | null, for every type |

use std::collections::VecDeque;

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{AsBytes, ByteArray, DataType, Int96};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;
use restante_pir::search::{FieldKind, Value};

/// The longest decimal in bytes: 76 digits.
const MAX_DECIMAL_BYTES: usize = 32;
/// The largest scale of a decimal.
const MAX_SCALE: i32 = 76;
/// The day on which INT96 counts 1970-01-01.
const EPOCH_DAY: i128 = 2_440_588;

/// A value as it is stored.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    Null,
    Boolean(bool),
    Integer(i64),
    /// INT96, in nanoseconds since 1970.
    Instant(i128),
    Real(f64),
    Bytes(ByteArray),
}

impl Stored {
    /// Its size.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Null => 0,
            Self::Boolean(_) => 1,
            Self::Integer(_) | Self::Real(_) => 8,
            Self::Instant(_) => 12,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// Appends the values of the next rows, at most `rows`; returns how many there were.
pub(super) fn read(
    reader: &mut ColumnReader,
    rows: usize,
    out: &mut VecDeque<Stored>,
) -> Result<usize, ParquetError> {
    match reader {
        ColumnReader::BoolColumnReader(reader) => typed(reader, rows, out, |&value| Stored::Boolean(value)),
        ColumnReader::Int32ColumnReader(reader) => {
            typed(reader, rows, out, |&value| Stored::Integer(value.into()))
        }
        ColumnReader::Int64ColumnReader(reader) => typed(reader, rows, out, |&value| Stored::Integer(value)),
        ColumnReader::Int96ColumnReader(reader) => {
            typed(reader, rows, out, |value| Stored::Instant(instant(value)))
        }
        ColumnReader::FloatColumnReader(reader) => {
            typed(reader, rows, out, |&value| Stored::Real(value.into()))
        }
        ColumnReader::DoubleColumnReader(reader) => typed(reader, rows, out, |&value| Stored::Real(value)),
        ColumnReader::ByteArrayColumnReader(reader) => {
            typed(reader, rows, out, |value| Stored::Bytes(value.clone()))
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            typed(reader, rows, out, |value| Stored::Bytes(value.clone().into()))
        }
    }
}

fn typed<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    out: &mut VecDeque<Stored>,
    stored: impl Fn(&T::T) -> Stored,
) -> Result<usize, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let (rows, read, _) = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
    let mut values = values.iter().take(read);
    // A column that has a value in every row has no levels. Others are of level 1 where there is a value, 0 where there is none.
    if levels.is_empty() {
        out.extend(values.map(stored));
    } else {
        let value = |level: &i16| (*level > 0).then(|| values.next()).flatten().map_or(Stored::Null, &stored);
        out.extend(levels.iter().map(value));
    }
    Ok(rows)
}

fn instant(value: &Int96) -> i128 {
    let &[low, high, day] = value.data() else { return i128::MAX };
    let nanoseconds = i128::from((i64::from(high) << 32) + i64::from(low));
    (i128::from(day as i32) - EPOCH_DAY) * 86_400_000_000_000 + nanoseconds
}

/// The meaning of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Boolean,
    Integer,
    /// Stored in that many bits without a sign.
    Unsigned(u32),
    Instant,
    Real,
    /// A floating-point number of 16 bits.
    Half,
    Decimal {
        scale: usize,
    },
    Text,
    /// Bytes that may be text.
    Binary,
    Bytes,
    /// Nulls only.
    Nothing,
}

impl Meaning {
    /// Of a column; otherwise what it holds.
    pub(super) fn of(column: &ColumnDescriptor) -> Result<Self, String> {
        let (physical, converted) = (column.physical_type(), column.converted_type());
        let logical = column.logical_type_ref();
        if logical == Some(&LogicalType::Unknown) {
            return Ok(Self::Nothing);
        }
        let is_decimal =
            converted == ConvertedType::DECIMAL || matches!(logical, Some(LogicalType::Decimal(_)));
        if is_decimal {
            let scale = column.type_scale();
            return match scale {
                0..=MAX_SCALE => Ok(Self::Decimal { scale: scale as usize }),
                _ => Err(format!("decimals of scale {scale}")),
            };
        }
        Ok(match physical {
            Physical::BOOLEAN => Self::Boolean,
            Physical::INT96 => Self::Instant,
            Physical::FLOAT | Physical::DOUBLE => Self::Real,
            Physical::INT32 | Physical::INT64 => match (converted, logical) {
                (ConvertedType::UINT_8, _) => Self::Unsigned(8),
                (ConvertedType::UINT_16, _) => Self::Unsigned(16),
                (ConvertedType::UINT_32, _) => Self::Unsigned(32),
                (ConvertedType::UINT_64, _) => Self::Unsigned(64),
                (_, Some(LogicalType::Integer(integer))) if !integer.is_signed => {
                    Self::Unsigned(integer.bit_width as u32)
                }
                _ => Self::Integer,
            },
            Physical::BYTE_ARRAY => match (converted, logical) {
                (ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON, _)
                | (_, Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)) => Self::Text,
                (ConvertedType::NONE, None) => Self::Binary,
                _ => Self::Bytes,
            },
            Physical::FIXED_LEN_BYTE_ARRAY => match logical {
                Some(LogicalType::Float16) => Self::Half,
                None if converted == ConvertedType::NONE => Self::Binary,
                _ => Self::Bytes,
            },
        })
    }

    /// Whether values can be of the schema's type.
    pub(super) fn fits(self, kind: FieldKind) -> bool {
        use FieldKind::{Boolean, Bytes, Integer, Real, Text};
        match self {
            Self::Nothing => true,
            Self::Boolean => kind == Boolean,
            Self::Integer | Self::Unsigned(_) | Self::Instant => kind == Integer,
            Self::Real | Self::Half => kind == Real,
            Self::Decimal { scale: 0 } => matches!(kind, Text | Integer),
            Self::Decimal { .. } => kind == Text,
            Self::Text | Self::Binary => matches!(kind, Text | Bytes),
            Self::Bytes => kind == Bytes,
        }
    }

    /// The types that values can be of.
    pub(super) fn kinds(self) -> String {
        let kinds: Vec<&str> =
            FieldKind::ALL.into_iter().filter(|kind| self.fits(*kind)).map(FieldKind::name).collect();
        kinds.join(" or ")
    }

    /// The meaning of the values, in words.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Boolean => "booleans",
            Self::Integer | Self::Unsigned(_) => "whole numbers, dates or times",
            Self::Instant => "timestamps of 96 bits",
            Self::Real | Self::Half => "floating-point numbers",
            Self::Decimal { scale } => return format!("decimals of scale {scale}"),
            Self::Text => "text",
            Self::Binary | Self::Bytes => "bytes",
            Self::Nothing => "nothing",
        }
        .into()
    }

    /// The value of type `kind` that is stored, or what is wrong with it, without it.
    pub(super) fn value(self, stored: &Stored, kind: FieldKind) -> Result<Value, String> {
        let bytes: &[u8] = match stored {
            Stored::Bytes(bytes) if !bytes.is_empty() => bytes.as_bytes(),
            _ => &[],
        };
        let value = match (self, stored, kind) {
            (_, Stored::Null, _) => Value::Null,
            (Self::Boolean, Stored::Boolean(value), FieldKind::Boolean) => Value::Boolean(*value),
            (Self::Integer, Stored::Integer(number), FieldKind::Integer) => Value::Integer(*number),
            (Self::Unsigned(bits), Stored::Integer(number), FieldKind::Integer) => {
                let mask = u64::MAX >> (64 - bits.clamp(1, 64));
                Value::Integer(i64::try_from(*number as u64 & mask).map_err(|_| out_of_range())?)
            }
            (Self::Instant, Stored::Instant(number), FieldKind::Integer) => {
                Value::Integer(i64::try_from(*number).map_err(|_| out_of_range())?)
            }
            (Self::Real, Stored::Real(number), FieldKind::Real) => Value::Real(*number),
            (Self::Half, Stored::Bytes(_), FieldKind::Real) => match bytes {
                &[low, high] => Value::Real(half(u16::from_le_bytes([low, high]))),
                _ => return Err(format!("{} bytes, expected a number of 2 bytes", bytes.len())),
            },
            (Self::Decimal { scale }, Stored::Integer(_) | Stored::Bytes(_), FieldKind::Text) => {
                Value::Text(point(digits(stored, bytes)?, scale))
            }
            (Self::Decimal { scale: 0 }, Stored::Integer(_) | Stored::Bytes(_), FieldKind::Integer) => {
                Value::Integer(digits(stored, bytes)?.parse().map_err(|_| out_of_range())?)
            }
            (Self::Text | Self::Binary, Stored::Bytes(_), FieldKind::Text) => {
                Value::Text(std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())?.into())
            }
            (Self::Text | Self::Binary | Self::Bytes, Stored::Bytes(_), FieldKind::Bytes) => {
                Value::Bytes(bytes.to_vec())
            }
            _ => return Err(format!("a value of another type, expected {}", kind.name())),
        };
        Ok(value)
    }
}

fn out_of_range() -> String {
    "a number out of range, expected one of -2^63 to 2^63 - 1".into()
}

/// The decimal digits of a whole number: an integer, or bytes in two's complement with the most significant one first.
fn digits(stored: &Stored, bytes: &[u8]) -> Result<String, String> {
    if let Stored::Integer(number) = stored {
        return Ok(number.to_string());
    }
    if !(1..=MAX_DECIMAL_BYTES).contains(&bytes.len()) {
        return Err(format!("a decimal of {} bytes, expected 1 to {MAX_DECIMAL_BYTES}", bytes.len()));
    }
    let is_negative = bytes[0] >= 128;
    let mut magnitude = bytes.to_vec();
    if is_negative {
        // Two's complement: all bits turned round, plus one.
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (sum, over) = (!*byte).overflowing_add(carry.into());
            (*byte, carry) = (sum, over);
        }
    }
    let mut digits = Vec::new();
    while magnitude.iter().any(|&byte| byte != 0) {
        let mut rest = 0u32;
        for byte in &mut magnitude {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 10) as u8;
            rest = value % 10;
        }
        digits.push(b'0' + rest as u8);
    }
    if digits.is_empty() {
        digits.push(b'0');
    }
    if is_negative {
        digits.push(b'-');
    }
    Ok(digits.iter().rev().map(|&digit| char::from(digit)).collect())
}

/// Puts the point into a number of so many hundredths, thousandths, ...
fn point(digits: String, scale: usize) -> String {
    if scale == 0 {
        return digits;
    }
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.as_str()),
    };
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, part) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{part}")
}

/// A floating-point number of 16 bits (IEEE 754 binary16).
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 31, f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn decimal(bytes: &[u8], scale: usize) -> Result<Value, String> {
        Meaning::Decimal { scale }.value(&Stored::Bytes(ByteArray::from(bytes.to_vec())), FieldKind::Text)
    }

    #[test]
    fn decimals_are_exact() {
        for (number, scale, expected) in [
            (0i128, 0, "0"),
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (12_345, 2, "123.45"),
            (-12_345, 5, "-0.12345"),
            (i128::MAX, 38, "1.70141183460469231731687303715884105727"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ] {
            let bytes = number.to_be_bytes();
            assert_eq!(decimal(&bytes, scale).unwrap(), Value::Text(expected.into()));
            if let Ok(short) = i64::try_from(number) {
                let value =
                    Meaning::Decimal { scale }.value(&Stored::Integer(short), FieldKind::Text).unwrap();
                assert_eq!(value, Value::Text(expected.into()));
            }
        }
        // 2^255 - 1 and -2^255.
        let mut longest = [0xff; 32];
        longest[0] = 0x7f;
        let expected = "57896044618658097711785492504343953926634992332820282019728792003956564819967";
        assert_eq!(decimal(&longest, 0).unwrap(), Value::Text(expected.into()));
        let mut least = [0; 32];
        least[0] = 0x80;
        let expected = "-57896044618658097711785492504343953926634992332820282019728792003956564819968";
        assert_eq!(decimal(&least, 0).unwrap(), Value::Text(expected.into()));
        for bytes in [&[][..], &[1; 33]] {
            assert!(decimal(bytes, 0).is_err());
        }
        let as_integer = |number: i128| {
            let stored = Stored::Bytes(ByteArray::from(number.to_be_bytes().to_vec()));
            Meaning::Decimal { scale: 0 }.value(&stored, FieldKind::Integer)
        };
        assert_eq!(as_integer(i64::MIN.into()).unwrap(), Value::Integer(i64::MIN));
        assert!(as_integer(i128::from(i64::MAX) + 1).unwrap_err().contains("out of range"));
    }

    #[test]
    fn short_floating_point_numbers() {
        for (bits, expected) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0001, 2f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
            (0x7c00, f64::INFINITY),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), expected);
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn unsigned_numbers_and_instants() {
        let unsigned =
            |bits, number| Meaning::Unsigned(bits).value(&Stored::Integer(number), FieldKind::Integer);
        assert_eq!(unsigned(32, -1).unwrap(), Value::Integer(u32::MAX.into()));
        assert_eq!(unsigned(8, 200).unwrap(), Value::Integer(200));
        assert!(unsigned(64, -1).is_err());
        let mut value = Int96::new();
        // 2024-03-01 12:34:56.789123, as day 2460371 and nanoseconds of the day.
        let nanoseconds = 45_296_789_123_000u64;
        value.set_data(nanoseconds as u32, (nanoseconds >> 32) as u32, 2_460_371);
        assert_eq!(instant(&value), 1_709_296_496_789_123_000);
        value.set_data(0, 0, u32::MAX);
        assert!(Meaning::Instant.value(&Stored::Instant(instant(&value)), FieldKind::Integer).is_err());
    }
}
