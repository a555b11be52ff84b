//! What charts and their YAML take in memory.

use everflow_json::Value;
use everflow_limits::{Budget, Exceeded};
use everflow_sprig::cost;

use super::{Chart, ChartFile, Dependency, Maintainer, Metadata};

/// What YAML takes while it is read: for each byte, and for each of the characters that begin another node.
const BYTE: usize = 4;
const NODE: usize = 320;
/// What a value takes beside its text, a key, and a list or map for places that it keeps free.
const VALUE: usize = 64;
const KEY: usize = 32;
const FREE_PLACES: usize = 128;

fn reading_takes(yaml: &[u8]) -> usize {
    let begins_node = |byte: &&u8| matches!(**byte, b'\n' | b',' | b':' | b'[' | b'{');
    let nodes = yaml.iter().filter(begins_node).count();
    (yaml.len().saturating_mul(BYTE)).saturating_add(nodes.saturating_mul(NODE))
}

/// Reads YAML with what that takes charged. What comes out stays charged, by its text.
pub(crate) fn read_yaml<E>(
    budget: &Budget,
    yaml: &[u8],
    read: impl FnOnce(&[u8]) -> Result<Value, E>,
) -> Result<Result<Value, E>, Exceeded> {
    let reading = reading_takes(yaml);
    budget.charge(reading)?;
    let value = read(yaml);
    budget.release(reading);
    if let Ok(value) = &value {
        charge_text(budget, value)?;
    }
    Ok(value)
}

/// What a copy of a chart takes: its trees, texts and lists. The contents of files are shared.
pub(crate) fn copy_takes(chart: &Chart) -> usize {
    let files = [&chart.templates, &chart.files, &chart.raw];
    let files = files.into_iter().flatten();
    let files: usize = files
        .map(|file| size_of::<ChartFile>() + file.name.len())
        .sum();
    let trees = cost::of_tree(&chart.values) + chart.lock.as_ref().map_or(0, cost::of_tree);
    let below: usize = chart.dependencies.iter().map(copy_takes).sum();
    size_of::<Chart>() + files + trees + metadata_takes(&chart.metadata) + below
}

fn metadata_takes(metadata: &Metadata) -> usize {
    let text = |text: &String| size_of::<String>() + text.len();
    let one = [
        &metadata.name,
        &metadata.home,
        &metadata.version,
        &metadata.description,
        &metadata.icon,
        &metadata.api_version,
        &metadata.condition,
        &metadata.tags,
        &metadata.app_version,
        &metadata.kube_version,
        &metadata.kind,
    ];
    let texts = one.into_iter().chain(&metadata.sources);
    let texts = texts.chain(&metadata.keywords).map(text).sum::<usize>();
    let annotations = metadata.annotations.iter();
    let annotations: usize = annotations
        .map(|(key, value)| text(key) + text(value))
        .sum();
    let maintainers = metadata.maintainers.iter().flatten();
    let maintainers: usize = maintainers
        .map(|one| text(&one.name) + text(&one.email) + text(&one.url))
        .sum();
    let dependencies = metadata.dependencies.iter().flatten();
    let dependencies: usize = dependencies
        .map(|one| {
            let texts = [
                &one.name,
                &one.version,
                &one.repository,
                &one.condition,
                &one.alias,
            ];
            let texts = texts.into_iter().chain(&one.tags).map(text).sum::<usize>();
            texts + one.import_values.iter().map(cost::of_tree).sum::<usize>()
        })
        .sum();
    let entries = metadata.maintainers.len() * size_of::<Option<Maintainer>>()
        + metadata.dependencies.len() * size_of::<Option<Dependency>>();
    texts + annotations + maintainers + dependencies + entries
}

/// Charges the text of a tree. What aliases stand for is shared in the tree, and is not any more where fields
/// are taken out of it or it is printed.
pub(crate) fn charge_text(budget: &Budget, value: &Value) -> Result<(), Exceeded> {
    let is_collection = matches!(value, Value::Array(_) | Value::Object(_));
    budget.charge(VALUE + if is_collection { FREE_PLACES } else { 0 })?;
    match value {
        Value::String(text) => budget.charge(text.len()),
        Value::Array(items) => items.iter().try_for_each(|item| charge_text(budget, item)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            budget.charge(KEY + key.len())?;
            charge_text(budget, value)
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_limits::Stop;
    use everflow_yaml::sigs::yaml_to_json;

    #[test]
    fn aliases_are_charged_by_what_they_stand_for() {
        let yaml = format!(
            "a: &a {}\nb: [{}]\n",
            "x".repeat(10_000),
            "*a,".repeat(1_000)
        );
        let budget = Budget::new(Stop::new(), 2 << 20);
        let read = read_yaml(&budget, yaml.as_bytes(), yaml_to_json);
        assert_eq!(read.unwrap_err(), Exceeded::Memory { limit: 2 << 20 });
        let budget = Budget::new(Stop::new(), 2 << 20);
        read_yaml(&budget, b"a: text\n", yaml_to_json)
            .unwrap()
            .unwrap();
        assert_eq!(budget.used(), (2 * VALUE + FREE_PLACES + KEY + 5) as u64);
    }
}
