//! Defaults of the built-in kinds, by the Go type of each part: a container is filled in the same way wherever it stands.

use everflow_json::{Map, Value, json};

use everflow_schema::gotypes::{GoType, types};
use everflow_schema::quantity::Quantity;

type Fields = Map;

/// Fills in the defaults of an object of a built-in kind.
pub fn fill(ty: &GoType, value: &mut Value) {
    match (ty, value) {
        (GoType::Pointer(inner), value) => fill(inner, value),
        (GoType::Slice(inner), Value::Array(items)) => {
            items.iter_mut().for_each(|item| fill(inner, item))
        }
        (GoType::Map(inner), Value::Object(map)) => {
            if **inner == GoType::Quantity {
                round_quantities(map);
            }
            map.values_mut().for_each(|item| fill(inner, item));
        }
        (GoType::Struct(index), Value::Object(fields)) => {
            let definition = types().get(*index);
            // An empty text is a missing one, unless the field could be missing in another way.
            let find = |key: &str| definition.fields.iter().find(|field| field.name == key);
            let given: Vec<&str> = fields
                .iter()
                .filter(|(_, value)| value.as_str() == Some(""))
                .filter_map(|(key, _)| find(key))
                .filter(|field| matches!(&field.ty, GoType::Pointer(inner) if matches!(**inner, GoType::String(_))))
                .map(|field| field.name)
                .collect();
            part(definition.full, fields);
            for name in given {
                fields.insert(name.into(), "".into());
            }
            for (key, value) in fields.iter_mut() {
                let is_part = matches!(value, Value::Object(_) | Value::Array(_));
                if let (true, Some(field)) = (is_part, find(key)) {
                    fill(&field.ty, value);
                }
            }
        }
        _ => {}
    }
}

/// Quantities finer than a thousandth are rounded up.
fn round_quantities(map: &mut Fields) {
    for value in map.values_mut() {
        if let Some(quantity) = value.as_str().and_then(|text| Quantity::parse(text).ok()) {
            *value = quantity.rounded_to_milli().canonical().into();
        }
    }
}

fn set(fields: &mut Fields, key: &str, value: impl Into<Value>) {
    let unset = match fields.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if unset {
        fields.insert(key.into(), value.into());
    }
}

/// As [`set`], for fields that are unset only when they are missing.
fn set_missing(fields: &mut Fields, key: &str, value: impl Into<Value>) {
    if matches!(fields.get(key), None | Some(Value::Null)) {
        fields.insert(key.into(), value.into());
    }
}

fn text<'f>(fields: &'f Fields, key: &str) -> &'f str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn below<'f>(fields: &'f mut Fields, key: &str) -> Option<&'f mut Fields> {
    fields.get_mut(key).and_then(Value::as_object_mut)
}

fn made<'f>(fields: &'f mut Fields, key: &str) -> Option<&'f mut Fields> {
    fields
        .entry(key)
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

/// The defaults of one struct.
fn part(name: &str, fields: &mut Fields) {
    match name {
        "core.v1.Pod" => pod(fields),
        "core.v1.PodSpec" => {
            set(fields, "dnsPolicy", "ClusterFirst");
            set(fields, "restartPolicy", "Always");
            set(fields, "securityContext", json!({}));
            set(fields, "terminationGracePeriodSeconds", 30);
            set(fields, "schedulerName", "default-scheduler");
            service_account(fields);
        }
        "core.v1.Container" | "core.v1.EphemeralContainer" => {
            let policy = pull_policy(text(fields, "image"));
            set(fields, "imagePullPolicy", policy);
            set(fields, "terminationMessagePath", "/dev/termination-log");
            set(fields, "terminationMessagePolicy", "File");
        }
        "core.v1.ContainerPort" | "core.v1.EndpointPort" | "networking.v1.NetworkPolicyPort" => {
            set(fields, "protocol", "TCP")
        }
        "core.v1.Probe" => {
            for (key, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                set(fields, key, value);
            }
        }
        "core.v1.HTTPGetAction" => {
            set(fields, "path", "/");
            set(fields, "scheme", "HTTP");
        }
        "core.v1.GRPCAction" => set(fields, "service", ""),
        "core.v1.Volume" => volume(fields),
        "core.v1.SecretVolumeSource"
        | "core.v1.ConfigMapVolumeSource"
        | "core.v1.DownwardAPIVolumeSource"
        | "core.v1.ProjectedVolumeSource" => set(fields, "defaultMode", 420),
        "core.v1.ServiceAccountTokenProjection" => set(fields, "expirationSeconds", 3600),
        "core.v1.HostPathVolumeSource" => set(fields, "type", ""),
        "core.v1.ObjectFieldSelector" => set(fields, "apiVersion", "v1"),
        "core.v1.ISCSIVolumeSource" | "core.v1.ISCSIPersistentVolumeSource" => {
            set(fields, "iscsiInterface", "default")
        }
        "core.v1.RBDVolumeSource" | "core.v1.RBDPersistentVolumeSource" => {
            set(fields, "pool", "rbd");
            set(fields, "user", "admin");
            set(fields, "keyring", "/etc/ceph/keyring");
        }
        "core.v1.AzureDiskVolumeSource" => {
            set(fields, "cachingMode", "ReadWrite");
            set(fields, "kind", "Shared");
            set(fields, "fsType", "ext4");
            set(fields, "readOnly", false);
        }
        "core.v1.ScaleIOVolumeSource" | "core.v1.ScaleIOPersistentVolumeSource" => {
            set(fields, "storageMode", "ThinProvisioned");
            set(fields, "fsType", "xfs");
        }
        "core.v1.ReplicationController" => replication_controller(fields),
        "core.v1.ReplicationControllerSpec" => {
            set(fields, "replicas", 1);
        }
        "core.v1.Service" => service(fields),
        "core.v1.Secret" => set(fields, "type", "Opaque"),
        "core.v1.PersistentVolume" => {
            if let Some(status) = made(fields, "status") {
                set(status, "phase", "Pending");
            }
        }
        "core.v1.PersistentVolumeSpec" => {
            set(fields, "persistentVolumeReclaimPolicy", "Retain");
            set(fields, "volumeMode", "Filesystem");
        }
        "core.v1.PersistentVolumeClaim" => {
            if let Some(status) = made(fields, "status") {
                set(status, "phase", "Pending");
            }
        }
        "core.v1.PersistentVolumeClaimSpec" => set(fields, "volumeMode", "Filesystem"),
        "core.v1.Namespace" => namespace(fields),
        "core.v1.NodeStatus" => {
            if let (false, Some(capacity)) = (
                fields.contains_key("allocatable"),
                fields.get("capacity").cloned(),
            ) {
                fields.insert("allocatable".into(), capacity);
            }
        }
        "core.v1.LimitRangeItem" => limit_range_item(fields),
        _ => other_groups(name, fields),
    }
}

fn other_groups(name: &str, fields: &mut Fields) {
    match name {
        "apps.v1.DeploymentSpec" => {
            set(fields, "replicas", 1);
            rolling_update(fields, "strategy", "25%".into(), "25%".into());
            set(fields, "revisionHistoryLimit", 10);
            set(fields, "progressDeadlineSeconds", 600);
        }
        "apps.v1.DaemonSetSpec" => {
            rolling_update(fields, "updateStrategy", 1.into(), 0.into());
            set(fields, "revisionHistoryLimit", 10);
        }
        "apps.v1.StatefulSetSpec" => stateful_set(fields),
        "apps.v1.ReplicaSetSpec" => set(fields, "replicas", 1),
        "batch.v1.Job" => job(fields),
        "batch.v1.CronJobSpec" => {
            set(fields, "concurrencyPolicy", "Allow");
            set(fields, "suspend", false);
            set(fields, "successfulJobsHistoryLimit", 3);
            set(fields, "failedJobsHistoryLimit", 1);
        }
        "batch.v1.PodFailurePolicyOnPodConditionsPattern" => set(fields, "status", "True"),
        "autoscaling.v1.HorizontalPodAutoscalerSpec" => {
            set(fields, "minReplicas", 1);
            set(fields, "targetCPUUtilizationPercentage", 80);
        }
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler(fields),
        "networking.v1.NetworkPolicySpec" => {
            let egress = fields.contains_key("egress");
            set(
                fields,
                "policyTypes",
                if egress {
                    json!(["Ingress", "Egress"])
                } else {
                    json!(["Ingress"])
                },
            );
        }
        "networking.v1.IngressClassParametersReference" => set(fields, "scope", "Cluster"),
        "rbac.v1.ClusterRoleBinding" | "rbac.v1.RoleBinding" => {
            if let Some(role) = below(fields, "roleRef")
                && text(role, "apiGroup").is_empty()
            {
                role.insert("apiGroup".into(), "rbac.authorization.k8s.io".into());
            }
        }
        "rbac.v1.Subject" => {
            if matches!(text(fields, "kind"), "User" | "Group") {
                set(fields, "apiGroup", "rbac.authorization.k8s.io");
            }
        }
        "scheduling.v1.PriorityClass" => set(fields, "preemptionPolicy", "PreemptLowerPriority"),
        "storage.v1.StorageClass" => {
            set(fields, "reclaimPolicy", "Delete");
            set(fields, "volumeBindingMode", "Immediate");
        }
        "storage.v1.CSIDriverSpec" => {
            set(fields, "attachRequired", true);
            for key in [
                "podInfoOnMount",
                "storageCapacity",
                "requiresRepublish",
                "seLinuxMount",
            ] {
                set(fields, key, false);
            }
            set(fields, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            set(fields, "volumeLifecycleModes", json!(["Persistent"]));
        }
        "admissionregistration.v1.ValidatingWebhook"
        | "admissionregistration.v1.MutatingWebhook" => {
            set(fields, "failurePolicy", "Fail");
            set(fields, "timeoutSeconds", 10);
            match_everything(fields);
            if name.ends_with("MutatingWebhook") {
                set(fields, "reinvocationPolicy", "Never");
            }
        }
        "admissionregistration.v1.RuleWithOperations"
        | "admissionregistration.v1.NamedRuleWithOperations"
        | "admissionregistration.v1.Rule" => set(fields, "scope", "*"),
        "admissionregistration.v1.ServiceReference" => set(fields, "port", 443),
        "admissionregistration.v1.ValidatingAdmissionPolicySpec"
        | "admissionregistration.v1.MutatingAdmissionPolicySpec" => {
            set(fields, "failurePolicy", "Fail")
        }
        "admissionregistration.v1.MatchResources" => match_everything(fields),
        "discovery.v1.EndpointPort" => {
            set(fields, "name", "");
            set(fields, "protocol", "TCP");
        }
        _ => {}
    }
}

fn match_everything(fields: &mut Fields) {
    set(fields, "matchPolicy", "Equivalent");
    set(fields, "namespaceSelector", json!({}));
    set(fields, "objectSelector", json!({}));
}

/// The tag of an image reference: what stands after the last colon behind the last slash.
fn pull_policy(image: &str) -> &'static str {
    let has_digest = image.contains('@');
    let name = image.split('@').next().unwrap_or_default();
    let tag = name
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'))
        .map_or("", |(_, tag)| tag);
    if tag == "latest" || (tag.is_empty() && !has_digest && !image.is_empty()) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn pod(fields: &mut Fields) {
    let Some(spec) = below(fields, "spec") else {
        return;
    };
    for list in ["containers", "initContainers"] {
        for container in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let Some(resources) = container
                .get_mut("resources")
                .and_then(Value::as_object_mut)
            else {
                continue;
            };
            let limits = resources
                .get("limits")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default();
            if limits.is_empty() {
                continue;
            }
            if let Some(requests) = made(resources, "requests") {
                for (key, value) in limits {
                    set(requests, &key, value);
                }
            }
        }
    }
    set(spec, "enableServiceLinks", true);
    host_network_ports(spec);
}

fn host_network_ports(spec: &mut Fields) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for list in ["containers", "initContainers"] {
        for container in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            for port in container
                .get_mut("ports")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
                .filter_map(Value::as_object_mut)
            {
                if let Some(number) = port.get("containerPort").cloned() {
                    set(port, "hostPort", number);
                }
            }
        }
    }
}

/// The old name of the service account always follows the new one.
fn service_account(spec: &mut Fields) {
    let name = match (
        text(spec, "serviceAccountName"),
        text(spec, "serviceAccount"),
    ) {
        ("", old) => old.to_owned(),
        (new, _) => new.to_owned(),
    };
    for key in ["serviceAccountName", "serviceAccount"] {
        if !name.is_empty() {
            spec.insert(key.into(), name.as_str().into());
        }
    }
}

fn volume(fields: &mut Fields) {
    if fields.keys().all(|key| key == "name") {
        fields.insert("emptyDir".into(), json!({}));
    }
    if let Some(image) = below(fields, "image") {
        let policy = pull_policy(text(image, "reference"));
        set(image, "pullPolicy", policy);
    }
}

fn labels_of(fields: &Fields, pointer: &[&str]) -> Option<Value> {
    let mut current = fields.get(pointer.first()?)?;
    for step in &pointer[1..] {
        current = current.get(step)?;
    }
    current
        .as_object()
        .filter(|map| !map.is_empty())
        .map(|_| current.clone())
}

fn replication_controller(fields: &mut Fields) {
    let Some(labels) = labels_of(fields, &["spec", "template", "metadata", "labels"]) else {
        return;
    };
    if let Some(spec) = below(fields, "spec") {
        set(spec, "selector", labels.clone());
    }
    if let Some(metadata) = made(fields, "metadata") {
        set(metadata, "labels", labels);
    }
}

fn namespace(fields: &mut Fields) {
    if let Some(metadata) = below(fields, "metadata") {
        let name = text(metadata, "name").to_owned();
        if !name.is_empty()
            && let Some(labels) = made(metadata, "labels")
        {
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    }
    if let Some(status) = made(fields, "status") {
        set(status, "phase", "Active");
    }
}

fn service(fields: &mut Fields) {
    let Some(spec) = below(fields, "spec") else {
        return;
    };
    set(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    } else if text(spec, "sessionAffinity") == "ClientIP"
        && spec
            .get("sessionAffinityConfig")
            .and_then(|config| config.pointer("/clientIP/timeoutSeconds"))
            .is_none()
    {
        spec.insert(
            "sessionAffinityConfig".into(),
            json!({"clientIP": {"timeoutSeconds": 10800}}),
        );
    }
    set(spec, "type", "ClusterIP");
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        set(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(Value::from(0));
        if matches!(port.get("targetPort"), None | Some(Value::Null))
            || port.get("targetPort") == Some(&Value::from(0))
            || port.get("targetPort") == Some(&Value::from(""))
        {
            port.insert("targetPort".into(), number);
        }
    }
    let kind = text(spec, "type").to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP"
            && spec
                .get("externalIPs")
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty()));
    if external {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set_missing(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_missing(spec, "allocateLoadBalancerNodePorts", true);
        let ingress = fields
            .get_mut("status")
            .and_then(|status| status.pointer_mut("/loadBalancer/ingress"))
            .and_then(Value::as_array_mut);
        for entry in ingress
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            if !text(entry, "ip").is_empty() {
                set_missing(entry, "ipMode", "VIP");
            }
        }
    }
}

fn limit_range_item(fields: &mut Fields) {
    if text(fields, "type") != "Container" {
        return;
    }
    let map = |fields: &Fields, key: &str| {
        fields
            .get(key)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (max, min) = (map(fields, "max"), map(fields, "min"));
    let mut default = map(fields, "default");
    let mut request = map(fields, "defaultRequest");
    max.into_iter()
        .for_each(|(key, value)| set(&mut default, &key, value));
    default
        .iter()
        .for_each(|(key, value)| set(&mut request, key, value.clone()));
    min.into_iter()
        .for_each(|(key, value)| set(&mut request, &key, value));
    for (key, value) in [("default", default), ("defaultRequest", request)] {
        if !value.is_empty() {
            fields.insert(key.into(), Value::Object(value));
        }
    }
}

fn rolling_update(fields: &mut Fields, key: &str, unavailable: Value, surge: Value) {
    let Some(strategy) = made(fields, key) else {
        return;
    };
    set(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(update) = made(strategy, "rollingUpdate")
    {
        set_missing(update, "maxUnavailable", unavailable);
        set_missing(update, "maxSurge", surge);
    }
}

fn stateful_set(fields: &mut Fields) {
    set(fields, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = made(fields, "updateStrategy") {
        if text(strategy, "type").is_empty() {
            strategy.insert("type".into(), "RollingUpdate".into());
            set(strategy, "rollingUpdate", json!({}));
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(update) = below(strategy, "rollingUpdate")
        {
            set(update, "partition", 0);
        }
    }
    if let Some(policy) = made(fields, "persistentVolumeClaimRetentionPolicy") {
        set(policy, "whenDeleted", "Retain");
        set(policy, "whenScaled", "Retain");
    }
    set(fields, "replicas", 1);
    set(fields, "revisionHistoryLimit", 10);
    for claim in fields
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        // Whatever was sent, it is a claim.
        claim.insert("apiVersion".into(), "v1".into());
        claim.insert("kind".into(), "PersistentVolumeClaim".into());
    }
}

fn job(fields: &mut Fields) {
    let labels = labels_of(fields, &["spec", "template", "metadata", "labels"]);
    if let Some(spec) = below(fields, "spec") {
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            set_missing(spec, "completions", 1);
        }
        set_missing(spec, "parallelism", 1);
        let per_index = spec.contains_key("backoffLimitPerIndex");
        set_missing(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
        set_missing(spec, "completionMode", "NonIndexed");
        set_missing(spec, "suspend", false);
        let failure_policy = spec.contains_key("podFailurePolicy");
        set_missing(
            spec,
            "podReplacementPolicy",
            if failure_policy {
                "Failed"
            } else {
                "TerminatingOrFailed"
            },
        );
        set_missing(spec, "manualSelector", false);
    }
    if let (Some(labels), Some(metadata)) = (labels, made(fields, "metadata")) {
        set(metadata, "labels", labels);
    }
}

fn autoscaler(fields: &mut Fields) {
    set(fields, "minReplicas", 1);
    set(
        fields,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    let Some(behavior) = below(fields, "behavior") else {
        return;
    };
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]});
    let down = json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    for (key, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        if let Some(rules) = made(behavior, key) {
            for (name, value) in defaults.as_object().into_iter().flatten() {
                set_missing(rules, name, value.clone());
            }
        }
    }
}
