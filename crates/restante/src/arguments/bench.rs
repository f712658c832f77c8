//! The arguments of measurements.

use clap::{Args, Subcommand};

use super::{ClueOption, DigestKind, DigestSizes};

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
    /// Kind of the digests. Compact ones are made one after the other, and the run lasts until each recipient has one.
    #[arg(long, value_enum, default_value_t = DigestKind::Stream)]
    pub digest: DigestKind,
    #[command(flatten)]
    pub sizes: DigestSizes,
    /// Messages that are on the board before.
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub messages: u64,
    /// Where the data directory is made [default: the directory for temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    pub data: Option<std::path::PathBuf>,
}

#[cfg(feature = "serve")]
impl BenchRelayArguments {
    /// The load, on a relay with so many threads.
    pub fn into_sizes(self, threads: usize) -> restante_bench::relay::Sizes {
        use restante_bench::relay::Digest;
        restante_bench::relay::Sizes {
            posts: self.posts,
            seconds: self.seconds,
            connections: self.connections,
            recipients: self.recipients,
            digest: match self.digest {
                DigestKind::Stream => Digest::Stream,
                DigestKind::Compact => {
                    let DigestSizes { capacity, payload_bytes } = self.sizes;
                    Digest::Compact { capacity, payload_bytes }
                }
            },
            messages: self.messages,
            data: self.data,
            threads,
        }
    }
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

impl From<BenchFetchArguments> for restante_bench::fetch::Sizes {
    fn from(arguments: BenchFetchArguments) -> Self {
        let BenchFetchArguments { mib, record_bytes, queries } = arguments;
        Self { mib, record_bytes, queries }
    }
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

impl From<BenchSearchArguments> for restante_bench::search::Sizes {
    fn from(arguments: BenchSearchArguments) -> Self {
        let BenchSearchArguments {
            mib,
            record_bytes,
            hash_bits,
            queries,
            selectors,
            sharing,
            keep_outer,
            scattered,
        } = arguments;
        Self { mib, record_bytes, hash_bits, queries, selectors, sharing, keep_outer, scattered }
    }
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
