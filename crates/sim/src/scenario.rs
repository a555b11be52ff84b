//! Scenarios: what there is, what users do, what may go wrong and how it must end. Plain data, from YAML files.

use std::collections::BTreeMap;
use std::path::Path;

use everflow_json::{Map, Value};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::plan::{Fault, Millis};
use crate::sharing::Sharing;
use crate::users::numbered;

/// A scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it is about, in a sentence.
    pub about: String,
    /// The issues of real programs it comes from.
    #[serde(default)]
    pub from: Vec<String>,
    /// The rows of the catalogue of real bugs it stands for.
    #[serde(default)]
    pub rows: Vec<u32>,
    /// How many replicas run.
    #[serde(default = "one")]
    pub replicas: usize,
    /// The files of git repositories at the beginning, by repository and path. They are served at `http://git/NAME.git`.
    #[serde(default)]
    pub git: BTreeMap<String, Map>,
    /// The objects that buckets hold, by bucket and key, at `bucket:80`.
    #[serde(default)]
    pub buckets: BTreeMap<String, BTreeMap<String, String>>,
    /// The files of artifacts in a registry, by `REPOSITORY:TAG`, at `registry:80`.
    #[serde(default)]
    pub registry: BTreeMap<String, BTreeMap<String, String>>,
    /// What a web server has, by path, at `http://web/PATH`: texts, and archives of files, charts for one.
    #[serde(default)]
    pub web: BTreeMap<String, Page>,
    /// Hosts that notifications are sent to, at `http://NAME/`.
    #[serde(default)]
    pub providers: BTreeMap<String, ProviderHost>,
    /// The objects that are applied at the beginning.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// More of the same: objects that are applied so many times, with `$N` in their texts.
    #[serde(default)]
    pub copies: Vec<Copies>,
    /// Objects that were stored before anybody checked them: no schema, no admission.
    #[serde(default)]
    pub stored: Vec<Value>,
    /// How many kinds there are beside the usual ones.
    #[serde(default)]
    pub kinds: u32,
    /// How many seconds workloads take: until Pods are up, until Jobs have ended.
    #[serde(default)]
    pub workloads: u64,
    /// A label selector for each replica: it looks after those objects alone, under a Lease of its own.
    #[serde(default)]
    pub shards: Vec<String>,
    /// How replicas share the work, each with its part of all objects.
    #[serde(default)]
    pub sharing: Option<Sharing>,
    /// Further ways to the API servers beside the Service, which is called `cluster-ip`.
    #[serde(default)]
    pub ways: Vec<String>,
    /// What users do.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// What goes wrong in every run.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Whether more goes wrong by chance.
    #[serde(default = "yes")]
    pub chance: bool,
    /// Whether the cluster may be restored from a backup by chance: not where what it comes to depends on what was
    /// there before, and the rest of the world is not restored with it.
    #[serde(default = "yes")]
    pub restores: bool,
    /// For how many seconds things go wrong by chance.
    #[serde(default = "sixty")]
    pub lasts: u64,
    /// Within how many seconds after the last fault everything must be as without faults. 120 when it is not said.
    #[serde(default)]
    pub within: Option<u64>,
    /// What must be true in the end, with and without faults.
    #[serde(default)]
    pub expect: Vec<Expectation>,
    /// What must be true on the way, when nothing goes wrong but what the scenario itself says.
    #[serde(default)]
    pub meanwhile: Vec<Checkpoint>,
    /// Whether nothing may be written in the hour after the end.
    #[serde(default = "yes")]
    pub quiet: bool,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn sixty() -> u64 {
    60
}

/// Names an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// Its version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, for objects that have one.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Objects that differ by a number alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copies {
    /// How many.
    pub count: u32,
    /// One of them, with `$N` for its number.
    pub object: Value,
}

/// What must be true at a moment.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// When, in seconds.
    pub at: u64,
    /// What.
    pub expect: Vec<Expectation>,
}

/// Something that a web server has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Page {
    /// A text.
    Text(String),
    /// A packed archive of files.
    Archive(BTreeMap<String, String>),
}

/// A host that notifications are sent to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderHost {
    /// Within so many seconds each must be here, when nothing goes wrong but what the scenario itself says.
    #[serde(default)]
    pub within: Option<u64>,
}

/// A call of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// `NAMESPACE/NAME` of the Receiver.
    pub receiver: String,
    /// Headers of the request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Its body.
    #[serde(default)]
    pub body: String,
    /// So many calls are made at once.
    #[serde(default = "once")]
    pub burst: u32,
}

/// What a user does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// When, in seconds.
    pub at: f64,
    /// How often.
    #[serde(default = "once")]
    pub times: u32,
    /// How many seconds lie between.
    #[serde(default)]
    pub every: f64,
    /// Not before this is true.
    #[serde(default)]
    pub when: Option<Expectation>,
    /// What. `$N` in texts is the number of the repetition.
    #[serde(flatten)]
    pub deed: UserOperation,
}

fn once() -> u32 {
    1
}

/// What a user does.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserOperation {
    /// Commits files to a repository; `null` removes.
    Commit {
        /// Which repository.
        repository: String,
        /// What changes.
        files: Map,
    },
    /// Moves the branch back to a commit, counted from 0, and forgets what came after it.
    Reset {
        /// Which repository.
        repository: String,
        /// Which commit.
        to: usize,
    },
    /// Removes a branch.
    DeleteBranch {
        /// Which repository.
        repository: String,
        /// Which branch.
        branch: String,
    },
    /// Names the newest commit, or moves the name there.
    Tag {
        /// Which repository.
        repository: String,
        /// The name.
        tag: String,
    },
    /// Makes a branch of the newest commit, if there is none, and commits go there from now on.
    Branch {
        /// Which repository.
        repository: String,
        /// Which branch.
        branch: String,
    },
    /// From now on buckets are open only to who signs with this.
    Lock {
        /// The name of the key.
        access: String,
        /// The key.
        secret: String,
    },
    /// Puts an object into a bucket, or removes it.
    Put {
        /// Which bucket.
        bucket: String,
        /// Under which key.
        key: String,
        /// What; nothing removes.
        content: Option<String>,
    },
    /// Puts something on the web server, or removes it.
    Serve {
        /// Where.
        path: String,
        /// What; nothing removes.
        content: Option<Page>,
    },
    /// Pushes an artifact to the registry.
    Push {
        /// `REPOSITORY:TAG`.
        to: String,
        /// Its files.
        files: BTreeMap<String, String>,
    },
    /// Applies an object.
    Apply(Value),
    /// Changes an object by a merge patch.
    Patch {
        /// Which.
        object: Reference,
        /// How.
        merge: Value,
        /// Who does it.
        #[serde(default)]
        manager: Option<String>,
        /// Of which subresource.
        #[serde(default)]
        subresource: Option<String>,
    },
    /// Deletes an object.
    Delete(Reference),
    /// Calls a webhook, until the call is heeded.
    Call(Call),
    /// Does with a release what the helm CLI does.
    Helm {
        /// The name of the release.
        release: String,
        /// Its namespace.
        namespace: String,
        /// What.
        does: HelmOperation,
    },
}

/// What the helm CLI does with a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HelmOperation {
    /// It begins an upgrade: another revision is there, and is pending.
    BeginUpgrade,
    /// It ends the upgrade: the revision is deployed, the one before superseded.
    EndUpgrade,
}

/// What must be true in the end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Of which object.
    pub object: Reference,
    /// That it is not there.
    #[serde(default)]
    pub absent: bool,
    /// The status of its condition Ready: `True`, `False` or `Unknown`.
    #[serde(default)]
    pub ready: Option<String>,
    /// The reason of its condition Ready.
    #[serde(default)]
    pub reason: Option<String>,
    /// Values by JSON pointer; `null` when there must be none.
    #[serde(default)]
    pub fields: BTreeMap<String, Value>,
}

/// Where in a scenario an error is: the field without which it is another one, and which item of it.
fn place(scenario: &Value, error: &str) -> Option<String> {
    let failure = |value: Value| {
        let read = everflow_json::from_value::<Scenario>(value);
        read.err().map(|error| error.to_string())
    };
    let fails_so = |value: Value| failure(value).is_some_and(|other| other == error);
    let fields = scenario.as_object()?;
    let (field, content) = fields.iter().find(|(field, _)| {
        let mut without = fields.clone();
        without.remove(field);
        match failure(without.into()) {
            // A field that must be there is to blame only for what it holds.
            Some(other) if other == format!("missing field `{field}`") => {
                !error.starts_with("missing field") && other != error
            }
            Some(other) => other != error,
            None => true,
        }
    })?;
    let items = content.as_array().into_iter().flatten();
    let item = items.enumerate().find(|(_, item)| {
        let mut alone = fields.clone();
        alone.insert(field.clone(), Value::Array(vec![(*item).clone()]));
        fails_so(alone.into())
    });
    Some(match item {
        Some((at, _)) => format!("{field}[{at}]"),
        None => field.to_string(),
    })
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// YAML that does not parse, a field that is not known, a value that does not fit.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Scenario {
            file: file.to_owned(),
            why,
        };
        let value = everflow_yaml::kyaml::yaml_to_json(text.as_bytes())
            .map_err(|error| wrong(error.to_string()))?;
        let mut scenario: Scenario = everflow_json::from_value(value.clone()).map_err(|error| {
            let error = error.to_string();
            match place(&value, &error) {
                Some(place) => wrong(format!("{place}: {error}")),
                None => wrong(error),
            }
        })?;
        if !(1..=5).contains(&scenario.replicas) {
            return Err(wrong("replicas must be between 1 and 5".to_owned()));
        }
        if !scenario.shards.is_empty() && scenario.shards.len() != scenario.replicas {
            return Err(wrong(
                "shards: there must be one for each replica".to_owned(),
            ));
        }
        if let Some(sharing) = &scenario.sharing {
            let both =
                (!scenario.shards.is_empty()).then(|| "shards or sharing, not both".to_owned());
            if let Some(flaw) = both.or_else(|| sharing.flaw(scenario.replicas)) {
                return Err(wrong(flaw));
            }
        }
        for copies in std::mem::take(&mut scenario.copies) {
            let all = (0..copies.count).map(|number| numbered(&copies.object, number));
            scenario.objects.extend(all);
        }
        Ok(scenario)
    }

    /// A scenario of nothing but objects, which must converge within so many seconds.
    pub fn of_objects(name: &str, about: &str, objects: Vec<Value>, within: u64) -> Self {
        Scenario {
            name: name.to_owned(),
            about: about.to_owned(),
            from: Vec::new(),
            rows: Vec::new(),
            replicas: 1,
            git: BTreeMap::new(),
            buckets: BTreeMap::new(),
            registry: BTreeMap::new(),
            web: BTreeMap::new(),
            providers: BTreeMap::new(),
            objects,
            copies: Vec::new(),
            stored: Vec::new(),
            kinds: 0,
            workloads: 0,
            shards: Vec::new(),
            sharing: None,
            ways: Vec::new(),
            actions: Vec::new(),
            faults: Vec::new(),
            chance: true,
            restores: true,
            lasts: 60,
            within: Some(within),
            expect: Vec::new(),
            meanwhile: Vec::new(),
            quiet: true,
        }
    }

    /// The scenario of a name, or in a file.
    ///
    /// # Errors
    /// There is none, or it is not valid.
    pub fn find(name: &str) -> Result<Self, Error> {
        if name.ends_with(".yaml") || name.ends_with(".yml") {
            let path = Path::new(name);
            let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
                path: path.to_owned(),
                source,
            })?;
            return Scenario::parse(name, &text);
        }
        Scenario::parse(name, Scenario::text(name)?)
    }

    /// The file of a scenario that comes with the program.
    ///
    /// # Errors
    /// There is none.
    pub fn text(name: &str) -> Result<&'static str, Error> {
        let found = crate::scenarios::ALL
            .iter()
            .find(|(file, _)| file.trim_end_matches(".yaml") == name);
        found.map(|(_, text)| *text).ok_or(Error::NoScenario {
            name: name.to_owned(),
        })
    }

    /// All that come with the program, in order of their names.
    ///
    /// # Errors
    /// One of them is not valid, which a test rules out.
    pub fn all() -> Result<Vec<Self>, Error> {
        let all = crate::scenarios::ALL.iter();
        all.map(|(file, text)| Scenario::parse(file, text))
            .collect()
    }

    /// How many processes there are over time: the replicas, and the laptop of a rescue.
    pub fn processes(&self) -> usize {
        let sharing = self.sharing.as_ref();
        let rescue = sharing.is_some_and(|sharing| sharing.rescue.is_some());
        self.replicas + usize::from(rescue)
    }

    /// Whether there are HelmReleases in it, at any time.
    pub fn has_releases(&self) -> bool {
        const KIND: &str = "HelmRelease";
        let applied = self.actions.iter().filter_map(|action| match &action.deed {
            UserOperation::Apply(object) => Some(object),
            _ => None,
        });
        let mut objects = self.objects.iter().chain(applied);
        let mut files = self.git.values().flat_map(Map::values);
        objects.any(|object| object["kind"] == KIND)
            || files.any(|file| file.as_str().is_some_and(|text| text.contains(KIND)))
    }

    /// Whether there are notifications or webhooks in it.
    pub fn notifies(&self) -> bool {
        let group = everflow_api::names::group::NOTIFICATION;
        let is_one = |object: &Value| {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            version.starts_with(group)
        };
        self.objects.iter().any(is_one)
    }

    /// The moment of the last thing that a user does.
    pub fn last_action(&self) -> Millis {
        let ends = self.actions.iter().map(|action| {
            let seconds = action.at + action.every * f64::from(action.times.saturating_sub(1));
            (seconds * 1_000.0) as Millis
        });
        ends.max().unwrap_or_default()
    }

    /// The deeds with their moments, in order.
    pub fn deeds(&self) -> Vec<(Millis, u32, &Action)> {
        let mut deeds = Vec::new();
        for action in &self.actions {
            for number in 0..action.times {
                let seconds = action.at + action.every * f64::from(number);
                deeds.push(((seconds * 1_000.0) as Millis, number + 1, action));
            }
        }
        deeds.sort_by_key(|(at, _, _)| *at);
        deeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let text = format!("name: a\nabout: b\n{text}");
        Scenario::parse("a.yaml", &text).unwrap_err().to_string()
    }

    #[test]
    fn scenario_errors_name_file_and_field() {
        let remedy = "; `everflow sim show basic` prints a scenario to compare with";
        for (text, said) in [
            (
                "replicas: two",
                "a.yaml: replicas: invalid type: string \"two\", expected usize",
            ),
            ("replicas: 9", "a.yaml: replicas must be between 1 and 5"),
            (
                "faults:\n- jump: {replica: 0, at: 1, seconds: 1}\n- jump: {replica: 0, at: x, seconds: 1}",
                "a.yaml: faults[1]: ",
            ),
            ("actions:\n- at: 1\n  deleet: {}", "a.yaml: actions[0]: "),
            (
                "actions:\n- delete: {kind: ConfigMap, name: x}",
                "a.yaml: actions[0]: missing field `at`",
            ),
            (
                "colour: red",
                "a.yaml: colour: unknown field `colour`, expected one of ",
            ),
        ] {
            let found = refused(text);
            assert!(
                found.starts_with(said) && found.ends_with(remedy),
                "{found}"
            );
        }
        let found = Scenario::parse("a.yaml", "name: a")
            .unwrap_err()
            .to_string();
        assert!(
            found.starts_with("a.yaml: missing field `about`"),
            "{found}"
        );
    }
}
