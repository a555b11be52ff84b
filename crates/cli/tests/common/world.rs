//! A client of a cluster, for tests that look at objects from outside.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everflow_api::view;
use everflow_env::{Env, RealDisk};
use everflow_json::Value;
use everflow_runtime::client::{At, Client, DeleteOptions, Patch, Resource, WriteOptions};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct World {
    pub client: Client,
}

impl World {
    pub fn new(kubeconfig: &Path, home: &Path) -> Self {
        let env = Env::system(RealDisk::new(home).unwrap());
        let config = ClusterConfig::from_file(kubeconfig, None).unwrap();
        let transport = HttpsTransport::new(&env, config).unwrap();
        let client = Client::new(Arc::new(transport), env.clock.clone());
        World { client }
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Resource {
        for _ in 0..100 {
            if let Ok(resource) = self.client.resource(api_version, kind).await {
                return resource;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{api_version} {kind} is not served");
    }

    pub async fn apply(&self, object: &Value) {
        let text = |field: &str| object[field].as_str().unwrap();
        let resource = self.resource(text("apiVersion"), text("kind")).await;
        let patch = Patch::Apply(object.clone());
        let options = WriteOptions::by("user").force();
        let done = self
            .client
            .patch(&resource, At::of(object), &patch, &options)
            .await;
        done.unwrap_or_else(|error| panic!("{}: {error}", view::name_of(object)));
    }

    /// The object that has the kind and the name of another one, as it is now.
    pub async fn now(&self, object: &Value) -> Option<Value> {
        let text = |field: &str| object[field].as_str().unwrap();
        let resource = self.resource(text("apiVersion"), text("kind")).await;
        self.client.get(&resource, At::of(object)).await.ok()
    }

    pub async fn delete(&self, object: &Value) {
        let text = |field: &str| object[field].as_str().unwrap();
        let resource = self.resource(text("apiVersion"), text("kind")).await;
        let options = DeleteOptions::default();
        let done = self
            .client
            .delete(&resource, At::of(object), &options)
            .await;
        done.unwrap_or_else(|error| panic!("{}: {error}", view::name_of(object)));
    }

    /// Waits until an object is there and shows what is wanted; otherwise its last state.
    pub async fn until(
        &self,
        object: &Value,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Option<Value>> {
        let begun = std::time::Instant::now();
        loop {
            let now = self.now(object).await;
            if let Some(found) = now.as_ref().filter(|found| wanted(found)) {
                return Ok(found.clone());
            }
            if begun.elapsed() > PATIENCE {
                return Err(now);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until an object is gone; otherwise its last state.
    pub async fn until_gone(&self, object: &Value) -> Result<(), Value> {
        let begun = std::time::Instant::now();
        while let Some(found) = self.now(object).await {
            if begun.elapsed() > PATIENCE {
                return Err(found);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}
