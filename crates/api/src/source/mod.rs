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
use crate::condition::reconciled;

/// How long fetching may take when nothing else is said.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_seconds(60);

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
