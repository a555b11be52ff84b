//! HelmReleases that must be ready first.

use everflow_api::Reason;
use everflow_api::condition;
use everflow_api::helm::HelmRelease;
use everflow_api::names::condition::READY;
use everflow_api::object::Object;
use everflow_json::Value;
use everflow_runtime::attempt::Context;

use super::attempt::configuration;
use crate::depends::{Dependencies, Unmet};
use crate::stop::{EventText, Failure, RetryPolicy, Stop};
use crate::{Options, resources};

/// What a HelmRelease has to wait for.
pub(super) fn of<'a>(object: &'a Object<HelmRelease>, value: &'a Value) -> Dependencies<'a> {
    Dependencies {
        resource: const { &resources::HELM_RELEASES },
        value,
        metadata: &object.metadata,
        listed: &object.spec.depends_on,
    }
}

/// Whether all dependencies are ready.
pub(super) async fn check(
    value: &Value,
    object: &Object<HelmRelease>,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    let is_ready = |_: &str, found: &Value| is_ready(found);
    let checked = of(object, value).check(context, options, is_ready).await;
    checked.map_err(|unmet| match unmet {
        Unmet::Invalid(wrong) => configuration(wrong),
        Unmet::Unread { shown, why } => waits(format!("unable to get '{shown}' dependency: {why}")),
        Unmet::NotReady(message) => waits(message),
    })
}

fn waits(message: String) -> Stop {
    Failure::new(Reason::DependencyNotReady, message.clone())
        .telling(EventText::Info(message))
        .then(RetryPolicy::Wait)
        .into()
}

fn is_ready(found: &Value) -> bool {
    let Ok(found) = Object::<HelmRelease>::read(found) else {
        return false;
    };
    found.status.observed_generation == found.metadata.generation
        && condition::is_true(&found.status.conditions, READY)
}
