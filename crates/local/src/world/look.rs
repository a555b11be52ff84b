//! What there is in a world.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::inventory::ObjectId;
use everflow_api::view;
use everflow_apply::inventory::{Entry as Deployed, Inventory};
use everflow_controllers::resources;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Resource, Selection};

use super::World;
use super::kinds::{flux_kind, flux_kinds};
use crate::Error;
use crate::picture::{Picture, State};
use crate::references::{self, Dangling};

/// Of so many objects is said what keeps them from being ready.
const EXPLAINED: usize = 10;

/// How closely the world is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Objects of Flux's kinds only: enough to see whether anything moves.
    Flux,
    /// All that is deployed.
    Everything,
}

/// Something that Kustomizations or HelmReleases need and that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingReference {
    /// What.
    pub what: String,
    /// Who needs it.
    pub users: Vec<String>,
}

impl World {
    /// All objects of Flux's kinds.
    pub(super) async fn flux_objects(&self) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::new();
        for resource in flux_kinds() {
            objects.extend(self.list(&resource).await?);
        }
        Ok(objects)
    }

    /// What Kustomizations and HelmReleases need and is not there: keys, holders of variables and of values.
    pub async fn not_had(&self) -> Result<Vec<MissingReference>, Error> {
        let mut lacks: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in self.list(&resources::KUSTOMIZATIONS).await? {
            let (namespace, user) = (view::namespace(&object), ObjectId::of(&object).subject());
            let spec = &object["spec"];
            let decryption = &spec["decryption"];
            let secret = decryption["secretRef"]["name"].as_str().unwrap_or_default();
            let key = view::joined("Secret", namespace, secret);
            if !decryption.is_null() && (secret.is_empty() || !self.exists(&key).await) {
                let what = match secret.is_empty() {
                    true => "what is encrypted; no key was given".to_owned(),
                    false => format!("what is encrypted; there is no Secret {secret} with the key"),
                };
                lacks.entry(what).or_default().push(user.clone());
            }
            let holders = &spec["postBuild"]["substituteFrom"];
            for holder in self.absent(holders, namespace).await {
                let what = format!("variables of {holder}, which is not there");
                lacks.entry(what).or_default().push(user.clone());
            }
        }
        for object in self.list(&resources::HELM_RELEASES).await? {
            let (namespace, user) = (view::namespace(&object), ObjectId::of(&object).subject());
            let holders = &object["spec"]["valuesFrom"];
            for holder in self.absent(holders, namespace).await {
                let what = format!("values of {holder}, which is not there");
                lacks.entry(what).or_default().push(user.clone());
            }
        }
        let lack = |(what, users)| MissingReference { what, users };
        Ok(lacks.into_iter().map(lack).collect())
    }

    /// The ConfigMaps and Secrets among references that are needed and not there.
    async fn absent(&self, references: &Value, namespace: &str) -> Vec<String> {
        let mut absent = Vec::new();
        for reference in references.as_array().into_iter().flatten() {
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let (kind, name) = (text("kind"), text("name"));
            let is_needed = reference["optional"] != true;
            if is_needed && !self.exists(&view::joined(kind, namespace, name)).await {
                absent.push(format!("{kind} {name}"));
            }
        }
        absent
    }

    /// References to objects that do not exist.
    pub async fn dangling(&self) -> Result<Vec<Dangling>, Error> {
        let mut objects = self.flux_objects().await?;
        let deployed = self.deployed(&objects, Detail::Everything).await;
        objects.extend(deployed.into_values());
        let mut there = BTreeSet::new();
        for reference in references::dangling(&objects, &|_, _, _| false) {
            if self.exists(&reference.to).await {
                there.insert(reference.to);
            }
        }
        let known = |kind: &str, namespace: &str, name: &str| {
            there.contains(&view::joined(kind, namespace, name))
        };
        Ok(references::dangling(&objects, &known))
    }

    /// Whether the cluster has what a reference of the form `Kind/namespace/name` leads to.
    async fn exists(&self, subject: &str) -> bool {
        let mut parts = subject.splitn(3, '/');
        let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let api_version = match kind {
            "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet" => "apps/v1",
            _ => "v1",
        };
        let flux = flux_kinds()
            .into_iter()
            .find(|resource| resource.kind == kind);
        let resource = match flux {
            Some(resource) => Ok(resource),
            None => self.client.resource(api_version, kind).await,
        };
        match resource {
            Ok(resource) => self
                .client
                .get(&resource, At::new(namespace, name))
                .await
                .is_ok(),
            Err(_) => false,
        }
    }

    /// How everything stands. Looking at all that is deployed takes a request for each object.
    pub(super) async fn picture(&self, detail: Detail) -> Result<Picture, Error> {
        let objects = self.flux_objects().await?;
        let deployed = self.deployed(&objects, detail).await;
        let mut picture = Picture::of(&objects, &deployed, self.env.clock.now());
        if detail == Detail::Everything {
            self.explain(&mut picture).await;
        }
        Ok(picture)
    }

    /// Says of a few objects that are not there yet what keeps them from it.
    async fn explain(&self, picture: &mut Picture) {
        let nodes = picture.kustomizations.iter_mut();
        let nodes = nodes.chain(&mut picture.releases);
        let children = nodes.flat_map(|node| &mut node.children);
        let open = children.filter(|child| child.state.is_moving() || child.state == State::Failed);
        for child in open.take(EXPLAINED) {
            let entry = Deployed {
                id: child.id.clone(),
                version: "v1".to_owned(),
            };
            for cause in everflow_apply::effects::causes(&self.client, &entry).await {
                if !child.message.is_empty() {
                    child.message.push_str("; ");
                }
                child.message.push_str(&cause);
            }
        }
    }

    async fn list(&self, resource: &Resource) -> Result<Vec<Value>, Error> {
        let everything = Selection::default();
        let listed = self.client.list_all(resource, None, &everything);
        let listed = listed.await.map_err(|source| Error::Refused {
            object: resource.plural.to_string(),
            source,
        })?;
        let mut objects = listed.items;
        for object in &mut objects {
            object["apiVersion"] = json!(resource.api_version());
            object["kind"] = json!(resource.kind);
        }
        Ok(objects)
    }

    /// The objects that inventories name. Those of Flux's kinds are known already.
    pub(super) async fn deployed(
        &self,
        objects: &[Value],
        detail: Detail,
    ) -> BTreeMap<ObjectId, Value> {
        let mut deployed = BTreeMap::new();
        let known: BTreeMap<ObjectId, &Value> = objects
            .iter()
            .map(|object| (ObjectId::of(object), object))
            .collect();
        for object in objects {
            let Ok(inventory) = Inventory::read(&object["status"]["inventory"]) else {
                continue;
            };
            for entry in inventory.entries() {
                let live = match known.get(&entry.id) {
                    Some(object) => Some((*object).clone()),
                    None if detail == Detail::Everything => self.live(entry).await,
                    None => None,
                };
                if let Some(live) = live {
                    deployed.insert(entry.id.clone(), live);
                }
            }
        }
        deployed
    }

    async fn live(&self, entry: &Deployed) -> Option<Value> {
        let resource = self
            .client
            .resource(&entry.api_version(), &entry.id.kind)
            .await;
        let at = At::new(&entry.id.namespace, &entry.id.name);
        self.client.get(&resource.ok()?, at).await.ok()
    }

    pub(super) async fn flux_object(&self, id: &ObjectId) -> Option<Value> {
        let resource = flux_kind(id)?;
        let at = At::new(&id.namespace, &id.name);
        self.client.get(&resource, at).await.ok()
    }
}
