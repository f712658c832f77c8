//! The command line's arguments.

mod bench;
mod fetch;
mod relay;
mod search;

use std::{ffi::OsString, ops::Range, path::PathBuf, process::ExitCode};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue},
};
use restante_clue::ClueParameters;

use crate::{
    error::{CliError, failure_line},
    files::{Kept, Output, Work},
    report::tell,
};

pub use bench::BenchCommand;
pub use fetch::{
    FetchAnswerArguments, FetchBuildArguments, FetchCommand, FetchDemoArguments, FetchOpenArguments,
    FetchQueryArguments,
};
pub use relay::{
    CompactOptions, DeliveryName, LookupArguments, OutboxCommand, Reach, SendArguments, SyncArguments,
};
#[cfg(feature = "serve")]
pub use relay::{
    CredentialsCommand, MirrorArguments, OperatorsOptions, PlanArguments, RegistrationsCommand, RelayData,
    ServeArguments,
};
pub use search::{
    SearchAnswerArguments, SearchCommand, SearchDemoArguments, SearchOpenArguments, SearchPlanArguments,
    SearchQueryArguments, SelectorOptions, TableOptions,
};

/// The options whose values say what somebody looks for or writes: an error does not repeat them.
const PRIVATE: [&str; 4] = ["--selector", "--index", "--text", "--name"];

/// All that can be asked, for what is made out of it.
pub fn table() -> clap::Command {
    Arguments::command()
}

/// Reads the command line, and how it was read. A wrong one is told, as JSON if `--json` is among the arguments, and gives the exit code.
pub fn parse() -> Result<(clap::Command, clap::ArgMatches, Arguments), ExitCode> {
    let command = table();
    let read = command.clone().try_get_matches();
    let read = read.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    match read {
        Ok((arguments, matches)) => Ok((command, matches, arguments)),
        Err(error) => {
            let error = withhold(error);
            // Help and the version come this way, too, and are no errors.
            if !(error.use_stderr() && asks_for_json(std::env::args_os())) {
                error.exit();
            }
            let text = what_is_wrong(&error.to_string());
            tell(failure_line(true, &text, &[]));
            Err(CliError::Usage(text).exit_code())
        }
    }
}

/// Whether `--json` is among the arguments, though they could not be read: what stands behind `--` is no option.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// Clap's message as one line, without usage and hints.
fn what_is_wrong(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let wrong = text.split("\n\n").next().unwrap_or(text);
    wrong.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Takes what may be a selector, an index or a text out of an error: the values of some options, and words that belong to no
/// option, as when a text was not put in quotes.
fn withhold(mut error: clap::Error) -> clap::Error {
    let said = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let withheld = || ContextValue::String("(withheld)".into());
    let argument = said(&error, ContextKind::InvalidArg);
    match argument {
        Some(argument) if !argument.starts_with('-') && !argument.starts_with('<') => {
            error.insert(ContextKind::InvalidArg, withheld());
            // It would show how to pass the same word as a value.
            error.remove(ContextKind::Suggested);
        }
        Some(argument)
            if PRIVATE.iter().any(|name| argument.starts_with(name))
                && error.get(ContextKind::InvalidValue).is_some() =>
        {
            error.insert(ContextKind::InvalidValue, withheld());
        }
        _ => {}
    }
    error
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 the job ran and its result is bad (a message missing or misdelivered, a board \
that does not verify); 2 wrong usage; 3 an input was refused; 4 the system refused (file not found, disk full); 5 all was done, and messages are left to be shown. With \
--json, the last line on standard error says why: one object with `error` and `causes`.";

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
    /// Print the result as JSON; a failure, too, on standard error: {"error": ..., "causes": [...]}.
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
    /// Replace output files that exist. Never a secret key, a state or an outbox, nor what the command reads.
    #[arg(long, global = true)]
    pub force: bool,
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
        it which messages are yours: read the board or a whole range.\n\n\
        A terminal gets a line for each message, with what is not printable escaped; a pipe or a file gets index, tab, the message's bytes \
        and a line end. A message may hold line ends itself: programs take --json (\"text\", or \"base64\" for what is no UTF-8) or --out."
    )]
    Read(ReadArguments),
    /// Post a message to a relay.
    #[command(
        after_help = "Example: restante send --relay http://127.0.0.1:7300 --to alice.address --text 'See you at five.'\n\n\
        With --outbox the message is kept in a file until the relay has it, and sent with the next call if it could not be sent \
        with this one: once, whatever breaks. With a contact for --to the relay follows from it.\n\n\
        Only what is for the relay of this call is posted; what waits for others is named and left. What was posted is recorded in the \
        outbox's name with .sent. Several --to get a message of their own each; those for one relay are posted together, so that it can \
        tell that one sender wrote them, and to how many. A request is sent twice at most unless --attempts says otherwise."
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
        --whole, every message of the board is read. With --delivery compact they come in digests from one relay, whose detection key, \
        alice.compact, `restante keys new --compact` makes. What is sent is the same whatever is found: docs/client.md."
    )]
    Sync(SyncArguments),
    /// See which messages wait in an outbox, and remove them.
    #[command(subcommand)]
    Outbox(OutboxCommand),
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
    /// Let people register detection keys at a relay that does not let everybody.
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Credentials(CredentialsCommand),
    /// See which keys are registered at a relay that runs here, and remove them.
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Registrations(RegistrationsCommand),
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
    Params(ParamsArguments),
    /// Print a script that completes this command line in a shell.
    #[command(
        after_help = "Example: restante completions bash > ~/.local/share/bash-completion/completions/restante"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for every command.
    #[command(after_help = "Example: restante man ~/.local/share/man/man1\n\n\
        Without a directory the page of `restante` itself is printed: restante man | man -l -")]
    Man {
        /// Where the pages go: restante.1, restante-demo.1 and so on. It is made if it is not there.
        directory: Option<Work>,
    },
}

#[derive(Debug, Args)]
pub struct ParamsArguments {
    /// Print, in place of the sets, what somebody who breaks one has to solve: what scripts/estimate.py reads.
    #[arg(long)]
    pub lattices: bool,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a recipient: NAME.secret to keep, NAME.address to give to senders, NAME.detection to give to a detector.
    #[command(after_help = "Example: restante keys new alice")]
    New {
        /// Path of the files, without their extensions.
        name: Work,
        #[command(flatten)]
        clue: ClueOption,
        /// Make NAME.compact, too: the detection key for compact digests, about 160 MB.
        #[arg(long)]
        compact: bool,
    },
    /// Say what a file is, and for which parameters.
    #[command(after_help = "Example: restante keys show alice.address")]
    Show {
        /// A file of any kind.
        file: PathBuf,
    },
    /// Go over to another detection key, so that a relay does not know the account again by it. The address stays.
    #[command(after_help = "Example: restante keys rotate alice.secret --state alice.state\n\n\
        The next `restante sync` with that state registers the new key, and takes the old one back after its round. Who looks at times \
        and network addresses can still tell that it is the same account: SECURITY.md. A relay that wants a credential wants it for the \
        new key, too.\n\n\
        Which key it is stands in the state alone. A sync without it registers the account's first key again: after a loss, rotate again \
        before, with --new.")]
    Rotate {
        /// The secret key.
        secret: PathBuf,
        /// The state of `restante sync`, which must not be running.
        #[arg(long, value_name = "FILE")]
        state: Kept,
        /// Make the state, after a loss of the one before. It begins with message 0: `restante sync --skip-to` goes on behind some.
        #[arg(long)]
        new: bool,
        /// The key for compact digests instead, which is written here.
        #[arg(long, value_name = "FILE")]
        compact: Option<Output>,
    },
    /// Write the address or the detection key that belongs to a secret key, again.
    #[command(after_help = "Example: restante keys address alice.secret --out alice.address")]
    Address {
        /// The secret key.
        secret: PathBuf,
        /// Where the address goes; without it only the fingerprint is printed.
        #[arg(long, value_name = "FILE")]
        out: Option<Output>,
        /// Where the detection key goes.
        #[arg(long, value_name = "FILE")]
        detection: Option<Output>,
        /// Where the detection key for compact digests goes.
        #[arg(long, value_name = "FILE")]
        compact: Option<Output>,
    },
}

#[derive(Debug, Args)]
pub struct ClueOption {
    /// Kind of clues: standard (2,569 bytes) or short (2,057 bytes, more false positives).
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
        /// UTF-8 text, one message a line; - for standard input.
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
        out: Output,
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
    pub out: Vec<Output>,
    #[command(flatten)]
    pub range: RangeOption,
    /// Kind of digest; compact ones need compact detection keys.
    #[arg(long, value_enum, default_value_t = DigestKind::Stream)]
    pub digest: DigestKind,
    #[command(flatten)]
    pub sizes: DigestSizes,
    /// With --digest compact: keep the pertinency vector here, for `restante digest`; once for each key.
    #[arg(long, value_name = "FILE")]
    pub pertinency: Vec<Output>,
}

/// The kinds of digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DigestKind {
    /// Bytes for every message, and no bound on how many are found.
    Stream,
    /// Of constant size, for up to --capacity messages.
    Compact,
}

/// The contents of a compact digest.
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
    pub out: Vec<Output>,
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
    /// Write each message to a file of its own in this directory, named after its index: its bytes, and nothing else.
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<Output>,
    /// The board that a compact digest with payloads is of, by the id that `board stats` shows, where there is neither --board nor
    /// --messages.
    #[arg(long, value_name = "ID", conflicts_with_all = ["board", "messages"])]
    pub board_id: Option<restante_client::BoardId>,
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
    pub board: Option<Work>,
}

fn clue_parameters(name: &str) -> Result<ClueParameters, String> {
    ClueParameters::by_name(name).map_err(|error| error.to_string())
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
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

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
    fn errors_do_not_repeat_what_is_looked_for() {
        for line in [
            "search query --schema s --selector a CaNaRy4711 --out o --state p --hash-bits 9",
            "search query --schema s --selector a --out o --state p --hash-bits 9 -- CaNaRy4711",
            "search query --schema s --selectr=CaNaRy4711 --out o --state p --hash-bits 9",
            "search query --schema s --selector --out o CaNaRy4711",
            "fetch query --epoch e --index CaNaRy4711 --out-a a --out-b b --state s",
            "search demo CaNaRy4711",
        ] {
            let words = ["restante"].into_iter().chain(line.split_whitespace());
            let error = withhold(Arguments::try_parse_from(words).unwrap_err()).to_string();
            assert!(!error.contains("CaNaRy") && !error.contains("4711"), "{line}: {error}");
        }
        // Of everything else, an error says what it is about.
        let words = "restante search query --schema s --selector a --hash-bits 99".split_whitespace();
        let error = withhold(Arguments::try_parse_from(words).unwrap_err()).to_string();
        assert!(error.contains("99") && error.contains("--hash-bits"), "{error}");
    }

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(parse_range("3..7"), Ok(3..7));
        for wrong in ["", "3", "3..", "..7", "7..3", "3-7", "a..b", "-1..4"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
