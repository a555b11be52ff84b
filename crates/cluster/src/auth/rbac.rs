//! Roles and bindings.

use serde_json::{Map, Value, json};

use super::{User, text};
use crate::rest::Call;
use crate::rest::request::{Request, Target};
use crate::server_core::ApiServer;

/// What somebody wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The plural name; empty for paths that are not of resources.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The path, for requests that are not of resources.
    pub path: String,
}

/// Whether it may be done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allowed(String),
    /// No.
    Denied(String),
}

impl Attributes {
    /// The attributes of a request.
    pub fn of_request(request: &Request, target: Option<&Target>) -> Self {
        match target {
            Some(target) => Attributes {
                verb: target.verb.clone(),
                group: target.group.clone(),
                resource: target.resource.clone(),
                subresource: target.subresource.clone(),
                namespace: target.namespace.clone(),
                name: target.name.clone(),
                path: request.path.clone(),
            },
            None => Attributes {
                verb: request.method.to_lowercase(),
                path: request.path.clone(),
                ..Attributes::default()
            },
        }
    }

    /// The attributes of acting as somebody else.
    pub fn impersonation(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Attributes {
            verb: "impersonate".into(),
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    /// The attributes an access review asks about.
    pub fn of_review(review: &Value) -> Self {
        let at = |key: &str| text(review, &format!("/spec/resourceAttributes/{key}")).to_owned();
        if review.pointer("/spec/nonResourceAttributes").is_some() {
            return Attributes {
                verb: text(review, "/spec/nonResourceAttributes/verb").into(),
                path: text(review, "/spec/nonResourceAttributes/path").into(),
                ..Attributes::default()
            };
        }
        Attributes {
            verb: at("verb"),
            group: at("group"),
            resource: at("resource"),
            subresource: at("subresource"),
            namespace: at("namespace"),
            name: at("name"),
            path: String::new(),
        }
    }
}

fn strings<'v>(rule: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    rule.get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn has(rule: &Value, key: &str, wanted: &str) -> bool {
    strings(rule, key).any(|known| known == "*" || known == wanted)
}

/// Whether a rule covers a request.
fn covers(rule: &Value, wanted: &Attributes) -> bool {
    if !has(rule, "verbs", &wanted.verb) {
        return false;
    }
    if wanted.resource.is_empty() {
        return strings(rule, "nonResourceURLs").any(|known| {
            known == "*"
                || known == wanted.path
                || known
                    .strip_suffix('*')
                    .is_some_and(|prefix| wanted.path.starts_with(prefix))
        });
    }
    let full = if wanted.subresource.is_empty() {
        wanted.resource.clone()
    } else {
        format!("{}/{}", wanted.resource, wanted.subresource)
    };
    let any_of = format!("*/{}", wanted.subresource);
    let resource = strings(rule, "resources").any(|known| {
        known == "*" || known == full || (!wanted.subresource.is_empty() && known == any_of)
    });
    let mut names = strings(rule, "resourceNames").peekable();
    let named = names.peek().is_none() || names.any(|name| name == wanted.name);
    has(rule, "apiGroups", &wanted.group) && resource && named
}

fn subject_matches(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => user.name == name,
        "Group" => user.in_group(name),
        "ServiceAccount" => {
            let place = match text(subject, "/namespace") {
                "" => namespace,
                given => given,
            };
            user.name == format!("system:serviceaccount:{place}:{name}")
        }
        _ => false,
    }
}

fn describe(subject: &Value) -> String {
    match text(subject, "/kind") {
        "ServiceAccount" => format!(
            "{} \"{}/{}\"",
            text(subject, "/kind"),
            text(subject, "/name"),
            text(subject, "/namespace")
        ),
        kind => format!("{kind} {}", crate::field::go_quote(text(subject, "/name"))),
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// All rules a caller has, with where they come from.
fn visit(
    server: &ApiServer,
    user: &User,
    namespace: &str,
    work: &mut dyn FnMut(&Value, String) -> bool,
) {
    let store = server.store();
    let role_rules = |table: &str, key: &str| {
        store
            .get(&format!("{GROUP}/{table}"), key)
            .and_then(|role| role.value.get("rules").and_then(Value::as_array).cloned())
            .unwrap_or_default()
    };
    for binding in store
        .list(&format!("{GROUP}/clusterrolebindings"), "", None, 0)
        .items
    {
        let Some(subject) = binding
            .value
            .get("subjects")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|subject| subject_matches(subject, user, ""))
        else {
            continue;
        };
        let (name, role) = (
            crate::kinds::meta::text(&binding.value, "name"),
            text(&binding.value, "/roleRef/name"),
        );
        let why = format!(
            "RBAC: allowed by ClusterRoleBinding \"{name}\" of ClusterRole \"{role}\" to {}",
            describe(subject)
        );
        for rule in role_rules("clusterroles", role) {
            if work(&rule, why.clone()) {
                return;
            }
        }
    }
    if namespace.is_empty() {
        return;
    }
    for binding in store
        .list(
            &format!("{GROUP}/rolebindings"),
            &format!("{namespace}/"),
            None,
            0,
        )
        .items
    {
        let Some(subject) = binding
            .value
            .get("subjects")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|subject| subject_matches(subject, user, namespace))
        else {
            continue;
        };
        let (name, role, kind) = (
            crate::kinds::meta::text(&binding.value, "name"),
            text(&binding.value, "/roleRef/name"),
            text(&binding.value, "/roleRef/kind"),
        );
        let why = format!(
            "RBAC: allowed by RoleBinding \"{name}/{namespace}\" of {kind} \"{role}\" to {}",
            describe(subject)
        );
        let rules = if kind == "ClusterRole" {
            role_rules("clusterroles", role)
        } else {
            role_rules("roles", &format!("{namespace}/{role}"))
        };
        for rule in rules {
            if work(&rule, why.clone()) {
                return;
            }
        }
    }
}

/// What everybody may read, as the real server's own roles say.
fn built_in(user: &User, wanted: &Attributes) -> bool {
    if !wanted.resource.is_empty() {
        let self_review = wanted.verb == "create"
            && matches!(
                wanted.resource.as_str(),
                "selfsubjectaccessreviews" | "selfsubjectrulesreviews" | "selfsubjectreviews"
            );
        return self_review && user.in_group("system:authenticated");
    }
    if !matches!(wanted.verb.as_str(), "get" | "head") {
        return false;
    }
    let path = wanted.path.as_str();
    let public = matches!(
        path,
        "/healthz" | "/livez" | "/readyz" | "/version" | "/version/"
    );
    let discovery = [
        "/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version",
    ]
    .iter()
    .any(|prefix| {
        path == *prefix
            || path
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with('/'))
    });
    public || (discovery && user.in_group("system:authenticated"))
}

/// Whether a caller may do something.
pub fn decide(server: &ApiServer, user: &User, wanted: &Attributes) -> Decision {
    if !server.options().authorization || user.in_group("system:masters") {
        return Decision::Allowed(String::new());
    }
    let mut found = None;
    visit(server, user, &wanted.namespace, &mut |rule, why| {
        if covers(rule, wanted) {
            found = Some(why);
            return true;
        }
        false
    });
    match found {
        Some(why) => Decision::Allowed(why),
        None if built_in(user, wanted) => Decision::Allowed(String::new()),
        None => Decision::Denied(String::new()),
    }
}

/// The rules a caller has in a namespace, as a rules review lists them.
pub fn rules_of(call: &Call<'_>, user: &User, namespace: &str) -> Value {
    let mut resources: Vec<Value> = Vec::new();
    let mut others: Vec<Value> = Vec::new();
    let mut add = |rule: &Value| {
        let pick = |keys: &[&str]| {
            let mut map = Map::new();
            for key in keys {
                if let Some(list) = rule
                    .get(*key)
                    .filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
                {
                    map.insert((*key).to_owned(), list.clone());
                }
            }
            Value::Object(map)
        };
        if rule.get("nonResourceURLs").is_some() {
            others.push(pick(&["verbs", "nonResourceURLs"]));
        } else {
            resources.push(pick(&["verbs", "apiGroups", "resources", "resourceNames"]));
        }
    };
    if user.in_group("system:masters") {
        add(&json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        add(&json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    visit(call.server, user, namespace, &mut |rule, _| {
        add(rule);
        false
    });
    json!({"resourceRules": resources, "nonResourceRules": others, "incomplete": false})
}
