//! The arguments of a relay's clients, and of a relay.

use std::{ops::Range, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use restante_wire::{
    binding::Period,
    relay::{Hex, RelayKey},
};

use crate::{
    files::{Kept, Output, Work},
    units,
};

#[derive(Debug, Args)]
pub struct SendArguments {
    /// The relay: https, or http on this machine [default: the contact's]
    #[arg(long, value_name = "URL")]
    pub relay: Option<String>,
    /// The relay's key, as its operator or the recipient says it [default: the contact's]
    #[arg(long, value_name = "KEY", value_parser = relay_key)]
    pub relay_key: Option<RelayKey>,
    /// Address or contact of the recipient; may be given several times, for a message to each.
    #[arg(long, value_name = "FILE", required = true)]
    pub to: Vec<PathBuf>,
    /// The message [default: standard input]
    #[arg(long)]
    pub text: Option<String>,
    /// Where messages wait that could not be sent. What was sent is recorded in the file of this name with .sent.
    #[arg(long, value_name = "FILE")]
    pub outbox: Option<Kept>,
    /// The most times that a request is sent which fails for a passing reason.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub attempts: u32,
    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Args)]
pub struct LookupArguments {
    /// The name, as the directory has it.
    pub name: String,
    /// The relay: https, or http on this machine.
    #[arg(long, value_name = "URL")]
    pub relay: String,
    /// Where the address goes; an existing file is not overwritten [default: the fingerprint is printed alone]
    #[arg(long, value_name = "FILE")]
    pub out: Option<Output>,
    #[command(flatten)]
    pub connection: ConnectionOptions,
}

#[derive(Debug, Args)]
pub struct ConnectionOptions {
    /// The most times that a request is sent which fails for a passing reason.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub attempts: u32,
    #[command(flatten)]
    pub reach: Reach,
}

/// How a relay is reached.
#[derive(Debug, Default, Args)]
pub struct Reach {
    /// A certificate authority to trust instead of the usual ones, as a PEM file.
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Reach relays through this proxy, socks5://HOST:PORT (Tor: socks5://127.0.0.1:9050) or http://HOST:PORT; none for no proxy [default:
    /// that of the environment: https_proxy, all_proxy, no_proxy]
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
}

#[derive(Debug, Args)]
pub struct SyncArguments {
    /// The relay, which gets the detection key: https, or http on this machine.
    #[arg(long, value_name = "URL")]
    pub relay: String,
    /// Its key, as its operator says it [default: the one that it shows the first time]
    #[arg(long, value_name = "KEY", value_parser = relay_key)]
    pub relay_key: Option<RelayKey>,
    /// A relay that mirrors the first and does not collude with it.
    #[arg(long, value_name = "URL")]
    pub second_relay: Option<String>,
    /// Its key.
    #[arg(long, value_name = "KEY", value_parser = relay_key, requires = "second_relay")]
    pub second_relay_key: Option<RelayKey>,
    /// A file with the credential that a relay wants who does not let everybody register.
    #[arg(long, value_name = "FILE")]
    pub credential: Option<PathBuf>,
    /// The recipient's secret key.
    #[arg(long, value_name = "FILE")]
    pub account: PathBuf,
    /// The state between two calls. Secret. It is made if it does not exist.
    #[arg(long, value_name = "FILE")]
    pub state: Kept,
    /// Write each message to a file in this directory, named after its index, and print their names. A file that is there is never
    /// replaced: its message waits for the next run, and so do those behind it.
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<Output>,
    /// How messages are got [default: private with two relays, whole with one]
    #[arg(long, value_enum, conflicts_with = "whole")]
    pub delivery: Option<DeliveryName>,
    /// Read every message, though there are two relays; their boards are compared. The same as --delivery whole.
    #[arg(long)]
    pub whole: bool,
    #[command(flatten)]
    pub compact: CompactOptions,
    /// Read these messages, whoever they are for, and do nothing else: the only way to what a digest or a record had no room for. It
    /// shows that something was there.
    #[arg(
        long,
        value_name = "FIRST..END",
        value_parser = super::parse_range,
        conflicts_with_all = ["delivery", "whole", "every"]
    )]
    pub read: Option<Range<u64>>,
    /// Fetches of a round, and as many again for each epoch's worth of new messages.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub fetches: u32,
    /// Read messages that are in no epoch yet, all of them, instead of waiting for one.
    #[arg(long, conflicts_with = "whole")]
    pub read_tail: bool,
    /// Index of the first message to look at, for a state that is made.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub first: u64,
    /// The day from which on there can be messages, such as 2026-12-31, for a state that is made: the account's first day. The relay
    /// sees it, about.
    #[arg(long, value_name = "DATE", value_parser = units::parse_date, conflicts_with = "first")]
    pub since: Option<Period>,
    /// Go on without messages before this index, which the relay no longer has.
    #[arg(long, value_name = "INDEX")]
    pub skip_to: Option<u64>,
    /// Forget the relays' heads: the only way on when a relay cannot prove any more that its board continues them.
    #[arg(long)]
    pub forget_heads: bool,
    /// One round, then stop. This is the default. A round that ends at its bounds is followed by another, ten seconds later, at most 64 times.
    #[arg(long, conflicts_with = "every")]
    pub once: bool,
    /// A round every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub every: Option<u64>,
    /// Milliseconds from the arrival of an answer to the next request.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub pace: u64,
    #[command(flatten)]
    pub connection: ConnectionOptions,
}

/// The ways to get messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeliveryName {
    /// Reads every message of the board.
    Whole,
    /// Stream digests from the first relay, records fetched privately from both.
    Private,
    /// Compact digests from the first relay, which hold the messages; a relay need not offer them.
    Compact,
}

/// The form of compact digests. Keep to one choice: a relay sees when it changes.
#[derive(Debug, Args)]
pub struct CompactOptions {
    /// Compact delivery: the most messages for the account that a digest holds.
    #[arg(long, value_name = "K", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=255))]
    pub capacity: u16,
    /// Compact delivery: hold so many bytes of each payload. What is longer is named, and not read.
    #[arg(long, value_name = "N", default_value_t = 1536, value_parser = clap::value_parser!(u16).range(1536..=4064))]
    pub payload_bytes: u16,
    /// Compact delivery: look at each so many messages of the board again, with room for 255; 0 for no second look.
    #[arg(long, value_name = "MESSAGES", default_value_t = 65_536)]
    pub second_look: u64,
    /// Compact delivery: the detection key, which `restante keys new --compact` makes [default: that beside the secret key]
    #[arg(long, value_name = "FILE")]
    pub compact_key: Option<PathBuf>,
    /// Compact delivery: seconds between two questions whether a digest is ready.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub poll: u64,
}

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// A configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data: Option<Work>,
    /// Where clients connect.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<std::net::SocketAddr>,
    /// Where operators connect.
    #[arg(long, value_name = "ADDRESS")]
    pub operations: Option<std::net::SocketAddr>,
    /// Print the OpenAPI document and do nothing else.
    #[arg(long)]
    pub openapi: bool,
}

/// Where a relay keeps its data, as `serve` is told.
#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct RelayData {
    /// The relay's configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Its data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data: Option<Work>,
}

#[cfg(feature = "serve")]
#[derive(Debug, Subcommand)]
pub enum CredentialsCommand {
    /// Issue credentials. The relay takes them over within seconds, or when it starts; their text is printed this one time.
    #[command(after_help = "Example: restante credentials new --data relay --count 10 > credentials\n\n\
        Each line has an id, by which the credential can be revoked, and the credential, which is secret.")]
    New {
        #[command(flatten)]
        relay: RelayData,
        /// How many.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        count: u32,
        /// Registrations of keys for stream digests that each is good for.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
        stream: u32,
        /// Registrations of keys for compact digests that each is good for.
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
        compact: u32,
        /// Days until they expire.
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3650))]
        days: u64,
    },
    /// Revoke credentials. What was registered with them stays.
    #[command(
        after_help = "Example: restante credentials revoke --data relay 0f47c2a1b8d94e6f1c3b5a7988776655"
    )]
    Revoke {
        #[command(flatten)]
        relay: RelayData,
        /// Ids, as `new` and the operators' route /credentials say them.
        #[arg(required = true, value_parser = credential_id)]
        ids: Vec<Hex<16>>,
    },
}

#[cfg(feature = "serve")]
fn credential_id(digits: &str) -> Result<Hex<16>, String> {
    digits.parse()
}

/// Where a relay's operators connect.
#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// List the messages that wait: their tickets, relays, recipients' fingerprints and lengths.
    #[command(after_help = "Example: restante outbox list alice.outbox\n\n\
        A message that is perhaps posted was on its way when no answer came: the next `send` finds out.")]
    List {
        /// The outbox, as for `send --outbox`.
        #[arg(value_name = "FILE")]
        outbox: Kept,
    },
    /// Remove messages that wait: they are not posted any more.
    #[command(after_help = "Example: restante outbox remove alice.outbox 52947d18c18efa07b06d2c6b652885b2")]
    Remove {
        /// The outbox.
        #[arg(value_name = "FILE")]
        outbox: Kept,
        /// Tickets, as `list` shows them.
        #[arg(value_name = "TICKET", required = true)]
        tickets: Vec<Hex<16>>,
    },
}

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct OperatorsOptions {
    /// The relay's configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The relay's address for operators [default: the configuration's]
    #[arg(long, value_name = "ADDRESS")]
    pub operations: Option<std::net::SocketAddr>,
}

#[cfg(feature = "serve")]
#[derive(Debug, Subcommand)]
pub enum RegistrationsCommand {
    /// List the registrations, those first that were used the longest ago.
    #[command(after_help = "Example: restante registrations list --operations 127.0.0.1:7301\n\n\
        An id names a registration to the operator; it neither opens the registration nor tells whose it is.")]
    List {
        #[command(flatten)]
        relay: OperatorsOptions,
    },
    /// Remove registrations with all that belongs to them: jobs, results, standing orders, the key.
    #[command(after_help = "Example: restante registrations remove 52947d18c18efa07b06d2c6b652885b2")]
    Remove {
        #[command(flatten)]
        relay: OperatorsOptions,
        /// Ids, as `list` shows them.
        #[arg(value_name = "ID", required = true)]
        ids: Vec<Hex<16>>,
    },
}

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct MirrorArguments {
    /// The relay to follow [default: what `mirror` in the configuration says]
    #[arg(long, value_name = "URL")]
    pub of: Option<String>,
    /// Its key: GET /v1/parameters shows it, and its operator says whether that is right [default: the configuration's]
    #[arg(long, value_name = "KEY", value_parser = relay_key)]
    pub relay: Option<RelayKey>,
    /// Certificate authorities for https, as a PEM file [default: the configuration's, or those of the web]
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Reach it through this proxy, socks5://HOST:PORT; none for no proxy [default: that of the configuration, or of the environment]
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    #[command(flatten)]
    pub serve: ServeArguments,
}

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// Registered recipients, each with a standing order.
    #[arg(long, value_name = "N")]
    pub users: u64,
    /// Messages posted in a day.
    #[arg(long, value_name = "N")]
    pub messages_per_day: u64,
    /// Bytes of a payload.
    #[arg(long, value_name = "N", default_value_t = 1536, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub payload_bytes: u64,
    /// Days for which messages are kept.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub days: u64,
    /// Recipients that share a pass (limits.keys_per_pass).
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub keys_per_pass: u64,
    /// Microseconds of a core for a message and a recipient [default: as measured]
    #[arg(long, value_name = "US")]
    pub microseconds: Option<f64>,
    #[command(flatten)]
    pub clue: super::ClueOption,
}

fn relay_key(digits: &str) -> Result<RelayKey, String> {
    digits.parse()
}
