//! Metrics in Prometheus' text format, under Flux's names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client::{LATENCY_BUCKETS, Meter};

/// The kinds of metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Counter,
    Gauge,
    Histogram(&'static [f64]),
}

/// All metrics: name, shape and what they tell.
const KNOWN: &[(&str, Shape, &str)] = &[
    (
        "gotk_reconcile_duration_seconds",
        Shape::Histogram(&GOTK),
        "The duration in seconds of a GitOps Toolkit resource reconciliation.",
    ),
    (
        "controller_runtime_reconcile_total",
        Shape::Counter,
        "Total number of reconciliations per controller",
    ),
    (
        "controller_runtime_reconcile_errors_total",
        Shape::Counter,
        "Total number of reconciliation errors per controller",
    ),
    (
        "controller_runtime_reconcile_panics_total",
        Shape::Counter,
        "Total number of reconciliation panics per controller",
    ),
    (
        "controller_runtime_reconcile_time_seconds",
        Shape::Histogram(&RECONCILE),
        "Length of time per reconciliation per controller",
    ),
    (
        "controller_runtime_active_workers",
        Shape::Gauge,
        "Number of currently used workers per controller",
    ),
    (
        "workqueue_depth",
        Shape::Gauge,
        "Current depth of workqueue",
    ),
    (
        "workqueue_queue_duration_seconds",
        Shape::Histogram(&LATENCY_BUCKETS),
        "How long in seconds an item stays in workqueue before being requested",
    ),
    (
        "workqueue_longest_running_processor_seconds",
        Shape::Gauge,
        "How many seconds has the longest running processor been running",
    ),
    (
        "everflow_workqueue_oldest_seconds",
        Shape::Gauge,
        "How long the item that has waited longest for its turn has waited",
    ),
    (
        "everflow_orphan_keys",
        Shape::Gauge,
        "Objects that live but have no next attempt: must be 0",
    ),
    (
        "everflow_orphan_keys_found_total",
        Shape::Counter,
        "Objects that were found without a next attempt and given one: must be 0",
    ),
    (
        "everflow_cache_age_seconds",
        Shape::Gauge,
        "How long ago the API server was last heard about a kind",
    ),
    (
        "everflow_cache_objects",
        Shape::Gauge,
        "Objects of a kind in memory",
    ),
    (
        "everflow_preflight_checks_total",
        Shape::Counter,
        "New objects, by who checked them before they were written, and why",
    ),
    (
        "everflow_status_writes_total",
        Shape::Counter,
        "What became of writes of the status",
    ),
    (
        "everflow_events_dropped_total",
        Shape::Counter,
        "Events that were not delivered, by why",
    ),
    (
        "everflow_notifications_total",
        Shape::Counter,
        "What became of notifications",
    ),
    (
        "everflow_notifications_waiting",
        Shape::Gauge,
        "Notifications that are still to be delivered",
    ),
    (
        "everflow_webhooks_total",
        Shape::Counter,
        "Requests to webhooks, by the status of the answer",
    ),
    (
        "everflow_sigstore_root_refreshes_total",
        Shape::Counter,
        "What became of refreshes of the root of trust for keyless signatures",
    ),
    (
        "everflow_leader",
        Shape::Gauge,
        "Whether this process leads",
    ),
    (
        "everflow_shards_held",
        Shape::Gauge,
        "How many shards of the work this replica holds",
    ),
    (
        "everflow_replicas",
        Shape::Gauge,
        "How many replicas share the work, as far as this one knows",
    ),
    (
        "everflow_replica_slow",
        Shape::Gauge,
        "Whether this replica has handed its shards over because its way to the API servers is slow",
    ),
    (
        "everflow_api_endpoint_healthy",
        Shape::Gauge,
        "Whether an address of the API servers works, as far as is known",
    ),
    (
        "everflow_api_endpoint_taken",
        Shape::Gauge,
        "Whether requests go to this address of the API servers",
    ),
    (
        "everflow_api_endpoint_changes_total",
        Shape::Counter,
        "How often requests went to another address of the API servers from then on, by why",
    ),
    (
        "rest_client_requests_total",
        Shape::Counter,
        "Number of HTTP requests, partitioned by status code, method, and host.",
    ),
    (
        "rest_client_request_duration_seconds",
        Shape::Histogram(&LATENCY_BUCKETS),
        "Request latency in seconds. Broken down by verb, and host.",
    ),
];

/// Ten bounds from 0.01 to 1800, each the same multiple of the one before.
const GOTK: [f64; 10] = [
    0.01,
    0.038_363_583_488_692_544,
    0.147_176_453_809_388_3,
    0.564_621_617_328_616_9,
    2.166_090_855_590_700_6,
    8.309_900_738_254_731,
    31.879_757_075_478_31,
    122.302_172_216_434_9,
    469.194_959_467_365_3,
    1_799.999_999_999_998_2,
];

const RECONCILE: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

#[derive(Debug, Clone, Default)]
struct Series {
    value: f64,
    buckets: Vec<u64>,
    count: u64,
}

type Labels = Vec<(String, String)>;

/// All that is counted and measured. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    inner: Arc<Mutex<BTreeMap<&'static str, BTreeMap<Labels, Series>>>>,
}

/// In families of up to so many series one is found by looking at all of them, without a copy of its labels.
const FEW: usize = 16;

/// Whether a series has these labels, which come in order most of the time.
fn is_named(named: &Labels, labels: &[(&str, &str)]) -> bool {
    let mut both = named.iter().zip(labels);
    named.len() == labels.len()
        && both.all(|((name, value), (label, with))| name == label && value == with)
}

impl Metrics {
    /// Nothing yet.
    pub fn new() -> Self {
        Metrics::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, BTreeMap<Labels, Series>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        name: &'static str,
        labels: &[(&str, &str)],
        change: impl FnOnce(&mut Series),
    ) {
        let mut inner = self.lock();
        let family = inner.entry(name).or_default();
        if family.len() <= FEW
            && let Some((_, series)) = family.iter_mut().find(|(known, _)| is_named(known, labels))
        {
            return change(series);
        }
        let mut named: Labels = labels
            .iter()
            .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()))
            .collect();
        named.sort();
        change(family.entry(named).or_default());
    }

    /// Counts one more.
    pub fn count(&self, name: &'static str, labels: &[(&str, &str)]) {
        self.change(name, labels, |series| series.value += 1.0);
    }

    /// Sets a gauge.
    pub fn set(&self, name: &'static str, labels: &[(&str, &str)], value: f64) {
        self.change(name, labels, |series| series.value = value);
    }

    /// Adds a measurement to a histogram.
    pub fn observe(&self, name: &'static str, labels: &[(&str, &str)], value: f64) {
        let bounds = bounds(name);
        self.change(name, labels, |series| {
            series.buckets.resize(bounds.len() + 1, 0);
            let place = bounds.iter().position(|bound| value <= *bound);
            series.buckets[place.unwrap_or(bounds.len())] += 1;
            series.value += value;
            series.count += 1;
        });
    }

    /// The value of a counter or gauge, or the number of measurements of a histogram.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let inner = self.lock();
        let family = inner.get(name);
        let wanted = |named: &Labels| {
            labels.iter().all(|(label, value)| {
                named
                    .iter()
                    .any(|(present, with)| present == label && with == value)
            })
        };
        let series = family.into_iter().flatten();
        let matching = series.filter(|(named, _)| wanted(named));
        matching
            .map(|(_, series)| match series.count {
                0 => series.value,
                count => count as f64,
            })
            .sum()
    }

    /// Forgets what was measured of an object that is gone.
    pub fn forget_object(&self, kind: &str, namespace: &str, name: &str) {
        let wanted = [("kind", kind), ("name", name), ("namespace", namespace)];
        for family in self.lock().values_mut() {
            family.retain(|labels, _| {
                labels.len() != wanted.len()
                    || !labels
                        .iter()
                        .zip(&wanted)
                        .all(|((label, value), wanted)| (label.as_str(), value.as_str()) == *wanted)
            });
        }
    }

    /// Takes over what a client has counted.
    pub fn take_over(&self, meter: &Meter, host: &str) {
        for ((method, code), count) in meter.requests() {
            let labels = [("code", &*code), ("host", host), ("method", &*method)];
            self.set("rest_client_requests_total", &labels, count as f64);
        }
        for (method, latency) in meter.latencies() {
            let labels = [("host", host), ("verb", &*method)];
            self.change("rest_client_request_duration_seconds", &labels, |series| {
                series.buckets = latency.buckets.to_vec();
                series.value = latency.sum;
                series.count = latency.count;
            });
        }
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let inner = self.lock();
        for (name, shape, help) in KNOWN {
            let Some(family) = inner.get(name).filter(|family| !family.is_empty()) else {
                continue;
            };
            let kind = match shape {
                Shape::Counter => "counter",
                Shape::Gauge => "gauge",
                Shape::Histogram(_) => "histogram",
            };
            // Writing to a string does not fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (labels, series) in family {
                match shape {
                    Shape::Histogram(bounds) => histogram(&mut text, name, labels, series, bounds),
                    _ => {
                        let _ = writeln!(text, "{name}{} {}", braces(labels, None), series.value);
                    }
                }
            }
        }
        text
    }
}

fn bounds(name: &str) -> &'static [f64] {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    match known {
        Some((_, Shape::Histogram(bounds), _)) => bounds,
        _ => &[],
    }
}

fn histogram(text: &mut String, name: &str, labels: &Labels, series: &Series, bounds: &[f64]) {
    let mut sum = 0;
    for (place, bound) in bounds.iter().enumerate() {
        sum += series.buckets.get(place).copied().unwrap_or_default();
        let bound = bound.to_string();
        let _ = writeln!(text, "{name}_bucket{} {sum}", braces(labels, Some(&bound)));
    }
    let all = braces(labels, Some("+Inf"));
    let _ = writeln!(text, "{name}_bucket{all} {}", series.count);
    let labels = braces(labels, None);
    let _ = writeln!(text, "{name}_sum{labels} {}", series.value);
    let _ = writeln!(text, "{name}_count{labels} {}", series.count);
}

fn braces(labels: &Labels, bound: Option<&str>) -> String {
    let escape = |value: &str| {
        let value = value.replace('\\', "\\\\");
        value.replace('"', "\\\"").replace('\n', "\\n")
    };
    let mut all: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{}\"", escape(value)))
        .collect();
    all.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    match all.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", all.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_can_read_it() {
        let metrics = Metrics::new();
        let object = [("kind", "Toy"), ("namespace", "a"), ("name", "x\"y")];
        metrics.observe("gotk_reconcile_duration_seconds", &object, 0.02);
        metrics.observe("gotk_reconcile_duration_seconds", &object, 4_000.0);
        metrics.count(
            "controller_runtime_reconcile_total",
            &[("controller", "toy"), ("result", "success")],
        );
        let text = metrics.text();
        for line in [
            "# TYPE gotk_reconcile_duration_seconds histogram",
            r#"gotk_reconcile_duration_seconds_bucket{kind="Toy",name="x\"y",namespace="a",le="0.01"} 0"#,
            r#"gotk_reconcile_duration_seconds_bucket{kind="Toy",name="x\"y",namespace="a",le="1799.9999999999982"} 1"#,
            r#"gotk_reconcile_duration_seconds_bucket{kind="Toy",name="x\"y",namespace="a",le="+Inf"} 2"#,
            r#"gotk_reconcile_duration_seconds_count{kind="Toy",name="x\"y",namespace="a"} 2"#,
            r#"controller_runtime_reconcile_total{controller="toy",result="success"} 1"#,
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "{line}\nin\n{text}"
            );
        }
        metrics.forget_object("Toy", "a", "x\"y");
        assert!(!metrics.text().contains("gotk_"));
        assert_eq!(
            metrics.get(
                "controller_runtime_reconcile_total",
                &[("controller", "toy")]
            ),
            1.0
        );
    }

    #[test]
    fn bounds_grow_evenly() {
        let factor = (1_800.0_f64 / 0.01).powf(1.0 / 9.0);
        for (place, bound) in GOTK.iter().enumerate() {
            let exact = 0.01 * factor.powi(i32::try_from(place).unwrap());
            assert!((bound / exact - 1.0).abs() < 1e-6, "{bound} {exact}");
        }
    }
}
