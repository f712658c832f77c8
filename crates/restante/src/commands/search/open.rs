//! `restante search open`: the querier's last step.

use std::path::Path;

use restante_pir::search::{
    AnswerNote, Found, Opened, Preset, QueryState, Reading, Scheme, SearchAnswer, StateNote,
};
use restante_tables::{HitWriter, Schema, hit_summary};
use serde_json::{Map, Value};

use super::notes;
use crate::{
    arguments::SearchOpenArguments,
    error::CliError,
    files,
    report::{note, write_bytes},
    session::Session,
};

/// An answer's contents for one selector.
pub struct Hits {
    pub selector: String,
    pub found: Found,
}

pub fn run(session: &Session, arguments: &SearchOpenArguments) -> Result<(), CliError> {
    let schema = Schema::open(&arguments.schema)?;
    let scheme = Scheme::new(Preset::standard(), session.backend)?;
    let bytes = zeroize::Zeroizing::new(files::read(&arguments.state)?);
    let refused = |error: &dyn std::fmt::Display| CliError::input(&arguments.state)(error);
    let state = QueryState::from_file(&scheme, &bytes).map_err(|error| refused(&error))?;
    let note = StateNote::from_bytes(state.note()).map_err(|error| refused(&error))?;
    notes::check(&note.query, &schema, &arguments.state)?;
    if note.selectors.len() != state.selectors() {
        return Err(refused(&"its selectors and its ciphertexts differ in number"));
    }
    let mut writer = HitWriter::new(&schema, arguments.hits.output);
    let (mut out, mut summaries) = (Vec::new(), Vec::new());
    for path in &arguments.answer {
        let answer = SearchAnswer::from_file(&scheme, &files::read(path)?)
            .map_err(|error| CliError::input(path)(&error))?;
        let (about, hits) = open(&scheme, &state, &note, &answer, path)?;
        for Hits { selector, found } in &hits {
            writer.write(answer.window(), selector, found, &mut out)?;
            summaries.push(hit_summary(answer.window(), selector, found, &about));
        }
    }
    match &arguments.hits.out {
        Some(path) => drop(session.outputs.write(path, &out)?),
        None => write_bytes(&out)?,
    }
    summaries.iter().for_each(|summary| tell(session, summary));
    Ok(())
}

/// An answer's contents for each selector.
pub fn open(
    scheme: &Scheme,
    state: &QueryState,
    note: &StateNote,
    answer: &SearchAnswer,
    path: &Path,
) -> Result<(AnswerNote, Vec<Hits>), CliError> {
    let refused = |error: &dyn std::fmt::Display| CliError::input(path)(error);
    let about = AnswerNote::from_bytes(answer.note()).map_err(|error| refused(&error))?;
    let opened: Opened = state.open(scheme, answer).map_err(|error| refused(&error))?;
    let hashed: Vec<&[u8]> = note.selectors.iter().map(|(_, hashed)| hashed.as_slice()).collect();
    let mut reading = Reading::new(&note.query.hash, &hashed);
    for selector in 0..hashed.len() {
        for chunk in opened.chunks(selector) {
            reading.push(selector, chunk)?;
        }
    }
    let hits = note.selectors.iter().zip(reading.finish()).map(|((text, _), found)| {
        let found = found.map_err(|error| refused(&error))?;
        Ok(Hits { selector: text.clone(), found })
    });
    Ok((about, hits.collect::<Result<_, CliError>>()?))
}

/// How many hits there were, on standard error: standard output has the hits.
fn tell(session: &Session, summary: &Map<String, Value>) {
    let line = if session.json {
        Value::Object(summary.clone()).to_string()
    } else {
        let text = |name: &str| summary.get(name).map(Value::to_string).unwrap_or_default();
        let number = |name: &str| summary.get(name).and_then(Value::as_u64).unwrap_or_default();
        let mut missing = Vec::new();
        if number("cut_off") + number("dropped_from_bucket") > 0 {
            missing.push(format!(
                "{} were cut off, and {} of any selector dropped from the bucket",
                text("cut_off"),
                text("dropped_from_bucket")
            ));
        }
        if number("skipped_rows") > 0 {
            missing.push(format!(
                "{} rows ({} bytes) of the table were malformed and not searched",
                text("skipped_rows"),
                text("skipped_bytes")
            ));
        }
        let mut whole = if missing.is_empty() {
            "all there are".to_owned()
        } else {
            format!("NOT all: {}", missing.join("; "))
        };
        if number("rows_without_selector") > 0 {
            whole.push_str(&format!(" ({} rows have no selector)", text("rows_without_selector")));
        }
        format!("window {}, {}: {} hits, {whole}", text("window"), text("selector"), text("hits"))
    };
    note!("{line}");
}
