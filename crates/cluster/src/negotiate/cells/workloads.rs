//! Cells of workloads and what scales them.

use everflow_json::Value;

use super::row::{Row, containers, labels, selector, show};
use crate::kinds::meta;
use crate::negotiate::table::{age, human_duration};
use crate::time::Timestamp;

pub(super) fn deployment(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = containers(row.object.pointer("/spec/template/spec"));
    let ready = format!(
        "{}/{}",
        row.number("/status/readyReplicas"),
        row.number("/spec/replicas")
    );
    vec![
        row.name(),
        ready.into(),
        row.number("/status/updatedReplicas").into(),
        row.number("/status/availableReplicas").into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/selector")).into(),
    ]
}

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = containers(row.object.pointer("/spec/template/spec"));
    let mut cells = vec![row.name()];
    for key in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ] {
        cells.push(row.number(&format!("/status/{key}")).into());
    }
    cells.extend([
        labels(row.object.pointer("/spec/template/spec/nodeSelector")).into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/selector")).into(),
    ]);
    cells
}

pub(super) fn job(row: &Row<'_>) -> Vec<Value> {
    let done = row.number("/status/succeeded");
    let completions = match row
        .object
        .pointer("/spec/completions")
        .and_then(Value::as_i64)
    {
        Some(wanted) => format!("{done}/{wanted}"),
        None if row.number("/spec/parallelism") > 1 => {
            format!("{done}/1 of {}", row.number("/spec/parallelism"))
        }
        None => format!("{done}/1"),
    };
    let started = Timestamp::parse(row.str("/status/startTime"));
    let ended = Timestamp::parse(row.str("/status/completionTime"));
    let duration = started.map_or(String::new(), |started| {
        human_duration(ended.unwrap_or(row.now).seconds() - started.seconds())
    });
    let has = |kind: &str| {
        row.list("/status/conditions").iter().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(kind)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    };
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if meta::is_terminating(row.object) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let (names, images) = containers(row.object.pointer("/spec/template/spec"));
    vec![
        row.name(),
        status.into(),
        completions.into(),
        duration.into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/selector")).into(),
    ]
}

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = containers(row.object.pointer("/spec/jobTemplate/spec/template/spec"));
    let last = row.str("/status/lastScheduleTime");
    let last = if last.is_empty() {
        "<none>".to_owned()
    } else {
        age(last, row.now)
    };
    let suspend = if row.flag("/spec/suspend") {
        "True"
    } else {
        "False"
    };
    vec![
        row.name(),
        row.text("/spec/schedule"),
        row.text_or("/spec/timeZone", "<none>"),
        suspend.into(),
        row.count("/status/active").into(),
        last.into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/jobTemplate/spec/selector")).into(),
    ]
}

pub(super) fn autoscaler(row: &Row<'_>) -> Vec<Value> {
    let reference = format!(
        "{}/{}",
        row.str("/spec/scaleTargetRef/kind"),
        row.str("/spec/scaleTargetRef/name")
    );
    let minimum = row
        .object
        .pointer("/spec/minReplicas")
        .and_then(Value::as_i64)
        .map_or("<unset>".to_owned(), |count| count.to_string());
    let metrics: Vec<String> = row
        .list("/spec/metrics")
        .iter()
        .enumerate()
        .map(|(index, metric)| metric_text(metric, row.list("/status/currentMetrics").get(index)))
        .collect();
    let metrics = match metrics.len() {
        0 => "<none>".to_owned(),
        count if count > 2 => format!("{} + {} more...", metrics[..2].join(", "), count - 2),
        _ => metrics.join(", "),
    };
    vec![
        row.name(),
        reference.into(),
        metrics.into(),
        minimum.into(),
        row.number("/spec/maxReplicas").into(),
        row.number("/status/currentReplicas").into(),
        row.age(),
    ]
}

pub(super) fn metric_text(metric: &Value, current: Option<&Value>) -> String {
    let kind = metric
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let key = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let at = |pointer: &str| metric.pointer(&format!("/{key}/{pointer}"));
    let now = |pointer: &str| {
        current
            .and_then(|current| current.pointer(&format!("/{key}/current/{pointer}")))
            .map_or("<unknown>".to_owned(), show)
    };
    let named = |text: String| match kind {
        "Resource" | "ContainerResource" => format!(
            "{}: {text}",
            at("name").and_then(Value::as_str).unwrap_or_default()
        ),
        _ => text,
    };
    if let Some(average) = at("target/averageValue") {
        let suffix = if matches!(kind, "External" | "Object") {
            " (avg)"
        } else {
            ""
        };
        return named(format!("{}/{}{suffix}", now("averageValue"), show(average)));
    }
    if matches!(kind, "Resource" | "ContainerResource") {
        let target = at("target/averageUtilization")
            .map_or("<auto>".to_owned(), |percent| format!("{percent}%"));
        let used = current
            .and_then(|current| current.pointer(&format!("/{key}/current/averageUtilization")))
            .map_or("<unknown>".to_owned(), |percent| format!("{percent}%"));
        return named(format!("{used}/{target}"));
    }
    format!(
        "{}/{}",
        now("value"),
        at("target/value").map_or(String::new(), show)
    )
}
