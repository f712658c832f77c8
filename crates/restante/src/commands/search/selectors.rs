//! Reads selectors.

use restante_pir::search::{WrittenSelector, refuse_repeated};
use restante_tables::Schema;

use crate::{arguments::SelectorOptions, error::CliError, files, report::note};

/// The selectors that were asked for, first those on the command line, then the lines of the file.
pub fn load(options: &SelectorOptions, schema: &Schema) -> Result<Vec<WrittenSelector>, CliError> {
    let mut texts = options.selector.clone();
    if let Some(path) = &options.selectors {
        let text = files::read_text(path)?;
        let (blank, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.trim().is_empty());
        if !blank.is_empty() {
            note!(
                "restante: {}: {} blank lines were left out; --selector \"\" is the empty selector",
                path.display(),
                blank.len()
            );
        }
        texts.extend(lines.into_iter().map(String::from));
    }
    let hashed: Result<Vec<Vec<u8>>, _> =
        texts.iter().enumerate().map(|(place, text)| schema.selector_of(place, text)).collect();
    let hashed = hashed?;
    refuse_repeated(&hashed)?;
    Ok(texts.into_iter().zip(hashed).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn selectors_come_from_both_places_and_once_only() {
        let schema = "[selector]\nfield = 'k'\nfold = 'ascii-case'\n[[return]]\nfield = 't'\ntype = 'text'\n";
        let schema = Schema::parse(schema).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\u{feff}B\r\n\n\u{e9} c\n \n").unwrap();
        let mut options = SelectorOptions { selector: vec!["A".into()], selectors: Some(file.path().into()) };
        let expected = [("A", "a"), ("B", "b"), ("\u{e9} c", "\u{e9} c")];
        let expected = expected.map(|(text, hashed)| (text.to_owned(), hashed.as_bytes().to_vec()));
        assert_eq!(load(&options, &schema).unwrap(), expected);
        options.selector.push("b".into());
        // The second one is on the command line, the third in the file; what they are is not told.
        let error = load(&options, &schema).unwrap_err().to_string();
        assert!(error.contains("selectors 1 and 2"), "{error}");
    }
}
