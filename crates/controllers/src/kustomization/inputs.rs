//! What a build needs beside the files: variables and keys.

use std::collections::BTreeMap;

use everflow_api::common::ConfigKind;
use everflow_api::kustomization::{Kustomization, SubstituteReference};
use everflow_api::object::Object;
use everflow_build::{Keys, add_variables};
use everflow_limits::Bytes;
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Client, Concealed, Resource};
use everflow_runtime::queue::WakeOn;
use everflow_runtime::reflector::Watched;

use crate::configs::{self, data, resource, secret_bytes};
use crate::{Options, resources};

/// Why an input cannot be had.
#[derive(Debug, Clone)]
pub(super) struct Unread {
    /// In words.
    pub(super) message: String,
    /// Whether it is the API server that was busy or away.
    pub(super) transient: bool,
}

impl From<String> for Unread {
    fn from(message: String) -> Self {
        Unread {
            message,
            transient: false,
        }
    }
}

/// How many bytes of variables one Kustomization may have: sixteen objects as large as they can be.
const MOST_VARIABLES: usize = 16 << 20;

fn too_many_variables(reference: &SubstituteReference) -> String {
    let (kind, name, most) = (
        reference.kind,
        &reference.name,
        Bytes(MOST_VARIABLES as u64),
    );
    format!(
        "substitute from '{kind}/{name}' error: all variables take more than {most}: name fewer or smaller \
         objects in spec.postBuild.substituteFrom"
    )
}

/// The variables of `substituteFrom`, or why they cannot be had.
pub async fn variables(
    object: &Object<Kustomization>,
    client: &Client,
) -> Result<BTreeMap<String, String>, String> {
    let mut concealed = Concealed::default();
    let there = variables_there(object, client, false, &mut concealed).await;
    there
        .map(|(variables, _)| variables)
        .map_err(|unread| unread.message)
}

/// The variables of `substituteFrom`, and whether some holder of them is not there although it must
/// be; that is an error unless it is `forgiven`. What Secrets bring is not to be repeated in messages.
pub(super) async fn variables_there(
    object: &Object<Kustomization>,
    client: &Client,
    forgiven: bool,
    concealed: &mut Concealed,
) -> Result<(BTreeMap<String, String>, bool), Unread> {
    let mut variables = BTreeMap::new();
    let mut lacking = false;
    let mut bytes = 0;
    let references = object
        .spec
        .post_build
        .iter()
        .flat_map(|post| &post.substitute_from);
    for reference in references {
        let resource = resource(reference.kind);
        let at = At::new(object.metadata.namespace(), &reference.name);
        match client.get(&resource, at).await {
            Ok(holder) => {
                let more = data(&holder);
                bytes += more
                    .iter()
                    .map(|(name, value)| name.len() + value.len())
                    .sum::<usize>();
                if bytes > MOST_VARIABLES {
                    return Err(too_many_variables(reference).into());
                }
                if reference.kind == ConfigKind::Secret {
                    more.values().for_each(|value| concealed.add(value));
                }
                add_variables(&mut variables, &more);
            }
            Err(ClientError::NotFound(_)) if forgiven => lacking = true,
            Err(ClientError::NotFound(_)) if reference.optional => {}
            Err(error) => {
                let (kind, name) = (reference.kind, &reference.name);
                let mut text = format!("substitute from '{kind}/{name}' error: {error}");
                if let ClientError::NotFound(_) = error {
                    let namespace = object.metadata.namespace();
                    text.push_str(&format!(
                        " (spec.postBuild.substituteFrom names it: create it in the namespace \
                         {namespace}, or write optional: true beside its name)"
                    ));
                }
                return Err(Unread {
                    message: text,
                    transient: error.is_transient(),
                });
            }
        }
    }
    Ok((variables, lacking))
}

/// The keys for decryption, or why they cannot be had.
pub(super) async fn keys(
    object: &Object<Kustomization>,
    client: &Client,
    options: &Options,
) -> Result<Keys, Unread> {
    let mut keys = Keys::new();
    let Some(decryption) = &object.spec.decryption else {
        return Ok(keys);
    };
    let own = object.metadata.namespace();
    let (namespace, name) = match &decryption.secret_ref {
        Some(secret) => (own.to_owned(), secret.name.clone()),
        None => match options.kustomize.sops_age_secret.as_str() {
            "" => return Ok(keys),
            secret => {
                let (namespace, name) = secret.split_once('/').unwrap_or((own, secret));
                (namespace.to_owned(), name.to_owned())
            }
        },
    };
    let mut secret = client
        .get(&resources::SECRETS, At::new(&namespace, &name))
        .await;
    let common = options.kustomize.sops_age_secret.split_once('/');
    if let (Err(ClientError::NotFound(_)), true, Some((namespace, name))) =
        (&secret, options.kustomize.alone, common)
    {
        let at = At::new(namespace, name);
        secret = client.get(&resources::SECRETS, at).await;
    }
    let secret = secret.map_err(|error| Unread {
        transient: error.is_transient(),
        message: match error {
            ClientError::NotFound(_) => format!(
                "{error} (spec.decryption names it: create it in the namespace {namespace} with the \
                 private key, as NAME.agekey for age)"
            ),
            error => error.to_string(),
        },
    })?;
    for (key, content) in secret_bytes(&secret) {
        keys.add(&key, &content).map_err(|error| {
            format!(
                "failed to import '{key}' data from sops decryption Secret '{namespace}/{name}': {error}"
            )
        })?;
    }
    Ok(keys)
}

/// The ConfigMaps and Secrets that a Kustomization refers to.
fn references(object: &Object<Kustomization>) -> Vec<(Resource, String)> {
    let spec = &object.spec;
    let mut all = Vec::new();
    for reference in spec
        .post_build
        .iter()
        .flat_map(|post| &post.substitute_from)
    {
        all.push((resource(reference.kind), reference.name.clone()));
    }
    let keys = spec
        .decryption
        .iter()
        .filter_map(|it| it.secret_ref.as_ref());
    all.extend(keys.map(|secret| (resources::SECRETS, secret.name.clone())));
    if let Some(config) = &spec.kube_config {
        let secret = config.secret_ref.iter();
        all.extend(secret.map(|secret| (resources::SECRETS, secret.name.clone())));
        let map = config.config_map_ref.iter();
        all.extend(map.map(|map| (resources::CONFIG_MAPS, map.name.clone())));
    }
    all
}

/// What wakes a Kustomization whose inputs change, and what has to be watched for it.
pub(super) fn wakes(object: &Object<Kustomization>, options: &Options) -> Vec<(WakeOn, Watched)> {
    if options.gates.disable_config_watchers {
        return Vec::new();
    }
    let namespace = object.metadata.namespace();
    references(object)
        .into_iter()
        .map(|(resource, name)| configs::wake(resource, namespace, &name, options))
        .collect()
}
