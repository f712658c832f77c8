//! `restante search query`: the querier's first step.

use std::time::Instant;

use restante_pir::search::{
    MAX_SHARING, Preset, Query, QueryNote, Scheme, SelectorHash, Shape, StateNote, WrittenSelector,
};
use restante_tables::Schema;

use super::{notes, selectors};
use crate::{arguments::SearchQueryArguments, error::CliError, files, report::Report, session::Session};

/// A query and its state, as files.
pub struct Made {
    pub query: Vec<u8>,
    pub state: zeroize::Zeroizing<Vec<u8>>,
}

pub fn run(session: &Session, arguments: &SearchQueryArguments) -> Result<(), CliError> {
    let schema = Schema::open(&arguments.schema)?;
    let selectors = selectors::load(&arguments.selectors, &schema)?;
    let scheme = Scheme::new(Preset::standard(), session.backend)?;
    let start = Instant::now();
    let hash = match &arguments.hash_of {
        Some(path) => {
            let note = load(&scheme, path)?.1;
            notes::check(&note, &schema, path)?;
            note.hash
        }
        None => SelectorHash::random(schema.selector_kind(), arguments.hash_bits, &mut session.rng()?)?,
    };
    let shape =
        Shape::new(hash.bits(), arguments.sharing.map_or_else(|| sharing(selectors.len()), usize::from))?;
    let (found, number) = (selectors.len(), shape.groups(selectors.len()));
    let made = make(session, &scheme, &schema, hash, shape, selectors)?;
    // The state first: a query whose state is lost would be answered for nothing.
    let is_new = session.outputs.write(&arguments.state, &made.state)?;
    if let Err(error) = session.outputs.write(&arguments.out, &made.query) {
        if is_new {
            drop(std::fs::remove_file(&*arguments.state));
        }
        return Err(error);
    }
    Report::new()
        .with("query", arguments.out.display().to_string())
        .with("state", arguments.state.display().to_string())
        .with("selectors", found)
        .with("hash_bits", shape.hash_bits())
        .with("sharing", shape.sharing())
        .with("ciphertexts_per_column", number)
        .with("chunk_bytes", shape.chunk_bytes(scheme.preset()))
        .with("query_bytes", made.query.len())
        .with("seconds", start.elapsed().as_secs_f64())
        .print(session.json)
}

/// A query for some selectors.
pub fn make(
    session: &Session,
    scheme: &Scheme,
    schema: &Schema,
    hash: SelectorHash,
    shape: Shape,
    selectors: Vec<WrittenSelector>,
) -> Result<Made, CliError> {
    let buckets: Vec<u32> = selectors.iter().map(|(_, hashed)| hash.locate(hashed).bucket).collect();
    let note = notes::query_note(schema, hash);
    let secret = StateNote { query: note.clone(), selectors };
    let (state, query) =
        Query::new(scheme, shape, &buckets, &note.to_bytes(), &secret.to_bytes(), &mut session.rng()?)?;
    Ok(Made { query: query.to_file(scheme), state: state.to_file(scheme) })
}

/// The number of selectors that share a ciphertext unless it is given: as few ciphertexts as there can be.
pub fn sharing(selectors: usize) -> usize {
    selectors.next_power_of_two().min(MAX_SHARING)
}

/// Reads a query and its note.
pub fn load(scheme: &Scheme, path: &std::path::Path) -> Result<(Query, QueryNote), CliError> {
    let bytes = files::read(path)?;
    let query = Query::from_file(scheme, &bytes).map_err(|error| CliError::input(path)(&error))?;
    let note = QueryNote::from_bytes(query.note()).map_err(|error| CliError::input(path)(&error))?;
    if note.hash.bits() != query.shape().hash_bits() {
        return Err(CliError::input(path)(
            &"its hash and its ciphertexts are for different numbers of buckets",
        ));
    }
    Ok((query, note))
}
