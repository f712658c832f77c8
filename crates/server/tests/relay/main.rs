//! The relay from outside: what docs/protocol.md and docs/operating.md promise.
//!
//! One program, so that the server is linked once. Tests that measure this process' memory are programs of their own.

#[path = "../support/relay.rs"]
mod support;

mod client;
mod compact;
mod directory;
mod full_disk;
mod kill;
mod mirror;
mod protocol;
