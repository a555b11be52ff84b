//! GitRepository.

mod archive_cache;
mod auth;
mod content;
mod tokens;

use std::time::Duration;

use everflow_api::common::Artifact;
use everflow_api::condition::ConditionStatus;
use everflow_api::names::condition as types;
use everflow_api::source::{
    DEFAULT_TIMEOUT, GitRepository, GitRepositorySpec, GitVerificationMode,
};
use everflow_api::{Object, Reason};
use everflow_fetch::storage::{Owner, Storage, Stored};
use everflow_fetch::{Deadline, Error as FetchError};
use everflow_git::signature::{TrustedKeys, VerifyMode, verify};
use everflow_git::{
    Checkout, CheckoutOptions, Error, GitClient, GitRef, Include, Remote, Resolution, Update,
    write_archive,
};
use everflow_runtime::attempt::Context;
use everflow_runtime::client::Resource;
use everflow_runtime::queue::WakeOn;

use super::controller::Source;
use super::draft::Draft;
use super::outcome::{Failure, Outcome, Stop};
use super::publish::file_name;
use super::secrets::SecretData;
use crate::resources::GIT_REPOSITORIES;
use crate::{Options, Setup};

/// The source of Git repositories.
#[derive(Debug)]
pub(crate) struct Git {
    storage: Storage,
    options: Options,
    tokens: tokens::Tokens,
    archives: archive_cache::ArchiveCache,
}

/// What was found at the remote.
enum Found {
    /// What is stored already.
    Stored(String),
    /// Something to be stored.
    New(Box<Checkout>),
    /// A copy of what was made for another repository, stored as ours.
    Copied(Stored, archive_cache::Archive),
}

impl Git {
    pub(crate) fn new(setup: &Setup) -> Self {
        let options = setup.options.clone();
        let tokens = tokens::Tokens::new(
            options.token_cache_max_size,
            options.token_cache_max_duration,
        );
        Git {
            storage: setup.storage.clone(),
            options,
            tokens,
            archives: archive_cache::ArchiveCache::default(),
        }
    }

    /// Stores a copy of what was made for another repository, unless that has gone meanwhile.
    async fn copy(
        &self,
        draft: &mut Draft<GitRepository>,
        archive: &archive_cache::Archive,
    ) -> Result<Option<Stored>, Failure> {
        let copying = async {
            let owner = Owner::new("gitrepository", draft.namespace(), draft.name())?;
            let content = (archive.digest.clone(), archive.size);
            let named = draft.object.status.artifact.as_ref();
            let name = file_name(&archive.hash, &archive.digest, named);
            self.storage
                .publish_copy(&archive.path, &owner, &name, content)
                .await
        };
        let copied: Result<_, FetchError> = copying.await;
        copied.map_err(|error| self.not_stored(draft, &error.into()))
    }

    /// Asks the remote, and fetches what is not stored yet.
    async fn resolve_and_fetch(
        &self,
        draft: &mut Draft<GitRepository>,
        context: &Context,
        remote: Remote,
        form: Option<&archive_cache::Form>,
        includes: &[Artifact],
        deadline: &Deadline,
    ) -> Result<Found, Failure> {
        let failed = |draft: &mut Draft<GitRepository>, error: &Error| {
            let (reason, message) = match error {
                Error::EmptyRepository => ("EmptyGitRepository", error.to_string()),
                Error::Authentication(_) => {
                    (Reason::AuthenticationFailed.as_str(), error.to_string())
                }
                error => (
                    Reason::GitOperationFailed.as_str(),
                    format!("failed to checkout and determine revision: {error}"),
                ),
            };
            draft.fail(types::FETCH_FAILED, Failure::passing(reason, message))
        };
        let client = GitClient::new(&context.env, remote).map_err(|error| {
            let message = format!("failed to create Git client: {error}");
            let failure = Failure::passing(Reason::GitOperationFailed.as_str(), message);
            draft.fail(types::FETCH_FAILED, failure)
        })?;
        let reference = reference(&draft.object.spec);
        let submodules = draft.object.spec.recurse_submodules;
        let stored = draft.is_true(types::ARTIFACT_IN_STORAGE);
        let have = draft.object.status.artifact.as_ref().filter(|_| stored);
        let have = have.map(|artifact| artifact.revision.clone());
        let now = context.env.clock.elapsed();
        let cached = |resolution: &Resolution| {
            self.archives
                .find(form?, &resolution.reference, &resolution.revision, now)
        };
        let known = |resolution: &Resolution| !resolution.by_id && cached(resolution).is_some();
        let update = client
            .update_unless(&reference, have.as_deref(), &known, submodules, deadline)
            .await;
        let same_config = !content::config_changed(&draft.object, includes);
        let resolution = match update {
            Ok(Update::Unchanged(resolution)) => resolution,
            Ok(Update::Fetched(checkout)) => {
                draft.remove(types::FETCH_FAILED);
                return Ok(Found::New(checkout));
            }
            Err(error) => return Err(failed(draft, &error)),
        };
        if same_config && have.as_ref() == Some(&resolution.revision) {
            draft.remove(types::FETCH_FAILED);
            return Ok(Found::Stored(resolution.revision));
        }
        if let Some(archive) = cached(&resolution).filter(|_| !resolution.by_id) {
            if let Some(stored) = self.copy(draft, &archive).await? {
                draft.remove(types::FETCH_FAILED);
                return Ok(Found::Copied(stored, archive));
            }
            self.archives.forget(&archive.path);
        }
        let found = match client.fetch(resolution, submodules, deadline).await {
            Ok(checkout) => Found::New(Box::new(checkout)),
            Err(error) => return Err(failed(draft, &error)),
        };
        draft.remove(types::FETCH_FAILED);
        Ok(found)
    }

    /// Verifies what was fetched and makes it the artifact.
    async fn store(
        &self,
        draft: &mut Draft<GitRepository>,
        context: &Context,
        found: Found,
        form: Option<archive_cache::Form>,
        includes: Vec<Artifact>,
    ) -> Result<Outcome, Stop> {
        if let Found::Stored(revision) = &found {
            return Ok(up_to_date(draft, revision));
        }
        let keys = self.keys(draft, context).await?;
        let (revision, message) = match &found {
            Found::Stored(_) => Default::default(),
            Found::New(checkout) => {
                if let Some((mode, keys)) = keys {
                    check_signature(draft, checkout, mode, &keys)?;
                }
                (checkout.revision.clone(), checkout.commit.short_message())
            }
            // Those that ask for a signature get no copies.
            Found::Copied(_, archive) => (archive.revision.clone(), archive.message.clone()),
        };
        let current = draft.object.status.artifact.as_ref();
        if current.is_none_or(|current| current.revision != revision) {
            draft.outdated(&format!("new upstream revision '{revision}'"));
        }
        draft.remove(types::INCLUDE_UNAVAILABLE);
        let stored = match found {
            Found::New(checkout) => {
                self.archive(draft, context, *checkout, form, &includes)
                    .await?
            }
            Found::Copied(stored, _) => stored,
            Found::Stored(revision) => return Ok(up_to_date(draft, &revision)),
        };
        let status = &mut draft.object.status;
        let spec = &draft.object.spec;
        status.artifact = Some(Artifact {
            digest: stored.digest.to_string(),
            path: stored.path,
            url: stored.url,
            revision: revision.clone(),
            last_update_time: context.env.clock.now().truncated(),
            size: i64::try_from(stored.size).ok(),
            ..Artifact::default()
        });
        status.included_artifacts = includes;
        status.observed_ignore = spec.ignore.clone();
        status.observed_recurse_submodules = spec.recurse_submodules;
        status.observed_include = spec.include.clone();
        status.observed_sparse_checkout = spec.sparse_checkout.clone();
        draft.remove(types::STORAGE_OPERATION_FAILED);
        draft.stored(
            Reason::Succeeded,
            format!("stored artifact for revision '{revision}'"),
        );
        Ok(Outcome::done(format!(
            "stored artifact for commit '{message}'"
        )))
    }

    async fn archive(
        &self,
        draft: &mut Draft<GitRepository>,
        context: &Context,
        checkout: Checkout,
        form: Option<archive_cache::Form>,
        includes: &[Artifact],
    ) -> Result<Stored, Failure> {
        let spec = &draft.object.spec;
        let hash = checkout.commit.id.to_string();
        let (reference, revision) = (checkout.reference.clone(), checkout.revision.clone());
        let message = checkout.commit.short_message();
        let options = CheckoutOptions {
            ignore: spec.ignore.as_deref().map(str::to_owned),
            sparse: spec.sparse_checkout.clone(),
            algorithm: self.storage.algorithm(),
            limit: self.options.artifact_max_size,
            includes: spec
                .include
                .iter()
                .zip(includes)
                .map(|(include, artifact)| Include {
                    artifact: artifact.path.clone(),
                    from_path: include.from_path().to_owned(),
                    to_path: include.to_path().to_owned(),
                })
                .collect(),
            ..CheckoutOptions::default()
        };
        let written = async {
            let owner = Owner::new("gitrepository", draft.namespace(), draft.name())?;
            let place = self.storage.temporary("gitrepository").await?;
            let path = place.file("archive");
            let summary = write_archive(&context.env, checkout, &path, options).await?;
            let named = draft.object.status.artifact.as_ref();
            let name = file_name(&hash, &summary.digest, named);
            let size = summary.size;
            let published = self
                .storage
                .publish(&path, &owner, &name, summary.digest, size);
            Ok(published.await?)
        };
        let written: Result<Stored, Error> = written.await;
        let stored = written.map_err(|error| self.not_stored(draft, &error))?;
        if let Some(form) = form {
            let archive = archive_cache::Archive {
                path: stored.path.clone(),
                digest: stored.digest.clone(),
                size: stored.size,
                revision,
                message,
                hash,
            };
            let now = context.env.clock.elapsed();
            self.archives.note(form, &reference, archive, now);
        }
        Ok(stored)
    }

    fn not_stored(&self, draft: &mut Draft<GitRepository>, error: &Error) -> Failure {
        let (condition, reason, message) = match error {
            Error::SparseMissing(_) => (
                types::FETCH_FAILED,
                Reason::GitOperationFailed.as_str(),
                format!("failed to sparse checkout directories : {error}"),
            ),
            Error::IncludeMissing(path) => {
                let all = &draft.object.spec.include;
                let from = |include: &&everflow_api::source::GitRepositoryInclude| {
                    path.trim_matches('/')
                        .ends_with(include.from_path().trim_matches(['.', '/']))
                };
                let include = all.iter().find(from).or(all.first());
                let text = include.map_or_else(String::new, |include| {
                    let (name, from) = (&include.repository.name, include.from_path());
                    format!(
                        "failed to copy '{name}' include from {from} to {}: ",
                        include.to_path()
                    )
                });
                let message = format!("{text}{error}");
                (types::STORAGE_OPERATION_FAILED, "CopyFailure", message)
            }
            Error::Fetch(FetchError::Storage { reason, message }) => {
                (types::STORAGE_OPERATION_FAILED, *reason, message.clone())
            }
            error => (
                types::STORAGE_OPERATION_FAILED,
                Reason::ArchiveOperationFailed.as_str(),
                format!("unable to archive artifact to storage: {error}"),
            ),
        };
        draft.fail(condition, Failure::passing(reason, message))
    }

    /// Reads the keys of those whose signatures count, where signatures are asked for.
    async fn keys(
        &self,
        draft: &mut Draft<GitRepository>,
        context: &Context,
    ) -> Result<Option<(&'static str, TrustedKeys)>, Failure> {
        let Some(asked) = draft.object.spec.verify.clone() else {
            draft.object.status.source_verification_mode = None;
            draft.remove(types::SOURCE_VERIFIED);
            return Ok(None);
        };
        let namespace = draft.namespace().to_owned();
        let secret = SecretData::get(&context.client, &namespace, &asked.secret_ref.name).await;
        let secret = secret.map_err(|unread| {
            let message = format!("public keys secret error: {}", unread.told());
            let failure = Failure::passing(Reason::VerificationError.as_str(), message);
            draft.unverified(failure)
        })?;
        let mode = asked.mode.unwrap_or(GitVerificationMode::Head);
        let keys = TrustedKeys::from_entries(secret.entries());
        Ok(Some((mode.normalised().as_str(), keys)))
    }

    /// The artifacts of other repositories that go into this one.
    fn includes(
        &self,
        draft: &mut Draft<GitRepository>,
        context: &Context,
    ) -> Result<Vec<Artifact>, Failure> {
        let mut artifacts = Vec::new();
        for include in draft.object.spec.include.clone() {
            let name = &include.repository.name;
            let store = context.store("GitRepository");
            let stored = store.and_then(|store| store.get(draft.namespace(), name));
            let (reason, message) = match stored {
                None => (
                    Reason::NotFound.as_str(),
                    format!(
                        "could not get resource for include '{name}': \
                         GitRepository.source.toolkit.fluxcd.io \"{name}\" not found"
                    ),
                ),
                Some(stored) => {
                    let read = Object::<GitRepository>::read(&stored.value()).ok();
                    if let Some(artifact) = read.and_then(|object| object.status.artifact) {
                        artifacts.push(artifact);
                        continue;
                    }
                    (
                        Reason::NoArtifact.as_str(),
                        format!("no artifact available for include '{name}'"),
                    )
                }
            };
            let failure = Failure::Waiting {
                reason: reason.to_owned(),
                message,
                no_later_than: self.options.runtime.requeue_dependency,
            };
            return Err(draft.fail(types::INCLUDE_UNAVAILABLE, failure));
        }
        draft.remove(types::INCLUDE_UNAVAILABLE);
        Ok(artifacts)
    }
}

fn check_signature(
    draft: &mut Draft<GitRepository>,
    checkout: &Checkout,
    mode: &str,
    keys: &TrustedKeys,
) -> Result<(), Failure> {
    let parsed = VerifyMode::parse(mode).unwrap_or(VerifyMode::TagAndHead);
    match verify(checkout, parsed, keys, draft.now.seconds) {
        Ok(message) => {
            draft.object.status.source_verification_mode = Some(mode.to_owned());
            let reason = Reason::Succeeded.as_str();
            draft.set(
                types::SOURCE_VERIFIED,
                ConditionStatus::True,
                reason,
                message.clone(),
            );
            draft.trace(reason, message);
            Ok(())
        }
        Err(Error::Signature { reason, message }) => {
            let failure = match reason {
                "InvalidVerificationMode" => Failure::stalling(reason, message),
                reason => Failure::passing(reason, message),
            };
            Err(draft.unverified(failure))
        }
        Err(error) => {
            let failure = Failure::passing(error.reason(), error.to_string());
            Err(draft.unverified(failure))
        }
    }
}

fn wake_on(object: &Object<GitRepository>) -> Vec<WakeOn> {
    let namespace = object.metadata.namespace();
    let includes = object.spec.include.iter();
    includes
        .map(|include| GIT_REPOSITORIES.wake_on(namespace, &include.repository.name))
        .collect()
}

/// The remote is where it was, and nothing that shapes the artifact changed.
fn up_to_date(draft: &mut Draft<GitRepository>, revision: &str) -> Outcome {
    draft.stored(
        Reason::Succeeded,
        format!("stored artifact for revision '{revision}'"),
    );
    let reference = reference(&draft.object.spec);
    // Flux has to clone for these, and says so in other words.
    let cloned = !reference.commit.is_empty()
        || (reference.name.is_empty() && reference.tag.is_empty() && !reference.semver.is_empty());
    let (reason, message) = match cloned {
        true => (
            Reason::ArtifactUpToDate,
            format!("artifact up-to-date with remote revision: '{revision}'"),
        ),
        false => (
            Reason::GitOperationSucceeded,
            format!("no changes since last reconciliation: observed revision '{revision}'"),
        ),
    };
    Outcome::Unchanged {
        said: format!("stored artifact for commit '{revision}'"),
        reason,
        message,
    }
}

fn reference(spec: &GitRepositorySpec) -> GitRef {
    let Some(asked) = &spec.reference else {
        return GitRef::default();
    };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    GitRef {
        branch: text(&asked.branch),
        tag: text(&asked.tag),
        semver: text(&asked.semver),
        name: text(&asked.name),
        commit: text(&asked.commit),
    }
}

impl Source for Git {
    type Kind = GitRepository;
    const RESOURCE: Resource = GIT_REPOSITORIES;
    const NAME: &'static str = "gitrepository";
    const ADDRESS: &'static str = "/spec/url";

    fn is_suspended(spec: &GitRepositorySpec) -> bool {
        spec.suspend
    }

    fn interval(spec: &GitRepositorySpec) -> Duration {
        spec.interval.unsigned()
    }

    fn timeout(spec: &GitRepositorySpec) -> Duration {
        spec.timeout.unwrap_or(DEFAULT_TIMEOUT).unsigned()
    }

    async fn reconcile(
        &self,
        draft: &mut Draft<GitRepository>,
        context: &Context,
    ) -> Result<Outcome, Stop> {
        draft.forget_failed_verification();
        let timeout = Self::timeout(&draft.object.spec);
        let deadline = Deadline::after(&context.env.clock, timeout);
        let auth::Way {
            remote,
            requester,
            token,
        } = self.remote(draft, context, &deadline).await?;
        let form = archive_cache::Form::of(&draft.object, requester);
        draft.wake = wake_on(&draft.object);
        let includes = self.includes(draft, context)?;
        for included in &includes {
            // What is not here, another replica may have fetched; if it is nowhere, that is said below.
            self.storage.bring(&included.path, &included.digest).await;
        }
        draft.remove(types::ARTIFACT_OUTDATED);
        if content::includes_changed(&draft.object.status, &includes) {
            let message = "included artifacts differ from last observed includes";
            draft.progress(format!("building artifact: {message}"));
        }
        context.check()?;
        let found = self
            .resolve_and_fetch(draft, context, remote, form.as_ref(), &includes, &deadline)
            .await;
        if let (Err(failure), Some(id)) = (&found, &token)
            && ["authentication required", "authorization failed"]
                .iter()
                .any(|mark| failure.message().contains(mark))
        {
            // It may have been taken back before its time.
            self.tokens.forget(id);
        }
        let found = found?;
        context.check()?;
        self.store(draft, context, found, form, includes).await
    }
}
