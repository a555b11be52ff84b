//! Sources under faults: watches that stand still, crashes at every effect, remotes that are down.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_cluster::Request;
use everflow_cluster::faults::{EventVerdict, Faults, Verdict};
use everflow_controllers::ControllerKind;
use everflow_runtime::Signal;
use everflow_runtime::client::{At, DeleteOptions, Patch, WriteOptions};
use serde_json::{Value, json};

use super::scenario::Scenario;
use super::world::{World, recorded_options};

const KINDS: &[ControllerKind] = &[ControllerKind::GitRepository];

type Rule = Box<dyn FnMut(&Request) -> Verdict + Send>;

/// Faults that a test sets and clears.
#[derive(Default)]
struct Switches {
    before: Mutex<Option<Rule>>,
    after: Mutex<Option<Rule>>,
    frozen: AtomicBool,
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

    fn event(&self, _request: &Request, _kind: &str, _line: &[u8]) -> EventVerdict {
        match self.frozen.load(Ordering::SeqCst) {
            true => EventVerdict::Delay(Duration::from_secs(3)),
            false => EventVerdict::Pass,
        }
    }
}

fn scenario() -> Scenario {
    let text = json!({
        "name": "faults", "namespace": "faults",
        "files": {"a.yaml": "a: 1\n"},
        "then": {},
    });
    serde_json::from_value(text).unwrap()
}

fn repository(path: &str) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "src"},
        "spec": {"interval": "10m", "url": format!("$GIT/{path}"), "ref": {"branch": "main"}},
    })
}

async fn source(world: &World) -> Value {
    let at = At::new("faults", "src");
    let resource = ControllerKind::GitRepository.resource();
    world.client.get(&resource, at).await.unwrap()
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

/// The watch stands still for three seconds from every point of the first reconcile on.
#[test]
fn a_frozen_watch_delays_nothing_for_good() {
    for point in 0..16 {
        run(async move {
            let faults = Arc::new(Switches::default());
            let pause = |_: &Request| Verdict::Delay(Duration::from_millis(10));
            let options = recorded_options();
            let world = World::start_with(&scenario(), options, KINDS, faults.clone()).await;
            sleep(&world, 500).await;
            *faults.before.lock().unwrap() = Some(Box::new(pause));
            world.apply(&repository("faults.git")).await.unwrap();
            sleep(&world, 5 * point).await;
            faults.frozen.store(true, Ordering::SeqCst);
            let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
            let (resource, by) = (KINDS[0].resource(), WriteOptions::by("user"));
            let at = At::new("faults", "src");
            world
                .client
                .patch(&resource, at, &touch, &by)
                .await
                .unwrap();
            sleep(&world, 3_000).await;
            faults.frozen.store(false, Ordering::SeqCst);
            sleep(&world, 5_000).await;
            let source = source(&world).await;
            assert!(is_ready(&source), "point {point}: {source:#}");
        });
    }
}

/// The process dies before or after the server has done the n-th write, for every n; another one
/// takes over, and lets it go when it is deleted.
#[test]
fn a_crash_at_every_effect_is_made_up_for() {
    for after in [false, true] {
        for number in 0..4 {
            run(async move {
                let faults = Arc::new(Switches::default());
                let options = recorded_options();
                let mut world =
                    World::start_with(&scenario(), options, KINDS, faults.clone()).await;
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
                world.apply(&repository("faults.git")).await.unwrap();
                let patience = Duration::from_secs(5);
                let _ = everflow_env::within(&*world.env.clock, patience, dies.raised()).await;
                world.kill_engine().await;
                *faults.before.lock().unwrap() = None;
                *faults.after.lock().unwrap() = None;
                world.start_engine().await;
                sleep(&world, 10_000).await;
                let found = source(&world).await;
                assert!(is_ready(&found), "{number} {after}: {found:#}");
                let path = found["status"]["artifact"]["path"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                assert!(world.env.disk.entry(&path).is_ok(), "{path}");
                let at = At::new("faults", "src");
                let resource = KINDS[0].resource();
                world
                    .client
                    .delete(&resource, at, &DeleteOptions::default())
                    .await
                    .unwrap();
                sleep(&world, 5_000).await;
                assert!(world.client.get(&resource, at).await.is_err());
                assert!(
                    world.env.disk.entry(&path).is_err(),
                    "{path} is still there"
                );
            });
        }
    }
}

/// A remote that goes away takes nothing with it: the artifact stays, the status says so, and the
/// next success is told.
#[test]
fn a_remote_that_is_down_keeps_the_last_artifact() {
    run(async {
        let faults = Arc::new(Switches::default());
        let world = World::start_with(&scenario(), recorded_options(), KINDS, faults).await;
        world.apply(&repository("faults.git")).await.unwrap();
        world.settle().await;
        let before = source(&world).await;
        assert!(is_ready(&before));
        let kept = world.git.lock().unwrap().remove("faults").unwrap();
        // The next interval finds nobody.
        sleep(&world, 601_000).await;
        let down = source(&world).await;
        assert!(!is_ready(&down), "{down:#}");
        assert_eq!(down["status"]["artifact"], before["status"]["artifact"]);
        let path = down["status"]["artifact"]["path"].as_str().unwrap();
        assert!(world.env.disk.entry(path).is_ok());
        let (orphans, flaws) = world.handle().orphans();
        assert!(orphans.is_empty() && flaws.is_empty());
        world.git.lock().unwrap().insert("faults".to_owned(), kept);
        sleep(&world, 901_000).await;
        assert!(is_ready(&source(&world).await));
    });
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
