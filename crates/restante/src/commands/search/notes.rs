//! Notes of queries that are for the schema of a table.

use std::path::Path;

use restante_pir::search::{QueryNote, SelectorHash};
use restante_tables::Schema;

use crate::error::CliError;

/// The note of a query for a schema.
pub fn query_note(schema: &Schema, hash: SelectorHash) -> QueryNote {
    QueryNote::new(schema.id(), hash, &schema.agreement())
}

/// Refuses a file whose note is for another schema than the one given.
pub fn check(note: &QueryNote, schema: &Schema, path: &Path) -> Result<(), CliError> {
    let (found, expected) = (note.schema, schema.id());
    if found == expected {
        return Ok(());
    }
    let differences =
        if note.agreement.is_empty() { Vec::new() } else { schema.differences(&note.agreement) };
    let told = if differences.is_empty() { String::new() } else { format!(": {}", differences.join("; ")) };
    Err(CliError::input(path)(&format!("for another schema ({found}) than the one given ({expected}){told}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_pir::search::SelectorKind;

    use super::*;

    #[test]
    fn a_mismatch_of_schemas_says_what_differs() {
        let one = "[selector]\nfield = 'k'\n[[return]]\nfield = 't'\ntype = 'text'\n";
        let other = Schema::parse(&one.replace("'text'", "'bytes'")).unwrap();
        let hash = SelectorHash::new(SelectorKind::Bytes, 12, [3; 32]).unwrap();
        let mut note = query_note(&Schema::parse(one).unwrap(), hash);
        let error = check(&note, &other, Path::new("query")).unwrap_err().to_string();
        assert!(
            error.contains("field 1 that comes back is \"t\" (text) there and \"t\" (bytes) here"),
            "{error}"
        );
        note.agreement = String::new();
        let error = check(&note, &other, Path::new("query")).unwrap_err().to_string();
        assert!(error.contains("for another schema") && !error.contains("field"), "{error}");
    }
}
