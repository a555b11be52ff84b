//! Two replicas in one process, with a disk each: what one has fetched, the other delivers when it is gone.

use std::sync::Arc;
use std::time::Duration;

use everflow_controllers::{ControllerKind, Named, Setup, mirror};
use everflow_embedded::EmbeddedAdmission;
use everflow_env::{Env, MemoryDisk, SeededRandom, watch};
use everflow_fetch::storage::{FileServer, ServerLimits, Storage, StorageOptions};
use everflow_json::{Value, json};
use everflow_runtime::Signal;
use everflow_runtime::client::At;
use everflow_runtime::engine::Handle;
use everflow_runtime::events::recorder;
use everflow_runtime::lease::LeaseOptions;
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::queue::Key;
use everflow_runtime::shards::{ShardElection, ShardOptions, Shards};
use tokio::task::JoinSet;

use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-replicas";
const COUNT: usize = 6;

struct Replica {
    name: String,
    env: Env,
    handle: Handle,
    shards: watch::Receiver<Shards>,
    /// It dies with these.
    tasks: JoinSet<()>,
}

impl Replica {
    /// As `everflow run` puts it together.
    async fn start(world: &World, name: &str, seed: u64) -> Replica {
        let mut env = world.env.clone();
        env.disk = Arc::new(MemoryDisk::new());
        env.random = Arc::new(SeededRandom::new(seed));
        let (log, metrics) = (Logger::silent(env.clock.clone()), Metrics::new());
        let client = world.client.named(name);
        let mut lease = LeaseOptions::new(NAMESPACE, "source-controller", "", name.to_owned());
        lease.duration = Duration::from_secs(19);
        lease.renew_deadline = Duration::from_secs(15);
        lease.retry_period = Duration::from_secs(3);
        let mut options = ShardOptions::new(lease, 8);
        options.address = Some(format!("{name}:9090"));
        let election = ShardElection::new(&env, &client, options, &log, &metrics);
        let (shards, mut peers) = (election.shards(), election.peers());
        let addresses = watch::Sender::new(Vec::new());
        let storage = StorageOptions {
            advertised: format!("{name}:9090"),
            ..StorageOptions::default()
        };
        let storage = Storage::open(&env, storage).await.unwrap();
        let storage = storage.with_peers(addresses.subscribe()).unwrap();
        let setup = Setup {
            env: env.clone(),
            client: client.clone(),
            options: recorded_options(),
            admission: Some(Arc::new(EmbeddedAdmission)),
            storage: storage.clone(),
            log,
            metrics: metrics.clone(),
        };
        let (recorder, events) = recorder(&env, &client, &metrics, None, name).unwrap();
        let engine = setup.engine(&ControllerKind::deploying(), recorder);
        let handle = engine.handle();
        let named = Arc::new(Named(handle.clone()));
        let files = FileServer::new(&env, ServerLimits::default());
        let files = files.with_peers(storage.clone(), named);
        let mut incoming = world.dialer.listen(name, 9_090);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Some(stream) = incoming.recv().await {
                let files = files.clone();
                open.spawn(async move { files.serve(stream).await });
            }
        });
        tasks.spawn(async move {
            while peers.changed().await.is_ok() {
                let told = peers.borrow();
                let told = told.iter().filter_map(|peer| peer.address.clone());
                addresses.send_replace(told.collect());
            }
        });
        tasks.spawn(events.run());
        tasks.spawn(mirror(env.clone(), storage, handle.clone()));
        tasks.spawn(election.run(Signal::new(), Signal::new()));
        tasks.spawn(engine.run_shards(shards.clone(), Signal::new()));
        Replica {
            name: name.to_owned(),
            env,
            handle,
            shards,
            tasks,
        }
    }

    fn held(&self) -> usize {
        self.shards.borrow().held().len()
    }

    fn works_on(&self, kind: &str, name: &str) -> bool {
        self.handle.works_on(&Key::new(kind, NAMESPACE, name))
    }
}

fn scenario() -> Scenario {
    let file = |number: usize| {
        let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{number}}}\n");
        (format!("k{number}/map.yaml"), Value::from(map))
    };
    let mut files = json!({});
    for (name, text) in (0..COUNT).map(file) {
        files[name.as_str()] = text;
    }
    everflow_json::from_value(json!({
        "name": "replicas", "namespace": NAMESPACE, "then": {}, "files": files,
    }))
    .unwrap()
}

fn source() -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "src"},
        "spec": {"interval": "10m", "url": format!("$GIT/{NAMESPACE}.git"), "ref": {"branch": "main"}}})
}

fn kustomization(number: usize) -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": format!("k{number}")},
        "spec": {"interval": "10m", "prune": true, "wait": true, "targetNamespace": NAMESPACE,
            "path": format!("./k{number}"), "sourceRef": {"kind": "GitRepository", "name": "src"}}})
}

async fn read(world: &World, version: &str, kind: &str, name: &str) -> Value {
    let resource = world.resource(version, kind).await;
    let object = world.client.get(&resource, At::new(NAMESPACE, name)).await;
    object.unwrap()
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Waits until these Kustomizations are ready, and says how long that took.
async fn until_ready(world: &World, numbers: &[usize], limit: u64) -> Duration {
    let started = world.env.clock.elapsed();
    for number in numbers {
        let name = format!("k{number}");
        loop {
            let object = read(
                world,
                "kustomize.toolkit.fluxcd.io/v1",
                "Kustomization",
                &name,
            )
            .await;
            let waited = world.env.clock.elapsed() - started;
            if is_ready(&object) {
                break;
            }
            assert!(
                waited < Duration::from_secs(limit),
                "{name} after {waited:?}: {object}"
            );
            world.sleep(Duration::from_millis(50)).await;
        }
    }
    world.env.clock.elapsed() - started
}

async fn until(world: &World, what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if so() {
            return;
        }
        world.sleep(Duration::from_millis(50)).await;
    }
    panic!("not so: {what}");
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn surviving_replica_delivers_artifacts_of_a_dead_replica() {
    let mut world =
        World::start(&scenario(), recorded_options(), &[ControllerKind::Receiver]).await;
    world.stop_engine().await;
    let one = Replica::start(&world, "one", 11).await;
    let two = Replica::start(&world, "two", 12).await;
    until(&world, "an even share", || {
        one.held() == 4 && two.held() == 4
    })
    .await;
    world.apply(&source()).await.unwrap();
    let mut path = String::new();
    for _ in 0..200 {
        let source = read(
            &world,
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
            "src",
        )
        .await;
        if let Some(found) = source["status"]["artifact"]["path"].as_str() {
            path = found.to_owned();
            break;
        }
        world.sleep(Duration::from_millis(50)).await;
    }
    // Whoever has not fetched it has a copy.
    let both = [&one, &two].map(|replica| replica.env.disk.clone());
    let everywhere = || both.iter().all(|disk| disk.entry(&path).is_ok());
    until(&world, "a copy on each disk", everywhere).await;
    // From here on nobody can fetch it again.
    world.git.lock().unwrap().clear();
    let (dead, mut survivor) = match one.works_on("GitRepository", "src") {
        true => (one, two),
        false => (two, one),
    };
    let all: Vec<usize> = (0..COUNT).collect();
    let own = |number: &usize| survivor.works_on("Kustomization", &format!("k{number}"));
    let (own, others): (Vec<usize>, Vec<usize>) = all.iter().partition(|number| own(number));
    assert!(!own.is_empty() && !others.is_empty());
    drop(dead);
    for number in &all {
        world.apply(&kustomization(*number)).await.unwrap();
    }
    // Its own share is not held up by the death of who had fetched the source; the rest by the leases only.
    let soon = until_ready(&world, &own, 3).await;
    let late = until_ready(&world, &others, 25).await;
    assert!(
        soon + late < Duration::from_secs(20),
        "{soon:?} and {late:?}"
    );
    assert_eq!(survivor.held(), 8);
    // The source is the survivor's now, and so is the address of its artifact.
    let mut url = String::new();
    for _ in 0..100 {
        let source = read(
            &world,
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
            "src",
        )
        .await;
        url = source["status"]["artifact"]["url"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if url.contains(&survivor.name) {
            break;
        }
        world.sleep(Duration::from_millis(50)).await;
    }
    assert!(
        url.starts_with(&format!("http://{}:9090/", survivor.name)),
        "{url}"
    );
    assert_eq!(survivor.handle.orphans(), (vec![], vec![]));
    survivor.tasks.abort_all();
}
