//! Files into charts.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};

use super::archive::{self, ArchiveError};
use super::{API_VERSION_V1, Chart, ChartFile, Metadata};
use crate::values::Warnings;

/// How deep charts may stand in each other.
const MAX_CHART_DEPTH: usize = 50;

/// Why files are no chart, in helm's words.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file of the chart cannot be read.
    #[error("cannot load {file}: {reason}")]
    File {
        /// Which file.
        file: &'static str,
        /// Why.
        reason: String,
    },
    /// There is no `Chart.yaml`.
    #[error("Chart.yaml file is missing")]
    NoChartFile,
    /// `Chart.yaml` says something it may not.
    #[error("{0}")]
    Invalid(String),
    /// A dependency under `charts/` is no chart.
    #[error("error unpacking subchart {name} in {parent}: {source}")]
    Subchart {
        /// The file or directory.
        name: String,
        /// The chart it stands in.
        parent: String,
        /// Why.
        source: Box<LoadError>,
    },
    /// A `.tgz` under `charts/` is a directory.
    #[error("error unpacking subchart tar in {parent}: expected {name}, got {found}")]
    SubchartArchive {
        /// The chart it stands in.
        parent: String,
        /// The name of the archive.
        name: String,
        /// What was found instead.
        found: String,
    },
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Charts in charts without end.
    #[error("charts nest deeper than {MAX_CHART_DEPTH} levels")]
    TooDeep,
}

/// A chart from a `.tgz`.
pub fn load_archive(bytes: &[u8], warnings: &mut Warnings) -> Result<Chart, LoadError> {
    load_files(archive::unpack(bytes)?, warnings)
}

/// A chart from its files, named relative to the chart's directory.
pub fn load_files(files: Vec<ChartFile>, warnings: &mut Warnings) -> Result<Chart, LoadError> {
    load(files, 0, warnings)
}

/// A values file: its documents merged in order, every number a float.
pub fn load_values(data: &[u8]) -> Result<Map, String> {
    match everflow_yaml::documents::helm_values(data) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn load(files: Vec<ChartFile>, depth: usize, warnings: &mut Warnings) -> Result<Chart, LoadError> {
    if depth > MAX_CHART_DEPTH {
        return Err(LoadError::TooDeep);
    }
    let mut chart = Chart {
        values: Value::Object(Map::new()),
        raw: files.clone(),
        ..Chart::default()
    };
    let mut metadata = None;
    for file in files.iter().filter(|file| file.name == "Chart.yaml") {
        let metadata = metadata.get_or_insert_with(Metadata::default);
        absorb(metadata, file, "Chart.yaml")?;
        if metadata.api_version.is_empty() {
            API_VERSION_V1.clone_into(&mut metadata.api_version);
        }
    }
    let mut subcharts: BTreeMap<String, Vec<ChartFile>> = BTreeMap::new();
    for file in files {
        sort_file(file, &mut chart, &mut metadata, &mut subcharts, warnings)?;
    }
    chart.metadata = metadata.ok_or(LoadError::NoChartFile)?;
    chart.metadata.validate().map_err(LoadError::Invalid)?;
    for (name, files) in subcharts {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let dependency = load_subchart(&name, files, chart.name(), depth + 1, warnings)?;
        chart.dependencies.push(dependency);
    }
    Ok(chart)
}

fn sort_file(
    file: ChartFile,
    chart: &mut Chart,
    metadata: &mut Option<Metadata>,
    subcharts: &mut BTreeMap<String, Vec<ChartFile>>,
    warnings: &mut Warnings,
) -> Result<(), LoadError> {
    match file.name.as_str() {
        "Chart.yaml" => {}
        "Chart.lock" => chart.lock = Some(parse(&file, "Chart.lock")?),
        "values.yaml" => {
            let values = load_values(&file.data).map_err(|reason| LoadError::File {
                file: "values.yaml",
                reason,
            })?;
            chart.values = Value::Object(values);
        }
        "values.schema.json" => chart.schema = Some(file.data),
        "requirements.yaml" => {
            let metadata = metadata.get_or_insert_with(Metadata::default);
            if metadata.api_version != API_VERSION_V1 {
                warnings.push(
                    "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". We \
                     recommend migrating dependencies to Chart.yaml.",
                );
            }
            absorb(metadata, &file, "requirements.yaml")?;
            if metadata.api_version == API_VERSION_V1 {
                chart.files.push(file);
            }
        }
        "requirements.lock" => {
            chart.lock = Some(parse(&file, "requirements.lock")?);
            let metadata = metadata.get_or_insert_with(Metadata::default);
            if metadata.api_version != API_VERSION_V1 {
                warnings.push(
                    "Warning: Dependency locking is handled in Chart.lock since apiVersion \"v2\". \
                     We recommend migrating to Chart.lock.",
                );
            } else {
                chart.files.push(file);
            }
        }
        name if name.starts_with("templates/") => chart.templates.push(file),
        name if name.starts_with("charts/") && !name.ends_with(".prov") => {
            let inner = name["charts/".len()..].to_owned();
            let first = inner.split('/').next().unwrap_or(&inner).to_owned();
            subcharts
                .entry(first)
                .or_default()
                .push(ChartFile::new(inner, file.data));
        }
        _ => chart.files.push(file),
    }
    Ok(())
}

fn load_subchart(
    name: &str,
    files: Vec<ChartFile>,
    parent: &str,
    depth: usize,
    warnings: &mut Warnings,
) -> Result<Chart, LoadError> {
    let outcome = if name.ends_with(".tgz") {
        match files.first() {
            Some(file) if file.name == name => archive::unpack(&file.data)
                .map_err(LoadError::from)
                .and_then(|files| load(files, depth, warnings)),
            other => {
                return Err(LoadError::SubchartArchive {
                    parent: parent.to_owned(),
                    name: name.to_owned(),
                    found: other.map(|file| file.name.clone()).unwrap_or_default(),
                });
            }
        }
    } else {
        let files = files
            .into_iter()
            .filter_map(|file| {
                let (_, rest) = file.name.split_once('/')?;
                Some(ChartFile::new(rest, file.data))
            })
            .collect();
        load(files, depth, warnings)
    };
    outcome.map_err(|source| LoadError::Subchart {
        name: name.to_owned(),
        parent: parent.to_owned(),
        source: Box::new(source),
    })
}

fn absorb(metadata: &mut Metadata, file: &ChartFile, name: &'static str) -> Result<(), LoadError> {
    let yaml = parse(file, name)?;
    metadata
        .absorb(&yaml)
        .map_err(|reason| LoadError::File { file: name, reason })
}

fn parse(file: &ChartFile, name: &'static str) -> Result<Value, LoadError> {
    everflow_yaml::sigs::yaml_to_json(&file.data).map_err(|error| LoadError::File {
        file: name,
        reason: format!("error converting YAML to JSON: {error}"),
    })
}
