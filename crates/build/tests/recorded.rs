//! Replays what the real kustomize-controller built: the digest in its history, and its words where
//! the build failed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_build::{Keys, Request, add_variables, build};
use everflow_corpus::Outcome;
use everflow_json::{Value, json};
use everflow_kustomize::{Limits, MemoryView};
use everflow_limits::{Budget, Stop};

/// The state of a scenario: its repository and the objects that builds depend on.
#[derive(Default)]
struct World {
    namespace: String,
    files: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    branch: String,
    /// The tree of each commit, in the order they were made.
    commits: Vec<MemoryView>,
    /// ConfigMaps and Secrets, by kind and name.
    holders: BTreeMap<(String, String), BTreeMap<String, String>>,
}

impl World {
    fn commit(&mut self, commit: &Value, files: &Value) {
        if let Some(branch) = commit["branch"].as_str() {
            if !self.files.contains_key(branch) {
                let from = self.files.get(&self.branch).cloned().unwrap_or_default();
                self.files.insert(branch.to_owned(), from);
            }
            self.branch = branch.to_owned();
        }
        let tree = self.files.entry(self.branch.clone()).or_default();
        for (path, content) in files.as_object().into_iter().flatten() {
            match content {
                Value::String(text) => {
                    tree.insert(path.to_string(), text.as_bytes().to_vec());
                }
                Value::Object(entry) => {
                    if let Some(text) = entry.get("exec").and_then(Value::as_str) {
                        tree.insert(path.to_string(), text.as_bytes().to_vec());
                    }
                }
                _ => {
                    tree.remove(path.as_str());
                }
            }
        }
        let mut view = MemoryView::new();
        for (path, content) in tree.iter() {
            view.insert(path, content.clone());
        }
        self.commits.push(view);
    }

    fn apply(&mut self, object: &Value) {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if !["ConfigMap", "Secret"].contains(&kind) {
            return;
        }
        let mut values = BTreeMap::new();
        for field in ["data", "stringData"] {
            for (key, value) in object[field].as_object().into_iter().flatten() {
                let text = value.as_str().unwrap_or_default();
                values.insert(key.to_string(), text.to_owned());
            }
        }
        self.holders
            .insert((kind.to_owned(), name.to_owned()), values);
    }

    fn patch(&mut self, step: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (text(&step["ref"]["kind"]), text(&step["ref"]["name"]));
        let Some(values) = self.holders.get_mut(&key) else {
            return;
        };
        for (key, value) in step["merge"]["data"].as_object().into_iter().flatten() {
            values.insert(key.to_string(), text(value));
        }
    }

    fn variables(
        &self,
        kustomization: &Object<Kustomization>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut variables = BTreeMap::new();
        let post_build = kustomization.spec.post_build.iter();
        for reference in post_build.flat_map(|post| &post.substitute_from) {
            let key = (reference.kind.as_str().to_owned(), reference.name.clone());
            let (kind, name) = (reference.kind, &reference.name);
            match self.holders.get(&key) {
                Some(values) => add_variables(&mut variables, values),
                None if reference.optional => {}
                None => {
                    let plural = format!("{}s", kind.as_str().to_lowercase());
                    return Err(format!(
                        "substitute from '{kind}/{name}' error: {plural} \"{name}\" not found"
                    ));
                }
            }
        }
        Ok(variables)
    }

    fn keys(&self, kustomization: &Object<Kustomization>) -> Result<Keys, String> {
        let mut keys = Keys::new();
        let decryption = kustomization.spec.decryption.as_ref();
        let Some(reference) = decryption.and_then(|decryption| decryption.secret_ref.as_ref())
        else {
            return Ok(keys);
        };
        let secret = ("Secret".to_owned(), reference.name.clone());
        let Some(entries) = self.holders.get(&secret) else {
            return Err(format!("secrets {:?} not found", reference.name));
        };
        for (name, content) in entries {
            keys.add(name, content.as_bytes()).map_err(|error| {
                let secret = format!("{}/{}", self.namespace, reference.name);
                format!(
                    "failed to import '{name}' data from sops decryption Secret '{secret}': {error}"
                )
            })?;
        }
        Ok(keys)
    }

    fn build(&self, object: &Value, revision: &str, strict: bool) -> Result<String, String> {
        let object = json!({
            "metadata": {"namespace": self.namespace, "name": object["metadata"]["name"]},
            "spec": object["spec"],
        });
        let kustomization = Object::<Kustomization>::read(&object).map_err(|e| e.to_string())?;
        let number = revision.rsplit("$SHA").next().unwrap_or_default();
        let number: usize = number.parse().map_err(|_| format!("revision {revision}"))?;
        let tree = self.commits.get(number - 1).ok_or("no such commit")?;
        let variables = self.variables(&kustomization);
        // Far below what is allowed.
        let budget = Budget::new(Stop::new(), 10 << 20);
        let mut request = Request::new(&kustomization, tree, &budget);
        request.limits = Limits {
            objects: Limits::default().objects / 500,
            files: Limits::default().files / 500,
        };
        match &variables {
            Ok(variables) => request.variables = variables,
            Err(text) => request.no_variables = Some(text),
        }
        request.strict = strict;
        let keys = self.keys(&kustomization)?;
        request.keys = &keys;
        build(&request)
            .map(|built| built.digest)
            .map_err(|error| error.to_string())
    }
}

/// Calls `visit` with every Kustomization of every moment of the scenario.
fn replay(scenario: &Value, visit: &mut dyn FnMut(&World, usize, &Value)) {
    let mut world = World {
        namespace: scenario["namespace"].as_str().unwrap().to_owned(),
        branch: "main".to_owned(),
        ..World::default()
    };
    if scenario["files"].is_object() {
        world.commit(&Value::Null, &scenario["files"]);
    }
    for commit in scenario["git"].as_array().into_iter().flatten() {
        world.commit(commit, &commit["files"]);
    }
    for object in scenario["objects"].as_array().into_iter().flatten() {
        world.apply(object);
    }
    let nothing = Vec::new();
    let steps = scenario["steps"].as_array().unwrap_or(&nothing);
    for (number, step) in std::iter::once(scenario).chain(steps).enumerate() {
        if number > 0 {
            let applied = &step["apply"];
            let one = std::slice::from_ref(applied);
            for object in applied.as_array().map_or(one, Vec::as_slice) {
                world.apply(object);
            }
            if step["patch"].is_object() {
                world.patch(&step["patch"]);
            }
            if step["commit"].is_object() {
                world.commit(step, &step["commit"]);
            }
        }
        for object in step["then"]["flux"].as_array().into_iter().flatten() {
            if object["kind"] == "Kustomization" {
                visit(&world, number, object);
            }
        }
    }
}

fn scenarios() -> Option<Vec<Value>> {
    let directory = everflow_corpus::find("flux/kustomization")?;
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path| everflow_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    Some(paths.into_iter().map(read).collect())
}

#[test]
fn digests_are_those_in_the_recorded_histories() {
    let Some(scenarios) = scenarios() else { return };
    let mut outcome = Outcome::default();
    let mut with_digest = BTreeSet::new();
    for scenario in &scenarios {
        let name = scenario["name"].as_str().unwrap();
        let strict = name != "gate-strict-subst-off";
        let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        replay(scenario, &mut |world, step, object| {
            let own = object["metadata"]["name"].as_str().unwrap();
            for entry in object["status"]["history"].as_array().into_iter().flatten() {
                let digest = entry["digest"].as_str().unwrap();
                let revision = entry["metadata"]["revision"].as_str().unwrap();
                // Other sources than Git repositories are not replayed.
                if !revision.contains("$SHA") {
                    continue;
                }
                if !seen
                    .entry(own.to_owned())
                    .or_default()
                    .insert(format!("{digest}{revision}"))
                {
                    continue;
                }
                with_digest.insert(name.to_owned());
                let id = format!("{name}/{own}/{step}/{}", &digest[7..15]);
                let result = match world.build(object, revision, strict) {
                    Ok(own) if own == digest => Ok(()),
                    Ok(own) => Err(format!("digest {own}")),
                    Err(error) => Err(error),
                };
                outcome.record(id, result);
            }
        });
    }
    println!("{} scenarios have digests", with_digest.len());
    outcome.assert(include_str!("recorded-digests.known"));
}

#[test]
fn failures_begin_as_the_recorded_ones() {
    let Some(scenarios) = scenarios() else { return };
    let mut outcome = Outcome::default();
    for scenario in &scenarios {
        let name = scenario["name"].as_str().unwrap();
        let mut seen = BTreeSet::new();
        replay(scenario, &mut |world, step, object| {
            let own = object["metadata"]["name"].as_str().unwrap();
            let conditions = object["status"]["conditions"].as_array();
            for condition in conditions.into_iter().flatten() {
                let message = condition["message"].as_str().unwrap();
                let is_path = message.starts_with("kustomization path not found");
                let failed = condition["reason"] == "BuildFailed" || is_path;
                if condition["type"] != "Ready" || !failed || !seen.insert(message.to_owned()) {
                    continue;
                }
                let revision = format!("$SHA{}", world.commits.len());
                let expected = message
                    .replace("$TMP/kustomization-$RAND/", "")
                    .replace("$TMP/kustomization-$RAND", ".");
                let result = match world.build(object, &revision, true) {
                    Ok(_) => Err("the build succeeds".to_owned()),
                    Err(error) if error.starts_with(&expected) => Ok(()),
                    Err(error) => Err(format!("\n  got  {error}\n  want {expected}")),
                };
                outcome.record(format!("{name}/{own}/{step}"), result);
            }
        });
    }
    outcome.assert(include_str!("recorded-failures.known"));
}
