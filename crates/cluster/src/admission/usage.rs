//! How much of a quota an object uses.

use std::collections::BTreeMap;

use everflow_json::Value;

use crate::codec::quantity::Quantity;
use crate::kinds::meta;

/// Amounts by the names that quotas give them.
pub type Amounts = BTreeMap<String, Quantity>;

const PODS: &str = "/pods";
const SERVICES: &str = "/services";
const CLAIMS: &str = "/persistentvolumeclaims";
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Kinds whose bare name counts their objects.
const BY_NAME: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];
/// What every container must ask for when a quota is about it.
pub const MUST_ASK: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// The table whose objects use an amount of this name.
pub fn table_of(name: &str) -> Option<String> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(format!("{group}/{plural}"));
    }
    if BY_NAME.contains(&name) {
        return Some(format!("/{name}"));
    }
    if matches!(
        name,
        "services" | "services.loadbalancers" | "services.nodeports"
    ) {
        return Some(SERVICES.to_owned());
    }
    let of_class = name.split_once(BY_CLASS).map(|(_, rest)| rest);
    if matches!(
        of_class.unwrap_or(name),
        "persistentvolumeclaims" | "requests.storage"
    ) {
        return Some(CLAIMS.to_owned());
    }
    let asked = name
        .strip_prefix("requests.")
        .or_else(|| name.strip_prefix("limits."))
        .unwrap_or(name);
    let native = matches!(asked, "cpu" | "memory" | "ephemeral-storage" | "pods");
    (native || asked.starts_with("hugepages-") || name.starts_with("requests."))
        .then(|| PODS.to_owned())
}

/// What an object uses.
pub fn of(table: &str, object: &Value) -> Amounts {
    let one = whole(1);
    let (group, plural) = table.split_once('/').unwrap_or(("", table));
    let counted = match group {
        "" => format!("count/{plural}"),
        group => format!("count/{plural}.{group}"),
    };
    let mut used = Amounts::from([(counted, one)]);
    match table {
        PODS => pod(object, &mut used),
        SERVICES => service(object, &mut used),
        CLAIMS => claim(object, &mut used),
        _ if group.is_empty() && BY_NAME.contains(&plural) => {
            used.insert(plural.to_owned(), one);
        }
        _ => {}
    }
    used
}

/// A number of things.
pub fn whole(number: usize) -> Quantity {
    Quantity::parse(&number.to_string()).unwrap_or_default()
}

/// Amounts as an object gives them.
pub fn amounts(value: Option<&Value>) -> Amounts {
    let map = value.and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(name, amount)| {
            Some((name.to_string(), Quantity::parse(amount.as_str()?).ok()?))
        })
        .collect()
}

/// Adds amounts to others.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.get(name).map_or(*amount, |known| known.plus(amount));
        sum.insert(name.clone(), total);
    }
}

fn at_least(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if sum
            .get(name)
            .is_none_or(|known| known.compare(amount).is_lt())
        {
            sum.insert(name.clone(), *amount);
        }
    }
}

fn list<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    let items = value.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten()
}

/// What a pod needs of one side: its containers together, or what it needs while it starts if that is more.
fn pod_total(pod: &Value, side: &str) -> Amounts {
    let given = |container: &Value| amounts(container.pointer(&format!("/resources/{side}")));
    let (mut running, mut beside, mut starting) = (Amounts::new(), Amounts::new(), Amounts::new());
    list(pod, "/spec/containers").for_each(|container| add(&mut running, &given(container)));
    for container in list(pod, "/spec/initContainers") {
        let mut now = given(container);
        if container["restartPolicy"] == "Always" {
            add(&mut running, &now);
            add(&mut beside, &now);
            now = beside.clone();
        } else {
            add(&mut now, &beside);
        }
        at_least(&mut starting, &now);
    }
    at_least(&mut running, &starting);
    // What is given for the whole pod replaces the sum.
    for (name, amount) in amounts(pod.pointer(&format!("/spec/resources/{side}"))) {
        running.insert(name, amount);
    }
    let overhead = amounts(pod.pointer("/spec/overhead"));
    if side == "requests" {
        add(&mut running, &overhead);
    } else {
        for (name, amount) in &overhead {
            if let Some(known) = running.get_mut(name).filter(|known| !known.is_zero()) {
                *known = known.plus(amount);
            }
        }
    }
    running
}

fn pod(pod: &Value, used: &mut Amounts) {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return;
    }
    used.insert("pods".into(), whole(1));
    named(&pod_total(pod, "requests"), &pod_total(pod, "limits"), used);
}

/// Requests and limits by the names that quotas give them.
fn named(requests: &Amounts, limits: &Amounts, used: &mut Amounts) {
    for (name, amount) in requests {
        let native = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if native || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
        }
        used.insert(format!("requests.{name}"), *amount);
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
}

/// What containers lack that a quota wants them to ask for, as the real server words it.
pub fn missing(pod: &Value, wanted: &[&str]) -> Option<String> {
    if pod.pointer("/spec/resources").is_some() {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for key in ["containers", "initContainers"] {
        for container in list(pod, &format!("/spec/{key}")) {
            let mut given = Amounts::new();
            named(
                &amounts(container.pointer("/resources/requests")),
                &amounts(container.pointer("/resources/limits")),
                &mut given,
            );
            for name in wanted.iter().filter(|name| !given.contains_key(**name)) {
                let container = container["name"].as_str().unwrap_or_default();
                missing.entry(name).or_default().push(container);
            }
        }
    }
    let words: Vec<String> = missing
        .into_iter()
        .map(|(name, mut containers)| {
            containers.sort_unstable();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    (!words.is_empty()).then(|| format!("must specify {}", words.join("; ")))
}

fn service(service: &Value, used: &mut Amounts) {
    let ports = list(service, "/spec/ports").count();
    let kind = service.pointer("/spec/type").and_then(Value::as_str);
    let balanced = kind == Some("LoadBalancer");
    let allocated =
        service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    let on_nodes = match kind {
        Some("NodePort") => ports,
        Some("LoadBalancer") if allocated => ports,
        Some("LoadBalancer") => list(service, "/spec/ports")
            .filter(|port| port.get("nodePort").is_some_and(|port| port != 0))
            .count(),
        _ => 0,
    };
    used.insert("services".into(), whole(1));
    used.insert(
        "services.loadbalancers".into(),
        whole(usize::from(balanced)),
    );
    used.insert("services.nodeports".into(), whole(on_nodes));
}

fn claim(claim: &Value, used: &mut Amounts) {
    let asked = amounts(claim.pointer("/spec/resources/requests"));
    let storage = asked.get("storage").copied();
    let annotated = claim
        .pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class")
        .and_then(Value::as_str);
    let class = claim
        .pointer("/spec/storageClassName")
        .and_then(Value::as_str);
    let class = annotated.or(class).filter(|class| !class.is_empty());
    let mut insert = |name: &str, amount: Quantity| {
        used.insert(name.to_owned(), amount);
        if let Some(class) = class {
            used.insert(format!("{class}{BY_CLASS}{name}"), amount);
        }
    };
    insert("persistentvolumeclaims", whole(1));
    if let Some(storage) = storage {
        insert("requests.storage", storage);
    }
}

/// Whether a quota is about an object: all its scopes fit.
pub fn in_scope(quota: &Value, table: &str, object: &Value) -> bool {
    let plain = list(quota, "/spec/scopes").all(|scope| {
        fits(
            scope.as_str().unwrap_or_default(),
            "Exists",
            &[],
            table,
            object,
        )
    });
    plain
        && list(quota, "/spec/scopeSelector/matchExpressions").all(|term| {
            let values: Vec<&str> = list(term, "/values").filter_map(Value::as_str).collect();
            let name = term["scopeName"].as_str().unwrap_or_default();
            let operator = term["operator"].as_str().unwrap_or_default();
            fits(name, operator, &values, table, object)
        })
}

fn fits(scope: &str, operator: &str, values: &[&str], table: &str, object: &Value) -> bool {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let selected = |value: &str| match operator {
        "Exists" => !value.is_empty(),
        "DoesNotExist" => value.is_empty(),
        "In" => values.contains(&value),
        "NotIn" => !values.contains(&value),
        _ => false,
    };
    match (table, scope) {
        (CLAIMS, "VolumeAttributesClass") => selected(text("/spec/volumeAttributesClassName")),
        (PODS, "Terminating") => object.pointer("/spec/activeDeadlineSeconds").is_some(),
        (PODS, "NotTerminating") => object.pointer("/spec/activeDeadlineSeconds").is_none(),
        (PODS, "BestEffort") => is_best_effort(object),
        (PODS, "NotBestEffort") => !is_best_effort(object),
        (PODS, "PriorityClass") => selected(text("/spec/priorityClassName")),
        (PODS, "CrossNamespacePodAffinity") => reaches_other_namespaces(object),
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let asks = |holder: &Value, at: &str| {
        ["requests", "limits"].iter().any(|side| {
            let given = amounts(holder.pointer(&format!("{at}/{side}")));
            let counts = |name: &str| given.get(name).is_some_and(|amount| !amount.is_zero());
            counts("cpu") || counts("memory")
        })
    };
    let containers = list(pod, "/spec/containers").chain(list(pod, "/spec/initContainers"));
    !asks(pod, "/spec/resources")
        && containers
            .into_iter()
            .all(|container| !asks(container, "/resources"))
}

fn reaches_other_namespaces(pod: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let at = format!("/spec/affinity/{kind}");
        let required = list(
            pod,
            &format!("{at}/requiredDuringSchedulingIgnoredDuringExecution"),
        );
        let preferred = list(
            pod,
            &format!("{at}/preferredDuringSchedulingIgnoredDuringExecution"),
        );
        required
            .chain(preferred.filter_map(|term| term.get("podAffinityTerm")))
            .any(|term| {
                term.get("namespaceSelector").is_some()
                    || list(term, "/namespaces").next().is_some()
            })
    })
}

/// The quotas of a namespace.
pub fn quotas(
    store: &crate::store::Store,
    namespace: &str,
) -> Vec<std::sync::Arc<crate::store::Stored>> {
    if namespace.is_empty() || store.count("/resourcequotas") == 0 {
        return Vec::new();
    }
    let prefix = format!("{namespace}/");
    store.list("/resourcequotas", &prefix, None, 0).items
}

/// The name of a quota.
pub fn name(quota: &Value) -> &str {
    meta::text(quota, "name")
}
