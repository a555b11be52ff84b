use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use everflow_env::MemoryDialer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::testing::{answer, converse, read_request, serve, serve_tls};

fn world() -> (MemoryDialer, Env) {
    let dialer = MemoryDialer::new();
    (dialer.clone(), Env::simulated(7, dialer))
}

fn client(env: &Env, options: ClientOptions) -> Client {
    Client::new(env, options).unwrap()
}

async fn fetch(env: &Env, options: ClientOptions, request: Request) -> Result<String, String> {
    let client = client(env, options);
    let deadline = client.deadline(Duration::from_secs(300));
    let response = client
        .send(request, &deadline)
        .await
        .map_err(|error| error.to_string())?;
    let status = response.status.as_u16();
    let body = response.body.read_all(1 << 20).await;
    let body = body.map_err(|error| error.to_string())?;
    Ok(format!("{status} {}", String::from_utf8_lossy(&body)))
}

fn get(url: &str) -> Request {
    Request::get(&Url::parse(url).unwrap())
}

fn basic(name: &str, word: &str) -> Option<Auth> {
    Some(Auth::Basic {
        username: name.to_owned(),
        password: word.into(),
    })
}

#[tokio::test(start_paused = true)]
async fn requests_carry_host_agent_and_credentials() {
    let (dialer, env) = world();
    serve(&dialer, "h", 8080, |seen| {
        assert_eq!(seen.line(), "GET /a%20b?c=d HTTP/1.1");
        assert_eq!(seen.header("host"), Some("h:8080"));
        assert!(seen.header("user-agent").unwrap().starts_with("everflow/"));
        let auth = seen.header("authorization").unwrap_or("none").to_owned();
        answer("200 OK", "", auth.as_bytes())
    });
    let options = ClientOptions::default;
    let url = "http://h:8080/a b?c=d";
    let said = fetch(&env, options(), get(url)).await.unwrap();
    assert_eq!(said, "200 none");
    let request = get(url).with_auth(basic("user", "pass"));
    let said = fetch(&env, options(), request).await.unwrap();
    assert_eq!(said, "200 Basic dXNlcjpwYXNz");
    let request = get(url).with_auth(Some(Auth::Bearer("tok".into())));
    let said = fetch(&env, options(), request).await.unwrap();
    assert_eq!(said, "200 Bearer tok");
    let request = get("http://user:pass@h:8080/a b?c=d");
    let said = fetch(&env, options(), request).await.unwrap();
    assert_eq!(said, "200 Basic dXNlcjpwYXNz");
}

#[tokio::test(start_paused = true)]
async fn connections_are_used_again_and_replaced_when_closed() {
    let (dialer, env) = world();
    let mut incoming = dialer.listen("h", 80);
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            OPENED.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                // Two requests for each connection, then it closes.
                for _ in 0..2 {
                    if read_request(&mut BufReader::new(&mut stream))
                        .await
                        .is_none()
                    {
                        return;
                    }
                    stream.write_all(&answer("200 OK", "", b"x")).await.unwrap();
                }
            });
        }
    });
    let client = client(&env, ClientOptions::default());
    let deadline = client.deadline(Duration::from_secs(60));
    for _ in 0..5 {
        let url = Url::parse("http://h/").unwrap();
        assert_eq!(client.get(&url, None, 10, &deadline).await.unwrap(), b"x");
    }
    assert_eq!(OPENED.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn credentials_do_not_follow_a_redirect_to_another_host() {
    let (dialer, env) = world();
    let show = |seen: &crate::testing::Seen| {
        let auth = seen.header("authorization").unwrap_or("none");
        answer("200 OK", "", format!("{} {auth}", seen.line()).as_bytes())
    };
    serve(&dialer, "a", 80, move |seen| match seen.line() {
        "GET /other HTTP/1.1" => answer("302 Found", "Location: http://b/x\r\n", b""),
        "GET /same HTTP/1.1" => answer("301 Moved", "Location: /y?z\r\n", b""),
        "GET /loop HTTP/1.1" => answer("307 Again", "Location: loop\r\n", b""),
        "POST /post HTTP/1.1" => answer("303 See", "Location: /y\r\n", b""),
        "POST /keep HTTP/1.1" => answer("308 Moved", "Location: http://b/x\r\n", b""),
        _ => show(seen),
    });
    serve(&dialer, "b", 80, show);
    let go = async |request: Request| fetch(&env, ClientOptions::default(), request).await;
    let with = |url: &str| get(url).with_auth(basic("u", "p"));
    assert_eq!(
        go(with("http://a/other")).await.unwrap(),
        "200 GET /x HTTP/1.1 none"
    );
    let same = go(with("http://a/same")).await.unwrap();
    assert_eq!(same, "200 GET /y?z HTTP/1.1 Basic dTpw");
    let post = |path: &str| {
        let url = Url::parse(&format!("http://a{path}")).unwrap();
        Request::post(&url, "text/plain", "hello").with_auth(basic("u", "p"))
    };
    assert_eq!(
        go(post("/post")).await.unwrap(),
        "200 GET /y HTTP/1.1 Basic dTpw"
    );
    assert_eq!(
        go(post("/keep")).await.unwrap(),
        "200 POST /x HTTP/1.1 none"
    );
    let error = go(with("http://a/loop")).await.unwrap_err();
    assert_eq!(error, "Get \"http://a/loop\": stopped after 10 redirects");
}

#[tokio::test(start_paused = true)]
async fn failures_read_as_in_go_and_hide_credentials() {
    let (dialer, env) = world();
    let mut silent = dialer.listen("silent", 80);
    let mut closing = dialer.listen("closing", 80);
    serve(&dialer, "plain", 443, |_| answer("200 OK", "", b""));
    let mut held = Vec::new();
    tokio::spawn(async move {
        while let Some(stream) = silent.recv().await {
            held.push(stream);
        }
    });
    tokio::spawn(async move { while closing.recv().await.is_some() {} });
    for (url, expected) in [
        (
            "http://u:secret@127.0.0.1:1/x",
            "Get \"http://127.0.0.1:1/x\": dial tcp 127.0.0.1:1: connect: connection refused",
        ),
        (
            "http://silent/x",
            "Get \"http://silent/x\": net/http: timeout awaiting response headers",
        ),
        ("http://closing/x", "Get \"http://closing/x\": EOF"),
        (
            "ftp://silent/x",
            "Get \"ftp://silent/x\": unsupported protocol scheme \"ftp\"",
        ),
    ] {
        let error = fetch(&env, ClientOptions::default(), get(url))
            .await
            .unwrap_err();
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let client = client(&env, ClientOptions::default());
    let deadline = client.deadline(Duration::from_secs(5));
    let error = client
        .send(get("http://silent/x"), &deadline)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Get \"http://silent/x\": context deadline exceeded"
    );
    assert_eq!(deadline.left(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn bodies_are_bounded_in_size_and_silence() {
    let (dialer, env) = world();
    serve(&dialer, "big", 80, |_| answer("200 OK", "", &[b'x'; 5000]));
    let mut incoming = dialer.listen("stuck", 80);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Some(mut stream) = incoming.recv().await {
            read_request(&mut BufReader::new(&mut stream)).await;
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
            stream.write_all(head).await.unwrap();
            held.push(stream);
        }
    });
    let mut options = ClientOptions::default();
    options.limits.body = 4999;
    let error = fetch(&env, options.clone(), get("http://big/"))
        .await
        .unwrap_err();
    assert_eq!(error, "the answer is larger than the limit of 4999");
    let before = env.clock.elapsed();
    let error = fetch(&env, options, get("http://stuck/"))
        .await
        .unwrap_err();
    assert!(error.contains("sent nothing for 60 s"), "{error}");
    assert_eq!((env.clock.elapsed() - before).as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn compressed_answers_are_decoded_and_bombs_are_bounded() {
    let (dialer, env) = world();
    let pack = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    let (small, bomb) = (pack(b"hello"), pack(&vec![0; 3 << 20]));
    serve(&dialer, "h", 80, move |seen| {
        let gzip = "Content-Encoding: gzip\r\n";
        match seen.line() {
            "GET /small HTTP/1.1" => answer("200 OK", gzip, &small),
            "GET /broken HTTP/1.1" => answer("200 OK", gzip, b"\x1f\x8b\x08xxxxxxxxxxxx"),
            _ => answer("200 OK", gzip, &bomb),
        }
    });
    let go = async |url| fetch(&env, ClientOptions::default(), get(url)).await;
    assert_eq!(go("http://h/small").await.unwrap(), "200 hello");
    assert!(go("http://h/broken").await.unwrap_err().contains("gzip"));
    let error = go("http://h/bomb").await.unwrap_err();
    assert_eq!(error, "the answer is larger than the limit of 1048576");
}

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(2040, 1, 1);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { issuer }
    }

    fn pem(&self) -> Vec<u8> {
        self.issuer.pem().into_bytes()
    }

    /// A certificate and key in PEM.
    fn issue(&self, name: &str, until: i32) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn server_config(identity: &(String, String), clients: Option<&Authority>) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(authority.issuer.der().clone()).unwrap();
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
                Arc::new(roots),
                provider,
            );
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = everflow_connect::certificates(
        identity.0.as_bytes(),
        everflow_connect::Unusable::Certificate,
    )
    .unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.1.as_bytes()).unwrap();
    builder.with_single_cert(chain, key).unwrap()
}

#[tokio::test]
async fn certificates_are_checked_with_the_words_of_go() {
    let (dialer, env) = world();
    let authority = Authority::new();
    let good = server_config(&authority.issue("good", 2040), None);
    let old = server_config(&authority.issue("old", 2025), None);
    let other = server_config(&authority.issue("somebody", 2040), None);
    serve_tls(&dialer, "good", 443, good, |_| answer("200 OK", "", b"hi"));
    serve_tls(&dialer, "old", 443, old, |_| answer("200 OK", "", b"hi"));
    serve_tls(&dialer, "other", 443, other, |_| {
        answer("200 OK", "", b"hi")
    });
    serve(&dialer, "plain", 443, |_| answer("200 OK", "", b"hi"));
    let trusting = || ClientOptions {
        tls: TlsOptions {
            ca: Some(authority.pem()),
            ..TlsOptions::default()
        },
        ..ClientOptions::default()
    };
    let said = fetch(&env, trusting(), get("https://good/")).await.unwrap();
    assert_eq!(said, "200 hi");
    let failed = "tls: failed to verify certificate: x509: ";
    let error = fetch(&env, ClientOptions::default(), get("https://good/"))
        .await
        .unwrap_err();
    let expected =
        format!("Get \"https://good/\": {failed}certificate signed by unknown authority");
    assert_eq!(error, expected);
    let error = fetch(&env, trusting(), get("https://old/"))
        .await
        .unwrap_err();
    assert!(
        error.contains("certificate has expired or is not yet valid: current time 2026-"),
        "{error}"
    );
    assert!(error.ends_with("is after 2025-01-01T00:00:00Z"), "{error}");
    let error = fetch(&env, trusting(), get("https://other/"))
        .await
        .unwrap_err();
    assert!(
        error.ends_with("x509: certificate is valid for somebody, not other"),
        "{error}"
    );
    let anyone = ClientOptions {
        tls: TlsOptions {
            insecure: true,
            ..TlsOptions::default()
        },
        ..ClientOptions::default()
    };
    let said = fetch(&env, anyone, get("https://other/")).await.unwrap();
    assert_eq!(said, "200 hi");
    // The authority itself as the server's certificate, as many self-signed servers have it.
    let mut params = CertificateParams::new(vec!["own".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap();
    let identity = (own.pem(), key.serialize_pem());
    serve_tls(&dialer, "own", 443, server_config(&identity, None), |_| {
        answer("200 OK", "", b"hi")
    });
    let pinning = ClientOptions {
        tls: TlsOptions {
            ca: Some(own.pem().into_bytes()),
            ..TlsOptions::default()
        },
        ..ClientOptions::default()
    };
    let said = fetch(&env, pinning, get("https://own/")).await.unwrap();
    assert_eq!(said, "200 hi");
}

#[tokio::test]
async fn client_certificates_are_shown_and_bad_ones_refused_early() {
    let (dialer, env) = world();
    let authority = Authority::new();
    let config = server_config(&authority.issue("h", 2040), Some(&authority));
    serve_tls(&dialer, "h", 443, config, |_| {
        answer("200 OK", "", b"known")
    });
    let (chain, key) = authority.issue("me", 2040);
    let options = |client| ClientOptions {
        tls: TlsOptions {
            ca: Some(authority.pem()),
            client,
            ..TlsOptions::default()
        },
        ..ClientOptions::default()
    };
    let pair = (chain.clone().into_bytes(), key.into_bytes().into());
    let said = fetch(&env, options(Some(pair)), get("https://h/"))
        .await
        .unwrap();
    assert_eq!(said, "200 known");
    let error = fetch(&env, options(None), get("https://h/"))
        .await
        .unwrap_err();
    assert!(
        error.ends_with("remote error: tls: certificate required"),
        "{error}"
    );
    let broken = (chain.into_bytes(), b"nonsense".to_vec().into());
    let error = Client::new(&env, options(Some(broken))).unwrap_err();
    assert_eq!(error.reason(), "AuthenticationFailed");
}

#[tokio::test]
async fn credentials_and_certificates_do_not_follow_redirects_from_https() {
    let (dialer, env) = world();
    let authority = Authority::new();
    let identity = authority.issue("a", 2040);
    let config = server_config(&identity, Some(&authority));
    serve_tls(&dialer, "a", 443, config, |seen| match seen.line() {
        "GET /plain HTTP/1.1" => answer("302 Found", "Location: http://a/x\r\n", b""),
        "GET /port HTTP/1.1" => answer("302 Found", "Location: https://a:8443/x\r\n", b""),
        _ => answer("302 Found", "Location: https://b/x\r\n", b""),
    });
    let show = |seen: &crate::testing::Seen| {
        let auth = seen.header("authorization").unwrap_or("none");
        answer("200 OK", "", auth.as_bytes())
    };
    serve(&dialer, "a", 80, show);
    serve_tls(&dialer, "a", 8443, server_config(&identity, None), show);
    let config = server_config(&authority.issue("b", 2040), Some(&authority));
    serve_tls(&dialer, "b", 443, config, show);
    let (chain, key) = authority.issue("me", 2040);
    let options = ClientOptions {
        tls: TlsOptions {
            ca: Some(authority.pem()),
            client: Some((chain.into_bytes(), key.into_bytes().into())),
            ..TlsOptions::default()
        },
        ..ClientOptions::default()
    };
    let go = async |path: &str| {
        let request = get(&format!("https://a{path}")).with_auth(basic("u", "p"));
        fetch(&env, options.clone(), request).await
    };
    assert_eq!(go("/plain").await.unwrap(), "200 none");
    assert_eq!(go("/port").await.unwrap(), "200 none");
    // It wants a certificate and is not shown the one for the first server.
    let error = go("/other").await.unwrap_err();
    assert!(error.ends_with("tls: certificate required"), "{error}");
}

fn through(address: &str) -> ClientOptions {
    let credentials = Some(("me".to_owned(), "word".into()));
    ClientOptions {
        proxy: Some(Proxy::new(address, credentials).unwrap()),
        ..ClientOptions::default()
    }
}

#[tokio::test]
async fn requests_go_through_http_proxies() {
    let (dialer, env) = world();
    let authority = Authority::new();
    let config = server_config(&authority.issue("far", 2040), None);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let mut incoming = dialer.listen("proxy", 3128);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            let seen = read_request(&mut BufReader::new(&mut stream))
                .await
                .unwrap();
            assert_eq!(
                seen.header("proxy-authorization"),
                Some("Basic bWU6d29yZA==")
            );
            if seen.line().starts_with("CONNECT far:443") {
                stream.write_all(b"HTTP/1.1 200 Go\r\n\r\n").await.unwrap();
                let stream = acceptor.accept(stream).await.unwrap();
                converse(stream, |seen| {
                    assert_eq!(seen.header("proxy-authorization"), None);
                    answer("200 OK", "", b"tunnel")
                })
                .await;
            } else if seen.line().starts_with("CONNECT") {
                stream
                    .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                    .await
                    .unwrap();
            } else {
                let said = answer("200 OK", "", seen.line().as_bytes());
                stream.write_all(&said).await.unwrap();
            }
        }
    });
    let mut options = through("http://proxy:3128");
    options.tls.ca = Some(authority.pem());
    let said = fetch(&env, options.clone(), get("http://far/x"))
        .await
        .unwrap();
    assert_eq!(said, "200 GET http://far/x HTTP/1.1");
    let said = fetch(&env, options.clone(), get("https://far/x"))
        .await
        .unwrap();
    assert_eq!(said, "200 tunnel");
    let error = fetch(&env, options, get("https://else/x"))
        .await
        .unwrap_err();
    assert_eq!(
        error,
        "Get \"https://else/x\": Proxy Authentication Required"
    );
    let error = fetch(&env, through("http://127.0.0.1:1"), get("http://far/x"))
        .await
        .unwrap_err();
    assert_eq!(
        error,
        "Get \"http://far/x\": proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused"
    );
}

#[tokio::test]
async fn requests_go_through_socks_proxies() {
    let (dialer, env) = world();
    let mut incoming = dialer.listen("socks", 1080);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            let mut methods = [0; 4];
            stream.read_exact(&mut methods).await.unwrap();
            assert_eq!(methods, [5, 2, 0, 2]);
            stream.write_all(&[5, 2]).await.unwrap();
            let mut login = [0; 9];
            stream.read_exact(&mut login).await.unwrap();
            assert_eq!(&login, b"\x01\x02me\x04word");
            stream.write_all(&[1, 0]).await.unwrap();
            let mut wanted = [0; 10];
            stream.read_exact(&mut wanted).await.unwrap();
            let refused = wanted != *b"\x05\x01\x00\x03\x03far\x00\x50";
            let code = if refused { 5 } else { 0 };
            stream
                .write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0])
                .await
                .unwrap();
            converse(stream, |_| answer("200 OK", "", b"socks")).await;
        }
    });
    let options = || through("socks5://socks:1080");
    let said = fetch(&env, options(), get("http://far/")).await.unwrap();
    assert_eq!(said, "200 socks");
    let error = fetch(&env, options(), get("http://bad/"))
        .await
        .unwrap_err();
    assert!(
        error.contains("socks connect tcp socks:1080->bad:80: unknown error connection refused"),
        "{error}"
    );
}
