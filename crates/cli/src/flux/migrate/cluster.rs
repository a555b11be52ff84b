//! Objects in a cluster: each is written once, so that it is stored in the latest version, and then the
//! definitions forget the old versions.

use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, Resource, Selection, WriteOptions, meta_text};

use crate::exit::Failure;
use crate::flux::connection::{Connection, Session};
use crate::flux::say;
use crate::flux::suspend::MANAGER;

const PART_OF_FLUX: &str = "app.kubernetes.io/part-of=flux";

fn work(text: impl Into<String>) -> Failure {
    Failure::Work(text.into())
}

pub async fn migrate(connection: &Connection) -> Result<(), Failure> {
    say::action("starting migration of custom resources");
    let session = connection.open()?;
    let crds = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let list = session
        .client
        .list_all(&crds, None, &Selection::labelled(PART_OF_FLUX))
        .await
        .map_err(|error| work(format!("failed to list CRDs: {}", session.told_of(&error))))?;
    for crd in &list.items {
        one(&session, &crds, crd).await?;
    }
    say::success("custom resources migrated successfully");
    Ok(())
}

async fn one(session: &Session, crds: &Resource, crd: &Value) -> Result<(), Failure> {
    let name = meta_text(crd, "name");
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let stored = versions
        .filter(|version| version["storage"] == true)
        .find_map(|version| version["name"].as_str());
    let version = stored.ok_or_else(|| work(format!("no storage version found for CRD {name}")))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let resource = Resource {
        group: text(&spec["group"]).into(),
        version: version.into(),
        plural: text(&spec["names"]["plural"]).into(),
        kind: text(&spec["names"]["kind"]).into(),
        namespaced: spec["scope"] == "Namespaced",
    };
    let list = session
        .client
        .list_all(&resource, None, &Selection::default())
        .await
        .map_err(|error| work(format!("failed to list resources for CRD {name}: {error}")))?;
    for object in &list.items {
        rewrite(session, &resource, object).await?;
    }
    let old = &crd["status"]["storedVersions"];
    if *old != json!([version]) {
        let patch = Patch::Merge(json!({"status": {"storedVersions": [version]}}));
        let at = At::new("", name).status();
        session
            .client
            .patch(crds, at, &patch, &WriteOptions::by(MANAGER))
            .await
            .map_err(|error| work(format!("failed to update CRD {name} status: {error}")))?;
        say::success(&format!("{name} migrated to storage version {version}"));
    }
    Ok(())
}

/// Writes an object as it is, with the managers of its fields in the latest version.
async fn rewrite(session: &Session, resource: &Resource, object: &Value) -> Result<(), Failure> {
    let at = At::of(object);
    let api_version = resource.api_version();
    let prefix = format!("{}/", resource.group);
    let managers = object["metadata"]["managedFields"].as_array();
    let mut changes = Vec::new();
    for (index, manager) in managers.into_iter().flatten().enumerate() {
        let old = manager["apiVersion"].as_str().unwrap_or_default();
        if old.starts_with(&prefix) && old != api_version {
            changes.push(json!({
                "op": "replace",
                "path": format!("/metadata/managedFields/{index}/apiVersion"),
                "value": api_version,
            }));
        }
    }
    let patch = match changes.is_empty() {
        true => Patch::Merge(json!({})),
        false => {
            // Only this version of it: the list of managers may be another by then.
            let revision = meta_text(object, "resourceVersion");
            changes.insert(
                0,
                json!({"op": "replace", "path": "/metadata/resourceVersion", "value": revision}),
            );
            Patch::Json(Value::Array(changes))
        }
    };
    let subject = format!("{}/{}/{}", resource.kind, at.namespace, at.name);
    let by = WriteOptions::by(MANAGER);
    match session.client.patch(resource, at, &patch, &by).await {
        Ok(_) => {
            let version = &resource.version;
            say::success(&format!("{subject} migrated to version {version}"));
            Ok(())
        }
        // It went in the meantime.
        Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(work(format!("{subject} failed to migrate: {error}"))),
    }
}
