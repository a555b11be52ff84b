//! `helm template` as a function: a chart and values in, manifests out.

use everflow_gotemplate::{FuncError, Limits, Map, Meter, Numbers, Value, map_bytes};
use everflow_json::Map as JsonMap;
use everflow_limits::{Budget, Exceeded};
use everflow_sprig::cost;

use crate::chart::Chart;
use crate::chart::path_match::path_match;
use crate::dependencies::{is_compatible, missing_dependencies, process_dependencies};
use crate::json_schema::{JsonSchema, SchemaError};
use crate::manifests::{
    Hook, MAX_OBJECTS, Manifest, ManifestError, sort_manifests, split_manifests,
};
use crate::objects::Capabilities;
use crate::post_render::{PostRenderError, post_render};
use crate::render::{RenderError, RenderInput, Sources, render};
use crate::values::{ValuesError, Warnings, coalesce_values};

const NOTES: &str = "NOTES.txt";
/// What stands around a manifest in the text of all.
const SOURCE_BYTES: usize = 32;

/// What a render is for.
#[derive(Debug, Clone)]
pub struct ReleaseOptions {
    /// The release's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The revision that is to be.
    pub revision: i64,
    /// An upgrade instead of an install.
    pub is_upgrade: bool,
    /// What the cluster can do.
    pub capabilities: Capabilities,
    /// Leave `values.schema.json` alone.
    pub skip_schema_validation: bool,
    /// Put the definitions under `crds/` before the manifests.
    pub include_crds: bool,
    /// Take the notes of dependencies, too.
    pub sub_notes: bool,
    /// What the templates may use up beside memory; the default suits an ordinary thread.
    pub limits: Limits,
    /// How many objects may be rendered.
    pub max_objects: u64,
}

impl Default for ReleaseOptions {
    fn default() -> Self {
        ReleaseOptions {
            name: "release-name".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_upgrade: false,
            capabilities: Capabilities::default(),
            skip_schema_validation: false,
            include_crds: false,
            sub_notes: false,
            limits: Limits::default(),
            max_objects: MAX_OBJECTS,
        }
    }
}

/// A rendered chart.
#[derive(Debug, Clone, Default)]
pub struct Rendered {
    /// Everything but hooks, in install order, each with its `# Source:`.
    pub manifest: String,
    /// The hooks in install order.
    pub hooks: Vec<Hook>,
    /// The rendered `NOTES.txt`.
    pub notes: String,
    /// The chart as release records hold it: its dependencies chosen, their values imported.
    pub chart: Chart,
}

/// Why a chart does not render, in helm's words.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A name that no release may have.
    #[error(
        "release name check failed: release name {0:?}: invalid release name, must match regex \
         ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must \
         not be longer than 53"
    )]
    ReleaseName(String),
    /// The chart is a library.
    #[error("{0} charts are not installable")]
    NotInstallable(String),
    /// A declared dependency is not there.
    #[error(
        "an error occurred while checking for chart dependencies. You may need to run 'helm \
         dependency build' to fetch missing dependencies: found in Chart.yaml, but missing in \
         charts/ directory: {}", .0.join(", ")
    )]
    MissingDependencies(Vec<String>),
    /// The values of a dependency are no map.
    #[error("chart dependencies processing failed: {0}")]
    Dependencies(#[source] ValuesError),
    /// The values do not fit together.
    #[error("{0}")]
    Values(#[from] ValuesError),
    /// The values break a schema.
    #[error(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{0}"
    )]
    Schema(String),
    /// The chart wants another Kubernetes.
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {found}")]
    KubeVersion {
        /// The chart's constraint.
        wanted: String,
        /// What there is.
        found: String,
    },
    /// A template failed.
    #[error("{0}")]
    Render(#[from] RenderError),
    /// A post-renderer failed.
    #[error("{0}")]
    PostRender(#[from] PostRenderError),
    /// A template's output is no manifest.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    /// Something else than a template needs more memory or time than there is.
    #[error("{what}: {source}")]
    Exceeded {
        /// What needs it.
        what: String,
        /// What was used up.
        source: FuncError,
    },
    /// `--show-only` names a template that gave nothing.
    #[error("could not find template {0} in chart")]
    NoSuchTemplate(String),
}

impl TemplateError {
    /// What was used up, when that is why the chart does not render.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            TemplateError::Dependencies(error) | TemplateError::Values(error) => match error {
                ValuesError::Exceeded(exceeded) => Some(exceeded),
                _ => None,
            },
            TemplateError::Render(error) => error.exceeded(),
            TemplateError::PostRender(PostRenderError::Exceeded { source, .. }) => Some(source),
            TemplateError::Manifest(ManifestError::Exceeded { source, .. }) => Some(source),
            TemplateError::Exceeded { source, .. } => source.exceeded(),
            _ => None,
        }
    }

    /// Whether helm had begun to render: then it hints at `--debug`.
    pub fn is_after_values(&self) -> bool {
        matches!(
            self,
            TemplateError::KubeVersion { .. }
                | TemplateError::Render(_)
                | TemplateError::PostRender(_)
                | TemplateError::Manifest(_)
        )
    }
}

/// Checks that a chart can be installed at all, before its values are looked at.
pub fn check_installable(chart: &Chart) -> Result<(), TemplateError> {
    if chart.is_library() {
        return Err(TemplateError::NotInstallable(chart.metadata.kind.clone()));
    }
    let missing = missing_dependencies(chart);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(TemplateError::MissingDependencies(missing)),
    }
}

/// Whether a release may be called so.
pub fn is_valid_release_name(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    !name.is_empty() && name.len() <= 53 && name.split('.').all(label)
}

/// Renders a chart with the user's values. What is rendered stays charged to the budget.
pub fn template(
    chart: Chart,
    values: &JsonMap,
    options: &ReleaseOptions,
    sources: &mut Sources,
    warnings: &mut Warnings,
    budget: &Budget,
) -> Result<Rendered, TemplateError> {
    let meter = Meter::new(&options.limits, budget);
    let rendered = template_within(chart, values, options, sources, warnings, &meter)?;
    drop(meter);
    let hooks = rendered.hooks.iter().map(|hook| hook.manifest.len());
    let bytes = rendered.manifest.len() + rendered.notes.len() + hooks.sum::<usize>();
    let charged = budget.charge(bytes);
    charged.map_err(|exceeded| used_up("the rendered manifests", exceeded))?;
    Ok(rendered)
}

fn used_up(what: impl Into<String>, error: impl Into<FuncError>) -> TemplateError {
    TemplateError::Exceeded {
        what: what.into(),
        source: error.into(),
    }
}

fn template_within(
    mut chart: Chart,
    values: &JsonMap,
    options: &ReleaseOptions,
    sources: &mut Sources,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<Rendered, TemplateError> {
    if !is_valid_release_name(&options.name) {
        return Err(TemplateError::ReleaseName(options.name.clone()));
    }
    let user_values = values_map(values, meter).map_err(ValuesError::from)?;
    process_dependencies(&mut chart, &user_values, warnings, meter)
        .map_err(TemplateError::Dependencies)?;
    let values = coalesce_values(&chart, &user_values, warnings, meter)?;
    if !options.skip_schema_validation {
        let report = check_schemas(&chart, &values, meter)?;
        if !report.is_empty() {
            return Err(TemplateError::Schema(report));
        }
    }
    let wanted = &chart.metadata.kube_version;
    let kube_version = &options.capabilities.kube_version;
    if !wanted.is_empty() && !is_compatible(wanted, &kube_version.normalized) {
        return Err(TemplateError::KubeVersion {
            wanted: wanted.clone(),
            found: kube_version.version.clone(),
        });
    }
    let input = RenderInput {
        chart: &chart,
        values: &values,
        release: release_object(options),
        capabilities: options.capabilities.to_template_value(),
        strict: false,
        lint: false,
        meter,
    };
    let mut files = render(&input, sources, warnings)?;
    let notes = take_notes(&mut files, chart.name(), options.sub_notes);
    if let Some(renderer) = sources.post_renderer() {
        files = post_render(&files, renderer, meter)?;
    }
    let texts = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_slice()));
    let (hooks, manifests) = sort_manifests(texts, warnings, options.max_objects, meter)?;
    let manifest = manifest_text(&chart, &manifests, options.include_crds, meter)
        .map_err(|exceeded| used_up("the rendered manifests", exceeded))?;
    Ok(Rendered {
        manifest,
        hooks,
        notes,
        chart,
    })
}

/// What `helm template` prints.
pub fn print(
    rendered: &Rendered,
    with_hooks: bool,
    with_tests: bool,
    show_only: &[String],
) -> Result<String, TemplateError> {
    let mut text = format!("{}\n", rendered.manifest.trim());
    if with_hooks {
        for hook in &rendered.hooks {
            if !with_tests && hook.events.iter().any(|event| event == "test") {
                continue;
            }
            text.push_str(&format!(
                "---\n# Source: {}\n{}\n",
                hook.path, hook.manifest
            ));
        }
    }
    if show_only.is_empty() {
        return Ok(text);
    }
    let documents = split_manifests(&text);
    let mut shown = String::new();
    for wanted in show_only {
        let mut missing = true;
        for document in &documents {
            if source_path(document).is_some_and(|path| path_match(wanted, path) == Ok(true)) {
                shown.push_str(&format!("---\n{document}\n"));
                missing = false;
            }
        }
        if missing {
            return Err(TemplateError::NoSuchTemplate(wanted.clone()));
        }
    }
    Ok(shown)
}

/// The path in `# Source: CHART/PATH`, wherever it stands first.
fn source_path(document: &str) -> Option<&str> {
    document
        .match_indices("# Source: ")
        .find_map(|(start, marker)| {
            let line = document[start + marker.len()..].lines().next()?;
            let (chart, path) = line.split_once('/')?;
            (!chart.is_empty() && !path.is_empty()).then_some(path)
        })
}

/// The user's values as a Go map.
pub(crate) fn values_map(values: &JsonMap, meter: &Meter<'_>) -> Result<Map, FuncError> {
    meter.charge(map_bytes(values.len()))?;
    let map = Map::new();
    for (key, value) in values {
        map.insert(key.clone(), Value::from_json(value, Numbers::Int64, meter)?)?;
    }
    Ok(map)
}

fn release_object(options: &ReleaseOptions) -> Value {
    Value::map([
        ("Name", Value::string(&options.name)),
        ("Namespace", Value::string(&options.namespace)),
        ("IsUpgrade", Value::Bool(options.is_upgrade)),
        ("IsInstall", Value::Bool(!options.is_upgrade)),
        ("Revision", Value::Int(options.revision)),
        ("Service", Value::string("Helm")),
    ])
}

/// What is wrong with the values of a chart and its dependencies.
pub(crate) fn check_schemas(
    chart: &Chart,
    values: &Map,
    meter: &Meter<'_>,
) -> Result<String, TemplateError> {
    let mut report = String::new();
    if let Some(schema) = &chart.schema
        && let Some(error) = check_schema(chart.name(), schema, values, meter)?
    {
        report.push_str(&format!("{}:\n{error}", chart.name()));
    }
    for dependency in &chart.dependencies {
        match values.get(dependency.name()) {
            Some(Value::Map(values)) => {
                report.push_str(&check_schemas(dependency, &values, meter)?);
            }
            None | Some(Value::Nil) => {}
            Some(other) => report.push_str(&format!(
                "{}:\ninvalid type for values: expected object (map), got {}\n",
                dependency.name(),
                other.type_name()
            )),
        }
    }
    Ok(report)
}

/// What is wrong with values, or with the schema of a chart.
pub(crate) fn check_schema(
    chart: &str,
    schema: &[u8],
    values: &Map,
    meter: &Meter<'_>,
) -> Result<Option<String>, TemplateError> {
    let mark = meter.mark();
    let failed = |error: FuncError| used_up(format!("values.schema.json of {chart}"), error);
    let held = meter.hold(cost::of_json(schema));
    let _held = held.map_err(|exceeded| failed(exceeded.into()))?;
    let numbers = everflow_yaml::gojson::Numbers::Integers;
    let schema = match everflow_yaml::gojson::parse(schema, numbers) {
        Ok(schema) => schema,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let schema = match JsonSchema::new(schema, meter) {
        Ok(schema) => schema,
        Err(SchemaError::UsedUp(error)) => return Err(failed(error)),
        Err(error) => return Ok(Some(error.to_string())),
    };
    let values = match Value::Map(values.clone()).to_json(meter) {
        Ok(values) => values,
        Err(error) if error.exceeded().is_some() => return Err(failed(error)),
        Err(error) => return Ok(Some(error.to_string())),
    };
    let violation = schema.validate(&values, meter).map_err(failed)?;
    let report = match violation {
        Some(violation) => {
            let lines = violation.lines(meter);
            Some(format!(
                "{}\n",
                lines.map_err(|exceeded| failed(exceeded.into()))?
            ))
        }
        None => None,
    };
    meter.release_to(mark);
    Ok(report)
}

fn take_notes(files: &mut Vec<(String, Vec<u8>)>, chart: &str, sub_notes: bool) -> String {
    let own = format!("{chart}/templates/{NOTES}");
    let mut notes = String::new();
    files.retain(|(path, text)| {
        if !path.ends_with(NOTES) {
            return true;
        }
        if sub_notes || *path == own {
            if !notes.is_empty() {
                notes.push('\n');
            }
            notes.push_str(&String::from_utf8_lossy(text));
        }
        false
    });
    notes
}

fn manifest_text(
    chart: &Chart,
    manifests: &[Manifest],
    include_crds: bool,
    meter: &Meter<'_>,
) -> Result<String, Exceeded> {
    let manifests_length: usize = manifests
        .iter()
        .map(|manifest| SOURCE_BYTES + manifest.path.len() + manifest.content.len())
        .sum();
    let crds = if include_crds {
        chart.crds()
    } else {
        Vec::new()
    };
    let crds_length: usize = crds
        .iter()
        .map(|(path, file)| SOURCE_BYTES + path.len() + 2 * file.data.len())
        .sum();
    meter.add_buffer(manifests_length + crds_length)?;
    let mut text = String::with_capacity(manifests_length);
    for (path, file) in crds {
        text.push_str(&format!("---\n# Source: {path}\n{}\n", file.text()));
    }
    for manifest in manifests {
        text.push_str(&format!(
            "---\n# Source: {}\n{}\n",
            manifest.path, manifest.content
        ));
    }
    Ok(text)
}
