//! What is known of the leases before they are taken.

use std::collections::BTreeSet;
use std::time::Duration;

use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Client};
use everflow_runtime::lease::{LEASES, lease_name};
use everflow_runtime::shards::{layout_shards, shard_lease};

use super::Args;
use crate::exit::Failure;
use crate::flux::say;
use crate::run::CONTROLLER;

/// How long hand-overs take beside the time that a lease lasts: the work under way is finished first.
const HAND_OVER: Duration = Duration::from_secs(70);

/// How the engine shares its work.
#[derive(Debug)]
pub(super) struct Found {
    /// Into how many shards.
    pub(super) shards: usize,
    /// The lease of the whole.
    lease: String,
    /// Who holds it, when it is a single leader.
    leader: Option<String>,
    /// How long it lasts.
    duration: Duration,
}

/// Looks at the lease of the whole.
pub(super) async fn look(client: &Client, args: &Args) -> Result<Found, Failure> {
    let name = lease_name(CONTROLLER, &args.watch_label_selector);
    let lease = format!("{}/{name}", args.engine_namespace);
    let spec = match client
        .get(&LEASES, At::new(&args.engine_namespace, &name))
        .await
    {
        Ok(found) => found["spec"].clone(),
        Err(Error::NotFound(_)) if args.engine_is_stopped => Value::Null,
        Err(Error::NotFound(_)) => {
            return Err(Failure::Work(format!(
                "there is no Lease {lease}: whether an engine runs cannot be seen. Name its namespace with \
                 --engine-namespace; if it runs without leader election, stop it and say --engine-is-stopped"
            )));
        }
        Err(error) => return Err(Failure::Work(error.to_string())),
    };
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    let shards = layout_shards(holder);
    let seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or_default();
    Ok(Found {
        shards: shards.unwrap_or(1),
        lease,
        leader: Some(holder.to_owned()).filter(|holder| shards.is_none() && !holder.is_empty()),
        duration: Duration::from_secs(seconds),
    })
}

impl Found {
    /// How long it may take until the leases are ours.
    pub(super) fn patience(&self, most: &Duration) -> Duration {
        let more = match self.leader {
            // Nobody hands over: either it runs out or it is renewed.
            Some(_) => Duration::from_secs(15),
            None => HAND_OVER,
        };
        (self.duration + more).min(*most)
    }

    /// The Leases that keep these shards, or the whole, from us, as namespace and name.
    pub(super) fn names(&self, args: &Args, wanted: &BTreeSet<usize>) -> Vec<(String, String)> {
        let base = lease_name(CONTROLLER, &args.watch_label_selector);
        let in_namespace = |name: String| (args.engine_namespace.clone(), name);
        match self.shards {
            1 => vec![in_namespace(base)],
            shards => wanted
                .iter()
                .map(|shard| in_namespace(shard_lease(&base, *shard, shards)))
                .collect(),
        }
    }

    /// Says what is waited for.
    pub(super) fn tell(&self, wanted: &BTreeSet<usize>) {
        let lease = &self.lease;
        match &self.leader {
            Some(leader) => say::waiting(&format!(
                "waiting for Lease {lease} of {leader} to run out ({:?} after its last renewal)",
                self.duration
            )),
            None if self.shards > 1 => say::waiting(&format!(
                "asking for {} of {} shards of Lease {lease}; those of the dead are waited for",
                wanted.len(),
                self.shards
            )),
            None => say::waiting(&format!("taking Lease {lease}")),
        }
    }
}

/// Why the leases could not be had.
pub(super) async fn not_taken(
    client: &Client,
    args: &Args,
    found: &Found,
    wanted: &BTreeSet<usize>,
) -> Failure {
    let lease = &found.lease;
    if let Some(leader) = &found.leader {
        return Failure::Work(format!(
            "Lease {lease} is still renewed by {leader}: it lives. Let it do the work (everflow reconcile), or scale it \
             to zero and run this again"
        ));
    }
    let base = lease_name(CONTROLLER, &args.watch_label_selector);
    let mut holders = BTreeSet::new();
    for shard in wanted {
        let name = shard_lease(&base, *shard, found.shards);
        let at = At::new(&args.engine_namespace, &name);
        if let Ok(found) = client.get(&LEASES, at).await
            && let Some(holder) = found["spec"]["holderIdentity"].as_str()
            && !holder.is_empty()
            && !holder.starts_with("rescue-")
        {
            holders.insert(holder.to_owned());
        }
    }
    let holders: Vec<String> = holders.into_iter().collect();
    Failure::Work(match holders.is_empty() {
        true => {
            format!("the leases beside {lease} could not be taken: may this user change Leases?")
        }
        false => format!(
            "these replicas live and do not hand over their part of {lease}: {}. Let them do the work, or scale the \
             engine to zero and run this again",
            holders.join(", ")
        ),
    })
}
