//! `restante params`: every parameter set, with what it costs.

mod lattices;

use restante_bfv::max_modulus_bits;
use restante_clue::ClueParameters;
use restante_omr::{
    compact::{self, CompactDetectionKey, CompactDigest, CompactParameters, DigestRequest, PertinencyVector},
    stream::{BLOCK, DetectionKey, PreparedKey, StreamDigest},
};
use serde_json::Value;

use crate::{
    arguments::ParamsArguments,
    error::CliError,
    report::{Report, print_line},
    session::Session,
};

pub fn run(session: &Session, arguments: &ParamsArguments) -> Result<(), CliError> {
    if arguments.lattices {
        return lattices::run(session);
    }
    for clue in ClueParameters::ALL {
        stream(session, clue)?.print(session.json)?;
        if !session.json {
            print_line("")?;
        }
    }
    compact(session)?.print(session.json)
}

/// The set for stream digests of one kind of clues.
fn stream(session: &Session, clue: ClueParameters) -> Result<Report, CliError> {
    let context = session.stream_context(clue)?;
    let parameters = context.parameters();
    let bfv = &parameters.bfv;
    let block = StreamDigest::file_bytes(&context, BLOCK as u64) - StreamDigest::file_bytes(&context, 0);
    Ok(Report::new()
        .with("preset", bfv.name.clone())
        .with("parameter_id", context.id().to_string())
        .with("clue_degree", clue.degree())
        .with("clue_modulus", clue.modulus())
        .with("clue_dropped_bits", clue.dropped_bits())
        .with("clue_range", clue.range())
        .with("clue_security_bits", clue.security_bits())
        .with("clue_bytes", clue.clue_bytes())
        .with("clue_key_bytes", clue.clue_key_bytes())
        .with("false_positive_rate", clue.false_positive_rate())
        .with("ring_degree", bfv.degree)
        .with("plaintext_modulus", bfv.plaintext_modulus)
        .with("ciphertext_moduli", Value::from(bfv.ciphertext_moduli.clone()))
        .with("special_moduli", Value::from(bfv.special_moduli.clone()))
        .with("key_modulus_bits", (bfv.key_modulus_bits() * 10.0).round() / 10.0)
        .with("key_modulus_bits_at_128_bit_security", max_modulus_bits(bfv.degree))
        .with("ring_security_bits", parameters.security_bits)
        .with("noise_margin_bits", parameters.noise_margin_bits)
        .with("detection_key_bytes", DetectionKey::file_bytes(&context))
        .with("prepared_key_bytes", PreparedKey::memory_bytes(&context))
        .with("digest_bytes_per_block", block)
        .with("digest_bytes_per_message", block as f64 / BLOCK as f64))
}

/// The set for compact digests.
fn compact(session: &Session) -> Result<Report, CliError> {
    let parameters = CompactParameters::new(ClueParameters::STANDARD)?;
    let context = session.compact_context(parameters.clue, false)?;
    let bfv = &parameters.bfv;
    let request = |capacity, payload_bytes| DigestRequest { range: 0..65_536, capacity, payload_bytes };
    let digest = |capacity, bytes| CompactDigest::file_bytes(&context, &request(capacity, bytes));
    let mut report = Report::new()
        .with("preset", bfv.name.clone())
        .with("parameter_id", context.id().to_string())
        .with("clue_range", parameters.clue.range())
        .with("clue_security_bits", parameters.clue.security_bits())
        .with("clue_bytes", parameters.clue.clue_bytes())
        .with("ring_degree", bfv.degree)
        .with("digest_ring_degree", parameters.digest_degree)
        .with("plaintext_modulus", bfv.plaintext_modulus)
        .with("ciphertext_moduli", Value::from(bfv.ciphertext_moduli.clone()))
        .with("special_moduli", Value::from(bfv.special_moduli.clone()))
        .with("key_modulus_bits", (bfv.key_modulus_bits() * 10.0).round() / 10.0)
        .with("key_modulus_bits_at_128_bit_security", max_modulus_bits(bfv.degree))
        .with("ring_security_bits", parameters.security_bits)
        .with("levels", context.circuit().levels())
        .with("noise_margin_bits", parameters.noise_margin_bits)
        .with("detection_key_bytes", CompactDetectionKey::file_bytes(&context));
    for (part, bytes) in CompactDetectionKey::part_bytes(&context) {
        report = report.with(&format!("{part}_bytes"), bytes);
    }
    Ok(report
        .with("precompute_bytes", compact::PreparedKey::precompute_bytes(&context))
        .with("prepared_key_bytes", compact::PreparedKey::memory_bytes(&context))
        .with("pertinency_bytes_per_block", PertinencyVector::file_bytes(&context, 65_536))
        .with("digest_bytes_50_indices", digest(50, 0))
        .with("digest_bytes_50_payloads_of_612", digest(50, 612))
        .with("digest_bytes_128_payloads_of_1024", digest(128, 1024)))
}
