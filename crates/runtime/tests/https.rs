//! The transport to real clusters, against the embedded API server behind real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::env::SystemEnvironment;
use everflow_cluster::faults::{Faults, NoFaults, Verdict};
use everflow_cluster::{ApiServer, Authority, Options, Request, kubeconfig, serve};
use everflow_connect::Proxy;
use everflow_env::{Env, RealDisk, Stream};
use everflow_json::json;
use everflow_runtime::Error;
use everflow_runtime::client::{
    At, Client, Patch, Resource, Selection, Transport, WatchEvent, WatchFrom, WriteOptions,
};
use everflow_runtime::transport::{ClusterConfig, Hidden, HttpsTransport, Login};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

struct Cluster {
    authority: Authority,
    config: ClusterConfig,
    env: Env,
    directory: tempfile::TempDir,
}

async fn cluster(faults: Arc<dyn Faults>) -> Cluster {
    let options = Options {
        authorization: true,
        tokens: vec![
            ("right".into(), User::admin()),
            ("other".into(), User::admin()),
        ],
        ..Options::default()
    };
    let server = ApiServer::new(Arc::new(SystemEnvironment::new()), options);
    let authority = Authority::generate(&["127.0.0.1".into(), "localhost".into()]).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = authority.server_config().unwrap();
    tokio::spawn(serve(server, faults, listener, tls, std::future::pending()));
    let text = kubeconfig(&url, &authority.ca_certificate, "right");
    let config = ClusterConfig::from_text(text.as_bytes(), None, "kubeconfig", None).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let env = Env::system(RealDisk::new(directory.path()).unwrap());
    Cluster {
        authority,
        config,
        env,
        directory,
    }
}

impl Cluster {
    fn client(&self, change: impl FnOnce(&mut ClusterConfig)) -> Client {
        let mut config = self.config.clone();
        change(&mut config);
        let transport = HttpsTransport::new(&self.env, config).unwrap();
        Client::new(Arc::new(transport), self.env.clock.clone())
    }
}

async fn works(client: &Client) -> Result<(), Error> {
    let all = Selection::default();
    client
        .list_all(&MAPS, Some("default"), &all)
        .await
        .map(drop)
}

#[tokio::test]
async fn requests_and_watches_go_over_one_secure_connection() {
    let cluster = cluster(Arc::new(NoFaults)).await;
    let client = cluster.client(|_| {});
    let by = WriteOptions::by("tester");
    let all = Selection::default();
    let span = Duration::from_secs(60);
    let everything = WatchFrom::Everything;
    let mut watch = client
        .watch(&MAPS, Some("default"), &all, everything, span)
        .await
        .unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    client.create(&MAPS, "default", &map, &by).await.unwrap();
    loop {
        if let WatchEvent::Set(object) = watch.next().await.unwrap().unwrap()
            && object["metadata"]["name"] == "a"
        {
            break;
        }
    }
    let tasks = (0..200).map(|number| {
        let (client, by) = (client.clone(), by.clone());
        async move {
            let patch = Patch::Merge(json!({"data": {number.to_string(): "x"}}));
            client
                .patch(&MAPS, At::new("default", "a"), &patch, &by)
                .await
        }
    });
    for result in futures_util::future::join_all(tasks).await {
        result.unwrap();
    }
    let stored = client.get(&MAPS, At::new("default", "a")).await.unwrap();
    assert_eq!(stored["data"].as_object().unwrap().len(), 201);
}

#[tokio::test]
async fn wrong_credentials_and_untrusted_servers_give_different_errors() {
    let cluster = cluster(Arc::new(NoFaults)).await;
    let wrong = cluster.client(|config| config.login = Login::Token(Hidden("wrong".into())));
    assert_eq!(works(&wrong).await.unwrap_err().reason(), "Unauthorized");
    let stranger = Authority::generate(&["127.0.0.1".into()]).unwrap();
    let stranger =
        cluster.client(|config| config.authority = Some(stranger.ca_certificate.into_bytes()));
    let error = works(&stranger).await.unwrap_err();
    assert_eq!(error.reason(), "Transport");
    assert!(
        error.to_string().contains("invalid peer certificate"),
        "{error}"
    );
    let trusting = cluster.client(|config| (config.authority, config.insecure) = (None, true));
    works(&trusting).await.unwrap();
    let misnamed = cluster.client(|config| config.server_name = Some("elsewhere.example".into()));
    assert!(
        works(&misnamed)
            .await
            .unwrap_err()
            .to_string()
            .contains("not valid for name")
    );
    let closed = cluster.client(|config| config.port = 1);
    let error = works(&closed).await.unwrap_err();
    assert!(
        error
            .to_string()
            .to_lowercase()
            .contains("connection refused"),
        "{error}"
    );
    let mut broken = cluster.config.clone();
    broken.authority = Some(b"no certificate".to_vec());
    let error = HttpsTransport::new(&cluster.env, broken).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the certificate authority has no certificate in it"),
        "{error}"
    );
}

#[tokio::test]
async fn a_token_that_changes_is_read_again() {
    let cluster = cluster(Arc::new(NoFaults)).await;
    let path = cluster.directory.path().join("token");
    let client = cluster.client(|config| config.login = Login::TokenFile(path.clone()));
    assert!(
        works(&client)
            .await
            .unwrap_err()
            .to_string()
            .contains("token file")
    );
    std::fs::write(&path, "old\n").unwrap();
    assert_eq!(works(&client).await.unwrap_err().reason(), "Unauthorized");
    std::fs::write(&path, "right\n").unwrap();
    works(&client).await.unwrap();
}

fn script(directory: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join("plugin");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn plugins_give_tokens() {
    let cluster = cluster(Arc::new(NoFaults)).await;
    let with = |text: &str| {
        let command = script(cluster.directory.path(), text);
        let config = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: {{server: \"https://x\"}}}}]\nusers: [{{name: u, user: {{exec: {{command: {command}, args: [right], env: [{{name: SAY, value: ExecCredential}}]}}}}}}]\n"
        );
        let parsed = ClusterConfig::from_text(config.as_bytes(), None, "kubeconfig", None).unwrap();
        cluster.client(|config| config.login = parsed.login)
    };
    let good = with(
        r#"echo "$KUBERNETES_EXEC_INFO" | grep -q client.authentication.k8s.io || exit 3; echo "{\"kind\":\"$SAY\",\"status\":{\"token\":\"$1\"}}""#,
    );
    works(&good).await.unwrap();
    let bad = with("echo who are you >&2; exit 7");
    let error = works(&bad).await.unwrap_err().to_string();
    assert!(
        error.ends_with("failed (exit status: 7): who are you"),
        "{error}"
    );
    let empty = with("echo '{\"status\":{}}'");
    let error = works(&empty).await.unwrap_err().to_string();
    assert!(
        error.ends_with("gave neither a token nor a certificate with its key"),
        "{error}"
    );
}

/// Requests hang for a while; the transport then takes new connections.
struct Hangs(std::sync::atomic::AtomicBool);

impl Faults for Hangs {
    fn before(&self, _: &Request) -> Verdict {
        match self.0.load(std::sync::atomic::Ordering::SeqCst) {
            true => Verdict::Delay(Duration::from_secs(3_600)),
            false => Verdict::Pass,
        }
    }
}

#[tokio::test]
async fn hanging_server_does_not_block_the_client() {
    let faults = Arc::new(Hangs(true.into()));
    let cluster = cluster(faults.clone()).await;
    let client = cluster
        .client(|_| {})
        .with_deadline(Duration::from_millis(300));
    assert_eq!(works(&client).await.unwrap_err().reason(), "Timeout");
    faults.0.store(false, std::sync::atomic::Ordering::SeqCst);
    let client = client.with_deadline(Duration::from_secs(10));
    works(&client).await.unwrap();
}

#[tokio::test]
async fn requests_go_through_the_proxy() {
    let cluster = cluster(Arc::new(NoFaults)).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(near.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            let mut far = tokio::net::TcpStream::connect(&target).await.unwrap();
            near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            asked.send(target).unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    let client = cluster.client(|config| {
        config.proxy = Some(Proxy::new(&format!("http://{address}"), None).unwrap())
    });
    works(&client).await.unwrap();
    assert_eq!(
        heard.recv().await.unwrap(),
        format!("127.0.0.1:{}", cluster.config.port)
    );
}

/// Reads the head of an HTTP request.
async fn head(near: &mut (dyn Stream + 'static)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn pass_on(mut near: Box<dyn Stream>, target: &str) {
    let mut far = tokio::net::TcpStream::connect(target).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
}

/// A proxy's side of TLS, with the certificate of the cluster's server.
fn acceptor(authority: &Authority) -> tokio_rustls::TlsAcceptor {
    let chain = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(authority.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    Arc::new(config).into()
}

/// `me:geheim` in the header of a proxy.
const ME: &str = "Proxy-Authorization: Basic bWU6Z2VoZWlt\r\n";

#[tokio::test]
async fn secure_proxy_is_trusted_by_the_authority_of_the_cluster_and_asked_with_credentials() {
    let cluster = cluster(Arc::new(NoFaults)).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = acceptor(&cluster.authority);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                let Ok(near) = tls.accept(near).await else {
                    return;
                };
                let mut near: Box<dyn Stream> = Box::new(near);
                let head = head(&mut *near).await;
                if !head.contains(ME) {
                    let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
                    near.write_all(refusal).await.unwrap();
                    return near.flush().await.unwrap();
                }
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                pass_on(near, head.split(' ').nth(1).unwrap()).await;
            });
        }
    });
    let through = |address: &str| {
        let proxy = Proxy::new(address, None).unwrap();
        cluster.client(|config| config.proxy = Some(proxy))
    };
    works(&through(&format!("https://me:geheim@localhost:{port}")))
        .await
        .unwrap();
    let refused = works(&through(&format!("https://me:falsch@localhost:{port}"))).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.ends_with("Proxy Authentication Required"),
        "{refused}"
    );
    assert!(!refused.contains("falsch"), "{refused}");
    // A proxy that is a stranger does not make the server one.
    let stranger = Authority::generate(&["localhost".into()]).unwrap();
    let unknown = Proxy::new(&format!("https://me:geheim@localhost:{port}"), None).unwrap();
    let unknown = cluster.client(|config| {
        config.proxy = Some(unknown);
        config.authority = Some(stranger.ca_certificate.into_bytes());
    });
    let error = works(&unknown).await.unwrap_err().to_string();
    assert!(
        error.contains("proxyconnect tcp: tls: failed to verify certificate"),
        "{error}"
    );
    assert!(!error.contains("geheim"), "{error}");
}

async fn bytes(near: &mut (dyn Stream + 'static), length: u8) -> Vec<u8> {
    let mut read = vec![0; usize::from(length)];
    near.read_exact(&mut read).await.unwrap();
    read
}

/// A text with its length before it.
async fn text(near: &mut (dyn Stream + 'static)) -> String {
    let length = near.read_u8().await.unwrap();
    String::from_utf8(bytes(near, length).await).unwrap()
}

/// A SOCKS 5 proxy that knows `me:geheim` and is asked for names only.
async fn socks(mut near: Box<dyn Stream>) {
    assert_eq!(bytes(&mut *near, 4).await, [5, 2, 0, 2]);
    near.write_all(&[5, 2]).await.unwrap();
    assert_eq!(near.read_u8().await.unwrap(), 1);
    let pair = (text(&mut *near).await, text(&mut *near).await);
    let known = pair == ("me".to_owned(), "geheim".to_owned());
    near.write_all(&[1, u8::from(!known)]).await.unwrap();
    if !known {
        return;
    }
    assert_eq!(bytes(&mut *near, 4).await, [5, 1, 0, 3]);
    let host = text(&mut *near).await;
    let port = near.read_u16().await.unwrap();
    let answer = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    near.write_all(&answer).await.unwrap();
    pass_on(near, &format!("{host}:{port}")).await;
}

#[tokio::test]
async fn socks_proxy_resolves_the_name_and_is_asked_with_credentials() {
    let cluster = cluster(Arc::new(NoFaults)).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(socks(Box::new(near)));
        }
    });
    let through = |address: String| {
        let proxy = Proxy::new(&address, None).unwrap();
        cluster.client(|config| {
            config.proxy = Some(proxy);
            config.host = "localhost".into();
        })
    };
    for scheme in ["socks5", "socks5h"] {
        let client = through(format!("{scheme}://me:geheim@{address}"));
        works(&client).await.unwrap();
    }
    let refused = works(&through(format!("socks5://me:falsch@{address}"))).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.ends_with("username/password authentication failed"),
        "{refused}"
    );
    assert!(!refused.contains("falsch"), "{refused}");
}

#[test]
fn a_transport_can_be_shared() {
    fn is_shared<T: Transport + Send + Sync>() {}
    is_shared::<HttpsTransport>();
}
