//! What is in storage about one release.

use everflow_helm::release::{Release, from_object_within};
use everflow_json::Value;
use everflow_limits::Budget;
use everflow_time::Timestamp;

use super::mark::{CONTESTED, MADE_FROM, MadeFrom, PROGRESS, Progress, Stage};
use super::{Contested, HookRun, Status, Summary};
use crate::error::{Error, Unreadable};

/// Where a record stands, and what is noted beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The Secret, as NAMESPACE/NAME.
    pub secret: String,
    /// The version of the Secret; a write tests it.
    pub resource_version: String,
    /// When the API server took the Secret.
    pub created: Option<Timestamp>,
    /// When it was last written, as its labels say.
    pub written: Option<Timestamp>,
    /// Who wrote it last, as the API server knows writers by name.
    pub writer: String,
    /// The action that is under way.
    pub progress: Option<Progress>,
    /// What the revision was made from.
    pub made_from: Option<MadeFrom>,
    /// Objects of it that others change back again and again.
    pub contested: Contested,
}

/// A record without its chart and manifest, and where it stands.
#[derive(Debug, Clone)]
pub struct StoredSummary {
    /// The record.
    pub summary: Summary,
    /// Where it stands.
    pub place: Place,
}

impl StoredSummary {
    /// Whether the action that is under way has changed nothing yet but its own record and hooks: then it
    /// can begin anew, as the same revision, when something else is asked for.
    pub fn can_begin_anew(&self) -> bool {
        let stage = self.place.progress.as_ref().map(|progress| progress.stage);
        match stage {
            Some(Stage::Hooks(event)) if event.precedes_objects() => {
                let is_of = |hook: &&HookRun| hook.events.iter().any(|name| name == event.as_str());
                let mut hooks = self.summary.hooks.iter().filter(is_of);
                !hooks.all(|hook| hook.phase == "Succeeded")
            }
            _ => false,
        }
    }
}

/// A whole record, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    /// The record.
    pub release: Release,
    /// Where it stands.
    pub place: Place,
}

/// A Secret with the labels of a record.
#[derive(Debug)]
pub enum Entry {
    /// It can be read.
    Read(Box<StoredSummary>),
    /// It cannot.
    Unreadable {
        /// The revision that its labels or its name say.
        version: i64,
        /// The Secret, as NAMESPACE/NAME.
        secret: String,
        /// Why.
        cause: Unreadable,
    },
}

impl Entry {
    /// Reads a Secret that this process has written.
    pub fn of(secret: &Value) -> Self {
        Entry::of_within(secret, &Budget::unlimited())
    }

    /// Reads a Secret that anyone may have written. What is kept of it stays charged.
    pub fn of_within(secret: &Value, budget: &Budget) -> Self {
        let version = version(secret);
        let data = secret.pointer("/data/release").and_then(Value::as_str);
        let summary = match data {
            Some(data) => Summary::read(data, version, budget),
            None => Err(Unreadable::NoData),
        };
        match summary {
            Ok(summary) => Entry::Read(Box::new(StoredSummary {
                summary,
                place: Place::of(secret),
            })),
            Err(cause) => Entry::Unreadable {
                version,
                secret: secret_name(secret),
                cause,
            },
        }
    }

    /// The revision.
    pub fn version(&self) -> i64 {
        match self {
            Entry::Read(stored) => stored.summary.version,
            Entry::Unreadable { version, .. } => *version,
        }
    }
}

/// All records of one release, the oldest first.
#[derive(Debug, Default)]
pub struct Storage {
    entries: Vec<Entry>,
}

impl Storage {
    /// Of the Secrets that have the labels of the release.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s Value>) -> Self {
        Self::of_entries(secrets.into_iter().map(Entry::of))
    }

    /// Of what was read.
    pub fn of_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        entries.sort_by_key(Entry::version);
        Storage { entries }
    }

    /// Takes in a record that was written.
    pub fn put(&mut self, entry: Entry) {
        self.forget(entry.version());
        self.entries.push(entry);
        self.entries.sort_by_key(Entry::version);
    }

    /// Forgets a record that was deleted.
    pub fn forget(&mut self, version: i64) {
        self.entries.retain(|entry| entry.version() != version);
    }

    /// Those that can be read, the oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &StoredSummary> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Read(stored) => Some(&**stored),
            Entry::Unreadable { .. } => None,
        })
    }

    /// The newest.
    ///
    /// # Errors
    /// When it cannot be read: what is true of the release is not known then.
    pub fn last(&self) -> Result<Option<&StoredSummary>, &Entry> {
        match self.entries.last() {
            None => Ok(None),
            Some(Entry::Read(stored)) => Ok(Some(stored)),
            Some(unreadable) => Err(unreadable),
        }
    }

    /// The record of a revision.
    pub fn get(&self, version: i64) -> Option<&StoredSummary> {
        self.records()
            .find(|stored| stored.summary.version == version)
    }

    /// The newest that is deployed.
    pub fn deployed(&self) -> Option<&StoredSummary> {
        self.records()
            .rev()
            .find(|stored| stored.summary.status == Status::Deployed)
    }

    /// The revision whose objects are in the cluster, as Helm sees it, for an upgrade: the newest that is
    /// deployed, or else the newest at all. An action that is under way does not count. A rollback starts
    /// from the newest.
    pub fn base(&self) -> Option<&StoredSummary> {
        let done = |stored: &&StoredSummary| !stored.summary.status.is_in_progress();
        self.deployed().or_else(|| self.records().rev().find(done))
    }

    /// Every revision with its status, those that cannot be read included.
    pub fn revisions(&self) -> Vec<(i64, Status)> {
        let revision = |entry: &Entry| match entry {
            Entry::Read(stored) => (stored.summary.version, stored.summary.status),
            Entry::Unreadable { version, .. } => (*version, Status::Unknown),
        };
        self.entries.iter().map(revision).collect()
    }

    /// The number of the next revision.
    pub fn next_version(&self) -> i64 {
        self.entries
            .last()
            .map_or(1, |entry| entry.version().saturating_add(1))
    }
}

impl StoredRecord {
    /// Reads a Secret as a whole.
    ///
    /// # Errors
    /// Names the Secret, what is wrong with it, and what can be done.
    pub fn of(secret: &Value, budget: &Budget) -> Result<Self, Error> {
        let release =
            from_object_within(secret, budget).map_err(|cause| Error::UnreadableRecord {
                secret: secret_name(secret),
                cause: cause.into(),
            })?;
        Ok(StoredRecord {
            release,
            place: Place::of(secret),
        })
    }

    /// Without its chart and manifest.
    pub fn summary(&self) -> StoredSummary {
        StoredSummary {
            summary: Summary::of(&self.release),
            place: self.place.clone(),
        }
    }
}

impl Place {
    fn of(secret: &Value) -> Self {
        let metadata = &secret["metadata"];
        let annotation = |name: &str| metadata["annotations"][name].as_str();
        let label = |name: &str| metadata["labels"][name].as_str();
        let time = |name: &str| label(name)?.parse().ok().map(Timestamp::from_seconds);
        Place {
            secret: secret_name(secret),
            resource_version: metadata["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            created: metadata["creationTimestamp"]
                .as_str()
                .and_then(Timestamp::parse),
            written: time("modifiedAt").max(time("createdAt")),
            writer: last_writer(metadata),
            progress: annotation(PROGRESS).and_then(Progress::of),
            made_from: annotation(MADE_FROM).and_then(MadeFrom::of),
            contested: annotation(CONTESTED).map(Contested::of).unwrap_or_default(),
        }
    }
}

fn last_writer(metadata: &Value) -> String {
    let writers = metadata["managedFields"].as_array().into_iter().flatten();
    let newest = writers.max_by_key(|entry| entry["time"].as_str());
    newest
        .and_then(|entry| entry["manager"].as_str())
        .unwrap_or_default()
        .to_owned()
}

fn secret_name(secret: &Value) -> String {
    let metadata = &secret["metadata"];
    let part = |name: &str| metadata[name].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}

/// The revision that labels or name of a Secret say.
fn version(secret: &Value) -> i64 {
    let metadata = &secret["metadata"];
    let of_label = metadata["labels"]["version"].as_str();
    let of_name = || Some(metadata["name"].as_str()?.rsplit_once(".v")?.1);
    of_label
        .or_else(of_name)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}
