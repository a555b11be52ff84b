//! Mistakes in a repository: one message each, that says where, what and what to do, and is the same in
//! the status, in the Event, in what `up` and `test` say at the end, and in `get`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use everflow_json::Value;

/// One mistake, in a Kustomization of that name.
struct Mistake {
    name: &'static str,
    /// More fields of its spec.
    spec: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// What the message says: where, what, what to do.
    words: &'static [&'static str],
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";
const ENCRYPTED: &str = "apiVersion: v1
kind: Secret
metadata: {name: key, namespace: flux-system}
stringData:
    password: ENC[AES256_GCM,data:bG9uZw==,iv:MTIzNDU2Nzg5MDEyMzQ1Ng==,tag:MTIzNDU2Nzg5MDEyMzQ1Ng==,type:str]
sops:
    age: [{recipient: age1nobody, enc: none}]
    encrypted_regex: ^(data|stringData)$
    lastmodified: 2026-01-01T00:00:00Z
    mac: none
    version: 3.9.0
";
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: fixed, namespace: default}
spec:
  selector: {matchLabels: {app: VALUE}}
  template:
    metadata: {labels: {app: VALUE}}
    spec: {containers: [{name: a, image: a}]}
";

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "manifest",
        spec: "",
        files: &[("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n")],
        words: &["manifest/a.yaml", "line 3", "correct the file"],
    },
    Mistake {
        name: "listed",
        spec: "",
        files: &[
            ("kustomization.yaml", "resources: [a.yaml]\n"),
            ("a.yaml", "apiVersion: v1\nkind: X\n a: [\n"),
        ],
        words: &["(in listed/a.yaml:3)", "correct the YAML"],
    },
    Mistake {
        name: "twice",
        spec: "",
        files: &[
            ("kustomization.yaml", "resources: [a.yaml, b.yaml]\n"),
            (
                "a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice, namespace: default}\n",
            ),
            (
                "b.yaml",
                "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice, namespace: default}\n",
            ),
        ],
        words: &[
            "(in twice/a.yaml:1 and twice/b.yaml:2)",
            "remove or rename one of the two",
        ],
    },
    Mistake {
        name: "patch",
        spec: "",
        files: &[
            (
                "kustomization.yaml",
                "resources: [a.yaml]\npatches: [{path: p.yaml}]\n",
            ),
            ("a.yaml", MAP),
            (
                "p.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nobody, namespace: default}\ndata: {a: b}\n",
            ),
        ],
        words: &[
            "(in patch/p.yaml:1)",
            "nobody",
            "no object of the build is what the patch names",
        ],
    },
    Mistake {
        name: "inline-patch",
        spec: "",
        files: &[
            (
                "kustomization.yaml",
                "resources: [a.yaml]\npatches:\n- patch: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: nobody, namespace: default}\n    data: {a: b}\n",
            ),
            ("a.yaml", MAP),
        ],
        words: &[
            "(in inline-patch/kustomization.yaml:4)",
            "nobody",
            "no object of the build is what the patch names",
        ],
    },
    Mistake {
        name: "kind",
        spec: "",
        files: &[(
            "a.yaml",
            "\napiVersion: odd.example.com/v1\nkind: Odd\nmetadata: {name: o, namespace: default}\n",
        )],
        words: &[
            "no matches for kind \"Odd\"",
            "is in kind/a.yaml:2",
            "apply the CustomResourceDefinition of this kind first",
        ],
    },
    Mistake {
        name: "version",
        spec: "",
        files: &[(
            "a.yaml",
            "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: o, namespace: default}\n",
        )],
        words: &[
            "no matches for kind",
            "is in version/a.yaml:1",
            "write apiVersion: policy/v1",
        ],
    },
    Mistake {
        name: "secret",
        spec: "",
        files: &[("a.yaml", ENCRYPTED)],
        words: &[
            "(in secret/a.yaml:1)",
            "SOPS encrypted",
            "set spec.decryption",
        ],
    },
    Mistake {
        name: "undecryptable",
        spec: "  decryption: {provider: sops, secretRef: {name: keys}}\n",
        files: &[("a.yaml", ENCRYPTED)],
        words: &[
            "(in undecryptable/a.yaml:1)",
            "decryption failed",
            "put the private key of one of its recipients into the Secret",
        ],
    },
    Mistake {
        name: "no-key",
        spec: "  decryption: {provider: sops, secretRef: {name: nowhere}}\n",
        files: &[("a.yaml", ENCRYPTED)],
        words: &[
            "secrets \"nowhere\" not found",
            "spec.decryption names it: create it in the namespace flux-system",
        ],
    },
    Mistake {
        name: "cycle-one",
        spec: "  dependsOn: [{name: cycle-two}]\n",
        files: &[("a.yaml", MAP)],
        words: &[
            "dependsOn goes in a circle: flux-system/cycle-one -> flux-system/cycle-two -> flux-system/cycle-one",
            "take one of these out",
        ],
    },
    Mistake {
        name: "cycle-two",
        spec: "  dependsOn: [{name: cycle-one}]\n",
        files: &[("a.yaml", MAP)],
        words: &["dependsOn goes in a circle", "take one of these out"],
    },
    Mistake {
        name: "no-dependency",
        spec: "  dependsOn: [{name: nobody}]\n",
        files: &[("a.yaml", MAP)],
        words: &[
            "dependency 'flux-system/nobody' not found",
            "correct spec.dependsOn",
        ],
    },
    Mistake {
        name: "path",
        spec: "  path: ./no/where\n",
        files: &[],
        words: &[
            "kustomization path not found",
            "no/where",
            "spec.path must name a directory of the source",
        ],
    },
    Mistake {
        name: "no-source",
        spec: "  path: ./elsewhere\n  sourceRef: {kind: GitRepository, name: nobody}\n",
        files: &[("a.yaml", MAP)],
        words: &["GitRepository", "nobody", "correct spec.sourceRef"],
    },
    Mistake {
        name: "variable",
        spec: "  postBuild: {substitute: {other: a}}\n",
        files: &[(
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v, namespace: default}\ndata:\n  key: ${missing}\n",
        )],
        words: &[
            "missing",
            "(in variable/a.yaml:5)",
            "give it a value",
            "${missing:=default}",
        ],
    },
    Mistake {
        name: "variables",
        spec: "  postBuild: {substituteFrom: [{kind: Secret, name: nowhere}]}\n",
        files: &[(
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v, namespace: default}\ndata:\n  key: ${missing}\n",
        )],
        words: &[
            "substitute from 'Secret/nowhere'",
            "create it in the namespace flux-system",
            "optional: true",
        ],
    },
    Mistake {
        name: "expression",
        spec: "  healthCheckExprs: [{apiVersion: v1, kind: ConfigMap, current: 'data.a ='}]\n",
        files: &[("a.yaml", MAP)],
        words: &[
            "spec.healthCheckExprs[0]",
            "data.a =",
            "correct the expression",
        ],
    },
    Mistake {
        name: "ready-expression",
        spec: "  dependsOn: [{name: cycle-one, readyExpr: 'dep.status ='}]\n",
        files: &[("a.yaml", MAP)],
        words: &["dep.status =", "correct readyExpr in spec.dependsOn"],
    },
    Mistake {
        name: "namespace",
        spec: "",
        files: &[(
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n",
        )],
        words: &[
            "namespaces \"nowhere\" not found",
            "is in namespace/a.yaml:1",
            "add the Namespace to the build",
        ],
    },
    Mistake {
        name: "immutable",
        spec: "",
        files: &[("a.yaml", DEPLOYMENT)],
        words: &[
            "field is immutable",
            "is in immutable/a.yaml:1",
            "kustomize.toolkit.fluxcd.io/force: enabled",
            "spec.force",
        ],
    },
    Mistake {
        name: "invalid",
        spec: "",
        files: &[(
            "a.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: default}\nspec: {ports: [{port: 99999999}]}\n",
        )],
        words: &["spec.ports[0].port", "is in invalid/a.yaml:1"],
    },
    Mistake {
        name: "unnamed",
        spec: "",
        files: &[
            ("kustomization.yaml", "resources: [a.yaml]\n"),
            (
                "a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default}\n",
            ),
        ],
        words: &["unnamed/a.yaml", "metadata.name"],
    },
    Mistake {
        name: "resource",
        spec: "",
        files: &[("kustomization.yaml", "resources: [gone.yaml]\n")],
        words: &[
            "gone.yaml",
            "(in resource/kustomization.yaml:1)",
            "correct the path in the kustomization file",
        ],
    },
    Mistake {
        name: "kustomization-file",
        spec: "",
        files: &[("kustomization.yaml", "namespace: default\nresources: {}\n")],
        words: &[
            "kustomization-file/kustomization.yaml",
            "correct the kustomization file",
        ],
    },
    Mistake {
        name: "component",
        spec: "",
        files: &[("kustomization.yaml", "components:\n- ../component-gone\n")],
        words: &[
            "(in component/kustomization.yaml:2)",
            "correct the path in the kustomization file",
        ],
    },
    Mistake {
        name: "second",
        spec: "",
        files: &[(
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second, namespace: default}\n---\napiVersion: odd.example.com/v1\nkind: Odd\nmetadata: {name: second, namespace: default}\n",
        )],
        words: &["Odd/default/second is in second/a.yaml:5"],
    },
    Mistake {
        name: "no-namespace",
        spec: "",
        files: &[(
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nowhere}\n",
        )],
        words: &[
            "namespace not specified",
            "is in no-namespace/a.yaml:1",
            "spec.targetNamespace",
        ],
    },
    Mistake {
        name: "kubeconfig",
        spec: "  kubeConfig: {secretRef: {name: nowhere}}\n",
        files: &[("a.yaml", MAP)],
        words: &["spec.kubeConfig", "flux-system/nowhere", "--with FILE"],
    },
];

/// Objects of two Kustomizations: both are ready, and say so.
const SHARED: [&str; 2] = ["shared-one", "shared-two"];

fn kustomization(name: &str, spec: &str) -> String {
    let mut fields = vec![
        "  interval: 1h\n".to_owned(),
        "  prune: true\n".to_owned(),
        format!("  path: ./{name}\n"),
        "  sourceRef: {kind: GitRepository, name: flux-system}\n".to_owned(),
    ];
    fields.retain(|field| {
        let key = field.split(':').next().unwrap_or_default();
        !spec.lines().any(|line| line.split(':').next() == Some(key))
    });
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n{}{spec}",
        fields.concat()
    )
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-input");
    let _ = fs::remove_dir_all(&root);
    for mistake in MISTAKES {
        let name = mistake.name;
        write(
            &root,
            &format!("cluster/{name}.yaml"),
            &kustomization(name, mistake.spec),
        );
        for (path, text) in mistake.files {
            let text = text.replace("VALUE", "new");
            write(&root, &format!("{name}/{path}"), &text);
        }
    }
    for (name, spec) in [
        (SHARED[0], ""),
        (SHARED[1], "  dependsOn: [{name: shared-one}]\n"),
    ] {
        write(
            &root,
            &format!("cluster/{name}.yaml"),
            &kustomization(name, spec),
        );
        write(
            &root,
            &format!("{name}/a.yaml"),
            &MAP.replace("name: a", "name: shared"),
        );
    }
    let keys = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: flux-system}\nstringData:\n  a.agekey: AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n";
    write(
        &root,
        "../bad-input-with.yaml",
        &format!("{keys}---\n{}", DEPLOYMENT.replace("VALUE", "old")),
    );
    root
}

fn everflow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everflow"))
        .args(arguments)
        .env_remove("SOPS_AGE_KEY_FILE")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where each message must be found, with what was printed there.
struct Places {
    objects: Vec<Value>,
    events: String,
    up: String,
    test: String,
    get: String,
}

impl Places {
    fn look(root: &Path) -> Self {
        let with = root.join("../bad-input-with.yaml");
        let common = [
            root.to_str().unwrap(),
            "--offline",
            "--entry",
            "cluster",
            "--with",
            with.to_str().unwrap(),
        ];
        let kubeconfig = root.join("../bad-input-kubeconfig");
        let mut child = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .arg("up")
            .args(common)
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .env_remove("SOPS_AGE_KEY_FILE")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut up = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            up += &format!("{line}\n");
            if line.contains("^C ends") {
                break;
            }
        }
        let client = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let get = everflow(&[&["get", "ks"], &client[..]].concat());
        let data = everflow(&[&["get", "ks", "-o", "json"], &client[..]].concat());
        let events = everflow(&[&["events"], &client[..]].concat());
        let _ = child.kill();
        let _ = child.wait();
        let test = everflow(&[&["test"], &common[..]].concat());
        assert_eq!(test.status.code(), Some(1));
        let data: Value = everflow_json::from_slice(&data.stdout).unwrap();
        Places {
            objects: data["items"].as_array().unwrap().clone(),
            events: text(&events.stdout),
            up: summary(&up),
            test: summary(&text(&test.stdout)),
            get: text(&get.stdout),
        }
    }

    fn all(&self) -> [(&'static str, &str); 4] {
        [
            ("the Event", &self.events),
            ("up's summary", &self.up),
            ("test's summary", &self.test),
            ("get", &self.get),
        ]
    }

    fn message(&self, name: &str) -> String {
        let object = self
            .objects
            .iter()
            .find(|object| object["metadata"]["name"] == name);
        let object = object.unwrap_or_else(|| panic!("no {name}"));
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
        ready["message"].as_str().unwrap().trim().to_owned()
    }
}

/// What is said at the end, after what was told on the way.
fn summary(said: &str) -> String {
    said.split_once("\n\n")
        .map_or("", |(_, rest)| rest)
        .to_owned()
}

#[test]
fn bad_input_gives_the_same_message_in_every_output() {
    let root = repository();
    let places = Places::look(&root);
    let mut faults = Vec::new();
    for mistake in MISTAKES {
        let name = mistake.name;
        let message = places.message(name);
        for word in mistake
            .words
            .iter()
            .filter(|word| !message.contains(**word))
        {
            faults.push(format!(
                "{name}: the message does not say {word:?}:\n  {message}"
            ));
        }
        for (place, said) in places.all() {
            // A source may come a moment later: that is no news.
            if name == "no-source" && place == "the Event" {
                continue;
            }
            let lines = message
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty());
            for line in lines.filter(|line| !said.contains(line)) {
                faults.push(format!("{name}: {place} does not say\n  {line}"));
            }
        }
    }
    for (place, said) in places.all() {
        let shared = |name: &str| {
            said.contains(&format!("ConfigMap/default/shared is applied by Kustomization/flux-system/{name} too: take it out of one of the two"))
        };
        if !SHARED.iter().any(|name| shared(name)) {
            faults.push(format!("{place}: nobody says that an object is shared"));
        }
    }
    assert!(
        faults.is_empty(),
        "{}\n\nup:\n{}\ntest:\n{}\nget:\n{}\nevents:\n{}",
        faults.join("\n"),
        places.up,
        places.test,
        places.get,
        places.events
    );
}
