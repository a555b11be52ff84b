//! From a definition to the resources that are served.

use std::sync::Arc;

use everflow_builtins::definition::{text, versions};
use everflow_cel::rules::Rules;
use everflow_json::Value;
use everflow_schema::Schema;
use everflow_schema::structural::Validator;

use super::{CustomKind, CustomVersion, ScalePaths, columns};
use crate::discovery::version_rank;
use crate::kinds::KindRules;
use crate::resource::{Registry, Resource, Subresource, join_version};
use crate::server_core::ApiServer;
use crate::tree::strings;

static CUSTOM: KindRules = KindRules::CUSTOM;

/// Makes the kinds of a definition reachable.
pub(super) fn serve(server: &ApiServer, definition: &Value) {
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
    let given = schema.and_then(|schema| Schema::from_structural(schema).ok());
    CustomVersion {
        name: text(version, "/name").to_owned(),
        complete: schema.and_then(|schema| Schema::for_custom_resource(schema).ok()),
        rules: given.as_ref().map(Rules::compile).unwrap_or_default(),
        validator: given.map(Validator::new),
    }
}

/// The warning about a deprecated version, with the newest that is not.
fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    let is = |version: &Value, key: &str| version.get(key) == Some(&Value::Bool(true));
    if !is(version, "deprecated") {
        return None;
    }
    if let Some(given) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(given.to_owned());
    }
    let (group, kind) = (
        text(definition, "/spec/group"),
        text(definition, "/spec/names/kind"),
    );
    let name = text(version, "/name");
    let mut newer: Vec<&str> = versions(definition)
        .iter()
        .filter(|other| is(other, "served") && !is(other, "deprecated"))
        .map(|other| text(other, "/name"))
        .filter(|other| version_rank(other) > version_rank(name))
        .collect();
    newer.sort_by_key(|other| std::cmp::Reverse(version_rank(other)));
    let mut warning = format!("{group}/{name} {kind} is deprecated");
    if let Some(best) = newer.first() {
        warning.push_str(&format!("; use {group}/{best} {kind}"));
    }
    Some(warning)
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
        api_version: join_version(text(definition, "/spec/group"), text(version, "/name")),
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
            number: CustomKind::next_number(),
            versions: shared.clone(),
            version: index,
            status,
            scale,
            deprecation: deprecation(definition, version),
            columns: printed,
            selectable,
        })),
        kind,
    }
}
