//! The flags of `everflow install`: those of flux, and what it leaves to patches.

use everflow_install::{Component, Error, LabelSelector, LeaseTimes, Options};

use crate::flux::go_flags::go_bool;

/// What is installed, and how.
#[derive(clap::Args, Debug)]
pub struct Flags {
    /// Which of Flux's controllers to replace
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "source-controller,kustomize-controller,helm-controller,notification-controller"
    )]
    components: Vec<String>,
    /// Additional controllers of Flux to replace
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    components_extra: Vec<String>,
    /// Where the image is
    #[arg(long, value_name = "REGISTRY", default_value_t = Options::default().registry)]
    registry: String,
    /// The complete image reference with tag or digest, instead of --registry
    #[arg(long, value_name = "IMAGE", default_value = "")]
    image: String,
    /// The Secret with the credentials of the registry
    #[arg(long, value_name = "NAME", default_value = "")]
    pub image_pull_secret: String,
    /// The version to install; only that of this program is accepted
    #[arg(short = 'v', long, value_name = "VERSION", default_value = "")]
    version: String,
    /// The number of replicas; they share the work and take over from one that fails
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().replicas)]
    replicas: u32,
    /// Lock tenants down: objects are applied with service accounts of their own namespace, nothing as cluster-admin
    #[arg(long)]
    multitenant: bool,
    /// With --multitenant, the service account for objects that do not name one
    #[arg(long, value_name = "NAME", default_value_t = Options::default().default_service_account)]
    default_service_account: String,
    /// With --multitenant, create this service account as cluster-admin, for platform Kustomizations that name it
    #[arg(long, value_name = "NAME", default_value = "")]
    platform_admin: String,
    /// Create NetworkPolicies: allow everything within the namespace, and metrics and webhooks from outside
    #[arg(
        long, value_name = "BOOL", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = go_bool
    )]
    network_policy: bool,
    /// Watch all namespaces instead of only that of the installation
    #[arg(
        long, value_name = "BOOL", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = go_bool
    )]
    watch_all_namespaces: bool,
    /// The DNS domain of the cluster
    #[arg(long, value_name = "DOMAIN", default_value_t = Options::default().cluster_domain)]
    cluster_domain: String,
    /// The log level: debug, info or error
    #[arg(long, value_name = "LEVEL", default_value_t = Options::default().log_level)]
    log_level: String,
    /// Keys of taints that the pods tolerate
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    toleration_keys: Vec<String>,
    /// How long a lease is valid
    #[arg(long, value_name = "DURATION", default_value = "")]
    leader_election_lease_duration: String,
    /// How long to retry renewing a lease before giving it up
    #[arg(long, value_name = "DURATION", default_value = "")]
    leader_election_renew_deadline: String,
    /// How often a lease is checked and renewed
    #[arg(long, value_name = "DURATION", default_value = "")]
    leader_election_retry_period: String,
    /// Concurrent reconciles per kind
    #[arg(long, value_name = "COUNT")]
    concurrent: Option<u32>,
    /// How long to wait before checking a dependency again
    #[arg(long, value_name = "DURATION", default_value = "")]
    requeue_dependency: String,
    /// The memory limit of a pod
    #[arg(long, value_name = "QUANTITY", default_value_t = Options::default().memory_limit)]
    memory_limit: String,
    /// The CPU limit of a pod; empty for none
    #[arg(long, value_name = "QUANTITY", default_value_t = Options::default().cpu_limit)]
    cpu_limit: String,
    /// Keep the installation in line with the FluxInstance `flux` in its namespace, and write a FluxReport
    #[arg(long)]
    flux_instance: bool,
    /// Create a PodMonitor for the Prometheus operator
    #[arg(long)]
    pod_monitor: bool,
    /// Pods that ours should preferably not share a node with, such as app=spire-server; may be given several times,
    /// empty for none. Default: SPIRE servers
    #[arg(long, value_name = "SELECTOR")]
    spread_from: Option<Vec<String>>,
}

impl Flags {
    /// What is to be installed in a namespace.
    pub fn options(&self, namespace: &str) -> Result<Options, Error> {
        self.check_version()?;
        let names = self.components.iter().chain(&self.components_extra);
        let mut options = Options {
            namespace: namespace.to_owned(),
            registry: self.registry.trim_end_matches('/').to_owned(),
            image: self.image.clone(),
            image_pull_secret: self.image_pull_secret.clone(),
            replicas: self.replicas,
            components: Component::parse_all(names)?,
            multitenant: self.multitenant,
            default_service_account: self.default_service_account.clone(),
            platform_admin: self.platform_admin.clone(),
            network_policies: self.network_policy,
            cluster_domain: self.cluster_domain.clone(),
            log_level: self.log_level.clone(),
            watch_all_namespaces: self.watch_all_namespaces,
            toleration_keys: self.toleration_keys.clone(),
            lease: LeaseTimes {
                duration: self.leader_election_lease_duration.clone(),
                renew_deadline: self.leader_election_renew_deadline.clone(),
                retry_period: self.leader_election_retry_period.clone(),
            },
            concurrent: self.concurrent,
            requeue_dependency: self.requeue_dependency.clone(),
            memory_limit: self.memory_limit.clone(),
            cpu_limit: self.cpu_limit.clone(),
            flux_instance: self.flux_instance,
            pod_monitor: self.pod_monitor,
            ..Options::default()
        };
        if let Some(selectors) = &self.spread_from {
            let given = selectors.iter().filter(|text| !text.is_empty());
            let read = given.map(|text| LabelSelector::parse("--spread-from", text));
            options.keep_apart_from = read.collect::<Result<_, _>>()?;
        }
        Ok(options)
    }

    /// Manifests go with the program that makes them: those of another version are made by that version.
    fn check_version(&self) -> Result<(), Error> {
        let own = everflow_install::VERSION;
        let asked = self.version.trim_start_matches('v');
        if asked.is_empty() || asked == "latest" || asked == own.trim_start_matches('v') {
            return Ok(());
        }
        Err(Error::Option {
            option: "--version",
            why: format!(
                "this program installs its own version, {own}, not {}: leave the flag away, or name another image \
                 with --image",
                self.version
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use everflow_install::instance::{FEATURE_GATES, FLAGS, Meaning};
    use everflow_install::{Component, LeaseTimes, Options, Sharding, manifests};
    use everflow_json::Value;

    use crate::args::program;

    /// What the pods of an installation are started with.
    fn arguments(options: &Options) -> Vec<Vec<String>> {
        let objects = manifests(options).unwrap();
        let deployments = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment");
        let args = |object: &Value| {
            let args = &object["spec"]["template"]["spec"]["containers"][0]["args"];
            let args = args.as_array().unwrap().iter();
            args.map(|arg| arg.as_str().unwrap().to_owned()).collect()
        };
        deployments.map(args).collect()
    }

    fn parses(args: &[String]) {
        let words = std::iter::once("everflow").chain(args.iter().map(String::as_str));
        if let Err(error) = program().try_get_matches_from(words) {
            panic!("{args:?}: {error}");
        }
    }

    #[test]
    fn pods_are_started_with_flags_that_there_are() {
        let full = Options {
            multitenant: true,
            flux_instance: true,
            watch_all_namespaces: false,
            components: vec![Component::Source, Component::Notification],
            concurrent: Some(3),
            requeue_dependency: "5s".into(),
            lease: LeaseTimes {
                duration: "60s".into(),
                renew_deadline: "40s".into(),
                retry_period: "4s".into(),
            },
            sharding: Some(Sharding {
                key: "shard".into(),
                shards: vec!["one".into()],
            }),
            ..Options::default()
        };
        for options in [Options::default(), full] {
            for args in arguments(&options) {
                parses(&args);
            }
        }
    }

    #[test]
    fn kinds_of_components_are_those_of_the_controllers() {
        let names: Vec<&str> = Component::ALL
            .iter()
            .flat_map(|one| one.kinds())
            .copied()
            .collect();
        let mut kinds = everflow_controllers::ControllerKind::parse_list(&names.join(",")).unwrap();
        kinds.sort();
        assert_eq!(kinds, everflow_controllers::ControllerKind::ALL);
    }

    #[test]
    fn flags_of_flux_that_are_carried_over_are_there() {
        let program = program();
        let run = program.find_subcommand("run").unwrap();
        for (name, meaning) in FLAGS {
            let flag = run.get_arguments().find(|arg| arg.get_long() == Some(name));
            match meaning {
                Meaning::Same | Meaning::Gates => {
                    assert!(flag.unwrap().get_action().takes_values(), "{name}");
                }
                Meaning::Switch => assert!(!flag.unwrap().get_action().takes_values(), "{name}"),
                Meaning::AllNamespaces | Meaning::Idle(_) => {}
            }
        }
        let gates: Vec<String> = FEATURE_GATES
            .iter()
            .map(|gate| format!("{gate}=true"))
            .collect();
        let mut options = everflow_controllers::Options::default();
        options.gates.parse(&gates.join(",")).unwrap();
    }

    /// Names, defaults and short forms of the flags that flux has, as recorded.
    #[test]
    fn flags_of_flux_are_all_there() {
        let Some(directory) = everflow_corpus::find("flux/cli") else {
            return;
        };
        let text = std::fs::read_to_string(directory.join("commands.json")).unwrap();
        let recorded: Value = everflow_json::from_str(&text).unwrap();
        let commands = recorded
            .as_array()
            .or_else(|| recorded["commands"].as_array());
        let program = program();
        let mut seen = 0;
        for command in commands.unwrap() {
            let verb = match command["command"].as_str() {
                Some("flux install") => "install",
                Some("flux uninstall") => "uninstall",
                _ => continue,
            };
            let ours = program.find_subcommand(verb).unwrap();
            for flag in command["flags"].as_array().unwrap() {
                let name = flag["name"].as_str().unwrap();
                if name == "help" {
                    continue;
                }
                let found = ours
                    .get_arguments()
                    .find(|arg| arg.get_long() == Some(name));
                let found = found.unwrap_or_else(|| panic!("{verb} --{name}"));
                let short = found.get_short().map(String::from);
                assert_eq!(
                    short.as_deref(),
                    flag["shorthand"].as_str(),
                    "{verb} --{name}"
                );
                seen += 1;
                // The image is another.
                if name == "registry" {
                    continue;
                }
                let defaults = found.get_default_values().iter();
                let defaults: Vec<&str> = defaults.map(|value| value.to_str().unwrap()).collect();
                let wanted = flag["default"].as_str().unwrap().trim_matches(['[', ']']);
                assert_eq!(defaults.join(","), wanted, "{verb} --{name}");
            }
        }
        assert!(seen > 15, "{seen}");
    }
}
