//! HelmRepository.

use std::collections::BTreeMap;

use everflow_time::Duration;

use crate::common::{Artifact, DURATION, INT64, LocalObjectReference, SHORT_DURATION};
use crate::condition::Condition;
use crate::crd::{AGE, MESSAGE, READY, SOURCES, column};
use crate::source::RegistryProvider;

kind! {
    /// A Helm repository.
    HelmRepository in crate::names::group::SOURCE {
        version: "v1",
        plural: "helmrepositories",
        singular: "helmrepository",
        short_names: ["helmrepo"],
        categories: SOURCES,
        columns: [column("URL", ".spec.url"), AGE, READY, MESSAGE],
        spec: HelmRepositorySpec,
        status: HelmRepositoryStatus, Some(HelmRepositoryStatus::RECORD), true,
    }
}

choice! {
    /// The kind of Helm repository.
    pub enum HelmRepositoryType {
        /// An index over HTTP.
        Default = "default",
        /// An OCI registry.
        Oci = "oci",
    }
}

record! {
    /// Where the repository is and how to use it.
    pub struct HelmRepositorySpec {
        /// The address.
        url "url": String [Pattern("^(http|https|oci)://.*$")],
        /// The Secret to sign in with.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// The Secret with certificates.
        cert_secret_ref "certSecretRef": Option<LocalObjectReference>,
        /// Whether other hosts that the index names get the credentials too.
        pass_credentials "passCredentials": bool,
        /// How often to look for changes.
        interval "interval": Option<Duration> [DURATION],
        /// Whether plain HTTP is allowed, for oci.
        insecure "insecure": bool,
        /// How long fetching may take.
        timeout "timeout": Option<Duration> [SHORT_DURATION],
        /// Whether to leave it alone.
        suspend "suspend": bool,
        /// Who may refer to it; not heeded.
        access_from "accessFrom": Option<AccessFrom>,
        /// An index over HTTP (default) or a registry (oci).
        repository_type "type": Option<HelmRepositoryType>,
        /// How to sign in, for oci: generic by default.
        provider "provider": Option<RegistryProvider> [Default(r#""generic""#)],
    }
}

impl HelmRepositorySpec {
    /// Whether it is a registry.
    pub fn is_oci(&self) -> bool {
        self.repository_type == Some(HelmRepositoryType::Oci)
    }
}

record! {
    /// Who may refer to an object.
    pub struct AccessFrom {
        /// Objects in these namespaces.
        namespace_selectors "namespaceSelectors": Vec<NamespaceSelector> [Required],
    }
}

record! {
    /// A choice of namespaces.
    pub struct NamespaceSelector {
        /// Labels they have.
        match_labels "matchLabels": BTreeMap<String, String>,
    }
}

record! {
    /// What is known of the repository.
    pub struct HelmRepositoryStatus {
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// Where the newest index can be had.
        url "url": Option<String>,
        /// What was last produced.
        artifact "artifact": Option<Artifact>,
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
    }
}
