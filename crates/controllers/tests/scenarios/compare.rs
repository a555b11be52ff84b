//! Whether a world did what was recorded.
//!
//! Where we are better on purpose, or the recording is about the machine it was made on, a rule of
//! [`RULES`] says so for all scenarios; what is about one scenario stands in the list of known
//! differences.

use std::collections::BTreeSet;

use everflow_controllers::source::named_by_revision;
use everflow_json::Value;

/// The rules by which expected and found may differ, and why.
pub const RULES: &[(&str, &str)] = &[
    (
        "symbols",
        "$TIME, $UID, $RV, $DUR, $IP, $PORT stand for values of the run",
    ),
    (
        "observed-generation",
        "we note the generation with every attempt; Flux leaves it behind while attempts fail",
    ),
    (
        "longer-messages",
        "messages begin as Flux's and may say more",
    ),
    (
        "temporary-paths",
        "messages of Flux name its temporary files; ours name the path inside",
    ),
    (
        "repetition",
        "how often a failing attempt is repeated within a step depends on the machine",
    ),
    (
        "second-runs",
        "Flux attempts a new HelmChart twice, as its memory is behind its own writes, and says that \
         nothing changed",
    ),
    (
        "annotations-of-events",
        "an Event like a former one but for its annotations is a new one here; Flux's counts up the \
         former with its old annotations",
    ),
    (
        "packaged-charts",
        "archives that the controller packages carry the time of packaging",
    ),
];

/// The differences found so far.
#[derive(Debug, Default)]
pub struct Differences(
    pub Vec<String>,
    /// Notifications of former steps: a failing attempt may be repeated in a later one.
    pub Vec<Value>,
);

/// What is being compared.
pub struct Comparison<'a> {
    pub unstable: &'a [String],
    /// Where we are: `then` or `steps[1].then`.
    pub at: String,
    pub differences: &'a mut Differences,
}

impl Comparison<'_> {
    fn differ(&mut self, path: &str, expected: &Value, found: &Value) {
        let text = |value: &Value| {
            let text = value.to_string();
            text.chars().take(400).collect::<String>()
        };
        self.differences.0.push(format!(
            "{path}: {} instead of {}",
            text(found),
            text(expected)
        ));
    }

    fn is_unstable(&self, path: &str) -> bool {
        self.unstable.iter().any(|unstable| {
            path.strip_prefix(unstable.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Compares all facts of a step.
    pub fn facts(&mut self, expected: &Value, found: &Value) {
        self.objects(expected, found);
        self.told("events", expected, found);
        self.told("notifications", expected, found);
        self.differences.1.extend(
            found["notifications"]
                .as_array()
                .into_iter()
                .flatten()
                .cloned(),
        );
        let objects = expected["flux"].as_array().into_iter().flatten();
        let packaged: BTreeSet<String> = objects
            .filter(|object| is_packaged(object))
            .map(|object| {
                format!(
                    "HelmChart/{}",
                    object["metadata"]["name"].as_str().unwrap_or_default()
                )
            })
            .collect();
        self.artifacts(&expected["artifacts"], &found["artifacts"], &packaged);
    }

    fn objects(&mut self, expected: &Value, found: &Value) {
        let key = |object: &Value| {
            let kind = object["kind"].as_str().unwrap_or_default();
            format!(
                "{kind}/{}",
                object["metadata"]["name"].as_str().unwrap_or_default()
            )
        };
        let found = found["flux"].as_array().unwrap();
        let mut seen = BTreeSet::new();
        for (index, expected) in expected["flux"].as_array().unwrap().iter().enumerate() {
            let key_of = key(expected);
            let path = format!("{}.flux[{index}]", self.at);
            match found.iter().find(|object| key(object) == key_of) {
                None => self.differ(&path, expected, &Value::Null),
                Some(object) => self.object(&path, expected, object),
            }
            seen.insert(key_of);
        }
        for object in found.iter().filter(|object| !seen.contains(&key(object))) {
            let path = format!("{}.flux", self.at);
            self.differ(&path, &Value::Null, &object["metadata"]);
        }
    }

    /// Compares an object of Flux.
    pub fn object(&mut self, path: &str, expected: &Value, found: &Value) {
        let mut expected = expected.clone();
        if is_packaged(&expected) {
            for field in ["digest", "size"] {
                expected["status"]["artifact"][field] = found["status"]["artifact"][field].clone();
            }
        }
        sort_managers(&mut expected);
        let mut found = found.clone();
        name_by_revision(&mut found);
        let ready = expected["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let is_ready = ready
            .clone()
            .any(|one| one["type"] == "Ready" && one["status"] == "True");
        let observed = &expected["status"]["observedGeneration"];
        let generation = found["metadata"]["generation"].clone();
        let any = ready.clone().next().is_some();
        if !is_ready
            && any
            && *observed != generation
            && found["status"]["observedGeneration"] == generation
        {
            found["status"]["observedGeneration"] = observed.clone();
        }
        self.value(path, &expected, &found);
    }

    /// Compares any two values.
    pub fn value(&mut self, path: &str, expected: &Value, found: &Value) {
        if self.is_unstable(path) {
            return;
        }
        match (expected, found) {
            (Value::Object(wanted), Value::Object(have)) => {
                let keys: BTreeSet<&everflow_json::Text> =
                    wanted.keys().chain(have.keys()).collect();
                for key in keys {
                    let null = &Value::Null;
                    let (wanted, have) = (wanted.get(key), have.get(key));
                    let path = format!("{path}.{key}");
                    self.value(&path, wanted.unwrap_or(null), have.unwrap_or(null));
                }
            }
            (Value::Array(wanted), Value::Array(have)) if wanted.len() == have.len() => {
                for (index, (wanted, have)) in wanted.iter().zip(have).enumerate() {
                    self.value(&format!("{path}[{index}]"), wanted, have);
                }
            }
            (Value::String(wanted), Value::String(have)) => {
                let more = path.ends_with(".message");
                if !matches(wanted, have, more) {
                    self.differ(path, expected, found);
                }
            }
            _ if expected == found => {}
            _ => self.differ(path, expected, found),
        }
    }

    /// Events or notifications, in any order. What repeats what was told before may be missing.
    fn told(&mut self, what: &str, expected: &Value, found: &Value) {
        let path = format!("{}.{what}", self.at);
        if self.is_unstable(&path) {
            return;
        }
        let empty = Vec::new();
        let all = |facts: &Value| facts[what].as_array().unwrap_or(&empty).clone();
        let (expected, mut found) = (all(expected), all(found));
        let unsure = |index: usize| {
            let path = format!("{path}[{index}]");
            self.unstable
                .iter()
                .any(|unstable| unstable.starts_with(&path))
        };
        let mut order: Vec<(usize, bool)> = (0..expected.len())
            .map(|index| (index, unsure(index)))
            .collect();
        // What is sure first: the rest may be anything of the same reason.
        order.sort_by_key(|(_, unsure)| *unsure);
        for (index, unsure) in order {
            let expected = &expected[index];
            let path = format!("{path}[{index}]");
            if unsure {
                found.retain(|one| one["reason"] != expected["reason"]);
                continue;
            }
            let before = found.len();
            let repeats = !expected["repeated_since_count"].is_null()
                || (what == "notifications"
                    && self
                        .differences
                        .1
                        .iter()
                        .any(|former| same_told(expected, former)));
            let mut expected = expected.clone();
            if repeats {
                expected.as_object_mut().unwrap().remove("annotations");
            }
            let expected = &expected;
            found.retain(|one| !same_told(expected, one));
            // Flux runs once more because its memory is behind its own write.
            let second_run = expected["reason"] == "ArtifactUpToDate"
                && expected["involvedObject"]["kind"] == "HelmChart";
            if found.len() == before && !repeats && !second_run {
                self.differ(&path, expected, &Value::Null);
            }
        }
        for one in found
            .iter()
            .filter(|one| one["repeated_since_count"].is_null())
        {
            self.differ(&path, &Value::Null, one);
        }
    }

    fn artifacts(&mut self, expected: &Value, found: &Value, packaged: &BTreeSet<String>) {
        let path = format!("{}.artifacts", self.at);
        let empty = everflow_json::Map::new();
        let all = |facts: &Value| facts.as_object().unwrap_or(&empty).clone();
        let (expected, found) = (all(expected), all(found));
        let keys: BTreeSet<&everflow_json::Text> = expected.keys().chain(found.keys()).collect();
        for key in keys {
            let null = &Value::Null;
            let path = format!("{path}.{key}");
            let have = found.get(key).unwrap_or(null);
            let Some(wanted) = expected.get(key) else {
                self.differ(&path, null, &have["tarball_sha256"]);
                continue;
            };
            if packaged.contains(key.as_str()) {
                if wanted["same_as_before"].is_null() {
                    self.value(&path, &without_times(wanted), &without_times(have));
                }
                continue;
            }
            match wanted["same_as_before"].as_str() {
                Some(digest) => {
                    let digest = digest.trim_start_matches("sha256:").into();
                    self.value(&path, &digest, &have["tarball_sha256"]);
                }
                None => self.value(&path, wanted, have),
            }
        }
    }
}

/// Whether it is a chart that the controller packaged: the archive carries the time of that.
fn is_packaged(object: &Value) -> bool {
    let mut conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    object["kind"] == "HelmChart"
        && conditions.any(|condition| {
            condition["type"] == "ArtifactInStorage"
                && condition["reason"] == "ChartPackageSucceeded"
        })
}

fn without_times(artifact: &Value) -> Value {
    let mut artifact = artifact.clone();
    let map = artifact.as_object_mut().unwrap();
    map.remove("tarball_sha256");
    map.remove("tarball_size");
    for file in artifact["files"].as_array_mut().into_iter().flatten() {
        file.as_object_mut().unwrap().remove("mtime");
    }
    artifact
}

fn same_told(expected: &Value, found: &Value) -> bool {
    let (mut expected, mut found) = (expected.clone(), found.clone());
    if expected["reason"] == "ChartPackageSucceeded" {
        for told in [&mut expected, &mut found] {
            for field in ["annotations", "metadata"] {
                if let Some(map) = told.get_mut(field).and_then(Value::as_object_mut) {
                    map.remove("source.toolkit.fluxcd.io/digest");
                }
            }
        }
    }
    let (expected, found) = (&expected, &found);
    let ignored = ["count", "repeated_since_count", "distinct_events", "times"];
    let keys = expected.as_object().unwrap().iter();
    keys.filter(|(key, _)| !ignored.contains(&key.as_str()))
        .all(|(key, wanted)| {
            let have = &found[key];
            match (wanted, have) {
                (Value::String(wanted), Value::String(have)) => {
                    matches(wanted, have, key == "message")
                }
                (Value::Object(wanted), Value::Null) => wanted.is_empty(),
                _ => same_values(wanted, have),
            }
        })
}

fn same_values(wanted: &Value, have: &Value) -> bool {
    let mut differences = Differences::default();
    let mut comparison = Comparison {
        unstable: &[],
        at: String::new(),
        differences: &mut differences,
    };
    comparison.value("", wanted, have);
    differences.0.is_empty()
}

/// The file of an artifact has its digest in its name where the status named another one of the same revision, which
/// Flux overwrites while it is named.
fn name_by_revision(object: &mut Value) {
    let Some(artifact) = object.pointer_mut("/status/artifact") else {
        return;
    };
    let digest = artifact["digest"].as_str().unwrap_or_default().to_owned();
    for field in ["path", "url"] {
        let named = artifact[field].as_str();
        if let Some(named) = named.map(|name| named_by_revision(name, &digest)) {
            artifact[field] = named.into();
        }
    }
}

fn sort_managers(object: &mut Value) {
    if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
        entries.sort_by_key(Value::to_string);
    }
}

/// Whether a text is what the recording has, with its symbols.
pub fn matches(wanted: &str, have: &str, may_say_more: bool) -> bool {
    // Flux counts from the last generation that succeeded, we from the last attempted.
    let generation = "processing object: new generation ";
    if let (Some(wanted), Some(have)) = (
        wanted.strip_prefix(generation),
        have.strip_prefix(generation),
    ) {
        return wanted.split(" -> ").last() == have.split(" -> ").last();
    }
    let wanted = wanted
        .replace("lstat $TMP/gitrepository-$RAND/", "lstat ")
        .replace("$TMP/$RAND/unpack/", "")
        .replace("$TMP/kustomization-$RAND/", "")
        .replace("$TMP/kustomization-$RAND", ".")
        .replace("$TMP/helmchart-$RAND/source/", "/")
        // Content of files was recorded as it was.
        .replace("127.0.0.1:1/", "$DEAD/")
        .replace("127.0.0.1:1:", "$DEAD:")
        .replace("$TMP/helmchart-$RAND/source/", "/")
        // Content of files was recorded as it was.
        .replace("127.0.0.1:1/", "$DEAD/")
        .replace("127.0.0.1:1:", "$DEAD:")
        .replace(" on $DNS", "")
        // The words of the recording's Helm server, which HTTP does not hand on to everyone.
        .replace("404 File not found", "404 Not Found");
    let symbols = [
        "$TIME", "$UID", "$RV", "$DUR", "$IP", "$PORT", "$DNS", "$HOME", "$RAND",
    ];
    let mut parts: Vec<String> = vec![wanted];
    for symbol in symbols {
        parts = parts
            .iter()
            .flat_map(|part| part.split(symbol).map(str::to_owned).collect::<Vec<_>>())
            .collect();
    }
    let Some(mut rest) = have.strip_prefix(parts[0].as_str()) else {
        return false;
    };
    for (index, part) in parts.iter().enumerate().skip(1) {
        let last = index + 1 == parts.len();
        if last && part.is_empty() {
            return true;
        }
        let Some(at) = rest.find(part.as_str()) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || may_say_more
}
