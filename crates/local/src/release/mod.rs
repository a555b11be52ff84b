//! What a HelmRelease of a repository applies, with no cluster.
//!
//! - [`find`]: the HelmRelease and the objects that it needs, among those of the repository.
//! - [`render`]: its chart with its values, as objects.

mod find;
mod render;

pub use find::{Needed, find};
pub use render::{Rendering, render};

use std::time::Duration;

use everflow_api::helm::HelmRelease;
use everflow_api::inventory::ObjectId;
use everflow_api::object::Object;
use everflow_api::view;
use everflow_controllers::resources;
use everflow_env::disk::read_all;
use everflow_json::Value;
use everflow_release::helm_chart;
use everflow_runtime::client::{At, Resource};

use crate::Error;
use crate::cache::LARGEST;
use crate::picture::State;
use crate::world::World;

/// A chart as its source gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The archive.
    pub bytes: Vec<u8>,
    /// The revision of the artifact.
    pub revision: String,
    /// Whether the version of the chart follows that revision.
    pub tracked: bool,
}

/// What there is to render of a HelmRelease once a world has it.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The HelmRelease, with what the API server fills in.
    pub object: Object<HelmRelease>,
    /// Its chart.
    pub chart: Fetched,
    /// The ConfigMaps and Secrets with its values.
    pub holders: Vec<Value>,
}

/// Brings the chart and the values of a HelmRelease to a world that has the objects it needs.
///
/// # Errors
/// When the chart cannot be had.
pub async fn prepare(
    world: &mut World,
    needed: &Needed,
    patience: Duration,
) -> Result<Prepared, Error> {
    let (namespace, name) = (
        view::namespace(&needed.release),
        view::name(&needed.release),
    );
    let live = get(world, &resources::HELM_RELEASES, namespace, name).await?;
    let object: Object<HelmRelease> =
        Object::read(&live).map_err(|error| Error::Release(error.to_string()))?;
    if let Some(chart) = helm_chart::helm_chart(&object) {
        world.add(&chart).await?;
    }
    let chart = fetched(world, &object, patience).await?;
    let mut holders = Vec::new();
    for (kind, name) in everflow_release::values::referenced(&object.spec.values_from) {
        let resource = world.client().resource("v1", kind.as_str()).await;
        let resource = resource.map_err(Error::Runtime)?;
        // One that is not there is judged with the reference to it.
        if let Ok(mut holder) = world
            .client()
            .get(&resource, At::new(namespace, name))
            .await
        {
            holder["kind"] = kind.as_str().into();
            holders.push(holder);
        }
    }
    Ok(Prepared {
        object,
        chart,
        holders,
    })
}

async fn get(
    world: &World,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Value, Error> {
    let found = world.client().get(resource, At::new(namespace, name)).await;
    found.map_err(|source| Error::Refused {
        object: view::joined(&resource.kind, namespace, name),
        source,
    })
}

/// The object that the chart of a HelmRelease is taken from, and whether its version follows the revision.
fn chart_source(object: &Object<HelmRelease>) -> Result<(Resource, String, String, bool), Error> {
    if let Some((namespace, name)) = helm_chart::location(object) {
        return Ok((resources::HELM_CHARTS, namespace, name, false));
    }
    let Some(reference) = &object.spec.chart_ref else {
        let message = "neither spec.chart nor spec.chartRef is set";
        return Err(Error::Release(message.to_owned()));
    };
    let namespace = reference.namespace.as_deref();
    let namespace = namespace.unwrap_or(object.metadata.namespace()).to_owned();
    let kind = reference.kind.to_string();
    let (resource, tracked) = match kind.as_str() {
        "HelmChart" => (resources::HELM_CHARTS, false),
        "OCIRepository" => (resources::OCI_REPOSITORIES, true),
        other => {
            return Err(Error::Release(format!(
                "spec.chartRef leads to {other}/{namespace}/{}: charts of {other}s are made by programs that \
                 are not here",
                reference.name
            )));
        }
    };
    Ok((resource, namespace, reference.name.clone(), tracked))
}

async fn fetched(
    world: &mut World,
    object: &Object<HelmRelease>,
    patience: Duration,
) -> Result<Fetched, Error> {
    let (resource, namespace, name, tracked) = chart_source(object)?;
    let id = ObjectId {
        namespace: namespace.clone(),
        name: name.clone(),
        group: resource.group.to_string(),
        kind: resource.kind.to_string(),
    };
    let (picture, _) = world
        .settle(patience, crate::world::Detail::Flux, |_| {})
        .await?;
    let node = picture.all().find(|node| node.id == id);
    let is_there = node.is_some_and(|node| node.state == State::Ready);
    let source = get(world, &resource, &namespace, &name).await?;
    let path = source
        .pointer("/status/artifact/path")
        .and_then(Value::as_str);
    let (Some(path), true) = (path, is_there) else {
        return Err(Error::NoChart(why_missing(&picture, &id)));
    };
    let bytes = read_all(&**world.disk(), path, LARGEST).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(Fetched {
        bytes,
        revision: view::artifact_revision(&source)
            .unwrap_or_default()
            .to_owned(),
        tracked,
    })
}

/// What its sources say of a chart that is not there: causes first.
fn why_missing(picture: &crate::picture::Picture, chart: &ObjectId) -> String {
    let (causes, waiting) = picture.causes();
    let sources = causes.into_iter().chain(waiting);
    let mut told: Vec<String> = sources
        .filter(|node| !node.message.is_empty())
        .map(|node| format!("{}: {}", node.id.subject(), node.message))
        .collect();
    let skipped = picture.all().filter(|node| node.state == State::Skipped);
    told.extend(skipped.map(|node| format!("{}: {}", node.id.subject(), node.message)));
    match told.is_empty() {
        true => format!("{} was not there in time", chart.subject()),
        false => told.join("\n"),
    }
}
