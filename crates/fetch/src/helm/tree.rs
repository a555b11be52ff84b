//! Charts in a tree of files, such as the unpacked artifact of a git repository.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use everflow_env::disk::{EntryKind, below, clean};
use everflow_env::{BoxFuture, Disk, Env, disk};
use everflow_helm::chart::ignore::IgnoreRules;
use everflow_helm::chart::{
    Chart, ChartFile, Dependency, Metadata, archive, load_archive, load_files,
};
use everflow_helm::package::{
    ValuesFile, ValuesFilesError, is_local, metadata_of_archive, metadata_of_files,
    missing_dependencies,
};
use everflow_helm::values::Warnings;
use everflow_semver::{Constraint, Version};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::sync::Mutex;

use super::HelmLimits;
use super::address::{check_dependency_url, normalize_url};
use super::build::{Build, BuildOptions, Draft, Reason, blocking, replace_values};
use super::source::{ChartSource, Repositories, too_large};
use crate::{Deadline, Error};

/// How many dependencies are fetched at once.
const AT_ONCE: usize = 4;
/// Files of one chart directory, together.
const MOST_FILES: usize = 20_000;

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
        blocking(&env.clone(), move || prepare(&env, &chart, &options)).await?
    };
    let (mut draft, mut loaded, is_directory) = match step {
        Step::Done(build) => return Ok(*build),
        Step::Loaded {
            draft,
            chart,
            is_directory,
        } => (draft, *chart, is_directory),
    };
    if is_directory {
        let missing =
            missing_dependencies(&loaded).map_err(|error| Reason::Dependency.error(error))?;
        draft.resolved_dependencies = missing.len();
        let adding = Adding {
            env,
            tree: &chart,
            repositories,
            limits: options.limits,
            deadline,
            known: Mutex::new(BTreeMap::new()),
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
    }
    let inner = env.clone();
    blocking(env, move || draft.package(&inner, &loaded, &options)).await
}

/// How far the first part of a build came.
enum Step {
    Done(Box<Build>),
    Loaded {
        draft: Draft,
        chart: Box<Chart>,
        is_directory: bool,
    },
}

fn prepare(env: &Env, local: &LocalChart, options: &BuildOptions) -> Result<Step, Error> {
    if local.path.is_empty() {
        return Err(Reason::Reference.error("no path set for local chart reference"));
    }
    if local.path.starts_with('/') {
        return Err(
            Reason::Reference.error("local chart reference path is expected to be relative")
        );
    }
    let disk = &*env.disk;
    let tree = TreeReader {
        disk,
        root: &local.root,
        limits: options.limits,
    };
    let path = clean(&local.path);
    let kind = tree
        .kind(&path)
        .map_err(|error| Reason::Reference.error(error))?;
    let is_directory = kind == EntryKind::Directory;
    let metadata = tree
        .metadata(&path, is_directory)
        .map_err(|error| Reason::Reference.error(error))?;
    let mut draft = Draft::new(&metadata.name, &metadata.version, options)?;
    let changes = is_directory || options.changes_content();
    if let Some(cached) = draft.cached(env, options, changes) {
        return Ok(Step::Done(Box::new(cached)));
    }
    if !changes {
        let bytes = tree
            .archive(&path)
            .map_err(|error| Reason::Pull.error(error))?;
        return Ok(Step::Done(Box::new(draft.copy(env, &bytes, options)?)));
    }
    let files: Vec<(String, ValuesFile)> = match options.effective_values_files() {
        [] => Vec::new(),
        _ => options
            .values_files
            .iter()
            .map(|name| (name.clone(), tree.values_file(name)))
            .collect(),
    };
    let mut chart = tree
        .load(&path)
        .map_err(|error| Reason::Package.error(error))?;
    chart.metadata.version.clone_from(&draft.version);
    if !files.is_empty() {
        replace_values(&mut chart, files, options, &mut draft)
            .map_err(|error| Reason::ValuesFiles.error(error))?;
    }
    draft.packaged = true;
    Ok(Step::Loaded {
        draft,
        chart: Box::new(chart),
        is_directory,
    })
}

/// Fetches dependencies.
struct Adding<'a> {
    env: &'a Env,
    tree: &'a LocalChart,
    repositories: &'a dyn Repositories,
    limits: HelmLimits,
    deadline: &'a Deadline,
    known: Mutex<BTreeMap<String, Arc<dyn ChartSource>>>,
}

impl Adding<'_> {
    async fn one(&self, name: &str, dependency: &Dependency) -> Result<Chart, Error> {
        let (kind, added) = match is_local(dependency) {
            true => ("local", self.local(dependency).await),
            false => ("remote", self.remote(dependency).await),
        };
        let mut chart = added.map_err(|error| {
            Reason::Dependency.error(format!("failed to add {kind} dependency '{name}': {error}"))
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
        blocking(self.env, move || {
            let tree = TreeReader {
                disk: &*env.disk,
                root: &root,
                limits,
            };
            tree.dependency(&path, &dependency).map_err(Error::Archive)
        })
        .await
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
        blocking(self.env, move || {
            load_archive(&pulled.bytes, &mut Warnings::default()).map_err(|error| {
                Error::Archive(format!(
                    "failed to load downloaded archive of version '{version}': {error}"
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

/// Reads charts from a tree. Messages are Flux's; paths in them begin at the root of the tree.
struct TreeReader<'a> {
    disk: &'a dyn Disk,
    root: &'a str,
    limits: HelmLimits,
}

impl TreeReader<'_> {
    /// Where a clean path lies on the disk.
    fn place(&self, path: &str) -> String {
        match (self.root, path) {
            (root, "") => root.to_owned(),
            ("", path) => path.to_owned(),
            (root, path) => format!("{root}/{path}"),
        }
    }

    fn kind(&self, path: &str) -> Result<EntryKind, String> {
        match self.disk.entry(&self.place(path)) {
            Ok(entry) => Ok(entry.kind),
            Err(error) => Err(format!("stat /{path}: {}", go_words(&error))),
        }
    }

    fn metadata(&self, path: &str, is_directory: bool) -> Result<Metadata, String> {
        if !is_directory {
            let bytes = self.archive(path)?;
            let metadata = metadata_of_archive(&bytes, self.limits.file);
            return metadata.map_err(|error| error.to_string());
        }
        let chart = self.read(&below(path, "Chart.yaml"))?;
        let requirements = below(path, "requirements.yaml");
        let requirements = match self.disk.entry(&self.place(&requirements)) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Ok(entry) if entry.kind == EntryKind::Directory => {
                return Err("'requirements.yaml' is a directory".to_owned());
            }
            _ => Some(self.read(&requirements)?),
        };
        metadata_of_files(&chart, requirements.as_deref()).map_err(|error| error.to_string())
    }

    /// A file, which may not be larger than files of charts may be.
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let limit = self.limits.file;
        disk::read_all(self.disk, &self.place(path), limit).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                let name = path.rsplit('/').next().unwrap_or(path);
                format!("size of '{name}' exceeds '{limit}' bytes limit")
            }
            _ => format!("open /{path}: {}", go_words(&error)),
        })
    }

    fn archive(&self, path: &str) -> Result<Vec<u8>, String> {
        let limit = self.limits.chart;
        disk::read_all(self.disk, &self.place(path), limit).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => too_large(path, limit),
            _ => format!("open /{path}: {}", go_words(&error)),
        })
    }

    fn values_file(&self, name: &str) -> ValuesFile {
        let path = clean(name);
        let is_file = self
            .disk
            .entry(&self.place(&path))
            .is_ok_and(|entry| entry.kind == EntryKind::File);
        if !is_file {
            return ValuesFile::Missing(ValuesFilesError::MissingAt {
                path: format!("/{path}"),
                reference: name.to_owned(),
            });
        }
        match self.read(&path) {
            Ok(bytes) => ValuesFile::Text(bytes.into()),
            Err(reason) => ValuesFile::Missing(ValuesFilesError::Unreadable {
                file: name.to_owned(),
                reason,
            }),
        }
    }

    fn load(&self, path: &str) -> Result<Chart, String> {
        match self.kind(path)? {
            EntryKind::Directory => self.load_directory(path),
            _ => {
                let bytes = self.archive(path)?;
                load_archive(&bytes, &mut Warnings::default()).map_err(|error| error.to_string())
            }
        }
    }

    fn load_directory(&self, path: &str) -> Result<Chart, String> {
        let rules = self
            .ignore_rules(path)
            .map_err(|error| format!("cannot load ignore rules for chart: {error}"))?;
        let mut files = Vec::new();
        self.walk(path, "", &rules, &mut files)
            .map_err(|error| format!("failed to load files from /{path}: {error}"))?;
        load_files(files, &mut Warnings::default())
            .map_err(|error| format!("failed to load chart from /{path}: {error}"))
    }

    fn ignore_rules(&self, path: &str) -> Result<IgnoreRules, String> {
        let file = below(path, ".helmignore");
        let text = match self.disk.entry(&self.place(&file)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            _ => self.read(&file)?,
        };
        let text = String::from_utf8_lossy(&text);
        IgnoreRules::parse(&text).map_err(|error| error.to_string())
    }

    /// Files in the order of a walk; what is ignored is not even looked at. The recursion is as
    /// deep as the tree, whose depth the unpacking of archives bounds.
    fn walk(
        &self,
        chart: &str,
        inside: &str,
        rules: &IgnoreRules,
        files: &mut Vec<ChartFile>,
    ) -> Result<(), String> {
        let directory = below(chart, inside);
        let entries = self
            .disk
            .list(&self.place(&directory))
            .map_err(|error| format!("open /{directory}: {}", go_words(&error)))?;
        for entry in entries {
            let name = below(inside, &entry.name);
            let is_directory = entry.kind == EntryKind::Directory;
            if rules.ignores(&name, is_directory) {
                continue;
            }
            match entry.kind {
                EntryKind::Directory => self.walk(chart, &name, rules, files)?,
                EntryKind::Link => {
                    return Err(format!(
                        "cannot load irregular file {name} as it has file mode type bits set"
                    ));
                }
                EntryKind::File => {
                    let limit = self.limits.file;
                    if entry.size > limit {
                        return Err(format!(
                            "cannot load file {name} as file size ({}) exceeds limit ({limit})",
                            entry.size
                        ));
                    }
                    if files.len() >= MOST_FILES {
                        return Err(format!("the chart has more than {MOST_FILES} files"));
                    }
                    let data = self
                        .read(&below(chart, &name))
                        .map_err(|error| format!("error reading {name}: {error}"))?;
                    files.push(ChartFile::new(name, archive::without_byte_order_mark(data)));
                }
            }
        }
        Ok(())
    }

    fn dependency(&self, path: &str, dependency: &Dependency) -> Result<Chart, String> {
        let reference = &dependency.repository;
        let missing = || format!("no chart found at '/{path}' (reference '{reference}')");
        self.kind(path).map_err(|_| missing())?;
        let wanted = &dependency.version;
        let constraint = Constraint::parse(wanted)
            .map_err(|error| format!("invalid version/constraint format '{wanted}': {error}"))?;
        let chart = self.load(path).map_err(|error| {
            format!("failed to load chart from '/{path}' (reference '{reference}'): {error}")
        })?;
        let version = Version::parse(&chart.metadata.version).map_err(|error| error.to_string())?;
        match constraint.check(&version) {
            true => Ok(chart),
            false => Err(format!(
                "can't get a valid version for constraint '{wanted}'"
            )),
        }
    }
}

/// What Go says of the usual troubles with files.
fn go_words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file or directory".to_owned(),
        ErrorKind::NotADirectory => "not a directory".to_owned(),
        ErrorKind::IsADirectory => "is a directory".to_owned(),
        ErrorKind::InvalidInput => "invalid argument".to_owned(),
        _ => error.to_string(),
    }
}
