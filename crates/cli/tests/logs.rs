//! `everflow logs` on an API server that has pods with something to say.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use everflow_json::{Value, json};

const LINES: [&str; 4] = [
    r#"{"level":"info","ts":"2026-11-16T10:00:00.000Z","msg":"server-side apply completed","controllerKind":"Kustomization","name":"apps","namespace":"flux-system"}"#,
    r#"{"level":"error","ts":"2026-11-16T10:00:01.000Z","msg":"Reconciler error","controllerKind":"Kustomization","name":"infra","namespace":"flux-system","error":"no path"}"#,
    r#"{"level":"info","ts":"2026-11-16T10:00:02.000Z","msg":"stored artifact","controllerKind":"GitRepository","name":"apps","namespace":"tenants"}"#,
    "I1116 10:00:03 a line of a library",
];

/// An API server with a Deployment, its pod and the log of it.
struct Stub {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    kubeconfig: PathBuf,
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "flux-system"},
        "spec": {"template": {"metadata": {"labels": {"app": name}}}}})
}

fn pod(name: &str, phase: &str) -> Value {
    json!({"metadata": {"name": format!("{name}-1"), "namespace": "flux-system"},
        "spec": {"nodeName": "n", "containers": [{"name": "manager"}, {"name": "sidecar"}]},
        "status": {"phase": phase}})
}

fn list(kind: &str, items: Vec<Value>) -> String {
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})
        .to_string()
}

impl Stub {
    /// Answers for as long as the test runs. `controllers` are the names of Deployments; the pod of
    /// one named `pending` does not run.
    fn start(name: &str, controllers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let noted = noted.clone();
                std::thread::spawn(move || serve(stream.unwrap(), controllers, &noted));
            }
        });
        let kubeconfig = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("logs-{name}"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: \"http://{address}\"}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{}}}}]\n"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        Stub {
            address,
            asked,
            kubeconfig,
        }
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everflow"));
        command
            .arg("logs")
            .args(more)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        command
    }

    fn run(&self, more: &[&str]) -> (Output, String) {
        let output = self.command(more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output, said)
    }

    /// The last question for a log.
    fn asked_for_log(&self) -> String {
        let asked = self.asked.lock().unwrap();
        let mut last_first = asked.iter().rev();
        let log = last_first.find(|target| target.contains("/log?"));
        log.cloned().unwrap_or_default()
    }
}

/// One connection.
fn serve(stream: TcpStream, controllers: &[&str], noted: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        noted.lock().unwrap().push(target.clone());
        let is_log = target.contains("/log?");
        if is_log && target.contains("pending-1") {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 400,
                "reason": "BadRequest",
                "message": "container \"manager\" in pod \"pending-1\" is waiting to start: ContainerCreating"});
            answer(&mut stream, "400 Bad Request", &body.to_string());
        } else if is_log {
            let text = LINES.join("\n") + "\n";
            if target.contains("follow=true") {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).unwrap();
                for line in text.split_inclusive('\n') {
                    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
                    if stream.write_all(chunk.as_bytes()).is_err() {
                        return;
                    }
                }
                // The log goes on, and has nothing to say.
                let _ = reader.read(&mut [0]);
                return;
            }
            answer(&mut stream, "200 OK", &text);
        } else if target.contains("/deployments") {
            let items = controllers.iter().map(|name| deployment(name)).collect();
            answer(&mut stream, "200 OK", &list("DeploymentList", items));
        } else {
            let found = controllers.iter().find(|name| {
                target.contains(&format!("app%3D{name}")) || target.contains(&format!("app={name}"))
            });
            let phase = |name: &str| match name {
                "pending" => "Pending",
                _ => "Running",
            };
            let items = found
                .map(|name| pod(name, phase(name)))
                .into_iter()
                .collect();
            answer(&mut stream, "200 OK", &list("PodList", items));
        }
    }
}

fn answer(stream: &mut TcpStream, status: &str, body: &str) {
    let kind = match body.starts_with("{\"") && !body.contains("\"ts\"") {
        true => "application/json",
        false => "text/plain",
    };
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // A client that has gone wants no answer.
    let _ = stream.write_all(text.as_bytes());
}

const APPS: &str =
    "2026-11-16T10:00:00.000Z info Kustomization/apps.flux-system - server-side apply completed \n";
const INFRA: &str =
    "2026-11-16T10:00:01.000Z error Kustomization/infra.flux-system - Reconciler error no path\n";
const TENANT: &str =
    "2026-11-16T10:00:02.000Z info GitRepository/apps.tenants - stored artifact \n";

#[test]
fn lines_of_controllers_are_shown_and_chosen() {
    let stub = Stub::start("chosen", &["kustomize-controller"]);
    for (more, expected) in [
        (&[][..], format!("{APPS}{INFRA}")),
        (&["-A"][..], format!("{APPS}{INFRA}{TENANT}")),
        (&["-n", "tenants"][..], TENANT.to_owned()),
        (&["--level", "error"][..], INFRA.to_owned()),
        (&["-A", "--kind", "gitrepository"][..], TENANT.to_owned()),
        (&["-A", "--name", "apps"][..], format!("{APPS}{TENANT}")),
        (&["--kind", "Bucket"][..], String::new()),
    ] {
        let (output, said) = stub.run(more);
        assert!(output.status.success(), "{more:?} {output:?}");
        assert_eq!(said, expected, "{more:?}");
    }
    let place = "/api/v1/namespaces/flux-system/pods/kustomize-controller-1/log?container=manager";
    assert_eq!(stub.asked_for_log(), place);
    for (more, query) in [
        (&["--tail", "5"][..], "&tailLines=5"),
        (&["--since", "90s"][..], "&sinceSeconds=90"),
        (
            &["--since-time", "2026-11-16T10:00:00Z"][..],
            "&sinceTime=2026-11-16T10:00:00Z",
        ),
    ] {
        let (output, _) = stub.run(more);
        assert!(output.status.success(), "{more:?} {output:?}");
        assert_eq!(stub.asked_for_log(), format!("{place}{query}"));
    }
}

#[test]
fn a_log_is_followed_while_it_goes_on() {
    let stub = Stub::start("follow", &["kustomize-controller"]);
    let mut child = stub
        .command(&["-f", "-A"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for expected in [APPS, INFRA, TENANT] {
        assert_eq!(
            lines.next().unwrap().unwrap(),
            expected.trim_end_matches('\n')
        );
    }
    // It waits for more.
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn log_errors_come_with_a_remedy() {
    let none = Stub::start("none", &[]);
    let (output, _) = none.run(&["--flux-namespace", "gitops"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.starts_with(
            "✗ no Flux pods found in namespace \"gitops\"\n→ --flux-namespace names another one"
        ),
        "{said}"
    );
    let pending = Stub::start("pending", &["pending", "kustomize-controller"]);
    let (output, shown) = pending.run(&[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    // Those that can be read are.
    assert_eq!(shown, format!("{APPS}{INFRA}"));
    assert!(
        said.contains("is waiting to start: ContainerCreating")
            && said.contains("→ kubectl -n flux-system describe pod pending-1 says why")
            && said.ends_with("✗ failed to collect logs from all Flux pods\n"),
        "{said}"
    );
    assert!(!pending.address.is_empty());
}
