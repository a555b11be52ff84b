//! The server over HTTPS, as a client on another machine would speak to it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everflow_cluster::faults::NoFaults;
use everflow_cluster::{ApiServer, Authority, Tls, serve};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;

use crate::run::{Content, Events, Plain, Reply, Transport};

/// One HTTP/2 connection over TLS to a server on loopback.
pub struct Https {
    runtime: Arc<tokio::runtime::Runtime>,
    sender: SendRequest<Full<Bytes>>,
    address: std::net::SocketAddr,
}

/// What all connections of a thread share.
#[derive(Clone)]
pub struct Net {
    runtime: Arc<tokio::runtime::Runtime>,
    server: Tls,
    client: Arc<rustls::ClientConfig>,
}

impl Net {
    pub fn new(authority: &Authority) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let ca =
            rustls::pki_types::CertificateDer::from_pem_slice(authority.ca_certificate.as_bytes());
        roots.add(ca.unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        Net {
            runtime: Arc::new(runtime),
            server: authority.server_config().unwrap(),
            client: Arc::new(client),
        }
    }
}

impl Https {
    /// Serves and connects. Server and client run while a request is waited for.
    pub fn open(net: &Net, server: ApiServer) -> Self {
        let net = net.clone();
        let (sender, address) = net.runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let tls = net.server.clone();
            tokio::spawn(serve(
                server,
                Arc::new(NoFaults),
                listener,
                tls,
                std::future::pending(),
            ));
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let name = rustls::pki_types::ServerName::from(address.ip());
            let connector = tokio_rustls::TlsConnector::from(net.client.clone());
            let stream = connector.connect(name, stream).await.unwrap();
            let (sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            (sender, address)
        });
        Https {
            runtime: net.runtime,
            sender,
            address,
        }
    }
}

/// A target that may stand in a request line: what a client would escape is escaped.
fn escaped(target: &str) -> String {
    let mut text = String::new();
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~'
                if !matches!(
                    byte,
                    b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#'
                ) =>
            {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

impl Transport for Https {
    fn send(&mut self, request: &Plain) -> Reply {
        let mut built = http::Request::builder()
            .method(request.method.as_str())
            .uri(format!(
                "https://{}{}",
                self.address,
                escaped(&request.target)
            ));
        for (name, value) in &request.headers {
            built = built.header(name, value.as_bytes());
        }
        let built = built
            .body(Full::new(Bytes::from(request.body.clone())))
            .unwrap();
        let watch = is_watch(&request.target);
        let sender = &mut self.sender;
        let (parts, body, full) = self.runtime.block_on(async move {
            let answer = sender.send_request(built).await.unwrap();
            let (parts, body) = answer.into_parts();
            if watch && parts.status == 200 {
                return (parts, Some(body), Bytes::new());
            }
            let full = body.collect().await.unwrap().to_bytes();
            (parts, None, full)
        });
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let body = match body {
            Some(body) => Content::Events(Box::new(Streamed {
                runtime: self.runtime.clone(),
                body,
            })),
            None => Content::Full(full.to_vec()),
        };
        Reply {
            status: parts.status.as_u16(),
            headers,
            body,
        }
    }
}

fn is_watch(target: &str) -> bool {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    path.contains("/watch/")
        || query
            .split('&')
            .any(|pair| pair.starts_with("watch=") && !matches!(pair, "watch=false" | "watch=0"))
}

struct Streamed {
    runtime: Arc<tokio::runtime::Runtime>,
    body: Incoming,
}

impl Events for Streamed {
    fn read(&mut self, wanted: usize) -> Vec<u8> {
        let body = &mut self.body;
        self.runtime.block_on(async move {
            let mut lines: Vec<u8> = Vec::new();
            loop {
                let seen = lines.iter().filter(|byte| **byte == b'\n').count();
                // What is expected may take its time; whether more than that comes shows soon.
                let patience = if seen < wanted { 2000 } else { 2 };
                let frame = tokio::time::timeout(Duration::from_millis(patience), body.frame());
                match frame.await {
                    Ok(Some(Ok(frame))) => {
                        if let Ok(data) = frame.into_data() {
                            lines.extend_from_slice(&data);
                        }
                    }
                    _ => return lines,
                }
            }
        })
    }
}
