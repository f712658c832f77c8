#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod activity;
mod api;
mod backup;
mod batches;
mod board;
mod clock;
mod config;
mod connections;
mod credentials;
mod detection;
mod directory;
mod epochs;
mod error;
mod evidence;
mod fetcher;
mod files;
mod following;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod jobs;
mod keys;
mod limits;
mod locks;
mod log;
mod maintenance;
mod metrics;
mod mirror;
mod open;
mod panics;
mod queue;
mod randomness;
mod refusal;
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
