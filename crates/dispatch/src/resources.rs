//! The collections that notifications are about.

use everflow_runtime::client::Resource;

const GROUP: &str = everflow_api::names::group::NOTIFICATION;

/// Which events to send where.
pub const ALERTS: Resource = Resource::namespaced(GROUP, "v1beta3", "alerts", "Alert");
/// Services that take notifications.
pub const PROVIDERS: Resource = Resource::namespaced(GROUP, "v1beta3", "providers", "Provider");
/// Webhooks that ask for attempts.
pub const RECEIVERS: Resource = Resource::namespaced(GROUP, "v1", "receivers", "Receiver");
/// Secrets.
pub(crate) const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
