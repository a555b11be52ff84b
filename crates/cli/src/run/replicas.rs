//! What lets this process work: nothing, the lease of a leader, or those of its shards.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use everflow_controllers::{Named, mirror};
use everflow_env::{Env, watch, within};
use everflow_fetch::storage::Storage;
use everflow_runtime::Signal;
use everflow_runtime::client::Client;
use everflow_runtime::engine::{Engine, Handle};
use everflow_runtime::lease::{Election, Leadership, LeaseOptions};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::shards::{Member, ShardElection, ShardOptions, Shards};
use tokio::task::{AbortHandle, JoinHandle};

use super::flags::Args;

/// How long the own address may be looked for.
const LOOK_UP: Duration = Duration::from_secs(2);

/// What this process holds.
pub(super) enum Holding {
    /// There is no election.
    Always,
    /// One leads, the others stand by.
    Leading(watch::Receiver<Leadership>),
    /// Replicas share the work.
    Sharing(watch::Receiver<Shards>),
}

/// How this process comes to hold it, and how it lets go.
pub(super) struct Replica {
    holding: Holding,
    leave: Signal,
    over: Signal,
    task: Option<JoinHandle<()>>,
}

impl Replica {
    /// Takes part in the election that was asked for. `address` is where our artifacts are, `peers` learns where the
    /// others' are.
    pub(super) fn start(
        args: &Args,
        (env, client, log, metrics): (&Env, Client, &Logger, &Metrics),
        lease: LeaseOptions,
        address: Option<String>,
        peers: watch::Sender<Vec<String>>,
    ) -> Self {
        let (leave, over) = (Signal::new(), Signal::new());
        let (holding, task) = match (args.enable_leader_election, args.shards) {
            (false, _) => (Holding::Always, None),
            (true, 1) => {
                let election = Election::new(env.clone(), client, lease);
                let leadership = election.leadership();
                let task = tokio::spawn(election.run(over.clone()));
                (Holding::Leading(leadership), Some(task))
            }
            (true, shards) => {
                let mut options = ShardOptions::new(lease, shards);
                options.address = address;
                let election = ShardElection::new(env, &client, options, log, metrics);
                tokio::spawn(tell(election.peers(), peers));
                let shards = election.shards();
                let task = tokio::spawn(election.run(leave.clone(), over.clone()));
                (Holding::Sharing(shards), Some(task))
            }
        };
        Replica {
            holding,
            leave,
            over,
            task,
        }
    }

    /// What is raised when this process begins to stop.
    pub(super) fn leave(&self) -> Signal {
        self.leave.clone()
    }

    /// Runs an engine for as long as it may.
    pub(super) async fn run(&self, engine: Engine, stop: Signal) {
        match &self.holding {
            Holding::Always => engine.run(None, stop).await,
            Holding::Leading(leadership) => engine.run(Some(leadership.clone()), stop).await,
            Holding::Sharing(shards) => engine.run_shards(shards.clone(), stop).await,
        }
    }

    /// Gives what is left to whoever waits for it.
    pub(super) async fn hand_over(self) {
        self.over.raise();
        if let Some(task) = self.task {
            let _ = task.await;
        }
    }
}

/// Passes on where the artifacts of the others are.
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

/// Has every artifact here that a status names, until it is aborted. Says as well who knows which those are.
pub(super) fn mirror_artifacts(
    env: &Env,
    storage: &Storage,
    handle: &Handle,
) -> (Arc<Named>, AbortHandle) {
    let mirroring = tokio::spawn(mirror(env.clone(), storage.clone(), handle.clone()));
    (Arc::new(Named(handle.clone())), mirroring.abort_handle())
}

/// Where other replicas reach what is served here.
pub(super) async fn own_address(args: &Args, env: &Env, listening: SocketAddr) -> Option<String> {
    if let Some(address) = &args.peer_address {
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        return Some(match has_port {
            true => address.clone(),
            false => format!("{address}:{}", listening.port()),
        });
    }
    if !listening.ip().is_unspecified() {
        return Some(listening.to_string());
    }
    let port = listening.port();
    if let Some(ip) = std::env::var("POD_IP")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        return Some(SocketAddr::new(ip, port).to_string());
    }
    // The kubelet writes a pod's name and address into its /etc/hosts.
    let host = std::env::var("HOSTNAME").ok()?;
    let found = within(&*env.clock, LOOK_UP, tokio::net::lookup_host((host, port))).await;
    let mut found = found.ok()?.ok()?;
    found
        .find(|address| !address.ip().is_loopback())
        .map(|address| address.to_string())
}
