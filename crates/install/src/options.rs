//! What can be chosen.

use std::collections::BTreeMap;

use everflow_json::{Value, json};

use crate::component::Component;
use crate::error::Error;
use crate::selector::LabelSelector;

/// What an installation is to be like.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The namespace of the controllers.
    pub namespace: String,
    /// Where the image is: the part before `/everflow`.
    pub registry: String,
    /// The tag of the image.
    pub tag: String,
    /// The whole image, in place of registry and tag; empty for those.
    pub image: String,
    /// The Secret with the credentials of the registry; empty for none.
    pub image_pull_secret: String,
    /// How many replicas there are; they share the work.
    pub replicas: u32,
    /// Which of Flux's controllers it stands for.
    pub components: Vec<Component>,
    /// Locks tenants down: no cluster-admin, and objects apply as service accounts of their namespaces.
    pub multitenant: bool,
    /// The service account of objects that name none, when tenants are locked down.
    pub default_service_account: String,
    /// A service account with cluster-admin in the namespace of the controllers, for the platform's own objects when
    /// tenants are locked down; empty for none.
    pub platform_admin: String,
    /// Makes network policies.
    pub network_policies: bool,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
    /// What is logged: debug, info or error.
    pub log_level: String,
    /// Watches all namespaces, or only that of the controllers.
    pub watch_all_namespaces: bool,
    /// Keys of taints that the pods tolerate.
    pub toleration_keys: Vec<String>,
    /// The times of the lease; the program's own when empty.
    pub lease: LeaseTimes,
    /// How many attempts run at once for each kind; the program's own number when empty.
    pub concurrent: Option<u32>,
    /// How long to wait for a dependency; the program's own when empty.
    pub requeue_dependency: String,
    /// The limit of memory of a pod.
    pub memory_limit: String,
    /// The limit of processors of a pod; empty for none.
    pub cpu_limit: String,
    /// What a pod is sure to get.
    pub memory_request: String,
    /// What a pod is sure to get.
    pub cpu_request: String,
    /// Makes a PodMonitor for the Prometheus operator.
    pub pod_monitor: bool,
    /// What the pods rather not share a node with: identity roots and other things that are there once.
    pub keep_apart_from: Vec<LabelSelector>,
    /// The priority class of the pods; empty for none.
    pub priority_class: String,
    /// Where the storage of a pod is, in place of the node's own.
    pub storage: Option<Storage>,
    /// Further Deployments for objects with a label.
    pub sharding: Option<Sharding>,
    /// Leaves away what OpenShift sets by itself.
    pub openshift: bool,
    /// Labels of all objects.
    pub labels: BTreeMap<String, String>,
    /// Annotations of all objects.
    pub annotations: BTreeMap<String, String>,
    /// Keeps the installation as the FluxInstance of its namespace says.
    pub flux_instance: bool,
    /// Further arguments of `everflow run`.
    pub extra_args: Vec<String>,
}

/// The times of the lease, in Go's spans; empty for the program's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long it holds.
    pub duration: String,
    /// How long it is renewed in vain before it is given up.
    pub renew_deadline: String,
    /// How often it is looked at.
    pub retry_period: String,
}

/// A volume of its own for each pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The storage class; empty for the cluster's default.
    pub class: String,
    /// How much.
    pub size: String,
}

/// Objects with a label go to Deployments of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharding {
    /// The key of the label.
    pub key: String,
    /// Its values, each with a Deployment.
    pub shards: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            namespace: "flux-system".into(),
            registry: "ghcr.io/everflow".into(),
            tag: crate::VERSION.into(),
            image: String::new(),
            image_pull_secret: String::new(),
            replicas: 2,
            components: Component::ALL.to_vec(),
            multitenant: false,
            default_service_account: "default".into(),
            platform_admin: String::new(),
            network_policies: true,
            cluster_domain: "cluster.local".into(),
            log_level: "info".into(),
            watch_all_namespaces: true,
            toleration_keys: Vec::new(),
            lease: LeaseTimes::default(),
            concurrent: None,
            requeue_dependency: String::new(),
            memory_limit: "1Gi".into(),
            cpu_limit: "1000m".into(),
            memory_request: "128Mi".into(),
            cpu_request: "100m".into(),
            pod_monitor: false,
            keep_apart_from: identity_roots(),
            priority_class: "system-cluster-critical".into(),
            storage: None,
            sharding: None,
            openshift: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            flux_instance: false,
            extra_args: Vec::new(),
        }
    }
}

/// How the pods of SPIRE servers are labelled, by its own manifests and by its charts.
fn identity_roots() -> Vec<LabelSelector> {
    let labels = [
        json!({"app": "spire-server"}),
        json!({"app.kubernetes.io/name": "spire-server"}),
        json!({"app.kubernetes.io/name": "server", "app.kubernetes.io/instance": "spire"}),
    ];
    labels
        .into_iter()
        .map(|labels| LabelSelector::of(json!({"matchLabels": labels})))
        .collect()
}

impl Options {
    /// The whole image.
    pub fn image(&self) -> String {
        match self.image.as_str() {
            "" => format!("{}/everflow:{}", self.registry, self.tag),
            image => image.to_owned(),
        }
    }

    /// Whether a controller of Flux is stood for.
    pub fn has(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    /// # Errors
    /// Names the option that makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        if !is_label(&self.namespace) {
            let why = format!("{:?} is not the name of a namespace", self.namespace);
            return Err(Error::option("--namespace", why));
        }
        if self.components.is_empty() {
            let why = "at least one controller is needed, such as source-controller";
            return Err(Error::option("--components", why));
        }
        if !["trace", "debug", "info", "error"].contains(&self.log_level.as_str()) {
            let why = format!("{:?} is not one of debug, info and error", self.log_level);
            return Err(Error::option("--log-level", why));
        }
        if self.replicas == 0 {
            return Err(Error::option("--replicas", "at least one is needed"));
        }
        let domain = &self.cluster_domain;
        if domain.is_empty() || !domain.trim_end_matches('.').split('.').all(is_label) {
            let why = format!("{domain:?} is not a domain such as cluster.local");
            return Err(Error::option("--cluster-domain", why));
        }
        self.lease.check()?;
        self.check_quantities()?;
        let span = &self.requeue_dependency;
        if !span.is_empty() && everflow_time::Duration::parse(span).is_err() {
            let why = format!("{span:?} is not a span of time such as 5s");
            return Err(Error::option("--requeue-dependency", why));
        }
        let shards = self.sharding.iter().flat_map(|sharding| &sharding.shards);
        for shard in shards {
            if !is_label(shard) {
                let why = format!("{shard:?} cannot be a part of a name");
                return Err(Error::option("shards", why));
            }
        }
        Ok(())
    }

    fn check_quantities(&self) -> Result<(), Error> {
        let quantities = [
            ("--memory-limit", self.memory_limit.as_str()),
            ("--memory-request", &self.memory_request),
            ("--cpu-limit", &self.cpu_limit),
            ("--cpu-request", &self.cpu_request),
        ];
        for (option, text) in quantities {
            if !text.is_empty() && crate::instance::quantity(text).is_none() {
                let why = format!("{text:?} is not a quantity such as 1Gi or 500m");
                return Err(Error::option(option, why));
            }
        }
        Ok(())
    }

    pub(crate) fn tolerations(&self) -> Vec<Value> {
        let keys = self.toleration_keys.iter();
        keys.map(|key| json!({"key": key, "operator": "Exists"}))
            .collect()
    }
}

/// The times of the lease that `everflow run` has by itself, in seconds: duration, renew deadline, retry period.
pub const OWN_LEASE_TIMES: [f64; 3] = [19.0, 15.0, 3.0];

impl LeaseTimes {
    /// The times among arguments of `everflow run`.
    pub(crate) fn of_args<'a>(args: impl Iterator<Item = &'a str>) -> Self {
        let mut times = LeaseTimes::default();
        for arg in args {
            match arg.split_once('=') {
                Some(("--leader-election-lease-duration", text)) => {
                    times.duration = text.to_owned()
                }
                Some(("--leader-election-renew-deadline", text)) => {
                    times.renew_deadline = text.to_owned()
                }
                Some(("--leader-election-retry-period", text)) => {
                    times.retry_period = text.to_owned()
                }
                _ => {}
            }
        }
        times
    }

    /// The same rule that `everflow run` ends at, known before anything is applied.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let times = [
            ("--leader-election-lease-duration", &self.duration),
            ("--leader-election-renew-deadline", &self.renew_deadline),
            ("--leader-election-retry-period", &self.retry_period),
        ];
        let mut seconds = OWN_LEASE_TIMES;
        for (place, (option, text)) in seconds.iter_mut().zip(times) {
            *place = match text.as_str() {
                "" => *place,
                text => match everflow_time::Duration::parse(text) {
                    Ok(span) => span.0 as f64 / 1e9,
                    Err(_) => {
                        let why = format!("{text:?} is not a span of time such as 35s");
                        return Err(Error::option(option, why));
                    }
                },
            };
        }
        let [duration, deadline, period] = seconds;
        if duration <= deadline {
            let why = "must be longer than the renew deadline";
            return Err(Error::option("--leader-election-lease-duration", why));
        }
        if deadline <= 1.2 * period {
            let why = "must be longer than 1.2 times the retry period";
            return Err(Error::option("--leader-election-renew-deadline", why));
        }
        Ok(())
    }
}

fn is_label(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty()
        && name.len() <= 63
        && name.chars().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
