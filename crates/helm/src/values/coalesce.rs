//! Chart defaults under the user's values.
//!
//! *Coalescing* is the last word: a null of the user removes a default. *Merging* keeps nulls,
//! because another round will follow.

use everflow_gotemplate::{GoStr, Map, Value};

use super::{GLOBAL, ValuesError, ValuesOfChart, Warnings, copied};
use crate::go_text::{formatted, quoted};

/// Puts the user's values over the defaults of a chart and all its dependencies.
pub fn coalesce_values(
    chart: &dyn ValuesOfChart,
    values: &Map,
    warnings: &mut Warnings,
) -> Result<Map, ValuesError> {
    run(chart, values, Mode::Coalesce, warnings)
}

/// As [`coalesce_values`], but nulls stay.
pub fn merge_values(
    chart: &dyn ValuesOfChart,
    values: &Map,
    warnings: &mut Warnings,
) -> Result<Map, ValuesError> {
    run(chart, values, Mode::Merge, warnings)
}

/// Fills `destination` up from `source`; what the destination has stays, and its nulls remove.
pub fn coalesce_tables(destination: &Map, source: &Map, warnings: &mut Warnings) {
    tables(destination, source, "", Mode::Coalesce, warnings);
}

/// Fills `destination` up from `source`; nulls stay.
pub fn merge_tables(destination: &Map, source: &Map, warnings: &mut Warnings) {
    tables(destination, source, "", Mode::Merge, warnings);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Coalesce,
    Merge,
}

fn run(
    chart: &dyn ValuesOfChart,
    values: &Map,
    mode: Mode,
    warnings: &mut Warnings,
) -> Result<Map, ValuesError> {
    let copy = copied(values)?;
    chart_and_dependencies(chart, &copy, "", mode, warnings)?;
    Ok(copy)
}

fn chart_and_dependencies(
    chart: &dyn ValuesOfChart,
    destination: &Map,
    prefix: &str,
    mode: Mode,
    warnings: &mut Warnings,
) -> Result<(), ValuesError> {
    own_defaults(chart, destination, prefix, mode, warnings);
    for dependency in chart.dependencies() {
        let name = dependency.name();
        let inner = match destination.get(name) {
            Some(Value::Map(inner)) => inner,
            None => {
                let inner = Map::new();
                put(destination, name, Value::Map(inner.clone()));
                inner
            }
            Some(other) => {
                return Err(ValuesError::SubchartValues {
                    chart: name.to_owned(),
                    found: formatted("%t", other),
                });
            }
        };
        let prefix = joined(prefix, chart.name());
        globals(&inner, destination, &prefix, warnings);
        chart_and_dependencies(dependency, &inner, &prefix, mode, warnings)?;
    }
    Ok(())
}

/// Copies a chart's globals down into a dependency's values; the parent's win.
fn globals(destination: &Map, source: &Map, prefix: &str, warnings: &mut Warnings) {
    let own = match destination.get(GLOBAL) {
        None => Map::new(),
        Some(Value::Map(own)) => own,
        Some(_) => {
            warnings.push("warning: skipping globals because destination global is not a table.");
            return;
        }
    };
    let theirs = match source.get(GLOBAL) {
        None => Map::new(),
        Some(Value::Map(theirs)) => theirs,
        Some(_) => {
            warnings.push("warning: skipping globals because source global is not a table.");
            return;
        }
    };
    for (key, value) in theirs.snapshot() {
        let present = own.get(key.as_bytes());
        match (value, present) {
            (Value::Map(table), None) => put(&own, key, Value::Map(shallow_copy(&table))),
            (Value::Map(table), Some(Value::Map(below))) => {
                let copy = shallow_copy(&table);
                let prefix = joined(prefix, &key.to_str_lossy());
                tables(&copy, &below, &prefix, Mode::Merge, warnings);
                put(&own, key, Value::Map(copy));
            }
            (Value::Map(_), Some(_)) => warnings.push(format!(
                "Conflict: cannot merge map onto non-map for {}. Skipping.",
                quoted(&key.to_str_lossy())
            )),
            (_, Some(Value::Map(_))) => {
                warnings.push(format!("key {} is table. Skipping", key.to_str_lossy()));
            }
            (value, _) => put(&own, key, value),
        }
    }
    put(destination, GLOBAL, Value::Map(own));
}

/// The chart's own defaults under what is there.
fn own_defaults(
    chart: &dyn ValuesOfChart,
    values: &Map,
    prefix: &str,
    mode: Mode,
    warnings: &mut Warnings,
) {
    let prefix = joined(prefix, chart.name());
    for (key, default) in chart.default_values().snapshot() {
        let Some(present) = values.get(key.as_bytes()) else {
            if mode == Mode::Coalesce {
                match &default {
                    Value::Nil => continue,
                    Value::Map(map) => drop_nulls(map),
                    _ => {}
                }
            }
            put(values, key, default);
            continue;
        };
        match (present, default) {
            // The user's null removes a default.
            (Value::Nil, _) if mode == Mode::Coalesce => {
                values.remove(key.as_bytes());
            }
            (Value::Map(present), Value::Map(default)) => {
                let name = key.to_str_lossy();
                // A dependency's values get their own round, which needs the nulls.
                let is_dependency = chart.dependencies().iter().any(|sub| sub.name() == name);
                let mode = if is_dependency { Mode::Merge } else { mode };
                if mode == Mode::Coalesce {
                    drop_nulls(&default);
                }
                tables(&present, &default, &joined(&prefix, &name), mode, warnings);
            }
            (Value::Map(_), Value::Nil) => {}
            (Value::Map(_), _) => warnings.push(format!(
                "warning: skipped value for {prefix}.{}: Not a table.",
                key.to_str_lossy()
            )),
            _ => {}
        }
    }
}

fn tables(destination: &Map, source: &Map, prefix: &str, mode: Mode, warnings: &mut Warnings) {
    let source_had_value: Vec<(GoStr, bool)> = source
        .read()
        .iter()
        .map(|(key, value)| (key.clone(), !matches!(value, Value::Nil)))
        .collect();
    let had_value = |key: &GoStr| {
        source_had_value
            .binary_search_by(|(other, _)| other.cmp(key))
            .is_ok_and(|index| source_had_value[index].1)
    };
    for (key, value) in destination.snapshot() {
        if matches!(value, Value::Nil) {
            put(source, key, Value::Nil);
        }
    }
    for (key, value) in source.snapshot() {
        let Some(present) = destination.get(key.as_bytes()) else {
            put(destination, key, value);
            continue;
        };
        if mode == Mode::Coalesce && matches!(present, Value::Nil) && had_value(&key) {
            destination.remove(key.as_bytes());
            continue;
        }
        let name = joined(prefix, &key.to_str_lossy());
        match (present, value) {
            (Value::Map(present), Value::Map(value)) => {
                tables(&present, &value, &name, mode, warnings);
            }
            (_, Value::Map(value)) => warnings.push(format!(
                "warning: cannot overwrite table with non table for {name} ({})",
                printed(Value::Map(value))
            )),
            (Value::Map(_), value) if !matches!(value, Value::Nil) => warnings.push(format!(
                "warning: destination for {name} is a table. Ignoring non-table value ({})",
                printed(value)
            )),
            _ => {}
        }
    }
}

fn drop_nulls(map: &Map) {
    for (key, value) in map.snapshot() {
        match value {
            Value::Nil => {
                map.remove(key.as_bytes());
            }
            Value::Map(inner) => drop_nulls(&inner),
            _ => {}
        }
    }
}

fn printed(value: Value) -> String {
    formatted("%v", value)
}

/// Maps made from values are never nil, so that inserting cannot fail.
fn put(map: &Map, key: impl Into<GoStr>, value: Value) {
    let _ = map.insert(key, value);
}

fn shallow_copy(map: &Map) -> Map {
    map.snapshot().into_iter().collect()
}

fn joined(prefix: &str, key: &str) -> String {
    match prefix {
        "" => key.to_owned(),
        _ => format!("{prefix}.{key}"),
    }
}
