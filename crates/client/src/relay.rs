//! Talking to relays without a socket, a clock or a thread: docs/protocol.md from the client's side.
//!
//! Every task is a [`Machine`] that says what to send and when, and takes what came back. [`Driver`] runs one, with what a
//! [`Host`] has of sockets and clocks:
//!
//! ```text
//! driver.run(&mut machine, &mut host, &mut rng, |machine| save what the machine says to keep)
//! ```
//!
//! * [`PostMachine`] posts the messages of an [`Outbox`], of which [`Outboxes`] has one for each relay; [`AuditMachine`] checks later that one is still on the board.
//! * [`RegisterMachine`] hands a detection key to a relay and orders digests.
//! * [`RetireMachine`] takes detection keys back that were replaced by others ([`SyncState::rotate`]).
//! * [`SyncMachine`] is one round of finding and reading mail. Its requests follow from the board and the configuration, never
//!   from what it finds, and what it has got is read when the last request is answered ([`SyncMachine::finish`]).
//! * [`MeetMachine`] asks for a relay's key and board, and for the index at which that ends.
//! * [`LookupMachine`] finds an address by name in a relay's directory; its requests do not depend on the name.
//!
//! A machine may be dropped after any step. What it has achieved is in the [`Outbox`], the [`Registration`] or the [`SyncState`],
//! and the next machine goes on from there.

mod audit;
mod checks;
mod detection;
mod drive;
mod error;
mod exchange;
mod heads;
mod lookup;
mod meet;
mod outboxes;
mod post;
mod register;
mod retire;
mod sync;

pub use audit::AuditMachine;
pub use detection::{AnyDetection, CompactDetection, Detection, KeyFile};
pub use drive::{Driver, Host, Machine, Schedule, Stopped, wait_until};
pub use error::RelayError;
pub use exchange::{Cause, Method, Reply, Request, Response, Retries, Side, Step};
pub use heads::KnownRelay;
pub use lookup::{Lookup, LookupMachine};
pub use meet::MeetMachine;
pub use outboxes::{Destination, Outboxes};
pub use post::{Outbox, PostMachine, Receipt, WaitingMessage};
pub use register::{RegisterMachine, Registration};
pub use retire::RetireMachine;
pub use sync::{
    Again, Bounds, Compact, Delivery, Finished, Outcome, Private, Received, SyncConfig, SyncMachine,
    SyncState, Tail, Work,
};
