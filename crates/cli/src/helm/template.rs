//! `everflow helm template`.

use std::path::PathBuf;
use std::sync::Arc;

use everflow_helm::objects::KubeVersion;
use everflow_helm::parsed::TemplateCache;
use everflow_helm::render::{RenderError, Sources, render_name};
use everflow_helm::template::{ReleaseOptions, TemplateError, check_installable, print, template};
use everflow_helm::values::Warnings;
use everflow_json::Map;
use everflow_limits::Budget;

use super::chart_source::{load, print_warnings};
use super::source::SystemSource;
use super::stack::{Attempt, with_enough_stack};
use super::values::ValueFlags;
use super::work::WorkFlags;
use crate::exit::Failure;
use crate::output::print_text;

/// Arguments of `everflow helm template`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// NAME CHART, or only CHART; a chart is a directory or an archive
    #[arg(value_name = "[NAME] CHART", num_args = 1..=2, required = true)]
    name_and_chart: Vec<String>,
    #[command(flatten)]
    values: ValueFlags,
    /// The namespace of the release
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// A template for the release's name
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,
    /// The Kubernetes version that the chart sees
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// API versions that the chart sees besides the default ones
    #[arg(short = 'a', long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Put custom resource definitions under crds/ before the manifests
    #[arg(long)]
    include_crds: bool,
    /// Accepted as helm accepts it: without a cluster nothing is installed from crds/ anyway
    #[arg(long)]
    skip_crds: bool,
    /// Render as for an upgrade
    #[arg(long)]
    is_upgrade: bool,
    /// Leave hooks out
    #[arg(long)]
    no_hooks: bool,
    /// Leave test hooks out
    #[arg(long)]
    skip_tests: bool,
    /// Do not validate the values against values.schema.json
    #[arg(long)]
    skip_schema_validation: bool,
    /// Print only these templates; can be repeated
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,
    /// Not supported: it needs a cluster
    #[arg(long)]
    validate: bool,
    #[command(flatten)]
    work: WorkFlags,
}

/// Renders and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.validate {
        return Err(Failure::Usage(
            "--validate asks a cluster, and this verb works without one; leave it out".to_owned(),
        ));
    }
    let mut options = ReleaseOptions {
        namespace: args.namespace.clone(),
        is_upgrade: args.is_upgrade,
        include_crds: args.include_crds,
        skip_schema_validation: args.skip_schema_validation,
        max_objects: args.work.max_build_objects,
        ..ReleaseOptions::default()
    };
    if let Some(version) = &args.kube_version {
        options.capabilities.kube_version = KubeVersion::parse(version)
            .map_err(|error| Failure::Work(format!("invalid kube version '{version}': {error}")))?;
    }
    options
        .capabilities
        .api_versions
        .extend(args.api_versions.iter().cloned());
    let budget = args.work.budget();
    let chart = name_and_chart(args, &mut options, &budget)?;
    let values = args.values.merge(&budget)?;
    let (outcome, warnings) = with_enough_stack(|limits| {
        let mut warnings = Warnings::default();
        let options = ReleaseOptions {
            limits: limits.clone(),
            ..options.clone()
        };
        let result = rendered(args, chart, &values, &options, &mut warnings, &budget);
        Attempt {
            is_too_deep: matches!(
                result,
                Err(Problem::Template(TemplateError::Render(
                    RenderError::TooDeep(_)
                )))
            ),
            result: (result.map_err(Failure::from), warnings),
        }
    })?;
    print_warnings(&warnings);
    print_text(&outcome?)
}

/// Why there is no output.
enum Problem {
    Chart(Failure),
    Template(TemplateError),
}

impl From<TemplateError> for Problem {
    fn from(error: TemplateError) -> Self {
        Problem::Template(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Chart(failure) => failure,
            Problem::Template(error) => {
                let hint = match error.is_after_values() {
                    true => "\n\nUse --debug flag to render out invalid YAML",
                    false => "",
                };
                Failure::Work(format!("{error}{hint}"))
            }
        }
    }
}

fn rendered(
    args: &Args,
    chart: &str,
    values: &Map,
    options: &ReleaseOptions,
    warnings: &mut Warnings,
    budget: &Budget,
) -> Result<String, Problem> {
    let chart = load(&PathBuf::from(chart), warnings).map_err(Problem::Chart)?;
    check_installable(&chart)?;
    if chart.metadata.deprecated {
        warnings.push("level=WARN msg=\"this chart is deprecated\"");
    }
    let kept = Arc::new(TemplateCache::new(1));
    let mut sources = Sources::new(SystemSource).with_parsed(Arc::clone(&kept));
    let rendered = template(chart, values, options, &mut sources, warnings, budget)?;
    let text = print(&rendered, !args.no_hooks, !args.skip_tests, &args.show_only)?;
    // The process is about to end: taking chart and templates apart would be work for nothing.
    std::mem::forget((rendered, sources, kept));
    Ok(text)
}

fn name_and_chart<'a>(
    args: &'a Args,
    options: &mut ReleaseOptions,
    budget: &Budget,
) -> Result<&'a str, Failure> {
    match (args.name_and_chart.as_slice(), &args.name_template) {
        ([_, _], Some(_)) => Err(Failure::Work(
            "cannot set --name-template and also specify a name".to_owned(),
        )),
        ([name, chart], None) => {
            options.name.clone_from(name);
            Ok(chart)
        }
        ([chart], Some(text)) => {
            let mut sources = Sources::new(SystemSource);
            options.name = render_name(text, &mut sources, budget)
                .map_err(|error| Failure::Work(error.to_string()))?;
            Ok(chart)
        }
        ([chart], None) => Ok(chart),
        _ => Err(Failure::Usage(
            "give a chart: NAME CHART, or CHART".to_owned(),
        )),
    }
}
