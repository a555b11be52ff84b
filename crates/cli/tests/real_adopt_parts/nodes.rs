//! What kubelets and the controller of Deployments do, as far as adopting needs it: a process runs for each Deployment
//! of `flux-system` that has replicas, and its status says so.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everflow_corpus::real::{ApiServer, installed};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, Resource, Selection, WriteOptions};

use crate::delivery::World;

static DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
/// How long a process has to end, as the grace of a pod.
const GRACE: Duration = Duration::from_secs(5);

/// The programs of Flux's controllers.
pub struct Programs(BTreeMap<&'static str, PathBuf>);

impl Programs {
    pub fn find() -> Option<Self> {
        let names = [
            "source-controller",
            "kustomize-controller",
            "helm-controller",
        ];
        let found = names.map(|name| Some((name, installed(name)?)));
        let found: Option<BTreeMap<_, _>> = found.into_iter().collect();
        Some(Programs(found?))
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A process in place of pods.
struct Pod(Child);

impl Pod {
    fn end(&mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let begun = Instant::now();
        while begun.elapsed() < GRACE {
            if self.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How processes are started.
struct Kubelet {
    programs: Programs,
    kubeconfig: PathBuf,
    directory: PathBuf,
    /// Where artifacts are served, whoever does it: a Service in a cluster.
    address: String,
    started: usize,
}

impl Kubelet {
    fn start(&mut self, name: &str, deployment: &Value) -> Option<Pod> {
        let is_ours = name == "everflow";
        let program = match self.programs.0.get(name) {
            Some(program) => program.clone(),
            None if is_ours => Path::new(env!("CARGO_BIN_EXE_everflow")).to_owned(),
            // Nothing that this test looks at.
            None => return None,
        };
        // The storage of a pod goes with it.
        self.started += 1;
        let home = self.directory.join(format!("{name}-{}", self.started));
        std::fs::create_dir_all(home.join("data")).unwrap();
        std::fs::create_dir_all(home.join("tmp")).unwrap();
        let log = File::create(home.join("log")).unwrap();
        let mut command = Command::new(program);
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().into_iter().flatten();
        let args = args.filter_map(Value::as_str).filter(|arg| {
            let place = [
                "--storage-",
                "--metrics-addr",
                "--health-addr",
                "--api-endpoints-file",
            ];
            !place.iter().any(|flag| arg.starts_with(flag))
        });
        command
            .args(args)
            .arg(format!("--health-addr=127.0.0.1:{}", free_port()));
        command.arg(match is_ours {
            true => "--metrics-addr=127.0.0.1:0",
            false => "--metrics-addr=0",
        });
        if is_ours {
            command.arg("--kubeconfig").arg(&self.kubeconfig);
        }
        if is_ours || name == "source-controller" {
            command
                .arg(format!("--storage-path={}", home.join("data").display()))
                .arg(format!("--storage-addr={}", self.address))
                .arg(format!("--storage-adv-addr={}", self.address));
        } else {
            command.arg("--events-addr=");
        }
        let child = command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("RUNTIME_NAMESPACE", "flux-system")
            .env("HOME", &home)
            .env("TMPDIR", home.join("tmp"))
            .current_dir(&home)
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log))
            .spawn();
        Some(Pod(child.unwrap()))
    }
}

/// Runs until it is dropped.
pub struct Nodes {
    names: Arc<Mutex<Vec<String>>>,
    work: tokio::task::JoinHandle<()>,
}

impl Nodes {
    pub fn start(server: &ApiServer, programs: Programs) -> Self {
        let names: Arc<Mutex<Vec<String>>> = Arc::default();
        let kubelet = Kubelet {
            programs,
            kubeconfig: server.kubeconfig(),
            directory: server.directory().join("pods"),
            address: format!("127.0.0.1:{}", free_port()),
            started: 0,
        };
        let world = World::new(&server.kubeconfig());
        let work = tokio::spawn(keep(world, kubelet, names.clone()));
        Nodes { names, work }
    }

    /// The Deployments that have a process.
    pub fn running(&self) -> Vec<String> {
        self.names.lock().unwrap().clone()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.work.abort();
    }
}

async fn keep(world: World, mut kubelet: Kubelet, names: Arc<Mutex<Vec<String>>>) {
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    loop {
        let all = Selection::default();
        let listed = world
            .client
            .list_all(&DEPLOYMENTS, Some("flux-system"), &all);
        let Ok(listed) = listed.await else {
            continue;
        };
        for deployment in listed.items {
            let name = deployment["metadata"]["name"].as_str().unwrap().to_owned();
            let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
            if wanted == 0 {
                if let Some(mut pod) = pods.remove(&name) {
                    tokio::task::block_in_place(|| pod.end());
                }
            } else if !pods.contains_key(&name)
                && let Some(pod) = kubelet.start(&name, &deployment)
            {
                pods.insert(name.clone(), pod);
            }
            *names.lock().unwrap() = pods.keys().cloned().collect();
            tell(&world, &deployment, wanted).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Writes the status where it is another one.
async fn tell(world: &World, deployment: &Value, count: i64) {
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"})
    };
    let mut status = json!({"observedGeneration": deployment["metadata"]["generation"],
        "conditions": [condition("Available", "MinimumReplicasAvailable"),
            condition("Progressing", "NewReplicaSetAvailable")]});
    for field in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        status[field] = match count {
            0 => Value::Null,
            count => json!(count),
        };
    }
    let is_told = deployment["status"]["observedGeneration"] == status["observedGeneration"]
        && deployment["status"]["readyReplicas"] == status["readyReplicas"];
    if is_told {
        return;
    }
    let (at, by) = (At::of(deployment).status(), WriteOptions::by("nodes"));
    let patch = Patch::Merge(json!({"status": status}));
    // Deleted meanwhile.
    let _ = world.client.patch(&DEPLOYMENTS, at, &patch, &by).await;
}
