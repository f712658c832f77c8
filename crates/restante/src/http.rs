//! Sending a client's requests to relays.

mod failure;

use std::{
    io::{self, Read},
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use restante_client::relay::{Host, Reply, Request, Response, Side};
use ureq::{
    Agent,
    http::{self, Uri},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use self::failure::Failure;
use crate::{
    arguments::Reach,
    error::CliError,
    files,
    proxy::{self, Chosen, Target},
    report::{self, note},
};

/// The relays of one client.
pub struct Relays {
    relays: Vec<Relay>,
    roots: RootCerts,
    /// The source of user names at SOCKS proxies, and how many were drawn.
    seed: [u8; 32],
    connections: u64,
    start: Instant,
    /// Whether the last request failed for a reason that may pass.
    failed: bool,
}

/// One of them, with connections of its own.
struct Relay {
    base: String,
    proxy: Option<Chosen>,
    agent: Agent,
    /// The last report about it, and its time.
    told: Option<(String, Instant)>,
}

/// The same failure is told again after this time.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// How slowly an answer may come, and for how long it may be slower.
const ANSWER_BYTES_PER_SECOND: u32 = 1000;
const ANSWER_TIME: Duration = Duration::from_secs(120);
/// Shorter waits are not counted down.
const SHORT_WAIT: Duration = Duration::from_secs(1);

impl Relays {
    /// For one relay or two. Plain HTTP is for this machine and for onion services only.
    pub fn new(urls: &[&str], reach: &Reach) -> Result<Self, CliError> {
        let roots = match &reach.authority {
            None => RootCerts::WebPki,
            Some(path) => certificates(path)?,
        };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| CliError::Environment(format!("cannot draw random bytes: {error}")))?;
        let mut connected =
            Self { relays: Vec::new(), roots, seed, connections: 0, start: Instant::now(), failed: false };
        for (url, side) in urls.iter().zip([Side::First, Side::Second]) {
            let (base, proxy) = base(url, reach.proxy.as_deref())?;
            let agent = connected.agent(side, proxy.as_ref())?;
            connected.relays.push(Relay { base, proxy, agent, told: None });
        }
        Ok(connected)
    }

    /// New connections for a relay, and for it alone.
    fn agent(&self, side: Side, proxy: Option<&Chosen>) -> Result<Agent, CliError> {
        let mut hasher = blake3::Hasher::new_keyed(&self.seed);
        hasher.update(&self.connections.to_le_bytes());
        let password = &hasher.finalize().to_hex()[..32];
        let proxy = proxy.map(|proxy| proxy.isolated(side, password)).transpose()?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent("restante")
            .tls_config(TlsConfig::builder().root_certs(self.roots.clone()).build())
            // Never that of the environment: which one it is has been decided.
            .proxy(proxy)
            .timeout_resolve(Some(Duration::from_secs(20)))
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_secs(120)))
            .timeout_per_read(Some(Duration::from_secs(60)))
            .timeout_per_write(Some(Duration::from_secs(60)));
        Ok(config.build().new_agent())
    }

    /// Goes on over new connections, as somebody else: with new TLS sessions, and through a SOCKS proxy as another user.
    pub fn reconnect(&mut self) {
        self.connections += 1;
        for place in 0..self.relays.len() {
            let side = if place == 0 { Side::First } else { Side::Second };
            // It is made as the one before was.
            if let Ok(agent) = self.agent(side, self.relays[place].proxy.as_ref()) {
                self.relays[place].agent = agent;
            }
        }
    }

    /// Sends a request. What fails is told at once, on standard error.
    fn answer(&mut self, request: &Request) -> Reply {
        let reply = self.send(request);
        self.failed = true;
        match reply {
            Ok(response) => {
                match response.status {
                    507 => self.tell(request.relay, "no space left on the relay's disk (status 507)"),
                    408 | 429 | 500.. => self.tell(request.relay, &format!("status {}", response.status)),
                    _ => self.failed = false,
                }
                Reply::Answer(response)
            }
            Err(failure) => {
                self.tell(request.relay, &failure.to_string());
                Reply::Broken(failure.cause)
            }
        }
    }

    /// Says what failed, unless it was said a short time ago.
    fn tell(&mut self, side: Side, what: &str) {
        let Some(relay) = self.relays.get_mut(place(side)) else { return };
        let is_known = |(told, when): &(String, Instant)| told == what && when.elapsed() < TOLD_AGAIN;
        if !relay.told.as_ref().is_some_and(is_known) {
            note!("restante: {}: {what}", relay.base);
            relay.told = Some((what.to_owned(), Instant::now()));
        }
    }

    fn send(&mut self, request: &Request) -> Result<Response, Failure> {
        let Some(relay) = self.relays.get(place(request.relay)) else {
            return Err(Failure::of(&ureq::Error::HostNotFound, None));
        };
        let proxy = relay.proxy.clone();
        let failed = |error: ureq::Error| Failure::of(&error, proxy.as_ref());
        self.exchange(request).map_err(failed)
    }

    fn exchange(&mut self, request: &Request) -> Result<Response, ureq::Error> {
        let relay = self.relays.get(place(request.relay)).ok_or(ureq::Error::HostNotFound)?;
        let mut builder = http::Request::builder()
            .method(request.method.name())
            .uri(format!("{}{}", relay.base, request.path));
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        if let Some(value) = &request.authorization {
            let mut value = http::HeaderValue::from_str(value).map_err(http::Error::from)?;
            value.set_sensitive(true);
            builder = builder.header(http::header::AUTHORIZATION, value);
        }
        let answer = if request.body.is_empty() {
            relay.agent.run(builder.body(())?)?
        } else {
            relay.agent.run(builder.body(request.body.as_slice())?)?
        };
        let (parts, body) = answer.into_parts();
        let fields = parts
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
        let headers = fields.collect();
        // Errors come with a body of their own, whatever was asked for.
        let limit = if parts.status.is_success() { request.answer_bytes_max } else { 64 << 10 };
        let status = parts.status.as_u16();
        if status == 206 {
            // Not what was asked for.
            return Err(io::Error::from(io::ErrorKind::InvalidData).into());
        }
        let (mut body_bytes, room) = (Vec::new(), limit.saturating_add(1));
        let mut reader = body.into_with_config().limit(room).reader();
        read_in_time(&mut reader, &mut body_bytes, ANSWER_TIME, ANSWER_BYTES_PER_SECOND)?;
        Ok(Response { status, headers, body: body_bytes })
    }
}

impl Host for Relays {
    type Error = CliError;

    fn ask(&mut self, request: Request) -> Result<Reply, CliError> {
        Ok(self.answer(&request))
    }

    fn clock(&mut self) -> Duration {
        self.start.elapsed()
    }

    /// If it is because a request failed, the time is counted down on standard error, for which nothing waits.
    fn sleep(&mut self, time: Duration) {
        if std::mem::take(&mut self.failed) && time >= SHORT_WAIT {
            report::count_down(time);
        }
        thread::sleep(time);
    }

    fn now(&mut self) -> u64 {
        now()
    }
}

/// Reads to the end what comes at a rate, but for some time to begin with: who sends a byte now and then keeps nobody waiting for ever.
fn read_in_time(
    reader: &mut impl Read,
    body: &mut Vec<u8>,
    time: Duration,
    bytes_per_second: u32,
) -> io::Result<()> {
    let (start, mut received, mut part) = (Instant::now(), 0, vec![0; 1 << 16]);
    loop {
        let read = match reader.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(());
        }
        body.extend_from_slice(&part[..read]);
        received += read as u64;
        if start.elapsed() > time + Duration::from_secs(received) / bytes_per_second {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn place(side: Side) -> usize {
    match side {
        Side::First => 0,
        Side::Second => 1,
    }
}

/// The certificates of a PEM file.
fn certificates(path: &Path) -> Result<RootCerts, CliError> {
    let pem = files::read_text(path)?;
    let certificates = parse_pem(pem.as_bytes()).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        Err(CliError::input(path)(&"it holds no certificate, expected one in PEM"))
    } else {
        Ok(RootCerts::new_with_certs(&certificates))
    }
}

/// The part of a URL that paths are appended to, in the one form that it is compared in, and the proxy through which it is reached.
pub fn base(url: &str, proxy: Option<&str>) -> Result<(String, Option<Chosen>), CliError> {
    let expected = |reason: &str| CliError::Usage(format!("{url:?}: {reason}"));
    let uri: Uri = url.parse().map_err(|_| expected("not a URL such as https://relay.example"))?;
    let (Some(scheme), Some(host)) = (uri.scheme_str(), proxy::host(&uri)) else {
        return Err(expected("not a URL such as https://relay.example"));
    };
    if uri.path() != "/" || uri.query().is_some() || url.contains('@') {
        return Err(expected("expected scheme, host and port alone"));
    }
    let target = Target { is_https: scheme == "https", host };
    match scheme {
        "https" => {}
        "http" if target.is_loopback() || target.is_onion() => {}
        "http" => {
            return Err(expected("expected https: plain http is for this machine and onion services only"));
        }
        _ => return Err(expected("expected https")),
    }
    let default = if target.is_https { 443 } else { 80 };
    let port = proxy::port(&uri).ok_or_else(|| expected("its port is none: expected 1 to 65535"))?;
    let port = port.filter(|port| *port != default).map(|port| format!(":{port}"));
    let host = uri.host().unwrap_or(host).to_ascii_lowercase();
    let base = format!("{scheme}://{host}{}", port.unwrap_or_default());
    Ok((base, proxy::choose(proxy, target)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::{io::Write, net::TcpListener};

    use restante_client::relay::Method;

    use super::*;

    /// Answers connections one after the other, each with these bytes, and tells what was asked.
    fn serve(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = thread::spawn(move || {
            let asked = answers.into_iter().map(|answer| {
                let mut stream = listener.accept().unwrap().0;
                let (mut text, mut byte) = (String::new(), [0]);
                while !text.ends_with("\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                    text.push(byte[0].into());
                }
                stream.write_all(answer.as_bytes()).unwrap();
                text.to_ascii_lowercase()
            });
            asked.collect()
        });
        (url, thread)
    }

    fn request() -> Request {
        Request {
            relay: Side::First,
            method: Method::Get,
            path: "/v1/epochs/0".into(),
            headers: Vec::new(),
            authorization: None,
            body: Vec::new(),
            key_part: None,
            answer_bytes_max: 100,
            pace: Duration::ZERO,
        }
    }

    #[test]
    fn answers_come_whole_or_not_at_all() {
        let whole = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc".to_owned();
        let cut_off = whole.replace("length: 3", "length: 9");
        let part = whole
            .replace("200 OK", "206 Partial")
            .replace("connection", "content-range: bytes 0-2/9\r\nconnection");
        let (url, thread) = serve(vec![cut_off, part, whole]);
        let mut relays = Relays::new(&[&url], &Reach::default()).unwrap();
        for expected in [None, None, Some(b"abc".to_vec())] {
            let found = match relays.answer(&request()) {
                Reply::Answer(response) => Some(response.body),
                Reply::Broken(_) => None,
            };
            assert_eq!(found, expected);
        }
        assert!(thread.join().unwrap().iter().all(|asked| !asked.contains("range:")));
    }

    #[test]
    fn an_answer_that_drips_is_given_up_and_one_that_flows_is_not() {
        /// Gives a byte at a time, each after a while.
        struct Slow(u32, Duration);
        impl Read for Slow {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                if self.0 == 0 {
                    return Ok(0);
                }
                thread::sleep(self.1);
                self.0 -= 1;
                bytes[0] = 7;
                Ok(1)
            }
        }
        let read = |count, each, time| {
            let (mut body, mut reader) = (Vec::new(), Slow(count, Duration::from_millis(each)));
            read_in_time(&mut reader, &mut body, Duration::from_millis(time), 1000).map(|()| body.len())
        };
        assert_eq!(read(100_000, 5, 100).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(read(100, 0, 60_000).unwrap(), 100);
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        let base = |url: &str| base(url, None).map(|(base, _)| base);
        for (url, expected) in [
            ("https://relay.example", "https://relay.example"),
            ("https://Relay.example:443/", "https://relay.example"),
            ("https://relay.example:444", "https://relay.example:444"),
            ("http://127.0.0.1:7300/", "http://127.0.0.1:7300"),
            ("http://localhost:1", "http://localhost:1"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(base(url).unwrap(), expected);
        }
        for url in [
            "http://relay.example",
            "ftp://localhost",
            "relay.example",
            "https://relay.example/v1",
            "https://relay.example/?a=b",
            "https://user@relay.example",
            "http://127.0.0.1.example",
            "http://0.0.0.0:1",
            "http://abc.onion",
            "https://relay.example:99999",
            "https://relay.example:",
            "",
        ] {
            assert!(base(url).is_err(), "{url}");
        }
    }
}
