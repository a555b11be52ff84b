//! The API servers by more than one way: a way that fails is left for the next within seconds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::env::SystemEnvironment;
use everflow_cluster::faults::NoFaults;
use everflow_cluster::{ApiServer, Authority, Options, kubeconfig, serve};
use everflow_env::{Env, MemoryDialer, MemoryDisk};
use everflow_runtime::client::{
    At, Client, Resource, Selection, Transport as _, WatchFrom, WriteOptions,
};
use everflow_runtime::transport::{ClusterConfig, Endpoint, HttpsTransport, WayEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mood {
    Good,
    /// It takes connections and requests, and never answers.
    BlackHole,
    /// It answers, late.
    Slow,
    /// It says that it is not ready, and answers nothing else.
    Draining,
}

/// Servers in memory: who asked whom, and how each behaves.
#[derive(Clone, Default)]
struct Servers {
    moods: Arc<Mutex<BTreeMap<String, Mood>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Servers {
    fn start(&self, dialer: &MemoryDialer, host: &str) {
        self.moods.lock().unwrap().insert(host.into(), Mood::Good);
        let mut incoming = dialer.listen(host, 80);
        let (servers, host) = (self.clone(), host.to_owned());
        tokio::spawn(async move {
            while let Some(stream) = incoming.recv().await {
                tokio::spawn(servers.clone().answer(host.clone(), stream));
            }
        });
    }

    fn set(&self, host: &str, mood: Mood) {
        self.moods.lock().unwrap().insert(host.into(), mood);
    }

    async fn answer(self, host: String, mut stream: DuplexStream) {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => return,
                }
            }
            let head = String::from_utf8(head).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            let mood = self.moods.lock().unwrap()[&host];
            let is_trial = head.contains("/readyz");
            if !is_trial {
                let line = head.lines().next().unwrap();
                let method = line.split(' ').next().unwrap();
                self.asked.lock().unwrap().push(format!("{method} {host}"));
            }
            match mood {
                Mood::Good => {}
                Mood::Slow => tokio::time::sleep(Duration::from_secs(6)).await,
                Mood::Draining if is_trial => {
                    let refusal = "HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n";
                    stream.write_all(refusal.as_bytes()).await.unwrap();
                    continue;
                }
                Mood::Draining | Mood::BlackHole => std::future::pending().await,
            }
            if head.contains("watch=true") {
                let line = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;
                let text = format!(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{line}\n\r\n",
                    line.len() + 1
                );
                stream.write_all(text.as_bytes()).await.unwrap();
                std::future::pending::<()>().await;
            }
            let text = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            );
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

struct World {
    env: Env,
    dialer: MemoryDialer,
    servers: Servers,
    transport: HttpsTransport,
    client: Client,
    told: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// A Service and two further servers.
    fn new() -> World {
        let (dialer, servers) = (MemoryDialer::new(), Servers::default());
        for host in ["service", "one", "two"] {
            servers.start(&dialer, host);
        }
        let env = Env::simulated(7, dialer.clone());
        let config = ClusterConfig::at("http://service").unwrap();
        let further = ["http://one", "http://two"].map(|text| Endpoint::parse(text).unwrap());
        let told = Arc::new(Mutex::new(Vec::new()));
        let hearing = told.clone();
        let listener = move |event: WayEvent<'_>| match event {
            WayEvent::Left { from, to, .. } => {
                let text = format!("{} left for {}", from.host, to.host);
                hearing.lock().unwrap().push(text);
            }
            WayEvent::Returned { to, .. } => {
                let text = format!("back to {}", to.host);
                hearing.lock().unwrap().push(text);
            }
            _ => {}
        };
        let transport =
            HttpsTransport::with_ways(&env, config, &further, Some(Arc::new(listener))).unwrap();
        let client = Client::new(Arc::new(transport.clone()), env.clock.clone());
        World {
            env,
            dialer,
            servers,
            transport,
            client,
            told,
        }
    }

    /// Reads something, and says how long it took.
    async fn read(&self) -> f64 {
        let started = self.env.clock.elapsed();
        let all = Selection::default();
        let read = self.client.list_all(&MAPS, Some("default"), &all).await;
        read.unwrap();
        (self.env.clock.elapsed() - started).as_secs_f64()
    }

    async fn sleep(&self, seconds: u64) {
        self.env.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    fn taken(&self) -> String {
        self.transport.taken()
    }
}

#[tokio::test(start_paused = true)]
async fn refused_endpoint_costs_no_request_and_is_used_again() {
    let world = World::new();
    assert!(world.read().await < 0.1);
    assert_eq!(world.taken(), "http://service:80");
    // Whoever listened there is gone, and so are its connections.
    drop(world.dialer.listen("service", 80));
    world.sleep(120).await;
    assert!(world.read().await < 0.1);
    assert_eq!(world.told(), ["service left for one"]);
    world.servers.start(&world.dialer, "service");
    world.sleep(60).await;
    assert_eq!(world.told(), ["back to service"]);
    world.read().await;
    assert_eq!(
        world.servers.asked.lock().unwrap().as_slice(),
        ["GET service", "GET one", "GET service"]
    );
}

#[tokio::test(start_paused = true)]
async fn unresponsive_endpoint_is_left_within_seconds() {
    let world = World::new();
    world.read().await;
    world.servers.set("service", Mood::BlackHole);
    // A request without an answer, a trial without an answer, and the next way.
    let took = world.read().await;
    assert!((3.0..4.0).contains(&took), "{took}");
    assert_eq!(world.told(), ["service left for one"]);
    assert!(world.read().await < 0.1);
    // The next one, too, and all of them: the request fails, and nothing is stuck.
    world.servers.set("one", Mood::BlackHole);
    assert!(world.read().await < 4.0);
    assert_eq!(world.told(), ["one left for two"]);
    world.servers.set("two", Mood::BlackHole);
    let all = Selection::default();
    let impatient = world.client.with_deadline(Duration::from_secs(5));
    let error = impatient.list_all(&MAPS, None, &all).await.unwrap_err();
    assert_eq!(error.reason(), "Timeout");
    world.servers.set("one", Mood::Good);
    world.sleep(70).await;
    assert!(world.read().await < 0.1);
    assert_eq!(world.taken(), "http://one:80");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_never_sent_twice() {
    let world = World::new();
    world.read().await;
    world.servers.asked.lock().unwrap().clear();
    world.servers.set("service", Mood::BlackHole);
    let map = everflow_json::json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    let by = WriteOptions::by("tester");
    let at = At::new("default", "a");
    let error = world.client.update(&MAPS, at, &map, &by).await.unwrap_err();
    assert_eq!(error.reason(), "Transport");
    assert!(error.to_string().contains("stopped answering"), "{error}");
    world.client.update(&MAPS, at, &map, &by).await.unwrap();
    assert_eq!(
        world.servers.asked.lock().unwrap().as_slice(),
        ["PUT service", "PUT one"]
    );
    // One that cannot have been seen is sent by the next way.
    drop(world.dialer.listen("one", 80));
    world.servers.asked.lock().unwrap().clear();
    world.sleep(100).await;
    world.client.update(&MAPS, at, &map, &by).await.unwrap();
    let asked = world.servers.asked.lock().unwrap().clone();
    assert_eq!(asked, ["PUT two"]);
}

#[tokio::test(start_paused = true)]
async fn slow_answer_does_not_disqualify_a_live_endpoint() {
    let world = World::new();
    world.read().await;
    // Its trial is slow as well: a server that is slow in everything is left.
    world.servers.set("service", Mood::Slow);
    assert!(world.read().await < 4.0);
    assert_eq!(world.told(), ["service left for one"]);
    world.servers.set("one", Mood::Draining);
    assert!(world.read().await < 2.0, "it says so itself");
    assert_eq!(world.told(), ["one left for two"]);
}

#[tokio::test(start_paused = true)]
async fn watches_resume_on_the_next_endpoint() {
    let world = World::new();
    let (all, span) = (Selection::default(), Duration::from_secs(120));
    let from = WatchFrom::Revision(7);
    let opened = world.client.watch(&MAPS, None, &all, from, span).await;
    let mut watch = opened.unwrap();
    watch.next().await.unwrap().unwrap();
    world.servers.set("service", Mood::BlackHole);
    let ended = async {
        let ended = watch.next().await.unwrap();
        (ended.is_none(), world.env.clock.elapsed())
    };
    let started = world.env.clock.elapsed();
    let (_, (orderly, at)) = futures_util::future::join(world.read(), ended).await;
    assert!(orderly && at - started < Duration::from_secs(4));
    let opened = world.client.watch(&MAPS, None, &all, from, span).await;
    let mut watch = opened.unwrap();
    assert!(watch.next().await.unwrap().is_some());
    assert_eq!(world.taken(), "http://one:80");
}

/// Leases are renewed every three seconds, and each renewal is given up after as long: so connections are made anew while
/// it is looked whether the way works.
#[tokio::test(start_paused = true)]
async fn watches_on_older_connections_end_with_their_way() {
    let world = World::new();
    let (all, span) = (Selection::default(), Duration::from_secs(120));
    let from = WatchFrom::Revision(7);
    let opened = world.client.watch(&MAPS, None, &all, from, span).await;
    let mut watch = opened.unwrap();
    watch.next().await.unwrap().unwrap();
    world.sleep(10).await;
    world.servers.set("service", Mood::BlackHole);
    let started = world.env.clock.elapsed();
    let (client, clock) = (world.client.clone(), world.env.clock.clone());
    let renewing = tokio::spawn(async move {
        let client = client.with_deadline(Duration::from_secs(3));
        let map = everflow_json::json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
        let by = WriteOptions::by("tester");
        loop {
            let next = clock.elapsed() + Duration::from_secs(3);
            let at = At::new("default", "a");
            let _ = client.update(&MAPS, at, &map, &by).await;
            clock.sleep(next.saturating_sub(clock.elapsed())).await;
        }
    });
    let ended = watch.next().await.unwrap();
    let took = world.env.clock.elapsed() - started;
    renewing.abort();
    assert!(ended.is_none() && took < Duration::from_secs(4), "{took:?}");
    assert_eq!(world.taken(), "http://one:80");
}

#[tokio::test]
async fn a_token_is_not_sent_in_clear_because_a_flag_says_so() {
    let env = Env::simulated(1, MemoryDialer::new());
    let config = ClusterConfig::at("https://service").unwrap();
    let further = [Endpoint::parse("http://one").unwrap()];
    let error = HttpsTransport::with_ways(&env, config, &further, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "http://one:80: it is not used as a further address of https://service:443: both must be https, or both http"
    );
}

/// A server with a certificate of an authority.
async fn secure(server: &ApiServer, authority: &Authority) -> Endpoint {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = authority.server_config().unwrap();
    let serving = serve(
        server.clone(),
        Arc::new(NoFaults),
        listener,
        tls,
        std::future::pending(),
    );
    tokio::spawn(serving);
    Endpoint::parse(&url).unwrap()
}

#[tokio::test]
async fn learned_addresses_are_used_only_with_a_certificate_of_the_cluster() {
    let options = Options {
        authorization: true,
        tokens: vec![("right".into(), User::admin())],
        ..Options::default()
    };
    let server = ApiServer::new(Arc::new(SystemEnvironment::new()), options);
    let authority = Authority::generate(&["kubernetes.example".into()]).unwrap();
    let stranger = Authority::generate(&["kubernetes.example".into()]).unwrap();
    let right = secure(&server, &authority).await;
    let wrong = secure(&server, &stranger).await;
    // The configured address refuses connections; what was learned begins with a stranger.
    let url = "https://127.0.0.1:1";
    let text = kubeconfig(url, &authority.ca_certificate, "right");
    let mut config = ClusterConfig::from_text(text.as_bytes(), None, "kubeconfig", None).unwrap();
    config.server_name = Some("kubernetes.example".into());
    let env = Env::system(MemoryDisk::new());
    let refused = Arc::new(Mutex::new(Vec::new()));
    let hearing = refused.clone();
    let listener = move |event: WayEvent<'_>| {
        if let WayEvent::Refused { at, why } = event {
            hearing.lock().unwrap().push((at.clone(), why.to_owned()));
        }
    };
    let listener = Some(Arc::new(listener) as _);
    let transport = HttpsTransport::with_ways(&env, config.clone(), &[], listener).unwrap();
    assert!(transport.learn(&[wrong.clone(), right.clone()]));
    let client = Client::new(Arc::new(transport.clone()), env.clock.clone());
    let all = Selection::default();
    client.list_all(&MAPS, None, &all).await.unwrap();
    assert_eq!(transport.taken(), right.to_string());
    for _ in 0..100 {
        if !refused.lock().unwrap().is_empty() {
            break;
        }
        env.clock.sleep(Duration::from_millis(20)).await;
    }
    let refused = refused.lock().unwrap().clone();
    assert_eq!(refused[0].0, wrong);
    assert!(
        refused[0].1.contains("invalid peer certificate"),
        "{refused:?}"
    );
    // Where certificates are not checked, nothing is learned.
    config.insecure = true;
    let trusting = HttpsTransport::new(&env, config).unwrap();
    assert!(!trusting.learn(&[right]));
    trusting.suspect();
}
