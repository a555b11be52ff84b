//! HelmReleases that must be ready first.

use everflow_api::Reason;
use everflow_api::common::DependencyReference;
use everflow_api::condition;
use everflow_api::helm::HelmRelease;
use everflow_api::names::condition::READY;
use everflow_api::object::Object;
use everflow_json::Value;
use everflow_runtime::attempt::Context;
use everflow_runtime::queue::WakeOn;

use crate::depends::{compile, cycle, holds, namespace_of, read};
use crate::stop::{Failure, RetryPolicy, Stop, Tell};
use crate::{Options, resources};

/// What wakes those who wait for their dependencies.
pub(super) fn wakes(object: &Object<HelmRelease>) -> Vec<WakeOn> {
    let own = object.metadata.namespace();
    let all = object.spec.depends_on.iter();
    all.map(|dependency| {
        resources::HELM_RELEASES.wake_on(namespace_of(dependency, own), &dependency.name)
    })
    .collect()
}

/// Whether all dependencies are ready.
pub(super) async fn check(
    value: &Value,
    object: &Object<HelmRelease>,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    for dependency in &object.spec.depends_on {
        one(dependency, value, object, context, options).await?;
    }
    Ok(())
}

async fn one(
    dependency: &DependencyReference,
    value: &Value,
    object: &Object<HelmRelease>,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    let own = object.metadata.namespace();
    let (namespace, name) = (namespace_of(dependency, own), &dependency.name);
    let shown = format!("{namespace}/{name}");
    let expression = match dependency.ready_expr.as_deref() {
        None | Some("") => None,
        Some(text) => Some(compile(text).map_err(|why| invalid(name, &why))?),
    };
    let unread = |why: String| waits(format!("unable to get '{shown}' dependency: {why}"));
    let found = read(&resources::HELM_RELEASES, namespace, name, context).await;
    let Some(found) = found.map_err(|error| unread(error.to_string()))? else {
        return Err(unread(format!(
            "helmreleases.helm.toolkit.fluxcd.io \"{name}\" not found (add a HelmRelease of that name, or \
             correct spec.dependsOn)"
        )));
    };
    if let Some(program) = &expression {
        if !holds(program, value, &found).map_err(&waits)? {
            let why = "is not ready according to readyExpr eval";
            return Err(waits(format!("dependency '{shown}' {why}")));
        }
        if !options.gates.additive_cel_dependency_check {
            return Ok(());
        }
    }
    match is_ready(&found) {
        true => Ok(()),
        false => {
            let metadata = &object.metadata;
            let start = (metadata.namespace(), metadata.name.as_str());
            let cycle = cycle(
                &resources::HELM_RELEASES,
                start,
                &object.spec.depends_on,
                context,
            );
            Err(waits(format!("dependency '{shown}' is not ready{cycle}")))
        }
    }
}

fn waits(message: String) -> Stop {
    Failure::new(Reason::DependencyNotReady, message.clone())
        .telling(Tell::Info(message))
        .then(RetryPolicy::Wait)
        .into()
}

fn invalid(name: &str, why: &str) -> Stop {
    let text = format!(
        "terminal error: failed to evaluate dependency {name}: {why}\ncorrect readyExpr in spec.dependsOn"
    );
    let start = "Reconciliation failed terminally due to configuration error";
    Failure::new(Reason::InvalidCELExpression, format!("{start}: {text}"))
        .telling(Tell::Text(text))
        .then(RetryPolicy::Change)
        .into()
}

fn is_ready(found: &Value) -> bool {
    let Ok(found) = Object::<HelmRelease>::read(found) else {
        return false;
    };
    found.status.observed_generation == found.metadata.generation
        && condition::is_true(&found.status.conditions, READY)
}
