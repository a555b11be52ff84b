//! `everflow build kustomization`

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_build::{Error, Request};
use everflow_fetch::archive::ignore::{Ignore, read_patterns};
use everflow_runtime::client::At;
use everflow_yaml::documents::yaml_or_json_decoder;
use everflow_yaml::emit;
use serde_json::{Value, json};

use super::connection::{Connection, Session};
use super::disk_tree::DiskTree;
use super::in_runtime;
use super::kinds;
use crate::exit::Failure;
use crate::output::print_text;

/// What stands in the place of values that are encrypted.
const MASK: &str = "**SOPS**";

/// `everflow build`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to build.
#[derive(Subcommand, Debug)]
enum What {
    /// Build a Kustomization from a local directory
    #[command(visible_alias = "ks")]
    Kustomization(KustomizationArgs),
}

/// `everflow build kustomization`
#[derive(clap::Args, Debug)]
struct KustomizationArgs {
    /// The name of the Kustomization
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The directory to build, which `spec.path` stands for
    #[arg(long, value_name = "DIR", default_value = "")]
    path: String,
    /// A file with the Kustomization; without it, it is read from the cluster
    #[arg(long, value_name = "FILE")]
    kustomization_file: Option<PathBuf>,
    /// Ask no cluster: variables of ConfigMaps and Secrets are left out
    #[arg(long)]
    dry_run: bool,
    /// Fail where a variable has no value and no default
    #[arg(long)]
    strict_substitute: bool,
    /// Files to leave out, as .sourceignore has them
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    ignore_paths: Vec<String>,
    /// Accepted for compatibility: nothing is ever written to disk
    #[arg(long, hide = true)]
    in_memory_build: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let What::Kustomization(args) = &args.what;
    let Some(name) = &args.name else {
        return Err(Failure::Work("kustomization name is required".to_owned()));
    };
    let directory = directory(args)?;
    if args.dry_run && args.kustomization_file.is_none() {
        return Err(Failure::Work(
            "dry-run mode requires a kustomization file".to_owned(),
        ));
    }
    if let Some(file) = &args.kustomization_file
        && !file.is_file()
    {
        let file = file.display().to_string();
        return Err(Failure::Work(format!(
            "invalid kustomization file {file:?}"
        )));
    }
    in_runtime(async {
        let session = match args.dry_run {
            true => None,
            false => Some(args.connection.open()?),
        };
        let object = kustomization(args, name, session.as_ref())
            .await
            .map_err(|text| Failure::Work(format!("failed to get kustomization object: {text}")))?;
        let text = build(args, &directory, object, session.as_ref()).await?;
        print_text(&text)
    })
}

fn directory(args: &KustomizationArgs) -> Result<PathBuf, Failure> {
    let invalid = |path: &Path| {
        Failure::Work(format!(
            "invalid resource path {:?}",
            path.display().to_string()
        ))
    };
    if args.path.is_empty() {
        return Err(invalid(Path::new("")));
    }
    let path = std::path::absolute(&args.path)?;
    let path: PathBuf = path.components().collect();
    match fs::canonicalize(&path) {
        Ok(real) if real.is_dir() => Ok(real),
        _ => Err(invalid(&path)),
    }
}

/// The Kustomization: of the cluster, with what the file says in its place.
async fn kustomization(
    args: &KustomizationArgs,
    name: &str,
    session: Option<&Session>,
) -> Result<Object<Kustomization>, String> {
    let namespace = &args.connection.namespace;
    let live = match session {
        Some(session) => Some(live(session, namespace, name).await?),
        None => None,
    };
    let value = match (&args.kustomization_file, live) {
        (None, Some(live)) => live,
        (None, None) => return Err("a file or a cluster is needed".to_owned()),
        (Some(file), live) => {
            let own = in_file(file, namespace, name)?;
            match live {
                None => own,
                Some(mut live) => {
                    live["spec"] = own["spec"].clone();
                    live
                }
            }
        }
    };
    let value = json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": value["spec"],
    });
    Object::read(&value).map_err(|error| error.to_string())
}

async fn live(session: &Session, namespace: &str, name: &str) -> Result<Value, String> {
    let kind = kinds::named("Kustomization").ok_or("unknown kind")?;
    let object = session
        .client
        .get(&kind.resource, At::new(namespace, name))
        .await;
    object.map_err(|error| error.to_string())
}

fn in_file(file: &Path, namespace: &str, name: &str) -> Result<Value, String> {
    let shown = file.display();
    let content = fs::read(file)
        .map_err(|_| format!("invalid kustomization file {:?}", shown.to_string()))?;
    for document in yaml_or_json_decoder(&content) {
        let object = document
            .and_then(|document| document.into_object())
            .map_err(|error| format!("{shown}: {error}"))?;
        let Some(object) = object else { continue };
        let meta = &object["metadata"];
        let own = meta["namespace"].as_str().unwrap_or(namespace);
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        if object["kind"] == "Kustomization"
            && api_version.starts_with("kustomize.toolkit.fluxcd.io/")
            && meta["name"] == name
            && own == namespace
        {
            return Ok(object);
        }
    }
    Err(format!(
        "failed find kustomization with name '{name}' and namespace '{namespace}' in file '{shown}'"
    ))
}

async fn build(
    args: &KustomizationArgs,
    directory: &Path,
    mut object: Object<Kustomization>,
    session: Option<&Session>,
) -> Result<String, Failure> {
    let root = source_root(directory)?;
    let mut tree = DiskTree::new(&root)?;
    let inner = directory.strip_prefix(&root).unwrap_or(directory);
    let inner = format!("/{}", inner.to_string_lossy());
    if !args.ignore_paths.is_empty() {
        let patterns = read_patterns(&args.ignore_paths.join("\n"), &[]);
        tree.hide(&inner, Ignore::only(patterns));
    }
    object.spec.path = Some(inner);
    let variables = match session {
        Some(session) => everflow_controllers::variables(&object, &session.client).await,
        None => Ok(BTreeMap::new()),
    };
    let mut request = Request::new(&object, &tree);
    match &variables {
        Ok(variables) => request.variables = variables,
        Err(text) => request.no_variables = Some(text),
    }
    request.strict = args.strict_substitute;
    request.keep_encrypted = true;
    let built = everflow_build::build(&request).map_err(|error| {
        Failure::Work(match &error {
            Error::Decode { .. } | Error::KustomizationFile { .. } => {
                format!("failed to generate kustomization.yaml: {error}")
            }
            _ => error.to_string(),
        })
    })?;
    let mut text = String::new();
    for object in built.contents.objects() {
        text.push_str(&emit::sigs(&masked(object)));
        text.push_str("---\n");
    }
    Ok(text)
}

/// What a build may read, and what paths in messages are relative to: the repository that the
/// directory is in, the working directory, or all there is.
fn source_root(directory: &Path) -> Result<PathBuf, Failure> {
    let repository = directory
        .ancestors()
        .find(|above| above.join(".git").exists());
    if let Some(repository) = repository {
        return Ok(repository.to_owned());
    }
    let here = fs::canonicalize(".")?;
    Ok(match directory.starts_with(&here) {
        true => here,
        false => PathBuf::from("/"),
    })
}

/// An encrypted object without its ciphertext, which nobody can read.
fn masked(object: &Value) -> Value {
    let mut object = object.clone();
    if object.get("sops").is_none() {
        return object;
    }
    if let Value::Object(fields) = &mut object {
        fields.remove("sops");
    }
    for (field, mask) in [
        ("data", STANDARD.encode(MASK)),
        ("stringData", MASK.to_owned()),
    ] {
        if let Some(values) = object.get_mut(field).and_then(Value::as_object_mut) {
            values.values_mut().for_each(|value| *value = json!(mask));
        }
    }
    object
}
