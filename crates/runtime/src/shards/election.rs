//! Takes the shards that are ours, keeps them, and hands them on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Env, watch, within};
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::member::Seen;
use super::plan::{Move, SeenShard, View, plan};
use super::speed::{is_slow, median};
use super::{MOST_SHARDS, Member, REPLICAS_LABEL, Shards, layout_identity, shard_lease};
use crate::client::{At, Client, DeleteOptions, Fence as _, Selection, meta_text};
use crate::lease::{Epoch, LEASES, LeaseLock, LeaseOptions, LeaseTimesError};
use crate::log::Logger;
use crate::metrics::Metrics;
use crate::queue::Key;
use crate::reflector::{Reflector, ReflectorOptions, Watched};
use crate::signal::Signal;
use crate::store::Store;

/// How long work in a shard that is to be given away may go on before the shard is kept after all.
const DRAIN: Duration = Duration::from_secs(60);
/// Who seems to be alone takes nothing before this: replicas that start together find each other first, and what one has
/// begun does not move to another at once.
const SETTLE: Duration = Duration::from_secs(1);
/// How many of our own requests are looked at for how fast our way is.
const SAMPLES: usize = 32;
/// After so many rounds with answers a replica judges how fast it is: by then the others have told how they fare.
const JUDGED_AFTER: u32 = 2;

/// How the work is shared.
#[derive(Debug, Clone)]
pub struct ShardOptions {
    /// The Lease of the whole, whose times and identity are those of all.
    pub lease: LeaseOptions,
    /// How many shards there are.
    pub shards: usize,
    /// Where our artifacts are, as `host:port`.
    pub address: Option<String>,
    /// Only these shards, as a guest who takes no share: the replicas are asked for them, and what the dead held is taken
    /// when their leases have run out.
    pub wanted: Option<BTreeSet<usize>>,
    /// Only these objects, whatever is held.
    pub only: Option<Arc<BTreeSet<Key>>>,
}

impl ShardOptions {
    /// A share of so many shards.
    pub fn new(lease: LeaseOptions, shards: usize) -> Self {
        ShardOptions {
            lease,
            shards: shards.clamp(1, MOST_SHARDS),
            address: None,
            wanted: None,
            only: None,
        }
    }

    /// Whether the times can work together.
    pub fn check(&self) -> Result<(), LeaseTimesError> {
        self.lease.check()
    }
}

/// One shard's Lease.
#[derive(Debug)]
struct Slot {
    lock: LeaseLock,
    giving_since: Option<Duration>,
    free_since: Option<Duration>,
    kept_until: Duration,
}

impl Slot {
    fn seen(&mut self, now: Duration) -> SeenShard {
        let holder = self.lock.held_by(now).map(str::to_owned);
        if holder.is_some() {
            self.free_since = None;
        } else {
            self.free_since.get_or_insert(now);
        }
        let epoch = self.lock.epoch();
        if epoch.is_none() {
            self.giving_since = None;
        }
        let used = epoch.is_some_and(Epoch::is_used);
        SeenShard {
            holder,
            ours: epoch.is_some(),
            free_since: self.free_since,
            giving: self.giving_since.map(|since| (since, used)),
            kept_until: self.kept_until,
        }
    }
}

/// What is told of the shares.
#[derive(Debug)]
struct Output {
    state: watch::Sender<Shards>,
    peers: watch::Sender<Vec<Member>>,
    log: Logger,
    metrics: Metrics,
}

/// Takes part in sharing the work.
#[derive(Debug)]
pub struct ShardElection {
    env: Env,
    client: Client,
    options: ShardOptions,
    /// Keeps out whoever would share the work otherwise.
    layout: LeaseLock,
    slots: Vec<Slot>,
    /// Our own record, until we leave.
    own: Option<LeaseLock>,
    members: BTreeMap<String, Seen>,
    latencies: VecDeque<Duration>,
    slow: bool,
    /// In how many rounds in a row the API servers have answered.
    answered: u32,
    idle: Arc<Notify>,
    /// From when on shards are taken.
    settles: Option<Duration>,
    /// Who keeps us out, as far as it was said.
    kept_out_by: Option<String>,
    output: Output,
}

impl ShardElection {
    /// An election that has not begun.
    pub fn new(
        env: &Env,
        client: &Client,
        options: ShardOptions,
        log: &Logger,
        metrics: &Metrics,
    ) -> Self {
        let base = options.lease.name.clone();
        let idle = Arc::<Notify>::default();
        let lock = |name: String, identity: &str| {
            let lease = LeaseOptions {
                name,
                identity: identity.to_owned(),
                ..options.lease.clone()
            };
            let mut lock = LeaseLock::new(env, client, lease).labelled(REPLICAS_LABEL, &base);
            lock.idle = idle.clone();
            lock
        };
        let identity = options.lease.identity.as_str();
        let slot = |shard| Slot {
            lock: lock(shard_lease(&base, shard, options.shards), identity),
            giving_since: None,
            free_since: None,
            kept_until: Duration::ZERO,
        };
        let own = Some(lock(Member::lease_name(&base, identity), identity));
        ShardElection {
            layout: lock(base.clone(), &layout_identity(options.shards)),
            slots: (0..options.shards).map(slot).collect(),
            own,
            members: BTreeMap::new(),
            latencies: VecDeque::new(),
            slow: false,
            answered: 0,
            idle,
            settles: None,
            kept_out_by: None,
            output: Output {
                state: watch::Sender::new(Shards::none(options.shards, options.only.clone())),
                peers: watch::Sender::new(Vec::new()),
                log: log.named("shards"),
                metrics: metrics.clone(),
            },
            env: env.clone(),
            client: client.clone(),
            options,
        }
    }

    /// What is held, now and at each change.
    pub fn shards(&self) -> watch::Receiver<Shards> {
        self.output.state.subscribe()
    }

    /// The other replicas that are alive, now and at each change.
    pub fn peers(&self) -> watch::Receiver<Vec<Member>> {
        self.output.peers.subscribe()
    }

    /// Takes part until `leave` is raised. From then on a shard is handed over as soon as no work goes on in it; what
    /// is left is when `over` is raised.
    pub async fn run(mut self, leave: Signal, over: Signal) {
        let watched = Watched {
            namespace: Some(self.options.lease.namespace.clone()),
            selection: Selection::labelled(format!("{REPLICAS_LABEL}={}", self.base())),
            ..Watched::all(LEASES)
        };
        let client = self.client.urgent();
        let options = ReflectorOptions::default();
        let reflector = Reflector::new(self.env.clone(), client, watched, options);
        let store = reflector.store();
        let mut changes = store.subscribe();
        let mut background = JoinSet::new();
        background.spawn(reflector.run());
        let clock = self.env.clock.clone();
        let patience = self.period();
        let first = async {
            let _ = within(&*clock, patience, store.synced()).await;
        };
        tokio::select! { biased; () = leave.raised() => {} () = first => {} }
        let mut next_round = self.now();
        while !leave.is_raised() {
            self.observe(&store);
            let now = self.now();
            let round = now >= next_round;
            if round {
                next_round = now + self.period();
            }
            tokio::select! {
                biased;
                () = leave.raised() => break,
                () = self.act(round) => {}
            }
            self.publish();
            let pause = self.pause(next_round);
            tokio::select! {
                biased;
                () = leave.raised() => {}
                _ = changes.recv() => {}
                () = self.idle.notified() => {}
                () = clock.sleep(pause) => {}
            }
            // One look takes in all of them.
            while changes.try_recv().is_ok() {}
        }
        self.leave(&store, &over).await;
    }

    fn base(&self) -> &str {
        &self.options.lease.name
    }

    fn period(&self) -> Duration {
        self.options.lease.retry_period
    }

    /// After so long without a holder, anybody takes a shard.
    fn patience(&self) -> Duration {
        self.period() * 2
    }

    fn now(&self) -> Duration {
        self.env.clock.elapsed()
    }

    fn identity(&self) -> &str {
        &self.options.lease.identity
    }

    /// Takes in what the watch has told.
    fn observe(&mut self, store: &Store) {
        let now = self.now();
        let namespace = self.options.lease.namespace.clone();
        let told = |name: &str| store.get(&namespace, name).map(|lease| lease.value());
        let locks = self.slots.iter_mut().map(|slot| &mut slot.lock);
        for lock in locks.chain([&mut self.layout]).chain(&mut self.own) {
            let lease = told(&lock.options().name);
            lock.observe(lease, now);
        }
        let mut there = BTreeSet::new();
        for lease in store.list(Some(&namespace)) {
            let lease = lease.value();
            let Some(member) = Member::read(&lease) else {
                continue;
            };
            there.insert(member.identity.clone());
            if let Some(seen) = self.members.get_mut(&member.identity) {
                seen.update(member, lease, now);
                continue;
            }
            let since = now;
            let identity = member.identity.clone();
            let seen = Seen {
                member,
                lease,
                since,
            };
            self.members.insert(identity, seen);
        }
        if store.is_synced() {
            self.members.retain(|identity, _| there.contains(identity));
        }
    }

    /// The others that are alive and share the work as we do.
    fn peers_alive(&self, now: Duration) -> impl Iterator<Item = &Member> {
        let alive = self.members.values().filter(move |seen| seen.is_alive(now));
        let members = alive.map(|seen| &seen.member);
        members.filter(|member| {
            member.shards == self.options.shards && member.identity != self.options.lease.identity
        })
    }

    /// Those who take shares, with us if we do.
    fn sharing(&self, now: Duration) -> BTreeSet<String> {
        let well = self
            .peers_alive(now)
            .filter(|member| !member.slow && member.wants.is_empty());
        let mut members: BTreeSet<String> = well.map(|member| member.identity.clone()).collect();
        // Where all are slow, nobody is.
        if self.options.wanted.is_none() && (!self.slow || members.is_empty()) {
            members.insert(self.identity().to_owned());
        }
        members
    }

    /// What guests ask for, ourselves included.
    fn claims(&self, now: Duration) -> BTreeMap<usize, String> {
        let peers = self.peers_alive(now);
        let theirs = peers.flat_map(|peer| {
            let identity = peer.identity.clone();
            peer.wants
                .iter()
                .map(move |shard| (*shard, identity.clone()))
        });
        let own = self.options.wanted.iter().flatten();
        let own = own.map(|shard| (*shard, self.identity().to_owned()));
        // The first by name has it, whoever looks.
        let mut claims = BTreeMap::new();
        for (shard, guest) in theirs.chain(own) {
            let first = claims.entry(shard).or_insert_with(|| guest.clone());
            if guest < *first {
                *first = guest;
            }
        }
        claims
    }

    /// Renews when it is time, then does what the plan says.
    async fn act(&mut self, round: bool) {
        if round {
            self.judge_speed();
            self.renew().await;
            self.collect_samples();
            self.forget_the_dead().await;
        }
        self.note_who_keeps_us_out();
        let now = self.now();
        let seen: Vec<SeenShard> = self.slots.iter_mut().map(|slot| slot.seen(now)).collect();
        let (members, claims) = (self.sharing(now), self.claims(now));
        let view = View {
            me: &self.options.lease.identity,
            members: &members,
            claims: &claims,
            now,
            patience: self.patience(),
            drain: DRAIN,
        };
        let mut moves = plan(&view, &seen);
        if !self.has_settled(now) {
            let taken = moves.iter_mut().filter(|one| **one == Move::Take);
            taken.for_each(|one| *one = Move::Leave);
        }
        self.carry_out(&moves, now).await;
        self.collect_samples();
    }

    /// Whether others have been found, or have had their time to be.
    fn has_settled(&mut self, now: Duration) -> bool {
        let found = self.peers_alive(now).next().is_some();
        let settles = self.settles.get_or_insert(now + SETTLE);
        if found {
            *settles = now.min(*settles);
        }
        now >= *settles
    }

    /// Renews all that is ours. The requests go out together: one that hangs holds up no other.
    async fn renew(&mut self) {
        let member = Member {
            identity: self.identity().to_owned(),
            shards: self.options.shards,
            address: self.options.address.clone(),
            latency: self.latency(),
            slow: self.slow,
            wants: self.options.wanted.clone().unwrap_or_default(),
        };
        let ShardElection {
            layout, slots, own, ..
        } = self;
        let mut renewals: Vec<BoxFuture<'_, _>> = vec![Box::pin(layout.turn(true))];
        if let Some(own) = own {
            own.annotations = member.annotations();
            renewals.push(Box::pin(own.turn(true)));
        }
        for slot in slots.iter_mut().filter(|slot| slot.lock.epoch().is_some()) {
            renewals.push(Box::pin(slot.lock.turn(false)));
        }
        let mut answered = false;
        for renewed in join_all(renewals).await {
            answered |= renewed.is_ok();
            if let Err(error) = renewed {
                let why = error.to_string();
                let log = &self.output.log;
                log.debug("a lease was not renewed", &[("error", &why)]);
            }
        }
        self.answered = if answered { self.answered + 1 } else { 0 };
    }

    /// Says once who shares the work in another way, or leads alone.
    fn note_who_keeps_us_out(&mut self) {
        let lease = self.layout.options();
        let out = self.layout.epoch().is_none();
        let other = self
            .layout
            .holder()
            .filter(|holder| out && *holder != lease.identity);
        let other = other.map(str::to_owned);
        if other != self.kept_out_by
            && let Some(holder) = &other
        {
            let lease = format!("{}/{}", lease.namespace, lease.name);
            let fields = [("lease", lease.as_str()), ("holder", holder.as_str())];
            let what = "waiting for another engine that does not share the work as this one does: give all replicas the \
                        same --shards, and each installation its own namespace or labels";
            self.output.log.info(what, &fields);
        }
        self.kept_out_by = other;
    }

    async fn carry_out(&mut self, moves: &[Move], now: Duration) {
        let layout = self.layout.epoch().cloned();
        let (patience, lasts) = (self.patience(), self.options.lease.duration);
        let mut requests: Vec<BoxFuture<'_, _>> = Vec::new();
        for (slot, what) in self.slots.iter_mut().zip(moves) {
            let leaving = |slot: &Slot, leaving| {
                if let Some(epoch) = slot.lock.epoch() {
                    epoch.set_leaving(leaving);
                }
            };
            match what {
                Move::Leave => {}
                Move::Take => {
                    // Whoever should have had it did not come: it stays until that one shows.
                    if slot.free_since.is_some_and(|since| now >= since + patience) {
                        slot.kept_until = now + lasts;
                    }
                    if let Some(layout) = &layout {
                        slot.lock.above = Some(layout.clone());
                        requests.push(Box::pin(slot.lock.take()));
                    }
                }
                Move::BeginGiving => {
                    leaving(slot, true);
                    slot.giving_since = Some(now);
                    // Where nothing goes on, it is released in the next turn, which comes at once.
                    self.idle.notify_one();
                }
                Move::Keep | Move::GiveUpGiving => {
                    leaving(slot, false);
                    slot.giving_since = None;
                    if *what == Move::GiveUpGiving {
                        slot.kept_until = now + DRAIN;
                    }
                }
                Move::Release => {
                    slot.giving_since = None;
                    slot.free_since = None;
                    requests.push(Box::pin(slot.lock.release()));
                }
            }
        }
        join_all(requests).await;
    }

    fn collect_samples(&mut self) {
        let locks = self.slots.iter_mut().map(|slot| &mut slot.lock);
        for lock in locks.chain([&mut self.layout]).chain(&mut self.own) {
            self.latencies.extend(lock.spans.drain(..));
        }
        let over = self.latencies.len().saturating_sub(SAMPLES);
        self.latencies.drain(..over);
    }

    fn latency(&self) -> Option<Duration> {
        let spans: Vec<Duration> = self.latencies.iter().copied().collect();
        median(&spans)
    }

    fn judge_speed(&mut self) {
        if self.answered < JUDGED_AFTER {
            // Nobody answers, or they have only begun to: that may be so for the others, and is not known yet. The
            // epochs end by themselves if it stays so.
            return;
        }
        let now = self.now();
        let peers: Vec<Duration> = self
            .peers_alive(now)
            .filter_map(|peer| peer.latency)
            .collect();
        let slow = is_slow(self.latency(), &peers, self.slow);
        if slow != self.slow {
            let took = format!("{:?}", self.latency().unwrap_or_default());
            let what = match slow {
                true => "the way to the API servers is much slower than the others': handing over",
                false => "the way to the API servers is well again",
            };
            self.output.log.info(what, &[("latency", &took)]);
        }
        self.slow = slow;
    }

    /// Deletes one record of a replica that is gone: who starts now would take it for alive as long as its Lease lasts, and
    /// leave a share to it. Whoever holds the first shard does it. Who lives after all writes it anew.
    async fn forget_the_dead(&mut self) {
        let now = self.now();
        if self
            .slots
            .first()
            .is_none_or(|slot| slot.lock.epoch().is_none())
        {
            return;
        }
        let mut dead = self.members.values();
        let Some(dead) = dead.find(|seen| !seen.is_alive(now)) else {
            return;
        };
        let at = At::of(&dead.lease);
        let options = DeleteOptions::uid(meta_text(&dead.lease, "uid"));
        let client = self.client.with_deadline(self.period());
        // It is tried again in the next round.
        let _ = client.delete(&LEASES, at, &options).await;
    }

    /// Tells what is held, and who else is there.
    fn publish(&mut self) {
        let mut held = BTreeMap::new();
        for (number, slot) in self.slots.iter().enumerate() {
            let epoch = slot.lock.epoch().filter(|epoch| !epoch.is_leaving());
            if let Some(epoch) = epoch {
                held.insert(number, epoch.clone());
            }
        }
        let now = self.now();
        let peers: Vec<Member> = self.peers_alive(now).cloned().collect();
        self.output.publish(held, peers, self.slow);
    }

    /// Until the next look: when renewals are due, an epoch ends, a Lease may be taken or work must have ended.
    fn pause(&self, next_round: Duration) -> Duration {
        let now = self.now();
        let mut next = next_round;
        if let Some(settles) = self.settles.filter(|settles| *settles > now) {
            next = next.min(settles);
        }
        for slot in &self.slots {
            let moment = match (slot.lock.epoch(), slot.giving_since, slot.free_since) {
                (Some(_), Some(since), _) => since + DRAIN,
                (Some(epoch), None, _) => now + epoch.remaining().unwrap_or_default(),
                (None, _, Some(since)) => since + self.patience(),
                (None, ..) => slot.lock.free_from(),
            };
            if moment > now {
                next = next.min(moment);
            }
        }
        next.saturating_sub(now).max(Duration::from_millis(10))
    }

    /// Hands everything over.
    async fn leave(mut self, store: &Store, over: &Signal) {
        self.observe(store);
        for slot in &self.slots {
            if let Some(epoch) = slot.lock.epoch() {
                epoch.set_leaving(true);
            }
        }
        self.output.publish(BTreeMap::new(), Vec::new(), false);
        let others = self
            .peers_alive(self.now())
            .any(|peer| peer.wants.is_empty());
        let mut own = self.own.take();
        let gone = async {
            if let Some(own) = &mut own {
                // Without it, others wait for the record to run out before they take what we had.
                let _ = own.remove().await;
            }
        };
        let clock = self.env.clock.clone();
        let shards = async {
            loop {
                let all = over.is_raised();
                let me = self.options.lease.identity.as_str();
                let ours = self
                    .slots
                    .iter_mut()
                    .filter(|slot| match slot.lock.epoch() {
                        Some(epoch) => all || !epoch.is_used(),
                        None => all && slot.lock.holder() == Some(me),
                    });
                join_all(ours.map(|slot| slot.lock.release())).await;
                if all {
                    break;
                }
                let soon = clock.sleep(Duration::from_millis(50));
                tokio::select! {
                    biased;
                    () = over.raised() => {}
                    () = self.idle.notified() => {}
                    () = soon => {}
                }
            }
        };
        futures_util::future::join(gone, shards).await;
        if !others && self.layout.epoch().is_some() {
            // The last one leaves it to whoever comes, however they share the work.
            let _ = self.layout.release().await;
        }
    }
}

impl Output {
    fn publish(&self, held: BTreeMap<usize, Epoch>, peers: Vec<Member>, slow: bool) {
        self.metrics
            .set("everflow_shards_held", &[], held.len() as f64);
        self.metrics
            .set("everflow_replicas", &[], (peers.len() + 1) as f64);
        let is_slow = f64::from(u8::from(slow));
        self.metrics.set("everflow_replica_slow", &[], is_slow);
        let before: Vec<usize> = self.state.borrow().held().keys().copied().collect();
        let now: Vec<usize> = held.keys().copied().collect();
        if before != now {
            let list = |numbers: &[usize]| {
                let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                texts.join(",")
            };
            let (before, now) = (list(&before), list(&now));
            let fields = [("shards", now.as_str()), ("before", before.as_str())];
            self.log.info("holding shards", &fields);
        }
        self.state.send_if_modified(|state| {
            let new = state.holding(held);
            let differs = !state.is_same(&new);
            if differs {
                *state = new;
            }
            differs
        });
        self.peers.send_if_modified(|known| {
            let addresses = |of: &[Member]| -> Vec<_> {
                let one = |peer: &Member| (peer.identity.clone(), peer.address.clone());
                of.iter().map(one).collect()
            };
            let differs = addresses(known) != addresses(&peers);
            *known = peers;
            differs
        });
    }
}
