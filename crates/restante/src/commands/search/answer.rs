//! `restante search answer`: the responder's step.

use std::{path::PathBuf, time::Instant};

use restante_bench::peak_rss_bytes;
use restante_pir::search::{
    AnswerNote, ChunkSource, Cut, PreparedQuery, Preset, QueryNote, Scheme, SearchAnswer, Shape, Window,
    WindowLimits, prepare, respond,
};
use restante_tables::{Filled, Rows, Schema, WindowRule, Windows};

use super::{notes, query, table};
use crate::{
    arguments::SearchAnswerArguments,
    error::CliError,
    report::{Report, note},
    session::Session,
};

/// Queries that share one pass: they have one shape, and hash alike.
pub struct Pass {
    cut: Cut,
    shape: Shape,
    /// Places among all queries.
    places: Vec<usize>,
    prepared: Vec<PreparedQuery>,
}

pub fn run(session: &Session, arguments: &SearchAnswerArguments) -> Result<(), CliError> {
    let (queries, outs) = (arguments.query.len(), arguments.out.len());
    if queries != outs {
        return Err(CliError::Usage(format!(
            "{queries} --query, but {outs} --out: expected one for each query"
        )));
    }
    let schema = Schema::open(&arguments.table.schema)?;
    let scheme = Scheme::new(Preset::standard(), session.backend)?;
    let start = Instant::now();
    let passes = prepare_all(session, &scheme, &schema, &arguments.query, !arguments.less_memory)?;
    let setup_seconds = start.elapsed().as_secs_f64();
    let one_window = !arguments.table.follow && arguments.windows.is_whole();
    let mut totals = Totals::default();
    table::with_rows(&arguments.table, &schema, |table| {
        let (limits, rule) = (arguments.windows.limits(), arguments.windows.rule());
        answer(session, &schema, &passes, table, limits, rule, |filled, answers, took| {
            if one_window && filled.number > 0 {
                return Err(CliError::Usage(
                    "the table does not fit into one window: give --window-records, and one answer comes for each".into(),
                ));
            }
            for (place, answer) in answers {
                let path = if one_window {
                    arguments.out[place].clone()
                } else {
                    arguments.out[place].with_extension(&filled.number.to_string())
                };
                session.outputs.write(&path, &answer.to_file(&scheme))?;
            }
            if let Some(error) = &filled.first_malformed {
                note!(
                    "restante: {} malformed rows ({} bytes) were left out, so that no search in them is complete; the first: {error}",
                    filled.malformed,
                    filled.malformed_bytes
                );
            }
            totals.add(filled, took);
            if !one_window && !session.json {
                note!("window {}: {} records, {took:.2} s", filled.number, filled.records);
            }
            Ok(())
        })
    })?;
    let Totals { note: total, windows, bytes, seconds } = totals;
    Report::new()
        .with("queries", queries)
        .with("passes", passes.len())
        .with("windows", windows)
        .with("records", total.records)
        .with("complete", total.is_complete() && total.dropped == 0)
        .with("skipped_rows", total.malformed)
        .with("skipped_bytes", total.malformed_bytes)
        .with("rows_without_selector", total.unselected)
        .with("dropped_records", total.dropped)
        .with("setup_seconds", setup_seconds)
        .with("search_seconds", seconds)
        .with("chunk_mib_per_second", bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9))
        .with("seconds", start.elapsed().as_secs_f64())
        .with("peak_rss_bytes", peak_rss_bytes())
        .print(session.json)
}

/// What was answered, over all windows.
#[derive(Default)]
struct Totals {
    note: AnswerNote,
    windows: u64,
    /// Of the chunks that a pass went over.
    bytes: u64,
    seconds: f64,
}

impl Totals {
    fn add(&mut self, filled: &Filled, seconds: f64) {
        self.windows += 1;
        self.note.records += filled.records;
        self.note.unselected += filled.unselected;
        self.note.malformed += filled.malformed;
        self.note.malformed_bytes += filled.malformed_bytes;
        self.note.dropped += filled.windows.iter().map(Window::dropped).max().unwrap_or(0);
        let chunk_bytes = |window: &Window| window.chunks() * window.chunk_bytes() as u64;
        self.bytes += filled.windows.first().map_or(0, chunk_bytes);
        self.seconds += seconds;
    }
}

/// Reads and expands queries, and sorts them into passes.
pub fn prepare_all(
    session: &Session,
    scheme: &Scheme,
    schema: &Schema,
    paths: &[PathBuf],
    keep_outer: bool,
) -> Result<Vec<Pass>, CliError> {
    let mut passes: Vec<Pass> = Vec::new();
    let bar = session.progress("expanding queries", paths.len() as u64);
    for (place, path) in paths.iter().enumerate() {
        let (query, note) = query::load(scheme, path)?;
        notes::check(&note, schema, path)?;
        let QueryNote { hash, .. } = note;
        if hash.kind() != schema.selector_kind() {
            return Err(CliError::input(path)(&"its selectors are of another kind than the schema's"));
        }
        let prepared = prepare(scheme, &query, keep_outer, &session.runner)?;
        bar.inc(1);
        let cut = Cut { hash, chunk_bytes: query.shape().chunk_bytes(scheme.preset()) };
        match passes.iter_mut().find(|pass| pass.shape == query.shape() && pass.cut == cut) {
            Some(pass) => {
                pass.places.push(place);
                pass.prepared.push(prepared);
            }
            None => {
                passes.push(Pass { cut, shape: query.shape(), places: vec![place], prepared: vec![prepared] })
            }
        }
    }
    bar.finish_and_clear();
    Ok(passes)
}

/// Answers every window of a table.
pub fn answer(
    session: &Session,
    schema: &Schema,
    passes: &[Pass],
    table: Box<dyn Rows + '_>,
    limits: WindowLimits,
    rule: WindowRule,
    mut done: impl FnMut(&Filled, Vec<(usize, SearchAnswer)>, f64) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let cuts: Vec<Cut> = passes.iter().map(|pass| pass.cut.clone()).collect();
    let mut windows = Windows::new(table, schema, &cuts, limits, rule)?;
    while let Some(filled) = windows.next_window()? {
        let start = Instant::now();
        let mut answers = Vec::new();
        for (pass, window) in passes.iter().zip(&filled.windows) {
            let note = AnswerNote {
                records: filled.records,
                unselected: filled.unselected,
                malformed: filled.malformed,
                malformed_bytes: filled.malformed_bytes,
                dropped: window.dropped(),
            };
            let bar = session.progress("searching", window.chunks());
            let queries: Vec<&PreparedQuery> = pass.prepared.iter().collect();
            let made =
                respond(&queries, window, filled.number, &note.to_bytes(), &session.runner, |chunks| {
                    bar.inc(chunks)
                })?;
            bar.finish_and_clear();
            answers.extend(pass.places.iter().copied().zip(made));
        }
        done(&filled, answers, start.elapsed().as_secs_f64())?;
    }
    Ok(())
}
