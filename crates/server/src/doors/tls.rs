//! Certificates: read from PEM files at the start, so that a wrong one costs nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::TlsAcceptor;

/// Why there is no encryption.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("cannot read {} as PEM: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no certificate", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// The key does not belong to the certificate.
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Takes connections with this certificate, in TLS 1.2 and 1.3.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(file(certificate))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(file(certificate))?;
    if chain.is_empty() {
        return Err(TlsError::Empty { path: certificate.to_owned() });
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(file(key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
