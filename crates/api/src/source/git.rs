//! GitRepository.

use everflow_time::Duration;

use crate::common::{Artifact, DURATION, INT64, LocalObjectReference, SHORT_DURATION};
use crate::condition::Condition;
use crate::crd::{AGE, MESSAGE, READY, SOURCES, column};

kind! {
    /// A Git repository.
    GitRepository in crate::names::group::SOURCE {
        version: "v1",
        plural: "gitrepositories",
        singular: "gitrepository",
        short_names: ["gitrepo"],
        categories: SOURCES,
        columns: [column("URL", ".spec.url"), AGE, READY, MESSAGE],
        spec: GitRepositorySpec,
        status: GitRepositoryStatus, Some(GitRepositoryStatus::RECORD), true,
    }
}

choice! {
    /// How to sign in at a Git server.
    pub enum GitProvider {
        /// With a Secret, or not at all.
        Generic = "generic",
        /// With an identity of AWS.
        Aws = "aws",
        /// With an identity of Azure.
        Azure = "azure",
        /// As a GitHub App.
        GitHub = "github",
    }
}

choice! {
    /// Which Git objects must be signed.
    pub enum GitVerificationMode {
        /// The commit; the old spelling.
        OldHead = "head",
        /// The commit.
        Head = "HEAD",
        /// The tag.
        Tag = "Tag",
        /// Both.
        TagAndHead = "TagAndHEAD",
    }
}

impl GitVerificationMode {
    /// The same, in the new spelling.
    pub fn normalised(self) -> Self {
        match self {
            Self::OldHead => Self::Head,
            mode => mode,
        }
    }

    /// Whether the commit must be signed.
    pub fn verifies_commit(self) -> bool {
        self != Self::Tag
    }

    /// Whether the tag must be signed.
    pub fn verifies_tag(self) -> bool {
        matches!(self, Self::Tag | Self::TagAndHead)
    }
}

record! {
    /// Where the repository is and what to take of it.
    [Check {
        rule: "!has(self.serviceAccountName) || (has(self.provider) && (self.provider == 'azure' || self.provider == 'aws'))",
        message: "serviceAccountName can only be set when provider is 'azure' or 'aws'",
    }]
    pub struct GitRepositorySpec {
        /// The address, over HTTP, HTTPS or SSH.
        url "url": String [Pattern("^(http|https|ssh)://.*$")],
        /// The Secret to sign in with.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// How to sign in: generic by default.
        provider "provider": Option<GitProvider>,
        /// The ServiceAccount to sign in with, for aws and azure.
        service_account_name "serviceAccountName": Option<String>,
        /// How often to look for changes.
        interval "interval": Duration [DURATION],
        /// How long fetching may take.
        timeout "timeout": Option<Duration> [SHORT_DURATION, Default(r#""60s""#)],
        /// What to check out: the branch master by default.
        reference "ref": Option<GitRepositoryRef>,
        /// Which signatures to ask for.
        verify "verify": Option<GitRepositoryVerification>,
        /// The Secret with the proxy to go through.
        proxy_secret_ref "proxySecretRef": Option<LocalObjectReference>,
        /// What to leave out, in the form of .gitignore.
        ignore "ignore": Option<Box<str>>,
        /// Whether to leave it alone.
        suspend "suspend": bool,
        /// Whether to take submodules along.
        recurse_submodules "recurseSubmodules": bool,
        /// Artifacts of other repositories to put in.
        include "include": Vec<GitRepositoryInclude>,
        /// The only directories to take, when given.
        sparse_checkout "sparseCheckout": Vec<String>,
    }
}

record! {
    /// The artifact of another repository to put in.
    pub struct GitRepositoryInclude {
        /// The repository, in the same namespace.
        repository "repository": LocalObjectReference,
        /// What to take of its artifact: all by default.
        from_path "fromPath": Option<String>,
        /// Where to put it: the name of the repository by default.
        to_path "toPath": Option<String>,
    }
}

impl GitRepositoryInclude {
    /// What to take; empty is all.
    pub fn from_path(&self) -> &str {
        self.from_path.as_deref().unwrap_or_default()
    }

    /// Where to put it.
    pub fn to_path(&self) -> &str {
        self.to_path.as_deref().unwrap_or(&self.repository.name)
    }
}

record! {
    /// What to check out.
    pub struct GitRepositoryRef {
        /// A branch.
        branch "branch": Option<String>,
        /// A tag; before the branch.
        tag "tag": Option<String>,
        /// The highest tag in a range of versions; before the branch.
        semver "semver": Option<String>,
        /// A full name such as refs/pull/1/head; before tag, range and branch.
        name "name": Option<String>,
        /// A commit, in the branch when one is given; before all others.
        commit "commit": Option<String>,
    }
}

record! {
    /// Which signatures to ask for.
    pub struct GitRepositoryVerification {
        /// Of what: the commit by default.
        mode "mode": Option<GitVerificationMode> [Default(r#""HEAD""#)],
        /// The Secret with the public keys of the authors.
        secret_ref "secretRef": LocalObjectReference,
    }
}

record! {
    /// What is known of the repository.
    pub struct GitRepositoryStatus {
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// What was last produced.
        artifact "artifact": Option<Artifact>,
        /// The artifacts that were put in.
        included_artifacts "includedArtifacts": Vec<Artifact>,
        /// What was left out.
        observed_ignore "observedIgnore": Option<Box<str>>,
        /// Whether submodules were taken along.
        observed_recurse_submodules "observedRecurseSubmodules": bool,
        /// What was asked to be put in.
        observed_include "observedInclude": Vec<GitRepositoryInclude>,
        /// The only directories that were taken.
        observed_sparse_checkout "observedSparseCheckout": Vec<String>,
        /// Which signatures were verified.
        source_verification_mode "sourceVerificationMode": Option<String>,
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
    }
}
