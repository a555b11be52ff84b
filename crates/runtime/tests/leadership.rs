//! Leases: one leader at a time, whatever happens to clocks, answers and processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everflow_cluster::Request;
use everflow_cluster::faults::Verdict;
use everflow_env::watch;
use everflow_json::json;
use everflow_runtime::client::{At, Client};
use everflow_runtime::lease::{Election, LEASES, Leadership, LeaseOptions};
use everflow_runtime::{Error, Signal};
use support::toy::{Running, settled};
use support::{World, refuse};
use tokio::task::JoinHandle;

struct Replica {
    leadership: watch::Receiver<Leadership>,
    stop: Signal,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(world: &World, client: &Client, identity: &str) -> Replica {
        let options = LeaseOptions::new("apps", "toy-controller", "", identity.into());
        let election = Election::new(world.env.clone(), client.clone(), options);
        let (leadership, stop) = (election.leadership(), Signal::new());
        let task = tokio::spawn(election.run(stop.clone()));
        Replica {
            leadership,
            stop,
            task,
        }
    }

    fn epoch(&self) -> Option<u64> {
        self.leadership.borrow().epoch().map(|epoch| epoch.number())
    }
}

async fn lease(world: &World) -> everflow_json::Value {
    let at = At::new("apps", "toy-controller-leader-election");
    world.user.get(&LEASES, at).await.unwrap()["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn one_leads_the_other_follows_and_takes_over() {
    let world = World::new(1).await;
    let one = Replica::start(&world, &world.client, "one");
    world.sleep(1.0).await;
    let two = Replica::start(&world, &world.another_client(), "two");
    world.sleep(60.0).await;
    assert_eq!((one.epoch(), two.epoch()), (Some(0), None));
    assert!(
        matches!(&*two.leadership.borrow(), Leadership::Follower(Some(holder)) if holder == "one")
    );
    assert_eq!(
        (
            lease(&world).await["holderIdentity"].as_str(),
            lease(&world).await["leaseDurationSeconds"].as_i64()
        ),
        (Some("one"), Some(35))
    );
    // Handed over on a clean stop: no waiting for the lease to run out.
    one.stop.raise();
    one.task.await.unwrap();
    world.sleep(7.0).await;
    assert_eq!(two.epoch(), Some(1));
    // And after a crash when it has run out.
    two.task.abort();
    let three = Replica::start(&world, &world.client, "three");
    let crashed = world.env.clock.elapsed();
    while three.epoch().is_none() {
        world.sleep(0.1).await;
    }
    let waited = world.env.clock.elapsed() - crashed;
    assert_eq!(three.epoch(), Some(2));
    assert!(
        (Duration::from_secs(35)..Duration::from_secs(48)).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(lease(&world).await["leaseTransitions"], 2);
}

/// A leader that reaches nobody stops by its own clock, before anyone else begins.
#[tokio::test(start_paused = true)]
async fn epochs_never_overlap() {
    for seed in 0..40 {
        let world = World::new(seed).await;
        let (cut, mode) = (Arc::new(AtomicBool::new(false)), seed % 4);
        let concerns = |request: &Request, cut: &AtomicBool| {
            cut.load(Ordering::SeqCst) && request.first_header("user-agent") == Some("one")
        };
        let flag = cut.clone();
        world
            .faults
            .before(move |request| match (concerns(request, &flag), mode) {
                (true, 0) => refuse(500, "InternalError"),
                (true, 1) => Verdict::Drop,
                (true, 2) => Verdict::Delay(Duration::from_secs(20)),
                _ => Verdict::Pass,
            });
        // Lost answers: it is renewed, but its holder does not know.
        let flag = cut.clone();
        world.faults.after(
            move |request, _| match concerns(request, &flag) && mode == 3 {
                true => Verdict::Drop,
                false => Verdict::Pass,
            },
        );
        let one = Replica::start(&world, &world.client.named("one"), "one");
        world.sleep(1.0).await;
        let two = Replica::start(&world, &world.another_client(), "two");
        world.sleep(0.37 * seed as f64).await;
        cut.store(true, Ordering::SeqCst);
        let mut took_over = false;
        for _ in 0..1_500 {
            world.sleep(0.1).await;
            let both = one.epoch().is_some() && two.epoch().is_some();
            assert!(!both, "seed {seed}: two leaders");
            took_over |= two.epoch().is_some();
        }
        assert!(took_over, "seed {seed}");
        cut.store(false, Ordering::SeqCst);
        world.sleep(30.0).await;
        assert_eq!((one.epoch(), two.epoch().is_some()), (None, true));
        one.task.abort();
        two.task.abort();
    }
}

/// The time of day plays no part: it may jump as it likes.
#[tokio::test(start_paused = true)]
async fn jumping_clocks_do_not_matter() {
    let world = World::new(1).await;
    let clock = Arc::new(everflow_env::SimulatedClock::new());
    let mut env = world.env.clone();
    env.clock = clock.clone();
    let options = LeaseOptions::new("apps", "toy-controller", "", "jumper".into());
    let election = Election::new(env, world.client.clone(), options);
    let leadership = election.leadership();
    let one = Replica::start(&world, &world.another_client(), "one");
    world.sleep(1.0).await;
    tokio::spawn(election.run(Signal::new()));
    for hours in [5, -10, 3, 100, -200] {
        clock.jump(everflow_time::Duration::from_seconds(hours * 3_600));
        world.sleep(60.0).await;
        assert_eq!(
            (one.epoch(), leadership.borrow().epoch().is_some()),
            (Some(0), false)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_write_is_sent_after_the_epoch_ends() {
    let world = World::new(1).await;
    let one = Replica::start(&world, &world.client, "one");
    world.sleep(1.0).await;
    let epoch = one.leadership.borrow().epoch().unwrap().clone();
    let fenced = world.client.fenced(Arc::new(epoch.clone()));
    let toy = world.create_toy("one", json!({})).await;
    one.task.abort();
    world.sleep(20.0).await;
    let at = At::of(&toy);
    let patch = everflow_runtime::client::Patch::Merge(json!({"spec": {"size": 1}}));
    let by = everflow_runtime::client::WriteOptions::by("x");
    fenced.patch(&support::TOYS, at, &patch, &by).await.unwrap();
    // A write that is under way when the epoch ends is not waited for.
    world
        .faults
        .before(|_| Verdict::Delay(Duration::from_secs(25)));
    let late = fenced.patch(&support::TOYS, at, &patch, &by).await;
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    world.faults.clear();
    let refused = fenced.patch(&support::TOYS, at, &patch, &by).await;
    assert!(
        matches!(refused, Err(Error::Fenced { epoch: 0 })),
        "{refused:?}"
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "leadership of epoch 0 is over: nothing more is written under it"
    );
    assert!(epoch.check().is_err());
    fenced.get(&support::TOYS, at).await.unwrap();
}

/// Two replicas with engines: the leader loses its lease in the middle of an attempt; the other
/// finishes the work. Nothing is written by who does not lead.
#[tokio::test(start_paused = true)]
async fn leadership_lost_in_the_middle_of_an_attempt() {
    for point in 0..12_u64 {
        let world = World::new(point).await;
        let (client_one, client_two) = (
            world.client.named("one"),
            world.another_client().named("two"),
        );
        let cut = Arc::new(AtomicBool::new(false));
        let flag = cut.clone();
        world.faults.before(move |request| {
            let one = request.first_header("user-agent") == Some("one");
            match one && flag.load(Ordering::SeqCst) && request.path.contains("leases") {
                true => refuse(503, "ServiceUnavailable"),
                false => Verdict::Pass,
            }
        });
        let one = Replica::start(&world, &client_one, "one");
        world.sleep(1.0).await;
        let two = Replica::start(&world, &client_two, "two");
        let work = Duration::from_secs(10);
        let first = Running::start_with(&world, &client_one, work, Some(one.leadership.clone()));
        let second = Running::start_with(&world, &client_two, work, Some(two.leadership.clone()));
        world.sleep(1.0).await;
        cut.store(true, Ordering::SeqCst);
        world.sleep(2.5 * point as f64).await;
        world.create_toy("one", json!({"size": 1})).await;
        world.sleep(90.0).await;
        assert_eq!((one.epoch(), two.epoch()), (None, Some(1)));
        settled(&world, "one")
            .await
            .unwrap_or_else(|why| panic!("point {point}: {why}"));
        first.assert_no_orphan();
        second.assert_no_orphan();
        // Each box was made under a leadership: at most one by each.
        assert!(first.counts.boxes.lock().unwrap().len() <= 1);
        first.kill().await;
        second.kill().await;
        one.task.abort();
        two.task.abort();
    }
}
