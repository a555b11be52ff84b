//! What the server itself writes into new and changed objects of built-in kinds.

use everflow_json::{Map, Value, json};

use super::{Context, meta};
use crate::status::ApiResult;
use everflow_schema::quantity::Quantity;

/// An object's part as a map, made if it is missing.
pub fn part<'o>(object: &'o mut Value, key: &str) -> Option<&'o mut Map> {
    object
        .as_object_mut()?
        .entry(key)
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Namespaces wait for their content before they go, and start active.
pub fn namespace_create(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    let name = meta::text(object, "name").to_owned();
    if let Some(labels) = meta::metadata_mut(object)
        .entry("labels")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
    if let Some(status) = part(object, "status") {
        status.insert("phase".into(), "Active".into());
    }
    let Some(spec) = part(object, "spec") else {
        return Ok(());
    };
    let list = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.contains(&json!("kubernetes"))
    {
        list.push("kubernetes".into());
    }
    Ok(())
}

/// The finalizers of a namespace change only through its own subresource.
pub fn namespace_update(_: &Context<'_>, new: &mut Value, old: &Value) -> ApiResult<()> {
    let before = old.pointer("/spec/finalizers").cloned();
    if let Some(spec) = part(new, "spec") {
        match before {
            Some(list) => drop(spec.insert("finalizers".into(), list)),
            None => drop(spec.remove("finalizers")),
        }
    }
    Ok(())
}

/// Through its own subresource a pod takes ephemeral containers and nothing else.
pub fn keep_all_but_ephemeral_containers(new: &mut Value, old: &Value) {
    let given = new.pointer("/spec/ephemeralContainers").cloned();
    let fields = meta::metadata(new)
        .and_then(|map| map.get("managedFields"))
        .cloned();
    let revision = meta::metadata(new)
        .and_then(|map| map.get("resourceVersion"))
        .cloned();
    *new = old.clone();
    if let Some(spec) = part(new, "spec") {
        match given.filter(|list| !list.is_null()) {
            Some(list) => drop(spec.insert("ephemeralContainers".into(), list)),
            None => drop(spec.remove("ephemeralContainers")),
        }
    }
    meta::set(new, "managedFields", fields);
    meta::set(new, "resourceVersion", revision);
}

/// A negative grace period means one second.
fn grace_of_one_second(object: &mut Value) {
    let negative = object
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0);
    if let Some(spec) = part(object, "spec").filter(|_| negative) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
}

/// A changed pod means the same by its grace period as a new one.
pub fn pod_update(_: &Context<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
    grace_of_one_second(object);
    Ok(())
}

/// Pods start pending, with a quality of service that follows from their resources.
pub fn pod_create(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    grace_of_one_second(object);
    let class = quality_of_service(object);
    if let Some(map) = object.as_object_mut() {
        map.insert(
            "status".into(),
            json!({"phase": "Pending", "qosClass": class}),
        );
    }
    Ok(())
}

/// Guaranteed when every container limits what it requests, BestEffort when none requests anything.
fn quality_of_service(pod: &Value) -> &'static str {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let containers: Vec<&Value> = lists
        .iter()
        .flat_map(|list| {
            pod.pointer(list)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        })
        .collect();
    let quantity = |container: &Value, kind: &str, name: &str| {
        container
            .pointer(&format!("/resources/{kind}/{name}"))
            .and_then(Value::as_str)
            .and_then(|text| Quantity::parse(text).ok())
            .filter(|found| !found.is_zero())
    };
    let mut any = false;
    let mut guaranteed = true;
    for container in &containers {
        for name in ["cpu", "memory"] {
            let (request, limit) = (
                quantity(container, "requests", name),
                quantity(container, "limits", name),
            );
            any |= request.is_some() || limit.is_some();
            match (request, limit) {
                (Some(request), Some(limit)) if request.compare(&limit).is_eq() => {}
                (None, Some(_)) => {}
                _ => guaranteed = false,
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Jobs select their pods by a label with their own uid unless they say how.
pub fn job_create(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    let (uid, name) = (
        meta::text(object, "uid").to_owned(),
        meta::text(object, "name").to_owned(),
    );
    let Some(spec) = part(object, "spec") else {
        return Ok(());
    };
    if let Some(template) = spec
        .entry("template")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        && let Some(metadata) = template
            .entry("metadata")
            .or_insert_with(|| json!({}))
            .as_object_mut()
        && let Some(labels) = metadata
            .entry("labels")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("job-name", &name),
        ] {
            labels.insert(key.into(), value.as_str().into());
        }
    }
    let labels = spec
        .get("template")
        .and_then(|template| template.pointer("/metadata/labels"))
        .cloned();
    if let Some(selector) = spec
        .entry("selector")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        && let Some(matching) = selector
            .entry("matchLabels")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        matching
            .entry("batch.kubernetes.io/controller-uid")
            .or_insert_with(|| uid.as_str().into());
    }
    let map = meta::metadata_mut(object);
    if map
        .get("labels")
        .and_then(Value::as_object)
        .is_none_or(Map::is_empty)
        && let Some(labels) = labels
    {
        map.insert("labels".into(), labels);
    }
    Ok(())
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Old clients find the generation of a DaemonSet's template in an annotation.
pub fn daemon_set_default(object: &mut Value) {
    let metadata = meta::metadata_mut(object);
    if let Some(annotations) = metadata
        .entry("annotations")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        annotations
            .entry(TEMPLATE_GENERATION)
            .or_insert_with(|| "0".into());
    }
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(annotations) = meta::metadata_mut(object)
        .entry("annotations")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        annotations.insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
    }
}

/// A new DaemonSet's template is the first.
pub fn daemon_set_create(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    let given = object
        .pointer("/metadata/annotations")
        .and_then(|map| map.get(TEMPLATE_GENERATION))
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or_default();
    set_template_generation(object, given.max(1));
    Ok(())
}

/// A changed template moves its generation.
pub fn daemon_set_update(_: &Context<'_>, new: &mut Value, old: &Value) -> ApiResult<()> {
    let before = old
        .pointer("/metadata/annotations")
        .and_then(|map| map.get(TEMPLATE_GENERATION))
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or(1);
    let moved = new.pointer("/spec/template") != old.pointer("/spec/template");
    set_template_generation(new, before + i64::from(moved));
    Ok(())
}

/// A certificate request names who asks.
pub fn signing_request_create(context: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    let user = context.user;
    if let Some(spec) = part(object, "spec") {
        spec.insert("username".into(), user.name.as_str().into());
        for key in ["uid", "extra", "groups"] {
            spec.remove(key);
        }
        if !user.uid.is_empty() {
            spec.insert("uid".into(), user.uid.as_str().into());
        }
        if !user.groups.is_empty() {
            spec.insert("groups".into(), json!(user.groups));
        }
        if !user.extra.is_empty() {
            spec.insert("extra".into(), json!(user.extra));
        }
    }
    Ok(())
}

/// What a certificate request asks for never changes, and its status has its own subresources.
pub fn signing_request_update(_: &Context<'_>, new: &mut Value, old: &Value) -> ApiResult<()> {
    if let (Some(map), Some(spec)) = (new.as_object_mut(), old.get("spec")) {
        map.insert("spec".into(), spec.clone());
    }
    Ok(())
}

/// A node has one range of addresses in two fields; the first of the list follows the single one.
pub fn node_default(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let one = spec
        .get("podCIDR")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let first = spec
        .get("podCIDRs")
        .and_then(|list| list.get(0))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !one.is_empty() && one != first {
        spec.insert("podCIDRs".into(), json!([one]));
    } else if one.is_empty() && !first.is_empty() {
        spec.insert("podCIDR".into(), first.into());
    }
}

/// A ServiceAccount refers to Secrets by name alone.
pub fn service_account_create(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    for secret in object
        .get_mut("secrets")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(map) = secret.as_object_mut() {
            map.retain(|key, _| key == "name");
        }
    }
    Ok(())
}

/// As [`service_account_create`], for changes.
pub fn service_account_update(context: &Context<'_>, new: &mut Value, _: &Value) -> ApiResult<()> {
    service_account_create(context, new)
}

/// Text values of a Secret become data as soon as it is read.
pub fn secret_default(object: &mut Value) {
    merge_texts(object);
}

/// Text values of a Secret become data.
pub fn secret_merge(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    merge_texts(object);
    Ok(())
}

fn merge_texts(object: &mut Value) {
    use base64::Engine as _;
    let Some(map) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(texts)) = map.remove("stringData") else {
        return;
    };
    if let Some(data) = map
        .entry("data")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        for (key, value) in texts {
            let encoded = base64::engine::general_purpose::STANDARD
                .encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
}

/// As [`secret_merge`], for changes; the type cannot be emptied.
pub fn secret_update(context: &Context<'_>, new: &mut Value, old: &Value) -> ApiResult<()> {
    if new.get("type").is_none()
        && let (Some(map), Some(kind)) = (new.as_object_mut(), old.get("type"))
    {
        map.insert("type".into(), kind.clone());
    }
    secret_merge(context, new)
}

/// A persistent volume starts pending; time it changed phase.
pub fn volume_create(context: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    let now = context.env.now().rfc3339();
    if let Some(map) = object.as_object_mut() {
        map.insert(
            "status".into(),
            json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
        );
    }
    Ok(())
}

/// A claim starts pending.
pub fn claim_create(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    if let Some(map) = object.as_object_mut() {
        map.insert("status".into(), json!({"phase": "Pending"}));
    }
    Ok(())
}

/// How the service account of a pod is read by field selectors and such.
pub fn read_text(object: &Value, pointer: &str) -> String {
    text(object, pointer).to_owned()
}
