//! The source and the Kustomization that a FluxInstance asks for.

use everflow_json::{Value, json};

use crate::error::Error;
use crate::options::Options;

/// The objects of `spec.sync`; none without it.
pub(super) fn objects(instance: &Value, options: &Options) -> Result<Vec<Value>, Error> {
    let sync = &instance["spec"]["sync"];
    if !sync.is_object() {
        return Ok(Vec::new());
    }
    let text = |field: &str| sync[field].as_str().unwrap_or_default();
    for field in ["kind", "url", "ref", "path"] {
        if text(field).is_empty() {
            return Err(Error::field(format!("spec.sync.{field}"), "is required"));
        }
    }
    let name = match text("name") {
        "" => options.namespace.as_str(),
        name => name,
    };
    let kind = text("kind");
    let mut spec = json!({
        "interval": match text("interval") { "" => "1m", interval => interval },
    });
    match kind {
        "GitRepository" => {
            spec["url"] = json!(text("url"));
            spec["ref"] = json!({"name": text("ref")});
        }
        "OCIRepository" => {
            spec["url"] = json!(text("url"));
            spec["ref"] = json!({"tag": text("ref")});
        }
        "Bucket" => {
            spec["endpoint"] = json!(text("url"));
            spec["bucketName"] = json!(text("ref"));
        }
        kind => {
            let why = format!("{kind:?} is not one of GitRepository, OCIRepository and Bucket");
            return Err(Error::field("spec.sync.kind", why));
        }
    }
    if !text("provider").is_empty() {
        spec["provider"] = json!(text("provider"));
    }
    if !text("pullSecret").is_empty() {
        spec["secretRef"] = json!({"name": text("pullSecret")});
    }
    let metadata = json!({
        "name": name,
        "namespace": options.namespace,
        "labels": crate::names::labels(options),
    });
    let mut deploy = json!({
        "interval": "10m",
        "path": text("path"),
        "prune": true,
        "sourceRef": {"kind": kind, "name": name},
    });
    if options.multitenant {
        deploy["serviceAccountName"] = json!(options.platform_admin);
    }
    Ok(vec![
        json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind,
            "metadata": metadata, "spec": spec}),
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": metadata, "spec": deploy}),
    ])
}
