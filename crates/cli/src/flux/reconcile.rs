//! `everflow reconcile`

use everflow_api::names::annotation;
use everflow_json::{Map, Value, json};
use everflow_runtime::client::{At, Patch, WriteOptions};

use super::connection::{Connection, Session};
use super::kinds::{self, Kind};
use super::suspend::{MANAGER, success_of};
use super::{each, in_runtime, readiness, row, say};
use crate::exit::Failure;

/// `everflow reconcile`
#[derive(clap::Args, Debug)]
#[command(after_help = kinds::HELP)]
pub struct Args {
    /// The kind (source git, kustomization, …), and the names of objects
    #[arg(value_name = "KIND NAME...")]
    words: Vec<String>,
    /// Reconcile its source first
    #[arg(long)]
    with_source: bool,
    /// Run a release action even if nothing changed (HelmReleases)
    #[arg(long)]
    force: bool,
    /// Reset the failure counts (HelmReleases)
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (kind, names) = kinds::choose_one("reconcile", &args.words)?;
    if matches!(
        kind.name(),
        "Alert" | "Provider" | "ExternalArtifact" | "ArtifactGenerator"
    ) {
        return Err(Failure::help("reconcile"));
    }
    if names.is_empty() {
        return Err(Failure::Work(format!("{} name is required", kind.name())));
    }
    in_runtime(async {
        let session = args.connection.open()?;
        let run = &Run {
            session: &session,
            args,
        };
        each(names, |name| run.with_sources(kind, name)).await
    })
}

/// The sources of an object, in the order to reconcile them.
fn sources(kind: &Kind, object: &Value) -> Vec<(&'static Kind, String, String)> {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let spec = &object["spec"];
    let find = |reference: &Value| {
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        let namespace = match text("namespace") {
            none if none.is_empty() => own.to_owned(),
            namespace => namespace,
        };
        Some((kinds::named(&text("kind"))?, namespace, text("name")))
    };
    match kind.name() {
        "Kustomization" => find(&spec["sourceRef"]).into_iter().collect(),
        "HelmRelease" => match &spec["chartRef"] {
            Value::Null => {
                let mut sources: Vec<_> = find(&spec["chart"]["spec"]["sourceRef"])
                    .into_iter()
                    .collect();
                let chart = object["status"]["helmChart"].as_str().unwrap_or_default();
                if let (Some((namespace, name)), Some(kind)) =
                    (chart.split_once('/'), kinds::named("HelmChart"))
                {
                    sources.push((kind, namespace.to_owned(), name.to_owned()));
                }
                sources
            }
            reference => find(reference).into_iter().collect(),
        },
        "HelmChart" => find(&spec["sourceRef"]).into_iter().collect(),
        _ => Vec::new(),
    }
}

struct Run<'a> {
    session: &'a Session,
    args: &'a Args,
}

impl Run<'_> {
    /// The object, after its sources where that was asked for.
    async fn with_sources(&self, kind: &Kind, name: &str) -> Result<(), Failure> {
        let namespace = &self.args.connection.namespace;
        let object = self.read(kind, namespace, name).await?;
        if self.args.with_source {
            for (kind, namespace, name) in sources(kind, &object) {
                self.reconcile(kind, &namespace, &name, false).await?;
            }
        }
        self.reconcile(kind, namespace, name, true).await
    }

    async fn read(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
        let at = At::new(namespace, name);
        let object = self.session.client.get(&kind.resource, at).await;
        object.map_err(|error| Failure::Work(self.session.told(kind, &error)))
    }

    async fn reconcile(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        is_asked_for: bool,
    ) -> Result<(), Failure> {
        let object = self.read(kind, namespace, name).await?;
        if object["spec"]["suspend"] == true {
            return Err(Failure::Work("resource is suspended".to_owned()));
        }
        if row::is_static(kind, &object) {
            say::success("reconciliation not supported by the object");
            return Ok(());
        }
        let kind_name = kind.name();
        say::action(&format!(
            "annotating {kind_name} {name} in {namespace} namespace"
        ));
        self.annotate(kind, namespace, name, is_asked_for).await?;
        say::success(&format!("{kind_name} annotated"));
        say::waiting(&format!("waiting for {kind_name} reconciliation"));
        let before = object["status"]["lastHandledReconcileAt"].clone();
        let at = At::new(namespace, name);
        let timeout = self.args.connection.timeout;
        let handled = |object: &Value| object["status"]["lastHandledReconcileAt"] != before;
        let object = readiness::wait(self.session, kind, at, timeout, handled)
            .await
            .map_err(Failure::Work)?;
        say::success(&success_of(kind, &object));
        Ok(())
    }

    async fn annotate(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        is_asked_for: bool,
    ) -> Result<(), Failure> {
        let now = self.session.clock.now().rfc3339_micro();
        let mut annotations = Map::new();
        annotations.insert(annotation::REQUESTED_AT.into(), json!(now));
        if is_asked_for && kind.name() == "HelmRelease" {
            for (asked, name) in [
                (self.args.force, annotation::FORCE_AT),
                (self.args.reset, annotation::RESET_AT),
            ] {
                if asked {
                    annotations.insert(name.into(), json!(now));
                }
            }
        }
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.session
            .client
            .patch(
                &kind.resource,
                At::new(namespace, name),
                &patch,
                &WriteOptions::by(MANAGER),
            )
            .await
            .map(drop)
            .map_err(|error| Failure::Work(error.to_string()))
    }
}
