//! Aggregated ClusterRoles: their rules are those of the roles that their selectors choose.

use everflow_json::{Value, json};

use super::send;
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// Where ClusterRoles are.
pub const TABLE: &str = "rbac.authorization.k8s.io/clusterroles";

fn chooses(selector: &Value, role: &Value) -> bool {
    let labels = role.pointer("/metadata/labels");
    let label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
    };
    let by_value = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == value.as_str());
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let by_expression = expressions.into_iter().flatten().all(|expression| {
        let found = label(expression["key"].as_str().unwrap_or_default());
        let listed = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|value| value.as_str() == found);
        match expression["operator"].as_str().unwrap_or_default() {
            "In" => found.is_some() && listed,
            "NotIn" => found.is_none() || !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    });
    by_value && by_expression
}

/// A role that is made of others.
struct Aggregated {
    name: String,
    /// Its rules now.
    known: Value,
    /// Its selectors, and the rules of the roles that each of them chooses.
    parts: Vec<(Value, Vec<Value>)>,
}

impl Aggregated {
    fn of(role: &Value) -> Option<Self> {
        let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
        let selectors = selectors.and_then(Value::as_array)?;
        Some(Aggregated {
            name: meta::text(role, "name").to_owned(),
            known: role["rules"].clone(),
            parts: selectors
                .iter()
                .map(|selector| (selector.clone(), Vec::new()))
                .collect(),
        })
        .filter(|found| !found.parts.is_empty())
    }

    fn look_at(&mut self, role: &Value) {
        if meta::text(role, "name") == self.name {
            return;
        }
        for (selector, rules) in &mut self.parts {
            if chooses(selector, role) {
                rules.extend(role["rules"].as_array().into_iter().flatten().cloned());
            }
        }
    }

    /// Its rules as they should be, each of them once.
    fn rules(&self) -> Vec<&Value> {
        let mut rules: Vec<&Value> = Vec::new();
        for rule in self.parts.iter().flat_map(|(_, rules)| rules) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules
    }
}

/// Fills every aggregated role.
pub fn aggregate(server: &ApiServer) {
    // There are many roles, and this may be the only time that anybody reads them: one tree at a time is enough.
    let all = server.store().list(TABLE, "", None, 0).items;
    let mut aggregated: Vec<Aggregated> = all
        .iter()
        .filter_map(|role| Aggregated::of(&role.value.read()))
        .collect();
    for role in &all {
        let role = role.value.read();
        aggregated.iter_mut().for_each(|found| found.look_at(&role));
    }
    for found in aggregated {
        let rules = found.rules();
        let known = found.known.as_array().map_or(&[][..], Vec::as_slice);
        if known.iter().eq(rules.iter().copied()) {
            continue;
        }
        let name = &found.name;
        let applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let path = format!(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}?fieldManager=clusterrole-aggregation-controller&force=true"
        );
        send(
            server,
            "PATCH",
            &path,
            "application/apply-patch+yaml",
            &applied,
        );
    }
}
