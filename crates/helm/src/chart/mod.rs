//! Charts: what they are made of and how they are read.

pub mod archive;
pub(crate) mod decode;
pub(crate) mod fields;
pub mod ignore;
mod load;
mod metadata;
pub mod path_match;
pub(crate) mod weight;

use std::sync::Arc;

use everflow_gotemplate::{FuncError, Map, Meter, Numbers, Value};
use everflow_json::Value as Json;

pub use archive::ChartLimits;
pub use load::{ChartLoader, LoadError, load_archive, load_files, load_values};
pub use metadata::{API_VERSION_V1, Dependency, Maintainer, Metadata};

use crate::values::ValuesOfChart;

/// One file of a chart; cloning it shares the bytes.
#[derive(Debug, Clone)]
pub struct ChartFile {
    /// The path relative to the chart, with `/`.
    pub name: String,
    /// The content.
    pub data: Arc<[u8]>,
}

impl ChartFile {
    /// A file with its content.
    pub fn new(name: impl Into<String>, data: impl Into<Arc<[u8]>>) -> Self {
        ChartFile {
            name: name.into(),
            data: data.into(),
        }
    }

    /// The content as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.data)
    }
}

/// A chart with its dependencies. Cloning shares the files.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// `Chart.yaml`.
    pub metadata: Metadata,
    /// `Chart.lock` or `requirements.lock`.
    pub lock: Option<Json>,
    /// What stands under `templates/`.
    pub templates: Vec<ChartFile>,
    /// `values.yaml`; every number is a float, as Go reads it.
    pub values: Json,
    /// `values.schema.json`.
    pub schema: Option<Arc<[u8]>>,
    /// Everything else, `crds/` included.
    pub files: Vec<ChartFile>,
    /// Every file as it was given.
    pub raw: Vec<ChartFile>,
    /// The charts under `charts/`.
    pub dependencies: Vec<Chart>,
}

impl Chart {
    /// The name, or the alias once dependencies are processed.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether the chart only holds partials for others.
    pub fn is_library(&self) -> bool {
        self.metadata.kind == "library"
    }

    /// Custom resource definitions of this chart and its dependencies, with their full paths.
    pub fn crds(&self) -> Vec<(String, ChartFile)> {
        let mut found = Vec::new();
        self.collect_crds(self.name(), &mut found);
        found
    }

    fn collect_crds(&self, path: &str, found: &mut Vec<(String, ChartFile)>) {
        for file in &self.files {
            if file.name.starts_with("crds/") && has_manifest_extension(&file.name) {
                found.push((format!("{path}/{}", file.name), file.clone()));
            }
        }
        for dependency in &self.dependencies {
            dependency.collect_crds(&format!("{path}/charts/{}", dependency.name()), found);
        }
    }

    /// The chart's default values as a fresh Go map.
    pub fn default_values(&self, meter: &Meter<'_>) -> Result<Map, FuncError> {
        match Value::from_json(&self.values, Numbers::Int64, meter)? {
            Value::Map(map) => Ok(map),
            _ => Ok(Map::new()),
        }
    }
}

impl ValuesOfChart for Chart {
    fn name(&self) -> &str {
        Chart::name(self)
    }

    fn default_values(&self, meter: &Meter<'_>) -> Result<Map, FuncError> {
        Chart::default_values(self, meter)
    }

    fn dependencies(&self) -> Vec<&dyn ValuesOfChart> {
        self.dependencies
            .iter()
            .map(|chart| chart as &dyn ValuesOfChart)
            .collect()
    }
}

fn has_manifest_extension(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["yaml", "yml", "json"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}
