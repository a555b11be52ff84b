//! Release records against a real API server: what the real helm 3 and 4 write is read by us, and what
//! we write is listed, shown, rolled back and uninstalled by both. Runs only with `EVERFLOW_REAL=1`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::PathBuf;
use std::process::Command;

use everflow_corpus::real::{ApiServer, Request, program};
use everflow_helm::chart::{Chart, ChartFile, load_files};
use everflow_helm::release::{
    HookRecord, Info, Release, chart_record, decode, encode, from_object, to_config_map, to_secret,
};
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, template};
use everflow_helm::values::Warnings;
use everflow_json::{Map, Value, json};
use everflow_sprig::FixedSource;

const DRIVERS: [(&str, &str); 2] = [("secret", "secrets"), ("configmap", "configmaps")];

/// The chart of all tests: values of every kind, a hook, notes, a schema, a file and a dependency.
const CHART: [(&str, &str); 9] = [
    (
        "Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: \"4.5\"\ndescription: <a> & b\n\
         keywords: [x]\nmaintainers: [{name: Me, email: me@example.com}]\nannotations: {k: v}\n\
         dependencies: [{name: part, version: '>=0', repository: '', condition: part.enabled}]\n",
    ),
    (
        "values.yaml",
        "text: plain\nnumber: 1000000\nlist: [1, two, 3.5]\nnested: {flag: true}\npart: {enabled: true}\n",
    ),
    ("values.schema.json", "{\"type\": \"object\"}"),
    ("notes-source.txt", "some\nfile\n"),
    ("templates/NOTES.txt", "Thanks for {{ .Values.text }}.\n"),
    (
        "templates/config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  \
         text: {{ .Values.text | quote }}\n  number: \"{{ .Values.number }}\"\n  \
         revision: \"{{ .Release.Revision }}\"\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations:\n    \
         helm.sh/hook: pre-install,pre-upgrade,pre-rollback\n    helm.sh/hook-weight: \"-3\"\n    \
         helm.sh/hook-delete-policy: before-hook-creation\ndata:\n  a: b\n",
    ),
    (
        "charts/part/Chart.yaml",
        "apiVersion: v2\nname: part\nversion: 0.1.0\n",
    ),
    (
        "charts/part/templates/part.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-part\ndata: {}\n",
    ),
];

struct Server(ApiServer);

impl Server {
    fn start() -> Option<Self> {
        let server = Server(ApiServer::start("releases")?);
        for (name, content) in CHART {
            let path = server.0.directory().join("web").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Some(server)
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let request = Request {
            method,
            path,
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: body.map(|body| body.to_string().into_bytes()),
        };
        let answer = self.0.send(&[request]).remove(0);
        let answer: Value = everflow_json::from_slice(&answer.body).unwrap();
        assert_ne!(answer["status"], "Failure", "{method} {path}: {answer}");
        answer
    }

    fn namespace(&self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.request("POST", "/api/v1/namespaces", Some(&body));
    }

    /// What the records of a release hold, by revision.
    fn records(&self, namespace: &str, resource: &str) -> Vec<(Value, Release)> {
        let path = format!("/api/v1/namespaces/{namespace}/{resource}?labelSelector=owner%3Dhelm");
        let kind = match resource {
            "secrets" => "Secret",
            _ => "ConfigMap",
        };
        let list = self.request("GET", &path, None);
        let mut found: Vec<(Value, Release)> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let mut item = item.clone();
                item["kind"] = json!(kind);
                let release = from_object(&item).unwrap();
                (item, release)
            })
            .collect();
        found.sort_by_key(|(_, release)| release.version);
        found
    }
}

/// A real helm with a place for its records.
struct Helm<'s> {
    server: &'s Server,
    binary: PathBuf,
    name: &'static str,
    driver: &'static str,
    resource: &'static str,
    namespace: String,
}

impl Helm<'_> {
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.binary)
            .args(arguments)
            .args(["--namespace", &self.namespace, "--kubeconfig"])
            .arg(self.server.0.kubeconfig())
            .env("HELM_DRIVER", self.driver)
            .env("HOME", self.server.0.directory())
            .current_dir(self.server.0.directory())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{} {arguments:?}: {}",
            self.name,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-o", "json"]);
        everflow_json::from_str(&self.run(&arguments)).unwrap()
    }
}

fn each_helm(server: &Server, purpose: &str, test: impl Fn(&Helm<'_>)) {
    for name in ["helm", "helm3"] {
        for (driver, resource) in DRIVERS {
            let helm = Helm {
                server,
                binary: program(name).unwrap(),
                name,
                driver,
                resource,
                namespace: format!("{purpose}-{name}-{driver}"),
            };
            server.namespace(&helm.namespace);
            test(&helm);
            println!("{purpose}: {name} with {driver}s agrees");
        }
    }
}

fn chart() -> Chart {
    let files = CHART
        .iter()
        .map(|(name, content)| ChartFile::new((*name).to_owned(), content.as_bytes().to_vec()))
        .collect();
    load_files(files, &mut Warnings::default()).unwrap()
}

/// The release as we would record it.
fn our_release(helm: &Helm<'_>, revision: i64, config: Value, status: &str) -> Release {
    let Value::Object(config) = config else {
        panic!("values are a map")
    };
    let options = ReleaseOptions {
        name: "web".to_owned(),
        namespace: helm.namespace.clone(),
        revision,
        is_upgrade: revision > 1,
        ..ReleaseOptions::default()
    };
    let mut sources = Sources::new(FixedSource::new(0, 0, 1));
    let rendered = template(
        chart(),
        &config,
        &options,
        &mut sources,
        &mut Warnings::default(),
        &everflow_limits::Budget::unlimited(),
    )
    .unwrap();
    let release = Release {
        name: "web".to_owned(),
        namespace: helm.namespace.clone(),
        version: revision,
        info: Info {
            first_deployed: "2026-01-02T03:04:05.678901234Z".to_owned(),
            last_deployed: format!("2026-01-02T03:04:1{revision}.5Z"),
            description: format!("Revision {revision} by everflow"),
            status: status.to_owned(),
            notes: rendered.notes,
            ..Info::default()
        },
        chart: chart_record(&rendered.chart),
        config,
        manifest: rendered.manifest,
        hooks: rendered.hooks.into_iter().map(HookRecord::from).collect(),
        ..Release::default()
    };
    Release {
        labels: [("team".to_owned(), "x".to_owned())].into(),
        // As it reads: whole numbers are written without a fraction.
        ..decode(&encode(&release).unwrap()).unwrap()
    }
}

/// Without what differs from run to run. Helm 3 writes manifests without blank lines between them.
fn lasting(mut record: Value, helm: &str) -> Value {
    if helm == "helm3" {
        strip_ends(&mut record);
    }
    for key in ["first_deployed", "last_deployed", "deleted", "description"] {
        record["info"].as_object_mut().unwrap().remove(key);
    }
    if let Some(hooks) = record.get_mut("hooks").and_then(Value::as_array_mut) {
        for hook in hooks {
            hook["last_run"] = json!({});
        }
    }
    let record_map = record.as_object_mut().unwrap();
    record_map.remove("apply_method");
    // Times of files, which only helm has.
    strip(&mut record, "modtime");
    strip(&mut record, "schemamodtime");
    record
}

/// Cuts white space at the ends of all documents.
fn strip_ends(record: &mut Value) {
    let manifest = record["manifest"].as_str().unwrap();
    let documents: Vec<&str> = everflow_helm::manifests::split_manifests(manifest)
        .into_iter()
        .map(str::trim)
        .collect();
    record["manifest"] = json!(documents);
    for hook in record["hooks"].as_array_mut().unwrap() {
        hook["manifest"] = json!(hook["manifest"].as_str().unwrap().trim());
    }
}

fn strip(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            map.remove(key);
            map.values_mut().for_each(|value| strip(value, key));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| strip(value, key)),
        _ => {}
    }
}

#[test]
fn records_go_both_ways() {
    let Some(server) = Server::start() else {
        return;
    };
    each_helm(&server, "theirs", releases_written_by_helm_are_read);
    each_helm(&server, "ours", our_releases_are_read_by_helm);
}

fn releases_written_by_helm_are_read(helm: &Helm<'_>) {
    helm.run(&[
        "install",
        "web",
        "web",
        "--set",
        "text=first",
        "--labels",
        "team=x",
    ]);
    helm.run(&[
        "upgrade",
        "web",
        "web",
        "--set",
        "text=second,number=5,nested.flag=null",
        "--description",
        "the second",
    ]);
    let records = helm.server.records(&helm.namespace, helm.resource);
    let history = helm.json(&["history", "web"]);
    assert_eq!(records.len(), 2, "{}", helm.name);
    let configs = [
        json!({"text": "first"}),
        json!({"text": "second", "number": 5, "nested": {"flag": null}}),
    ];
    for ((object, release), config) in records.iter().zip(configs) {
        let revision = release.version;
        let entry = &history[usize::try_from(revision).unwrap() - 1];
        assert_eq!(entry["revision"], json!(revision));
        assert_eq!(entry["status"], json!(release.info.status));
        assert_eq!(entry["description"], json!(release.info.description));
        let number = revision.to_string();
        let get = |what: &str| helm.run(&["get", what, "web", "--revision", &number]);
        assert_eq!(get("manifest").trim(), release.manifest.trim());
        assert!(get("notes").contains(release.info.notes.trim()));
        let values = helm.json(&["get", "values", "web", "--revision", &number]);
        assert_eq!(values, Value::Object(release.config.clone()));
        assert_eq!(release.labels.get("team").map(String::as_str), Some("x"));
        // What we would have written for the same install is the same record.
        let ours = our_release(helm, revision, config, &release.info.status);
        assert_eq!(
            lasting(ours.to_json(), helm.name),
            lasting(release.to_json(), helm.name)
        );
        // And what we make of their record is their record.
        let again = match helm.driver {
            "secret" => to_secret(release),
            _ => to_config_map(release),
        };
        let again = from_object(&again.unwrap()).unwrap();
        assert_eq!(&again, release);
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["status"], json!(release.info.status));
    }
}

fn our_releases_are_read_by_helm(helm: &Helm<'_>) {
    let releases = [
        our_release(helm, 1, json!({"text": "first"}), "superseded"),
        our_release(helm, 2, json!({"text": "second"}), "deployed"),
    ];
    for release in &releases {
        let object = match helm.driver {
            "secret" => to_secret(release),
            _ => to_config_map(release),
        };
        let path = format!("/api/v1/namespaces/{}/{}", helm.namespace, helm.resource);
        helm.server.request("POST", &path, Some(&object.unwrap()));
    }
    install_objects(helm, &releases[1]);
    let latest = &releases[1];

    let listed = helm.json(&["list"]);
    assert_eq!(listed[0]["name"], "web");
    assert_eq!(listed[0]["revision"], "2");
    assert_eq!(listed[0]["status"], "deployed");
    assert_eq!(listed[0]["chart"], "web-1.2.3");
    assert_eq!(listed[0]["app_version"], "4.5");
    let status = helm.json(&["status", "web"]);
    assert_eq!(status["info"]["status"], "deployed");
    assert_eq!(status["info"]["description"], "Revision 2 by everflow");
    assert_eq!(status["info"]["notes"], json!(latest.info.notes));
    let all = helm.run(&["get", "all", "web"]);
    assert!(all.contains(latest.manifest.trim()), "{all}");
    assert_eq!(
        helm.run(&["get", "manifest", "web"]).trim(),
        latest.manifest.trim()
    );
    assert_eq!(
        helm.json(&["get", "values", "web"]),
        Value::Object(latest.config.clone())
    );
    let everything = helm.json(&["get", "values", "web", "--all"]);
    assert_eq!(everything["number"], json!(1_000_000));
    assert!(helm.run(&["get", "hooks", "web"]).contains("web-hook"));
    let metadata = helm.json(&["get", "metadata", "web"]);
    assert_eq!(metadata["version"], "1.2.3");
    let history = helm.json(&["history", "web"]);
    assert_eq!(history[0]["status"], "superseded");
    assert_eq!(history[0]["description"], "Revision 1 by everflow");
    assert_eq!(history[1]["revision"], 2);

    helm.run(&["rollback", "web", "1"]);
    let records = helm.server.records(&helm.namespace, helm.resource);
    let [first, second, third] = &records[..] else {
        panic!("{} records after a rollback", records.len());
    };
    assert_eq!(first.1.info, releases[0].info);
    assert_eq!(second.1.info.status, "superseded");
    assert_eq!(third.1.info.status, "deployed");
    assert_eq!(third.1.manifest, releases[0].manifest);
    assert_eq!(third.1.config, releases[0].config);
    let without_times = |release: &Release| {
        let mut chart = release.chart.clone();
        strip(&mut chart, "schemamodtime");
        strip(&mut chart, "modtime");
        chart
    };
    assert_eq!(without_times(&third.1), without_times(&releases[0]));

    helm.run(&["uninstall", "web", "--keep-history"]);
    let records = helm.server.records(&helm.namespace, helm.resource);
    assert_eq!(records[2].1.info.status, "uninstalled");
    assert_ne!(records[2].1.info.deleted, "");
    helm.run(&["uninstall", "web"]);
    assert!(
        helm.server
            .records(&helm.namespace, helm.resource)
            .is_empty()
    );
}

/// Puts the release's objects into the cluster, as an install would.
fn install_objects(helm: &Helm<'_>, release: &Release) {
    for document in everflow_helm::manifests::split_manifests(&release.manifest) {
        let object: Value = everflow_yaml::sigs::yaml_to_json(document.as_bytes()).unwrap();
        let mut object = object.as_object().cloned().unwrap_or_else(Map::new);
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert(
            "labels".into(),
            json!({"app.kubernetes.io/managed-by": "Helm"}),
        );
        metadata.insert(
            "annotations".into(),
            json!({
                "meta.helm.sh/release-name": "web",
                "meta.helm.sh/release-namespace": helm.namespace,
            }),
        );
        let path = format!("/api/v1/namespaces/{}/configmaps", helm.namespace);
        helm.server
            .request("POST", &path, Some(&Value::Object(object)));
    }
}
