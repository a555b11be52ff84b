//! Sources under faults: watches that stand still, crashes at every effect, remotes that are down.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_cluster::Request;
use everflow_cluster::faults::{EventVerdict, Faults, Verdict};
use everflow_cluster::rest::watch::Event;
use everflow_controllers::ControllerKind;
use everflow_fetch::testing::Buckets;
use everflow_json::{Value, json};
use everflow_runtime::Signal;
use everflow_runtime::client::{At, DeleteOptions, Patch, WriteOptions};

use super::remotes::BUCKETS;
use super::scenario::Scenario;
use super::world::{GIT, HELM, REGISTRY, World, recorded_options};

const KINDS: &[ControllerKind] = &[ControllerKind::GitRepository];
/// All kinds of sources.
const SOURCES: [ControllerKind; 5] = [
    ControllerKind::GitRepository,
    ControllerKind::OCIRepository,
    ControllerKind::HelmRepository,
    ControllerKind::HelmChart,
    ControllerKind::Bucket,
];

type Rule = Box<dyn FnMut(&Request) -> Verdict + Send>;

/// Faults that a test sets and clears.
#[derive(Default)]
struct Switches {
    before: Mutex<Option<Rule>>,
    after: Mutex<Option<Rule>>,
    /// The collection whose watch stands still.
    frozen: Mutex<Option<String>>,
}

impl Faults for Switches {
    fn before(&self, request: &Request) -> Verdict {
        let mut rule = self.before.lock().unwrap();
        rule.as_mut().map_or(Verdict::Pass, |rule| rule(request))
    }

    fn after(&self, request: &Request, _status: u16) -> Verdict {
        let mut rule = self.after.lock().unwrap();
        rule.as_mut().map_or(Verdict::Pass, |rule| rule(request))
    }

    fn event(&self, request: &Request, _event: &Event) -> EventVerdict {
        let frozen = self.frozen.lock().unwrap();
        match frozen
            .as_ref()
            .is_some_and(|plural| request.path.ends_with(plural))
        {
            true => EventVerdict::Delay(Duration::from_secs(3)),
            false => EventVerdict::Pass,
        }
    }
}

fn scenario() -> Scenario {
    let text = json!({
        "name": "faults", "namespace": "faults",
        "files": {"a.yaml": "a: 1\n"},
        "charts": {
            "index.yaml": "apiVersion: v1\nentries:\n  app:\n  - {apiVersion: v2, name: app, version: 1.0.0, urls: [app-1.0.0.tgz]}\n",
            "app-1.0.0.tgz": {"base64": STANDARD.encode(chart())},
        },
        "oci": [{"tags": ["v1"], "layers": [{
            "mediaType": "application/vnd.cncf.flux.content.v1.tar+gzip",
            "base64": STANDARD.encode(archive("a.yaml", b"a: 1\n")),
        }]}],
        "then": {},
    });
    everflow_json::from_value(text).unwrap()
}

fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, content).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

fn chart() -> Vec<u8> {
    archive(
        "app/Chart.yaml",
        b"apiVersion: v2\nname: app\nversion: 1.0.0\n",
    )
}

/// What a source of a kind needs beside itself, and the source.
fn objects(kind: ControllerKind) -> Vec<Value> {
    let object = |kind: ControllerKind, name: &str, spec: Value| {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind.to_string(),
            "metadata": {"name": name}, "spec": spec,
        });
        object["spec"]["interval"] = "10m".into();
        object
    };
    let charts = |name: &str| {
        object(
            ControllerKind::HelmRepository,
            name,
            json!({"url": "$HELM/faults"}),
        )
    };
    match kind {
        ControllerKind::GitRepository => vec![repository("faults.git")],
        ControllerKind::OCIRepository => vec![object(
            kind,
            "src",
            json!({"url": "oci://$REG/faults", "insecure": true, "ref": {"tag": "v1"}}),
        )],
        ControllerKind::HelmRepository => vec![charts("src")],
        ControllerKind::HelmChart => vec![
            charts("repo"),
            object(
                kind,
                "src",
                json!({"chart": "app", "sourceRef": {"kind": "HelmRepository", "name": "repo"}}),
            ),
        ],
        _ => vec![object(
            kind,
            "src",
            json!({"endpoint": format!("127.0.0.1:{BUCKETS}"), "insecure": true, "bucketName": "apps"}),
        )],
    }
}

/// A world in which a source of a kind can work.
async fn world(kind: ControllerKind, faults: Arc<Switches>) -> World {
    let mut kinds = vec![kind];
    if kind == ControllerKind::HelmChart {
        kinds.push(ControllerKind::HelmRepository);
    }
    let world = World::start_with(&scenario(), recorded_options(), &kinds, faults).await;
    if kind == ControllerKind::Bucket {
        let buckets = Buckets::new();
        buckets.listen(&world.dialer, "127.0.0.1", BUCKETS);
        buckets.put("apps", "a.yaml", b"a: 1\n");
    }
    world
}

fn repository(path: &str) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "src"},
        "spec": {"interval": "10m", "url": format!("$GIT/{path}"), "ref": {"branch": "main"}},
    })
}

async fn source(world: &World) -> Value {
    source_of(world, ControllerKind::GitRepository).await
}

async fn source_of(world: &World, kind: ControllerKind) -> Value {
    let at = At::new("faults", "src");
    world.client.get(&kind.resource(), at).await.unwrap()
}

fn is_ready(source: &Value) -> bool {
    let conditions = source["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    source["status"]["observedGeneration"] == source["metadata"]["generation"]
        && conditions
            .iter()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test);
}

async fn sleep(world: &World, millis: u64) {
    world.sleep(Duration::from_millis(millis)).await;
}

/// One watch stands still for three seconds from every point of the first reconcile on.
#[test]
fn frozen_watch_does_not_delay_reconciles_forever() {
    for kind in SOURCES {
        let own = kind.resource().plural.to_string();
        let mut watches = vec![own];
        if kind == ControllerKind::HelmChart {
            watches.push(ControllerKind::HelmRepository.resource().plural.to_string());
        }
        for frozen in watches {
            for point in 0..12 {
                run(frozen_at(kind, frozen.clone(), point));
            }
        }
    }
}

async fn frozen_at(kind: ControllerKind, frozen: String, point: u64) {
    let faults = Arc::new(Switches::default());
    let pause = |_: &Request| Verdict::Delay(Duration::from_millis(10));
    let world = world(kind, faults.clone()).await;
    sleep(&world, 500).await;
    *faults.before.lock().unwrap() = Some(Box::new(pause));
    for object in objects(kind) {
        world.apply(&object).await.unwrap();
    }
    sleep(&world, 5 * point).await;
    *faults.frozen.lock().unwrap() = Some(frozen.clone());
    let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    let by = WriteOptions::by("user");
    let at = At::new("faults", "src");
    let resource = kind.resource();
    world
        .client
        .patch(&resource, at, &touch, &by)
        .await
        .unwrap();
    sleep(&world, 3_000).await;
    *faults.frozen.lock().unwrap() = None;
    sleep(&world, 5_000).await;
    let source = source_of(&world, kind).await;
    assert!(is_ready(&source), "{frozen} at point {point}: {source:#}");
}

/// The process dies before or after the server has done the n-th write, for every n; another one
/// takes over, and lets it go when it is deleted.
#[test]
fn reconcile_recovers_from_a_crash_at_every_write() {
    for kind in SOURCES {
        // Finalizer, status and event of each object.
        let effects = 3 * objects(kind).len();
        for after in [false, true] {
            for number in 0..=effects {
                run(crash_at(kind, number, after));
            }
        }
    }
}

async fn crash_at(kind: ControllerKind, number: usize, after: bool) {
    let faults = Arc::new(Switches::default());
    let mut world = world(kind, faults.clone()).await;
    sleep(&world, 500).await;
    let (count, dies) = (Arc::new(AtomicUsize::new(0)), Signal::new());
    let knell = dies.clone();
    let strike: Rule = Box::new(move |request| {
        let write = request.method != "GET";
        match write && count.fetch_add(1, Ordering::SeqCst) == number {
            true => {
                knell.raise();
                Verdict::Delay(Duration::from_secs(100_000))
            }
            false => Verdict::Pass,
        }
    });
    match after {
        true => *faults.after.lock().unwrap() = Some(strike),
        false => *faults.before.lock().unwrap() = Some(strike),
    }
    for object in objects(kind) {
        world.apply(&object).await.unwrap();
    }
    let patience = Duration::from_secs(5);
    let _ = everflow_env::within(&*world.env.clock, patience, dies.raised()).await;
    world.kill_engine().await;
    *faults.before.lock().unwrap() = None;
    *faults.after.lock().unwrap() = None;
    world.start_engine().await;
    sleep(&world, 10_000).await;
    let found = source_of(&world, kind).await;
    assert!(is_ready(&found), "{kind} {number} {after}: {found:#}");
    let path = found["status"]["artifact"]["path"].as_str().unwrap();
    assert!(world.env.disk.entry(path).is_ok(), "{path}");
    let (at, resource) = (At::new("faults", "src"), kind.resource());
    world
        .client
        .delete(&resource, at, &DeleteOptions::default())
        .await
        .unwrap();
    sleep(&world, 5_000).await;
    assert!(world.client.get(&resource, at).await.is_err());
    assert!(world.env.disk.entry(path).is_err(), "{path} is still there");
}

/// A remote that goes away takes nothing with it: the artifact stays, the status says so, the next
/// success is told, and whoever fetches from elsewhere notices nothing.
#[test]
fn a_remote_that_is_down_keeps_the_last_artifact() {
    for (kind, port) in [
        (ControllerKind::GitRepository, GIT),
        (ControllerKind::OCIRepository, REGISTRY),
        (ControllerKind::HelmRepository, HELM),
        (ControllerKind::Bucket, BUCKETS),
    ] {
        for hangs in [false, true] {
            run(down(kind, port, hangs));
        }
    }
}

async fn down(kind: ControllerKind, port: u16, hangs: bool) {
    const ELSEWHERE: u16 = 9_012;
    let faults = Arc::new(Switches::default());
    let kinds = [kind, ControllerKind::Bucket];
    let mut kinds = kinds.to_vec();
    kinds.dedup();
    let world = World::start_with(&scenario(), recorded_options(), &kinds, faults).await;
    let buckets = Buckets::new();
    buckets.put("apps", "a.yaml", b"a: 1\n");
    buckets.listen(&world.dialer, "127.0.0.1", ELSEWHERE);
    buckets.listen(&world.dialer, "127.0.0.1", BUCKETS);
    let mut other = objects(ControllerKind::Bucket).remove(0);
    other["metadata"]["name"] = "other".into();
    other["spec"]["endpoint"] = format!("127.0.0.1:{ELSEWHERE}").into();
    world.apply(&other).await.unwrap();
    for object in objects(kind) {
        world.apply(&object).await.unwrap();
    }
    world.settle().await;
    let before = source_of(&world, kind).await;
    assert!(is_ready(&before), "{before:#}");

    // Connections are refused, or taken and never answered.
    let nobody = Some(world.dialer.listen("127.0.0.1", port)).filter(|_| hangs);
    buckets.put("apps", "a.yaml", b"a: 2\n");
    sleep(&world, 661_000).await;
    let down = source_of(&world, kind).await;
    assert!(!is_ready(&down), "{kind} {hangs}: {down:#}");
    assert_eq!(down["status"]["artifact"], before["status"]["artifact"]);
    let path = down["status"]["artifact"]["path"].as_str().unwrap();
    assert!(world.env.disk.entry(path).is_ok());
    let (orphans, flaws) = world.handle().orphans();
    assert!(orphans.is_empty() && flaws.is_empty());
    let at = At::new("faults", "other");
    let resource = ControllerKind::Bucket.resource();
    let other = world.client.get(&resource, at).await.unwrap();
    assert!(is_ready(&other), "{other:#}");
    let revision = |source: &Value| source["status"]["artifact"]["revision"].clone();
    if kind == ControllerKind::Bucket {
        assert_ne!(revision(&other), revision(&before));
    }

    drop(nobody);
    world.serve_remotes(&world.dialer);
    buckets.listen(&world.dialer, "127.0.0.1", BUCKETS);
    sleep(&world, 901_000).await;
    let back = source_of(&world, kind).await;
    assert!(is_ready(&back), "{kind} {hangs}: {back:#}");
}

/// An artifact that is gone or broken is made again, and nobody is told a lie meanwhile.
#[test]
fn a_broken_artifact_is_made_again() {
    run(async {
        let faults = Arc::new(Switches::default());
        let mut world = World::start_with(&scenario(), recorded_options(), KINDS, faults).await;
        world.apply(&repository("faults.git")).await.unwrap();
        world.settle().await;
        let before = source(&world).await;
        let path = before["status"]["artifact"]["path"]
            .as_str()
            .unwrap()
            .to_owned();
        everflow_env::disk::write_whole(&*world.env.disk, &path, b"broken").unwrap();
        world.kill_engine().await;
        world.start_engine().await;
        sleep(&world, 5_000).await;
        let after = source(&world).await;
        assert!(is_ready(&after), "{after:#}");
        assert_eq!(
            after["status"]["artifact"]["digest"],
            before["status"]["artifact"]["digest"]
        );
        let bytes = everflow_env::disk::read_all(&*world.env.disk, &path, 1 << 20).unwrap();
        let size = after["status"]["artifact"]["size"].as_u64().unwrap();
        assert_eq!(bytes.len() as u64, size);
    });
}
