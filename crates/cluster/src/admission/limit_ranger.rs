//! Limit ranges give pods the requests and limits they lack, and refuse what lies outside.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use everflow_json::{Text, Value, json};

use super::usage::{Amounts, amounts};
use crate::field::aggregate;
use crate::kinds::meta;
use crate::rest::Call;
use crate::status::{ApiError, ApiResult};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Applies the limit ranges of the namespace to a new pod or a claim.
pub fn admit(call: &Call<'_>, object: &mut Value, is_pod: bool) -> ApiResult<()> {
    let prefix = format!("{}/", call.target.namespace);
    let ranges = call
        .server
        .store()
        .list("/limitranges", &prefix, None, 0)
        .items;
    for range in &ranges {
        let limits = range
            .value
            .pointer("/spec/limits")
            .and_then(Value::as_array);
        let limits: Vec<&Value> = limits.into_iter().flatten().collect();
        if is_pod {
            fill_pod(object, &limits);
        }
        let problems = if is_pod {
            pod_problems(object, &limits)
        } else {
            claim_problems(object, &limits)
        };
        if !problems.is_empty() {
            let name = meta::text(object, "name");
            return Err(ApiError::forbidden(
                &call.resource.group_resource(),
                name,
                &aggregate(problems),
            ));
        }
    }
    Ok(())
}

fn of_type<'l>(limits: &[&'l Value], kind: &str) -> Vec<&'l Value> {
    limits
        .iter()
        .copied()
        .filter(|limit| limit.get("type").and_then(Value::as_str) == Some(kind))
        .collect()
}

fn fill_pod(pod: &mut Value, limits: &[&Value]) {
    let mut defaults: [BTreeMap<Text, Value>; 2] = [BTreeMap::new(), BTreeMap::new()];
    for limit in of_type(limits, "Container") {
        for (slot, key) in defaults.iter_mut().zip(["defaultRequest", "default"]) {
            let map = limit.get(key).and_then(Value::as_object);
            slot.extend(
                map.into_iter()
                    .flatten()
                    .map(|(name, amount)| (name.clone(), amount.clone())),
            );
        }
    }
    let mut notes = Vec::new();
    for (list, words) in [
        ("containers", "container"),
        ("initContainers", "init container"),
    ] {
        let containers = pod
            .pointer_mut(&format!("/spec/{list}"))
            .and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            fill_container(container, words, &defaults, &mut notes);
        }
    }
    if notes.is_empty() {
        return;
    }
    let annotations = meta::metadata_mut(pod)
        .entry("annotations")
        .or_insert_with(|| json!({}));
    if let Some(map) = annotations.as_object_mut() {
        map.insert(
            ANNOTATION.into(),
            format!("LimitRanger plugin set: {}", notes.join("; ")).into(),
        );
    }
}

fn fill_container(
    container: &mut Value,
    words: &str,
    defaults: &[BTreeMap<Text, Value>; 2],
    notes: &mut Vec<String>,
) {
    let name = container
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    for ((key, word), given) in [("requests", "request"), ("limits", "limit")]
        .into_iter()
        .zip(defaults)
    {
        if given.is_empty() {
            continue;
        }
        let Some(map) = container.as_object_mut() else {
            return;
        };
        let resources = map.entry("resources").or_insert_with(|| json!({}));
        let Some(amounts) = resources
            .as_object_mut()
            .map(|map| map.entry(key).or_insert_with(|| json!({})))
        else {
            return;
        };
        if amounts.is_null() {
            *amounts = json!({});
        }
        let Some(amounts) = amounts.as_object_mut() else {
            return;
        };
        let missing: Vec<&Text> = given
            .keys()
            .filter(|name| !amounts.contains_key(name))
            .collect();
        if missing.is_empty() {
            continue;
        }
        let list: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
        notes.push(format!("{} {word} for {words} {name}", list.join(", ")));
        for name in missing {
            amounts.insert(name.clone(), given[name].clone());
        }
    }
}

/// What a container or a pod asks for.
struct ResourceDemand {
    requests: Amounts,
    limits: Amounts,
}

impl ResourceDemand {
    fn of(container: &Value) -> Self {
        ResourceDemand {
            requests: amounts(container.pointer("/resources/requests")),
            limits: amounts(container.pointer("/resources/limits")),
        }
    }
}

fn pod_problems(pod: &Value, limits: &[&Value]) -> Vec<String> {
    let list = |key: &str| -> Vec<ResourceDemand> {
        let containers = pod
            .pointer(&format!("/spec/{key}"))
            .and_then(Value::as_array);
        containers
            .into_iter()
            .flatten()
            .map(ResourceDemand::of)
            .collect()
    };
    let (containers, first) = (list("containers"), list("initContainers"));
    let mut problems = Vec::new();
    for limit in of_type(limits, "Container") {
        for asked in containers.iter().chain(&first) {
            check(limit, "Container", asked, &mut problems);
        }
    }
    for limit in of_type(limits, "Pod") {
        let whole = ResourceDemand {
            requests: together(
                containers.iter().map(|asked| &asked.requests),
                first.iter().map(|asked| &asked.requests),
            ),
            limits: together(
                containers.iter().map(|asked| &asked.limits),
                first.iter().map(|asked| &asked.limits),
            ),
        };
        check(limit, "Pod", &whole, &mut problems);
    }
    problems
}

/// The sum over containers, or what one that runs before them needs if that is more.
fn together<'a>(
    all: impl Iterator<Item = &'a Amounts>,
    first: impl Iterator<Item = &'a Amounts>,
) -> Amounts {
    let mut sum = Amounts::new();
    for amounts in all {
        for (name, amount) in amounts {
            let total = sum.get(name).map_or(*amount, |known| known.plus(amount));
            sum.insert(name.clone(), total);
        }
    }
    for amounts in first {
        for (name, amount) in amounts {
            if sum
                .get(name)
                .is_none_or(|known| known.compare(amount) == Ordering::Less)
            {
                sum.insert(name.clone(), *amount);
            }
        }
    }
    sum
}

fn check(limit: &Value, kind: &str, asked: &ResourceDemand, problems: &mut Vec<String>) {
    for (name, least) in amounts(limit.get("min")) {
        let head = format!("minimum {name} usage per {kind} is {}", least.canonical());
        let (request, ceiling) = (asked.requests.get(&name), asked.limits.get(&name));
        match (request, ceiling) {
            (None, _) => problems.push(format!("{head}.  No request is specified")),
            (Some(request), _) if request.compare(&least).is_lt() => {
                problems.push(format!("{head}, but request is {}", request.canonical()));
            }
            (_, Some(ceiling)) if ceiling.compare(&least).is_lt() => {
                problems.push(format!("{head}, but limit is {}", ceiling.canonical()));
            }
            _ => {}
        }
    }
    for (name, most) in amounts(limit.get("max")) {
        let head = format!("maximum {name} usage per {kind} is {}", most.canonical());
        let (request, ceiling) = (asked.requests.get(&name), asked.limits.get(&name));
        match (request, ceiling) {
            (_, None) => problems.push(format!("{head}.  No limit is specified")),
            (_, Some(ceiling)) if ceiling.compare(&most).is_gt() => {
                problems.push(format!("{head}, but limit is {}", ceiling.canonical()));
            }
            (Some(request), _) if request.compare(&most).is_gt() => {
                problems.push(format!("{head}, but request is {}", request.canonical()));
            }
            _ => {}
        }
    }
    for (name, most) in amounts(limit.get("maxLimitRequestRatio")) {
        let head = format!(
            "{name} max limit to request ratio per {kind} is {}, but",
            most.canonical()
        );
        let given = |amounts: &Amounts| {
            amounts
                .get(&name)
                .filter(|amount| !amount.is_zero())
                .copied()
        };
        match (given(&asked.requests), given(&asked.limits)) {
            (None, _) => problems.push(format!("{head} no request is specified or request is 0")),
            (_, None) => problems.push(format!("{head} no limit is specified or limit is 0")),
            (Some(request), Some(ceiling)) => {
                let ratio = ceiling.milli() as f64 / request.milli() as f64;
                if ratio > most.milli() as f64 / 1000.0 {
                    problems.push(format!("{head} provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

fn claim_problems(claim: &Value, limits: &[&Value]) -> Vec<String> {
    let requests = amounts(claim.pointer("/spec/resources/requests"));
    let mut problems = Vec::new();
    for limit in of_type(limits, "PersistentVolumeClaim") {
        for (part, word) in [("min", "minimum"), ("max", "maximum")] {
            for (name, bound) in amounts(limit.get(part)) {
                let head = format!(
                    "{word} {name} usage per PersistentVolumeClaim is {}",
                    bound.canonical()
                );
                let wrong = if part == "min" {
                    Ordering::Less
                } else {
                    Ordering::Greater
                };
                match requests.get(&name) {
                    None => problems.push(format!("{head}.  No request is specified")),
                    Some(request) if request.compare(&bound) == wrong => {
                        problems.push(format!("{head}, but request is {}", request.canonical()));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    problems
}
