//! Charts in a tree of files, such as the unpacked artifact of a git repository.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_env::disk::{EntryKind, clean};
use everflow_env::{BoxFuture, Env};
use everflow_helm::chart::{Chart, ChartLoader, Dependency};
use everflow_helm::package::{is_local, missing_dependencies};
use everflow_helm::values::Warnings;
use everflow_limits::Budget;
use everflow_tar::Used;
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::sync::Mutex;

use super::HelmLimits;
use super::address::{check_dependency_url, normalize_url};
use super::build::{Build, BuildOptions, Reason, budgeted};
use super::draft::{Draft, replace_values};
use super::reader::{Failed, TreeReader};
use super::source::{ChartSource, Repositories};
use crate::{Deadline, Error};

/// How many dependencies are fetched at once.
const AT_ONCE: usize = 4;

/// A chart in a tree.
#[derive(Debug, Clone)]
pub struct LocalChart {
    /// The root of the tree on the disk, which nothing can lead out of.
    pub root: String,
    /// The path of the chart in the tree: a directory or a `.tgz`.
    pub path: String,
}

/// Builds a chart of a tree: a directory is packaged with the dependencies that it lacks, an
/// archive is taken as it is unless values files or build metadata ask for another one.
pub async fn build_local(
    env: &Env,
    chart: LocalChart,
    repositories: &dyn Repositories,
    options: BuildOptions,
    deadline: &Deadline,
) -> Result<Build, Error> {
    let options = Arc::new(options);
    let step = {
        let (env, chart, options) = (env.clone(), chart.clone(), options.clone());
        budgeted(&env.clone(), move |budget| {
            prepare(&env, &chart, &options, budget)
        })
        .await?
    };
    let Loaded {
        mut draft,
        chart: mut loaded,
        missing,
        mut used,
    } = match step {
        Step::Done(build) => return Ok(*build),
        Step::Loaded(loaded) => *loaded,
    };
    if !missing.is_empty() {
        draft.resolved_dependencies = missing.len();
        let adding = Adding {
            env,
            tree: &chart,
            repositories,
            limits: options.limits,
            deadline,
            known: Mutex::new(BTreeMap::new()),
            used: Mutex::new(used),
        };
        // Boxed one by one: the compiler cannot tell that a stream of borrowing futures may go to
        // another thread.
        let work: Vec<BoxFuture<'_, Result<Chart, Error>>> = missing
            .iter()
            .map(|(name, dependency)| Box::pin(adding.one(name, dependency)) as BoxFuture<'_, _>)
            .collect();
        let added: Vec<Chart> = futures_util::stream::iter(work)
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        loaded.dependencies.extend(added);
        used = adding.used.into_inner();
    }
    let inner = env.clone();
    budgeted(env, move |budget| {
        // It was charged to the work that loaded it, which is over.
        budget.charge(usize::try_from(used.unpacked).unwrap_or(usize::MAX))?;
        draft.package(&inner, &loaded, &options, budget)
    })
    .await
}

/// How far the first part of a build came.
enum Step {
    Done(Box<Build>),
    Loaded(Box<Loaded>),
}

/// A chart that may lack dependencies.
struct Loaded {
    draft: Draft,
    chart: Chart,
    /// What it lacks.
    missing: BTreeMap<String, Dependency>,
    /// What was used of the limits of the chart and the charts in it.
    used: Used,
}

fn prepare(
    env: &Env,
    local: &LocalChart,
    options: &BuildOptions,
    budget: &Budget,
) -> Result<Step, Error> {
    if local.path.is_empty() {
        return Err(Reason::Reference.error("no path set for local chart reference"));
    }
    if local.path.starts_with('/') {
        return Err(
            Reason::Reference.error("local chart reference path is expected to be relative")
        );
    }
    let tree = TreeReader {
        disk: &*env.disk,
        root: &local.root,
        limits: options.limits,
        budget,
    };
    let path = clean(&local.path);
    let referred = |failed: Failed| failed.because(Reason::Reference);
    let kind = tree.kind(&path).map_err(referred)?;
    let is_directory = kind == EntryKind::Directory;
    let metadata = tree.metadata(&path, is_directory).map_err(referred)?;
    let mut draft = Draft::new(&metadata.name, &metadata.version, options)?;
    let changes = is_directory || options.changes_content();
    if let Some(cached) = draft.cached(env, options, changes, budget) {
        return Ok(Step::Done(Box::new(cached)));
    }
    if !changes {
        let bytes = tree.archive(&path);
        let bytes = bytes.map_err(|failed| failed.because(Reason::Pull))?;
        return Ok(Step::Done(Box::new(draft.copy(env, &bytes, options)?)));
    }
    let mut files = Vec::new();
    if !options.effective_values_files().is_empty() {
        for name in &options.values_files {
            files.push((name.clone(), tree.values_file(name)?));
        }
    }
    let mut loader = ChartLoader::new(options.limits.of_chart(), budget);
    let loaded = tree.load(&path, &mut loader);
    let mut chart = loaded.map_err(|failed| failed.because(Reason::Package))?;
    chart.metadata.version.clone_from(&draft.version);
    if !files.is_empty() {
        replace_values(&mut chart, files, options, &mut draft, budget)
            .map_err(|error| Reason::ValuesFiles.because(&error, error.exceeded()))?;
    }
    draft.packaged = true;
    let missing = match is_directory {
        false => BTreeMap::new(),
        true => missing_dependencies(&chart).map_err(|error| Reason::Dependency.error(error))?,
    };
    Ok(Step::Loaded(Box::new(Loaded {
        draft,
        chart,
        missing,
        used: loader.used(),
    })))
}

/// Fetches dependencies.
struct Adding<'a> {
    env: &'a Env,
    tree: &'a LocalChart,
    repositories: &'a dyn Repositories,
    limits: HelmLimits,
    deadline: &'a Deadline,
    known: Mutex<BTreeMap<String, Arc<dyn ChartSource>>>,
    /// What the chart and the dependencies that were added have used of their limits. It is locked while one
    /// of them is loaded.
    used: Mutex<Used>,
}

impl Adding<'_> {
    async fn one(&self, name: &str, dependency: &Dependency) -> Result<Chart, Error> {
        let (kind, added) = match is_local(dependency) {
            true => ("local", self.local(dependency).await),
            false => ("remote", self.remote(dependency).await),
        };
        let mut chart = added.map_err(|error| {
            let text = format!("failed to add {kind} dependency '{name}': {error}");
            Reason::Dependency.because(text, error.exceeded())
        })?;
        if !dependency.alias.is_empty() {
            chart.metadata.name.clone_from(&dependency.alias);
        }
        Ok(chart)
    }

    async fn local(&self, dependency: &Dependency) -> Result<Chart, Error> {
        let (env, root) = (self.env.clone(), self.tree.root.clone());
        let limits = self.limits;
        let relative = match dependency.repository.strip_prefix("file://") {
            Some(path) => path.to_owned(),
            None => format!("charts/{}", dependency.name),
        };
        let path = clean(&format!("{}/{relative}", self.tree.path));
        let dependency = dependency.clone();
        self.load(move |loader, budget| {
            let tree = TreeReader {
                disk: &*env.disk,
                root: &root,
                limits,
                budget,
            };
            tree.dependency(&path, &dependency, loader)
        })
        .await
    }

    /// Loads one dependency after the other: they share the limits of the whole chart.
    async fn load(
        &self,
        load: impl FnOnce(&mut ChartLoader<'_>, &Budget) -> Result<Chart, Failed> + Send + 'static,
    ) -> Result<Chart, Error> {
        let mut used = self.used.lock().await;
        let (limits, before) = (self.limits.of_chart(), *used);
        let work = move |budget: &Budget| {
            let mut loader = ChartLoader::going_on(limits, before, budget);
            let loaded = load(&mut loader, budget);
            let chart =
                loaded.map_err(|failed| Error::archive(failed.text, failed.exceeded.as_ref()))?;
            Ok((chart, loader.used()))
        };
        let (chart, after) = budgeted(self.env, work).await?;
        *used = after;
        Ok(chart)
    }

    async fn remote(&self, dependency: &Dependency) -> Result<Chart, Error> {
        let source = self.source(&dependency.repository).await?;
        let (name, wanted) = (&dependency.name, &dependency.version);
        let chosen = source
            .choose(name, wanted, self.deadline)
            .await
            .map_err(|error| {
                Error::Archive(format!(
                    "failed to get chart '{name}' version '{wanted}' from '{}': {error}",
                    dependency.repository
                ))
            })?;
        let version = chosen.version.clone();
        let pulled = source
            .download(&chosen, self.deadline)
            .await
            .map_err(|error| {
                Error::Archive(format!(
                    "chart download of version '{version}' failed: {error}"
                ))
            })?;
        self.load(move |loader, _| {
            let loaded = loader.archive(&pulled.bytes, &mut Warnings::default());
            loaded.map_err(|error| {
                Failed::from(error).behind(format!(
                    "failed to load downloaded archive of version '{version}'"
                ))
            })
        })
        .await
    }

    /// The repository at an address. The lock is held while it is looked for: others that want the
    /// same would only ask the same.
    async fn source(&self, url: &str) -> Result<Arc<dyn ChartSource>, Error> {
        let url = normalize_url(url)?;
        check_dependency_url(&url)?;
        let mut known = self.known.lock().await;
        if let Some(source) = known.get(&url) {
            return Ok(source.clone());
        }
        let source = self.repositories.at(&url).await.map_err(|error| {
            Error::Archive(format!(
                "failed to get chart repository for URL '{url}': {error}"
            ))
        })?;
        known.insert(url, source.clone());
        Ok(source)
    }
}
