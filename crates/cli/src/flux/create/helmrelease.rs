//! `everflow create helmrelease`

use everflow_helm::chart::load_values;
use everflow_helm::values::merge_json;
use everflow_json::{Map, Value, json};
use everflow_time::Duration;

use super::{Creation, Spec, depends_on, named, work};
use crate::exit::Failure;
use crate::flux::go_flags::{Reference, chart_source, crds_policy, go_duration};
use crate::flux::kinds;

/// `everflow create helmrelease`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The name of the release
    #[arg(long, value_name = "NAME", default_value = "")]
    release_name: String,
    /// The source of the chart: KIND/NAME[.NAMESPACE]
    #[arg(long, value_name = "SOURCE", value_parser = chart_source)]
    source: Option<Reference>,
    /// The name of the chart, or its directory in the source
    #[arg(long, value_name = "CHART", default_value = "")]
    chart: String,
    /// The version of the chart, or a range of versions
    #[arg(long, value_name = "VERSION", default_value = "")]
    chart_version: String,
    /// The object that the chart is taken from: OCIRepository/NAME[.NAMESPACE] or HelmChart/…
    #[arg(long, value_name = "OBJECT", default_value = "")]
    chart_ref: String,
    /// How often the chart is checked
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration)]
    chart_interval: Duration,
    /// What counts as a new chart: ChartVersion or Revision
    #[arg(long, value_name = "STRATEGY", default_value = "ChartVersion")]
    reconcile_strategy: String,
    /// Objects that must be ready first: [NAMESPACE/]NAME
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    depends_on: Vec<String>,
    /// The namespace of the release
    #[arg(long, value_name = "NAME", default_value = "")]
    target_namespace: String,
    /// The namespace of the release records
    #[arg(long, value_name = "NAME", default_value = "")]
    storage_namespace: String,
    /// Create the namespace of the release if it is missing
    #[arg(long)]
    create_target_namespace: bool,
    /// The service account to release as
    #[arg(long, value_name = "NAME", default_value = "")]
    service_account: String,
    /// How CRDs are handled on upgrade: Skip, Create or CreateReplace
    #[arg(long, value_name = "POLICY", value_parser = crds_policy)]
    crds: Option<String>,
    /// Files with values
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    values: Vec<String>,
    /// Objects with values: Secret/NAME or ConfigMap/NAME
    #[arg(long, value_name = "OBJECT", value_delimiter = ',')]
    values_from: Vec<String>,
    /// The Secret with the kubeconfig of another cluster
    #[arg(long, value_name = "NAME", default_value = "")]
    kubeconfig_secret_ref: String,
}

pub fn run(args: &Args, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    match (args.chart.is_empty(), args.chart_ref.is_empty()) {
        (true, true) => return Err(work("chart or chart-ref is required")),
        (false, false) => {
            return Err(work("cannot use --chart in combination with --chart-ref"));
        }
        _ => {}
    }
    if !["Revision", "ChartVersion"].contains(&args.reconcile_strategy.as_str()) {
        return Err(work(format!(
            "'{}' is an invalid reconcile strategy(valid: Revision, ChartVersion)",
            args.reconcile_strategy
        )));
    }
    let storage = match args.storage_namespace.as_str() {
        "" => &args.target_namespace,
        _ => &args.storage_namespace,
    };
    let mut spec = Spec::default()
        .value("interval", creation.interval())
        .text("releaseName", &args.release_name)
        .text("targetNamespace", &args.target_namespace)
        .text("storageNamespace", storage)
        .text("serviceAccountName", &args.service_account);
    if !args.depends_on.is_empty() {
        spec = spec.value("dependsOn", depends_on(&args.depends_on));
    }
    spec = match args.chart_ref.is_empty() {
        true => spec.value("chart", json!({"spec": chart(args).0})),
        false => spec.object("chartRef", chart_ref(&args.chart_ref)?.spec()),
    };
    if !args.kubeconfig_secret_ref.is_empty() {
        let secret = json!({"secretRef": {"name": args.kubeconfig_secret_ref}});
        spec = spec.value("kubeConfig", secret);
    }
    let mut install = Spec::default().flag("createNamespace", args.create_target_namespace);
    if let Some(policy) = &args.crds {
        install = install.text("crds", "Create");
        spec = spec.object("upgrade", Spec::default().text("crds", policy));
    }
    spec = spec.object("install", install);
    let values = values(&args.values)?;
    if !values.is_empty() {
        spec = spec.value("values", Value::Object(values));
    }
    let from = values_from(&args.values_from)?;
    if !from.is_empty() {
        spec = spec.value("valuesFrom", from);
    }
    let kind = kinds::required("HelmRelease")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}

fn chart(args: &Args) -> Spec {
    let source = match &args.source {
        Some(source) => source.spec(),
        // Without a source there is a reference to nothing, as flux writes it.
        None => Spec::default().value("name", ""),
    };
    Spec::default()
        .text("chart", &args.chart)
        .text("version", &args.chart_version)
        .duration("interval", args.chart_interval)
        .text("reconcileStrategy", &args.reconcile_strategy)
        .object("sourceRef", source)
}

fn chart_ref(text: &str) -> Result<Reference, Failure> {
    let kinds = ["OCIRepository", "HelmChart", "ExternalArtifact"];
    let mut reference = Reference::parse(text);
    if reference.kind.is_empty() || reference.name.is_empty() {
        return Err(work(format!(
            "chart reference '{text}' must be in format <kind>/<name>[.<namespace>]"
        )));
    }
    let known = kinds
        .iter()
        .find(|kind| kind.eq_ignore_ascii_case(&reference.kind));
    match known {
        Some(kind) => {
            reference.kind = (*kind).to_owned();
            Ok(reference)
        }
        None => Err(work(format!(
            "chart reference kind '{}' is not supported, must be one of: {}",
            reference.kind,
            kinds.join(", ")
        ))),
    }
}

fn values(files: &[String]) -> Result<Map, Failure> {
    let mut values = Map::new();
    for file in files {
        let failed = |why: String| work(format!("reading values from {file} failed: {why}"));
        let data = std::fs::read(file).map_err(|error| {
            let reason = crate::helm::go_reason(&error);
            failed(format!("open {file}: {reason}"))
        })?;
        let more = load_values(&data).map_err(|reason| failed(reason.to_string()))?;
        merge_json(&mut values, more);
    }
    Ok(values)
}

fn values_from(words: &[String]) -> Result<Vec<Value>, Failure> {
    let kinds = ["Secret", "ConfigMap"];
    let entry = |word: &String| {
        let reference = Reference::without_namespace(word);
        if reference.kind.is_empty() || reference.name.is_empty() {
            return Err(work(format!(
                "invalid Kubernetes object reference '{word}', must be in format <kind>/<name>"
            )));
        }
        let known = kinds
            .iter()
            .find(|kind| kind.eq_ignore_ascii_case(&reference.kind));
        match known {
            Some(kind) => Ok(json!({"kind": kind, "name": reference.name})),
            None => Err(work(format!(
                "reference kind '{}' is not supported, must be one of: {}",
                reference.kind,
                kinds.join(", ")
            ))),
        }
    };
    words.iter().map(entry).collect()
}
