//! A small HTTPS client: one HTTP/2 connection per worker.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::Failure;

/// Where a server is and how to get in, as a kubeconfig says it.
pub struct Access {
    pub address: SocketAddr,
    pub token: String,
    tls: Arc<rustls::ClientConfig>,
}

fn value_after<'t>(text: &'t str, key: &str) -> Result<&'t str, Failure> {
    let at = text
        .find(key)
        .ok_or_else(|| format!("the kubeconfig has no {key}"))?;
    Ok(text[at + key.len()..]
        .lines()
        .next()
        .unwrap_or_default()
        .trim())
}

impl Access {
    /// Reads a kubeconfig as `everflow cluster start` and `real/peers.sh` write it.
    pub fn read(file: &str) -> Result<Self, Failure> {
        use base64::Engine as _;
        let text = std::fs::read_to_string(file)?;
        let url = value_after(&text, "server: https://")?;
        let ca = value_after(&text, "certificate-authority-data:")?;
        let ca = base64::engine::general_purpose::STANDARD.decode(ca)?;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&ca) {
            roots.add(certificate.map_err(|error| format!("{error:?}"))?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Access {
            address: url.parse()?,
            token: value_after(&text, "token:")?.to_owned(),
            tls: Arc::new(tls),
        })
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let stream = tokio::net::TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = rustls::pki_types::ServerName::from(self.address.ip());
        let connector = tokio_rustls::TlsConnector::from(self.tls.clone());
        let stream = connector.connect(name, stream).await?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 22)
            .initial_connection_window_size(1 << 24)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Client {
            sender,
            base: format!("https://{}", self.address),
            token: format!("Bearer {}", self.token),
        })
    }
}

/// One connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    base: String,
    token: String,
}

impl Client {
    /// Sends a request; the answer's body is still to be read.
    pub async fn open(
        &mut self,
        method: &str,
        path: &str,
        media: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, Failure> {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", &self.token)
            .header("accept", "application/json")
            .header("content-type", media)
            .header("user-agent", "bench/1")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Failure> {
        let answer = self.open(method, path, media, body.into()).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!(
                "{method} {path}: {status} {}",
                String::from_utf8_lossy(&body)
            )
            .into());
        }
        Ok(body)
    }
}
