//! The arguments of private search.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use restante_pir::search::{MAX_HASH_BITS, MAX_SELECTORS, MAX_SHARING, MIN_HASH_BITS, WindowLimits};
use restante_tables::{Format, HitFormat, WindowRule};

use crate::files::{Output, Work};

#[derive(Debug, Subcommand)]
pub enum SearchCommand {
    /// Measure a table, say how many hash bits a query on it wants, and what query, answer and memory come to.
    #[command(
        after_help = "Example: restante search plan --schema characters.toml --table characters.csv\n\n\
        Sizes of files are exact, those of answers for the predicted number of columns. Times are those of the kernels, measured now, times what they \
        have been found to take with everything around them."
    )]
    Plan(SearchPlanArguments),
    /// Make a query: what goes to the holder of the table, and what opens its answers.
    #[command(
        after_help = "Example: restante search query --schema characters.toml --selector SNOWMAN --hash-bits 12 --out query --state state\n\n\
        `restante search plan` on the table says which --hash-bits are best. The state is secret; it opens every answer to the query."
    )]
    Query(SearchQueryArguments),
    /// Answer queries on a table, or on a stream window by window, without learning what they ask for.
    #[command(
        after_help = "Example: restante search answer --schema characters.toml --table characters.csv --query query --out answer\n\n\
        Queries of one shape and hash (see `search query --hash-of`) share the pass over the table. With --follow, standard input that goes on, \
        --window-records or --window-seconds there is an answer for each window: OUT.0, OUT.1, ..."
    )]
    Answer(SearchAnswerArguments),
    /// Open answers: the records with the query's selectors.
    #[command(
        after_help = "Example: restante search open --schema characters.toml --state state --answer answer --output csv\n\n\
        Records go to standard output or --out; how many there are for each selector, and whether that is all, to standard error."
    )]
    Open(SearchOpenArguments),
    /// Look characters of Unicode up by their names, privately, and check what comes back.
    #[command(after_help = "Example: restante search demo --selector \"SNOWMAN\"")]
    Demo(SearchDemoArguments),
}

#[derive(Debug, Args)]
pub struct SearchQueryArguments {
    /// The schema, as the holder of the table has it.
    #[arg(long, value_name = "FILE")]
    pub schema: PathBuf,
    #[command(flatten)]
    pub selectors: SelectorOptions,
    /// Bits of a selector's hash: the table is seen as 2^B buckets.
    #[arg(long, value_name = "B", required_unless_present = "hash_of", conflicts_with = "hash_of",
        default_value_if("hash_of", clap::builder::ArgPredicate::IsPresent, "8"),
        value_parser = clap::value_parser!(u32).range(i64::from(MIN_HASH_BITS)..=i64::from(MAX_HASH_BITS)))]
    pub hash_bits: u32,
    /// Hash as this query does, so that both can be answered in one pass.
    #[arg(long, value_name = "FILE")]
    pub hash_of: Option<PathBuf>,
    /// Selectors that share a ciphertext, a power of two [default: all of them, up to 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_SHARING as i64))]
    pub sharing: Option<u16>,
    /// Where the query goes.
    #[arg(long, value_name = "FILE")]
    pub out: Output,
    /// Where the state goes. Secret.
    #[arg(long, value_name = "FILE")]
    pub state: Output,
}

#[derive(Debug, Args)]
pub struct SearchAnswerArguments {
    #[command(flatten)]
    pub table: TableOptions,
    /// A query; may be given several times.
    #[arg(long, value_name = "FILE", required = true)]
    pub query: Vec<PathBuf>,
    /// Where its answer goes; once for each query, in the same order.
    #[arg(long, value_name = "FILE", required = true)]
    pub out: Vec<Output>,
    #[command(flatten)]
    pub windows: WindowOptions,
    /// Keep half of a query's tables only, and compute the other half again for every window.
    #[arg(long)]
    pub less_memory: bool,
}

#[derive(Debug, Args)]
pub struct SearchOpenArguments {
    /// The schema that the query was made with.
    #[arg(long, value_name = "FILE")]
    pub schema: PathBuf,
    /// The query's state.
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
    /// An answer; may be given several times.
    #[arg(long, value_name = "FILE", required = true)]
    pub answer: Vec<PathBuf>,
    #[command(flatten)]
    pub hits: HitOptions,
}

#[derive(Debug, Args)]
pub struct SearchDemoArguments {
    /// A character's name; may be given several times [default: four names]
    #[arg(long, value_name = "TEXT")]
    pub selector: Vec<String>,
    /// Bits of a name's hash.
    #[arg(long, value_name = "B", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(i64::from(MIN_HASH_BITS)..=i64::from(MAX_HASH_BITS)))]
    pub hash_bits: u32,
}

/// A table and what of it is searched.
#[derive(Debug, Args)]
pub struct TableOptions {
    /// The schema: which field is the selector, which fields come back (see docs/tables.md).
    #[arg(long, value_name = "FILE")]
    pub schema: PathBuf,
    /// The table; - for standard input.
    #[arg(long, value_name = "FILE", required_unless_present = "board", conflicts_with = "board")]
    pub table: Option<PathBuf>,
    /// A board, whose messages are the table.
    #[arg(long, value_name = "DIRECTORY")]
    pub board: Option<PathBuf>,
    /// How the table is written: csv, jsonl or parquet [default: what its extension says]
    #[arg(long, value_name = "NAME", value_parser = parse_format)]
    pub format: Option<Format>,
    /// The table is a file that grows: wait for more at its end.
    #[arg(long, conflicts_with = "board")]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub struct SearchPlanArguments {
    #[command(flatten)]
    pub table: TableOptions,
    /// The most records that come back for a selector.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub hits: Option<u32>,
    /// Selectors in a query.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MAX_SELECTORS as i64))]
    pub selectors: u16,
    /// Selectors that share a ciphertext, a power of two [default: all of them, up to 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_SHARING as i64))]
    pub sharing: Option<u16>,
    /// Predict for this number of hash bits [default: recommend one]
    #[arg(long, value_name = "B")]
    pub hash_bits: Option<u32>,
    /// Leave malformed rows out and count them.
    #[arg(long)]
    pub skip_malformed: bool,
}

/// How a table is cut into windows, and what of it is kept.
#[derive(Debug, Args)]
pub struct WindowOptions {
    /// The most records that come back for a selector. The answer says how many more there were.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub hits: Option<u32>,
    /// The most columns of an answer. It says how many records of a bucket did not fit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub columns: Option<u32>,
    /// End a window after so many records.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub window_records: Option<u64>,
    /// End a window after so many seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub window_seconds: Option<u64>,
    /// Leave malformed rows out and count them.
    #[arg(long)]
    pub skip_malformed: bool,
    /// Memory for the records of a window; what is more goes into a temporary file.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub memory_mib: u32,
    /// Where that file is made [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    pub scratch: Option<Work>,
}

impl WindowOptions {
    /// Whether the table is one window.
    pub fn is_whole(&self) -> bool {
        self.window_records.is_none() && self.window_seconds.is_none()
    }

    /// The limits of a window.
    pub fn limits(&self) -> WindowLimits {
        let defaults = WindowLimits::default();
        WindowLimits {
            hits: self.hits,
            columns: self.columns,
            memory_bytes: (self.memory_mib as usize) << 20,
            folder: self.scratch.as_ref().map_or(defaults.folder, |scratch| scratch.to_path_buf()),
            ..defaults
        }
    }

    /// When it ends.
    pub fn rule(&self) -> WindowRule {
        WindowRule {
            records: self.window_records,
            time: self.window_seconds.map(Duration::from_secs),
            skip_malformed: self.skip_malformed,
        }
    }
}

/// The selectors.
#[derive(Debug, Args)]
pub struct SelectorOptions {
    /// A selector; may be given several times.
    #[arg(long, value_name = "TEXT", required_unless_present = "selectors")]
    pub selector: Vec<String>,
    /// A file of selectors, one a line; blank lines are left out (--selector "" is the empty selector).
    #[arg(long, value_name = "FILE")]
    pub selectors: Option<PathBuf>,
}

/// How hits are written.
#[derive(Debug, Args)]
pub struct HitOptions {
    /// How hits are written: jsonl or csv.
    #[arg(long, value_name = "NAME", default_value = "jsonl", value_parser = parse_hit_format)]
    pub output: HitFormat,
    /// Where they go [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<Output>,
}

fn parse_hit_format(name: &str) -> Result<HitFormat, String> {
    match name {
        "jsonl" => Ok(HitFormat::JsonLines),
        "csv" => Ok(HitFormat::Csv),
        _ => Err(format!("{name:?} is none of jsonl and csv")),
    }
}

fn parse_format(name: &str) -> Result<Format, String> {
    let known = Format::ALL.into_iter().find(|format| format.name() == name);
    known.ok_or_else(|| format!("{name:?} is none of csv, jsonl and parquet"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct All {
        #[command(flatten)]
        table: TableOptions,
        #[command(flatten)]
        windows: WindowOptions,
        #[command(flatten)]
        selectors: SelectorOptions,
        #[command(flatten)]
        hits: HitOptions,
    }

    fn parse(arguments: &str) -> Result<All, clap::Error> {
        let always = ["x", "--schema", "s"];
        All::try_parse_from(always.into_iter().chain(arguments.split_whitespace()))
    }

    #[test]
    fn options_become_limits_and_rules() {
        let all = parse(
            "--table t --selector a --selector b --hits 3 --window-seconds 60 --memory-mib 2 --scratch d",
        );
        let all = all.unwrap();
        let limits = all.windows.limits();
        assert_eq!((limits.hits, limits.columns, limits.memory_bytes), (Some(3), None, 2 << 20));
        assert_eq!(limits.folder, PathBuf::from("d"));
        let rule = WindowRule { time: Some(Duration::from_secs(60)), ..WindowRule::default() };
        assert_eq!(all.windows.rule(), rule);
        assert_eq!(all.selectors.selector, ["a", "b"]);
        assert_eq!((all.hits.output, all.table.follow), (HitFormat::JsonLines, false));
        let rule =
            parse("--board b --selectors f --window-records 5 --skip-malformed").unwrap().windows.rule();
        assert_eq!(rule, WindowRule { records: Some(5), time: None, skip_malformed: true });
        for bad in [
            "--selector a",
            "--table t",
            "--table t --board b --selector a",
            "--board b --follow --selector a",
            "--table t --selector a --hits 0",
            "--table t --selector a --output xml",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
