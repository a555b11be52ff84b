//! `everflow build`

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_build::{Error, Request};
use everflow_fetch::archive::ignore::{Ignore, read_patterns};
use everflow_json::{Value, json};
use everflow_runtime::client::At;
use everflow_yaml::documents::yaml_or_json_decoder;
use everflow_yaml::emit;

use super::connection::{Connection, Session};
use super::disk_tree::DiskTree;
use super::{artifact, in_runtime, kinds};
use crate::build_limits::BuildLimits;
use crate::exit::Failure;
use crate::install;
use crate::output::print_text;
use crate::up;

/// What stands in the place of values that are encrypted.
const MASK: &str = "**SOPS**";
/// How deep Kustomizations may be nested.
const DEEPEST: usize = 30;

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
    Kustomization(Box<KustomizationArgs>),
    /// Render what a HelmRelease in a repository applies, without a cluster
    #[command(visible_alias = "hr")]
    Helmrelease(Box<up::build::Args>),
    /// Build an artifact from a local directory or file
    Artifact(artifact::BuildArgs),
    /// Print what a FluxInstance installs, with its patches for Flux's controllers carried over
    Instance(Box<install::BuildArgs>),
}

/// Which Kustomization is built, and how.
#[derive(clap::Args, Debug)]
pub struct KustomizationArgs {
    /// The name of the Kustomization
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// The directory to build in place of `spec.path`
    #[arg(long, value_name = "DIR", default_value = "")]
    pub path: String,
    /// A file with the Kustomization; without it, it is read from the cluster
    #[arg(long, value_name = "FILE")]
    pub kustomization_file: Option<PathBuf>,
    /// Do not contact the cluster; variables from ConfigMaps and Secrets are not substituted
    #[arg(long)]
    pub dry_run: bool,
    /// Fail if a variable has neither a value nor a default
    #[arg(long)]
    strict_substitute: bool,
    /// Files to exclude, in .sourceignore syntax
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    ignore_paths: Vec<String>,
    /// Include the objects of Kustomizations found among the objects
    #[arg(short, long)]
    pub recursive: bool,
    /// Directories to use in place of the sources of those Kustomizations
    #[arg(
        long,
        value_name = "KIND/NAMESPACE/NAME=DIR",
        value_delimiter = ',',
        value_parser = local_source
    )]
    local_sources: Vec<(String, PathBuf)>,
    /// Accepted for compatibility: nothing is ever written to disk
    #[arg(long, hide = true)]
    in_memory_build: bool,
    #[command(flatten)]
    limits: BuildLimits,
    #[command(flatten)]
    pub connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        What::Kustomization(args) => kustomization_verb(args),
        What::Artifact(args) => artifact::build(args),
        What::Instance(args) => install::build_instance(args),
        What::Helmrelease(args) => up::build::run(args),
    }
}

fn kustomization_verb(args: &KustomizationArgs) -> Result<(), Failure> {
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
        let work = Work::new(args, session.as_ref());
        let objects = work.build(directory, object, 0).await?;
        let mut text = String::new();
        for object in &objects {
            text.push_str(&emit::sigs(&masked(object)));
            text.push_str("---\n");
        }
        print_text(&text)
    })
}

fn local_source(text: &str) -> Result<(String, PathBuf), String> {
    let (source, directory) = text
        .split_once('=')
        .ok_or_else(|| format!("{text} must be formatted as key=value"))?;
    Ok((source.to_owned(), PathBuf::from(directory)))
}

/// The directory that is built.
pub fn directory(args: &KustomizationArgs) -> Result<PathBuf, Failure> {
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
pub async fn kustomization(
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

/// A build.
pub struct Work<'a> {
    args: &'a KustomizationArgs,
    session: Option<&'a Session>,
}

type Objects<'w> = Pin<Box<dyn Future<Output = Result<Vec<Value>, Failure>> + 'w>>;

impl<'a> Work<'a> {
    pub fn new(args: &'a KustomizationArgs, session: Option<&'a Session>) -> Self {
        Work { args, session }
    }

    /// The objects of a Kustomization, and after them those of the Kustomizations among them.
    fn build(
        &self,
        directory: PathBuf,
        object: Object<Kustomization>,
        depth: usize,
    ) -> Objects<'_> {
        Box::pin(async move {
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            let name = object.metadata.name.clone();
            let mut objects = self.one(&directory, object).await?;
            if !self.args.recursive {
                return Ok(objects);
            }
            if depth == DEEPEST {
                return Err(Failure::Work(format!(
                    "Kustomization {namespace}/{name} is nested more than {DEEPEST} levels deep: do \
                     Kustomizations contain one another?"
                )));
            }
            let mut more = Vec::new();
            for nested in objects.iter().filter(|object| is_kustomization(object)) {
                let nested: Object<Kustomization> =
                    Object::read(nested).map_err(|error| Failure::Work(error.to_string()))?;
                if nested.metadata.namespace.as_ref() == Some(&namespace)
                    && nested.metadata.name == name
                {
                    continue;
                }
                let directory = self.directory_of(&nested)?;
                more.extend(self.build(directory, nested, depth + 1).await?);
            }
            objects.extend(more);
            Ok(objects)
        })
    }

    /// Where the files of a nested Kustomization are.
    pub fn directory_of(&self, nested: &Object<Kustomization>) -> Result<PathBuf, Failure> {
        let source = &nested.spec.source_ref;
        let own = nested.metadata.namespace.as_deref();
        let namespace = source.namespace.as_deref().or(own).unwrap_or_default();
        let key = format!("{}/{namespace}/{}", source.kind, source.name);
        let mut known = self.args.local_sources.iter();
        let (_, root) = known.find(|(source, _)| *source == key).ok_or_else(|| {
            let name = &nested.metadata.name;
            Failure::Work(format!(
                "cannot get local path for {key} of kustomization {name}: give it with \
                 --local-sources {key}=DIR"
            ))
        })?;
        let path = nested.spec.path.as_deref().unwrap_or_default();
        let inner = path.trim_start_matches(['.', '/']);
        fs::canonicalize(root.join(inner)).map_err(|error| {
            let name = &nested.metadata.name;
            let root = root.display();
            Failure::Work(format!(
                "path {path:?} of kustomization {name} is not in {root}: {error}"
            ))
        })
    }

    /// The objects of one Kustomization.
    pub async fn one(
        &self,
        directory: &Path,
        mut object: Object<Kustomization>,
    ) -> Result<Vec<Value>, Failure> {
        let root = source_root(directory)?;
        let mut tree = DiskTree::new(&root)?;
        let inner = directory.strip_prefix(&root).unwrap_or(directory);
        let inner = format!("/{}", inner.to_string_lossy());
        if !self.args.ignore_paths.is_empty() {
            let patterns = read_patterns(&self.args.ignore_paths.join("\n"), &[]);
            tree.hide(&inner, Ignore::only(patterns));
        }
        object.spec.path = Some(inner);
        let variables = match self.session {
            Some(session) => everflow_controllers::variables(&object, &session.client).await,
            None => Ok(BTreeMap::new()),
        };
        let budget = self.args.limits.budget();
        let mut request = Request::new(&object, &tree, &budget);
        request.limits = self.args.limits.counts.limits();
        match &variables {
            Ok(variables) => request.variables = variables,
            Err(text) => request.no_variables = Some(text),
        }
        request.strict = self.args.strict_substitute;
        request.keep_encrypted = true;
        let built = everflow_build::build(&request).map_err(|error| {
            Failure::Work(match &error {
                Error::Decode { .. } | Error::KustomizationFile { .. } => {
                    format!("failed to generate kustomization.yaml: {error}")
                }
                _ => error.to_string(),
            })
        })?;
        Ok(built.contents.objects().to_vec())
    }
}

/// Whether an object is a Kustomization of Flux.
pub fn is_kustomization(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    object["kind"] == "Kustomization" && version.starts_with("kustomize.toolkit.fluxcd.io/")
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
pub fn masked(object: &Value) -> Value {
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
