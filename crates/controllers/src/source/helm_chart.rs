//! HelmChart.

use std::sync::Arc;
use std::time::Duration;

use everflow_api::common::{Artifact, ChartSourceKind, ReconcileStrategy, SignatureProvider};
use everflow_api::condition::{ConditionStatus, find};
use everflow_api::names::condition as types;
use everflow_api::source::{
    Bucket, DEFAULT_TIMEOUT, GitRepository, HelmChart, HelmChartSpec, HelmChartStatus,
    HelmRepository, Produced,
};
use everflow_api::{Kind, Object, Reason, view};
use everflow_env::{run_blocking, run_budgeted};
use everflow_fetch::archive::{Links, unpack_to_disk};
use everflow_fetch::helm::{
    Build, BuildOptions, ChartArchive, IndexCache, LocalChart, Reason as BuildReason, build_local,
    build_remote,
};
use everflow_fetch::storage::Storage;
use everflow_fetch::{Deadline, Error};
use everflow_json::Value;
use everflow_limits::Budget;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::Resource;

use super::charts::{self, DependencyRepositories};
use super::controller::Source;
use super::draft::Draft;
use super::outcome::{Failure, Outcome, Stop};
use super::publish::{Finished, publish};
use super::signature::Signatures;
use crate::resources::{BUCKETS, GIT_REPOSITORIES, HELM_CHARTS, HELM_REPOSITORIES};
use crate::{Options, Setup};

/// How much of a source's revision goes into a version.
const REVISION_DIGITS: usize = 12;
/// How long building a chart from a tree may take, with its dependencies.
const BUILDING: Duration = Duration::from_secs(300);

/// The source of Helm charts.
#[derive(Debug)]
pub(crate) struct Charts {
    storage: Storage,
    options: Options,
    cache: Arc<IndexCache>,
    signatures: Signatures,
}

/// Where a chart comes from.
enum From {
    Repository(Box<Object<HelmRepository>>),
    Tree(Artifact),
}

impl Charts {
    pub(crate) fn new(setup: &Setup) -> Self {
        let options = setup.options.clone();
        let cache = IndexCache::new(
            options.helm_cache_max_size,
            options.helm_cache_ttl,
            options.helm_cache_purge_interval,
        );
        Charts {
            storage: setup.storage.clone(),
            options,
            cache: Arc::new(cache),
            signatures: Signatures::new(setup, Self::NAME),
        }
    }

    /// Finds the source and its artifact.
    async fn from(
        &self,
        draft: &mut Draft<HelmChart>,
        context: &Context,
        kind: ChartSourceKind,
        name: &str,
    ) -> Result<(From, Option<Artifact>), Failure> {
        let resource = resource(kind);
        let store = context.store(&resource.kind);
        let stored = store.and_then(|store| store.get(draft.namespace(), name));
        let Some(stored) = stored else {
            let message = format!(
                "failed to get source: {}.{} \"{name}\" not found",
                resource.kind, resource.group
            );
            let failure = Failure::passing(Reason::SourceUnavailable.as_str(), message);
            return Err(draft.fail(types::FETCH_FAILED, failure));
        };
        let object = stored.value();
        let artifact = match kind {
            ChartSourceKind::HelmRepository => artifact_of::<HelmRepository>(&object),
            ChartSourceKind::GitRepository => artifact_of::<GitRepository>(&object),
            ChartSourceKind::Bucket => artifact_of::<Bucket>(&object),
        };
        let artifact = match artifact {
            Some(artifact) if self.is_here(context, &artifact).await => Some(artifact),
            _ => None,
        };
        if kind == ChartSourceKind::HelmRepository
            && let Ok(repository) = Object::<HelmRepository>::read(&object)
            && (repository.spec.is_oci() || artifact.is_some())
        {
            return Ok((From::Repository(Box::new(repository)), artifact));
        }
        let (Some(artifact), false) = (artifact, kind == ChartSourceKind::HelmRepository) else {
            let mut message = format!(
                "no artifact available for {} source '{name}'",
                resource.kind
            );
            if let Some(complaint) = view::complaint(&object) {
                message.push_str(&format!("; it says: {complaint}"));
            }
            let failure = Failure::Waiting {
                reason: Reason::NoSourceArtifact.as_str().to_owned(),
                message,
                no_later_than: self.options.runtime.requeue_dependency,
            };
            return Err(draft.fail(types::FETCH_FAILED, failure));
        };
        Ok((From::Tree(artifact.clone()), Some(artifact)))
    }

    async fn is_here(&self, context: &Context, artifact: &Artifact) -> bool {
        let (disk, path) = (context.env.disk.clone(), artifact.path.clone());
        let there = run_blocking(&*context.env.blocking, move || disk.entry(&path).is_ok());
        // Another replica may have fetched it.
        there.await == Some(true) || self.storage.bring(&artifact.path, &artifact.digest).await
    }

    fn build_options(&self, draft: &Draft<HelmChart>, metadata: &str) -> BuildOptions {
        let (spec, status) = (&draft.object.spec, &draft.object.status);
        // An attempt for this generation has succeeded when this condition says so.
        let stored = find(&status.conditions, types::ARTIFACT_IN_STORAGE);
        let known = stored.is_some_and(|stored| stored.observed_generation == draft.generation());
        let mut options = BuildOptions {
            version_metadata: metadata.to_owned(),
            values_files: spec.values_files.clone(),
            ignore_missing_values_files: spec.ignore_missing_values_files,
            cached: status
                .artifact
                .as_ref()
                .map(|artifact| artifact.path.clone()),
            cached_values_files: Some(status.observed_values_files.clone())
                .filter(|files| !files.is_empty()),
            force: !known,
            limits: self.options.helm_limits(),
            algorithm: self.storage.algorithm(),
            // Signatures are looked at before.
            ..BuildOptions::default()
        };
        // So that those who use the chart notice.
        if !options.effective_values_files().is_empty() {
            if !options.version_metadata.is_empty() {
                options.version_metadata.push('.');
            }
            options
                .version_metadata
                .push_str(&draft.generation().to_string());
        }
        options
    }

    async fn build_from_repository(
        &self,
        draft: &mut Draft<HelmChart>,
        context: &Context,
        repository: &Object<HelmRepository>,
    ) -> Result<Build, Failure> {
        let timeout = repository
            .spec
            .timeout
            .unwrap_or(DEFAULT_TIMEOUT)
            .unsigned();
        let deadline = Deadline::after(&context.env.clock, timeout);
        let secret = repository.spec.secret_ref.as_ref();
        draft.secret = secret.map(|reference| format!("{}/{}", draft.namespace(), reference.name));
        let source = charts::source(&self.options, &self.cache, context, repository).await;
        let source = source.map_err(|failure| draft.fail(types::FETCH_FAILED, failure))?;
        if let Some(asked) = draft.object.spec.verify.clone() {
            let name = draft.object.spec.chart.clone();
            let wanted = draft.object.spec.version().to_owned();
            let provider = asked.provider.unwrap_or(SignatureProvider::Cosign);
            let secret = asked
                .secret_ref
                .as_ref()
                .map(|reference| reference.name.as_str());
            let request = super::signature::Request {
                provider,
                secret,
                identities: &asked.match_oidc_identity,
                trusted_root: None,
            };
            let namespace = draft.namespace().to_owned();
            let wanted = charts::Wanted {
                namespace: &namespace,
                name: &name,
                version: &wanted,
            };
            let verified = source
                .verify(&self.signatures, context, &wanted, &request, &deadline)
                .await;
            if let Err(why) = verified {
                return Err(self.unverified(draft, why));
            }
        }
        let options = self.build_options(draft, "");
        let spec = &draft.object.spec;
        let (name, version) = (&spec.chart, spec.version());
        let built = build_remote(
            &context.env,
            source.charts(),
            name,
            version,
            options,
            &deadline,
        )
        .await;
        built.map_err(|error| {
            let text = error.to_string();
            let words = [
                "401",
                "unauthorized",
                "authentication required",
                "tls",
                "unknown certificate authority",
            ];
            if words.iter().any(|word| text.contains(word)) {
                let message = format!("failed to authenticate with the Helm repository: {text}");
                let failure = Failure::passing(Reason::AuthenticationFailed.as_str(), message);
                return draft.fail(types::FETCH_FAILED, failure);
            }
            not_built(draft, &error)
        })
    }

    fn unverified(&self, draft: &mut Draft<HelmChart>, why: charts::Unverified) -> Failure {
        match why {
            charts::Unverified::NotPossible(message) => {
                draft.remove(types::FETCH_FAILED);
                let reason = Reason::ChartVerificationError.as_str();
                let failure = Failure::passing(reason, message.clone());
                let failure = draft.fail(types::BUILD_FAILED, failure);
                let reason = Reason::VerificationError.as_str();
                draft.set(
                    types::SOURCE_VERIFIED,
                    ConditionStatus::False,
                    reason,
                    message,
                );
                failure
            }
            charts::Unverified::Failed(message) => {
                let failure = Failure::passing(Reason::VerificationError.as_str(), message);
                draft.unverified(failure)
            }
        }
    }

    async fn build_from_tree(
        &self,
        draft: &mut Draft<HelmChart>,
        context: &Context,
        kind: ChartSourceKind,
        artifact: &Artifact,
    ) -> Result<Build, Failure> {
        let env = &context.env;
        let unpacked = async {
            let place = self.storage.temporary("helmchart").await?;
            let (disk, from) = (env.disk.clone(), artifact.path.clone());
            let (to, limits) = (place.file("source"), self.options.artifact_limits());
            let work = move |budget: &Budget| {
                let file = disk.open(&from).map_err(|error| Error::Disk {
                    action: "open",
                    path: from.clone(),
                    cause: error,
                })?;
                unpack_to_disk(file, &*disk, &to, limits, Links::Skip, budget)
            };
            let unpacked = run_budgeted(&*env.blocking, work)
                .await
                .ok_or(Error::Lost)?;
            unpacked.map(|_| place)
        };
        let place = unpacked.await.map_err(|error| {
            let message = format!("artifact untar error: {error}");
            let failure = Failure::passing(Reason::Failed.as_str(), message);
            draft.fail(types::FETCH_FAILED, failure)
        })?;
        let strategy = draft.object.spec.reconcile_strategy();
        let metadata = match strategy {
            ReconcileStrategy::Revision => short_revision(kind, &artifact.revision),
            ReconcileStrategy::ChartVersion => String::new(),
        };
        let options = self.build_options(draft, &metadata);
        let chart = LocalChart {
            root: place.file("source"),
            path: draft.object.spec.chart.clone(),
        };
        let repositories =
            DependencyRepositories::new(&self.options, &self.cache, context, draft.namespace());
        let deadline = Deadline::after(&env.clock, BUILDING);
        let built = build_local(env, chart, &repositories, options, &deadline).await;
        built.map_err(|error| not_built(draft, &error))
    }

    async fn store(
        &self,
        draft: &mut Draft<HelmChart>,
        context: &Context,
        build: Build,
    ) -> Result<Outcome, Stop> {
        let (summary, version) = (build.summary(), build.version.clone());
        let reason = match build.packaged {
            true => Reason::ChartPackageSucceeded,
            false => Reason::ChartPullSucceeded,
        };
        let status = &draft.object.status;
        let current = status.artifact.as_ref();
        let same_name = status.observed_chart_name.as_deref() == Some(build.name.as_str());
        if !same_name || current.is_none_or(|current| current.revision != version) {
            if current.is_some() {
                let condition = types::ARTIFACT_OUTDATED;
                draft.set(
                    condition,
                    ConditionStatus::True,
                    "NewChart",
                    summary.clone(),
                );
            }
            draft.progress(format!("building artifact: {summary}"));
        }
        if build.resolved_dependencies > 0 && build.is_new() {
            let count = build.resolved_dependencies;
            draft.trace(
                "ResolvedDependencies",
                format!("resolved {count} chart dependencies"),
            );
        }
        let file_name = build.file_name();
        let ChartArchive::New {
            path,
            digest,
            size,
            file,
        } = build.archive
        else {
            draft.stored(reason, &summary);
            return Ok(Outcome::Unchanged {
                said: summary,
                reason: Reason::ArtifactUpToDate,
                message: format!("artifact up-to-date with remote revision: '{version}'"),
            });
        };
        let finished = Finished {
            path: &path,
            name: &file_name,
            digest,
            size,
            revision: &version,
            action: "copy Helm chart",
        };
        let published = publish::<Self>(&self.storage, draft, context, finished).await;
        drop(file);
        let (artifact, link) = published?;
        let ignores = draft.object.spec.ignore_missing_values_files;
        let status = &mut draft.object.status;
        status.artifact = Some(artifact);
        status.observed_chart_name = Some(build.name);
        status.observed_values_files = match ignores {
            true => build.values_files,
            false => Vec::new(),
        };
        draft.linked(link, |status, url| status.url = Some(url));
        draft.remove(types::STORAGE_OPERATION_FAILED);
        draft.stored(reason, &summary);
        Ok(Outcome::Done {
            said: summary,
            new: reason.as_str(),
            again: reason.as_str(),
        })
    }
}

/// What is said of a build that failed.
fn not_built(draft: &mut Draft<HelmChart>, error: &Error) -> Failure {
    let message = error.to_string();
    let Some(reason) = BuildReason::of(error) else {
        let failure = Failure::passing(Reason::Unknown.as_str(), message);
        draft.remove(types::BUILD_FAILED);
        return draft.fail(types::FETCH_FAILED, failure);
    };
    let failure = match reason.is_persistent() {
        true => Failure::stalling(reason.name(), message),
        false => Failure::passing(reason.name(), message),
    };
    match reason {
        BuildReason::Reference | BuildReason::Pull => {
            draft.remove(types::BUILD_FAILED);
            draft.fail(types::FETCH_FAILED, failure)
        }
        _ => {
            draft.remove(types::FETCH_FAILED);
            draft.fail(types::BUILD_FAILED, failure)
        }
    }
}

/// The part of a source's revision that goes into a version.
fn short_revision(kind: ChartSourceKind, revision: &str) -> String {
    match kind {
        ChartSourceKind::HelmRepository => revision.to_owned(),
        ChartSourceKind::GitRepository | ChartSourceKind::Bucket => {
            let hex = revision.rsplit(':').next().unwrap_or(revision);
            hex.chars().take(REVISION_DIGITS).collect()
        }
    }
}

fn resource(kind: ChartSourceKind) -> Resource {
    match kind {
        ChartSourceKind::HelmRepository => HELM_REPOSITORIES,
        ChartSourceKind::GitRepository => GIT_REPOSITORIES,
        ChartSourceKind::Bucket => BUCKETS,
    }
}

fn artifact_of<K: Kind>(object: &Value) -> Option<Artifact>
where
    K::Status: Produced,
{
    Object::<K>::read(object).ok()?.status.artifact().cloned()
}

impl Source for Charts {
    type Kind = HelmChart;
    const RESOURCE: Resource = HELM_CHARTS;
    const NAME: &'static str = "helmchart";
    const ADDRESS: &'static str = "";
    const LINK: &'static str = "latest.tar.gz";

    fn is_suspended(spec: &HelmChartSpec) -> bool {
        spec.suspend
    }

    fn interval(spec: &HelmChartSpec) -> Duration {
        spec.interval.unsigned()
    }

    fn timeout(_spec: &HelmChartSpec) -> Duration {
        BUILDING
    }

    fn set_url(status: &mut HelmChartStatus, url: Option<String>) {
        status.url = url;
    }

    async fn reconcile(
        &self,
        draft: &mut Draft<HelmChart>,
        context: &Context,
    ) -> Result<Outcome, Stop> {
        draft.forget_failed_verification();
        let (kind, name) = {
            let reference = &draft.object.spec.source_ref;
            (reference.kind, reference.name.clone())
        };
        draft.wake = vec![resource(kind).wake_on(draft.namespace(), &name)];
        let (from, artifact) = self.from(draft, context, kind, &name).await?;
        if let Some(artifact) = artifact {
            draft.object.status.observed_source_artifact_revision = Some(artifact.revision);
        }
        context.check()?;
        let build = match from {
            From::Repository(repository) => {
                self.build_from_repository(draft, context, &repository)
                    .await
            }
            From::Tree(artifact) => self.build_from_tree(draft, context, kind, &artifact).await,
        };
        if draft.object.spec.verify.is_none() {
            draft.remove(types::SOURCE_VERIFIED);
        }
        let build = build?;
        draft.remove(types::FETCH_FAILED);
        draft.remove(types::BUILD_FAILED);
        context.check()?;
        self.store(draft, context, build).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_shortened_for_versions() {
        let git = "main@sha1:0123456789abcdef0123456789abcdef01234567";
        assert_eq!(
            short_revision(ChartSourceKind::GitRepository, git),
            "0123456789ab"
        );
        let bucket = "sha256:fedcba9876543210";
        assert_eq!(
            short_revision(ChartSourceKind::Bucket, bucket),
            "fedcba987654"
        );
    }
}
