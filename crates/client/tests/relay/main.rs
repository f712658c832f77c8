//! The client against relays in memory: honest ones, failing ones, and lying ones.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod compact;
mod copies;
mod fake;
mod lookup;
mod lying;
mod meeting;
mod posting;
mod registering;
mod schedule;
mod syncing;
mod world;
