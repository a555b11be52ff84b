//! The HelmChart that is made from `spec.chart`.

use everflow_api::common::ReconcileStrategy;
use everflow_api::helm::{HelmChartTemplate, HelmRelease};
use everflow_api::names::label;
use everflow_api::object::Object;
use everflow_api::source::{
    HelmChart, HelmChartSpec, HelmChartVerification, LocalHelmChartSourceReference,
};
use everflow_api::{Kind, to_value};
use everflow_json::{Value, json};

/// The range of versions where none is given, as the API server fills it in.
const ANY_VERSION: &str = "*";

/// What is to be done about the HelmChart of a HelmRelease.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChartPlan {
    /// The one to apply.
    pub apply: Option<Value>,
    /// The one to delete, as namespace and name.
    pub delete: Option<(String, String)>,
}

/// The namespace and the name of the HelmChart that `spec.chart` asks for.
pub fn location(object: &Object<HelmRelease>) -> Option<(String, String)> {
    let template = object.spec.chart.as_ref()?;
    let own = object.metadata.namespace();
    let source = &template.spec.source_ref;
    let namespace = source.namespace.as_deref().unwrap_or(own).to_owned();
    Some((namespace, format!("{own}-{}", object.metadata.name)))
}

/// What is to be done: the HelmChart of another place goes, and so does the one of a HelmRelease that
/// refers to a chart of its own or is being deleted. One that is suspended keeps what it has.
pub fn plan(object: &Object<HelmRelease>) -> ChartPlan {
    if object.spec.suspend {
        return ChartPlan::default();
    }
    let current = object
        .status
        .helm_chart
        .as_deref()
        .and_then(|chart| chart.split_once('/'))
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    let is_deleted = object.metadata.is_deleted();
    let wanted = location(object).filter(|_| !is_deleted);
    ChartPlan {
        delete: current.filter(|current| wanted.as_ref() != Some(current)),
        apply: wanted.and_then(|_| helm_chart(object)),
    }
}

/// The HelmChart that `spec.chart` asks for, as it is applied.
pub fn helm_chart(object: &Object<HelmRelease>) -> Option<Value> {
    let template = object.spec.chart.as_ref()?;
    let (namespace, name) = location(object)?;
    let spec = chart_spec(object, template);
    let mut metadata = json!({"name": name, "namespace": namespace});
    if let Some(given) = &template.metadata {
        for (key, value) in &given.annotations {
            metadata["annotations"][key.as_str()] = json!(value);
        }
        for (key, value) in &given.labels {
            metadata["labels"][key.as_str()] = json!(value);
        }
    }
    metadata["labels"][label::HELM_RELEASE_NAME] = json!(object.metadata.name);
    metadata["labels"][label::HELM_RELEASE_NAMESPACE] = json!(object.metadata.namespace());
    Some(json!({
        "apiVersion": HelmChart::INFO.api_version(),
        "kind": HelmChart::INFO.kind,
        "metadata": metadata,
        "spec": to_value(&spec),
    }))
}

fn chart_spec(object: &Object<HelmRelease>, template: &HelmChartTemplate) -> HelmChartSpec {
    let asked = &template.spec;
    let any = || Some(ANY_VERSION.to_owned());
    HelmChartSpec {
        chart: asked.chart.clone(),
        version: asked.version.clone().or_else(any),
        source_ref: LocalHelmChartSourceReference {
            kind: asked.source_ref.kind,
            name: asked.source_ref.name.clone(),
            ..LocalHelmChartSourceReference::default()
        },
        interval: asked.interval.unwrap_or(object.spec.interval),
        reconcile_strategy: asked
            .reconcile_strategy
            .or(Some(ReconcileStrategy::ChartVersion)),
        values_files: asked.values_files.clone(),
        ignore_missing_values_files: asked.ignore_missing_values_files,
        verify: asked.verify.as_ref().map(|verify| HelmChartVerification {
            provider: verify.provider,
            secret_ref: verify.secret_ref.clone(),
            ..HelmChartVerification::default()
        }),
        ..HelmChartSpec::default()
    }
}

/// How messages name the HelmChart: `HelmChart/NAMESPACE/NAME with SourceRef 'KIND/NAMESPACE/NAME'`.
pub fn described(chart: &Value) -> String {
    let text = |pointer: &str| {
        let found = chart.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    let namespace = text("/metadata/namespace");
    format!(
        "HelmChart/{namespace}/{} with SourceRef '{}/{namespace}/{}'",
        text("/metadata/name"),
        text("/spec/sourceRef/kind"),
        text("/spec/sourceRef/name"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: Value, status: Value) -> Object<HelmRelease> {
        let mut spec = spec;
        spec["interval"] = json!("1h");
        let metadata = json!({"name": "web", "namespace": "apps"});
        Object::read(&json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn from(namespace: Option<&str>) -> Value {
        let mut source = json!({"kind": "HelmRepository", "name": "repo"});
        if let Some(namespace) = namespace {
            source["namespace"] = json!(namespace);
        }
        json!({"chart": {"spec": {"chart": "app", "sourceRef": source}}})
    }

    #[test]
    fn the_chart_of_another_namespace_goes_and_the_new_one_comes() {
        let object = object(from(Some("sources")), json!({"helmChart": "apps/apps-web"}));
        let plan = plan(&object);
        assert_eq!(
            plan.delete,
            Some(("apps".to_owned(), "apps-web".to_owned()))
        );
        let chart = plan.apply.unwrap();
        assert_eq!(chart["metadata"]["namespace"], "sources");
        assert_eq!(
            described(&chart),
            "HelmChart/sources/apps-web with SourceRef 'HelmRepository/sources/repo'"
        );
    }

    #[test]
    fn a_reference_or_a_deletion_leaves_no_chart_and_a_suspended_object_all() {
        let status = json!({"helmChart": "apps/apps-web"});
        let reference = json!({"chartRef": {"kind": "HelmChart", "name": "mine"}});
        let kept = plan(&object(reference, status.clone()));
        assert_eq!((kept.apply, kept.delete.is_some()), (None, true));

        let mut deleted = object(from(None), status.clone());
        assert_eq!(plan(&deleted).delete, None);
        deleted.metadata.deletion_timestamp = Some(everflow_time::Timestamp::default());
        let gone = plan(&deleted);
        assert_eq!((gone.apply, gone.delete.is_some()), (None, true));
        deleted.spec.suspend = true;
        assert_eq!(plan(&deleted), ChartPlan::default());
    }
}
