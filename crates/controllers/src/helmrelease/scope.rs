//! Which kinds of a manifest are in namespaces.

use std::collections::{BTreeMap, BTreeSet};

use everflow_limits::Budget;
use everflow_release::manifest::{Scope, objects};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::Client;

use super::attempt::Halt;

/// What the server knows of the kinds of some manifests.
#[derive(Debug)]
pub(super) struct Kinds {
    known: BTreeMap<(String, String), bool>,
    budget: Budget,
}

impl Scope for Kinds {
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        let key = (api_version.to_owned(), kind.to_owned());
        self.known.get(&key).copied()
    }

    fn budget(&self) -> Option<&Budget> {
        Some(&self.budget)
    }
}

/// A scope in which every kind is known.
struct Anywhere(Budget);

impl Scope for Anywhere {
    fn is_namespaced(&self, _: &str, _: &str) -> Option<bool> {
        Some(true)
    }

    fn budget(&self) -> Option<&Budget> {
        Some(&self.0)
    }
}

/// Asks the server about the kinds of manifests. A kind that it does not serve is not among the answers.
/// `budget` is for what is made of the manifests afterwards.
pub(super) async fn kinds(
    client: &Client,
    manifests: &[&str],
    budget: Budget,
) -> Result<Kinds, Halt> {
    let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
    for manifest in manifests {
        // What cannot be read is told when the objects are made.
        let found = objects(manifest, "", &Anywhere(budget.sibling()));
        for object in found.unwrap_or_default() {
            let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            wanted.insert((text("apiVersion"), text("kind")));
        }
    }
    let mut kinds = Kinds {
        known: BTreeMap::new(),
        budget,
    };
    for (api_version, kind) in wanted {
        match client.resource(&api_version, &kind).await {
            Ok(resource) => {
                kinds.known.insert((api_version, kind), resource.namespaced);
            }
            Err(ClientError::NoKind { .. } | ClientError::NotFound(_)) => {}
            Err(error) => return Err(Halt::unanswered(error)),
        }
    }
    Ok(kinds)
}
