//! The relay: a server that keeps a board and makes digests for those who registered a detection key.
//!
//! docs/protocol.md is what it speaks, docs/operating.md how it is run. The parts:
//!
//! * [`Config`]: everything that an operator decides.
//! * [`Relay`]: the state behind all routes, and the threads that work on it: one that writes to the board, one that detects
//!   for jobs, one for standing orders, one for fetch queries, one that clears up.
//! * [`serve`]: listens, until it is told to stop.
//!
//! # How a message is accepted
//!
//! The routes hand batches to the one writer thread. It takes whatever waits, stages the new messages, writes their ids to
//! the registry, and then commits the board: one wait for the disk for all of them. Only then are they answered. The
//! registry comes first, so that no message is on the board without its id; an id whose message did not make it is
//! recognised by the message's hash, which is kept with it.
//!
//! # What runs where
//!
//! Handlers are asynchronous and only move bytes. What touches the disk at length or computes runs on threads of its own behind
//! bounded queues, detection at the lowest priority that the system has: posting does not wait for it.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod activity;
mod api;
mod backup;
mod board;
mod clock;
mod config;
mod connections;
mod credentials;
mod detection;
mod directory;
mod epochs;
mod error;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod jobs;
mod keys;
mod limits;
mod log;
mod maintenance;
mod metrics;
mod mirror;
mod panics;
mod problem;
mod queue;
mod registrations;
mod registry;
mod relay;
mod searcher;
mod standing;
mod tls;
mod vectors;
mod writer;

pub mod plan;

pub use api::openapi_json;
#[doc(hidden)]
pub use clock::{TestClock, TimeSource};
pub use config::{
    CompactConfig, Config, DirectoryConfig, FetchConfig, Limits, MirrorConfig, Registration,
    RegistrationConfig, RetentionConfig, TlsConfig,
};
pub use connections::{Running, serve};
pub use credentials::{CredentialTerms, issue_credentials, revoke_credentials};
pub use error::ServerError;
pub use log::start as start_logging;
pub use registrations::RegistrationStatus;
pub use relay::Relay;
