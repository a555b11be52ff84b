//! `helmCharts` of kustomizations, inflated by the Helm engine from charts on disk.

use std::path::{Path, PathBuf};

use everflow_helm::chart::load_values;
use everflow_helm::objects::KubeVersion;
use everflow_helm::on_large_stack;
use everflow_helm::render::{Sources, render_name};
use everflow_helm::template::{ReleaseOptions, check_installable, print, template};
use everflow_helm::values::Warnings;
use everflow_json::{Map, Value};
use everflow_kustomize::{HelmChart, HelmCharts, HelmGlobals, ReadFile};
use everflow_limits::Budget;

use crate::helm::{STACK_BYTES, SystemSource, default_budget, load_chart, render_limits};

/// Where charts are when a kustomization does not say.
const DEFAULT_CHART_HOME: &str = "charts";

/// Charts on disk. Nothing is fetched: a chart that is not there is an error.
pub struct DiskCharts;

impl HelmCharts for DiskCharts {
    fn inflate(
        &self,
        chart: &HelmChart,
        globals: &HelmGlobals,
        root: &str,
        read: ReadFile<'_>,
    ) -> Result<Vec<u8>, String> {
        if chart.name.is_empty() {
            return Err("chart name cannot be empty".to_owned());
        }
        let home = chart_home(chart, globals, root);
        let directory = home.join(&chart.name);
        if !directory.is_dir() {
            return Err(missing(chart, &directory));
        }
        let values = values(chart, &directory, read)?;
        let budget = default_budget();
        let render = || inflate(chart, &directory, &values, &budget);
        on_large_stack(STACK_BYTES, render).map_err(|error| error.to_string())?
    }
}

fn chart_home(chart: &HelmChart, globals: &HelmGlobals, root: &str) -> PathBuf {
    let home = match globals.chart_home.as_str() {
        "" => DEFAULT_CHART_HOME,
        home => home,
    };
    let home = Path::new(root).join(home);
    match chart.version.is_empty() || chart.repo.is_empty() {
        true => home,
        false => home.join(format!("{}-{}", chart.name, chart.version)),
    }
}

fn missing(chart: &HelmChart, directory: &Path) -> String {
    let place = directory.display();
    match chart.repo.as_str() {
        "" => format!("no repo specified for pull, no chart found at '{place}'"),
        repo => format!(
            "no chart found at '{place}', and charts are not pulled from {repo}; run 'helm pull \
             --untar --untardir {}' first",
            directory.parent().unwrap_or(directory).display()
        ),
    }
}

/// The values file with the inline values merged as the kustomization says, then the other files.
fn values(chart: &HelmChart, directory: &Path, read: ReadFile<'_>) -> Result<Map, String> {
    let default_file = directory.join("values.yaml").to_string_lossy().into_owned();
    let file = match chart.values_file.as_str() {
        "" => default_file.as_str(),
        file => file,
    };
    let inline = match &chart.values_inline {
        Some(Value::Object(inline)) if !inline.is_empty() => Some(inline.clone()),
        _ => None,
    };
    let from_file = || load_values(&read(file)?);
    let mut values = match (inline, chart.values_merge.as_str()) {
        (None, _) => from_file()?,
        (Some(inline), "replace") => inline,
        (Some(inline), "" | "override") => merged(from_file()?, inline),
        (Some(inline), "merge") => merged(inline, from_file()?),
        (Some(_), _) => {
            return Err("valuesMerge must be one of [merge override replace]".to_owned());
        }
    };
    for file in &chart.additional_values_files {
        let data = read(file).map_err(|e| format!("could not load additionalValuesFile: {e}"))?;
        everflow_helm::values::merge_json(&mut values, load_values(&data)?);
    }
    Ok(values)
}

/// Lays `over` over `base`. A null removes what is there, and nulls of the base do not survive.
fn merged(mut base: Map, over: Map) -> Map {
    for (key, value) in over {
        match (base.remove(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(inner)), Value::Object(over)) => {
                base.insert(key, Value::Object(merged(inner, over)));
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
    without_nulls(base)
}

fn without_nulls(map: Map) -> Map {
    map.into_iter()
        .filter_map(|(key, value)| match value {
            Value::Null => None,
            Value::Object(inner) => Some((key, Value::Object(without_nulls(inner)))),
            other => Some((key, other)),
        })
        .collect()
}

fn inflate(
    chart: &HelmChart,
    directory: &Path,
    values: &Map,
    budget: &Budget,
) -> Result<Vec<u8>, String> {
    let mut warnings = Warnings::default();
    let mut sources = Sources::new(SystemSource);
    let mut options = ReleaseOptions {
        include_crds: chart.include_crds,
        limits: render_limits(),
        ..ReleaseOptions::default()
    };
    if !chart.release_name.is_empty() {
        options.name.clone_from(&chart.release_name);
    } else if !chart.name_template.is_empty() {
        options.name = render_name(&chart.name_template, &mut sources, budget).map_err(text)?;
    }
    if !chart.namespace.is_empty() {
        options.namespace.clone_from(&chart.namespace);
    }
    if !chart.kube_version.is_empty() {
        options.capabilities.kube_version =
            KubeVersion::parse(&chart.kube_version).map_err(text)?;
    }
    options
        .capabilities
        .api_versions
        .extend(chart.api_versions.iter().cloned());
    let loaded = load_chart(directory, &mut warnings).map_err(text)?;
    check_installable(&loaded).map_err(text)?;
    let rendered = template(
        loaded,
        values,
        &options,
        &mut sources,
        &mut warnings,
        budget,
    )
    .map_err(text)?;
    let printed = print(&rendered, !chart.skip_hooks, !chart.skip_tests, &[]).map_err(text)?;
    Ok(printed.into_bytes())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
