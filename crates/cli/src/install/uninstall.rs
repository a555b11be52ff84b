//! `everflow uninstall`: the controllers, the finalizers of their objects and the definitions go; what was deployed stays.

use std::time::{Duration, Instant};

use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{
    At, DeleteOptions, Patch, Resource, Selection, WriteOptions, meta_text,
};

use super::verb::{DEFINITIONS, DEPLOYMENTS};
use super::{MANAGER, parts};
use crate::exit::Failure;
use crate::flux::connection::{Connection, Session};
use crate::flux::kinds::KINDS;
use crate::flux::{confirm, in_runtime, say};

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
/// The order in which flux looks at the kinds with finalizers; others come behind these.
const ORDER: [&str; 15] = [
    "GitRepository",
    "OCIRepository",
    "HelmRepository",
    "HelmChart",
    "Bucket",
    "ExternalArtifact",
    "Kustomization",
    "HelmRelease",
    "Alert",
    "Provider",
    "Receiver",
    "ImagePolicy",
    "ImageRepository",
    "ImageUpdateAutomation",
    "ArtifactGenerator",
];

/// All kinds that verbs know, in that order.
fn kinds() -> Vec<&'static Resource> {
    let mut all: Vec<&Resource> = KINDS.iter().map(|kind| &kind.resource).collect();
    all.sort_by_key(|resource| {
        ORDER
            .iter()
            .position(|kind| *kind == resource.kind)
            .unwrap_or(ORDER.len())
    });
    all
}

/// `everflow uninstall`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Keep the namespace
    #[arg(long)]
    keep_namespace: bool,
    /// Only print what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    silent: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(async {
        let session = args.connection.open()?;
        if !args.dry_run && !args.silent {
            confirm::ask(
                "Are you sure you want to delete Flux and its custom resource definitions",
            )?;
        }
        let namespace = &args.connection.namespace;
        let removal = Removal {
            args,
            session: &session,
            namespace,
            end: Instant::now() + args.connection.timeout,
        };
        say::action(&format!("deleting components in {namespace} namespace"));
        removal.components().await?;
        say::action("deleting toolkit.fluxcd.io finalizers in all namespaces");
        removal.finalizers().await?;
        say::action("deleting toolkit.fluxcd.io custom resource definitions");
        removal.definitions().await?;
        if !args.keep_namespace {
            removal.delete_one(&NAMESPACES, "", namespace).await?;
        }
        say::success("uninstall finished");
        Ok(())
    })
}

struct Removal<'a> {
    args: &'a Args,
    session: &'a Session,
    namespace: &'a str,
    end: Instant,
}

impl Removal<'_> {
    fn failed(&self, what: &str, error: &Error) -> Failure {
        Failure::Work(format!("{what}: {}", self.session.told_of(error)))
    }

    /// The mark of what is only said.
    fn mark(&self) -> &'static str {
        match self.args.dry_run {
            true => " (dry run)",
            false => "",
        }
    }

    async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selection: &Selection,
    ) -> Result<Vec<Value>, Failure> {
        let listed = self.session.client.list_all(resource, namespace, selection);
        match listed.await {
            Ok(list) => Ok(list.items),
            // A kind that is not there has no objects.
            Err(Error::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(self.failed(&format!("cannot list {}", resource.plural), &error)),
        }
    }

    /// The controllers first: while one still runs, it would delete what its objects have deployed.
    async fn components(&self) -> Result<(), Failure> {
        let selection = Selection::labelled(everflow_install::PART_OF_FLUX);
        let own = Some(self.namespace);
        self.instance().await?;
        for object in self.list(&DEPLOYMENTS, own, &selection).await? {
            self.delete(&DEPLOYMENTS, &object).await?;
        }
        if !self.args.dry_run {
            self.no_pods(&selection).await?;
        }
        let of_instance = Selection::labelled(parts::of_instance(self.namespace));
        for resource in &parts::PARTS {
            // Only the RBAC of an installation reaches into other namespaces.
            let everywhere = !resource.namespaced || resource.group == parts::RBAC;
            let (place, selection) = match everywhere {
                true => (None, &of_instance),
                false => (own, &selection),
            };
            for object in self.list(resource, place, selection).await? {
                self.delete(resource, &object).await?;
            }
        }
        Ok(())
    }

    /// What would bring the controllers back, where this program defined it.
    async fn instance(&self) -> Result<(), Failure> {
        let (group, plural) = ("fluxcd.controlplane.io", "fluxinstances");
        let name = format!("{plural}.{group}");
        let found = self
            .session
            .client
            .get(&DEFINITIONS, At::new("", &name))
            .await;
        let definition = match found {
            Ok(definition) => definition,
            Err(Error::NotFound(_)) => return Ok(()),
            Err(error) => return Err(self.failed(&name, &error)),
        };
        if definition["metadata"]["labels"]["app.kubernetes.io/part-of"] != "flux" {
            return Ok(());
        }
        let resource = Resource::namespaced(group, "v1", plural, "FluxInstance");
        self.delete_one(&resource, self.namespace, "flux").await
    }

    /// Waits until no controller runs any more.
    async fn no_pods(&self, selection: &Selection) -> Result<(), Failure> {
        loop {
            let pods = self.list(&PODS, Some(self.namespace), selection).await?;
            if pods.is_empty() {
                return Ok(());
            }
            if Instant::now() >= self.end {
                let names: Vec<&str> = pods.iter().map(|pod| meta_text(pod, "name")).collect();
                return Err(Failure::Work(format!(
                    "pods of the controllers still run: {}; they would delete what was deployed. Run this again when \
                     they are gone",
                    names.join(", ")
                )));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn finalizers(&self) -> Result<(), Failure> {
        for kind in kinds() {
            let Some(resource) = self.served(kind).await? else {
                continue;
            };
            let objects = self.list(&resource, None, &Selection::default()).await?;
            for object in objects {
                self.release(&resource, &object).await?;
            }
        }
        Ok(())
    }

    /// The collection of a kind in the version that is stored; nothing when the cluster does not have it.
    async fn served(&self, kind: &Resource) -> Result<Option<Resource>, Failure> {
        let name = format!("{}.{}", kind.plural, kind.group);
        let definition = match self
            .session
            .client
            .get(&DEFINITIONS, At::new("", &name))
            .await
        {
            Ok(definition) => definition,
            Err(Error::NotFound(_)) => return Ok(None),
            Err(error) => return Err(self.failed(&name, &error)),
        };
        let versions = definition["spec"]["versions"].as_array();
        let stored = versions
            .into_iter()
            .flatten()
            .find(|one| one["storage"] == true);
        let version = stored.and_then(|one| one["name"].as_str());
        Ok(version.map(|version| Resource {
            version: version.to_owned().into(),
            ..kind.clone()
        }))
    }

    async fn release(&self, resource: &Resource, object: &Value) -> Result<(), Failure> {
        let at = At::of(object);
        let subject = format!("{}/{}/{}", resource.kind, at.namespace, at.name);
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let mut by = WriteOptions::by(MANAGER);
        if self.args.dry_run {
            by = by.dry_run();
        }
        match self.session.client.patch(resource, at, &patch, &by).await {
            Ok(_) | Err(Error::NotFound(_)) => {
                say::success(&format!("{subject} finalizers deleted{}", self.mark()));
                Ok(())
            }
            Err(error) => Err(self.failed(&format!("{subject} finalizers not deleted"), &error)),
        }
    }

    async fn definitions(&self) -> Result<(), Failure> {
        let selection = Selection::labelled(everflow_install::PART_OF_FLUX);
        for definition in self.list(&DEFINITIONS, None, &selection).await? {
            self.delete(&DEFINITIONS, &definition).await?;
        }
        Ok(())
    }

    async fn delete(&self, resource: &Resource, object: &Value) -> Result<(), Failure> {
        let at = At::of(object);
        self.delete_one(resource, at.namespace, at.name).await
    }

    async fn delete_one(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let subject = match namespace {
            "" => format!("{}/{name}", resource.kind),
            namespace => format!("{}/{namespace}/{name}", resource.kind),
        };
        let options = DeleteOptions {
            dry_run: self.args.dry_run,
            // The pods of a Deployment go before it does.
            propagation: match resource == &DEPLOYMENTS {
                true => "Foreground",
                false => "",
            },
            ..DeleteOptions::default()
        };
        let at = At::new(namespace, name);
        match self.session.client.delete(resource, at, &options).await {
            Ok(_) => {
                say::success(&format!("{subject} deleted{}", self.mark()));
                Ok(())
            }
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(self.failed(&format!("{subject} deletion failed"), &error)),
        }
    }
}
