//! The rules, a module for each group.

mod chains;
mod leases;
mod replicas;
mod sharing;
mod volumes;

pub(crate) use chains::deliverer;

use crate::finding::Finding;
use crate::model::Model;
use crate::{Options, Severity};

/// What every rule finds, without its proven patch.
pub(crate) fn find(model: &Model, options: &Options) -> Vec<Finding> {
    let critical = model.critical();
    let mut findings = sharing::find(model, &critical);
    findings.extend(chains::find(model, &critical));
    findings.extend(replicas::find(model, &critical));
    findings.extend(volumes::find(model, &critical));
    findings.extend(leases::find(model, &critical, options));
    findings.sort_by(|one, other| {
        let key = |finding: &Finding| (finding.severity, finding.rule, finding.subjects.clone());
        key(one).cmp(&key(other))
    });
    findings
}

/// A finding without a patch.
pub(crate) fn finding(
    rule: crate::Rule,
    severity: Severity,
    subjects: Vec<String>,
    message: String,
    remedy: &str,
) -> Finding {
    Finding {
        rule,
        severity,
        subjects,
        message,
        remedy: remedy.to_owned(),
        fix: None,
        changes: Vec::new(),
    }
}

/// Words as a list: `a, b and c`.
pub(crate) fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
