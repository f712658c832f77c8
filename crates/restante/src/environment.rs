//! The environment, in which anybody may have put anything.

use std::ffi::OsString;

use crate::error::CliError;

/// The variables whose names begin with `prefix`. Others are nobody's business here, and may hold what is no text.
///
/// # Errors
///
/// [`CliError::Usage`] for one of them that is not UTF-8.
#[cfg(feature = "serve")]
pub fn variables(prefix: &str) -> Result<Vec<(String, String)>, CliError> {
    select(std::env::vars_os(), prefix)
}

/// The value of a variable, if it has one.
///
/// # Errors
///
/// [`CliError::Usage`] if it is not UTF-8.
pub fn variable(name: &str) -> Result<Option<String>, CliError> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(|value| value.into_string().map_err(|_| not_utf8(name))).transpose()
}

fn not_utf8(name: &str) -> CliError {
    CliError::Usage(format!("the environment variable {name} is not UTF-8 text"))
}

#[cfg(feature = "serve")]
fn select(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    prefix: &str,
) -> Result<Vec<(String, String)>, CliError> {
    let ours = |name: &OsString| name.as_encoded_bytes().starts_with(prefix.as_bytes());
    variables
        .into_iter()
        .filter(|(name, _)| ours(name))
        .map(|(name, value)| {
            let shown = name.to_string_lossy().into_owned();
            Ok((
                name.into_string().map_err(|_| not_utf8(&shown))?,
                value.into_string().map_err(|_| not_utf8(&shown))?,
            ))
        })
        .collect()
}

#[cfg(all(test, unix, feature = "serve"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn what_is_no_text_is_refused_where_it_is_ours_and_left_alone_elsewhere() {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let found =
            |name: &[u8], value: &[u8]| select([(text(name), text(value)), (text(b"R_B"), text(b"1"))], "R_");
        let plain = vec![("R_B".to_owned(), "1".to_owned())];
        assert_eq!(found(b"OTHER", b"\xff").unwrap(), plain);
        assert_eq!(found(b"\xff", b"a").unwrap(), plain);
        assert_eq!(found(b"R_A", b"2").unwrap().len(), 2);
        for (name, value) in [(&b"R_A"[..], &b"\xff"[..]), (b"R_\xff", b"a")] {
            let error = found(name, value).unwrap_err();
            assert!(matches!(&error, CliError::Usage(reason) if reason.contains("R_")), "{error}");
        }
    }
}
