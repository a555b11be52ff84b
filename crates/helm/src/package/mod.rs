//! Charts into archives: what goes in, under which names, in which order, as `helm package` and
//! Flux write it. The bytes of the archive itself are written elsewhere.

mod lock;
mod metadata;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everflow_json::Value as Json;
use everflow_limits::{Budget, Exceeded};
use everflow_yaml::{emit, gojson};

pub use lock::Lock;
pub use metadata::{MetadataError, metadata_of_archive, metadata_of_files, with_build_metadata};
pub use values::{ValuesFile, ValuesFilesError, merge_values_files, overwrite_values};

use crate::chart::{API_VERSION_V1, Chart, Dependency, Metadata};
use crate::release::metadata_record;

/// The longest chain of charts in charts.
const DEEPEST: usize = 50;

/// Why a chart cannot be packaged, in helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// `Chart.yaml` says something it may not.
    #[error("chart validation: {0}")]
    Invalid(String),
    /// The name would lead out of the archive.
    #[error("invalid chart name {0:?}")]
    Name(String),
    /// The schema is not JSON.
    #[error("invalid JSON in values.schema.json")]
    Schema,
    /// `Chart.lock` is not what it should be.
    #[error("cannot load Chart.lock: {0}")]
    Lock(String),
    /// Charts in charts without end.
    #[error("charts nest deeper than {DEEPEST} levels")]
    TooDeep,
    /// The work has used up what it may use.
    #[error(transparent)]
    Limit(#[from] Exceeded),
}

impl PackageError {
    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            PackageError::Limit(exceeded) => Some(exceeded),
            _ => None,
        }
    }
}

/// A file of an archive: its path, beginning with the chart's name, and its content.
pub type PackageFile = (String, Arc<[u8]>);

/// What a file takes in memory beside its path, in bytes.
const FILE_WEIGHT: usize = 64;

/// The files of a chart's archive, in order.
pub fn package_files(chart: &Chart, budget: &Budget) -> Result<Vec<PackageFile>, PackageError> {
    let mut checked = chart.metadata.clone();
    checked.validate().map_err(PackageError::Invalid)?;
    let mut files = Vec::new();
    collect(chart, "", 0, budget, &mut files)?;
    Ok(files)
}

fn collect(
    chart: &Chart,
    prefix: &str,
    depth: usize,
    budget: &Budget,
    files: &mut Vec<PackageFile>,
) -> Result<(), PackageError> {
    if depth > DEEPEST {
        return Err(PackageError::TooDeep);
    }
    let name = chart.name();
    if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
        return Err(PackageError::Name(name.to_owned()));
    }
    let base = format!("{prefix}{name}/");
    let mut add = |name: &str, data: Arc<[u8]>| {
        budget.charge(base.len() + name.len() + FILE_WEIGHT)?;
        files.push((format!("{base}{name}"), data));
        Ok::<_, Exceeded>(())
    };
    let text = chart_yaml(&chart.metadata);
    add("Chart.yaml", text.into_bytes().into())?;
    if chart.metadata.api_version == "v2"
        && let Some(lock) = &chart.lock
    {
        let lock = Lock::read(lock).map_err(PackageError::Lock)?;
        let text = emit::sigs(&lock.to_json());
        add("Chart.lock", text.into_bytes().into())?;
    }
    for file in chart.raw.iter().filter(|file| file.name == "values.yaml") {
        add("values.yaml", file.data.clone())?;
    }
    if let Some(schema) = &chart.schema {
        if !gojson::is_valid(schema) {
            return Err(PackageError::Schema);
        }
        add("values.schema.json", schema.clone())?;
    }
    for file in chart.templates.iter().chain(&chart.files) {
        add(&file.name, file.data.clone())?;
    }
    let inner = format!("{base}charts/");
    for dependency in &chart.dependencies {
        collect(dependency, &inner, depth + 1, budget, files)?;
    }
    Ok(())
}

/// `Chart.yaml` as it is written into archives: sorted, without comments and empty fields.
fn chart_yaml(metadata: &Metadata) -> String {
    let mut json = metadata_record(metadata);
    if metadata.api_version == API_VERSION_V1
        && let Json::Object(fields) = &mut json
    {
        // Theirs stand in requirements.yaml.
        fields.remove("dependencies");
    }
    emit::sigs(&json)
}

/// The dependencies that a chart names and does not hold yet, by alias or name. What the lock file
/// says counts more than `Chart.yaml`.
pub fn missing_dependencies(chart: &Chart) -> Result<BTreeMap<String, Dependency>, PackageError> {
    let wanted: Vec<Dependency> = match &chart.lock {
        Some(lock) => Lock::read(lock).map_err(PackageError::Lock)?.dependencies,
        None => chart
            .metadata
            .dependencies
            .iter()
            .flatten()
            .cloned()
            .collect(),
    };
    let mut missing = BTreeMap::new();
    // As many as are wanted: then those are taken to be the right ones.
    if chart.dependencies.len() == wanted.len() {
        return Ok(missing);
    }
    let held: BTreeSet<&str> = chart.dependencies.iter().map(Chart::name).collect();
    for dependency in wanted {
        let name = match dependency.alias.as_str() {
            "" => dependency.name.clone(),
            alias => alias.to_owned(),
        };
        if !held.contains(name.as_str()) {
            missing.insert(name, dependency);
        }
    }
    Ok(missing)
}

/// Whether a dependency lies beside the chart instead of in a repository.
pub fn is_local(dependency: &Dependency) -> bool {
    dependency.repository.is_empty() || dependency.repository.starts_with("file://")
}

#[cfg(test)]
mod tests;
