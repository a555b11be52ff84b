//! Stages that others have to finish before the next one: kinds are established and served, classes are there. Most are
//! within a moment, which is waited for on the spot; beyond that no worker is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everflow_api::condition;
use everflow_api::names::condition::RECONCILING;
use everflow_api::reason::Reason;
use everflow_apply::change::Action;
use everflow_apply::effects::{Applied, AppliedCache, Applier, ApplyPlan, Live};
use everflow_apply::health::Health;
use everflow_apply::health::custom::CustomChecks;
use everflow_apply::{ApplyError, ObjectId};
use everflow_json::Value;
use everflow_runtime::attempt::{Next, Report, Verdict};

use super::apply::{Outcome, Refusal, changes};
use super::attempt::Attempt;
use super::health::state;
use crate::stop::Stop;

/// How long a worker waits, and how often it looks.
const MOMENT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(250));
/// How long a stage may take in all.
const LONGEST: Duration = Duration::from_secs(60);

/// Since when a stage of a Kustomization is waited for, and for what. It is kept until it has settled: of an object that
/// was not applied anew nothing else says that it never did.
#[derive(Debug)]
pub(super) struct Settling {
    generation: i64,
    revision: String,
    since: Duration,
    open: BTreeSet<ObjectId>,
}

/// The versions that a definition serves, each with the kind; and whether objects have namespaces.
fn served(definition: &Value) -> Vec<((String, String), bool)> {
    let text = |at: &str| definition.pointer(at).and_then(Value::as_str);
    let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) else {
        return Vec::new();
    };
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let versions = versions.into_iter().flatten();
    let namespaced = text("/spec/scope") == Some("Namespaced");
    versions
        .filter(|version| version["served"] == true)
        .filter_map(|version| version["name"].as_str())
        .map(|version| ((format!("{group}/{version}"), kind.to_owned()), namespaced))
        .collect()
}

impl Attempt<'_> {
    /// Rehearses a stage. Kinds whose definitions were applied just now may take a moment to be served.
    pub(super) async fn prepare(
        &self,
        applier: &Applier,
        objects: &[Value],
        cache: &Arc<AppliedCache>,
        live: &dyn Live,
        before: &Outcome,
    ) -> Result<ApplyPlan, Refusal> {
        let defined: BTreeMap<(String, String), bool> = before
            .applied
            .iter()
            .filter(|applied| applied.change.entry.id.kind == "CustomResourceDefinition")
            .filter_map(|applied| applied.live.as_ref())
            .flat_map(served)
            .collect();
        let clock = &self.context.env.clock;
        let until = clock.elapsed() + MOMENT.0;
        loop {
            let errors = match applier.prepare(objects, cache, live).await {
                Ok(plan) => return Ok(plan),
                Err(errors) => errors,
            };
            if !errors.iter().all(|error| is_coming(error, &defined)) {
                return Err(Refusal::Objects(errors, changes(before)));
            }
            for entry in errors.iter().filter_map(ApplyError::entry) {
                applier.client.forget_version(&entry.api_version());
            }
            if clock.elapsed() >= until {
                let kinds = errors.iter().filter_map(ApplyError::entry);
                let kinds: Vec<String> = kinds.map(|entry| entry.id.kind.clone()).collect();
                let what = format!("the kind {}", kinds.join(", "));
                return Err(match self.not_yet(&what, BTreeSet::new()) {
                    Some(stop) => stop.into(),
                    None => Refusal::Objects(errors, changes(before)),
                });
            }
            clock.sleep(MOMENT.1).await;
        }
    }

    /// Waits until the objects of a stage are what they ask to be.
    pub(super) async fn settle(&self, applier: &Applier, applied: &[Applied]) -> Result<(), Stop> {
        let checks = CustomChecks::default();
        let clock = &self.context.env.clock;
        let until = clock.elapsed() + MOMENT.0;
        let mut open: Vec<&Applied> = applied
            .iter()
            .filter(|applied| applied.change.action != Action::Skipped)
            .collect();
        let known = self.waited_for();
        open.retain(|applied| {
            let waited_for = known.contains(&applied.change.entry.id);
            let live = applied.live.as_ref();
            let assessed = live.map(|live| checks.assess(live, clock.now()));
            // What nobody has touched, and nobody waits for, has settled before.
            waited_for || assessed.is_some_and(|assessed| assessed.health != Health::Current)
        });
        loop {
            let mut still = Vec::new();
            let mut shown = Vec::new();
            for applied in open {
                let entry = &applied.change.entry;
                let assessed = applier.health(entry, &checks, clock.now()).await;
                if assessed.health != Health::Current {
                    shown.push(state(entry, &assessed));
                    still.push(applied);
                }
            }
            open = still;
            if open.is_empty() {
                return Ok(());
            }
            if clock.elapsed() >= until {
                let shown = format!("[{}]", shown.join(", "));
                let open = open.iter().map(|it| it.change.entry.id.clone());
                return Err(self.not_yet(&shown, open.collect()).unwrap_or_else(|| {
                    let message = format!("timeout waiting for: {shown}");
                    Stop::failed(Reason::ReconciliationFailed, message)
                }));
            }
            self.context.check()?;
            clock.sleep(MOMENT.1).await;
        }
    }

    /// What an earlier attempt waited for.
    fn waited_for(&self) -> BTreeSet<ObjectId> {
        let settling = self.controller.settling();
        let known = settling.get(&self.context.key);
        known.map(|it| it.open.clone()).unwrap_or_default()
    }

    /// A stage takes longer than a moment; `None` when it has taken too long.
    fn not_yet(&self, what: &str, open: BTreeSet<ObjectId>) -> Option<Stop> {
        let (key, now) = (&self.context.key, self.now());
        let (generation, revision) = (self.draft.generation, &self.draft.revision);
        let mut settling = self.controller.settling();
        let known = settling.get(key);
        let known = known.filter(|it| it.generation == generation && it.revision == *revision);
        let since = known.map_or(self.started, |it| it.since);
        let mark = Settling {
            generation,
            revision: revision.clone(),
            since,
            open,
        };
        settling.insert(key.clone(), mark);
        let waited = now.saturating_sub(since);
        (waited < LONGEST).then(|| Stop::Unsettled {
            what: what.to_owned(),
            waited,
        })
    }

    /// Says what is waited for, and lets others work.
    pub(super) fn await_stage(mut self, what: &str, waited: Duration) -> Report {
        let message = self.stage(&format!("Waiting for {what}"));
        let before = condition::find(&self.before().conditions, RECONCILING);
        let is_said = before.is_some_and(|it| {
            it.message == message && it.observed_generation == self.draft.generation
        });
        self.draft.progress(&message);
        let next = Next::When {
            changes: self.wakes(),
            // What takes long is looked at less often.
            no_later_than: MOMENT.0.max(waited / 4),
        };
        let written = self.written;
        let mut report = self.draft.report(next, Verdict::Waiting);
        if written || is_said {
            report.status = None;
        }
        report
    }

    /// What is known of kinds whose definitions were just applied is out of date.
    pub(super) fn note_definitions(&self, applier: &Applier, applied: &[Applied]) {
        for applied in applied {
            let written = matches!(applied.change.action, Action::Created | Action::Configured);
            let Some(live) = applied.live.as_ref().filter(|_| written) else {
                continue;
            };
            if applied.change.entry.id.kind != "CustomResourceDefinition" {
                continue;
            }
            let group = live.pointer("/spec/group").and_then(Value::as_str);
            let versions = live.pointer("/spec/versions").and_then(Value::as_array);
            for version in versions.into_iter().flatten() {
                if let (Some(group), Some(version)) = (group, version["name"].as_str()) {
                    applier.client.forget_version(&format!("{group}/{version}"));
                }
            }
        }
    }
}

/// Whether an object was refused only because its kind, defined just now, is not served yet.
fn is_coming(error: &ApplyError, defined: &BTreeMap<(String, String), bool>) -> bool {
    let ApplyError::DryRun { entry, source } = error else {
        return false;
    };
    let namespaced = defined.get(&(entry.api_version(), entry.id.kind.clone()));
    namespaced.is_some_and(|namespaced| {
        // What lacks a namespace is never found.
        !(*namespaced && entry.id.namespace.is_empty()) && source.lacks_kind()
    })
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn only_served_versions_are_worth_waiting_for() {
        let definition = json!({"spec": {
            "group": "a.b", "names": {"kind": "K"}, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true}, {"name": "v1beta1", "served": false}],
        }});
        let expected = (("a.b/v1".to_owned(), "K".to_owned()), true);
        assert_eq!(served(&definition), [expected]);
        assert!(served(&json!({})).is_empty());
    }
}
