//! Custom resource definitions and the kinds they bring.

mod cleanup;
mod columns;
mod definition;
mod names;
mod serve;
mod settled;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everflow_cel::rules::Rules;
use everflow_json::{Map, Value};
use everflow_schema::structural::{
    Prune, Validator, apply_defaults, blocks_rules, check_embedded, check_lists, prune,
    prune_nulls, rules_not_checked,
};
use everflow_schema::{Schema, SchemaView};

pub use cleanup::{after_delete, check_create, mark_for_deletion};
pub use definition::{TABLE, after_write, restore};
use everflow_builtins::definition::convert_error;
pub use settled::is_surely_decoded;

use crate::codec::gotypes::types;
use crate::codec::json::Json;
use crate::field::Errors;
use crate::kinds::meta;
use crate::resource::Resource;
use crate::rest::Call;
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;
use crate::time::Timestamp;

/// One version of a custom kind.
#[derive(Debug)]
pub struct CustomVersion {
    /// The name of the version.
    pub name: String,
    /// The schema with what every object has, as apply and field validation see it.
    complete: Option<Schema>,
    /// The schema as it was given, with its checks.
    validator: Option<Validator>,
    /// Its rules in CEL.
    rules: Rules,
}

/// What a custom resource definition says about one of its versions.
#[derive(Debug)]
pub struct CustomKind {
    /// Its number, which no other has.
    pub number: u64,
    /// All versions of the kind.
    pub versions: Arc<Vec<CustomVersion>>,
    /// The version of this resource.
    pub version: usize,
    /// Whether it has a status subresource.
    pub status: bool,
    /// The paths of its scale subresource.
    pub scale: Option<ScalePaths>,
    /// What to warn of when the version is used.
    pub deprecation: Option<String>,
    /// Its printer columns.
    pub columns: Vec<Value>,
    /// Its selectable fields as JSON pointers, with the dotted names.
    pub selectable: Vec<(String, String)>,
}

/// Where a scale subresource finds its numbers, as JSON pointers.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// The wanted replicas.
    pub spec: String,
    /// The actual replicas.
    pub status: String,
    /// The selector, if there is one.
    pub selector: Option<String>,
}

impl CustomKind {
    /// A number for a new one.
    pub(super) fn next_number() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The schema of one of the kind's versions, for apply.
    pub fn schema_of(&self, version: &str) -> Option<SchemaView<'_>> {
        self.versions
            .iter()
            .find(|known| known.name == version)?
            .complete
            .as_ref()
            .map(Schema::view)
    }

    fn view_of(&self, version: &str) -> Option<SchemaView<'_>> {
        let known = self.versions.iter().find(|known| known.name == version)?;
        known
            .validator
            .as_ref()
            .map(|validator| validator.schema().view())
    }

    fn current(&self) -> Option<&CustomVersion> {
        self.versions.get(self.version)
    }

    fn validator(&self) -> Option<&Validator> {
        self.current()?.validator.as_ref()
    }

    fn view(&self) -> Option<SchemaView<'_>> {
        self.validator().map(|validator| validator.schema().view())
    }
}

/// Decodes the body of a custom resource: prunes unknown fields and coerces metadata.
pub fn decode(
    resource: &Resource,
    tree: &Json,
    warnings: &mut Vec<String>,
    handled: &dyn Fn(&str) -> Box<ApiError>,
) -> ApiResult<Value> {
    let mut value = tree.to_value();
    everflow_yaml::sigs::normalize_numbers(&mut value);
    let mut unknown: Vec<String> = Vec::new();
    if let Some(metadata) = tree.get("metadata") {
        let clean =
            decode_metadata(metadata, "metadata", &mut unknown).map_err(|why| handled(&why))?;
        if let Some(map) = value.as_object_mut() {
            map.insert("metadata".into(), clean);
        }
    }
    if let Some(view) = resource.custom.as_ref().and_then(|custom| custom.view()) {
        unknown.extend(prune(
            &mut value,
            view,
            Prune {
                resource_root: true,
            },
        ));
        prune_nulls(&mut value, view);
    }
    unknown.sort();
    warnings.extend(
        unknown
            .into_iter()
            .map(|path| format!("unknown field \"{path}\"")),
    );
    Ok(value)
}

fn decode_metadata(
    metadata: &Json,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<Value, String> {
    let Some(ty) = types().struct_named("v1.ObjectMeta") else {
        return Ok(metadata.to_value());
    };
    let (clean, findings) = types().decode(&ty, metadata);
    if let Some(problem) = findings.error {
        return Err(problem.replacen(
            "ObjectMeta.",
            "ObjectMeta.metadata.",
            usize::from(!problem.contains("ObjectMeta.metadata.")),
        ));
    }
    unknown.extend(
        findings
            .strict
            .iter()
            .filter_map(|text| text.strip_prefix("unknown field \""))
            .map(|rest| format!("{path}.{}", rest.trim_end_matches('"'))),
    );
    Ok(clean)
}

/// Fills in the schema's defaults.
pub fn default(resource: &Resource, object: &mut Value) {
    if let Some(view) = resource.custom.as_ref().and_then(|custom| custom.view()) {
        apply_defaults(object, view);
    }
}

/// Prepares a new custom resource.
pub fn prepare_create(call: &Call<'_>, object: &mut Value) {
    if has_status(&call.resource)
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
}

/// Prepares a changed custom resource: the status has its own subresource.
pub fn prepare_update(call: &Call<'_>, new: &mut Value, old: &Value) {
    if has_status(&call.resource)
        && let Some(map) = new.as_object_mut()
    {
        match old.get("status") {
            Some(status) => drop(map.insert("status".into(), status.clone())),
            None => drop(map.remove("status")),
        }
    }
}

/// Prepares a changed status: everything but the status and who manages it stays.
pub fn prepare_status(call: &Call<'_>, new: &mut Value, old: &Value) {
    if !call.resource.is_custom() {
        return;
    }
    let status = new.get("status").cloned();
    let managed = meta::metadata(new)
        .and_then(|map| map.get("managedFields"))
        .cloned();
    let revision = meta::text(new, "resourceVersion").to_owned();
    let api_version = new.get("apiVersion").cloned();
    *new = old.clone();
    if let Some(map) = new.as_object_mut() {
        match status {
            Some(status) => drop(map.insert("status".into(), status)),
            None => drop(map.remove("status")),
        }
        if let Some(api_version) = api_version {
            map.insert("apiVersion".into(), api_version);
        }
    }
    meta::set(new, "managedFields", managed);
    meta::set(new, "resourceVersion", Some(revision.into()));
}

/// Checks a custom resource against its schema.
pub fn validate(call: &Call<'_>, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let Some(version) = call
        .resource
        .custom
        .as_ref()
        .and_then(|custom| custom.current())
    else {
        return;
    };
    let Some(validator) = &version.validator else {
        return;
    };
    let to_status = call.target.subresource == "status";
    let mut found = match old {
        None => validator.validate(object),
        Some(old) if to_status => validator.validate_status_update(object, old),
        Some(old) => validator.validate_update(object, old),
    };
    let schema = validator.schema();
    if !to_status {
        found.extend(check_embedded(object, schema.view(), &|_, _| Vec::new()));
    }
    let lists = check_lists(object, schema.view());
    // What was wrong before may stay so.
    if !lists.is_empty() && old.is_none_or(|old| check_lists(old, schema.view()).is_empty()) {
        found.extend(lists);
    }
    if !version.rules.is_empty() {
        if blocks_rules(&found) {
            found.push(rules_not_checked());
        } else {
            let findings = version.rules.validate(schema, object, old);
            found.extend(findings.errors);
            findings
                .warnings
                .into_iter()
                .for_each(|text| call.warn(text));
        }
    }
    errors.extend(found.into_iter().map(convert_error));
}

/// Whether the kind is custom and has a status subresource.
pub fn has_status(resource: &Resource) -> bool {
    resource.custom.as_ref().is_some_and(|custom| custom.status)
}

/// The object as it is read: with the defaults of the version it is stored in, then pruned to what the version asked
/// for knows.
pub fn on_read(resource: &Resource, mut object: Value) -> Value {
    let Some(custom) = &resource.custom else {
        return object;
    };
    if let Some(view) = custom.view_of(version_of(&object)) {
        prune_root(&mut object, view);
        prune_nulls(&mut object, view);
        apply_defaults(&mut object, view);
    }
    convert_version(custom, &mut object, resource.api_version());
    drop_empty_metadata(&mut object);
    object
}

/// The parts of metadata that are not there when they are empty.
const DROPPED_WHEN_EMPTY: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

fn is_empty_part(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

/// Empty lists and maps of metadata are not there.
fn drop_empty_metadata(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for key in DROPPED_WHEN_EMPTY {
        if metadata.get(key).is_some_and(is_empty_part) {
            metadata.remove(key);
        }
    }
}

/// The object as it is stored: in the storage version, pruned to what that version knows.
pub fn to_stored(resource: &Resource, object: &mut Value) {
    if let Some(custom) = &resource.custom {
        let stored = crate::resource::join_version(&resource.group, &resource.storage_version);
        convert_version(custom, object, &stored);
    }
}

/// Strategy `None`: only the version changes, and what the new version does not know goes.
fn convert_version(custom: &CustomKind, object: &mut Value, api_version: &str) {
    if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
        return;
    }
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
    }
    if let Some(view) = custom.view_of(version_of(object)) {
        prune_root(object, view);
        prune_nulls(object, view);
    }
}

fn version_of(object: &Value) -> &str {
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    crate::resource::split_version(api_version.unwrap_or_default()).1
}

fn prune_root(object: &mut Value, view: SchemaView<'_>) {
    prune(
        object,
        view,
        Prune {
            resource_root: true,
        },
    );
}

/// Whether reading changes nothing about a stored object.
pub fn reads_as_stored(resource: &Resource) -> bool {
    !resource.is_custom() && !crate::kinds::sent_data::applies(resource)
}

/// Whether reading changes nothing about this stored object: what is stored was pruned and has its defaults, unless the
/// definition has changed since.
pub fn is_read_as_stored(resource: &Resource, stored: &Stored) -> bool {
    match &resource.custom {
        None => reads_as_stored(resource),
        Some(_) if !crate::kinds::convert::is_storage(resource) => false,
        Some(custom) => stored.reads_the_same(custom.number, || {
            settled::is_surely_read_as_it_is(resource, custom, &stored.value)
                || on_read(resource, stored.value.clone()) == stored.value
        }),
    }
}

/// The value of a selectable field.
pub fn selectable(resource: &Resource, object: &Value, field: &str) -> Option<String> {
    let custom = resource.custom.as_ref()?;
    let (_, pointer) = custom.selectable.iter().find(|(name, _)| name == field)?;
    Some(match object.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.to_string(),
        Some(other) => other.to_string(),
    })
}

/// Whether a field selector may name the field.
pub fn is_selectable(resource: &Resource, field: &str) -> bool {
    resource
        .custom
        .as_ref()
        .is_some_and(|custom| custom.selectable.iter().any(|(name, _)| name == field))
}

/// Whether a custom kind has this version, served or not.
pub fn is_version(resource: &Resource, api_version: &str) -> bool {
    let (group, version) = crate::resource::split_version(api_version);
    group == resource.group
        && resource
            .custom
            .as_ref()
            .is_some_and(|custom| custom.versions.iter().any(|known| known.name == version))
}

/// What to warn of when a deprecated version of a custom kind is used.
pub fn deprecation(resource: &Resource) -> Option<&str> {
    resource.custom.as_ref()?.deprecation.as_deref()
}

/// Whether the kind is custom and has fields of its own that can be selected on.
pub fn has_selectable(resource: &Resource) -> bool {
    resource
        .custom
        .as_ref()
        .is_some_and(|custom| !custom.selectable.is_empty())
}

/// The table columns of a custom kind.
pub fn table_columns(resource: &Resource) -> Option<Value> {
    resource
        .custom
        .as_ref()
        .map(|custom| columns::headers(&custom.columns))
}

/// The table cells of a custom resource.
pub fn table_cells(resource: &Resource, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    resource
        .custom
        .as_ref()
        .map(|custom| columns::cells(&custom.columns, object, now))
}

/// An empty map, for callers that need one.
pub(crate) fn empty() -> Value {
    Value::Object(Map::new())
}
