//! The cells of tables, kind by kind.

use serde_json::Value;

use super::table::{age, human_duration};
use crate::kinds::meta;
use crate::time::Timestamp;

/// The cells of an object in its stored form; `None` for kinds without columns of their own.
pub fn of(group: &str, plural: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let row = Row { object, now };
    Some(match (group, plural) {
        ("", "configmaps") => vec![
            row.name(),
            (row.count("/data") + row.count("/binaryData")).into(),
            row.age(),
        ],
        ("", "secrets") => vec![
            row.name(),
            row.text("/type"),
            row.count("/data").into(),
            row.age(),
        ],
        ("", "namespaces") => vec![row.name(), row.text("/status/phase"), row.age()],
        ("", "serviceaccounts") => vec![row.name(), row.age()],
        ("", "pods") => pod(&row),
        ("", "nodes") => node(&row),
        ("", "services") => service(&row),
        ("", "endpoints") => vec![row.name(), endpoints(object).into(), row.age()],
        ("", "events") | ("events.k8s.io", "events") => event(&row),
        ("", "persistentvolumes") => volume(&row),
        ("", "persistentvolumeclaims") => claim(&row),
        ("", "podtemplates") => {
            let (names, images) = containers(object.pointer("/template/spec"));
            vec![
                row.name(),
                names,
                images,
                labels(object.pointer("/template/metadata/labels")).into(),
            ]
        }
        ("", "replicationcontrollers") => row.replicas(labels(object.pointer("/spec/selector"))),
        ("", "resourcequotas") => quota(&row),
        ("apps", "deployments") => deployment(&row),
        ("apps", "replicasets") => row.replicas(selector(object.pointer("/spec/selector"))),
        ("apps", "daemonsets") => daemon_set(&row),
        ("apps", "statefulsets") => {
            let (names, images) = containers(object.pointer("/spec/template/spec"));
            vec![
                row.name(),
                format!(
                    "{}/{}",
                    row.number("/status/readyReplicas"),
                    row.number("/spec/replicas")
                )
                .into(),
                row.age(),
                names,
                images,
            ]
        }
        ("apps", "controllerrevisions") => vec![
            row.name(),
            controller(object).into(),
            row.number("/revision").into(),
            row.age(),
        ],
        ("batch", "jobs") => job(&row),
        ("batch", "cronjobs") => cron_job(&row),
        ("autoscaling", "horizontalpodautoscalers") => autoscaler(&row),
        ("networking.k8s.io", "ingresses") => ingress(&row),
        ("networking.k8s.io", "ingressclasses") => vec![
            row.name(),
            row.text("/spec/controller"),
            parameters(object).into(),
            row.age(),
        ],
        ("networking.k8s.io", "networkpolicies") => vec![
            row.name(),
            selector(object.pointer("/spec/podSelector")).into(),
            row.age(),
        ],
        ("policy", "poddisruptionbudgets") => vec![
            row.name(),
            row.or_not_available("/spec/minAvailable"),
            row.or_not_available("/spec/maxUnavailable"),
            row.number("/status/disruptionsAllowed").into(),
            row.age(),
        ],
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(&row),
        ("coordination.k8s.io", "leases") => {
            vec![row.name(), row.text("/spec/holderIdentity"), row.age()]
        }
        ("discovery.k8s.io", "endpointslices") => endpoint_slice(&row),
        ("storage.k8s.io", "storageclasses") => storage_class(&row),
        ("storage.k8s.io", "csidrivers") => csi_driver(&row),
        ("apiregistration.k8s.io", "apiservices") => api_service(&row),
        ("scheduling.k8s.io", "priorityclasses") => vec![
            row.name(),
            row.number("/value").into(),
            row.flag("/globalDefault").into(),
            row.age(),
            row.text("/preemptionPolicy"),
        ],
        ("node.k8s.io", "runtimeclasses") => vec![row.name(), row.text("/handler"), row.age()],
        ("certificates.k8s.io", "certificatesigningrequests") => signing_request(&row),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => vec![row.name(), row.count("/webhooks").into(), row.age()],
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            let params = match (
                object.pointer("/spec/paramKind/apiVersion"),
                object.pointer("/spec/paramKind/kind"),
            ) {
                (Some(version), Some(kind)) => format!(
                    "{}/{}",
                    version.as_str().unwrap_or_default(),
                    kind.as_str().unwrap_or_default()
                ),
                _ => "<unset>".to_owned(),
            };
            vec![
                row.name(),
                row.count("/spec/validations").into(),
                params.into(),
                row.age(),
            ]
        }
        _ => return None,
    })
}

struct Row<'o> {
    object: &'o Value,
    now: Timestamp,
}

impl Row<'_> {
    fn name(&self) -> Value {
        meta::text(self.object, "name").into()
    }

    fn str(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn text(&self, pointer: &str) -> Value {
        self.str(pointer).into()
    }

    fn text_or(&self, pointer: &str, missing: &str) -> Value {
        let found = self.str(pointer);
        if found.is_empty() {
            missing.into()
        } else {
            found.into()
        }
    }

    fn number(&self, pointer: &str) -> i64 {
        self.object
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    fn flag(&self, pointer: &str) -> bool {
        self.object
            .pointer(pointer)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    fn count(&self, pointer: &str) -> usize {
        match self.object.pointer(pointer) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.object
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    fn age(&self) -> Value {
        age(meta::text(self.object, "creationTimestamp"), self.now).into()
    }

    fn or_not_available(&self, pointer: &str) -> Value {
        match self.object.pointer(pointer) {
            Some(Value::String(text)) => text.as_str().into(),
            Some(Value::Number(number)) => number.to_string().into(),
            _ => "N/A".into(),
        }
    }

    fn replicas(&self, selector: String) -> Vec<Value> {
        let (names, images) = containers(self.object.pointer("/spec/template/spec"));
        vec![
            self.name(),
            self.number("/spec/replicas").into(),
            self.number("/status/replicas").into(),
            self.number("/status/readyReplicas").into(),
            self.age(),
            names,
            images,
            selector.into(),
        ]
    }
}

fn containers(spec: Option<&Value>) -> (Value, Value) {
    let list = spec
        .and_then(|spec| spec.get("containers"))
        .and_then(Value::as_array)
        .map_or(&[] as &[Value], Vec::as_slice);
    let join = |key: &str| {
        list.iter()
            .map(|container| {
                container
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            })
            .collect::<Vec<_>>()
            .join(",")
    };
    (join("name").into(), join("image").into())
}

fn labels(map: Option<&Value>) -> String {
    let pairs: Vec<String> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}

fn selector(selector: Option<&Value>) -> String {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in selector
        .and_then(|all| all.get("matchLabels"))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        pairs.push((
            key.clone(),
            format!("{key}={}", value.as_str().unwrap_or_default()),
        ));
    }
    for expression in selector
        .and_then(|all| all.get("matchExpressions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression
            .get("key")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let text = match expression
            .get("operator")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        pairs.push((key.to_owned(), text));
    }
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(",")
    }
}

fn controller(object: &Value) -> String {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let owner = owners
        .into_iter()
        .flatten()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    owner.map_or("<none>".to_owned(), |owner| {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, _) = crate::resource::split_version(text("apiVersion"));
        let kind = text("kind").to_lowercase();
        let kind = if group.is_empty() {
            kind
        } else {
            format!("{kind}.{group}")
        };
        format!("{kind}/{}", text("name"))
    })
}

fn deployment(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = containers(row.object.pointer("/spec/template/spec"));
    let ready = format!(
        "{}/{}",
        row.number("/status/readyReplicas"),
        row.number("/spec/replicas")
    );
    vec![
        row.name(),
        ready.into(),
        row.number("/status/updatedReplicas").into(),
        row.number("/status/availableReplicas").into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/selector")).into(),
    ]
}

fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = containers(row.object.pointer("/spec/template/spec"));
    let mut cells = vec![row.name()];
    for key in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ] {
        cells.push(row.number(&format!("/status/{key}")).into());
    }
    cells.extend([
        labels(row.object.pointer("/spec/template/spec/nodeSelector")).into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/selector")).into(),
    ]);
    cells
}

fn job(row: &Row<'_>) -> Vec<Value> {
    let done = row.number("/status/succeeded");
    let completions = match row
        .object
        .pointer("/spec/completions")
        .and_then(Value::as_i64)
    {
        Some(wanted) => format!("{done}/{wanted}"),
        None if row.number("/spec/parallelism") > 1 => {
            format!("{done}/1 of {}", row.number("/spec/parallelism"))
        }
        None => format!("{done}/1"),
    };
    let started = Timestamp::parse(row.str("/status/startTime"));
    let ended = Timestamp::parse(row.str("/status/completionTime"));
    let duration = started.map_or(String::new(), |started| {
        human_duration(ended.unwrap_or(row.now).seconds() - started.seconds())
    });
    let has = |kind: &str| {
        row.list("/status/conditions").iter().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(kind)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    };
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if meta::is_terminating(row.object) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let (names, images) = containers(row.object.pointer("/spec/template/spec"));
    vec![
        row.name(),
        status.into(),
        completions.into(),
        duration.into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/selector")).into(),
    ]
}

fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = containers(row.object.pointer("/spec/jobTemplate/spec/template/spec"));
    let last = row.str("/status/lastScheduleTime");
    let last = if last.is_empty() {
        "<none>".to_owned()
    } else {
        age(last, row.now)
    };
    let suspend = if row.flag("/spec/suspend") {
        "True"
    } else {
        "False"
    };
    vec![
        row.name(),
        row.text("/spec/schedule"),
        row.text_or("/spec/timeZone", "<none>"),
        suspend.into(),
        row.count("/status/active").into(),
        last.into(),
        row.age(),
        names,
        images,
        selector(row.object.pointer("/spec/jobTemplate/spec/selector")).into(),
    ]
}

fn node(row: &Row<'_>) -> Vec<Value> {
    let ready = row
        .list("/status/conditions")
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"));
    let mut status = match ready {
        Some(condition) if condition.get("status").and_then(Value::as_str) == Some("True") => {
            "Ready".to_owned()
        }
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if row.flag("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<String> = Vec::new();
    for (key, value) in row
        .object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role.to_owned()),
            _ if key == "kubernetes.io/role" => {
                roles.push(value.as_str().unwrap_or_default().to_owned())
            }
            _ => {}
        }
    }
    roles.sort();
    roles.dedup();
    let roles = if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    };
    let address = |kind: &str| {
        row.list("/status/addresses")
            .iter()
            .find(|entry| entry.get("type").and_then(Value::as_str) == Some(kind))
            .and_then(|entry| entry.get("address"))
            .and_then(Value::as_str)
            .unwrap_or("<none>")
            .to_owned()
    };
    let kernel = match (
        row.text_or("/status/nodeInfo/kernelVersion", "<unknown>"),
        row.str("/status/nodeInfo/architecture"),
    ) {
        (kernel, "") => kernel,
        (kernel, architecture) => {
            format!("{} ({architecture})", kernel.as_str().unwrap_or_default()).into()
        }
    };
    vec![
        row.name(),
        status.into(),
        roles.into(),
        row.age(),
        row.text("/status/nodeInfo/kubeletVersion"),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        row.text_or("/status/nodeInfo/osImage", "<unknown>"),
        kernel,
        row.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>"),
    ]
}

fn service(row: &Row<'_>) -> Vec<Value> {
    let external: Vec<&str> = row
        .list("/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let balanced: Vec<&str> = row
        .list("/status/loadBalancer/ingress")
        .iter()
        .filter_map(|entry| {
            entry
                .get("ip")
                .or(entry.get("hostname"))
                .and_then(Value::as_str)
        })
        .collect();
    let shown = match row.str("/spec/type") {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" if external.is_empty() && balanced.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => balanced
            .iter()
            .chain(&external)
            .copied()
            .collect::<Vec<_>>()
            .join(","),
        "ExternalName" => row.str("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = row
        .list("/spec/ports")
        .iter()
        .map(|port| {
            let number = |key: &str| port.get(key).and_then(Value::as_i64).unwrap_or_default();
            let protocol = port
                .get("protocol")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if number("nodePort") > 0 {
                format!("{}:{}/{protocol}", number("port"), number("nodePort"))
            } else {
                format!("{}/{protocol}", number("port"))
            }
        })
        .collect();
    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };
    vec![
        row.name(),
        row.text("/spec/type"),
        row.text_or("/spec/clusterIP", "<none>"),
        shown.into(),
        ports.into(),
        row.age(),
        labels(row.object.pointer("/spec/selector")).into(),
    ]
}

fn endpoints(object: &Value) -> String {
    let mut list: Vec<String> = Vec::new();
    for subset in object
        .get("subsets")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let addresses = subset
            .get("addresses")
            .and_then(Value::as_array)
            .map_or(&[] as &[Value], Vec::as_slice);
        let ports = subset
            .get("ports")
            .and_then(Value::as_array)
            .map_or(&[] as &[Value], Vec::as_slice);
        let ip = |address: &Value| {
            address
                .get("ip")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        if ports.is_empty() {
            list.extend(addresses.iter().map(ip));
        }
        for port in ports {
            list.extend(addresses.iter().map(|address| {
                format!(
                    "{}:{}",
                    ip(address),
                    port.get("port").and_then(Value::as_i64).unwrap_or_default()
                )
            }));
        }
    }
    shortened(&list, 3, "<none>")
}

fn shortened(list: &[String], most: usize, empty: &str) -> String {
    if list.is_empty() {
        return empty.to_owned();
    }
    let shown = list
        .iter()
        .take(most)
        .cloned()
        .collect::<Vec<_>>()
        .join(",");
    if list.len() > most {
        format!("{shown} + {} more...", list.len() - most)
    } else {
        shown
    }
}

fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list("/ports")
        .iter()
        .map(|port| match port.get("port").and_then(Value::as_i64) {
            Some(number) => number.to_string(),
            None => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = row
        .list("/endpoints")
        .iter()
        .flat_map(|endpoint| {
            endpoint
                .get("addresses")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        })
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    vec![
        row.name(),
        row.text("/addressType"),
        shortened(&ports, 3, "<unset>").into(),
        shortened(&addresses, 3, "<unset>").into(),
        row.age(),
    ]
}

fn event(row: &Row<'_>) -> Vec<Value> {
    let since = |pointer: &str| match row.str(pointer) {
        "" => None,
        text => Some(age(text, row.now)),
    };
    let unknown = || "<unknown>".to_owned();
    let first = since("/firstTimestamp")
        .or_else(|| since("/eventTime"))
        .unwrap_or_else(unknown);
    let mut last = since("/lastTimestamp").unwrap_or_else(|| first.clone());
    let mut count = row.number("/count");
    if row.object.get("series").is_some() {
        last = since("/series/lastObservedTime").unwrap_or_else(unknown);
        count = row.number("/series/count");
    } else if count == 0 {
        count = 1;
    }
    let kind = row.str("/involvedObject/kind").to_lowercase();
    let target = match row.str("/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let (mut component, mut instance) = (row.str("/source/component"), row.str("/source/host"));
    if component.is_empty() {
        component = row.str("/reportingComponent");
        instance = row.str("/reportingInstance");
    }
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };
    vec![
        last.into(),
        row.text("/type"),
        row.text("/reason"),
        target.into(),
        row.text("/involvedObject/fieldPath"),
        source.into(),
        row.str("/message").trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}

fn access_modes(list: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    known
        .iter()
        .filter(|(mode, _)| list.iter().any(|given| given.as_str() == Some(mode)))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = match (
        row.str("/spec/claimRef/namespace"),
        row.str("/spec/claimRef/name"),
    ) {
        ("", "") => String::new(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    let phase = if meta::is_terminating(row.object) {
        "Terminating"
    } else {
        row.str("/status/phase")
    };
    vec![
        row.name(),
        row.text("/spec/capacity/storage"),
        access_modes(row.list("/spec/accessModes")).into(),
        row.text("/spec/persistentVolumeReclaimPolicy"),
        phase.into(),
        claim.into(),
        row.text("/spec/storageClassName"),
        row.text_or("/spec/volumeAttributesClassName", "<unset>"),
        row.text("/status/reason"),
        row.age(),
        row.text_or("/spec/volumeMode", "<unset>"),
    ]
}

fn claim(row: &Row<'_>) -> Vec<Value> {
    let phase = if meta::is_terminating(row.object) {
        "Terminating"
    } else {
        row.str("/status/phase")
    };
    let volume = row.str("/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (
            row.str("/status/capacity/storage").to_owned(),
            access_modes(row.list("/status/accessModes")),
        )
    };
    vec![
        row.name(),
        phase.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        row.text("/spec/storageClassName"),
        row.text_or("/spec/volumeAttributesClassName", "<unset>"),
        row.age(),
        row.text_or("/spec/volumeMode", "<unset>"),
    ]
}

fn quota(row: &Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in row
        .object
        .pointer("/status/hard")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let used = row
            .object
            .pointer("/status/used")
            .and_then(|used| used.get(name))
            .and_then(Value::as_str)
            .unwrap_or("0");
        let text = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits") {
            limits.push(text)
        } else {
            requests.push(text)
        }
    }
    vec![
        row.name(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        row.age(),
    ]
}

fn autoscaler(row: &Row<'_>) -> Vec<Value> {
    let reference = format!(
        "{}/{}",
        row.str("/spec/scaleTargetRef/kind"),
        row.str("/spec/scaleTargetRef/name")
    );
    let minimum = row
        .object
        .pointer("/spec/minReplicas")
        .and_then(Value::as_i64)
        .map_or("<unset>".to_owned(), |count| count.to_string());
    let metrics: Vec<String> = row
        .list("/spec/metrics")
        .iter()
        .enumerate()
        .map(|(index, metric)| metric_text(metric, row.list("/status/currentMetrics").get(index)))
        .collect();
    let metrics = match metrics.len() {
        0 => "<none>".to_owned(),
        count if count > 2 => format!("{} + {} more...", metrics[..2].join(", "), count - 2),
        _ => metrics.join(", "),
    };
    vec![
        row.name(),
        reference.into(),
        metrics.into(),
        minimum.into(),
        row.number("/spec/maxReplicas").into(),
        row.number("/status/currentReplicas").into(),
        row.age(),
    ]
}

fn metric_text(metric: &Value, current: Option<&Value>) -> String {
    let kind = metric
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let key = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let at = |pointer: &str| metric.pointer(&format!("/{key}/{pointer}"));
    let now = |pointer: &str| {
        current
            .and_then(|current| current.pointer(&format!("/{key}/current/{pointer}")))
            .map_or("<unknown>".to_owned(), show)
    };
    let named = |text: String| match kind {
        "Resource" | "ContainerResource" => format!(
            "{}: {text}",
            at("name").and_then(Value::as_str).unwrap_or_default()
        ),
        _ => text,
    };
    if let Some(average) = at("target/averageValue") {
        let suffix = if matches!(kind, "External" | "Object") {
            " (avg)"
        } else {
            ""
        };
        return named(format!("{}/{}{suffix}", now("averageValue"), show(average)));
    }
    if matches!(kind, "Resource" | "ContainerResource") {
        let target = at("target/averageUtilization")
            .map_or("<auto>".to_owned(), |percent| format!("{percent}%"));
        let used = current
            .and_then(|current| current.pointer(&format!("/{key}/current/averageUtilization")))
            .map_or("<unknown>".to_owned(), |percent| format!("{percent}%"));
        return named(format!("{used}/{target}"));
    }
    format!(
        "{}/{}",
        now("value"),
        at("target/value").map_or(String::new(), show)
    )
}

fn show(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn ingress(row: &Row<'_>) -> Vec<Value> {
    let hosts: Vec<String> = row
        .list("/spec/rules")
        .iter()
        .filter_map(|rule| rule.get("host").and_then(Value::as_str))
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .collect();
    let hosts = shortened(&hosts, 3, "*");
    let address: Vec<&str> = row
        .list("/status/loadBalancer/ingress")
        .iter()
        .filter_map(|entry| {
            entry
                .get("ip")
                .or(entry.get("hostname"))
                .and_then(Value::as_str)
        })
        .collect();
    let ports = if row.count("/spec/tls") > 0 {
        "80, 443"
    } else {
        "80"
    };
    vec![
        row.name(),
        row.text_or("/spec/ingressClassName", "<none>"),
        hosts.into(),
        address.join(",").into(),
        ports.into(),
        row.age(),
    ]
}

fn parameters(object: &Value) -> String {
    let Some(parameters) = object.pointer("/spec/parameters") else {
        return "<none>".to_owned();
    };
    let text = |key: &str| {
        parameters
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let kind = if text("apiGroup").is_empty() {
        text("kind").to_owned()
    } else {
        format!("{}.{}", text("kind"), text("apiGroup"))
    };
    format!("{kind}/{}", text("name"))
}

fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.str("/roleRef/kind"), row.str("/roleRef/name"));
    let of = |kind: &str| -> Value {
        let names: Vec<String> = row
            .list("/subjects")
            .iter()
            .filter(|subject| subject.get("kind").and_then(Value::as_str) == Some(kind))
            .map(|subject| {
                let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
                if kind == "ServiceAccount" {
                    format!("{}/{}", text("namespace"), text("name"))
                } else {
                    text("name").to_owned()
                }
            })
            .collect();
        names.join(", ").into()
    };
    vec![
        row.name(),
        role.into(),
        row.age(),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

fn api_service(row: &Row<'_>) -> Vec<Value> {
    let text = |pointer: &str| {
        row.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let service = match row.object.pointer("/spec/service") {
        Some(Value::Object(_)) => format!(
            "{}/{}",
            text("/spec/service/namespace"),
            text("/spec/service/name")
        ),
        _ => "Local".to_owned(),
    };
    let available = row
        .object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Available"));
    let field = |key: &str| {
        available
            .and_then(|condition| condition.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let shown = match field("status") {
        "" => "Unknown".to_owned(),
        "True" => "True".to_owned(),
        status => format!("{status} ({})", field("reason")),
    };
    vec![row.name(), service.into(), shown.into(), row.age()]
}

fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let annotations = row.object.pointer("/metadata/annotations");
    let default = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ]
    .iter()
    .any(|key| {
        annotations
            .and_then(|map| map.get(*key))
            .and_then(Value::as_str)
            == Some("true")
    });
    let name = meta::text(row.object, "name");
    let name = if default {
        format!("{name} (default)")
    } else {
        name.to_owned()
    };
    vec![
        name.into(),
        row.text("/provisioner"),
        row.text_or("/reclaimPolicy", "Delete"),
        row.text_or("/volumeBindingMode", "Immediate"),
        row.flag("/allowVolumeExpansion").into(),
        row.age(),
    ]
}

fn csi_driver(row: &Row<'_>) -> Vec<Value> {
    let modes: Vec<&str> = row
        .list("/spec/volumeLifecycleModes")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let tokens: Vec<&str> = row
        .list("/spec/tokenRequests")
        .iter()
        .filter_map(|request| request.get("audience").and_then(Value::as_str))
        .collect();
    let tokens = if tokens.is_empty() {
        "<unset>".to_owned()
    } else {
        tokens.join(",")
    };
    vec![
        row.name(),
        row.object
            .pointer("/spec/attachRequired")
            .and_then(Value::as_bool)
            .unwrap_or(true)
            .into(),
        row.flag("/spec/podInfoOnMount").into(),
        row.flag("/spec/storageCapacity").into(),
        tokens.into(),
        row.flag("/spec/requiresRepublish").into(),
        if modes.is_empty() {
            "<none>".into()
        } else {
            modes.join(",").into()
        },
        row.age(),
    ]
}

fn signing_request(row: &Row<'_>) -> Vec<Value> {
    let has = |kind: &str| {
        row.list("/status/conditions")
            .iter()
            .any(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
    };
    let mut status = match () {
        () if has("Denied") => "Denied".to_owned(),
        () if has("Approved") => "Approved".to_owned(),
        () => "Pending".to_owned(),
    };
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.str("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = row
        .object
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .map_or("<none>".to_owned(), human_duration);
    vec![
        row.name(),
        row.age(),
        row.text_or("/spec/signerName", "<none>"),
        row.text("/spec/username"),
        duration.into(),
        status.into(),
    ]
}

fn pod(row: &Row<'_>) -> Vec<Value> {
    let restartable: Vec<&str> = row
        .list("/spec/initContainers")
        .iter()
        .filter(|container| {
            container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
        })
        .filter_map(|container| container.get("name").and_then(Value::as_str))
        .collect();
    let total = row.count("/spec/containers") + restartable.len();
    let mut state = PodState {
        ready: 0,
        restarts: 0,
        last_restart: None,
        reason: String::new(),
        initializing: false,
    };
    state.reason = if row.str("/status/reason").is_empty() {
        row.str("/status/phase").to_owned()
    } else {
        row.str("/status/reason").to_owned()
    };
    for condition in row.list("/status/conditions") {
        if condition.get("type").and_then(Value::as_str) == Some("PodScheduled")
            && condition.get("reason").and_then(Value::as_str) == Some("SchedulingGated")
        {
            state.reason = "SchedulingGated".to_owned();
        }
    }
    state.read_init(row, &restartable);
    let initialized = row.list("/status/conditions").iter().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Initialized")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    });
    if !state.initializing || initialized {
        state.read_main(row, &restartable);
    }
    if meta::is_terminating(row.object) {
        if row.str("/status/reason") == "NodeLost" {
            state.reason = "Unknown".to_owned();
        } else if !matches!(row.str("/status/phase"), "Succeeded" | "Failed") {
            state.reason = "Terminating".to_owned();
        }
    }
    let restarts = match &state.last_restart {
        Some(time) if state.restarts != 0 => {
            format!("{} ({} ago)", state.restarts, age(time, row.now))
        }
        _ => state.restarts.to_string(),
    };
    let gates = row.list("/spec/readinessGates");
    let met = gates
        .iter()
        .filter(|gate| {
            row.list("/status/conditions").iter().any(|condition| {
                condition.get("type") == gate.get("conditionType")
                    && condition.get("status").and_then(Value::as_str) == Some("True")
            })
        })
        .count();
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        format!("{met}/{}", gates.len())
    };
    vec![
        row.name(),
        format!("{}/{total}", state.ready).into(),
        state.reason.into(),
        restarts.into(),
        row.age(),
        row.text_or("/status/podIPs/0/ip", "<none>"),
        row.text_or("/spec/nodeName", "<none>"),
        row.text_or("/status/nominatedNodeName", "<none>"),
        gates.into(),
    ]
}

struct PodState {
    ready: usize,
    restarts: i64,
    last_restart: Option<String>,
    reason: String,
    initializing: bool,
}

impl PodState {
    fn count(&mut self, container: &Value) {
        self.restarts += container
            .get("restartCount")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if let Some(time) = container
            .pointer("/lastState/terminated/finishedAt")
            .and_then(Value::as_str)
            && self.last_restart.as_deref().is_none_or(|last| last < time)
        {
            self.last_restart = Some(time.to_owned());
        }
    }

    fn read_init(&mut self, row: &Row<'_>, restartable: &[&str]) {
        let ready = |container: &Value| container.get("ready") == Some(&Value::Bool(true));
        for (index, container) in row.list("/status/initContainerStatuses").iter().enumerate() {
            self.count(container);
            let stays = container
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|name| restartable.contains(&name));
            let ended = container.pointer("/state/terminated");
            let code = ended
                .and_then(|ended| ended.get("exitCode"))
                .and_then(Value::as_i64)
                .unwrap_or_default();
            if ended.is_some() && code == 0 {
                continue;
            }
            if stays && container.get("started") == Some(&Value::Bool(true)) {
                self.ready += usize::from(ready(container));
                continue;
            }
            let waiting = container
                .pointer("/state/waiting/reason")
                .and_then(Value::as_str)
                .unwrap_or_default();
            self.reason = match ended {
                Some(ended) => format!("Init:{}", ended_reason(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", row.count("/spec/initContainers")),
            };
            self.initializing = true;
            break;
        }
    }

    fn read_main(&mut self, row: &Row<'_>, restartable: &[&str]) {
        self.restarts = 0;
        self.last_restart = None;
        for container in row.list("/status/initContainerStatuses") {
            if container
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|name| restartable.contains(&name))
            {
                self.count(container);
            }
        }
        let mut running = false;
        let mut failed = String::new();
        for container in row.list("/status/containerStatuses").iter().rev() {
            self.count(container);
            let waiting = container
                .pointer("/state/waiting/reason")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(ended) = container.pointer("/state/terminated") {
                self.reason = ended_reason(ended);
                if ended
                    .get("exitCode")
                    .and_then(Value::as_i64)
                    .unwrap_or_default()
                    != 0
                {
                    failed.clone_from(&self.reason);
                }
            } else if container.get("ready") == Some(&Value::Bool(true))
                && container.pointer("/state/running").is_some()
            {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = row.list("/status/conditions").iter().any(|condition| {
                condition.get("type").and_then(Value::as_str) == Some("Ready")
                    && condition.get("status").and_then(Value::as_str) == Some("True")
            });
            if running && ready {
                self.reason = "Running".to_owned();
            } else if !failed.is_empty() {
                self.reason = failed;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

fn ended_reason(ended: &Value) -> String {
    let reason = ended
        .get("reason")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let number = |key: &str| ended.get(key).and_then(Value::as_i64).unwrap_or_default();
    match (reason, number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
