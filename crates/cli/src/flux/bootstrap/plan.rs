//! What is there before a bootstrap, and what is to be: nothing is changed here.

use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, meta_text};
use http::Method;

use super::components::components;
use super::manifests::{
    Sync, components_file, lost_definitions, objects_of, same_objects, sync_file,
};
use super::steps::Run;
use super::tree::CommitTree;
use super::{health, work};
use crate::exit::Failure;
use crate::flux::adopt::{Install, installation, is_controller_of_flux};
use crate::flux::{kinds, say};

/// What is in the repository, and what is to be.
pub struct Plan {
    pub manifests: String,
    pub sync: String,
    /// Flux bootstrapped this repository: all goes into one commit, which a person can revert.
    pub takes_over: bool,
}

impl Run<'_> {
    /// What would fail later is told before anything is changed.
    pub(super) async fn check(&self) -> Result<Vec<Install>, Failure> {
        let found = installation(&self.session).await?;
        for install in &found {
            if let Some(manager) = install.foreign_manager()
                && !self.bootstrap.common.force
            {
                return Err(work(format!(
                    "Flux has been installed on this cluster with {manager}: take it over with \
                     everflow adopt, or say --force to bootstrap nevertheless"
                )));
            }
        }
        let kind = kinds::required("Kustomization")?;
        let at = At::new(self.namespace(), self.namespace());
        let path = &self.target.place.path;
        match self.session.client.get(&kind.resource, at).await {
            Ok(live) => {
                let current = live["spec"]["path"].as_str().unwrap_or_default();
                let plain = |path: &str| {
                    path.trim_start_matches("./")
                        .trim_end_matches('/')
                        .to_owned()
                };
                if plain(current) != plain(path) {
                    return Err(work(format!(
                        "sync path configuration ({path:?}) would overwrite path ({current:?}) of existing Kustomization"
                    )));
                }
            }
            Err(Error::NotFound(_) | Error::NoKind { .. }) => {}
            Err(error) => return Err(work(self.session.told(kind, &error))),
        }
        self.check_rights().await?;
        Ok(found)
    }

    async fn check_rights(&self) -> Result<(), Failure> {
        for (group, resource) in [
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("rbac.authorization.k8s.io", "clusterrolebindings"),
            ("apps", "deployments"),
        ] {
            let namespace = match group {
                "apps" => self.namespace(),
                _ => "",
            };
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"group": group, "resource": resource,
                    "verb": "create", "namespace": namespace}}});
            let target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            let body = Some(("application/json", &review));
            let asked = self
                .session
                .client
                .ask(Method::POST, target, "application/json", body);
            // Where nobody can be asked, the API server decides when it comes to it.
            if let Ok(answer) = asked.await
                && answer["status"]["allowed"] == false
            {
                return Err(work(format!(
                    "you may not create {resource} in this cluster: bootstrap as somebody who may do all \
                     (cluster-admin); nothing was changed"
                )));
            }
        }
        Ok(())
    }

    /// Fetches the branch and says what is to be in it.
    pub(super) async fn plan(&self) -> Result<Plan, Failure> {
        let common = self.bootstrap.common;
        let url = &self.target.remote.url;
        say::action(&format!(
            "cloning branch {:?} from Git repository \"{url}\"",
            common.branch
        ));
        let deadline = self.bootstrap.deadline();
        let head = self.git.head(&common.branch, &deadline).await;
        let head = head.map_err(|error| work(format!("failed to clone repository: {error}")))?;
        self.git.may_push(&deadline).await.map_err(|error| {
            work(format!(
                "{error}; give credentials that may write, nothing was changed"
            ))
        })?;
        say::success("cloned repository");
        say::action("generating component manifests");
        let manifests = components(&common.component_options(self.bootstrap.connection))?;
        let new = objects_of(&manifests, "component manifests")?;
        if health::deployments_of(&new).is_empty() {
            return Err(work(
                "component manifest generation failed: there is no Deployment in them",
            ));
        }
        say::success("generated component manifests");
        let mut plan = Plan {
            manifests: components_file(&manifests),
            sync: sync_file(&self.sync_options()),
            takes_over: false,
        };
        let Some(head) = head else {
            return Ok(plan);
        };
        let tree = CommitTree::new(head);
        if let Some(before) = tree.text(&self.files.components)? {
            let before_objects = objects_of(&before, &self.files.components)?;
            let lost = lost_definitions(&before_objects, &new);
            if !lost.is_empty() {
                return Err(work(format!(
                    "{} has definitions that everflow does not bring: {}. Without them their objects would be \
                     deleted: move these definitions to a file of their own that the Kustomization applies \
                     first, or use everflow adopt; nothing was changed",
                    self.files.components,
                    lost.join(", ")
                )));
            }
            let is_flux = |object: &Value| {
                object["kind"] == "Deployment" && is_controller_of_flux(meta_text(object, "name"))
            };
            plan.takes_over = before_objects.iter().any(is_flux);
        }
        if let Some(before) = tree.text(&self.files.sync)?
            && same_objects(&before, &plan.sync)
        {
            plan.sync = before;
        }
        Ok(plan)
    }

    fn sync_options(&self) -> Sync {
        let common = self.bootstrap.common;
        Sync {
            namespace: self.namespace().to_owned(),
            url: self.target.url.clone(),
            branch: common.branch.clone(),
            secret: common.secret_name.clone(),
            path: self.target.place.path.clone(),
            interval: self.target.place.interval.to_string(),
            recurse_submodules: common.recurse_submodules,
            sparse_checkout: common.sparse_checkout.clone(),
        }
    }
}
