//! Posts events to an event server and measures what that takes; `bench/notifications.sh` runs it.
//!
//! - `notifications sink` takes notifications, answers 200 to all, and prints its address.
//! - `notifications install KUBECONFIG` brings Flux's definitions.
//! - `notifications prepare KUBECONFIG SINK` brings 200 Alerts for 20 namespaces.
//! - `notifications idle PID` prints the memory of a process that has nothing to do.
//! - `notifications post ADDRESS PID COUNT RATE` posts events, of which each is looked at by ten Alerts and one in a
//!   thousand is sent by them, and prints CPU time and memory of the process as the kernel does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everflow_api::view;
use everflow_env::{Env, RealDisk};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Patch, WriteOptions};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

const NAMESPACES: usize = 20;
const ALERTS: usize = 200;
/// Connections that events are posted over.
const POSTERS: usize = 16;
/// One event in so many is sent on.
const SENT: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["sink"] => sink().await,
        ["install", kubeconfig] => install(kubeconfig).await,
        ["prepare", kubeconfig, sink] => prepare(kubeconfig, sink).await,
        ["idle", pid] => println!("memory_idle_kb {}", memory(pid, "VmRSS:")),
        ["post", address, pid, count, rate] => {
            post_all(address, pid, count.parse().unwrap(), rate.parse().unwrap()).await;
        }
        _ => println!("see the comment at the top of the source"),
    }
}

/// Reads a message and drops it; whether there was one.
async fn read_message(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let lower = line.trim_end().to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        match lower.is_empty() {
            true => break,
            false if first.is_empty() => first = line,
            false => {}
        }
    }
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some(first)
}

async fn sink() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream);
            while read_message(&mut stream).await.is_some() {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                if stream.get_mut().write_all(answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn apply(client: &Client, object: Value) {
    let text = |field: &str| object[field].as_str().unwrap().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    for _ in 0..200 {
        if let Ok(resource) = client.resource(&version, &kind).await {
            let patch = Patch::Apply(object.clone());
            let options = WriteOptions::by("bench").force();
            let done = client
                .patch(&resource, At::of(&object), &patch, &options)
                .await;
            done.unwrap_or_else(|error| panic!("{}: {error}", view::name_of(&object)));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{version} {kind} is not served");
}

fn connect(kubeconfig: &str) -> Client {
    let env = Env::system(RealDisk::new(&std::env::temp_dir()).unwrap());
    let config = ClusterConfig::from_file(kubeconfig.as_ref(), None).unwrap();
    let transport = HttpsTransport::new(&env, config).unwrap();
    Client::new(Arc::new(transport), env.clock.clone())
}

async fn install(kubeconfig: &str) {
    let client = connect(kubeconfig);
    for definition in everflow_api::crds() {
        apply(&client, definition).await;
    }
}

async fn prepare(kubeconfig: &str, sink: &str) {
    let client = connect(kubeconfig);
    let version = "notification.toolkit.fluxcd.io/v1beta3";
    for number in 0..NAMESPACES {
        let namespace = format!("ns-{number}");
        apply(
            &client,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )
        .await;
        apply(&client, json!({
            "apiVersion": version, "kind": "Provider", "metadata": {"name": "sink", "namespace": namespace},
            "spec": {"type": "generic", "address": format!("http://{sink}/")},
        })).await;
    }
    for number in 0..ALERTS {
        apply(&client, json!({
            "apiVersion": version, "kind": "Alert",
            "metadata": {"name": format!("alert-{number}"), "namespace": format!("ns-{}", number % NAMESPACES)},
            "spec": {
                "providerRef": {"name": "sink"}, "eventSeverity": "info",
                "eventSources": [{"kind": "Kustomization", "name": "*"}, {"kind": "HelmRelease", "name": "*"}],
                "inclusionList": ["failed", ".*upgrade.*has been rolled back.*"],
                "exclusionList": ["^waiting.*(socket|timeout)", "dependency"],
            },
        })).await;
    }
}

fn body(number: usize) -> String {
    let outcome = match number.is_multiple_of(SENT) {
        true => "failed",
        false => "succeeded",
    };
    let event = json!({
        "involvedObject": {
            "kind": "Kustomization", "namespace": format!("ns-{}", number % NAMESPACES),
            "name": format!("app-{number}"), "uid": "11111111-1111-4111-8111-111111111111",
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        },
        "severity": "info", "timestamp": "2026-01-02T03:04:05Z", "reason": "ReconciliationSucceeded",
        "message": format!("Reconciliation finished in {number}ms, next run in 10m0s: all of it {outcome}"),
        "reportingController": "kustomize-controller", "reportingInstance": "kustomize-controller-0",
        "metadata": {
            "kustomize.toolkit.fluxcd.io/revision": "main@sha1:5394cb7f48332b2de7c17dd8b8384bbc84b7e738",
        },
    });
    event.to_string()
}

/// What posters share.
struct Run {
    address: String,
    count: usize,
    rate: f64,
    began: Instant,
    next: AtomicUsize,
    accepted: AtomicUsize,
}

async fn post(run: Arc<Run>) {
    let mut stream = BufReader::new(TcpStream::connect(&run.address).await.unwrap());
    loop {
        let number = run.next.fetch_add(1, Ordering::Relaxed);
        if number >= run.count {
            return;
        }
        let due = run.began + Duration::from_secs_f64(number as f64 / run.rate);
        tokio::time::sleep_until(due.into()).await;
        let body = body(number);
        let request = format!(
            "POST / HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream
            .get_mut()
            .write_all(request.as_bytes())
            .await
            .unwrap();
        let status = read_message(&mut stream).await.unwrap();
        if status.contains(" 202 ") {
            run.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn post_all(address: &str, pid: &str, count: usize, rate: f64) {
    let run = Arc::new(Run {
        address: address.to_owned(),
        count,
        rate,
        began: Instant::now(),
        next: AtomicUsize::new(0),
        accepted: AtomicUsize::new(0),
    });
    let before = cpu_seconds(pid);
    let posters: Vec<_> = (0..POSTERS)
        .map(|_| tokio::spawn(post(run.clone())))
        .collect();
    for poster in posters {
        poster.await.unwrap();
    }
    let wall = run.began.elapsed().as_secs_f64();
    // What was sent on is still on its way.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cpu = cpu_seconds(pid) - before;
    println!("accepted {}", run.accepted.load(Ordering::Relaxed));
    println!("events_per_second {:.0}", count as f64 / wall);
    println!("cpu_microseconds_each {:.1}", cpu * 1e6 / count as f64);
    println!("memory_peak_kb {}", memory(pid, "VmHWM:"));
}

fn cpu_seconds(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: f64 = [11, 12]
        .iter()
        .map(|field| fields[*field].parse::<f64>().unwrap())
        .sum();
    ticks / 100.0
}

fn memory(pid: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
