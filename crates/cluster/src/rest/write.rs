//! Create and update, and the steps every write shares.

use std::borrow::Cow;
use std::sync::Arc;

use everflow_json::{Text, Value};

use super::Call;
use super::decode::decode;
use super::managed;
use super::options::{WriteOptions, manager_name, parse_revision, write_options};
use super::request::Answer;
use crate::env::{name_suffix, new_uid};
use crate::field::Errors;
use crate::kinds::{Generation, convert, meta, sent_data};
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};
use crate::store::{StoreError, Stored};

/// The longest generated name without its suffix.
const GENERATED_LIMIT: usize = 58;

/// What a write left.
#[derive(Debug)]
pub enum Outcome {
    /// The version that is stored, which reads as it is stored.
    Stored(Arc<Stored>),
    /// The object as it reads.
    Shown(Value),
}

impl Outcome {
    /// The object in the request's version.
    pub fn value(&self) -> &Value {
        match self {
            Outcome::Stored(stored) => &stored.value,
            Outcome::Shown(value) => value,
        }
    }

    /// What became of an object that is stored now.
    fn of_stored(resource: &Resource, stored: Arc<Stored>) -> Self {
        if convert::is_storage(resource) && crate::crd::is_read_as_stored(resource, &stored) {
            return Outcome::Stored(stored);
        }
        Self::of_value(resource, stored.value.clone())
    }

    /// What would become of an object.
    fn of_value(resource: &Resource, stored: Value) -> Self {
        Outcome::Shown(crate::crd::on_read(
            resource,
            convert::from_storage(resource, stored),
        ))
    }
}

/// Answers a POST to a collection.
pub fn create(call: &Call<'_>) -> ApiResult<Answer> {
    let options = write_options(call.request, "CreateOptions", false)?;
    let decoded = decode(&call.resource, call.request, options.field_validation)?;
    call.note_sent_data();
    decoded
        .warnings
        .into_iter()
        .for_each(|text| call.warn(text));
    let mut object = decoded.value;
    default(call, &mut object);
    dedup_owners(call, &mut object);
    let manager = manager_name(call.request, &options);
    let _guard = call.server.write_lock();
    let created = insert(call, object, &options, |call, object| {
        managed::track_update(call, None, object, &manager, "")
    })?;
    call.answer_outcome(201, &created)
}

/// An owner is named once.
pub fn dedup_owners(call: &Call<'_>, object: &mut Value) {
    let Some(owners) = meta::metadata_mut(object)
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let mut kept: Vec<Value> = Vec::new();
    let mut twice: Vec<String> = Vec::new();
    for owner in std::mem::take(owners) {
        if kept.contains(&owner) {
            twice.push(
                owner
                    .get("uid")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            );
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if !twice.is_empty() {
        twice.sort();
        twice.dedup();
        call.warn(format!(".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}", twice.join(", ")));
    }
}

/// Fills in defaults.
pub fn default(call: &Call<'_>, object: &mut Value) {
    if let Some(ty) = &call.resource.go_type {
        crate::kinds::defaults::fill(ty, object);
    }
    (call.resource.rules.default)(object);
    crate::crd::default(&call.resource, object);
}

/// The common path of every new object: metadata, rules, admission, store. The object is in the request's version;
/// so is the one that comes back.
pub fn insert(
    call: &Call<'_>,
    mut object: Value,
    options: &WriteOptions,
    track: impl FnOnce(&Call<'_>, &mut Value) -> ApiResult<()>,
) -> ApiResult<Outcome> {
    let resource = &call.resource;
    crate::auth::escalation::check(call, &object, None)?;
    check_namespace(call, &mut object)?;
    let env = call.server.env();
    let generated =
        meta::text(&object, "name").is_empty() && !meta::text(&object, "generateName").is_empty();
    if generated {
        let base = meta::text(&object, "generateName");
        let mut cut = base.len().min(GENERATED_LIMIT);
        while !base.is_char_boundary(cut) {
            cut -= 1;
        }
        let name = format!("{}{}", &base[..cut], name_suffix(env));
        meta::set(&mut object, "name", Some(name.into()));
    }
    meta::set(&mut object, "selfLink", None);
    meta::set(&mut object, "deletionTimestamp", None);
    meta::set(&mut object, "deletionGracePeriodSeconds", None);
    meta::set(&mut object, "uid", Some(new_uid(env).into()));
    meta::set(
        &mut object,
        "creationTimestamp",
        Some(env.now().rfc3339().into()),
    );
    track(call, &mut object)?;
    settle(call, &mut object);
    if resource.rules.has_status {
        drop_status(call, &mut object);
    }
    let mut stored = convert::to_storage(resource, object);
    if sent_data::applies(resource) {
        sent_data::keep(&mut stored, call.sent_data.borrow().as_deref());
    }
    let context = call.context(options.dry_run);
    crate::admission::create(call, &mut stored)?;
    match resource.rules.generation {
        Generation::None | Generation::Kept | Generation::SpecAfterCreate => {}
        _ => meta::set(&mut stored, "generation", Some(1.into())),
    }
    crate::crd::prepare_create(call, &mut stored);
    (resource.rules.prepare_create)(&context, &mut stored)?;
    let mut errors = Errors::new();
    let check_metadata = |errors: &mut Errors| {
        meta::validate(
            &stored,
            resource.namespaced,
            !resource.is_custom(),
            resource.rules.name,
            errors,
        );
    };
    // Some kinds leave metadata to the checks that follow theirs.
    let metadata_last = matches!(&*resource.table, "/events" | "policy/poddisruptionbudgets");
    if !metadata_last {
        check_metadata(&mut errors);
    }
    (resource.rules.validate)(&context, &stored, &mut errors);
    if metadata_last && errors.is_empty() {
        check_metadata(&mut errors);
    }
    crate::crd::validate(call, &stored, None, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(call, &stored, &errors));
    }
    crate::crd::check_create(call, &stored)?;
    if resource.is_custom() {
        meta::finalizer_warnings(&stored, None)
            .into_iter()
            .for_each(|text| call.warn(text));
    }
    for text in (resource.rules.warnings)(&stored, None) {
        call.warn(text);
    }
    let charge = crate::admission::check_quotas(call, &stored, None)?;
    let name = meta::text(&stored, "name").to_owned();
    let key = resource.key(&call.target.namespace, &name);
    if let Some(existing) = call.server.store().get(&resource.table, &key) {
        let mut error = ApiError::already_exists(&resource.group_resource(), &name);
        if meta::is_terminating(&existing.value) {
            error.message = format!("object is being deleted: {}", error.message);
        }
        return Err(error);
    }
    if options.dry_run {
        return Ok(Outcome::of_value(resource, stored));
    }
    charge.settle(call)?;
    meta::set(&mut stored, "resourceVersion", None);
    crate::crd::to_stored(resource, &mut stored);
    let written = call
        .server
        .store()
        .create(&resource.table, &key, stored)
        .map_err(|error| store_error(call, &name, &error))?;
    note_service(call, None, &written.value);
    crate::controllers::after_write(call, &written.value, None);
    Ok(Outcome::of_stored(resource, written))
}

/// What a stored Service uses is taken, and what it used before is free again.
fn note_service(call: &Call<'_>, old: Option<&Value>, new: &Value) {
    if call.resource.group.is_empty() && call.resource.plural == "services" {
        let allocator = call.server.allocator();
        if let Some(old) = old {
            allocator.release(old);
        }
        allocator.adopt(new);
    }
}

fn settle(call: &Call<'_>, object: &mut Value) {
    if let Some(ty) = &call.resource.go_type {
        crate::codec::gotypes::types().settle(ty, object);
    }
}

/// A new object has the status its kind starts with, whatever the client sent.
fn drop_status(call: &Call<'_>, object: &mut Value) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    map.remove("status");
    let fresh = call
        .resource
        .go_type
        .as_ref()
        .and_then(|ty| crate::codec::convert::unset_field(ty, "status"));
    if let Some(fresh) = fresh {
        map.insert("status".into(), fresh);
    }
}

/// The object lives in the namespace of the path.
pub fn check_namespace(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let expected = if call.resource.namespaced {
        call.target.namespace.as_str()
    } else {
        ""
    };
    let given = meta::text(object, "namespace").to_owned();
    if given.is_empty() {
        meta::set(
            object,
            "namespace",
            (!expected.is_empty()).then(|| expected.into()),
        );
        return Ok(());
    }
    if given != expected && call.resource.namespaced {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !call.resource.namespaced {
        meta::set(object, "namespace", None);
    }
    Ok(())
}

/// The failure of an object that breaks rules.
pub fn invalid(call: &Call<'_>, object: &Value, errors: &Errors) -> Box<ApiError> {
    // Objects are checked in the form they are stored in, and reported as of its group.
    let group = match call.resource.table.split_once('/') {
        Some((group, _)) if !call.resource.is_custom() => group,
        _ => call.resource.group.as_str(),
    };
    ApiError::invalid(
        group,
        &call.resource.kind,
        meta::text(object, "name"),
        errors,
    )
}

/// A refusal of the store as a failure.
pub fn store_error(call: &Call<'_>, name: &str, error: &StoreError) -> Box<ApiError> {
    let resource = call.resource.group_resource();
    match error {
        StoreError::Exists => ApiError::already_exists(&resource, name),
        StoreError::Missing => ApiError::not_found(&resource, name),
        StoreError::Stale => ApiError::modified(&resource, name),
        StoreError::TooOld(_) => ApiError::new(
            410,
            "Expired",
            "The resourceVersion for the provided list is too old.",
        ),
        StoreError::Crashed => crashed(),
        StoreError::Durable(message) => ApiError::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        ),
    }
}

/// What a dead server would say if anybody could hear it.
pub fn crashed() -> Box<ApiError> {
    ApiError::new(503, "ServiceUnavailable", "the server has crashed")
}

/// Answers a PUT.
pub fn update(call: &Call<'_>) -> ApiResult<Answer> {
    let options = write_options(call.request, "UpdateOptions", false)?;
    let decoded = decode(&call.resource, call.request, options.field_validation)?;
    call.note_sent_data();
    decoded
        .warnings
        .into_iter()
        .for_each(|text| call.warn(text));
    let mut object = decoded.value;
    check_name(call, &object)?;
    default(call, &mut object);
    dedup_owners(call, &mut object);
    let manager = manager_name(call.request, &options);
    let _guard = call.server.write_lock();
    let Some(current) = call.current() else {
        if !call.resource.rules.create_on_update || !call.target.subresource.is_empty() {
            check_namespace(call, &mut object)?;
            return Err(call.missing());
        }
        let uid = meta::text(&object, "uid").to_owned();
        if !uid.is_empty() {
            return Err(uid_precondition(call, &uid, ""));
        }
        let created = insert(call, object, &options, |call, object| {
            managed::track_update(call, None, object, &manager, "")
        })?;
        return call.answer_outcome(201, &created);
    };
    check_namespace(call, &mut object)?;
    let uid = meta::text(&object, "uid").to_owned();
    if !uid.is_empty() && uid != meta::text(&current.value, "uid") {
        return Err(uid_precondition(
            call,
            &uid,
            meta::text(&current.value, "uid"),
        ));
    }
    let subresource = call.target.subresource.clone();
    let updated = replace(call, &current, object, &options, |call, live, object| {
        managed::track_update(call, Some(live), object, &manager, &subresource)
    })?;
    call.answer_outcome(200, &updated)
}

fn uid_precondition(call: &Call<'_>, given: &str, actual: &str) -> Box<ApiError> {
    let resource = call.resource.group_resource();
    let key = format!("/registry/{}/{}", storage_path(call), call.key());
    ApiError::conflict(
        &resource,
        &call.target.name,
        &format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {actual}"
        ),
    )
}

/// The part of the real server's storage key that names the kind.
fn storage_path(call: &Call<'_>) -> String {
    let resource = &call.resource;
    if resource.is_custom() {
        format!("{}/{}", resource.group, resource.plural)
    } else {
        resource.plural.clone()
    }
}

/// The name in the body is the name in the path.
pub fn check_name(call: &Call<'_>, object: &Value) -> ApiResult<()> {
    let name = meta::text(object, "name");
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.target.name
        )));
    }
    if name != call.target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    Ok(())
}

/// The common path of every changed object. The object is in the request's version; so is the one that comes back.
pub fn replace(
    call: &Call<'_>,
    current: &Arc<Stored>,
    mut object: Value,
    options: &WriteOptions,
    track: impl FnOnce(&Call<'_>, &Value, &mut Value) -> ApiResult<()>,
) -> ApiResult<Outcome> {
    let resource = &call.resource;
    let read = match crate::crd::is_read_as_stored(resource, current) {
        true => Cow::Borrowed(&*current.value),
        false => Cow::Owned(crate::crd::on_read(resource, current.value.clone())),
    };
    let old: &Value = &read;
    crate::auth::escalation::check(call, &object, Some(old))?;
    check_revision(call, &mut object, current)?;
    if convert::is_storage(resource) && !sent_data::applies(resource) {
        track(call, old, &mut object)?;
    } else {
        let live = convert::from_storage(resource, old.clone());
        track(call, &live, &mut object)?;
    }
    let sent = (resource.plural == "persistentvolumeclaims").then(|| object.clone());
    settle(call, &mut object);
    let mut new = convert::to_storage(resource, object);
    if sent_data::applies(resource) {
        sent_data::keep(&mut new, call.sent_data.borrow().as_deref());
    }
    let mut context = call.context(options.dry_run);
    context.sent = sent.as_ref();
    crate::admission::update(call, &mut new, old)?;
    let generation = meta::metadata(old)
        .and_then(|map| map.get("generation"))
        .cloned();
    meta::set(&mut new, "generation", generation);
    let to_status = call.target.subresource == "status";
    prepare(call, &mut new, old, to_status, options.dry_run)?;
    if meta::text(&new, "uid").is_empty() {
        meta::set(&mut new, "uid", Some(meta::text(old, "uid").into()));
    }
    for key in ["creationTimestamp", "deletionTimestamp"] {
        let before = meta::metadata(old).and_then(|map| map.get(key)).cloned();
        if before.is_some() {
            meta::set(&mut new, key, before);
        }
    }
    let grace = meta::metadata(old)
        .and_then(|map| map.get("deletionGracePeriodSeconds"))
        .cloned();
    if grace.is_some()
        && meta::metadata(&new).is_some_and(|map| !map.contains_key("deletionGracePeriodSeconds"))
    {
        meta::set(&mut new, "deletionGracePeriodSeconds", grace);
    }
    meta::set(&mut new, "selfLink", None);
    let mut errors = Errors::new();
    // Metadata is checked for every kind first, and by most kinds again.
    meta::validate(
        &new,
        resource.namespaced,
        false,
        crate::kinds::names::path_segment,
        &mut errors,
    );
    // What was found to be right need not be looked at again.
    match errors.is_empty() {
        true => meta::validate_changes(&new, old, &mut errors),
        false => meta::validate_update(&new, old, false, &mut errors),
    }
    let to_main = call.target.subresource.is_empty();
    if resource.rules.checks_metadata || !to_main {
        let builtin = !resource.is_custom();
        match errors.is_empty() {
            true => meta::validate_finalizer_words(&new, builtin, &mut errors),
            false => meta::validate_update(&new, old, builtin, &mut errors),
        }
    }
    match call.target.subresource.as_str() {
        _ if resource.is_custom() => {}
        "" => (resource.rules.validate_update)(&context, &new, old, &mut errors),
        "ephemeralcontainers" => {
            crate::kinds::validation::pod::ephemeral_update(&new, old, &mut errors);
        }
        "finalize" => crate::kinds::validation::node::namespace_finalize(&new, &mut errors),
        _ => (resource.rules.validate_status)(&context, &new, old, &mut errors),
    }
    crate::crd::validate(call, &new, Some(old), &mut errors);
    if !errors.is_empty() {
        return Err(invalid(call, &new, &errors));
    }
    if resource.is_custom() {
        meta::finalizer_warnings(&new, Some(old))
            .into_iter()
            .for_each(|text| call.warn(text));
    }
    for text in (resource.rules.warnings)(&new, Some(old)) {
        call.warn(text);
    }
    let charge = crate::admission::check_quotas(call, &new, Some(old))?;
    if !options.dry_run {
        charge.settle(call)?;
    }
    managed::ignore_time_only_changes(&mut new, old);
    commit(call, current, new, options)
}

fn prepare(
    call: &Call<'_>,
    new: &mut Value,
    old: &Value,
    to_status: bool,
    dry_run: bool,
) -> ApiResult<()> {
    let resource = &call.resource;
    if call.target.subresource == "ephemeralcontainers" {
        crate::kinds::prepare::keep_all_but_ephemeral_containers(new, old);
    }
    if call.target.subresource == "finalize" {
        let finalizers = new.pointer("/spec/finalizers").cloned();
        let managed = meta::metadata(new)
            .and_then(|map| map.get("managedFields"))
            .cloned();
        let revision = meta::text(new, "resourceVersion").to_owned();
        *new = old.clone();
        if let Some(spec) = crate::kinds::prepare::part(new, "spec") {
            match finalizers.filter(|list| list.as_array().is_some_and(|list| !list.is_empty())) {
                Some(list) => drop(spec.insert("finalizers".into(), list)),
                None => drop(spec.remove("finalizers")),
            }
        }
        meta::set(new, "managedFields", managed);
        meta::set(new, "resourceVersion", Some(revision.into()));
        return Ok(());
    }
    if to_status {
        (resource.rules.prepare_status)(&call.context(dry_run), new, old);
        crate::crd::prepare_status(call, new, old);
        return Ok(());
    }
    if resource.rules.has_status
        && let Some(map) = new.as_object_mut()
    {
        match old.get("status") {
            Some(status) => drop(map.insert("status".into(), status.clone())),
            None => drop(map.remove("status")),
        }
    }
    crate::crd::prepare_update(call, new, old);
    (resource.rules.prepare_update)(&call.context(dry_run), new, old)?;
    let moved = match resource.rules.generation {
        Generation::None | Generation::Kept | Generation::Fixed => false,
        Generation::Spec | Generation::SpecAfterCreate => new.get("spec") != old.get("spec"),
        Generation::SpecAndAnnotations => {
            new.get("spec") != old.get("spec")
                || new.pointer("/metadata/annotations") != old.pointer("/metadata/annotations")
        }
        Generation::AllButStatus => differs_beside_status(call, new, old),
    };
    if moved {
        meta::set(new, "generation", Some((meta::generation(old) + 1).into()));
    }
    Ok(())
}

fn differs_beside_status(call: &Call<'_>, new: &Value, old: &Value) -> bool {
    let with_status = call.resource.is_custom() && !crate::crd::has_status(&call.resource);
    let beside = |(key, _): &(&Text, &Value)| {
        key.as_str() != "metadata" && (with_status || key.as_str() != "status")
    };
    let relevant = |object| {
        Value::as_object(object)
            .into_iter()
            .flatten()
            .filter(beside)
    };
    let labels = call.resource.plural == "endpointslices"
        && new.pointer("/metadata/labels") != old.pointer("/metadata/labels");
    labels || relevant(new).ne(relevant(old))
}

/// A given revision must be the current one; a missing one is filled in where the kind allows it.
fn check_revision(call: &Call<'_>, object: &mut Value, current: &Arc<Stored>) -> ApiResult<()> {
    let given = meta::text(object, "resourceVersion").to_owned();
    if given.is_empty() || given == "0" {
        if !call.resource.rules.unconditional_update && call.target.verb == "update" {
            let path = crate::field::Path::new("metadata").child("resourceVersion");
            let errors = vec![crate::field::FieldError::invalid_shown(
                &path,
                "0",
                "must be specified for an update",
            )];
            return Err(ApiError::invalid(
                &call.resource.group,
                &call.resource.plural,
                &call.target.name,
                &errors,
            ));
        }
        meta::set(
            object,
            "resourceVersion",
            Some(current.revision.to_string().into()),
        );
        return Ok(());
    }
    let revision = parse_revision(&given).map_err(ApiError::internal_plain)?;
    if revision != current.revision {
        return Err(ApiError::modified(
            &call.resource.group_resource(),
            &call.target.name,
        ));
    }
    Ok(())
}

/// Stores a changed object unless nothing changed; the last finalizer of a terminating object takes it away.
pub fn commit(
    call: &Call<'_>,
    current: &Arc<Stored>,
    mut new: Value,
    options: &WriteOptions,
) -> ApiResult<Outcome> {
    let resource = &call.resource;
    let store = call.server.store();
    let name = call.target.name.clone();
    let gone = meta::is_terminating(&new)
        && meta::finalizers(&new).is_empty()
        && grace_is_over(&new)
        && crate::kinds::may_disappear(resource, &new);
    if options.dry_run {
        return Ok(Outcome::of_value(resource, new));
    }
    if gone && !call.target.subresource.contains("approval") {
        let removed = store
            .delete(&resource.table, &call.key(), current.revision, None)
            .map_err(|error| store_error(call, &name, &error))?;
        crate::controllers::after_delete(call, &removed.value);
        return Ok(Outcome::of_value(resource, new));
    }
    crate::crd::to_stored(resource, &mut new);
    if new == current.value && !(current.fresh && crate::kinds::fills_in_on_read(resource, &new)) {
        return Ok(Outcome::of_stored(resource, current.clone()));
    }
    let written = store
        .update(&resource.table, &call.key(), current.revision, new)
        .map_err(|error| store_error(call, &name, &error))?;
    note_service(call, Some(&current.value), &written.value);
    crate::controllers::after_write(call, &written.value, Some(&current.value));
    Ok(Outcome::of_stored(resource, written))
}

fn grace_is_over(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default()
        == 0
}
