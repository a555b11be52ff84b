//! Waits for health without holding a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everflow_api::condition::ConditionStatus;
use everflow_api::inventory::{ResourceInventory, ResourceRef};
use everflow_api::names::condition::{HEALTHY, READY};
use everflow_api::reason::Reason;
use everflow_apply::ObjectId;
use everflow_apply::change::Action;
use everflow_apply::effects::{Applied, Applier, LiveState, run_concurrently};
use everflow_apply::health::custom::CustomChecks;
use everflow_apply::health::{Assessment, Health};
use everflow_apply::inventory::Entry;
use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_runtime::attempt::{Next, Report, Verdict};
use everflow_runtime::client::Selection;
use everflow_runtime::events::Severity;
use everflow_runtime::reflector::Watched;
use everflow_runtime::store::Keep;
use sha2::{Digest as _, Sha256};

use super::attempt::Attempt;
use crate::stop::Stop;
use crate::target::Target;
use crate::watching::{resource_of, tells_health};

/// How often objects are looked at that cannot be watched, and those that can.
const LOOK: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
/// When objects are looked at for the second time; then after thrice the span each time. What
/// changed before the watch had begun would else be found at the end of the longest span only.
const SECOND_LOOK: Duration = Duration::from_millis(300);

/// A wait for health. It is kept beside the status only to go on without building again.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    /// What it is for: generation, revision, request and inputs.
    pub(super) of: String,
    /// When it began, on our clock.
    pub(super) began: Duration,
    /// When the attempt began.
    pub(super) started: Duration,
    pub(super) digest: String,
    /// Whether the attempt changed something.
    pub(super) changed: bool,
    /// Whether this revision or generation was never healthy before.
    pub(super) news: bool,
    pub(super) objects: Vec<Entry>,
    pub(super) revision: String,
    /// What is there because of the attempt, should the write that says so have failed.
    pub(super) inventory: Option<ResourceInventory>,
    /// How often the objects were looked at.
    pub(super) looks: u32,
    /// What others have a hand in too, in words.
    pub(super) contested: Vec<String>,
}

/// How it stands with health.
pub(super) enum Verdicts {
    Healthy,
    /// What holds it up, and whether that is final.
    Not(Vec<(Entry, Assessment)>),
}

impl Attempt<'_> {
    /// The objects whose health is waited for; `None` when nothing is.
    pub(super) async fn health_objects(
        &self,
        applier: &Applier,
        applied: &[Applied],
    ) -> Result<Option<Vec<Entry>>, Stop> {
        let spec = &self.object.spec;
        let own = ObjectId {
            namespace: self.object.metadata.namespace().to_owned(),
            name: self.object.metadata.name.clone(),
            group: everflow_api::names::group::KUSTOMIZE.into(),
            kind: "Kustomization".into(),
        };
        if spec.wait {
            let entries = applied
                .iter()
                .filter(|applied| applied.change.action != Action::Skipped)
                .map(|applied| applied.change.entry.clone());
            return Ok(Some(entries.filter(|entry| entry.id != own).collect()));
        }
        if spec.health_checks.is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::with_capacity(spec.health_checks.len());
        for check in &spec.health_checks {
            let api_version = match check.api_version.as_deref() {
                None | Some("") => "apps/v1",
                Some(version) => version,
            };
            // Flux looks by group and kind alone.
            let instead = everflow_apply::served_instead(api_version, &check.kind);
            let api_version = instead.as_deref().unwrap_or(api_version);
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let entry = Entry {
                id: ObjectId {
                    namespace: check.namespace.clone().unwrap_or_default(),
                    name: check.name.clone(),
                    group: group.to_owned(),
                    kind: check.kind.clone(),
                },
                version: version.to_owned(),
            };
            if entry.id == own {
                continue;
            }
            if applier.lacks_namespace(&entry).await {
                let kind = match group {
                    "" => check.kind.clone(),
                    group => format!("{}.{group}", check.kind),
                };
                let why = format!(
                    "resource {kind} {} is namespace scoped, but namespace is not set",
                    check.name
                );
                return Err(Stop::failed(Reason::HealthCheckFailed, why));
            }
            entries.push(entry);
        }
        Ok(Some(entries))
    }

    /// By which rules health is judged.
    fn health_rules(&self) -> [u8; 32] {
        let rules = self.object.spec.health_check_exprs.iter();
        let text: Vec<String> = rules
            .map(|rule| everflow_api::to_value(rule).to_string())
            .collect();
        Sha256::digest(text.join("\n")).into()
    }

    /// Looks at the objects. Those of which the answer to our own write is known need no request,
    /// nor do those that were healthy and have not changed since, as their watch says, nor those
    /// whose watch tells their health, unless the server is to be asked in any case.
    ///
    /// The watches are the engine's own. Where another account applies they count for objects in the
    /// Kustomization's inventory only: of anything else that account may know only what the server tells it.
    pub(super) async fn assess(
        &self,
        applier: &Applier,
        checks: &CustomChecks,
        objects: &[Entry],
        applied: &[Applied],
        target: &Target,
        ask: bool,
    ) -> Verdicts {
        let clock = &self.context.env.clock;
        let (cache, view, rules) = (
            self.cache(target),
            self.live_view(target),
            self.health_rules(),
        );
        let note = |entry: &Entry, assessed: &Assessment, live: &Value| {
            if assessed.health == Health::Current && !always_current(entry) {
                cache.note_healthy(&entry.id, live, rules);
            }
        };
        let known: BTreeMap<&ObjectId, &Value> = applied
            .iter()
            .filter_map(|known| Some((&known.change.entry.id, known.live.as_ref()?)))
            .collect();
        let mut assessed: Vec<(usize, Assessment)> = Vec::with_capacity(objects.len());
        let mut open: Vec<(usize, &Entry)> = Vec::new();
        let inventory = self.inventory_names();
        for (at, entry) in objects.iter().enumerate() {
            let id = &entry.id;
            let has_expression = checks.has(&id.group, &id.kind);
            let told = tells_health(&id.group, &id.kind) && !has_expression;
            let live = known.get(id).copied();
            // What `wait` waits for was applied, which is all that these kinds need.
            let applied_is_enough =
                self.object.spec.wait && always_current(entry) && !has_expression;
            if (live.is_some() && !told) || applied_is_enough {
                if let Some(live) = live {
                    let found = checks.assess(live, clock.now());
                    if has_expression {
                        // Expressions cost time; others get a turn after each.
                        tokio::task::yield_now().await;
                    }
                    note(entry, &found, live);
                    assessed.push((at, found));
                }
                continue;
            }
            if target.impersonates && !inventory.contains(&inventory_name(entry)) {
                open.push((at, entry));
                continue;
            }
            let seen = applier.seen(entry, &view).await;
            if cache.is_still_healthy(id, &seen, rules) {
                continue;
            }
            // The watch may have told more already than the answer to our write did.
            let fresh = match &seen {
                LiveState::Present(seen) if told && !ask && !cache.is_outdated(id, seen) => {
                    Some(seen)
                }
                _ => live,
            };
            match fresh {
                Some(live) => {
                    let found = checks.assess(live, clock.now());
                    if has_expression {
                        // Expressions cost time; others get a turn after each.
                        tokio::task::yield_now().await;
                    }
                    note(entry, &found, live);
                    assessed.push((at, found));
                }
                None => open.push((at, entry)),
            }
        }
        let mut work: Vec<BoxFuture<'_, (Assessment, Option<Value>)>> = Vec::new();
        for (_, entry) in &open {
            work.push(Box::pin(applier.assess(entry, checks, clock.now())));
        }
        let looked = run_concurrently(work).await;
        for ((at, entry), (found, live)) in open.into_iter().zip(looked) {
            if let Some(live) = &live {
                note(entry, &found, live);
            }
            assessed.push((at, found));
        }
        assessed.sort_by_key(|(at, _)| *at);
        let alone = self.options().kustomize.alone;
        let open: Vec<(Entry, Assessment)> = assessed
            .into_iter()
            .filter(|(_, assessed)| assessed.health != Health::Current)
            .filter_map(|(at, assessed)| Some((objects.get(at)?.clone(), assessed)))
            .filter(|(entry, assessed)| {
                let absent = matches!(assessed.health, Health::NotFound | Health::Unknown);
                !(alone && absent && !inventory.contains(&inventory_name(entry)))
            })
            .collect();
        match open.is_empty() {
            true => Verdicts::Healthy,
            false => Verdicts::Not(open),
        }
    }

    /// The names of all objects in the inventory.
    fn inventory_names(&self) -> BTreeSet<String> {
        let inventory = self.draft.status.inventory.iter();
        let entries = inventory.flat_map(|inventory| &inventory.entries);
        entries.map(|entry| entry.id.clone()).collect()
    }

    /// The message of the wait.
    pub(super) fn health_message(&self) -> String {
        self.stage("Running health checks")
    }

    /// Health is as asked for.
    pub(super) fn healthy(&mut self, wait: &Wait) {
        let span = self.since(wait.began);
        let message = format!("Health check passed in {span}");
        // The first time, and when a new revision has changed something.
        let was = everflow_api::condition::is_true(&self.before().conditions, HEALTHY);
        if !was || (wait.news && wait.changed) {
            self.draft.record_event(Severity::Info, message.clone());
        }
        self.draft
            .set(HEALTHY, ConditionStatus::True, Reason::Succeeded, message);
    }

    /// What follows when objects are not healthy: a wait, or a failure.
    pub(super) async fn unhealthy(
        &mut self,
        wait: &mut Wait,
        open: Vec<(Entry, Assessment)>,
        target: &Target,
    ) -> Result<Report, Stop> {
        let failed: Vec<&(Entry, Assessment)> = open
            .iter()
            .filter(|(_, assessed)| assessed.health == Health::Failed)
            .collect();
        let timeout = self.object.spec.timeout().unsigned();
        let waited = self.now().saturating_sub(wait.began);
        let fast = !self.options().gates.disable_fail_fast_behavior;
        let all_failed = failed.len() == open.len();
        let failure = if !failed.is_empty() && (fast || all_failed) {
            Some(("failed early due to stalled resources", failed))
        } else if waited >= timeout {
            Some(("timeout waiting for", open.iter().collect()))
        } else {
            None
        };
        if let Some((what, named)) = failure {
            let mut why = format!("{what}: [{}]", listed(&named));
            for cause in self.causes(&named, target).await {
                why.push('\n');
                why.push_str(&cause);
            }
            return Err(self.health_failed(wait, why));
        }
        let view = self.live_view(target);
        let mut keep = self.config_watches();
        let entries: Vec<Entry> = open.iter().map(|(entry, _)| entry.clone()).collect();
        let mut told = !target.remote;
        for entry in &entries {
            told = told && view.tells(entry).await;
        }
        let mut changes = view.watch(&entries, &mut keep).await;
        changes.extend(self.watch_foreign(&entries, target, &mut keep).await);
        let watched = changes.len() >= entries.len() && !target.remote;
        changes.extend(self.wakes());
        self.context.release_watches(&keep);
        self.cache(target)
            .await_changes(entries.into_iter().map(|entry| entry.id));
        // What is told by watches that have begun needs no second look.
        let told = told && watched;
        let message = self.health_message();
        self.draft.wait_for_health(&message);
        let longest = if watched { LOOK.1 } else { LOOK.0 };
        let look = match told {
            // Each look without news makes the next one later: a server that is slow is not asked all the more.
            true => longest * (wait.looks + 1).min(4),
            false => longest.min(SECOND_LOOK * 3_u32.pow(wait.looks.min(5))),
        };
        wait.looks += 1;
        wait.inventory = self.draft.status.inventory.clone();
        let next = Next::When {
            changes,
            no_later_than: look.min(timeout - waited).max(Duration::from_millis(100)),
        };
        self.controller
            .waits()
            .insert(self.context.key.clone(), wait.clone());
        let mut report = self.draft.clone().report(next, Verdict::Waiting);
        // That it is on its way has just been written; most are healthy at the second look.
        if (wait.looks == 1 && self.written) || self.failed_so_before(wait) {
            report.status = None;
        }
        Ok(report)
    }

    /// Whether the last thing said is that this very state was not healthy: it stands until the next look is over.
    fn failed_so_before(&self, wait: &Wait) -> bool {
        let (was, is) = (self.before(), &self.draft.status);
        let ready = everflow_api::condition::find(&was.conditions, READY);
        let failed = ready.is_some_and(|ready| {
            ready.status == ConditionStatus::False
                && ready.reason == Reason::HealthCheckFailed.as_str()
                && ready.observed_generation == self.draft.generation
        });
        failed
            && !wait.changed
            && was.last_attempted_revision.as_deref() == Some(wait.revision.as_str())
            && was.last_handled_reconcile_at == is.last_handled_reconcile_at
            && was.inventory == is.inventory
    }

    pub(super) fn health_failed(&mut self, wait: &Wait, why: String) -> Stop {
        let span = self.since(wait.began);
        self.draft.progress(&self.health_message());
        self.draft.set(
            HEALTHY,
            ConditionStatus::False,
            Reason::HealthCheckFailed,
            why.clone(),
        );
        self.note_history(&wait.digest, Reason::HealthCheckFailed, wait.started);
        Stop::failed(
            Reason::HealthCheckFailed,
            format!("health check failed after {span}: {why}"),
        )
    }

    /// Objects that are not ours are watched one by one.
    async fn watch_foreign(
        &self,
        entries: &[Entry],
        target: &Target,
        keep: &mut Vec<Watched>,
    ) -> Vec<everflow_runtime::queue::WakeOn> {
        let mut wakes = Vec::new();
        if target.remote || self.object.spec.wait {
            return wakes;
        }
        for entry in entries {
            let Some(resource) = resource_of(self.context, entry).await else {
                continue;
            };
            let watched = Watched {
                namespace: resource.namespaced.then(|| entry.id.namespace.clone()),
                selection: Selection {
                    fields: format!("metadata.name={}", entry.id.name),
                    ..Selection::default().metadata()
                },
                keep: Keep::Metadata,
                resource,
            };
            self.context.watch(&watched);
            wakes.push(
                watched
                    .resource
                    .wake_on(&entry.id.namespace, &entry.id.name),
            );
            keep.push(watched);
        }
        wakes
    }
}

/// What an inventory calls an object.
fn inventory_name(entry: &Entry) -> String {
    ResourceRef::new(&entry.id, entry.version.clone()).id
}

/// Kinds that are done as soon as they are there.
fn always_current(entry: &Entry) -> bool {
    matches!(
        (entry.id.group.as_str(), entry.id.kind.as_str()),
        ("", "ConfigMap" | "Secret" | "ServiceAccount")
            | (
                "rbac.authorization.k8s.io",
                "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding"
            )
    )
}

/// How an object stands, as Flux says it.
pub(super) fn state(entry: &Entry, assessed: &Assessment) -> String {
    format!("{} status: '{}'", entry.id.subject(), assessed.health)
}

fn listed(open: &[&(Entry, Assessment)]) -> String {
    let one = |(entry, assessed): &(Entry, Assessment)| {
        let state = state(entry, assessed);
        match assessed.health == Health::Unknown && !assessed.message.is_empty() {
            true => format!("{state}: {}", assessed.message),
            false => state,
        }
    };
    let all: Vec<String> = open.iter().map(|open| one(open)).collect();
    all.join(", ")
}

impl Wait {
    pub(super) fn superseded_message(&self, by: &str) -> String {
        format!("Health checks canceled due to new reconciliation triggered by {by}")
    }
}
