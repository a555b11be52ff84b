//! The collections that notifications are about.

use everflow_api::describe::KindInfo;
use everflow_api::notification::{Alert, Provider, Receiver};
use everflow_api::object::Kind;
use everflow_runtime::client::Resource;

/// The collection of one of Flux's kinds.
pub const fn collection(info: &'static KindInfo) -> Resource {
    Resource::namespaced(info.group, info.version, info.plural, info.kind)
}

/// Which events to send where.
pub const ALERTS: Resource = collection(Alert::INFO);
/// Services that take notifications.
pub const PROVIDERS: Resource = collection(Provider::INFO);
/// Webhooks that ask for attempts.
pub const RECEIVERS: Resource = collection(Receiver::INFO);
/// Secrets.
pub(crate) const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
