//! `restante params --lattices`: the instances of ring-LWE that the presets and the limits on moduli come down to.

use restante_bfv::{DEGREES, ERROR, Parameters, max_modulus_bits};
use restante_clue::ClueParameters;
use restante_omr::{compact::CompactParameters, stream::StreamParameters};
use restante_pir::search::{Preset, Scheme};
use restante_wire::ParameterId;
use serde_json::Value;

use crate::{
    error::CliError,
    report::{Report, print_line},
    session::Session,
};

/// Samples of a clue key and its clues together that an estimate counts on: more than the n + 2 of each.
const CLUE_SAMPLES: usize = 2048;

/// An instance of ring-LWE.
struct Lattice {
    name: String,
    degree: usize,
    /// The primes of the modulus; none for a limit.
    moduli: Vec<u64>,
    /// log2 of the modulus of a limit.
    limit_bits: Option<u32>,
    error_sigma: f64,
    /// As many as anybody wants unless there is a number.
    samples: Option<usize>,
    /// The security that the program claims.
    claimed_bits: u32,
}

impl Lattice {
    fn ring(parameters: &Parameters, claimed_bits: u32) -> Self {
        Self {
            name: parameters.name.clone(),
            degree: parameters.degree,
            moduli: [&parameters.ciphertext_moduli[..], &parameters.special_moduli].concat(),
            limit_bits: None,
            error_sigma: ERROR.sigma(),
            samples: None,
            claimed_bits,
        }
    }

    /// Names the instance, by all that an estimate depends on: a changed preset has another id, and needs another row.
    fn id(&self) -> ParameterId {
        let Self { degree, moduli, limit_bits, error_sigma, samples, .. } = self;
        let modulus = match limit_bits {
            Some(bits) => format!("2^{bits}"),
            None => format!("{moduli:?}"),
        };
        let samples = samples.map_or("any".into(), |samples| samples.to_string());
        ParameterId::of(&format!(
            "restante/lattice degree={degree} modulus={modulus} secret=ternary error={error_sigma} samples={samples}"
        ))
    }
}

/// The claim for every preset whose own figure is not higher, and for the limits.
const CLAIMED_BITS: u32 = 128;

fn all(session: &Session) -> Result<Vec<Lattice>, CliError> {
    let mut all = Vec::new();
    for clue in ClueParameters::ALL {
        all.push(Lattice {
            name: format!("clue-{}", clue.name()),
            degree: clue.degree(),
            moduli: vec![clue.modulus().into()],
            limit_bits: None,
            error_sigma: clue.error_sigma(),
            samples: Some(CLUE_SAMPLES),
            claimed_bits: clue.security_bits(),
        });
        let stream = StreamParameters::new(clue)?;
        all.push(Lattice::ring(&stream.bfv, stream.security_bits));
    }
    let compact = CompactParameters::new(ClueParameters::STANDARD)?;
    all.push(Lattice::ring(&compact.bfv, compact.security_bits));
    all.push(Lattice::ring(&compact.digest_ring(), compact.security_bits));
    let scheme = Scheme::new(Preset::standard(), session.backend)?;
    all.push(Lattice::ring(scheme.parameters(), CLAIMED_BITS));
    all.extend(DEGREES.into_iter().map(|degree| Lattice {
        name: format!("limit-{degree}"),
        degree,
        moduli: Vec::new(),
        limit_bits: Some(max_modulus_bits(degree)),
        error_sigma: ERROR.sigma(),
        samples: None,
        claimed_bits: CLAIMED_BITS,
    }));
    Ok(all)
}

pub fn run(session: &Session) -> Result<(), CliError> {
    for (position, lattice) in all(session)?.into_iter().enumerate() {
        if position > 0 && !session.json {
            print_line("")?;
        }
        Report::new()
            .with("lattice_id", lattice.id().to_string())
            .with("name", lattice.name)
            .with("degree", lattice.degree)
            .with("moduli", Value::from(lattice.moduli))
            .with("limit_bits", lattice.limit_bits)
            .with("secret", "ternary")
            .with("error_sigma", lattice.error_sigma)
            .with("samples", lattice.samples)
            .with("claimed_bits", lattice.claimed_bits)
            .print(session.json)?;
    }
    Ok(())
}
