//! What there is, how it stands and why: a tree of sources, Kustomizations, HelmReleases and what they
//! deploy, derived from the objects alone.

mod node;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::inventory::ObjectId;
use everflow_json::Value;
use everflow_time::Timestamp;

use node::{children, has_tried, made_from, node, waits_for};
pub use waits::HEALTH_FAILED;
use waits::{MayExist, blamed, fate, health_waits};

/// The reason of sources that are not fetched because the network is not to be used.
pub const SKIPPED: &str = "SkippedOffline";
/// The reason of objects whose controller does not exist yet.
pub const NOT_SUPPORTED: &str = "NotSupportedYet";
/// The reason of sources that were fetched by a run before.
pub const CACHED: &str = "Cached";
/// The reason of objects that are taken as they are, because nothing here ever calls for what they do.
pub const ACCEPTED: &str = "Accepted";

/// The kind that makes sources of sources.
const GENERATOR: &str = "ArtifactGenerator";

/// How an object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Did not work.
    Failed,
    /// Waits for something that will not come unless something else is mended.
    Blocked,
    /// Waits for something that is on its way.
    Waiting,
    /// On its way.
    Progressing,
    /// Left out, because the network is not to be used.
    Skipped,
    /// Nobody here takes care of its kind yet.
    Unsupported,
    /// Suspended by its owner.
    Suspended,
    /// As asked for.
    Ready,
}

impl State {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Failed => "failed",
            State::Blocked => "blocked",
            State::Waiting => "waiting",
            State::Progressing => "progressing",
            State::Skipped => "skipped",
            State::Unsupported => "not supported yet",
            State::Suspended => "suspended",
            State::Ready => "ready",
        }
    }

    /// Whether it will change by itself.
    pub fn is_moving(self) -> bool {
        matches!(self, State::Waiting | State::Progressing)
    }
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Which object.
    pub id: ObjectId,
    /// How it stands.
    pub state: State,
    /// The stable word for why.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// The revision of its content, when it has any.
    pub revision: String,
    /// What it waits for, as `Kind/namespace/name`.
    pub waits_for: Vec<String>,
    /// What it deployed.
    pub children: Vec<Node>,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Picture {
    /// Sources, by kind and name.
    pub sources: Vec<Node>,
    /// Kustomizations, by name.
    pub kustomizations: Vec<Node>,
    /// HelmReleases, by name.
    pub releases: Vec<Node>,
    /// Other kinds of Flux.
    pub others: Vec<Node>,
}

/// The kinds of sources, in the order in which they are shown.
pub const SOURCES: [&str; 6] = [
    "GitRepository",
    "OCIRepository",
    "Bucket",
    "HelmRepository",
    "HelmChart",
    "ExternalArtifact",
];

/// The kinds whose objects are part of every picture.
const COUNTED: [&str; 8] = [
    "GitRepository",
    "OCIRepository",
    "Bucket",
    "HelmRepository",
    "HelmChart",
    "Kustomization",
    "HelmRelease",
    "Receiver",
];

impl Picture {
    /// Draws it. `objects` are all objects of Flux's kinds, `deployed` are those that inventories
    /// name.
    pub fn of(objects: &[Value], deployed: &BTreeMap<ObjectId, Value>, now: Timestamp) -> Self {
        let mut picture = Picture::default();
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            let mut node = node(object);
            match kind {
                "Kustomization" => {
                    node.children = children(object, deployed, now);
                    picture.kustomizations.push(node);
                }
                "HelmRelease" => {
                    node.children = children(object, deployed, now);
                    picture.releases.push(node);
                }
                kind if SOURCES.contains(&kind) => picture.sources.push(node),
                _ => picture.others.push(node),
            }
        }
        picture.await_revisions(objects);
        picture.await_objects();
        let waits = health_waits(objects);
        picture.sort();
        picture.fail_cycles();
        picture.pass_on(&waits);
        picture.name_what_is_waited_for();
        picture
    }

    /// What deploys is not there yet while its source has a revision that it has not applied.
    fn await_revisions(&mut self, objects: &[Value]) {
        let revisions: BTreeMap<String, &str> = self
            .sources
            .iter()
            .map(|node| (node.id.subject(), node.revision.as_str()))
            .collect();
        // Of a chart from a source in the cluster too; what was cached tells of the revision of that day.
        let charts = objects.iter().filter(|it| it["kind"] == "HelmChart");
        let charts: BTreeMap<ObjectId, &Value> =
            charts.map(|chart| (ObjectId::of(chart), chart)).collect();
        let outdated = self.sources.iter().filter(|node| {
            charts.get(&node.id).is_some_and(|chart| {
                let source = waits_for(chart).pop().unwrap_or_default();
                let newest = revisions.get(&source).copied().unwrap_or_default();
                let moves = !source.starts_with("HelmRepository/") && node.reason != CACHED;
                moves && !newest.is_empty() && made_from(chart) != Some(newest)
            })
        });
        let outdated: BTreeSet<ObjectId> = outdated.map(|node| node.id.clone()).collect();
        let specs =
            |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let kustomizations = self.kustomizations.iter_mut().zip(specs("Kustomization"));
        let releases = self.releases.iter_mut().zip(specs("HelmRelease"));
        for (node, object) in kustomizations.chain(releases) {
            let newest = waits_for(object)
                .pop()
                .and_then(|source| revisions.get(&source).copied());
            let newest = newest.filter(|newest| !newest.is_empty());
            let is_news = newest.is_some_and(|newest| !has_tried(object, newest, &node.revision));
            if node.state == State::Ready && is_news {
                node.state = State::Progressing;
                node.message = format!("revision {} is there to apply", newest.unwrap_or_default());
            }
        }
        let ready = self
            .sources
            .iter_mut()
            .filter(|node| node.state == State::Ready);
        for node in ready.filter(|node| outdated.contains(&node.id)) {
            node.state = State::Progressing;
        }
    }

    /// What a Kustomization deployed of Flux's kinds counts too, even before it was seen.
    fn await_objects(&mut self) {
        let seen: BTreeSet<ObjectId> = self.all().map(|node| node.id.clone()).collect();
        for node in &mut self.kustomizations {
            let unseen = |child: &Node| {
                is_counted(&child.id) && child.reason != "NotFound" && !seen.contains(&child.id)
            };
            if node.state == State::Ready && node.children.iter().any(unseen) {
                node.state = State::Progressing;
            }
        }
    }

    fn sort(&mut self) {
        let place = |node: &Node| SOURCES.iter().position(|kind| *kind == node.id.kind);
        self.sources
            .sort_by(|one, two| (place(one), &one.id).cmp(&(place(two), &two.id)));
        self.kustomizations.sort_by(|one, two| one.id.cmp(&two.id));
        self.releases.sort_by(|one, two| one.id.cmp(&two.id));
        self.others.sort_by(|one, two| one.id.cmp(&two.id));
    }

    /// What waits for itself by way of others will wait for ever.
    fn fail_cycles(&mut self) {
        let edges: BTreeMap<String, Vec<String>> = self
            .deploying()
            .filter(|node| node.state == State::Waiting)
            .map(|node| (node.id.subject(), node.waits_for.clone()))
            .collect();
        for node in self.kustomizations.iter_mut().chain(&mut self.releases) {
            let own = node.id.subject();
            let mut seen = BTreeSet::new();
            let mut open = edges.get(&own).cloned().unwrap_or_default();
            while let Some(next) = open.pop() {
                if next == own {
                    node.state = State::Failed;
                    break;
                }
                if seen.insert(next.clone()) {
                    open.extend(edges.get(&next).into_iter().flatten().cloned());
                }
            }
        }
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        let others = self.sources.iter_mut().chain(&mut self.others);
        let deploying = self.kustomizations.iter_mut().chain(&mut self.releases);
        deploying.chain(others)
    }

    /// What waits for something skipped is skipped too; what waits for something that failed, is
    /// blocked, or does not exist is blocked. So is what waits for the health of such objects.
    fn pass_on(&mut self, health: &BTreeMap<ObjectId, Vec<String>>) {
        self.pass_on_with(health, false);
        // What does not exist is judged when it is known all that is skipped.
        self.pass_on_with(health, true);
    }

    fn pass_on_with(&mut self, health: &BTreeMap<ObjectId, Vec<String>>, is_all_known: bool) {
        let generates = self.others.iter().any(|node| node.id.kind == GENERATOR);
        loop {
            let states: BTreeMap<String, State> = self
                .all()
                .map(|node| (node.id.subject(), node.state))
                .collect();
            let beyond = MayExist {
                is_all_known,
                artifacts: generates,
                deployed: self
                    .kustomizations
                    .iter()
                    .any(|node| node.state == State::Skipped),
            };
            let skipped = self.all().filter(|node| node.reason == SKIPPED);
            let skipped: BTreeSet<String> = skipped.map(|node| node.id.subject()).collect();
            let charts = self
                .sources
                .iter()
                .filter(|node| node.id.kind == "HelmChart");
            let charts: BTreeMap<String, Vec<String>> = charts
                .map(|node| (node.id.subject(), node.waits_for.clone()))
                .collect();
            let mut changed = false;
            for node in self.all_mut() {
                let blamed = blamed(node);
                let told = |name: &str| answers_for_itself(name, &skipped, &charts);
                let is_bad = |name: &String| {
                    matches!(
                        states.get(name),
                        Some(State::Failed | State::Blocked | State::Suspended)
                    )
                };
                let fate = match (node.state, health.get(&node.id)) {
                    // Its controller says itself that the chart is left out, and what depends on it goes on.
                    (State::Waiting, _) if node.id.kind == "HelmRelease" => {
                        let names = node.waits_for.iter().filter(|name| !told(name));
                        fate(&names.cloned().collect::<Vec<_>>(), &states, &beyond)
                    }
                    (State::Waiting, _) => fate(&node.waits_for, &states, &beyond),
                    (State::Failed, _) if !blamed.is_empty() && blamed.iter().all(is_bad) => {
                        node.waits_for = blamed;
                        Some(State::Blocked)
                    }
                    (State::Progressing, Some(objects)) => {
                        // A source or a release that says so itself holds nobody up.
                        let deploys = |name: &str| {
                            ["Kustomization/", "HelmRelease/"]
                                .iter()
                                .any(|kind| name.starts_with(kind))
                        };
                        let objects: Vec<String> = objects
                            .iter()
                            .filter(|name| {
                                states.get(*name) != Some(&State::Skipped)
                                    || (deploys(name) && !skipped.contains(*name))
                            })
                            .cloned()
                            .collect();
                        let moving = |name| states.get(name).is_some_and(|state| state.is_moving());
                        match objects.iter().any(moving) {
                            true => None,
                            false => fate(
                                &objects,
                                &states,
                                &MayExist {
                                    artifacts: true,
                                    ..beyond
                                },
                            ),
                        }
                    }
                    _ => None,
                };
                let Some(fate) = fate else { continue };
                if let (State::Progressing, Some(objects)) = (node.state, health.get(&node.id)) {
                    node.waits_for = objects.clone();
                }
                node.state = fate;
                changed = true;
            }
            if !changed {
                return;
            }
        }
    }

    /// Of all that something waits for, what is there and ready is not worth a word.
    fn name_what_is_waited_for(&mut self) {
        let good: BTreeSet<String> = self
            .all()
            .filter(|node| {
                matches!(node.state, State::Ready | State::Unsupported) || node.reason == SKIPPED
            })
            .map(|node| node.id.subject())
            .collect();
        for node in self.all_mut() {
            let open = node.waits_for.iter().filter(|name| !good.contains(*name));
            let open: Vec<String> = open.cloned().collect();
            if !open.is_empty() {
                node.waits_for = open;
            }
        }
    }

    /// All objects of Flux's kinds.
    pub fn all(&self) -> impl Iterator<Item = &Node> {
        let Picture {
            sources,
            kustomizations,
            releases,
            others,
        } = self;
        let deploying = kustomizations.iter().chain(releases);
        sources.iter().chain(deploying).chain(others)
    }

    /// Those that deploy something: Kustomizations and HelmReleases.
    pub fn deploying(&self) -> impl Iterator<Item = &Node> {
        self.kustomizations.iter().chain(&self.releases)
    }

    /// Whether nothing will change by itself any more.
    pub fn is_settled(&self) -> bool {
        !self.all().any(|node| node.state.is_moving())
    }

    /// Whether all that can be ready is.
    pub fn is_ready(&self) -> bool {
        let good = |node: &Node| {
            matches!(
                node.state,
                State::Ready | State::Suspended | State::Skipped | State::Unsupported
            )
        };
        self.all().all(good)
    }

    /// How many there are in each state.
    pub fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        for node in self.all() {
            *counts.entry(node.state).or_default() += 1;
        }
        counts
    }

    /// What is not as it should be: causes, and what waits for them. What waits for something that
    /// does not exist is a cause itself.
    pub fn causes(&self) -> (Vec<&Node>, Vec<&Node>) {
        let there: BTreeSet<String> = self.all().map(|node| node.id.subject()).collect();
        let is_cause = |node: &&Node| {
            let mut names = node.waits_for.iter();
            node.state == State::Failed
                || node.waits_for.is_empty()
                || !names.all(|name| there.contains(name))
        };
        self.troubles().into_iter().partition(is_cause)
    }

    /// All that is not as it should be, causes first: what failed by itself, then what waits for
    /// it.
    pub fn troubles(&self) -> Vec<&Node> {
        let is_trouble = |node: &&Node| {
            matches!(node.state, State::Failed | State::Blocked) || node.state.is_moving()
        };
        let mut troubles: Vec<&Node> = self.all().filter(is_trouble).collect();
        troubles.sort_by_key(|node| node.state);
        troubles
    }
}

/// Whether a HelmRelease that waits for it will be told so that it is left out: by itself, or as a chart that
/// is made from what is.
fn answers_for_itself(
    name: &str,
    skipped: &BTreeSet<String>,
    charts: &BTreeMap<String, Vec<String>>,
) -> bool {
    let mut from = charts.get(name).into_iter().flatten();
    skipped.contains(name) || from.any(|source| skipped.contains(source))
}

fn is_counted(id: &ObjectId) -> bool {
    COUNTED.contains(&id.kind.as_str()) && id.group.ends_with("toolkit.fluxcd.io")
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    fn kustomization(name: &str, ready: &str, reason: &str, depends_on: &[&str]) -> Value {
        let depends_on: Vec<Value> = depends_on
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": { "namespace": "n", "name": name, "generation": 1 },
            "spec": { "dependsOn": depends_on, "sourceRef": { "kind": "GitRepository", "name": "repo" } },
            "status": {
                "observedGeneration": 1,
                "conditions": [{ "type": "Ready", "status": ready, "reason": reason, "message": "why" }],
            },
        })
    }

    fn repository(ready: &str, reason: &str) -> Value {
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": { "namespace": "n", "name": "repo", "generation": 1 },
            "spec": {},
            "status": {
                "observedGeneration": 1,
                "conditions": [{ "type": "Ready", "status": ready, "reason": reason, "message": "why" }],
            },
        })
    }

    fn drawn(objects: &[Value]) -> (Picture, Vec<State>) {
        let now = Timestamp {
            seconds: 0,
            nanos: 0,
        };
        let picture = Picture::of(objects, &BTreeMap::new(), now);
        let states = picture
            .kustomizations
            .iter()
            .map(|node| node.state)
            .collect();
        (picture, states)
    }

    #[test]
    fn a_failure_blocks_what_depends_on_it() {
        let (picture, states) = drawn(&[
            repository("True", "Succeeded"),
            kustomization("a", "False", "BuildFailed", &[]),
            kustomization("b", "False", "DependencyNotReady", &["a"]),
            kustomization("c", "False", "DependencyNotReady", &["b"]),
            kustomization("d", "True", "ReconciliationSucceeded", &[]),
        ]);
        assert_eq!(
            states,
            [State::Failed, State::Blocked, State::Blocked, State::Ready]
        );
        assert!(picture.is_settled() && !picture.is_ready());
        let troubles: Vec<String> = picture
            .troubles()
            .iter()
            .map(|n| n.id.name.clone())
            .collect();
        assert_eq!(troubles, ["a", "b", "c"]);
    }

    #[test]
    fn dependent_of_a_progressing_object_is_waiting_not_blocked() {
        let (picture, states) = drawn(&[
            repository("True", "Succeeded"),
            kustomization("a", "Unknown", "Progressing", &[]),
            kustomization("b", "False", "DependencyNotReady", &["a"]),
        ]);
        assert_eq!(states, [State::Progressing, State::Waiting]);
        assert!(!picture.is_settled());
    }

    #[test]
    fn a_skipped_source_skips_its_dependents() {
        let (picture, states) = drawn(&[
            repository("False", SKIPPED),
            kustomization("a", "False", "ArtifactFailed", &[]),
            kustomization("b", "False", "DependencyNotReady", &["a"]),
        ]);
        assert_eq!(states, [State::Skipped, State::Skipped]);
        assert!(picture.is_settled() && picture.is_ready());
    }

    #[test]
    fn a_dependency_that_does_not_exist_blocks() {
        let (_, states) = drawn(&[
            repository("True", "Succeeded"),
            kustomization("a", "False", "DependencyNotReady", &["nobody"]),
        ]);
        assert_eq!(states, [State::Blocked]);
    }

    #[test]
    fn a_path_that_is_not_there_has_failed() {
        let mut lost = kustomization("a", "False", "ArtifactFailed", &[]);
        lost["status"]["conditions"][0]["message"] =
            json!("kustomization path not found: stat apps: no such file or directory");
        let (_, states) = drawn(&[repository("True", "Succeeded"), lost]);
        assert_eq!(states, [State::Failed]);
    }

    #[test]
    fn missing_dependency_is_skipped_when_a_skipped_source_may_define_it() {
        let mut elsewhere = repository("True", SKIPPED);
        elsewhere["metadata"]["name"] = json!("elsewhere");
        let mut skipped = kustomization("a", "False", "ArtifactFailed", &[]);
        skipped["spec"]["sourceRef"]["name"] = json!("elsewhere");
        let (_, states) = drawn(&[
            repository("True", "Succeeded"),
            elsewhere,
            skipped,
            kustomization("b", "False", "DependencyNotReady", &["of-elsewhere"]),
        ]);
        assert_eq!(states, [State::Skipped, State::Skipped]);
    }

    #[test]
    fn health_of_others_decides_a_wait() {
        let mut outer = kustomization("outer", "Unknown", "Progressing", &[]);
        outer["spec"]["wait"] = json!(true);
        outer["status"]["conditions"].as_array_mut().unwrap().push(json!({
            "type": "Reconciling", "status": "True", "message": "Running health checks for revision r",
        }));
        outer["status"]["inventory"] = json!({ "entries": [
            { "id": "n_inner_kustomize.toolkit.fluxcd.io_Kustomization", "v": "v1" },
            { "id": "n_charts_source.toolkit.fluxcd.io_HelmRepository", "v": "v1" },
        ] });
        let mut charts = repository("True", SKIPPED);
        charts["kind"] = json!("HelmRepository");
        charts["metadata"]["name"] = json!("charts");
        let with = |inner: Value| {
            let objects = [
                outer.clone(),
                inner,
                charts.clone(),
                repository("True", "Succeeded"),
            ];
            let (picture, _) = drawn(&objects);
            let outer = picture
                .kustomizations
                .iter()
                .find(|node| node.id.name == "outer");
            outer
                .map(|node| (node.state, node.waits_for.clone()))
                .unwrap()
        };
        let inner = |ready: &str, reason: &str| kustomization("inner", ready, reason, &[]);
        assert_eq!(
            with(inner("True", "ReconciliationSucceeded")).0,
            State::Progressing
        );
        let failed = with(inner("False", "BuildFailed"));
        assert_eq!(failed.0, State::Blocked);
        assert!(
            failed.1.contains(&"Kustomization/n/inner".to_owned()),
            "{failed:?}"
        );
    }

    fn release(name: &str, ready: &str, reason: &str, message: &str) -> Value {
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": { "namespace": "n", "name": name, "generation": 1 },
            "spec": {},
            "status": {
                "observedGeneration": 1,
                "helmChart": format!("n/n-{name}"),
                "lastAttemptedRevision": "1.0.0",
                "conditions": [{ "type": "Ready", "status": ready, "reason": reason, "message": message }],
            },
        })
    }

    fn chart(release: &str, ready: &str, reason: &str, revision: &str) -> Value {
        let mut chart = repository(ready, reason);
        chart["kind"] = json!("HelmChart");
        chart["metadata"]["name"] = json!(format!("n-{release}"));
        chart["status"]["artifact"] = json!({ "revision": revision });
        chart
    }

    fn releases(objects: &[Value]) -> Vec<(State, Vec<String>)> {
        let (picture, _) = drawn(objects);
        let nodes = picture.releases.iter();
        nodes
            .map(|node| (node.state, node.waits_for.clone()))
            .collect()
    }

    #[test]
    fn a_release_stands_as_its_chart_does() {
        let waits = release(
            "a",
            "False",
            "SourceNotReady",
            "HelmChart 'n/n-a' is not ready: no",
        );
        let of_chart = vec!["HelmChart/n/n-a".to_owned()];
        let with = |chart: Value| releases(&[waits.clone(), chart]).remove(0);
        let failed = chart("a", "False", "ChartPullError", "");
        assert_eq!(with(failed), (State::Blocked, of_chart.clone()));
        // The controller of the release will say so itself.
        let skipped = chart("a", "True", SKIPPED, "");
        assert_eq!(with(skipped), (State::Waiting, of_chart.clone()));
        let coming = chart("a", "Unknown", "Progressing", "");
        assert_eq!(with(coming), (State::Waiting, of_chart));
    }

    #[test]
    fn a_health_check_that_failed_for_a_release_waits_for_it() {
        let mut outer = kustomization("outer", "False", HEALTH_FAILED, &[]);
        let says = |names: &str| {
            json!(format!(
                "health check failed after 1s: failed early due to stalled resources: [{names}]\nmore"
            ))
        };
        let failed = release("a", "False", "RetriesExceeded", "no");
        let drawn = |outer: &Value| {
            let (picture, _) = drawn(&[
                outer.clone(),
                failed.clone(),
                repository("True", "Succeeded"),
            ]);
            let (causes, _) = picture.causes();
            causes.iter().map(|it| it.id.subject()).collect::<Vec<_>>()
        };
        outer["status"]["conditions"][0]["message"] = says("HelmRelease/n/a status: 'Failed'");
        assert_eq!(drawn(&outer), ["HelmRelease/n/a"]);
        outer["status"]["conditions"][0]["message"] =
            says("HelmRelease/n/a status: 'Failed', Deployment/n/b status: 'Failed'");
        assert_eq!(drawn(&outer), ["Kustomization/n/outer", "HelmRelease/n/a"]);
    }

    #[test]
    fn a_release_is_not_there_while_its_chart_is_newer() {
        let ready = release("a", "True", "InstallSucceeded", "Helm install succeeded");
        let with = |revision: &str| {
            let chart = chart("a", "True", "ChartPullSucceeded", revision);
            releases(&[ready.clone(), chart]).remove(0).0
        };
        assert_eq!(with("1.0.0"), State::Ready);
        assert_eq!(with("1.1.0"), State::Progressing);
        let mut tracked = ready.clone();
        tracked["status"]["lastAttemptedRevision"] = json!("1.0.0+0123456789ab");
        tracked["status"]["lastAttemptedRevisionDigest"] = json!("sha256:0123456789abcdef");
        let chart = chart("a", "True", "Succeeded", "1.0.0@sha256:0123456789abcdef");
        assert_eq!(releases(&[tracked, chart])[0].0, State::Ready);
    }

    #[test]
    fn a_chart_is_not_there_while_its_repository_has_moved_on() {
        let state = |from: &str, reason: &str| {
            let mut made = chart("a", "True", reason, "1.0.0");
            made["spec"]["sourceRef"] = json!({ "kind": "GitRepository", "name": "repo" });
            made["status"]["observedSourceArtifactRevision"] = json!(from);
            let mut source = repository("True", "Succeeded");
            source["status"]["artifact"] = json!({ "revision": "main@sha1:2" });
            let (picture, _) = drawn(&[source, made]);
            let charts = picture.sources.iter();
            let mut charts = charts.filter(|node| node.id.kind == "HelmChart");
            charts.next().unwrap().state
        };
        assert_eq!(state("main@sha1:2", "ChartPackageSucceeded"), State::Ready);
        assert_eq!(
            state("main@sha1:1", "ChartPackageSucceeded"),
            State::Progressing
        );
        assert_eq!(state("main@sha1:1", CACHED), State::Ready);
    }

    #[test]
    fn a_chart_that_does_not_load_is_a_failure_of_the_release() {
        let odd = release(
            "a",
            "False",
            "ArtifactFailed",
            "failed to load chart: no Chart.yaml",
        );
        assert_eq!(releases(&[odd])[0].0, State::Failed);
        let lost = release(
            "a",
            "False",
            "ArtifactFailed",
            "could not get Source object: not found",
        );
        assert_eq!(releases(&[lost])[0].0, State::Blocked);
    }

    #[test]
    fn a_release_that_is_left_out_holds_up_no_health_check() {
        let mut outer = kustomization("outer", "Unknown", "Progressing", &[]);
        outer["spec"]["wait"] = json!(true);
        let stage = json!({
            "type": "Reconciling", "status": "True", "message": "Running health checks for revision r",
        });
        let conditions = outer["status"]["conditions"].as_array_mut();
        conditions.unwrap().push(stage);
        let entry = json!({ "id": "n_a_helm.toolkit.fluxcd.io_HelmRelease", "v": "v2" });
        outer["status"]["inventory"] = json!({ "entries": [entry] });
        let left_out = release("a", "True", SKIPPED, "not fetched");
        let (_, states) = drawn(&[outer, left_out, repository("True", "Succeeded")]);
        assert_eq!(states, [State::Progressing]);
    }

    #[test]
    fn releases_that_wait_for_each_other_have_failed() {
        let mut one = release("a", "False", "DependencyNotReady", "not ready");
        one["spec"]["dependsOn"] = json!([{ "name": "b" }]);
        let mut two = release("b", "False", "DependencyNotReady", "not ready");
        two["spec"]["dependsOn"] = json!([{ "name": "a" }]);
        let states: Vec<State> = releases(&[one, two]).iter().map(|it| it.0).collect();
        assert_eq!(states, [State::Failed, State::Failed]);
    }

    #[test]
    fn artifacts_of_unsupported_generators_are_skipped() {
        let mut app = kustomization("app", "False", "ArtifactFailed", &[]);
        app["spec"]["sourceRef"] = json!({ "kind": "ExternalArtifact", "name": "made" });
        let generator = json!({
            "apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": "ArtifactGenerator",
            "metadata": { "namespace": "n", "name": "g", "generation": 1 },
            "status": { "observedGeneration": 1, "conditions": [
                { "type": "Ready", "status": "True", "reason": NOT_SUPPORTED, "message": "no" },
            ] },
        });
        assert_eq!(drawn(&[app.clone(), generator]).1, [State::Skipped]);
        assert_eq!(drawn(&[app]).1, [State::Blocked]);
    }
}
