//! What can be asked on the command line.

mod search;

use std::{ops::Range, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use restante_clue::ClueParameters;
use restante_pir::fetch::Part;
use restante_wire::relay::RelayKey;

pub use search::{
    SearchAnswerArguments, SearchCommand, SearchDemoArguments, SearchOpenArguments, SearchPlanArguments,
    SearchQueryArguments, SelectorOptions, TableOptions,
};

const EXIT_CODES: &str = "Exit codes: 0 done; 1 the job ran and its result is bad (a message missing or misdelivered, a board \
that does not verify); 2 wrong usage; 3 an input was refused; 4 the system refused (file not found, disk full).";

/// Hold and find messages without learning who they are for.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Use this many threads [default: one per processor]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Use these instructions: scalar, avx2 or avx512 [default: the fastest that the processor has]
    #[arg(long, global = true, value_name = "NAME")]
    pub backend: Option<String>,
    /// Do not show progress.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make keys, show what a file is, print an address.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Make a board, post to it, read from it.
    #[command(subcommand)]
    Board(BoardCommand),
    /// Detect, for the holders of detection keys, which messages are theirs; write their digests.
    #[command(after_help = "Example: restante detect --board board --key alice.detection --out alice.digest")]
    Detect(DetectArguments),
    /// Make compact digests from pertinency vectors that `detect --digest compact` has kept.
    #[command(
        after_help = "Example: restante digest --board board --key alice.compact --pertinency alice.pertinency --range 0..65536 \
        --capacity 50 --out alice.digest"
    )]
    Digest(DigestArguments),
    /// Find out from a digest which messages are mine, and open them.
    #[command(
        after_help = "Example: restante read --secret alice.secret --digest alice.digest --board board\n\n\
        Without --board or --messages the indices of the messages are printed. Asking the server for exactly those would tell \
        it which messages are yours: read the board or a whole range."
    )]
    Read(ReadArguments),
    /// Post a message to a relay.
    #[command(
        after_help = "Example: restante send --relay http://127.0.0.1:7300 --to alice.address --text 'See you at five.'\n\n\
        With --outbox the message is kept in a file until the relay has it, and sent with the next call if it could not be sent \
        with this one: once, whatever breaks. With a contact for --to the relay follows from it."
    )]
    Send(SendArguments),
    /// Find somebody's address by name in a relay's directory, without telling the relay whose.
    #[command(
        after_help = "Example: restante lookup --relay https://relay.example alice --out alice.address\n\n\
        Names are compared byte by byte, except that A to Z are a to z. The relay can list a false address: compare the fingerprint \
        with the one that the address's owner says. Exit code 1: the directory has no such name."
    )]
    Lookup(LookupArguments),
    /// Find and read my messages on a relay, on a fixed schedule.
    #[command(
        after_help = "Example: restante sync --relay https://a.example --second-relay https://b.example --account alice.secret \
        --state alice.state --every 300\n\n\
        With two relays that do not collude, messages are detected by the first and fetched privately from both. With one, or with \
        --whole, every message of the board is read. What is sent is the same whatever is found: docs/client.md."
    )]
    Sync(SyncArguments),
    /// Read records from two servers without telling either which ones.
    #[command(subcommand)]
    Fetch(FetchCommand),
    /// Find records by a selector without telling the server which one.
    #[command(subcommand)]
    Search(SearchCommand),
    /// Run the whole path on real text: board, clues, detection, digests, payloads.
    #[command(after_help = "Example: restante demo --messages 65536 --recipients 8")]
    Demo(DemoArguments),
    /// Measure, beside limits that are measured in the same run.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Run a relay: keep a board, make digests for registered keys.
    #[cfg(feature = "serve")]
    #[command(after_help = "Example: restante serve --data relay\n\n\
        Every field of docs/operating.md can be set in the configuration file or in the environment, as RESTANTE_LISTEN or \
        RESTANTE_LIMITS__KEYS. It stops on SIGTERM and SIGINT; what was acknowledged is durable before that.")]
    Serve(ServeArguments),
    /// Run a relay that follows another one and verifies all that it takes over.
    #[cfg(feature = "serve")]
    #[command(
        after_help = "Example: restante mirror --of http://127.0.0.1:7300 --relay 5f3c… --data mirror --listen 127.0.0.1:7310 \
        --operations 127.0.0.1:7311"
    )]
    Mirror(MirrorArguments),
    /// Say what a relay takes: processors, memory, disk, bandwidth.
    #[cfg(feature = "serve")]
    #[command(after_help = "Example: restante plan --users 1000 --messages-per-day 100000\n\n\
        The rates were measured on one machine; give your own, from `restante bench detect-stream`, for another.")]
    Plan(PlanArguments),
    /// Print every parameter set: ring degrees, moduli, security, sizes.
    #[command(after_help = "Example: restante params --json")]
    Params,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a recipient: NAME.secret to keep, NAME.address to give to senders, NAME.detection to give to a detector.
    #[command(after_help = "Example: restante keys new alice")]
    New {
        /// Path of the files, without their extensions.
        name: PathBuf,
        #[command(flatten)]
        clue: ClueOption,
        /// Make NAME.compact, too: the detection key for compact digests, about 160 MB.
        #[arg(long)]
        compact: bool,
        /// Replace files that exist.
        #[arg(long)]
        force: bool,
    },
    /// Say what a file is, and for which parameters.
    #[command(after_help = "Example: restante keys show alice.address")]
    Show {
        /// A file of any kind.
        file: PathBuf,
    },
    /// Write the address or the detection key that belongs to a secret key, again.
    #[command(after_help = "Example: restante keys address alice.secret --out alice.address")]
    Address {
        /// The secret key.
        secret: PathBuf,
        /// Where the address goes; without it only the fingerprint is printed.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Where the detection key goes.
        #[arg(long, value_name = "FILE")]
        detection: Option<PathBuf>,
        /// Where the detection key for compact digests goes.
        #[arg(long, value_name = "FILE")]
        compact: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct ClueOption {
    /// Kind of clues: standard (2,565 bytes) or short (2,053 bytes, more false positives).
    #[arg(long, value_name = "NAME", default_value = "standard", value_parser = clue_parameters)]
    pub clue: ClueParameters,
}

#[derive(Debug, Subcommand)]
pub enum BoardCommand {
    /// Make an empty board.
    #[command(after_help = "Example: restante board init board")]
    Init {
        /// The board's directory.
        board: PathBuf,
        #[command(flatten)]
        clue: ClueOption,
    },
    /// Post one message, from --text or from standard input.
    #[command(after_help = "Example: restante board post board --to alice.address --text 'See you at five.'")]
    Post {
        /// The board's directory.
        board: PathBuf,
        /// Address of the recipient.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// The message.
        #[arg(long)]
        text: Option<String>,
    },
    /// Post every line of a text file, to the recipients by turns.
    #[command(
        after_help = "Example: restante board import board --corpus letters.txt --to alice.address --to bob.address"
    )]
    Import {
        /// The board's directory.
        board: PathBuf,
        /// UTF-8 text, one message a line.
        #[arg(long, value_name = "FILE")]
        corpus: PathBuf,
        /// Address of a recipient; may be given several times.
        #[arg(long, value_name = "FILE", required = true)]
        to: Vec<PathBuf>,
    },
    /// Copy a range of messages into a file, for a recipient that does not hold the board.
    #[command(after_help = "Example: restante board export board --range 0..4096 --out messages")]
    Export {
        /// The board's directory.
        board: PathBuf,
        #[command(flatten)]
        range: RangeOption,
        /// Where the messages go.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Print a board's size and head.
    #[command(after_help = "Example: restante board stats board --verify")]
    Stats {
        /// The board's directory.
        board: PathBuf,
        /// Check every byte against its hash, too.
        #[arg(long)]
        verify: bool,
    },
}

#[derive(Debug, Args)]
pub struct RangeOption {
    /// Messages FIRST up to but not including END [default: all]
    #[arg(long, value_name = "FIRST..END", value_parser = parse_range)]
    pub range: Option<Range<u64>>,
}

#[derive(Debug, Args)]
pub struct DetectArguments {
    /// The board's directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub board: PathBuf,
    /// A detection key; may be given several times, and all are served in one pass.
    #[arg(long, value_name = "FILE", required = true)]
    pub key: Vec<PathBuf>,
    /// Where the digest goes; once for each key, in the same order.
    #[arg(long, value_name = "FILE", required = true)]
    pub out: Vec<PathBuf>,
    #[command(flatten)]
    pub range: RangeOption,
    /// Kind of digest; compact ones need compact detection keys.
    #[arg(long, value_enum, default_value_t = DigestKind::Stream)]
    pub digest: DigestKind,
    #[command(flatten)]
    pub sizes: DigestSizes,
    /// With --digest compact: keep the pertinency vector here, for `restante digest`; once for each key.
    #[arg(long, value_name = "FILE")]
    pub pertinency: Vec<PathBuf>,
}

/// The kinds of digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DigestKind {
    /// Bytes for every message, and no bound on how many are found.
    Stream,
    /// Of constant size, for up to --capacity messages.
    Compact,
}

/// What a compact digest holds.
#[derive(Debug, Clone, Copy, Args)]
pub struct DigestSizes {
    /// Compact digest: the most pertinent messages that it holds.
    #[arg(long, value_name = "K", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=255))]
    pub capacity: u16,
    /// Compact digest: hold so many bytes of each payload; 0 for indices only.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=4064))]
    pub payload_bytes: u16,
}

#[derive(Debug, Args)]
pub struct DigestArguments {
    /// The board's directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub board: PathBuf,
    /// A compact detection key; may be given several times, and all are served in one pass.
    #[arg(long, value_name = "FILE", required = true)]
    pub key: Vec<PathBuf>,
    /// The pertinency vector; once for each key, in the same order.
    #[arg(long, value_name = "FILE", required = true)]
    pub pertinency: Vec<PathBuf>,
    /// Where the digest goes; once for each key, in the same order.
    #[arg(long, value_name = "FILE", required = true)]
    pub out: Vec<PathBuf>,
    #[command(flatten)]
    pub range: RangeOption,
    #[command(flatten)]
    pub sizes: DigestSizes,
}

#[derive(Debug, Args)]
pub struct ReadArguments {
    /// The recipient's secret key.
    #[arg(long, value_name = "FILE")]
    pub secret: PathBuf,
    /// The digest.
    #[arg(long, value_name = "FILE")]
    pub digest: PathBuf,
    /// Open the messages, from this board.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "messages")]
    pub board: Option<PathBuf>,
    /// Open the messages, from this file that `board export` wrote.
    #[arg(long, value_name = "FILE")]
    pub messages: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SendArguments {
    /// The relay: https, or http on this machine [default: the contact's]
    #[arg(long, value_name = "URL")]
    pub relay: Option<String>,
    /// The relay's key, as its operator or the recipient says it [default: the contact's]
    #[arg(long, value_name = "KEY", value_parser = relay_key)]
    pub relay_key: Option<RelayKey>,
    /// Address or contact of the recipient.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// The message [default: standard input]
    #[arg(long)]
    pub text: Option<String>,
    /// Where messages wait that could not be sent.
    #[arg(long, value_name = "FILE")]
    pub outbox: Option<PathBuf>,
    #[command(flatten)]
    pub connection: ConnectionOptions,
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
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub connection: ConnectionOptions,
}

#[derive(Debug, Args)]
pub struct ConnectionOptions {
    /// The most times that a request is sent which fails for a passing reason.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub attempts: u32,
    /// A certificate authority to trust instead of the usual ones, as a PEM file.
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
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
    /// The recipient's secret key.
    #[arg(long, value_name = "FILE")]
    pub account: PathBuf,
    /// What is kept between two calls. Secret. It is made if it does not exist.
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
    /// Read every message, though there are two relays; their boards are compared.
    #[arg(long)]
    pub whole: bool,
    /// Fetches of a round, and as many again for each epoch's worth of new messages.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub fetches: u32,
    /// Read messages that are in no epoch yet, all of them, instead of waiting for one.
    #[arg(long, conflicts_with = "whole")]
    pub read_tail: bool,
    /// Index of the first message to look at, for a state that is made.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub first: u64,
    /// Go on without messages before this index, which the relay no longer has.
    #[arg(long, value_name = "INDEX")]
    pub skip_to: Option<u64>,
    /// Forget the relays' heads: the only way on when a relay cannot prove any more that its board continues them.
    #[arg(long)]
    pub forget_heads: bool,
    /// One round, then stop. This is the default.
    #[arg(long, conflicts_with = "every")]
    pub once: bool,
    /// A round every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub every: Option<u64>,
    /// Milliseconds between an answer and the next request, which hide how long the answer took to read.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub pace: u64,
    #[command(flatten)]
    pub connection: ConnectionOptions,
}

#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Messages on the board.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub messages: u64,
    /// Recipients that detection runs for. Other messages are for strangers.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub recipients: u16,
    /// UTF-8 text, one message a line [default: letters of Charles Dickens]
    #[arg(long, value_name = "FILE")]
    pub corpus: Option<PathBuf>,
    #[command(flatten)]
    pub clue: ClueOption,
    /// Kind of digest.
    #[arg(long, value_enum, default_value_t = DigestKind::Stream)]
    pub digest: DigestKind,
    /// With --digest compact: a small ring without any security, for a look at the circuit in seconds.
    #[arg(long)]
    pub insecure: bool,
    /// Make the board here and keep it [default: a temporary directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub board: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum FetchCommand {
    /// Make an epoch, a sealed snapshot of fixed-size records, from a board or a file.
    #[command(after_help = "Example: restante fetch build --board board --record-bytes 4200 --out epoch\n\n\
        A board's messages are padded to the record size, which takes 4 bytes more than the longest of them. A file is \
        taken as it is: records of exactly that size, one after the other.")]
    Build(FetchBuildArguments),
    /// Ask for records: write a query for each server and the state to open their answers with.
    #[command(
        after_help = "Example: restante fetch query --epoch-info epoch --index 17 --pad-to 8 --out-a a.query --out-b b.query \
        --state fetch.state\n\n\
        A server that sees both queries knows what is wanted. Always pad to the same number of fetches, and ask as often when \
        nothing is wanted: otherwise how much you ask for tells how much you got."
    )]
    Query(FetchQueryArguments),
    /// Answer queries, in one pass over the epoch.
    #[command(after_help = "Example: restante fetch answer --epoch epoch --query a.query --out a.answer")]
    Answer(FetchAnswerArguments),
    /// Open the answers of both servers.
    #[command(
        after_help = "Example: restante fetch open --state fetch.state --answer a.answer --answer b.answer --out records\n\n\
        Without --out the records are printed in hexadecimal."
    )]
    Open(FetchOpenArguments),
    /// Check every record of an epoch against its hash.
    #[command(after_help = "Example: restante fetch verify epoch")]
    Verify {
        /// The epoch's directory.
        epoch: PathBuf,
    },
    /// Run two servers as processes of their own, and clients that fetch real messages from them.
    #[command(after_help = "Example: restante fetch demo --records 2048 --fetches 8")]
    Demo(FetchDemoArguments),
}

#[derive(Debug, Args)]
pub struct FetchBuildArguments {
    /// A board's directory.
    #[arg(long, value_name = "DIRECTORY", required_unless_present = "file", conflicts_with = "file")]
    pub board: Option<PathBuf>,
    /// A file of records.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What of a board's messages: clue, payload, or message (the clue and behind it the payload).
    #[arg(long, value_name = "PART", default_value = "message", value_parser = parse_part)]
    pub part: Part,
    /// The size of every record [default: that of --append-to]
    #[arg(long, value_name = "N", required_unless_present = "append_to", conflicts_with = "append_to")]
    pub record_bytes: Option<usize>,
    /// Begin with all records of this epoch, without hashing them again; of a board only what is new is added.
    #[arg(long, value_name = "DIRECTORY")]
    pub append_to: Option<PathBuf>,
    /// The epoch's directory, which must not exist.
    #[arg(long, value_name = "DIRECTORY")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct FetchQueryArguments {
    /// A directory that holds the files "epoch" and "hashes" of an epoch.
    #[arg(long, value_name = "DIRECTORY")]
    pub epoch_info: PathBuf,
    /// The epoch's id, as somebody you trust says it: the query is refused if it is another one.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// A record to fetch; may be given several times or not at all.
    #[arg(long, value_name = "I")]
    pub index: Vec<u64>,
    /// Fetches in the batch: random records fill it up.
    #[arg(long, value_name = "K")]
    pub pad_to: usize,
    /// Where the query for the first server goes.
    #[arg(long, value_name = "FILE")]
    pub out_a: PathBuf,
    /// Where the query for the second server goes.
    #[arg(long, value_name = "FILE")]
    pub out_b: PathBuf,
    /// Where the state goes. It is secret.
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
}

#[derive(Debug, Args)]
pub struct FetchAnswerArguments {
    /// The epoch's directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub epoch: PathBuf,
    /// A query; may be given several times, and all are answered in one pass.
    #[arg(long, value_name = "FILE", required = true)]
    pub query: Vec<PathBuf>,
    /// Where the answer goes; once for each query, in the same order.
    #[arg(long, value_name = "FILE", required = true)]
    pub out: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct FetchOpenArguments {
    /// The state that the query left.
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
    /// An answer; one from each server, in any order.
    #[arg(long, value_name = "FILE", required = true)]
    pub answer: Vec<PathBuf>,
    /// A directory for the records, each in a file named after its index.
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct FetchDemoArguments {
    /// Messages on the board, which are the records.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub records: u64,
    /// Fetches of every client; all are real for one, one for another, none for a third.
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub fetches: u16,
    /// UTF-8 text, one message a line [default: letters of Charles Dickens]
    #[arg(long, value_name = "FILE")]
    pub corpus: Option<PathBuf>,
}

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// A configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data: Option<PathBuf>,
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

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct MirrorArguments {
    /// The relay to follow.
    #[arg(long, value_name = "URL")]
    pub of: String,
    /// Its key: GET /v1/parameters shows it, and its operator says whether that is right.
    #[arg(long, value_name = "KEY")]
    pub relay: String,
    /// Certificate authorities for https, as a PEM file.
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
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
    pub clue: ClueOption,
}

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct BenchRelayArguments {
    /// Posts a second.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub posts: u32,
    /// Seconds.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// Recipients that ask for digests all the time.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub recipients: u32,
    /// Messages that are on the board before.
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub messages: u64,
    /// Where the data directory is made [default: the directory for temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchFetchArguments {
    /// Size of the records together.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub mib: u64,
    /// Size of a record.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    pub record_bytes: u32,
    /// Queries answered in one pass.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub queries: u16,
}

#[derive(Debug, Args)]
pub struct BenchSearchArguments {
    /// Size of the records together.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub mib: u64,
    /// Size of a record.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(8..=1 << 22))]
    pub record_bytes: u32,
    /// Bits of a selector's hash: 2^N buckets.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(8..=24))]
    pub hash_bits: u32,
    /// Queries answered in one pass.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queries: u16,
    /// Selectors of each query.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub selectors: u16,
    /// Selectors that share a ciphertext: a power of two.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub sharing: u16,
    /// Keep the outer table in memory.
    #[arg(long)]
    pub keep_outer: bool,
    /// Spread the records over all buckets, as a small table would be, instead of filling consecutive ones, as in a part of a
    /// large table.
    #[arg(long)]
    pub scattered: bool,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Distributed point functions: a line for every operation, variant and back end.
    #[command(after_help = "Example: restante bench dpf --threads 1 --json")]
    Dpf,
    /// Private fetch: answering queries, beside a pass that only reads the records.
    #[command(
        after_help = "Example: restante bench fetch --mib 1024 --record-bytes 1024 --queries 1 --threads 1 --json\n\n\
        The records are written to the directory for temporary files. peak_rss_bytes counts the mapped ones that were read."
    )]
    Fetch(BenchFetchArguments),
    /// Private search: queries, their expansion, the pass over a window, finishing and opening.
    #[command(
        after_help = "Example: restante bench search --mib 1024 --record-bytes 1048576 --hash-bits 20 --queries 1 --threads 1 --json\n\n\
        The records are made while they are read, and lie in consecutive buckets unless --scattered is given."
    )]
    Search(BenchSearchArguments),
    /// A relay on loopback: posts while digests are made, beside the disk's own time to sync.
    #[cfg(feature = "serve")]
    #[command(after_help = "Example: restante bench relay --posts 200 --seconds 60 --connections 50 --json")]
    Relay(BenchRelayArguments),
    /// Detection with the stream digest, and what surrounds it.
    #[command(
        after_help = "Example: restante bench detect-stream --messages 65536 --recipients 1 --threads 1 --json"
    )]
    DetectStream {
        /// Messages to detect in.
        #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 22))]
        messages: u64,
        /// Recipients served in one pass.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
        recipients: u16,
        #[command(flatten)]
        clue: ClueOption,
    },
    /// Detection with the compact digest.
    #[command(
        after_help = "Example: restante bench detect-compact --messages 65536 --recipients 1 --capacity 50 --payload-bytes 612 \
        --threads 1 --json"
    )]
    DetectCompact {
        /// Messages to detect in.
        #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=786_432))]
        messages: u64,
        /// Recipients served in one pass.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
        recipients: u16,
        #[command(flatten)]
        sizes: DigestSizes,
        /// A small ring without any security: not a measurement, but the same circuit in seconds.
        #[arg(long)]
        insecure: bool,
    },
}

fn clue_parameters(name: &str) -> Result<ClueParameters, String> {
    ClueParameters::by_name(name).map_err(|error| error.to_string())
}

fn relay_key(digits: &str) -> Result<RelayKey, String> {
    digits.parse()
}

fn parse_part(name: &str) -> Result<Part, String> {
    match name {
        "clue" => Ok(Part::Clue),
        "payload" => Ok(Part::Payload),
        "message" => Ok(Part::Message),
        _ => Err(format!("{name:?} is none of clue, payload and message")),
    }
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let expected = || format!("{text:?} is not a range such as 0..4096");
    let (first, end) = text.split_once("..").ok_or_else(expected)?;
    let number = |digits: &str| digits.parse().map_err(|_| expected());
    let range = number(first)?..number(end)?;
    if range.start > range.end { Err(expected()) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_leaf_command_has_an_example() {
        fn check(command: &clap::Command) {
            if command.has_subcommands() {
                command.get_subcommands().for_each(check);
            } else {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example: restante "), "{}", command.get_name());
            }
        }
        check(&Arguments::command());
    }

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(parse_range("3..7"), Ok(3..7));
        for wrong in ["", "3", "3..", "..7", "7..3", "3-7", "a..b", "-1..4"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
