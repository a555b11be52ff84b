//! Replays what the real flux prints for the verbs that this program has, on the same cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "common/cluster.rs"]
#[allow(dead_code)]
mod cluster;
#[path = "flux_verbs_parts/stand_in.rs"]
mod stand_in;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::Cluster;
use everflow_corpus::Outcome;
use everflow_env::{Env, RealDisk};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Patch, Resource, WriteOptions};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};

/// Verbs that this program does not have yet.
const MISSING: [&str; 1] = ["trigger"];
const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

fn client(cluster: &Cluster) -> Client {
    let disk = RealDisk::new(&std::env::temp_dir()).unwrap();
    let env = Env::system(disk);
    let config = ClusterConfig::from_file(&cluster.directory.join("kubeconfig"), None).unwrap();
    let transport = HttpsTransport::new(&env, config).unwrap();
    Client::new(Arc::new(transport), env.clock.clone())
}

/// Values of the recording's run, as something that the API accepts.
fn concrete(value: &mut Value) {
    match value {
        Value::String(text) if text == "$TIME" => *text = MOMENT.into(),
        Value::Array(items) => items.iter_mut().for_each(concrete),
        Value::Object(map) => map.values_mut().for_each(concrete),
        _ => {}
    }
}

async fn load(client: &Client, state: &Value) -> Vec<Resource> {
    let by = WriteOptions::by("user");
    for definition in everflow_api::crd::crds() {
        client.create(&CRDS, "", &definition, &by).await.unwrap();
    }
    for name in ["apps", "flux-system"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        client
            .create(&NAMESPACES, "", &namespace, &by)
            .await
            .unwrap();
    }
    let mut resources = Vec::new();
    for objects in state.as_object().unwrap().values() {
        for object in objects.as_array().unwrap() {
            let mut object = object.clone();
            concrete(&mut object);
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
            let resource = served(client, &api_version, &kind).await;
            let mut status = object["status"].take();
            let meta = object["metadata"].as_object_mut().unwrap();
            for field in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
                meta.remove(field);
            }
            let namespace = text(&object["metadata"]["namespace"]);
            let name = text(&object["metadata"]["name"]);
            object.as_object_mut().unwrap().remove("status");
            client
                .create(&resource, &namespace, &object, &by)
                .await
                .unwrap();
            if status.is_object() {
                if status["observedGeneration"].as_i64() > Some(1) {
                    status["observedGeneration"] = json!(1);
                }
                let patch = Patch::Merge(json!({"status": status}));
                let at = At::new(&namespace, &name).status();
                client.patch(&resource, at, &patch, &by).await.unwrap();
            }
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
    }
    resources
}

/// What the Kustomizations and the HelmRelease of the recording had applied.
async fn apply(client: &Client, git: &Value) {
    for (file, content) in git.as_object().unwrap() {
        let (owner, namespace) = match file.split_once('/').unwrap().0 {
            "root" => ("root", "flux-system"),
            "nested" => ("nested", "apps"),
            "wait" => ("waiting", "apps"),
            _ => continue,
        };
        let content = content.as_str().unwrap();
        let mut object = everflow_yaml::documents::yaml_or_json_decoder(content.as_bytes())
            .next()
            .unwrap()
            .unwrap()
            .into_object()
            .unwrap()
            .unwrap();
        object["metadata"]["labels"] = json!({
            "kustomize.toolkit.fluxcd.io/name": owner,
            "kustomize.toolkit.fluxcd.io/namespace": namespace,
        });
        apply_one(client, &object, "kustomize-controller").await;
    }
    let released = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web-cm", "namespace": "apps", "labels": {
            "helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "apps"}}});
    apply_one(client, &released, "helm-controller").await;
}

async fn apply_one(client: &Client, object: &Value, manager: &str) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let resource = served(client, &text(&object["apiVersion"]), &text(&object["kind"])).await;
    let by = WriteOptions::by(manager).force();
    let patch = Patch::Apply(object.clone());
    client
        .patch(&resource, At::of(object), &patch, &by)
        .await
        .unwrap();
}

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");

/// The Events that a recorded table of all of them shows, each a second younger than the one before.
fn events_of(table: &str) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    for line in table.lines().skip(1).filter(|line| !line.is_empty()) {
        let cells: Vec<&str> = line.split('\t').map(str::trim_end).collect();
        let [namespace, seen, kind, reason, object, message, ..] = cells[..] else {
            panic!("{line}");
        };
        if seen.is_empty() {
            let last = events.last_mut().unwrap();
            let text = format!("{}\n{message}", last["message"].as_str().unwrap());
            last["message"] = json!(text);
            continue;
        }
        let number = events.len();
        let (object_kind, name) = object.split_once('/').unwrap();
        let group = everflow_api::crd::crds()
            .iter()
            .find(|crd| crd["spec"]["names"]["kind"] == object_kind)
            .map(|crd| crd["spec"]["group"].as_str().unwrap().to_owned())
            .unwrap();
        events.push(json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": namespace, "name": format!("{name}.{number:03}")},
            "involvedObject": {"apiVersion": format!("{group}/v1"), "kind": object_kind,
                "namespace": namespace, "name": name},
            "type": kind, "reason": reason, "message": message,
            "lastTimestamp": format!("2026-11-15T00:{:02}:{:02}Z", number / 60, number % 60),
        }));
    }
    events
}

/// A kind whose definition was created a moment ago.
async fn served(client: &Client, api_version: &str, kind: &str) -> Resource {
    for _ in 0..200 {
        client.forget_version(api_version);
        if let Ok(resource) = client.resource(api_version, kind).await {
            return resource;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{api_version} {kind} is not served");
}

/// How long ago Events were seen is not recorded: neither is it here.
fn ages(line: &str) -> String {
    let is_age = |cell: &str| {
        let mut rest = cell.chars();
        rest.next().is_some_and(|c| c.is_ascii_digit())
            && cell.ends_with(['s', 'm', 'h', 'd'])
            && rest.all(|c| c.is_ascii_digit() || "smhd".contains(c))
    };
    let cells = line.split('\t').map(|cell| match cell.trim() {
        text if is_age(text) || text.starts_with("$AGE") => "$AGE",
        _ => cell,
    });
    cells.collect::<Vec<_>>().join("\t")
}

/// The moment that `concrete` puts in the place of every recorded one.
const MOMENT: &str = "2026-11-15T00:00:00Z";

/// What the recording does not show: moments, spans of time, and digests that depend on them.
fn without_moments(text: &str, recorded: &str) -> String {
    let text = text.replace(MOMENT, "$TIME");
    let is_hidden = recorded.contains("$DIGEST_TIME_DEPENDENT");
    let line = |line: &str| {
        if let Some((indent, _)) = line.split_once("digest: sha256:")
            && is_hidden
            && indent.trim().is_empty()
        {
            return format!("{indent}digest: $DIGEST_TIME_DEPENDENT\n");
        }
        match line.split_once("Duration: ") {
            Some((field, _)) if recorded.contains("$DURATION") => {
                format!("{field}Duration: $DURATION\n")
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// Columns may be wider or narrower than in the recording, where values were replaced.
fn folded(text: &str) -> String {
    let words = text.lines().map(|line| {
        let line = ages(line);
        let cells = line.split('\t').map(|cell| {
            let indent: String = cell.chars().take_while(|c| !c.is_alphanumeric()).collect();
            let words: Vec<&str> = cell.split_whitespace().collect();
            match indent.contains(['│', '├', '└']) {
                true => cell.trim_end().to_owned(),
                false => words.join(" "),
            }
        });
        cells.collect::<Vec<_>>().join("\t").trim_end().to_owned()
    });
    words.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn compare(cluster: &Cluster, call: &Value) -> Result<(), String> {
    let program = Path::new(env!("CARGO_BIN_EXE_everflow"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let times_out = text(&call["stderr"]).contains("context deadline exceeded");
    let arguments: Vec<String> = call["argv"].as_array().unwrap()[1..]
        .iter()
        .map(text)
        .map(
            |argument| match argument.starts_with("--timeout=") && times_out {
                true => "--timeout=500ms".to_owned(),
                false => argument,
            },
        )
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = match call["exit"].is_null() {
        true => watched(cluster, program, &arguments, &text(&call["stdout"])),
        false => fed(cluster, program, &arguments, &text(&call["stdin"])),
    };
    let work = cluster
        .directory
        .canonicalize()
        .unwrap()
        .display()
        .to_string();
    let shown = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes)
            .replace(&work, "$WORK")
            .replace("at 2026-11-15 00:00:00 +0000 UTC", "at $TIME");
        match call["stdout"]
            .as_str()
            .is_some_and(|text| text.contains("\"$TIME\""))
        {
            true => folded(&without_times(&text)),
            false => folded(&text),
        }
    };
    let (stdout, stderr) = (shown(&output.stdout), shown(&output.stderr));
    let stdout = folded(&without_moments(&stdout, &text(&call["stdout"])));
    // What to do about it is said on lines of its own, which flux does not have.
    let stderr = without_remedies(&stderr);
    let exit = i64::from(output.status.code().unwrap_or(-1));
    if !call["exit"].is_null() && Some(exit) != call["exit"].as_i64() {
        return Err(format!("exit {exit}: {stderr}"));
    }
    let help = call["stdout"] == "$HELP" || call["stdout"] == "$SCRIPT";
    if help && stdout.is_empty() {
        return Err("nothing on stdout".to_owned());
    }
    let expected = folded(&text(&call["stdout"]));
    // Events of one second have no order.
    let (stdout, expected) = match arguments.first() {
        Some(&"events") => (unordered(&stdout), unordered(&expected)),
        _ => (stdout, expected),
    };
    if !help && stdout != expected {
        let lines = || expected.lines().chain(std::iter::repeat(""));
        let first = stdout
            .lines()
            .chain([""])
            .zip(lines())
            .find(|(a, b)| a != b);
        return Err(format!("stdout (own line, recorded line): {first:?}"));
    }
    // The program has a name of its own.
    let recorded = folded(&text(&call["stderr"])).replace("for \"flux\"", "for \"everflow\"");
    if stderr != recorded {
        return Err(format!("stderr {stderr:?} instead of {recorded:?}"));
    }
    Ok(())
}

/// The lines of a table in the order of their text.
fn unordered(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Quoted moments as the recording has them.
fn without_times(text: &str) -> String {
    let parts = text.split('"').map(
        |part| match part.starts_with("202") && part.ends_with('Z') {
            true => "$TIME",
            false => part,
        },
    );
    parts.collect::<Vec<_>>().join("\"")
}

fn without_remedies(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("→ "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs the program with something on its standard input.
fn fed(cluster: &Cluster, program: &Path, arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(&cluster.directory)
        .env("KUBECONFIG", cluster.directory.join("kubeconfig"))
        .env("HOME", &cluster.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who asks nothing does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// What a watch prints until it has printed as much as was recorded.
fn watched(cluster: &Cluster, program: &Path, arguments: &[&str], recorded: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(&cluster.directory)
        .env("KUBECONFIG", cluster.directory.join("kubeconfig"))
        .env("HOME", &cluster.directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (sender, received) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stdout.read(&mut chunk) {
            let _ = sender.send(chunk[..read].to_vec());
        }
    });
    let wanted = folded(recorded).lines().count();
    let mut printed = Vec::new();
    while folded(&String::from_utf8_lossy(&printed)).lines().count() < wanted {
        match received.recv_timeout(Duration::from_secs(5)) {
            Ok(chunk) => printed.extend(chunk),
            Err(_) => break,
        }
    }
    child.kill().unwrap();
    let mut output = child.wait_with_output().unwrap();
    reader.join().unwrap();
    printed.extend(received.try_iter().flatten());
    output.stdout = printed;
    output
}

fn is_ours(call: &Value) -> bool {
    let words: Vec<&str> = call["argv"].as_array().unwrap()[1..]
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let verb = words.first().copied().unwrap_or_default();
    // A watch of Events tells them in the order of their random names.
    let is_watch = call["exit"].is_null();
    let is_untold = is_watch && verb == "events";
    !MISSING.contains(&verb) && !is_untold
}

#[test]
fn verbs_print_what_flux_prints() {
    let Some(directory) = everflow_corpus::find("flux/cli") else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let state: Value = everflow_json::from_str(&read("cluster-state.json")).unwrap();
    let inputs: Value = everflow_json::from_str(&read("inputs.json")).unwrap();
    let calls: Vec<Value> = read("outputs.jsonl")
        .lines()
        .map(|line| everflow_json::from_str(line).unwrap())
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut outcome = Outcome::default();
    for pass in [1, 2] {
        let cluster = Cluster::start(&format!("verbs-{pass}"), &[]);
        for (name, content) in inputs["work"].as_object().unwrap() {
            // The second recording had only the directories and the files for them.
            if pass == 2 && !name.starts_with("local/") && !name.starts_with("ks") {
                continue;
            }
            cluster.file(name, content.as_str().unwrap());
        }
        let client = client(&cluster);
        let resources = runtime.block_on(load(&client, &state));
        runtime.block_on(apply(&client, &inputs["git"]));
        let table = calls.iter().find(|call| {
            let argv = call["argv"].as_array().unwrap();
            let is_all = match pass {
                1 => argv[1..] == [json!("events"), json!("-A")],
                _ => argv.contains(&json!("Warning,Normal")),
            };
            is_all && call["pass"].as_i64().unwrap_or(1) == pass
        });
        for event in events_of(table.unwrap()["stdout"].as_str().unwrap()) {
            let namespace = event["metadata"]["namespace"].as_str().unwrap();
            let by = WriteOptions::by("controller");
            runtime
                .block_on(client.create(&EVENTS, namespace, &event, &by))
                .unwrap();
        }
        let over = Arc::new(AtomicBool::new(false));
        let script = Arc::new(stand_in::Script::default());
        let work = stand_in::work(client, resources, script.clone(), over.clone());
        let controllers = runtime.spawn(work);
        for (number, call) in calls.iter().enumerate() {
            if call["pass"].as_i64().unwrap_or(1) != pass || !is_ours(call) {
                continue;
            }
            let words: Vec<&str> = call["argv"].as_array().unwrap()[1..]
                .iter()
                .filter_map(Value::as_str)
                .collect();
            let id = format!("{number} {}", words.join(" ").replace(": ", ":"));
            script.begin(call);
            outcome.record(id, compare(&cluster, call));
        }
        over.store(true, Ordering::SeqCst);
        runtime.block_on(controllers).unwrap();
    }
    outcome.assert(include_str!("flux_verbs_known.txt"));
}
