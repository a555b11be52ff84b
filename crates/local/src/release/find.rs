//! A HelmRelease among the objects of a repository, and what it needs of them.

use everflow_api::view;
use everflow_json::{Value, json};

use crate::Error;

/// A HelmRelease and the objects that it is rendered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Needed {
    /// The HelmRelease.
    pub release: Value,
    /// Its sources, their Secrets, and the ConfigMaps and Secrets with values, as far as they are there.
    pub objects: Vec<Value>,
    /// Sources that are not there: the kind, the namespace and the name of each.
    pub missing: Vec<(String, String, String)>,
}

/// Where a HelmRelease is without a namespace of its own.
const DEFAULT_NAMESPACE: &str = "default";

/// Finds a HelmRelease by its name, and by its namespace where that is given. What comes first of the
/// objects counts.
///
/// # Errors
/// When there is none, or several of that name in different namespaces.
pub fn find(objects: &[Value], name: &str, namespace: Option<&str>) -> Result<Needed, Error> {
    let releases = || objects.iter().filter(|object| is_release(object));
    let mut found = releases().filter(|object| {
        view::name(object) == name
            && namespace.is_none_or(|wanted| [wanted, ""].contains(&view::namespace(object)))
    });
    let Some(first) = found.next() else {
        let known: Vec<String> = releases().map(view::name_of).collect();
        return Err(Error::NoRelease {
            name: view::joined("HelmRelease", namespace.unwrap_or_default(), name),
            known: match known.is_empty() {
                true => "there is no HelmRelease".to_owned(),
                false => format!("there are {}", known.join(", ")),
            },
        });
    };
    if let Some(other) = found.find(|other| view::namespace(other) != view::namespace(first)) {
        return Err(Error::SeveralReleases {
            first: view::name_of(first),
            other: view::name_of(other),
        });
    }
    let mut release = first.clone();
    if view::namespace(&release).is_empty() {
        release["metadata"]["namespace"] = json!(namespace.unwrap_or(DEFAULT_NAMESPACE));
    }
    let mut needed = Needed {
        release: Value::Null,
        objects: Vec::new(),
        missing: Vec::new(),
    };
    let mut search = Search {
        objects,
        needed: &mut needed,
    };
    search.sources(&release);
    search.holders(&release);
    // Only looked at: controllers leave it alone.
    release["spec"]["suspend"] = json!(true);
    if let Some(fields) = release.as_object_mut() {
        fields.remove("status");
    }
    needed.release = release;
    Ok(needed)
}

fn is_release(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    object["kind"] == "HelmRelease" && version.starts_with("helm.toolkit.fluxcd.io/")
}

struct Search<'a> {
    objects: &'a [Value],
    needed: &'a mut Needed,
}

impl Search<'_> {
    fn sources(&mut self, release: &Value) {
        let own = view::namespace(release).to_owned();
        let spec = &release["spec"];
        let reference = match spec["chartRef"].is_object() {
            true => &spec["chartRef"],
            false => &spec["chart"]["spec"]["sourceRef"],
        };
        self.source(reference, &own);
    }

    /// A source, its Secrets and, of a HelmChart, the source that it is taken from.
    fn source(&mut self, reference: &Value, own: &str) {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let namespace = reference["namespace"].as_str().unwrap_or(own).to_owned();
        let (kind, name) = (text("kind").to_owned(), text("name").to_owned());
        let Some(source) = self.object(&kind, &namespace, &name) else {
            self.needed.missing.push((kind, namespace, name));
            return;
        };
        for field in ["secretRef", "certSecretRef", "proxySecretRef"] {
            self.holder("Secret", &namespace, &source["spec"][field]);
        }
        self.holder("Secret", &namespace, &source["spec"]["verify"]["secretRef"]);
        if source["kind"] == "HelmChart" {
            self.source(&source["spec"]["sourceRef"], &namespace);
        }
        self.needed.objects.push(source);
    }

    fn holders(&mut self, release: &Value) {
        let references = release["spec"]["valuesFrom"].as_array();
        for reference in references.into_iter().flatten() {
            let kind = reference["kind"].as_str().unwrap_or_default();
            self.holder(kind, view::namespace(release), reference);
        }
    }

    fn holder(&mut self, kind: &str, namespace: &str, reference: &Value) {
        let Some(name) = reference["name"].as_str() else {
            return;
        };
        if let Some(holder) = self.object(kind, namespace, name)
            && !self.needed.objects.contains(&holder)
        {
            self.needed.objects.push(holder);
        }
    }

    /// An object of that namespace, or else one that does not say which namespace it is for.
    fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let of = |wanted: &str| {
            let mut objects = self.objects.iter();
            objects
                .find(|object| {
                    object["kind"] == kind
                        && view::name(object) == name
                        && view::namespace(object) == wanted
                })
                .cloned()
        };
        let mut found = of(namespace).or_else(|| of(""))?;
        found["metadata"]["namespace"] = json!(namespace);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {
                "chart": {"spec": {"chart": "app", "sourceRef": {
                    "kind": "HelmRepository", "name": "repo", "namespace": "sources"}}},
                "valuesFrom": [
                    {"kind": "ConfigMap", "name": "values"},
                    {"kind": "Secret", "name": "elsewhere"},
                ],
            },
        })
    }

    fn object(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "spec": spec,
            "metadata": {"namespace": namespace, "name": name}})
    }

    #[test]
    fn sources_their_secrets_and_values_come_along() {
        let repository = json!({"secretRef": {"name": "login"}});
        let objects = [
            object("HelmRepository", "sources", "repo", repository),
            object("Secret", "sources", "login", json!({})),
            object("Secret", "other", "elsewhere", json!({})),
            object("ConfigMap", "", "values", json!({})),
            release("apps", "web"),
        ];
        let needed = find(&objects, "web", None).unwrap();
        let names: Vec<String> = needed.objects.iter().map(view::name_of).collect();
        assert_eq!(
            names,
            [
                "Secret/sources/login",
                "HelmRepository/sources/repo",
                "ConfigMap/apps/values"
            ]
        );
        assert_eq!(needed.release["spec"]["suspend"], true);
        assert!(needed.missing.is_empty());
    }

    #[test]
    fn a_source_that_is_not_there_is_named() {
        let needed = find(&[release("", "web")], "web", Some("apps")).unwrap();
        assert_eq!(view::namespace(&needed.release), "apps");
        let missing = ("HelmRepository".into(), "sources".into(), "repo".into());
        assert_eq!(needed.missing, [missing]);
    }

    #[test]
    fn one_name_in_two_namespaces_needs_the_namespace() {
        let objects = [release("a", "web"), release("b", "web")];
        assert!(matches!(
            find(&objects, "web", None),
            Err(Error::SeveralReleases { .. })
        ));
        assert!(find(&objects, "web", Some("b")).is_ok());
        let error = find(&objects, "api", None).unwrap_err().to_string();
        assert!(error.contains("HelmRelease/a/web"), "{error}");
    }
}
