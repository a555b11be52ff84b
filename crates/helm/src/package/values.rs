//! Values files in place of a chart's own default values.

use std::sync::Arc;

use everflow_json::{Map, Value as Json};
use everflow_limits::{Budget, Exceeded};
use everflow_yaml::emit;
use everflow_yaml::sigs::typed::{Target, unmarshal};

use crate::chart::weight::{charge_text, read_yaml};
use crate::chart::{Chart, ChartFile};
use crate::values::merge_json;

/// The name of the file with a chart's default values.
pub(crate) const VALUES_FILE: &str = "values.yaml";

/// Why values files cannot be merged, in Flux's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValuesFilesError {
    /// There is no such file.
    #[error("no values file found at path '{0}'")]
    Missing(String),
    /// There is no such file below the root of a tree.
    #[error("no values file found at path '{path}' (reference '{reference}')")]
    MissingAt {
        /// Where it was looked for.
        path: String,
        /// How it was named.
        reference: String,
    },
    /// A file that holds no map, or no YAML.
    #[error("unmarshaling values from '{file}' failed: {reason}")]
    Unreadable {
        /// Which one.
        file: String,
        /// Why.
        reason: String,
    },
    /// The chart has no default values that could be replaced.
    #[error("failed to locate values file: values.yaml")]
    NoDefaults,
    /// The work has used up what it may use.
    #[error(transparent)]
    Limit(#[from] Exceeded),
}

impl ValuesFilesError {
    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            ValuesFilesError::Limit(exceeded) => Some(exceeded),
            _ => None,
        }
    }
}

/// One of the files to merge.
#[derive(Debug, Clone)]
pub enum ValuesFile {
    /// The text of a file.
    Text(Arc<[u8]>),
    /// Values that were read already.
    Read(Map),
    /// There is none.
    Missing(ValuesFilesError),
}

/// Merges files in order, later ones over earlier ones. What is missing is an error or left out;
/// the names are those that were used.
pub fn merge_values_files(
    files: Vec<(String, ValuesFile)>,
    ignore_missing: bool,
    budget: &Budget,
) -> Result<(Map, Vec<String>), ValuesFilesError> {
    let mut merged = Map::new();
    let mut used = Vec::new();
    for (name, file) in files {
        let values = match file {
            ValuesFile::Missing(_) if ignore_missing => continue,
            ValuesFile::Missing(error) => return Err(error),
            ValuesFile::Read(values) => values,
            ValuesFile::Text(text) => read(&name, &text, budget)?,
        };
        merge_json(&mut merged, values);
        used.push(name);
    }
    Ok((merged, used))
}

fn read(name: &str, text: &[u8], budget: &Budget) -> Result<Map, ValuesFilesError> {
    let target = Target::Map(Box::new(Target::Any));
    match read_yaml(budget, text, |text| unmarshal(text, &target))? {
        Ok(Json::Object(values)) => Ok(values),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(ValuesFilesError::Unreadable {
            file: name.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// Replaces a chart's default values; false if the text would stay the same.
pub fn overwrite_values(
    chart: &mut Chart,
    values: Map,
    budget: &Budget,
) -> Result<bool, ValuesFilesError> {
    let values = Json::Object(values);
    charge_text(budget, &values)?;
    let text = match &values {
        Json::Object(fields) if fields.is_empty() => String::new(),
        values => emit::sigs(values),
    };
    let Some(file) = chart.raw.iter_mut().find(|file| file.name == VALUES_FILE) else {
        return Err(ValuesFilesError::NoDefaults);
    };
    if file.data[..] == *text.as_bytes() {
        return Ok(false);
    }
    *file = ChartFile::new(VALUES_FILE, text.into_bytes());
    chart.values = values;
    Ok(true)
}
