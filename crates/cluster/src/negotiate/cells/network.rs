//! Cells of services, endpoints and ingresses.

use everflow_json::Value;

use super::row::{Row, labels, shortened};

/// The addresses of load balancers.
fn load_balancers<'r>(row: &'r Row<'_>) -> Vec<&'r str> {
    let entries = row.list("/status/loadBalancer/ingress").iter();
    let shown = |entry: &'r Value| entry.get("ip").or(entry.get("hostname"))?.as_str();
    entries.filter_map(shown).collect()
}

pub(super) fn service(row: &Row<'_>) -> Vec<Value> {
    let external: Vec<&str> = row
        .list("/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let balanced: Vec<&str> = load_balancers(row);
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

pub(super) fn endpoints(object: &Value) -> String {
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

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
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
        .flat_map(|endpoint| crate::tree::strings(endpoint.get("addresses")))
        .collect();
    vec![
        row.name(),
        row.text("/addressType"),
        shortened(&ports, 3, "<unset>").into(),
        shortened(&addresses, 3, "<unset>").into(),
        row.age(),
    ]
}

pub(super) fn ingress(row: &Row<'_>) -> Vec<Value> {
    let hosts: Vec<String> = row
        .list("/spec/rules")
        .iter()
        .filter_map(|rule| rule.get("host").and_then(Value::as_str))
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .collect();
    let hosts = shortened(&hosts, 3, "*");
    let address: Vec<&str> = load_balancers(row);
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

pub(super) fn parameters(object: &Value) -> String {
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
