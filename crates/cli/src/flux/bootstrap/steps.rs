//! The steps from a repository to a cluster that is kept by it. Each may be made again after any failure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use everflow_env::{Env, RealDisk};
use everflow_fetch::Deadline;
use everflow_git::{Change, FileEdit, GitClient, Person, Published, Remote, SigningKey};
use everflow_json::{Map, Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, meta_text};

use super::apply::apply_all;
use super::flags::{Common, Place};
use super::manifests::{Files, KUSTOMIZATION_FILE, objects_of};
use super::plan::Plan;
use super::provider::Repository;
use super::secret::{self, Access};
use super::tree::CommitTree;
use super::{health, moving, work};
use crate::exit::Failure;
use crate::flux::adopt::{Install, forget, stop_controllers};
use crate::flux::connection::{Connection, Session};
use crate::flux::{confirm, kinds, say};

/// What all steps need.
pub struct Bootstrap<'a> {
    pub common: &'a Common,
    pub connection: &'a Connection,
    pub env: Env,
    _work: WorkDirectory,
}

/// A directory for what is fetched, gone at the end.
struct WorkDirectory(PathBuf);

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // What cannot be removed now lies in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Which repository, and how it is reached from here and from the cluster.
pub struct Target<'a> {
    /// From here.
    pub remote: Remote,
    /// From the cluster.
    pub url: String,
    pub access: Access,
    pub place: &'a Place,
    /// Do not ask whether the deploy key was added.
    pub silent: bool,
    /// Where deploy keys are put by an API.
    pub repository: Option<Repository>,
    pub signing: Option<SigningKey>,
}

impl<'a> Bootstrap<'a> {
    pub fn new(common: &'a Common, connection: &'a Connection) -> Result<Self, Failure> {
        common.check()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(work)?;
        let name = format!("everflow-bootstrap-{:016x}", u64::from_ne_bytes(random));
        let directory = WorkDirectory(std::env::temp_dir().join(name));
        let env = Env::system(RealDisk::new(&directory.0)?);
        Ok(Bootstrap {
            common,
            connection,
            env,
            _work: directory,
        })
    }

    pub fn deadline(&self) -> Deadline {
        Deadline::after(&self.env.clock, self.connection.timeout)
    }

    /// All steps.
    pub async fn run(&self, target: &Target<'_>) -> Result<(), Failure> {
        let session = self.connection.open()?;
        let git = GitClient::new(&self.env, target.remote.clone()).map_err(work)?;
        let run = Run {
            bootstrap: self,
            target,
            session,
            git,
            files: Files::below(&target.place.path, &self.connection.namespace),
        };
        run.all().await
    }
}

/// A bootstrap on its way.
pub struct Run<'a> {
    pub(super) bootstrap: &'a Bootstrap<'a>,
    pub(super) target: &'a Target<'a>,
    pub(super) session: Session,
    pub(super) git: GitClient,
    pub(super) files: Files,
}

impl Run<'_> {
    pub(super) fn namespace(&self) -> &str {
        &self.bootstrap.connection.namespace
    }

    async fn all(&self) -> Result<(), Failure> {
        let found = self.check().await?;
        let secret = self.prepared_secret().await?;
        let plan = self.plan().await?;
        self.commit_components(&plan).await?;
        self.install(&plan, &found).await?;
        self.source_secret(secret).await?;
        let head = self.sync(&plan).await?;
        self.report(&plan, &head).await
    }

    async fn commit_components(&self, plan: &Plan) -> Result<(), Failure> {
        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        let mut files = BTreeMap::from([(
            self.files.components.clone(),
            FileEdit::write(plan.manifests.clone()),
        )]);
        let message = match plan.takes_over {
            true => {
                files.extend(self.sync_files(plan).await?);
                format!(
                    "Replace Flux by Everflow {version}\n\nRevert this commit to give the cluster back to Flux."
                )
            }
            false => format!("Add Everflow {version} component manifests"),
        };
        self.publish("component", files, message).await.map(drop)
    }

    async fn sync_files(&self, plan: &Plan) -> Result<BTreeMap<String, FileEdit>, Failure> {
        let mut files =
            BTreeMap::from([(self.files.sync.clone(), FileEdit::write(plan.sync.clone()))]);
        let tree = self.tree().await?;
        let has_own = match &tree {
            Some(tree) => tree.has_kustomization(&self.files.directory)?,
            None => false,
        };
        if !has_own {
            files.insert(
                self.files.kustomization.clone(),
                FileEdit::create(KUSTOMIZATION_FILE),
            );
        }
        Ok(files)
    }

    /// The branch as it is now.
    async fn tree(&self) -> Result<Option<CommitTree>, Failure> {
        let branch = &self.bootstrap.common.branch;
        let head = self.git.head(branch, &self.bootstrap.deadline()).await;
        Ok(head.map_err(work)?.map(CommitTree::new))
    }

    /// Commits files where they differ, and pushes them.
    async fn publish(
        &self,
        what: &str,
        files: BTreeMap<String, FileEdit>,
        message: String,
    ) -> Result<Published, Failure> {
        let common = self.bootstrap.common;
        let message = match common.commit_message_appendix.as_str() {
            "" => message,
            more => format!("{message}\n\n{more}"),
        };
        let change = Change {
            branch: common.branch.clone(),
            files,
            author: Person {
                name: common.author_name.clone(),
                email: common.author_email.clone(),
                seconds: self.session.clock.now().seconds,
            },
            message,
            signing: self.target.signing.clone(),
        };
        let published = self.git.publish(&change, &self.bootstrap.deadline()).await;
        let published =
            published.map_err(|error| work(format!("failed to push {what} manifests: {error}")))?;
        if !published.changed {
            say::success(&format!("{what} manifests are up to date"));
            return Ok(published);
        }
        if published.conflicts > 0 {
            say::waiting("git conflict detected, the commit was made again on a fresh clone");
        }
        let (branch, commit) = (&common.branch, published.commit);
        say::success(&format!(
            "committed {what} manifests to {branch:?} (\"{commit}\")"
        ));
        say::success(&format!(
            "pushed {what} manifests to \"{}\"",
            self.target.remote.url
        ));
        Ok(published)
    }

    /// Brings the components to the cluster, unless the cluster keeps them up by itself.
    async fn install(&self, plan: &Plan, found: &[Install]) -> Result<(), Failure> {
        let running: Vec<&Install> = found.iter().filter(|install| install.runs()).collect();
        for install in &running {
            say::action(&format!(
                "stopping Flux's controllers in {:?} namespace",
                install.namespace
            ));
            stop_controllers(&self.session, install, false).await?;
            say::success("stopped Flux's controllers");
        }
        if found.iter().any(Install::is_noted) {
            // From now on the repository says what is in the cluster, and prunes Flux's controllers.
            forget(&self.session).await?;
        }
        if !running.is_empty() || self.must_install(plan).await? {
            let namespace = self.namespace();
            say::action(&format!("installing components in {namespace:?} namespace"));
            let objects = self.component_objects(plan).await?;
            apply_all(&self.session, objects, self.bootstrap.connection.timeout).await?;
            say::success("installed components");
        }
        self.image_pull_secret().await?;
        say::success("reconciled components");
        Ok(())
    }

    /// The components with the patches of the repository's own kustomization file.
    async fn component_objects(&self, plan: &Plan) -> Result<Vec<Value>, Failure> {
        let directory = &self.files.directory;
        let objects = match self.tree().await? {
            Some(tree) if tree.has_kustomization(directory)? => tree.objects(directory)?,
            _ => objects_of(&plan.manifests, &self.files.components)?,
        };
        // What is synced comes last, when the Secret for it is there.
        let is_sync = |object: &Value| {
            matches!(
                object["kind"].as_str(),
                Some("GitRepository" | "Kustomization")
            ) && meta_text(object, "name") == self.namespace()
        };
        Ok(objects
            .into_iter()
            .filter(|object| !is_sync(object))
            .collect())
    }

    async fn must_install(&self, plan: &Plan) -> Result<bool, Failure> {
        let kind = kinds::required("Kustomization")?;
        let at = At::new(self.namespace(), self.namespace());
        match self.session.client.get(&kind.resource, at).await {
            Ok(live)
                if live["status"]["lastAppliedRevision"]
                    .as_str()
                    .is_none_or(str::is_empty) =>
            {
                return Ok(true);
            }
            Ok(_) => {}
            Err(Error::NotFound(_) | Error::NoKind { .. }) => return Ok(true),
            Err(error) => return Err(work(self.session.told(kind, &error))),
        }
        for (namespace, name) in self.deployments(plan)? {
            let at = At::new(&namespace, &name);
            match self.session.client.get(&health::DEPLOYMENTS, at).await {
                // Somebody stopped it: nobody would start it again.
                Ok(live) if live["spec"]["replicas"] == 0 => return Ok(true),
                Ok(_) => {}
                Err(Error::NotFound(_)) => return Ok(true),
                Err(error) => return Err(work(self.session.told_of(&error))),
            }
        }
        Ok(false)
    }

    fn deployments(&self, plan: &Plan) -> Result<Vec<(String, String)>, Failure> {
        let objects = objects_of(&plan.manifests, &self.files.components)?;
        Ok(health::deployments_of(&objects))
    }

    async fn image_pull_secret(&self) -> Result<(), Failure> {
        let common = self.bootstrap.common;
        let Some((username, password)) = common.registry_creds.split_once(':') else {
            return Ok(());
        };
        let (namespace, name) = (self.namespace(), &common.image_pull_secret);
        let host = common.registry.split('/').next().unwrap_or_default();
        let login = json!({"auths": {host: {"username": username, "password": password}}});
        let mut data = Map::new();
        data.insert(".dockerconfigjson".into(), json!(login.to_string()));
        say::action(&format!("generating image pull secret {name:?}"));
        let existing = secret::read(&self.session, namespace, name).await?;
        if existing
            .as_ref()
            .is_none_or(|live| !secret::has_content(live, &data))
        {
            let kind = "kubernetes.io/dockerconfigjson";
            secret::write(&self.session, existing, (namespace, name, kind), data).await?;
        }
        say::success("reconciled image pull secret");
        Ok(())
    }

    /// The Secret that is there, and its new content where it has one. A key that cannot be read and a server that
    /// shows none are told here, before anything is changed.
    async fn prepared_secret(&self) -> Result<(Option<Value>, Option<Map>), Failure> {
        let (namespace, name) = (self.namespace(), &self.bootstrap.common.secret_name);
        let existing = secret::read(&self.session, namespace, name).await?;
        let access = &self.target.access;
        if existing.is_some() && !access.is_given(self.bootstrap) {
            return Ok((existing, None));
        }
        let data = access.data(self.bootstrap).await.map_err(|failure| {
            let is_key = matches!(access, Access::Key { .. });
            match is_key && self.target.remote.url.scheme != "ssh" {
                true => work(format!(
                    "{failure}. The cluster would log in over SSH: say --token-auth for it to use the password, or \
                     --ssh-hostname where SSH is served elsewhere; nothing was changed"
                )),
                false => failure,
            }
        })?;
        Ok((existing, Some(data)))
    }

    async fn source_secret(
        &self,
        (existing, data): (Option<Value>, Option<Map>),
    ) -> Result<(), Failure> {
        let (namespace, name) = (self.namespace(), &self.bootstrap.common.secret_name);
        say::action(&format!(
            "determining if source secret \"{namespace}/{name}\" exists"
        ));
        let Some(data) = data else {
            say::success("source secret up to date");
            return Ok(());
        };
        say::action("generating source secret");
        if let Some(key) = data.get("identity.pub").and_then(Value::as_str) {
            self.show_key(key.trim()).await?;
        }
        if existing
            .as_ref()
            .is_some_and(|live| secret::has_content(live, &data))
        {
            say::success("source secret up to date");
            return Ok(());
        }
        say::action(&format!("applying source secret \"{namespace}/{name}\""));
        secret::write(&self.session, existing, (namespace, name, "Opaque"), data).await?;
        say::success("reconciled source secret");
        Ok(())
    }

    /// Gives the key access to the repository, or asks a person to.
    async fn show_key(&self, key: &str) -> Result<(), Failure> {
        say::success(&format!("public key: {key}"));
        match &self.target.repository {
            Some(repository) => {
                let common = self.bootstrap.common;
                let path = self.target.place.path.trim_start_matches("./");
                let mut title = format!("flux-{}-{}", self.namespace(), common.branch);
                if !path.is_empty() {
                    title = format!("{title}-{path}");
                }
                if repository.put_deploy_key(&title, key).await? {
                    say::success(&format!(
                        "configured deploy key {title:?} for \"{repository}\""
                    ));
                }
                Ok(())
            }
            None if self.target.silent => Ok(()),
            None => confirm::ask("Please give the key access to your repository"),
        }
    }

    /// Commits and applies what keeps the cluster so; the newest commit.
    async fn sync(&self, plan: &Plan) -> Result<String, Failure> {
        say::action("generating sync manifests");
        let files = self.sync_files(plan).await?;
        say::success("generated sync manifests");
        let message = "Add Flux sync manifests".to_owned();
        let published = self.publish("sync", files, message).await?;
        say::action("applying sync manifests");
        let tree = self.tree().await?;
        let directory = &self.files.directory;
        let all = match &tree {
            Some(tree) => tree.objects(directory)?,
            None => Vec::new(),
        };
        let is_sync = |object: &Value| {
            matches!(
                object["kind"].as_str(),
                Some("GitRepository" | "Kustomization")
            )
        };
        let mut objects: Vec<Value> = all.into_iter().filter(is_sync).collect();
        if objects.is_empty() {
            // A kustomization file of its own that leaves them out.
            objects = objects_of(&plan.sync, &self.files.sync)?;
        }
        let head = published.commit.to_string();
        self.apply_sync(objects, &head).await?;
        say::success("reconciled sync configuration");
        Ok(head)
    }

    /// Applies the objects of the sync. A cluster that another repository has kept so far would have that say
    /// where its source is: its Kustomization rests until the source is at the new commit.
    async fn apply_sync(&self, objects: Vec<Value>, head: &str) -> Result<(), Failure> {
        let (namespace, timeout) = (self.namespace(), self.bootstrap.connection.timeout);
        let moves = moving::is_moved(&self.session, namespace, &objects).await?;
        if !moves {
            return apply_all(&self.session, objects, timeout).await;
        }
        say::action("moving the cluster to another repository");
        moving::rest(&self.session, namespace).await?;
        let is_source = |object: &Value| object["kind"] == "GitRepository";
        let (sources, rest): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(is_source);
        apply_all(&self.session, sources, timeout).await?;
        let revision = self.revision(head);
        health::until_at(
            &self.session,
            "GitRepository",
            namespace,
            &revision,
            timeout,
        )
        .await?;
        apply_all(&self.session, rest, timeout).await?;
        moving::go_on(&self.session, namespace).await?;
        say::success("the cluster is kept by the new repository");
        Ok(())
    }

    fn revision(&self, head: &str) -> String {
        format!("{}@sha1:{head}", self.bootstrap.common.branch)
    }

    async fn report(&self, plan: &Plan, head: &str) -> Result<(), Failure> {
        let (namespace, timeout) = (self.namespace(), self.bootstrap.connection.timeout);
        let deployments = self.deployments(plan)?;
        // What does not run reconciles nothing: whoever waits for the latter is told of the former first.
        say::action("confirming components are healthy");
        health::until_deployed(&self.session, &deployments, timeout).await?;
        say::success("all components are healthy");
        let revision = self.revision(head);
        health::until_reconciled(&self.session, namespace, &revision, timeout).await
    }
}
