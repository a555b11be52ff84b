//! What happens between decoding and the rules of the kind: namespaces must exist and live.

mod limit_ranger;
mod quota;
mod usage;

use everflow_json::{Value, json};

use crate::kinds::meta;
use crate::rest::Call;
use crate::status::{ApiError, ApiResult};

pub use quota::{Charge, check as check_quotas, status as quota_status};
pub use usage::quotas;

/// Admission of a new object.
pub fn create(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let resource = &call.resource;
    if !resource.namespaced {
        return mutate(call, object);
    }
    let namespace = call.target.namespace.as_str();
    let Some(found) = call.server.store().get("/namespaces", namespace) else {
        return Err(ApiError::not_found(
            &crate::status::GroupResource {
                group: "",
                resource: "namespaces",
            },
            namespace,
        ));
    };
    let terminating = meta::is_terminating(&found.value)
        || found.value.pointer("/status/phase").and_then(Value::as_str) == Some("Terminating");
    if terminating {
        let name = meta::text(object, "name");
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = ApiError::forbidden(&resource.group_resource(), name, &why);
        if let Some(details) = error.details.as_mut().and_then(Value::as_object_mut) {
            details.insert("causes".into(), json!([{"reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]));
        }
        return Err(error);
    }
    mutate(call, object)
}

/// Admission of a deletion: some namespaces stay.
pub fn delete(call: &Call<'_>, name: &str) -> ApiResult<()> {
    let resource = &call.resource;
    let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
    if is_namespace && matches!(name, "default" | "kube-system" | "kube-public") {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden(&resource.group_resource(), name, why));
    }
    Ok(())
}

/// Admission of a changed object.
pub fn update(call: &Call<'_>, new: &mut Value, old: &Value) -> ApiResult<()> {
    if call.resource.group.is_empty()
        && call.resource.plural == "pods"
        && call.target.subresource.is_empty()
    {
        add_tolerations(new);
        // Priorities are given once.
        for key in ["priority", "preemptionPolicy"] {
            let before = old.pointer(&format!("/spec/{key}")).cloned();
            if let (Some(spec), Some(before)) =
                (new.get_mut("spec").and_then(Value::as_object_mut), before)
            {
                spec.entry(key).or_insert(before);
            }
        }
    }
    Ok(())
}

/// Objects the cluster itself protects, places or ranks.
fn mutate(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let resource = &call.resource;
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => {
            limit_ranger::admit(call, object, true)?;
            add_tolerations(object);
            set_priority(call, object)?;
        }
        ("", "nodes") => taint_new_node(object),
        ("", "persistentvolumes") => add_finalizer(object, "kubernetes.io/pv-protection"),
        ("", "persistentvolumeclaims") => {
            limit_ranger::admit(call, object, false)?;
            add_finalizer(object, "kubernetes.io/pvc-protection");
            set_default_class(
                call,
                object,
                "storage.k8s.io/storageclasses",
                "storageclass.kubernetes.io/is-default-class",
                "storageClassName",
            );
        }
        ("networking.k8s.io", "ingresses")
            if object
                .pointer("/metadata/annotations")
                .and_then(|map| map.get("kubernetes.io/ingress.class"))
                .is_none() =>
        {
            set_default_class(
                call,
                object,
                "networking.k8s.io/ingressclasses",
                "ingressclass.kubernetes.io/is-default-class",
                "ingressClassName",
            );
        }
        _ => {}
    }
    Ok(())
}

fn add_finalizer(object: &mut Value, name: &str) {
    let list = meta::metadata_mut(object)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.contains(&json!(name))
    {
        list.push(name.into());
    }
}

/// Pods bear a lost node for five minutes.
fn add_tolerations(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let list = spec
        .get("tolerations")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let tolerated = |key: &str| {
        list.iter().any(|entry| {
            let given = entry.get("key").and_then(Value::as_str).unwrap_or_default();
            let effect = entry
                .get("effect")
                .and_then(Value::as_str)
                .unwrap_or_default();
            (given == key || given.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        })
    };
    let mut all = list.clone();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        if !tolerated(key) {
            all.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    if !all.is_empty() {
        spec.insert("tolerations".into(), Value::Array(all));
    }
}

/// A pod has the priority of its class.
fn set_priority(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let name = object
        .pointer("/spec/priorityClassName")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let store = call.server.store();
    let pod = meta::text(object, "name").to_owned();
    let refuse = |why: String| ApiError::forbidden(&call.resource.group_resource(), &pod, &why);
    let mut class = None;
    let built_in = match name.as_str() {
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    };
    if name.is_empty() {
        let all = store
            .list("scheduling.k8s.io/priorityclasses", "", None, 0)
            .items;
        class = all
            .iter()
            .filter(|found| found.value.get("globalDefault") == Some(&Value::Bool(true)))
            .min_by_key(|found| found.value.get("value").and_then(Value::as_i64))
            .map(|found| found.value.clone());
    } else if built_in.is_none() {
        class = store
            .get("scheduling.k8s.io/priorityclasses", &name)
            .map(|found| found.value.clone());
        if class.is_none() {
            return Err(refuse(format!(
                "no PriorityClass with name {name} was found"
            )));
        }
    }
    let value = built_in
        .or_else(|| {
            class
                .as_ref()
                .and_then(|class| class.get("value"))
                .and_then(Value::as_i64)
        })
        .unwrap_or_default();
    let policy = class
        .as_ref()
        .and_then(|class| class.get("preemptionPolicy"))
        .and_then(Value::as_str)
        .unwrap_or("PreemptLowerPriority")
        .to_owned();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != value
    {
        return Err(refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        )));
    }
    if let Some(given) = spec.get("preemptionPolicy").and_then(Value::as_str)
        && given != policy
    {
        return Err(refuse(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )));
    }
    if let Some(found) = class.as_ref().filter(|_| name.is_empty()) {
        spec.insert("priorityClassName".into(), meta::text(found, "name").into());
    }
    spec.insert("priority".into(), value.into());
    spec.insert("preemptionPolicy".into(), policy.into());
    Ok(())
}

/// A new node takes no pods until it is ready.
fn taint_new_node(object: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let Some(spec) = object.as_object_mut().and_then(|map| {
        map.entry("spec")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    }) else {
        return;
    };
    if let Some(list) = spec
        .entry("taints")
        .or_insert_with(|| json!([]))
        .as_array_mut()
        && !list.iter().any(|known| {
            known.get("key") == taint.get("key") && known.get("effect") == taint.get("effect")
        })
    {
        list.push(taint);
    }
}

/// An object without a class gets the newest default one.
fn set_default_class(
    call: &Call<'_>,
    object: &mut Value,
    table: &str,
    annotation: &str,
    field: &str,
) {
    if object.pointer(&format!("/spec/{field}")).is_some() {
        return;
    }
    let all = call.server.store().list(table, "", None, 0).items;
    let mut defaults: Vec<&Value> = all
        .iter()
        .map(|found| &*found.value)
        .filter(|value| {
            value
                .pointer("/metadata/annotations")
                .and_then(|map| map.get(annotation))
                .and_then(Value::as_str)
                == Some("true")
        })
        .collect();
    defaults.sort_by(|left, right| {
        meta::text(right, "creationTimestamp")
            .cmp(meta::text(left, "creationTimestamp"))
            .then(meta::text(left, "name").cmp(meta::text(right, "name")))
    });
    if let (Some(class), Some(spec)) = (
        defaults.first(),
        object.get_mut("spec").and_then(Value::as_object_mut),
    ) {
        spec.insert(field.into(), meta::text(class, "name").into());
    }
}
