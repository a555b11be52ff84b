//! Values that outlive an upgrade: `upgrade.preserveValues`, Helm's `--reuse-values`.

use everflow_gotemplate::{FuncError, Limits, Map as GoMap, Meter, Numbers, Value as GoValue};
use everflow_helm::values::{ValuesOfChart, Warnings, coalesce_tables, coalesce_values};
use everflow_json::{Map, Value};
use everflow_limits::Budget;

use crate::error::Error;

/// What an upgrade takes from the revision before.
#[derive(Debug, Clone, PartialEq)]
pub struct Preserved {
    /// The values of the new revision.
    pub config: Map,
    /// What takes the place of the chart's own defaults.
    pub chart_values: Value,
}

/// The values of the new revision: the new ones over those of the revision before.
///
/// # Errors
/// When they nest too deep.
pub fn merged_config(values: &Map, before: &Map, budget: &Budget) -> Result<Map, Error> {
    let meter = &Meter::new(&Limits::default(), budget);
    let merged = go_map(&Value::Object(values.clone()), meter).map_err(failed)?;
    let before = go_map(&Value::Object(before.clone()), meter).map_err(failed)?;
    coalesce_tables(&merged, &before, &mut Warnings::default(), meter).map_err(failed)?;
    json_map(&merged, meter)
}

/// The values of the new revision, and the defaults that its chart gets: all values that the chart in the
/// record of the revision before came to.
///
/// # Errors
/// When the values cannot be put together.
pub fn preserve(
    values: &Map,
    chart: &Value,
    before: &Map,
    budget: &Budget,
) -> Result<Preserved, Error> {
    let meter = &Meter::new(&Limits::default(), budget);
    let old_chart = RecordedChart {
        name: chart["metadata"]["name"].as_str().unwrap_or_default(),
        values: &chart["values"],
    };
    let old_values = go_map(&Value::Object(before.clone()), meter).map_err(failed)?;
    let all = coalesce_values(&old_chart, &old_values, &mut Warnings::default(), meter)
        .map_err(failed)?;
    Ok(Preserved {
        config: merged_config(values, before, budget)?,
        chart_values: Value::Object(json_map(&all, meter)?),
    })
}

/// A chart as a record holds it: without its dependencies.
struct RecordedChart<'r> {
    name: &'r str,
    values: &'r Value,
}

impl ValuesOfChart for RecordedChart<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn default_values(&self, meter: &Meter<'_>) -> Result<GoMap, FuncError> {
        go_map(self.values, meter)
    }

    fn dependencies(&self) -> Vec<&dyn ValuesOfChart> {
        Vec::new()
    }
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::PreserveValues(cause.to_string())
}

fn go_map(values: &Value, meter: &Meter<'_>) -> Result<GoMap, FuncError> {
    Ok(match GoValue::from_json(values, Numbers::Int64, meter)? {
        GoValue::Map(map) => map,
        _ => GoMap::new(),
    })
}

fn json_map(values: &GoMap, meter: &Meter<'_>) -> Result<Map, Error> {
    let json = GoValue::Map(values.clone())
        .to_json(meter)
        .map_err(failed)?;
    match json {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn map(value: Value) -> Map {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn new_values_win_over_those_of_the_revision_before() {
        let chart = json!({"metadata": {"name": "app"}, "values": {"greeting": "hello", "d": 1}});
        let before = map(json!({"greeting": "one", "a": 1, "m": {"x": 1}}));
        let preserved = preserve(
            &map(json!({"a": 2, "m": {"y": 2}})),
            &chart,
            &before,
            &Budget::unlimited(),
        )
        .unwrap();
        let config = json!({"a": 2, "greeting": "one", "m": {"x": 1, "y": 2}});
        assert_eq!(Value::Object(preserved.config), config);
        let defaults = json!({"greeting": "one", "d": 1, "a": 1, "m": {"x": 1}});
        assert_eq!(preserved.chart_values, defaults);
    }
}
