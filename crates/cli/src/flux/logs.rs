//! `everflow logs`

use std::io::Write as _;
use std::time::Duration;

use everflow_json::Value;
use everflow_runtime::client::{At, Client, Resource, Selection};
use everflow_time::Timestamp;
use tokio::sync::mpsc;

use super::connection::Connection;
use super::{duration, in_runtime, say};
use crate::exit::Failure;
use crate::output::print_text;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
/// The label of the controllers.
const LABEL: &str = "app.kubernetes.io/part-of=flux";
/// The container of a controller among others in its pod.
const CONTAINER: &str = "manager";

/// `everflow logs`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(hide = true)]
    words: Vec<String>,
    /// Of objects in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// The namespace of the controllers
    #[arg(long, value_name = "NAME", default_value = "flux-system")]
    flux_namespace: String,
    /// Keep running and print new ones
    #[arg(short, long)]
    follow: bool,
    /// Only of objects of this kind
    #[arg(long, value_name = "KIND", default_value = "")]
    kind: String,
    /// Only of objects of this name
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// Only this level: debug, info, error
    #[arg(long, value_name = "LEVEL", default_value = "")]
    level: String,
    /// Print nothing older than this
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
    /// Print nothing before this time
    #[arg(long, value_name = "TIME", default_value = "")]
    since_time: String,
    /// Print at most this many lines
    #[arg(long, value_name = "COUNT", allow_hyphen_values = true)]
    tail: Option<i64>,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let level = &args.level;
    if !["", "debug", "info", "error"].contains(&level.as_str()) {
        return Err(Failure::Work(format!(
            "invalid argument {level:?} for \"--level\" flag: unsupported log level '{level}', \
             must be one of: debug, info, error"
        )));
    }
    in_runtime(async {
        let session = args.connection.open()?;
        if !args.words.is_empty() {
            return Err(Failure::Work("no argument required".to_owned()));
        }
        let pods = pods(&session.client, &args.flux_namespace).await?;
        let query = query(args)?;
        let targets: Vec<String> = pods.iter().map(|pod| target(pod, &query)).collect();
        let filter = Filter {
            level: args.level.clone(),
            kind: args.kind.clone(),
            name: args.name.clone(),
            namespace: (!args.all_namespaces).then(|| args.connection.namespace.clone()),
        };
        match args.follow {
            true => follow(&session.client, targets, &filter).await,
            false => print(&session.client, &targets, &filter).await,
        }
    })
}

/// The pod of each controller that has most to say.
async fn pods(client: &Client, namespace: &str) -> Result<Vec<Value>, Failure> {
    let list = async |resource: &Resource, labels: &str| {
        let selection = Selection::labelled(labels);
        let list = client.list_all(resource, Some(namespace), &selection).await;
        list.map_err(|error| Failure::Work(error.to_string()))
    };
    let mut found = Vec::new();
    for deployment in list(&DEPLOYMENTS, LABEL).await?.items {
        let labels = deployment["spec"]["template"]["metadata"]["labels"].as_object();
        let labels: Vec<String> = labels
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
            .collect();
        let pods = list(&PODS, &labels.join(",")).await?.items;
        found.extend(pods.into_iter().min_by_key(standing));
    }
    match found.is_empty() {
        true => Err(Failure::Work(format!(
            "no Flux pods found in namespace {namespace:?}\n\
             → --flux-namespace names another one; pods are those of Deployments with the label {LABEL}"
        ))),
        false => Ok(found),
    }
}

/// How a pod stands, the one with most to say first.
fn standing(pod: &Value) -> (bool, usize, bool, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let phases = ["Running", "Unknown", "Pending"];
    let phase = &pod["status"]["phase"];
    let phase = phases.iter().position(|known| phase == known);
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    (
        text(&pod["spec"]["nodeName"]).is_empty(),
        phase.unwrap_or(phases.len()),
        !is_ready,
        text(&pod["metadata"]["creationTimestamp"]),
    )
}

fn query(args: &Args) -> Result<String, Failure> {
    let mut query = Vec::new();
    if args.follow {
        query.push("follow=true".to_owned());
    }
    if let Some(tail) = args.tail.filter(|tail| *tail >= 0) {
        query.push(format!("tailLines={tail}"));
    }
    let since = args.since.filter(|since| !since.is_zero());
    if !args.since_time.is_empty() && since.is_some() {
        return Err(Failure::Work(
            "at most one of `sinceTime` or `sinceDuration` may be specified".to_owned(),
        ));
    }
    if !args.since_time.is_empty() {
        let moment = Timestamp::parse(&args.since_time).ok_or_else(|| {
            Failure::Work(format!("{} is not a valid (RFC3339) time", args.since_time))
        })?;
        query.push(format!("sinceTime={}", moment.rfc3339()));
    }
    if let Some(since) = since {
        query.push(format!("sinceSeconds={}", since.as_secs_f64().round()));
    }
    Ok(query.join("&"))
}

/// Where the log of a pod is.
fn target(pod: &Value, query: &str) -> String {
    let containers = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let container = match containers > 1 {
        true => format!("container={CONTAINER}"),
        false => String::new(),
    };
    let parts = [container.as_str(), query];
    let parts = parts.iter().filter(|part| !part.is_empty());
    let query = parts.copied().collect::<Vec<_>>().join("&");
    format!("{}/log?{query}", PODS.object_path(&At::of(pod)))
}

/// One log after the other.
async fn print(client: &Client, targets: &[String], filter: &Filter) -> Result<(), Failure> {
    let mut all_read = true;
    for target in targets {
        let read = async {
            let mut lines = client.lines(target).await?;
            while let Some(line) = lines.next().await? {
                if let Some(shown) = filter.shown(&line) {
                    let _ = print_text(&shown);
                }
            }
            Ok::<(), everflow_runtime::Error>(())
        };
        if let Err(error) = read.await {
            // Nobody to tell is no reason to stop.
            let _ = writeln!(std::io::stderr(), "failed getting logs: {error}");
            let _ = writeln!(std::io::stderr(), "→ {}", remedy(target));
            all_read = false;
        }
    }
    match all_read {
        true => Ok(()),
        false => Err(Failure::Work(
            "failed to collect logs from all Flux pods".to_owned(),
        )),
    }
}

/// All logs at once, for as long as they go on.
async fn follow(client: &Client, targets: Vec<String>, filter: &Filter) -> Result<(), Failure> {
    let (sender, mut received) = mpsc::channel(64);
    for target in targets {
        let (client, sender) = (client.clone(), sender.clone());
        tokio::spawn(async move {
            let read = async {
                let mut lines = client.lines(&target).await?;
                while let Some(line) = lines.next().await? {
                    if sender.send(Ok(line)).await.is_err() {
                        break;
                    }
                }
                Ok::<(), everflow_runtime::Error>(())
            };
            if let Err(error) = read.await {
                let told = format!("failed getting logs: {error}\n→ {}", remedy(&target));
                let _ = sender.send(Err(told)).await;
            }
        });
    }
    drop(sender);
    while let Some(line) = received.recv().await {
        match line {
            Ok(line) => {
                if let Some(shown) = filter.shown(&line) {
                    print_text(&shown)?;
                }
            }
            Err(told) => say::failure(&told),
        }
    }
    Ok(())
}

/// What to do about a log that cannot be read.
fn remedy(target: &str) -> String {
    let mut parts = target.split('/').skip_while(|part| *part != "namespaces");
    let namespace = parts.nth(1).unwrap_or_default();
    let pod = parts.nth(1).unwrap_or_default();
    format!("kubectl -n {namespace} describe pod {pod} says why it does not run")
}

/// Which lines are shown. An empty text asks for nothing.
#[derive(Debug, Default)]
struct Filter {
    level: String,
    kind: String,
    name: String,
    /// Of one namespace; of all without it.
    namespace: Option<String>,
}

impl Filter {
    /// A line of a controller as flux shows it; `None` when it is not asked for, or no such line.
    fn shown(&self, line: &str) -> Option<String> {
        if !line.starts_with('{') {
            return None;
        }
        let line: Value = match everflow_json::from_str(line) {
            Ok(line) => line,
            Err(error) => {
                say::failure(&format!("parse error: {error}"));
                return None;
            }
        };
        let text = |field: &str| line[field].as_str().unwrap_or_default();
        let kinds = [text("reconciler kind"), text("controllerKind")];
        let (name, namespace) = (text("name"), text("namespace"));
        let is_asked_for = (self.level.is_empty() || self.level == text("level"))
            && (self.kind.is_empty() || kinds.iter().any(|kind| same(kind, &self.kind)))
            && (self.name.is_empty() || same(name, &self.name))
            && self
                .namespace
                .as_ref()
                .is_none_or(|own| same(namespace, own));
        let kind = kinds.into_iter().find(|kind| !kind.is_empty());
        let object = match name.is_empty() {
            true => String::new(),
            false => format!("/{name}.{namespace}"),
        };
        is_asked_for.then(|| {
            format!(
                "{} {} {}{object} - {} {}\n",
                text("ts"),
                text("level"),
                kind.unwrap_or_default(),
                text("msg"),
                text("error"),
            )
        })
    }
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    const LINE: &str = r#"{"level":"error","ts":"2026-11-16T10:00:00.000Z","msg":"Reconciler error","controllerKind":"Kustomization","name":"apps","namespace":"flux-system","error":"no path"}"#;

    #[test]
    fn lines_are_shown_as_flux_shows_them() {
        let shown = "2026-11-16T10:00:00.000Z error Kustomization/apps.flux-system - Reconciler error no path\n";
        assert_eq!(Filter::default().shown(LINE).as_deref(), Some(shown));
        let bare = r#"{"level":"info","ts":"T","msg":"starting"}"#;
        assert_eq!(
            Filter::default().shown(bare).as_deref(),
            Some("T info  - starting \n")
        );
        assert_eq!(Filter::default().shown("I1116 klog line"), None);
    }

    #[test]
    fn log_filters_drop_unmatched_lines() {
        let filter = |level: &str, kind: &str, name: &str, namespace: Option<&str>| Filter {
            level: level.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        for (filter, is_shown) in [
            (filter("error", "", "", None), true),
            (filter("info", "", "", None), false),
            (filter("", "kustomization", "", None), true),
            (filter("", "GitRepository", "", None), false),
            (filter("", "", "apps", Some("flux-system")), true),
            (filter("", "", "infra", None), false),
            (filter("", "", "", Some("apps")), false),
        ] {
            assert_eq!(filter.shown(LINE).is_some(), is_shown, "{filter:?}");
        }
    }

    #[test]
    fn the_pod_that_runs_is_chosen_and_its_container_named() {
        let pod = |name: &str, phase: &str, containers: Value| {
            json!({"metadata": {"name": name, "namespace": "flux-system"},
                "spec": {"nodeName": "n", "containers": containers}, "status": {"phase": phase}})
        };
        let pending = pod("a", "Pending", json!([{}]));
        let running = pod("b", "Running", json!([{}, {}]));
        let pods = [&pending, &running];
        let best = pods.into_iter().min_by_key(|pod| standing(pod));
        assert_eq!(best.map(|pod| &pod["metadata"]["name"]), Some(&json!("b")));
        assert_eq!(
            target(&running, "tailLines=5"),
            "/api/v1/namespaces/flux-system/pods/b/log?container=manager&tailLines=5"
        );
        assert_eq!(
            target(&pending, ""),
            "/api/v1/namespaces/flux-system/pods/a/log?"
        );
    }
}
