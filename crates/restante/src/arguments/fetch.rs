//! The arguments of private fetch.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use restante_pir::fetch::Part;

use crate::files::Output;

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
    /// The part of a board's messages: clue, payload, or message (the clue and then the payload).
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
    pub out: Output,
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
    pub out_a: Output,
    /// Where the query for the second server goes.
    #[arg(long, value_name = "FILE")]
    pub out_b: Output,
    /// Where the state goes. It is secret.
    #[arg(long, value_name = "FILE")]
    pub state: Output,
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
    pub out: Vec<Output>,
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
    pub out: Option<Output>,
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

fn parse_part(name: &str) -> Result<Part, String> {
    match name {
        "clue" => Ok(Part::Clue),
        "payload" => Ok(Part::Payload),
        "message" => Ok(Part::Message),
        _ => Err(format!("{name:?} is none of clue, payload and message")),
    }
}
