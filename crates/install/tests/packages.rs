//! The chart and the kustomize base are the same installation as `everflow install --export`.
//!
//! What in them follows from the code is written by `EVERFLOW_UPDATE=1 cargo test -p everflow-install --test packages`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everflow_helm::chart::{ChartFile, load_files};
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, template};
use everflow_helm::values::Warnings;
use everflow_install::{
    Component, LabelSelector, LeaseTimes, Options, Sharding, Storage, definitions,
    instance_definitions, manifests, to_yaml,
};
use everflow_json::{Map, Value, json};
use everflow_limits::Budget;
use everflow_sprig::FixedSource;
use everflow_yaml::documents::yaml_or_json_decoder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file that follows from the code.
fn generated(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("EVERFLOW_UPDATE").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == text,
        "{path} is not what the code says; write it with: EVERFLOW_UPDATE=1 cargo test -p everflow-install --test packages"
    );
}

fn files_below(directory: &Path, prefix: &str, out: &mut Vec<ChartFile>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        match entry.path().is_dir() {
            true => files_below(&entry.path(), &format!("{name}/"), out),
            false => out.push(ChartFile::new(&name, std::fs::read(entry.path()).unwrap())),
        }
    }
}

fn objects_of(text: &str) -> Vec<Value> {
    let documents = yaml_or_json_decoder(text.as_bytes());
    documents
        .filter_map(|document| document.unwrap().into_object().unwrap())
        .collect()
}

fn rendered(namespace: &str, values: &Map) -> Result<Vec<Value>, String> {
    let mut files = Vec::new();
    files_below(&root().join("charts/everflow"), "", &mut files);
    let mut warnings = Warnings::default();
    let chart = load_files(files, &mut warnings).map_err(|error| error.to_string())?;
    let options = ReleaseOptions {
        name: "everflow".into(),
        namespace: namespace.into(),
        ..ReleaseOptions::default()
    };
    let mut sources = Sources::new(FixedSource::new(0, 0, 1));
    let budget = Budget::unlimited();
    let rendered = template(
        chart,
        values,
        &options,
        &mut sources,
        &mut warnings,
        &budget,
    );
    let rendered = rendered.map_err(|error| error.to_string())?;
    assert!(rendered.hooks.is_empty());
    Ok(objects_of(&rendered.manifest))
}

/// The values of the chart that mean the same as options.
fn values_of(options: &Options) -> Map {
    let storage = options.storage.clone();
    let sharding = options.sharding.clone();
    let names: Vec<&str> = options.components.iter().map(|one| one.name()).collect();
    let spread: Vec<&Value> = options
        .keep_apart_from
        .iter()
        .map(LabelSelector::value)
        .collect();
    let values = json!({
        "namespace": {"create": true},
        "replicas": options.replicas,
        "components": names,
        "image": {"registry": options.registry, "tag": options.tag, "full": options.image,
            "pullSecret": options.image_pull_secret},
        "multitenant": {"enabled": options.multitenant, "platformAdmin": options.platform_admin,
            "defaultServiceAccount": options.default_service_account},
        "networkPolicy": options.network_policies,
        "clusterDomain": options.cluster_domain,
        "logLevel": options.log_level,
        "watchAllNamespaces": options.watch_all_namespaces,
        "tolerationKeys": options.toleration_keys,
        "leaderElection": {"leaseDuration": options.lease.duration,
            "renewDeadline": options.lease.renew_deadline, "retryPeriod": options.lease.retry_period},
        "concurrent": options.concurrent.unwrap_or(0),
        "requeueDependency": options.requeue_dependency,
        "resources": {
            "limits": {"cpu": options.cpu_limit, "memory": options.memory_limit},
            "requests": {"cpu": options.cpu_request, "memory": options.memory_request},
        },
        "podMonitor": options.pod_monitor,
        "spreadFrom": spread,
        "priorityClass": options.priority_class,
        "storage": {
            "size": storage.as_ref().map_or("", |storage| &storage.size),
            "class": storage.as_ref().map_or("", |storage| &storage.class),
        },
        "sharding": {
            "key": sharding.as_ref().map_or("key", |sharding| &sharding.key),
            "shards": sharding.map(|sharding| sharding.shards).unwrap_or_default(),
        },
        "openshift": options.openshift,
        "fluxInstance": options.flux_instance,
        "extraArgs": options.extra_args,
        "labels": options.labels,
        "annotations": options.annotations,
    });
    values.as_object().unwrap().clone()
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for mut object in objects {
        if object["kind"] == "CustomResourceDefinition" {
            // Helm must not delete everybody's objects; nobody else is told so.
            let metadata = object["metadata"].as_object_mut().unwrap();
            if let Some(annotations) = metadata
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove("helm.sh/resource-policy");
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &object["metadata"];
        let name = format!(
            "{}/{}/{}",
            text(&object["kind"]),
            text(&meta["namespace"]),
            text(&meta["name"])
        );
        assert!(
            found.insert(name.clone(), object).is_none(),
            "{name} is there twice"
        );
    }
    found
}

fn same(what: &str, ours: Vec<Value>, theirs: Vec<Value>) {
    let (ours, theirs) = (by_name(ours), by_name(theirs));
    let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs), "{what}");
    for (name, object) in &ours {
        // As text, because one side has numbers that were read from YAML.
        let (one, other) = (
            everflow_yaml::emit::sigs(object),
            everflow_yaml::emit::sigs(&theirs[name]),
        );
        assert!(
            one == other,
            "{what}: {name}\n--- install\n{one}\n--- other\n{other}"
        );
    }
}

fn full() -> Options {
    Options {
        namespace: "delivery".into(),
        registry: "registry.corp/mirror".into(),
        tag: "v9".into(),
        image_pull_secret: "pull".into(),
        replicas: 3,
        components: vec![Component::Source, Component::Helm, Component::Notification],
        multitenant: true,
        default_service_account: "tenant".into(),
        platform_admin: "kustomize-controller".into(),
        cluster_domain: "corp.local".into(),
        log_level: "debug".into(),
        watch_all_namespaces: false,
        toleration_keys: vec!["infra".into(), "arm".into()],
        lease: LeaseTimes {
            duration: "60s".into(),
            renew_deadline: "40s".into(),
            retry_period: "6s".into(),
        },
        concurrent: Some(20),
        requeue_dependency: "5s".into(),
        memory_limit: "2Gi".into(),
        cpu_limit: String::new(),
        pod_monitor: true,
        keep_apart_from: vec![
            LabelSelector::parse("--x", "tier in (identity,dns),!spare").unwrap(),
        ],
        priority_class: String::new(),
        storage: Some(Storage {
            class: "fast".into(),
            size: "10Gi".into(),
        }),
        sharding: Some(Sharding {
            key: "shard".into(),
            shards: vec!["one".into(), "two".into()],
        }),
        labels: [("team".to_owned(), "platform".to_owned())].into(),
        annotations: [("note".to_owned(), "a: b".to_owned())].into(),
        flux_instance: true,
        extra_args: vec!["--event-per-message".into()],
        ..Options::default()
    }
}

#[test]
fn the_chart_renders_what_install_prints() {
    let cases = [
        ("defaults", Options::default()),
        ("everything", full()),
        (
            "openshift",
            Options {
                openshift: true,
                network_policies: false,
                keep_apart_from: Vec::new(),
                image: "a/b@sha256:0".into(),
                ..Options::default()
            },
        ),
        (
            "tenants",
            Options {
                multitenant: true,
                ..Options::default()
            },
        ),
        (
            "sources only",
            Options {
                components: vec![Component::Source],
                ..Options::default()
            },
        ),
    ];
    for (what, options) in cases {
        let theirs = rendered(&options.namespace, &values_of(&options)).unwrap();
        same(what, manifests(&options).unwrap(), theirs);
    }
}

#[test]
fn the_chart_without_values_is_the_default_installation() {
    let values = json!({"namespace": {"create": true}});
    let theirs = rendered("flux-system", values.as_object().unwrap()).unwrap();
    same("no values", manifests(&Options::default()).unwrap(), theirs);
}

#[test]
fn helm_never_deletes_the_definitions() {
    for object in rendered("flux-system", &Map::new()).unwrap() {
        if object["kind"] == "CustomResourceDefinition" {
            assert_eq!(
                object["metadata"]["annotations"]["helm.sh/resource-policy"],
                "keep"
            );
        }
    }
}

#[test]
fn values_that_make_no_sense_are_refused_by_the_schema() {
    for values in [
        json!({"replicas": 0}),
        json!({"replcas": 2}),
        json!({"components": ["source-watcher"]}),
        json!({"logLevel": "loud"}),
        json!({"resources": {"limits": {"memory": "lots"}}}),
    ] {
        let error = rendered("flux-system", values.as_object().unwrap()).unwrap_err();
        assert!(
            error.contains("schema") || error.contains("specification"),
            "{values}: {error}"
        );
    }
}

#[test]
fn the_definitions_in_the_chart_are_those_of_the_program() {
    for mut definition in definitions().into_iter().chain(instance_definitions()) {
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        definition["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("labels");
        let text = everflow_yaml::emit::sigs(&definition);
        generated(&format!("charts/everflow/files/crds/{name}.yaml"), &text);
    }
}

#[test]
fn the_kustomize_base_is_the_default_installation() {
    let objects = manifests(&Options::default()).unwrap();
    generated("deploy/everflow.yaml", &to_yaml(&objects));
    let file = std::fs::read_to_string(root().join("deploy/kustomization.yaml")).unwrap();
    let view: everflow_kustomize::MemoryView = [
        ("/kustomization.yaml", file.into_bytes()),
        ("/everflow.yaml", to_yaml(&objects).into_bytes()),
    ]
    .into_iter()
    .collect();
    let budget = Budget::unlimited();
    let built = everflow_kustomize::build(
        &view,
        "/",
        &everflow_kustomize::Options::default(),
        everflow_kustomize::Plugins::default(),
        &budget,
    );
    same(
        "kustomize",
        objects,
        objects_of(&built.unwrap().to_yaml().unwrap()),
    );
}

/// The rows of the table of values: each line `# -- text` and the key after it.
fn rows(text: &str) -> Vec<(String, String, String)> {
    let defaults = objects_of(text).remove(0);
    let (mut rows, mut parents, mut told) = (Vec::new(), Vec::<(usize, String)>::new(), None);
    for line in text.lines() {
        let trimmed = line.trim_start();
        let depth = line.len() - trimmed.len();
        if let Some(words) = trimmed.strip_prefix("# -- ") {
            told = Some(words.to_owned());
            continue;
        }
        let Some((key, _)) = trimmed
            .split_once(':')
            .filter(|_| !trimmed.starts_with(['#', '-']))
        else {
            continue;
        };
        parents.retain(|(other, _)| *other < depth);
        parents.push((depth, key.to_owned()));
        if let Some(words) = told.take() {
            let path: Vec<&str> = parents.iter().map(|(_, key)| key.as_str()).collect();
            let value = path.iter().fold(&defaults, |value, key| &value[*key]);
            rows.push((path.join("."), value.to_string(), words));
        }
    }
    rows
}

#[test]
fn the_readme_of_the_chart_has_all_values() {
    let text = std::fs::read_to_string(root().join("charts/everflow/values.yaml")).unwrap();
    let mut readme = String::from(
        "# everflow\n\nA GitOps engine that replaces Flux's controllers.\n\n```sh\nhelm install everflow charts/everflow \
         --namespace flux-system --create-namespace\n```\n\nThis is the same installation as `everflow install` with \
         the same options: see [docs/install.md](../../docs/install.md).\nThe CRDs of Flux's kinds are kept when the \
         release is uninstalled, and with them all objects; `everflow uninstall`\nremoves both.\n\n## \
         Values\n\n| Value | Default | Meaning |\n|---|---|---|\n",
    );
    let rows = rows(&text);
    assert!(rows.len() > 25, "{rows:?}");
    for (key, default, words) in rows {
        readme.push_str(&format!("| `{key}` | `{default}` | {words} |\n"));
    }
    generated("charts/everflow/README.md", &readme);
}
