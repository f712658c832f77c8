//! Sending a client's requests to relays.

use std::{
    collections::HashMap,
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

use crate::{cache::Cache, error::CliError, files};

/// The relays of one client.
pub struct Relays {
    agent: Agent,
    bases: Vec<String>,
    /// The newest answer that never changes, for each path without its last part: those of the present epoch.
    kept: HashMap<(Side, String), Response>,
    /// Where they are kept from one run to the next.
    cache: Option<Cache>,
    /// Whether it gave an answer.
    cache_used: bool,
    /// What to tell a person, some time.
    warnings: Vec<String>,
    start: Instant,
    /// What came of an answer that never changes and broke off: the next time the rest is asked for.
    broken: Option<Partial>,
}

struct Partial {
    name: (Side, String),
    tag: String,
    body: Vec<u8>,
}

/// The most answers that are kept: header and hashes of the present epoch.
const KEPT: usize = 2;

impl Relays {
    /// For one relay or two. Plain HTTP is for this machine only.
    pub fn new(urls: &[&str], authority: Option<&Path>) -> Result<Self, CliError> {
        let bases = urls.iter().map(|url| base(url)).collect::<Result<Vec<_>, _>>()?;
        let roots = match authority {
            None => RootCerts::WebPki,
            Some(path) => {
                let pem = files::read(path)?;
                let certificates = parse_pem(&pem).filter_map(|item| match item {
                    Ok(PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                });
                let certificates: Vec<_> = certificates.collect();
                if certificates.is_empty() {
                    return Err(CliError::input(path)(&"it holds no certificate, expected one in PEM"));
                }
                RootCerts::new_with_certs(&certificates)
            }
        };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent("restante")
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .timeout_resolve(Some(Duration::from_secs(20)))
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_secs(120)))
            .timeout_per_read(Some(Duration::from_secs(60)))
            .timeout_per_write(Some(Duration::from_secs(60)));
        // What goes to this machine takes no proxy.
        let agent = match bases.iter().all(|base| base.starts_with("http://")) {
            true => agent.proxy(None),
            false => agent,
        };
        let agent = agent.build().new_agent();
        Ok(Self {
            agent,
            bases,
            kept: HashMap::new(),
            cache: None,
            cache_used: false,
            warnings: Vec::new(),
            start: Instant::now(),
            broken: None,
        })
    }

    /// Goes on over new connections, as somebody else: with new TLS sessions, and without the rest of a download, which would be asked
    /// for by what the relay has called it, as with a cookie.
    pub fn reconnect(&mut self) {
        self.agent = self.agent.config().new_agent();
        self.broken = None;
    }

    /// Goes on as somebody who has never been here: an epoch's hashes that are not asked for tell of an earlier visit.
    pub fn start_afresh(&mut self) -> Result<(), CliError> {
        self.reconnect();
        self.kept.clear();
        match &self.cache {
            Some(cache) => cache.clear(),
            None => Ok(()),
        }
    }

    /// What went wrong with the folder since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Keeps answers that never change in a folder.
    pub fn keep_in(&mut self, cache: Cache) {
        self.cache = Some(cache);
    }

    /// Forgets what was kept, if any of it was used: somebody who can write to the folder may have put something else there.
    pub fn distrust(&mut self) -> Result<(), CliError> {
        self.kept.clear();
        self.broken = None;
        match &self.cache {
            Some(cache) if std::mem::take(&mut self.cache_used) => cache.clear(),
            _ => Ok(()),
        }
    }

    /// Sends a request, or answers it with what is kept.
    fn answer(&mut self, request: &Request) -> Reply {
        let name = (request.relay, request.path.clone());
        if let Some(response) = self.kept.get(&name).filter(|_| request.immutable) {
            return Reply::Answer(response.clone());
        }
        if request.immutable
            && let Some(body) =
                self.cache.as_ref().and_then(|cache| cache.get(&request.path, request.answer_bytes_max))
        {
            self.cache_used = true;
            let response = Response { status: 200, headers: Vec::new(), body };
            self.keep(name, &response);
            return Reply::Answer(response);
        }
        match self.send(request) {
            Ok(response) => {
                if request.immutable && response.status == 200 {
                    if let Some(Err(error)) =
                        self.cache.as_ref().map(|cache| cache.put(&request.path, &response.body))
                    {
                        // The next run asks again.
                        self.warnings.push(error.to_string());
                    }
                    self.keep(name, &response);
                }
                Reply::Answer(response)
            }
            Err(_) => Reply::Broken,
        }
    }

    fn keep(&mut self, name: (Side, String), response: &Response) {
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        self.kept.insert(name, response.clone());
    }

    fn send(&mut self, request: &Request) -> Result<Response, ureq::Error> {
        let place = match request.relay {
            Side::First => 0,
            Side::Second => 1,
        };
        let base = self.bases.get(place).ok_or(ureq::Error::HostNotFound)?;
        let mut builder =
            http::Request::builder().method(request.method.name()).uri(format!("{base}{}", request.path));
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        if let Some(value) = &request.authorization {
            let mut value = http::HeaderValue::from_str(value).map_err(http::Error::from)?;
            value.set_sensitive(true);
            builder = builder.header(http::header::AUTHORIZATION, value);
        }
        let name = (request.relay, request.path.clone());
        let before = self.broken.take().filter(|before| request.immutable && before.name == name);
        if let Some(before) = &before {
            builder = builder
                .header(http::header::RANGE, format!("bytes={}-", before.body.len()))
                .header(http::header::IF_RANGE, &before.tag);
        }
        let answer = match request.body.is_empty() {
            true => self.agent.run(builder.body(())?)?,
            false => self.agent.run(builder.body(request.body.as_slice())?)?,
        };
        let (parts, body) = answer.into_parts();
        let fields = parts
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
        let headers = fields.collect();
        // Errors come with a body of their own, whatever was asked for.
        let limit = if parts.status.is_success() { request.answer_bytes_max } else { 64 << 10 };
        let field = |name| parts.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let goes_on = |have: usize| {
            field(http::header::CONTENT_RANGE)
                .is_some_and(|range| range.starts_with(&format!("bytes {have}-")))
        };
        let (status, start) = match (parts.status.as_u16(), before) {
            (206, Some(before)) if goes_on(before.body.len()) => (200, before.body),
            // Not what was asked for.
            (206, _) => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            (status, _) => (status, Vec::new()),
        };
        let room = limit.saturating_add(1).saturating_sub(start.len() as u64);
        let (mut body, mut reader) = (start, body.into_with_config().limit(room).reader());
        if let Err(error) = reader.read_to_end(&mut body) {
            let can_go_on =
                status == 200 && request.immutable && !body.is_empty() && (body.len() as u64) < limit;
            let tag = field(http::header::ETAG).map(str::to_owned).filter(|_| can_go_on);
            self.broken = tag.map(|tag| Partial { name, tag, body });
            return Err(error.into());
        }
        Ok(Response { status, headers, body })
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

    fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
    }

    fn now(&mut self) -> u64 {
        now()
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The part of a URL that paths are appended to.
fn base(url: &str) -> Result<String, CliError> {
    let expected = |reason: &str| CliError::Usage(format!("{url:?}: {reason}"));
    let uri: Uri = url.parse().map_err(|_| expected("not a URL such as https://relay.example"))?;
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(expected("not a URL such as https://relay.example"));
    };
    if uri.path() != "/" || uri.query().is_some() || url.contains('@') {
        return Err(expected("expected scheme, host and port alone"));
    }
    let is_this_machine = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    match scheme {
        "https" => {}
        "http" if is_this_machine => {}
        "http" => return Err(expected("expected https: plain http is for this machine only")),
        _ => return Err(expected("expected https")),
    }
    Ok(url.trim_end_matches('/').to_owned())
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

    fn hashes(immutable: bool) -> Request {
        Request {
            relay: Side::First,
            method: Method::Get,
            path: "/v1/epochs/0/hashes".into(),
            headers: Vec::new(),
            authorization: None,
            body: Vec::new(),
            key_part: None,
            answer_bytes_max: 100,
            pace: Duration::ZERO,
            immutable,
        }
    }

    #[test]
    fn a_download_that_broke_off_goes_on() {
        let start = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: \"a\"\r\n\r\n0123".to_owned();
        let part = |place: &str, bytes: &str| {
            let length = bytes.len();
            format!(
                "HTTP/1.1 206 Partial\r\ncontent-length: {length}\r\netag: \"a\"\r\ncontent-range: bytes {place}/10\r\n\r\n{bytes}"
            )
        };
        let whole = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc".to_owned();
        let asks = |answers: Vec<String>, immutable: bool| {
            let count = answers.len();
            let (url, thread) = serve(answers);
            let mut relays = Relays::new(&[&url], None).unwrap();
            let replies: Vec<Option<(u16, Vec<u8>)>> = (0..count)
                .map(|_| match relays.answer(&hashes(immutable)) {
                    Reply::Answer(response) => Some((response.status, response.body)),
                    Reply::Broken => None,
                })
                .collect();
            (replies, thread.join().unwrap())
        };
        // Cut off twice.
        let broken = part("4-9", "456789").replace("789", "");
        let (replies, asked) = asks(vec![start.clone(), broken, part("7-9", "789")], true);
        assert_eq!(replies, [None, None, Some((200, b"0123456789".to_vec()))]);
        assert!(!asked[0].contains("range:"));
        for (asked, range) in asked[1..].iter().zip(["range: bytes=4-\r\n", "range: bytes=7-\r\n"]) {
            assert!(asked.contains(range) && asked.contains("if-range: \"a\"\r\n"), "{asked}");
        }
        // It is another file by now; another part came than was asked for, after which everything is asked for again.
        assert_eq!(asks(vec![start.clone(), whole.clone()], true).0, [None, Some((200, b"abc".to_vec()))]);
        let (replies, asked) = asks(vec![start.clone(), part("5-9", "56789"), whole.clone()], true);
        assert_eq!(replies, [None, None, Some((200, b"abc".to_vec()))]);
        assert!(!asked[2].contains("range:"));
        // Over a new connection the client does not say what the relay has called the part that it has.
        let (url, thread) = serve(vec![start.clone(), whole.clone()]);
        let mut relays = Relays::new(&[&url], None).unwrap();
        assert!(matches!(relays.answer(&hashes(true)), Reply::Broken));
        relays.reconnect();
        assert!(matches!(relays.answer(&hashes(true)), Reply::Answer(_)));
        let asked = thread.join().unwrap();
        assert!(!asked[1].contains("range:") && !asked[1].contains("if-range:"), "{}", asked[1]);
        // What changes is asked for whole.
        let (_, asked) = asks(vec![start, whole], false);
        assert!(!asked[1].contains("range:"));
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for url in
            ["https://relay.example", "http://127.0.0.1:7300/", "http://localhost:1", "http://[::1]:80"]
        {
            assert_eq!(base(url).unwrap(), url.trim_end_matches('/'));
        }
        for url in [
            "http://relay.example",
            "ftp://localhost",
            "relay.example",
            "https://relay.example/v1",
            "https://relay.example/?a=b",
            "https://user@relay.example",
            "http://127.0.0.1.example",
            "",
        ] {
            assert!(base(url).is_err(), "{url}");
        }
    }
}
