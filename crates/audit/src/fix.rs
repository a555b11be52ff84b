//! Patches, tried on the model before they are told.

use everflow_json::{Value, json};
use everflow_yaml::emit::sigs;

use crate::finding::{Change, Finding, Fix, Form, Severity};
use crate::model::{Model, ObjectId};
use crate::rules::{deliverer, find};
use crate::selector::labels_of;
use crate::{Options, placement};

/// The smallest part of what a finding proposes that mends it and makes nothing else worse: each
/// change alone first, then all of them.
pub(crate) fn prove(
    model: &Model,
    options: &Options,
    findings: &[Finding],
    index: usize,
) -> Option<Fix> {
    let finding = findings.get(index)?;
    let alone = finding.changes.iter().map(std::slice::from_ref);
    let all = (finding.changes.len() > 1).then_some(finding.changes.as_slice());
    let mended = alone
        .chain(all)
        .find(|changes| mends(model, options, findings, finding, changes))?;
    Some(written(model, mended))
}

fn mends(
    model: &Model,
    options: &Options,
    before: &[Finding],
    finding: &Finding,
    changes: &[Change],
) -> bool {
    let mut changed = model.clone();
    let mut touched: Vec<ObjectId> = Vec::new();
    for change in changes {
        match change {
            Change::Patch(id, patch) => {
                if changed.patch(id, patch).is_err() {
                    return false;
                }
                touched.push(id.clone());
            }
            Change::Add(object) => changed.objects.push(object.clone()),
        }
    }
    for id in &touched {
        placement::place(&mut changed, id);
    }
    let after = find(&changed, options);
    let gone = after
        .iter()
        .all(|left| left.identity() != finding.identity());
    let mut worse = after.iter().filter(|new| new.severity < Severity::Note);
    gone && worse.all(|new| before.iter().any(|old| old.identity() == new.identity()))
}

/// Changes as the text that somebody commits.
fn written(model: &Model, changes: &[Change]) -> Fix {
    let texts: Vec<(Form, String, String)> = changes
        .iter()
        .map(|change| match change {
            Change::Add(object) => (Form::Object, ObjectId::of(object).to_string(), sigs(object)),
            Change::Patch(id, patch) => patched(model, id, patch),
        })
        .collect();
    let (form, place) = match texts.first() {
        Some((form, place, _)) => (*form, place.clone()),
        None => (Form::Kustomize, String::new()),
    };
    let texts: Vec<String> = texts.into_iter().map(|(.., text)| text).collect();
    Fix {
        form,
        place,
        text: texts.join("---\n"),
    }
}

/// A patch where it lasts: in what makes the object.
fn patched(model: &Model, id: &ObjectId, patch: &Value) -> (Form, String, String) {
    let object = model.find(id);
    let labels = object.map(labels_of).unwrap_or_default();
    let mut whole = json!({
        "apiVersion": object.and_then(|object| object.get("apiVersion")).cloned().unwrap_or_default(),
        "kind": id.kind,
        "metadata": {"name": id.name},
    });
    if !id.namespace.is_empty() {
        whole["metadata"]["namespace"] = id.namespace.as_str().into();
    }
    if let (Some(whole), Some(patch)) = (whole.as_object_mut(), patch.as_object()) {
        for (key, value) in patch.iter() {
            whole.insert(key.as_str().into(), value.clone());
        }
    }
    let entry = json!({
        "target": {"kind": id.kind, "name": id.name},
        "patch": sigs(&whole),
    });
    let text = |key: &str| labels.get(key).and_then(Value::as_str);
    let instance =
        text("fluxcd.controlplane.io/name").zip(text("fluxcd.controlplane.io/namespace"));
    if let Some((name, namespace)) = instance {
        let place = format!("FluxInstance/{namespace}/{name}");
        let around = json!({
            "apiVersion": "fluxcd.controlplane.io/v1",
            "kind": "FluxInstance",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"kustomize": {"patches": [entry]}},
        });
        return (Form::FluxInstance, place, sigs(&around));
    }
    match object
        .and_then(deliverer)
        .filter(|by| by.kind == "HelmRelease")
    {
        Some(by) => {
            let around = json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2",
                "kind": "HelmRelease",
                "metadata": {"name": by.name, "namespace": by.namespace},
                "spec": {"postRenderers": [{"kustomize": {"patches": [entry]}}]},
            });
            (Form::HelmRelease, by.to_string(), sigs(&around))
        }
        None => (Form::Kustomize, id.to_string(), sigs(&whole)),
    }
}
