//! Jobs and CronJobs.

use everflow_json::{Value, json};

use super::super::at::{At, or_null, selects};
use super::super::{Context, meta, names};
use super::{cron, pod};
use crate::field::{Errors, FieldError, go_json, go_quote};

const INDEXED_MOST: i64 = 100_000;
const INDEXED_MANY: i64 = 10_000;

/// Checks a new Job.
pub fn job(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    generated_selector(&root, errors);
    job_spec(&spec, errors);
    let completions = spec.child("completions").number();
    if spec.child("completionMode").text() == "Indexed" && completions > 0 {
        let metadata = root.child("metadata");
        let name = metadata.child("name");
        let last = format!("{}-{}", name.text(), completions - 1);
        if !names::dns_label(&last).is_empty() {
            name.invalid(
                errors,
                format!("will not able to create pod with invalid DNS label: {last}"),
            );
        }
    }
}

fn generated_selector(root: &At<'_, '_>, errors: &mut Errors) {
    let spec = root.child("spec");
    if spec.child("manualSelector").is_true() || !spec.child("selector").is_set() {
        return;
    }
    let (uid, name) = (
        meta::text(root.value, "uid"),
        meta::text(root.value, "name"),
    );
    let metadata = At::root(or_null(spec.value.pointer("/template/metadata")));
    let template = spec.child("template");
    let shown = template.named(metadata.value, "metadata");
    let labels = shown.child("labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (key, value) in expected {
        let label = labels.key(key);
        if !label.is_set() {
            label.required(errors, &format!("must be '{value}'"));
        } else if label.text() != value {
            label.invalid_as(errors, labels.value.clone(), format!("must be '{value}'"));
        }
    }
    let all: Value = expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect::<everflow_json::Map>()
        .into();
    let selector = spec.child("selector");
    if selects(selector.value, &all) == Some(false) {
        selector.invalid(errors, "`selector` not auto-generated");
    }
}

fn job_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    shared_spec(spec, errors);
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    if selector.is_set() {
        selector.label_selector(errors);
    } else {
        selector.required(errors, "");
    }
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if selects(selector.value, labels.value) == Some(false) {
        let shown = go_json(labels.value);
        errors.push(FieldError::invalid_shown(
            &labels.path(),
            shown,
            "`selector` does not match template `labels`",
        ));
    }
}

/// What Jobs and the templates of CronJobs share.
fn shared_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    let mode = spec.child("completionMode");
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ] {
        spec.child(key).not_negative(errors);
    }
    let (failed, per_index) = (
        spec.child("maxFailedIndexes"),
        spec.child("backoffLimitPerIndex"),
    );
    failed.not_negative(errors);
    if failed.is_set() && !per_index.is_set() {
        per_index.required(errors, "when maxFailedIndexes is specified");
    }
    let manager = spec.child("managedBy");
    if manager.is_set() {
        domain_prefixed_path(&manager, errors);
        if manager.text().len() > 63 {
            manager.too_long(errors, 63);
        }
    }
    mode.one_of(errors, &["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        indexed(spec, errors);
    }
    if matches!(mode.text(), "" | "NonIndexed") {
        for part in [&per_index, &failed] {
            if part.is_set() {
                part.invalid(errors, "requires indexed completion mode");
            }
        }
    }
    let failure = spec.child("podFailurePolicy");
    if failure.is_set() {
        failure_policy(spec, &failure, errors);
    }
    let success = spec.child("successPolicy");
    if success.is_set() {
        if mode.text() == "Indexed" {
            success_policy(spec, &success, errors);
        } else {
            success.invalid_internal(
                errors,
                "batch.SuccessPolicy",
                "requires indexed completion mode",
            );
        }
    }
    let replacement = spec.child("podReplacementPolicy");
    let known: &[&str] = if failure.is_set() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    replacement.one_of(errors, known);
    let template = spec.child("template");
    pod::template(&template, errors);
    let pod = template.child("spec");
    let restart = pod.child("restartPolicy");
    match restart.text() {
        "" | "Always" => restart.required(errors, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if failure.is_set() => {
            restart.invalid(
                errors,
                "only \"Never\" is supported when podFailurePolicy is specified",
            );
        }
        "OnFailure" | "Never" => {}
        _ => restart.unsupported(errors, &["OnFailure", "Never"]),
    }
}

fn indexed(spec: &At<'_, '_>, errors: &mut Errors) {
    let (completions, parallelism, failed) = (
        spec.child("completions"),
        spec.child("parallelism"),
        spec.child("maxFailedIndexes"),
    );
    if !completions.is_set() {
        completions.required(errors, "when completion mode is Indexed");
    }
    if parallelism.number() > INDEXED_MOST {
        parallelism.invalid(
            errors,
            format!("must be less than or equal to {INDEXED_MOST} when completion mode is Indexed"),
        );
    }
    if completions.is_set() && failed.is_set() && failed.number() > completions.number() {
        failed.invalid(errors, "must be less than or equal to completions");
    }
    if failed.number() > INDEXED_MOST {
        failed.invalid(
            errors,
            format!("must be less than or equal to {INDEXED_MOST}"),
        );
    }
    if completions.number() > INDEXED_MOST && spec.child("backoffLimitPerIndex").is_set() {
        if !failed.is_set() {
            failed.required(
                errors,
                &format!("must be specified when completions is above {INDEXED_MOST}"),
            );
        }
        for part in [&parallelism, &failed] {
            if part.number() > INDEXED_MANY {
                part.invalid(errors, format!("must be less than or equal to {INDEXED_MANY} when completions are above {INDEXED_MOST} and used with backoff limit per index"));
            }
        }
    }
}

/// A path behind a domain, such as `acme.io/foo`.
pub fn domain_prefixed_path(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.needs_text(errors) {
        return;
    }
    let Some((host, path)) = at
        .text()
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        at.invalid(
            errors,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        );
        return;
    };
    for problem in names::dns_subdomain(host) {
        at.invalid_as(errors, host, problem);
    }
    for problem in names::http_path(path) {
        at.invalid_as(errors, path, problem);
    }
}

fn quoted_list(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|name| go_quote(name)).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn failure_policy(spec: &At<'_, '_>, policy: &At<'_, '_>, errors: &mut Errors) {
    let rules = policy.child("rules");
    if rules.len() > 20 {
        rules.too_many(errors, 20);
    }
    let mut containers: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        let found = spec
            .value
            .pointer(&format!("/template/spec/{list}"))
            .and_then(Value::as_array);
        containers.extend(
            found
                .into_iter()
                .flatten()
                .map(|container| super::text(container, "name")),
        );
    }
    for rule in rules.items() {
        let action = rule.child("action");
        const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
        match action.text() {
            "" => action.required(errors, &quoted_list(&ACTIONS)),
            "FailIndex" if !spec.child("backoffLimitPerIndex").is_set() => {
                action.invalid(errors, "requires the backoffLimitPerIndex to be set");
            }
            _ => action.one_of(errors, &ACTIONS),
        }
        let (codes, conditions) = (rule.child("onExitCodes"), rule.child("onPodConditions"));
        if codes.is_set() {
            exit_codes(&codes, &containers, errors);
        }
        if conditions.len() > 20 {
            conditions.too_many(errors, 20);
        }
        for condition in conditions.items() {
            condition.child("type").by(names::qualified_name, errors);
            let status = condition.child("status");
            const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
            if status.is_empty() {
                status.required(errors, &quoted_list(&STATUSES));
            } else {
                status.one_of(errors, &STATUSES);
            }
        }
        match (codes.is_set(), conditions.is_empty()) {
            (true, false) => rule.invalid_hidden(
                errors,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (false, true) => rule.invalid_hidden(
                errors,
                "specifying one of OnExitCodes and OnPodConditions is required",
            ),
            _ => {}
        }
    }
}

fn exit_codes(at: &At<'_, '_>, containers: &[&str], errors: &mut Errors) {
    let (operator, name, values) = (
        at.child("operator"),
        at.child("containerName"),
        at.child("values"),
    );
    if operator.is_empty() {
        operator.required(errors, &quoted_list(&["In", "NotIn"]));
    } else {
        operator.one_of(errors, &["In", "NotIn"]);
    }
    if name.is_set() && !containers.contains(&name.text()) {
        name.invalid(
            errors,
            "must be one of the container or initContainer names in the pod template",
        );
    }
    if values.is_empty() {
        values.invalid_or_null(errors, "at least one value is required");
    } else if values.len() > 255 {
        values.too_many(errors, 255);
    }
    let (mut seen, mut ordered) = (Vec::new(), true);
    for value in values.items() {
        if operator.text() == "In" && value.number() == 0 {
            value.invalid(errors, "must not be 0 for the In operator");
        }
        if seen.contains(&value.number()) {
            value.duplicate(errors);
        }
        ordered &= seen.last().is_none_or(|before| *before <= value.number());
        seen.push(value.number());
    }
    if !ordered {
        values.invalid(errors, "must be ordered");
    }
}

fn success_policy(spec: &At<'_, '_>, policy: &At<'_, '_>, errors: &mut Errors) {
    let completions = spec.child("completions").number();
    let rules = policy.child("rules");
    if rules.is_empty() {
        rules.required(
            errors,
            "at least one rules must be specified when the successPolicy is specified",
        );
    }
    if rules.len() > 20 {
        rules.too_many(errors, 20);
    }
    for rule in rules.items() {
        let (count, indexes) = (rule.child("succeededCount"), rule.child("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            rule.required(
                errors,
                "at least one of succeededCount or succeededIndexes must be specified",
            );
        }
        let mut total = 0;
        if indexes.is_set() {
            match index_count(indexes.text(), completions) {
                Ok(found) => total = found,
                Err(problem) => {
                    indexes.invalid(errors, format!("error parsing succeededIndexes: {problem}"))
                }
            }
        }
        if count.is_set() {
            count.not_negative(errors);
            if count.number() > completions {
                count.invalid(errors, format!("must be less than or equal to {completions} (the number of specified completions)"));
            }
            if indexes.is_set() && count.number() > total {
                count.invalid(errors, format!("must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"));
            }
        }
    }
}

/// How many indexes a text such as `0,2-4` names.
fn index_count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = |text: &str| -> Result<i64, String> {
        let found: i64 = text.parse().map_err(|_| {
            format!(
                "cannot convert string to integer for index: {}",
                go_quote(text)
            )
        })?;
        if found >= completions {
            Err(format!("too large index: {}", go_quote(text)))
        } else {
            Ok(found)
        }
    };
    let out_of_order = |before, now| {
        Err(format!(
            "non-increasing order, previous: {before}, current: {now}"
        ))
    };
    let (mut total, mut last) = (0, None);
    for interval in text.split(',') {
        let ends: Vec<&str> = interval.split('-').collect();
        let (low, high) = match ends.as_slice() {
            [one] => (number(one)?, number(one)?),
            [low, high] => (number(low)?, number(high)?),
            _ => {
                return Err(format!(
                    "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
                    go_quote(interval)
                ));
            }
        };
        if ends.len() == 2 && low >= high {
            return out_of_order(low, high);
        }
        if let Some(before) = last.filter(|before| *before >= low) {
            return out_of_order(before, low);
        }
        total += high - low + 1;
        last = Some(high);
    }
    Ok(total)
}

/// Checks a changed Job.
pub fn job_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
    job(context, new, errors);
    meta::validate_update(new, old, true, errors);
    let root = At::root(new);
    let spec = root.child("spec");
    job_spec(&spec, errors);
    let before = |key: &str| or_null(old.pointer(&format!("/spec/{key}")));
    let completions = spec.child("completions");
    if spec.child("completionMode").text() != "Indexed" {
        completions.unchanged(before("completions"), errors);
    } else if completions.value != before("completions")
        && completions.is_set()
        && completions.value != spec.child("parallelism").value
    {
        completions.invalid(
            errors,
            "can only be modified in tandem with spec.parallelism",
        );
    }
    spec.child("selector").unchanged(before("selector"), errors);
    template_update(&spec, old, errors);
    spec.child("completionMode")
        .unchanged(before("completionMode"), errors);
    spec.child("podFailurePolicy").unchanged_internal(
        before("podFailurePolicy"),
        "*batch.PodFailurePolicy",
        errors,
    );
    spec.child("backoffLimitPerIndex")
        .unchanged(before("backoffLimitPerIndex"), errors);
    spec.child("managedBy")
        .unchanged(before("managedBy"), errors);
    spec.child("successPolicy").unchanged_internal(
        before("successPolicy"),
        "*batch.SuccessPolicy",
        errors,
    );
}

/// The pods of a Job change only while it waits to start, and then only in what they need and where they run.
fn template_update(spec: &At<'_, '_>, old: &Value, errors: &mut Errors) {
    let template = spec.child("template");
    let mut before = or_null(old.pointer("/spec/template")).clone();
    let suspended = old.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let conditions = old.pointer("/status/conditions").and_then(Value::as_array);
    let settled = conditions.into_iter().flatten().any(|condition| {
        super::text(condition, "type") == "Suspended" && super::text(condition, "status") == "True"
    });
    let active = old
        .pointer("/status/active")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if suspended && settled && active == 0 {
        allow_placement(template.value, &mut before);
        allow_resources(template.value, &mut before);
        let spec_path = spec.named(or_null(template.value.get("spec")), "template.spec");
        spec_path.unchanged_internal(or_null(before.get("spec")), "core.PodSpec", errors);
        return;
    }
    template.unchanged_internal(&before, "core.PodTemplateSpec", errors);
}

fn allow_placement(new: &Value, before: &mut Value) {
    let after_affinity = new.pointer("/spec/affinity/nodeAffinity").cloned();
    if let Some(spec) = before.get_mut("spec").and_then(Value::as_object_mut) {
        let mut affinity = spec.get("affinity").cloned().unwrap_or_else(|| json!({}));
        if let Some(map) = affinity.as_object_mut() {
            match after_affinity {
                Some(node) => drop(map.insert("nodeAffinity".into(), node)),
                None => drop(map.remove("nodeAffinity")),
            }
        }
        if affinity == json!({}) && new.pointer("/spec/affinity").is_none() {
            spec.remove("affinity");
        } else {
            spec.insert("affinity".into(), affinity);
        }
    }
    let after = or_null(new.get("spec")).clone();
    if let Some(spec) = before.get_mut("spec") {
        for key in ["nodeSelector", "tolerations", "schedulingGates"] {
            pod::set_back(spec, &after, key);
        }
    }
    let metadata = or_null(new.get("metadata")).clone();
    if let Some(map) = before.as_object_mut() {
        let slot = map.entry("metadata").or_insert_with(|| json!({}));
        for key in ["annotations", "labels"] {
            pod::set_back(slot, &metadata, key);
        }
    }
}

fn allow_resources(new: &Value, before: &mut Value) {
    for list in ["containers", "initContainers"] {
        let after = new
            .pointer(&format!("/spec/{list}"))
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let Some(containers) = before
            .pointer_mut(&format!("/spec/{list}"))
            .and_then(Value::as_array_mut)
        else {
            continue;
        };
        if containers.len() != after.len() {
            continue;
        }
        for (container, now) in containers.iter_mut().zip(&after) {
            if container.get("name") == now.get("name") {
                pod::set_back(container, now, "resources");
            }
        }
    }
}

/// Checks a new CronJob.
pub fn cron_job(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    cron_spec(&root, None, errors);
    let metadata = root.child("metadata");
    let name = metadata.child("name");
    if name.text().len() > 52 {
        name.invalid(errors, "must be no more than 52 characters");
    }
}

/// Checks a changed CronJob.
pub fn cron_job_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    cron_spec(&At::root(new), Some(old), errors);
}

fn cron_spec(root: &At<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    let spec = root.child("spec");
    let (schedule, zone) = (spec.child("schedule"), spec.child("timeZone"));
    if schedule.needs_text(errors) {
        if let Err(problem) = cron::check(schedule.text()) {
            schedule.invalid(errors, problem);
        }
        let before = old
            .and_then(|old| old.pointer("/spec/schedule"))
            .and_then(Value::as_str);
        let allowed = before.is_some_and(|before| before.contains("TZ"));
        if schedule.text().contains("TZ") {
            if !allowed {
                schedule.invalid(
                    errors,
                    "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                );
            } else if zone.is_set() {
                schedule.invalid(
                    errors,
                    "cannot use both timeZone field and TZ or CRON_TZ in schedule",
                );
            }
        }
    }
    spec.child("startingDeadlineSeconds").not_negative(errors);
    if old.is_none_or(|old| or_null(old.pointer("/spec/timeZone")) != zone.value) {
        time_zone(&zone, errors);
    }
    spec.child("concurrencyPolicy")
        .needs_one_of(errors, &["Allow", "Forbid", "Replace"]);
    let template = spec.child("jobTemplate");
    let job = template.child("spec");
    shared_spec(&job, errors);
    let selector = job.child("selector");
    if selector.is_set() {
        selector.invalid(errors, "`selector` will be auto-generated");
    }
    if job.child("manualSelector").is_true() {
        job.child("manualSelector")
            .unsupported(errors, &["nil", "false"]);
    }
    spec.child("successfulJobsHistoryLimit")
        .not_negative(errors);
    spec.child("failedJobsHistoryLimit").not_negative(errors);
}

fn time_zone(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let name = at.text();
    if name.is_empty() {
        at.invalid(errors, "timeZone must be nil or non-empty string");
        return;
    }
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
    };
    if !name.split('/').all(is_part) {
        at.invalid(errors, format!("unknown time zone {name}"));
        return;
    }
    let local = name.eq_ignore_ascii_case("Local");
    if local {
        at.invalid(
            errors,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if name != "Local" && !cron::is_zone(name) {
        at.invalid(errors, format!("unknown time zone {name}"));
    }
}
