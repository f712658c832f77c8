//! Requests, replies, and when to ask again.

use std::{fmt, ops::Range, time::Duration};

use rand_core::CryptoRng;
use restante_wire::relay::{Credential, Hex, Problem, Token, headers};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use zeroize::Zeroizing;

use super::RelayError;

/// The next thing that a machine's caller does.
#[derive(Debug)]
pub enum Step {
    /// Send this, and give what comes back to `respond`.
    Ask(Request),
    /// Do nothing for this long, then take the next step.
    Wait(Duration),
    /// There is nothing more to do.
    Done,
}

impl From<Option<Request>> for Step {
    fn from(request: Option<Request>) -> Self {
        request.map_or(Self::Done, Self::Ask)
    }
}

/// The relay that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The relay that has the detection key.
    First,
    /// The other one, which must not collude with the first.
    Second,
}

impl Side {
    pub(super) fn index(self) -> usize {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Second => "second",
        })
    }
}

/// A request's method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// PATCH
    Patch,
    /// DELETE
    Delete,
}

impl Method {
    /// As HTTP writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A request to a relay.
#[derive(Clone)]
pub struct Request {
    /// To which relay.
    pub relay: Side,
    /// The method.
    pub method: Method,
    /// Path and query, from `/v1` on.
    pub path: String,
    /// Header fields: lower-case names and values. The length of the body is the sender's to add.
    pub headers: Vec<(&'static str, String)>,
    /// The value of the field `authorization`, if there is one. Secret.
    pub authorization: Option<Zeroizing<String>>,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
    /// The body is these bytes of the detection key's file, which the caller has: it puts them into `body` before it sends the request.
    pub key_part: Option<Range<u64>>,
    /// The caller stops reading an answer that is longer, and replies [`Reply::Broken`] with [`Cause::TooLong`].
    pub answer_bytes_max: u64,
    /// The request is sent when so much time has passed since the answer before it arrived, a time that is fixed before that answer
    /// is looked at: [`Driver`](super::Driver) does so.
    pub pace: Duration,
}

impl Request {
    pub(super) fn new(relay: Side, method: Method, path: impl Into<String>) -> Self {
        Self {
            relay,
            method,
            path: path.into(),
            headers: Vec::new(),
            authorization: None,
            body: Vec::new(),
            key_part: None,
            answer_bytes_max: JSON_BYTES_MAX,
            pace: Duration::ZERO,
        }
    }

    pub(super) fn accept(mut self, media: &str) -> Self {
        self.headers.push(("accept", media.into()));
        self
    }

    pub(super) fn token(mut self, token: &Token) -> Self {
        let token = Zeroizing::new(token.reveal());
        self.authorization = Some(Zeroizing::new(format!("Bearer {}", *token)));
        self
    }

    pub(super) fn credential(mut self, credential: &Credential, id: &Hex<16>) -> Self {
        let credential = Zeroizing::new(credential.reveal());
        self.authorization = Some(Zeroizing::new(format!("Bearer {}", *credential)));
        self.headers.push((headers::REQUEST_ID, id.to_string()));
        self
    }

    pub(super) fn body(mut self, media: &str, body: Vec<u8>) -> Self {
        self.headers.push(("content-type", media.into()));
        self.body = body;
        self
    }

    pub(super) fn at_most(mut self, bytes: u64) -> Self {
        self.answer_bytes_max = bytes;
        self
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("relay", &self.relay)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The longest answer in JSON that is read.
pub(super) const JSON_BYTES_MAX: u64 = 1 << 20;

/// A relay that wants to be left alone for longer is understood to mean this long.
const ASKED_MAX: Duration = Duration::from_secs(24 * 3600);

/// An answer, or none.
#[derive(Debug)]
pub enum Reply {
    /// There was an answer, of any status.
    Answer(Response),
    /// There was none: the connection failed, broke off or took too long, or the answer was longer than allowed.
    Broken(Cause),
}

/// Why there was no answer, as far as whoever holds the connection knows. It is for a person: no machine decides by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The host's name has no address.
    NameNotFound,
    /// Nobody listens at the address.
    Refused,
    /// The network has no way to the address.
    Unreachable,
    /// The certificate is not one that is trusted, or not for this name.
    Certificate,
    /// TLS failed for another reason.
    Tls,
    /// The proxy was not reached, or did not reach the relay.
    Proxy,
    /// It took too long.
    TimedOut,
    /// The connection was closed before the answer was whole, or what came was no HTTP.
    #[default]
    BrokeOff,
    /// The answer was longer than asked for.
    TooLong,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameNotFound => "its name was not found",
            Self::Refused => "the connection was refused",
            Self::Unreachable => "there is no way to its address",
            Self::Certificate => "its certificate was refused",
            Self::Tls => "TLS failed",
            Self::Proxy => "the proxy failed",
            Self::TimedOut => "it took too long",
            Self::BrokeOff => "the connection broke off",
            Self::TooLong => "its answer was too long",
        })
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Header fields; names in any case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        let field = self.headers.iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.trim())
    }

    pub(super) fn number(&self, name: &'static str) -> Result<u64, RelayError> {
        let value = self.header(name).and_then(|value| value.parse().ok());
        value.ok_or(RelayError::Header { name })
    }

    /// How long the relay wants to be left alone. A time of day is taken by the relay's own clock, which the same answer shows: a
    /// client's may be wrong, and machines have none. What cannot be read asks for nothing.
    fn retry_after(&self) -> Duration {
        let Some(value) = self.header("retry-after") else { return Duration::ZERO };
        if let Ok(seconds) = value.parse() {
            return Duration::from_secs(seconds);
        }
        let date = |text: &str| httpdate::parse_http_date(text).ok();
        let times = date(value).zip(self.header("date").and_then(date));
        times.and_then(|(then, now)| then.duration_since(now).ok()).unwrap_or_default()
    }

    pub(super) fn complete_to(&self) -> Result<u64, RelayError> {
        self.number(headers::COMPLETE_TO)
    }

    pub(super) fn json<T: DeserializeOwned>(&self, what: &'static str) -> Result<T, RelayError> {
        // The error's own words may quote what the relay has said.
        serde_json::from_slice(&self.body).map_err(|error| {
            let problem = match error.classify() {
                Category::Io | Category::Syntax => "it is no JSON",
                Category::Eof => "it is cut off",
                Category::Data => "a field is missing, or is not what it should be",
            };
            let reason = format!("{problem} (line {}, column {})", error.line(), error.column());
            RelayError::Json { what, reason }
        })
    }

    /// Why a registration was refused.
    pub(super) fn credential_refusal(&self) -> RelayError {
        match self.refusal() {
            RelayError::Refused { status: 401, detail, .. } => {
                RelayError::Credential { code: "credential".into(), detail }
            }
            RelayError::Refused { code, detail, .. } => RelayError::Credential { code, detail },
            error => error,
        }
    }

    /// Why a request to the first relay was refused that carried the token of a registration.
    pub(super) fn refusal_of_token(&self) -> RelayError {
        match self.status {
            401 => RelayError::Unauthorized,
            _ => self.refusal(),
        }
    }

    /// Why another request was refused. That one without a token is not authorised, whoever says so, says nothing of registrations.
    pub(super) fn refusal(&self) -> RelayError {
        let problem = serde_json::from_slice::<Problem>(&self.body).ok();
        let (code, detail, field) = match problem {
            Some(problem) => (plain(problem.code().into()), plain(problem.detail), problem.field.map(plain)),
            None => (String::new(), String::new(), None),
        };
        match self.status {
            410 => RelayError::Gone { detail },
            status => RelayError::Refused { status, code, detail, field },
        }
    }
}

/// A relay's words, fit to be shown.
fn plain(text: String) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// How often a request that failed for a passing reason is sent again, and how long to wait in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// The most times that one request is sent.
    pub attempts: u32,
    /// Before the second attempt the wait is between this and twice this; it doubles with each attempt.
    pub first: Duration,
    /// No wait of the client's own choice is longer.
    pub longest: Duration,
    /// A relay that asks for a longer wait is unavailable.
    pub patience: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            attempts: 8,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(120),
            patience: Duration::from_secs(600),
        }
    }
}

/// The attempts at one request.
#[derive(Debug)]
pub(super) struct Attempts {
    retries: Retries,
    failed: u32,
    wait: Option<Duration>,
}

impl Attempts {
    pub(super) fn new(retries: Retries) -> Self {
        Self { retries, failed: 0, wait: None }
    }

    /// The wait that comes before the next attempt, once.
    pub(super) fn wait(&mut self) -> Option<Duration> {
        self.wait.take()
    }

    /// The answer, if it is final; `None` if the same request is to be sent again.
    pub(super) fn judge(
        &mut self,
        reply: Reply,
        answer_bytes_max: u64,
        rng: &mut impl CryptoRng,
    ) -> Result<Option<Response>, RelayError> {
        let (status, cause, asked) = match reply {
            Reply::Answer(response) => {
                if response.body.len() as u64 > answer_bytes_max {
                    let (found, limit) = (response.body.len() as u64, answer_bytes_max);
                    return Err(RelayError::TooLong { found, limit });
                }
                if !matches!(response.status, 408 | 429 | 500 | 502 | 503 | 504 | 507) {
                    self.failed = 0;
                    return Ok(Some(response));
                }
                (Some(response.status), None, response.retry_after().min(ASKED_MAX))
            }
            Reply::Broken(cause) => (None, Some(cause), Duration::ZERO),
        };
        self.failed += 1;
        if self.failed >= self.retries.attempts || asked > self.retries.patience {
            let attempts = std::mem::take(&mut self.failed);
            return Err(RelayError::Unavailable { status, cause, attempts, retry_after: asked });
        }
        // Attempt k waits between first * 2^(k-1) and twice that, so that clients that failed together come back apart.
        let least = self.retries.first.saturating_mul(1 << (self.failed - 1).min(16));
        let least = least.min(self.retries.longest / 2);
        let spread = least.as_millis().min(u64::MAX.into()) as u64;
        let extra = Duration::from_millis(rng.next_u64() % (spread + 1));
        self.wait = Some(asked.max(least + extra));
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)]) -> Reply {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Reply::Answer(Response { status, headers, body: vec![] })
    }

    #[test]
    fn passing_failures_are_tried_again_with_growing_waits_and_then_given_up() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let retries = Retries { attempts: 8, ..Retries::default() };
        let mut attempts = Attempts::new(retries);
        for (attempt, status) in [408, 429, 500, 502, 503, 504, 507].into_iter().enumerate() {
            assert!(attempts.judge(answer(status, &[]), 0, &mut rng).unwrap().is_none());
            let (least, wait) = (retries.first * (1 << attempt), attempts.wait().unwrap());
            assert!(least <= wait && wait <= 2 * least, "{attempt}: {wait:?}");
            assert_eq!(attempts.wait(), None);
        }
        let error = attempts.judge(Reply::Broken(Cause::Certificate), 0, &mut rng).unwrap_err();
        assert!(
            matches!(error, RelayError::Unavailable { status: None, attempts: 8, .. })
                && error.is_retryable()
        );
        assert!(error.to_string().ends_with("in 8 attempts: its certificate was refused"), "{error}");
    }

    #[test]
    fn a_relay_that_says_when_to_come_back_is_obeyed_within_reason() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let mut attempts = Attempts::new(Retries::default());
        assert!(attempts.judge(answer(429, &[("Retry-After", "70")]), 0, &mut rng).unwrap().is_none());
        assert_eq!(attempts.wait(), Some(Duration::from_secs(70)));
        let late = attempts.judge(answer(503, &[("retry-after", "999999999999")]), 0, &mut rng).unwrap_err();
        let bound = Duration::from_secs(24 * 3600);
        assert!(
            matches!(late, RelayError::Unavailable { status: Some(503), retry_after, .. } if retry_after == bound)
        );
        assert!(late.to_string().contains("in 2 attempts: status 503"), "{late}");
    }

    #[test]
    fn a_time_of_day_is_taken_by_the_relays_clock() {
        // The three forms of RFC 9110, section 5.6.7, all for one time.
        let forms =
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
        let before = "Sun, 06 Nov 1994 08:47:37 GMT";
        let own = Retries::default().first * 2;
        let wait = |headers: &[(&str, &str)]| {
            let mut attempts = Attempts::new(Retries::default());
            let mut rng = ChaCha20Rng::from_seed([1; 32]);
            assert!(attempts.judge(answer(503, headers), 0, &mut rng).unwrap().is_none());
            attempts.wait().unwrap()
        };
        for form in forms {
            assert_eq!(wait(&[("Retry-After", form), ("Date", before)]), Duration::from_secs(120), "{form}");
            // It is over, or nobody knows when it will be.
            assert!(wait(&[("Retry-After", form), ("Date", "Sun, 06 Nov 1994 08:59:37 GMT")]) <= own);
            assert!(wait(&[("Retry-After", form)]) <= own);
        }
        for broken in ["soon", "-5", "1e9", "Sun, 06 Nov 1994", "Mon, 99 Nov 1994 08:49:37 GMT", ""] {
            assert!(wait(&[("Retry-After", broken), ("Date", before)]) <= own, "{broken}");
        }
        let mut attempts = Attempts::new(Retries::default());
        let far = [("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), ("Date", before)];
        let error = attempts.judge(answer(503, &far), 0, &mut ChaCha20Rng::from_seed([1; 32])).unwrap_err();
        assert!(matches!(error, RelayError::Unavailable { retry_after, .. } if retry_after == ASKED_MAX));
    }

    #[test]
    fn other_refusals_are_final_and_success_ends_the_count() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let mut attempts = Attempts::new(Retries { attempts: 2, ..Retries::default() });
        for status in [200, 400, 401, 404, 409, 410, 413, 416, 422, 431] {
            assert!(attempts.judge(Reply::Broken(Cause::Certificate), 0, &mut rng).unwrap().is_none());
            assert_eq!(attempts.judge(answer(status, &[]), 0, &mut rng).unwrap().unwrap().status, status);
        }
    }

    #[test]
    fn only_a_request_with_a_token_finds_out_that_it_is_not_accepted() {
        let Reply::Answer(response) = answer(401, &[]) else { panic!("it is an answer") };
        assert!(matches!(response.refusal_of_token(), RelayError::Unauthorized));
        assert!(matches!(response.refusal(), RelayError::Refused { status: 401, .. }));
        assert!(
            matches!(response.credential_refusal(), RelayError::Credential { code, .. } if code == "credential")
        );
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        use restante_wire::relay::JobStatus;
        for (body, place) in [
            (&b"{\"state\":\"\\u001b[31mred\"}"[..], "column"),
            (b"{\"\\u001b[31m\":1}", "column"),
            (b"\x1b[31m", "no JSON"),
            (b"{\"state\":", "cut off"),
        ] {
            let Reply::Answer(response) = answer(200, &[]) else { panic!("it is an answer") };
            let response = Response { body: body.to_vec(), ..response };
            let error = response.json::<JobStatus>("the job's status").unwrap_err().to_string();
            assert!(!error.contains("red") && !error.contains('\u{1b}') && error.contains(place), "{error}");
        }
    }

    #[test]
    fn a_token_is_not_in_debug_output() {
        let request = Request::new(Side::First, Method::Get, "/v1/keys").token(&Token::new([0xab; 32]));
        assert!(request.authorization.as_ref().unwrap().contains("abab"));
        assert!(!format!("{request:?}").contains("abab"));
    }
}
