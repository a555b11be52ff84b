//! Findings as SARIF 2.1.0, which code hosts show beside changes.

use everflow_json::{Value, json};

use crate::finding::{Finding, Rule};

/// Findings as a SARIF log.
pub fn sarif(findings: &[Finding]) -> Value {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.code(),
                "name": rule.code(),
                "shortDescription": {"text": rule.about()},
            })
        })
        .collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "everflow audit",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": results,
        }],
    })
}

fn result(finding: &Finding) -> Value {
    let mut text = finding.message.clone();
    match &finding.fix {
        Some(fix) => {
            text.push_str(&format!(". This mends it, in {}:\n{}", fix.place, fix.text));
        }
        None => text.push_str(&format!(". {}", finding.remedy)),
    }
    let locations: Vec<Value> = finding
        .subjects
        .iter()
        .map(|subject| json!({"fullyQualifiedName": subject, "kind": "resource"}))
        .collect();
    json!({
        "ruleId": finding.rule.code(),
        "level": finding.severity.word(),
        "message": {"text": text},
        "locations": [{"logicalLocations": locations}],
    })
}
