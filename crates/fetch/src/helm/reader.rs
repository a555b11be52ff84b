//! Reads charts from a tree of files.

use std::fmt::Display;
use std::io::ErrorKind;

use everflow_env::disk::{EntryKind, below, clean};
use everflow_env::{Disk, disk};
use everflow_helm::chart::archive::ArchiveError;
use everflow_helm::chart::ignore::IgnoreRules;
use everflow_helm::chart::{
    Chart, ChartFile, ChartLoader, Dependency, LoadError, Metadata, archive,
};
use everflow_helm::package::{
    MetadataError, ValuesFile, ValuesFilesError, metadata_of_archive, metadata_of_files,
};
use everflow_helm::values::Warnings;
use everflow_limits::{Budget, Exceeded};
use everflow_semver::{Constraint, Version};

use super::HelmLimits;
use super::build::Reason;
use super::source::too_large;
use crate::Error;

/// How deep the directories of a chart may nest.
const DEEPEST: usize = 100;

/// Why something of a tree cannot be used, with the limit if there was one.
pub(super) struct Failed {
    pub(super) text: String,
    pub(super) exceeded: Option<Exceeded>,
}

impl Failed {
    pub(super) fn of(text: impl Display, exceeded: Option<&Exceeded>) -> Self {
        Failed {
            text: text.to_string(),
            exceeded: exceeded.cloned(),
        }
    }

    /// The same as part of something larger.
    pub(super) fn behind(self, what: impl Display) -> Self {
        Failed {
            text: format!("{what}: {}", self.text),
            ..self
        }
    }

    pub(super) fn because(self, reason: Reason) -> Error {
        reason.because(self.text, self.exceeded.as_ref())
    }
}

impl From<String> for Failed {
    fn from(text: String) -> Self {
        Failed::of(text, None)
    }
}

impl From<Exceeded> for Failed {
    fn from(exceeded: Exceeded) -> Self {
        Failed::of(&exceeded, Some(&exceeded))
    }
}

impl From<LoadError> for Failed {
    fn from(error: LoadError) -> Self {
        Failed::of(&error, error.exceeded())
    }
}

impl From<MetadataError> for Failed {
    fn from(error: MetadataError) -> Self {
        Failed::of(&error, error.exceeded())
    }
}

impl From<ArchiveError> for Failed {
    fn from(error: ArchiveError) -> Self {
        Failed::of(&error, error.exceeded())
    }
}

/// Reads charts from a tree. Messages are Flux's; paths in them begin at the root of the tree.
pub(super) struct TreeReader<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) root: &'a str,
    pub(super) limits: HelmLimits,
    pub(super) budget: &'a Budget,
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

    pub(super) fn kind(&self, path: &str) -> Result<EntryKind, Failed> {
        match self.disk.entry(&self.place(path)) {
            Ok(entry) => Ok(entry.kind),
            Err(error) => Err(format!("stat /{path}: {}", go_words(&error)).into()),
        }
    }

    pub(super) fn metadata(&self, path: &str, is_directory: bool) -> Result<Metadata, Failed> {
        let limits = self.limits;
        if !is_directory {
            let bytes = self.archive(path)?;
            let metadata = metadata_of_archive(&bytes, limits.of_chart(), limits.file, self.budget);
            return Ok(metadata?);
        }
        let chart = self.read(&below(path, "Chart.yaml"))?;
        let requirements = below(path, "requirements.yaml");
        let requirements = match self.disk.entry(&self.place(&requirements)) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Ok(entry) if entry.kind == EntryKind::Directory => {
                return Err("'requirements.yaml' is a directory".to_owned().into());
            }
            _ => Some(self.read(&requirements)?),
        };
        Ok(metadata_of_files(
            &chart,
            requirements.as_deref(),
            self.budget,
        )?)
    }

    /// A file, which may not be larger than files of charts may be.
    fn read(&self, path: &str) -> Result<Vec<u8>, Failed> {
        let limit = self.limits.file;
        let read = disk::read_all(self.disk, &self.place(path), limit);
        let bytes = read.map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                let name = path.rsplit('/').next().unwrap_or(path);
                format!("size of '{name}' exceeds '{limit}' bytes limit")
            }
            _ => format!("open /{path}: {}", go_words(&error)),
        })?;
        self.budget.charge(bytes.len())?;
        Ok(bytes)
    }

    pub(super) fn archive(&self, path: &str) -> Result<Vec<u8>, Failed> {
        let limit = self.limits.chart;
        let read = disk::read_all(self.disk, &self.place(path), limit);
        let bytes = read.map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => too_large(path, limit),
            _ => format!("open /{path}: {}", go_words(&error)),
        })?;
        self.budget.charge(bytes.len())?;
        Ok(bytes)
    }

    pub(super) fn values_file(&self, name: &str) -> Result<ValuesFile, Exceeded> {
        let path = clean(name);
        let is_file = self
            .disk
            .entry(&self.place(&path))
            .is_ok_and(|entry| entry.kind == EntryKind::File);
        if !is_file {
            self.budget.check()?;
            return Ok(ValuesFile::Missing(ValuesFilesError::MissingAt {
                path: format!("/{path}"),
                reference: name.to_owned(),
            }));
        }
        match self.read(&path) {
            Ok(bytes) => Ok(ValuesFile::Text(bytes.into())),
            Err(Failed {
                exceeded: Some(exceeded),
                ..
            }) => Err(exceeded),
            Err(failed) => Ok(ValuesFile::Missing(ValuesFilesError::Unreadable {
                file: name.to_owned(),
                reason: failed.text,
            })),
        }
    }

    pub(super) fn load(&self, path: &str, loader: &mut ChartLoader<'_>) -> Result<Chart, Failed> {
        match self.kind(path)? {
            EntryKind::Directory => self.load_directory(path, loader),
            _ => {
                let bytes = self.archive(path)?;
                Ok(loader.archive(&bytes, &mut Warnings::default())?)
            }
        }
    }

    fn load_directory(&self, path: &str, loader: &mut ChartLoader<'_>) -> Result<Chart, Failed> {
        let rules = self
            .ignore_rules(path)
            .map_err(|failed| failed.behind("cannot load ignore rules for chart"))?;
        let mut walk = Walk {
            tree: self,
            chart: path,
            rules,
            loader,
            files: Vec::new(),
        };
        walk.directory("", 0)
            .map_err(|failed| failed.behind(format!("failed to load files from /{path}")))?;
        let files = walk.files;
        let loaded = loader.files(files, &mut Warnings::default());
        loaded.map_err(|error| {
            Failed::from(error).behind(format!("failed to load chart from /{path}"))
        })
    }

    fn ignore_rules(&self, path: &str) -> Result<IgnoreRules, Failed> {
        let file = below(path, ".helmignore");
        let text = match self.disk.entry(&self.place(&file)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            _ => self.read(&file)?,
        };
        let text = String::from_utf8_lossy(&text);
        IgnoreRules::parse(&text).map_err(|error| error.to_string().into())
    }

    pub(super) fn dependency(
        &self,
        path: &str,
        dependency: &Dependency,
        loader: &mut ChartLoader<'_>,
    ) -> Result<Chart, Failed> {
        let reference = &dependency.repository;
        let missing = || format!("no chart found at '/{path}' (reference '{reference}')");
        self.kind(path).map_err(|_| missing())?;
        let wanted = &dependency.version;
        let constraint = Constraint::parse(wanted)
            .map_err(|error| format!("invalid version/constraint format '{wanted}': {error}"))?;
        let chart = self.load(path, loader).map_err(|failed| {
            failed.behind(format!(
                "failed to load chart from '/{path}' (reference '{reference}')"
            ))
        })?;
        let version = Version::parse(&chart.metadata.version).map_err(|error| error.to_string())?;
        match constraint.check(&version) {
            true => Ok(chart),
            false => Err(format!("can't get a valid version for constraint '{wanted}'").into()),
        }
    }
}

/// Gathers the files of a chart's directory.
struct Walk<'w, 't, 'b> {
    tree: &'w TreeReader<'t>,
    chart: &'w str,
    rules: IgnoreRules,
    loader: &'w mut ChartLoader<'b>,
    files: Vec<ChartFile>,
}

impl Walk<'_, '_, '_> {
    /// Files in the order of a walk; what is ignored is not even looked at.
    fn directory(&mut self, inside: &str, depth: usize) -> Result<(), Failed> {
        if depth > DEEPEST {
            let what = "directories of a chart";
            let limit = DEEPEST as u64;
            return Err(Exceeded::Depth { what, limit }.into());
        }
        let directory = below(self.chart, inside);
        let entries = self.tree.disk.list(&self.tree.place(&directory));
        let entries =
            entries.map_err(|error| format!("open /{directory}: {}", go_words(&error)))?;
        for entry in entries {
            self.tree.budget.check()?;
            let name = below(inside, &entry.name);
            if self
                .rules
                .ignores(&name, entry.kind == EntryKind::Directory)
            {
                continue;
            }
            match entry.kind {
                EntryKind::Directory => self.directory(&name, depth + 1)?,
                EntryKind::Link | EntryKind::Special => {
                    let text = format!(
                        "cannot load irregular file {name} as it has file mode type bits set"
                    );
                    return Err(text.into());
                }
                EntryKind::File => self.file(name, entry.size)?,
            }
        }
        Ok(())
    }

    fn file(&mut self, name: String, size: u64) -> Result<(), Failed> {
        let limit = self.tree.limits.file;
        if size > limit {
            let text =
                format!("cannot load file {name} as file size ({size}) exceeds limit ({limit})");
            return Err(text.into());
        }
        self.loader.count(&name, size)?;
        let data = self.tree.read(&below(self.chart, &name));
        let data = data.map_err(|failed| failed.behind(format!("error reading {name}")))?;
        let data = archive::without_byte_order_mark(data);
        self.files.push(ChartFile::new(name, data));
        Ok(())
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
