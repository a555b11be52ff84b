//! What well-known operators make from their objects, which nobody writes into a repository.

use everflow_api::view;
use everflow_json::Value;

/// Kind, namespace and name of an object.
type Made = (String, String, String);

/// The objects that an operator makes from this one.
pub(crate) fn made_from(object: &Value) -> Vec<Made> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split('/').next().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let own = view::name(object).to_owned();
    let named = |value: &Value| match text(value) {
        name if name.is_empty() => own.clone(),
        name => name,
    };
    let made: Vec<(&str, String)> = match (group, kind) {
        ("external-secrets.io", "ExternalSecret") => {
            vec![("Secret", named(&spec["target"]["name"]))]
        }
        ("bitnami.com", "SealedSecret") => {
            vec![("Secret", named(&spec["template"]["metadata"]["name"]))]
        }
        ("cert-manager.io", "Certificate") => vec![("Secret", text(&spec["secretName"]))],
        ("flagger.app", "Canary") => rollout(spec),
        _ => Vec::new(),
    };
    let namespace = view::namespace(object);
    let whole = |(kind, name): (&str, String)| (kind.to_owned(), namespace.to_owned(), name);
    made.into_iter().map(whole).collect()
}

/// What Flagger makes for a rollout.
fn rollout(spec: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let target = text(&spec["targetRef"]["name"]);
    let service = match text(&spec["service"]["name"]) {
        name if name.is_empty() => target.clone(),
        name => name,
    };
    vec![
        ("Deployment", format!("{target}-primary")),
        ("Service", format!("{service}-primary")),
        ("Service", format!("{service}-canary")),
        ("Service", service),
    ]
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    fn names(object: &Value) -> Vec<String> {
        let made = made_from(object).into_iter();
        made.map(|(kind, namespace, name)| format!("{kind}/{namespace}/{name}"))
            .collect()
    }

    #[test]
    fn operators_make_secrets_and_services() {
        let object = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "n"}, "spec": spec});
        let external = "external-secrets.io/v1";
        assert_eq!(
            names(&object(external, "ExternalSecret", json!({}))),
            ["Secret/n/a"]
        );
        let target = json!({"target": {"name": "b"}});
        assert_eq!(
            names(&object(external, "ExternalSecret", target)),
            ["Secret/n/b"]
        );
        let certificate = json!({"secretName": "tls"});
        assert_eq!(
            names(&object("cert-manager.io/v1", "Certificate", certificate)),
            ["Secret/n/tls"]
        );
        let sealed = object("bitnami.com/v1alpha1", "SealedSecret", json!({}));
        assert_eq!(names(&sealed), ["Secret/n/a"]);
        let canary = json!({"targetRef": {"kind": "Deployment", "name": "web"}});
        let expected = [
            "Deployment/n/web-primary",
            "Service/n/web-primary",
            "Service/n/web-canary",
            "Service/n/web",
        ];
        assert_eq!(
            names(&object("flagger.app/v1beta1", "Canary", canary)),
            expected
        );
    }

    #[test]
    fn other_objects_make_nothing() {
        assert!(made_from(&json!({"apiVersion": "v1", "kind": "Certificate"})).is_empty());
    }
}
