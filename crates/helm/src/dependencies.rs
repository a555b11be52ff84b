//! Which dependencies take part, under which names, and which of their values a parent takes over.

use everflow_gotemplate::{Map, Meter, Numbers, Value, map_bytes};
use everflow_json::Value as Json;
use everflow_semver::{Constraint, Version};
use everflow_sprig::cost;

use crate::chart::weight::copy_takes;
use crate::chart::{Chart, Dependency};
use crate::go_text::{formatted, quoted};
use crate::values::{
    LookupError, ValuesError, Warnings, coalesce_values, copied, merge_tables, merge_values,
    path_value, table,
};

/// How deep a path of imported values may go.
const MAX_DEPTH: usize = 500;

/// Removes disabled dependencies, makes aliased copies and imports values, in place.
pub fn process_dependencies(
    chart: &mut Chart,
    values: &Map,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<(), ValuesError> {
    let mark = meter.mark();
    enable(chart, values, "", warnings, meter)?;
    import_all(chart, warnings, meter)?;
    // Only plain trees are left.
    meter.release_to(mark);
    Ok(())
}

/// Names of declared dependencies that are not under `charts/`.
pub fn missing_dependencies(chart: &Chart) -> Vec<String> {
    chart
        .metadata
        .dependencies
        .iter()
        .flatten()
        .filter(|declared| !chart.dependencies.iter().any(|c| c.name() == declared.name))
        .map(|declared| declared.name.clone())
        .collect()
}

/// Whether a version lies in a constraint; one that cannot be read holds nothing.
pub fn is_compatible(constraint: &str, version: &str) -> bool {
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}

fn enable(
    chart: &mut Chart,
    values: &Map,
    path: &str,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<(), ValuesError> {
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    chart.dependencies = declared_and_undeclared(chart, meter)?;
    for declared in chart.metadata.dependencies.iter_mut().flatten() {
        if !declared.alias.is_empty() {
            declared.name.clone_from(&declared.alias);
        }
        declared.enabled = true;
    }
    let all = coalesce_values(chart, values, warnings, meter)?;
    apply_tags(chart, &all, warnings);
    apply_conditions(chart, &all, path, warnings);

    let declared = std::mem::take(&mut chart.metadata.dependencies);
    let disabled: Vec<String> = declared
        .iter()
        .flatten()
        .filter(|dependency| !dependency.enabled)
        .map(|dependency| dependency.name.clone())
        .collect();
    let stays = |name: &str| !disabled.iter().any(|gone| gone == name);
    chart.dependencies.retain(|inner| stays(inner.name()));
    for inner in &mut chart.dependencies {
        let path = format!("{path}{}.", inner.name());
        enable(inner, &all, &path, warnings, meter)?;
    }
    chart.metadata.dependencies = declared
        .into_iter()
        .filter(|dependency| dependency.as_ref().is_none_or(|d| stays(&d.name)))
        .collect();
    Ok(())
}

/// The charts under `charts/` that nobody declares, then the declared ones in order, each under
/// its alias. Ten lines can declare a chart a thousand times: each copy is charged, and stays charged.
fn declared_and_undeclared(chart: &Chart, meter: &Meter<'_>) -> Result<Vec<Chart>, ValuesError> {
    let fits = |inner: &Chart, declared: &Dependency| {
        inner.name() == declared.name && is_compatible(&declared.version, &inner.metadata.version)
    };
    let declarations = || chart.metadata.dependencies.iter().flatten();
    let mut charts: Vec<Chart> = chart
        .dependencies
        .iter()
        .filter(|inner| !declarations().any(|declared| fits(inner, declared)))
        .cloned()
        .collect();
    for declared in declarations() {
        meter.check()?;
        if let Some(inner) = chart.dependencies.iter().find(|c| fits(c, declared)) {
            meter.add_buffer(copy_takes(inner))?;
            let mut copy = inner.clone();
            if !declared.alias.is_empty() {
                copy.metadata.name.clone_from(&declared.alias);
            }
            charts.push(copy);
        }
    }
    Ok(charts)
}

fn apply_tags(chart: &mut Chart, values: &Map, warnings: &mut Warnings) {
    let Ok(tags) = table(values, "tags") else {
        return;
    };
    for dependency in chart.metadata.dependencies.iter_mut().flatten() {
        let (mut on, mut off) = (false, false);
        for tag in &dependency.tags {
            match tags.get(tag) {
                Some(Value::Bool(true)) => on = true,
                Some(Value::Bool(false)) => off = true,
                Some(_) => warnings.push(format!(
                    "level=WARN msg=\"returned non-bool value\" tag={tag} chart={}",
                    dependency.name
                )),
                None => {}
            }
        }
        dependency.enabled = on || !off;
    }
}

fn apply_conditions(chart: &mut Chart, values: &Map, path: &str, warnings: &mut Warnings) {
    for dependency in chart.metadata.dependencies.iter_mut().flatten() {
        for condition in dependency.condition.trim().split(',') {
            if condition.is_empty() {
                continue;
            }
            match path_value(values, &format!("{path}{condition}")) {
                Ok(Value::Bool(enabled)) => {
                    dependency.enabled = enabled;
                    break;
                }
                Ok(_) => warnings.push(format!(
                    "level=WARN msg=\"returned non-bool value\" path={condition} chart={}",
                    dependency.name
                )),
                Err(LookupError::NoValue(_)) => {}
                Err(error) => warnings.push(format!(
                    "level=WARN msg=\"the method PathValue returned error\" error={}",
                    quoted(&error.to_string())
                )),
            }
        }
    }
}

fn import_all(
    chart: &mut Chart,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<(), ValuesError> {
    for dependency in &mut chart.dependencies {
        import_all(dependency, warnings, meter)?;
    }
    let mark = meter.mark();
    import_values(chart, warnings, meter)?;
    meter.release_to(mark);
    Ok(())
}

/// The chart's values become those of itself and all below it, with the imports under them.
fn import_values(
    chart: &mut Chart,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<(), ValuesError> {
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let all = merge_values(chart, &Map::new(), warnings, meter)?;
    let imported = Map::new();
    for dependency in chart.metadata.dependencies.iter_mut().flatten() {
        let mut recorded = Vec::new();
        for import in &dependency.import_values {
            let (child, parent, warning) = match import {
                Json::Object(pair) => (
                    printed(pair.get("child"), meter)?,
                    printed(pair.get("parent"), meter)?,
                    format!(
                        "level=WARN msg=\"ImportValues missing table from chart\" chart={}",
                        dependency.name
                    ),
                ),
                Json::String(name) => (
                    format!("exports.{name}"),
                    ".".to_owned(),
                    "level=WARN msg=\"ImportValues missing table\"".to_owned(),
                ),
                _ => continue,
            };
            recorded.push(everflow_json::json!({"child": child, "parent": parent}));
            match table(&all, &format!("{}.{child}", dependency.name)) {
                Ok(found) => {
                    let nested = nested(&parent, &found, meter)?;
                    merge_tables(&imported, &nested, warnings, meter)?;
                }
                Err(error) => {
                    let line = format!("{warning} error={}", quoted(&error.to_string()));
                    warnings.add(line, meter)?;
                }
            }
        }
        dependency.import_values = recorded;
    }
    let own = copied(&all, meter)?;
    merge_tables(&own, &imported, warnings, meter)?;
    chart.values = Value::Map(own).to_json(meter)?;
    meter.add_buffer(cost::of_tree(&chart.values))?;
    Ok(())
}

fn printed(value: Option<&Json>, meter: &Meter<'_>) -> Result<String, ValuesError> {
    let value = match value {
        Some(json) => Value::from_json(json, Numbers::Float64, meter)?,
        None => Value::Nil,
    };
    Ok(formatted("%v", value, meter)?)
}

/// A map that holds `values` at a dotted path.
fn nested(path: &str, values: &Map, meter: &Meter<'_>) -> Result<Map, ValuesError> {
    if path == "." {
        return Ok(values.clone());
    }
    let depth = path.split('.').count();
    if depth > MAX_DEPTH {
        return Err(ValuesError::TooDeep);
    }
    meter.charge(depth * map_bytes(1))?;
    Ok(path.split('.').rev().fold(values.clone(), |inner, key| {
        [(key, Value::Map(inner))].into_iter().collect()
    }))
}
