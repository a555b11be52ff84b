//! The flags of `everflow run`: those of Flux's controllers.

use std::path::PathBuf;
use std::time::Duration;

use everflow_controllers::{GuardRail, Options, PreflightChoice};
use everflow_env::ThreadOptions;
use everflow_fetch::archive::Algorithm;
use everflow_fetch::storage::StorageOptions;
use everflow_runtime::lease::LeaseOptions;
use everflow_runtime::log::{Encoding, Level};
use everflow_runtime::shards::MOST_SHARDS;
use everflow_runtime::transport::ClusterConfig;

use crate::build_limits::BuildCounts;

/// The name of the process in its lease.
pub(crate) const CONTROLLER: &str = "source-controller";

/// `everflow run`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The cluster to run against; by default $KUBECONFIG, else the cluster that this program runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Reconcile only these kinds, separated by commas; all by default
    #[arg(long, value_name = "KINDS")]
    pub only: Option<String>,
    /// Where artifacts are kept
    #[arg(
        long,
        value_name = "DIR",
        env = "STORAGE_PATH",
        default_value = "/data"
    )]
    pub storage_path: PathBuf,
    /// Where artifacts are served: :9090 in a cluster, a free port of this machine outside one
    #[arg(long, value_name = "ADDRESS", env = "STORAGE_ADDRESS")]
    pub storage_addr: Option<String>,
    /// The address of artifacts that is written to statuses
    #[arg(long, value_name = "ADDRESS", env = "STORAGE_ADV_ADDR")]
    pub storage_adv_addr: Option<String>,
    /// How long artifacts are kept after no status references them
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub artifact_retention_ttl: Duration,
    /// How many artifacts of one source are kept
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub artifact_retention_records: usize,
    /// The total size of all artifacts; unlimited by default
    #[arg(long, value_name = "BYTES")]
    pub storage_quota: Option<u64>,
    /// The total size of the temporary files of running reconciles
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 30)]
    pub temporary_quota: u64,
    /// How much memory this process may use; by default the limit of its control group, or that of the machine
    #[arg(long, value_name = "BYTES")]
    pub memory_limit: Option<u64>,
    /// How much memory one build, template or archive may use; by default three eighths of --memory-limit, at most 512 MiB
    #[arg(long, value_name = "BYTES")]
    pub max_work_memory: Option<u64>,
    #[command(flatten)]
    pub build: BuildCounts,
    /// The digest algorithm of artifacts: sha256, sha384, sha512 or blake3
    #[arg(long, value_name = "NAME", default_value = "sha256")]
    pub artifact_digest_algo: String,
    /// Concurrent reconciles per kind
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub concurrent: usize,
    /// Where metrics are served, such as :8080; 0 turns them off
    #[arg(long, value_name = "ADDRESS", env = "METRICS_ADDR")]
    pub metrics_addr: Option<String>,
    /// Where health is served, such as :9440; 0 turns it off
    #[arg(long, value_name = "ADDRESS")]
    pub health_addr: Option<String>,
    /// Where events of other Flux controllers are received: in a cluster, the port of the artifacts; elsewhere, off by
    /// default; empty turns it off
    #[arg(long, value_name = "ADDRESS")]
    pub event_server_addr: Option<String>,
    /// Where webhooks are received: in a cluster, :9292; elsewhere, off by default; empty turns it off
    #[arg(long, value_name = "ADDRESS")]
    pub receiver_addr: Option<String>,
    /// The interval in which identical events are sent only once
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub rate_limit_interval: Duration,
    /// Notifications that could not be delivered within this time are dropped
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub notification_max_age: Duration,
    /// Where to post events, such as http://notification-controller/: that controller then sends notifications and
    /// receives webhooks instead of this process
    #[arg(long, value_name = "URL", env = "EVENTS_ADDR")]
    pub events_addr: Option<String>,
    /// Write one Event per message, as Flux does; by default, the messages of one reconcile share an Event
    #[arg(long)]
    pub event_per_message: bool,
    /// Reconcile only objects with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub watch_label_selector: String,
    /// Reconcile only objects in this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// ConfigMaps and Secrets whose changes trigger a reconcile at once
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "reconcile.fluxcd.io/watch=Enabled"
    )]
    pub watch_configs_label_selector: String,
    /// Refuse references to other namespaces
    #[arg(long)]
    pub no_cross_namespace_refs: bool,
    /// The service account for objects that do not name one
    #[arg(long, value_name = "NAME", default_value = "")]
    pub default_service_account: String,
    /// How long to wait before checking a dependency again
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub requeue_dependency: Duration,
    /// The backoff after the first failure
    #[arg(long, value_name = "DURATION", default_value = "750ms", value_parser = duration)]
    pub min_retry_delay: Duration,
    /// The longest backoff after failures
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub max_retry_delay: Duration,
    /// How much to spread intervals, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    pub interval_jitter_percentage: u8,
    /// The largest total size of the files in one artifact, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub artifact_max_size: u64,
    /// How many files and directories one artifact may have
    #[arg(long, value_name = "COUNT", default_value_t = 200_000)]
    pub artifact_max_entries: u64,
    /// The largest index of a Helm repository, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 52_428_800)]
    pub helm_index_max_size: u64,
    /// The largest chart, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 10_485_760)]
    pub helm_chart_max_size: u64,
    /// The largest file of a chart, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 5_242_880)]
    pub helm_chart_file_max_size: u64,
    /// The largest total size of the files in a chart and its subcharts, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 104_857_600)]
    pub helm_chart_max_unpacked_size: u64,
    /// How many files a chart and its subcharts may have in total
    #[arg(long, value_name = "COUNT", default_value_t = 20_000)]
    pub helm_chart_max_files: u64,
    /// How many Helm repository indexes to cache lookups for
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub helm_cache_max_size: usize,
    /// How long cached lookups are valid
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub helm_cache_ttl: Duration,
    /// How often expired cache entries are purged
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub helm_cache_purge_interval: Duration,
    /// How many GitHub App tokens to cache
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub token_cache_max_size: usize,
    /// How long a token may be cached
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub token_cache_max_duration: Duration,
    /// SSH key exchanges to offer, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub ssh_kex_algos: Vec<String>,
    /// SSH host key algorithms to offer, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub ssh_hostkey_algos: Vec<String>,
    /// Who checks new objects before they are written: server (a dry run), local (this program, by Kubernetes' rules),
    /// or auto: the server wherever a webhook, an admission policy, a quota, a LimitRange or a newer Kubernetes could
    /// decide differently, and this program elsewhere
    #[arg(long, value_name = "auto|server|local", default_value_t = PreflightChoice::Auto)]
    pub preflight: PreflightChoice,
    /// A field manager whose fields are taken over when objects are applied, and of releases where drift is put right, as if
    /// it were ours; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub override_manager: Vec<String>,
    /// The digest of Helm releases in their history: sha256. What was noted with another one is found again and noted anew
    #[arg(long, value_name = "NAME", default_value = "sha256", value_parser = ["sha256"])]
    pub snapshot_digest_algo: String,
    /// Continue Helm actions that another process left unfinished
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub stuck_release_recovery: bool,
    /// How long another process working on a Helm release must have been silent before its action is taken over
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub stuck_release_patience: Duration,
    /// Hold Helm releases back if more than this many would be changed at once without a change in their specs; 0 turns
    /// this off
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub helm_guard_rail_most: usize,
    /// Hold back only if that is also more than this percentage of all releases
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    pub helm_guard_rail_percent: usize,
    /// Keep the installation in line with the FluxInstance `flux` in this process's namespace, and write a FluxReport
    #[arg(long)]
    pub flux_instance: bool,
    /// Feature gates to set, as NAME=true,OTHER=false
    #[arg(long, value_name = "GATES", default_value = "")]
    pub feature_gates: String,
    /// Another address of the cluster's API servers, used if the kubeconfig's (inside a cluster, the Service's) does
    /// not work; may be given several times. Its certificate must be valid for the same name
    #[arg(long, value_name = "URL")]
    pub api_endpoint: Vec<String>,
    /// A file with addresses of the API servers, one ADDRESS:PORT per line: the mounted key "endpoints" of the
    /// ConfigMap everflow-api-endpoints. It may be missing
    #[arg(long, value_name = "FILE")]
    pub api_endpoints_file: Option<PathBuf>,
    /// Do not use the API servers' own addresses from the EndpointSlice default/kubernetes
    #[arg(long)]
    pub no_api_endpoint_discovery: bool,
    /// Reconcile only what this process holds a lease for, so that replicas share the work
    #[arg(long)]
    pub enable_leader_election: bool,
    /// The number of shards, each with its own lease; it must be the same for all replicas. With 1, one replica leads
    /// and the others stand by
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 8,
        value_parser = shard_count,
        requires = "enable_leader_election"
    )]
    pub shards: usize,
    /// Where other replicas reach this one's artifacts; by default $POD_IP, the address of $HOSTNAME, or the address
    /// artifacts are served at
    #[arg(long, value_name = "ADDRESS", requires = "enable_leader_election")]
    pub peer_address: Option<String>,
    /// How long a lease is valid; must exceed the renew deadline
    #[arg(long, value_name = "DURATION", default_value = "19s", value_parser = duration)]
    pub leader_election_lease_duration: Duration,
    /// How long to retry renewing a lease before giving it up; must exceed 1.2 times the retry period
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub leader_election_renew_deadline: Duration,
    /// How often a lease is checked and renewed
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    pub leader_election_retry_period: Duration,
    /// The log level: trace, debug, info or error
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: Level,
    /// The log format: json or console
    #[arg(long, value_name = "ENCODING", default_value = "json")]
    pub log_encoding: Encoding,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = everflow_time::Duration::parse(text);
    parsed
        .map(everflow_time::Duration::unsigned)
        .map_err(|error| error.to_string())
}

fn shard_count(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok();
    let count = count.filter(|count| (1..=MOST_SHARDS).contains(count));
    count.ok_or_else(|| format!("it must be a number from 1 to {MOST_SHARDS}"))
}

impl Args {
    /// The kubeconfig to use: that of the flag, else the first file that `$KUBECONFIG` names, as Flux's controllers
    /// look for it. Without one, the cluster that this program runs in is meant.
    pub(super) fn kubeconfig(&self) -> Option<PathBuf> {
        self.kubeconfig.clone().or_else(|| {
            let listed = std::env::var_os("KUBECONFIG")?;
            std::env::split_paths(&listed).find(|path| path.is_file())
        })
    }

    /// How the controllers run.
    pub fn options(&self) -> Result<Options, String> {
        let mut options = Options {
            concurrent: self.concurrent.max(1),
            artifact_max_size: self.artifact_max_size,
            artifact_max_entries: self.artifact_max_entries,
            helm_index_max_size: self.helm_index_max_size,
            helm_chart_max_size: self.helm_chart_max_size,
            helm_chart_file_max_size: self.helm_chart_file_max_size,
            helm_chart_max_unpacked_size: self.helm_chart_max_unpacked_size,
            helm_chart_max_files: self.helm_chart_max_files,
            helm_cache_max_size: self.helm_cache_max_size,
            helm_cache_ttl: self.helm_cache_ttl,
            helm_cache_purge_interval: self.helm_cache_purge_interval,
            token_cache_max_size: self.token_cache_max_size,
            token_cache_max_duration: self.token_cache_max_duration,
            ssh_kex_algos: self.ssh_kex_algos.clone(),
            ssh_hostkey_algos: self.ssh_hostkey_algos.clone(),
            ..Options::default()
        };
        options.kustomize.concurrent = options.concurrent;
        options.kustomize.build_limits = self.build.limits();
        options.kustomize.preflight = self.preflight;
        options.kustomize.override_managers = self.override_manager.clone();
        options.helm.concurrent = options.concurrent;
        options.helm.stuck_release_recovery = self.stuck_release_recovery;
        options.helm.foreign_patience = self.stuck_release_patience;
        options.helm.guard = GuardRail {
            enabled: self.helm_guard_rail_most > 0,
            most: self.helm_guard_rail_most,
            percent: self.helm_guard_rail_percent,
        };
        let gates = options.gates.parse(&self.feature_gates);
        gates.map_err(|error| format!("--feature-gates: {error}"))?;
        let runtime = &mut options.runtime;
        runtime.watch_label_selector = self.watch_label_selector.clone();
        runtime.watch_configs_label_selector = self.watch_configs_label_selector.clone();
        runtime.watch_namespace = self.watch_namespace.clone();
        runtime.no_cross_namespace_refs = self.no_cross_namespace_refs;
        runtime.default_service_account = self.default_service_account.clone();
        runtime.requeue_dependency = self.requeue_dependency;
        runtime.min_retry_delay = self.min_retry_delay;
        runtime.max_retry_delay = self.max_retry_delay;
        runtime.interval_jitter_percentage = self.interval_jitter_percentage;
        runtime.concurrency = runtime.concurrency.max(self.concurrent);
        // What is cut off then is found and finished by the next process, as after a crash.
        // Those who wait for our leases have them within a second.
        runtime.stop_grace = Duration::from_millis(if self.enable_leader_election {
            700
        } else {
            1_000
        });
        Ok(options)
    }

    /// What blocking work may use.
    pub fn threads(&self) -> ThreadOptions {
        let mut threads =
            ThreadOptions::for_memory(self.memory_limit.or_else(everflow_env::memory::limit));
        if let Some(share) = self.max_work_memory {
            threads.share = share;
        }
        threads
    }

    /// How artifacts are stored.
    pub fn storage_options(&self, advertised: String) -> Result<StorageOptions, String> {
        let algorithm = Algorithm::parse(&self.artifact_digest_algo);
        Ok(StorageOptions {
            advertised,
            retention: self.artifact_retention_ttl,
            records: self.artifact_retention_records,
            quota: self.storage_quota.unwrap_or(u64::MAX),
            algorithm: algorithm.map_err(|error| format!("--artifact-digest-algo: {error}"))?,
        })
    }

    /// How leadership is held.
    pub fn lease(&self, namespace: &str, selector: &str, instance: String) -> LeaseOptions {
        LeaseOptions {
            duration: self.leader_election_lease_duration,
            renew_deadline: self.leader_election_renew_deadline,
            retry_period: self.leader_election_retry_period,
            ..LeaseOptions::new(namespace, CONTROLLER, selector, instance)
        }
    }

    /// The namespace that this process keeps its own things in.
    pub fn own_namespace(&self, config: &ClusterConfig) -> String {
        std::env::var("RUNTIME_NAMESPACE").unwrap_or_else(|_| config.namespace.clone())
    }

    /// What this process is called: the name of its pod, or one of its own.
    pub fn instance(&self) -> String {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "everflow".to_owned());
        let mut bytes = [0; 8];
        // Without chance the process id must do.
        let own = match getrandom::fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => u64::from(std::process::id()),
        };
        format!("{host}_{own:016x}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    #[test]
    fn lease_times_are_those_that_an_installation_is_checked_by() {
        let mut program = crate::args::program();
        program.build();
        let run = program.find_subcommand("run").unwrap();
        let names = ["lease-duration", "renew-deadline", "retry-period"];
        for (name, own) in names.into_iter().zip(everflow_install::OWN_LEASE_TIMES) {
            let name = format!("leader-election-{name}");
            let mut arguments = run.get_arguments();
            let argument = arguments.find(|argument| argument.get_long() == Some(&name));
            let default = argument.unwrap().get_default_values()[0].to_str().unwrap();
            let span = everflow_time::Duration::parse(default).unwrap();
            assert_eq!(span.0 as f64 / 1e9, own, "{name}");
        }
    }
}
