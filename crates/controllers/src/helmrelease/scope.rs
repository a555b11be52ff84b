//! Which kinds of a manifest are in namespaces.

use std::collections::{BTreeMap, BTreeSet};

use everflow_release::manifest::{Scope, objects};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::Client;

use super::attempt::Halt;

/// What the server knows of the kinds of some manifests.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<(String, String), bool>);

impl Scope for Kinds {
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        let key = (api_version.to_owned(), kind.to_owned());
        self.0.get(&key).copied()
    }
}

/// Asks the server about the kinds of manifests. A kind that it does not serve is not among the answers.
pub(super) async fn kinds(client: &Client, manifests: &[&str]) -> Result<Kinds, Halt> {
    let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
    for manifest in manifests {
        // What cannot be read is told when the objects are made.
        let found = objects(manifest, "", &|_: &str, _: &str| Some(true));
        for object in found.unwrap_or_default() {
            let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            wanted.insert((text("apiVersion"), text("kind")));
        }
    }
    let mut kinds = Kinds::default();
    for (api_version, kind) in wanted {
        match client.resource(&api_version, &kind).await {
            Ok(resource) => {
                kinds.0.insert((api_version, kind), resource.namespaced);
            }
            Err(ClientError::NoKind { .. } | ClientError::NotFound(_)) => {}
            Err(error) => return Err(Halt::unanswered(error)),
        }
    }
    Ok(kinds)
}
