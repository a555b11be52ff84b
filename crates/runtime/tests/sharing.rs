//! Replicas that share the work: each does its part, and none does another's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_cluster::Request;
use everflow_cluster::faults::{EventVerdict, Verdict};
use everflow_env::watch;
use everflow_json::json;
use everflow_runtime::Signal;
use everflow_runtime::client::{At, Client, Patch, Selection, WriteOptions};
use everflow_runtime::lease::{Election, LEASES, LeaseOptions};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::queue::Key;
use everflow_runtime::shards::{Member, ShardElection, ShardOptions, Shards, shard_of};
use support::toy::{Running, settled};
use support::{TOYS, World};
use tokio::task::JoinHandle;

const SHARDS: usize = 8;

fn times(world: &World, identity: &str) -> LeaseOptions {
    let _ = world;
    let mut lease = LeaseOptions::new("apps", "toy-controller", "", identity.into());
    lease.duration = Duration::from_secs(19);
    lease.renew_deadline = Duration::from_secs(15);
    lease.retry_period = Duration::from_secs(3);
    lease
}

struct Replica {
    name: &'static str,
    shards: watch::Receiver<Shards>,
    peers: watch::Receiver<Vec<Member>>,
    leave: Signal,
    over: Signal,
    election: JoinHandle<()>,
    engine: Running,
}

impl Replica {
    fn start(world: &World, name: &'static str) -> Replica {
        Replica::start_with(world, name, Duration::ZERO, SHARDS)
    }

    fn start_with(world: &World, name: &'static str, work: Duration, count: usize) -> Replica {
        let client = world.another_client().named(name);
        let mut options = ShardOptions::new(times(world, name), count);
        options.address = Some(format!("{name}:9090"));
        Replica::start_as(world, &client, name, work, options)
    }

    fn start_as(
        world: &World,
        client: &Client,
        name: &'static str,
        work: Duration,
        options: ShardOptions,
    ) -> Replica {
        let log = Logger::silent(world.env.clock.clone());
        let election = ShardElection::new(&world.env, client, options, &log, &Metrics::new());
        let (shards, peers) = (election.shards(), election.peers());
        let (leave, over) = (Signal::new(), Signal::new());
        let engine = Running::start_shards(world, client, work, shards.clone());
        Replica {
            name,
            shards,
            peers,
            election: tokio::spawn(election.run(leave.clone(), over.clone())),
            leave,
            over,
            engine,
        }
    }

    fn held(&self) -> BTreeSet<usize> {
        let shards = self.shards.borrow();
        let held = shards.held().iter();
        held.filter(|(_, epoch)| epoch.check().is_ok())
            .map(|(number, _)| *number)
            .collect()
    }

    fn owns(&self, toy: &str) -> bool {
        self.held()
            .contains(&shard_of(&Key::new("Toy", "apps", toy), SHARDS))
    }

    /// Ends it as kill -9 would.
    async fn kill(self) {
        self.election.abort();
        self.engine.kill().await;
    }

    /// Ends it as the program does.
    async fn stop(self) {
        self.leave.raise();
        self.engine.stop.raise();
        self.engine.task.await.unwrap();
        self.over.raise();
        self.election.await.unwrap();
    }
}

/// Waits until it is so, and says how long that took.
async fn until(world: &World, seconds: f64, mut so: impl FnMut() -> bool) -> Duration {
    let started = world.env.clock.elapsed();
    let limit = Duration::from_secs_f64(seconds);
    while !so() {
        let waited = world.env.clock.elapsed() - started;
        assert!(waited < limit, "not so after {waited:?}");
        world.sleep(0.05).await;
    }
    world.env.clock.elapsed() - started
}

async fn until_settled(world: &World, toys: &[String], seconds: f64) -> Duration {
    let started = world.env.clock.elapsed();
    let limit = Duration::from_secs_f64(seconds);
    for toy in toys {
        while let Err(why) = settled(world, toy).await {
            let waited = world.env.clock.elapsed() - started;
            assert!(waited < limit, "{toy} after {waited:?}: {why}");
            world.sleep(0.05).await;
        }
    }
    world.env.clock.elapsed() - started
}

fn names(what: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{what}-{number}"))
        .collect()
}

async fn create(world: &World, names: &[String]) {
    for name in names {
        world.create_toy(name, json!({"size": 1})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn first_replica_takes_all_shards_and_hands_half_to_the_second() {
    let world = World::new(1).await;
    let one = Replica::start(&world, "one");
    until(&world, 4.0, || one.held().len() == SHARDS).await;
    let toys = names("toy", 40);
    create(&world, &toys).await;
    until_settled(&world, &toys, 5.0).await;
    let two = Replica::start(&world, "two");
    until(&world, 8.0, || two.held().len() == SHARDS / 2).await;
    assert_eq!(one.held().len(), SHARDS / 2);
    assert!(one.held().is_disjoint(&two.held()));
    assert_eq!(two.peers.borrow()[0].address.as_deref(), Some("one:9090"));
    let three = Replica::start(&world, "three");
    until(&world, 8.0, || three.held().len() == 2).await;
    world.sleep(30.0).await;
    let counts = [&one, &two, &three].map(|replica| replica.held().len());
    assert_eq!(counts.iter().sum::<usize>(), SHARDS);
    assert!(
        counts.iter().all(|count| (2..=3).contains(count)),
        "{counts:?}"
    );
    // Each works on its own objects only, and all of them are worked on.
    let more = names("more", 40);
    create(&world, &more).await;
    until_settled(&world, &more, 5.0).await;
    for replica in [&one, &two, &three] {
        replica.engine.assert_no_orphan();
        let boxes = replica.engine.counts.boxes.lock().unwrap().clone();
        let its = boxes.iter().filter_map(|made| made.split_once('='));
        let its: Vec<&str> = its
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("more"))
            .collect();
        assert!(!its.is_empty(), "{} has done nothing", replica.name);
        assert!(its.iter().all(|toy| replica.owns(toy)), "{}", replica.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_hands_over_within_a_second() {
    let world = World::new(2).await;
    let one = Replica::start(&world, "one");
    let two = Replica::start(&world, "two");
    until(&world, 20.0, || {
        one.held().len() == 4 && two.held().len() == 4
    })
    .await;
    let toys = names("toy", 6);
    let stopping = tokio::spawn(one.stop());
    create(&world, &toys).await;
    let took = until_settled(&world, &toys, 5.0).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    stopping.await.unwrap();
    assert_eq!(two.held().len(), SHARDS);
    // Nothing is left of who has gone.
    let all = Selection::default();
    let leases = world
        .user
        .list_all(&LEASES, Some("apps"), &all)
        .await
        .unwrap();
    let members = leases.items.iter().filter_map(Member::read);
    let members: Vec<String> = members.map(|member| member.identity).collect();
    assert_eq!(members, ["two"]);
    // The last one leaves everything to whoever comes.
    two.stop().await;
    let three = Replica::start_with(&world, "three", Duration::ZERO, 3);
    until(&world, 4.0, || three.held().len() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_the_survivor_delivers_all() {
    for seed in 0..6 {
        let world = World::new(seed).await;
        let one = Replica::start(&world, "one");
        let two = Replica::start(&world, "two");
        until(&world, 20.0, || {
            one.held().len() == 4 && two.held().len() == 4
        })
        .await;
        world.sleep(0.7 * seed as f64).await;
        let toys = names("toy", 6);
        let (its, others): (Vec<String>, Vec<String>) =
            toys.iter().cloned().partition(|toy| two.owns(toy));
        assert!(!its.is_empty() && !others.is_empty());
        one.kill().await;
        create(&world, &toys).await;
        // Its own share is not held up; that of the dead one as long as its leases last.
        let own = until_settled(&world, &its, 2.0).await;
        let rest = until_settled(&world, &others, 30.0).await;
        let whole = own + rest;
        assert!(whole < Duration::from_secs(20), "seed {seed}: {whole:?}");
        assert_eq!(two.held().len(), SHARDS);
        two.kill().await;
    }
}

/// Who takes the place of one that was killed sees the record of the dead, and must not leave a share to it.
#[tokio::test(start_paused = true)]
async fn replacement_of_a_dead_replica_leaves_no_shard_without_a_holder() {
    for seed in 0..8_u32 {
        let world = World::new(u64::from(seed)).await;
        let one = Replica::start(&world, "one");
        let two = Replica::start(&world, "two");
        until(&world, 20.0, || {
            one.held().len() == 4 && two.held().len() == 4
        })
        .await;
        one.kill().await;
        // Before and after the others have found out that it is dead.
        world.sleep(2.0 + 4.0 * f64::from(seed)).await;
        let three = Replica::start(&world, "three");
        until(&world, 22.0, || {
            two.held().len() + three.held().len() == SHARDS
        })
        .await;
        let mut alone = [0_u32; SHARDS];
        for _ in 0..400 {
            world.sleep(0.1).await;
            let held = &two.held() | &three.held();
            for shard in (0..SHARDS).filter(|shard| !held.contains(shard)) {
                alone[shard] += 1;
            }
        }
        let longest = alone.iter().max().unwrap();
        assert!(
            *longest <= 20,
            "seed {seed}: tenths of a second without a holder: {alone:?}"
        );
        assert_eq!(
            (two.held().len(), three.held().len()),
            (4, 4),
            "seed {seed}"
        );
        two.kill().await;
        three.kill().await;
    }
}

/// A replica that takes shards over while its own watch is behind reads what was worked on elsewhere from the server: its
/// cache has the former spec, and acting on that would bring it back.
#[tokio::test(start_paused = true)]
async fn takeover_with_a_stale_watch_does_not_bring_the_former_spec_back() {
    let world = World::new(3).await;
    let behind = Arc::new(AtomicBool::new(false));
    let flag = behind.clone();
    world.faults.event(move |request, _, _| {
        let of_two = request.first_header("user-agent") == Some("two");
        match flag.load(Ordering::SeqCst) && of_two && request.path.contains("/toys") {
            true => EventVerdict::Delay(Duration::from_secs(3_600)),
            false => EventVerdict::Pass,
        }
    });
    let one = Replica::start(&world, "one");
    let two = Replica::start(&world, "two");
    until(&world, 20.0, || {
        one.held().len() == 4 && two.held().len() == 4
    })
    .await;
    let toys = names("toy", 6);
    create(&world, &toys).await;
    until_settled(&world, &toys, 5.0).await;
    let (its, _): (Vec<String>, Vec<String>) = toys.iter().cloned().partition(|toy| one.owns(toy));
    assert!(!its.is_empty());

    behind.store(true, Ordering::SeqCst);
    for toy in &its {
        let patch = Patch::Merge(json!({"spec": {"size": 2}}));
        let at = At::new("apps", toy);
        let options = WriteOptions::by("user");
        world.user.patch(&TOYS, at, &patch, &options).await.unwrap();
    }
    until_settled(&world, &its, 5.0).await;
    one.kill().await;
    let mut waited = 0.0;
    while waited < 25.0 {
        world.sleep(0.1).await;
        waited += 0.1;
        for toy in &its {
            settled(&world, toy).await.unwrap();
        }
    }
    assert_eq!(two.held().len(), SHARDS);
    two.kill().await;
}

/// Whatever the network does to a replica, no shard has two holders, and nothing is written by an old one.
#[tokio::test(start_paused = true)]
async fn former_holder_writes_nothing() {
    for seed in 0..12_u64 {
        let world = World::new(seed).await;
        let cut = Arc::new(AtomicBool::new(false));
        let flag = cut.clone();
        let hit = move |request: &Request| {
            flag.load(Ordering::SeqCst) && request.first_header("user-agent") == Some("one")
        };
        let writes: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let (noted, concerned) = (writes.clone(), hit.clone());
        world.faults.before(move |request| {
            if request.method == "PATCH" && request.path.contains("/configmaps/") {
                let who = request.first_header("user-agent").unwrap_or_default();
                let toy = request.path.rsplit('/').next().unwrap_or_default();
                noted.lock().unwrap().push((who.to_owned(), toy.to_owned()));
            }
            let leases = request.path.contains("/leases");
            match (concerned(request), seed % 4) {
                (true, 0) => Verdict::Drop,
                (true, 1) if leases => Verdict::Drop,
                (true, 2) => Verdict::Delay(Duration::from_secs(7)),
                _ => Verdict::Pass,
            }
        });
        world
            .faults
            .after(move |request, _| match hit(request) && seed % 4 == 3 {
                true => Verdict::Drop,
                false => Verdict::Pass,
            });
        let work = Duration::from_secs(2);
        let one = Replica::start_with(&world, "one", work, SHARDS);
        let two = Replica::start_with(&world, "two", work, SHARDS);
        until(&world, 20.0, || {
            one.held().len() == 4 && two.held().len() == 4
        })
        .await;
        cut.store(true, Ordering::SeqCst);
        let toys = names("toy", 12);
        create(&world, &toys).await;
        for step in 0..900_u32 {
            world.sleep(0.1).await;
            let both = one.held();
            assert!(both.is_disjoint(&two.held()), "seed {seed}, step {step}");
            for (who, toy) in writes.lock().unwrap().drain(..) {
                let other = if who == "one" { &two } else { &one };
                assert!(!other.owns(&toy), "seed {seed}: {who} wrote {toy}");
            }
        }
        assert_eq!(two.held().len(), SHARDS, "seed {seed}");
        cut.store(false, Ordering::SeqCst);
        until(&world, 90.0, || {
            one.held().len() == 4 && two.held().len() == 4
        })
        .await;
        until_settled(&world, &toys, 30.0).await;
        one.engine.assert_no_orphan();
        two.engine.assert_no_orphan();
        one.kill().await;
        two.kill().await;
    }
}

/// A replica whose way to the API servers is bad leaves the work to the others by itself, long before its leases end.
#[tokio::test(start_paused = true)]
async fn a_slow_holder_hands_over_and_comes_back() {
    let world = World::new(5).await;
    let slow = Arc::new(AtomicBool::new(false));
    let flag = slow.clone();
    world.faults.before(move |request| {
        let one = request.first_header("user-agent") == Some("one");
        match one && flag.load(Ordering::SeqCst) && request.param("watch").is_none() {
            true => Verdict::Delay(Duration::from_millis(900)),
            false => Verdict::Delay(Duration::from_millis(5)),
        }
    });
    let (one, two, three) = (
        Replica::start(&world, "one"),
        Replica::start(&world, "two"),
        Replica::start(&world, "three"),
    );
    let even = || {
        let all = [&one, &two, &three];
        all.iter()
            .map(|replica| replica.held().len())
            .sum::<usize>()
            == SHARDS
            && all.iter().all(|replica| replica.held().len() >= 2)
    };
    until(&world, 60.0, even).await;
    slow.store(true, Ordering::SeqCst);
    let all_left = || one.held().is_empty() && two.held().len() + three.held().len() == SHARDS;
    let took = until(&world, 120.0, all_left).await;
    assert!(took > Duration::from_secs(3), "{took:?}");
    let toys = names("toy", 12);
    create(&world, &toys).await;
    until_settled(&world, &toys, 3.0).await;
    slow.store(false, Ordering::SeqCst);
    until(&world, 200.0, even).await;
}

/// When the API servers answer nobody for a while, nobody is slower than the others: all go on where they were.
#[tokio::test(start_paused = true)]
async fn short_api_server_outage_moves_no_shard() {
    let world = World::new(9).await;
    let away = Arc::new(AtomicBool::new(false));
    let flag = away.clone();
    world
        .faults
        .before(move |_| match flag.load(Ordering::SeqCst) {
            true => Verdict::Drop,
            false => Verdict::Pass,
        });
    let one = Replica::start(&world, "one");
    let two = Replica::start(&world, "two");
    until(&world, 20.0, || {
        one.held().len() == 4 && two.held().len() == 4
    })
    .await;
    world.sleep(10.0).await;
    let epochs = |replica: &Replica| -> Vec<(usize, u64)> {
        let shards = replica.shards.borrow();
        let held = shards.held().iter();
        held.map(|(number, epoch)| (*number, epoch.number()))
            .collect()
    };
    let before = (epochs(&one), epochs(&two));
    away.store(true, Ordering::SeqCst);
    world.sleep(9.0).await;
    away.store(false, Ordering::SeqCst);
    world.sleep(60.0).await;
    assert_eq!((epochs(&one), epochs(&two)), before);
}

/// Another way to share the work, or a single leader, waits until all of the former are gone.
#[tokio::test(start_paused = true)]
async fn installations_with_different_layouts_exclude_each_other() {
    let world = World::new(6).await;
    let eight = Replica::start(&world, "eight");
    until(&world, 4.0, || eight.held().len() == SHARDS).await;
    let four = Replica::start_with(&world, "four", Duration::ZERO, 4);
    let lease = times(&world, "single");
    let single = Election::new(world.env.clone(), world.another_client(), lease);
    let (leads, stop) = (single.leadership(), Signal::new());
    let single = tokio::spawn(single.run(stop.clone()));
    world.sleep(60.0).await;
    assert!(four.held().is_empty() && leads.borrow().epoch().is_none());
    eight.stop().await;
    let one_of_both = || four.held().len() == 4 || leads.borrow().epoch().is_some();
    until(&world, 5.0, one_of_both).await;
    world.sleep(60.0).await;
    let both = !four.held().is_empty() && leads.borrow().epoch().is_some();
    assert!(!both && one_of_both());
    single.abort();
}

/// A guest is given what it asks for by those who live, waits for the leases of the dead, and does what it was told to.
#[tokio::test(start_paused = true)]
async fn a_guest_has_what_it_asks_for_and_does_one_thing() {
    let world = World::new(7).await;
    let wanted = Key::new("Toy", "apps", "toy-3");
    let toys = names("toy", 12);
    for dead in [false, true] {
        let name = if dead { "two" } else { "one" };
        let engine = Replica::start(&world, name);
        until(&world, 30.0, || engine.held().len() == SHARDS).await;
        let mut options = ShardOptions::new(times(&world, "guest"), SHARDS);
        options.wanted = Some([shard_of(&wanted, SHARDS)].into());
        options.only = Some(Arc::new([wanted.clone()].into()));
        let client = world.another_client();
        if dead {
            engine.kill().await;
            let guest = Replica::start_as(&world, &client, "guest", Duration::ZERO, options);
            let took = until(&world, 25.0, || guest.held().len() == 1).await;
            assert!(took > Duration::from_secs(14), "{took:?}");
            guest.stop().await;
            continue;
        }
        let guest = Replica::start_as(&world, &client, "guest", Duration::ZERO, options);
        until(&world, 8.0, || guest.held().len() == 1).await;
        assert_eq!(engine.held().len(), SHARDS - 1);
        create(&world, &toys).await;
        until_settled(&world, &toys[3..4], 5.0).await;
        world.sleep(5.0).await;
        assert_eq!(*guest.engine.counts.boxes.lock().unwrap(), ["toy-3=1"]);
        guest.stop().await;
        until(&world, 2.0, || engine.held().len() == SHARDS).await;
        until_settled(&world, &toys, 5.0).await;
        engine.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn leases_say_who_shares_and_how_fast_it_is() {
    let world = World::new(8).await;
    let one = Replica::start(&world, "one");
    until(&world, 4.0, || one.held().len() == SHARDS).await;
    world.sleep(10.0).await;
    let at = At::new("apps", "toy-controller-leader-election");
    let layout = world.user.get(&LEASES, at).await.unwrap();
    assert_eq!(layout["spec"]["holderIdentity"], "everflow-8-shards");
    let at = At::new("apps", "toy-controller-leader-election-shard-7-of-8");
    let shard = world.user.get(&LEASES, at).await.unwrap();
    assert_eq!(shard["spec"]["holderIdentity"], "one");
    let at = At::new("apps", "toy-controller-leader-election-member-one");
    let member = Member::read(&world.user.get(&LEASES, at).await.unwrap()).unwrap();
    assert_eq!((member.shards, member.slow), (SHARDS, false));
    assert!(member.latency.is_some());
    drop(one);
}
