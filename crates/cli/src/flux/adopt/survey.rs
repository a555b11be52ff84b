//! What a cluster uses of Flux, and whether all of it can be taken over.

use everflow_api::view;
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Resource, Selection};

use super::find::{BESIDE, Install};
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::kinds::{KINDS, Kind};
use crate::flux::readiness::{Readiness, standing};

static CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// The objects of one kind.
pub struct Objects {
    pub kind: &'static Kind,
    pub items: Vec<Value>,
}

/// What was found.
#[derive(Default)]
pub struct Survey {
    pub objects: Vec<Objects>,
    /// Why it cannot be done.
    pub blockers: Vec<String>,
    /// What will be different.
    pub warnings: Vec<String>,
}

impl Survey {
    /// How many objects of each kind there are, and how they stand.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Objects { kind, items } in self.objects.iter().filter(|one| !one.items.is_empty()) {
            let suspended = items.iter().filter(|item| view::is_suspended(item)).count();
            let ready = items
                .iter()
                .filter(|item| standing(item) == Readiness::Ready);
            let (name, count, ready) = (kind.name(), items.len(), ready.count());
            lines.push(format!(
                "{name}: {count}, {ready} ready, {suspended} suspended"
            ));
        }
        lines
    }
}

/// Looks at all objects of Flux.
pub async fn survey(session: &Session, installs: &[Install]) -> Result<Survey, Failure> {
    let mut survey = Survey::default();
    for install in installs {
        controllers(install, &mut survey);
    }
    for kind in &KINDS {
        let items = match served(session, kind).await? {
            Served::Nowhere => continue,
            Served::Otherwise(versions) => {
                if is_ours(kind) {
                    survey.blockers.push(format!(
                        "{} is served as {versions} only, not as {}: upgrade Flux first",
                        kind.name(),
                        kind.resource.version
                    ));
                }
                continue;
            }
            Served::Here => list(session, kind).await?,
        };
        for item in &items {
            features(kind, item, &mut survey.warnings);
        }
        survey.objects.push(Objects { kind, items });
    }
    Ok(survey)
}

/// Whether this program reconciles a kind.
fn is_ours(kind: &Kind) -> bool {
    everflow_api::KINDS
        .iter()
        .any(|info| info.kind == kind.name())
}

enum Served {
    /// Its definition is not there.
    Nowhere,
    Here,
    /// In other versions.
    Otherwise(String),
}

async fn served(session: &Session, kind: &Kind) -> Result<Served, Failure> {
    let resource = &kind.resource;
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition = match session.client.get(&CRDS, At::new("", &name)).await {
        Ok(definition) => definition,
        Err(Error::NotFound(_)) => return Ok(Served::Nowhere),
        Err(error) => return Err(Failure::Work(session.told_of(&error))),
    };
    let versions = definition["spec"]["versions"].as_array();
    let served = versions.into_iter().flatten();
    let served: Vec<&str> = served
        .filter(|version| version["served"] == true)
        .filter_map(|version| version["name"].as_str())
        .collect();
    Ok(match served.contains(&&*resource.version) {
        true => Served::Here,
        false => Served::Otherwise(served.join(", ")),
    })
}

async fn list(session: &Session, kind: &Kind) -> Result<Vec<Value>, Failure> {
    let all = Selection::default();
    let listed = session.client.list_all(&kind.resource, None, &all).await;
    match listed {
        Ok(listed) => Ok(listed.items),
        Err(error) => Err(Failure::Work(session.told(kind, &error))),
    }
}

fn controllers(install: &Install, survey: &mut Survey) {
    let namespace = &install.namespace;
    let mut seen = std::collections::BTreeSet::new();
    for controller in &install.controllers {
        let name = &controller.name;
        if BESIDE.contains(&controller.component) {
            survey.warnings.push(format!(
                "{namespace}/{name} goes on: there is no such controller in this program"
            ));
            continue;
        }
        if !seen.insert(controller.component) {
            survey.warnings.push(format!(
                "{namespace}/{name} is a shard: everflow takes the objects of all shards"
            ));
        }
    }
}

/// What an object asks for that is not there.
fn features(kind: &Kind, object: &Value, warnings: &mut Vec<String>) {
    let spec = &object["spec"];
    let name = view::name_as(kind.name(), object);
    let mut warn = |what: &str| warnings.push(format!("{name} {what}: it will fail, and say so"));
    match kind.name() {
        "GitRepository" if matches!(spec["provider"].as_str(), Some("aws" | "azure")) => {
            warn("logs in by the identity of a cloud");
        }
        "OCIRepository" | "HelmRepository" => {
            if spec["provider"]
                .as_str()
                .is_some_and(|who| who != "generic")
            {
                warn("logs in by the identity of a cloud");
            }
            if spec["verify"]["provider"] == "notation" {
                warn("is verified by notation");
            }
        }
        "Bucket" if matches!(spec["provider"].as_str(), Some("aws" | "gcp" | "azure")) => {
            warn("speaks a protocol, or logs in by an identity, of a cloud");
        }
        "HelmChart" if spec["verify"]["provider"] == "notation" => warn("is verified by notation"),
        "Kustomization" if spec["kubeConfig"]["configMapRef"].is_object() => {
            warn("deploys to a cluster by the identity of a cloud, unless its provider is generic");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::kinds;
    use everflow_json::json;

    #[test]
    fn unsupported_features_are_listed_by_object() {
        let object = json!({"metadata": {"namespace": "a", "name": "b"},
            "spec": {"provider": "aws", "verify": {"provider": "notation"}}});
        let mut warnings = Vec::new();
        features(
            kinds::named("OCIRepository").unwrap(),
            &object,
            &mut warnings,
        );
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("OCIRepository/a/b logs in"));
        assert!(is_ours(kinds::named("HelmRelease").unwrap()));
        assert!(!is_ours(kinds::named("ImagePolicy").unwrap()));
    }
}
