//! Somebody delivers from a laptop, with the engine dead or cut off: what `everflow rescue` does, as one more process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_controllers::Options;
use everflow_env::{BoxFuture, MemoryDialer, watch, within};
use everflow_fetch::storage::{Storage, StorageOptions};
use everflow_json::Value;
use everflow_runtime::Signal;
use everflow_runtime::attempt::{
    Context, Controller, ControllerWrapper, Interrupted, Report, Verdict,
};
use everflow_runtime::engine::Handle;
use everflow_runtime::queue::Key;
use everflow_runtime::shards::{Shards, shard_of};
use tokio::task::JoinSet;

use crate::holding::Holding;
use crate::replica::{self, Born, Life, Parts, SERVICE};
use crate::shared::Shared;
use crate::sharing::Rescue;

/// How often it is looked whether all is done.
const LOOK: Duration = Duration::from_millis(200);
/// How long the leases may take: what is dead runs out, what lives finishes its work first.
const PATIENCE: Duration = Duration::from_secs(19 + 70);
/// How long it is delivered at most.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How long the end of attempts and the hand-over may take.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// What is delivered when everything is.
const DELIVERING: [&str; 2] = ["Kustomization", "HelmRelease"];

/// Starts the laptop, which comes after all replicas. It is there once.
pub fn start(shared: &Arc<Shared>, hosts: &MemoryDialer, all: &Life, rescue: &Rescue) {
    let Some(born) = replica::born(shared, hosts, all.replicas, all) else {
        return;
    };
    let (who, all, rescue) = (born.who, all.clone(), rescue.clone());
    let task = tokio::spawn({
        let shared = shared.clone();
        async move {
            let told = match deliver(&shared, born, &all, &rescue).await {
                Ok(()) => "the rescue has ended".to_owned(),
                Err(why) => format!("the rescue has failed: {why}"),
            };
            shared.history.note(who, || told);
            replica::end(&shared, who, 0);
        }
    });
    if let Some(state) = shared.replicas().get_mut(who.replica().unwrap_or_default()) {
        state.tasks = vec![task.abort_handle()];
    }
}

/// What the last attempts came to.
type Verdicts = Arc<Mutex<BTreeMap<Key, Verdict>>>;

#[derive(Debug)]
struct Judged {
    inner: Arc<dyn Controller>,
    verdicts: Verdicts,
}

impl ControllerWrapper for Judged {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            let report = self.inner.attempt(object, context).await;
            if let Ok(report) = &report {
                let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
                verdicts.insert(context.key.clone(), report.verdict);
            }
            report
        })
    }
}

/// The objects that are delivered, none when it is all of them.
fn targets(rescue: &Rescue) -> Option<BTreeSet<Key>> {
    let key = |object: &crate::Reference| {
        Key::new(
            object.kind.as_str(),
            object.namespace.as_str(),
            object.name.as_str(),
        )
    };
    let keys: BTreeSet<Key> = rescue.objects.iter().map(key).collect();
    (!keys.is_empty()).then_some(keys)
}

/// Whether all is delivered.
fn is_done(targets: Option<&BTreeSet<Key>>, handle: &Handle, verdicts: &Verdicts) -> bool {
    let verdicts = verdicts.lock().unwrap_or_else(PoisonError::into_inner);
    let done = |key: &Key| {
        let delivering = DELIVERING.contains(&&*key.kind);
        !delivering || verdicts.get(key) == Some(&Verdict::Success)
    };
    if let Some(targets) = targets {
        return targets.iter().all(done);
    }
    DELIVERING.iter().all(|kind| {
        let Some(store) = handle.store(kind) else {
            // Where there is nothing of the kind, it is not looked after.
            return true;
        };
        let mut names = store.names().into_iter();
        store.is_synced() && names.all(|(namespace, name)| done(&Key::new(*kind, namespace, name)))
    })
}

async fn deliver(
    shared: &Arc<Shared>,
    born: Born,
    all: &Life,
    rescue: &Rescue,
) -> Result<(), String> {
    let address = String::new();
    let mut sharing = Holding::options(all, born.who, address).ok_or("there are no shards")?;
    sharing.address = None;
    let shards = sharing.shards;
    let targets = targets(rescue);
    let wanted: BTreeSet<usize> = match &targets {
        Some(keys) => keys.iter().map(|key| shard_of(key, shards)).collect(),
        None => (0..shards).collect(),
    };
    sharing.wanted = Some(wanted.clone());
    sharing.only = targets.clone().map(Arc::new);
    let leave = Signal::new();
    let nobody = watch::Sender::new(Vec::new());
    let holding = Holding::sharing((&born.env, &born.client), sharing, &leave, nobody);
    let mut held = holding.shards().ok_or("there are no shards")?;
    let clock = born.env.clock.clone();
    let taken = {
        let waiting = held.wait_for(|shards: &Shards| shards.held().len() == wanted.len());
        matches!(within(&*clock, PATIENCE, waiting).await, Ok(Ok(_)))
    };
    let delivered = match taken {
        true => work(shared, &born, all, (&targets, held)).await,
        false => Err("the leases could not be had".to_owned()),
    };
    leave.raise();
    let _ = within(&*clock, LAST_WORDS, holding.hand_over()).await;
    delivered
}

async fn work(
    shared: &Arc<Shared>,
    born: &Born,
    all: &Life,
    (targets, held): (&Option<BTreeSet<Key>>, watch::Receiver<Shards>),
) -> Result<(), String> {
    let storage = StorageOptions {
        advertised: SERVICE.to_owned(),
        ..StorageOptions::default()
    };
    let storage = Storage::open(&born.env, storage).await;
    let storage = storage.map_err(|error| error.to_string())?;
    let mut options = Options::default();
    // What the engine in the cluster serves cannot be had here; the sources are fetched anew.
    options.kustomize.http_retry = 0;
    options.runtime.stop_grace = Duration::from_secs(5);
    let verdicts = Verdicts::default();
    let judged = |inner: Arc<dyn Controller>| -> Arc<dyn Controller> {
        Arc::new(Judged {
            inner,
            verdicts: verdicts.clone(),
        })
    };
    let parts = Parts {
        shared,
        all,
        born,
        storage: &storage,
        options,
    };
    // A rescue delivers; it neither sends notifications nor takes webhooks.
    let program = parts.engine(&judged)?;
    let (engine, events) = (program.engine, program.event_sender);
    let handle = engine.handle();
    let stop = Signal::new();
    // Everything dies with these.
    let (mut tasks, mut running) = (JoinSet::new(), JoinSet::new());
    tasks.spawn(events.run());
    running.spawn(engine.run_shards(held.clone(), stop.clone()));
    let clock = &born.env.clock;
    let until = clock.elapsed() + TIMEOUT;
    let ended = loop {
        if is_done(targets.as_ref(), &handle, &verdicts) {
            break Ok(());
        }
        if held.borrow().held().is_empty() {
            break Err("the leases were lost".to_owned());
        }
        if clock.elapsed() >= until {
            break Err("not delivered in time".to_owned());
        }
        clock.sleep(LOOK).await;
    };
    stop.raise();
    let _ = within(&**clock, LAST_WORDS, running.join_next()).await;
    ended
}
