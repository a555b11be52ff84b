//! Delete and deletecollection: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use everflow_json::Value;

use super::Call;
use super::options::{DeleteOptions, Propagation, delete_options};
use super::request::Answer;
use super::write::store_error;
use crate::codec::json::Json;
use crate::kinds::{convert, meta};
use crate::status::{ApiError, ApiResult, GroupResource, deleted};
use crate::store::Stored;

/// What became of an object.
enum Outcome {
    /// It is gone; this was its last state.
    Gone(Value),
    /// It stays, marked for deletion.
    Marked(Value),
}

fn read_options(call: &Call<'_>) -> ApiResult<DeleteOptions> {
    let body = if call.request.body.is_empty() {
        None
    } else {
        let parsed = super::decode::parse_body(call.request, "DeleteOptions", false);
        Some(parsed.map_err(without_wrapping)?.0)
    };
    if let Some(Json::Object(entries)) = &body
        && let Some(kind) = entries
            .iter()
            .find(|(key, _)| key == "kind")
            .and_then(|(_, value)| value.as_str())
        && !kind.is_empty()
        && kind != "DeleteOptions"
    {
        let version = body
            .as_ref()
            .and_then(|body| body.get("apiVersion"))
            .and_then(Json::as_str)
            .unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    delete_options(call.request, body.as_ref())
}

/// Options of a delete are reported as they were read, without saying what was expected.
fn without_wrapping(mut error: Box<ApiError>) -> Box<ApiError> {
    let bare = error
        .message
        .find("couldn't get version/kind; json parse error: ")
        .and_then(|start| {
            error.message[start..]
                .rfind(" (")
                .map(|end| (start, start + end))
        });
    if let Some((start, end)) = bare {
        error.message = error.message[start..end].to_owned();
    }
    error
}

/// Answers a DELETE of one object.
pub fn delete(call: &Call<'_>) -> ApiResult<Answer> {
    let options = read_options(call)?;
    let _guard = call.server.write_lock();
    let current = call.current();
    warn_orphans(call, &options);
    let current = current.ok_or_else(|| call.missing())?;
    let outcome = remove(call, &current, &options)?;
    match outcome {
        Outcome::Marked(object) => call.answer(
            200,
            &crate::crd::on_read(
                &call.resource,
                convert::from_storage(&call.resource, object),
            ),
        ),
        Outcome::Gone(object) if call.resource.rules.delete_answers_object => call.answer(
            200,
            &crate::crd::on_read(
                &call.resource,
                convert::from_storage(&call.resource, object),
            ),
        ),
        Outcome::Gone(object) => {
            let status = deleted(
                &call.target.name,
                &call.resource.group,
                &call.resource.plural,
                meta::text(&object, "uid"),
            );
            crate::negotiate::plain(call, 200, &status)
        }
    }
}

/// Deleting a Job leaves its pods, which surprises people.
fn warn_orphans(call: &Call<'_>, options: &DeleteOptions) {
    if call.resource.rules.orphan_by_default
        && call.resource.plural == "jobs"
        && options.propagation.is_none()
        && options.orphan_dependents.is_none()
    {
        call.warn("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning");
    }
}

fn check_preconditions(call: &Call<'_>, object: &Value, options: &DeleteOptions) -> ApiResult<()> {
    let kind = GroupResource {
        group: &call.resource.group,
        resource: &call.resource.kind,
    };
    let name = meta::text(object, "name");
    if let Some(uid) = &options.uid {
        let actual = meta::text(object, "uid");
        if uid != actual {
            return Err(ApiError::conflict(
                &kind,
                name,
                &format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({actual}). The object might have been deleted and then recreated"
                ),
            ));
        }
    }
    if let Some(revision) = &options.resource_version {
        let actual = meta::text(object, "resourceVersion");
        if revision != actual {
            return Err(ApiError::conflict(
                &kind,
                name,
                &format!(
                    "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({actual}). The object might have been modified"
                ),
            ));
        }
    }
    Ok(())
}

/// The finalizers an object has once the deletion's policy is written into them.
fn wanted_finalizers(call: &Call<'_>, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let current = meta::finalizers(object);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation) {
        (Some(orphan), _) => (orphan, false),
        (None, Some(policy)) => (
            policy == Propagation::Orphan,
            policy == Propagation::Foreground,
        ),
        (None, None) => match current
            .iter()
            .find(|name| matches!(**name, "orphan" | "foregroundDeletion"))
        {
            Some(name) => (*name == "orphan", *name == "foregroundDeletion"),
            None => (call.resource.rules.orphan_by_default, false),
        },
    };
    let mut wanted: Vec<String> = current
        .iter()
        .filter(|name| !matches!(**name, "orphan" | "foregroundDeletion"))
        .map(|name| (*name).to_owned())
        .collect();
    if orphan {
        wanted.push("orphan".into());
    }
    if foreground {
        wanted.push("foregroundDeletion".into());
    }
    let mut before: Vec<&str> = current.clone();
    let mut after: Vec<&str> = wanted.iter().map(String::as_str).collect();
    before.sort_unstable();
    after.sort_unstable();
    if before == after {
        current.iter().map(|name| (*name).to_owned()).collect()
    } else {
        wanted
    }
}

fn remove(call: &Call<'_>, current: &Arc<Stored>, options: &DeleteOptions) -> ApiResult<Outcome> {
    check_preconditions(call, &current.value, options)?;
    if *call.resource.table == *crate::crd::TABLE {
        return remove_definition(call, current, options.dry_run);
    }
    crate::admission::delete(call, meta::text(&current.value, "name"))?;
    let finalizers = wanted_finalizers(call, &current.value, options);
    if let Some(outcome) =
        crate::kinds::namespace_delete(call, current, finalizers, options.dry_run)?
    {
        return Ok(Outcome::Marked(outcome));
    }
    let mut object = current.value.clone();
    let now = call.server.env().now();
    let grace = crate::kinds::grace_period(&call.resource, &object, options.grace_period);
    let terminating = meta::is_terminating(&object);
    let current_grace = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let mut graceful = false;
    if let Some(grace) = grace {
        if terminating && current_grace > 0 {
            match options
                .grace_period
                .map(|asked| if asked < 0 { 1 } else { asked })
            {
                Some(asked) if asked < current_grace => {
                    let started =
                        crate::time::Timestamp::parse(meta::text(&object, "deletionTimestamp"))
                            .unwrap_or(now)
                            .plus_seconds(-current_grace);
                    let mut end = started.plus_seconds(asked);
                    let mut period = asked;
                    if end < now {
                        end = now;
                        period = if asked == 0 { 0 } else { 1 };
                    }
                    meta::set(&mut object, "deletionTimestamp", Some(end.rfc3339().into()));
                    meta::set(
                        &mut object,
                        "deletionGracePeriodSeconds",
                        Some(period.into()),
                    );
                    graceful = true;
                }
                _ => return Ok(Outcome::Marked(object)),
            }
        } else if !terminating {
            meta::set(
                &mut object,
                "deletionTimestamp",
                Some(now.plus_seconds(grace).rfc3339().into()),
            );
            meta::set(
                &mut object,
                "deletionGracePeriodSeconds",
                Some(grace.into()),
            );
            bump_generation(&mut object);
            graceful = true;
        }
    }
    let wanted = wanted_finalizers(call, &object, options);
    let list: Vec<Value> = wanted
        .iter()
        .map(|name| Value::from(name.as_str()))
        .collect();
    meta::set(
        &mut object,
        "finalizers",
        (!list.is_empty()).then_some(Value::Array(list)),
    );
    let pending = !wanted.is_empty();
    if !graceful && pending {
        mark(&mut object, now);
    }
    let remaining = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if pending || (graceful && remaining > 0) {
        if options.dry_run || object == current.value {
            return Ok(Outcome::Marked(object));
        }
        let written = call
            .server
            .store()
            .update(
                &call.resource.table,
                &key_of(call, &object),
                current.revision,
                object,
            )
            .map_err(|error| store_error(call, &call.target.name, &error))?;
        crate::controllers::after_write(call, &written.value, Some(&current.value));
        return Ok(Outcome::Marked(written.value.clone()));
    }
    if options.dry_run {
        return Ok(Outcome::Gone(object));
    }
    let mut revision = current.revision;
    if graceful {
        let marked = call
            .server
            .store()
            .update(
                &call.resource.table,
                &key_of(call, &object),
                revision,
                object.clone(),
            )
            .map_err(|error| store_error(call, &call.target.name, &error))?;
        revision = marked.revision;
    }
    let last = if graceful {
        object.clone()
    } else {
        current.value.clone()
    };
    let removed = call
        .server
        .store()
        .delete(
            &call.resource.table,
            &key_of(call, &current.value),
            revision,
            Some(last.clone()),
        )
        .map_err(|error| store_error(call, &call.target.name, &error))?;
    crate::controllers::after_delete(call, &removed.value);
    Ok(Outcome::Gone(removed.value.clone()))
}

/// A definition stays until its instances are gone.
fn remove_definition(call: &Call<'_>, current: &Arc<Stored>, dry_run: bool) -> ApiResult<Outcome> {
    let mut object = current.value.clone();
    crate::crd::mark_for_deletion(&mut object, &call.server.env().now().rfc3339());
    if dry_run || object == current.value {
        return Ok(Outcome::Marked(object));
    }
    let name = meta::text(&object, "name").to_owned();
    let written = call
        .server
        .store()
        .update(&call.resource.table, &name, current.revision, object)
        .map_err(|error| store_error(call, &name, &error))?;
    crate::controllers::after_write(call, &written.value, Some(&current.value));
    Ok(Outcome::Marked(written.value.clone()))
}

fn key_of(call: &Call<'_>, object: &Value) -> String {
    call.resource
        .key(meta::text(object, "namespace"), meta::text(object, "name"))
}

fn bump_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set(object, "generation", Some((generation + 1).into()));
    }
}

/// Marks an object for deletion as soon as its finalizers are gone.
fn mark(object: &mut Value, now: crate::time::Timestamp) {
    if !meta::is_terminating(object) {
        bump_generation(object);
        meta::set(object, "deletionTimestamp", Some(now.rfc3339().into()));
    }
    meta::set(object, "deletionGracePeriodSeconds", Some(0.into()));
}

/// Answers a DELETE of a collection.
pub fn delete_collection(call: &Call<'_>) -> ApiResult<Answer> {
    let options = read_options(call)?;
    warn_orphans(call, &options);
    let list = super::read::collect(call)?;
    let _guard = call.server.write_lock();
    for item in &list.items {
        let key = call.resource.key(
            meta::text(&item.value, "namespace"),
            meta::text(&item.value, "name"),
        );
        if let Some(current) = call.server.store().get(&call.resource.table, &key) {
            remove(call, &current, &options)?;
        }
    }
    super::read::answer_list(call, &list)
}
