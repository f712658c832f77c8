//! `restante detect`: the detector's work. It sees a board and detection keys, and no secret.

use std::{path::Path, time::Instant};

use restante_board::Board;
use restante_omr::stream::{DetectionKey, Detector, PreparedKey, StreamContext};

use super::{
    board::{bound_clues, checked_range, clue_parameters},
    digest,
};
use crate::{
    arguments::{DetectArguments, DigestKind},
    error::CliError,
    files,
    report::Report,
    session::Session,
};

pub fn run(session: &Session, arguments: &DetectArguments) -> Result<(), CliError> {
    if arguments.key.len() != arguments.out.len() {
        let (keys, outs) = (arguments.key.len(), arguments.out.len());
        return Err(CliError::Usage(format!("{keys} --key, but {outs} --out: expected one for each key")));
    }
    if arguments.digest == DigestKind::Compact {
        return digest::detect(session, arguments);
    }
    if !arguments.pertinency.is_empty() {
        return Err(CliError::Usage("--pertinency goes with --digest compact".into()));
    }
    let board = Board::open(&arguments.board)?;
    let context = session.stream_context(clue_parameters(&board)?)?;
    let range = checked_range(&board, arguments.range.range.clone())?;
    let keys = arguments
        .key
        .iter()
        .map(|path| Ok(PreparedKey::new(&load_detection_key(&context, path)?)))
        .collect::<Result<Vec<_>, CliError>>()?;
    let clues = bound_clues(&board, range.clone())?;
    let bar = session.progress("detecting", clues.len() as u64);
    let start = Instant::now();
    let seed = session.seed()?;
    let digests = Detector::new(&context)?.detect_with(
        &session.runner,
        &keys,
        range.start,
        &clues,
        &seed,
        |messages| bar.inc(messages as u64),
    )?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let mut bytes = 0;
    for (path, digest) in arguments.out.iter().zip(&digests) {
        let file = digest.to_file(&context);
        bytes = file.len();
        session.outputs.write(path, &file)?;
    }
    Report::new()
        .with("first", range.start)
        .with("messages", clues.len())
        .with("recipients", keys.len())
        .with("digest_bytes", bytes)
        .with("seconds", seconds)
        .print(session.json)
}

fn load_detection_key(context: &StreamContext, path: &Path) -> Result<DetectionKey, CliError> {
    DetectionKey::from_file(context, &files::read(path)?).map_err(|error| CliError::input(path)(&error))
}
