//! What somebody has set on the Deployments of a Flux that runs, carried over to ours.
//!
//! A live Deployment is compared with its stand-in as if a patch had made the difference. Looked at is only what people
//! set: arguments, resources, environment, volumes, where pods run, labels and annotations of pods. The rest is the
//! version of Flux, or filled in by the API server.

use std::collections::BTreeSet;

use everflow_json::{Map, Value, json};

use super::carry::{Patched, carry};
use super::changes::{Path, Step, flat, shown};
use super::flags::{Meaning, meaning, parts};
use super::{quantity, stand_ins};
use crate::component::Component;
use crate::names::CONTAINER;
use crate::options::Options;

/// Flags that say where something is, which is another place with us.
const PLACES: [&str; 2] = ["storage-adv-addr", "log-encoding"];
/// Fields of pods that say where they run and what they are given.
const POD_FIELDS: [&str; 10] = [
    "tolerations",
    "affinity",
    "nodeSelector",
    "topologySpreadConstraints",
    "priorityClassName",
    "imagePullSecrets",
    "hostAliases",
    "dnsConfig",
    "hostNetwork",
    "runtimeClassName",
];
/// What limits and requests Flux's own manifests have.
const FLUX_LIMITS: (&str, &str) = ("1000m", "1Gi");

/// What was carried over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// What our Deployment has by it, as `args[--concurrent] = 20`.
    pub changes: Vec<String>,
    /// What is not carried over, and why.
    pub notes: Vec<String>,
}

/// Carries what people have set on live Deployments of Flux over to the Deployments among the objects of an
/// installation. Limits are raised by it and never lowered: one process does the work of all controllers.
pub fn carry_live(options: &Options, live: &[Value], objects: &mut [Value]) -> Carried {
    let flux = Options {
        cpu_limit: FLUX_LIMITS.0.to_owned(),
        memory_limit: FLUX_LIMITS.1.to_owned(),
        concurrent: None,
        ..options.clone()
    };
    let is_sharded = live.iter().any(|one| component_of(one).is_none());
    let mut patched = Vec::new();
    for one in live {
        let Some(component) = component_of(one) else {
            continue;
        };
        let base = stand_ins::deployment(component, &flux);
        let mut state = Patched::new(component, &base);
        state.becomes(&overlaid(&base, one, is_sharded), patched.len());
        patched.push(state);
    }
    let mut carried = Carried::default();
    let mut notes = BTreeSet::new();
    for object in objects.iter_mut().filter(|one| one["kind"] == "Deployment") {
        let before = object.clone();
        carry(&patched, object, &mut notes);
        raised_only(&before, object);
        carried.changes.extend(differences(&before, object));
    }
    let texts: BTreeSet<String> = notes.into_iter().map(|(_, text)| text).collect();
    carried.notes = texts.into_iter().collect();
    carried
}

/// Which controller a Deployment is; none for a shard of one.
fn component_of(live: &Value) -> Option<Component> {
    let name = live["metadata"]["name"].as_str()?;
    Component::ALL.into_iter().find(|one| one.name() == name)
}

/// The stand-in with what people have set on the live Deployment.
fn overlaid(base: &Value, live: &Value, is_sharded: bool) -> Value {
    let mut object = base.clone();
    let pod = &live["spec"]["template"];
    for field in ["labels", "annotations"] {
        let own = &base["spec"]["template"]["metadata"][field];
        for (key, value) in pod["metadata"][field].as_object().into_iter().flatten() {
            if own[&**key].is_null() && !is_about_flux(key) {
                object["spec"]["template"]["metadata"][field][&**key] = value.clone();
            }
        }
    }
    for field in POD_FIELDS {
        if !pod["spec"][field].is_null() {
            object["spec"]["template"]["spec"][field] = pod["spec"][field].clone();
        }
    }
    add_items(
        &mut object["spec"]["template"]["spec"]["volumes"],
        &pod["spec"]["volumes"],
        "name",
    );
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let manager = containers.clone().find(|one| one["name"] == CONTAINER);
    let Some(manager) = manager.or_else(|| containers.clone().next()) else {
        return object;
    };
    let own = &mut object["spec"]["template"]["spec"]["containers"][0];
    own["args"] = json!(arguments(&own["args"], &manager["args"], is_sharded));
    add_items(
        &mut own["volumeMounts"],
        &manager["volumeMounts"],
        "mountPath",
    );
    add_items(&mut own["env"], &manager["env"], "name");
    let number = |value: &Value| quantity(value.as_str().unwrap_or_default());
    for class in ["limits", "requests"] {
        let amounts = manager["resources"][class].as_object();
        for (name, amount) in amounts.into_iter().flatten() {
            // The API server writes 1000m as 1.
            if number(&own["resources"][class][&**name]) != number(amount) {
                own["resources"][class][&**name] = amount.clone();
            }
        }
    }
    object
}

/// Labels and annotations that say which Flux it is, or that it was restarted.
fn is_about_flux(key: &str) -> bool {
    key.starts_with("app.kubernetes.io/")
        || key.starts_with("helm.sh/")
        || matches!(
            key,
            "app" | "control-plane" | "kubectl.kubernetes.io/restartedAt"
        )
}

/// Adds items that are not there, by what they are known by.
fn add_items(own: &mut Value, live: &Value, key: &str) {
    let Some(items) = own.as_array_mut() else {
        return;
    };
    for item in live.as_array().into_iter().flatten() {
        if !items.iter().any(|other| other[key] == item[key]) {
            items.push(item.clone());
        }
    }
}

/// The arguments of the stand-in, with those of the live container that mean something with us.
fn arguments(own: &Value, live: &Value, is_sharded: bool) -> Vec<Value> {
    let texts = |list: &Value| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let mut args = texts(own);
    for arg in texts(live) {
        let name = parts(&arg).0;
        // Of shards all objects are taken.
        let is_shards_own = is_sharded && name == "watch-label-selector";
        let is_idle = matches!(meaning(name), Some(Meaning::Idle(_)));
        if PLACES.contains(&name) || is_shards_own || is_idle {
            continue;
        }
        args.retain(|other| parts(other).0 != name);
        args.push(arg);
    }
    args.into_iter().map(Value::from).collect()
}

/// Puts limits and requests back that came out lower than they were.
fn raised_only(before: &Value, after: &mut Value) {
    let resources =
        |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["resources"].clone();
    let (old, mut new) = (resources(before), resources(after));
    for class in ["limits", "requests"] {
        let amounts = old[class].as_object().cloned().unwrap_or_else(Map::new);
        for (name, amount) in &amounts {
            let number = |value: &Value| quantity(value.as_str().unwrap_or_default());
            let is_lower = match (number(amount), number(&new[class][&**name])) {
                (Some(old), Some(new)) => new < old,
                (_, None) => true,
                (None, _) => false,
            };
            if is_lower {
                new[class][&**name] = amount.clone();
            }
        }
    }
    after["spec"]["template"]["spec"]["containers"][0]["resources"] = new;
}

/// What is other than before, each as people read it.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let (old, new) = (flat(before), flat(after));
    let told = |path: &Path| {
        let start = [Step::Field("spec".into()), Step::Field("template".into())];
        shown(path.strip_prefix(&start[..]).unwrap_or(path))
    };
    let text = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let mut lines = Vec::new();
    for (path, value) in &new {
        if old.get(path) != Some(value) {
            lines.push(match value {
                Value::Null => told(path),
                value => format!("{} = {}", told(path), text(value)),
            });
        }
    }
    for path in old.keys().filter(|path| !new.contains_key(*path)) {
        lines.push(format!("{} is gone", told(path)));
    }
    lines
}
