//! What is said of deliveries: Events and annotations on Alerts, metrics, the log.
//!
//! An Alert has no status, so what was delivered last, and what could not be, stands in annotations.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_env::Clock;
use everflow_json::{Map, Value, json};
use everflow_notify::alert::Warning;
use everflow_runtime::client::{At, Client, Patch, WriteOptions};
use everflow_runtime::events::{Event, Recorder, Severity};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_time::Timestamp;

use crate::alerts::Prepared;
use crate::resources::ALERTS;

/// When something was last delivered for an Alert, as RFC 3339.
pub const LAST_DELIVERY: &str = "notification.everflow.dev/last-delivery";
/// What could not be delivered last: when, as RFC 3339, a blank, and why.
pub const LAST_ERROR: &str = "notification.everflow.dev/last-error";

/// Whose fields these annotations are, and whose Events.
pub(crate) const CONTROLLER: &str = everflow_api::names::manager::NOTIFICATION;

/// News of errors, and of the first delivery after one, is written this soon.
const SOON: Duration = Duration::from_secs(2);
/// The time of the last delivery is written this often.
const NOW_AND_THEN: Duration = Duration::from_secs(60);
/// The longest error that is kept in an annotation.
const LONGEST_ERROR: usize = 1_024;

#[derive(Debug, Default)]
struct DeliveryState {
    delivered: Option<Timestamp>,
    failed: Option<(Timestamp, String)>,
    /// When it is to be written.
    due: Option<Duration>,
    written: Option<Duration>,
    /// Whether the last thing that happened was a failure.
    is_failing: bool,
}

/// Says what became of notifications.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) log: Logger,
    standings: BTreeMap<String, DeliveryState>,
}

impl Reports {
    pub(crate) fn new(recorder: Recorder, metrics: Metrics, log: Logger) -> Self {
        Reports {
            recorder,
            metrics,
            log,
            standings: BTreeMap::new(),
        }
    }

    /// Counts what became of a notification.
    pub(crate) fn count(&self, result: &str) {
        self.metrics
            .count("everflow_notifications_total", &[("result", result)]);
    }

    /// Warns of something on an Alert.
    pub(crate) fn warn(
        &self,
        alert: &Prepared,
        warning: &Warning,
        annotations: &BTreeMap<String, String>,
    ) {
        let mut event = Event::new(
            Severity::Error,
            warning.reason.as_str(),
            warning.message.clone(),
        );
        event.metadata.extend(annotations.clone());
        self.recorder
            .emit(CONTROLLER, &alert.object.to_value(), event);
        let name = alert.name();
        let fields = [("alert", name.as_str()), ("why", warning.message.as_str())];
        self.log.info("a notification was not sent", &fields);
    }

    /// Notes that something was delivered.
    pub(crate) fn delivered(&mut self, alert: &str, now: Timestamp, clock: &dyn Clock) {
        self.count("delivered");
        let standing = self.standings.entry(alert.to_owned()).or_default();
        standing.delivered = Some(now);
        let elapsed = clock.elapsed();
        let due = match (standing.is_failing, standing.written) {
            (false, Some(written)) => (written + NOW_AND_THEN).max(elapsed + SOON),
            _ => elapsed + SOON,
        };
        standing.is_failing = false;
        standing.due = Some(standing.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Notes that something could not be delivered.
    pub(crate) fn failed(&mut self, alert: &str, why: &str, now: Timestamp, clock: &dyn Clock) {
        let standing = self.standings.entry(alert.to_owned()).or_default();
        standing.failed = Some((now, why.chars().take(LONGEST_ERROR).collect()));
        standing.is_failing = true;
        let due = clock.elapsed() + SOON;
        standing.due = Some(standing.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// When something is to be written next.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.standings
            .values()
            .filter_map(|standing| standing.due)
            .min()
    }

    /// What is to be written now: Alerts and their annotations.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<(String, Value)> {
        let mut due = Vec::new();
        for (alert, standing) in &mut self.standings {
            if standing.due.take_if(|due| *due <= now).is_some() {
                standing.written = Some(now);
                due.push((alert.clone(), standing.annotations()));
            }
        }
        due
    }
}

impl DeliveryState {
    fn annotations(&self) -> Value {
        let mut annotations = Map::new();
        if let Some(delivered) = self.delivered {
            annotations.insert(LAST_DELIVERY.into(), delivered.rfc3339().into());
        }
        if let Some((failed, why)) = &self.failed {
            let text = format!("{} {why}", failed.rfc3339());
            annotations.insert(LAST_ERROR.into(), text.into());
        }
        Value::Object(annotations)
    }
}

/// Writes annotations of an Alert. That they are not written is no reason to do anything about it: they are written
/// again when there is news.
pub(crate) async fn annotate(client: Client, alert: String, annotations: Value) {
    let (namespace, name) = alert.split_once('/').unwrap_or_default();
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let options = WriteOptions::by(CONTROLLER).without_managed_fields();
    let _ = client
        .patch(&ALERTS, At::new(namespace, name), &patch, &options)
        .await;
}
