//! Values: where they come from and how charts and their users' wishes become one tree.
//!
//! Trees are Go maps with Go's sharing: a subchart's `.Values` is the very map that stands in its
//! parent's `.Values`, and `set` in one is seen in the other.

mod coalesce;
mod lookup;

pub use coalesce::{coalesce_tables, coalesce_values, merge_tables, merge_values};
pub use lookup::{LookupError, path_value, table};

use everflow_gotemplate::{FuncError, Map, Meter, Value};
use everflow_json::{Map as JsonMap, Value as Json};
use everflow_limits::Exceeded;

/// The key under which values for all charts stand.
pub const GLOBAL: &str = "global";

/// Lines that helm logs while it works on values; the caller decides where they go.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Warnings(pub Vec<String>);

impl Warnings {
    /// Adds a line.
    pub fn push(&mut self, line: impl Into<String>) {
        self.0.push(line.into());
    }

    /// Adds a line that foreign input has a part in; the meter is charged for it.
    pub(crate) fn add(
        &mut self,
        line: impl Into<String>,
        meter: &Meter<'_>,
    ) -> Result<(), Exceeded> {
        let line = line.into();
        meter.add_buffer(2 * size_of::<String>() + line.len())?;
        self.0.push(line);
        Ok(())
    }
}

/// Why values cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A subchart's values are not a map.
    #[error("type mismatch on {chart}: {found}")]
    SubchartValues {
        /// The subchart.
        chart: String,
        /// What stands there instead, as Go's `%t` prints it.
        found: String,
    },
    /// The values nest deeper than can be walked.
    #[error("the values nest too deep")]
    TooDeep,
    /// They need more than there is.
    #[error("the values of the chart: {0}")]
    Exceeded(#[from] Exceeded),
}

impl From<FuncError> for ValuesError {
    fn from(error: FuncError) -> Self {
        match error.exceeded() {
            Some(exceeded) => ValuesError::Exceeded(exceeded.clone()),
            None => ValuesError::TooDeep,
        }
    }
}

/// A copy that shares nothing; a nil map becomes an empty one.
pub(crate) fn copied(values: &Map, meter: &Meter<'_>) -> Result<Map, ValuesError> {
    match Value::Map(values.clone()).deep_copy(meter)? {
        Value::Map(copy) if !copy.is_nil() => Ok(copy),
        _ => Ok(Map::new()),
    }
}

/// What coalescing asks of a chart.
pub trait ValuesOfChart {
    /// The chart's name, or its alias.
    fn name(&self) -> &str;
    /// A fresh copy of the chart's default values.
    fn default_values(&self, meter: &Meter<'_>) -> Result<Map, FuncError>;
    /// The chart's enabled dependencies, in order.
    fn dependencies(&self) -> Vec<&dyn ValuesOfChart>;
}

/// Lays `over` over `base`: maps are merged, everything else is replaced.
pub fn merge_json(base: &mut JsonMap, over: JsonMap) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Json::Object(inner)), Json::Object(over)) => merge_json(inner, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
