//! What only shows on the wire: certificates, compression, sizes, indentation.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connections;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use everflow_cluster::auth::User;
use everflow_cluster::env::SystemEnvironment;
use everflow_cluster::faults::NoFaults;
use everflow_cluster::{ApiServer, Authority, Options, serve};
use everflow_json::Value;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;

struct Place {
    address: SocketAddr,
    authority: Authority,
    server: ApiServer,
}

async fn place() -> Place {
    let authority = Authority::generate(&["127.0.0.1".to_owned()]).unwrap();
    let options = Options {
        authorization: true,
        tokens: vec![("secret".into(), User::admin())],
        ..Options::default()
    };
    let server = ApiServer::new(Arc::new(SystemEnvironment::new()), options);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = authority.server_config().unwrap();
    tokio::spawn(serve(
        server.clone(),
        Arc::new(NoFaults),
        listener,
        tls,
        std::future::pending(),
    ));
    Place {
        address,
        authority,
        server,
    }
}

impl Place {
    /// What a client needs to speak TLS with the server.
    fn client(&self, identity: Option<&(String, String)>) -> Arc<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.authority.ca_certificate.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            Some((certificate, key)) => config
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
            None => config.with_no_client_auth(),
        };
        Arc::new(config)
    }

    /// A connection over any stream.
    async fn over<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        client: Arc<rustls::ClientConfig>,
    ) -> TlsStream<S> {
        let name = rustls::pki_types::ServerName::from(self.address.ip());
        let connecting = tokio_rustls::TlsConnector::from(client).connect(name, stream);
        connecting.await.unwrap()
    }

    /// Sends one request over a connection of its own.
    async fn send(
        &self,
        identity: Option<&(String, String)>,
        request: Request<Full<Bytes>>,
    ) -> Response<Bytes> {
        let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let stream = self.over(stream, self.client(identity)).await;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(parts, body)
    }
}

fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("accept", "application/json")
}

fn with_token(path: &str) -> http::request::Builder {
    request("GET", path).header("authorization", "Bearer secret")
}

fn empty() -> Full<Bytes> {
    Full::new(Bytes::new())
}

#[tokio::test]
async fn client_certificate_gives_user_and_groups() {
    let place = place().await;
    let whoami = || {
        request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from_static(b"{}")))
            .unwrap()
    };
    let jane = place
        .authority
        .client_certificate("jane", Some("devs"))
        .unwrap();
    let answer = place.send(Some(&jane), whoami()).await;
    assert_eq!(answer.status(), 201);
    let review: Value = everflow_json::from_slice(answer.body()).unwrap();
    let info = &review["status"]["userInfo"];
    assert_eq!(info["username"], "jane");
    assert_eq!(
        info["groups"],
        everflow_json::json!(["devs", "system:authenticated"])
    );

    let stranger = Authority::generate(&["127.0.0.1".to_owned()]).unwrap();
    let mallory = stranger
        .client_certificate("mallory", Some("system:masters"))
        .unwrap();
    let answer = place.send(Some(&mallory), whoami()).await;
    assert_eq!(answer.status(), 401);
    let with_token = with_token("/api/v1/namespaces").body(empty()).unwrap();
    assert_eq!(place.send(Some(&mallory), with_token).await.status(), 200);
}

#[tokio::test]
async fn answers_are_compressed_and_indented_where_asked() {
    let place = place().await;
    let answer = place
        .send(
            None,
            with_token("/openapi/v2")
                .header("accept-encoding", "gzip")
                .body(empty())
                .unwrap(),
        )
        .await;
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let small = with_token("/api/v1/namespaces/default")
        .header("accept-encoding", "gzip")
        .body(empty())
        .unwrap();
    let answer = place.send(None, small).await;
    assert!(answer.headers().get("content-encoding").is_none());
    assert!(answer.body().ends_with(b"}\n"));
    let curl = with_token("/api/v1/namespaces/default")
        .header("user-agent", "curl/8.5.0")
        .body(empty())
        .unwrap();
    let answer = place.send(None, curl).await;
    assert!(answer.body().starts_with(b"{\n  \"apiVersion\""));
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let place = place().await;
    let huge = Request::builder()
        .method("POST")
        .uri("/api/v1/namespaces/default/configmaps")
        .header("host", "localhost")
        .header("authorization", "Bearer secret")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(vec![b' '; 3 * 1024 * 1024 + 1])))
        .unwrap();
    let answer = place.send(None, huge).await;
    assert_eq!(answer.status(), 413);
    let status: Value = everflow_json::from_slice(answer.body()).unwrap();
    assert_eq!(status["reason"], "RequestEntityTooLarge");
    assert_eq!(
        status["message"],
        "Request entity too large: limit is 3145728"
    );
}
