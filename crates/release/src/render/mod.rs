//! A chart rendered for a HelmRelease: its post-renderers, common metadata and the labels that say which
//! HelmRelease an object comes from.

mod kustomize;
mod metadata;

use std::sync::Arc;

use everflow_api::common::CommonMetadata;
use everflow_api::helm::{HelmRelease, KustomizePostRenderer, PostRenderStrategy};
use everflow_api::names::label;
use everflow_api::object::Object;
use everflow_gotemplate::{Limits, Meter, Numbers, Value as GoValue};
use everflow_helm::chart::Chart;
use everflow_helm::dependencies::process_dependencies;
use everflow_helm::manifests::{Manifest, sort_manifests, split_manifests};
use everflow_helm::post_render::{PostRenderError, PostRenderer, post_render};
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, Rendered, TemplateError, template};
use everflow_helm::values::{ValuesError, Warnings};
use everflow_json::{Map, Value};
use everflow_limits::Budget;

use crate::digest;
use crate::error::Error;
use metadata::Additions;

/// The digest of `spec.postRenderers` for the status, empty when there are none.
pub fn post_renderers_digest(object: &Object<HelmRelease>) -> String {
    let renderers = &object.spec.post_renderers;
    match renderers.is_empty() {
        true => String::new(),
        false => digest::of_record(renderers),
    }
}

/// The digest of `spec.commonMetadata` for the status, empty when there is none.
pub fn common_metadata_digest(object: &Object<HelmRelease>) -> String {
    let common = object.spec.common_metadata.as_ref();
    common.map(digest::of_record).unwrap_or_default()
}

/// What is done to the manifests of a HelmRelease. kustomize runs only where it is asked for: labels and
/// annotations are added by ourselves, with the output that a pass through kustomize would have.
#[derive(Debug, Clone)]
pub struct FluxRenderer {
    kustomize: Vec<KustomizePostRenderer>,
    additions: Additions,
    budget: Arc<Budget>,
}

impl FluxRenderer {
    /// Of a HelmRelease; what that needs is charged to the budget.
    pub fn of(object: &Object<HelmRelease>, budget: Arc<Budget>) -> Self {
        let renderers = object.spec.post_renderers.iter();
        FluxRenderer {
            kustomize: renderers
                .filter_map(|step| step.kustomize.clone())
                .collect(),
            additions: Additions::new(
                object.spec.common_metadata.as_ref(),
                &origin_labels(object.metadata.namespace(), &object.metadata.name),
            ),
            budget,
        }
    }
}

impl PostRenderer for FluxRenderer {
    fn run(&mut self, manifests: &str) -> Result<String, String> {
        let mut current = None;
        for step in &self.kustomize {
            let input = current.as_deref().unwrap_or(manifests);
            current = Some(kustomize::run(step, input, &self.budget)?);
        }
        let manifests = current.as_deref().unwrap_or(manifests);
        self.additions.add(manifests, &self.budget)
    }
}

/// The labels that say which HelmRelease an object comes from.
pub fn origin_labels(namespace: &str, name: &str) -> CommonMetadata {
    let labels = [
        (label::HELM_RELEASE_NAME, name),
        (label::HELM_RELEASE_NAMESPACE, namespace),
    ];
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    CommonMetadata {
        labels: labels.into_iter().map(owned).collect(),
        ..CommonMetadata::default()
    }
}

/// A chart with its dependencies chosen by values, as it is rendered.
///
/// # Errors
/// When the dependencies do not fit the values.
pub fn with_dependencies(mut chart: Chart, values: &Map, budget: &Budget) -> Result<Chart, Error> {
    let meter = Meter::new(&Limits::default(), budget);
    let unusable = |error: ValuesError| Error::Render(TemplateError::Dependencies(error));
    let values = GoValue::from_json(&Value::Object(values.clone()), Numbers::Int64, &meter);
    let values = values.map_err(|error| unusable(error.into()))?;
    if let GoValue::Map(values) = values {
        let mut warnings = Warnings::default();
        process_dependencies(&mut chart, &values, &mut warnings, &meter).map_err(unusable)?;
    }
    Ok(chart)
}

/// Renders a chart for a HelmRelease.
///
/// # Errors
/// When the chart does not render, or a post-renderer fails.
pub fn render(
    chart: Chart,
    values: &Map,
    options: &ReleaseOptions,
    object: &Object<HelmRelease>,
    sources: Sources,
    warnings: &mut Warnings,
    budget: &Arc<Budget>,
) -> Result<Rendered, Error> {
    let renderer = FluxRenderer::of(object, Arc::clone(budget));
    let strategy = object.spec.post_render_strategy;
    match strategy.unwrap_or(PostRenderStrategy::Combined) {
        PostRenderStrategy::Combined => {
            let mut sources = sources.with_post_renderer(renderer);
            Ok(template(
                chart,
                values,
                options,
                &mut sources,
                warnings,
                budget,
            )?)
        }
        strategy => {
            let mut sources = sources;
            let rendered = template(chart, values, options, &mut sources, warnings, budget)?;
            let meter = Meter::new(&options.limits, budget);
            let most = options.max_objects;
            with_hooks_apart(rendered, renderer, strategy, warnings, most, &meter)
        }
    }
}

/// Files by path, as templates give them.
type Files = Vec<(String, Vec<u8>)>;

/// Post-renders the manifests alone, and the hooks alone or not at all.
fn with_hooks_apart(
    mut rendered: Rendered,
    mut renderer: FluxRenderer,
    strategy: PostRenderStrategy,
    warnings: &mut Warnings,
    most: u64,
    meter: &Meter<'_>,
) -> Result<Rendered, Error> {
    let hooks = rendered
        .hooks
        .iter()
        .map(|hook| (hook.path.as_str(), hook.manifest.as_str()));
    let mut hooks = joined(hooks);
    if strategy == PostRenderStrategy::Separate && !hooks.is_empty() {
        hooks = run_group(&hooks, &mut renderer, "hooks", meter)?;
    }
    let manifests = with_paths(&rendered.manifest);
    let mut manifests = joined(manifests.into_iter());
    if !manifests.is_empty() {
        manifests = run_group(&manifests, &mut renderer, "manifests", meter)?;
    }
    let all = hooks.iter().chain(&manifests);
    let all = joined(all.map(|(path, text)| (path.as_str(), text.as_slice())));
    let texts = all
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_slice()));
    let (hooks, manifests) = sort_manifests(texts, warnings, most, meter)
        .map_err(|error| Error::PostRender(error.to_string()))?;
    rendered.hooks = hooks;
    rendered.manifest = manifests.iter().map(printed).collect();
    Ok(rendered)
}

fn printed(manifest: &Manifest) -> String {
    format!("---\n# Source: {}\n{}\n", manifest.path, manifest.content)
}

/// Texts of the same path as one file.
fn joined<'t, T: AsRef<[u8]> + 't + ?Sized>(
    texts: impl Iterator<Item = (&'t str, &'t T)>,
) -> Files {
    let mut files: std::collections::BTreeMap<&str, Vec<u8>> = std::collections::BTreeMap::new();
    for (path, text) in texts {
        let file = files.entry(path).or_default();
        if !file.is_empty() {
            file.extend_from_slice(b"\n---\n");
        }
        file.extend_from_slice(text.as_ref());
    }
    let owned = |(path, text): (&str, Vec<u8>)| (path.to_owned(), text);
    files.into_iter().map(owned).collect()
}

/// The manifests in the text of a release, each with the path that stands before it.
fn with_paths(manifest: &str) -> Vec<(&str, &str)> {
    let path_and_text = |document| {
        let rest = str::strip_prefix(document, "# Source: ")?;
        rest.split_once('\n')
    };
    split_manifests(manifest)
        .into_iter()
        .filter_map(path_and_text)
        .collect()
}

/// Post-renders a part of the files; errors and made-up paths name the part.
fn run_group(
    files: &Files,
    renderer: &mut FluxRenderer,
    group: &str,
    meter: &Meter<'_>,
) -> Result<Files, Error> {
    const MADE_UP: &str = "generated-by-postrender-";
    let rendered = post_render(files, renderer, meter).map_err(|error| {
        Error::PostRender(match error {
            PostRenderError::Failed(why) => {
                format!("error while running post render on {group}: {why}")
            }
            PostRenderError::BadOutput(why) => format!(
                "error while parsing post rendered output for {group}: error parsing YAML: {why}"
            ),
            other => other.to_string().replacen(
                "error merging manifests",
                &format!("error merging {group}"),
                1,
            ),
        })
    })?;
    let named = |(path, text): (String, Vec<u8>)| match path.strip_prefix(MADE_UP) {
        Some(number) => (format!("{MADE_UP}{group}-{number}"), text),
        None => (path, text),
    };
    Ok(rendered.into_iter().map(named).collect())
}
