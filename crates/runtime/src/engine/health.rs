//! Whether an engine does its work.

use std::time::Duration;

use everflow_json::{Value, json};

use super::Shared;
use crate::lease::Leadership;

/// How long the dispatcher may be away before it counts as stuck: it looks at the clock at least
/// every half minute.
const STUCK: Duration = Duration::from_secs(90);

/// How long blocking work may go on after it was told to stop. It asks at least once a second; what does not end takes
/// a slot from everybody else, and only a restart gives it back.
const OVERDUE: Duration = Duration::from_secs(30);

/// Whether an engine is healthy and ready, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// What keeps it from working at all; a restart may help.
    pub unhealthy: Vec<String>,
    /// What keeps it from working fully.
    pub unready: Vec<String>,
}

impl Health {
    /// Whether it works.
    pub fn is_healthy(&self) -> bool {
        self.unhealthy.is_empty()
    }

    /// Whether it works fully.
    pub fn is_ready(&self) -> bool {
        self.unhealthy.is_empty() && self.unready.is_empty()
    }

    /// For the endpoint.
    pub fn to_value(&self) -> Value {
        json!({"unhealthy": self.unhealthy, "unready": self.unready})
    }
}

pub(super) fn health(shared: &Shared) -> Health {
    let mut health = Health::default();
    let now = shared.now();
    let silence = shared.options.reflector.silence + Duration::from_secs(60);
    for (kind, store) in shared.stores.iter() {
        match store.age() {
            _ if !store.is_synced() => health.unready.push(format!("{kind}: not listed yet")),
            Some(age) if age > silence => {
                let age = age.as_secs();
                health
                    .unready
                    .push(format!("{kind}: nothing heard for {age}s"));
            }
            _ => {}
        }
    }
    for overdue in shared.env.blocking.overdue() {
        if overdue.span > OVERDUE {
            let (lane, span) = (&overdue.lane, overdue.span.as_secs());
            let text = format!("work for {lane} goes on {span}s after its deadline");
            health.unhealthy.push(text);
        }
    }
    let state = shared.lock();
    match state.turned {
        None => health.unready.push("not started".into()),
        Some(turned) if now.saturating_sub(turned) > STUCK => {
            let away = (now - turned).as_secs();
            let text = format!("the queue has not moved for {away}s");
            health.unhealthy.push(text);
        }
        Some(_) => {}
    }
    let (_, longest) = state.queue.running(now);
    if longest > shared.options.longest_attempt {
        let text = format!("an attempt has run for {}s", longest.as_secs());
        health.unhealthy.push(text);
    }
    let flaws = state.queue.check().len();
    if flaws > 0 {
        let text = format!("{flaws} objects have no next attempt");
        health.unhealthy.push(text);
    }
    health
}

/// Brings gauges up to date.
pub(super) fn refresh(shared: &Shared) {
    let metrics = &shared.metrics;
    let now = shared.now();
    for (kind, store) in shared.stores.iter() {
        let labels = [("kind", kind.as_str())];
        if let Some(age) = store.age() {
            metrics.set("everflow_cache_age_seconds", &labels, age.as_secs_f64());
        }
        metrics.set("everflow_cache_objects", &labels, store.len() as f64);
    }
    if let Some(pool) = shared.env.blocking.memory() {
        metrics.set("everflow_work_memory_bytes", &[], pool.used() as f64);
        metrics.set("everflow_work_memory_limit_bytes", &[], pool.limit() as f64);
    }
    let overdue = shared.env.blocking.overdue().len();
    metrics.set("everflow_work_overdue", &[], overdue as f64);
    let orphans = shared.orphans().len();
    let state = shared.lock();
    let flaws = state.queue.check().len();
    metrics.set("everflow_orphan_keys", &[], (orphans + flaws) as f64);
    for (kind, depth) in state.queue.depth() {
        if let Some(controller) = shared.kinds.get(&kind) {
            let labels = [
                ("controller", controller.name()),
                ("name", controller.name()),
            ];
            metrics.set("workqueue_depth", &labels, depth as f64);
        }
    }
    let suspects = state.quarantine.len();
    metrics.set("everflow_quarantined_objects", &[], suspects as f64);
    let oldest = state.queue.oldest(now).as_secs_f64();
    metrics.set("everflow_workqueue_oldest_seconds", &[], oldest);
    let (running, longest) = state.queue.running(now);
    metrics.set("controller_runtime_active_workers", &[], running as f64);
    let longest = longest.as_secs_f64();
    metrics.set("workqueue_longest_running_processor_seconds", &[], longest);
    if let Some(leading) = &state.leading {
        let leads = matches!(leading, Leadership::Leader(epoch) if epoch.check().is_ok());
        metrics.set("everflow_leader", &[], f64::from(u8::from(leads)));
    }
    if let Some(shards) = &state.shards {
        let leads = f64::from(u8::from(!shards.held().is_empty()));
        metrics.set("everflow_leader", &[], leads);
    }
    drop(state);
    metrics.take_over(shared.client.meter(), "kubernetes");
}
