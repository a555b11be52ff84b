//! The guard rail: when many releases at once would be reinstalled, put right or uninstalled, and nobody has asked for
//! it in their specs, something else is wrong. Then it is done one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everflow_api::names::condition;
use everflow_api::{Reason, view};
use everflow_json::Value;
use everflow_release::decide::Decision;
use everflow_release::state::GoOn;
use everflow_release::status::mark_waiting;
use everflow_runtime::attempt::{Context, Next, Report, Verdict};
use everflow_runtime::events::{Event, Severity};
use everflow_runtime::queue::Key;

use super::attempt::Attempt;
use super::rounds::Work;
use crate::resources;

/// For how long a release counts as one of those that are in trouble at once.
const AT_ONCE: Duration = Duration::from_secs(600);
/// How often one may go on while the guard holds the others.
const ONE_BY_ONE: Duration = Duration::from_secs(30);

/// What is said of releases that are held, by which the next process knows them.
const HELD_WORDS: &str = "would be reinstalled, put right or uninstalled at once, and nothing in their specs asks for \
                          it";

/// The metric of releases that are held.
const HELD: &str = "everflow_helm_releases_held";

/// Who is in trouble.
#[derive(Debug, Default)]
pub(super) struct Guard {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Since when each is.
    troubled: BTreeMap<Key, Duration>,
    /// When the last one was let through although the guard holds.
    last: Option<Duration>,
    /// Those that the process before has held, once it was looked for them: they go on one by one.
    held_before: Option<BTreeSet<Key>>,
}

/// Whether an action may be done now.
pub(super) enum Allowed {
    Now,
    NotNow(Box<Report>),
}

impl Attempt<'_> {
    /// Holds an action back that too many releases would need at once.
    pub(super) fn guarded(&mut self, work: &Work, decision: &Decision) -> Allowed {
        let limits = &self.options().helm.guard;
        if !self.is_troubled(work, decision) || !limits.enabled {
            return Allowed::Now;
        }
        let now = self.context.env.clock.elapsed();
        let all = self.controller.claims.count();
        let (count, may) = {
            let guard = &self.controller.guard;
            let mut state = guard.state.lock().unwrap_or_else(PoisonError::into_inner);
            let before = state
                .held_before
                .get_or_insert_with(|| held_before(self.context).into_iter().collect());
            let was_held = before.contains(&self.context.key);
            state
                .troubled
                .retain(|_, since| now.saturating_sub(*since) < AT_ONCE);
            state
                .troubled
                .entry(self.context.key.clone())
                .or_insert(now);
            let count = state.troubled.len();
            let are_many = count > limits.most && count * 100 > all * limits.percent;
            let holds = are_many || was_held;
            let is_turn = state
                .last
                .is_none_or(|last| now.saturating_sub(last) >= ONE_BY_ONE);
            if holds && is_turn {
                state.last = Some(now);
            }
            (if holds { count } else { 0 }, !holds || is_turn)
        };
        let held = u32::try_from(count).unwrap_or(u32::MAX);
        self.controller.metrics.set(HELD, &[], f64::from(held));
        if may {
            return Allowed::Now;
        }
        let message = format!(
            "{count} of {all} releases {HELD_WORDS}: they are gone on with one by one; look whether records of releases or sources were \
             lost, and suspend what must not be touched (--helm-guard-rail-most, --helm-guard-rail-percent)"
        );
        let reason = Reason::PendingRelease.as_str();
        self.events
            .push(Event::new(Severity::Error, reason, &message));
        let now = self.now();
        mark_waiting(&mut self.object, &message, now);
        let next = Next::At(ONE_BY_ONE);
        Allowed::NotNow(Box::new(self.take_report(next, Verdict::Waiting)))
    }

    /// Whether an action destroys or remakes what is there, and not because the object's spec asks for it.
    fn is_troubled(&self, work: &Work, decision: &Decision) -> bool {
        let status = &self.before;
        let is_unchanged = status.last_attempted_generation == self.object.metadata.generation;
        let was_released = !status.history.is_empty();
        let is_new = work.records.storage.records().next().is_none();
        match decision {
            Decision::Install => was_released && is_unchanged && is_new,
            Decision::Rollback { .. } | Decision::UninstallRemediation => is_unchanged,
            Decision::GoOn {
                how: GoOn::Again, ..
            } => is_unchanged,
            _ => false,
        }
    }
}

/// The releases that a process before this one has held, as their statuses say.
fn held_before(context: &Context) -> Vec<Key> {
    let Some(store) = context.store(&resources::HELM_RELEASES.kind) else {
        return Vec::new();
    };
    let is_held = |value: &Value| {
        let said = view::condition(value, condition::RECONCILING);
        let message = said.and_then(|said| said["message"].as_str());
        message.is_some_and(|message| message.contains(HELD_WORDS))
    };
    let all = store.list(None).into_iter();
    let held = all.filter(|stored| is_held(&stored.value()));
    held.map(|stored| {
        let (namespace, name) = stored.key();
        Key::new(resources::HELM_RELEASES.kind.clone(), namespace, name)
    })
    .collect()
}
