//! The objects of a HelmRelease.

use std::sync::Arc;

use everflow_api::common::ConfigKind;
use everflow_api::helm::CrdsPolicy;
use everflow_api::view;
use everflow_helm::chart::load_archive;
use everflow_helm::objects::Capabilities;
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, check_installable};
use everflow_helm::values::Warnings;
use everflow_helm::{Limits, on_large_stack};
use everflow_json::Value;
use everflow_limits::Budget;
use everflow_release::names::ReleaseTarget;
use everflow_release::{chart_version, manifest, values};
use everflow_runtime::client::Concealed;

use super::Prepared;
use crate::Error;

/// How deep charts may nest, in bytes of the stack of the thread that renders.
const STACK: usize = 256 << 20;

/// What a HelmRelease applies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rendering {
    /// The definitions under `crds/` of the chart.
    pub definitions: Vec<Value>,
    /// The objects of the release, in the order in which they are applied.
    pub objects: Vec<Value>,
    /// The hooks.
    pub hooks: Vec<Value>,
    /// What is odd about the chart.
    pub warnings: Vec<String>,
}

/// Renders the chart with the values, as an install does it.
///
/// # Errors
/// When the values cannot be had, or the chart does not render with them.
pub fn render(
    prepared: &Prepared,
    capabilities: &Capabilities,
    is_namespaced: &(dyn Fn(&str, &str) -> Option<bool> + Sync),
    source: impl Fn() -> Sources + Sync,
    budget: &Arc<Budget>,
) -> Result<Rendering, Error> {
    let rendered = on_large_stack(STACK, || {
        rendered(prepared, capabilities, is_namespaced, source(), budget)
    });
    rendered.map_err(|source| Error::Read {
        path: "a thread of this process".to_owned(),
        source,
    })?
}

fn rendered(
    prepared: &Prepared,
    capabilities: &Capabilities,
    is_namespaced: &dyn Fn(&str, &str) -> Option<bool>,
    sources: Sources,
    budget: &Arc<Budget>,
) -> Result<Rendering, Error> {
    let object = &prepared.object;
    let spec = &object.spec;
    let (namespace, name) = (object.metadata.namespace(), &object.metadata.name);
    let mut warnings = Warnings::default();
    let chart = load_archive(&prepared.chart.bytes, &mut warnings);
    let mut chart =
        chart.map_err(|error| Error::Release(format!("failed to load chart: {error}")))?;
    if prepared.chart.tracked {
        let version = &chart.metadata.version;
        let tracked = chart_version::tracked(version, &prepared.chart.revision);
        chart.metadata.version = tracked.map_err(Error::Rendering)?.version;
    }
    check_installable(&chart).map_err(|error| Error::Rendering(error.into()))?;
    let holder = |kind: ConfigKind, name: &str| {
        let mut holders = prepared.holders.iter();
        holders.find(|holder| holder["kind"] == kind.as_str() && view::name(holder) == name)
    };
    let values = values::compose(
        namespace,
        &spec.values_from,
        spec.values.as_ref(),
        holder,
        budget,
    );
    let values = values.map_err(Error::Rendering)?;
    let target = ReleaseTarget::of(object);
    let install = spec.install.as_ref();
    let options = ReleaseOptions {
        name: target.name,
        namespace: target.namespace.clone(),
        capabilities: capabilities.clone(),
        skip_schema_validation: install.is_some_and(|install| install.disable_schema_validation),
        limits: Limits {
            stack_bytes: STACK / 4 * 3,
            ..Limits::default()
        },
        ..ReleaseOptions::default()
    };
    let rendered = everflow_release::render::render(
        chart,
        &values,
        &options,
        object,
        sources,
        &mut warnings,
        budget,
    );
    let rendered = rendered.map_err(|error| {
        // A template may print what it fails about.
        let mut concealed = Concealed::default();
        for value in values::brought_by_secrets(&spec.values_from, holder, budget) {
            concealed.add_texts_of(&value);
        }
        Error::Release(concealed.hide(&error.to_string()))
    })?;
    let policy = install.and_then(|install| install.crds);
    let definitions = match policy == Some(CrdsPolicy::Skip) {
        true => Vec::new(),
        false => {
            let found = manifest::definitions(&rendered.chart, namespace, name, budget);
            found.map_err(Error::Rendering)?.objects
        }
    };
    // Kinds that the chart brings are known by its definitions; others may have theirs elsewhere.
    let scope = |api_version: &str, kind: &str| {
        let own = definitions.iter().find(|definition| {
            definition
                .pointer("/spec/names/kind")
                .and_then(Value::as_str)
                == Some(kind)
        });
        let own = own.map(|definition| definition["spec"]["scope"] != "Cluster");
        own.or_else(|| is_namespaced(api_version, kind))
            .or(Some(true))
    };
    let placed =
        |text: &str| manifest::objects(text, &target.namespace, &scope).map_err(Error::Rendering);
    let objects = placed(&rendered.manifest)?;
    let mut hooks = Vec::new();
    for hook in &rendered.hooks {
        hooks.extend(placed(&hook.manifest)?);
    }
    Ok(Rendering {
        definitions,
        objects,
        hooks,
        warnings: warnings.0,
    })
}
