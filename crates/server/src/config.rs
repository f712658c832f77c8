//! The operator's settings: a TOML file, and environment variables that override it.

mod units;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use restante_wire::binding::{BoardId, Period};
use restante_wire::relay::RelayKey;
use serde::{Deserialize, Serialize};

use crate::ServerError;
use crate::clock::TimeSource;

/// The configuration of a relay. A field that is not given has the value of [`Config::default`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where operators connect: health, metrics, backup. Whoever reaches it may do all of that.
    pub operations: SocketAddr,
    /// TLS; without it, something in front of the relay has to do it.
    pub tls: Option<TlsConfig>,
    /// The kind of clues, when the board is made: "standard" or "short".
    pub clue: String,
    /// Messages in a segment, when the board is made.
    pub segment_capacity: u32,
    /// Threads that detect, 0 for one per processor.
    pub threads: usize,
    /// The back end of detection, "" for the fastest.
    pub backend: String,
    /// After so many seconds a block that is not full has a standing digest, too.
    #[serde(deserialize_with = "units::seconds")]
    pub standing_seconds: u64,
    /// Limits.
    pub limits: Limits,
    /// Compact digests.
    pub compact: CompactConfig,
    /// Who may register a detection key.
    pub registration: RegistrationConfig,
    /// Private fetch; without it there is none.
    pub fetch: Option<FetchConfig>,
    /// A directory of addresses; without it there is none.
    pub directory: Option<DirectoryConfig>,
    /// Which messages are forgotten.
    pub retention: RetentionConfig,
    /// The relay to follow; without it, this one takes posts.
    pub mirror: Option<MirrorConfig>,
    /// Where backups go; without it there are none.
    pub backup: Option<PathBuf>,
    /// The log's filter, in the syntax of `tracing`.
    pub log: String,
    /// Where time comes from. Only code can set it.
    #[doc(hidden)]
    #[serde(skip)]
    pub time: TimeSource,
    /// The id of the board, when it is made; without it, a random one or the origin's. Only code can set it.
    #[doc(hidden)]
    #[serde(skip)]
    pub board_id_for_tests: Option<BoardId>,
    /// The day by which clues are judged; without it, that of the clock. Only code can set it.
    #[doc(hidden)]
    #[serde(skip)]
    pub period_for_tests: Option<Period>,
}

impl Default for Config {
    fn default() -> Self {
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            data: "relay".into(),
            listen: local(7300),
            operations: local(7301),
            tls: None,
            clue: "standard".into(),
            segment_capacity: restante_board::DEFAULT_SEGMENT_CAPACITY,
            threads: 0,
            backend: String::new(),
            standing_seconds: 60,
            limits: Limits::default(),
            compact: CompactConfig::default(),
            registration: RegistrationConfig::default(),
            fetch: None,
            directory: None,
            retention: RetentionConfig::default(),
            mirror: None,
            backup: None,
            log: "info".into(),
            time: TimeSource::default(),
            board_id_for_tests: None,
            period_for_tests: None,
        }
    }
}

/// Certificate chain and private key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate and those between it and a root.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Compact digests. They are off unless an operator turns them on: a job takes minutes of a core and gigabytes of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactConfig {
    /// Whether there are any.
    pub enabled: bool,
    /// Registrations of compact detection keys: 162 MB of disk each.
    pub keys: usize,
    /// Messages of a job.
    pub job_messages: u64,
    /// Memory that a job may take, or the keys of standing orders that share a pass. There is one of these at a time.
    #[serde(deserialize_with = "units::bytes")]
    pub memory_bytes: u64,
    /// For each key with a standing order, the last so many blocks have pertinency vectors: 1.7 MB of disk each. With 0 there are no
    /// such orders.
    pub standing_blocks: u32,
    /// A ring of no security at all, in which a job takes seconds. Only code can set it.
    #[doc(hidden)]
    #[serde(skip)]
    pub insecure_for_tests: bool,
}

impl Default for CompactConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            keys: 64,
            job_messages: restante_omr::compact::CompactParameters::MAX_MESSAGES,
            memory_bytes: 5 << 30,
            standing_blocks: 128,
            insecure_for_tests: false,
        }
    }
}

/// Registration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrationConfig {
    /// Who may.
    pub policy: Registration,
}

/// Who may register a detection key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Registration {
    /// Everybody while `listen` is an address of this machine alone, and otherwise whoever has a credential.
    #[default]
    Auto,
    /// Everybody.
    Open,
    /// Whoever has a credential: [`issue_credentials`](crate::issue_credentials).
    Credential,
}

/// Private fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchConfig {
    /// Bytes of a record: at least 4 more than the longest message has, or it cannot be fetched.
    #[serde(deserialize_with = "units::bytes")]
    pub record_bytes: u32,
    /// The part of a message: "message", "payload" or "clue".
    pub part: String,
    /// An epoch ends at a multiple of so many messages.
    pub messages: u64,
    /// Messages of an epoch that ends there: older ones are left out. One that ends in between has those since as well.
    pub window: u64,
    /// An epoch ends as well whenever the clock, in seconds since 1970, passes a multiple of this, if there are new messages: so long a
    /// message waits at most. 0: by number only. A mirror ends its epochs where its origin does.
    #[serde(default = "FetchConfig::default_seconds", deserialize_with = "units::seconds")]
    pub seconds: u64,
    /// The server that this relay is, 0 or 1; both if there is none.
    pub server: Option<u8>,
}

impl FetchConfig {
    /// Seconds between two epochs, if nothing else is said.
    pub const DEFAULT_SECONDS: u64 = 3600;

    fn default_seconds() -> u64 {
        Self::DEFAULT_SECONDS
    }

    fn validate(&self) -> Result<(), ServerError> {
        let refuse = |reason: String| Err(ServerError::Config(reason));
        if !matches!(self.part.as_str(), "message" | "payload" | "clue") {
            return refuse(format!("fetch.part is {:?}, expected message, payload or clue", self.part));
        }
        if self.messages == 0 || self.window < self.messages || self.window % self.messages != 0 {
            return refuse("fetch.window is not a multiple of fetch.messages, expected one".into());
        }
        if (1..60).contains(&self.seconds) {
            return refuse(format!("fetch.seconds is {}, expected 0 or at least 60", self.seconds));
        }
        if self.server.is_some_and(|server| server > 1) {
            refuse("fetch.server is neither 0 nor 1".into())
        } else {
            Ok(())
        }
    }
}

/// A directory of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryConfig {
    /// A folder with an address file for each name, `NAME.address`, or a file (TOML) of names, each with its address file in
    /// hexadecimal.
    pub path: PathBuf,
    /// Seconds between two looks whether it has changed.
    #[serde(default = "DirectoryConfig::default_seconds", deserialize_with = "units::seconds")]
    pub seconds: u64,
}

impl DirectoryConfig {
    /// One that is looked at as often as usual.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), seconds: Self::default_seconds() }
    }

    fn default_seconds() -> u64 {
        30
    }
}

/// Which messages are forgotten, in whole segments. Both operators of a pair that serves private fetch need the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// Those older than so many seconds.
    #[serde(deserialize_with = "units::some_seconds")]
    pub seconds: Option<u64>,
    /// The oldest, while the board has more bytes than this.
    #[serde(deserialize_with = "units::some_bytes")]
    pub bytes: Option<u64>,
}

/// The relay to follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorConfig {
    /// Its address, such as `http://127.0.0.1:7300`.
    pub url: String,
    /// Its key. Heads with another signature are refused.
    pub relay: RelayKey,
    /// Seconds between two looks.
    #[serde(default = "MirrorConfig::default_seconds", deserialize_with = "units::seconds")]
    pub seconds: u64,
    /// Certificate authorities, as a PEM file; without it, those of the web.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// The SOCKS5 proxy through which it is reached, as `socks5://HOST:PORT`. Names are the proxy's to resolve.
    #[serde(default)]
    pub proxy: Option<String>,
}

impl MirrorConfig {
    /// A relay to follow, reached directly and looked at as often as usual.
    pub fn new(url: impl Into<String>, relay: RelayKey) -> Self {
        Self { url: url.into(), relay, seconds: Self::default_seconds(), authority: None, proxy: None }
    }

    fn default_seconds() -> u64 {
        5
    }

    /// Host and port of the proxy.
    pub(crate) fn proxy_address(&self) -> Result<Option<(&str, u16)>, ServerError> {
        let Some(url) = &self.proxy else {
            let host = self.url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next());
            let host = host.unwrap_or_default().to_ascii_lowercase();
            return if host.trim_end_matches('.').ends_with(".onion") {
                Err(ServerError::Config("mirror.url is an onion service, which takes mirror.proxy".into()))
            } else {
                Ok(None)
            };
        };
        let address = ["socks5://", "socks5h://"].into_iter().find_map(|scheme| url.strip_prefix(scheme));
        let parts = address.and_then(|address| address.trim_end_matches('/').rsplit_once(':'));
        let parts = parts.and_then(|(host, port)| Some((host.trim_matches(['[', ']']), port.parse().ok()?)));
        let parts = parts.filter(|(host, _)| !host.is_empty() && !host.contains(['/', '@']));
        let expected = "mirror.proxy is not the URL of a SOCKS5 proxy, expected socks5://HOST:PORT";
        parts.map(Some).ok_or_else(|| ServerError::Config(expected.into()))
    }
}

/// The limits. They bound the memory: docs/operating.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one network address at once.
    pub connections_per_address: usize,
    /// Seconds for the header of a request, and for a connection to wait for the next one.
    #[serde(deserialize_with = "units::seconds")]
    pub header_seconds: u64,
    /// Seconds in which a body has to come, besides those of `body_bytes_per_second`.
    #[serde(deserialize_with = "units::seconds")]
    pub body_seconds: u64,
    /// A body may take a second more for each so many bytes.
    #[serde(deserialize_with = "units::bytes")]
    pub body_bytes_per_second: u64,
    /// Seconds after which a connection is closed on which nothing has come and nothing was taken. More than 15: events send
    /// something that often.
    #[serde(deserialize_with = "units::seconds")]
    pub idle_seconds: u64,
    /// Bytes of request and answer bodies in memory at once.
    #[serde(deserialize_with = "units::bytes")]
    pub body_memory_bytes: u64,
    /// Messages of a batch.
    pub batch_messages: u32,
    /// Bytes of a batch.
    #[serde(deserialize_with = "units::bytes")]
    pub batch_bytes: u64,
    /// Batches that wait for the writer.
    pub posts_waiting: usize,
    /// Messages of a page.
    pub page_messages: u32,
    /// Bytes of a page.
    #[serde(deserialize_with = "units::bytes")]
    pub page_bytes: u64,
    /// Bytes of a part of an upload.
    #[serde(deserialize_with = "units::bytes")]
    pub upload_part_bytes: u64,
    /// Registrations.
    pub keys: usize,
    /// Registrations whose key is not there yet.
    pub uploads: usize,
    /// Those of one network (/24, /56).
    pub uploads_per_network: usize,
    /// Seconds for an upload.
    #[serde(deserialize_with = "units::seconds")]
    pub upload_seconds: u64,
    /// Seconds after which a registration is forgotten that its owner has not used; 0 for never.
    #[serde(deserialize_with = "units::seconds")]
    pub registration_seconds: u64,
    /// Jobs of a registration.
    pub jobs: u32,
    /// Jobs that wait, of all registrations.
    pub jobs_waiting: usize,
    /// Messages of a job.
    pub job_messages: u64,
    /// Bytes of memory for the digests of jobs that share a pass.
    #[serde(deserialize_with = "units::bytes")]
    pub job_memory_bytes: u64,
    /// Seconds for which a finished job is kept.
    #[serde(deserialize_with = "units::seconds")]
    pub job_seconds: u64,
    /// Seconds for which the id of a message is remembered.
    #[serde(deserialize_with = "units::seconds")]
    pub id_seconds: u64,
    /// Fetch queries that wait.
    pub fetches_waiting: usize,
    /// Bytes of memory for fetch queries while they are answered, and for their answers until they are sent.
    #[serde(deserialize_with = "units::bytes")]
    pub fetch_memory_bytes: u64,
    /// Queries to the directory that wait.
    pub searches_waiting: usize,
    /// Bytes of memory for queries to the directory while they are answered. As many as fit share a pass.
    #[serde(deserialize_with = "units::bytes")]
    pub search_memory_bytes: u64,
    /// Requests of a network address a second; ten times as many at once.
    pub requests_per_address: u32,
    /// Requests with a token a second; ten times as many at once.
    pub requests_per_key: u32,
    /// Bytes of the disk that stay free.
    #[serde(deserialize_with = "units::bytes")]
    pub disk_reserve_bytes: u64,
    /// Recipients that share a pass over the messages: about 5 MiB of memory each.
    pub keys_per_pass: usize,
    /// Bytes of prepared detection keys that are kept between passes.
    #[serde(deserialize_with = "units::bytes")]
    pub prepared_key_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 1024,
            header_seconds: 15,
            body_seconds: 20,
            body_bytes_per_second: 16 << 10,
            idle_seconds: 30,
            body_memory_bytes: 256 << 20,
            batch_messages: 256,
            batch_bytes: 8 << 20,
            posts_waiting: 1024,
            page_messages: 4096,
            page_bytes: 4 << 20,
            upload_part_bytes: 8 << 20,
            keys: 10_000,
            uploads: 1_000,
            uploads_per_network: 100,
            upload_seconds: 24 * 3600,
            registration_seconds: 30 * 24 * 3600,
            jobs: 16,
            jobs_waiting: 4096,
            job_messages: 1 << 20,
            job_memory_bytes: 256 << 20,
            job_seconds: 24 * 3600,
            id_seconds: 4 * 24 * 3600,
            fetches_waiting: 256,
            fetch_memory_bytes: 96 << 20,
            searches_waiting: 64,
            search_memory_bytes: 256 << 20,
            requests_per_address: 1000,
            requests_per_key: 50,
            disk_reserve_bytes: 128 << 20,
            keys_per_pass: 32,
            prepared_key_bytes: 512 << 20,
        }
    }
}

impl Config {
    /// Reads a file, if there is one to read, and then the environment: `RESTANTE_LISTEN` is the field `listen`, and
    /// `RESTANTE_LIMITS__KEYS` the field `keys` of `limits`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Config`] with the field's name, [`ServerError::Io`].
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ServerError> {
        let wrong = |error: &dyn std::fmt::Display| ServerError::Config(error.to_string());
        let mut table = match file {
            None => toml::Table::new(),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(ServerError::io("read", path))?;
                text.parse().map_err(|error| wrong(&format!("{}: {error}", path.display())))?
            }
        };
        for (name, value) in environment {
            if let Some(field) = name.strip_prefix("RESTANTE_") {
                set(&mut table, &name, &field.to_lowercase(), &value)?;
            }
        }
        let config: Self = serde_path_to_error::deserialize(toml::Value::Table(table))
            .map_err(|error| wrong(&format!("{}: {}", error.path(), error.inner())))?;
        config.validate()?;
        Ok(config)
    }

    /// Whether only holders of a credential may register.
    pub fn needs_credential(&self) -> bool {
        match self.registration.policy {
            Registration::Auto => !self.listen.ip().is_loopback(),
            Registration::Open => false,
            Registration::Credential => true,
        }
    }

    /// The name of a setting that is 0 and may not be.
    fn zero(&self) -> Option<&'static str> {
        let limits = &self.limits;
        let at_least_one = [
            ("limits.connections", limits.connections),
            ("limits.connections_per_address", limits.connections_per_address),
            ("limits.batch_messages", limits.batch_messages as usize),
            ("limits.posts_waiting", limits.posts_waiting),
            ("limits.page_messages", limits.page_messages as usize),
            ("limits.upload_part_bytes", limits.upload_part_bytes as usize),
            ("limits.body_bytes_per_second", limits.body_bytes_per_second as usize),
            ("limits.jobs_waiting", limits.jobs_waiting),
            ("limits.fetches_waiting", limits.fetches_waiting),
            ("limits.searches_waiting", limits.searches_waiting),
            ("limits.keys_per_pass", limits.keys_per_pass),
            ("limits.uploads_per_network", limits.uploads_per_network),
            ("limits.requests_per_address", limits.requests_per_address as usize),
            ("limits.requests_per_key", limits.requests_per_key as usize),
            ("limits.idle_seconds", limits.idle_seconds as usize),
            ("directory.seconds", self.directory.as_ref().map_or(1, |one| one.seconds as usize)),
        ];
        at_least_one.into_iter().find(|(_, value)| *value == 0).map(|(name, _)| name)
    }

    pub(crate) fn validate(&self) -> Result<(), ServerError> {
        let refuse = |reason: String| Err(ServerError::Config(reason));
        let limits = &self.limits;
        if let Some(name) = self.zero() {
            return refuse(format!("{name} is 0, expected at least 1"));
        }
        // What comes in is there twice while it is read, and so is what goes out while it is put together.
        let largest = 2 * limits.batch_bytes.max(limits.page_bytes + (1 << 20));
        if limits.body_memory_bytes < largest || limits.body_memory_bytes > u64::from(u32::MAX) {
            let found = limits.body_memory_bytes;
            return refuse(format!(
                "limits.body_memory_bytes is {found}, expected {largest} to {}",
                u32::MAX
            ));
        }
        // A message may come for three days; one that comes again is to be answered as it was the first time.
        let least = 3 * Period::LENGTH.as_secs();
        if limits.id_seconds < least {
            let found = limits.id_seconds;
            return refuse(format!("limits.id_seconds is {found}, expected at least {least}"));
        }
        let most = restante_omr::stream::StreamDigest::MAX_MESSAGES;
        if !(1..=most).contains(&limits.job_messages) {
            return refuse(format!("limits.job_messages is {}, expected 1 to {most}", limits.job_messages));
        }
        let most = restante_omr::compact::CompactParameters::MAX_MESSAGES;
        if !(1..=most).contains(&self.compact.job_messages) {
            let found = self.compact.job_messages;
            return refuse(format!("compact.job_messages is {found}, expected 1 to {most}"));
        }
        let most = limits.keys_per_pass as u64;
        let least = 64 << 20;
        if limits.job_memory_bytes < least {
            let found = limits.job_memory_bytes;
            return refuse(format!(
                "limits.job_memory_bytes is {found}, expected at least {least} ({most} keys share a pass)"
            ));
        }
        if let Some(mirror) = &self.mirror {
            mirror.proxy_address()?;
        }
        self.fetch.as_ref().map_or(Ok(()), FetchConfig::validate)
    }
}

/// Sets one field from the environment. Numbers and truth values are read as what they look like.
fn set(table: &mut toml::Table, name: &str, field: &str, value: &str) -> Result<(), ServerError> {
    match field.split_once("__") {
        Some((outer, inner)) => {
            let entry = table.entry(outer).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            match entry {
                toml::Value::Table(table) => set(table, name, inner, value),
                _ => Err(ServerError::Config(format!("{name}: {outer} has no fields"))),
            }
        }
        None => {
            let value = match (value.parse(), value.parse()) {
                (Ok(number), _) => toml::Value::Integer(number),
                (_, Ok(truth)) => toml::Value::Boolean(truth),
                _ => toml::Value::String(value.into()),
            };
            table.insert(field.into(), value);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, ServerError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Config::load(Some(file.path()), environment)
    }

    #[test]
    fn the_environment_goes_over_the_file_and_the_file_over_the_defaults() {
        let text = "listen = \"127.0.0.1:1\"\n[limits]\nkeys = 5\njobs = 6\n";
        let environment = [
            ("RESTANTE_LIMITS__KEYS", "7"),
            ("RESTANTE_DATA", "/srv/relay"),
            ("RESTANTE_COMPACT__ENABLED", "true"),
        ];
        let config = load(text, &environment).unwrap();
        assert_eq!((config.limits.keys, config.limits.jobs), (7, 6));
        assert_eq!((config.listen.port(), config.data.to_str()), (1, Some("/srv/relay")));
        assert!(config.compact.enabled && !Config::default().compact.enabled);
        assert_eq!(config.operations, Config::default().operations);
        assert_eq!(Config::load(None, []).unwrap(), Config::default());
    }

    #[test]
    fn errors_name_the_field() {
        let mirror = |url: &str, proxy: &str| {
            let proxy = if proxy.is_empty() { String::new() } else { format!("proxy = {proxy:?}\n") };
            format!("[mirror]\nurl = {url:?}\nrelay = {:?}\n{proxy}", "0".repeat(64))
        };
        for (text, environment, field) in [
            ("[limits]\nkeyz = 5\n", ("A", "b"), "keyz"),
            ("[limits]\nkeys = \"five\"\n", ("A", "b"), "limits.keys"),
            ("", ("RESTANTE_LIMITS__JOBS", "many"), "limits.jobs"),
            ("", ("RESTANTE_LISTEN__PORT", "1"), "listen"),
            ("", ("RESTANTE_LIMITS__KEYS_PER_PASS", "0"), "limits.keys_per_pass"),
            ("", ("RESTANTE_REGISTRATION__POLICY", "closed"), "registration.policy"),
            ("[directory]\npath = \"a\"\nseconds = 0\n", ("A", "b"), "directory.seconds"),
            ("[compact]\njob_messages = 786433\n", ("A", "b"), "compact.job_messages"),
            (
                "[fetch]\nrecord_bytes = 9\npart = \"clue\"\nmessages = 8\nwindow = 8\nseconds = 59\n",
                ("A", "b"),
                "fetch.seconds",
            ),
            ("", ("RESTANTE_COMPACT__ENABLED", "yes"), "compact.enabled"),
            // Only code can choose it.
            ("", ("RESTANTE_COMPACT__INSECURE_FOR_TESTS", "true"), "insecure_for_tests"),
            ("[limits]\nbody_memory_bytes = 5\n", ("A", "b"), "limits.body_memory_bytes"),
            (&mirror("https://relay.example", "nonsense://x"), ("A", "b"), "mirror.proxy"),
            (&mirror("https://relay.example", "socks5://user:secret@h:1"), ("A", "b"), "mirror.proxy"),
            (&mirror("https://relay.example", "socks5://h"), ("A", "b"), "mirror.proxy"),
            (&mirror("http://abc.onion:80", ""), ("A", "b"), "mirror.proxy"),
        ] {
            let error = load(text, &[environment]).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }

    #[test]
    fn amounts_may_have_units() {
        let text = "standing_seconds = \"1 min\"\n[retention]\nseconds = \"30 days\"\nbytes = \"10 GB\"\n\
                    [limits]\nbody_memory_bytes = \"1 GiB\"\nid_seconds = 345600\n\
                    [fetch]\nrecord_bytes = \"4.2 kB\"\npart = \"message\"\nmessages = 8\nwindow = 64\nseconds = \"15 min\"\n";
        let config = load(text, &[("RESTANTE_LIMITS__DISK_RESERVE_BYTES", "2 GB")]).unwrap();
        assert_eq!(config.standing_seconds, 60);
        let expected = RetentionConfig { seconds: Some(30 * 86_400), bytes: Some(10_000_000_000) };
        assert_eq!(config.retention, expected);
        let limits = &config.limits;
        assert_eq!((limits.body_memory_bytes, limits.id_seconds), (1 << 30, 345_600));
        assert_eq!(limits.disk_reserve_bytes, 2_000_000_000);
        let fetch = config.fetch.unwrap();
        assert_eq!((fetch.record_bytes, fetch.seconds), (4200, 900));
        for (text, field, expected) in [
            ("[retention]\nbytes = \"10 GX\"\n", "retention.bytes", "GiB"),
            ("[retention]\nseconds = \"1 month\"\n", "retention.seconds", "days"),
            ("[retention]\nbytes = -1\n", "retention.bytes", "number of bytes"),
            ("[limits]\njob_seconds = 1.5\n", "limits.job_seconds", "number of seconds"),
            ("[mirror]\nurl = \"http://a\"\nrelay = \"00\"\nseconds = \"soon\"\n", "mirror", "min"),
        ] {
            let error = load(text, &[]).unwrap_err().to_string();
            assert!(error.contains(field) && (error.contains(expected) || field == "mirror"), "{error}");
        }
        // Beyond what a record may have.
        let text = "[fetch]\nrecord_bytes = \"5 GB\"\npart = \"message\"\nmessages = 8\nwindow = 64\n";
        assert!(load(text, &[]).unwrap_err().to_string().contains("fetch.record_bytes"));
    }

    /// The configuration to start from has the defaults, and it and the document have every field.
    #[test]
    fn no_field_is_missing_from_the_example_and_the_document() {
        let example = include_str!("../../../deploy/relay.toml");
        let document = include_str!("../../../docs/operating.md");
        let data = "/var/lib/restante".into();
        assert_eq!(load(example, &[]).unwrap(), Config { data, ..Config::default() });
        // With everything that is off.
        let on: String = example
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with('[')))
            .zip(example.lines())
            .map(|(on, line)| format!("{}\n", on.unwrap_or(line)))
            .filter(|line| !line.starts_with('#'))
            .collect();
        let all = serde_json::to_value(load(&on, &[]).unwrap()).unwrap();
        let given: toml::Table = on.parse().unwrap();
        let mut fields = 0;
        for (name, value) in all.as_object().unwrap() {
            let (section, inside) = match value.as_object() {
                Some(inside) => (given.get(name).and_then(toml::Value::as_table), inside.clone()),
                None => (Some(&given), [(name.clone(), value.clone())].into_iter().collect()),
            };
            for (field, value) in inside {
                let names = [format!("`{field}`"), format!(".{field}`")];
                assert!(!value.is_null(), "{name}.{field} is not given in the example");
                let is_given = section.is_some_and(|section| section.contains_key(&field));
                assert!(is_given, "{name}.{field} is missing from the example");
                let is_told = names.iter().any(|name| document.contains(name.as_str()));
                assert!(is_told, "{name}.{field} is missing from the document");
                fields += 1;
            }
        }
        assert!(fields > 50, "{fields}");
    }

    #[test]
    fn only_this_machine_can_connect_unless_somebody_says_so() {
        let config = Config::default();
        assert!(config.listen.ip().is_loopback() && config.operations.ip().is_loopback());
    }
}
