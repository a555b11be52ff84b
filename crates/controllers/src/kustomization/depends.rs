//! Kustomizations that must be ready first.

use everflow_api::common::DependencyReference;
use everflow_api::kustomization::{Kustomization, KustomizationSourceReference};
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_json::Value;
use everflow_runtime::attempt::Context;
use everflow_runtime::queue::WakeOn;

use crate::depends::{CIRCLE, compile, cycle, holds, namespace_of, read};
use crate::stop::{Failure, RetryPolicy, Stop, Tell};
use crate::{Options, resources};

/// What is said of a dependency that does not exist.
const NOT_FOUND: &str = "add a Kustomization of that name";

/// What wakes those who wait for their dependencies.
pub(super) fn wakes(object: &Object<Kustomization>) -> Vec<WakeOn> {
    let own = object.metadata.namespace();
    let all = object.spec.depends_on.iter();
    all.map(|dependency| {
        resources::KUSTOMIZATIONS.wake_on(namespace_of(dependency, own), &dependency.name)
    })
    .collect()
}

/// Whether all dependencies are ready.
pub(super) async fn check(
    value: &Value,
    object: &Object<Kustomization>,
    revision: &str,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    for dependency in &object.spec.depends_on {
        one(dependency, value, object, revision, context, options).await?;
    }
    Ok(())
}

async fn one(
    dependency: &DependencyReference,
    value: &Value,
    object: &Object<Kustomization>,
    revision: &str,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    let own = object.metadata.namespace();
    let namespace = namespace_of(dependency, own);
    let shown = format!("{namespace}/{}", dependency.name);
    let waits = |message: String| -> Stop {
        let soon = everflow_time::Duration::from(options.runtime.requeue_dependency);
        let mut event = format!("Dependencies do not meet ready condition, retrying in {soon}");
        // What time will not mend is worth a word.
        if message.contains(NOT_FOUND) || message.contains(CIRCLE) {
            event = format!("{event}: {message}");
        }
        Failure::new(Reason::DependencyNotReady, message)
            .telling(Tell::Info(event))
            .then(RetryPolicy::Wait)
            .into()
    };
    let expression = match dependency.ready_expr.as_deref() {
        None | Some("") => None,
        Some(text) => Some(compile(text).map_err(|why| invalid(&dependency.name, &why))?),
    };
    let found = read(
        &resources::KUSTOMIZATIONS,
        namespace,
        &dependency.name,
        context,
    )
    .await
    .map_err(|error| waits(format!("dependency '{shown}' not found: {error}")))?;
    let Some(found) = found else {
        let name = &dependency.name;
        let missing = format!("kustomizations.kustomize.toolkit.fluxcd.io \"{name}\" not found");
        return Err(waits(format!(
            "dependency '{shown}' not found: {missing} ({NOT_FOUND}, or correct spec.dependsOn)"
        )));
    };
    if let Some(program) = &expression {
        if !holds(program, value, &found).map_err(&waits)? {
            let message = format!("dependency '{shown}' is not ready according to readyExpr eval");
            return Err(waits(message));
        }
        if !options.gates.additive_cel_dependency_check {
            return Ok(());
        }
    }
    match is_ready(&found, namespace, object, revision) {
        true => Ok(()),
        false => {
            let metadata = &object.metadata;
            let start = (metadata.namespace(), metadata.name.as_str());
            let depends_on = &object.spec.depends_on;
            let cycle = cycle(&resources::KUSTOMIZATIONS, start, depends_on, context);
            Err(waits(format!("dependency '{shown}' is not ready{cycle}")))
        }
    }
}

fn invalid(name: &str, why: &str) -> Stop {
    let message = format!(
        "Reconciliation failed terminally due to configuration error: terminal error: failed to evaluate dependency {name}: {why}\ncorrect readyExpr in spec.dependsOn"
    );
    Failure::new(Reason::InvalidCELExpression, message)
        .then(RetryPolicy::Change)
        .into()
}

fn is_ready(
    found: &Value,
    namespace: &str,
    object: &Object<Kustomization>,
    revision: &str,
) -> bool {
    let Ok(found) = Object::<Kustomization>::read(found) else {
        return false;
    };
    let conditions = &found.status.conditions;
    let own = object.metadata.namespace();
    let at = |source: &KustomizationSourceReference, own: &str| {
        let namespace = source.namespace.clone().filter(|other| !other.is_empty());
        let namespace = namespace.unwrap_or_else(|| own.to_owned());
        (source.kind, namespace, source.name.clone())
    };
    let same_source = at(&found.spec.source_ref, namespace) == at(&object.spec.source_ref, own);
    found.status.observed_generation == found.metadata.generation
        && everflow_api::condition::is_true(conditions, everflow_api::names::condition::READY)
        && (!same_source || found.status.last_applied_revision.as_deref() == Some(revision))
}
