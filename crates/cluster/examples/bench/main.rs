//! Benchmarks of the API server; `bench/cluster.sh` runs them against ours and the real one.
//!
//! `bench in-process [OBJECTS]`, `bench remote KUBECONFIG PID...`, `bench memory KUBECONFIG PID`.

#![allow(clippy::print_stdout)]

mod client;
mod objects;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Access;
use everflow_cluster::env::SystemEnvironment;
use everflow_cluster::{ApiServer, Options, Request};

/// Anything that goes wrong ends the run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

const APPLY: &str = "application/apply-patch+yaml";

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match words.as_slice() {
        ["in-process"] => in_process(&[1_000, 10_000, 100_000]),
        ["in-process", size] => in_process(&[size.parse()?]),
        ["remote", kubeconfig, pids @ ..] => runtime.block_on(remote(kubeconfig, pids)),
        ["memory", kubeconfig, pid] => runtime.block_on(memory(kubeconfig, pid)),
        ["start", program] => start(program),
        ["serve", kubeconfig] => serve(kubeconfig),
        _ => Err("usage: bench in-process [OBJECTS] | remote KUBECONFIG PID... | memory KUBECONFIG PID | start PROGRAM".into()),
    }
}

fn apply_path(index: usize) -> String {
    format!("/api/v1/namespaces/bench/configmaps/cm-{index:06}?fieldManager=bench&force=true")
}

/// Measures the time of this thread: on the clock, and on a processor, which other programs disturb less.
struct Stopwatch {
    begin: Instant,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> Result<Self, Failure> {
        Ok(Stopwatch {
            begin: Instant::now(),
            cpu: Self::cpu()?,
        })
    }

    fn cpu() -> Result<Duration, Failure> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
        let nanos = text.split_whitespace().next().unwrap_or_default();
        Ok(Duration::from_nanos(nanos.parse()?))
    }

    /// Microseconds of each of so many steps.
    fn each(&self, count: usize) -> Result<String, Failure> {
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        let (clock, cpu) = (self.begin.elapsed(), Self::cpu()?.saturating_sub(self.cpu));
        Ok(format!(
            "{:.1} us ({:.1} us of CPU)",
            micros(clock),
            micros(cpu)
        ))
    }
}

/// Applies in process, and the cost of a write as objects become many.
fn in_process(sizes: &[usize]) -> Result<(), Failure> {
    let server = ApiServer::new(Arc::new(SystemEnvironment::new()), Options::default());
    let send = |method: &str, path: &str, media: &str, body: String| {
        let request = Request::new(method, path, body)
            .header("content-type", media)
            .header("accept", "application/json")
            .header("user-agent", "bench/1");
        let answer = server.handle(&request);
        if answer.status >= 300 {
            return Err::<(), Failure>(format!("{method} {path}: {}", answer.status).into());
        }
        Ok(())
    };
    let namespace = r#"{"metadata": {"name": "bench"}}"#.to_owned();
    send("POST", "/api/v1/namespaces", "application/json", namespace)?;
    let mut made = 0;
    for &size in sizes {
        let watch = Stopwatch::start()?;
        let from = made;
        while made < size {
            send(
                "PATCH",
                &apply_path(made),
                APPLY,
                objects::config_map(made, 0),
            )?;
            made += 1;
        }
        let created = watch.each(size - from)?;
        let watch = Stopwatch::start()?;
        for index in 0..1_000 {
            let body = objects::config_map(index, size);
            send("PATCH", &apply_path(index), APPLY, body)?;
        }
        let changed = watch.each(1_000)?;
        let watch = Stopwatch::start()?;
        for index in 0..1_000 {
            let body = objects::config_map(index, size);
            send("PATCH", &apply_path(index), APPLY, body)?;
        }
        let same = watch.each(1_000)?;
        println!(
            "in process, {size:6} objects: apply creates {created}, changes {changed}, changes nothing {same}"
        );
    }
    Ok(())
}

/// CPU seconds that processes have used.
fn cpu_seconds(pids: &[&str]) -> Result<f64, Failure> {
    let mut ticks = 0.0;
    for pid in pids {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect();
        for field in [11, 12] {
            ticks += fields.get(field).unwrap_or(&"0").parse::<f64>()?;
        }
    }
    Ok(ticks / 100.0)
}

/// Megabytes of memory that a process holds.
fn resident(pid: &str) -> Result<f64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .ok_or("no VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(kilobytes / 1024.0)
}

const WORKERS: usize = 8;

/// Applies over some connections at once.
async fn apply_all(
    access: &Arc<Access>,
    from: usize,
    to: usize,
    value: usize,
) -> Result<(), Failure> {
    let mut tasks = Vec::new();
    for worker in 0..WORKERS {
        let access = access.clone();
        tasks.push(tokio::spawn(async move {
            let mut client = access.connect().await?;
            for index in (from..to).filter(|index| index % WORKERS == worker) {
                let body = objects::config_map(index, value);
                client
                    .send("PATCH", &apply_path(index), APPLY, body)
                    .await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Rates over HTTPS; the processes are those of the server (and of its storage).
async fn remote(kubeconfig: &str, pids: &[&str]) -> Result<(), Failure> {
    let access = Arc::new(Access::read(kubeconfig)?);
    let mut client = access.connect().await?;
    let namespace = r#"{"metadata": {"name": "bench"}}"#;
    client
        .send("POST", "/api/v1/namespaces", "application/json", namespace)
        .await?;
    const APPLIES: usize = 4_000;
    // Warm up with objects of which none is measured.
    apply_all(&access, APPLIES, APPLIES + 200, 0).await?;
    for (what, value) in [("creating", 1), ("changing", 2), ("nothing", 2)] {
        let (begin, cpu) = (Instant::now(), cpu_seconds(pids)?);
        apply_all(&access, 0, APPLIES, value).await?;
        let (time, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds(pids)? - cpu);
        println!(
            "apply_{what}_per_cpu_second {:.0}\napply_{what}_per_second {:.0}",
            APPLIES as f64 / cpu,
            APPLIES as f64 / time
        );
    }
    apply_all(&access, APPLIES, 10_000, 1).await?;
    // Servers close connections on which nothing happens for long.
    let mut client = access.connect().await?;
    let list = "/api/v1/namespaces/bench/configmaps";
    let bytes = client.send("GET", list, "", "").await?.len();
    const LISTS: usize = 10;
    let (begin, cpu) = (Instant::now(), cpu_seconds(pids)?);
    for _ in 0..LISTS {
        client.send("GET", list, "", "").await?;
    }
    let (time, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds(pids)? - cpu);
    println!(
        "list_10000_bytes {bytes}\nlist_10000_ms {:.1}\nlist_10000_cpu_ms {:.1}",
        time * 1e3 / LISTS as f64,
        cpu * 1e3 / LISTS as f64
    );
    Ok(())
}

/// Memory with 10,000 objects, and with 1,000 watchers on top that saw changes.
async fn memory(kubeconfig: &str, pid: &str) -> Result<(), Failure> {
    let access = Arc::new(Access::read(kubeconfig)?);
    let mut client = access.connect().await?;
    let namespace = r#"{"metadata": {"name": "typical"}}"#;
    client
        .send("POST", "/api/v1/namespaces", "application/json", namespace)
        .await?;
    let apply = "?fieldManager=bench&force=true";
    for index in 0..10_000 {
        let (path, body) = match index % 10 {
            0..3 => (
                format!("/apis/apps/v1/namespaces/typical/deployments/web-{index:06}{apply}"),
                objects::deployment(index).to_string(),
            ),
            3..6 => (
                format!("/api/v1/namespaces/typical/services/web-{index:06}{apply}"),
                objects::service(index).to_string(),
            ),
            _ => (
                format!("/api/v1/namespaces/typical/configmaps/cm-{index:06}{apply}"),
                objects::config_map(index, 0),
            ),
        };
        client.send("PATCH", &path, APPLY, body).await?;
    }
    println!("memory_10000_objects_mb {:.1}", resident(pid)?);
    let mut watches = Vec::new();
    for _ in 0..10 {
        let mut client = access.connect().await?;
        for index in 0..100 {
            let kind = ["configmaps", "services"][index % 2];
            let path = format!("/api/v1/namespaces/typical/{kind}?watch=true&resourceVersion=0");
            watches.push(client.open("GET", &path, "", "".into()).await?);
        }
    }
    for index in 0..200 {
        let path = format!(
            "/api/v1/namespaces/typical/configmaps/cm-{:06}{apply}",
            index * 10 + 9
        );
        let body = objects::config_map(index * 10 + 9, 1);
        client.send("PATCH", &path, APPLY, body).await?;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    println!("memory_1000_watchers_mb {:.1}", resident(pid)?);
    drop(watches);
    Ok(())
}

/// Serves until killed, for profiling without the whole program.
fn serve(kubeconfig: &str) -> Result<(), Failure> {
    let env = Arc::new(SystemEnvironment::new());
    let options = Options {
        authorization: true,
        tokens: vec![("bench".into(), everflow_cluster::auth::User::admin())],
        ..Options::default()
    };
    let server = ApiServer::new(env, options);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let authority = everflow_cluster::Authority::generate(&["127.0.0.1".to_owned()])?;
        let url = format!("https://{}", listener.local_addr()?);
        std::fs::write(
            kubeconfig,
            everflow_cluster::kubeconfig(&url, &authority.ca_certificate, "bench"),
        )?;
        let tls = authority.server_config()?;
        let faults = Arc::new(everflow_cluster::faults::NoFaults);
        everflow_cluster::serve(server, faults, listener, tls, std::future::pending()).await?;
        Ok(())
    })
}

/// What a client asks first.
const FIRST_REQUESTS: [(&str, &str, &str, &str); 7] = [
    ("GET", "/api", "", ""),
    ("GET", "/apis", "", ""),
    ("GET", "/api/v1", "", ""),
    ("GET", "/apis/apps/v1", "", ""),
    ("GET", "/api/v1/namespaces", "", ""),
    (
        "POST",
        "/api/v1/namespaces/default/configmaps",
        "application/json",
        r#"{"metadata": {"name": "first"}, "data": {"a": "b"}}"#,
    ),
    ("GET", "/api/v1/namespaces/default/configmaps", "", ""),
];

/// From starting the program until it answers, and what memory it takes before and after a client's
/// first requests.
fn start(program: &str) -> Result<(), Failure> {
    let dir = std::env::temp_dir().join(format!("everflow-start-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let kubeconfig = dir.join("kubeconfig");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        with_server(program, &kubeconfig, |_| {
            runtime.block_on(wait_until_ready(&kubeconfig, begin))?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
            Ok(())
        })?;
    }
    times.sort_by(f64::total_cmp);
    println!("start_to_serving_ms {:.0}", times[times.len() / 2]);
    with_server(program, &kubeconfig, |pid| {
        std::thread::sleep(Duration::from_secs(2));
        println!("memory_at_rest_mb {:.1}", resident(pid)?);
        runtime.block_on(first_requests(&kubeconfig))?;
        println!("memory_after_first_requests_mb {:.1}", resident(pid)?);
        Ok(())
    })?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Runs the program for as long as `work` takes, which is told its process.
fn with_server(
    program: &str,
    kubeconfig: &Path,
    work: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let _ = std::fs::remove_file(kubeconfig);
    let mut child = std::process::Command::new(program)
        .args([
            "cluster",
            "start",
            "--listen",
            "127.0.0.1:0",
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let done = work(&child.id().to_string());
    child.kill()?;
    child.wait()?;
    done
}

async fn wait_until_ready(kubeconfig: &Path, begin: Instant) -> Result<(), Failure> {
    while begin.elapsed() < Duration::from_secs(10) {
        if let Ok(access) = Access::read(&kubeconfig.to_string_lossy())
            && let Ok(mut client) = access.connect().await
            && client.send("GET", "/readyz", "", "").await.is_ok()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err("the server did not answer in ten seconds".into())
}

async fn first_requests(kubeconfig: &Path) -> Result<(), Failure> {
    let access = Access::read(&kubeconfig.to_string_lossy())?;
    let mut client = access.connect().await?;
    for (method, path, media, body) in FIRST_REQUESTS {
        client.send(method, path, media, body).await?;
    }
    Ok(())
}
