//! The life of a custom resource definition: names are accepted, kinds are served, instances go with it.

use std::sync::Arc;

use everflow_schema::Schema;
use everflow_schema::structural::Validator;
use serde_json::{Map, Value, json};

use super::{CustomKind, CustomVersion, ScalePaths, columns};
use crate::kinds::{Context, KindRules, meta};
use crate::resource::{Registry, Resource, Subresource};
use crate::server_core::ApiServer;
use crate::status::ApiResult;

/// The table of definitions.
pub const TABLE: &str = "apiextensions.k8s.io/customresourcedefinitions";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
static CUSTOM: KindRules = KindRules::CUSTOM;

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Names and conversion that a definition may leave out.
pub fn default_definition(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if !kind.is_empty() {
            names
                .entry("singular")
                .or_insert_with(|| kind.to_lowercase().into());
            names
                .entry("listKind")
                .or_insert_with(|| format!("{kind}List").into());
        }
    }
    let conversion = spec
        .entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
}

/// A new definition remembers in which version it stores objects.
pub fn prepare_definition(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    let stored: Vec<Value> = versions(object)
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    if let Some(map) = object.as_object_mut() {
        map.insert("status".into(), json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}));
    }
    Ok(())
}

/// A changed definition keeps its status, but for versions that objects are stored in from now on.
pub fn prepare_definition_update(_: &Context<'_>, new: &mut Value, _old: &Value) -> ApiResult<()> {
    let storage = versions(new)
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .and_then(|version| version.get("name").cloned());
    if let (Some(storage), Some(list)) = (
        storage,
        new.pointer_mut("/status/storedVersions")
            .and_then(Value::as_array_mut),
    ) && !list.contains(&storage)
    {
        list.push(storage);
    }
    Ok(())
}

fn versions(definition: &Value) -> &[Value] {
    definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Serves the kinds of all stored definitions.
pub fn restore(server: &ApiServer) {
    for stored in server.store().list(TABLE, "", None, 0).items {
        if is_established(&stored.value) {
            serve(server, &stored.value);
        }
    }
}

fn condition<'d>(definition: &'d Value, kind: &str) -> Option<&'d Value> {
    definition
        .pointer("/status/conditions")
        .and_then(Value::as_array)?
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

fn is_established(definition: &Value) -> bool {
    condition(definition, "Established")
        .and_then(|condition| condition.get("status"))
        .and_then(Value::as_str)
        == Some("True")
}

/// After a definition was written: accepts its names and serves it, or takes its instances away.
pub fn after_write(server: &ApiServer, name: &str) {
    let Some(current) = server.store().get(TABLE, name) else {
        return;
    };
    if meta::is_terminating(&current.value) {
        finish_deletion(server, name);
        return;
    }
    let conflicts = name_conflicts(server, &current.value);
    let mut updated = current.value.clone();
    set_names(server, &mut updated, &conflicts);
    if updated.get("status") != current.value.get("status") {
        track_status(server, &current.value, &mut updated);
        if server
            .store()
            .update(TABLE, name, current.revision, updated.clone())
            .is_err()
        {
            return;
        }
    }
    if is_established(&updated) {
        serve(server, &updated);
    }
}

/// Names that another definition of the group already has.
fn name_conflicts(server: &ApiServer, definition: &Value) -> Vec<(&'static str, String)> {
    let group = text(definition, "/spec/group");
    let own = meta::text(definition, "name");
    let mut taken: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    for other in server.store().list(TABLE, "", None, 0).items {
        if meta::text(&other.value, "name") == own || text(&other.value, "/spec/group") != group {
            continue;
        }
        let names = other.value.pointer("/status/acceptedNames");
        for key in ["plural", "singular"] {
            taken.extend(
                names
                    .and_then(|names| names.get(key))
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
        }
        taken.extend(
            names
                .and_then(|names| names.get("shortNames"))
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned),
        );
        for key in ["kind", "listKind"] {
            kinds.extend(
                names
                    .and_then(|names| names.get(key))
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
        }
    }
    taken.retain(|name| !name.is_empty());
    let mut conflicts = Vec::new();
    for (key, reason, pool) in [
        ("plural", "PluralConflict", &taken),
        ("singular", "SingularConflict", &taken),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let wanted = text(definition, &format!("/spec/names/{key}"));
        if !wanted.is_empty() && pool.iter().any(|name| name == wanted) {
            conflicts.push((reason, wanted.to_owned()));
        }
    }
    for short in definition
        .pointer("/spec/names/shortNames")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if taken.iter().any(|name| name == short) {
            conflicts.push(("ShortNamesConflict", short.to_owned()));
        }
    }
    conflicts
}

fn set_names(server: &ApiServer, definition: &mut Value, conflicts: &[(&'static str, String)]) {
    let wanted = definition
        .pointer("/spec/names")
        .cloned()
        .unwrap_or_else(super::empty);
    let mut accepted = definition
        .pointer("/status/acceptedNames")
        .cloned()
        .unwrap_or_else(super::empty);
    let refused = |reason: &str| conflicts.iter().any(|(known, _)| *known == reason);
    if let (Some(accepted), Some(wanted)) = (accepted.as_object_mut(), wanted.as_object()) {
        for (key, reason) in [
            ("plural", "PluralConflict"),
            ("singular", "SingularConflict"),
            ("kind", "KindConflict"),
            ("listKind", "ListKindConflict"),
            ("shortNames", "ShortNamesConflict"),
            ("categories", ""),
        ] {
            if refused(reason) {
                continue;
            }
            match wanted.get(key) {
                Some(value) => drop(accepted.insert(key.into(), value.clone())),
                None => drop(accepted.remove(key)),
            }
        }
    }
    let now = server.env().now().rfc3339();
    let names = match conflicts.first() {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, name)) => (
            "False",
            *reason,
            format!("{} is already in use", crate::field::go_quote(name)),
        ),
    };
    let established = condition(definition, "Established").cloned();
    let mut list: Vec<Value> = definition
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    put_condition(&mut list, "NamesAccepted", names.0, names.1, &names.2, &now);
    match established {
        Some(known) if known.get("status").and_then(Value::as_str) == Some("True") => {}
        _ if names.0 == "True" => put_condition(
            &mut list,
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
            &now,
        ),
        _ => put_condition(
            &mut list,
            "Established",
            "False",
            "NotAccepted",
            "not all names are accepted",
            &now,
        ),
    }
    if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("acceptedNames".into(), accepted);
        status.insert("conditions".into(), Value::Array(list));
    }
}

fn put_condition(
    list: &mut Vec<Value>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let fresh = json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message});
    match list
        .iter_mut()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
    {
        Some(known) => {
            let since = known.get("lastTransitionTime").cloned();
            let moved = known.get("status") != fresh.get("status");
            *known = fresh;
            if !moved && let (Some(since), Some(map)) = (since, known.as_object_mut()) {
                map.insert("lastTransitionTime".into(), since);
            }
        }
        None => list.push(fresh),
    }
}

/// The server owns the status it writes.
fn track_status(server: &ApiServer, live: &Value, updated: &mut Value) {
    use everflow_merge::apply::{FieldManager, ResetFields, SingleVersion, Writer};
    let api_version = "apiextensions.k8s.io/v1";
    let kind = "CustomResourceDefinition";
    let Some(schema) = everflow_schema::builtin().schema("apiextensions.k8s.io", "v1", kind) else {
        return;
    };
    let versions = SingleVersion::new(api_version, schema);
    let reset = ResetFields::of_builtin(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "status",
    );
    let zero = json!({"apiVersion": api_version, "kind": kind});
    let manager = FieldManager {
        versions: &versions,
        api_version,
        kind,
        subresource: "status",
        reset: &reset,
        zero: &zero,
    };
    let now = server.env().now().rfc3339();
    let taken = std::mem::take(updated);
    *updated = manager.update_or_forget(
        live,
        taken,
        Writer {
            manager: "kube-apiserver",
            now: &now,
        },
    );
}

/// Makes the kinds of a definition reachable.
fn serve(server: &ApiServer, definition: &Value) {
    let group = text(definition, "/spec/group").to_owned();
    let names = definition
        .pointer("/status/acceptedNames")
        .cloned()
        .unwrap_or_else(super::empty);
    let plural = text(&names, "/plural").to_owned();
    let table: Arc<str> = Arc::from(format!("{group}/{plural}"));
    server.store().open_table(&table);
    let all = versions(definition);
    let storage = all
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map_or("", |version| text(version, "/name"))
        .to_owned();
    let shared: Arc<Vec<CustomVersion>> = Arc::new(all.iter().map(read_version).collect());
    server.change_registry(|registry: &mut Registry| {
        registry.remove(&group, &plural);
        for (index, version) in all.iter().enumerate() {
            if version.get("served") == Some(&Value::Bool(true)) {
                registry.insert(resource(
                    definition, &names, version, index, &shared, &table, &storage,
                ));
            }
        }
    });
}

fn read_version(version: &Value) -> CustomVersion {
    let schema = version.pointer("/schema/openAPIV3Schema");
    CustomVersion {
        name: text(version, "/name").to_owned(),
        complete: schema.and_then(|schema| Schema::for_custom_resource(schema).ok()),
        validator: schema
            .and_then(|schema| Schema::from_structural(schema).ok())
            .map(Validator::new),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// `.spec.replicas` as a JSON pointer.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

fn resource(
    definition: &Value,
    names: &Value,
    version: &Value,
    index: usize,
    shared: &Arc<Vec<CustomVersion>>,
    table: &Arc<str>,
    storage: &str,
) -> Resource {
    let kind = text(names, "/kind").to_owned();
    let status = version.pointer("/subresources/status").is_some();
    let scale = version
        .pointer("/subresources/scale")
        .map(|scale| ScalePaths {
            spec: pointer(text(scale, "/specReplicasPath")),
            status: pointer(text(scale, "/statusReplicasPath")),
            selector: scale
                .get("labelSelectorPath")
                .and_then(Value::as_str)
                .filter(|path| !path.is_empty())
                .map(pointer),
        });
    let mut subresources = Vec::new();
    let verbs = |list: &[&str]| {
        list.iter()
            .map(|verb| (*verb).to_owned())
            .collect::<Vec<_>>()
    };
    if status {
        subresources.push(Subresource {
            name: "status".into(),
            group: String::new(),
            version: String::new(),
            kind: kind.clone(),
            verbs: verbs(&["get", "patch", "update"]),
        });
    }
    if scale.is_some() {
        subresources.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: verbs(&["get", "patch", "update"]),
        });
    }
    let selectable = version
        .get("selectableFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|field| field.get("jsonPath").and_then(Value::as_str))
        .map(|path| (path.trim_start_matches('.').to_owned(), pointer(path)))
        .collect();
    let printed = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array)
        .cloned()
        .filter(|list| !list.is_empty())
        .unwrap_or_else(columns::fallback);
    Resource {
        group: text(definition, "/spec/group").to_owned(),
        version: text(version, "/name").to_owned(),
        plural: text(names, "/plural").to_owned(),
        singular: text(names, "/singular").to_owned(),
        list_kind: text(names, "/listKind").to_owned(),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        short_names: strings(names.get("shortNames")),
        categories: strings(names.get("categories")),
        verbs: verbs(&[
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ]),
        subresources,
        table: table.clone(),
        storage_version: storage.to_owned(),
        go_type: None,
        rules: &CUSTOM,
        custom: Some(Arc::new(CustomKind {
            versions: shared.clone(),
            version: index,
            status,
            scale,
            columns: printed,
            selectable,
        })),
        kind,
    }
}

/// Takes the instances of a definition away, then the definition.
pub fn finish_deletion(server: &ApiServer, name: &str) {
    let Some(current) = server.store().get(TABLE, name) else {
        return;
    };
    if !meta::is_terminating(&current.value) || !meta::finalizers(&current.value).contains(&CLEANUP)
    {
        return;
    }
    let table = format!(
        "{}/{}",
        text(&current.value, "/spec/group"),
        text(&current.value, "/status/acceptedNames/plural")
    );
    let now = server.env().now();
    for item in server.store().list(&table, "", None, 0).items {
        let namespace = meta::text(&item.value, "namespace");
        let key = if namespace.is_empty() {
            meta::text(&item.value, "name").to_owned()
        } else {
            format!("{namespace}/{}", meta::text(&item.value, "name"))
        };
        if meta::finalizers(&item.value).is_empty() {
            let _ = server.store().delete(&table, &key, item.revision, None);
        } else if !meta::is_terminating(&item.value) {
            let mut marked = item.value.clone();
            meta::set(&mut marked, "deletionTimestamp", Some(now.rfc3339().into()));
            meta::set(&mut marked, "deletionGracePeriodSeconds", Some(0.into()));
            let generation = meta::generation(&marked);
            if generation > 0 {
                meta::set(&mut marked, "generation", Some((generation + 1).into()));
            }
            let _ = server.store().update(&table, &key, item.revision, marked);
        }
    }
    if server.store().count(&table) > 0 {
        return;
    }
    let mut last = current.value.clone();
    let rest: Vec<Value> = meta::finalizers(&last)
        .into_iter()
        .filter(|finalizer| *finalizer != CLEANUP)
        .map(Value::from)
        .collect();
    let empty = rest.is_empty();
    meta::set(
        &mut last,
        "finalizers",
        (!empty).then_some(Value::Array(rest)),
    );
    if empty {
        let _ = server
            .store()
            .delete(TABLE, name, current.revision, Some(last));
    } else {
        let _ = server.store().update(TABLE, name, current.revision, last);
    }
    let (group, plural) = (
        text(&current.value, "/spec/group").to_owned(),
        text(&current.value, "/spec/names/plural").to_owned(),
    );
    server.change_registry(|registry| registry.remove(&group, &plural));
}

/// The definition of a custom kind, marked for deletion as the real server marks it.
pub fn mark_for_deletion(definition: &mut Value, now: &str) {
    if !meta::is_terminating(definition)
        && let Some(list) = definition
            .pointer_mut("/status/conditions")
            .and_then(Value::as_array_mut)
    {
        put_condition(
            list,
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            now,
        );
    }
    let map: &mut Map<String, Value> = meta::metadata_mut(definition);
    map.entry("deletionTimestamp").or_insert_with(|| now.into());
    let list = map.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.contains(&json!(CLEANUP))
    {
        list.push(CLEANUP.into());
    }
}

/// After an instance went: its definition may be waiting for that.
pub fn after_delete(server: &ApiServer, group: &str, plural: &str) {
    finish_deletion(server, &format!("{plural}.{group}"));
}
