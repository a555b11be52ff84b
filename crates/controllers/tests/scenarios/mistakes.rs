//! Mistakes people make: each gets one message that says where, what, and what to do, in the status and
//! in the event alike.

use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};
use everflow_runtime::client::At;
use everflow_runtime::events::EVENTS;

use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-mistakes";

/// A repository, and what has to be said about it.
struct Mistake {
    name: &'static str,
    files: Value,
    /// What is set in the spec besides.
    spec: Value,
    reason: &'static str,
    /// All of these are in the message, in this order.
    says: &'static [&'static str],
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: '1'}\n";
/// Encrypted for a key that nobody here has.
const SECRET: &str = "apiVersion: v1
kind: Secret
metadata:
    name: enc
stringData:
    user: ENC[AES256_GCM,data:FQQSac8=,iv:1TrdYymTuXRUPQWGYYUs2ph+CtKPajPlw7z7RkkPVC0=,tag:w0+HgiKotPi0fWdjZ20Trw==,type:str]
sops:
    age:
        - enc: |
            -----BEGIN AGE ENCRYPTED FILE-----
            YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBTeG12UEVNemFsS2VRRnor
            -----END AGE ENCRYPTED FILE-----
          recipient: age1awuat8es0r8ppmma0t8walyz53c9tus99a6c7mdw3euhdcs8wguqv6gjz8
    encrypted_regex: ^(data|stringData)$
    lastmodified: \"2026-07-01T00:00:00Z\"
    mac: ENC[AES256_GCM,data:oGLs4HFGNw==,iv:L964LtWRcNhBNxMCfucrQSD0g47WRTwa2pdhI+7e5DI=,tag:gypVokRW0cKK7cyP57N8Ow==,type:str]
    version: 3.13.3
";

/// A kind, as its definition stands in a repository.
const GADGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

fn mistakes() -> Vec<Mistake> {
    vec![
        Mistake {
            name: "no namespace, of a kind that is deployed with it",
            files: json!({"deploy/kind.yaml": GADGETS,
                "deploy/gadget.yaml": "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n"}),
            spec: json!({"targetNamespace": null}),
            reason: "ReconciliationFailed",
            says: &[
                "Gadget/g namespace not specified",
                "deploy/gadget.yaml:1",
                "give it a metadata.namespace",
            ],
        },
        Mistake {
            name: "a namespace that is not there, of a kind that is deployed with it",
            files: json!({"deploy/kind.yaml": GADGETS,
                "deploy/gadget.yaml": "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g, namespace: nowhere}\n"}),
            spec: json!({"targetNamespace": null}),
            reason: "ReconciliationFailed",
            says: &[
                "Gadget/nowhere/g not found",
                "deploy/gadget.yaml:1",
                "add the Namespace to the build",
            ],
        },
        Mistake {
            name: "a manifest that is no YAML",
            files: json!({"deploy/app.yaml": MAP, "deploy/bad.yaml": "apiVersion: v1\nkind: [\n"}),
            spec: json!({}),
            reason: "BuildFailed",
            says: &[
                "failed to decode Kubernetes YAML from deploy/bad.yaml",
                "line 2",
                "correct the file",
            ],
        },
        Mistake {
            name: "a file that is no manifest",
            files: json!({"deploy/app.yaml": MAP, "deploy/values.yaml": "a: 1\n"}),
            spec: json!({}),
            reason: "BuildFailed",
            says: &[
                "failed to decode Kubernetes YAML from deploy/values.yaml",
                "missing Resource metadata",
                "kustomization.yaml beside it",
            ],
        },
        Mistake {
            name: "an object in two places",
            files: json!({"deploy/a.yaml": MAP, "deploy/b.yaml": MAP}),
            spec: json!({}),
            reason: "BuildFailed",
            says: &[
                "may not add resource with an already registered id: ConfigMap.v1.[noGrp]/one.[noNs]",
                "deploy/a.yaml:1 and deploy/b.yaml:1",
                "remove or rename one of the two",
            ],
        },
        Mistake {
            name: "a patch without a target",
            files: json!({"deploy/a.yaml": MAP, "deploy/patch.yaml": MAP.replace("one", "nope"),
                "deploy/kustomization.yaml": "resources: [a.yaml]\npatches:\n- path: patch.yaml\n"}),
            spec: json!({}),
            reason: "BuildFailed",
            says: &[
                "failed to find unique target for patch ConfigMap.v1.[noGrp]/nope.[noNs]",
                "deploy/patch.yaml",
                "give it a target",
            ],
        },
        Mistake {
            name: "an unknown kind",
            files: json!({"deploy/a.yaml": MAP,
                "deploy/w.yaml": "---\n# ours\napiVersion: nosuch.example.com/v1\nkind: Widget\nmetadata: {name: w}\n"}),
            spec: json!({}),
            reason: "ReconciliationFailed",
            says: &[
                "Widget/k-mistakes/w dry-run failed: no matches for kind \"Widget\" in version \"nosuch.example.com/v1\"",
                "Widget/k-mistakes/w is in deploy/w.yaml:3",
                "CustomResourceDefinition",
                "dependsOn",
            ],
        },
        Mistake {
            name: "a value of the wrong type",
            files: json!({"deploy/a.yaml": MAP.replace("'1'", "1")}),
            spec: json!({}),
            reason: "ReconciliationFailed",
            says: &["ConfigMap/k-mistakes/one dry-run failed", "deploy/a.yaml:1"],
        },
        Mistake {
            name: "a secret that nobody can decrypt",
            files: json!({"deploy/s.yaml": SECRET}),
            spec: json!({"decryption": {"provider": "sops"}}),
            reason: "BuildFailed",
            says: &[
                "decryption failed for 'Secret.v1.[noGrp]/enc'",
                "deploy/s.yaml:1",
                "spec.decryption.secretRef",
            ],
        },
        Mistake {
            name: "a secret without decryption",
            files: json!({"deploy/s.yaml": SECRET}),
            spec: json!({}),
            reason: "BuildFailed",
            says: &[
                "is SOPS encrypted",
                "set spec.decryption",
                "deploy/s.yaml:1",
            ],
        },
        Mistake {
            name: "a variable that is not set",
            files: json!({"deploy/a.yaml": MAP.replace("'1'", "'${level}'")}),
            spec: json!({"postBuild": {"substitute": {"other": "x"}}}),
            reason: "BuildFailed",
            says: &["post build failed for", "level", "deploy/a.yaml:4"],
        },
        Mistake {
            name: "a directory that is not there",
            files: json!({"other/a.yaml": MAP}),
            spec: json!({}),
            reason: "ArtifactFailed",
            says: &["kustomization path not found: stat deploy", "spec.path"],
        },
        Mistake {
            name: "a circle of dependencies",
            files: json!({"deploy/a.yaml": MAP}),
            spec: json!({"dependsOn": [{"name": "app"}]}),
            reason: "DependencyNotReady",
            says: &[
                "dependency 'k-mistakes/app' is not ready",
                "circle: k-mistakes/app -> k-mistakes/app",
                "take one of these out",
            ],
        },
    ]
}

/// The message of the Ready condition with its reason, and those of all events.
async fn told(mistake: &Mistake) -> ((String, String), Vec<String>) {
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "mistakes", "namespace": NAMESPACE, "then": {}, "files": mistake.files,
    }))
    .unwrap();
    let mut world = World::start(&scenario, recorded_options(), ControllerKind::ALL).await;
    let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "src"},
        "spec": {"interval": "10m", "url": format!("$GIT/{NAMESPACE}.git"), "ref": {"branch": "main"}}});
    let mut kustomization = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app"},
        "spec": {"interval": "10m", "prune": true, "path": "./deploy", "targetNamespace": NAMESPACE,
            "sourceRef": {"kind": "GitRepository", "name": "src"}}});
    let spec = kustomization["spec"].as_object_mut().unwrap();
    spec.extend(mistake.spec.as_object().unwrap().clone());
    spec.retain(|_, value| !value.is_null());
    world.apply(&source).await.unwrap();
    world.sleep(Duration::from_secs(3)).await;
    world.apply(&kustomization).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    let kustomizations = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = At::new(NAMESPACE, "app");
    let object = world.client.get(&kustomizations, at).await.unwrap();
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let ready = conditions
        .iter()
        .find(|one| one["type"] == "Ready")
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let condition = (text(&ready["reason"]), text(&ready["message"]));
    let all = Default::default();
    let events = world.client.list_all(&EVENTS, Some(NAMESPACE), &all).await;
    let events = events.unwrap().items;
    let events = events
        .iter()
        .filter(|it| it["involvedObject"]["kind"] == "Kustomization");
    let events = events.map(|event| text(&event["message"])).collect();
    world.stop_engine().await;
    (condition, events)
}

fn says_all(message: &str, parts: &[&str]) -> bool {
    let mut rest = message;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn errors_name_place_and_remedy() {
    let mut wrong = Vec::new();
    for mistake in mistakes() {
        let ((reason, message), events) = told(&mistake).await;
        if reason != mistake.reason || !says_all(&message, mistake.says) {
            wrong.push(format!("{}: {reason}: {message}", mistake.name));
        }
        // Those who wait say so in fewer words.
        let waits = matches!(mistake.reason, "DependencyNotReady");
        if !waits && !events.iter().any(|event| says_all(event, mistake.says)) {
            wrong.push(format!("{}: events {events:?}", mistake.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
