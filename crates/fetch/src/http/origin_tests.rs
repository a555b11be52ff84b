//! Where credentials go, and what is shown of answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_env::{BoxFuture, Dialer, Env, MemoryDialer, Stream};

use super::*;
use crate::bucket::{BucketAuth, BucketClient, Ldap, Remote as Bucket};
use crate::helm::{HelmClient, Repository};
use crate::oci::{OciClient, RegistryAuth};
use crate::testing::{answer, serve};

/// What servers were asked, with the credentials that came along.
type Log = Arc<Mutex<Vec<String>>>;

/// A server that answers by path and notes who comes with credentials.
fn noting(
    dialer: &MemoryDialer,
    log: &Log,
    (host, port): (&'static str, u16),
    said: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
) {
    let log = log.clone();
    serve(dialer, host, port, move |seen| {
        let auth = seen.header("authorization").unwrap_or("none").to_owned();
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let secret = ["hunter2", "aHVudGVy", "dTpodW50ZXIy"];
        let shown = format!("{} {auth} {body}", seen.head);
        let leaked = secret.iter().any(|word| shown.contains(word));
        let method = seen.line().split(' ').next().unwrap_or_default().to_owned();
        let path = seen.line().split(' ').nth(1).unwrap_or_default().to_owned();
        let note = format!(
            "{host}:{port} {method} {}",
            if leaked { "with" } else { "without" }
        );
        log.lock().unwrap().push(note);
        said(&path)
    });
}

fn noted(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn login() -> Auth {
    Auth::Basic {
        username: "u".to_owned(),
        password: "hunter2".into(),
    }
}

fn moved(to: &str) -> Vec<u8> {
    answer("307 Moved", &format!("Location: {to}\r\n"), b"")
}

fn world() -> (MemoryDialer, Log, Env) {
    let dialer = MemoryDialer::new();
    (dialer.clone(), Log::default(), Env::simulated(3, dialer))
}

#[tokio::test(start_paused = true)]
async fn redirects_carry_credentials_to_the_same_origin_only() {
    let (dialer, log, env) = world();
    let targets = [
        ("http://a/ok", true),
        ("http://A:80/ok", true),
        ("http://a./ok", true),
        ("//a/ok", true),
        ("/ok", true),
        ("http://u:x@a/ok", true),
        ("http://a:8080/ok", false),
        ("http://b/ok", false),
        ("http://u:x@b/ok", false),
        ("http://a.b/ok", false),
    ];
    let locations = targets.map(|target| target.0.to_owned());
    for place in [
        ("a", 80),
        ("A", 80),
        ("a.", 80),
        ("a", 8080),
        ("b", 80),
        ("a.b", 80),
    ] {
        let locations = locations.clone();
        noting(&dialer, &log, place, move |path| {
            match path
                .strip_prefix("/to/")
                .and_then(|number| number.parse::<usize>().ok())
            {
                Some(number) => moved(&locations[number]),
                None => answer("200 OK", "", b""),
            }
        });
    }
    let client = Client::new(&env, ClientOptions::default()).unwrap();
    let deadline = client.deadline(Duration::from_secs(60));
    for (number, (target, with)) in targets.iter().enumerate() {
        let url = Url::parse(&format!("http://a/to/{number}")).unwrap();
        let request = Request::get(&url)
            .with_auth(Some(login()))
            .with_header(header::COOKIE, "hunter2");
        let response = client.send(request, &deadline).await.unwrap();
        assert_eq!(response.foreign, !with, "{target}");
        let seen = noted(&log);
        assert!(seen[0].ends_with(" with") && seen.len() == 2, "{seen:?}");
        assert_eq!(seen[1].ends_with(" with"), *with, "{target}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn registries_do_not_send_credentials_elsewhere() {
    let (dialer, log, env) = world();
    noting(&dialer, &log, ("127.0.0.1", 5000), |path| match path {
        "/v2/" => moved("http://b/v2/"),
        _ => answer("401 No", "", b""),
    });
    let demand = "WWW-Authenticate: Bearer realm=\"http://b/token\"\r\n";
    noting(&dialer, &log, ("b", 80), move |_| {
        answer("401 No", demand, b"inner words")
    });
    let mut remote = crate::oci::Remote::new("oci://127.0.0.1:5000/team/app");
    remote.scheme = crate::oci::Scheme::Http;
    remote.auth = RegistryAuth::Login {
        username: "u".to_owned(),
        password: "hunter2".into(),
    };
    let client = OciClient::new(&env, remote.clone()).unwrap();
    let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
    let error = client.digest_of_tag("v1", &deadline).await.unwrap_err();
    assert!(!error.to_string().contains("inner"), "{error}");
    let seen = noted(&log);
    assert!(
        seen.iter()
            .all(|one| !one.starts_with("b:") || one.ends_with("without")),
        "{seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_in_bodies_are_sent_to_no_other_server() {
    let (dialer, log, env) = world();
    let demand = "WWW-Authenticate: Bearer realm=\"http://127.0.0.1:5000/token\"\r\n";
    noting(&dialer, &log, ("127.0.0.1", 5000), move |path| match path {
        "/token" => moved("http://b/token"),
        _ => answer("401 No", demand, b""),
    });
    noting(&dialer, &log, ("b", 80), |_| {
        answer("200 OK", "", b"{\"token\":\"x\"}")
    });
    let mut remote = crate::oci::Remote::new("oci://127.0.0.1:5000/team/app");
    remote.scheme = crate::oci::Scheme::Http;
    remote.auth = RegistryAuth::Identity("hunter2".into());
    let client = OciClient::new(&env, remote).unwrap();
    let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
    let error = client
        .digest_of_tag("v1", &deadline)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("refusing to send credentials to http://b"),
        "{error}"
    );
    assert!(noted(&log).iter().all(|one| !one.starts_with("b:")));

    noting(&dialer, &log, ("sts", 80), |_| moved("http://b/"));
    let mut bucket = Bucket::new("s3:9000", "bucket");
    bucket.insecure = true;
    bucket.auth = BucketAuth::Ldap(Ldap {
        endpoint: "http://sts".to_owned(),
        username: "u".to_owned(),
        password: "hunter2".into(),
        tls: TlsOptions::default(),
    });
    let client = BucketClient::new(&env, bucket).unwrap();
    let error = client.index(None, &deadline).await.unwrap_err().to_string();
    assert!(error.contains("refusing to send credentials"), "{error}");
    assert!(noted(&log).iter().all(|one| !one.starts_with("b:")));
}

#[tokio::test(start_paused = true)]
async fn chart_repositories_keep_credentials_unless_told_to_pass_them() {
    for (pass, elsewhere) in [(false, "without"), (true, "with")] {
        let (dialer, log, env) = world();
        for place in [("a", 80), ("a", 8080), ("b", 80)] {
            noting(&dialer, &log, place, |_| answer("404 No", "", b""));
        }
        let mut repository = Repository::new(Url::parse("http://a/charts").unwrap());
        repository.auth = Some(login());
        repository.pass_credentials = pass;
        let client = HelmClient::new(&env, repository).unwrap();
        let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
        for (url, with) in [
            ("http://A./x.tgz", "with"),
            ("http://a:8080/x.tgz", elsewhere),
            ("http://b/x.tgz", elsewhere),
        ] {
            let url = Url::parse(url).unwrap();
            let auth = client.auth_for(&url);
            assert_eq!(
                if auth.is_some() { "with" } else { "without" },
                with,
                "{url} {pass}"
            );
        }
        let _ = client.fetch_index(Default::default(), &deadline).await;
        assert_eq!(noted(&log), ["a:80 GET with"]);
    }
}

#[tokio::test(start_paused = true)]
async fn queries_do_not_appear_in_errors() {
    let (dialer, log, env) = world();
    noting(&dialer, &log, ("a", 80), |path| {
        match path.starts_with("/moved") {
            true => moved("http://nobody/x?sig=hunter2"),
            false => answer("500 No", "", b""),
        }
    });
    let client = Client::new(&env, ClientOptions::default()).unwrap();
    let deadline = client.deadline(Duration::from_secs(60));
    for url in [
        "http://nobody/x?token=hunter2",
        "http://a/moved?token=hunter2",
        "http://a/x?token=hunter2",
        "http://u:hunter2@nobody/x",
    ] {
        let url = Url::parse(url).unwrap();
        let error = client.get(&url, None, 10, &deadline).await.unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
}

/// Names that stand for addresses inside the network, as a resolver would say.
#[derive(Debug)]
struct Resolving(MemoryDialer);

impl Dialer for Resolving {
    fn connect(
        &self,
        host: &str,
        port: u16,
    ) -> BoxFuture<'static, std::io::Result<Box<dyn Stream>>> {
        self.0.connect(host, port)
    }

    fn lookup(
        &self,
        host: &str,
        _port: u16,
    ) -> BoxFuture<'static, std::io::Result<Vec<std::net::IpAddr>>> {
        let address = match host {
            "inner" => "10.0.0.9",
            "intranet" => "10.0.0.8",
            _ => "203.0.113.5",
        };
        Box::pin(std::future::ready(Ok(vec![address.parse().unwrap()])))
    }
}

#[tokio::test(start_paused = true)]
async fn host_names_that_resolve_to_private_addresses_are_refused() {
    let (dialer, log, mut env) = world();
    env.dialer = Arc::new(Resolving(dialer.clone()));
    for host in ["outer", "intranet"] {
        noting(&dialer, &log, (host, 80), |path| match path {
            "/public" => moved("http://public/x"),
            "/number" => moved("http://2130706433/x"),
            _ => moved("http://inner/x"),
        });
    }
    // The address that was judged is the one that is dialled.
    noting(&dialer, &log, ("10.0.0.9", 80), |_| {
        answer("200 OK", "", b"inside")
    });
    noting(&dialer, &log, ("203.0.113.5", 80), |_| {
        answer("200 OK", "", b"public")
    });
    let client = Client::new(&env, ClientOptions::default()).unwrap();
    let deadline = client.deadline(Duration::from_secs(60));
    for (url, expected) in [
        ("http://outer/inner", Err("private address \"inner\"")),
        ("http://outer/number", Err("private address \"2130706433\"")),
        (
            "http://intranet/number",
            Err("private address \"2130706433\""),
        ),
        ("http://outer/public", Ok("public")),
        ("http://intranet/inner", Ok("inside")),
    ] {
        let mut request = Request::get(&Url::parse(url).unwrap());
        request.guarded = true;
        match (client.send(request, &deadline).await, expected) {
            (Ok(response), Ok(expected)) => {
                let body = response.body.read_all(100).await.unwrap();
                assert_eq!(body, expected.as_bytes());
            }
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{error}");
            }
            (sent, _) => panic!("{url}: {sent:?}"),
        }
    }
}
