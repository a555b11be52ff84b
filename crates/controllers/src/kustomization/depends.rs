//! Kustomizations that must be ready first.

use everflow_api::kustomization::{Kustomization, KustomizationSourceReference};
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_json::Value;
use everflow_runtime::attempt::Context;

use crate::depends::{CIRCLE, Dependencies, Unmet};
use crate::stop::{EventText, Failure, RetryPolicy, Stop};
use crate::{Options, resources};

/// What is said of a dependency that does not exist.
const NOT_FOUND: &str = "add a Kustomization of that name";

/// What a Kustomization has to wait for.
pub(super) fn of<'a>(object: &'a Object<Kustomization>, value: &'a Value) -> Dependencies<'a> {
    Dependencies {
        resource: const { &resources::KUSTOMIZATIONS },
        value,
        metadata: &object.metadata,
        listed: &object.spec.depends_on,
    }
}

/// Whether all dependencies are ready.
pub(super) async fn check(
    value: &Value,
    object: &Object<Kustomization>,
    revision: &str,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    let is_ready = |namespace: &str, found: &Value| is_ready(found, namespace, object, revision);
    let checked = of(object, value).check(context, options, is_ready).await;
    checked.map_err(|unmet| match unmet {
        Unmet::Invalid(wrong) => Failure::from(wrong).into(),
        Unmet::Unread { shown, why } => {
            waits(format!("dependency '{shown}' not found: {why}"), options)
        }
        Unmet::NotReady(message) => waits(message, options),
    })
}

fn waits(message: String, options: &Options) -> Stop {
    let soon = everflow_time::Duration::from(options.runtime.requeue_dependency);
    let mut event = format!("Dependencies do not meet ready condition, retrying in {soon}");
    // What time will not mend is worth a word.
    if message.contains(NOT_FOUND) || message.contains(CIRCLE) {
        event = format!("{event}: {message}");
    }
    Failure::new(Reason::DependencyNotReady, message)
        .telling(EventText::Info(event))
        .then(RetryPolicy::Wait)
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
