//! Sources: GitRepository, OCIRepository, HelmRepository, HelmChart, Bucket.

mod advice;
mod bucket;
mod charts;
mod controller;
mod draft;
mod git;
mod helm_chart;
mod helm_repository;
mod oci;
mod outcome;
mod publish;
mod registry;
mod secrets;
mod signature;

use std::sync::Arc;

use everflow_json::Value;
use everflow_runtime::attempt::Controller;
use everflow_runtime::store::{CachedObject, Change};

use crate::Setup;
use controller::SourceController;
pub use publish::named_by_revision;

/// The controller of Git repositories.
pub(crate) fn git(setup: &Setup) -> impl Controller + 'static {
    SourceController::new(setup, git::Git::new(setup))
}

/// The controller of OCI repositories.
pub(crate) fn oci(setup: &Setup) -> impl Controller + 'static {
    SourceController::new(setup, oci::Oci::new(setup))
}

/// The controller of Helm repositories.
pub(crate) fn helm_repository(setup: &Setup) -> impl Controller + 'static {
    SourceController::new(setup, helm_repository::Helm::new(setup))
}

/// The controller of buckets.
pub(crate) fn bucket(setup: &Setup) -> impl Controller + 'static {
    SourceController::new(setup, bucket::Buckets::new(setup))
}

/// The controller of Helm charts.
pub(crate) fn helm_chart(setup: &Setup) -> impl Controller + 'static {
    SourceController::new(setup, helm_chart::Charts::new(setup))
}

/// Whether a change of a source matters to those who build on it: it is new, or has another artifact.
pub fn artifact_changed(change: &Change) -> bool {
    let artifact = |stored: &Option<Arc<CachedObject>>| {
        let object = stored.as_ref()?.value();
        let artifact = object.pointer("/status/artifact")?;
        let part = |name: &str| {
            artifact
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Some((part("revision"), part("digest"), part("url")))
    };
    // What builds on one that is gone keeps what it has, and says so when its interval comes.
    change.new.is_some() && (change.old.is_none() || artifact(&change.old) != artifact(&change.new))
}
