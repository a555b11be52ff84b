//! The FluxReport: what is installed, and how all Flux objects stand.

use everflow_api::crd::KINDS;
use everflow_api::names::condition as types;
use everflow_api::view;
use everflow_install::{Options, VERSION};
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Client, Patch, Resource, Selection, WriteOptions};
use everflow_time::Timestamp;
use http::Method;

use crate::{MANAGER, NAME, REPORTS};

const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");

/// Writes the report; a cluster that does not know the kind gets none.
pub(crate) async fn write(
    client: &Client,
    instance: &Value,
    options: &Options,
    rollout: &Result<(), String>,
    now: Timestamp,
) -> Result<(), Error> {
    let mut reconcilers = Vec::new();
    for info in KINDS {
        let resource = Resource {
            group: info.group.into(),
            version: info.version.into(),
            plural: info.plural.into(),
            kind: info.kind.into(),
            namespaced: true,
        };
        match client
            .list_all(&resource, None, &Selection::default())
            .await
        {
            Ok(list) => reconcilers.push(json!({
                "apiVersion": resource.api_version(),
                "kind": info.kind,
                "stats": stats(&list.items),
            })),
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let version = client.ask(Method::GET, "/version", "application/json", None);
    let version = version.await?;
    let nodes = client
        .list_all(&NODES, None, &Selection::default().metadata())
        .await;
    let nodes = nodes.map_or(0, |list| list.items.len());
    let mut spec = json!({
        "distribution": {
            "entitlement": "Unknown",
            "status": "Installed",
            "version": VERSION,
            "managedBy": "everflow",
        },
        "cluster": {
            "serverVersion": version["gitVersion"],
            "platform": version["platform"],
            "nodes": nodes,
        },
        "operator": {
            "apiVersion": "fluxcd.controlplane.io/v1",
            "version": VERSION,
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        },
        "components": components(options, rollout),
        "reconcilers": reconcilers,
    });
    if let Some(sync) = sync(client, instance, options).await {
        spec["sync"] = sync;
    }
    let namespace = view::namespace(instance);
    let object = json!({
        "apiVersion": "fluxcd.controlplane.io/v1",
        "kind": "FluxReport",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": spec,
    });
    let by = WriteOptions::by(MANAGER).force();
    let at = At::new(namespace, NAME);
    let written = client.patch(&REPORTS, at, &Patch::Apply(object), &by).await;
    let written = match written {
        Ok(written) => written,
        Err(Error::NotFound(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let condition = json!({
        "type": types::READY,
        "status": "True",
        "reason": "Succeeded",
        "message": "Reporting finished",
        "lastTransitionTime": now.truncated().to_string(),
        "observedGeneration": view::generation(&written),
    });
    if view::is_true(&written, types::READY) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let by = WriteOptions::by(MANAGER);
    client.patch(&REPORTS, at.status(), &patch, &by).await?;
    Ok(())
}

/// One process does the work of all of them.
fn components(options: &Options, rollout: &Result<(), String>) -> Value {
    let (ready, status) = match rollout {
        Ok(()) => (true, "Current Deployment is available".to_owned()),
        Err(why) => (false, format!("InProgress {why}")),
    };
    let one = |name: &str| json!({"name": name, "ready": ready, "status": status, "image": options.image()});
    let all = options
        .components
        .iter()
        .map(|component| one(component.name()));
    all.collect::<Vec<_>>().into()
}

/// How many objects of a kind there are in which state.
fn stats(objects: &[Value]) -> Value {
    let suspended = objects
        .iter()
        .filter(|object| view::is_suspended(object))
        .count();
    let is_failing = |object: &&Value| {
        !view::is_suspended(object)
            && view::condition(object, types::READY).is_some_and(|ready| {
                ready["status"] == "False" && ready["reason"] != "DependencyNotReady"
            })
    };
    let failing = objects.iter().filter(is_failing).count();
    let sizes = objects
        .iter()
        .filter_map(|object| object["status"]["artifact"]["size"].as_u64());
    let bytes: u64 = sizes.sum();
    let mut stats = json!({
        "running": objects.len() - suspended,
        "failing": failing,
        "suspended": suspended,
    });
    if bytes > 0 {
        stats["totalSize"] = json!(size(bytes));
    }
    stats
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut amount, mut unit) = (bytes as f64, 0);
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{amount:.1} {}", UNITS[unit]),
    }
}

/// How the sync stands; nothing without one.
async fn sync(client: &Client, instance: &Value, options: &Options) -> Option<Value> {
    let sync = instance["spec"].get("sync")?;
    let name = sync["name"].as_str().filter(|name| !name.is_empty());
    let name = name.unwrap_or(&options.namespace);
    let mut told = json!({
        "id": format!("kustomization/{name}"),
        "path": sync["path"],
        "source": sync["url"],
        "ready": false,
        "status": "not found",
    });
    let kustomizations = Resource::namespaced(
        "kustomize.toolkit.fluxcd.io",
        "v1",
        "kustomizations",
        "Kustomization",
    );
    if let Ok(object) = client
        .get(&kustomizations, At::new(&options.namespace, name))
        .await
    {
        let ready = view::condition(&object, types::READY);
        told["ready"] = json!(ready.is_none_or(|ready| ready["status"] != "False"));
        told["status"] = match ready {
            Some(ready) => ready["message"].clone(),
            None => json!("not reconciled yet"),
        };
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspended_objects_neither_run_nor_fail() {
        let ready = |status: &str, reason: &str| json!([{"type": "Ready", "status": status, "reason": reason}]);
        let objects = [
            json!({"spec": {"suspend": true}, "status": {"conditions": ready("False", "X")}}),
            json!({"status": {"conditions": ready("False", "X"), "artifact": {"size": 2048}}}),
            json!({"status": {"conditions": ready("False", "DependencyNotReady")}}),
            json!({"status": {"conditions": ready("True", "X")}}),
        ];
        let wanted = json!({"running": 3, "failing": 1, "suspended": 1, "totalSize": "2.0 KiB"});
        assert_eq!(stats(&objects), wanted);
    }
}
