//! What a world comes to: the same with and without faults.

use std::collections::BTreeMap;

use everflow_api::view::condition;
use everflow_cluster::ApiServer;
use everflow_controllers::source::named_by_revision;
use everflow_json::{Map, Value, json};

use super::is_flux;
use crate::scenario::Expectation;

/// All that matters of a world, by table and key.
pub type World = BTreeMap<String, Value>;

/// What the cluster makes by itself, under names left to chance.
const OF_THE_CLUSTER: [&str; 6] = [
    "/events",
    "/pods",
    "apps/replicasets",
    "coordination.k8s.io/leases",
    "discovery.k8s.io/endpointslices",
    "events.k8s.io/events",
];

/// What a cluster has come to. Objects that were there before `since` and not touched are left out.
pub fn picture(server: &ApiServer, since: u64) -> World {
    let mut world = World::new();
    let store = server.store();
    for table in store.tables() {
        if OF_THE_CLUSTER.contains(&&*table) {
            continue;
        }
        for stored in store.list(&table, "", None, 0).items {
            if stored.revision <= since {
                continue;
            }
            let object = &stored.value;
            if is_of_helm_alone(object) || super::news::is_memory(&table, &stored.value) {
                continue;
            }
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let name = format!("{table} {}/{}", text("namespace"), text("name"));
            let shown = match is_flux(&table) {
                true => of_flux(object),
                false => plain(object),
            };
            world.insert(name, shown);
        }
    }
    world
}

/// Records of releases tell when everything was and how often it was tried, and which hooks have run depends on how many
/// changes were taken together: rules of their own look at both.
fn is_of_helm_alone(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let is_hook = annotations.is_some_and(|all| all.get("helm.sh/hook").is_some());
    object["type"] == "helm.sh/release.v1" || is_hook
}

fn metadata(object: &Value) -> Value {
    let mut kept = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = object["metadata"].get(field) {
            kept.insert(field.into(), value.clone());
        }
    }
    // How often a workload was rolled out is not for the end to say.
    if let Some(Value::Object(annotations)) = kept.get_mut("annotations") {
        annotations.retain(|key, _| !key.starts_with("deployment.kubernetes.io/"));
        super::news::without_moments(annotations);
    }
    if kept.get("annotations") == Some(&json!({})) {
        kept.remove("annotations");
    }
    let going = !object["metadata"]["deletionTimestamp"].is_null();
    if going {
        kept.insert("going".into(), true.into());
    }
    kept.into()
}

fn plain(object: &Value) -> Value {
    let mut kept = Map::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        match field.as_str() {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => drop(kept.insert(field.clone(), metadata(object))),
            "spec" => drop(kept.insert(field.clone(), without_allocated(object))),
            _ => drop(kept.insert(field.clone(), value.clone())),
        }
    }
    kept.into()
}

/// The spec without the addresses that the server gives to a Service as chance has it.
fn without_allocated(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    if object["kind"] == "Service" && spec["clusterIP"] != "None" {
        for field in ["clusterIP", "clusterIPs"] {
            spec.as_object_mut().map(|spec| spec.remove(field));
        }
    }
    spec
}

fn of_flux(object: &Value) -> Value {
    let mut kept = plain(object);
    let status = &object["status"];
    let mut shown = Map::new();
    let seen = status["observedGeneration"] == object["metadata"]["generation"];
    shown.insert("observed".into(), seen.into());
    let all = status["conditions"].as_array();
    let is_release = object["kind"] == "HelmRelease";
    let conditions = all.into_iter().flatten().map(|one| {
        let mut condition =
            json!({"type": one["type"], "status": one["status"], "reason": one["reason"]});
        if one["type"] == "Ready" {
            condition["message"] = untimed(one["message"].as_str().unwrap_or_default()).into();
        }
        if is_release {
            uncounted(&mut condition);
        }
        condition
    });
    shown.insert("conditions".into(), conditions.collect::<Vec<_>>().into());
    for field in [
        "inventory",
        "lastAppliedRevision",
        "lastAttemptedRevision",
        "lastHandledReconcileAt",
        "url",
    ] {
        if let Some(value) = status.get(field) {
            let value = super::news::without_moment(object, field, value);
            shown.insert(field.into(), value);
        }
    }
    let digest = status["artifact"]["digest"].as_str().unwrap_or_default();
    for field in ["revision", "digest", "path", "url"] {
        if let Some(value) = status["artifact"].get(field).and_then(Value::as_str) {
            // Whether another artifact of the revision was named before, is not for the end to say.
            let value = named_by_revision(value, digest);
            shown.insert(format!("artifact {field}").into(), value.into());
        }
    }
    kept["status"] = shown.into();
    kept
}

/// A message without the spans in it.
fn untimed(message: &str) -> String {
    let words = message.split(' ').map(|word| {
        let number = word
            .chars()
            .next()
            .is_some_and(|first| first.is_ascii_digit());
        let span = word
            .trim_end_matches([',', '.', ';', ':'])
            .ends_with(['s', 'm', 'h']);
        if number && span { "TIME" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A condition of a HelmRelease without what depends on how many changes were taken together: whether it was installed or
/// upgraded, and to which revision.
fn uncounted(condition: &mut Value) {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let reason = text(&condition["reason"]);
    for end in ["Succeeded", "Failed"] {
        if [format!("Install{end}"), format!("Upgrade{end}")].contains(&reason) {
            condition["reason"] = format!("Release{end}").into();
        }
    }
    if let Some(message) = condition["message"].as_str() {
        let words = message.split(' ').map(|word| match word.rsplit_once(".v") {
            Some((start, end)) if end.chars().all(|one| one.is_ascii_digit()) => start,
            _ if matches!(word, "install" | "upgrade") => "release",
            _ => word,
        });
        condition["message"] = words.collect::<Vec<_>>().join(" ").into();
    }
}

/// Why objects of Flux are not ready, as they say.
pub fn failures(server: &ApiServer) -> Vec<String> {
    let store = server.store();
    let tables = store.tables();
    let objects = tables
        .iter()
        .filter(|table| is_flux(table))
        .flat_map(|table| store.list(table, "", None, 0).items);
    let reason = |stored: std::sync::Arc<everflow_cluster::store::Stored>| {
        let ready = condition(&stored.value, "Ready").filter(|ready| ready["status"] != "True")?;
        ready["reason"].as_str().map(str::to_owned)
    };
    objects.filter_map(reason).collect()
}

/// Where two worlds differ, in words.
pub fn differences(wanted: &World, found: &World) -> Vec<String> {
    let mut all = Vec::new();
    for (name, object) in wanted {
        match found.get(name) {
            None => all.push(format!("{name} is missing")),
            Some(other) if other != object => {
                let mut places = Vec::new();
                differ("", object, other, &mut places);
                all.push(format!("{name}: {}", places.join("; ")));
            }
            Some(_) => {}
        }
    }
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        all.push(format!("{name} should not be there"));
    }
    all
}

fn differ(place: &str, wanted: &Value, found: &Value, all: &mut Vec<String>) {
    if wanted == found {
        return;
    }
    match (wanted, found) {
        (Value::Object(one), Value::Object(two)) => {
            let keys = one
                .keys()
                .chain(two.keys().filter(|key| !one.contains_key(key)));
            for key in keys {
                let (one, two) = (&wanted[key], &found[key]);
                differ(&format!("{place}/{key}"), one, two, all);
            }
        }
        _ => all.push(format!("{place} is {found}, should be {wanted}")),
    }
}

/// What of a scenario's expectations is not met.
pub fn unmet(server: &ApiServer, expectations: &[Expectation]) -> Vec<String> {
    let mut all = Vec::new();
    for expectation in expectations {
        let wanted = &expectation.object;
        let name = format!("{} {}/{}", wanted.kind, wanted.namespace, wanted.name);
        let Some(object) = find(server, expectation) else {
            if !expectation.absent {
                all.push(format!("{name} is missing"));
            }
            continue;
        };
        if expectation.absent {
            all.push(format!("{name} should not be there"));
            continue;
        }
        let ready = condition(&object, "Ready").cloned().unwrap_or_default();
        for (field, wanted) in [
            ("status", &expectation.ready),
            ("reason", &expectation.reason),
        ] {
            let Some(wanted) = wanted else { continue };
            if ready[field] != wanted.as_str() {
                let text = |field: &str| ready[field].as_str().unwrap_or("nothing");
                all.push(format!(
                    "{name}: Ready has the {field} {}, expected {wanted} ({}: {})",
                    text(field),
                    text("reason"),
                    text("message")
                ));
            }
        }
        for (pointer, wanted) in &expectation.fields {
            let found = object.pointer(pointer).unwrap_or(&Value::Null);
            if found != wanted {
                all.push(format!("{name}: {pointer} is {found}, expected {wanted}"));
            }
        }
    }
    all
}

fn find(server: &ApiServer, expectation: &Expectation) -> Option<Value> {
    let wanted = &expectation.object;
    let group = match wanted.api_version.split_once('/') {
        Some((group, _)) => group,
        None => "",
    };
    let key = match wanted.namespace.is_empty() {
        true => wanted.name.clone(),
        false => format!("{}/{}", wanted.namespace, wanted.name),
    };
    let store = server.store();
    let tables = store.tables();
    let tables = tables
        .iter()
        .filter(|table| table.split('/').next() == Some(group));
    tables
        .filter_map(|table| store.get(table, &key))
        .find(|stored| stored.value["kind"] == wanted.kind.as_str())
        .map(|stored| stored.value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_do_not_count_in_messages() {
        assert_eq!(
            untimed("done in 1.5s, next in 10m0s"),
            "done in TIME next in TIME"
        );
        assert_eq!(
            untimed("Applied revision: main@sha1:1as"),
            "Applied revision: main@sha1:1as"
        );
    }
}
