//! `everflow build instance` and `everflow diff instance`: what a FluxInstance stands for, and what it would change.

use std::io::Read as _;

use everflow_api::inventory::ObjectId;
use everflow_install::instance::{Built, build as build_it};
use everflow_install::{LabelSelector, Options, to_yaml};
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};
use everflow_yaml::documents::yaml_or_json_decoder;

use super::MANAGER;
use crate::exit::Failure;
use crate::flux::connection::{Connection, Session};
use crate::flux::diff::{comparable, report};
use crate::flux::{in_runtime, say};
use crate::output::print_text;

const INSTANCES: Resource = Resource::namespaced(
    "fluxcd.controlplane.io",
    "v1",
    "fluxinstances",
    "FluxInstance",
);
/// The longest file that is read.
const LONGEST: u64 = 4 << 20;

/// Which FluxInstance, and what it has no fields for.
#[derive(clap::Args, Debug)]
struct Which {
    /// A file with the FluxInstance, - for standard input; without it, it is read from the cluster
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<String>,
    /// The registry of the image; the FluxInstance's own registry has Flux's images
    #[arg(long, value_name = "REGISTRY", default_value_t = Options::default().registry)]
    registry: String,
    /// The complete image reference with tag or digest, instead of --registry
    #[arg(long, value_name = "IMAGE", default_value = "")]
    image: String,
    /// The number of replicas, unless a patch sets it
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().replicas)]
    replicas: u32,
    /// For an installation that is managed by the FluxInstance in the cluster
    #[arg(long)]
    flux_instance: bool,
    /// Pods that ours should preferably not share a node with, such as app=spire-server; may be given several times,
    /// empty for none. Default: SPIRE servers
    #[arg(long, value_name = "SELECTOR")]
    spread_from: Option<Vec<String>>,
    #[command(flatten)]
    connection: Connection,
}

/// `everflow build instance`
#[derive(clap::Args, Debug)]
pub struct BuildArgs {
    #[command(flatten)]
    which: Which,
}

/// `everflow diff instance`
#[derive(clap::Args, Debug)]
pub struct DiffArgs {
    #[command(flatten)]
    which: Which,
}

/// Prints the objects.
pub fn build(args: &BuildArgs) -> Result<(), Failure> {
    in_runtime(async {
        let built = args.which.built(None).await?;
        print_text(&to_yaml(&built.objects))
    })
}

/// Shows what applying the objects would change: 0 when nothing, 1 when something.
pub fn diff(args: &DiffArgs) -> Result<(), Failure> {
    in_runtime(async {
        let session = args.which.connection.open()?;
        let built = args.which.built(Some(&session)).await?;
        let mut text = String::new();
        for object in &built.objects {
            text.push_str(&step(&session, object).await?);
        }
        print_text(&text)?;
        match text.is_empty() {
            true => Ok(()),
            false => {
                say::warning("identified at least one change, exiting with non-zero exit code");
                Err(Failure::Reported)
            }
        }
    })
}

fn work(text: impl Into<String>) -> Failure {
    Failure::Work(text.into())
}

impl Which {
    /// The FluxInstance as objects; what has no effect is told.
    async fn built(&self, session: Option<&Session>) -> Result<Built, Failure> {
        let instance = match &self.file {
            Some(file) => in_file(file)?,
            None => self.in_cluster(session).await?,
        };
        let base = Options {
            namespace: self.connection.namespace.clone(),
            ..self.base()?
        };
        let file = self.file.as_deref().unwrap_or("FluxInstance flux");
        told(file, &instance, &base)
    }

    fn base(&self) -> Result<Options, Failure> {
        let mut options = Options {
            registry: self.registry.trim_end_matches('/').to_owned(),
            image: self.image.clone(),
            replicas: self.replicas,
            flux_instance: self.flux_instance,
            ..Options::default()
        };
        if let Some(selectors) = &self.spread_from {
            let given = selectors.iter().filter(|text| !text.is_empty());
            let read = given.map(|text| LabelSelector::parse("--spread-from", text));
            let read: Result<_, _> = read.collect();
            options.keep_apart_from =
                read.map_err(|error: everflow_install::Error| work(error.to_string()))?;
        }
        Ok(options)
    }

    async fn in_cluster(&self, session: Option<&Session>) -> Result<Value, Failure> {
        let opened;
        let session = match session {
            Some(session) => session,
            None => {
                opened = self.connection.open()?;
                &opened
            }
        };
        let at = At::new(&self.connection.namespace, "flux");
        let found = session.client.get(&INSTANCES, at).await;
        found.map_err(|error| {
            let told = session.told_of(&error);
            work(format!(
                "cannot read FluxInstance {}/flux: {told}; name a file with -f",
                self.connection.namespace
            ))
        })
    }
}

/// What the FluxInstance in a file comes to, over options for what it has no fields for.
pub fn from_file(file: &str, base: &Options) -> Result<Built, Failure> {
    told(file, &in_file(file)?, base)
}

/// Builds it, and tells what has no effect.
fn told(file: &str, instance: &Value, base: &Options) -> Result<Built, Failure> {
    let built = build_it(instance, base).map_err(|error| work(format!("{file}: {error}")))?;
    for note in &built.notes {
        say::warning(note);
    }
    Ok(built)
}

fn in_file(file: &str) -> Result<Value, Failure> {
    let bytes = read(file)?;
    for document in yaml_or_json_decoder(&bytes) {
        let object = document
            .and_then(|document| document.into_object())
            .map_err(|error| work(format!("{file}: {error}")))?;
        if let Some(object) = object.filter(|object| object["kind"] == "FluxInstance") {
            return Ok(object);
        }
    }
    Err(work(format!("{file}: there is no FluxInstance in it")))
}

fn read(file: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin()
            .lock()
            .take(LONGEST)
            .read_to_end(&mut bytes),
        file => std::fs::File::open(file)
            .and_then(|opened| opened.take(LONGEST).read_to_end(&mut bytes)),
    };
    read.map_err(|error| work(format!("{file}: {error}")))?;
    Ok(bytes)
}

/// What applying an object would do, by a rehearsal on the server; empty for nothing.
async fn step(session: &Session, object: &Value) -> Result<String, Failure> {
    let subject = ObjectId::of(object).subject();
    let created = format!("► {subject} created\n");
    let failed = |error: Error| {
        let told = session.told_of(&error);
        work(format!("{subject} dry-run failed: {told}"))
    };
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let resource = match session
        .client
        .resource(text("apiVersion"), text("kind"))
        .await
    {
        Ok(resource) => resource,
        // Its definition is to be created, too.
        Err(Error::NoKind { .. }) => return Ok(created),
        Err(error) => return Err(failed(error)),
    };
    let at = At::of(object);
    let live = match session.client.get(&resource, at).await {
        Ok(live) => live,
        Err(Error::NotFound(_)) => return Ok(created),
        Err(error) => return Err(failed(error)),
    };
    let by = WriteOptions::by(MANAGER).force().dry_run();
    let patch = Patch::Apply(object.clone());
    let merged = session.client.patch(&resource, at, &patch, &by).await;
    let (live, merged) = (comparable(live), comparable(merged.map_err(failed)?));
    Ok(match live == merged {
        true => String::new(),
        false => format!("► {subject} drifted\n\n{}", report::changes(&live, &merged)),
    })
}
