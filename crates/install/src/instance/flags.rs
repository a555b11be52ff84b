//! Arguments of Flux's controllers as arguments of `everflow run`.

/// What a flag of Flux's means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The same flag with the same values.
    Same,
    /// The same switch, which has no value here: it is there or it is not.
    Switch,
    /// Features, of which those known here are taken.
    Gates,
    /// Turned round: `--watch-all-namespaces=false` is `--watch-namespace`.
    AllNamespaces,
    /// It is so in any case, or there is nothing to be set; and why.
    Idle(&'static str),
}

/// What Flux's flags mean here, by name without the dashes.
pub const FLAGS: &[(&str, Meaning)] = &[
    ("concurrent", Meaning::Same),
    ("requeue-dependency", Meaning::Same),
    ("min-retry-delay", Meaning::Same),
    ("max-retry-delay", Meaning::Same),
    ("interval-jitter-percentage", Meaning::Same),
    ("log-level", Meaning::Same),
    ("log-encoding", Meaning::Same),
    ("leader-election-lease-duration", Meaning::Same),
    ("leader-election-renew-deadline", Meaning::Same),
    ("leader-election-retry-period", Meaning::Same),
    ("enable-leader-election", Meaning::Switch),
    ("no-cross-namespace-refs", Meaning::Switch),
    ("default-service-account", Meaning::Same),
    ("watch-label-selector", Meaning::Same),
    ("watch-configs-label-selector", Meaning::Same),
    ("watch-all-namespaces", Meaning::AllNamespaces),
    ("feature-gates", Meaning::Gates),
    ("rate-limit-interval", Meaning::Same),
    ("artifact-retention-ttl", Meaning::Same),
    ("artifact-retention-records", Meaning::Same),
    ("artifact-digest-algo", Meaning::Same),
    ("helm-index-max-size", Meaning::Same),
    ("helm-chart-max-size", Meaning::Same),
    ("helm-chart-file-max-size", Meaning::Same),
    ("helm-cache-max-size", Meaning::Same),
    ("helm-cache-ttl", Meaning::Same),
    ("helm-cache-purge-interval", Meaning::Same),
    ("token-cache-max-size", Meaning::Same),
    ("token-cache-max-duration", Meaning::Same),
    ("ssh-kex-algos", Meaning::Same),
    ("ssh-hostkey-algos", Meaning::Same),
    ("storage-adv-addr", Meaning::Same),
    (
        "no-remote-bases",
        Meaning::Idle("remote bases are always refused"),
    ),
    (
        "leader-election-release-on-cancel",
        Meaning::Idle("the lease is always given back at the end"),
    ),
    (
        "events-addr",
        Meaning::Idle("notifications are sent by the same process"),
    ),
    (
        "kube-api-qps",
        Meaning::Idle("the API server's own answers set the pace"),
    ),
    (
        "kube-api-burst",
        Meaning::Idle("the API server's own answers set the pace"),
    ),
    (
        "concurrent-ssa",
        Meaning::Idle("the API server's own answers set the pace"),
    ),
    (
        "graceful-shutdown-timeout",
        Meaning::Idle("what is cut off at the end is taken up by the next process"),
    ),
    (
        "storage-path",
        Meaning::Idle("it is /data, where the volume is"),
    ),
    (
        "storage-addr",
        Meaning::Idle("the Service expects port 9090"),
    ),
    ("metrics-addr", Meaning::Idle("the port http-prom is 8080")),
    ("health-addr", Meaning::Idle("the probes expect port 9440")),
];

/// The features that can be switched here.
pub const FEATURE_GATES: &[&str] = &[
    "ObjectLevelWorkloadIdentity",
    "CacheSecretsAndConfigMaps",
    "AdditiveCELDependencyCheck",
    "CancelHealthCheckOnNewRevision",
    "DefaultToRetryOnFailure",
    "DirectSourceFetch",
    "DisableConfigWatchers",
    "DisableFailFastBehavior",
    "DisableStatusPollerCache",
    "ExternalArtifact",
    "GroupChangeLog",
    "MigrateAPIVersion",
    "StrictPostBuildSubstitutions",
];

/// What a flag means; `None` for one that has no counterpart.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    let known = FLAGS.iter().find(|(flag, _)| *flag == name);
    known.map(|(_, meaning)| *meaning)
}

/// The name and the value of an argument.
pub(super) fn parts(argument: &str) -> (&str, Option<&str>) {
    let bare = argument.trim_start_matches('-');
    match bare.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (bare, None),
    }
}
