//! The reasons in conditions and events, as Flux has them.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident,)*) => {
        /// A stable code for what happened: the reason of conditions and events.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),*];

            /// The code.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$variant => stringify!($variant),)*
                }
            }

            /// The reason with this code.
            pub fn from_text(text: &str) -> Option<Self> {
                match text {
                    $(stringify!($variant) => Some(Reason::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    /// It worked.
    Succeeded,
    /// It did not work.
    Failed,
    /// Work is going on.
    Progressing,
    /// Work failed and is tried again.
    ProgressingWithRetry,
    /// The object is suspended.
    Suspended,
    /// Work has not begun.
    Initialized,
    /// Why is not known.
    Unknown,
    /// A dependency is missing or not ready.
    DependencyNotReady,
    /// A reference crosses namespaces and that is not allowed.
    AccessDenied,
    /// The gate of the feature is closed.
    FeatureGateDisabled,
    /// A CEL expression cannot be compiled.
    InvalidCELExpression,

    /// The address cannot be used.
    URLInvalid,
    /// The address cannot be used (other controllers).
    InvalidURL,
    /// Plain HTTP is not allowed.
    InsecureConnectionsDisallowed,
    /// The kind of connection is not supported.
    UnsupportedConnectionType,
    /// Credentials are missing, wrong or refused.
    AuthenticationFailed,
    /// A signature could not be verified.
    VerificationError,
    /// A working directory could not be made.
    DirectoryCreationFailed,
    /// A file could not be looked at.
    StatOperationFailed,
    /// A file, tag or manifest could not be read.
    ReadOperationFailed,
    /// The lock of the artifact could not be taken.
    AcquireLockFailed,
    /// A path is wrong.
    InvalidPath,
    /// The archive could not be written.
    ArchiveOperationFailed,
    /// The link to the newest artifact could not be changed.
    SymlinkUpdateFailed,
    /// The stored artifact is the newest.
    ArtifactUpToDate,
    /// The cache of indexes could not be used.
    CacheOperationFailed,
    /// A file or object could not be patched.
    PatchOperationFailed,
    /// The token service of a bucket is set up in a wrong way.
    InvalidSTSConfiguration,
    /// The provider is set up in a wrong way.
    InvalidProviderConfiguration,
    /// A new artifact was stored.
    NewArtifact,
    /// There is a newer revision.
    NewRevision,
    /// There is a newer chart.
    NewChart,
    /// What is referred to does not exist.
    NotFound,
    /// What is referred to has no artifact.
    NoArtifact,
    /// Old artifacts could not be removed.
    GarbageCollectionFailed,
    /// Old artifacts were removed.
    GarbageCollectionSucceeded,
    /// The stored artifact is not what its digest says.
    ArtifactVerificationFailed,

    /// The Git server answered.
    GitOperationSucceeded,
    /// The Git server did not give what was asked for.
    GitOperationFailed,
    /// The Git repository has no commits.
    EmptyGitRepository,
    /// The ignore files cannot be read.
    SourceIgnoreError,
    /// A path leads out of the artifact.
    IllegalPath,
    /// An include could not be copied.
    CopyFailure,
    /// An included source changed.
    IncludeChange,
    /// The way to verify is not known.
    InvalidVerificationMode,
    /// A Git object is broken.
    InvalidGitObject,
    /// The signature of the tag is wrong.
    InvalidTagSignature,
    /// The signature of the commit is wrong.
    InvalidCommitSignature,

    /// The OCI artifact could not be pulled.
    OCIArtifactPullFailed,
    /// The layer of the OCI artifact could not be used.
    OCIArtifactLayerOperationFailed,
    /// The bucket answered.
    BucketOperationSucceeded,
    /// The bucket did not give what was asked for.
    BucketOperationFailed,
    /// The index of the Helm repository cannot be read.
    IndexationFailed,

    /// The source of the chart cannot be had.
    SourceUnavailable,
    /// Charts cannot come from this kind of source.
    UnsupportedSourceKind,
    /// The source of the chart has no artifact.
    NoSourceArtifact,
    /// The chart was pulled.
    ChartPullSucceeded,
    /// The chart was packaged.
    ChartPackageSucceeded,
    /// The reference to the chart is wrong.
    InvalidChartReference,
    /// The chart could not be pulled.
    ChartPullError,
    /// The metadata of the chart could not be changed.
    MetadataPatchError,
    /// A values file could not be merged.
    ValuesFilesError,
    /// The dependencies of the chart could not be had.
    DependencyBuildError,
    /// The chart could not be packaged.
    ChartPackageError,
    /// The signature of the chart could not be verified.
    ChartVerificationError,
    /// The dependencies of the chart were had.
    ResolvedDependencies,

    /// All was applied and is healthy.
    ReconciliationSucceeded,
    /// Something could not be applied.
    ReconciliationFailed,
    /// The artifact is missing or cannot be fetched.
    ArtifactFailed,
    /// The manifests cannot be built.
    BuildFailed,
    /// Something could not be removed.
    PruneFailed,
    /// Something did not become healthy in time.
    HealthCheckFailed,
    /// Waiting for health was given up for something newer.
    HealthCheckCanceled,

    /// The release was installed.
    InstallSucceeded,
    /// The release could not be installed.
    InstallFailed,
    /// The release was upgraded.
    UpgradeSucceeded,
    /// The release could not be upgraded.
    UpgradeFailed,
    /// The tests of the release succeeded.
    TestSucceeded,
    /// The tests of the release failed.
    TestFailed,
    /// The release was rolled back.
    RollbackSucceeded,
    /// The release could not be rolled back.
    RollbackFailed,
    /// The release was uninstalled.
    UninstallSucceeded,
    /// The release could not be uninstalled.
    UninstallFailed,
    /// The cluster differs from the release.
    DriftDetected,
    /// The cluster is as the release says.
    NoDriftDetected,
    /// What differed was put right.
    DriftCorrected,
    /// What differed could not be put right.
    DriftCorrectionFailed,
    /// A release was found in the middle of an action.
    PendingRelease,
    /// The tests of the release have not run yet.
    AwaitingTests,
    /// The state of the release could not be found out.
    StateError,
    /// An attempt failed as a whole.
    ReconcileError,
    /// The source of the chart is not ready.
    SourceNotReady,
    /// The values could not be put together.
    ValuesError,
    /// The version of the chart could not be set.
    ChartMutateError,
    /// There is no way to talk to the target cluster.
    RESTClientError,
    /// Objects in the target cluster cannot be managed.
    ResourceManagerError,
    /// The action could not be prepared.
    FactoryError,
    /// The configuration of actions could not be prepared.
    ConfigFactoryErr,
    /// No retries are left.
    RetriesExceeded,
    /// There is no release to go back to.
    MissingRollbackTarget,
    /// The HelmChart was created.
    HelmChartCreated,
    /// The HelmChart was changed.
    HelmChartConfigured,
    /// The HelmChart was deleted.
    HelmChartDeleted,
    /// The HelmChart could not be written.
    HelmChartSyncErr,
    /// The inventory of the release could not be made.
    InventoryBuildFailed,
    /// The namespace could not be looked at.
    NamespaceCheckSkipped,

    /// The object breaks a rule.
    ValidationFailed,
    /// The secret has no token.
    TokenNotFound,
    /// A notification could not be sent.
    NotificationDispatchFailed,
    /// The object an event is about could not be had.
    SourceFetchFailed,
    /// Metadata of an event clash.
    MetadataAppendFailed,
    /// A part of an Alert cannot be used.
    InvalidConfig,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> String {
        reason.as_str().to_owned()
    }
}
