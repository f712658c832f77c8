//! The record that comes back for a hit: a few named fields, encoded to one string of bytes.
//!
//! The encoding, which responder and querier agree on by having the same [`Layout`]:
//!
//! * ceil(n / 4) bytes of states, two bits for each of the n fields from the lowest bit up: 0 the record has no such field, 1
//!   it is null, 2 it has a value; the bits past the last field are zero;
//! * for each field with a value, in order: an integer as 8 bytes, two's complement and little-endian; a real number as
//!   the 8 bytes of its IEEE 754 form, little-endian; a boolean as one byte, 0 or 1; a text (UTF-8) or a string of bytes as its
//!   length in LEB128 and its bytes.

use std::collections::HashSet;

use restante_wire::{ParameterId, Reader};

use crate::PirError;
use crate::search::varint;

/// The most fields that a record returns.
pub const MAX_FIELDS: usize = 256;
/// The most bytes of an encoded record: 4 MiB of contents and 4 KiB for states and lengths.
pub const MAX_RECORD_BYTES: usize = (4 << 20) + (4 << 10);
/// The most bytes of a field's name.
pub const MAX_NAME_BYTES: usize = 256;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// UTF-8 text.
    Text,
    /// A whole number of -2^63 to 2^63 - 1.
    Integer,
    /// A 64-bit floating-point number.
    Real,
    /// True or false.
    Boolean,
    /// Any bytes.
    Bytes,
}

impl FieldKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Text, Self::Integer, Self::Real, Self::Boolean, Self::Bytes];

    /// Its name in schemas.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::Bytes => "bytes",
        }
    }
}

/// The value of a field of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The record has no such field.
    Missing,
    /// The field is there and holds nothing.
    Null,
    /// Of [`FieldKind::Text`].
    Text(String),
    /// Of [`FieldKind::Integer`].
    Integer(i64),
    /// Of [`FieldKind::Real`].
    Real(f64),
    /// Of [`FieldKind::Boolean`].
    Boolean(bool),
    /// Of [`FieldKind::Bytes`].
    Bytes(Vec<u8>),
}

impl Value {
    /// The type, if there is a value.
    pub fn kind(&self) -> Option<FieldKind> {
        match self {
            Self::Missing | Self::Null => None,
            Self::Text(_) => Some(FieldKind::Text),
            Self::Integer(_) => Some(FieldKind::Integer),
            Self::Real(_) => Some(FieldKind::Real),
            Self::Boolean(_) => Some(FieldKind::Boolean),
            Self::Bytes(_) => Some(FieldKind::Bytes),
        }
    }

    /// The two bits that say which it is.
    fn state(&self) -> u8 {
        match self {
            Self::Missing => 0,
            Self::Null => 1,
            _ => 2,
        }
    }
}

/// The names and types of the fields that come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<(String, FieldKind)>,
}

impl Layout {
    /// A layout of fields in this order.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] unless there are 1 to [`MAX_FIELDS`]; [`PirError::Field`] for a name that is empty, longer than
    /// [`MAX_NAME_BYTES`] or there twice.
    pub fn new(fields: Vec<(String, FieldKind)>) -> Result<Self, PirError> {
        if !(1..=MAX_FIELDS).contains(&fields.len()) {
            return Err(PirError::Size {
                what: "the number of fields that come back",
                found: fields.len() as u64,
                expected: format!("1 to {MAX_FIELDS}"),
            });
        }
        let mut names = HashSet::new();
        for (name, _) in &fields {
            if !(1..=MAX_NAME_BYTES).contains(&name.len()) {
                let expected = format!("its name has {} bytes, expected 1 to {MAX_NAME_BYTES}", name.len());
                return Err(misfit(name, expected));
            }
            if !names.insert(name) {
                return Err(misfit(name, "there are two of that name, expected one".into()));
            }
        }
        Ok(Self { fields })
    }

    /// The fields.
    pub fn fields(&self) -> &[(String, FieldKind)] {
        &self.fields
    }

    /// Names the layout: the same for the same names and types in the same order.
    pub fn id(&self) -> ParameterId {
        let mut description = String::from("restante/1/search/layout");
        for (name, kind) in &self.fields {
            // The length keeps a name from passing for two.
            description.push_str(&format!("\n{} {name} {}", name.len(), kind.name()));
        }
        ParameterId::of(&description)
    }

    /// Appends the encoded record to `out`, or nothing.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for another number of values than the layout has, or if they take more than
    /// [`MAX_RECORD_BYTES`]; [`PirError::Field`] for a value of another type.
    pub fn encode(&self, values: &[Value], out: &mut Vec<u8>) -> Result<(), PirError> {
        if values.len() != self.fields.len() {
            return Err(PirError::Size {
                what: "the number of values in a record",
                found: values.len() as u64,
                expected: self.fields.len().to_string(),
            });
        }
        let start = out.len();
        let states = self.fields.len().div_ceil(4);
        let mut bytes = states;
        for ((name, expected), value) in self.fields.iter().zip(values) {
            if let Some(found) = value.kind().filter(|found| found != expected) {
                return Err(misfit(
                    name,
                    format!("a value of type {}, expected {}", found.name(), expected.name()),
                ));
            }
            bytes += value_bytes(value);
        }
        if bytes > MAX_RECORD_BYTES {
            return Err(PirError::Size {
                what: "the size of a record in bytes",
                found: bytes as u64,
                expected: format!("at most {MAX_RECORD_BYTES}"),
            });
        }
        out.resize(start + states, 0);
        for (place, value) in values.iter().enumerate() {
            out[start + place / 4] |= value.state() << (2 * (place % 4));
        }
        for value in values {
            match value {
                Value::Missing | Value::Null => {}
                Value::Text(text) => put_string(text.as_bytes(), out),
                Value::Integer(number) => out.extend_from_slice(&number.to_le_bytes()),
                Value::Real(number) => out.extend_from_slice(&number.to_le_bytes()),
                Value::Boolean(value) => out.push((*value).into()),
                Value::Bytes(bytes) => put_string(bytes, out),
            }
        }
        Ok(())
    }

    /// Reads a record back, strictly: exactly what [`encode`](Self::encode) writes is accepted.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`], [`PirError::Field`].
    pub fn decode(&self, bytes: &[u8]) -> Result<Vec<Value>, PirError> {
        let mut reader = Reader::new("a record", bytes);
        let states = reader.bytes(self.fields.len().div_ceil(4))?;
        let state = |place: usize| states[place / 4] >> (2 * (place % 4)) & 3;
        if (self.fields.len()..4 * states.len()).any(|place| state(place) != 0) {
            return Err(misfit("", "there is more of it than the layout has fields".into()));
        }
        let mut values = Vec::with_capacity(self.fields.len());
        for (place, (name, kind)) in self.fields.iter().enumerate() {
            let value = match state(place) {
                0 => Value::Missing,
                1 => Value::Null,
                2 => read_value(name, *kind, &mut reader)?,
                found => return Err(misfit(name, format!("state {found}, expected 0, 1 or 2"))),
            };
            values.push(value);
        }
        reader.finish()?;
        Ok(values)
    }
}

fn read_value(name: &str, kind: FieldKind, reader: &mut Reader<'_>) -> Result<Value, PirError> {
    let mut string = || -> Result<Vec<u8>, PirError> {
        let length = varint::get("the length of a field", MAX_RECORD_BYTES as u64, reader)?;
        Ok(reader.bytes(length as usize)?.to_vec())
    };
    Ok(match kind {
        FieldKind::Text => {
            Value::Text(String::from_utf8(string()?).map_err(|_| misfit(name, "not UTF-8 text".into()))?)
        }
        FieldKind::Bytes => Value::Bytes(string()?),
        FieldKind::Integer => Value::Integer(i64::from_le_bytes(reader.array()?)),
        FieldKind::Real => Value::Real(f64::from_le_bytes(reader.array()?)),
        FieldKind::Boolean => match reader.u8()? {
            0 => Value::Boolean(false),
            1 => Value::Boolean(true),
            found => return Err(misfit(name, format!("boolean {found}, expected 0 or 1"))),
        },
    })
}

fn value_bytes(value: &Value) -> usize {
    let string = |length: usize| varint::bytes(length as u64) + length;
    match value {
        Value::Missing | Value::Null => 0,
        Value::Text(text) => string(text.len()),
        Value::Bytes(bytes) => string(bytes.len()),
        Value::Integer(_) | Value::Real(_) => 8,
        Value::Boolean(_) => 1,
    }
}

fn put_string(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn misfit(field: &str, reason: String) -> PirError {
    PirError::Field { field: field.into(), reason }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn layout(kinds: &[FieldKind]) -> Layout {
        Layout::new(kinds.iter().enumerate().map(|(place, &kind)| (format!("f{place}"), kind)).collect())
            .unwrap()
    }

    fn value(kind: FieldKind) -> BoxedStrategy<Value> {
        let some = match kind {
            FieldKind::Text => any::<String>().prop_map(Value::Text).boxed(),
            FieldKind::Integer => any::<i64>().prop_map(Value::Integer).boxed(),
            FieldKind::Real => any::<f64>().prop_map(Value::Real).boxed(),
            FieldKind::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
            FieldKind::Bytes => vec(any::<u8>(), 0..200).prop_map(Value::Bytes).boxed(),
        };
        prop_oneof![Just(Value::Missing), Just(Value::Null), some.clone(), some].boxed()
    }

    fn record() -> impl Strategy<Value = (Vec<FieldKind>, Vec<Value>)> {
        vec(proptest::sample::select(&FieldKind::ALL[..]), 1..12).prop_flat_map(|kinds| {
            let values: Vec<_> = kinds.iter().map(|&kind| value(kind)).collect();
            (Just(kinds), values)
        })
    }

    proptest! {
        #[test]
        fn records_come_back((kinds, values) in record()) {
            let layout = layout(&kinds);
            let mut bytes = vec![7];
            layout.encode(&values, &mut bytes).unwrap();
            prop_assert_eq!(bytes[0], 7);
            prop_assert_eq!(layout.decode(&bytes[1..]).unwrap(), values);
            // What a record is does not depend on what follows.
            prop_assert!(layout.decode(&bytes[1..bytes.len() - 1]).is_err());
            bytes.push(0);
            prop_assert!(layout.decode(&bytes[1..]).is_err());
        }

        #[test]
        fn what_is_read_is_what_would_be_written(
            kinds in vec(proptest::sample::select(&FieldKind::ALL[..]), 1..6), bytes in vec(any::<u8>(), 0..24)
        ) {
            let layout = layout(&kinds);
            if let Ok(values) = layout.decode(&bytes) {
                let mut again = Vec::new();
                layout.encode(&values, &mut again).unwrap();
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn the_encoding_is_the_documented_one() {
        let layout = layout(&[
            FieldKind::Text,
            FieldKind::Integer,
            FieldKind::Boolean,
            FieldKind::Bytes,
            FieldKind::Real,
        ]);
        let values =
            [Value::Text("\u{e9}".into()), Value::Integer(-2), Value::Null, Value::Missing, Value::Real(1.0)];
        let mut bytes = Vec::new();
        layout.encode(&values, &mut bytes).unwrap();
        let expected = [
            &[0b00_01_10_10, 0b10, 2, 0xc3, 0xa9, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..],
            &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn the_largest_record_fits_and_the_next_does_not() {
        let layout = layout(&[FieldKind::Bytes]);
        let mut out = Vec::new();
        let mut value = vec![0; MAX_RECORD_BYTES - 5];
        layout.encode(&[Value::Bytes(value.clone())], &mut out).unwrap();
        assert_eq!(out.len(), MAX_RECORD_BYTES);
        assert_eq!(layout.decode(&out).unwrap(), [Value::Bytes(value.clone())]);
        value.push(0);
        let refused = layout.encode(&[Value::Bytes(value)], &mut out);
        assert!(matches!(refused, Err(PirError::Size { found, .. }) if found == MAX_RECORD_BYTES as u64 + 1));
        assert_eq!(out.len(), MAX_RECORD_BYTES);
    }

    #[test]
    fn layouts_are_told_apart() {
        let one = |name: &str, kind| Layout::new(vec![(name.into(), kind)]).unwrap().id();
        assert_eq!(one("a", FieldKind::Text), one("a", FieldKind::Text));
        assert_ne!(one("a", FieldKind::Text), one("b", FieldKind::Text));
        assert_ne!(one("a", FieldKind::Text), one("a", FieldKind::Bytes));
        let two = Layout::new(vec![("a".into(), FieldKind::Text), ("b".into(), FieldKind::Text)]).unwrap();
        assert_ne!(two.id(), one("a text\n1 b", FieldKind::Text));
        for bad in [vec![], vec![""], vec!["a", "a"]] {
            assert!(
                Layout::new(bad.into_iter().map(|name| (name.into(), FieldKind::Text)).collect()).is_err()
            );
        }
    }
}
