//! Listening, TLS, and connections with limits.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::ServiceExt;

use crate::activity::{self, Activity, Verdict};
use crate::api::{self, Peer};
use crate::limits::network;
use crate::locks::lock;
use crate::tls::Tls;
use crate::{Relay, ServerError, mirror};

/// Requests that are under way have so long to finish when the relay stops.
const GRACE: Duration = Duration::from_secs(20);
/// Bytes of a request's header.
const HEADER_BYTES: usize = 32 << 10;
/// Requests of an HTTP/2 connection at once.
const STREAMS: u32 = 64;
/// Streams of a connection that were reset before they were looked at, or because of errors, and count against the client.
const RESET_STREAMS: usize = 20;

/// A relay that listens.
#[derive(Debug)]
pub struct Running {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where operators connect.
    pub operations: SocketAddr,
    stop: tokio::sync::watch::Sender<bool>,
    done: tokio::task::JoinHandle<()>,
    tls: Option<Tls>,
    failure: Option<tokio::sync::oneshot::Receiver<ServerError>>,
}

impl Running {
    /// Waits until something shows that the relay cannot do what it is for: a mirror whose settings do not fit its origin.
    pub async fn failed(&mut self) -> ServerError {
        if let Some(failure) = &mut self.failure {
            match failure.await {
                Ok(error) => return error,
                // Nothing that could fail runs any more; nobody may ask the channel again.
                Err(_) => self.failure = None,
            }
        }
        std::future::pending().await
    }

    /// Reads certificates and key again, for connections from now on, and says in the log what came of it. If they cannot be used,
    /// connections get those from before.
    pub fn reload(&self) {
        match self.tls.as_ref().map(Tls::reload) {
            Some(Ok(())) => tracing::info!("certificates are read again"),
            Some(Err(error)) => tracing::error!(%error, "certificates stay as they were"),
            None => tracing::info!("there is no [tls], and nothing to read again"),
        }
    }

    /// Stops: new connections are refused, requests under way are finished, threads end.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.done.await {
            tracing::error!(%error, "the relay did not stop as it should");
        }
    }
}

/// Listens on the addresses of the configuration until it is told to stop.
///
/// # Errors
///
/// [`ServerError`] if an address cannot be listened on or a certificate cannot be read. Later errors concern one
/// connection each.
pub async fn serve(relay: Arc<Relay>) -> Result<Running, ServerError> {
    raise_descriptors(relay.config.limits.connections);
    let config = &relay.config;
    let bind = async |address: SocketAddr| {
        let listener =
            TcpListener::bind(address).await.map_err(|reason| ServerError::Listen { address, reason })?;
        let address = listener.local_addr().map_err(|reason| ServerError::Listen { address, reason })?;
        Ok::<_, ServerError>((listener, address))
    };
    let (public, address) = bind(config.listen).await?;
    let (operators, operations) = bind(config.operations).await?;
    let tls = config.tls.as_ref().map(Tls::open).transpose()?;
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let mut waiting = Vec::new();
    let (failed, failure) = tokio::sync::oneshot::channel();
    let listeners = [(public, api::public(&relay), tls.clone()), (operators, api::operators(&relay), None)];
    for (listener, router, tls) in listeners {
        let door = Door::new(relay.clone(), router, tls);
        waiting.push(tokio::spawn(door.run(listener, stop.subscribe())));
    }
    if config.mirror.is_some() {
        let work = mirror::run(relay.clone(), stop.subscribe());
        waiting.push(tokio::spawn(async move {
            if let Err(error) = work.await {
                // Nobody waits for it if the relay is stopping.
                drop(failed.send(error));
            }
        }));
    }
    tracing::info!(%address, %operations, "listening");
    let done = tokio::spawn(async move {
        // An error is a sender that was dropped.
        let _ = stopped.wait_for(|stop| *stop).await;
        relay.begin_stop();
        for task in waiting {
            if let Err(error) = task.await {
                tracing::error!(%error, "a listener failed");
            }
        }
        let stopped = tokio::task::spawn_blocking(move || relay.stop()).await;
        tracing::info!(clean = stopped.is_ok(), "stopped");
    });
    Ok(Running { address, operations, stop, done, tls, failure: Some(failure) })
}

/// Lets this process have as many files open as it may, and says so if they are too few.
fn raise_descriptors(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let now = if raised.is_ok() { limit.maximum } else { limit.current };
    let wanted = connections as u64 + 256;
    if now.is_some_and(|now| now < wanted) {
        tracing::warn!(now, wanted, "fewer files can be open than limits.connections needs");
    }
}

/// Serves a connection until it ends, the client lets it lie, or the relay stops. A macro, since the type of a connection cannot be
/// written.
macro_rules! finish {
    ($connection:expr, $activity:expr, $idle:expr, $rate:expr, $stop:expr) => {{
        let (mut connection, mut stop, mut told) = (pin!($connection), $stop, false);
        loop {
            tokio::select! {
                _ = connection.as_mut() => break,
                // An error is a relay that is gone.
                _ = stop.wait_for(|stop| *stop), if !told => {
                    told = true;
                    connection.as_mut().graceful_shutdown();
                }
                verdict = $activity.watch($idle, $rate) => {
                    if told || verdict == Verdict::Stalled {
                        break;
                    }
                    told = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }};
}

/// One listener and what is behind it.
struct Door {
    relay: Arc<Relay>,
    router: Router,
    tls: Option<Tls>,
    builder: Builder<TokioExecutor>,
    all: Arc<Semaphore>,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Door {
    fn new(relay: Arc<Relay>, router: Router, tls: Option<Tls>) -> Self {
        let limits = &relay.config.limits;
        let header = Duration::from_secs(limits.header_seconds);
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(header)
            .max_buf_size(HEADER_BYTES)
            .keep_alive(true);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            // Streams that are reset as soon as they are opened (CVE-2023-44487) end the connection.
            .max_pending_accept_reset_streams(RESET_STREAMS)
            .max_local_error_reset_streams(RESET_STREAMS)
            .max_header_list_size(HEADER_BYTES as u32)
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(1 << 20)
            .max_send_buf_size(256 << 10)
            .keep_alive_interval(header)
            .keep_alive_timeout(header);
        let all = Arc::new(Semaphore::new(limits.connections));
        Self { relay, router, tls, builder, all, by_address: Arc::default() }
    }

    async fn run(self, listener: TcpListener, mut stop: tokio::sync::watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: those that are open must end first.
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            // Whoever is one too many is hung up on: waiting would keep others out.
            let Some(place) = self.place(network(peer.ip())) else { continue };
            self.connection(stream, peer, place, stop.clone(), graceful.watcher());
        }
        drop(listener);
        if timeout(GRACE, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests were not finished in time");
        }
    }

    fn place(&self, address: IpAddr) -> Option<Place> {
        let permit = self.all.clone().try_acquire_owned().ok()?;
        let mut by_address = lock(&self.by_address);
        let own = by_address.entry(address).or_default();
        if *own >= self.relay.config.limits.connections_per_address {
            return None;
        }
        *own += 1;
        self.relay.metrics.connections.inc();
        Some(Place {
            address,
            by_address: self.by_address.clone(),
            relay: self.relay.clone(),
            _permit: permit,
        })
    }

    fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        place: Place,
        stop: tokio::sync::watch::Receiver<bool>,
        watcher: hyper_util::server::graceful::Watcher,
    ) {
        // Small answers must not wait for more.
        let _ = stream.set_nodelay(true);
        let (router, tls, builder) = (self.router.clone(), self.tls.clone(), self.builder.clone());
        let limits = &self.relay.config.limits;
        let rate = limits.body_bytes_per_second;
        let [handshake, idle] = [limits.header_seconds, limits.idle_seconds].map(Duration::from_secs);
        tokio::spawn(async move {
            let _held = (place, watcher);
            let activity = Activity::new();
            let begun = activity.clone();
            let service = service_fn(move |mut request: hyper::Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                let (router, under) = (router.clone(), begun.begin());
                async move {
                    let response = router.oneshot(request.map(axum::body::Body::new)).await?;
                    under.revocable(response.extensions().get().cloned());
                    Ok::<_, Infallible>(response.map(|body| activity::Watched::new(body, under)))
                }
            });
            // Errors end the connection; they are the client's and not worth a line in the log.
            let stream = Watched::new(stream, idle);
            match tls {
                None => {
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    finish!(connection, activity, idle, rate, stop);
                }
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(handshake, tls.acceptor().accept(stream)).await {
                        let connection = builder.serve_connection(TokioIo::new(stream), service);
                        finish!(connection, activity, idle, rate, stop);
                    }
                }
            }
        });
    }
}

/// A connection's place among those that may be open.
struct Place {
    address: IpAddr,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    relay: Arc<Relay>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.relay.metrics.connections.dec();
        let mut by_address = lock(&self.by_address);
        if let Some(own) = by_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// A stream that fails when for a while nothing has come and nothing was taken. Answers that take long send something now and
/// then.
struct Watched<S> {
    stream: S,
    limit: Duration,
    moved: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl<S> Watched<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, moved: Instant::now(), alarm: Box::pin(sleep(limit)) }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.moved = Instant::now();
            return progress;
        }
        while self.alarm.as_mut().poll(context).is_ready() {
            let due = self.moved + self.limit;
            if due <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watch(context, progress)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, progress)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
