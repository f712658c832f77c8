//! Certificates of a relay that does TLS itself.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, RwLock};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use crate::locks::{read, write};
use crate::{ServerError, TlsConfig};

/// How to make a certificate that clients take.
const RECIPE: &str = "make one with `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out chain.pem \
                      -days 365 -subj /CN=relay.example -addext subjectAltName=DNS:relay.example -addext \
                      basicConstraints=critical,CA:FALSE` (docs/operating.md, TLS)";

/// The certificates that new connections get.
#[derive(Clone)]
pub(crate) struct Tls {
    config: TlsConfig,
    acceptor: Arc<RwLock<TlsAcceptor>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads certificates and key.
    ///
    /// # Errors
    ///
    /// [`ServerError::Config`] with the field and the file.
    pub(crate) fn open(config: &TlsConfig) -> Result<Self, ServerError> {
        let acceptor = Arc::new(RwLock::new(read_files(config)?));
        Ok(Self { config: config.clone(), acceptor })
    }

    /// Reads the files again. After an error connections get what they got before.
    pub(crate) fn reload(&self) -> Result<(), ServerError> {
        *write(&self.acceptor) = read_files(&self.config)?;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        read(&self.acceptor).clone()
    }
}

/// Certificates and key for TLS 1.3 and 1.2, and HTTP/2 for those who can.
fn read_files(config: &TlsConfig) -> Result<TlsAcceptor, ServerError> {
    let (certificates, key) = (certificates(&config.certificate)?, key(&config.key)?);
    if is_of_authority(&certificates) {
        let reason =
            format!("it is the certificate of an authority (CA:TRUE), which clients refuse: {RECIPE}");
        return Err(wrong("tls.certificate", &config.certificate, &reason));
    }
    let provider = Arc::new(ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                wrong("tls.key", &config.key, &"it is not the key of tls.certificate")
            }
            error => wrong("tls.certificate", &config.certificate, &error),
        })?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

fn wrong(field: &str, path: &Path, reason: &dyn Display) -> ServerError {
    ServerError::Config(format!("{field}: {}: {reason}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|error| wrong("tls.certificate", path, &error))?;
    if certificates.is_empty() {
        Err(wrong("tls.certificate", path, &"it holds no certificate, expected PEM (BEGIN CERTIFICATE)"))
    } else {
        Ok(certificates)
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, ServerError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        rustls_pki_types::pem::Error::NoItemsFound => {
            let expected =
                "it holds no private key, expected one in PEM without a password (BEGIN PRIVATE KEY)";
            wrong("tls.key", path, &expected)
        }
        error => wrong("tls.key", path, &error),
    })
}

/// Whether the first certificate is one that only an authority has. Clients that follow the rules of the web, as ours do, refuse it at
/// the end of a chain.
fn is_of_authority(certificates: &[CertificateDer<'_>]) -> bool {
    let Some(first) = certificates.first() else { return false };
    let Ok(parsed) = ParsedCertificate::try_from(first) else { return false };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned().map(CertificateDer::into_owned));
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(crate::clock::now()));
    let verdict =
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &certificates[1..], now, algorithms);
    verdict.is_err_and(|error| says_authority(&error))
}

/// Whether a certificate was refused because it is that of an authority.
fn says_authority(error: &dyn std::fmt::Debug) -> bool {
    format!("{error:?}").contains("CaUsedAsEndEntity")
}

/// Explains why a relay's certificate was refused.
pub(crate) fn explain(error: &(impl Display + std::fmt::Debug)) -> String {
    if says_authority(error) {
        format!(
            "its certificate is that of an authority (CA:TRUE), which is refused: its operator can {RECIPE}"
        )
    } else {
        error.to_string()
    }
}
