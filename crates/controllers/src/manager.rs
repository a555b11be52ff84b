//! Puts an engine together.

use std::fmt;
use std::sync::Arc;

use everflow_apply::preflight::{LocalAdmission, Preflight};
use everflow_dispatch::receiver::ReceiverController;
use everflow_env::Env;
use everflow_fetch::storage::Storage;
use everflow_runtime::client::{Client, Resource};
use everflow_runtime::engine::{Builder, Engine};
use everflow_runtime::events::Recorder;
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::reflector::Watched;

use crate::helmrelease::HelmReleaseController;
use crate::kustomization::{KustomizationController, readiness_changed};
use crate::resources;
use crate::source::{self, artifact_changed};
use crate::{Error, Options};

macro_rules! controller_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $resource:expr,)*) => {
        /// A kind that there is a controller for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ControllerKind {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl ControllerKind {
            /// All of them.
            pub const ALL: &'static [ControllerKind] = &[$(ControllerKind::$kind,)*];

            /// The collection of its objects.
            pub fn resource(self) -> Resource {
                match self {
                    $(ControllerKind::$kind => $resource,)*
                }
            }
        }
    };
}

controller_kinds! {
    /// Git repositories.
    GitRepository = resources::GIT_REPOSITORIES,
    /// OCI repositories.
    OCIRepository = resources::OCI_REPOSITORIES,
    /// Helm repositories.
    HelmRepository = resources::HELM_REPOSITORIES,
    /// Buckets.
    Bucket = resources::BUCKETS,
    /// Helm charts.
    HelmChart = resources::HELM_CHARTS,
    /// Kustomizations.
    Kustomization = resources::KUSTOMIZATIONS,
    /// Releases of Helm charts.
    HelmRelease = resources::HELM_RELEASES,
    /// Receivers of webhooks.
    Receiver = resources::RECEIVERS,
}

impl fmt::Display for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource().kind)
    }
}

impl ControllerKind {
    /// Those that deploy something, and what they deploy from: all where no webhooks come in.
    pub fn deploying() -> Vec<ControllerKind> {
        let all = Self::ALL.iter().copied();
        all.filter(|kind| *kind != ControllerKind::Receiver)
            .collect()
    }

    /// Reads a comma-separated list of kinds; letters may be large or small, and the plural will
    /// do.
    ///
    /// # Errors
    /// A kind that there is no controller for.
    pub fn parse_list(text: &str) -> Result<Vec<ControllerKind>, Error> {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names.map(Self::parse).collect()
    }

    fn parse(name: &str) -> Result<Self, Error> {
        let is = |kind: &&ControllerKind| {
            let resource = kind.resource();
            resource.kind.eq_ignore_ascii_case(name) || resource.plural.eq_ignore_ascii_case(name)
        };
        Self::ALL.iter().find(is).copied().ok_or_else(|| {
            let known: Vec<String> = Self::ALL.iter().map(ToString::to_string).collect();
            Error::UnknownKind {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// Kinds whose objects its attempts look at.
    fn looks_at(self) -> &'static [Resource] {
        match self {
            ControllerKind::GitRepository
            | ControllerKind::OCIRepository
            | ControllerKind::HelmRepository
            | ControllerKind::Bucket
            | ControllerKind::Receiver => &[],
            ControllerKind::HelmChart => {
                const {
                    &[
                        resources::HELM_REPOSITORIES,
                        resources::GIT_REPOSITORIES,
                        resources::BUCKETS,
                    ]
                }
            }
            ControllerKind::HelmRelease => {
                const {
                    &[
                        resources::HELM_CHARTS,
                        resources::OCI_REPOSITORIES,
                        resources::EXTERNAL_ARTIFACTS,
                    ]
                }
            }
            ControllerKind::Kustomization => {
                const {
                    &[
                        resources::GIT_REPOSITORIES,
                        resources::OCI_REPOSITORIES,
                        resources::BUCKETS,
                        resources::EXTERNAL_ARTIFACTS,
                    ]
                }
            }
        }
    }
}

/// What controllers are made from.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The world.
    pub env: Env,
    /// The API server.
    pub client: Client,
    /// How they run.
    pub options: Options,
    /// What says without asking whether the API server would take a new object, if anything does.
    pub admission: Option<Arc<dyn LocalAdmission>>,
    /// Where artifacts are.
    pub storage: Storage,
    /// The log.
    pub log: Logger,
    /// The metrics.
    pub metrics: Metrics,
}

impl Setup {
    /// How new objects are checked before they are written.
    pub(crate) fn preflight(&self) -> Preflight {
        let (choice, local) = (self.options.kustomize.preflight, self.admission.clone());
        Preflight::new(choice, local, &self.metrics, &self.log)
    }

    /// An engine that runs the controllers of these kinds. Nothing runs yet.
    pub fn engine(&self, kinds: &[ControllerKind], recorder: Recorder) -> Engine {
        self.builder(kinds).build(recorder)
    }

    /// What [`Setup::engine`] builds, for those who want to add to it.
    pub fn builder(&self, kinds: &[ControllerKind]) -> Builder {
        let mut builder = Builder::new(
            self.env.clone(),
            self.client.clone(),
            self.options.runtime.clone(),
            self.log.clone(),
            self.metrics.clone(),
        );
        for kind in kinds {
            builder = self.add(builder, *kind);
        }
        let mut beside: Vec<Resource> = Vec::new();
        for resource in kinds.iter().flat_map(|kind| kind.looks_at()) {
            let own = kinds.iter().any(|kind| kind.resource() == *resource);
            if !own && !beside.contains(resource) {
                beside.push(resource.clone());
            }
        }
        for resource in beside {
            let mut watched = Watched::all(resource);
            watched.namespace = self.options.runtime.watch_namespace.clone();
            builder = builder.watch(watched, artifact_changed);
        }
        builder
    }

    fn add(&self, builder: Builder, kind: ControllerKind) -> Builder {
        match kind {
            ControllerKind::GitRepository => {
                builder.controller(source::git(self), artifact_changed)
            }
            ControllerKind::OCIRepository => {
                builder.controller(source::oci(self), artifact_changed)
            }
            ControllerKind::HelmRepository => {
                builder.controller(source::helm_repository(self), artifact_changed)
            }
            ControllerKind::Bucket => builder.controller(source::bucket(self), artifact_changed),
            ControllerKind::HelmChart => {
                builder.controller(source::helm_chart(self), artifact_changed)
            }
            ControllerKind::Kustomization => {
                let controller = KustomizationController::new(self);
                builder.controller(controller, readiness_changed)
            }
            ControllerKind::HelmRelease => {
                let controller = HelmReleaseController::new(self);
                builder.controller(controller, readiness_changed)
            }
            ControllerKind::Receiver => {
                let options = &self.options;
                let controller = ReceiverController::new(&options.runtime, options.concurrent);
                builder.controller(controller, |_| false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_chosen_by_name() {
        let kinds = ControllerKind::parse_list("gitrepository, gitrepositories").unwrap();
        assert_eq!(kinds, [ControllerKind::GitRepository; 2]);
        let error = ControllerKind::parse_list("Pod").unwrap_err();
        assert_eq!(error.reason(), "UnknownKind");
    }
}
