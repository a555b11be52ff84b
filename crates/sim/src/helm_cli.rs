//! What the helm CLI does with a release, as far as others see it: records that are written with no notes beside them.

use everflow_helm::release::{Release, from_object, to_secret};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Resource, Selection, WriteOptions};
use everflow_time::Timestamp;

use crate::scenario::HelmOperation;

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// How the API server knows the helm CLI.
const MANAGER: &str = "Helm";

/// Does a deed with the newest revision of a release.
///
/// # Errors
/// What keeps it from being done, in words.
pub async fn act(
    client: &Client,
    name: &str,
    namespace: &str,
    deed: HelmOperation,
    now: Timestamp,
) -> Result<(), String> {
    let selection = Selection::labelled(format!("name={name},owner=helm"));
    let listed = client.list_all(&SECRETS, Some(namespace), &selection).await;
    let secrets = listed.map_err(|error| error.to_string())?.items;
    let mut records: Vec<(Release, Value)> = secrets
        .into_iter()
        .filter_map(|secret| Some((from_object(&secret).ok()?, secret)))
        .collect();
    records.sort_by_key(|(release, _)| release.version);
    let Some((newest, secret)) = records.pop() else {
        return Err(format!("release: not found: {name}"));
    };
    match deed {
        HelmOperation::BeginUpgrade => {
            let mut next = newest;
            next.version += 1;
            next.info.status = "pending-upgrade".to_owned();
            next.info.description = "Preparing upgrade".to_owned();
            next.info.last_deployed = now.to_string();
            let secret = written(&next, namespace, now)?;
            let by = WriteOptions::by(MANAGER);
            let created = client.create(&SECRETS, namespace, &secret, &by).await;
            created.map(drop).map_err(|error| error.to_string())
        }
        HelmOperation::EndUpgrade => {
            let mut newest = newest;
            newest.info.status = "deployed".to_owned();
            newest.info.description = "Upgrade complete".to_owned();
            if let Some((mut before, secret)) = records.pop() {
                before.info.status = "superseded".to_owned();
                write(client, &before, &secret, namespace, now).await?;
            }
            write(client, &newest, &secret, namespace, now).await
        }
    }
}

fn written(release: &Release, namespace: &str, now: Timestamp) -> Result<Value, String> {
    let mut secret = to_secret(release).map_err(|error| error.to_string())?;
    secret["metadata"]["namespace"] = json!(namespace);
    secret["metadata"]["labels"]["modifiedAt"] = json!(now.seconds.to_string());
    Ok(secret)
}

async fn write(
    client: &Client,
    release: &Release,
    before: &Value,
    namespace: &str,
    now: Timestamp,
) -> Result<(), String> {
    let mut secret = written(release, namespace, now)?;
    secret["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    let name = before["metadata"]["name"].as_str().unwrap_or_default();
    let (at, by) = (At::new(namespace, name), WriteOptions::by(MANAGER));
    let updated = client.update(&SECRETS, at, &secret, &by).await;
    updated.map(drop).map_err(|error| error.to_string())
}
