//! Services get addresses and ports.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::prepare::part;
use super::{Context, meta};
use crate::env::Environment;
use crate::field::{FieldError, Path};
use crate::status::{ApiError, ApiResult};

/// The node ports that may be given out.
const PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// Which addresses and ports are taken.
#[derive(Debug)]
pub struct Allocator {
    prefix: [u8; 2],
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<u16>,
}

impl Allocator {
    /// An allocator for `prefix.0.0/16`.
    pub fn new(prefix: [u8; 2]) -> Self {
        Allocator {
            prefix,
            taken: Mutex::new(Taken::default()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn contains(&self, address: &str) -> bool {
        let parts: Vec<Option<u8>> = address.split('.').map(|part| part.parse().ok()).collect();
        matches!(parts.as_slice(), [Some(a), Some(b), Some(_), Some(_)] if [*a, *b] == self.prefix)
    }

    fn pick_address(&self, env: &dyn Environment, keep: bool) -> String {
        let mut taken = self.lock();
        loop {
            let bits = env.random();
            let (third, fourth) = ((bits >> 8) as u8, bits as u8);
            let address = format!("{}.{}.{third}.{fourth}", self.prefix[0], self.prefix[1]);
            if (third, fourth) == (0, 0)
                || (third, fourth) == (255, 255)
                || taken.addresses.contains(&address)
            {
                continue;
            }
            if keep {
                taken.addresses.insert(address.clone());
            }
            return address;
        }
    }

    fn pick_port(&self, env: &dyn Environment, keep: bool) -> u16 {
        let mut taken = self.lock();
        let span = u64::from(PORTS.end() - PORTS.start() + 1);
        loop {
            let port = PORTS.start() + (env.random() % span) as u16;
            if taken.ports.contains(&port) && taken.ports.len() < span as usize {
                continue;
            }
            if keep {
                taken.ports.insert(port);
            }
            return port;
        }
    }

    /// Notes what an existing Service uses.
    pub fn adopt(&self, service: &Value) {
        let mut taken = self.lock();
        for address in addresses(service) {
            taken.addresses.insert(address);
        }
        for port in node_ports(service) {
            taken.ports.insert(port);
        }
    }

    /// Frees what a Service used.
    pub fn release(&self, service: &Value) {
        let mut taken = self.lock();
        for address in addresses(service) {
            taken.addresses.remove(&address);
        }
        for port in node_ports(service) {
            taken.ports.remove(&port);
        }
    }
}

fn addresses(service: &Value) -> Vec<String> {
    let list = service
        .pointer("/spec/clusterIPs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.filter_map(Value::as_str)
        .filter(|address| *address != "None" && !address.is_empty())
        .map(str::to_owned)
        .collect()
}

fn node_ports(service: &Value) -> Vec<u16> {
    let ports = service
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|port| port.get("nodePort"));
    ports
        .chain(service.pointer("/spec/healthCheckNodePort"))
        .filter_map(Value::as_u64)
        .filter(|port| *port > 0)
        .map(|port| port as u16)
        .collect()
}

fn kind(object: &Value) -> &str {
    object
        .pointer("/spec/type")
        .and_then(Value::as_str)
        .unwrap_or("ClusterIP")
}

fn invalid(object: &Value, error: FieldError) -> Box<ApiError> {
    ApiError::invalid("", "Service", meta::text(object, "name"), &vec![error])
}

/// Gives a new Service what it needs.
pub fn create(context: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    if let Some(map) = object.as_object_mut() {
        map.insert("status".into(), json!({"loadBalancer": {}}));
    }
    allocate(context, object, None)
}

/// Keeps what a Service has, and gives or takes what its new type needs.
pub fn update(context: &Context<'_>, new: &mut Value, old: &Value) -> ApiResult<()> {
    let needs_address = kind(new) != "ExternalName";
    let had_address = kind(old) != "ExternalName";
    if needs_address && had_address {
        let (old_spec, Some(spec)) = (
            old.get("spec").cloned().unwrap_or_default(),
            part(new, "spec"),
        ) else {
            return Ok(());
        };
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if !spec.contains_key(key)
                && let Some(value) = old_spec.get(key)
            {
                spec.insert(key.into(), value.clone());
            }
        }
    }
    if matches!(kind(new), "NodePort" | "LoadBalancer")
        && matches!(kind(old), "NodePort" | "LoadBalancer")
    {
        keep_node_ports(new, old);
    }
    if !needs_address && let Some(spec) = part(new, "spec") {
        if had_address && spec.get("clusterIP") == old.pointer("/spec/clusterIP") {
            for key in ["clusterIP", "clusterIPs"] {
                spec.remove(key);
            }
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            spec.remove(key);
        }
    }
    if matches!(kind(new), "ExternalName" | "ClusterIP") {
        let ports_before = old
            .pointer("/spec/ports")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for (index, port) in new
            .pointer_mut("/spec/ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .enumerate()
        {
            // A node port the client did not ask for goes with the type that needed it.
            let same = ports_before
                .get(index)
                .and_then(|before| before.get("nodePort"))
                == port.get("nodePort");
            if same && let Some(map) = port.as_object_mut() {
                map.remove("nodePort");
            }
        }
    }
    if kind(new) != "LoadBalancer"
        && kind(old) == "LoadBalancer"
        && let Some(spec) = part(new, "spec")
    {
        if spec.get("allocateLoadBalancerNodePorts")
            == old.pointer("/spec/allocateLoadBalancerNodePorts")
        {
            spec.remove("allocateLoadBalancerNodePorts");
        }
        spec.remove("healthCheckNodePort");
    }
    if !needs_address
        && had_address
        && new.pointer("/spec/internalTrafficPolicy") == old.pointer("/spec/internalTrafficPolicy")
        && let Some(spec) = part(new, "spec")
    {
        spec.remove("internalTrafficPolicy");
    }
    let external = matches!(kind(new), "NodePort" | "LoadBalancer");
    if !external
        && matches!(kind(old), "NodePort" | "LoadBalancer")
        && new.pointer("/spec/externalIPs").is_none()
        && let Some(spec) = part(new, "spec")
    {
        spec.remove("externalTrafficPolicy");
    }
    allocate(context, new, Some(old))
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    let before = old
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let after = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in after.into_iter().flatten() {
        if port
            .get("nodePort")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            != 0
        {
            continue;
        }
        let same = before.iter().find(|candidate| {
            candidate.get("port") == port.get("port")
                && candidate.get("protocol") == port.get("protocol")
        });
        if let (Some(map), Some(number)) = (
            port.as_object_mut(),
            same.and_then(|found| found.get("nodePort")),
        ) {
            map.insert("nodePort".into(), number.clone());
        }
    }
    if let (Some(spec), Some(port)) = (part(new, "spec"), old.pointer("/spec/healthCheckNodePort"))
        && spec.get("externalTrafficPolicy").and_then(Value::as_str) == Some("Local")
    {
        spec.entry("healthCheckNodePort")
            .or_insert_with(|| port.clone());
    }
}

fn allocate(context: &Context<'_>, object: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    let keep = !context.dry_run;
    let external_name = kind(object) == "ExternalName";
    let headless_without_selector = object.pointer("/spec/clusterIP").and_then(Value::as_str)
        == Some("None")
        && object.pointer("/spec/selector").is_none();
    if !external_name {
        give_families(object, headless_without_selector);
        give_address(context, object, old, keep)?;
    }
    let wants_ports = kind(object) == "NodePort"
        || (kind(object) == "LoadBalancer"
            && object.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)));
    let used_before: Vec<u16> = old.map(node_ports).unwrap_or_default();
    let name = object.clone();
    for (index, port) in object
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let Some(map) = port.as_object_mut() else {
            continue;
        };
        let number = map
            .get("nodePort")
            .and_then(Value::as_u64)
            .unwrap_or_default() as u16;
        if number != 0 {
            let mut taken = context.allocator.lock();
            let shared = name
                .pointer("/spec/ports")
                .and_then(Value::as_array)
                .is_some_and(|all| {
                    all.iter().take(index).any(|earlier| {
                        earlier.get("nodePort").and_then(Value::as_u64) == Some(u64::from(number))
                    })
                });
            if !used_before.contains(&number) && taken.ports.contains(&number) && !shared {
                let path = Path::new("spec")
                    .child("ports")
                    .index(index)
                    .child("nodePort");
                return Err(invalid(
                    &name,
                    FieldError::invalid(
                        &path,
                        u64::from(number),
                        "provided port is already allocated",
                    ),
                ));
            }
            if !PORTS.contains(&number) && !used_before.contains(&number) {
                let path = Path::new("spec")
                    .child("ports")
                    .index(index)
                    .child("nodePort");
                return Err(invalid(
                    &name,
                    FieldError::invalid(
                        &path,
                        u64::from(number),
                        "provided port is not in the valid range. The range of valid ports is 30000-32767",
                    ),
                ));
            }
            if keep {
                taken.ports.insert(number);
            }
        } else if wants_ports {
            let picked = context.allocator.pick_port(context.env, keep);
            map.insert("nodePort".into(), picked.into());
        }
    }
    let local = kind(object) == "LoadBalancer"
        && object
            .pointer("/spec/externalTrafficPolicy")
            .and_then(Value::as_str)
            == Some("Local");
    if local
        && let Some(spec) = part(object, "spec")
        && spec
            .get("healthCheckNodePort")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            == 0
    {
        spec.insert(
            "healthCheckNodePort".into(),
            context.allocator.pick_port(context.env, keep).into(),
        );
    }
    if let (Some(old), true) = (old, keep) {
        free_unused(context, object, old);
    }
    Ok(())
}

fn free_unused(context: &Context<'_>, new: &Value, old: &Value) {
    let (now_ports, now_addresses) = (node_ports(new), addresses(new));
    let mut taken = context.allocator.lock();
    for port in node_ports(old)
        .into_iter()
        .filter(|port| !now_ports.contains(port))
    {
        taken.ports.remove(&port);
    }
    for address in addresses(old)
        .into_iter()
        .filter(|address| !now_addresses.contains(address))
    {
        taken.addresses.remove(&address);
    }
}

fn give_families(object: &mut Value, headless_without_selector: bool) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    if headless_without_selector {
        spec.entry("ipFamilyPolicy")
            .or_insert_with(|| "RequireDualStack".into());
        let policy = spec
            .get("ipFamilyPolicy")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let families = if policy == "SingleStack" {
            json!(["IPv4"])
        } else {
            json!(["IPv4", "IPv6"])
        };
        spec.entry("ipFamilies").or_insert(families);
        return;
    }
    spec.entry("ipFamilyPolicy")
        .or_insert_with(|| "SingleStack".into());
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
}

fn give_address(
    context: &Context<'_>,
    object: &mut Value,
    old: Option<&Value>,
    keep: bool,
) -> ApiResult<()> {
    let path = Path::new("spec").child("clusterIPs");
    let asked = object
        .pointer("/spec/clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let first = object
        .pointer("/spec/clusterIPs/0")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let wanted = if asked.is_empty() { first } else { asked };
    let address = if wanted.is_empty() {
        context.allocator.pick_address(context.env, keep)
    } else {
        let unchanged = old.is_some_and(|old| addresses(old).contains(&wanted));
        if wanted != "None" && !unchanged {
            if !context.allocator.contains(&wanted) {
                let detail = format!(
                    "failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {}.{}.0.0/16",
                    context.allocator.prefix[0], context.allocator.prefix[1]
                );
                return Err(invalid(
                    object,
                    FieldError::invalid(&path, json!([wanted]), detail),
                ));
            }
            let mut taken = context.allocator.lock();
            if taken.addresses.contains(&wanted) {
                let detail =
                    format!("failed to allocate IP {wanted}: provided IP is already allocated");
                return Err(invalid(
                    object,
                    FieldError::invalid(&path, json!([wanted]), detail),
                ));
            }
            if keep {
                taken.addresses.insert(wanted.clone());
            }
        }
        wanted
    };
    if let Some(spec) = part(object, "spec") {
        spec.insert("clusterIP".into(), address.as_str().into());
        spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    }
    Ok(())
}
