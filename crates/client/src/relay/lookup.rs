//! Finding an address by name without telling the relay for which name.

use rand_core::CryptoRng;
use restante_pir::search::{Query, QueryState, Reading, Scheme, SearchAnswer, SelectorHash};
use restante_ring::Backend;
use restante_wire::{
    ParameterId,
    relay::{DirectoryInfo, media},
};
use zeroize::Zeroizing;

use super::{Machine, Method, RelayError, Reply, Request, Retries, Side, Step, exchange::Attempts};
use crate::{
    Address, LetterError,
    directory::{self, Entry},
};

const SIDE: Side = Side::First;
/// How often a query is made anew because the directory has changed since it was described.
const VERSIONS: u32 = 3;

/// An answer of a directory about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// An address. Whether it is the right one, its fingerprint tells, compared with the one that its owner says.
    Found(Box<Address>),
    /// The directory has no such name.
    NotFound,
    /// No honest relay sends such an answer.
    Unreadable {
        /// The fault in it.
        reason: String,
    },
}

/// Looks a name up in a relay's directory: one request for what the directory is like, one query.
///
/// Number, order and sizes of the requests depend on the directory and the network's failures, never on the name nor on
/// whether it is there, and the query hides the name (docs/search.md). What [`LookupMachine::outcome`] says must not go back to the
/// relay, not even as a complaint: write to the address from another connection, or later.
///
/// ```no_run
/// # use rand_core::CryptoRng;
/// use restante_client::{Backend, relay::*};
///
/// # fn example<H: Host<Error = std::io::Error>>(
/// #     host: &mut H, rng: &mut impl CryptoRng,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut machine = LookupMachine::new("alice", Backend::best(), Retries::default())?;
/// Driver::new().run(&mut machine, host, rng, |_| Ok(()))?;
/// if let Some(Lookup::Found(address)) = machine.outcome() {
///     // To be compared with what the owner says, over another channel.
///     println!("{}", address.fingerprint());
/// }
/// # Ok(())
/// # }
/// ```
pub struct LookupMachine {
    scheme: Scheme,
    selector: Zeroizing<Vec<u8>>,
    attempts: Attempts,
    versions: u32,
    state: State,
}

enum State {
    Directory,
    Search(Box<Asked>),
    Done(Lookup),
}

struct Asked {
    hash: SelectorHash,
    secret: QueryState,
    version: String,
    query: Vec<u8>,
    answer_bytes: u64,
    columns: u32,
}

impl LookupMachine {
    /// A machine that looks for `name`, compared byte by byte except that A to Z are a to z.
    ///
    /// # Errors
    ///
    /// [`RelayError::Client`] for what cannot be a name, [`RelayError::Pir`] for a back end that is not available.
    pub fn new(name: &str, backend: Backend, retries: Retries) -> Result<Self, RelayError> {
        let selector = Zeroizing::new(directory::selector(name)?);
        let scheme = Scheme::new(directory::preset(), backend)?;
        let attempts = Attempts::new(retries);
        Ok(Self { scheme, selector, attempts, versions: 0, state: State::Directory })
    }

    /// The result, once [`LookupMachine::step`] says [`Step::Done`].
    pub fn outcome(&self) -> Option<&Lookup> {
        match &self.state {
            State::Done(lookup) => Some(lookup),
            State::Directory | State::Search(_) => None,
        }
    }

    fn request(&self) -> Option<Request> {
        match &self.state {
            State::Directory => Some(Request::new(SIDE, Method::Get, "/v1/directory").accept(media::JSON)),
            State::Search(asked) => Some(
                Request::new(SIDE, Method::Post, format!("/v1/search?version={}", asked.version))
                    .accept(media::SEARCH_ANSWER)
                    .body(media::SEARCH_QUERY, asked.query.clone())
                    .at_most(asked.answer_bytes),
            ),
            State::Done(_) => None,
        }
    }
}

impl Machine for LookupMachine {
    fn step(&mut self) -> Step {
        self.attempts.wait().map_or_else(|| self.request().into(), Step::Wait)
    }

    /// As [`Machine::respond`] says.
    ///
    /// # Errors
    ///
    /// [`RelayError::Refused`] if the relay has no directory, or one that changes all the time, and others if the directory is for
    /// other parameters. None that depends on the name.
    fn respond(&mut self, reply: Reply, _now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let limit = match &self.state {
            State::Directory => super::exchange::JSON_BYTES_MAX,
            State::Search(asked) => asked.answer_bytes,
            State::Done(_) => return Ok(()),
        };
        let Some(response) = self.attempts.judge(reply, limit, rng)? else { return Ok(()) };
        if response.status == 409 && matches!(self.state, State::Search(_)) && self.versions < VERSIONS {
            self.state = State::Directory;
            return Ok(());
        }
        if response.status != 200 {
            return Err(response.refusal());
        }
        self.state = match &self.state {
            State::Directory => {
                self.versions += 1;
                State::Search(Box::new(self.ask(&response.json("the directory")?, rng)?))
            }
            State::Search(asked) => State::Done(self.read(asked, &response.body)),
            State::Done(_) => return Ok(()),
        };
        Ok(())
    }
}

impl LookupMachine {
    fn ask(&self, info: &DirectoryInfo, rng: &mut impl CryptoRng) -> Result<Asked, RelayError> {
        let (found, expected) = (ParameterId(info.parameters.0), self.scheme.preset().id());
        if found != expected {
            return Err(RelayError::Parameters { what: "searches", side: SIDE, found, expected });
        }
        let schema = directory::schema()?;
        if info.schema != schema.into() {
            let what = "the schema of the directory";
            return Err(RelayError::unexpected(SIDE, what, info.schema, schema));
        }
        if info.columns > directory::MAX_COLUMNS {
            let expected = format!("at most {}", directory::MAX_COLUMNS);
            let what = "the number of columns of the directory";
            return Err(RelayError::unexpected(SIDE, what, info.columns, expected));
        }
        let (hash, shape) = directory::query_shape(info)?;
        let bucket = hash.locate(&self.selector).bucket;
        let (secret, query) =
            Query::new(&self.scheme, shape, &[bucket], &directory::query_note(&hash)?, &[], rng)?;
        let answer_bytes =
            shape.answer_bytes(&self.scheme, 1, info.columns, directory::ANSWER_NOTE_BYTES) as u64;
        let (version, columns) = (info.version.to_string(), info.columns);
        Ok(Asked { hash, secret, version, query: query.to_file(&self.scheme), answer_bytes, columns })
    }

    fn read(&self, asked: &Asked, file: &[u8]) -> Lookup {
        self.open(asked, file).unwrap_or_else(|error| Lookup::Unreadable { reason: error.to_string() })
    }

    fn open(&self, asked: &Asked, file: &[u8]) -> Result<Lookup, RelayError> {
        let refuse = |reason: &str| RelayError::Client(LetterError::Entry { reason: reason.into() });
        let answer = SearchAnswer::from_file(&self.scheme, file)?;
        if answer.columns() != asked.columns {
            return Err(refuse("the answer is not of the size that the directory says"));
        }
        let opened = asked.secret.open(&self.scheme, &answer)?;
        let mut reading = Reading::new(&asked.hash, &[self.selector.as_slice()]);
        for chunk in opened.chunks(0) {
            reading.push(0, chunk)?;
        }
        let found = reading.finish().into_iter().next().ok_or_else(|| refuse("nothing came back"))??;
        if !found.is_complete() {
            return Err(refuse("some of the entries were left out"));
        }
        match found.records.as_slice() {
            [] => Ok(Lookup::NotFound),
            [record] => {
                let entry = Entry::from_record(record)?;
                if directory::selector(entry.name())? == *self.selector {
                    Ok(Lookup::Found(Box::new(entry.address().clone())))
                } else {
                    Err(refuse("it is of another name"))
                }
            }
            _ => Err(refuse("there are several entries of that name, expected one")),
        }
    }
}

/// Without the name.
impl std::fmt::Debug for LookupMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookupMachine").field("attempts", &self.attempts).finish_non_exhaustive()
    }
}
