//! `everflow trace`: which objects of Flux an object of the cluster comes from.

use everflow_api::names::group;
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Resource, meta_text};
use everflow_time::Timestamp;

use super::connection::{Connection, Session};
use super::row::condition;
use super::{in_runtime, kinds, resources, say};
use crate::exit::Failure;
use crate::output::print_text;

/// How far up owners are followed.
const HIGHEST: usize = 16;

/// `everflow trace`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The objects: KIND NAME..., or KIND/NAME...; with --kind and --api-version only the name
    #[arg(value_name = "OBJECT")]
    words: Vec<String>,
    /// The kind of the object, with --api-version
    #[arg(long, value_name = "KIND", default_value = "")]
    kind: String,
    /// Group and version of the kind
    #[arg(long, value_name = "VERSION", default_value = "")]
    api_version: String,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(async {
        let session = args.connection.open()?;
        let objects = match args.kind.is_empty() && args.api_version.is_empty() {
            true => by_words(args, &session).await?,
            false => vec![by_flags(args, &session).await?],
        };
        let last = objects.len().saturating_sub(1);
        for (number, object) in objects.iter().enumerate() {
            if let Err(why) = trace(&session, object).await {
                let (kind, name) = (object["kind"].as_str(), meta_text(object, "name"));
                say::plain(&format!(
                    "failed to trace {}/{name} in namespace {}: {why}",
                    kind.unwrap_or_default(),
                    meta_text(object, "namespace")
                ));
            }
            if number < last {
                print_text("---\n")?;
            }
        }
        Ok(())
    })
}

fn work(text: impl Into<String>) -> Failure {
    Failure::Work(text.into())
}

async fn by_flags(args: &Args, session: &Session) -> Result<Value, Failure> {
    let Some(name) = args.words.first() else {
        return Err(work("object name is required"));
    };
    if args.kind.is_empty() {
        return Err(work("object kind is required (--kind)"));
    }
    if args.api_version.is_empty() {
        return Err(work("object apiVersion is required (--api-version)"));
    }
    let missing = |error: Error| work(format!("failed to find object: {error}"));
    let resource = session
        .client
        .resource(&args.api_version, &args.kind)
        .await
        .map_err(missing)?;
    get(args, session, &resource, name).await.map_err(missing)
}

async fn get(
    args: &Args,
    session: &Session,
    resource: &Resource,
    name: &str,
) -> Result<Value, Error> {
    let namespace = match resource.namespaced {
        true => args.connection.namespace.as_str(),
        false => "",
    };
    session.client.get(resource, At::new(namespace, name)).await
}

async fn by_words(args: &Args, session: &Session) -> Result<Vec<Value>, Failure> {
    let pairs: Vec<(&str, &str)> = match args.words.split_first() {
        Some((first, [])) if !first.contains('/') => Vec::new(),
        Some((first, names)) if !first.contains('/') => names
            .iter()
            .map(|name| (first.as_str(), name.as_str()))
            .collect(),
        _ => args
            .words
            .iter()
            .filter_map(|word| word.split_once('/'))
            .collect(),
    };
    if pairs.is_empty() {
        return Err(work(
            "either `<resource>/<name>` or `<resource> <name>` is required as an argument",
        ));
    }
    let mut objects = Vec::new();
    for (kind, name) in pairs {
        let resource = resources::find(session, kind).await?;
        let object = get(args, session, &resource, name).await;
        objects.push(object.map_err(|error| work(format!("x: {error}")))?);
    }
    Ok(objects)
}

/// The object of Flux that labels name, of the object itself or of one of its owners.
async fn owner(session: &Session, object: &Value, group: &str) -> Option<(String, String)> {
    let named = |object: &Value| {
        let label = |end: &str| {
            let label = &object["metadata"]["labels"][format!("{group}/{end}").as_str()];
            label.as_str().map(str::to_owned)
        };
        Some((label("namespace").unwrap_or_default(), label("name")?))
    };
    let mut current = object.clone();
    for _ in 0..HIGHEST {
        if let Some(found) = named(&current) {
            return Some(found);
        }
        let reference = &current["metadata"]["ownerReferences"][0];
        let version = reference["apiVersion"].as_str()?;
        let resource = session
            .client
            .resource(version, reference["kind"].as_str()?);
        let resource = resource.await.ok()?;
        let at = At::new(meta_text(object, "namespace"), reference["name"].as_str()?);
        current = session.client.get(&resource, at).await.ok()?;
    }
    None
}

async fn trace(session: &Session, object: &Value) -> Result<(), String> {
    let mut report = Report::default();
    if let Some(at) = owner(session, object, group::KUSTOMIZE).await {
        report.width = "Kustomization:   ".len();
        report.object(object);
        let kustomization = read(session, "Kustomization", &at).await?;
        report.kustomization(&kustomization);
        let reference = source(&kustomization, &kustomization["spec"]["sourceRef"]);
        report.source(session, reference).await?;
    } else if let Some(at) = owner(session, object, group::HELM).await {
        report.width = "HelmRepository: ".len();
        report.object(object);
        let release = read(session, "HelmRelease", &at).await?;
        report.release(session, &release).await?;
    } else {
        return Err("object not managed by Flux".to_owned());
    }
    print_text(&report.text).map_err(|failure| failure.to_string())
}

async fn read(session: &Session, kind: &str, at: &(String, String)) -> Result<Value, String> {
    let known = kinds::named(kind).ok_or_else(|| format!("{kind} is no kind of Flux"))?;
    let what = match kind {
        "Kustomization" => "kustomization",
        kind => kind,
    };
    let (namespace, name) = at;
    let found = session
        .client
        .get(&known.resource, At::new(namespace, name));
    found
        .await
        .map_err(|error| format!("failed to find {what}: {error}"))
}

/// Kind and place of the source that an object refers to.
fn source(object: &Value, reference: &Value) -> (String, (String, String)) {
    let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    let namespace = match text("namespace") {
        none if none.is_empty() => meta_text(object, "namespace").to_owned(),
        namespace => namespace,
    };
    (text("kind"), (namespace, text("name")))
}

/// What is printed, in sections.
#[derive(Default)]
struct Report {
    text: String,
    /// Where values begin.
    width: usize,
}

impl Report {
    fn line(&mut self, name: &str, value: &str) {
        let label = format!("{name}:");
        self.text
            .push_str(&format!("{label:<width$}{value}\n", width = self.width));
    }

    fn value(&mut self, name: &str, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.line(name, text);
        }
    }

    fn object(&mut self, object: &Value) {
        let kind = object["kind"].as_str().unwrap_or_default();
        self.text.push('\n');
        self.line("Object", &format!("{kind}/{}", meta_text(object, "name")));
        self.value("Namespace", &object["metadata"]["namespace"]);
        self.line("Status", "Managed by Flux");
    }

    fn begin(&mut self, kind: &str, object: &Value) {
        self.text.push_str("---\n");
        self.line(kind, meta_text(object, "name"));
        self.line("Namespace", meta_text(object, "namespace"));
    }

    fn end(&mut self, object: &Value) {
        let Some(ready) = condition(object, "Ready") else {
            return self.line("Status", "Unknown");
        };
        let verb = match object["kind"] != "Kustomization"
            && object["kind"] != "HelmRelease"
            && ready["status"] == "False"
        {
            true => "Last reconciliation failed at",
            false => "Last reconciled at",
        };
        let moment = ready["lastTransitionTime"].as_str().unwrap_or_default();
        self.line("Status", &format!("{verb} {}", in_go(moment)));
        self.line("Message", ready["message"].as_str().unwrap_or_default());
    }

    fn kustomization(&mut self, object: &Value) {
        self.begin("Kustomization", object);
        self.value("Target", &object["spec"]["targetNamespace"]);
        let path = object["spec"]["path"].as_str().unwrap_or_default();
        self.line("Path", path);
        let revision = object["status"]["lastAppliedRevision"].as_str();
        self.line("Revision", revision.unwrap_or_default());
        self.end(object);
    }

    async fn release(&mut self, session: &Session, object: &Value) -> Result<(), String> {
        self.begin("HelmRelease", object);
        self.value("Target", &object["spec"]["targetNamespace"]);
        let revision = object["status"]["lastAttemptedRevision"].as_str();
        self.line("Revision", revision.unwrap_or_default());
        self.end(object);
        let chart = object["status"]["helmChart"].as_str().unwrap_or_default();
        if let Some((namespace, name)) = chart.split_once('/') {
            let at = (namespace.to_owned(), name.to_owned());
            let chart = read(session, "HelmChart", &at).await?;
            self.begin("HelmChart", &chart);
            self.value("Chart", &chart["spec"]["chart"]);
            self.value("Version", &chart["spec"]["version"]);
            self.value("Revision", &chart["status"]["artifact"]["revision"]);
            self.end(&chart);
        }
        let reference = match &object["spec"]["chart"]["spec"]["sourceRef"] {
            Value::Null => &object["spec"]["chartRef"],
            reference => reference,
        };
        let (kind, at) = source(object, reference);
        // A HelmChart that is named directly was not made by the release.
        if kind == "HelmChart" {
            let chart = read(session, &kind, &at).await?;
            let (kind, at) = source(&chart, &chart["spec"]["sourceRef"]);
            return self.source(session, (kind, at)).await;
        }
        self.source(session, (kind, at)).await
    }

    async fn source(
        &mut self,
        session: &Session,
        (kind, at): (String, (String, String)),
    ) -> Result<(), String> {
        if kinds::named(&kind).is_none_or(|kind| !kind.is_source()) {
            return Ok(());
        }
        let object = read(session, &kind, &at).await?;
        let spec = &object["spec"];
        self.begin(&kind, &object);
        self.value("URL", &spec["url"]);
        self.value("Bucket", &spec["bucketName"]);
        if kind == "ExternalArtifact" {
            let (kind, (namespace, name)) = source(&object, &spec["sourceRef"]);
            self.line("Source", &format!("{kind}/{namespace}/{name}"));
        }
        let fields = [
            ("Tag", "tag"),
            ("Tag", "semver"),
            ("Branch", "branch"),
            ("Digest", "digest"),
        ];
        let given = fields
            .into_iter()
            .find(|(_, field)| spec["ref"][*field].is_string());
        if let Some((label, field)) = given {
            self.value(label, &spec["ref"][field]);
        }
        let artifact = &object["status"]["artifact"];
        self.value("Revision", &artifact["revision"]);
        for (label, name) in [
            ("Origin Source", "org.opencontainers.image.source"),
            ("Origin Revision", "org.opencontainers.image.revision"),
        ] {
            self.value(label, &artifact["metadata"][name]);
        }
        self.end(&object);
        Ok(())
    }
}

/// A moment as Go prints it.
fn in_go(text: &str) -> String {
    match Timestamp::parse(text) {
        Some(moment) => {
            let text = moment.rfc3339();
            let text = text.trim_end_matches('Z').replacen('T', " ", 1);
            format!("{text} +0000 UTC")
        }
        None => text.to_owned(),
    }
}
