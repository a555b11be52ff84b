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
    /// The cluster to run against; inside a cluster it is that one
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
    /// Only these kinds, separated by commas; all by default
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
    /// The address of artifacts that others are told
    #[arg(long, value_name = "ADDRESS", env = "STORAGE_ADV_ADDR")]
    pub storage_adv_addr: Option<String>,
    /// How long artifacts are kept that no status names
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub artifact_retention_ttl: Duration,
    /// How many artifacts of one source are kept
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub artifact_retention_records: usize,
    /// How many bytes all artifacts together may take; no bound by default
    #[arg(long, value_name = "BYTES")]
    pub storage_quota: Option<u64>,
    /// How many bytes the files of attempts under way may take together
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 30)]
    pub temporary_quota: u64,
    /// How many bytes of memory this process may use; by default what its control group or else the machine has
    #[arg(long, value_name = "BYTES")]
    pub memory_limit: Option<u64>,
    /// How many bytes of memory one build, template or archive may use; by default three eighths of --memory-limit,
    /// 512 MiB at most
    #[arg(long, value_name = "BYTES")]
    pub max_work_memory: Option<u64>,
    #[command(flatten)]
    pub build: BuildCounts,
    /// The digest of artifacts: sha256, sha384, sha512 or blake3
    #[arg(long, value_name = "NAME", default_value = "sha256")]
    pub artifact_digest_algo: String,
    /// How many attempts run at once for each kind
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub concurrent: usize,
    /// Where metrics are served, such as :8080
    #[arg(long, value_name = "ADDRESS", env = "METRICS_ADDR")]
    pub metrics_addr: Option<String>,
    /// Where health is served, such as :9440
    #[arg(long, value_name = "ADDRESS")]
    pub health_addr: Option<String>,
    /// Where events of other Flux controllers are taken: in a cluster the port of the artifacts, off outside one; empty
    /// for nowhere
    #[arg(long, value_name = "ADDRESS")]
    pub event_server_addr: Option<String>,
    /// Where webhooks are taken: :9292 in a cluster, off outside one; empty for nowhere
    #[arg(long, value_name = "ADDRESS")]
    pub receiver_addr: Option<String>,
    /// In this time the same event is sent once
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub rate_limit_interval: Duration,
    /// Notifications that could not be delivered within this time are given up
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub notification_max_age: Duration,
    /// Where events are posted to, such as http://notification-controller/: that one then sends notifications and takes
    /// webhooks, and this process does not
    #[arg(long, value_name = "URL", env = "EVENTS_ADDR")]
    pub events_addr: Option<String>,
    /// Tell each piece of news in an Event of its own, as Flux does; by default those of one attempt
    /// share one
    #[arg(long)]
    pub event_per_message: bool,
    /// Only objects with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub watch_label_selector: String,
    /// Only objects of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// ConfigMaps and Secrets whose changes are heeded at once
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "reconcile.fluxcd.io/watch=Enabled"
    )]
    pub watch_configs_label_selector: String,
    /// Refuse references to other namespaces
    #[arg(long)]
    pub no_cross_namespace_refs: bool,
    /// The service account of objects that name none
    #[arg(long, value_name = "NAME", default_value = "")]
    pub default_service_account: String,
    /// How long to wait for a dependency
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub requeue_dependency: Duration,
    /// The first pause after a failure
    #[arg(long, value_name = "DURATION", default_value = "750ms", value_parser = duration)]
    pub min_retry_delay: Duration,
    /// The longest pause after failures
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub max_retry_delay: Duration,
    /// By how much intervals are spread, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    pub interval_jitter_percentage: u8,
    /// How many bytes the files of one artifact may have together
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
    /// How many bytes the files of a chart and the charts in it may have together
    #[arg(long, value_name = "BYTES", default_value_t = 104_857_600)]
    pub helm_chart_max_unpacked_size: u64,
    /// How many files a chart and the charts in it may have together
    #[arg(long, value_name = "COUNT", default_value_t = 20_000)]
    pub helm_chart_max_files: u64,
    /// Of so many indexes of Helm repositories it is remembered what was found in them
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub helm_cache_max_size: usize,
    /// How long that is remembered
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub helm_cache_ttl: Duration,
    /// How often what is too old is looked for
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub helm_cache_purge_interval: Duration,
    /// How many tokens of GitHub Apps are kept
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub token_cache_max_size: usize,
    /// The longest time that a token is kept
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub token_cache_max_duration: Duration,
    /// SSH key exchanges to offer, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub ssh_kex_algos: Vec<String>,
    /// SSH host key algorithms to offer, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub ssh_hostkey_algos: Vec<String>,
    /// Who checks new objects before they are written: the server in a dry run, this program by the rules of Kubernetes,
    /// or (auto) the server wherever a webhook, an admission policy, a quota, a range of limits or a newer Kubernetes
    /// could judge otherwise, and this program elsewhere
    #[arg(long, value_name = "auto|server|local", default_value_t = PreflightChoice::Auto)]
    pub preflight: PreflightChoice,
    /// Take up actions on Helm releases that another process left in the middle
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub stuck_release_recovery: bool,
    /// How long nothing is heard of someone else at work on a Helm release before it is taken up
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub stuck_release_patience: Duration,
    /// Hold back Helm releases when more than so many would be remade at once and nothing in their specs
    /// asks for it; 0 never holds back
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub helm_guard_rail_most: usize,
    /// The same only when it is more than so many of a hundred
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    pub helm_guard_rail_percent: usize,
    /// Keep the installation as the FluxInstance flux of this process's namespace says, and write a FluxReport
    #[arg(long)]
    pub flux_instance: bool,
    /// Features to switch, as NAME=true,OTHER=false
    #[arg(long, value_name = "GATES", default_value = "")]
    pub feature_gates: String,
    /// A further address of the cluster's API servers, for when the kubeconfig's (inside a cluster: the Service's) does not
    /// work from here; may be given several times. The certificate there must be for the same name
    #[arg(long, value_name = "URL")]
    pub api_endpoint: Vec<String>,
    /// A file with addresses of the API servers, one ADDRESS:PORT on each line: the key "endpoints" of the ConfigMap
    /// everflow-api-endpoints, mounted. It may be missing
    #[arg(long, value_name = "FILE")]
    pub api_endpoints_file: Option<PathBuf>,
    /// Do not use the API servers' own addresses, which the cluster tells in the EndpointSlice default/kubernetes
    #[arg(long)]
    pub no_api_endpoint_discovery: bool,
    /// Work only on what this process holds a lease for: replicas share the work
    #[arg(long)]
    pub enable_leader_election: bool,
    /// Into how many parts the work is cut, each with a lease of its own; all replicas must have the same number. With 1,
    /// one replica leads and the others stand by
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 8,
        value_parser = shard_count,
        requires = "enable_leader_election"
    )]
    pub shards: usize,
    /// Where other replicas reach this one's artifacts; by default $POD_IP, the address of $HOSTNAME or the one that
    /// artifacts are served at
    #[arg(long, value_name = "ADDRESS", requires = "enable_leader_election")]
    pub peer_address: Option<String>,
    /// How long a lease holds: longer than the renew deadline
    #[arg(long, value_name = "DURATION", default_value = "19s", value_parser = duration)]
    pub leader_election_lease_duration: Duration,
    /// How long a lease is renewed in vain before it is given up: longer than 1.2 times the retry period
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub leader_election_renew_deadline: Duration,
    /// How often a lease is looked at
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    pub leader_election_retry_period: Duration,
    /// What is logged: trace, debug, info or error
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: Level,
    /// How it is logged: json or console
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
