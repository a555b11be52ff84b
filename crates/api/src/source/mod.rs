//! Sources: `source.toolkit.fluxcd.io/v1`.

mod bucket;
mod external;
mod git;
mod helm_chart;
mod helm_repository;
mod oci;

pub use bucket::*;
pub use external::*;
pub use git::*;
pub use helm_chart::*;
pub use helm_repository::*;
pub use oci::*;

use everflow_time::Duration;

use crate::common::Artifact;
use crate::condition::{Condition, ConditionStatus, Summary, find, reconciled};
use crate::names::condition as types;

/// How long fetching may take when nothing else is said.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_seconds(60);

/// The conditions that sum up to `Ready`; the earlier one gives reason and message.
const COUNTED: [&str; 9] = [
    types::STORAGE_OPERATION_FAILED,
    types::FETCH_FAILED,
    types::INCLUDE_UNAVAILABLE,
    types::BUILD_FAILED,
    types::ARTIFACT_OUTDATED,
    types::ARTIFACT_IN_STORAGE,
    types::SOURCE_VERIFIED,
    types::STALLED,
    types::RECONCILING,
];

/// Those of them that tell of trouble; they are there only when they are `True`.
pub const NEGATIVE: [&str; 7] = [
    types::STORAGE_OPERATION_FAILED,
    types::FETCH_FAILED,
    types::INCLUDE_UNAVAILABLE,
    types::BUILD_FAILED,
    types::ARTIFACT_OUTDATED,
    types::STALLED,
    types::RECONCILING,
];

/// `Ready` of a source: the summary of its other conditions, unless its signature is wrong; none
/// when it has no other conditions.
pub fn ready(conditions: &[Condition]) -> Option<Condition> {
    let unverified = find(conditions, types::SOURCE_VERIFIED)
        .filter(|verified| verified.status == ConditionStatus::False);
    if let Some(unverified) = unverified {
        return Some(Condition::new(
            types::READY,
            ConditionStatus::False,
            &unverified.reason,
            &unverified.message,
        ));
    }
    let summary = Summary {
        types: &COUNTED,
        negative: &NEGATIVE,
        latest_generation: false,
    };
    summary.of(conditions, types::READY)
}

/// A status with an artifact.
pub trait Produced {
    /// What was last produced.
    fn artifact(&self) -> Option<&Artifact>;
    /// What was last produced, to be changed.
    fn artifact_mut(&mut self) -> &mut Option<Artifact>;
}

macro_rules! produced {
    ($($status:ty),*) => {
        $(impl Produced for $status {
            fn artifact(&self) -> Option<&Artifact> {
                self.artifact.as_ref()
            }
            fn artifact_mut(&mut self) -> &mut Option<Artifact> {
                &mut self.artifact
            }
        })*
    };
}

produced!(
    GitRepositoryStatus,
    OCIRepositoryStatus,
    BucketStatus,
    HelmRepositoryStatus,
    HelmChartStatus,
    ExternalArtifactStatus
);

reconciled!(
    GitRepositoryStatus,
    OCIRepositoryStatus,
    BucketStatus,
    HelmRepositoryStatus,
    HelmChartStatus,
);
