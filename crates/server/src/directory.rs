//! A directory of addresses: read from a folder or a file, sorted for private search.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::SystemTime;

use restante_letter::Address;
use restante_letter::directory::{self, ANSWER_NOTE_BYTES, Entry, QUERY_NOTE_BYTES};
use restante_pir::search::{
    AnswerNote, ChunkSource, Cut, Plan, RecordSizes, Scheme, SelectorHash, SelectorKind, Shape, Window,
    WindowBuilder, WindowLimits,
};
use restante_ring::Backend;
use restante_wire::ParameterId;
use restante_wire::relay::{DirectoryInfo, Hex};

use crate::files::read_limited;
use crate::locks::{read, write};
use crate::{DirectoryConfig, ServerError};

/// Queries that share a pass, if there is memory for so many.
const QUERIES: usize = 16;
/// Bytes of the longest address file that is read.
const FILE_BYTES: u64 = 64 << 10;
/// Bytes of the longest table of addresses that is read.
const TABLE_BYTES: u64 = 256 << 20;
const EXTENSION: &str = "address";

/// Names the files, of a folder or alone, and says which are new.
type Listing = Vec<(OsString, u64, Option<SystemTime>)>;

/// A directory as it was at one time.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) info: DirectoryInfo,
    pub(crate) shape: Shape,
    pub(crate) window: Window,
    /// The note that every query has to carry.
    pub(crate) query_note: Vec<u8>,
    pub(crate) answer_note: Vec<u8>,
    /// The most queries of a pass.
    pub(crate) queries: usize,
    listing: Listing,
}

/// The directory, read again when it has changed.
#[derive(Debug)]
pub(crate) struct Directories {
    path: PathBuf,
    /// Of the addresses.
    parameters: ParameterId,
    scheme: Scheme,
    threads: usize,
    memory: u64,
    current: RwLock<Arc<Directory>>,
}

impl Directories {
    /// Reads the directory; whatever is wrong with one file is an error.
    pub(crate) fn load(
        config: &DirectoryConfig,
        parameters: ParameterId,
        backend: &str,
        threads: usize,
        memory: u64,
    ) -> Result<Self, ServerError> {
        let backend = match backend {
            "" => Backend::best(),
            name => name.parse().map_err(|error| ServerError::Config(format!("backend: {error}")))?,
        };
        let scheme = Scheme::new(directory::preset(), backend)?;
        let path = config.path.clone();
        let first = Directory::load(&path, list(&path)?, parameters, &scheme, threads, memory)?;
        let current = RwLock::new(Arc::new(first));
        Ok(Self { path, parameters, scheme, threads, memory, current })
    }

    pub(crate) fn current(&self) -> Arc<Directory> {
        read(&self.current).clone()
    }

    pub(crate) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Reads the directory again if a file came, went or changed. After an error the directory stays as it was.
    pub(crate) fn refresh(&self) -> Result<(), ServerError> {
        let listing = list(&self.path)?;
        if listing == self.current().listing {
            return Ok(());
        }
        let (parameters, scheme) = (self.parameters, &self.scheme);
        let new = Directory::load(&self.path, listing, parameters, scheme, self.threads, self.memory)?;
        tracing::info!(entries = new.info.entries, "the directory was read again");
        *write(&self.current) = Arc::new(new);
        Ok(())
    }
}

impl Directory {
    fn load(
        path: &Path,
        listing: Listing,
        parameters: ParameterId,
        scheme: &Scheme,
        threads: usize,
        memory: u64,
    ) -> Result<Self, ServerError> {
        let records = records(path, &listing, parameters)?;
        let sizes = RecordSizes {
            records: records.len() as u64,
            mean_bytes: records.iter().map(|(_, record)| record.len() as f64).sum::<f64>()
                / records.len().max(1) as f64,
            max_bytes: records.iter().map(|(_, record)| record.len() as u64).max().unwrap_or(0),
            max_hits: 1,
            kind: SelectorKind::Bytes,
        };
        // A chunk has the same size for every number of buckets.
        let chunk_bytes = Shape::new(restante_pir::search::MIN_HASH_BITS, 1)?.chunk_bytes(scheme.preset());
        let hash_bits = Plan::recommend(&sizes, chunk_bytes)?.hash_bits;
        // New for each version: whoever puts a name into the directory cannot know with whose it will share a bucket.
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|error| ServerError::Environment(format!("no random bytes: {error}")))?;
        let (hash, shape) =
            (SelectorHash::new(SelectorKind::Bytes, hash_bits, key)?, Shape::new(hash_bits, 1)?);
        let window = window(path, &records, Cut { hash: hash.clone(), chunk_bytes })?;
        let columns = window.columns();
        let queries = queries_of_pass(scheme, &shape, columns, threads, memory)?;
        let version = blake3::derive_key("restante/1/directory/version", &key);
        let info = DirectoryInfo {
            version: Hex(std::array::from_fn(|place| version[place])),
            entries: sizes.records,
            schema: directory::schema()?.into(),
            parameters: scheme.preset().id().into(),
            hash_bits,
            hash_key: Hex(key),
            columns,
            query_bytes: shape.query_bytes(scheme, 1, QUERY_NOTE_BYTES) as u64,
            answer_bytes: shape.answer_bytes(scheme, 1, columns, ANSWER_NOTE_BYTES) as u64,
        };
        tracing::info!(entries = info.entries, hash_bits, columns, queries, "directory");
        let answer_note = AnswerNote { records: sizes.records, ..AnswerNote::default() }.to_bytes();
        let query_note = directory::query_note(&hash)?;
        Ok(Self { info, shape, window, query_note, answer_note, queries, listing })
    }
}

/// Selectors and records of all entries. Nothing is left out: what is wrong with one is an error.
fn records(
    path: &Path,
    listing: &Listing,
    parameters: ParameterId,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ServerError> {
    let entries =
        if path.is_file() { read_table(path, parameters)? } else { read_folder(path, listing, parameters)? };
    let mut records = Vec::with_capacity(entries.len());
    let mut taken: HashMap<Vec<u8>, String> = HashMap::new();
    for Read { place, selector, record } in entries {
        if let Some(other) = taken.insert(selector.clone(), place.clone()) {
            return Err(ServerError::Format {
                path: path.into(),
                found: format!("one where {place:?} is for the same name as {other:?}"),
                expected: "one address for a name; A to Z are a to z".into(),
            });
        }
        records.push((selector, record));
    }
    Ok(records)
}

/// The records in buckets.
fn window(path: &Path, records: &[(Vec<u8>, Vec<u8>)], cut: Cut) -> Result<Window, ServerError> {
    let mut builder = WindowBuilder::new(&[cut], WindowLimits::default())?;
    for (selector, record) in records {
        builder.push(selector, record)?;
    }
    let Some(window) = builder.seal()?.pop() else {
        return Err(ServerError::Environment("a window for no query".into()));
    };
    let columns = window.columns();
    if columns > directory::MAX_COLUMNS {
        return Err(ServerError::Format {
            path: path.into(),
            found: format!("a directory whose answers have {columns} columns"),
            expected: format!("at most {}", directory::MAX_COLUMNS),
        });
    }
    Ok(window)
}

/// The most queries for whose pass there is memory.
fn queries_of_pass(
    scheme: &Scheme,
    shape: &Shape,
    columns: u32,
    threads: usize,
    memory: u64,
) -> Result<usize, ServerError> {
    let need = |queries: usize| {
        let prepared = shape.prepared_bytes(scheme.preset(), 1, true);
        // Queries are prepared one after the other, and then answered together.
        let preparing = shape.preparing_bytes(scheme.preset(), threads);
        let working = shape.working_bytes(scheme.preset(), queries, columns, threads);
        (queries * prepared + preparing.max(working)) as u64
    };
    (1..=QUERIES).rev().find(|&queries| need(queries) <= memory).ok_or_else(|| {
        ServerError::Config(format!(
            "limits.search_memory_bytes is {memory}, expected at least {} for this directory",
            need(1)
        ))
    })
}

/// The files of a folder, sorted. Those whose name starts with a dot are left out: they are being written.
fn list(folder: &Path) -> Result<Listing, ServerError> {
    let mut listing = Vec::new();
    let data = std::fs::metadata(folder).map_err(ServerError::io("read", folder))?;
    if data.is_file() {
        let name = folder.file_name().unwrap_or_default().to_owned();
        return Ok(vec![(name, data.len(), data.modified().ok())]);
    }
    for entry in std::fs::read_dir(folder).map_err(ServerError::io("list", folder))? {
        let entry = entry.map_err(ServerError::io("list", folder))?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let data = std::fs::metadata(&path).map_err(ServerError::io("read", &path))?;
        if !data.is_file() {
            return Err(ServerError::Format {
                path,
                found: "no file".into(),
                expected: format!("files NAME.{EXTENSION} alone"),
            });
        }
        listing.push((entry.file_name(), data.len(), data.modified().ok()));
    }
    listing.sort();
    Ok(listing)
}

/// An entry, and where it was.
struct Read {
    place: String,
    selector: Vec<u8>,
    record: Vec<u8>,
}

fn read_folder(folder: &Path, listing: &Listing, parameters: ParameterId) -> Result<Vec<Read>, ServerError> {
    let read = listing.iter().map(|(file, bytes, _)| {
        let path = folder.join(file);
        let wrong =
            |found: String, expected: String| ServerError::Format { path: path.clone(), found, expected };
        let name = path.extension().filter(|extension| *extension == EXTENSION).and(path.file_stem());
        let name = name.and_then(|name| name.to_str());
        let name = name.ok_or_else(|| wrong("named otherwise".into(), "NAME.address, in UTF-8".into()))?;
        if *bytes > FILE_BYTES {
            return Err(wrong(format!("{bytes} bytes long"), "an address file".into()));
        }
        let address = std::fs::read(&path).map_err(ServerError::io("read", &path))?;
        let (selector, record) =
            entry(name, &address, parameters).map_err(|(found, expected)| wrong(found, expected))?;
        Ok(Read { place: file.to_string_lossy().into_owned(), selector, record })
    });
    read.collect()
}

/// A file of names, each with its address in hexadecimal (TOML).
fn read_table(path: &Path, parameters: ParameterId) -> Result<Vec<Read>, ServerError> {
    parse_table(path, read_limited(path, TABLE_BYTES)?, parameters)
}

/// Whatever the bytes of such a file are: an answer.
pub(crate) fn try_table(bytes: &[u8], parameters: ParameterId) {
    let _ = parse_table(Path::new("table"), bytes.to_vec(), parameters);
}

fn parse_table(path: &Path, bytes: Vec<u8>, parameters: ParameterId) -> Result<Vec<Read>, ServerError> {
    let wrong = |found: String, expected: String| ServerError::Format { path: path.into(), found, expected };
    let text = String::from_utf8(bytes).map_err(|_| wrong("no text".into(), "TOML, in UTF-8".into()))?;
    // The error's text may show what is in the file.
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let place = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(place).filter(|&byte| byte == b'\n').count();
        wrong(format!("something else in line {line}"), "TOML: name = \"address in hexadecimal\"".into())
    })?;
    let read = table.into_iter().map(|(name, value)| {
        let here = |(found, expected): (String, String)| wrong(format!("{found} at {name:?}"), expected);
        let digits = value.as_str().and_then(from_hex);
        let expected = || ("no hexadecimal text".into(), "an address file in hexadecimal".into());
        let address = digits.ok_or_else(expected).map_err(here)?;
        let (selector, record) = entry(&name, &address, parameters).map_err(here)?;
        Ok(Read { place: name.clone(), selector, record })
    });
    read.collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

/// The selector and the record of an address file under a name; otherwise what was found and what was expected.
fn entry(name: &str, file: &[u8], parameters: ParameterId) -> Result<(Vec<u8>, Vec<u8>), (String, String)> {
    let refused =
        |error: restante_letter::LetterError| (format!("refused ({error})"), "an address file".into());
    let address = Address::from_file(file).map_err(refused)?;
    if address.parameters().id() != parameters {
        let found = format!("for clue parameters {}", address.parameters().id());
        return Err((found, format!("an address for those of the board, {parameters}")));
    }
    let entry = Entry::new(name, address).map_err(refused)?;
    let record = entry.to_record().map_err(refused)?;
    Ok((directory::selector(name).map_err(refused)?, record))
}
