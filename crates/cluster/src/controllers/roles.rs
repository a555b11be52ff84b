//! Aggregated ClusterRoles: their rules are those of the roles that their selectors choose.

use serde_json::{Value, json};

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

/// Fills every aggregated role.
pub fn aggregate(server: &ApiServer) {
    let all = server.store().list(TABLE, "", None, 0).items;
    for role in &all {
        let selectors = role
            .value
            .pointer("/aggregationRule/clusterRoleSelectors")
            .and_then(Value::as_array);
        let Some(selectors) = selectors.filter(|selectors| !selectors.is_empty()) else {
            continue;
        };
        let name = meta::text(&role.value, "name");
        let mut rules: Vec<&Value> = Vec::new();
        for selector in selectors {
            let chosen = all.iter().filter(|other| {
                meta::text(&other.value, "name") != name && chooses(selector, &other.value)
            });
            for rule in
                chosen.flat_map(|other| other.value["rules"].as_array().into_iter().flatten())
            {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        let known = role.value["rules"]
            .as_array()
            .map_or(&[] as &[Value], Vec::as_slice);
        if known.iter().eq(rules.iter().copied()) {
            continue;
        }
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
