//! HelmReleases of charts that a Helm repository on this machine serves, and somebody who runs their hooks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_api::view;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Patch, Resource, WriteOptions};
use tokio::task::JoinHandle;

use crate::delivery::{NAMESPACE, World};

pub const HELM_GROUP: &str = "helm.toolkit.fluxcd.io/v2";

/// A chart of one ConfigMap and one hook: a Job before each install and upgrade.
pub const TEMPLATE: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-settings'}
data: {color: '{{ .Values.color }}', chart: '{{ .Chart.Version }}'}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: '{{ .Release.Name }}-migrate'
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
    revision: '{{ .Release.Revision }}'
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: 'registry.example.com/migrate:1'}]
";

pub fn helm_repository(url: &str) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
        "metadata": {"namespace": NAMESPACE, "name": "charts"},
        "spec": {"interval": "10m", "url": url},
    })
}

pub fn helm_release(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": HELM_GROUP, "kind": "HelmRelease",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "interval": "10m", "timeout": "2m", "releaseName": name,
            "chart": {"spec": {"chart": "web", "version": version,
                "sourceRef": {"kind": "HelmRepository", "name": "charts"}}},
        },
    })
}

/// Waits until a HelmRelease is ready and shows what is wanted.
pub async fn until(world: &World, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = None;
    for _ in 0..900 {
        last = world.get(HELM_GROUP, "HelmRelease", name).await;
        if let Some(object) = last
            .as_ref()
            .filter(|object| view::is_current(object) && wanted(object))
        {
            return object.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} does not become ready: {last:#?}");
}

/// The UIDs of Jobs by their name and the revision of their release.
type Seen = Arc<Mutex<BTreeMap<(String, String), Vec<String>>>>;

/// Completes Jobs as a cluster with nodes would, after a while. Counts the Jobs that there were, by name and revision
/// of their release.
pub struct JobRunner {
    seen: Seen,
    task: JoinHandle<()>,
}

impl JobRunner {
    pub fn start(client: Client, takes: Duration) -> Self {
        let seen = Seen::default();
        let task = tokio::spawn(run_jobs(client, takes, Arc::clone(&seen)));
        JobRunner { seen, task }
    }

    /// How many different Jobs ran for each name and revision.
    pub fn runs(&self) -> BTreeMap<(String, String), usize> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .map(|(key, uids)| (key.clone(), uids.len()))
            .collect()
    }
}

impl Drop for JobRunner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run_jobs(client: Client, takes: Duration, seen: Seen) {
    let jobs = Resource::namespaced("batch", "v1", "jobs", "Job");
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(list) = client
            .list_all(&jobs, Some(NAMESPACE), &Default::default())
            .await
        else {
            continue;
        };
        for job in list.items {
            let uid = job["metadata"]["uid"].as_str().unwrap().to_owned();
            let name = view::name(&job).to_owned();
            let revision = job["metadata"]["annotations"]["revision"].as_str();
            let revision = revision.unwrap_or_default().to_owned();
            {
                let mut seen = seen.lock().unwrap();
                let uids = seen.entry((name.clone(), revision)).or_default();
                if uids.contains(&uid) {
                    continue;
                }
                uids.push(uid);
            }
            let client = client.clone();
            let jobs = jobs.clone();
            tokio::spawn(async move {
                tokio::time::sleep(takes).await;
                complete(&client, &jobs, &name).await;
            });
        }
    }
}

async fn complete(client: &Client, jobs: &Resource, name: &str) {
    let at = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": at, "lastTransitionTime": at});
    let status = json!({"status": {
        "startTime": at, "completionTime": at, "succeeded": 1, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    let options = WriteOptions::by("job-controller");
    let done = client
        .patch(
            jobs,
            At::new(NAMESPACE, name).status(),
            &Patch::Merge(status),
            &options,
        )
        .await;
    if let Err(error) = done {
        eprintln!("the Job {name} was not completed: {error}");
    }
}
