//! `everflow suspend` and `everflow resume`

use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, Selection, WriteOptions};

use super::connection::{Connection, Session};
use super::kinds::{self, Columns, Kind};
use super::{each, in_runtime, readiness, row, say};
use crate::exit::Failure;

/// Whose fields the writes become.
pub const MANAGER: &str = "flux";

/// What to suspend or resume.
#[derive(clap::Args, Debug)]
#[command(after_help = kinds::HELP)]
pub struct Args {
    /// The kind (source git, kustomization, …), and the names of objects
    #[arg(value_name = "KIND [NAME]...")]
    words: Vec<String>,
    /// All of the namespace
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    connection: Connection,
}

/// `everflow resume`
#[derive(clap::Args, Debug)]
pub struct ResumeArgs {
    #[command(flatten)]
    common: Args,
    /// Wait until the objects are ready: the default for a single one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    wait: Option<bool>,
}

/// Runs `everflow suspend`.
pub fn suspend(args: &Args) -> Result<(), Failure> {
    let (kind, names) = chosen("suspend", args)?;
    in_runtime(async {
        let session = args.connection.open()?;
        let names = match names.is_empty() {
            false => names.to_vec(),
            true => match all_names(&session, args, kind).await? {
                none if none.is_empty() => {
                    return Err(Failure::Work("no objects found".to_owned()));
                }
                names => names,
            },
        };
        let (session, namespace) = (&session, &args.connection.namespace);
        each(&names, |name| async move {
            let known = kind.name();
            match object(session, args, kind, name).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    return Err(Failure::Work(format!(
                        "{known} {name} not found in {namespace} namespace"
                    )));
                }
                Err(error) => {
                    return Err(Failure::Work(format!(
                        "failed suspending {known} {name} in {namespace} namespace: {error}"
                    )));
                }
            }
            say::action(&format!(
                "suspending {} {name} in {namespace} namespace",
                kind.noun
            ));
            set(session, args, kind, name, true).await?;
            say::success(&format!("{} suspended", kind.noun));
            Ok(())
        })
        .await
    })
}

/// Runs `everflow resume`.
pub fn resume(args: &ResumeArgs) -> Result<(), Failure> {
    let common = &args.common;
    let (kind, names) = chosen("resume", common)?;
    in_runtime(async {
        let session = common.connection.open()?;
        let names = match names.is_empty() {
            false => names.to_vec(),
            true => all_names(&session, common, kind).await?,
        };
        let namespace = &common.connection.namespace;
        if names.is_empty() {
            let kind = kind.name();
            say::failure(&format!("no {kind} objects found in {namespace} namespace"));
            return Ok(());
        }
        let wait = args.wait.unwrap_or(names.len() == 1 && !common.all);
        let mut outcome = Ok(());
        let mut resumed = Vec::new();
        for name in &names {
            if object(&session, common, kind, name).await?.is_none() {
                let kind = kind.name();
                say::failure(&format!(
                    "{kind} object '{name}' not found in {namespace} namespace"
                ));
                outcome = Err(Failure::Reported);
                continue;
            }
            say::action(&format!(
                "resuming {} {name} in {namespace} namespace",
                kind.noun
            ));
            set(&session, common, kind, name, false).await?;
            say::success(&format!("{} resumed", kind.noun));
            resumed.push(name);
        }
        if !wait || resumed.is_empty() {
            return outcome;
        }
        let mut failed = 0;
        for name in resumed {
            if !wait_for(&session, common, kind, name).await {
                failed += 1;
            }
        }
        match failed {
            0 => outcome,
            count => Err(Failure::Work(format!(
                "reconciliation failed for {count} {}(s)",
                kind.name()
            ))),
        }
    })
}

async fn wait_for(session: &Session, args: &Args, kind: &Kind, name: &str) -> bool {
    let kind_name = kind.name();
    say::waiting(&format!("waiting for {kind_name} reconciliation"));
    let at = At::new(&args.connection.namespace, name);
    let timeout = args.connection.timeout;
    match readiness::wait(session, kind, at, timeout, |_| true).await {
        Ok(object) => {
            say::success(&format!("{kind_name} {name} reconciliation completed"));
            say::success(&success_of(kind, &object));
            true
        }
        Err(problem) => {
            say::failure(&format!(
                "{kind_name} {name} reconciliation failed: {problem}"
            ));
            false
        }
    }
}

/// What has been reached.
pub fn success_of(kind: &Kind, object: &Value) -> String {
    let revision = row::revision(kind, object);
    match kind.columns {
        Columns::Artifact => format!("fetched revision {revision}"),
        Columns::Applied | Columns::Released => format!("applied revision {revision}"),
        Columns::Scanned => {
            let tags = &object["status"]["lastScanResult"]["tagCount"];
            format!("scan fetched {} tags", tags.as_i64().unwrap_or(0))
        }
        Columns::Picked | Columns::Ran | Columns::Plain | Columns::Bare => {
            format!("{} reconciliation completed", kind.name())
        }
    }
}

fn chosen<'a>(
    verb: &'static str,
    args: &'a Args,
) -> Result<(&'static Kind, &'a [String]), Failure> {
    let (kind, names) = kinds::choose_one(verb, &args.words)?;
    if matches!(kind.name(), "ExternalArtifact" | "ArtifactGenerator") {
        return Err(Failure::help(verb));
    }
    if names.is_empty() && !args.all {
        return Err(Failure::Work(format!("{} name is required", kind.noun)));
    }
    Ok((kind, names))
}

async fn all_names(session: &Session, args: &Args, kind: &Kind) -> Result<Vec<String>, Failure> {
    let namespace = Some(args.connection.namespace.as_str());
    let list = session
        .client
        .list_all(&kind.resource, namespace, &Selection::default())
        .await
        .map_err(|error| Failure::Work(session.told(kind, &error)))?;
    let mut names: Vec<String> = list
        .items
        .iter()
        .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    names.sort_unstable();
    Ok(names)
}

async fn object(
    session: &Session,
    args: &Args,
    kind: &Kind,
    name: &str,
) -> Result<Option<Value>, Failure> {
    let at = At::new(&args.connection.namespace, name);
    match session.client.get(&kind.resource, at).await {
        Ok(object) => Ok(Some(object)),
        Err(Error::NotFound(refusal)) if refusal.details["name"].is_string() => Ok(None),
        Err(error) => Err(Failure::Work(session.told(kind, &error))),
    }
}

async fn set(
    session: &Session,
    args: &Args,
    kind: &Kind,
    name: &str,
    suspend: bool,
) -> Result<(), Failure> {
    let at = At::new(&args.connection.namespace, name);
    let value = match suspend {
        true => Value::Bool(true),
        // Without the field an object is not suspended.
        false => Value::Null,
    };
    let patch = Patch::Merge(json!({"spec": {"suspend": value}}));
    session
        .client
        .patch(&kind.resource, at, &patch, &WriteOptions::by(MANAGER))
        .await
        .map(drop)
        .map_err(|error| Failure::Work(error.to_string()))
}
