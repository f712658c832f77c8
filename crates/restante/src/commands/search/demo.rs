//! `restante search demo`: the three steps through files, on the characters of Unicode, checked against a search in the clear.

use std::{collections::BTreeSet, time::Instant};

use restante_bench::peak_rss_bytes;
use restante_pir::search::{
    Preset, QueryState, Scheme, SearchAnswer, SelectorHash, Shape, StateNote, WindowLimits,
};
use restante_tables::{Format, Input, Schema, WindowRule, json_record, open as open_table};

use super::{answer, open, query, selectors};
use crate::{
    arguments::{SearchDemoArguments, SelectorOptions},
    corpus,
    error::CliError,
    files::{self, Existing},
    report::{Report, print_line},
    session::Session,
};

/// The usual selectors: one character, one name that 65 have, and one that none has.
const SELECTORS: [&str; 4] =
    ["LATIN SMALL LETTER E WITH ACUTE", "SNOWMAN", "<control>", "LATIN SMALL LETTER E WITH MUSTACHE"];

pub fn run(session: &Session, arguments: &SearchDemoArguments) -> Result<(), CliError> {
    let start = Instant::now();
    let scratch =
        tempfile::tempdir().map_err(CliError::system("make a directory in", &std::env::temp_dir()))?;
    let place = |name: &str| scratch.path().join(name);
    files::write(&place("characters.csv"), corpus::CHARACTERS.as_bytes(), Existing::Refuse)?;
    let schema = Schema::parse(corpus::CHARACTERS_SCHEMA).map_err(CliError::Refused)?;
    let scheme = Scheme::new(Preset::standard(), session.backend)?;

    // The querier: selectors to a query and a state.
    let querier = Instant::now();
    let texts: Vec<String> = if arguments.selector.is_empty() {
        SELECTORS.map(String::from).to_vec()
    } else {
        arguments.selector.clone()
    };
    let wanted = selectors::load(&SelectorOptions { selector: texts, selectors: None }, &schema)?;
    let hash = SelectorHash::random(schema.selector_kind(), arguments.hash_bits, &mut session.rng()?)?;
    let shape = Shape::new(arguments.hash_bits, query::sharing(wanted.len()))?;
    let made = query::make(session, &scheme, &schema, hash, shape, wanted)?;
    files::write(&place("query"), &made.query, Existing::Refuse)?;
    files::write(&place("state"), &made.state, Existing::Refuse)?;
    let query_seconds = querier.elapsed().as_secs_f64();

    // The responder: the query and the table to an answer.
    let responder = Instant::now();
    let passes = answer::prepare_all(session, &scheme, &schema, &[place("query")], true)?;
    let setup_seconds = responder.elapsed().as_secs_f64();
    let rows = open_table(&schema, Input::File(&place("characters.csv")), Format::Csv)?;
    let (limits, rule) = (WindowLimits::default(), WindowRule::default());
    answer::answer(session, &schema, &passes, rows, limits, rule, |_, answers, _| {
        answers.iter().try_for_each(|(_, answer)| {
            files::write(&place("answer"), &answer.to_file(&scheme), Existing::Refuse)
        })
    })?;
    let answer_seconds = responder.elapsed().as_secs_f64();

    // The querier again.
    let opening = Instant::now();
    let state = QueryState::from_file(&scheme, &files::read(&place("state"))?)?;
    let note = StateNote::from_bytes(state.note())?;
    let file = files::read(&place("answer"))?;
    let (about, hits) =
        open::open(&scheme, &state, &note, &SearchAnswer::from_file(&scheme, &file)?, &place("answer"))?;
    let open_seconds = opening.elapsed().as_secs_f64();

    let found = show(session, &schema, &hits)?;
    Report::new()
        .with("records", about.records)
        .with("selectors", hits.len())
        .with("hash_bits", arguments.hash_bits)
        .with("found", found)
        .with("query_bytes", made.query.len())
        .with("answer_bytes", file.len())
        .with("query_seconds", query_seconds)
        .with("setup_seconds", setup_seconds)
        .with("answer_seconds", answer_seconds)
        .with("open_seconds", open_seconds)
        .with("threads", session.runner.threads())
        .with("backend", session.backend.to_string())
        .with("peak_rss_bytes", peak_rss_bytes())
        .with("seconds", start.elapsed().as_secs_f64())
        .print(session.json)
}

/// Prints and counts the characters that came back.
fn show(session: &Session, schema: &Schema, hits: &[open::Hits]) -> Result<usize, CliError> {
    let mut found = 0;
    for hits in hits {
        let codes = checked_codes(schema, hits)?;
        found += codes.len();
        if !session.json {
            print_line(&format!("{}: {}", hits.selector, summary(&codes)))?;
        }
    }
    if !session.json {
        print_line("")?;
    }
    Ok(found)
}

/// The codes of the characters that came back for a name: each once, and those that a search in the clear finds.
fn checked_codes(schema: &Schema, hits: &open::Hits) -> Result<BTreeSet<String>, CliError> {
    let layout = schema.layout();
    let records =
        hits.found.records.iter().map(|record| layout.decode(record)).collect::<Result<Vec<_>, _>>()?;
    let codes: BTreeSet<String> = records
        .iter()
        .filter_map(|values| json_record(layout, values).get("code")?.as_str().map(String::from))
        .collect();
    if codes != in_the_clear(&hits.selector) || codes.len() != records.len() || !hits.found.is_complete() {
        return Err(CliError::Job(format!("{:?}: found {codes:?}, expected others", hits.selector)));
    }
    Ok(codes)
}

/// The codes of a name's characters, from the text of the table: the slow search that the demonstration is checked against.
fn in_the_clear(name: &str) -> BTreeSet<String> {
    let lines = corpus::CHARACTERS.lines().skip(1).map(|line| line.splitn(3, ','));
    lines
        .filter_map(|mut cells| Some((cells.next()?, cells.next()?.trim_matches('"'))))
        .filter(|(_, found)| found.eq_ignore_ascii_case(name))
        .map(|(code, _)| code.trim_matches('"').to_owned())
        .collect()
}

fn summary(codes: &BTreeSet<String>) -> String {
    let character = |code: &String| {
        let character = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
        let shown = character.filter(|character| !character.is_control());
        format!("U+{code}{}", shown.map(|character| format!(" {character}")).unwrap_or_default())
    };
    let shown: Vec<String> = codes.iter().take(4).map(character).collect();
    match codes.len() {
        0 => "no character".into(),
        count if count > 4 => format!("{} and {} more", shown.join(", "), count - 4),
        _ => shown.join(", "),
    }
}
