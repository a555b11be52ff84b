//! Whether HelmReleases became what was recorded of them.
//!
//! [`RULES`] says where expected and found may differ in all scenarios, and why.

use std::collections::{BTreeMap, BTreeSet};

use everflow_json::{Map, Value, json};

/// The rules by which expected and found may differ.
pub const RULES: &[(&str, &str)] = &[
    (
        "times",
        "times, unique ids and digests that hold them are those of the run",
    ),
    (
        "longer-messages",
        "messages begin as Flux's and may say more: causes, remedies",
    ),
    (
        "logs",
        "what Helm logged last is its own; ours is what was done last",
    ),
    (
        "notes",
        "annotations beside a record are ours, and gone when Helm writes it",
    ),
    (
        "backoff",
        "how often a failing attempt is repeated within a step depends on the machine",
    ),
    (
        "writes",
        "one write of the status instead of up to nine: the sequence is not compared",
    ),
    (
        "rollback-revision",
        "helm 4.3 notes in the record what was rolled back to; that of the recording did not",
    ),
    (
        "unreadable",
        "the name and the revision of a record that cannot be read are not shown",
    ),
    (
        "drift-manager",
        "drift is corrected by server-side apply, and not by an update beside it",
    ),
];

/// What differs.
#[derive(Debug, Default)]
pub struct Differences {
    pub lines: Vec<String>,
    /// Whether it is about drift.
    pub drift: bool,
}

impl Differences {
    fn note(&mut self, path: &str, expected: &Value, found: &Value) {
        let cut = |value: &Value| value.to_string().chars().take(700).collect::<String>();
        let (found, expected) = (cut(found), cut(expected));
        self.lines
            .push(format!("{path}: {found} instead of {expected}"));
    }

    fn same(&mut self, path: &str, expected: &Value, found: &Value) {
        if expected != found {
            self.note(path, expected, found);
        }
    }

    /// Texts of which ours may say more.
    fn text(&mut self, path: &str, expected: &Value, found: &Value) {
        let start = |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            let text = text.split("\n\nLast Helm logs:").next().unwrap_or_default();
            text.trim().to_owned()
        };
        let (wanted, have) = (start(expected), start(found));
        // A list of what is waited for may be followed by causes, and a sentence by a remedy.
        if !have.starts_with(&wanted) {
            self.note(path, expected, found);
        }
    }

    /// Compares all facts of a step.
    pub fn facts(&mut self, expected: &Value, found: &Value) {
        self.objects_of_flux(&expected["flux"], &found["flux"]);
        self.secrets(&expected["releaseSecrets"], &found["releaseSecrets"]);
        self.objects(&expected["objects"], &found["objects"]);
        self.events(&expected["events"], &found["events"]);
    }

    fn objects_of_flux(&mut self, expected: &Value, found: &Value) {
        for wanted in expected.as_array().into_iter().flatten() {
            let kind = wanted["kind"].as_str().unwrap_or_default();
            let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{kind}/{name}");
            let have = found
                .as_array()
                .into_iter()
                .flatten()
                .find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
            match (kind, have) {
                ("HelmRelease", Some(have)) => self.release(&path, wanted, have),
                ("HelmChart", Some(have)) if wanted["unchanged"].is_null() => {
                    self.chart(&path, wanted, have);
                }
                ("HelmRelease" | "HelmChart", None) => self.note(&path, wanted, &Value::Null),
                _ => {}
            }
        }
        for have in found.as_array().into_iter().flatten() {
            let (kind, name) = (&have["kind"], &have["metadata"]["name"]);
            let mut all = expected.as_array().into_iter().flatten();
            let is_known = all.any(|one| {
                one["kind"] == *kind && (one["metadata"]["name"] == *name || one["name"] == *name)
            });
            if !is_known && (kind == "HelmRelease" || kind == "HelmChart") {
                self.note("flux", &Value::Null, &have["metadata"]);
            }
        }
    }

    fn release(&mut self, path: &str, wanted: &Value, have: &Value) {
        let finalizers = "finalizers";
        let of = |object: &Value| object["metadata"][finalizers].clone();
        self.same(&format!("{path}.finalizers"), &of(wanted), &of(have));
        self.same(
            &format!("{path}.managers"),
            &managers(wanted),
            &managers(have),
        );
        let (wanted, have) = (&wanted["status"], &have["status"]);
        let empty = Map::new();
        let keys = |value: &Value| {
            let map = value.as_object().unwrap_or(&empty);
            map.keys()
                .map(ToString::to_string)
                .collect::<BTreeSet<String>>()
        };
        let counters = ["failures", "installFailures", "upgradeFailures"];
        for key in keys(wanted).union(&keys(have)) {
            let at = format!("{path}.status.{key}");
            let (wanted, have) = (&wanted[key.as_str()], &have[key.as_str()]);
            match key.as_str() {
                "conditions" => self.conditions(&at, wanted, have),
                "history" => self.history(&at, wanted, have),
                "lastAttemptedReleaseActionDuration" => {
                    self.same(&at, &wanted.is_null().into(), &have.is_null().into());
                }
                counter if counters.contains(&counter) => {
                    let number = |value: &Value| value.as_i64().unwrap_or_default();
                    let (wanted_count, count) = (number(wanted), number(have));
                    if wanted_count != count && (wanted_count < 2 || count < 2) {
                        self.note(&at, wanted, have);
                    }
                }
                _ => self.same(&at, wanted, have),
            }
        }
    }

    fn conditions(&mut self, path: &str, wanted: &Value, have: &Value) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let state = |all: &[Value]| -> Value {
            let one = |one: &Value| {
                let text = |field: &str| one[field].as_str().unwrap_or_default();
                Value::from(format!(
                    "{}={}/{}",
                    text("type"),
                    text("status"),
                    text("reason")
                ))
            };
            all.iter().map(one).collect::<Vec<Value>>().into()
        };
        let (wanted, have) = (list(wanted), list(have));
        let (states, found) = (state(&wanted), state(&have));
        if states != found {
            return self.note(path, &wanted.into(), &have.into());
        }
        for (wanted, have) in wanted.iter().zip(&have) {
            let kind = wanted["type"].as_str().unwrap_or_default();
            let at = format!("{path}.{kind}");
            // How far the next of several attempts has come.
            let is_between =
                kind == "Reconciling" && wanted["message"] == "Fulfilling prerequisites";
            if is_between && have["message"].to_string().contains("Running '") {
                continue;
            }
            self.text(
                &format!("{at}.message"),
                &wanted["message"],
                &have["message"],
            );
            let generation = "observedGeneration";
            self.same(
                &format!("{at}.{generation}"),
                &wanted[generation],
                &have[generation],
            );
        }
    }

    fn history(&mut self, path: &str, wanted: &Value, have: &Value) {
        let plain = |value: &Value| {
            let mut all = value.as_array().cloned().unwrap_or_default();
            for entry in &mut all {
                let Some(entry) = entry.as_object_mut() else {
                    continue;
                };
                for field in ["digest", "firstDeployed", "lastDeployed", "deleted"] {
                    if let Some(value) = entry.get_mut(field) {
                        *value = "".into();
                    }
                }
                if let Some(Value::Object(hooks)) = entry.get_mut("testHooks") {
                    for hook in hooks.values_mut().filter_map(Value::as_object_mut) {
                        for time in ["lastStarted", "lastCompleted"] {
                            if let Some(value) = hook.get_mut(time) {
                                *value = "".into();
                            }
                        }
                    }
                }
            }
            Value::from(all)
        };
        self.same(path, &plain(wanted), &plain(have));
    }

    fn chart(&mut self, path: &str, wanted: &Value, have: &Value) {
        let labels = "labels";
        self.same(&format!("{path}.spec"), &wanted["spec"], &have["spec"]);
        let of = |object: &Value| object["metadata"][labels].clone();
        self.same(&format!("{path}.labels"), &of(wanted), &of(have));
        let of = |object: &Value| object["metadata"]["annotations"].clone();
        self.same(&format!("{path}.annotations"), &of(wanted), &of(have));
    }

    fn secrets(&mut self, expected: &Value, found: &Value) {
        let name = |secret: &Value| secret["name"].as_str().unwrap_or_default().to_owned();
        let by_name = |all: &Value| -> BTreeMap<String, Value> {
            let all = all.as_array().cloned().unwrap_or_default();
            all.into_iter().map(|one| (name(&one), one)).collect()
        };
        let (wanted, have) = (by_name(expected), by_name(found));
        let names = |all: &BTreeMap<String, Value>| {
            let name = |(name, secret): (&String, &Value)| {
                format!(
                    "{name} {}",
                    secret["labels"]["status"].as_str().unwrap_or_default()
                )
            };
            Value::from(
                all.iter()
                    .map(name)
                    .map(Value::from)
                    .collect::<Vec<Value>>(),
            )
        };
        if names(&wanted) != names(&have) {
            return self.note("releaseSecrets", &names(&wanted), &names(&have));
        }
        for (name, wanted) in &wanted {
            self.secret(&format!("secret {name}"), wanted, &have[name]);
        }
    }

    fn secret(&mut self, path: &str, wanted: &Value, have: &Value) {
        self.same(&format!("{path}.type"), &wanted["type"], &have["type"]);
        let labels = |secret: &Value| {
            let mut labels = secret["labels"].clone();
            for time in ["createdAt", "modifiedAt"] {
                if let Some(value) = labels.get_mut(time) {
                    *value = "".into();
                }
            }
            labels
        };
        self.same(&format!("{path}.labels"), &labels(wanted), &labels(have));
        let (wanted, have) = (&wanted["release"], &have["release"]);
        if wanted["name"] == "?" {
            return;
        }
        for field in [
            "name",
            "manifest",
            "version",
            "namespace",
            "apply_method",
            "config",
        ] {
            self.same(&format!("{path}.{field}"), &wanted[field], &have[field]);
        }
        for field in ["status", "notes"] {
            let at = format!("{path}.info.{field}");
            self.same(&at, &wanted["info"][field], &have["info"][field]);
        }
        let (description, info) = ("description", "info");
        self.text(
            &format!("{path}.{description}"),
            &wanted[info][description],
            &have[info][description],
        );
        let metadata = |release: &Value| release["chart"]["metadata"].clone();
        self.same(&format!("{path}.chart"), &metadata(wanted), &metadata(have));
        let hooks = |release: &Value| {
            let mut hooks = release["hooks"].clone();
            for hook in hooks.as_array_mut().into_iter().flatten() {
                if let Some(Value::Object(run)) = hook.get_mut("last_run") {
                    for time in ["started_at", "completed_at"] {
                        if run.get(time).is_some() {
                            run.insert(time.into(), "".into());
                        }
                    }
                }
            }
            hooks
        };
        self.same(&format!("{path}.hooks"), &hooks(wanted), &hooks(have));
    }

    fn objects(&mut self, expected: &Value, found: &Value) {
        let key = |object: &Value| {
            let metadata = &object["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!(
                "{}/{}/{}",
                text(&object["kind"]),
                text(&metadata["namespace"]),
                text(&metadata["name"])
            )
        };
        let by_key = |all: &Value| -> BTreeMap<String, Value> {
            let all = all.as_array().cloned().unwrap_or_default();
            let own = all
                .into_iter()
                .filter(|one| one["metadata"]["ownerReferences"].is_null());
            own.map(|one| (key(&one), one)).collect()
        };
        let (wanted, have) = (by_key(expected), by_key(found));
        let keys = |all: &BTreeMap<String, Value>| -> Value {
            all.keys()
                .cloned()
                .map(Value::from)
                .collect::<Vec<Value>>()
                .into()
        };
        if keys(&wanted) != keys(&have) {
            return self.note("objects", &keys(&wanted), &keys(&have));
        }
        for (key, wanted) in &wanted {
            let have = &have[key];
            for field in ["labels", "annotations"] {
                let part = |object: &Value| {
                    let mut part = object["metadata"][field].clone();
                    if let Some(map) = part.as_object_mut() {
                        map.retain(|key, _| !key.starts_with("deployment.kubernetes.io/"));
                        map.retain(|key, _| !key.ends_with("controller-uid"));
                        if map.is_empty() {
                            return Value::Null;
                        }
                    }
                    part
                };
                self.same(&format!("{key}.{field}"), &part(wanted), &part(have));
            }
            for field in ["data", "stringData", "type"] {
                self.same(&format!("{key}.{field}"), &wanted[field], &have[field]);
            }
            let replicas = |object: &Value| object["spec"]["replicas"].clone();
            self.same(
                &format!("{key}.replicas"),
                &replicas(wanted),
                &replicas(have),
            );
            let by = |object: &Value| {
                let all = managers(object);
                match self.drift {
                    true => applied(&all),
                    false => all,
                }
            };
            let (wanted, have) = (by(wanted), by(have));
            self.same(&format!("{key}.managers"), &wanted, &have);
        }
    }

    fn events(&mut self, expected: &Value, found: &Value) {
        let own = |all: &Value| -> Vec<Value> {
            let all = all.as_array().cloned().unwrap_or_default();
            let is_own = |one: &Value| one["involvedObject"]["kind"] == "HelmRelease";
            all.into_iter().filter(is_own).collect()
        };
        let (wanted, all) = (own(expected), own(found));
        let mut have = all.clone();
        for wanted in &wanted {
            if !all.iter().any(|have| is_event(wanted, have)) {
                self.note("events", &event(wanted), &Value::Null);
            }
            have.retain(|have| !is_event(wanted, have));
        }
        for have in have {
            self.note("events", &Value::Null, &event(&have));
        }
    }
}

fn event(event: &Value) -> Value {
    json!([
        event["type"],
        event["reason"],
        event["message"],
        event["annotations"],
        event["involvedObject"]["name"]
    ])
}

fn is_event(wanted: &Value, have: &Value) -> bool {
    let mut differences = Differences::default();
    for field in ["type", "reason"] {
        differences.same(field, &wanted[field], &have[field]);
    }
    differences.same(
        "name",
        &wanted["involvedObject"]["name"],
        &have["involvedObject"]["name"],
    );
    differences.text("message", &wanted["message"], &have["message"]);
    let annotations = |event: &Value| match &event["annotations"] {
        Value::Object(map) if !map.is_empty() => Value::Object(map.clone()),
        _ => Value::Null,
    };
    differences.same("annotations", &annotations(wanted), &annotations(have));
    differences.lines.is_empty()
}

/// Who wrote an object, and how; without the controllers of the real cluster.
fn managers(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let all: BTreeSet<String> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["manager"] != "kube-controller-manager")
        .filter(|entry| entry["subresource"] != "status" || object["kind"] == "HelmRelease")
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            format!(
                "{} {} {}",
                text("manager"),
                text("operation"),
                text("subresource")
            )
        })
        .collect();
    all.into_iter()
        .map(Value::from)
        .collect::<Vec<Value>>()
        .into()
}

/// Updates of ours as if they had been applied.
fn applied(managers: &Value) -> Value {
    let all = managers.as_array().into_iter().flatten();
    let all: BTreeSet<String> = all
        .map(|one| match one.as_str().unwrap() {
            "helm-controller Update " => "helm-controller Apply ".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    all.into_iter()
        .map(Value::from)
        .collect::<Vec<Value>>()
        .into()
}
