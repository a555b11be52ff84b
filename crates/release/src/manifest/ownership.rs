//! To which release an object belongs, as Helm notes it on the object.

use everflow_json::{Map, Value, json};

/// The label of what Helm manages.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const HELM: &str = "Helm";
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const RESOURCE_POLICY: &str = "helm.sh/resource-policy";
const KEEP: &str = "keep";

/// Notes on an object to which release it belongs.
pub fn own(object: &mut Value, name: &str, namespace: &str) {
    put(object, "labels", &[(MANAGED_BY, HELM)]);
    put(
        object,
        "annotations",
        &[(RELEASE_NAME, name), (RELEASE_NAMESPACE, namespace)],
    );
}

fn put(object: &mut Value, field: &str, entries: &[(&str, &str)]) {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    let place = &mut object["metadata"][field];
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    for (key, value) in entries {
        place[*key] = json!(value);
    }
}

/// Whether a live object belongs to a release; if not, why not, in Helm's words.
///
/// # Errors
/// When it does not.
pub fn check_owned(live: &Value, name: &str, namespace: &str) -> Result<(), String> {
    let checks = [
        ("label", "labels", MANAGED_BY, HELM),
        ("annotation", "annotations", RELEASE_NAME, name),
        ("annotation", "annotations", RELEASE_NAMESPACE, namespace),
    ];
    let mut problems = Vec::new();
    for (what, field, key, wanted) in checks {
        match live["metadata"][field][key].as_str() {
            Some(found) if found == wanted => {}
            Some(found) => problems.push(format!(
                "{what} validation error: key \"{key}\" must equal \"{wanted}\": current value is \"{found}\""
            )),
            None => problems.push(format!(
                "{what} validation error: missing key \"{key}\": must be set to \"{wanted}\""
            )),
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => {
            let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str);
            Err(format!(
                "{} \"{}\" in namespace \"{}\" exists and cannot be imported into the current release: \
                 invalid ownership metadata; {}",
                text("/kind").unwrap_or_default(),
                text("/metadata/name").unwrap_or_default(),
                text("/metadata/namespace").unwrap_or_default(),
                problems.join("; "),
            ))
        }
    }
}

/// Whether an object asks to be left when its release is upgraded without it or uninstalled.
pub fn is_kept(object: &Value) -> bool {
    let policy = object["metadata"]["annotations"][RESOURCE_POLICY].as_str();
    policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case(KEEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_owned_says_so_and_another_is_refused_in_helms_words() {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "app-cm", "namespace": "take-ownership"},
        });
        assert_eq!(
            check_owned(&object, "app", "take-ownership").unwrap_err(),
            "ConfigMap \"app-cm\" in namespace \"take-ownership\" exists and cannot be imported into the \
             current release: invalid ownership metadata; label validation error: missing key \
             \"app.kubernetes.io/managed-by\": must be set to \"Helm\"; annotation validation error: \
             missing key \"meta.helm.sh/release-name\": must be set to \"app\"; annotation validation \
             error: missing key \"meta.helm.sh/release-namespace\": must be set to \"take-ownership\""
        );
        own(&mut object, "app", "take-ownership");
        assert_eq!(check_owned(&object, "app", "take-ownership"), Ok(()));
        assert!(check_owned(&object, "other", "take-ownership").is_err());
    }

    #[test]
    fn only_the_policy_keep_keeps() {
        let with = |policy: &str| json!({"metadata": {"annotations": {RESOURCE_POLICY: policy}}});
        assert!(is_kept(&with("keep")) && is_kept(&with(" Keep ")));
        assert!(!is_kept(&with("delete")) && !is_kept(&json!({})));
    }
}
