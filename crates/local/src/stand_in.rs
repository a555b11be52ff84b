//! Directories on this machine that stand for sources.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everflow_api::names::condition::READY;
use everflow_api::view;
use everflow_env::disk::read_all;
use everflow_env::{BoxFuture, run_blocking};
use everflow_fetch::archive::Summary;
use everflow_fetch::storage::{Owner, Storage, Stored};
use everflow_json::{Value, json};
use everflow_runtime::attempt::{
    Broken, Context, Controller, ControllerWrapper, Interrupted, Next, Report, Verdict,
};
use everflow_runtime::client::Resource;
use everflow_runtime::events::Event;

use crate::cache::{CacheKey, LARGEST, SourceCache};
use crate::entry::{same_name, same_repository, used_sources};
use crate::picture::{CACHED, SKIPPED};
use crate::tree::{Contents, Tree};
use crate::{Error, pack};

/// When sources from directories are looked at again by themselves.
const INTERVAL: Duration = Duration::from_secs(3_600);

/// Which directory stands for which source.
#[derive(Debug, Clone, Default)]
pub struct StandIns {
    /// The repository itself.
    pub repository: Option<Repository>,
    /// Others, as the user mapped them.
    pub mapped: Vec<Mapped>,
    /// Whether sources that no directory stands for are left out instead of fetched.
    pub offline: bool,
    /// What was fetched by runs before.
    pub cache: Option<SourceCache>,
}

/// The repository that is brought up.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Its files.
    pub tree: Tree,
    /// Its address, when it has one.
    pub remote: Option<String>,
    /// The namespaces and names of the sources that it is deployed from.
    pub sources: Vec<(String, String)>,
    /// Kinds and names of sources from which its own Kustomizations deploy directories that it has.
    /// They are the repository too, unless their address says that they are another one.
    pub used: BTreeSet<(String, String)>,
}

impl Repository {
    /// The sources that Kustomizations in the files of a repository use for its own directories.
    pub fn used(tree: &Tree, contents: &Contents) -> BTreeSet<(String, String)> {
        let used = used_sources(tree, contents).into_iter();
        used.map(|(kind, _, name)| (kind, name)).collect()
    }
}

/// A directory that stands for a source.
#[derive(Debug, Clone)]
pub struct Mapped {
    /// Only sources of this kind; any without it.
    pub kind: Option<String>,
    /// Sources of this name, or `namespace/name`.
    pub name: String,
    /// The files.
    pub tree: Tree,
}

impl Mapped {
    /// Reads `[KIND/]NAME=DIR`; where the first part is no kind of source it is a namespace.
    pub fn parse(text: &str) -> Result<(Option<String>, String, PathBuf), Error> {
        let odd = || Error::SourceMapping(text.to_owned());
        let (source, directory) = text.split_once('=').ok_or_else(odd)?;
        if source.is_empty() || directory.is_empty() {
            return Err(odd());
        }
        let (kind, name) = match source.split_once('/') {
            Some((kind, name)) if kind.starts_with(char::is_uppercase) => {
                if !crate::picture::SOURCES.contains(&kind) || name.is_empty() {
                    return Err(odd());
                }
                (Some(kind.to_owned()), name)
            }
            _ => (None, source),
        };
        Ok((kind, name.to_owned(), PathBuf::from(directory)))
    }

    fn stands_for(&self, object: &Value) -> bool {
        let kind = object["kind"].as_str().unwrap_or_default();
        let (namespace, name) = (view::namespace(object), view::name(object));
        self.kind.as_deref().is_none_or(|wanted| wanted == kind)
            && (self.name == name || self.name == format!("{namespace}/{name}"))
    }
}

impl StandIns {
    /// The files that stand for a source.
    pub fn tree_of(&self, object: &Value) -> Option<&Tree> {
        if let Some(mapped) = self.mapped.iter().find(|mapped| mapped.stands_for(object)) {
            return Some(&mapped.tree);
        }
        let repository = self.repository.as_ref()?;
        let (namespace, name) = (view::namespace(object), view::name(object));
        let mut sources = repository.sources.iter();
        let is_entry = sources.any(|own| (own.0.as_str(), own.1.as_str()) == (namespace, name));
        let url = object["spec"]["url"].as_str().unwrap_or_default();
        let remote = repository.remote.as_deref();
        let is_remote = remote.is_some_and(|remote| same_repository(remote, url));
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let is_used = repository
            .used
            .contains(&(kind, view::name(object).to_owned()))
            && remote.is_none_or(|remote| same_name(remote, url));
        (is_entry || is_remote || is_used).then_some(&repository.tree)
    }
}

/// A controller of sources that takes directories for some of them.
#[derive(Debug)]
pub struct StandIn {
    /// Who takes care of the others.
    pub inner: Arc<dyn Controller>,
    /// Which directory stands for which source.
    pub stand_ins: Arc<StandIns>,
    /// Where artifacts go.
    pub storage: Storage,
}

impl ControllerWrapper for StandIn {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn host(&self, object: &Value) -> Option<String> {
        match self.stand_ins.tree_of(object) {
            Some(_) => None,
            None => self.inner.host(object),
        }
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        if view::is_deleted(object) || view::is_suspended(object) {
            return self.inner.attempt(object, context);
        }
        match self.stand_ins.tree_of(object) {
            Some(tree) => Box::pin(self.store(object, tree.clone(), context)),
            None => Box::pin(self.fetch(object, context)),
        }
    }
}

/// Whether a source needs the network. Charts of directories come from other sources.
fn is_remote(object: &Value) -> bool {
    match object["kind"].as_str().unwrap_or_default() {
        "ExternalArtifact" => false,
        "HelmChart" => object.pointer("/spec/sourceRef/kind") == Some(&json!("HelmRepository")),
        _ => true,
    }
}

/// Whether a chart is of a repository that does not exist, which no network would bring.
fn lacks_source(object: &Value, context: &Context) -> bool {
    let source = &object["spec"]["sourceRef"];
    let text = |field: &str| source[field].as_str().unwrap_or_default();
    let Some(store) = context.store(text("kind")) else {
        return false;
    };
    let found = store.get(view::namespace(object), text("name"));
    store.is_synced() && found.is_none()
}

/// Whether an event tells of charts that a chart of a directory depends on.
fn brought_dependencies(event: &Event) -> bool {
    event.reason == "ResolvedDependencies"
}

/// Why a source is not there when the network is not used.
fn why_left_out(object: &Value, cache: Option<&SourceCache>) -> String {
    match (object["kind"].as_str(), cache) {
        (Some("HelmChart"), Some(cache)) => {
            let text = |at: &str| {
                object
                    .pointer(at)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            format!(
                "not fetched: --offline, and chart {} {} of HelmRepository {} is not in {}: a run without \
                 --offline fetches it",
                text("/spec/chart"),
                text("/spec/version"),
                text("/spec/sourceRef/name"),
                cache.name(),
            )
        }
        _ => "not fetched: --offline (--source NAME=DIR takes a directory for it)".to_owned(),
    }
}

impl StandIn {
    /// What was fetched before, as far as it may still be used, else from where it is.
    async fn fetch(&self, object: &Value, context: &Context) -> Result<Report, Interrupted> {
        let cache = self.stand_ins.cache.as_ref();
        let key = cache.and_then(|_| CacheKey::of(object, context));
        let known = cache.zip(key.as_ref());
        if let Some((cache, key)) = known
            && let Some(kept) = self.kept(cache, key, object, context).await
        {
            return Ok(kept);
        }
        if self.stand_ins.offline && is_remote(object) && !lacks_source(object, context) {
            let message = why_left_out(object, cache);
            return Ok(left_out(object, SKIPPED, &message, context));
        }
        let report = self.inner.attempt(object, context).await?;
        let needed_network = is_remote(object) || report.events.iter().any(brought_dependencies);
        if let Some((cache, key)) = known
            && needed_network
        {
            self.keep(cache, key, &report, context).await;
        }
        Ok(report)
    }

    /// The outcome of what is kept, unless it is too old or somebody asks for what is there now.
    async fn kept(
        &self,
        cache: &SourceCache,
        key: &CacheKey,
        object: &Value,
        context: &Context,
    ) -> Option<Report> {
        let asked = view::requested_at(object) != view::last_handled_reconcile_at(object);
        if asked && !self.stand_ins.offline {
            return None;
        }
        let (from, wanted) = (cache.clone(), key.clone());
        let found = run_blocking(&*context.env.blocking, move || from.find(&wanted)).await;
        let kept = found.flatten()?;
        let offline = self.stand_ins.offline;
        if !offline && !key.is_fresh(kept.fetched, context.env.clock.now()) {
            return None;
        }
        let path = kept.status.pointer("/artifact/path")?.as_str()?;
        let file = path.rsplit('/').next()?.to_owned();
        let kind = object["kind"].as_str()?;
        let owner = Owner::new(kind, view::namespace(object), view::name(object)).ok()?;
        let stored = self.storage.publish_bytes(kept.bytes, &owner, &file).await;
        let stored = stored.ok()?;
        // What was there before may still be read by somebody, and goes with this run.
        let message = format!("fetched at {}", kept.fetched.rfc3339());
        let mut status = status(object, CACHED, &message, true, context);
        for (field, value) in kept.status.as_object()? {
            if !["conditions", "observedGeneration", "lastHandledReconcileAt"]
                .contains(&field.as_str())
            {
                status[field.as_str()] = value.clone();
            }
        }
        status["artifact"]["path"] = json!(stored.path);
        status["artifact"]["url"] = json!(stored.url);
        Some(Report {
            status: Some(status),
            events: Vec::new(),
            next: Next::At(INTERVAL),
            verdict: Verdict::Success,
        })
    }

    /// Keeps what an attempt brought. A cache that cannot be written is no failure of the attempt.
    async fn keep(&self, cache: &SourceCache, key: &CacheKey, report: &Report, context: &Context) {
        let (Some(status), Verdict::Success) = (&report.status, report.verdict) else {
            return;
        };
        let path = status.pointer("/artifact/path").and_then(Value::as_str);
        let Some(path) = path.map(str::to_owned) else {
            return;
        };
        let (cache, key, status) = (cache.clone(), key.clone(), status.clone());
        let (disk, now) = (context.env.disk.clone(), context.env.clock.now());
        let kept = run_blocking(&*context.env.blocking, move || {
            let bytes = read_all(&*disk, &path, LARGEST)?;
            cache.keep(&key, &status, &bytes, now)
        });
        if let Some(Err(error)) = kept.await {
            context
                .log
                .error("the cache of sources cannot be written", &error.to_string());
        }
    }

    async fn store(
        &self,
        object: &Value,
        tree: Tree,
        context: &Context,
    ) -> Result<Report, Interrupted> {
        Ok(match self.publish(object, tree, context).await {
            Ok((stored, summary)) => self.stored(object, &stored, &summary, context),
            Err(error) => {
                let message = format!("cannot take the directory for the source: {error}");
                failed(object, &message, context)
            }
        })
    }

    async fn publish(
        &self,
        object: &Value,
        tree: Tree,
        context: &Context,
    ) -> Result<(Stored, Summary), Error> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let owner = Owner::new(kind, view::namespace(object), view::name(object))?;
        let ignore = object["spec"]["ignore"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let packed = run_blocking(&*context.env.blocking, move || {
            pack::write(&tree, &ignore, Vec::new())
        });
        let (bytes, summary) = packed.await.ok_or(everflow_fetch::Error::Lost)??;
        let name = format!("{}.tar.gz", summary.digest.hex());
        let stored = self.storage.publish_bytes(bytes, &owner, &name).await?;
        self.storage.collect(&owner, &[&stored.path]).await?;
        Ok((stored, summary))
    }

    fn stored(
        &self,
        object: &Value,
        stored: &Stored,
        summary: &Summary,
        context: &Context,
    ) -> Report {
        let revision = format!("local@{}", summary.digest);
        let message = format!("stored {} files of the directory", summary.files);
        let now = context.env.clock.now();
        let before = object
            .pointer("/status/artifact")
            .cloned()
            .unwrap_or_default();
        let unchanged = before["digest"] == stored.digest.as_str() && before["path"] == stored.path;
        let since = match before["lastUpdateTime"].as_str() {
            Some(since) if unchanged => since.to_owned(),
            _ => now.truncated().to_string(),
        };
        let mut status = status(object, "Succeeded", &message, true, context);
        status["artifact"] = json!({
            "path": stored.path,
            "url": stored.url,
            "revision": revision,
            "digest": stored.digest.as_str(),
            "lastUpdateTime": since,
            "size": stored.size,
        });
        Report {
            status: Some(status),
            events: Vec::new(),
            next: Next::At(INTERVAL),
            verdict: Verdict::Success,
        }
    }
}

/// A kind that nobody here takes care of: it says so, and holds up nobody who waits for it.
#[derive(Debug)]
pub struct Unsupported {
    /// The kind.
    pub resource: Resource,
    /// The stable word for why.
    pub reason: &'static str,
    /// What to say.
    pub message: String,
}

impl Controller for Unsupported {
    fn name(&self) -> &str {
        "unsupported"
    }
    fn reports_as(&self) -> &str {
        "everflow"
    }
    fn resource(&self) -> &Resource {
        &self.resource
    }
    fn owned_conditions(&self) -> &[&str] {
        &[READY]
    }
    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        let status = status(object, self.reason, &self.message, true, context);
        let report = Report {
            status: Some(status),
            events: Vec::new(),
            next: Next::At(INTERVAL),
            verdict: Verdict::Success,
        };
        Box::pin(async move { Ok(report) })
    }
    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        failed(object, &how.to_string(), context)
    }
}

fn failed(object: &Value, message: &str, context: &Context) -> Report {
    Report {
        status: Some(status(object, "Failed", message, false, context)),
        events: Vec::new(),
        next: Next::retry("Failed"),
        verdict: Verdict::Failure,
    }
}

fn left_out(object: &Value, reason: &str, message: &str, context: &Context) -> Report {
    Report {
        // What only waits for it to be there goes on: charts are not deployed here.
        status: Some(status(object, reason, message, true, context)),
        events: Vec::new(),
        next: Next::At(INTERVAL),
        verdict: Verdict::Waiting,
    }
}

/// The status with one condition, whose time changes only with what it says.
fn status(object: &Value, reason: &str, message: &str, holds: bool, context: &Context) -> Value {
    let generation = view::generation(object);
    let mut condition = json!({
        "type": READY,
        "status": if holds { "True" } else { "False" },
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": context.env.clock.now().truncated().to_string(),
    });
    if let Some(before) = view::condition(object, READY)
        && ["status", "reason", "message"]
            .iter()
            .all(|field| before[*field] == condition[*field])
    {
        condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
    }
    let mut status = json!({ "observedGeneration": generation, "conditions": [condition] });
    if let Some(requested) = view::requested_at(object) {
        status["lastHandledReconcileAt"] = json!(requested);
    }
    status
}
