//! `everflow check`: whether the cluster can run the controllers, and whether they run.

use everflow_json::Value;
use everflow_runtime::client::{Resource, Selection, meta_text};
use everflow_semver::{Constraint, Version};
use http::Method;

use super::connection::{Connection, Session};
use super::{in_runtime, say};
use crate::exit::Failure;

/// Which Kubernetes the controllers need.
const KUBERNETES: &str = ">=1.33.0-0";
const PART_OF_FLUX: &str = "app.kubernetes.io/part-of=flux";

/// `everflow check`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Check only the prerequisites of an installation
    #[arg(long)]
    pre: bool,
    /// Accepted for compatibility: one Deployment has all of them
    #[arg(long, hide = true, value_delimiter = ',')]
    components: Vec<String>,
    /// Accepted for compatibility
    #[arg(long, hide = true, value_delimiter = ',')]
    components_extra: Vec<String>,
    /// Accepted for compatibility: each Deployment is looked at once
    #[arg(long, hide = true, value_name = "DURATION")]
    poll_interval: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(async {
        say::action("checking prerequisites");
        let session = args.connection.open()?;
        let mut check = Check {
            session: &session,
            namespace: &args.connection.namespace,
            failed: false,
        };
        check.kubernetes().await?;
        if args.pre {
            return check.end("prerequisites checks passed");
        }
        let crds = check
            .listed("apiextensions.k8s.io", "customresourcedefinitions")
            .await?;
        say::action("checking version in cluster");
        check.version(&crds);
        say::action("checking controllers");
        let deployments = check.listed("apps", "deployments").await?;
        check.controllers(&deployments);
        say::action("checking crds");
        check.definitions(&crds);
        if check.failed {
            say::failure("check failed");
            return Err(Failure::Reported);
        }
        check.end("all checks passed")
    })
}

struct Check<'a> {
    session: &'a Session,
    namespace: &'a str,
    failed: bool,
}

impl Check<'_> {
    fn end(&self, text: &str) -> Result<(), Failure> {
        if self.failed {
            return Err(Failure::Reported);
        }
        say::success(text);
        Ok(())
    }

    fn fail(&mut self, text: &str, remedy: &str) {
        say::failure(text);
        say::plain(&format!("→ {remedy}"));
        self.failed = true;
    }

    async fn kubernetes(&mut self) -> Result<(), Failure> {
        let asked = self
            .session
            .client
            .ask(Method::GET, "/version", "application/json", None)
            .await;
        let answer = asked.map_err(|error| Failure::Work(self.session.told_of(&error)))?;
        let text = answer["gitVersion"].as_str().unwrap_or_default();
        let (Ok(version), Ok(wanted)) = (Version::parse(text), Constraint::parse(KUBERNETES))
        else {
            self.fail(
                "Kubernetes version can't be determined",
                "is this the address of a Kubernetes API server?",
            );
            return Ok(());
        };
        match wanted.check(&version) {
            true => say::success(&format!("Kubernetes {version} {KUBERNETES}")),
            false => self.fail(
                &format!("Kubernetes version {text} does not match {KUBERNETES}"),
                "upgrade the cluster first",
            ),
        }
        Ok(())
    }

    /// What is labelled as a part of Flux.
    async fn listed(
        &self,
        group: &'static str,
        plural: &'static str,
    ) -> Result<Vec<Value>, Failure> {
        let (resource, namespace) = match group {
            "apps" => (
                Resource::namespaced(group, "v1", plural, "Deployment"),
                Some(self.namespace),
            ),
            _ => (
                Resource::cluster(group, "v1", plural, "CustomResourceDefinition"),
                None,
            ),
        };
        let selection = Selection::labelled(PART_OF_FLUX);
        let listed = self
            .session
            .client
            .list_all(&resource, namespace, &selection);
        let list = listed
            .await
            .map_err(|error| Failure::Work(self.session.told_of(&error)))?;
        Ok(list.items)
    }

    fn version(&mut self, crds: &[Value]) {
        let sources = crds
            .iter()
            .find(|crd| meta_text(crd, "name") == "gitrepositories.source.toolkit.fluxcd.io");
        let Some(crd) = sources else {
            return self.fail(
                "checking failed: GitRepositories are not defined here, or their definition lacks the label of Flux",
                "everflow install brings it",
            );
        };
        let label = |name: &str| crd["metadata"]["labels"][name].as_str();
        if let Some(version) = label("app.kubernetes.io/version") {
            say::success(&format!("distribution: flux-{version}"));
        }
        let bootstrapped = label("kustomize.toolkit.fluxcd.io/name").is_some();
        say::success(&format!("bootstrapped: {bootstrapped}"));
    }

    fn controllers(&mut self, deployments: &[Value]) {
        if deployments.is_empty() {
            let text = format!(
                "no controllers found in the '{}' namespace with the label selector '{PART_OF_FLUX}'",
                self.namespace
            );
            return self.fail(&text, "everflow install brings them; is --namespace right?");
        }
        for deployment in deployments {
            let name = meta_text(deployment, "name");
            let count = |value: &Value| value.as_i64().unwrap_or(0);
            let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
            let (ready, updated) = (
                count(&deployment["status"]["readyReplicas"]),
                count(&deployment["status"]["updatedReplicas"]),
            );
            match ready >= wanted && updated >= wanted {
                true => say::success(&format!("{name}: deployment ready")),
                false => self.fail(
                    &format!("{name}: {ready} of {wanted} replicas are ready"),
                    &format!("kubectl -n {} describe deployment {name}", self.namespace),
                ),
            }
            let containers = &deployment["spec"]["template"]["spec"]["containers"];
            for container in containers.as_array().into_iter().flatten() {
                say::action(container["image"].as_str().unwrap_or_default());
            }
        }
    }

    fn definitions(&mut self, crds: &[Value]) {
        if crds.is_empty() {
            let text = format!("no crds found with the label selector '{PART_OF_FLUX}'");
            return self.fail(&text, "everflow crds prints them, to be applied");
        }
        for crd in crds {
            let name = meta_text(crd, "name");
            let versions = crd["status"]["storedVersions"].as_array();
            match versions.and_then(|versions| versions.last()?.as_str()) {
                Some(version) => say::success(&format!("{name}/{version}")),
                None => self.fail(
                    &format!("no stored versions for {name}"),
                    "the API server has not established it yet: try again",
                ),
            }
        }
    }
}
