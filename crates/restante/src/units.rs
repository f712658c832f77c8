//! Quantities as people read them: sizes, times and counts. Exact numbers are for `--json`.

use restante_client::Period;
use serde_json::Value;
use time::{Date, Month};

/// A number with its thousands set off.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size, in powers of 1000: "999 B", "4.2 kB", "39.5 TB".
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// A rate of a line: "2.5 Mbit/s".
#[cfg(feature = "serve")]
pub fn bits_per_second(bits: f64) -> String {
    scaled(bits, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// A time: "3.2 µs", "45 ms", "6.9 s", "2 min 10 s", "3 h 5 min", "12 days 4 h".
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return format!("{seconds} s");
    }
    // Rounded first, lest a minute have sixty seconds.
    let whole = seconds.round() as u64;
    let pair = |large: u64, first: &str, small: u64, second: &str| match small {
        0 => format!("{} {first}", count(large)),
        _ => format!("{} {first} {small} {second}", count(large)),
    };
    if seconds == 0.0 {
        "0 s".into()
    } else if seconds < 0.9995e-3 {
        format!("{} µs", decimal(seconds * 1e6))
    } else if seconds < 0.9995 {
        format!("{} ms", decimal(seconds * 1e3))
    } else if seconds < 59.5 {
        format!("{} s", decimal(seconds))
    } else if whole < 3600 {
        pair(whole / 60, "min", whole % 60, "s")
    } else if seconds < 48.0 * 3600.0 - 30.0 {
        let minutes = (seconds / 60.0).round() as u64;
        pair(minutes / 60, "h", minutes % 60, "min")
    } else {
        let hours = (seconds / 3600.0).round() as u64;
        pair(hours / 24, "days", hours % 24, "h")
    }
}

/// A number with as many digits as somebody wants to see: 0.012, 6.9, 45, 1,234.
pub fn decimal(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        value.to_string()
    } else if size == 0.0 {
        "0".into()
    } else if size < 0.000_95 {
        format!("{value:.1e}")
    } else if size < 0.095 {
        format!("{value:.3}")
    } else if size < 0.995 {
        format!("{value:.2}")
    } else if size < 99.95 {
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
    } else {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(size.round() as u64))
    }
}

/// A value of a report, whose name says its unit: `digest_bytes`, `detecting_seconds`.
pub fn named(name: &str, value: &Value) -> String {
    let has = |word: &str| name.split('_').any(|part| part == word);
    match value {
        Value::Null => "none".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".into(),
        Value::Array(values) => values.iter().map(|value| named(name, value)).collect::<Vec<_>>().join(", "),
        Value::Object(_) => value.to_string(),
        Value::Number(number) => {
            let float = number.as_f64().unwrap_or(f64::NAN);
            if has("bytes") {
                bytes(float)
            } else if has("seconds") {
                seconds(float)
            } else if name.starts_with("us_per_") {
                seconds(float * 1e-6)
            } else if PLACES.iter().any(|word| has(word)) {
                number.to_string()
            } else {
                number.as_u64().map_or_else(|| decimal(float), count)
            }
        }
    }
}

/// The name of a value whose unit stands beside the value.
pub fn label(name: &str) -> String {
    let words = name.strip_prefix("us_").map_or_else(|| name.to_owned(), |rest| format!("time_{rest}"));
    let words = words.split('_').map(|word| match word {
        "bytes" => "size",
        "seconds" => "time",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Words of names whose numbers are no amounts: they are places and names, which people copy into other commands.
const PLACES: [&str; 9] =
    ["index", "first", "to", "epoch", "modulus", "moduli", "version", "rotation", "degree"];

fn scaled(value: f64, units: &[&str]) -> String {
    let (mut value, mut units) = (value, units.iter());
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        // What is rounded to a thousand is one of the next unit.
        if value.abs() < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    format!("{} {unit}", decimal(value))
}

/// The Julian day of 1970-01-01.
const JULIAN_DAY_OF_1970: i32 = 2_440_588;

/// A day, as 2026-12-31; as its number if the calendar does not go so far.
pub fn date(day: Period) -> String {
    let julian = i32::try_from(day.0).ok().and_then(|day| JULIAN_DAY_OF_1970.checked_add(day));
    match julian.and_then(|day| Date::from_julian_day(day).ok()) {
        Some(date) => format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day()),
        None => format!("day {}", day.0),
    }
}

/// Reads a date such as 2026-12-31, from 1970 on.
///
/// # Errors
///
/// The expected form.
pub fn parse_date(text: &str) -> Result<Period, String> {
    let expected = || "expected a date such as 2026-12-31".to_owned();
    let mut parts = text.splitn(3, '-').map(str::parse::<u16>);
    let (Some(Ok(year)), Some(Ok(month)), Some(Ok(day))) = (parts.next(), parts.next(), parts.next()) else {
        return Err(expected());
    };
    let month =
        u8::try_from(month).ok().and_then(|month| Month::try_from(month).ok()).ok_or_else(expected)?;
    let day = u8::try_from(day).map_err(|_| expected())?;
    let date = Date::from_calendar_date(year.into(), month, day).map_err(|_| expected())?;
    let day = u32::try_from(date.to_julian_day() - JULIAN_DAY_OF_1970).map_err(|_| expected())?;
    Ok(Period(day))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn thousands_are_set_off() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(value), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn sizes_and_rates_are_scaled() {
        for (value, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (999.6, "1 kB"),
            (4200.0, "4.2 kB"),
            (273_480.0, "273 kB"),
            (999_700.0, "1 MB"),
            (39.46e12, "39.5 TB"),
            (1.8e22, "18,000 EB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        #[cfg(feature = "serve")]
        assert_eq!(bits_per_second(2.46e6), "2.5 Mbit/s");
    }

    #[test]
    fn times_have_two_units_at_most() {
        for (value, text) in [
            (0.0, "0 s"),
            (3.24e-6, "3.2 µs"),
            (0.045, "45 ms"),
            (0.9996, "1 s"),
            (6.94, "6.9 s"),
            (59.4, "59.4 s"),
            (59.6, "1 min"),
            (119.7, "2 min"),
            (130.0, "2 min 10 s"),
            (3599.7, "1 h"),
            (11_100.0, "3 h 5 min"),
            (86_400.0, "24 h"),
            (172_799.0, "2 days"),
            (1_051_200.0, "12 days 4 h"),
            (-1.0, "-1 s"),
        ] {
            assert_eq!(seconds(value), text, "{value}");
        }
    }

    #[test]
    fn dates_read_back() {
        // `date -u -d @SECONDS +%F` says so.
        for (day, text) in
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_454, "2026-01-01"), (47_481, "2099-12-31")]
        {
            assert_eq!((date(Period(day)).as_str(), parse_date(text)), (text, Ok(Period(day))));
        }
        assert_eq!(date(Period(u32::MAX)), "day 4294967295");
        for wrong in
            ["", "2026", "2026-13-01", "2026-02-29", "2026-1-1-1", "1969-12-31", "01-01-2026", "+2026-01-0x"]
        {
            assert!(parse_date(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_shown_by_what_their_names_say() {
        for (name, value, shown) in [
            ("digest_bytes", json!(4200), "4.2 kB"),
            ("detecting_seconds", json!(130), "2 min 10 s"),
            ("us_per_message_recipient", json!(3.24), "3.2 µs"),
            ("messages", json!(50_000), "50,000"),
            ("index", json!(50_000), "50000"),
            ("ciphertext_moduli", json!([12289, 65537]), "12289, 65537"),
            ("complete", json!(true), "yes"),
            ("peak_rss_bytes", json!(null), "none"),
            ("cores_busy_all_day", json!(6.94), "6.9"),
            ("name", json!("50000"), "50000"),
        ] {
            assert_eq!(named(name, &value), shown, "{name}");
        }
        assert_eq!(label("digest_bytes_per_message"), "digest size per message");
        assert_eq!(label("us_per_message_recipient"), "time per message recipient");
    }
}
