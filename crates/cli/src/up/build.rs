//! `everflow build helmrelease`: what a HelmRelease of a repository applies, with no cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_build::Request;
use everflow_env::{Clock, Env, RealDisk, SystemClock};
use everflow_helm::objects::{Capabilities, KubeVersion};
use everflow_helm::render::Sources;
use everflow_helm::values::Warnings;
use everflow_json::{Value, json};
use everflow_local::entry;
use everflow_local::release::{self, Needed, Rendering};
use everflow_local::stand_in::{Mapped, Repository, StandIns};
use everflow_local::tree::{Contents, Tree};
use everflow_local::world::{Plan, World};
use everflow_runtime::log::{Encoding, Level, Logger};
use everflow_yaml::emit;

use super::cache::CacheFlags;
use super::repository::{objects, open_tree};
use super::{Progress, Scratch, unless_interrupted};
use crate::args::span;
use crate::build_limits::BuildLimits;
use crate::exit::Failure;
use crate::flux::disk_tree::DiskTree;
use crate::helm::{SystemSource, print_warnings};
use crate::output::print_text;

/// The version of Kubernetes that charts see, unless another one is given.
const KUBE_VERSION: &str = "v1.36.1";

/// `everflow build helmrelease`
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// The name of the HelmRelease
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The directory with the HelmRelease: it is built when it is a kustomization, else its manifests are
    /// read; what the HelmRelease refers to may stand anywhere in the repository
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The namespace of the HelmRelease, where the name does not say which one is meant
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Objects that the repository does not contain, such as Secrets with values; may be given several times
    #[arg(long = "with", value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Use a directory in place of a source; may be given several times
    #[arg(long = "source", value_name = "[KIND/]NAME=DIR")]
    sources: Vec<String>,
    /// Fetch nothing: charts come from the repository or from the cache
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    cache: CacheFlags,
    /// The Kubernetes version that the chart sees
    #[arg(long, value_name = "VERSION", default_value = KUBE_VERSION)]
    kube_version: String,
    /// API versions that the chart sees besides the default ones
    #[arg(short = 'a', long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Leave hooks out
    #[arg(long)]
    no_hooks: bool,
    /// Leave custom resource definitions under crds/ out
    #[arg(long)]
    skip_crds: bool,
    /// How long to wait for the chart
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = span)]
    timeout: Duration,
    #[command(flatten)]
    limits: BuildLimits,
    /// Log what the controllers do to standard error
    #[arg(long)]
    verbose: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        return Err(Failure::Work("helmrelease name is required".to_owned()));
    };
    let Some(path) = &args.path else {
        return Err(Failure::Usage(
            "--path DIR says where the HelmRelease is".to_owned(),
        ));
    };
    let place = Place::of(path)?;
    let needed = needed(args, name, &place)?;
    let progress = Progress::default();
    let rendering = super::in_runtime(unless_interrupted(
        rendered(args, &place, needed),
        &progress,
    ))?;
    print_warnings(&Warnings(rendering.warnings.clone()));
    let mut text = String::new();
    for object in chosen(args, &rendering) {
        text.push_str(&emit::sigs(object));
        text.push_str("---\n");
    }
    print_text(&text)
}

/// What to print: what is applied first comes first.
fn chosen<'r>(args: &Args, rendering: &'r Rendering) -> impl Iterator<Item = &'r Value> {
    let (definitions, hooks) = (!args.skip_crds, !args.no_hooks);
    let definitions = rendering.definitions.iter().filter(move |_| definitions);
    let hooks = rendering.hooks.iter().filter(move |_| hooks);
    definitions.chain(&rendering.objects).chain(hooks)
}

/// A directory of a repository.
struct Place {
    /// The repository.
    root: PathBuf,
    tree: Tree,
    contents: Contents,
    /// The directory, relative to the repository.
    inner: String,
    /// The address of the repository, when it has one.
    remote: Option<String>,
}

impl Place {
    fn of(path: &Path) -> Result<Self, Failure> {
        let directory = std::fs::canonicalize(path)
            .map_err(|error| Failure::Usage(format!("--path {}: {error}", path.display())))?;
        let mut above = directory.ancestors();
        let root = above.find(|above| above.join(".git").exists());
        let root = root.unwrap_or(&directory).to_owned();
        let tree = open_tree(&root)?;
        let contents = tree.contents();
        let contents = contents.map_err(|error| Failure::Work(error.to_string()))?;
        let inner = directory.strip_prefix(&root).unwrap_or(&directory);
        let config = tree.text(".git/config");
        Ok(Place {
            inner: inner.to_string_lossy().into_owned(),
            remote: config.and_then(|text| entry::remote_in(&text)),
            root,
            tree,
            contents,
        })
    }

    /// The objects of the directory, then those of the whole repository.
    fn objects(&self, limits: &BuildLimits) -> Result<Vec<Value>, Failure> {
        let mut objects = match self.tree.has_kustomization(&self.inner) {
            true => self.built(limits)?,
            false => Vec::new(),
        };
        let below = |path: &str| {
            let rest = path.strip_prefix(self.inner.as_str());
            self.inner.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let (own, others): (Vec<_>, Vec<_>) = self
            .contents
            .objects
            .iter()
            .partition(|found| below(&found.path));
        objects.extend(own.iter().map(|found| found.object.clone()));
        let others = others.iter().filter(|found| {
            // Of other directories only what a HelmRelease may refer to.
            found.object["kind"] != "HelmRelease"
        });
        objects.extend(others.map(|found| found.object.clone()));
        Ok(objects)
    }

    fn built(&self, limits: &BuildLimits) -> Result<Vec<Value>, Failure> {
        let object: Object<Kustomization> = Object::read(&json!({
            "metadata": {"namespace": "default", "name": "build"},
            "spec": {
                "path": format!("/{}", self.inner),
                "interval": "1h",
                "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": "build"},
            },
        }))
        .map_err(|error| Failure::Work(error.to_string()))?;
        let tree = DiskTree::new(&self.root)?;
        let budget = limits.budget();
        let mut request = Request::new(&object, &tree, &budget);
        request.limits = limits.counts.limits();
        request.keep_encrypted = true;
        request.without_remote = true;
        let built = everflow_build::build(&request);
        let built = built.map_err(|error| Failure::Work(error.to_string()))?;
        Ok(built.contents.objects().to_vec())
    }
}

fn needed(args: &Args, name: &str, place: &Place) -> Result<Needed, Failure> {
    let mut all = Vec::new();
    for file in &args.with {
        all.extend(objects(file)?);
    }
    all.extend(place.objects(&args.limits)?);
    release::find(&all, name, args.namespace.as_deref())
        .map_err(|error| Failure::Work(error.to_string()))
}

/// The sources that the repository itself stands for. What is not among its files and is no Helm repository
/// may be the source that the repository is deployed from.
fn stand_ins(args: &Args, place: &Place, needed: &mut Needed) -> Result<StandIns, Failure> {
    let mut sources = Vec::new();
    for (kind, namespace, name) in std::mem::take(&mut needed.missing) {
        if !["GitRepository", "Bucket"].contains(&kind.as_str()) {
            return Err(Failure::Work(format!(
                "{kind}/{namespace}/{name}, which the chart comes from, is not in the repository: --with FILE \
                 gives it"
            )));
        }
        needed.objects.push(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": kind,
            "metadata": {"namespace": namespace, "name": name},
            "spec": made_up(&kind, place.remote.as_deref()),
        }));
        sources.push((namespace, name));
    }
    let mut mapped = Vec::new();
    for text in &args.sources {
        let parsed = Mapped::parse(text).map_err(|error| Failure::Usage(error.to_string()))?;
        let (kind, name, directory) = parsed;
        let tree = open_tree(&directory)?;
        mapped.push(Mapped { kind, name, tree });
    }
    Ok(StandIns {
        repository: Some(Repository {
            tree: place.tree.clone(),
            remote: place.remote.clone(),
            sources,
            used: Repository::used(&place.tree, &place.contents),
        }),
        mapped,
        offline: args.offline,
        cache: args.cache.open()?,
    })
}

fn made_up(kind: &str, remote: Option<&str>) -> Value {
    match kind {
        "Bucket" => json!({"interval": "1h", "bucketName": "local", "endpoint": "localhost"}),
        _ => {
            let url = remote.filter(|url| url.contains("://"));
            json!({"interval": "1h", "url": url.unwrap_or("https://localhost/local")})
        }
    }
}

async fn rendered(args: &Args, place: &Place, mut needed: Needed) -> Result<Rendering, Failure> {
    let work = |error: everflow_local::Error| Failure::Work(error.to_string());
    let mut capabilities = Capabilities {
        kube_version: KubeVersion::parse(&args.kube_version).map_err(|error| {
            Failure::Usage(format!("--kube-version {}: {error}", args.kube_version))
        })?,
        ..Capabilities::default()
    };
    let more = args.api_versions.iter().cloned();
    capabilities.api_versions.extend(more);
    let scratch = Scratch::new()?;
    let disk = RealDisk::new(&scratch.directory)?;
    let env = Env::system_with(disk, args.limits.threads());
    let stand_ins = stand_ins(args, place, &mut needed)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let log = match args.verbose {
        true => Logger::to_stderr(clock, Level::Info, Encoding::Console),
        false => Logger::silent(clock),
    };
    let mut first = needed.objects.clone();
    first.push(needed.release.clone());
    let plan = Plan {
        first,
        build_limits: args.limits.counts.limits(),
        ..Plan::new(stand_ins, log)
    };
    let mut world = World::start(env, plan).await.map_err(work)?;
    let prepared = release::prepare(&mut world, &needed, args.timeout).await;
    world.stop().await;
    let prepared = prepared.map_err(work)?;
    let budget = Arc::new(args.limits.budget());
    let resources = everflow_schema::builtin().resources();
    let scope = |api_version: &str, kind: &str| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut known = resources.iter();
        let found = known
            .find(|known| known.group == group && known.version == version && known.kind == kind);
        found.map(|known| known.namespaced)
    };
    let sources = || Sources::new(SystemSource);
    let name = everflow_api::view::name_of(&needed.release);
    release::render(&prepared, &capabilities, &scope, sources, &budget)
        .map_err(|error| Failure::Work(format!("{name}: {error}")))
}
