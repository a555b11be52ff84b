//! HelmReleases: a chart is rendered, released, and watched over.
//!
//! An attempt goes through `chart_object` (the HelmChart that `spec.chart` asks for), `depends`, `source` (which
//! artifact), `inputs` (values), `chart` (its files), and `storage` (the records of the release, from the server).
//! What is to be done is decided by `everflow-release`; `rounds` carries decisions out until nothing is left to do,
//! `begin` prepares an action, `steps` has its effects. Waiting for objects, hooks and tests is noted beside the
//! record of the release, not kept in a worker: any process can go on from there. `finalize` is for HelmReleases
//! that go, and for releases whose name or place has changed.

mod apply;
mod attempt;
mod begin;
mod capabilities;
mod chart;
mod chart_object;
mod claims;
mod client_side;
mod definitions;
mod depends;
mod drift;
mod finalize;
mod guard;
mod hook_logs;
mod inputs;
mod lookup;
mod made_up;
mod remove;
mod render;
mod report;
mod rounds;
mod scope;
mod source;
mod steps;
mod storage;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use everflow_api::Reason;
use everflow_api::names::{condition, manager};
use everflow_env::{BoxFuture, Env};
use everflow_helm::parsed::TemplateCache;
use everflow_json::Value;
use everflow_runtime::attempt::{Broken, Context, Controller, Interrupted, Report};
use everflow_runtime::client::Resource;
use everflow_runtime::events::Event;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::queue::Key;

use crate::artifact::Artifacts;
use crate::target::Targets;
use crate::watching::{AppliedCaches, OwnerLabels};
use crate::{Options, Setup, resources, skeleton};
use attempt::Attempt;
use capabilities::Clusters;
use chart::LoadedChart;
use claims::Claims;
use guard::Guard;

/// The conditions that are ours.
const OWNED: [&str; 7] = [
    condition::READY,
    condition::RECONCILING,
    condition::STALLED,
    condition::RELEASED,
    condition::TEST_SUCCESS,
    condition::REMEDIATED,
    condition::DRIFTED,
];

/// How long an attempt may take: it waits for nothing but the API server, artifacts and a moment for new kinds.
const LONGEST: Duration = Duration::from_secs(1_200);

/// Parsed templates of so many charts are kept.
const PARSED: usize = 64;

/// The controller of HelmReleases.
#[derive(Debug)]
pub(crate) struct HelmReleaseController {
    options: Options,
    metrics: Metrics,
    charts: Artifacts<LoadedChart>,
    targets: Targets,
    caches: Arc<AppliedCaches>,
    clusters: Clusters,
    claims: Claims,
    guard: Guard,
    templates: Arc<TemplateCache>,
    /// How objects that are waited for were looked at, and what others have a hand in.
    moments: Mutex<BTreeMap<Key, AttemptMemory>>,
    identity: OnceLock<String>,
}

/// What is kept of an object between attempts. It may be lost at any time: then something is looked at once more.
#[derive(Debug, Default)]
struct AttemptMemory {
    /// How often what is waited for was looked at.
    looks: u32,
    /// Since when definitions are waited for.
    definitions: Option<Duration>,
    /// What is as asked for of what is waited for, and stays so.
    steady: BTreeSet<everflow_apply::ObjectId>,
    /// News of an attempt that ended with nothing else to say; they are told with what the next one says.
    news: Vec<Event>,
    /// Whether a source that has come together with the object was waited for.
    patient: bool,
    /// How often the drift of each object was put right lately, and when last.
    rounds: BTreeMap<everflow_apply::ObjectId, (u32, Duration)>,
}

impl HelmReleaseController {
    pub(crate) fn new(setup: &Setup) -> Self {
        HelmReleaseController {
            options: setup.options.clone(),
            metrics: setup.metrics.clone(),
            charts: Artifacts::new(setup),
            targets: Targets::new(setup),
            caches: Arc::new(AppliedCaches::new(OwnerLabels::HELM_RELEASE)),
            clusters: Clusters::default(),
            claims: Claims::default(),
            guard: Guard::default(),
            templates: Arc::new(TemplateCache::new(PARSED)),
            moments: Mutex::default(),
            identity: OnceLock::new(),
        }
    }

    fn moments(&self) -> MutexGuard<'_, BTreeMap<Key, AttemptMemory>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells this process from all others that act on releases.
    fn identity(&self, env: &Env) -> &str {
        self.identity.get_or_init(|| {
            let (one, two) = (env.random.next(), env.random.next());
            format!("everflow-{one:016x}{two:016x}")
        })
    }
}

impl Controller for HelmReleaseController {
    fn name(&self) -> &str {
        "helmrelease"
    }

    fn reports_as(&self) -> &str {
        manager::HELM
    }

    fn resource(&self) -> &Resource {
        const { &resources::HELM_RELEASES }
    }

    fn owned_conditions(&self) -> &[&str] {
        &OWNED
    }

    fn deadline(&self, _: &Value) -> Duration {
        LONGEST
    }

    fn concurrency(&self) -> usize {
        self.options.helm.concurrent
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            match skeleton::read(object, Reason::ReconcileError, context) {
                Ok(read) => Attempt::new(self, context, object, read).run().await,
                Err(report) => Ok(report),
            }
        })
    }

    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        skeleton::unreadable(object, &how.to_string(), Reason::ReconcileError, context)
    }
}
