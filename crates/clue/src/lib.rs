#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod clue;
mod error;
mod key;
mod maker;
mod negacyclic;
mod parameters;
mod tags;
#[cfg(test)]
mod vectors;

pub use clue::{BoundClue, Clue, bound_part, unpack_coefficients};
pub use error::ClueError;
pub use key::{ClueKey, ClueSecretKey};
pub use maker::{ClueDraft, ClueMaker};
pub use parameters::{BINDING, COORDINATES, ClueParameters, PERIOD_BYTES};
