//! OCIRepository.

use everflow_time::Duration;

use crate::common::{
    Artifact, DURATION, INT64, LocalObjectReference, SHORT_DURATION, SignatureProvider,
};
use crate::condition::Condition;
use crate::crd::{AGE, MESSAGE, READY, SOURCES, column};

kind! {
    /// An artifact in an OCI registry.
    OCIRepository in crate::names::group::SOURCE {
        version: "v1",
        plural: "ocirepositories",
        singular: "ocirepository",
        short_names: ["ocirepo"],
        categories: SOURCES,
        columns: [column("URL", ".spec.url"), READY, MESSAGE, AGE],
        spec: OCIRepositorySpec,
        status: OCIRepositoryStatus, Some(OCIRepositoryStatus::RECORD), true,
    }
}

choice! {
    /// How to sign in at a registry.
    pub enum RegistryProvider {
        /// With a Secret, or not at all.
        Generic = "generic",
        /// With an identity of AWS.
        Aws = "aws",
        /// With an identity of Azure.
        Azure = "azure",
        /// With an identity of Google Cloud.
        Gcp = "gcp",
    }
}

choice! {
    /// What to do with a layer.
    pub enum LayerOperation {
        /// Unpack it.
        Extract = "extract",
        /// Keep it as it is.
        Copy = "copy",
    }
}

record! {
    /// Where the artifact is and what to take of it.
    pub struct OCIRepositorySpec {
        /// The address, without a tag: oci://HOST/PATH.
        url "url": String [Pattern("^oci://.*$")],
        /// Which version: the tag latest by default.
        reference "ref": Option<OCIRepositoryRef>,
        /// Which layer: the first by default.
        layer_selector "layerSelector": Option<OCILayerSelector>,
        /// How to sign in: generic by default.
        provider "provider": Option<RegistryProvider> [Default(r#""generic""#)],
        /// The Secret to sign in with, of type kubernetes.io/dockerconfigjson.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// Which signatures to ask for.
        verify "verify": Option<OCIRepositoryVerification>,
        /// The ServiceAccount whose pull secrets or identity to sign in with.
        service_account_name "serviceAccountName": Option<String>,
        /// The Secret with certificates.
        cert_secret_ref "certSecretRef": Option<LocalObjectReference>,
        /// The Secret with the proxy to go through.
        proxy_secret_ref "proxySecretRef": Option<LocalObjectReference>,
        /// How often to look for changes.
        interval "interval": Duration [DURATION],
        /// How long fetching may take.
        timeout "timeout": Option<Duration> [SHORT_DURATION, Default(r#""60s""#)],
        /// What to leave out, in the form of .gitignore.
        ignore "ignore": Option<Box<str>>,
        /// Whether plain HTTP is allowed.
        insecure "insecure": bool,
        /// Whether to leave it alone.
        suspend "suspend": bool,
    }
}

record! {
    /// Which version of an artifact.
    pub struct OCIRepositoryRef {
        /// A digest; before the others.
        digest "digest": Option<String>,
        /// The highest tag in a range of versions; before the tag.
        semver "semver": Option<String>,
        /// An expression for the tags that count in the range.
        semver_filter "semverFilter": Option<String>,
        /// A tag.
        tag "tag": Option<String>,
    }
}

record! {
    /// Which layer of an artifact, and what to do with it.
    pub struct OCILayerSelector {
        /// The media type of the layer.
        media_type "mediaType": Option<String>,
        /// What to do with it: extract by default.
        operation "operation": Option<LayerOperation>,
    }
}

record! {
    /// Which signatures to ask for.
    pub struct OCIRepositoryVerification {
        /// What checks them.
        provider "provider": Option<SignatureProvider> [Required, Default(r#""cosign""#)],
        /// The Secret with public keys or certificates.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// The identities that may have signed without keys.
        match_oidc_identity "matchOIDCIdentity": Vec<OIDCIdentityMatch>,
        /// The Secret with the root of trust for signatures without keys.
        trusted_root_secret_ref "trustedRootSecretRef": Option<LocalObjectReference>,
    }
}

record! {
    /// Who may have signed without a key.
    pub struct OIDCIdentityMatch {
        /// An expression for the issuer.
        issuer "issuer": String,
        /// An expression for the subject.
        subject "subject": String,
    }
}

record! {
    /// What is known of the artifact.
    pub struct OCIRepositoryStatus {
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// Where the newest artifact can be had.
        url "url": Option<String>,
        /// What was last produced.
        artifact "artifact": Option<Artifact>,
        /// What was left out.
        observed_ignore "observedIgnore": Option<Box<str>>,
        /// Which layer was taken.
        observed_layer_selector "observedLayerSelector": Option<OCILayerSelector>,
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
    }
}
