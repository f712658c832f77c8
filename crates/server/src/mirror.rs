//! Following another relay: its messages, each page verified against a head that it has signed, and every head against the one
//! before.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, StatusCode, Uri, header};
use futures_util::FutureExt;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use restante_board::BoardError;
use restante_wire::binding::{BoardId, Period};
use restante_wire::merkle::ConsistencyProof;
use restante_wire::relay::{Page, RelayInfo, SignedHead};
use restante_wire::{Decode, Envelope, Kind, ParameterId};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tokio_socks::tcp::Socks5Stream;

use crate::tls::explain;
use crate::{MirrorConfig, Relay, ServerError, evidence};

/// Bytes of the largest answer that is read.
const ANSWER_BYTES: usize = 64 << 20;
/// Messages of a page.
const PAGE: u64 = 4096;
const PATIENCE: Duration = Duration::from_secs(60);

type Outcome<T> = Result<T, ServerError>;

/// The longest pause behind a look that failed.
const PAUSE: Duration = Duration::from_secs(60);
/// Follows until it is told to stop. A source that contradicts itself is not followed any more: an operator has to look.
///
/// # Errors
///
/// [`ServerError::MirrorSettings`] before anything was taken over in this run.
pub(crate) async fn run(relay: Arc<Relay>, mut stop: watch::Receiver<bool>) -> Outcome<()> {
    let Some(config) = relay.config.mirror.clone() else { return Ok(()) };
    let mut mirror = Mirror { relay, source: Source { config, connection: None } };
    let usual = Duration::from_secs(mirror.source.config.seconds.max(1));
    let (mut pause, mut has_followed) = (usual, false);
    let metrics = mirror.relay.metrics.clone();
    loop {
        let round = tokio::select! {
            round = AssertUnwindSafe(mirror.follow(has_followed)).catch_unwind() => round.unwrap_or_else(|_| {
                metrics.panics.inc();
                Err(ServerError::Panicked { what: "following the origin" })
            }),
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        let following = &mirror.relay.following;
        match round {
            Ok(()) => {
                (pause, has_followed) = (usual, true);
                following.caught_up();
            }
            Err(error) if breaks_the_rule(&error) => {
                let reason =
                    format!("its board breaks the rule for clues, and is not followed any more: {error}");
                let error = mirror.source.failed(reason);
                tracing::error!(%error, "mirror");
                following.failed(error.to_string());
                return Ok(());
            }
            Err(error @ ServerError::MirrorSettings { .. }) if !has_followed => {
                tracing::error!(%error, "mirror");
                return Err(error);
            }
            Err(error) => {
                tracing::error!(%error, "mirror");
                following.failed(error.to_string());
                mirror.source.connection = None;
                pause = (pause * 2).min(PAUSE.max(usual));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        }
    }
}

/// The id of the board that a mirror is to follow: of the head that its origin has signed.
pub(crate) fn board_of_origin(config: &MirrorConfig, parameters: ParameterId) -> Outcome<BoardId> {
    let mut source = Source { config: config.clone(), connection: None };
    let work = async move {
        let bytes = source.get("/v1/head").await?;
        let head = SignedHead::from_file(&bytes).map_err(|error| source.failed(error))?;
        source.check(&head, parameters)?;
        Ok(head.board)
    };
    // Whoever opens a relay may be within a runtime already.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let failed = |error| ServerError::Environment(format!("cannot start a runtime: {error}"));
        runtime.map_err(failed)?.block_on(work)
    });
    thread.join().map_err(|_| ServerError::Environment("asking the origin for its board failed".into()))?
}

fn breaks_the_rule(error: &ServerError) -> bool {
    let of_board =
        matches!(error, ServerError::Board(BoardError::Duplicate { .. } | BoardError::ClosedPeriod { .. }));
    of_board || matches!(error, ServerError::Rule(_))
}

struct Mirror {
    relay: Arc<Relay>,
    source: Source,
}

/// The relay that is followed.
struct Source {
    config: MirrorConfig,
    connection: Option<SendRequest<Empty<bytes::Bytes>>>,
}

impl Mirror {
    fn failed(&self, reason: impl std::fmt::Display) -> ServerError {
        self.source.failed(reason)
    }

    /// Takes over everything that the source has by now.
    async fn follow(&mut self, has_followed: bool) -> Outcome<()> {
        if !has_followed {
            self.check_fetch().await?;
        }
        self.take_messages().await?;
        if let Some(epochs) = self.relay.epochs.clone() {
            let bytes = self.source.get("/v1/epochs").await?;
            let list = serde_json::from_slice(&bytes);
            epochs.announce(list.map_err(|error| self.failed(format!("its list of epochs: {error}")))?);
        }
        Ok(())
    }

    /// Two relays that serve private fetch together must make the same epochs.
    async fn check_fetch(&mut self) -> Outcome<()> {
        let Some(own) = self.relay.config.fetch.clone() else { return Ok(()) };
        let bytes = self.source.get("/v1/parameters").await?;
        let info: RelayInfo = serde_json::from_slice(&bytes)
            .map_err(|error| self.failed(format!("what it says of itself: {error}")))?;
        let Some(its) = info.fetch else {
            return Err(self.source.unfit("it serves no private fetch, and there is a [fetch] here"));
        };
        let facts = [
            ("record_bytes", u64::from(its.record_bytes) == u64::from(own.record_bytes)),
            ("part", its.part == own.part),
            ("messages", its.messages == own.messages),
        ];
        if let Some((field, _)) = facts.into_iter().find(|(_, fits)| !fits) {
            return Err(self.source.unfit(format!("fetch.{field} is another one there")));
        }
        if let (Some(its), Some(own)) = (its.server, own.server)
            && its == own
        {
            return Err(self
                .source
                .unfit(format!("fetch.server is {own} on both, expected 0 on one and 1 on the other")));
        }
        Ok(())
    }

    async fn take_messages(&mut self) -> Outcome<()> {
        let board = self.relay.view.board();
        let (parameters, clue_bytes) = (board.config().parameters, board.config().clue_bytes as usize);
        let bytes = self.source.get("/v1/head").await?;
        let mut trusted = SignedHead::from_file(&bytes).map_err(|error| self.failed(error))?;
        self.check(&trusted)?;
        let own = board.head();
        self.continues((own.count, own.root), &trusted).await?;
        loop {
            let board = self.relay.view.board();
            let first = board.len();
            let behind = trusted.count.saturating_sub(first);
            self.relay.following.is_behind(behind);
            if first >= trusted.count {
                return Ok(());
            }
            let end = trusted.count.min(first + PAGE);
            let bytes = self.source.get(&format!("/v1/messages?first={first}&end={end}")).await?;
            let page = Page::from_body(parameters, clue_bytes, &bytes).map_err(|error| self.failed(error))?;
            self.check(&page.head)?;
            if (page.head.count, page.head.root) != (trusted.count, trusted.root) {
                self.continues((trusted.count, trusted.root), &page.head).await?;
                trusted = page.head;
            }
            page.verify().map_err(|error| self.failed(error))?;
            let latest = Period::latest_at(page.head.time);
            let early = page
                .messages
                .iter()
                .position(|one| Period::of_clue(&one.clue).is_none_or(|day| day > latest));
            if let Some(place) = early {
                let index = first + place as u64;
                return Err(ServerError::Rule(format!("message {index} is of a day that had not begun")));
            }
            if page.first != first || page.messages.is_empty() {
                return Err(
                    self.failed(format!("a page from {} on, expected one from {first} on", page.first))
                );
            }
            let writer = self.relay.writer().map_err(|_| self.failed("this relay is stopping"))?;
            if let Err(error) = writer.append(first, page.messages).await {
                return Err(self.accuse(error, &bytes).await);
            }
            let board = self.relay.view.board();
            if board.len() == trusted.count && board.head().root != trusted.root {
                return Err(
                    self.failed("the messages have another root than the head: the source shows two boards")
                );
            }
        }
    }

    /// Keeps the proof that the source has a clue twice, from the body of the page that was refused, and says where it is. Other errors
    /// stay as they are.
    async fn accuse(&mut self, error: ServerError, body: &[u8]) -> ServerError {
        let ServerError::Board(BoardError::Duplicate { first }) = error else { return error };
        let (board, head) = self.relay.view.signed();
        let (parameters, clue_bytes) = (board.config().parameters, board.config().clue_bytes as usize);
        let Ok(page) = Page::from_body(parameters, clue_bytes, body) else { return error };
        let Some(offence) = evidence::find(&board, &page, first) else { return error };
        let earlier = if first < page.first {
            // Under the source's own signature if it can be had, or else what this mirror took from it.
            let asked = self.page_with(first).await.ok();
            asked.or_else(|| evidence::own_page(&board, head, first))
        } else {
            None
        };
        let reason = format!("message {} has the clue of message {first}", offence.second);
        match evidence::keep(&self.relay.data, &offence, &page, earlier.as_ref(), &reason) {
            Ok(path) => ServerError::Rule(format!("{reason}: the evidence is in {}", path.display())),
            Err(failure) => ServerError::Rule(format!("{reason}; the evidence was not kept: {failure}")),
        }
    }

    /// A page of the source that begins with a message.
    async fn page_with(&mut self, index: u64) -> Outcome<Page> {
        let board = self.relay.view.board();
        let (parameters, clue_bytes) = (board.config().parameters, board.config().clue_bytes as usize);
        let bytes = self.source.get(&format!("/v1/messages?first={index}&end={}", index + 1)).await?;
        let page = Page::from_body(parameters, clue_bytes, &bytes).map_err(|error| self.failed(error))?;
        self.check(&page.head)?;
        page.verify().map_err(|error| self.failed(error))?;
        if page.first != index || page.messages.is_empty() {
            return Err(self.failed(format!("a page from {} on, expected {index}", page.first)));
        }
        Ok(page)
    }

    fn check(&self, head: &SignedHead) -> Outcome<()> {
        let board = self.relay.view.board();
        self.source.check(head, board.config().parameters)?;
        let expected = board.config().id;
        if head.board == expected {
            Ok(())
        } else {
            Err(self
                .source
                .unfit(format!("it has board {}, and the data directory board {expected}", head.board)))
        }
    }

    /// Checks that a head only adds to what is known.
    async fn continues(
        &mut self,
        (count, root): (u64, restante_board::Hash),
        head: &SignedHead,
    ) -> Outcome<()> {
        let proof = if count == head.count || count == 0 {
            ConsistencyProof::from_bytes(&(), &[0; 4]).map_err(|error| self.failed(error))?
        } else if count > head.count {
            return Err(self.failed(format!("a head of {} messages, expected at least {count}", head.count)));
        } else {
            let bytes = self.source.get(&format!("/v1/consistency?from={count}&to={}", head.count)).await?;
            Envelope::open_as(&bytes, Kind::ConsistencyProof, 1, head.parameters)
                .and_then(|envelope| ConsistencyProof::from_bytes(&(), envelope.body))
                .map_err(|error| self.failed(error))?
        };
        let verified = proof.verify((count, &root), (head.count, &head.root));
        verified.map_err(|error| self.failed(format!("its head does not continue what it had: {error}")))
    }
}

impl Source {
    fn failed(&self, reason: impl std::fmt::Display) -> ServerError {
        ServerError::Mirror { url: self.config.url.clone(), reason: reason.to_string() }
    }

    fn unfit(&self, reason: impl std::fmt::Display) -> ServerError {
        ServerError::MirrorSettings { url: self.config.url.clone(), reason: reason.to_string() }
    }

    fn check(&self, head: &SignedHead, expected: ParameterId) -> Outcome<()> {
        if !head.is_signed_by(&self.config.relay) {
            let expected = self.config.relay;
            return Err(
                self.unfit(format!("its head is not signed by {expected}, the key that mirror.relay says"))
            );
        }
        if head.parameters != expected {
            let found = head.parameters;
            return Err(
                self.unfit(format!("its board is for parameters {found}, and this one for {expected}"))
            );
        }
        Ok(())
    }

    async fn get(&mut self, path: &str) -> Outcome<Vec<u8>> {
        let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => timeout(PATIENCE, self.connect()).await.map_err(|error| self.failed(error))??,
        };
        let request = Request::get(path)
            .header(header::HOST, self.authority()?)
            .body(Empty::new())
            .map_err(|error| self.failed(error))?;
        let work = async {
            connection.ready().await.map_err(|error| self.failed(error))?;
            let response = connection.send_request(request).await.map_err(|error| self.failed(error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
            let bytes = body.map_err(|error| self.failed(error))?.to_bytes().to_vec();
            match status {
                StatusCode::OK => Ok(bytes),
                status => {
                    let detail: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
                    Err(self.failed(format!("{path}: status {status}: {detail}")))
                }
            }
        };
        let bytes = timeout(PATIENCE, work).await.map_err(|error| self.failed(error))??;
        self.connection = Some(connection);
        Ok(bytes)
    }

    fn uri(&self) -> Outcome<Uri> {
        self.config.url.parse().map_err(|error| self.unfit(format!("mirror.url: {error}")))
    }

    fn authority(&self) -> Outcome<String> {
        let uri = self.uri()?;
        uri.authority().map(ToString::to_string).ok_or_else(|| self.unfit("mirror.url has no host"))
    }

    async fn connect(&self) -> Outcome<SendRequest<Empty<bytes::Bytes>>> {
        let uri = self.uri()?;
        let host = uri.host().ok_or_else(|| self.unfit("mirror.url has no host"))?.to_owned();
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(self.unfit("mirror.url is neither http nor https")),
        };
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let address = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let target = (address.as_str(), port);
        let stream = match self.config.proxy_address()? {
            None => TcpStream::connect(target).await.map_err(|error| self.failed(error))?,
            Some(proxy) => {
                // A user of its own, for a circuit of its own.
                let mut password = restante_wire::relay::Hex([0; 16]);
                crate::randomness::random(&mut password.0)?;
                let (user, password) = ("restante-mirror", password.to_string());
                Socks5Stream::connect_with_password(proxy, target, user, &password)
                    .await
                    .map_err(|error| self.failed(format!("through the proxy: {error}")))?
                    .into_inner()
            }
        };
        if is_tls {
            let name = ServerName::try_from(address).map_err(|error| self.failed(error))?;
            let connector = self.connector()?;
            let stream =
                connector.connect(name, stream).await.map_err(|error| self.failed(explain(&error)))?;
            self.handshake(stream).await
        } else {
            self.handshake(stream).await
        }
    }

    async fn handshake(
        &self,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    ) -> Outcome<SendRequest<Empty<bytes::Bytes>>> {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failed(error))?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    fn connector(&self) -> Outcome<TlsConnector> {
        let mut roots = RootCertStore::empty();
        match &self.config.authority {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let wrong = |error: &dyn std::fmt::Display| {
                    self.unfit(format!("mirror.authority: {}: {error}", path.display()))
                };
                let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
                for certificate in certificates {
                    let certificate = certificate.map_err(|error| wrong(&error))?;
                    roots.add(certificate).map_err(|error| wrong(&error))?;
                }
                if roots.is_empty() {
                    return Err(wrong(&"it holds no certificate, expected one in PEM"));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| self.failed(error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}
