//! Brings objects to the cluster, and removes what is no longer among them.

use everflow_api::inventory::{ObjectId, ResourceRef};
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::attempt::{Context, Interrupted};
use everflow_runtime::client::{
    At, Client, DeleteOptions, Impersonation, Patch, Resource, WriteOptions, meta_text,
};

use crate::MANAGER;
use crate::status::entry;

/// Never removed, because they take everything that is in them along.
const KEPT: [&str; 2] = ["Namespace", "CustomResourceDefinition"];

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Objects that are another now, as events tell of them.
    pub(crate) changes: Vec<String>,
    /// Objects that there are.
    pub(crate) inventory: Vec<ResourceRef>,
}

/// Why it was not done.
#[derive(Debug)]
pub(crate) enum Failed {
    Interrupted(Interrupted),
    /// With the object.
    Object(String),
}

impl From<Interrupted> for Failed {
    fn from(interrupted: Interrupted) -> Self {
        Failed::Interrupted(interrupted)
    }
}

/// Who asks: the engine, and where that may not, the account of the platform.
pub(crate) struct ApplyClients<'c> {
    context: &'c Context,
    platform: Client,
}

impl<'c> ApplyClients<'c> {
    pub(crate) fn new(context: &'c Context) -> Self {
        let account = everflow_install::PLATFORM_ADMIN;
        let who = Impersonation::service_account(&context.key.namespace, account);
        ApplyClients {
            context,
            platform: context.client.impersonating(who),
        }
    }

    /// Applies all objects in their order.
    pub(crate) async fn apply(&self, objects: &[Value]) -> Result<Applied, Failed> {
        let mut applied = Applied::default();
        for object in objects {
            self.context.check()?;
            let id = ObjectId::of(object);
            let done = self.apply_one(object).await;
            let change =
                done.map_err(|error| Failed::Object(format!("{}: {error}", id.subject())))?;
            if let Some(change) = change {
                applied.changes.push(format!("{} {change}", id.subject()));
            }
            applied.inventory.push(entry(object));
        }
        Ok(applied)
    }

    async fn apply_one(&self, object: &Value) -> Result<Option<&'static str>, Error> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let client = &self.context.client;
        let resource = client.resource(text("apiVersion"), text("kind")).await?;
        let before = match client.get(&resource, At::of(object)).await {
            Ok(live) => Some(live),
            Err(Error::NotFound(_) | Error::Forbidden(_)) => None,
            Err(error) => return Err(error),
        };
        let by = WriteOptions::by(MANAGER).force();
        let patch = Patch::Apply(object.clone());
        let at = At::of(object);
        let after = match client.patch(&resource, at, &patch, &by).await {
            // Tenants were locked down, by this very instance.
            Err(Error::Forbidden(_)) => self.platform.patch(&resource, at, &patch, &by).await?,
            written => written?,
        };
        let revision = |object: &Value| meta_text(object, "resourceVersion").to_owned();
        Ok(match before {
            None => Some("created"),
            Some(before) if revision(&before) == revision(&after) => None,
            Some(_) => Some("configured"),
        })
    }

    /// Removes what was applied before and is not among the objects any more.
    pub(crate) async fn prune(
        &self,
        before: &[ResourceRef],
        now: &[ResourceRef],
    ) -> Result<Vec<String>, Failed> {
        let mut changes = Vec::new();
        for entry in before {
            let Ok(id) = entry.object_id() else {
                continue;
            };
            let is_kept = now.iter().any(|other| other.id == entry.id);
            if is_kept || KEPT.contains(&id.kind.as_str()) {
                continue;
            }
            self.context.check()?;
            let removed = self.remove(&id, &entry.version).await;
            match removed {
                Ok(true) => changes.push(format!("{} deleted", id.subject())),
                Ok(false) => {}
                Err(error) => return Err(Failed::Object(format!("{}: {error}", id.subject()))),
            }
        }
        Ok(changes)
    }

    async fn remove(&self, id: &ObjectId, version: &str) -> Result<bool, Error> {
        let client = &self.context.client;
        let api_version = match id.group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let resource: Resource = match client.resource(&api_version, &id.kind).await {
            Ok(resource) => resource,
            Err(Error::NoKind { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let at = At::new(&id.namespace, &id.name);
        let live = match client.get(&resource, at).await {
            Ok(live) => live,
            Err(Error::NotFound(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        // Somebody else's by now.
        if live["metadata"]["labels"]["app.kubernetes.io/part-of"] != json!("flux") {
            return Ok(false);
        }
        let options = DeleteOptions::uid(meta_text(&live, "uid"));
        let deleted = match client.delete(&resource, at, &options).await {
            Err(Error::Forbidden(_)) => self.platform.delete(&resource, at, &options).await,
            deleted => deleted,
        };
        match deleted {
            Ok(_) => Ok(true),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
