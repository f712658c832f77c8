//! The relay from outside: what docs/protocol.md and docs/operating.md promise.
//!
//! One program, so that the server is linked once. Tests that measure this process' memory are programs of their own.

#[path = "../support/relay.rs"]
mod support;

mod client;
mod clock;
mod compact;
mod credentials;
mod directory;
mod exchanges;
#[path = "../support/http2.rs"]
mod frames;
mod full_disk;
mod http2;
mod jobs;
mod kill;
mod logs;
mod mirror;
mod places;
mod protocol;
mod ranges;
mod registrations;
mod rule;
