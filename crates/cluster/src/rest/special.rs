//! Paths that do not follow the common rules.

use everflow_json::{Value, json};

use super::Call;
use super::options::write_options;
use super::request::Answer;
use crate::kinds::meta;
use crate::status::{ApiError, ApiResult};

/// Answers a request that needs its own handling.
pub fn run(call: &Call<'_>) -> ApiResult<Option<Answer>> {
    let target = call.target;
    let known = call
        .resource
        .subresource(&target.subresource)
        .is_some_and(|sub| sub.verbs.iter().any(|verb| verb == target.verb));
    if target.subresource == "scale" && known {
        return super::scale::run(call).map(Some);
    }
    if !matches!(
        call.resource.group.as_str(),
        "" | "authentication.k8s.io" | "authorization.k8s.io"
    ) {
        return Ok(None);
    }
    match (
        call.resource.plural.as_str(),
        target.subresource.as_str(),
        target.verb,
    ) {
        ("pods", "binding", "create") => bind(call).map(Some),
        ("pods", "eviction", "create") => evict(call).map(Some),
        ("pods", "log", "get") => log(call).map(Some),
        ("pods", "exec" | "attach" | "portforward", _) => connect(call).map(Some),
        ("serviceaccounts", "token", "create") => crate::auth::tokens::create(call).map(Some),
        (_, "", "create") if !call.resource.group.is_empty() => {
            crate::auth::reviews::run(call).map(Some)
        }
        _ => Ok(None),
    }
}

fn body(call: &Call<'_>, expected: &str) -> ApiResult<Value> {
    Ok(super::decode::parse_body(call.request, expected, false)?
        .0
        .to_value())
}

/// Puts a pod on a node.
fn bind(call: &Call<'_>) -> ApiResult<Answer> {
    let options = write_options(call.request, "CreateOptions", false)?;
    let binding = body(call, "Binding")?;
    let node = binding
        .pointer("/target/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let _guard = call.server.write_lock();
    let current = call.current().ok_or_else(|| call.missing())?;
    let assigned = current
        .value
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !assigned.is_empty() {
        return Err(ApiError::conflict(
            &crate::status::GroupResource {
                group: "",
                resource: "pods/binding",
            },
            &call.target.name,
            &format!(
                "pod {} is already assigned to node {}",
                call.target.name,
                crate::field::go_quote(assigned)
            ),
        ));
    }
    let mut pod = current.value.clone();
    if let Some(spec) = crate::kinds::prepare::part(&mut pod, "spec") {
        spec.insert("nodeName".into(), node.into());
    }
    let now = call.server.env().now().rfc3339();
    if let Some(status) = crate::kinds::prepare::part(&mut pod, "status")
        && let Some(conditions) = status
            .entry("conditions")
            .or_insert_with(|| json!([]))
            .as_array_mut()
    {
        conditions.retain(|condition| {
            condition.get("type").and_then(Value::as_str) != Some("PodScheduled")
        });
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));
    }
    super::write::commit(call, &current, pod, &options)?;
    Ok(Answer::json(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

/// Deletes a pod unless a disruption budget forbids it.
fn evict(call: &Call<'_>) -> ApiResult<Answer> {
    let eviction = body(call, "Eviction")?;
    let current = call.current().ok_or_else(|| call.missing())?;
    for budget in call
        .server
        .store()
        .list(
            "policy/poddisruptionbudgets",
            &format!("{}/", call.target.namespace),
            None,
            0,
        )
        .items
    {
        let labels = budget
            .value
            .pointer("/spec/selector/matchLabels")
            .and_then(Value::as_object);
        let matches = labels.is_some_and(|labels| {
            !labels.is_empty()
                && labels.iter().all(|(key, value)| {
                    current
                        .value
                        .pointer("/metadata/labels")
                        .and_then(|own| own.get(key))
                        == Some(value)
                })
        });
        let allowed = budget
            .value
            .pointer("/status/disruptionsAllowed")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if matches && allowed <= 0 {
            let name = meta::text(&budget.value, "name");
            let details = json!({"causes": [{"reason": "DisruptionBudget", "message": format!("The disruption budget {name} needs {} healthy pods and has {} currently", budget.value.pointer("/status/desiredHealthy").and_then(Value::as_i64).unwrap_or_default(), budget.value.pointer("/status/currentHealthy").and_then(Value::as_i64).unwrap_or_default())}]});
            return Err(ApiError::new(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
            )
            .with_details(details));
        }
    }
    mark_disrupted(call, &current)?;
    let mut request = super::request::Request::new(
        "DELETE",
        "",
        everflow_json::to_vec(eviction.get("deleteOptions").unwrap_or(&json!({})))
            .unwrap_or_default(),
    );
    request.headers = vec![
        ("content-type".into(), "application/json".into()),
        ("accept".into(), "application/json".into()),
    ];
    request.query = call.request.query.clone();
    let scoped = Call {
        server: call.server,
        request: &request,
        target: call.target,
        user: call.user,
        resource: call.resource.clone(),
        registry: call.registry.clone(),
        warnings: Default::default(),
        sent_data: Default::default(),
    };
    super::delete::delete(&scoped)?;
    Ok(Answer::json(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

/// A pod that is evicted says so.
fn mark_disrupted(
    call: &Call<'_>,
    current: &std::sync::Arc<crate::store::Stored>,
) -> ApiResult<()> {
    let options = write_options(call.request, "CreateOptions", false)?;
    let unbound = current
        .value
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty();
    if options.dry_run || unbound || meta::is_terminating(&current.value) {
        return Ok(());
    }
    let now = call.server.env().now().rfc3339();
    let mut pod = current.value.clone();
    if let Some(status) = crate::kinds::prepare::part(&mut pod, "status")
        && let Some(conditions) = status
            .entry("conditions")
            .or_insert_with(|| json!([]))
            .as_array_mut()
    {
        conditions.push(json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": now, "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}));
    }
    let _guard = call.server.write_lock();
    super::write::commit(call, current, pod, &options)?;
    Ok(())
}

/// The node of the pod that is asked about; empty where none runs it.
fn node_of(call: &Call<'_>) -> ApiResult<String> {
    let current = call.current().ok_or_else(|| call.missing())?;
    let node = current.value.pointer("/spec/nodeName");
    Ok(node.and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// There are no nodes to connect to.
fn connect(call: &Call<'_>) -> ApiResult<Answer> {
    let node = node_of(call)?;
    if node.is_empty() {
        return Err(ApiError::bad_request(format!(
            "pod {} does not have a host assigned",
            call.target.name
        )));
    }
    Err(ApiError::not_found(
        &crate::status::GroupResource {
            group: "",
            resource: "pods",
        },
        &node,
    ))
}

/// A pod that no node runs has nothing to say.
fn log(call: &Call<'_>) -> ApiResult<Answer> {
    let node = node_of(call)?;
    if node.is_empty() {
        return Ok(Answer {
            status: 204,
            headers: Vec::new(),
            body: super::request::Body::Full(bytes::Bytes::new()),
            object: None,
        });
    }
    Err(ApiError::not_found(
        &crate::status::GroupResource {
            group: "",
            resource: "pods",
        },
        &node,
    ))
}
