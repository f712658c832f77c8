#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod board;
mod clues;
mod config;
mod copy;
mod error;
mod files;
mod head;
mod map;
mod retention;
mod rule;
mod segment;
mod tree;
mod verify;
mod writer;

pub use board::{Board, Message, Stats};
pub use clues::{ClueIter, Clues};
pub use config::{
    BoardConfig, CLUE_BYTES_LIMIT, DEFAULT_SEGMENT_CAPACITY, PAYLOAD_BYTES_LIMIT, SEGMENT_CAPACITY_LIMIT,
};
pub use error::BoardError;
pub use head::Head;
pub use restante_wire::binding::{Binding, BoardId, Period};
pub use restante_wire::merkle::{Frontier, Hash};
pub use writer::BoardWriter;
