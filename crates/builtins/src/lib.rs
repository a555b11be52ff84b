//! What is special about each built-in kind of Kubernetes: its facts (answers, generation, names) and its rules (defaults,
//! checks, conversion between versions), on plain trees.
//!
//! A kind's rules are one [`KindRules`] value in the table of `facts`, which [`rules`] looks it up in. Everything not said
//! there is as in [`KindRules::BASE`]. Time and randomness are handed in by an [`Environment`].

#![forbid(unsafe_code)]

pub mod at;
pub mod convert;
pub mod defaults;
pub mod definition;
mod facts;
pub mod field;
pub mod internal;
pub mod line_diff;
pub mod meta;
pub mod net;
pub mod prepare;
pub mod sent_data;
pub mod service;
pub mod services;
pub mod status;
pub mod time;
mod user;
pub mod validation;

use everflow_json::{Text, Value};
pub use everflow_schema::names;

pub use user::User;

use crate::field::Errors;
use crate::status::ApiResult;
use crate::time::Timestamp;

/// Where rules get the time and their random bits.
pub trait Environment: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// The next random bits.
    fn random(&self) -> u64;
    /// Whether a feature gate is on that Kubernetes has off. Known is `HPAScaleToZero`.
    fn has_feature(&self, _gate: &str) -> bool {
        false
    }
}

/// A collection of the API by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collection<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The plural name.
    pub plural: &'a str,
}

/// What a rule may look at besides the object.
pub struct Context<'a> {
    /// Time and randomness.
    pub env: &'a dyn Environment,
    /// Who asks.
    pub user: &'a User,
    /// Whether nothing will be kept.
    pub dry_run: bool,
    /// Addresses and ports of Services.
    pub allocator: &'a service::Allocator,
    /// The namespace of the request, empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The changed object as it was before its empty lists and maps were dropped, for kinds whose messages show them.
    pub sent: Option<&'a Value>,
}

/// When `metadata.generation` moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// It moves when `spec` changes.
    Spec,
    /// It moves when `spec` or the annotations change.
    SpecAndAnnotations,
    /// It moves when anything but metadata and status changes.
    AllButStatus,
    /// The client may set it; the server never moves it.
    Kept,
    /// New objects have none; it starts when `spec` changes.
    SpecAfterCreate,
    /// It is one and stays one.
    Fixed,
}

/// Names of fields, and how each is read.
pub type Selectable = &'static [(&'static str, fn(&Value) -> String)];

/// The facts and rules of a kind.
#[derive(Debug)]
pub struct KindRules {
    /// PUT creates a missing object.
    pub create_on_update: bool,
    /// PUT without a resourceVersion is allowed.
    pub unconditional_update: bool,
    /// DELETE answers the object instead of a Status.
    pub delete_answers_object: bool,
    /// DELETE without a policy leaves dependents alone.
    pub orphan_by_default: bool,
    /// When the generation moves.
    pub generation: Generation,
    /// The status is dropped from writes to the main resource.
    pub has_status: bool,
    /// Changed metadata is checked as the first of the kind's own rules.
    pub checks_metadata: bool,
    /// The rule for names.
    pub name: fn(&str) -> Vec<String>,
    /// Fills in defaults, in the version of the request.
    pub default: fn(&mut Value),
    /// Prepares a new object (storage version).
    pub prepare_create: fn(&Context<'_>, &mut Value) -> ApiResult<()>,
    /// Checks a new object.
    pub validate: fn(&Context<'_>, &Value, &mut Errors),
    /// Prepares a changed object.
    pub prepare_update: fn(&Context<'_>, &mut Value, &Value) -> ApiResult<()>,
    /// Checks a changed object.
    pub validate_update: fn(&Context<'_>, &Value, &Value, &mut Errors),
    /// Prepares a changed status: what besides the status is taken from the stored object.
    pub prepare_status: fn(&Context<'_>, &mut Value, &Value),
    /// Checks a changed status.
    pub validate_status: fn(&Context<'_>, &Value, &Value, &mut Errors),
    /// Warnings about a new or changed object.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Fields a field selector may name besides name and namespace, with how they are read.
    pub selectable: Selectable,
}

fn no_default(_: &mut Value) {}
fn no_prepare(_: &Context<'_>, _: &mut Value) -> ApiResult<()> {
    Ok(())
}
fn no_check(_: &Context<'_>, _: &Value, _: &mut Errors) {}
fn no_prepare_update(_: &Context<'_>, _: &mut Value, _: &Value) -> ApiResult<()> {
    Ok(())
}
fn no_check_update(_: &Context<'_>, _: &Value, _: &Value, _: &mut Errors) {}
fn no_warnings(_: &Value, _: Option<&Value>) -> Vec<String> {
    Vec::new()
}

/// A status write keeps everything but the status (and the metadata a status write may change).
pub fn keep_all_but_status(_: &Context<'_>, new: &mut Value, old: &Value) {
    keep_parts(new, old);
}

/// As [`keep_all_but_status`]; the labels stay, too.
pub fn keep_labels_too(_: &Context<'_>, new: &mut Value, old: &Value) {
    keep_parts(new, old);
    meta::set(new, "labels", old.pointer("/metadata/labels").cloned());
}

fn keep_parts(new: &mut Value, old: &Value) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else {
        return;
    };
    let kept: Vec<Text> = new
        .keys()
        .chain(old.keys())
        .filter(|key| !matches!(key.as_str(), "status" | "metadata" | "kind" | "apiVersion"))
        .cloned()
        .collect();
    for key in kept {
        match old.get(&key) {
            Some(value) => drop(new.insert(key, value.clone())),
            None => drop(new.remove(&key)),
        }
    }
}

impl KindRules {
    /// The rules of a kind about which nothing special is known.
    pub const BASE: KindRules = KindRules {
        create_on_update: false,
        unconditional_update: true,
        delete_answers_object: false,
        orphan_by_default: false,
        generation: Generation::None,
        has_status: false,
        checks_metadata: true,
        name: names::dns_subdomain,
        default: no_default,
        prepare_create: no_prepare,
        validate: no_check,
        prepare_update: no_prepare_update,
        validate_update: no_check_update,
        prepare_status: keep_all_but_status,
        validate_status: no_check_update,
        warnings: no_warnings,
        selectable: &[],
    };

    /// The rules of custom kinds before their schema is looked at.
    pub const CUSTOM: KindRules = KindRules {
        unconditional_update: false,
        generation: Generation::AllButStatus,
        ..KindRules::BASE
    };
}

/// The rules of a built-in kind.
pub fn rules(group: &str, plural: &str) -> &'static KindRules {
    static BASE: KindRules = KindRules::BASE;
    facts::lookup(group, plural).unwrap_or(&BASE)
}

/// The name of the Go package of a group's internal types, as conversion errors print it.
pub fn go_group(group: &str) -> &str {
    match group {
        "" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        other => other.split('.').next().unwrap_or(other),
    }
}

/// The group and version a resource is stored in.
pub fn storage_version(group: &str, version: &str, plural: &str) -> (String, String) {
    match (group, plural) {
        ("events.k8s.io", "events") => (String::new(), "v1".to_owned()),
        ("autoscaling", "horizontalpodautoscalers") => ("autoscaling".to_owned(), "v2".to_owned()),
        _ => (group.to_owned(), version.to_owned()),
    }
}

/// Whether an object without finalizers may leave the store; namespaces also wait for their own list.
pub fn may_disappear(collection: Collection<'_>, object: &Value) -> bool {
    if collection.group.is_empty() && collection.plural == "namespaces" {
        return object
            .pointer("/spec/finalizers")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty);
    }
    true
}

/// Whether the real server stores a new object without something that it fills in on every read: the first write that
/// changes nothing else still stores that.
pub fn fills_in_on_read(collection: Collection<'_>, object: &Value) -> bool {
    match (collection.group, collection.plural) {
        ("", "persistentvolumeclaims") => true,
        ("batch", "jobs") => {
            let labels = object.pointer("/metadata/labels");
            labels.is_some() && labels == object.pointer("/spec/template/metadata/labels")
        }
        _ => false,
    }
}

/// The grace period of a deletion; `None` for kinds that have none.
pub fn grace_period(collection: Collection<'_>, object: &Value, asked: Option<i64>) -> Option<i64> {
    if !(collection.group.is_empty() && collection.plural == "pods") {
        return None;
    }
    let own = object
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(30);
    let mut period = asked.unwrap_or(own);
    if period < 0 {
        period = 1;
    }
    // A pod that no node runs has nothing to wait for.
    let unscheduled = object
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty();
    let finished = matches!(
        object.pointer("/status/phase").and_then(Value::as_str),
        Some("Succeeded" | "Failed")
    );
    Some(if unscheduled || finished { 0 } else { period })
}
