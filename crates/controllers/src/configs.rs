//! ConfigMaps and Secrets that objects refer to.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::common::ConfigKind;
use everflow_json::Value;
use everflow_runtime::client::{Resource, Selection};
use everflow_runtime::queue::WakeOn;
use everflow_runtime::reflector::Watched;
use everflow_runtime::store::Keep;

use crate::{Options, resources};

/// The collection of a kind that objects refer to.
pub(crate) fn resource(kind: ConfigKind) -> Resource {
    match kind {
        ConfigKind::Secret => resources::SECRETS,
        ConfigKind::ConfigMap => resources::CONFIG_MAPS,
    }
}

/// The values of a ConfigMap or a Secret.
pub(crate) fn data(holder: &Value) -> BTreeMap<String, String> {
    let secret = holder["kind"] == "Secret";
    let entries = holder["data"].as_object().into_iter().flatten();
    entries
        .map(|(key, value)| {
            let text = value.as_str().unwrap_or_default();
            let text = match secret {
                true => {
                    let bytes = STANDARD.decode(text).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).into_owned()
                }
                false => text.to_owned(),
            };
            (key.to_string(), text)
        })
        .collect()
}

/// The bytes of a Secret.
pub(crate) fn secret_bytes(secret: &Value) -> BTreeMap<String, Vec<u8>> {
    let entries = secret["data"].as_object().into_iter().flatten();
    entries
        .map(|(key, value)| {
            let text = value.as_str().unwrap_or_default();
            (key.to_string(), STANDARD.decode(text).unwrap_or_default())
        })
        .collect()
}

/// What wakes those who refer to an object, and what has to be watched for it.
pub(crate) fn wake(
    resource: Resource,
    namespace: &str,
    name: &str,
    options: &Options,
) -> (WakeOn, Watched) {
    let wake = resource.wake_on(namespace, name);
    let labels = options.runtime.watch_configs_label_selector.clone();
    let watched = Watched {
        resource,
        namespace: options.runtime.watch_namespace.clone(),
        selection: Selection::labelled(labels).metadata(),
        keep: Keep::Metadata,
    };
    (wake, watched)
}
