//! What is delivered while things go wrong: Kustomizations of one repository, and HelmReleases with hooks.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use everflow_api::view;
use everflow_json::{Value, json};
use everflow_runtime::client::{
    At, Client, DeleteOptions, Patch, Resource, Selection, WriteOptions,
};

use crate::charts::{Repository, packed};
use crate::delivery::{NAMESPACE, write};
use crate::place::{HOST, Place};
use crate::releases::{HELM_GROUP, JobRunner, TEMPLATE};
use crate::support::{GitServer, git};

const KUSTOMIZATIONS: Resource = Resource::namespaced(
    "kustomize.toolkit.fluxcd.io",
    "v1",
    "kustomizations",
    "Kustomization",
);
const RELEASES: Resource = Resource::namespaced(
    "helm.toolkit.fluxcd.io",
    "v2",
    "helmreleases",
    "HelmRelease",
);
const REPOSITORIES: Resource = Resource::namespaced(
    "source.toolkit.fluxcd.io",
    "v1",
    "gitrepositories",
    "GitRepository",
);
const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

/// After so long it is said what is missing.
const LONG: Duration = Duration::from_secs(15);
/// So many Kustomizations show whether something is delivered.
const PROBES: usize = 6;

/// What is delivered, and by which change it stands.
pub struct Load {
    client: Client,
    work: PathBuf,
    pub kustomizations: usize,
    pub releases: usize,
    /// The number of changes so far.
    pub change: usize,
    head: String,
    pub jobs: JobRunner,
    _git: GitServer,
    _charts: Repository,
}

impl Load {
    /// Serves the repository and the chart, and creates everything with the first change.
    pub async fn start(place: &Place, kustomizations: usize, releases: usize) -> Self {
        let client = place.client();
        let root = place.directory.join("repositories");
        let work = root.join("shop");
        std::fs::create_dir_all(&work).unwrap();
        git(&work, 1, &["init", "-q", "-b", "main"]);
        let listener = tokio::net::TcpListener::bind((HOST, 0)).await.unwrap();
        let url = format!("http://{}/shop/.git", listener.local_addr().unwrap());
        let charts = place.directory.join("charts");
        packed(&charts, "web", &[("1.0.0", TEMPLATE)]);
        let served = Repository::serve_on(HOST, &charts);
        let mut load = Load {
            jobs: JobRunner::start(client.clone(), Duration::from_millis(300)),
            _git: GitServer::on_tcp(listener, &root),
            client,
            work,
            kustomizations,
            releases,
            change: 0,
            head: String::new(),
            _charts: served,
        };
        for definition in everflow_api::crds() {
            load.apply(definition).await;
        }
        load.apply(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await;
        load.commit();
        let source = |kind: &str, name: &str, spec: Value| {
            json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind,
                "metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec,
            })
        };
        let git =
            json!({"interval": "10m", "url": url, "ref": {"branch": "main"}, "timeout": "20s"});
        load.apply(source("GitRepository", "shop", git)).await;
        let helm = json!({"interval": "10m", "url": load._charts.url, "timeout": "20s"});
        load.apply(source("HelmRepository", "charts", helm)).await;
        load.create().await;
        load
    }

    /// Creates the Kustomizations and the HelmReleases.
    pub async fn create(&self) {
        for number in 0..self.kustomizations {
            self.apply(kustomization(number)).await;
        }
        self.apply_releases().await;
    }

    async fn apply(&self, object: Value) {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let begun = Instant::now();
        loop {
            let patch = Patch::Apply(object.clone());
            let options = WriteOptions::by("user").force();
            let done = match self
                .client
                .resource(&text("apiVersion"), &text("kind"))
                .await
            {
                Ok(resource) => {
                    self.client
                        .patch(&resource, At::of(&object), &patch, &options)
                        .await
                }
                Err(error) => Err(error),
            };
            match done {
                Ok(_) => return,
                Err(error) => {
                    let name = view::name_of(&object);
                    assert!(begun.elapsed() < Duration::from_secs(60), "{name}: {error}");
                }
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    fn commit(&mut self) {
        self.change += 1;
        let change = self.change;
        for number in 0..self.kustomizations {
            let map = |name: &str| {
                format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{level: '{change}'}}\n"
                )
            };
            write(
                &self.work,
                &format!("app-{number}/settings.yaml"),
                &map(&format!("app-{number}")),
            );
            // One object comes and one goes with each change.
            write(
                &self.work,
                &format!("app-{number}/now.yaml"),
                &map(&format!("app-{number}-at-{change}")),
            );
        }
        for number in 0..PROBES {
            let map =
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: probe-{number}}}\n");
            write(&self.work, &format!("probe-{number}/probe.yaml"), &map);
        }
        git(&self.work, 1, &["add", "-A"]);
        git(
            &self.work,
            u32::try_from(change).unwrap(),
            &["commit", "-qm", "change"],
        );
        self.head = git(&self.work, 1, &["rev-parse", "HEAD"]).trim().to_owned();
    }

    /// Creates six Kustomizations that were not there; how long until all are Ready.
    pub async fn probe(&self, patience: Duration) -> Result<Duration, Vec<String>> {
        let begun = Instant::now();
        for number in 0..PROBES {
            self.apply(kustomization_of("probe", number)).await;
        }
        loop {
            let of_probes = |object: &Value| view::name(object).starts_with("probe-");
            let objects = self.list(&KUSTOMIZATIONS).await.unwrap_or_default();
            let probes: Vec<&Value> = objects.iter().filter(|object| of_probes(object)).collect();
            if probes.len() == PROBES && probes.iter().all(|object| view::is_current(object)) {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > patience {
                return Err(probes.into_iter().map(shown).collect());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Deletes them again, and waits until they are gone.
    pub async fn unprobe(&self) {
        for number in 0..PROBES {
            let name = format!("probe-{number}");
            let at = At::new(NAMESPACE, &name);
            let _ = self
                .client
                .delete(&KUSTOMIZATIONS, at, &DeleteOptions::default())
                .await;
        }
        for _ in 0..600 {
            let objects = self.list(&KUSTOMIZATIONS).await;
            if objects.is_some_and(|all| {
                !all.iter()
                    .any(|object| view::name(object).starts_with("probe-"))
            }) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the Kustomizations do not go");
    }

    async fn apply_releases(&self) {
        for number in 0..self.releases {
            self.apply(release(number, self.change)).await;
        }
    }

    /// Makes the next change.
    pub async fn next(&mut self) {
        self.commit();
        self.request().await;
        self.apply_releases().await;
    }

    /// Asks for the newest commit.
    async fn request(&self) {
        let at = format!("change-{}", self.change);
        let request = Patch::Merge(
            json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}}),
        );
        for _ in 0..100 {
            let place = At::new(NAMESPACE, "shop");
            if self
                .client
                .patch(&REPOSITORIES, place, &request, &WriteOptions::by("user"))
                .await
                .is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        panic!("nobody takes the request for the next commit");
    }

    async fn list(&self, resource: &Resource) -> Option<Vec<Value>> {
        let all = Selection::default();
        let list = self.client.list_all(resource, Some(NAMESPACE), &all).await;
        Some(list.ok()?.items)
    }

    /// What is not as the last change wants it.
    pub async fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let (Some(kustomizations), Some(releases), Some(maps)) = (
            self.list(&KUSTOMIZATIONS).await,
            self.list(&RELEASES).await,
            self.list(&MAPS).await,
        ) else {
            return vec!["no API server answers".to_owned()];
        };
        for object in &kustomizations {
            let revision = object["status"]["lastAppliedRevision"]
                .as_str()
                .unwrap_or_default();
            if !view::is_current(object) || !revision.ends_with(&self.head) {
                missing.push(shown(object));
            }
        }
        for object in &releases {
            let color = object["status"]["history"][0]["version"].as_u64();
            if !view::is_current(object) || color.is_none_or(|version| version < self.change as u64)
            {
                missing.push(shown(object));
            }
        }
        let mut wanted: Vec<String> = vec!["kube-root-ca.crt".to_owned()];
        for number in 0..kustomizations.len() {
            wanted.push(format!("app-{number}"));
            wanted.push(format!("app-{number}-at-{}", self.change));
        }
        wanted.extend((0..releases.len()).map(|number| format!("web-{number}-settings")));
        for map in &maps {
            let name = view::name(map);
            let Some(at) = wanted.iter().position(|wanted| wanted == name) else {
                missing.push(format!("ConfigMap {name} is left over"));
                continue;
            };
            wanted.remove(at);
            let (level, color) = (map["data"]["level"].as_str(), map["data"]["color"].as_str());
            let right = self.change.to_string();
            let is_right = level
                .or(color)
                .is_none_or(|found| found.trim_start_matches('c') == right);
            if !is_right {
                missing.push(format!("ConfigMap {name} has {level:?} {color:?}"));
            }
        }
        wanted.retain(|name| name != "kube-root-ca.crt");
        missing.extend(
            wanted
                .into_iter()
                .map(|name| format!("ConfigMap {name} is not there")),
        );
        missing
    }

    /// Waits until all is as the last change wants it; how long that took.
    pub async fn until_delivered(&self, patience: Duration) -> Result<Duration, Vec<String>> {
        let (begun, mut told) = (Instant::now(), false);
        loop {
            let missing = self.missing().await;
            if missing.is_empty() {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > patience {
                return Err(missing);
            }
            if begun.elapsed() > LONG && !told {
                told = true;
                println!("  not there after {LONG:?}: {missing:#?}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Deletes everything, and says what is left after that.
    pub async fn delete_all(&self, patience: Duration) -> Vec<String> {
        for resource in [&KUSTOMIZATIONS, &RELEASES] {
            for object in self.list(resource).await.unwrap_or_default() {
                let _ = self
                    .client
                    .delete(resource, At::of(&object), &DeleteOptions::default())
                    .await;
            }
        }
        let begun = Instant::now();
        loop {
            let mut left = Vec::new();
            for resource in [&KUSTOMIZATIONS, &RELEASES, &MAPS, &SECRETS] {
                for object in self
                    .list(resource)
                    .await
                    .unwrap_or_else(|| vec![Value::Null])
                {
                    left.push(shown(&object));
                }
            }
            left.retain(|name| !name.contains("kube-root-ca.crt"));
            if left.is_empty() || begun.elapsed() > patience {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

fn shown(object: &Value) -> String {
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let told: Vec<String> = conditions
        .map(|one| format!("{}={} {}", one["type"], one["status"], one["message"]))
        .collect();
    let told = told.join("; ");
    format!("{} {} {told}", object["kind"], view::name_of(object))
}

fn kustomization(number: usize) -> Value {
    kustomization_of("app", number)
}

fn kustomization_of(name: &str, number: usize) -> Value {
    let name = format!("{name}-{number}");
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "interval": "10m", "retryInterval": "2s", "prune": true, "path": format!("./{name}"), "wait": true,
            "timeout": "1m", "targetNamespace": NAMESPACE,
            "sourceRef": {"kind": "GitRepository", "name": "shop"},
        },
    })
}

fn release(number: usize, change: usize) -> Value {
    json!({
        "apiVersion": HELM_GROUP, "kind": "HelmRelease",
        "metadata": {"namespace": NAMESPACE, "name": format!("web-{number}")},
        "spec": {
            "interval": "10m", "timeout": "1m", "releaseName": format!("web-{number}"),
            "install": {"remediation": {"retries": -1}}, "upgrade": {"remediation": {"retries": -1}},
            "values": {"color": format!("c{change}")},
            "chart": {"spec": {"chart": "web", "version": "1.0.0",
                "sourceRef": {"kind": "HelmRepository", "name": "charts"}}},
        },
    })
}
