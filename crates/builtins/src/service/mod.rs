//! Services get addresses and ports. What a write would take is found before it is checked, and kept once it is stored.

mod allocator;
mod families;

use std::collections::BTreeSet;

use everflow_json::{Value, json};

use super::at::or_null;
use super::prepare::part;
use super::validation::service as rules;
use super::{Context, meta};
use crate::field::{Errors, FieldError, Path};
use crate::status::{ApiError, ApiResult};
pub use allocator::Allocator;
use families::{families, list_len, take_addresses};

/// The node ports that may be given out.
const PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// Dry runs count up from here.
const DRY_PORT: i64 = 32768;

fn addresses(service: &Value) -> Vec<String> {
    let list = service
        .pointer("/spec/clusterIPs")
        .and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|address| *address != "None")
        .map(str::to_owned)
        .collect()
}

fn node_ports(service: &Value) -> Vec<i64> {
    let list = service.pointer("/spec/ports").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|port| number(port, "nodePort"))
        .filter(|port| *port > 0)
        .collect()
}

fn ports(service: &Value) -> Vec<i64> {
    let health = service
        .pointer("/spec/healthCheckNodePort")
        .and_then(Value::as_i64);
    node_ports(service).into_iter().chain(health).collect()
}

fn number(value: &Value, key: &str) -> i64 {
    value.get(key).and_then(Value::as_i64).unwrap_or_default()
}

fn text<'o>(object: &'o Value, key: &str) -> &'o str {
    object
        .get("spec")
        .and_then(|spec| spec.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn field<'o>(object: &'o Value, key: &str) -> &'o Value {
    or_null(object.get("spec").and_then(|spec| spec.get(key)))
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(spec) = part(object, "spec") {
        if value.is_null() || value == json!([]) {
            spec.remove(key);
        } else {
            spec.insert(key.into(), value);
        }
    }
}

fn needs_address(object: &Value) -> bool {
    text(object, "type") != "ExternalName"
}

fn needs_ports(object: &Value) -> bool {
    matches!(text(object, "type"), "NodePort" | "LoadBalancer")
}

fn gives_ports(object: &Value) -> bool {
    needs_ports(object) && field(object, "allocateLoadBalancerNodePorts") != &Value::Bool(false)
}

fn needs_health_check(object: &Value) -> bool {
    text(object, "type") == "LoadBalancer" && text(object, "externalTrafficPolicy") == "Local"
}

fn invalid(object: &Value, errors: &Errors) -> Box<ApiError> {
    ApiError::invalid("", "Service", meta::text(object, "name"), errors)
}

fn refuse(
    object: &Value,
    path: &Path,
    value: impl Into<Value>,
    detail: impl Into<String>,
) -> Box<ApiError> {
    invalid(object, &vec![FieldError::invalid(path, value, detail)])
}

/// The ports that one write takes.
struct Operation<'c> {
    context: &'c Context<'c>,
    taken: Vec<i64>,
}

impl Operation<'_> {
    fn take(&mut self, port: i64) -> Result<(), String> {
        if !self.context.dry_run && !PORTS.contains(&port) {
            let (low, high) = (PORTS.start(), PORTS.end());
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {low}-{high}"
            ));
        }
        if self.taken.contains(&port) || self.context.allocator.lock().ports.contains(&port) {
            return Err("provided port is already allocated".to_owned());
        }
        self.taken.push(port);
        Ok(())
    }

    fn next(&mut self) -> i64 {
        let port = if self.context.dry_run {
            self.taken.iter().max().unwrap_or(&DRY_PORT) + 1
        } else {
            let taken = self.context.allocator.lock();
            let span = (PORTS.end() - PORTS.start() + 1) as u64;
            loop {
                let port = PORTS.start() + (self.context.env.random() % span) as i64;
                let free = !taken.ports.contains(&port) && !self.taken.contains(&port);
                if free || taken.ports.len() as u64 >= span {
                    break port;
                }
            }
        };
        self.taken.push(port);
        port
    }
}

/// Gives a new Service what it needs.
pub fn create(context: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    if !text(object, "clusterIP").is_empty() && field(object, "clusterIPs").is_null() {
        set(object, "clusterIPs", json!([text(object, "clusterIP")]));
    }
    families(context.allocator, object, None)?;
    take_addresses(context, object, 0)?;
    let mut operation = Operation {
        context,
        taken: Vec::new(),
    };
    if needs_ports(object) {
        new_ports(object, &mut operation)?;
    }
    if needs_health_check(object) {
        health_port(object, &mut operation)?;
    }
    if let Some(map) = object.as_object_mut() {
        map.insert("status".into(), json!({"loadBalancer": {}}));
    }
    Ok(())
}

/// Keeps what a Service has, and gives or takes what its new type needs.
pub fn update(context: &Context<'_>, new: &mut Value, old: &Value) -> ApiResult<()> {
    keep_given(new, old);
    same_addresses(new, old);
    families(context.allocator, new, Some(old))?;
    let has = match needs_address(old) {
        true => addresses(new).len(),
        false => 0,
    };
    if has < list_len(new, "ipFamilies") {
        take_addresses(context, new, has)?;
    }
    let mut operation = Operation {
        context,
        taken: Vec::new(),
    };
    if needs_ports(new) {
        changed_ports(new, old, &mut operation)?;
    }
    if !needs_health_check(old) && needs_health_check(new) {
        health_port(new, &mut operation)?;
    }
    drop_unneeded(new, old);
    Ok(())
}

/// What the client left out stays as it was given.
fn keep_given(new: &mut Value, old: &Value) {
    if needs_address(old) && needs_address(new) {
        for key in ["clusterIP", "clusterIPs"] {
            if field(new, key).is_null() || field(new, key) == "" {
                set(new, key, field(old, key).clone());
            }
        }
    }
    if gives_ports(old) && gives_ports(new) {
        let kept: Vec<i64> = node_ports(old)
            .into_iter()
            .filter(|port| node_ports(new).contains(port))
            .collect();
        let before = field(old, "ports").as_array().cloned().unwrap_or_default();
        let after = new.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for port in after
            .into_iter()
            .flatten()
            .filter(|port| number(port, "nodePort") == 0)
        {
            let same_name = |other: &&Value| {
                or_null(other.get("name")).as_str().unwrap_or_default()
                    == or_null(port.get("name")).as_str().unwrap_or_default()
            };
            let given = before
                .iter()
                .rfind(same_name)
                .map_or(0, |found| number(found, "nodePort"));
            if given != 0 && !kept.contains(&given) {
                port["nodePort"] = given.into();
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(new)
        && field(new, "healthCheckNodePort")
            .as_i64()
            .unwrap_or_default()
            == 0
    {
        set(
            new,
            "healthCheckNodePort",
            field(old, "healthCheckNodePort").clone(),
        );
    }
}

/// The list of addresses follows the one address where only that was changed.
fn same_addresses(new: &mut Value, old: &Value) {
    let same_list = field(new, "clusterIPs") == field(old, "clusterIPs");
    let (now, before) = (text(new, "clusterIP").to_owned(), text(old, "clusterIP"));
    if !field(old, "clusterIPs").is_null() && field(new, "clusterIPs").is_null() && now == before {
        set(new, "clusterIPs", field(old, "clusterIPs").clone());
        return;
    }
    if now != before && same_list {
        let list = if now.is_empty() {
            Value::Null
        } else {
            json!([now])
        };
        set(new, "clusterIPs", list);
    }
}

fn port_path(index: usize) -> Path {
    Path::new("spec")
        .child("ports")
        .index(index)
        .child("nodePort")
}

/// Ports of the same number share a node port unless they say otherwise.
fn new_ports(object: &mut Value, operation: &mut Operation<'_>) -> ApiResult<()> {
    let gives = gives_ports(object);
    let mut ports = field(object, "ports")
        .as_array()
        .cloned()
        .unwrap_or_default();
    let all = ports.clone();
    let mut given: Vec<(i64, i64)> = Vec::new();
    for (index, port) in ports.iter_mut().enumerate() {
        let (own, wanted) = (number(port, "port"), number(port, "nodePort"));
        if wanted == 0 && !gives {
            continue;
        }
        let shared = given
            .iter()
            .find(|(port, _)| *port == own)
            .map(|(_, node)| *node);
        match shared {
            None => {
                let asked = all
                    .iter()
                    .filter(|other| number(other, "port") == own)
                    .map(|other| number(other, "nodePort"))
                    .find(|node| *node != 0);
                let node = match asked {
                    Some(node) => {
                        operation
                            .take(node)
                            .map_err(|problem| refuse(object, &port_path(index), node, problem))?;
                        node
                    }
                    None => operation.next(),
                };
                port["nodePort"] = node.into();
                given.push((own, node));
            }
            Some(node) if wanted == 0 => port["nodePort"] = node.into(),
            Some(node) if wanted != node => {
                operation
                    .take(wanted)
                    .map_err(|problem| refuse(object, &port_path(index), wanted, problem))?;
            }
            Some(_) => {}
        }
    }
    set(object, "ports", Value::Array(ports));
    Ok(())
}

fn changed_ports(new: &mut Value, old: &Value, operation: &mut Operation<'_>) -> ApiResult<()> {
    let gives = gives_ports(new);
    let before = node_ports(old);
    let mut ports = field(new, "ports").as_array().cloned().unwrap_or_default();
    let mut seen: Vec<i64> = Vec::new();
    for (index, port) in ports.iter_mut().enumerate() {
        let wanted = number(port, "nodePort");
        if wanted == 0 && !gives {
            continue;
        }
        if wanted == 0 {
            port["nodePort"] = operation.next().into();
        } else if !before.contains(&wanted) && !seen.contains(&wanted) {
            operation
                .take(wanted)
                .map_err(|problem| refuse(new, &port_path(index), wanted, problem))?;
            seen.push(wanted);
        }
    }
    set(new, "ports", Value::Array(ports));
    Ok(())
}

fn health_port(object: &mut Value, operation: &mut Operation<'_>) -> ApiResult<()> {
    let wanted = field(object, "healthCheckNodePort")
        .as_i64()
        .unwrap_or_default();
    if wanted == 0 {
        set(object, "healthCheckNodePort", operation.next().into());
        return Ok(());
    }
    operation.take(wanted).map_err(|problem| {
        let message =
            format!("failed to allocate requested HealthCheck NodePort {wanted}: {problem}");
        ApiError::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .with_details(json!({"causes": [{"message": message}]}))
    })
}

/// What only the old type needed goes with it, unless the client changed it.
fn drop_unneeded(new: &mut Value, old: &Value) {
    let same = |new: &Value, key: &str| field(new, key) == field(old, key);
    if needs_address(old) && !needs_address(new) {
        if same(new, "clusterIP") && same(new, "clusterIPs") {
            set(new, "clusterIP", Value::Null);
            set(new, "clusterIPs", Value::Null);
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(new, key) {
                set(new, key, Value::Null);
            }
        }
    }
    let as_set = |object: &Value| node_ports(object).into_iter().collect::<BTreeSet<_>>();
    if needs_ports(old) && !needs_ports(new) && as_set(old).is_superset(&as_set(new)) {
        for port in new
            .pointer_mut("/spec/ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(map) = port.as_object_mut() {
                map.remove("nodePort");
            }
        }
    }
    if needs_health_check(old) && !needs_health_check(new) && same(new, "healthCheckNodePort") {
        set(new, "healthCheckNodePort", Value::Null);
    }
    let balancer = |object: &Value| text(object, "type") == "LoadBalancer";
    if balancer(old) && !balancer(new) {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(new, key) {
                set(new, key, Value::Null);
            }
        }
    }
    let external = |object: &Value| rules::is_external(or_null(object.get("spec")));
    if external(old) && !external(new) && same(new, "externalTrafficPolicy") {
        set(new, "externalTrafficPolicy", Value::Null);
    }
    if !balancer(new)
        && let Some(status) = part(new, "status")
    {
        status.insert("loadBalancer".into(), json!({}));
    }
    // Reading an external name never shows how traffic inside the cluster would go.
    if !needs_address(new) {
        set(new, "internalTrafficPolicy", Value::Null);
    }
}
