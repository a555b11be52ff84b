//! How long nothing is delivered after a holder is gone: six new Kustomizations right after the fault, until all are Ready.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use everflow_corpus::real;

use crate::load::Load;
use crate::place::{HOST, Place, Process, address_of, must, signal};
use crate::proxy::Mode;
use crate::replica::Replica;

/// What happens to a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Killed,
    /// The address that stands for the ClusterIP takes its connections and never answers.
    Cut,
    Stopped,
}

pub const EVENTS: [Event; 3] = [Event::Killed, Event::Cut, Event::Stopped];

/// Two replicas of something that delivers.
pub trait Pair {
    fn start(&mut self, number: usize);
    fn kill(&mut self, number: usize);
    fn stop(&mut self, number: usize);
}

impl Pair for Vec<Replica> {
    fn start(&mut self, number: usize) {
        self[number].ended_by_itself();
        self[number].start();
    }

    fn kill(&mut self, number: usize) {
        self[number].kill();
    }

    fn stop(&mut self, number: usize) {
        self[number].signal("TERM");
    }
}

/// Two kustomize-controllers of Flux, and one source-controller that nothing happens to.
pub struct Flux {
    directory: std::path::PathBuf,
    processes: [Option<Process>; 2],
    _source: Process,
}

impl Flux {
    /// Where its controllers are built.
    pub fn start(place: &Place) -> Option<Self> {
        let (source, _) = (
            real::installed("source-controller")?,
            real::installed("kustomize-controller")?,
        );
        let directory = place.directory.clone();
        // Their leader election wants to know its namespace from here.
        must(
            "mkdir -p /var/run/secrets && mount -t tmpfs none /var/run/secrets
              mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
              printf default >/var/run/secrets/kubernetes.io/serviceaccount/namespace",
        );
        let storage = directory.join("flux-storage");
        std::fs::create_dir_all(&storage).unwrap();
        let child = Command::new(source)
            .arg("--storage-path")
            .arg(storage)
            .args([
                &format!("--storage-addr={HOST}:9091"),
                &format!("--storage-adv-addr={HOST}:9091"),
            ])
            .args([
                "--events-addr=",
                "--metrics-addr=127.0.0.1:9092",
                "--health-addr=127.0.0.1:9093",
            ])
            .env("KUBECONFIG", directory.join("kubeconfig"))
            .env("RUNTIME_NAMESPACE", "default")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(directory.join("flux-source.log")).unwrap())
            .spawn();
        Some(Flux {
            directory,
            processes: [None, None],
            _source: Process(child.unwrap()),
        })
    }
}

impl Pair for Flux {
    fn start(&mut self, number: usize) {
        let ended = self.processes[number].as_mut();
        if ended.is_some_and(|process| process.0.try_wait().unwrap().is_none()) {
            return;
        }
        let address = address_of(number);
        let log = self.directory.join(format!("flux-kustomize-{number}.log"));
        let child = Command::new("ip")
            .args(["netns", "exec", &format!("r{number}")])
            .arg(real::installed("kustomize-controller").unwrap())
            .args(["--enable-leader-election", "--events-addr="])
            .args([
                &format!("--metrics-addr={address}:8080"),
                &format!("--health-addr={address}:9440"),
            ])
            .env(
                "KUBECONFIG",
                self.directory.join(format!("kubeconfig-{number}")),
            )
            .env("RUNTIME_NAMESPACE", "default")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(log).unwrap())
            .spawn();
        self.processes[number] = Some(Process(child.unwrap()));
    }

    fn kill(&mut self, number: usize) {
        self.processes[number] = None;
    }

    fn stop(&mut self, number: usize) {
        if let Some(process) = &self.processes[number] {
            signal(&process.0, "TERM");
        }
    }
}

/// Lets each thing happen so many times; the times until delivery.
pub async fn measure(
    place: &Place,
    load: &Load,
    pair: &mut dyn Pair,
    rounds: usize,
) -> Vec<(Event, Vec<Duration>)> {
    let patience = Duration::from_secs(180);
    // The first holds what a single leader holds; the other one is there when it is needed.
    pair.start(0);
    load.probe(patience).await.unwrap();
    pair.start(1);
    let mut holder = 0;
    let mut times = Vec::new();
    for event in EVENTS {
        let mut of_event = Vec::new();
        for _ in 0..rounds {
            load.unprobe().await;
            // Leases are renewed at other times in each round.
            tokio::time::sleep(Duration::from_millis(12_000 + 700 * of_event.len() as u64)).await;
            let begun = Instant::now();
            match event {
                Event::Killed => pair.kill(holder),
                Event::Cut => place.proxy.set(&address_of(holder), Mode::Silent),
                Event::Stopped => pair.stop(holder),
            }
            let delivered = load.probe(patience).await;
            println!("{event:?}: {delivered:?}, {:.1?} in all", begun.elapsed());
            of_event.push(delivered.unwrap_or(patience));
            place.proxy.set(&address_of(holder), Mode::Pass);
            tokio::time::sleep(Duration::from_secs(3)).await;
            pair.start(0);
            pair.start(1);
            holder = 1 - holder;
            tokio::time::sleep(Duration::from_secs(8)).await;
        }
        times.push((event, of_event));
    }
    times
}

/// The longest and the one in the middle, in seconds.
pub fn shown(spans: &[Duration]) -> (f64, f64) {
    let mut seconds: Vec<f64> = spans.iter().map(Duration::as_secs_f64).collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[seconds.len() / 2], seconds[seconds.len() - 1])
}
