//! Files into charts.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};
use everflow_limits::{Budget, Exceeded};
use everflow_tar::{Meter, Used, shown};

use super::archive::{self, ArchiveError, ChartLimits};
use super::weight::read_yaml;
use super::{API_VERSION_V1, Chart, ChartFile, Metadata};
use crate::values::Warnings;

/// How deep charts may stand in each other.
const MAX_CHART_DEPTH: usize = 50;
/// How deep packed charts may stand in each other.
const MAX_ARCHIVE_DEPTH: u64 = 10;
/// What a file takes in memory beside its name and content, in bytes. A chart holds it twice: as it was given
/// and where it belongs.
const FILE_WEIGHT: usize = 256;

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
    /// The work has used up what it may use.
    #[error(transparent)]
    Limit(#[from] Exceeded),
}

impl LoadError {
    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            LoadError::Limit(exceeded) => Some(exceeded),
            LoadError::Archive(error) => error.exceeded(),
            LoadError::Subchart { source, .. } => source.exceeded(),
            _ => None,
        }
    }
}

/// Loads charts. All that one of them loads shares its limits: a chart, the charts in it, and those that are
/// added to it.
#[derive(Debug)]
pub struct ChartLoader<'b> {
    meter: Meter<'b>,
}

impl<'b> ChartLoader<'b> {
    /// Has loaded nothing yet.
    pub fn new(limits: ChartLimits, budget: &'b Budget) -> Self {
        ChartLoader::going_on(limits, Used::default(), budget)
    }

    /// Goes on where another loader of the same chart has ended.
    pub fn going_on(limits: ChartLimits, used: Used, budget: &'b Budget) -> Self {
        ChartLoader {
            meter: Meter::going_on(limits.of_archives(), used, budget),
        }
    }

    /// What was loaded so far.
    pub fn used(&self) -> Used {
        self.meter.used()
    }

    /// Counts a file of a chart's directory, before it is read and charged.
    pub fn count(&mut self, name: &str, size: u64) -> Result<(), ArchiveError> {
        Ok(self.meter.count(name.as_bytes(), size)?)
    }

    /// A chart from a `.tgz`.
    pub fn archive(&mut self, bytes: &[u8], warnings: &mut Warnings) -> Result<Chart, LoadError> {
        let files = archive::unpack_within(bytes, &mut self.meter)?;
        self.files(files, warnings)
    }

    /// A chart from its files, named relative to the chart's directory.
    pub fn files(
        &mut self,
        files: Vec<ChartFile>,
        warnings: &mut Warnings,
    ) -> Result<Chart, LoadError> {
        let mut loading = Loading {
            meter: &mut self.meter,
            warnings,
        };
        loading.chart(files, Depth::default())
    }
}

/// A chart from a `.tgz`, by helm's own limits.
pub fn load_archive(bytes: &[u8], warnings: &mut Warnings) -> Result<Chart, LoadError> {
    ChartLoader::new(ChartLimits::default(), &Budget::unlimited()).archive(bytes, warnings)
}

/// A chart from its files, named relative to the chart's directory.
pub fn load_files(files: Vec<ChartFile>, warnings: &mut Warnings) -> Result<Chart, LoadError> {
    ChartLoader::new(ChartLimits::default(), &Budget::unlimited()).files(files, warnings)
}

/// A values file: its documents merged in order, every number a float.
pub fn load_values(data: &[u8]) -> Result<Map, String> {
    match everflow_yaml::documents::helm_values(data) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// How deep a chart stands in others.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    charts: usize,
    archives: u64,
}

struct Loading<'l, 'b> {
    meter: &'l mut Meter<'b>,
    warnings: &'l mut Warnings,
}

impl Loading<'_, '_> {
    fn chart(&mut self, files: Vec<ChartFile>, depth: Depth) -> Result<Chart, LoadError> {
        if depth.charts > MAX_CHART_DEPTH {
            return Err(LoadError::TooDeep);
        }
        for file in &files {
            let weight = 2 * (file.name.len() + FILE_WEIGHT);
            self.meter.budget().charge(weight)?;
        }
        let mut chart = Chart {
            values: Value::Object(Map::new()),
            raw: files.clone(),
            ..Chart::default()
        };
        let mut metadata = None;
        for file in files.iter().filter(|file| file.name == "Chart.yaml") {
            let metadata = metadata.get_or_insert_with(Metadata::default);
            self.absorb(metadata, file, "Chart.yaml")?;
            if metadata.api_version.is_empty() {
                API_VERSION_V1.clone_into(&mut metadata.api_version);
            }
        }
        let mut subcharts: BTreeMap<String, Vec<ChartFile>> = BTreeMap::new();
        for file in files {
            self.sort_file(file, &mut chart, &mut metadata, &mut subcharts)?;
        }
        chart.metadata = metadata.ok_or(LoadError::NoChartFile)?;
        chart.metadata.validate().map_err(LoadError::Invalid)?;
        for (name, files) in subcharts {
            if name.starts_with(['_', '.']) {
                continue;
            }
            let dependency = self.subchart(&name, files, chart.name(), depth)?;
            chart.dependencies.push(dependency);
        }
        Ok(chart)
    }

    fn sort_file(
        &mut self,
        file: ChartFile,
        chart: &mut Chart,
        metadata: &mut Option<Metadata>,
        subcharts: &mut BTreeMap<String, Vec<ChartFile>>,
    ) -> Result<(), LoadError> {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => chart.lock = Some(self.parse(&file, "Chart.lock")?),
            "values.yaml" => {
                let read = |data: &[u8]| load_values(data).map(Value::Object);
                let values = read_yaml(self.meter.budget(), &file.data, read)?;
                chart.values = values.map_err(|reason| LoadError::File {
                    file: "values.yaml",
                    reason,
                })?;
            }
            "values.schema.json" => chart.schema = Some(file.data),
            "requirements.yaml" => {
                let metadata = metadata.get_or_insert_with(Metadata::default);
                if metadata.api_version != API_VERSION_V1 {
                    self.warnings.push(
                        "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". We \
                         recommend migrating dependencies to Chart.yaml.",
                    );
                }
                self.absorb(metadata, &file, "requirements.yaml")?;
                if metadata.api_version == API_VERSION_V1 {
                    chart.files.push(file);
                }
            }
            "requirements.lock" => {
                chart.lock = Some(self.parse(&file, "requirements.lock")?);
                let metadata = metadata.get_or_insert_with(Metadata::default);
                if metadata.api_version != API_VERSION_V1 {
                    self.warnings.push(
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

    fn subchart(
        &mut self,
        name: &str,
        files: Vec<ChartFile>,
        parent: &str,
        around: Depth,
    ) -> Result<Chart, LoadError> {
        let depth = Depth {
            charts: around.charts + 1,
            ..around
        };
        let outcome = if name.ends_with(".tgz") {
            match files.first() {
                Some(file) if file.name == name => self.packed(&file.data, depth),
                other => {
                    return Err(LoadError::SubchartArchive {
                        parent: shown(parent.as_bytes()),
                        name: shown(name.as_bytes()),
                        found: other.map_or_else(String::new, |file| shown(file.name.as_bytes())),
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
            self.chart(files, depth)
        };
        outcome.map_err(|source| LoadError::Subchart {
            name: shown(name.as_bytes()),
            parent: shown(parent.as_bytes()),
            source: Box::new(source),
        })
    }

    fn packed(&mut self, bytes: &[u8], mut depth: Depth) -> Result<Chart, LoadError> {
        depth.archives += 1;
        if depth.archives > MAX_ARCHIVE_DEPTH {
            return Err(LoadError::Limit(Exceeded::Depth {
                what: "packed charts",
                limit: MAX_ARCHIVE_DEPTH,
            }));
        }
        let files = archive::unpack_within(bytes, self.meter)?;
        self.chart(files, depth)
    }

    fn absorb(
        &self,
        metadata: &mut Metadata,
        file: &ChartFile,
        name: &'static str,
    ) -> Result<(), LoadError> {
        let yaml = self.parse(file, name)?;
        metadata
            .absorb(&yaml)
            .map_err(|reason| LoadError::File { file: name, reason })
    }

    fn parse(&self, file: &ChartFile, name: &'static str) -> Result<Value, LoadError> {
        let read = everflow_yaml::sigs::yaml_to_json;
        read_yaml(self.meter.budget(), &file.data, read)?.map_err(|error| LoadError::File {
            file: name,
            reason: format!("error converting YAML to JSON: {error}"),
        })
    }
}
