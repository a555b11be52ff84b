//! A cluster that knows only what the steps of actions need.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::inventory::ObjectId;
use everflow_json::{Value, json};
use everflow_release::action::{Expected, Step, StepResult};
use everflow_release::manifest::is_kept;
use everflow_release::record::mark::Progress;
use everflow_release::record::{Place, Status, StoredRecord};
use everflow_time::Timestamp;

/// What goes wrong in it.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Objects that the server refuses.
    pub refused: BTreeSet<String>,
    /// Objects that never become healthy.
    pub unhealthy: BTreeSet<String>,
    /// Hooks whose Jobs fail.
    pub failing_hooks: BTreeSet<String>,
    /// Objects that stay although they were deleted.
    pub held: BTreeSet<String>,
}

/// Secrets, objects, and what has happened to them.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The records by the names of their Secrets. That records survive Secrets is tested elsewhere.
    pub secrets: BTreeMap<String, StoredRecord>,
    pub objects: BTreeMap<String, Value>,
    pub faults: Faults,
    pub now: Timestamp,
    /// The hooks whose objects were created, once for each time.
    pub hook_runs: Vec<String>,
    /// What was seen for the first time while it was waited for.
    looked: BTreeSet<String>,
    version: u64,
}

/// Someone else has written, or the server cannot be asked: the action is dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Dropped;

impl Cluster {
    pub fn new(faults: Faults) -> Self {
        Cluster {
            secrets: BTreeMap::new(),
            objects: BTreeMap::new(),
            faults,
            now: Timestamp::from_seconds(1_700_000_000),
            hook_runs: Vec::new(),
            looked: BTreeSet::new(),
            version: 0,
        }
    }

    pub fn tick(&mut self) -> Timestamp {
        self.now = self.now + std::time::Duration::from_millis(1_100);
        self.now
    }

    /// All records, the oldest first.
    pub fn records(&self) -> Vec<StoredRecord> {
        let mut records: Vec<StoredRecord> = self.secrets.values().cloned().collect();
        records.sort_by_key(|stored| stored.release.version);
        records
    }

    pub fn revisions_but(&self, version: i64) -> Vec<(i64, Status)> {
        let revision = |stored: StoredRecord| {
            let status = Status::of(&stored.release.info.status);
            (stored.release.version, status)
        };
        let others = self.records().into_iter().map(revision);
        others.filter(|(other, _)| *other != version).collect()
    }

    /// Carries out a step.
    pub fn carry_out(&mut self, step: &Step) -> Result<StepResult, Dropped> {
        Ok(match step {
            Step::WriteRecord { write, expected } => {
                let stored = StoredRecord {
                    release: write.release.clone(),
                    place: Place {
                        progress: write.progress.clone(),
                        made_from: write.made_from.clone(),
                        ..Place::default()
                    },
                };
                self.put(&write.secret_name(), stored, expected)?
            }
            Step::NoteProgress {
                secret,
                progress,
                expected,
            } => {
                let mut changed = self.secrets.get(secret).ok_or(Dropped)?.clone();
                changed.place.progress = Some(Progress::of(progress).unwrap());
                self.put(secret, changed, expected)?
            }
            Step::DeleteRecords { secrets } => {
                for secret in secrets {
                    self.secrets.remove(secret);
                }
                StepResult::Done
            }
            Step::ApplyDefinitions { objects, .. } => self.apply(objects),
            Step::Apply(apply) => self.apply(&apply.objects),
            Step::CreateNamespace(namespace) => self.apply(std::slice::from_ref(namespace)),
            Step::CheckOwnership { objects } => {
                let mut found = objects
                    .iter()
                    .filter(|object| self.objects.contains_key(&id(object)));
                match found.next() {
                    Some(object) => StepResult::Failed(format!("{} exists", id(object))),
                    None => StepResult::Done,
                }
            }
            Step::CreateHook { objects, .. } => {
                for object in objects {
                    if !self.objects.contains_key(&id(object)) {
                        self.hook_runs.push(id(object));
                        self.create(object);
                    }
                }
                StepResult::Done
            }
            Step::DeleteHook(hook) => {
                for object in &hook.objects {
                    self.objects.remove(&id(object));
                }
                StepResult::Done
            }
            Step::AwaitHook(hook) => self.look(&hook.objects, |cluster, id| {
                cluster.faults.failing_hooks.contains(id)
            }),
            Step::AwaitHealth(wait) => self.look(&wait.objects, |cluster, id| {
                cluster.faults.unhealthy.contains(id)
            }),
            Step::AwaitDeletion(wait) => {
                let left = |cluster: &Cluster, id: &str| cluster.objects.contains_key(id);
                self.look(&wait.objects, left)
            }
            Step::Delete(delete) => {
                for object in &delete.objects {
                    let id = id(object);
                    let Some(live) = self.objects.get(&id) else {
                        continue;
                    };
                    let is_old = delete.created_since.is_some_and(|since| {
                        let created = live["metadata"]["creationTimestamp"].as_str().unwrap();
                        Timestamp::parse(created).unwrap() < since
                    });
                    if !is_old && !is_kept(live) && !self.faults.held.contains(&id) {
                        self.objects.remove(&id);
                    }
                }
                StepResult::Done
            }
            Step::PrintHookLogs { .. } => StepResult::Done,
            Step::Over(_) => panic!("nothing is left to do"),
        })
    }

    fn put(
        &mut self,
        name: &str,
        mut stored: StoredRecord,
        expected: &Expected,
    ) -> Result<StepResult, Dropped> {
        let present = self.secrets.get(name);
        let version = present.map(|present| present.place.resource_version.clone());
        let fits = match expected {
            Expected::Absent => version.is_none(),
            Expected::Version(expected) => version.as_ref() == Some(expected),
        };
        if !fits {
            return Err(Dropped);
        }
        let created = present.map_or(Some(self.now.truncated()), |present| present.place.created);
        self.version += 1;
        stored.place.secret = format!("store/{name}");
        stored.place.resource_version = self.version.to_string();
        stored.place.created = created;
        self.secrets.insert(name.to_owned(), stored);
        Ok(StepResult::Written {
            resource_version: self.version.to_string(),
            created,
        })
    }

    fn apply(&mut self, objects: &[Value]) -> StepResult {
        for object in objects {
            if self.faults.refused.contains(&id(object)) {
                return StepResult::Failed(format!("{} is refused", id(object)));
            }
            match self.objects.contains_key(&id(object)) {
                true => {
                    let created =
                        self.objects[&id(object)]["metadata"]["creationTimestamp"].clone();
                    let mut object = object.clone();
                    object["metadata"]["creationTimestamp"] = created;
                    self.objects.insert(id(&object), object);
                }
                false => self.create(object),
            }
        }
        StepResult::Done
    }

    pub fn create(&mut self, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["creationTimestamp"] = json!(self.now.rfc3339());
        self.objects.insert(id(&object), object);
    }

    /// Nothing is ready at the first look.
    fn look(&mut self, objects: &[Value], bad: impl Fn(&Cluster, &str) -> bool) -> StepResult {
        let ids: Vec<String> = objects.iter().map(id).collect();
        if self.looked.insert(ids.join(",")) {
            return StepResult::Pending;
        }
        match ids.iter().find(|id| bad(self, id)) {
            Some(id) => {
                StepResult::Failed(format!("timeout waiting for: [{id} status: 'InProgress']"))
            }
            None => StepResult::Done,
        }
    }

    /// What lasts: records without times, objects, and how often hooks ran.
    pub fn lasting(&self) -> Value {
        let mut secrets: BTreeMap<String, Value> = BTreeMap::new();
        for stored in self.records() {
            let mut record = stored.release.to_json();
            strip_times(&mut record);
            record["in progress"] = json!(stored.place.progress.is_some());
            record["made from"] = json!(stored.place.made_from.is_some());
            secrets.insert(stored.place.secret, record);
        }
        let mut objects = json!(self.objects);
        strip_times(&mut objects);
        let mut runs = self.hook_runs.clone();
        runs.sort_unstable();
        json!({"secrets": secrets, "objects": objects, "hooks": runs})
    }
}

fn strip_times(value: &mut Value) {
    const TIMES: [&str; 6] = [
        "first_deployed",
        "last_deployed",
        "deleted",
        "started_at",
        "completed_at",
        "creationTimestamp",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !TIMES.contains(&key.as_str()));
            map.values_mut().for_each(strip_times);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_times),
        _ => {}
    }
}

/// `KIND/NAME`.
pub fn id(object: &Value) -> String {
    let id = ObjectId::of(object);
    format!("{}/{}", id.kind, id.name)
}
