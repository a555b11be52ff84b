//! Kustomizations: what a source holds is built, applied and watched over.
//!
//! An attempt goes through `source` (which artifact), `depends` (who must be ready first),
//! `artifact` (its files), `inputs` (variables and keys), `build` (whose `results` are kept), `target` (which cluster, in
//! whose name), `apply` (stages, inventory, prune), `health`, and `success` or `failure`. Waiting for health or for a
//! deletion is a state that is written down, not a worker that waits: the watches of `watching`
//! wake the next attempt. `finalize` is for Kustomizations that go.

mod apply;
mod attempt;
mod build;
mod causes;
mod depends;
mod draft;
mod failure;
mod finalize;
mod health;
mod inputs;
mod legacy_versions;
mod results;
mod settling;
mod source;
mod success;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_api::kustomization::KustomizationSpec;
use everflow_api::names::{condition, manager};
use everflow_api::reason::Reason;
use everflow_apply::preflight::Preflight;
use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_runtime::attempt::{Broken, Context, Controller, Interrupted, Report};
use everflow_runtime::client::Resource;
use everflow_runtime::queue::Key;
use everflow_runtime::store::Change;

use crate::artifact::Trees;
use crate::target::Targets;
use crate::watching::{AppliedCaches, OwnerLabels};
use crate::{Options, Setup, resources, skeleton};
use attempt::Attempt;
use health::Wait;
pub use inputs::variables;
use settling::Settling;

/// The conditions that are ours.
const OWNED: [&str; 4] = [
    condition::READY,
    condition::RECONCILING,
    condition::STALLED,
    condition::HEALTHY,
];

/// How long an attempt may take beyond its timeout: fetching, building, stages that settle.
const BESIDE_TIMEOUT: Duration = Duration::from_secs(600);

/// How much memory parsed files may take: for bases that Kustomizations share, not for all there is.
/// Building anew costs little, trees of a thousand directories much memory.
const CACHED: usize = 8 << 20;

/// The controller of Kustomizations.
#[derive(Debug)]
pub(crate) struct KustomizationController {
    options: Options,
    trees: Trees,
    targets: Targets,
    caches: Arc<AppliedCaches>,
    waits: Mutex<BTreeMap<Key, Wait>>,
    /// Those of whom a stage takes longer than a moment.
    settling: Mutex<BTreeMap<Key, Settling>>,
    cache: Arc<everflow_kustomize::Cache>,
    builds: Arc<build::Builds>,
    /// Those who have waited a moment for their source already.
    patient: Mutex<BTreeSet<Key>>,
    preflight: Preflight,
}

impl KustomizationController {
    pub(crate) fn new(setup: &Setup) -> Self {
        KustomizationController {
            options: setup.options.clone(),
            trees: Trees::new(setup),
            targets: Targets::new(setup),
            caches: Arc::new(AppliedCaches::new(OwnerLabels::KUSTOMIZATION)),
            waits: Mutex::default(),
            settling: Mutex::default(),
            cache: Arc::new(everflow_kustomize::Cache::new(CACHED)),
            builds: Arc::default(),
            patient: Mutex::default(),
            preflight: setup.preflight(),
        }
    }

    fn patient(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.patient.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settling(&self) -> MutexGuard<'_, BTreeMap<Key, Settling>> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits(&self) -> MutexGuard<'_, BTreeMap<Key, Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for KustomizationController {
    fn name(&self) -> &str {
        "kustomization"
    }

    fn reports_as(&self) -> &str {
        manager::KUSTOMIZE
    }

    fn field_manager(&self) -> &str {
        manager::KUSTOMIZATION_STATUS
    }

    fn resource(&self) -> &Resource {
        const { &resources::KUSTOMIZATIONS }
    }

    fn owned_conditions(&self) -> &[&str] {
        &OWNED
    }

    fn deadline(&self, object: &Value) -> Duration {
        let timeout = KustomizationSpec::read_timeout(&object["spec"]);
        let timeout = timeout.map_or(Duration::ZERO, everflow_time::Duration::unsigned);
        timeout.saturating_mul(2) + BESIDE_TIMEOUT
    }

    fn concurrency(&self) -> usize {
        self.options.kustomize.concurrent
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            match skeleton::read(object, Reason::ReconciliationFailed, context) {
                Ok(read) => Attempt::new(self, context, object, read).run().await,
                Err(report) => Ok(report),
            }
        })
    }

    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        let reason = Reason::ReconciliationFailed;
        skeleton::unreadable(object, &how.to_string(), reason, context)
    }
}

/// Whether a change of a Kustomization matters to those that depend on it.
pub(crate) fn readiness_changed(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return true;
    };
    if old.generation != new.generation || old.uid != new.uid {
        return true;
    }
    // An expression may look at anything in the status.
    !old.has_status_of(new)
}
