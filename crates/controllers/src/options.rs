//! How controllers run: what Flux's controllers have as flags.

use std::time::Duration;

use everflow_apply::preflight::PreflightChoice;
use everflow_fetch::archive::{Limits, artifact_limits};
use everflow_fetch::helm::HelmLimits;
use everflow_kustomize::Limits as BuildLimits;
use everflow_time::Timestamp;

use crate::{Error, RemoteClusters};

/// How controllers run.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What all controllers share.
    pub runtime: everflow_runtime::Options,
    /// How many attempts run at once for each kind of source. Flux's default is 2; attempts here
    /// hold no thread while they wait, so more of them cost nothing.
    pub concurrent: usize,
    /// How many bytes the files of one artifact may have together.
    pub artifact_max_size: u64,
    /// How many files and directories one artifact may have.
    pub artifact_max_entries: u64,
    /// The largest index of a Helm repository, in bytes.
    pub helm_index_max_size: u64,
    /// The largest chart, in bytes.
    pub helm_chart_max_size: u64,
    /// The largest file in a chart, in bytes.
    pub helm_chart_file_max_size: u64,
    /// How many bytes the files of a chart and the charts in it may have together.
    pub helm_chart_max_unpacked_size: u64,
    /// How many files a chart and the charts in it may have together.
    pub helm_chart_max_files: u64,
    /// Of so many indexes of Helm repositories it is remembered what was found in them; of none
    /// when 0.
    pub helm_cache_max_size: usize,
    /// How long that is remembered.
    pub helm_cache_ttl: Duration,
    /// How often what is too old is looked for.
    pub helm_cache_purge_interval: Duration,
    /// So many tokens of GitHub Apps are kept; none when 0.
    pub token_cache_max_size: usize,
    /// The longest time that a token is kept.
    pub token_cache_max_duration: Duration,
    /// Names of SSH key exchanges to offer; the usual ones when empty.
    pub ssh_kex_algos: Vec<String>,
    /// Names of SSH host key algorithms to offer; the usual ones when empty.
    pub ssh_hostkey_algos: Vec<String>,
    /// Features that are off or on by default.
    pub gates: FeatureGates,
    /// What is for Kustomizations only.
    pub kustomize: KustomizeOptions,
    /// What is for HelmReleases only.
    pub helm: HelmOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            runtime: everflow_runtime::Options::default(),
            concurrent: 8,
            artifact_max_size: 1 << 30,
            artifact_max_entries: 200_000,
            helm_index_max_size: 52_428_800,
            helm_chart_max_size: 10_485_760,
            helm_chart_file_max_size: 5_242_880,
            helm_chart_max_unpacked_size: 104_857_600,
            helm_chart_max_files: 20_000,
            helm_cache_max_size: 0,
            helm_cache_ttl: Duration::from_secs(900),
            helm_cache_purge_interval: Duration::from_secs(60),
            token_cache_max_size: 100,
            token_cache_max_duration: Duration::from_secs(3_600),
            ssh_kex_algos: Vec::new(),
            ssh_hostkey_algos: Vec::new(),
            gates: FeatureGates::default(),
            kustomize: KustomizeOptions::default(),
            helm: HelmOptions::default(),
        }
    }
}

impl Options {
    /// What an artifact may hold.
    pub(crate) fn artifact_limits(&self) -> Limits {
        artifact_limits(self.artifact_max_size, self.artifact_max_entries)
    }

    /// What indexes and charts may weigh.
    pub(crate) fn helm_limits(&self) -> HelmLimits {
        HelmLimits {
            index: self.helm_index_max_size,
            chart: self.helm_chart_max_size,
            file: self.helm_chart_file_max_size,
            unpacked: self.helm_chart_max_unpacked_size,
            files: self.helm_chart_max_files,
        }
    }
}

/// What is for Kustomizations only.
#[derive(Debug, Clone, PartialEq)]
pub struct KustomizeOptions {
    /// How many attempts run at once.
    pub concurrent: usize,
    /// How many objects of one Kustomization are applied at once.
    pub concurrent_ssa: usize,
    /// How much one build may go over.
    pub build_limits: BuildLimits,
    /// Whether bases in other repositories are refused.
    pub no_remote_bases: bool,
    /// How often the download of an artifact is tried.
    pub http_retry: u32,
    /// A Secret with age keys for all Kustomizations that name none.
    pub sops_age_secret: String,
    /// Whose fields are taken over, beside kubectl's.
    pub override_managers: Vec<String>,
    /// Who checks new objects before a stage is written. By default it is the local check, which is right for the
    /// embedded server: it has the very rules that are checked. `everflow run` chooses by the cluster.
    pub preflight: PreflightChoice,
    /// Kinds that are applied in a stage of their own.
    pub custom_apply_stage_kinds: Vec<String>,
    /// Whether kubeconfigs may run programs.
    pub insecure_kubeconfig_exec: bool,
    /// Whether kubeconfigs may trust anyone.
    pub insecure_kubeconfig_tls: bool,
    /// Which other clusters kubeconfigs may lead to.
    pub remote_clusters: RemoteClusters,
    /// Whether applied objects are watched, so that drift is corrected at once and not only at the
    /// interval.
    pub watch_applied: bool,
    /// Whether placeholders stand for what cannot be decrypted because the Secret with the keys is
    /// not there, and for variables of ConfigMaps and Secrets that are not there.
    pub placeholders: bool,
    /// Whether builds go on without what kustomizations name on other machines.
    pub without_remote: bool,
    /// Whether objects of versions that are not served any more are applied as those of today.
    pub as_served: bool,
    /// Whether nobody in the cluster runs the controllers of other kinds: then neither what they say
    /// in a status is waited for, nor objects that only they make.
    pub alone: bool,
}

impl Default for KustomizeOptions {
    fn default() -> Self {
        KustomizeOptions {
            concurrent: 8,
            concurrent_ssa: 4,
            build_limits: BuildLimits::default(),
            no_remote_bases: false,
            http_retry: 9,
            sops_age_secret: String::new(),
            override_managers: Vec::new(),
            preflight: PreflightChoice::Local,
            custom_apply_stage_kinds: Vec::new(),
            insecure_kubeconfig_exec: false,
            insecure_kubeconfig_tls: false,
            remote_clusters: RemoteClusters::Allowed,
            watch_applied: true,
            placeholders: false,
            without_remote: false,
            as_served: false,
            alone: false,
        }
    }
}

/// What is for HelmReleases only.
#[derive(Debug, Clone, PartialEq)]
pub struct HelmOptions {
    /// How many attempts run at once.
    pub concurrent: usize,
    /// Whether actions that another process left in the middle are taken up.
    pub stuck_release_recovery: bool,
    /// How long nothing must have been written by someone who makes no notes, as the helm CLI, before what it
    /// was doing is taken up.
    pub foreign_patience: Duration,
    /// When too many releases would be remade at once.
    pub guard: GuardRail,
    /// Whether objects of releases are watched where drift is looked for.
    pub watch_applied: bool,
    /// The moment that charts see, where all runs are to render the same: each release then has random values
    /// of its own that are the same in each run.
    pub rendered_as_of: Option<Timestamp>,
}

impl Default for HelmOptions {
    fn default() -> Self {
        HelmOptions {
            concurrent: 8,
            stuck_release_recovery: true,
            foreign_patience: Duration::from_secs(900),
            guard: GuardRail::default(),
            watch_applied: true,
            rendered_as_of: None,
        }
    }
}

/// When releases are reinstalled, put right or uninstalled one by one although nothing in their specs asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardRail {
    /// Whether it is on.
    pub enabled: bool,
    /// When it is more than so many at once,
    pub most: usize,
    /// and more than so many in a hundred.
    pub percent: usize,
}

impl Default for GuardRail {
    fn default() -> Self {
        GuardRail {
            enabled: true,
            most: 10,
            percent: 50,
        }
    }
}

macro_rules! gates {
    ($($(#[doc = $doc:literal])+ $field:ident $name:literal = $default:literal,)*) => {
        /// Features that are off or on by default, with Flux's names.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct FeatureGates {
            $($(#[doc = $doc])+ pub $field: bool,)*
        }

        impl Default for FeatureGates {
            fn default() -> Self {
                FeatureGates { $($field: $default,)* }
            }
        }

        impl FeatureGates {
            const NAMES: &'static [&'static str] = &[$($name,)*];

            fn set(&mut self, name: &str, on: bool) -> bool {
                match name {
                    $($name => self.$field = on,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

gates! {
    /// Service accounts of objects may sign in at clouds.
    object_level_workload_identity "ObjectLevelWorkloadIdentity" = false,
    /// Secrets and ConfigMaps are kept in memory.
    cache_secrets_and_config_maps "CacheSecretsAndConfigMaps" = false,
    /// `readyExpr` is asked beside the usual check, not instead of it.
    additive_cel_dependency_check "AdditiveCELDependencyCheck" = false,
    /// A new revision ends a health check.
    cancel_health_check_on_new_revision "CancelHealthCheckOnNewRevision" = false,
    /// Failed installs and upgrades without a strategy are tried again and not put right.
    default_to_retry_on_failure "DefaultToRetryOnFailure" = false,
    /// Sources are read from the server, not from memory.
    direct_source_fetch "DirectSourceFetch" = false,
    /// The version of a chart from an OCIRepository or ExternalArtifact does not hold its digest.
    disable_chart_digest_tracking "DisableChartDigestTracking" = false,
    /// Changes of ConfigMaps and Secrets are not heeded at once.
    disable_config_watchers "DisableConfigWatchers" = false,
    /// Health checks wait for all objects even when one has failed.
    disable_fail_fast_behavior "DisableFailFastBehavior" = false,
    /// Health checks read from the server.
    disable_status_poller_cache "DisableStatusPollerCache" = true,
    /// Kustomizations may build on ExternalArtifacts.
    external_artifact "ExternalArtifact" = false,
    /// Changes are told in groups.
    group_change_log "GroupChangeLog" = false,
    /// Applied objects move to the newest version of their API.
    migrate_api_version "MigrateAPIVersion" = false,
    /// A variable that is not set and has no default is an error.
    strict_post_build_substitutions "StrictPostBuildSubstitutions" = true,
    /// HelmReleases that say nothing else are released as Helm 3 did: merged by the client, waited for by its rules, and
    /// without post-rendered hooks.
    use_helm_3_defaults "UseHelm3Defaults" = false,
}

/// Gates that Flux knows and that have no effect there any more, or are about a way of working that is not ours: memory is
/// bounded by limits on each piece of work, not by a watch that ends the process.
const WITHOUT_EFFECT: [&str; 4] = [
    "AdoptLegacyReleases",
    "CorrectDrift",
    "DetectDrift",
    "OOMWatch",
];

impl FeatureGates {
    /// Sets gates from text of the form `NAME=true,OTHER=false`.
    ///
    /// # Errors
    /// A gate that is not known, or one without a value.
    pub fn parse(&mut self, text: &str) -> Result<(), Error> {
        for gate in text
            .split(',')
            .map(str::trim)
            .filter(|gate| !gate.is_empty())
        {
            let value = |text: &str| match text {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            };
            let (name, on) = gate
                .split_once('=')
                .and_then(|(name, text)| Some((name, value(text)?)))
                .ok_or_else(|| Error::GateValue {
                    text: gate.to_owned(),
                })?;
            if !self.set(name, on) && !WITHOUT_EFFECT.contains(&name) {
                return Err(Error::UnknownGate {
                    name: name.to_owned(),
                    known: Self::NAMES.join(", "),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_set_by_name() {
        let mut gates = FeatureGates::default();
        gates
            .parse("ExternalArtifact=true, OOMWatch=true, StrictPostBuildSubstitutions=false")
            .unwrap();
        assert!(gates.external_artifact && !gates.strict_post_build_substitutions);
        assert_eq!(
            gates.parse("Nope=true").unwrap_err().reason(),
            "UnknownGate"
        );
        assert_eq!(
            gates.parse("ExternalArtifact").unwrap_err().reason(),
            "GateValue"
        );
    }
}
