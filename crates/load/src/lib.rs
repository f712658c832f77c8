#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of the longest answer that is read.
const ANSWER_BYTES: u64 = 1 << 30;

/// A connection to a relay.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Names, in lower case, and values of the header.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A field of the header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`].
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> io::Result<T> {
        serde_json::from_slice(&self.body).map_err(io::Error::from)
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(address)?)
    }

    /// A connection over a stream that is open, wherever it comes from.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { address: stream.peer_addr()?, stream: BufReader::new(stream) })
    }

    /// The stream, for requests that no client would send.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Sends a request and reads its answer. Of a body its length is announced.
    ///
    /// # Errors
    ///
    /// Those of the system; [`io::ErrorKind::InvalidData`] for what is no answer.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> io::Result<Response> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        // An answer may come before everything was sent, and then be all that comes.
        let sent = self.stream.get_mut().write_all(&bytes);
        match self.read(method == "HEAD") {
            Ok(response) => Ok(response),
            Err(error) => sent.and(Err(error)),
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// As for [`Connection::send`].
    pub fn read(&mut self, without_body: bool) -> io::Result<Response> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| wrong("expected a status line"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| wrong("expected a header field"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response { status, headers, body: Vec::new() };
        if without_body || status == 204 {
            return Ok(response);
        }
        if let Some(length) = response.header("content-length").and_then(|length| length.parse::<u64>().ok())
        {
            self.stream.by_ref().take(length.min(ANSWER_BYTES)).read_to_end(&mut response.body)?;
            if response.body.len() as u64 != length {
                return Err(wrong("the answer broke off"));
            }
        } else if response.header("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.line()?;
                let length =
                    u64::from_str_radix(&line, 16).map_err(|_| wrong("expected the length of a chunk"))?;
                self.stream.by_ref().take(length.min(ANSWER_BYTES)).read_to_end(&mut response.body)?;
                self.line()?;
                if length == 0 {
                    break;
                }
            }
        }
        Ok(response)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.by_ref().take(64 << 10).read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}
