//! What can be asked of private search.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use restante_pir::search::{MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, WindowLimits};
use restante_tables::{Format, HitFormat, WindowRule};

#[derive(Debug, Subcommand)]
pub enum SearchCommand {
    /// Measure a table and say how many hash bits a query on it wants.
    #[command(
        after_help = "Example: restante search plan --schema characters.toml --table characters.csv\n\n\
        The number of columns is what an answer grows with."
    )]
    Plan(SearchPlanArguments),
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
    /// Size of a chunk: 32768 for one selector in a ciphertext, half of that for two, and so on.
    #[arg(long, value_name = "N", default_value_t = 32 << 10,
        value_parser = clap::value_parser!(u32).range(MIN_CHUNK_BYTES as i64..=MAX_CHUNK_BYTES as i64))]
    pub chunk_bytes: u32,
    /// Predict for this number of hash bits [default: recommend one]
    #[arg(long, value_name = "B")]
    pub hash_bits: Option<u32>,
}

/// How a table is cut into windows, and what of it is kept.
#[allow(dead_code, reason = "the commands that answer queries come with the encrypted half")]
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
    pub scratch: Option<PathBuf>,
}

#[allow(dead_code, reason = "the commands that answer queries come with the encrypted half")]
impl WindowOptions {
    /// What a window may hold.
    pub fn limits(&self) -> WindowLimits {
        let defaults = WindowLimits::default();
        WindowLimits {
            hits: self.hits,
            columns: self.columns,
            memory_bytes: (self.memory_mib as usize) << 20,
            folder: self.scratch.clone().unwrap_or(defaults.folder),
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

/// What is searched for.
#[allow(dead_code, reason = "the commands that ask come with the encrypted half")]
#[derive(Debug, Args)]
pub struct SelectorOptions {
    /// A selector; may be given several times.
    #[arg(long, value_name = "TEXT", required_unless_present = "selectors")]
    pub selector: Vec<String>,
    /// A file of selectors, one a line.
    #[arg(long, value_name = "FILE")]
    pub selectors: Option<PathBuf>,
}

/// How hits are written.
#[allow(dead_code, reason = "the command that opens answers comes with the encrypted half")]
#[derive(Debug, Args)]
pub struct HitOptions {
    /// How hits are written: jsonl or csv.
    #[arg(long, value_name = "NAME", default_value = "jsonl", value_parser = parse_hit_format)]
    pub output: HitFormat,
    /// Where they go [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
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
