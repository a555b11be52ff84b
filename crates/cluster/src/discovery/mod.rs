//! Discovery, version and health.

pub mod services;

use everflow_json::{Map, Value, json};

use crate::resource::{Registry, Resource, join_version};
use crate::rest::request::{Answer, Request, json_line};
use crate::server_core::ApiServer;
use crate::status::{ApiError, ApiResult};

/// The groups in the order the real server lists them, with the newest version first.
const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Answers paths that are not of resources.
pub fn answer(server: &ApiServer, request: &Request) -> ApiResult<Option<Answer>> {
    let path = request.path.trim_end_matches('/');
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let registry = server.registry();
    let known = match parts.as_slice() {
        ["version"] => Some(Answer::json(200, &version())),
        ["healthz" | "livez" | "readyz", ..] => Some(health(path, request)),
        ["api"] if wants_old_aggregation_only(request) => return Err(not_acceptable()),
        ["api"] => Some(legacy_versions(&registry, request)),
        ["apis"] => Some(group_list(&registry, request)),
        ["api", version] => Some(resource_list(&registry, "", version)?),
        ["apis", group] => Some(group_answer(&registry, group)),
        ["apis", group, version] => match registry.has_group(group) {
            true => Some(resource_list(&registry, group, version)?),
            false => Some(Answer::text(404, "404 page not found\n")),
        },
        ["openapi", ..] => Some(crate::openapi::answer(server, request, &parts[1..])?),
        _ => None,
    };
    let health = matches!(parts.first(), Some(&("healthz" | "livez" | "readyz")));
    if known.is_some() && !health && !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Err(ApiError::method_not_allowed());
    }
    match known {
        Some(answer) if !matches!(parts.first(), Some(&"openapi")) => {
            let only_json = matches!(parts.as_slice(), ["version"]);
            crate::negotiate::document(request, answer, only_json).map(Some)
        }
        other => Ok(other),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.1", "gitCommit": "everflow", "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "rust", "compiler": "rustc", "platform": "linux/amd64"
    })
}

fn health(path: &str, request: &Request) -> Answer {
    const CHECKS: &[&str] = &[
        "ping",
        "log",
        "etcd",
        "poststarthook/start-apiextensions-controllers",
        "poststarthook/crd-informer-synced",
    ];
    let name = path
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    let rest = path
        .trim_start_matches('/')
        .split_once('/')
        .map_or("", |(_, rest)| rest);
    if !rest.is_empty() {
        return if CHECKS.contains(&rest) {
            Answer::text(200, "ok")
        } else {
            Answer::text(404, "404 page not found\n")
        };
    }
    if request.param("verbose").is_some() {
        let lines: String = CHECKS
            .iter()
            .map(|check| format!("[+]{check} ok\n"))
            .collect();
        return Answer::text(200, &format!("{lines}{name} check passed\n"));
    }
    Answer::text(200, "ok")
}

/// All groups but the core one, in order, with their versions in order.
pub fn groups(registry: &Registry) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for resource in registry.all().filter(|resource| !resource.group.is_empty()) {
        match found.iter_mut().find(|(group, _)| *group == resource.group) {
            Some((_, versions)) if versions.contains(&resource.version) => {}
            Some((_, versions)) => versions.push(resource.version.clone()),
            None => found.push((resource.group.clone(), vec![resource.version.clone()])),
        }
    }
    for (_, versions) in &mut found {
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
    }
    found.sort_by_key(|(group, _)| {
        (
            GROUP_ORDER
                .iter()
                .position(|known| known == group)
                .unwrap_or(GROUP_ORDER.len()),
            group.clone(),
        )
    });
    found
}

/// Stable versions before betas before alphas, larger numbers first.
pub fn version_rank(version: &str) -> (u8, u64, u64) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let major = digits.parse().unwrap_or_default();
    let tail = &rest[digits.len()..];
    match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
        (Some(minor), _) => (2, major, minor.parse().unwrap_or_default()),
        (_, Some(minor)) => (1, major, minor.parse().unwrap_or_default()),
        _ if tail.is_empty() && !digits.is_empty() => (3, major, 0),
        _ => (0, 0, 0),
    }
}

fn wants_aggregated(request: &Request) -> bool {
    request.all_headers("accept").iter().any(|value| {
        value.split(',').any(|part| {
            part.contains("as=APIGroupDiscoveryList")
                && part.contains("g=apidiscovery.k8s.io")
                && part.contains("v=v2")
                && !part.contains("v=v2beta1")
        })
    })
}

/// Whether the client takes nothing but a form of aggregated discovery that is no longer served.
fn wants_old_aggregation_only(request: &Request) -> bool {
    let all = request.all_headers("accept");
    let mut parts = all
        .iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .peekable();
    parts.peek().is_some() && parts.all(|part| part.contains("v=v2beta1"))
}

fn not_acceptable() -> Box<ApiError> {
    ApiError::new(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

fn with_etag(request: &Request, media: &str, value: &Value) -> Answer {
    let body = everflow_json::to_vec(value).unwrap_or_default();
    let tag = format!("\"{}\"", crate::openapi::digest(&body));
    let matched = request
        .all_headers("if-none-match")
        .iter()
        .any(|given| *given == tag);
    let mut answer = if matched {
        Answer::new(304, media, Vec::new())
    } else {
        Answer::new(200, media, body)
    };
    answer.headers.push(("etag".into(), tag.into()));
    answer.headers.push(("vary".into(), "Accept".into()));
    answer
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn legacy_versions(registry: &Registry, request: &Request) -> Answer {
    if wants_aggregated(request) {
        let item = aggregated_group(registry, "", &["v1".to_owned()]);
        return with_etag(
            request,
            AGGREGATED,
            &json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [item]}),
        );
    }
    let value = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]});
    Answer::json(200, &value)
}

fn group_list(registry: &Registry, request: &Request) -> Answer {
    let all = groups(registry);
    if wants_aggregated(request) {
        let items: Vec<Value> = all
            .iter()
            .map(|(group, versions)| aggregated_group(registry, group, versions))
            .collect();
        return with_etag(
            request,
            AGGREGATED,
            &json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}),
        );
    }
    let list: Vec<Value> = all
        .iter()
        .map(|(group, versions)| group_value(group, versions, false))
        .collect();
    Answer::json(
        200,
        &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list}),
    )
}

fn group_value(group: &str, versions: &[String], alone: bool) -> Value {
    let entry = |version: &String| json!({"groupVersion": join_version(group, version), "version": version});
    let mut value = json!({"name": group, "versions": versions.iter().map(entry).collect::<Vec<_>>(), "preferredVersion": versions.first().map(entry)});
    if alone && let Some(map) = value.as_object_mut() {
        map.insert("kind".into(), "APIGroup".into());
        map.insert("apiVersion".into(), "v1".into());
    }
    value
}

fn group_answer(registry: &Registry, group: &str) -> Answer {
    match groups(registry).into_iter().find(|(name, _)| name == group) {
        Some((group, versions)) => Answer::json(200, &group_value(&group, &versions, true)),
        None => Answer::text(404, "404 page not found\n"),
    }
}

fn resource_list(registry: &Registry, group: &str, version: &str) -> ApiResult<Answer> {
    if !registry.has_version(group, version) {
        return Err(ApiError::no_such_resource());
    }
    let text = registry.list_text(group, version, || {
        json_line(&resources_of(registry, group, version))
    });
    Ok(Answer::new(200, "application/json", text))
}

fn resources_of(registry: &Registry, group: &str, version: &str) -> Value {
    let mut list = Vec::new();
    for resource in registry.in_version(group, version) {
        list.extend(entries(resource));
    }
    let mut value = json!({"kind": "APIResourceList", "groupVersion": join_version(group, version), "resources": list});
    // The core list has no apiVersion of its own; the others do.
    if !group.is_empty()
        && let Some(map) = value.as_object_mut()
    {
        map.insert("apiVersion".into(), "v1".into());
    }
    value
}

fn entries(resource: &Resource) -> Vec<Value> {
    let mut main = json!({"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced, "kind": resource.kind, "verbs": resource.verbs});
    let hash = storage_hash(resource);
    if let Some(map) = main.as_object_mut() {
        put_list(map, "shortNames", &resource.short_names);
        put_list(map, "categories", &resource.categories);
        if resource.has_verb("list") && resource.has_verb("create") {
            map.insert("storageVersionHash".into(), hash.into());
        }
    }
    let mut all = vec![main];
    for sub in &resource.subresources {
        let mut entry = json!({"name": format!("{}/{}", resource.plural, sub.name), "singularName": "", "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs});
        if let Some(map) = entry.as_object_mut() {
            if !sub.group.is_empty() {
                map.insert("group".into(), sub.group.as_str().into());
            }
            if !sub.version.is_empty() {
                map.insert("version".into(), sub.version.as_str().into());
            }
        }
        all.push(entry);
    }
    all
}

fn put_list(map: &mut Map, key: &str, list: &[String]) {
    if !list.is_empty() {
        map.insert(key.into(), json!(list));
    }
}

/// The fingerprint of group, version and kind a resource is stored in.
fn storage_hash(resource: &Resource) -> String {
    let known =
        everflow_schema::builtin().resource(&resource.group, &resource.version, &resource.plural);
    if let Some(hash) = known.and_then(|known| known.storage_version_hash.as_ref()) {
        return hash.to_string();
    }
    crate::openapi::storage_hash(
        resource
            .table
            .split_once('/')
            .map_or("", |(group, _)| group),
        &resource.storage_version,
        &resource.kind,
    )
}

fn aggregated_group(registry: &Registry, group: &str, versions: &[String]) -> Value {
    let list: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = registry
                .in_version(group, version)
                .map(|resource| aggregated_resource(resource))
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({})
    } else {
        json!({"name": group})
    };
    json!({"metadata": metadata, "versions": list})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let scope = if resource.namespaced {
        "Namespaced"
    } else {
        "Cluster"
    };
    let mut value = json!({
        "resource": resource.plural,
        "responseKind": {"group": if resource.is_custom() { resource.group.as_str() } else { "" }, "version": if resource.is_custom() { resource.version.as_str() } else { "" }, "kind": resource.kind},
        "scope": scope,
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    let Some(map) = value.as_object_mut() else {
        return value;
    };
    put_list(map, "shortNames", &resource.short_names);
    put_list(map, "categories", &resource.categories);
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            let group = if sub.group.is_empty() && sub.version.is_empty() { if resource.is_custom() { resource.group.as_str() } else { "" } } else { sub.group.as_str() };
            let version = if sub.version.is_empty() { if resource.is_custom() { resource.version.as_str() } else { "" } } else { sub.version.as_str() };
            json!({"subresource": sub.name, "responseKind": {"group": group, "version": version, "kind": sub.kind}, "verbs": sub.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        map.insert("subresources".into(), Value::Array(subresources));
    }
    value
}
