//! Talking to relays without a socket, a clock or a thread: docs/protocol.md from the client's side.
//!
//! Every task is a machine that the caller drives:
//!
//! ```text
//! loop {
//!     match machine.step() {
//!         Step::Ask(request) => { send it; machine.respond(reply, now, rng)?; save what the machine says to keep }
//!         Step::Wait(time)   => sleep
//!         Step::Done         => break
//!     }
//! }
//! ```
//!
//! * [`PostMachine`] posts the messages of an [`Outbox`], of which [`Outboxes`] has one for each relay; [`AuditMachine`] checks later that one is still on the board.
//! * [`RegisterMachine`] hands a detection key to a relay and orders digests.
//! * [`RetireMachine`] takes detection keys back that were replaced by others ([`SyncState::rotate`]).
//! * [`SyncMachine`] is one round of finding and reading mail. Its requests follow from the board and the configuration, never
//!   from what it finds.
//! * [`LookupMachine`] finds an address by name in a relay's directory; its requests do not depend on the name.
//!
//! A machine may be dropped after any step. What it has achieved is in the [`Outbox`], the [`Registration`] or the [`SyncState`],
//! and the next machine goes on from there.

mod audit;
mod error;
mod exchange;
mod heads;
mod lookup;
mod outboxes;
mod post;
mod register;
mod retire;
mod sync;

pub use audit::AuditMachine;
pub use error::RelayError;
pub use exchange::{Cause, Method, Reply, Request, Response, Retries, Side, Step};
pub use heads::KnownRelay;
pub(crate) use heads::{read_key, write_key};
pub use lookup::{Lookup, LookupMachine};
pub use outboxes::{Destination, Outboxes};
pub use post::{Outbox, PostMachine, Receipt};
pub use register::{RegisterMachine, Registration};
pub use retire::RetireMachine;
pub use sync::{
    Again, Compact, Delivery, Outcome, Private, Received, SyncConfig, SyncMachine, SyncState, Tail,
};
