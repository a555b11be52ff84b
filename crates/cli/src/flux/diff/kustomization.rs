//! `everflow diff kustomization`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use everflow_api::inventory::ObjectId;
use everflow_api::kustomization::Kustomization;
use everflow_api::names::{annotation, manager};
use everflow_api::object::Object;
use everflow_json::{Map, Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, WriteOptions};

use super::report;
use crate::exit::Failure;
use crate::flux::build::{self, KustomizationArgs, Work, is_kustomization};
use crate::flux::connection::Session;
use crate::flux::go_flags::go_bool;
use crate::flux::{in_runtime, kinds, say};
use crate::output::print_text;
use crate::progress::Spinner;

/// How deep Kustomizations may be nested.
const DEEPEST: usize = 30;

/// `everflow diff kustomization`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    build: KustomizationArgs,
    /// Show progress
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = go_bool
    )]
    progress_bar: bool,
    /// Treat a Kustomization that is not in the cluster as new
    #[arg(long)]
    ignore_not_found: bool,
}

/// Runs the verb: 0 when nothing would change, 1 when something would, 2 when it cannot be told.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.build.name else {
        return Err(Failure::Work("kustomization name is required".to_owned()));
    };
    let path = &args.build.path;
    if path.is_empty() || !Path::new(path).is_dir() {
        return Err(Failure::Usage(format!("invalid resource path {path:?}")));
    }
    let directory = build::directory(&args.build)?;
    let spinner = Spinner::start("comparing with the cluster", args.progress_bar);
    let compared = in_one(args, name, directory);
    drop(spinner);
    let (text, changed) = compared.map_err(|failure| match failure {
        Failure::Work(why) => Failure::Usage(why),
        failure => failure,
    })?;
    print_text(&text)?;
    match changed {
        false => Ok(()),
        true => {
            say::warning("identified at least one change, exiting with non-zero exit code");
            Err(Failure::Reported)
        }
    }
}

fn in_one(args: &Args, name: &str, directory: PathBuf) -> Result<(String, bool), Failure> {
    let mut outcome = (String::new(), false);
    in_runtime(async {
        let session = args.build.connection.open()?;
        let compare = Compare {
            args,
            session: &session,
        };
        let namespace = &args.build.connection.namespace;
        let live = compare.live(namespace, name).await?;
        let asked = match live.is_null() {
            // It is new: only the file tells of it.
            true => build::kustomization(&args.build, name, None).await,
            false => build::kustomization(&args.build, name, Some(&session)).await,
        };
        let object = asked
            .map_err(|why| Failure::Work(format!("failed to get kustomization object: {why}")))?;
        outcome = compare.one(directory, object, live, 0).await?;
        Ok(())
    })?;
    Ok(outcome)
}

struct Compare<'a> {
    args: &'a Args,
    session: &'a Session,
}

/// What was found: the report, and whether anything would change.
type Compared<'c> = Pin<Box<dyn Future<Output = Result<(String, bool), Failure>> + 'c>>;

impl Compare<'_> {
    /// The Kustomization in the cluster; null where it is missing and may be.
    async fn live(&self, namespace: &str, name: &str) -> Result<Value, Failure> {
        let kind = kinds::required("Kustomization")?;
        match self
            .session
            .client
            .get(&kind.resource, At::new(namespace, name))
            .await
        {
            Ok(object) => Ok(object),
            Err(Error::NotFound(_)) if self.args.ignore_not_found => Ok(Value::Null),
            Err(error) => Err(Failure::Work(format!(
                "failed to get kustomization object: {}",
                self.session.told_of(&error)
            ))),
        }
    }

    fn one(
        &self,
        directory: PathBuf,
        object: Object<Kustomization>,
        live: Value,
        depth: usize,
    ) -> Compared<'_> {
        Box::pin(async move {
            let prunes = object.spec.prune;
            let own = (
                object.metadata.namespace.clone(),
                object.metadata.name.clone(),
            );
            let work = Work::new(&self.args.build, Some(self.session));
            let objects = work.one(&directory, object).await?;
            let (mut text, mut changed) = (String::new(), false);
            let mut ids = BTreeSet::new();
            for object in &objects {
                let id = ObjectId::of(object);
                let subject = id.subject();
                let step = self.step(object).await?;
                match &step {
                    Step::Same => {}
                    Step::Skipped => text.push_str(&format!("► {subject} skipped\n")),
                    Step::Created => text.push_str(&format!("► {subject} created\n")),
                    Step::Drifted(report) => {
                        text.push_str(&format!("► {subject} drifted\n\n{report}"));
                    }
                }
                changed |= matches!(step, Step::Created | Step::Drifted(_));
                ids.insert(id.to_string());
                let nests = self.args.build.recursive && is_kustomization(object);
                if nests && !matches!(step, Step::Created) {
                    let nested: Object<Kustomization> =
                        Object::read(object).map_err(|error| Failure::Work(error.to_string()))?;
                    let place = (
                        nested.metadata.namespace.clone(),
                        nested.metadata.name.clone(),
                    );
                    if place == own {
                        continue;
                    }
                    let (below, differs) = self.nested(&work, nested, &subject, depth).await?;
                    text.push_str(&below);
                    changed |= differs;
                }
            }
            if prunes {
                let entries = live["status"]["inventory"]["entries"].as_array();
                for entry in entries.into_iter().flatten() {
                    let Some(id) = entry["id"].as_str().filter(|id| !ids.contains(*id)) else {
                        continue;
                    };
                    if let Ok(id) = id.parse::<ObjectId>() {
                        text.push_str(&format!("► {} deleted\n", id.subject()));
                        changed = true;
                    }
                }
            }
            Ok((text, changed))
        })
    }

    async fn nested(
        &self,
        work: &Work<'_>,
        nested: Object<Kustomization>,
        subject: &str,
        depth: usize,
    ) -> Result<(String, bool), Failure> {
        if nested.spec.kube_config.is_some() {
            let text = format!("⚠️ {subject} skipped: diff not supported for remote clusters\n");
            return Ok((text, false));
        }
        if depth == DEEPEST {
            return Err(Failure::Work(format!(
                "{subject} is nested more than {DEEPEST} levels deep: do Kustomizations contain one \
                 another?"
            )));
        }
        let directory = work.directory_of(&nested)?;
        let namespace = nested.metadata.namespace.clone().unwrap_or_default();
        let live = self.live(&namespace, &nested.metadata.name).await?;
        let (below, changed) = self.one(directory, nested, live, depth + 1).await?;
        Ok(match changed {
            true => (format!("📁 {subject} changed\n{below}"), true),
            false => (String::new(), false),
        })
    }

    /// What applying an object would do, by a rehearsal on the server.
    async fn step(&self, object: &Value) -> Result<Step, Failure> {
        let subject = ObjectId::of(object).subject();
        let failed = |error: Error| Failure::Work(format!("{subject} dry-run failed: {error}"));
        let mark = |name: &str| {
            object["metadata"]["annotations"][name]
                .as_str()
                .unwrap_or_default()
        };
        let policy = mark(annotation::SERVER_SIDE_APPLY);
        if mark(annotation::RECONCILE).eq_ignore_ascii_case("disabled")
            || policy.eq_ignore_ascii_case("ignore")
        {
            return Ok(Step::Skipped);
        }
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let client = &self.session.client;
        let resource = match client.resource(text("apiVersion"), text("kind")).await {
            Ok(resource) => resource,
            Err(error) => return Err(failed(error)),
        };
        let at = At::of(object);
        let live = match client.get(&resource, at).await {
            Ok(live) => live,
            Err(Error::NotFound(_)) => Value::Null,
            Err(error) => return Err(failed(error)),
        };
        if !live.is_null() && policy.eq_ignore_ascii_case("ifnotpresent") {
            return Ok(Step::Same);
        }
        // What is encrypted cannot be compared, only which keys there are.
        if object.get("sops").is_some() {
            return Ok(encrypted(object, &live));
        }
        let by = WriteOptions::by(manager::KUSTOMIZE).force().dry_run();
        let merged = client
            .patch(&resource, at, &Patch::Apply(object.clone()), &by)
            .await
            .map_err(failed)?;
        if live.is_null() {
            return Ok(Step::Created);
        }
        let (live, merged) = (comparable(live), comparable(merged));
        let (live, merged) = match object["kind"] == "Secret" {
            true => hidden(live, merged),
            false => (live, merged),
        };
        Ok(match live == merged {
            true => Step::Same,
            false => Step::Drifted(report::changes(&live, &merged)),
        })
    }
}

/// What applying an object would do.
enum Step {
    Same,
    Skipped,
    Created,
    Drifted(String),
}

/// What people look at: neither status nor what the server keeps for itself.
pub fn comparable(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in [
            "managedFields",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "uid",
            "selfLink",
        ] {
            meta.remove(field);
        }
    }
    object
}

/// The values of two Secrets, of which only is shown whether they are the same.
fn hidden(mut live: Value, mut merged: Value) -> (Value, Value) {
    for field in ["data", "stringData"] {
        let before = live[field].as_object().cloned().unwrap_or_default();
        let after = merged[field].as_object().cloned().unwrap_or_default();
        let cover = |own: &Map, other: &Map, mark: &str| {
            let mut covered = Map::new();
            for (key, value) in own.iter() {
                let same = other.get(key).is_none_or(|other| other == value);
                let text = match same {
                    true => "*****".to_owned(),
                    false => format!("***** ({mark})"),
                };
                covered.insert(key.as_str().into(), json!(text));
            }
            Value::Object(covered)
        };
        if !before.is_empty() {
            live[field] = cover(&before, &after, "before");
        }
        if !after.is_empty() {
            merged[field] = cover(&after, &before, "after");
        }
    }
    (live, merged)
}

/// Whether an encrypted object has other keys than the one in the cluster.
fn encrypted(object: &Value, live: &Value) -> Step {
    if live.is_null() {
        return Step::Created;
    }
    let keys = |object: &Value| {
        let fields = ["data", "stringData"].into_iter();
        let maps = fields.filter_map(|field| object[field].as_object());
        let keys: BTreeSet<String> = maps
            .flat_map(Map::keys)
            .map(|key| key.to_string())
            .collect();
        keys
    };
    let (own, there) = (keys(object), keys(live));
    if own == there {
        return Step::Same;
    }
    let shown = |keys: &BTreeSet<String>| {
        let mut data = Map::new();
        for key in keys {
            data.insert(key.as_str().into(), json!("*****"));
        }
        json!({"data": data})
    };
    Step::Drifted(report::changes(&shown(&there), &shown(&own)))
}
