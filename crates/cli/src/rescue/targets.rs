//! What is delivered, and what that needs.

use std::collections::BTreeSet;
use std::path::Path;

use everflow_api::view;
use everflow_json::Value;
use everflow_local::stand_in::Mapped;
use everflow_runtime::attempt::Verdict;
use everflow_runtime::client::{At, Selection};
use everflow_runtime::engine::Handle;
use everflow_runtime::queue::Key;

use super::Args;
use super::progress::Progress;
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::kinds::{self, Kind};
use crate::up::open_tree;

/// The kinds that deliver.
const DELIVERING: [&str; 2] = ["Kustomization", "HelmRelease"];

/// What is delivered, and what that needs.
#[derive(Debug)]
pub(super) struct Targets {
    /// All objects that are worked on; everything when there is none.
    pub(super) keys: Option<BTreeSet<Key>>,
    /// The one object that was named.
    object: Option<Key>,
    /// The sources that a local checkout stands for.
    sources: BTreeSet<Key>,
    /// Where the engine serves its artifacts.
    pub(super) advertised: String,
}

fn kind(name: &str) -> Result<&'static Kind, Failure> {
    kinds::required(name)
}

/// The kind and the name of `KIND/NAME`.
fn parse(text: &str) -> Result<(&'static Kind, &str), Failure> {
    let odd = || {
        Failure::Usage(format!(
            "{text:?}: it must be kustomization/NAME or helmrelease/NAME"
        ))
    };
    let (word, name) = text.split_once('/').ok_or_else(odd)?;
    let found = match word.to_ascii_lowercase().as_str() {
        "ks" | "kustomization" | "kustomizations" => "Kustomization",
        "hr" | "helmrelease" | "helmreleases" => "HelmRelease",
        _ => return Err(odd()),
    };
    match name.is_empty() || name.contains('/') {
        true => Err(odd()),
        false => Ok((kind(found)?, name)),
    }
}

fn key(kind: &str, namespace: &str, name: &str) -> Key {
    Key::new(kind, namespace, name)
}

/// An object that another one names, by kind, namespace and name.
fn named(reference: &Value, namespace: &str) -> Option<Key> {
    let text = |field: &str| reference[field].as_str().filter(|text| !text.is_empty());
    let namespace = text("namespace").unwrap_or(namespace);
    Some(key(text("kind")?, namespace, text("name")?))
}

/// What an object is delivered from.
pub(super) fn needs(object: &Value) -> Vec<Key> {
    let (namespace, spec) = (view::namespace(object), &object["spec"]);
    let mut needed = Vec::new();
    match object["kind"].as_str().unwrap_or_default() {
        "HelmRelease" if spec["chartRef"].is_null() => {
            needed.extend(named(&spec["chart"]["spec"]["sourceRef"], namespace));
            let chart = object["status"]["helmChart"].as_str();
            let source = spec["chart"]["spec"]["sourceRef"]["namespace"].as_str();
            let (space, name) = match chart.and_then(|chart| chart.split_once('/')) {
                Some((space, name)) => (space.to_owned(), name.to_owned()),
                None => {
                    let name = format!("{namespace}-{}", view::name(object));
                    (source.unwrap_or(namespace).to_owned(), name)
                }
            };
            needed.push(key("HelmChart", &space, &name));
        }
        "HelmRelease" => needed.extend(named(&spec["chartRef"], namespace)),
        _ => needed.extend(named(&spec["sourceRef"], namespace)),
    }
    needed
}

impl Targets {
    pub(super) async fn find(session: &Session, args: &Args) -> Result<Self, Failure> {
        let mut targets = Targets {
            keys: None,
            object: None,
            sources: BTreeSet::new(),
            advertised: format!(
                "source-controller.{}.svc.cluster.local.",
                args.engine_namespace
            ),
        };
        let Some(text) = &args.object else {
            targets.everything(session).await?;
            return Ok(targets);
        };
        let (kind, name) = parse(text)?;
        let namespace = args.connection.namespace.as_str();
        let object = targets.read(session, kind, namespace, name).await?;
        let own = key(kind.name(), namespace, name);
        if view::is_suspended(&object) {
            return Err(Failure::Work(format!(
                "{own} is suspended: resume it first (everflow resume)"
            )));
        }
        let mut all = BTreeSet::from([own.clone()]);
        let mut open = needs(&object);
        while let Some(needed) = open.pop() {
            let Some(kind) = kinds::named(&needed.kind) else {
                continue;
            };
            if !all.insert(needed.clone()) {
                continue;
            }
            match targets
                .read(session, kind, &needed.namespace, &needed.name)
                .await
            {
                Ok(found) => {
                    targets.learn_address(&found);
                    if kind.name() == "HelmChart" {
                        open.extend(named(&found["spec"]["sourceRef"], &needed.namespace));
                    } else {
                        targets.sources.insert(needed);
                    }
                }
                // A chart that is not there yet is made by its release.
                Err(_) if kind.name() == "HelmChart" => {}
                Err(error) => return Err(error),
            }
        }
        (targets.keys, targets.object) = (Some(all), Some(own));
        Ok(targets)
    }

    async fn read(
        &self,
        session: &Session,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Failure> {
        let found = session
            .client
            .get(&kind.resource, At::new(namespace, name))
            .await;
        let mut found = found.map_err(|error| Failure::Work(session.told(kind, &error)))?;
        found["kind"] = kind.name().into();
        Ok(found)
    }

    /// All objects: those that the first Kustomizations deliver from stand for the repository.
    async fn everything(&mut self, session: &Session) -> Result<(), Failure> {
        let kind = kind("Kustomization")?;
        let all = Selection::default();
        let list = session.client.list_all(&kind.resource, None, &all).await;
        let list = list.map_err(|error| Failure::Work(session.told(kind, &error)))?;
        for mut object in list.items {
            object["kind"] = kind.name().into();
            if view::name(&object) == "flux-system" {
                self.sources.extend(needs(&object));
            }
        }
        for source in self.sources.clone() {
            if let Some(kind) = kinds::named(&source.kind)
                && let Ok(found) = self
                    .read(session, kind, &source.namespace, &source.name)
                    .await
            {
                self.learn_address(&found);
            }
        }
        Ok(())
    }

    /// Where the engine serves artifacts, by one that it has made.
    fn learn_address(&mut self, source: &Value) {
        let artifact = &source["status"]["artifact"];
        let (url, path) = (artifact["url"].as_str(), artifact["path"].as_str());
        if let (Some(url), Some(path)) = (url, path)
            && let Some(address) = url.strip_suffix(path)
        {
            self.advertised = address.trim_end_matches('/').to_owned();
        }
    }

    /// What the checkout stands for.
    pub(super) fn stand_ins(&self, path: Option<&Path>) -> Result<Vec<Mapped>, Failure> {
        let Some(path) = path else {
            return Ok(Vec::new());
        };
        if self.sources.is_empty() {
            let text = "--path: there is no source that the checkout could stand for; name the object to deliver";
            return Err(Failure::Usage(text.to_owned()));
        }
        let tree = open_tree(path)?;
        let mapped = self.sources.iter().map(|source| Mapped {
            kind: Some(source.kind.to_string()),
            name: format!("{}/{}", source.namespace, source.name),
            tree: tree.clone(),
        });
        Ok(mapped.collect())
    }

    /// What is not delivered yet, and why.
    pub(super) fn lacking(&self, handle: &Handle, progress: &Progress) -> Vec<String> {
        let targets: Vec<Key> = match &self.object {
            Some(object) => vec![object.clone()],
            None => DELIVERING
                .iter()
                .flat_map(|kind| {
                    let store = handle.store(kind);
                    let names = store.map(|store| store.names()).unwrap_or_default();
                    names
                        .into_iter()
                        .map(|(namespace, name)| Key::new(*kind, namespace, name))
                })
                .collect(),
        };
        if targets.is_empty() && !DELIVERING.iter().all(|kind| is_listed(handle, kind)) {
            return vec!["the objects are not listed yet".to_owned()];
        }
        let lack = |key: Key| match progress.of(&key) {
            Some(outcome) if outcome.verdict == Verdict::Success => None,
            Some(outcome) => Some(format!("{key}: {}", outcome.message)),
            None => Some(format!("{key}: not tried yet")),
        };
        targets.into_iter().filter_map(lack).collect()
    }
}

fn is_listed(handle: &Handle, kind: &str) -> bool {
    handle.store(kind).is_some_and(|store| store.is_synced())
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn target_is_parsed_as_kind_and_name() {
        let (kind, name) = parse("ks/apps").unwrap();
        assert_eq!((kind.name(), name), ("Kustomization", "apps"));
        assert_eq!(parse("HelmRelease/web").unwrap().0.name(), "HelmRelease");
        for odd in ["apps", "pod/web", "ks/", "ks/a/b"] {
            assert!(parse(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_release_needs_its_chart_and_where_that_comes_from() {
        let mut release = json!({
            "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "apps"},
            "spec": {"chart": {"spec": {"sourceRef": {"kind": "HelmRepository", "name": "charts"}}}},
        });
        let expected = [
            key("HelmRepository", "apps", "charts"),
            key("HelmChart", "apps", "apps-web"),
        ];
        assert_eq!(needs(&release), expected);
        release["spec"] =
            json!({"chartRef": {"kind": "OCIRepository", "name": "web", "namespace": "oci"}});
        assert_eq!(needs(&release), [key("OCIRepository", "oci", "web")]);
    }
}
