//! Handing a detection key to a relay.

use rand_core::CryptoRng;
use restante_wire::{
    Decode, Encode, Reader, WireError,
    relay::{
        Credential, DigestKind, Hex, KeyId, KeyState, KeyStatus, RegisterRequest, Registered, RelayInfo,
        StandingRequest, Token, headers, media,
    },
};
use zeroize::Zeroizing;

use super::{
    KnownRelay, Machine, Method, RelayError, Reply, Request, Response, Retries, Side, Step,
    checks::{check_board, check_digests},
    exchange::Attempts,
};
use crate::{Account, KeyFile};

/// A detection key at a relay, and the token that owns it. Secret.
///
/// The token is the relay's choice and not derived from the account's seed: after a loss the same key is registered again, and the
/// relay keeps the old registration, of no use to anybody, until its operator removes it.
#[derive(Debug, Clone)]
pub struct Registration {
    key: KeyId,
    token: Token,
    first: u64,
    complete: bool,
    standing: bool,
}

impl Registration {
    /// The key's id.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// The token.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Whether the relay has the whole key and makes digests with it.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether the relay works ahead for this key. It may refuse that for compact digests, which then take longer.
    pub fn is_standing(&self) -> bool {
        self.standing
    }

    /// Index of the first message that digests were ordered for.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/v1/keys/{}{rest}", self.key)
    }
}

impl Encode for Registration {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key.0);
        out.extend_from_slice(Zeroizing::new(self.token.reveal()).as_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.push(self.complete.into());
        out.push(self.standing.into());
    }
}

/// `rst1_` and 64 digits.
const TOKEN_BYTES: usize = 69;

impl Decode for Registration {
    const WHAT: &'static str = "registration";

    fn decode((): &(), reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let key = KeyId(reader.array()?);
        let token = Zeroizing::new(reader.array::<TOKEN_BYTES>()?);
        let token = std::str::from_utf8(&*token).ok().and_then(|token| token.parse().ok());
        let malformed =
            || WireError::OutOfRange { what: "token", found: 0, expected: "rst1_ and 64 digits".into() };
        let token = token.ok_or_else(malformed)?;
        let (first, complete) = (reader.u64()?, reader.flag()?);
        Ok(Self { key, token, first, complete, standing: reader.flag()? })
    }
}

/// Registers a detection key, uploads it, and orders digests of all messages from an index on.
///
/// ```no_run
/// # use rand_core::CryptoRng;
/// use restante_client::{Account, Backend, Detection, DigestKind, relay::*};
///
/// # fn example<H: Host<Error = std::io::Error>>(
/// #     account: &Account, mut state: SyncState, host: &mut H, rng: &mut impl CryptoRng,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let detection = Detection::new(account, Backend::best())?;
/// let (known, first) = (*state.relay(Side::First), state.complete_to());
/// let mut machine = RegisterMachine::new(detection.upload(), known, None, first, Retries::default());
/// let ended = Driver::new().run(&mut machine, host, rng, |machine: &RegisterMachine<'_>| {
///     state.set_registration(DigestKind::Stream, machine.registration().cloned());
///     std::fs::write("state", state.to_file())
/// });
/// // The relay gives a token once: it was kept, whatever came after it.
/// ended?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RegisterMachine<'a> {
    key: KeyFile<'a>,
    known: KnownRelay,
    first: u64,
    registration: Option<Registration>,
    /// A credential, and the name of what it pays for.
    credential: Option<(Credential, Hex<16>)>,
    attempts: Attempts,
    task: Task,
    part_bytes: u64,
    restarts: u32,
    /// How many answers the relay has given, and how many it may.
    answers: u64,
    answers_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Parameters,
    Register,
    Offset,
    Upload(u64),
    Order,
    /// Looks which standing order there is that is in the way of another.
    Status,
    /// Ends that one.
    EndOrder,
    Done,
}

const SIDE: Side = Side::First;
/// How often it may fail to go on: because the relay says that the bytes were wrong, has others than expected, has lost the
/// registration, or has another standing order.
const MAX_RESTARTS: u32 = 3;
/// A relay that wants the key in more parts than this is refused.
const MAX_PARTS: u64 = 4096;
/// Answers beside those to parts of the key, restarts included.
const OTHER_ANSWERS: u64 = 64;

impl<'a> RegisterMachine<'a> {
    /// A machine that goes on from a registration that is not complete, or starts one. Digests are ordered from message `first` on.
    ///
    /// The bytes of a compact key stay with the caller: what is to be sent then has a [`Request::key_part`].
    pub fn new(
        key: KeyFile<'a>,
        known: KnownRelay,
        registration: Option<Registration>,
        first: u64,
        retries: Retries,
    ) -> Self {
        let registration = registration.filter(|registration| registration.key == key.id());
        let task = if registration.as_ref().is_some_and(Registration::is_complete) {
            Task::Done
        } else {
            Task::Parameters
        };
        let attempts = Attempts::new(retries);
        let credential = None;
        let (part_bytes, restarts, answers, answers_max) = (0, 0, 0, OTHER_ANSWERS);
        Self {
            key,
            known,
            first,
            registration,
            credential,
            attempts,
            task,
            part_bytes,
            restarts,
            answers,
            answers_max,
        }
    }

    /// For a relay that lets only holders of its operator's credentials register. The request's id follows from the account, so that
    /// the same account asks for the same registration again after a crash, and pays for it once.
    pub fn with_credential(mut self, account: &Account, credential: Credential) -> Self {
        let id = account.request_id(&credential, self.key.hash);
        self.credential = Some((credential, id));
        self
    }

    /// The registration, complete or not: to be saved after every answer, whatever came of it.
    pub fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref()
    }

    /// The relay as it is known now: to be saved.
    pub fn known(&self) -> &KnownRelay {
        &self.known
    }

    fn request(&self) -> Option<Request> {
        let KeyFile { kind, parameters, bytes, hash, .. } = self.key;
        let (path, token) = match &self.registration {
            Some(registration) => (registration.path(""), Some(&registration.token)),
            None => (String::new(), None),
        };
        let owned = |method, rest: &str| {
            let request = Request::new(SIDE, method, format!("{path}{rest}")).accept(media::JSON);
            match token {
                Some(token) => request.token(token),
                None => request,
            }
        };
        Some(match self.task {
            Task::Parameters => Request::new(SIDE, Method::Get, "/v1/parameters").accept(media::JSON),
            Task::Register => {
                let body = RegisterRequest { kind, parameters: parameters.into(), bytes, hash };
                let request = Request::new(SIDE, Method::Post, "/v1/keys")
                    .accept(media::JSON)
                    .body(media::JSON, json(&body));
                match &self.credential {
                    Some((credential, id)) => request.credential(credential, id),
                    None => request,
                }
            }
            Task::Offset => owned(Method::Head, "/content"),
            Task::Upload(offset) => {
                let part = offset..offset.saturating_add(self.part_bytes).min(bytes);
                let mut request = owned(Method::Patch, "/content");
                request.headers.push((headers::UPLOAD_OFFSET, offset.to_string()));
                let place = |index| usize::try_from(index).unwrap_or(usize::MAX);
                match self.key.contents {
                    Some(file) => {
                        let part = file.get(place(part.start)..place(part.end)).unwrap_or_default();
                        request.body(media::KEY_PART, part.to_vec())
                    }
                    None => Request { key_part: Some(part), ..request.body(media::KEY_PART, Vec::new()) },
                }
            }
            Task::Order => {
                let body = json(&StandingRequest { first: Some(self.first) });
                owned(Method::Put, "/standing").body(media::JSON, body)
            }
            Task::Status => owned(Method::Get, ""),
            Task::EndOrder => owned(Method::Delete, "/standing"),
            Task::Done => return None,
        })
    }
}

impl Machine for RegisterMachine<'_> {
    fn step(&mut self) -> Step {
        self.attempts.wait().map_or_else(|| self.request().into(), Step::Wait)
    }

    /// As [`Machine::respond`] says.
    ///
    /// # Errors
    ///
    /// [`RelayError`]; what was achieved is in [`RegisterMachine::registration`], which is to be saved after an error, too: the relay
    /// gives a token once.
    fn respond(&mut self, reply: Reply, _now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let Some(request) = self.request() else { return Ok(()) };
        let broken = matches!(reply, Reply::Broken(_));
        let Some(response) = self.attempts.judge(reply, request.answer_bytes_max, rng)? else {
            // How far a part came before it broke off, only the relay knows.
            if broken && matches!(self.task, Task::Upload(_)) {
                self.task = Task::Offset;
            }
            return Ok(());
        };
        // A relay that takes a byte of each part, or has a new reason to go on each time, would keep the client here for ever.
        self.answers += 1;
        if self.answers > self.answers_max {
            let expected = format!("at most {}", self.answers_max);
            return Err(RelayError::unexpected(
                SIDE,
                "number of answers to one registration",
                self.answers,
                expected,
            ));
        }
        self.task = self.next(&response)?;
        Ok(())
    }
}

impl RegisterMachine<'_> {
    /// The task that follows an answer to the present one.
    fn next(&mut self, response: &Response) -> Result<Task, RelayError> {
        Ok(match (self.task, response.status) {
            (Task::Parameters, 200) => self.take_parameters(response)?,
            (Task::Register, 201) => self.take_registration(response)?,
            (Task::Register, 401 | 403) => return Err(response.credential_refusal()),
            (Task::Offset, 200 | 204) => self.continue_at(response.number(headers::UPLOAD_OFFSET)?)?,
            (Task::Upload(offset), 200 | 409 | 422) => self.take_upload(offset, response)?,
            (Task::Order, 200) => self.complete(true),
            // A relay need not work ahead for compact keys.
            (Task::Order, 422) if self.key.kind == DigestKind::Compact => self.complete(false),
            // A registration that was found again, by its credential, may have an order from before.
            (Task::Order, 409) => {
                self.restart(response)?;
                Task::Status
            }
            (Task::Status, 200) => {
                let status: KeyStatus = response.json("the key's status")?;
                match (status.state, status.standing) {
                    (KeyState::Uploading, _) => self.continue_at(status.uploaded)?,
                    (KeyState::Ready, Some(order)) if order.first <= self.first => self.complete(true),
                    (KeyState::Ready, Some(_)) => Task::EndOrder,
                    (KeyState::Ready, None) => Task::Order,
                }
            }
            (Task::EndOrder, 200 | 204 | 404) => Task::Order,
            // Uploads are forgotten after a while.
            (Task::Offset | Task::Upload(_) | Task::Order | Task::Status | Task::EndOrder, 401) => {
                self.restart(response)?;
                self.registration = None;
                Task::Register
            }
            _ => return Err(response.refusal()),
        })
    }

    /// Keeps the token, before anything else in the answer can fail: the relay gives it once.
    fn take_registration(&mut self, response: &Response) -> Result<Task, RelayError> {
        let Registered { token, key } = response.json("the registration")?;
        let expected = self.key.id();
        if key.key != expected {
            return Err(RelayError::unexpected(SIDE, "key's id", key.key, expected));
        }
        let first = self.first;
        self.registration =
            Some(Registration { key: expected, token, first, complete: false, standing: false });
        // A repeated request finds what came of the first.
        match key.state {
            KeyState::Ready => Ok(Task::Order),
            KeyState::Uploading => self.continue_at(key.uploaded),
        }
    }

    /// Goes on after a part that was sent from `offset` on.
    fn take_upload(&mut self, offset: u64, response: &Response) -> Result<Task, RelayError> {
        match response.status {
            200 => {
                let status: KeyStatus = response.json("the key's status")?;
                match status.state {
                    KeyState::Ready => Ok(Task::Order),
                    KeyState::Uploading => {
                        if status.uploaded <= offset {
                            self.restart(response)?;
                        }
                        self.continue_at(status.uploaded)
                    }
                }
            }
            409 => {
                let here = response.number(headers::UPLOAD_OFFSET)?;
                // Everything is there, and has been checked: that was to be found out.
                if offset == self.key.bytes && here == offset {
                    return Ok(Task::Order);
                }
                self.restart(response)?;
                self.continue_at(here)
            }
            _ => {
                self.restart(response)?;
                Ok(Task::Upload(0))
            }
        }
    }

    fn take_parameters(&mut self, response: &Response) -> Result<Task, RelayError> {
        let info: RelayInfo = response.json("the relay's parameters")?;
        let KeyFile { kind, parameters, bytes, .. } = self.key;
        check_board(SIDE, &info, &self.key.clue)?;
        check_digests(SIDE, &info, kind, parameters, bytes)?;
        self.known.meet(SIDE, &info)?;
        self.part_bytes = info.limits.upload_part_bytes.max(1);
        let parts = bytes.div_ceil(self.part_bytes);
        if parts > MAX_PARTS {
            let expected = format!("at least {}", bytes.div_ceil(MAX_PARTS));
            return Err(RelayError::unexpected(SIDE, "limit for parts of a key", self.part_bytes, expected));
        }
        // Every part may be cut off once, or sent again after a restart.
        self.answers_max = self.answers + OTHER_ANSWERS + parts.saturating_mul(2 + u64::from(MAX_RESTARTS));
        Ok(match self.registration {
            Some(_) => Task::Offset,
            None => Task::Register,
        })
    }

    fn continue_at(&self, offset: u64) -> Result<Task, RelayError> {
        let bytes = self.key.bytes;
        match offset {
            // Where all bytes are there, an empty part asks for the check, which the relay may have had no time for.
            _ if offset <= bytes => Ok(Task::Upload(offset)),
            _ => Err(RelayError::unexpected(SIDE, "upload offset", offset, format!("at most {bytes}"))),
        }
    }

    fn complete(&mut self, standing: bool) -> Task {
        if let Some(registration) = &mut self.registration {
            registration.complete = true;
            registration.standing = standing;
            registration.first = self.first;
        }
        Task::Done
    }

    fn restart(&mut self, response: &Response) -> Result<(), RelayError> {
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS { Err(response.refusal_of_token()) } else { Ok(()) }
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    // Plain structures of numbers and text: there is nothing that could fail.
    serde_json::to_vec(value).unwrap_or_default()
}
