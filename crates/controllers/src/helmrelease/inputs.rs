//! Values from ConfigMaps and Secrets.

use std::collections::BTreeMap;

use everflow_api::Reason;
use everflow_api::common::ConfigKind;
use everflow_env::run_budgeted;
use everflow_json::{Map, Value};
use everflow_release::values::{brought_by_secrets, compose, referenced};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Concealed, Resource, Selection};
use everflow_runtime::queue::WakeOn;
use everflow_runtime::reflector::Watched;
use everflow_runtime::store::Keep;

use super::attempt::Attempt;
use super::made_up;
use crate::configs::resource;
use crate::resources;
use crate::stop::{Failure, Stop};

impl Attempt<'_> {
    /// The values of the release, and what of them Secrets have brought.
    pub(super) async fn values(&self) -> Result<(Map, Concealed), Stop> {
        let spec = &self.object.spec;
        let namespace = self.namespace();
        let mut found: BTreeMap<(ConfigKind, String), Value> = BTreeMap::new();
        for (kind, name) in referenced(&spec.values_from) {
            let at = At::new(namespace, name);
            match self.context.client.get(&resource(kind), at).await {
                Ok(holder) => {
                    found.insert((kind, name.to_owned()), holder);
                }
                Err(ClientError::NotFound(_)) => {}
                Err(error) => {
                    let message = format!(
                        "could not resolve {kind} chart values reference '{namespace}/{name}': {error}"
                    );
                    return Err(Failure::new(Reason::ValuesError, message)
                        .passing(error.is_transient())
                        .into());
                }
            }
        }
        if self.options().kustomize.placeholders {
            made_up::complete(&spec.values_from, &mut found);
        }
        let (references, inline) = (spec.values_from.clone(), spec.values.clone());
        let namespace = namespace.to_owned();
        let composed = run_budgeted(&*self.context.env.blocking, move |budget| {
            let object = |kind: ConfigKind, name: &str| found.get(&(kind, name.to_owned()));
            let composed = compose(&namespace, &references, inline.as_ref(), object, budget);
            let mut concealed = Concealed::default();
            for value in brought_by_secrets(&references, object, budget) {
                concealed.add_texts_of(&value);
            }
            Ok((composed.map_err(|error| error.to_string())?, concealed))
        })
        .await;
        let composed = composed.unwrap_or_else(|| Err("composing the values broke off".to_owned()));
        composed.map_err(|error| Stop::failed(Reason::ValuesError, error))
    }

    /// What wakes the object when its inputs change, and what is watched for that: the metadata of the ConfigMaps
    /// and Secrets of its namespace, whatever their labels.
    pub(super) fn config_wakes(&self) -> Vec<(WakeOn, Watched)> {
        if self.options().gates.disable_config_watchers {
            return Vec::new();
        }
        let namespace = self.namespace();
        let watched = |resource: Resource| Watched {
            resource,
            namespace: Some(namespace.to_owned()),
            selection: Selection::default().metadata(),
            keep: Keep::Metadata,
        };
        let references = self.config_references();
        let wakes = references.into_iter().map(|(resource, name)| {
            let wake = resource.wake_on(namespace, &name);
            (wake, watched(resource))
        });
        wakes.collect()
    }

    fn config_references(&self) -> Vec<(Resource, String)> {
        let spec = &self.object.spec;
        let values = referenced(&spec.values_from).into_iter();
        let mut all: Vec<(Resource, String)> = values
            .map(|(kind, name)| (resource(kind), name.to_owned()))
            .collect();
        if let Some(config) = &spec.kube_config {
            let secret = config.secret_ref.iter();
            all.extend(secret.map(|secret| (resources::SECRETS, secret.name.clone())));
            let map = config.config_map_ref.iter();
            all.extend(map.map(|map| (resources::CONFIG_MAPS, map.name.clone())));
        }
        all
    }
}
