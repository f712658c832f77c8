//! HTTP/2: a client, and frames that no client would send.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a panic is how a test fails; not every test needs everything"
)]

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use restante_load::Response;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// A connection, and the task that moves its bytes; it ends when the connection does.
pub struct Client {
    pub sender: SendRequest<Bytes>,
    pub driver: JoinHandle<()>,
}

impl Client {
    /// In the clear, with prior knowledge.
    pub async fn open(address: SocketAddr, builder: &Builder) -> Self {
        Self::over(tokio::net::TcpStream::connect(address).await.unwrap(), builder).await
    }

    /// Over TLS, if the relay agrees to HTTP/2.
    pub async fn open_tls(address: SocketAddr, authority: CertificateDer<'static>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = "127.0.0.1".try_into().unwrap();
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Self::over(stream, &Builder::new()).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, builder: &Builder) -> Self {
        let (sender, connection) = builder.handshake(stream).await.unwrap();
        let driver = tokio::spawn(async move { drop(connection.await) });
        Self { sender, driver }
    }

    /// Sends the header, and the body if there is one; the answer is to be waited for.
    pub async fn begin(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<ResponseFuture, h2::Error> {
        let mut request = Request::builder().method(method).uri(format!("http://127.0.0.1{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-length", body.len());
        }
        poll_fn(|context| self.sender.poll_ready(context)).await?;
        let (answer, mut stream) = self.sender.send_request(request.body(()).unwrap(), body.is_none())?;
        if let Some(body) = body {
            stream.send_data(Bytes::copy_from_slice(body), true)?;
        }
        Ok(answer)
    }

    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Response, h2::Error> {
        let answer = self.begin(method, path, fields, body).await?;
        finish(answer).await
    }
}

/// Waits for an answer and reads it.
pub async fn finish(answer: ResponseFuture) -> Result<Response, h2::Error> {
    let (parts, mut stream) = answer.await?.into_parts();
    let mut body = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part?;
        stream.flow_control().release_capacity(part.len())?;
        body.extend_from_slice(&part);
    }
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Ok(Response { status: parts.status.as_u16(), headers, body })
}

/// A connection on which any frame can be sent (RFC 9113, section 4).
pub struct Frames(pub TcpStream);

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The header of a request, in HPACK without a table: static names, literal values.
pub fn header(is_post: bool, path: &str) -> Vec<u8> {
    let mut block = vec![if is_post { 0x83 } else { 0x82 }, 0x86, 0x04, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    // :authority, content-type.
    block.extend_from_slice(&[0x01, 1, b'a', 0x0f, 0x10, 16]);
    block.extend_from_slice(b"application/json");
    block
}

impl Frames {
    /// Sends the preface and these settings.
    pub fn open(address: SocketAddr, settings: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, settings)).unwrap();
        Self(stream)
    }

    /// Kind, flags, stream and payload of the next frame; none when the connection is closed.
    pub fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut start = [0; 9];
        self.0.read_exact(&mut start).ok()?;
        let number = |bytes: &[u8]| bytes.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        let mut payload = vec![0; number(&start[..3]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some((start[3], start[4], number(&start[5..]), payload))
    }

    /// Waits for a frame of a kind, answering pings and settings on the way.
    pub fn until(&mut self, kind: u8) -> Option<(u32, Vec<u8>)> {
        loop {
            let (found, flags, stream, payload) = self.next()?;
            if found == kind {
                return Some((stream, payload));
            }
            let answer = match (found, flags & ACK) {
                (PING, 0) => frame(PING, ACK, 0, &payload),
                (SETTINGS, 0) => frame(SETTINGS, ACK, 0, &[]),
                _ => continue,
            };
            self.0.write_all(&answer).ok()?;
        }
    }
}
