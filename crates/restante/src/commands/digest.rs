//! Compact digests: `restante detect --digest compact`, and `restante digest`. The detector sees a board and detection
//! keys, and no secret.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    time::Instant,
};

use restante_board::Board;
use restante_client::{digest_payload, digest_request};
use restante_omr::compact::{
    CompactContext, CompactDetectionKey, CompactDigest, Detector, DigestRequest, Payload, PertinencyVector,
    PreparedKey,
};

use super::board::{bound_clues, checked_range, clue_parameters};
use crate::{
    arguments::{DetectArguments, DigestArguments, DigestSizes},
    error::CliError,
    files::{self, Output},
    report::Report,
    session::Session,
};

/// Both phases.
pub fn detect(session: &Session, arguments: &DetectArguments) -> Result<(), CliError> {
    same_number(&arguments.key, &arguments.pertinency, "--pertinency", true)?;
    let board = Board::open(&arguments.board)?;
    let context = session.compact_context(clue_parameters(&board)?, false)?;
    let range = checked_range(&board, arguments.range.range.clone())?;
    let request = request(range.clone(), arguments.sizes);
    request.check()?;
    let keys = arguments.key.iter().map(|path| load(&context, path)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<_> = session.runner.install(|| keys.into_iter().map(PreparedKey::new).collect());
    let start = Instant::now();
    let clues = bound_clues(&board, range.clone())?;
    let detector = Detector::new(&context)?;
    let keys: Vec<&PreparedKey> = keys.iter().collect();
    let seed = session.seed()?;
    let vectors =
        session.runner.install(|| detector.pertinency(&keys, range.start, &clues, &seed, |_| ()))?;
    let phase1_seconds = start.elapsed().as_secs_f64();
    for (path, vector) in arguments.pertinency.iter().zip(&vectors) {
        session.outputs.write(path, &vector.to_file(&context))?;
    }
    let keys: Vec<_> = keys.iter().map(|key| key.key()).collect();
    let digests =
        make_digests(session, &detector, &keys, &vectors.iter().collect::<Vec<_>>(), &request, &board)?;
    write(session, &context, &arguments.out, &digests)?;
    report(&context, &request, keys.len())
        .with("phase1_seconds", phase1_seconds)
        .with("seconds", start.elapsed().as_secs_f64())
        .print(session.json)
}

/// Phase 2 alone.
pub fn run(session: &Session, arguments: &DigestArguments) -> Result<(), CliError> {
    same_number(&arguments.key, &arguments.out, "--out", false)?;
    same_number(&arguments.key, &arguments.pertinency, "--pertinency", false)?;
    let board = Board::open(&arguments.board)?;
    let context = session.compact_context(clue_parameters(&board)?, false)?;
    let request = request(checked_range(&board, arguments.range.range.clone())?, arguments.sizes);
    request.check()?;
    let keys = arguments.key.iter().map(|path| load(&context, path)).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let vectors = arguments
        .pertinency
        .iter()
        .map(|path| {
            PertinencyVector::from_file(&context, &files::read(path)?)
                .map_err(|error| CliError::input(path)(&error))
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    let detector = Detector::new(&context)?;
    let keys: Vec<&CompactDetectionKey> = keys.iter().collect();
    let digests =
        make_digests(session, &detector, &keys, &vectors.iter().collect::<Vec<_>>(), &request, &board)?;
    write(session, &context, &arguments.out, &digests)?;
    report(&context, &request, keys.len()).with("seconds", start.elapsed().as_secs_f64()).print(session.json)
}

fn same_number<T>(keys: &[PathBuf], others: &[T], name: &str, optional: bool) -> Result<(), CliError> {
    if keys.len() == others.len() || optional && others.is_empty() {
        return Ok(());
    }
    let (keys, others) = (keys.len(), others.len());
    Err(CliError::Usage(format!("{keys} --key, but {others} {name}: expected one for each key")))
}

fn request(range: Range<u64>, sizes: DigestSizes) -> DigestRequest {
    digest_request(range, sizes.capacity.into(), sizes.payload_bytes.into())
}

fn load(context: &CompactContext, path: &Path) -> Result<CompactDetectionKey, CliError> {
    CompactDetectionKey::from_file(context, &files::read(path)?)
        .map_err(|error| CliError::input(path)(&error))
}

/// The digests of a board's messages.
pub fn make_digests(
    session: &Session,
    detector: &Detector,
    keys: &[&CompactDetectionKey],
    vectors: &[&PertinencyVector],
    request: &DigestRequest,
    board: &Board,
) -> Result<Vec<CompactDigest>, CliError> {
    let records = |range: Range<u64>| -> Result<Vec<Payload<'static>>, CliError> {
        range
            .map(|index| {
                let message = board.message(index)?;
                Ok(digest_payload(request, message.clue, message.payload))
            })
            .collect()
    };
    // What was made in one pass shares the products' plaintexts.
    let mut digests: Vec<Option<CompactDigest>> = vectors.iter().map(|_| None).collect();
    while let Some(first) = digests.iter().position(Option::is_none) {
        let pass = |index: &usize| vectors[*index].shares_pass(vectors[first]);
        let group: Vec<usize> = (first..vectors.len()).filter(pass).collect();
        let keys: Vec<&CompactDetectionKey> = group.iter().map(|&index| keys[index]).collect();
        let vectors: Vec<&PertinencyVector> = group.iter().map(|&index| vectors[index]).collect();
        let made = session.runner.install(|| detector.digests(&keys, &vectors, request, records, |_| ()))?;
        group.into_iter().zip(made).for_each(|(index, digest)| digests[index] = Some(digest));
    }
    Ok(digests.into_iter().flatten().collect())
}

fn write(
    session: &Session,
    context: &CompactContext,
    paths: &[Output],
    digests: &[CompactDigest],
) -> Result<(), CliError> {
    paths.iter().zip(digests).try_for_each(|(path, digest)| {
        session.outputs.write(path, &digest.to_file(context))?;
        Ok(())
    })
}

fn report(context: &CompactContext, request: &DigestRequest, recipients: usize) -> Report {
    Report::new()
        .with("first", request.range.start)
        .with("messages", request.range.end - request.range.start)
        .with("recipients", recipients)
        .with("capacity", request.capacity)
        .with("digest_bytes", CompactDigest::file_bytes(context, request))
}
