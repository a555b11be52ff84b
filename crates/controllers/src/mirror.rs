//! Every replica holds what statuses name: each can serve it, and goes on with it when the replica that made it is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_api::common::Artifact;
use everflow_env::{Env, within};
use everflow_fetch::storage::{NamedArtifacts, Owner, Storage};
use everflow_runtime::engine::Handle;
use everflow_runtime::queue::Key;
use everflow_runtime::store::{CachedObject, Change, Name};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::ControllerKind;

/// The kinds that have artifacts.
const KINDS: [ControllerKind; 5] = [
    ControllerKind::GitRepository,
    ControllerKind::OCIRepository,
    ControllerKind::HelmRepository,
    ControllerKind::Bucket,
    ControllerKind::HelmChart,
];

/// How soon what could not be had is asked for again.
const AGAIN: Duration = Duration::from_secs(5);

/// What statuses name, as the watches of an engine tell it.
#[derive(Debug, Clone)]
pub struct Named(pub Handle);

impl NamedArtifacts for Named {
    fn digest(&self, path: &str) -> Option<String> {
        let mut parts = path.split('/');
        let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = KINDS
            .into_iter()
            .find(|known| known.to_string().eq_ignore_ascii_case(kind))?;
        let stored = self.0.store(&kind.to_string())?.get(namespace, name)?;
        let artifact = artifact(&stored)?;
        (artifact.path == path).then_some(artifact.digest)
    }
}

/// The artifact that a status names.
fn artifact(stored: &CachedObject) -> Option<Artifact> {
    let status = stored.status();
    let text = |field: &str| status["artifact"][field].as_str().map(str::to_owned);
    Some(Artifact {
        path: text("path")?,
        digest: text("digest")?,
        ..Artifact::default()
    })
}

/// Brings what other replicas make, and removes what nobody names any more, for ever.
pub async fn mirror(env: Env, storage: Storage, handle: Handle) {
    let mut kinds = JoinSet::new();
    for kind in KINDS {
        let Some(store) = handle.store(&kind.to_string()) else {
            continue;
        };
        let mirror = Mirror {
            env: env.clone(),
            storage: storage.clone(),
            handle: handle.clone(),
            kind: kind.to_string(),
            missing: BTreeMap::new(),
        };
        kinds.spawn(mirror.run(store.subscribe()));
    }
    while kinds.join_next().await.is_some() {}
}

/// The artifacts of one kind.
struct Mirror {
    env: Env,
    storage: Storage,
    handle: Handle,
    kind: String,
    /// What is named and not here.
    missing: BTreeMap<Name, Artifact>,
}

impl Mirror {
    async fn run(mut self, mut changes: UnboundedReceiver<Change>) {
        let clock = self.env.clock.clone();
        loop {
            let next = match self.missing.is_empty() {
                true => Ok(changes.recv().await),
                false => within(&*clock, AGAIN, changes.recv()).await,
            };
            match next {
                Ok(Some(change)) => self.take(change).await,
                Ok(None) => return,
                Err(_) => {
                    for (name, artifact) in std::mem::take(&mut self.missing) {
                        self.bring(name, artifact).await;
                    }
                }
            }
        }
    }

    async fn take(&mut self, change: Change) {
        let (namespace, name) = change.name.clone();
        self.missing.remove(&change.name);
        if self.handle.works_on(&Key::new(
            self.kind.as_str(),
            namespace.clone(),
            name.clone(),
        )) {
            // Whoever makes it keeps it and removes it.
            return;
        }
        let Some(new) = &change.new else {
            if let Ok(owner) = Owner::new(&self.kind, &namespace, &name) {
                // What stays behind takes room and harms nobody.
                let _ = self.storage.remove_owner(&owner).await;
            }
            return;
        };
        let (before, now) = (change.old.as_deref().and_then(artifact), artifact(new));
        if let Some(artifact) = now.filter(|now| before.as_ref() != Some(now)) {
            self.bring(change.name, artifact).await;
        }
    }

    async fn bring(&mut self, name: Name, artifact: Artifact) {
        if !self.storage.bring(&artifact.path, &artifact.digest).await {
            self.missing.insert(name, artifact);
            return;
        }
        if let Ok(owner) = Owner::new(&self.kind, &name.0, &name.1) {
            let _ = self.storage.collect(&owner, &[&artifact.path]).await;
        }
    }
}
