//! What lets a replica work: nothing, the Lease of a leader, or those of its shards. As `everflow run` puts it together.

use everflow_api::names::manager;
use everflow_env::{Env, watch};
use everflow_runtime::Signal;
use everflow_runtime::client::Client;
use everflow_runtime::engine::Engine;
use everflow_runtime::lease::{Election, Leadership, LeaseOptions};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::shards::{Member, ShardElection, ShardOptions, Shards};
use tokio::task::JoinSet;

use crate::history::Actor;
use crate::replica::{self, Life};
use crate::sharing;

/// What a replica holds.
#[derive(Debug)]
enum Held {
    Always,
    Leading(watch::Receiver<Leadership>),
    Sharing(watch::Receiver<Shards>),
}

/// What a replica holds, and how it comes to hold it. The election dies with this.
#[derive(Debug)]
pub struct Holding {
    held: Held,
    over: Signal,
    tasks: JoinSet<()>,
}

impl Holding {
    /// There is no election.
    pub fn always() -> Self {
        Holding {
            held: Held::Always,
            over: Signal::new(),
            tasks: JoinSet::new(),
        }
    }

    /// One leads, the others stand by.
    pub fn leading(env: &Env, client: &Client, who: Actor, selector: &str) -> Self {
        let name = replica::identity(who.replica().unwrap_or_default());
        let mut lease = LeaseOptions::new(sharing::NAMESPACE, manager::SOURCE, selector, name);
        lease.release = true;
        let election = Election::new(env.clone(), client.clone(), lease);
        let (held, over) = (Held::Leading(election.leadership()), Signal::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(election.run(over.clone()));
        Holding { held, over, tasks }
    }

    /// All share the work. Nothing more is begun when `stop` is raised; `peers` learns where the artifacts of the others
    /// are.
    pub fn sharing(
        (env, client): (&Env, &Client),
        options: ShardOptions,
        stop: &Signal,
        peers: watch::Sender<Vec<String>>,
    ) -> Self {
        let log = Logger::silent(env.clock.clone());
        let election = ShardElection::new(env, client, options, &log, &Metrics::new());
        let (held, over) = (Held::Sharing(election.shards()), Signal::new());
        let mut tasks = JoinSet::new();
        let told = election.peers();
        tasks.spawn(election.run(stop.clone(), over.clone()));
        tasks.spawn(tell(told, peers));
        Holding { held, over, tasks }
    }

    /// How one who shares the work in a run does it.
    pub fn options(life: &Life, who: Actor, address: String) -> Option<ShardOptions> {
        let all = life.sharing.as_ref()?;
        let lease = all.lease(sharing::identity(who, life.replicas));
        let mut options = ShardOptions::new(lease, all.shards);
        options.address = Some(address);
        Some(options)
    }

    /// Who leads, where one does.
    pub fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        match &self.held {
            Held::Leading(leadership) => Some(leadership.clone()),
            _ => None,
        }
    }

    /// What is held of the shards, where there are any.
    pub fn shards(&self) -> Option<watch::Receiver<Shards>> {
        match &self.held {
            Held::Sharing(shards) => Some(shards.clone()),
            _ => None,
        }
    }

    /// Runs an engine for as long as it may.
    pub async fn run(&self, engine: Engine, stop: Signal) {
        match &self.held {
            Held::Always => engine.run(None, stop).await,
            Held::Leading(leadership) => engine.run(Some(leadership.clone()), stop).await,
            Held::Sharing(shards) => engine.run_shards(shards.clone(), stop).await,
        }
    }

    /// Gives what is left to whoever waits for it.
    pub async fn hand_over(mut self) {
        self.over.raise();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Passes on where the artifacts of the others are, as long as anybody tells.
async fn tell(mut peers: watch::Receiver<Vec<Member>>, to: watch::Sender<Vec<String>>) {
    loop {
        let addresses: Vec<String> = {
            let peers = peers.borrow_and_update();
            let told = peers.iter().filter_map(|peer| peer.address.clone());
            told.collect()
        };
        to.send_replace(addresses);
        if peers.changed().await.is_err() {
            return;
        }
    }
}
