//! Workloads that keep pods running: Deployments, ReplicaSets, DaemonSets, StatefulSets and ReplicationControllers.

use everflow_json::{Value, json};

use super::super::at::{At, or_null, selects};
use super::super::{Context, names, sent_data};
use super::{claims, pod};
use crate::field::{Errors, FieldError, go_json};

/// A number of pods, or a part of them.
pub fn count_or_percent(at: &At<'_, '_>, errors: &mut Errors) {
    match at.value {
        Value::String(text) => {
            for problem in names::percent(text) {
                at.invalid(errors, problem);
            }
        }
        _ => at.not_negative(errors),
    }
}

fn percent(at: &At<'_, '_>) -> Option<i64> {
    let text = at
        .value
        .as_str()
        .filter(|text| names::percent(text).is_empty())?;
    text.trim_end_matches('%').parse().ok().or(Some(i64::MAX))
}

/// The number, or the number of percents; what is neither counts as none.
fn amount(at: &At<'_, '_>) -> i64 {
    let plain = || {
        at.value
            .as_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    };
    percent(at).unwrap_or_else(|| at.int().unwrap_or_else(plain))
}

/// No more than all of them.
pub fn not_above_all(at: &At<'_, '_>, errors: &mut Errors) {
    if percent(at).is_some_and(|percent| percent > 100) {
        at.invalid(errors, "must not be greater than 100%");
    }
}

/// A selector that is there and not empty.
fn needed_selector(at: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    if !at.is_set() {
        at.required(errors, "");
        return;
    }
    at.label_selector(errors);
    empty_selector(at, kind, errors);
}

fn empty_selector(at: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    if at.is_set() && at.child("matchLabels").is_empty() && at.child("matchExpressions").is_empty()
    {
        errors.push(FieldError::invalid_shown(
            &at.path(),
            "{}",
            format!("empty selector is invalid for {kind}"),
        ));
    }
}

fn is_empty_selector(selector: &Value) -> bool {
    !selector.is_null()
        && [
            selector.get("matchLabels"),
            selector.get("matchExpressions"),
        ]
        .iter()
        .all(|part| {
            part.is_none_or(|part| part.is_null() || part == &json!({}) || part == &json!([]))
        })
}

/// The labels of the template are not the ones selected.
fn labels_do_not_match(template: &At<'_, '_>, errors: &mut Errors) {
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    errors.push(FieldError::invalid_shown(
        &labels.path(),
        go_json(labels.value),
        "`selector` does not match template `labels`",
    ));
}

fn always_restarts(spec: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    if spec.child("restartPolicy").text() != "Always" {
        spec.child("restartPolicy").unsupported(errors, &["Always"]);
    }
    if spec.child("activeDeadlineSeconds").is_set() {
        let problem = format!("activeDeadlineSeconds in {kind} is not Supported");
        spec.child("activeDeadlineSeconds")
            .forbidden(errors, &problem);
    }
}

fn selected_template(spec: &At<'_, '_>, errors: &mut Errors) {
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    let labels = or_null(template.value.pointer("/metadata/labels"));
    match selects(selector.value, labels) {
        None => {
            let shown = selector_text(selector.value);
            errors.push(FieldError::invalid_shown(
                &selector.path(),
                shown,
                "invalid label selector",
            ));
            return;
        }
        Some(false) if !is_empty_selector(selector.value) => labels_do_not_match(&template, errors),
        Some(_) => {}
    }
    pod::template(&template, errors);
    always_restarts(&template.child("spec"), "ReplicaSet", errors);
}

fn selector_text(selector: &Value) -> String {
    let types = everflow_schema::gotypes::types();
    types
        .struct_named("v1.LabelSelector")
        .map_or_else(|| go_json(selector), |ty| types.ordered_text(&ty, selector))
}

fn selector_unchanged(new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let spec = root.child("spec");
    let selector = spec.child("selector");
    if selector.value != or_null(old.pointer("/spec/selector")) {
        errors.push(FieldError::invalid_shown(
            &selector.path(),
            selector_text(selector.value),
            "field is immutable",
        ));
    }
}

/// Checks a Deployment.
pub fn deployment(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    spec.child("replicas").not_negative(errors);
    needed_selector(&spec.child("selector"), "deployment", errors);
    selected_template(&spec, errors);
    let strategy = spec.child("strategy");
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "Recreate" if rolling.is_set() => {
            rolling.forbidden(
                errors,
                "may not be specified when strategy `type` is 'Recreate'",
            );
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            rolling.required(errors, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => rolling_deployment(&rolling, errors),
        _ => unknown_strategy(
            &strategy,
            "apps.DeploymentStrategy",
            &["Recreate", "RollingUpdate"],
            errors,
        ),
    }
    spec.child("minReadySeconds").not_negative(errors);
    spec.child("revisionHistoryLimit").not_negative(errors);
    let deadline = spec.child("progressDeadlineSeconds");
    if deadline.is_set() {
        deadline.not_negative(errors);
        if deadline.number() <= spec.child("minReadySeconds").number() {
            deadline.invalid(errors, "must be greater than minReadySeconds");
        }
    }
}

fn unknown_strategy(at: &At<'_, '_>, ty: &str, known: &[&str], errors: &mut Errors) {
    let mut error = FieldError::not_supported(&at.path(), "", known);
    error.shown = Some(super::super::internal::text(ty, at.value));
    errors.push(error);
}

fn rolling_deployment(at: &At<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (at.child("maxUnavailable"), at.child("maxSurge"));
    count_or_percent(&unavailable, errors);
    count_or_percent(&surge, errors);
    if amount(&unavailable) == 0 && amount(&surge) == 0 {
        unavailable.invalid_as(
            errors,
            shown_count(&unavailable),
            "may not be 0 when `maxSurge` is 0",
        );
    }
    not_above_all(&unavailable, errors);
}

fn shown_count(at: &At<'_, '_>) -> Value {
    if at.is_set() {
        at.value.clone()
    } else {
        0.into()
    }
}

/// Checks a changed Deployment.
pub fn deployment_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    deployment(context, new, errors);
    selector_unchanged(new, old, errors);
}

/// Checks a ReplicaSet.
pub fn replica_set(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    spec.child("replicas").not_negative(errors);
    spec.child("minReadySeconds").not_negative(errors);
    needed_selector(&spec.child("selector"), "deployment", errors);
    selected_template(&spec, errors);
}

/// Checks a changed ReplicaSet.
pub fn replica_set_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    replica_set(context, new, errors);
    selector_unchanged(new, old, errors);
}

/// Checks a DaemonSet.
pub fn daemon_set(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    selector.label_selector(errors);
    if selects(
        selector.value,
        or_null(template.value.pointer("/metadata/labels")),
    ) == Some(false)
    {
        labels_do_not_match(&template, errors);
    }
    empty_selector(&selector, "daemonset", errors);
    pod::template(&template, errors);
    always_restarts(&template.child("spec"), "DaemonSet", errors);
    spec.child("minReadySeconds").not_negative(errors);
    let strategy = spec.child("updateStrategy");
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => rolling.required(errors, ""),
        "RollingUpdate" => rolling_daemon_set(&rolling, errors),
        _ => unknown_strategy(
            &strategy,
            "apps.DaemonSetUpdateStrategy",
            &["RollingUpdate", "OnDelete"],
            errors,
        ),
    }
    spec.child("revisionHistoryLimit").not_negative(errors);
}

fn rolling_daemon_set(at: &At<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (at.child("maxUnavailable"), at.child("maxSurge"));
    for part in [&unavailable, &surge] {
        count_or_percent(part, errors);
    }
    for part in [&unavailable, &surge] {
        not_above_all(part, errors);
    }
    match (amount(&unavailable) != 0, amount(&surge) != 0) {
        (true, true) => surge.invalid(errors, "may not be set when maxUnavailable is non-zero"),
        (false, false) => unavailable.required(errors, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// Checks a changed DaemonSet.
pub fn daemon_set_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    selector_unchanged(new, old, errors);
    daemon_set(context, new, errors);
}

/// Checks a StatefulSet.
pub fn stateful_set(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    stateful(object, true, errors);
}

fn stateful(object: &Value, is_new: bool, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let policy = spec.child("podManagementPolicy");
    if policy.needs_text(errors) && !matches!(policy.text(), "OrderedReady" | "Parallel") {
        policy.invalid(errors, "must be 'OrderedReady' or 'Parallel'");
    }
    stateful_strategy(&spec.child("updateStrategy"), errors);
    let retention = spec.child("persistentVolumeClaimRetentionPolicy");
    for key in ["whenDeleted", "whenScaled"] {
        let kind = retention.child(key);
        if retention.is_set() && !matches!(kind.text(), "Retain" | "Delete") {
            kind.unsupported(errors, &["Retain", "Delete"]);
        }
    }
    if is_new {
        for claim in spec.child("volumeClaimTemplates").items() {
            claims::spec(&claim.child("spec"), errors);
        }
    }
    spec.child("replicas").not_negative(errors);
    spec.child("minReadySeconds").not_negative(errors);
    let start = or_null(spec.value.pointer("/ordinals/start"));
    spec.named(start, "ordinals.start").not_negative(errors);
    if is_new {
        spec.child("serviceName")
            .by_if_any(names::dns_label, errors);
    }
    needed_selector(&spec.child("selector"), "statefulset", errors);
    stateful_template(&spec, errors);
    always_restarts(&spec.child("template").child("spec"), "StatefulSet", errors);
}

fn stateful_strategy(strategy: &At<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "" => strategy.required(errors, ""),
        "OnDelete" => {
            if rolling.is_set() {
                rolling.invalid_internal(
                    errors,
                    "apps.RollingUpdateStatefulSetStrategy",
                    "only allowed for updateStrategy 'RollingUpdate'",
                );
            }
        }
        "RollingUpdate" => {
            rolling.child("partition").not_negative(errors);
            let unavailable = rolling.child("maxUnavailable");
            if unavailable.is_set() {
                count_or_percent(&unavailable, errors);
                if amount(&unavailable) == 0 {
                    unavailable.invalid(errors, "cannot be 0");
                }
                not_above_all(&unavailable, errors);
            }
        }
        _ => strategy.invalid_internal(
            errors,
            "apps.StatefulSetUpdateStrategy",
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
    }
}

/// The template as its pods will be: with a volume for each claim, and a name given by the set.
fn stateful_template(spec: &At<'_, '_>, errors: &mut Errors) {
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    let labels = or_null(template.value.pointer("/metadata/labels"));
    match selects(selector.value, labels) {
        None => {
            errors.push(FieldError::invalid_shown(
                &selector.path(),
                selector_text(selector.value),
                "",
            ));
            return;
        }
        Some(false) if !is_empty_selector(selector.value) => labels_do_not_match(&template, errors),
        Some(_) => {}
    }
    let claims = spec.child("volumeClaimTemplates");
    let named = |key: &str| template.value.pointer(&format!("/spec/{key}")).is_some();
    if claims.is_empty() && !named("subdomain") && !named("hostname") {
        pod::template(&template, errors);
        pod::template_metadata(&template, errors);
        return;
    }
    let mut changed = template.value.clone();
    if let Some(pod) = changed.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("subdomain");
        pod.remove("hostname");
        let mut volumes: Vec<Value> = claims
            .items()
            .map(|claim| super::text(or_null(claim.value.get("metadata")), "name"))
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .fold(Vec::new(), |mut known, volume| {
                if !known.contains(&volume) {
                    known.push(volume);
                }
                known
            });
        let own = pod
            .get("volumes")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let made: Vec<Value> = volumes
            .iter()
            .map(|volume| volume["name"].clone())
            .collect();
        volumes.extend(
            own.into_iter()
                .filter(|volume| !made.contains(&volume["name"])),
        );
        pod.insert("volumes".into(), Value::Array(volumes));
    }
    // The changed template is shown under the path of the real one.
    let holder = json!({"spec": {"template": changed}});
    let root = At::root(&holder);
    pod::template(&root.child("spec").child("template"), errors);
    pod::template_metadata(&root.child("spec").child("template"), errors);
}

/// Checks a changed StatefulSet.
pub fn stateful_set_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    stateful(new, false, errors);
    let (Some(mut after), Some(before)) = (new.get("spec").cloned(), old.get("spec")) else {
        return;
    };
    for key in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        pod::set_back(&mut after, before, key);
    }
    if after != *before {
        At::root(new).child("spec").forbidden(errors, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
    }
}

/// Checks a ReplicationController.
pub fn replication_controller(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    spec.child("minReadySeconds").not_negative(errors);
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    if selector.is_empty() {
        selector.required(errors, "");
    }
    if !spec.child("replicas").is_set() {
        spec.child("replicas").required(errors, "");
    }
    spec.child("replicas").not_negative(errors);
    if !template.is_set() {
        template.required(errors, "");
        return;
    }
    let labels = or_null(template.value.pointer("/metadata/labels"));
    if selector
        .entries()
        .any(|(key, value)| labels.get(key) != Some(value.value))
    {
        labels_do_not_match(&template, errors);
    }
    pod::template(&template, errors);
    always_restarts(&template.child("spec"), "ReplicationController", errors);
}

/// Checks a changed ReplicationController.
pub fn replication_controller_update(
    context: &Context<'_>,
    new: &Value,
    _: &Value,
    errors: &mut Errors,
) {
    replication_controller(context, new, errors);
}

/// Checks a new ControllerRevision.
pub fn revision(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    root.child("revision").not_negative(errors);
    let data = root.child("data");
    match data.value {
        Value::Null => data.required(errors, "data is mandatory"),
        Value::Object(_) => {}
        _ => data.required(errors, "data must be a valid JSON object"),
    }
}

/// The data of a revision never changes.
pub fn revision_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    super::super::meta::validate(new, true, true, names::dns_subdomain, errors);
    let root = At::root(new);
    root.child("revision").not_negative(errors);
    let data = root.child("data");
    if sent_data::form(new) != sent_data::form(old) {
        data.immutable(errors);
    }
}
