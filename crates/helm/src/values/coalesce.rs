//! Chart defaults under the user's values.
//!
//! *Coalescing* is the last word: a null of the user removes a default. *Merging* keeps nulls,
//! because another round will follow.

use everflow_gotemplate::{ENTRY_BYTES, GoStr, Map, Meter, Value, entry_bytes, map_bytes};

use super::{GLOBAL, ValuesError, ValuesOfChart, Warnings, copied};
use crate::go_text::{formatted, quoted};

/// Puts the user's values over the defaults of a chart and all its dependencies.
pub fn coalesce_values(
    chart: &dyn ValuesOfChart,
    values: &Map,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<Map, ValuesError> {
    run(chart, values, Mode::Coalesce, warnings, meter)
}

/// As [`coalesce_values`], but nulls stay.
pub fn merge_values(
    chart: &dyn ValuesOfChart,
    values: &Map,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<Map, ValuesError> {
    run(chart, values, Mode::Merge, warnings, meter)
}

/// Fills `destination` up from `source`; what the destination has stays, and its nulls remove.
pub fn coalesce_tables(
    destination: &Map,
    source: &Map,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<(), ValuesError> {
    let mut work = Work { warnings, meter };
    work.tables(destination, source, "", Mode::Coalesce)
}

/// Fills `destination` up from `source`; nulls stay.
pub fn merge_tables(
    destination: &Map,
    source: &Map,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<(), ValuesError> {
    let mut work = Work { warnings, meter };
    work.tables(destination, source, "", Mode::Merge)
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
    meter: &Meter<'_>,
) -> Result<Map, ValuesError> {
    let copy = copied(values, meter)?;
    let mut work = Work { warnings, meter };
    work.chart_and_dependencies(chart, &copy, "", mode)?;
    Ok(copy)
}

/// What all steps share.
struct Work<'w> {
    warnings: &'w mut Warnings,
    meter: &'w Meter<'w>,
}

impl Work<'_> {
    fn warn(&mut self, line: impl Into<String>) -> Result<(), ValuesError> {
        Ok(self.warnings.add(line, self.meter)?)
    }

    /// Maps made from values are never nil, so that inserting cannot fail.
    fn put(&self, map: &Map, key: impl Into<GoStr>, value: Value) -> Result<(), ValuesError> {
        self.meter.charge(entry_bytes(map))?;
        let _ = map.insert(key, value);
        Ok(())
    }

    fn chart_and_dependencies(
        &mut self,
        chart: &dyn ValuesOfChart,
        destination: &Map,
        prefix: &str,
        mode: Mode,
    ) -> Result<(), ValuesError> {
        self.own_defaults(chart, destination, prefix, mode)?;
        for dependency in chart.dependencies() {
            let name = dependency.name();
            let inner = match destination.get(name) {
                Some(Value::Map(inner)) => inner,
                None => {
                    let inner = Map::new();
                    self.put(destination, name, Value::Map(inner.clone()))?;
                    inner
                }
                Some(other) => {
                    return Err(ValuesError::SubchartValues {
                        chart: name.to_owned(),
                        found: formatted("%t", other, self.meter)?,
                    });
                }
            };
            let prefix = joined(prefix, chart.name());
            self.globals(&inner, destination, &prefix)?;
            self.chart_and_dependencies(dependency, &inner, &prefix, mode)?;
        }
        Ok(())
    }

    /// Copies a chart's globals down into a dependency's values; the parent's win.
    fn globals(
        &mut self,
        destination: &Map,
        source: &Map,
        prefix: &str,
    ) -> Result<(), ValuesError> {
        let own = match destination.get(GLOBAL) {
            None => Map::new(),
            Some(Value::Map(own)) => own,
            Some(_) => {
                return self
                    .warn("warning: skipping globals because destination global is not a table.");
            }
        };
        let theirs = match source.get(GLOBAL) {
            None => Map::new(),
            Some(Value::Map(theirs)) => theirs,
            Some(_) => {
                return self
                    .warn("warning: skipping globals because source global is not a table.");
            }
        };
        self.meter.steps(1 + theirs.len() as u64)?;
        let meter = self.meter;
        let _held = meter.hold(theirs.len() * ENTRY_BYTES)?;
        for (key, value) in theirs.snapshot() {
            let present = own.get(key.as_bytes());
            match (value, present) {
                (Value::Map(table), None) => {
                    let copy = self.shallow_copy(&table)?;
                    self.put(&own, key, Value::Map(copy))?;
                }
                (Value::Map(table), Some(Value::Map(below))) => {
                    let copy = self.shallow_copy(&table)?;
                    let prefix = joined(prefix, &key.to_str_lossy());
                    self.tables(&copy, &below, &prefix, Mode::Merge)?;
                    self.put(&own, key, Value::Map(copy))?;
                }
                (Value::Map(_), Some(_)) => self.warn(format!(
                    "Conflict: cannot merge map onto non-map for {}. Skipping.",
                    quoted(&key.to_str_lossy())
                ))?,
                (_, Some(Value::Map(_))) => {
                    self.warn(format!("key {} is table. Skipping", key.to_str_lossy()))?;
                }
                (value, _) => self.put(&own, key, value)?,
            }
        }
        self.put(destination, GLOBAL, Value::Map(own))
    }

    /// The chart's own defaults under what is there.
    fn own_defaults(
        &mut self,
        chart: &dyn ValuesOfChart,
        values: &Map,
        prefix: &str,
        mode: Mode,
    ) -> Result<(), ValuesError> {
        let prefix = joined(prefix, chart.name());
        let defaults = chart.default_values(self.meter)?;
        for (key, default) in defaults.snapshot() {
            self.meter.steps(1)?;
            let Some(present) = values.get(key.as_bytes()) else {
                if mode == Mode::Coalesce {
                    match &default {
                        Value::Nil => continue,
                        Value::Map(map) => drop_nulls(map),
                        _ => {}
                    }
                }
                self.put(values, key, default)?;
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
                    self.tables(&present, &default, &joined(&prefix, &name), mode)?;
                }
                (Value::Map(_), Value::Nil) => {}
                (Value::Map(_), _) => self.warn(format!(
                    "warning: skipped value for {prefix}.{}: Not a table.",
                    key.to_str_lossy()
                ))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn tables(
        &mut self,
        destination: &Map,
        source: &Map,
        prefix: &str,
        mode: Mode,
    ) -> Result<(), ValuesError> {
        self.meter
            .steps(1 + (source.len() + destination.len()) as u64)?;
        let copies = (2 * source.len() + destination.len()) * ENTRY_BYTES;
        let meter = self.meter;
        let _held = meter.hold(copies + prefix.len())?;
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
                self.put(source, key, Value::Nil)?;
            }
        }
        for (key, value) in source.snapshot() {
            let Some(present) = destination.get(key.as_bytes()) else {
                self.put(destination, key, value)?;
                continue;
            };
            if mode == Mode::Coalesce && matches!(present, Value::Nil) && had_value(&key) {
                destination.remove(key.as_bytes());
                continue;
            }
            match (present, value) {
                (Value::Map(present), Value::Map(value)) => {
                    let name = joined(prefix, &key.to_str_lossy());
                    self.tables(&present, &value, &name, mode)?;
                }
                (_, Value::Map(value)) => {
                    let name = joined(prefix, &key.to_str_lossy());
                    let shown = formatted("%v", Value::Map(value), meter)?;
                    self.warn(format!(
                        "warning: cannot overwrite table with non table for {name} ({shown})"
                    ))?;
                }
                (Value::Map(_), value) if !matches!(value, Value::Nil) => {
                    let name = joined(prefix, &key.to_str_lossy());
                    let shown = formatted("%v", value, meter)?;
                    self.warn(format!(
                        "warning: destination for {name} is a table. Ignoring non-table value \
                         ({shown})"
                    ))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn shallow_copy(&self, map: &Map) -> Result<Map, ValuesError> {
        self.meter.charge(map_bytes(map.len()))?;
        Ok(map.snapshot().into_iter().collect())
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

fn joined(prefix: &str, key: &str) -> String {
    match prefix {
        "" => key.to_owned(),
        _ => format!("{prefix}.{key}"),
    }
}
