//! Why a request had no answer.

use std::{error::Error, fmt, io};

use restante_client::relay::Cause;

use crate::proxy::Chosen;

/// A failed exchange, for a machine's outcome and for a person. It has nothing of what was sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub cause: Cause,
    proxy: Option<String>,
    detail: Option<String>,
}

/// The longest detail that is shown: it may hold what somebody else says.
const DETAIL_CHARACTERS: usize = 200;

/// Tells a relay's operator how to mend such a certificate.
const OF_AUTHORITY: &str = "it is an authority's (CA:TRUE): the relay's operator makes another with openssl req -x509 -addext \
                            basicConstraints=critical,CA:FALSE (docs/operating.md, TLS)";

impl Failure {
    /// Of a request that went through a proxy, or through none.
    pub fn of(error: &ureq::Error, proxy: Option<&Chosen>) -> Self {
        let (mut cause, detail) = match error {
            ureq::Error::HostNotFound => (Cause::NameNotFound, None),
            ureq::Error::Timeout(_) => (Cause::TimedOut, None),
            ureq::Error::ConnectProxyFailed(reason) => (Cause::Proxy, Some(reason.clone())),
            ureq::Error::Rustls(error) => of_tls(error),
            ureq::Error::Tls(reason) => (Cause::Tls, Some((*reason).to_owned())),
            ureq::Error::BodyExceedsLimit(_) => (Cause::TooLong, None),
            ureq::Error::Io(error) => of_io(error, proxy.is_some()),
            _ => (Cause::BrokeOff, None),
        };
        // Through a proxy nothing else is resolved and connected to by this program.
        if proxy.is_some() && matches!(cause, Cause::NameNotFound | Cause::Refused | Cause::Unreachable) {
            let reason = cause.to_string();
            cause = Cause::Proxy;
            return Self { cause, proxy: proxy.map(Chosen::name), detail: Some(reason) };
        }
        let detail =
            detail.map(|text| text.chars().filter(|c| !c.is_control()).take(DETAIL_CHARACTERS).collect());
        Self { cause, proxy: proxy.map(Chosen::name), detail }
    }
}

fn of_tls(error: &rustls::Error) -> (Cause, Option<String>) {
    match error {
        // What `openssl req -x509` makes unless it is told otherwise.
        rustls::Error::InvalidCertificate(reason) if format!("{reason:?}").contains("CaUsedAsEndEntity") => {
            (Cause::Certificate, Some(OF_AUTHORITY.into()))
        }
        rustls::Error::InvalidCertificate(reason) => (Cause::Certificate, Some(reason.to_string())),
        error => (Cause::Tls, Some(error.to_string())),
    }
}

fn of_io(error: &io::Error, through_proxy: bool) -> (Cause, Option<String>) {
    let inner =
        error.get_ref().and_then(|inner| (inner as &(dyn Error + 'static)).downcast_ref::<rustls::Error>());
    if let Some(error) = inner {
        return of_tls(error);
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => (Cause::Refused, None),
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable => (Cause::Unreachable, None),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => (Cause::TimedOut, None),
        // What the handshake with a SOCKS proxy ends in, if it is not what was hoped for.
        io::ErrorKind::Other
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
            if through_proxy && error.get_ref().is_some() =>
        {
            (Cause::Proxy, Some(error.to_string()))
        }
        _ => (Cause::BrokeOff, None),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        match &self.proxy {
            Some(proxy) => write!(f, " (through the proxy {proxy})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart_and_controls_are_not_passed_on() {
        let io = |kind: io::ErrorKind| Failure::of(&io::Error::from(kind).into(), None).cause;
        assert_eq!(io(io::ErrorKind::ConnectionRefused), Cause::Refused);
        assert_eq!(io(io::ErrorKind::NetworkUnreachable), Cause::Unreachable);
        assert_eq!(io(io::ErrorKind::TimedOut), Cause::TimedOut);
        assert_eq!(io(io::ErrorKind::UnexpectedEof), Cause::BrokeOff);
        assert_eq!(io(io::ErrorKind::ConnectionReset), Cause::BrokeOff);
        assert_eq!(Failure::of(&ureq::Error::HostNotFound, None).cause, Cause::NameNotFound);
        let certificate = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        for error in [
            ureq::Error::Rustls(certificate.clone()),
            io::Error::new(io::ErrorKind::InvalidData, certificate).into(),
        ] {
            let failure = Failure::of(&error, None);
            assert_eq!(failure.cause, Cause::Certificate);
            assert!(failure.to_string().starts_with("its certificate was refused: "), "{failure}");
        }
        let said = format!("\u{1b}[31m{}", "x".repeat(1000));
        let failure = Failure::of(&ureq::Error::ConnectProxyFailed(said), None).to_string();
        assert!(failure.len() < 300 && !failure.contains('\u{1b}'), "{failure}");
    }
}
