//! Scenarios: what there is, what users do, what may go wrong and how it must end. Plain data, from YAML files.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;
use crate::plan::{Fault, Millis};

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
    pub git: BTreeMap<String, Map<String, Value>>,
    /// The objects that buckets hold, by bucket and key, at `bucket:80`.
    #[serde(default)]
    pub buckets: BTreeMap<String, BTreeMap<String, String>>,
    /// The files of artifacts in a registry, by `REPOSITORY:TAG`, at `registry:80`.
    #[serde(default)]
    pub registry: BTreeMap<String, BTreeMap<String, String>>,
    /// The objects that are applied at the beginning.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// What users do.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// What goes wrong in every run.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Whether more goes wrong by chance.
    #[serde(default = "yes")]
    pub chance: bool,
    /// For how many seconds things go wrong by chance.
    #[serde(default = "sixty")]
    pub lasts: u64,
    /// Within how many seconds after the last fault everything must be as without faults. 120 when it is not said.
    #[serde(default)]
    pub within: Option<u64>,
    /// What must be true in the end, with and without faults.
    #[serde(default)]
    pub expect: Vec<Expectation>,
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
    /// What. `$N` in texts is the number of the repetition.
    #[serde(flatten)]
    pub deed: Deed,
}

fn once() -> u32 {
    1
}

/// What a user does.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// Commits files to a repository; `null` removes.
    Commit {
        /// Which repository.
        repository: String,
        /// What changes.
        files: Map<String, Value>,
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
    /// Puts an object into a bucket, or removes it.
    Put {
        /// Which bucket.
        bucket: String,
        /// Under which key.
        key: String,
        /// What; nothing removes.
        content: Option<String>,
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
        let scenario: Scenario =
            serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        if !(1..=5).contains(&scenario.replicas) {
            return Err(wrong("replicas must be between 1 and 5".to_owned()));
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
            objects,
            actions: Vec::new(),
            faults: Vec::new(),
            chance: true,
            lasts: 60,
            within: Some(within),
            expect: Vec::new(),
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
        let found = crate::scenarios::ALL
            .iter()
            .find(|(file, _)| file.trim_end_matches(".yaml") == name);
        match found {
            Some((file, text)) => Scenario::parse(file, text),
            None => Err(Error::NoScenario {
                name: name.to_owned(),
            }),
        }
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

    /// The moment of the last thing that a user does.
    pub fn last_action(&self) -> Millis {
        let ends = self.actions.iter().map(|action| {
            let seconds = action.at + action.every * f64::from(action.times.saturating_sub(1));
            (seconds * 1_000.0) as Millis
        });
        ends.max().unwrap_or_default()
    }

    /// The deeds with their moments, in order.
    pub fn deeds(&self) -> Vec<(Millis, u32, &Deed)> {
        let mut deeds = Vec::new();
        for action in &self.actions {
            for number in 0..action.times {
                let seconds = action.at + action.every * f64::from(number);
                deeds.push(((seconds * 1_000.0) as Millis, number + 1, &action.deed));
            }
        }
        deeds.sort_by_key(|(at, _, _)| *at);
        deeds
    }
}
