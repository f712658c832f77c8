//! Amounts in a configuration: a number of bytes or seconds, or text with a unit, as in `"10 GB"` and `"30 days"`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Units, each with how many bytes or seconds it has. They are compared without regard to case.
struct Units {
    expected: &'static str,
    units: &'static [(&'static [&'static str], u64)],
}

const BYTES: Units = Units {
    expected: "a number of bytes, or text such as \"10 GB\" with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB",
    units: &[
        (&["b"], 1),
        (&["kb"], 1000),
        (&["mb"], 1_000_000),
        (&["gb"], 1_000_000_000),
        (&["tb"], 1_000_000_000_000),
        (&["kib"], 1 << 10),
        (&["mib"], 1 << 20),
        (&["gib"], 1 << 30),
        (&["tib"], 1 << 40),
    ],
};

const SECONDS: Units = Units {
    expected: "a number of seconds, or text such as \"5 min\" with s, min, h, days or weeks",
    units: &[
        (&["s", "sec", "second", "seconds"], 1),
        (&["min", "minute", "minutes"], 60),
        (&["h", "hour", "hours"], 3600),
        (&["d", "day", "days"], 24 * 3600),
        (&["w", "week", "weeks"], 7 * 24 * 3600),
    ],
};

/// Decimal places that a number may have.
const PLACES: usize = 9;

impl Units {
    /// Reads a number, a unit behind it if there is one, and spaces. `None` for everything else, and for what is no whole number of
    /// bytes or seconds, or more than 2^64.
    fn parse(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = unit.trim_start();
        let factor = match unit {
            "" => 1,
            unit => {
                let is_it = |name: &&str| name.eq_ignore_ascii_case(unit);
                self.units.iter().find(|(names, _)| names.iter().any(is_it))?.1
            }
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || whole.len() > 20 || fraction.len() > PLACES {
            return None;
        }
        let scale = 10u128.pow(fraction.len() as u32);
        let scaled = whole.parse::<u128>().ok()? * scale + fraction.parse::<u128>().ok()?;
        let amount = scaled.checked_mul(factor.into())?;
        (amount % scale == 0).then(|| u64::try_from(amount / scale).ok()).flatten()
    }
}

/// Reads a number of bytes.
pub(super) fn bytes<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Amount(&BYTES, PhantomData))
}

/// Reads a number of seconds.
pub(super) fn seconds<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Amount(&SECONDS, PhantomData))
}

/// Reads a number of bytes of a field that may be left out.
pub(super) fn some_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    bytes(deserializer).map(Some)
}

/// Reads a number of seconds of a field that may be left out.
pub(super) fn some_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    seconds(deserializer).map(Some)
}

struct Amount<T>(&'static Units, PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for Amount<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.expected)
    }

    fn visit_u64<E: Error>(self, amount: u64) -> Result<T, E> {
        let refused = E::invalid_value(Unexpected::Unsigned(amount), &self);
        T::try_from(amount).map_err(|_| refused)
    }

    fn visit_i64<E: Error>(self, amount: i64) -> Result<T, E> {
        match u64::try_from(amount) {
            Ok(amount) => self.visit_u64(amount),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(amount), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        match self.0.parse(text) {
            Some(amount) => self.visit_u64(amount),
            None => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units_or_none() {
        for (text, expected) in [
            ("0", 0),
            ("10 GB", 10_000_000_000),
            ("10GB", 10_000_000_000),
            (" 1.5 GiB ", 3 << 29),
            ("16 kib", 16 << 10),
            ("4200 B", 4200),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(BYTES.parse(text), Some(expected), "{text}");
        }
        for (text, expected) in [
            ("30 days", 30 * 86_400),
            ("1 day", 86_400),
            ("5 min", 300),
            ("2 h", 7200),
            ("0.5h", 1800),
            ("2 weeks", 14 * 86_400),
            ("90", 90),
            ("90 s", 90),
        ] {
            assert_eq!(SECONDS.parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_and_not_rounded() {
        for text in [
            "",
            "GB",
            ".",
            "1.",
            ".5 GB",
            "1..5 GB",
            "1.5",
            "0.3 kib",
            "-1",
            "+1",
            "1e9",
            "1,000",
            "10 XB",
            "10 G",
            "5 m",
            "1 GB 5 MB",
            "20000000 TiB",
            "18446744073709551616",
            "1.0000000001 GB",
            "340282366920938463463374607431768211455",
        ] {
            assert_eq!(BYTES.parse(text), None, "{text}");
            assert_eq!(SECONDS.parse(text), None, "{text}");
        }
        assert_eq!(BYTES.parse("5 min"), None);
        assert_eq!(SECONDS.parse("5 MB"), None);
    }
}
