//! Roles and bindings.

use everflow_json::{Value, json};

use super::{User, text};
use crate::field::go_quote;
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
                verb: target.verb.to_string(),
                group: target.group.to_string(),
                resource: target.resource.to_string(),
                subresource: target.subresource.to_string(),
                namespace: target.namespace.to_string(),
                name: target.name.to_string(),
                path: request.path.to_string(),
            },
            None => Attributes {
                verb: request.method.to_lowercase(),
                path: request.path.to_string(),
                ..Attributes::default()
            },
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

fn describe(subject: &Value, namespace: &str) -> String {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        kind @ "ServiceAccount" => {
            let place = match text(subject, "/namespace") {
                "" => namespace,
                given => given,
            };
            format!("{kind} \"{name}/{place}\"")
        }
        kind => format!("{kind} {}", go_quote(name)),
    }
}

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The rules of a role, if there is one.
pub fn role_rules(
    server: &ApiServer,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Option<Vec<Value>> {
    let role = if kind == "ClusterRole" {
        server.store().get(CLUSTER_ROLES, name)
    } else {
        server.store().get(ROLES, &format!("{namespace}/{name}"))
    }?;
    let rules = role.value.get("rules").and_then(Value::as_array);
    Some(rules.cloned().unwrap_or_default())
}

const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";
const CLUSTER_ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/clusterrolebindings";
const ROLES: &str = "rbac.authorization.k8s.io/roles";
const ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/rolebindings";

/// A binding that applies to a caller.
struct Binding<'b> {
    object: &'b Value,
    subject: &'b Value,
    namespace: &'b str,
}

impl Binding<'_> {
    /// Why the binding allows something.
    fn reason(&self) -> String {
        let (name, role, kind) = (
            crate::kinds::meta::text(self.object, "name"),
            text(self.object, "/roleRef/name"),
            text(self.object, "/roleRef/kind"),
        );
        let subject = describe(self.subject, self.namespace);
        if self.namespace.is_empty() {
            format!(
                "RBAC: allowed by ClusterRoleBinding \"{name}\" of {kind} \"{role}\" to {subject}"
            )
        } else {
            format!(
                "RBAC: allowed by RoleBinding \"{name}/{}\" of {kind} \"{role}\" to {subject}",
                self.namespace
            )
        }
    }
}

/// What there is to see while looking through a caller's rules.
enum Seen<'s> {
    Rule(&'s Value, &'s Binding<'s>),
    MissingRole(&'s str, &'s str),
}

/// Looks at all rules a caller has until the work says that it is done.
fn visit(server: &ApiServer, user: &User, namespace: &str, work: &mut dyn FnMut(Seen<'_>) -> bool) {
    let store = server.store();
    let everywhere = store.list(CLUSTER_ROLE_BINDINGS, "", None, 0).items;
    let here = if namespace.is_empty() {
        Vec::new()
    } else {
        store
            .list(ROLE_BINDINGS, &format!("{namespace}/"), None, 0)
            .items
    };
    let all = everywhere
        .iter()
        .map(|binding| (binding, ""))
        .chain(here.iter().map(|binding| (binding, namespace)));
    for (stored, place) in all {
        let subjects = stored.value.get("subjects").and_then(Value::as_array);
        let Some(subject) = subjects
            .into_iter()
            .flatten()
            .find(|subject| subject_matches(subject, user, place))
        else {
            continue;
        };
        let binding = Binding {
            object: &stored.value,
            subject,
            namespace: place,
        };
        let (kind, role) = (
            text(&stored.value, "/roleRef/kind"),
            text(&stored.value, "/roleRef/name"),
        );
        let found = if kind == "ClusterRole" {
            store.get(CLUSTER_ROLES, role)
        } else {
            store.get(ROLES, &format!("{place}/{role}"))
        };
        let Some(found) = found else {
            if work(Seen::MissingRole(kind, role)) {
                return;
            }
            continue;
        };
        let rules = found.value.get("rules").and_then(Value::as_array);
        for rule in rules.into_iter().flatten() {
            if work(Seen::Rule(rule, &binding)) {
                return;
            }
        }
    }
}

/// Whether a caller may do something.
pub fn decide(server: &ApiServer, user: &User, wanted: &Attributes) -> Decision {
    if !server.options().authorization || user.in_group("system:masters") {
        return Decision::Allowed(String::new());
    }
    let mut found = None;
    let mut missing: Vec<String> = Vec::new();
    visit(server, user, &wanted.namespace, &mut |seen| match seen {
        Seen::Rule(rule, binding) if covers(rule, wanted) => {
            found = Some(binding.reason());
            true
        }
        Seen::Rule(..) => false,
        Seen::MissingRole(kind, name) => {
            let text = format!(
                "{}.{GROUP} {} not found",
                kind.to_lowercase(),
                go_quote(name)
            );
            if !missing.contains(&text) {
                missing.push(text);
            }
            false
        }
    });
    match (found, missing.as_slice()) {
        (Some(why), _) => Decision::Allowed(why),
        (None, []) => Decision::Denied(String::new()),
        (None, [one]) => Decision::Denied(format!("RBAC: {one}")),
        (None, several) => Decision::Denied(format!("RBAC: [{}]", several.join(", "))),
    }
}

/// The rules a caller has in a namespace.
pub fn rules_for(server: &ApiServer, user: &User, namespace: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    visit(server, user, namespace, &mut |seen| {
        if let Seen::Rule(rule, _) = seen {
            rules.push(rule.clone());
        }
        false
    });
    rules
}

/// The rules a caller has in a namespace, as a rules review lists them.
pub fn rules_of(call: &Call<'_>, user: &User, namespace: &str) -> Value {
    let rules = if call.server.options().authorization {
        rules_for(call.server, user, namespace)
    } else {
        vec![
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        ]
    };
    let mut resources: Vec<Value> = Vec::new();
    let mut others: Vec<Value> = Vec::new();
    for rule in rules {
        let pick = |keys: &[&str]| -> Value {
            let present = keys.iter().filter_map(|key| {
                let list = rule.get(*key)?.as_array().filter(|list| !list.is_empty())?;
                Some(((*key).to_owned(), Value::Array(list.clone())))
            });
            Value::Object(present.collect())
        };
        if rule.get("resources").is_some() {
            resources.push(pick(&["verbs", "apiGroups", "resources", "resourceNames"]));
        }
        if rule.get("nonResourceURLs").is_some() {
            others.push(pick(&["verbs", "nonResourceURLs"]));
        }
    }
    json!({"resourceRules": resources, "nonResourceRules": others, "incomplete": false})
}
