//! Leases that a slow API server lets run out.

use std::time::Duration;

use everflow_json::{Value, json};

use super::finding;
use crate::Options;
use crate::finding::{Change, Finding, Rule, Severity};
use crate::model::{Critical, Model, ObjectId};
use crate::roles::Delivery;

/// Shorter ones are lost in the blips of ordinary API servers.
const SHORTEST: Duration = Duration::from_secs(15);
/// A lease must outlast so many answers at the API server's worst.
const ANSWERS: u32 = 20;
const FLAG: &str = "--leader-election-lease-duration=";

pub(super) fn find(model: &Model, critical: &[Critical<'_>], options: &Options) -> Vec<Finding> {
    let needed = SHORTEST.max(options.latency * ANSWERS);
    let why = match needed > SHORTEST {
        true => format!(
            "the API server took up to {:.1}s to answer",
            options.latency.as_secs_f64()
        ),
        false => "ordinary blips of an API server take longer".to_owned(),
    };
    let delivery = critical
        .iter()
        .filter(|workload| workload.role.delivers == Delivery::Is);
    let mut findings: Vec<Finding> = delivery
        .filter_map(|workload| by_flag(workload, needed, &why))
        .collect();
    let covered = !findings.is_empty();
    let leases = model.of_kind("Lease").filter(|lease| {
        let id = ObjectId::of(lease);
        !covered && id.name.contains("-leader-election")
    });
    findings.extend(leases.filter_map(|lease| {
        let seconds = lease.pointer("/spec/leaseDurationSeconds")?.as_u64()?;
        // A lease that was handed over is written with one second.
        let held = lease.pointer("/spec/holderIdentity")?.as_str()?;
        if held.is_empty() || Duration::from_secs(seconds) >= needed {
            return None;
        }
        let id = ObjectId::of(lease).to_string();
        let message = format!("{id} holds for {seconds}s only: {why}");
        let remedy = "give its controller longer times, such as 35s, 30s and 5s";
        Some(finding(
            Rule::ShortLease,
            Severity::Warning,
            vec![id],
            message,
            remedy,
        ))
    }));
    findings
}

fn by_flag(workload: &Critical<'_>, needed: Duration, why: &str) -> Option<Finding> {
    let containers = workload.pod_spec()["containers"].as_array()?;
    let (container, arguments, duration) = containers.iter().find_map(|container| {
        let arguments = container["args"].as_array()?;
        let text = arguments
            .iter()
            .find_map(|text| text.as_str()?.strip_prefix(FLAG))?;
        let duration = everflow_time::Duration::parse(text).ok()?.unsigned();
        Some((container, arguments, duration))
    })?;
    if duration >= needed {
        return None;
    }
    let message = format!(
        "the lease of {} holds for {duration:?} only: {why}",
        workload.shown()
    );
    let longer = needed.max(Duration::from_secs(35)).as_secs();
    let flags = ["lease-duration", "renew-deadline", "retry-period"];
    let is_time = |text: &Value| {
        let text = text.as_str().unwrap_or_default();
        flags
            .iter()
            .any(|flag| text.starts_with(&format!("--leader-election-{flag}=")))
    };
    let mut patched: Vec<Value> = arguments
        .iter()
        .filter(|text| !is_time(text))
        .cloned()
        .collect();
    for (flag, seconds) in flags.iter().zip([longer, longer - 5, 5]) {
        patched.push(format!("--leader-election-{flag}={seconds}s").into());
    }
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": container["name"].clone(), "args": patched},
    ]}}}});
    let remedy = "give it longer times";
    let subjects = vec![workload.id.to_string()];
    let mut found = finding(
        Rule::ShortLease,
        Severity::Warning,
        subjects,
        message,
        remedy,
    );
    found.changes = vec![Change::Patch(workload.id.clone(), patch)];
    Some(found)
}
