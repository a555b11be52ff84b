//! `metadata.managedFields`: who owns which fields.

use std::collections::BTreeMap;

use everflow_json::{Map, Text, Value, json};

use super::time::unix_seconds;
use crate::MergeError;
use crate::fieldpath::FieldSet;

/// How a manager came to own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// The text in `managedFields`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One manager with what it owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manager {
    /// The name that the client gave.
    pub name: String,
    /// How it owns.
    pub operation: Operation,
    /// The version in which the fields are named.
    pub api_version: String,
    /// The subresource through which it writes; empty for the object itself.
    pub subresource: String,
    /// When the set last changed.
    pub time: Option<String>,
    /// What it owns.
    pub set: FieldSet,
}

/// The identity of a manager: appliers are one over all versions, updaters one per version.
///
/// The text is the one that the API server sorts by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManagerId(String);

impl ManagerId {
    pub(crate) fn new(
        name: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        let mut text = String::with_capacity(96);
        text.push('{');
        if !name.is_empty() {
            text.push_str("\"manager\":");
            push_quoted(&mut text, name);
            text.push(',');
        }
        text.push_str("\"operation\":\"");
        text.push_str(operation.as_str());
        text.push('"');
        if operation == Operation::Update && !api_version.is_empty() {
            text.push_str(",\"apiVersion\":");
            push_quoted(&mut text, api_version);
        }
        if !subresource.is_empty() {
            text.push_str(",\"subresource\":");
            push_quoted(&mut text, subresource);
        }
        text.push('}');
        Self(text)
    }
}

/// Adds a text in quotes; nearly all names need no escapes.
fn push_quoted(out: &mut String, text: &str) {
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

/// All managers of an object.
pub(crate) type Managers = BTreeMap<ManagerId, Manager>;

/// Reads `metadata.managedFields` of an object.
///
/// # Errors
/// [`MergeError::ManagedFields`] for an entry that the server would not have written.
pub fn decode(object: &Value) -> Result<Vec<Manager>, MergeError> {
    Ok(decode_managers(entries_of(object))?.into_values().collect())
}

/// `metadata.managedFields` as it stands.
fn list_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// The entries of `metadata.managedFields` as they stand.
pub(super) fn entries_of(object: &Value) -> &[Value] {
    list_of(object)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn decode_managers(entries: &[Value]) -> Result<Managers, MergeError> {
    let invalid = |reason: String| MergeError::ManagedFields { reason };
    let mut managers = Managers::new();
    for (index, entry) in entries.iter().enumerate() {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(invalid("operation must be `Apply` or `Update`".to_owned())),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(invalid("apiVersion must not be empty".to_owned()));
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => {
                return Err(invalid(format!(
                    "missing fieldsType in managed fields entry {index}"
                )));
            }
            other => {
                return Err(invalid(format!(
                    "invalid fieldsType {other:?} in managed fields entry {index}"
                )));
            }
        }
        let set = FieldSet::from_fields_v1(entry.get("fieldsV1").unwrap_or(&Value::Null))?;
        let manager = Manager {
            name: text("manager").to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: text("subresource").to_owned(),
            time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            set,
        };
        let id = ManagerId::new(&manager.name, operation, api_version, &manager.subresource);
        managers.insert(id, manager);
    }
    Ok(managers)
}

/// The entries in the server's order: appliers first, then by time, name, version, subresource. Those that are known
/// as they have to be are taken, or copied from the `others`.
pub(super) fn encode_managers(
    managers: &Managers,
    known: &mut [Value],
    others: &[Value],
) -> Vec<Value> {
    let mut sorted: Vec<&Manager> = managers.values().collect();
    if sorted.len() > 1 {
        sorted.sort_by_cached_key(|manager| {
            let Manager {
                operation,
                name,
                api_version,
                subresource,
                ..
            } = *manager;
            (*operation, seconds(manager), name, api_version, subresource)
        });
    }
    let entry_of = |manager: &Manager| {
        let own = known.iter_mut().find(|entry| is_written_as(manager, entry));
        let same = own.map(std::mem::take).or_else(|| {
            let mut others = others.iter();
            others.find(|entry| is_written_as(manager, entry)).cloned()
        });
        let Some(Value::Object(mut entry)) = same else {
            return encode_manager(manager);
        };
        match &manager.time {
            Some(time) if entry.get("time").and_then(Value::as_str) == Some(time) => {}
            Some(time) => drop(entry.insert("time".into(), json!(time))),
            None => drop(entry.remove("time")),
        }
        Value::Object(entry)
    };
    sorted.into_iter().map(entry_of).collect()
}

pub(super) fn seconds(manager: &Manager) -> i64 {
    manager.time.as_deref().and_then(unix_seconds).unwrap_or(0)
}

fn encode_manager(manager: &Manager) -> Value {
    let text = |key: &'static str, text: &str| Some((Text::new_static(key), Value::from(text)));
    let optional = |key: &'static str, value: &str| match value {
        "" => None,
        value => text(key, value),
    };
    let fields = (Text::new_static("fieldsV1"), manager.set.to_fields_v1());
    // In the order of the keys, so that nothing has to be moved.
    let entries = [
        text("apiVersion", &manager.api_version),
        text("fieldsType", "FieldsV1"),
        Some(fields),
        optional("manager", &manager.name),
        text("operation", manager.operation.as_str()),
        optional("subresource", &manager.subresource),
        manager.time.as_deref().and_then(|time| text("time", time)),
    ];
    Value::Object(entries.into_iter().flatten().collect())
}

/// Whether an entry is just what [`encode_manager`] would write, but for its time.
fn is_written_as(manager: &Manager, entry: &Value) -> bool {
    let Value::Object(entry) = entry else {
        return false;
    };
    let is_text = |field: &str, wanted: &str| match entry.get(field) {
        Some(Value::String(text)) => !wanted.is_empty() && text == wanted,
        Some(_) => false,
        None => wanted.is_empty(),
    };
    let optional = [&manager.name, &manager.subresource];
    let present = optional.into_iter().filter(|text| !text.is_empty()).count();
    entry.len() == 4 + present + usize::from(entry.contains_key("time"))
        && is_text("manager", &manager.name)
        && is_text("operation", manager.operation.as_str())
        && is_text("apiVersion", &manager.api_version)
        && is_text("fieldsType", "FieldsV1")
        && is_text("subresource", &manager.subresource)
        && (entry.get("fieldsV1")).is_some_and(|fields| manager.set.is_written_in(fields, false))
}

/// Takes `metadata.managedFields` out of an object.
pub(super) fn remove_from(object: &mut Value) -> Vec<Value> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    match metadata.and_then(|metadata| metadata.remove("managedFields")) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    }
}

/// The list that an object had before it got another.
pub(super) struct Replaced(Option<Option<Value>>);

impl Replaced {
    /// Gives an object the list back.
    pub(super) fn put_back(self, object: &mut Value) {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        if let (Some(list), Some(metadata)) = (self.0, metadata) {
            match list {
                Some(list) => metadata.insert("managedFields".into(), list),
                None => metadata.remove("managedFields"),
            };
        }
    }
}

/// Gives `new` the list that `live` has. None when it has no place for one.
pub(super) fn share_list(live: &Value, new: &mut Value) -> Option<Replaced> {
    let metadata = new.get_mut("metadata").and_then(Value::as_object_mut)?;
    let list = list_of(live);
    if metadata.get("managedFields") == list {
        return Some(Replaced(None));
    }
    let replaced = match list {
        Some(list) => metadata.insert("managedFields".into(), list.clone()),
        None => metadata.remove("managedFields"),
    };
    Some(Replaced(Some(replaced)))
}

/// A copy of an object without `metadata.managedFields`.
pub(super) fn copy_without(object: &Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let copy = fields
        .iter()
        .map(|(key, value)| match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                let kept = metadata.iter().filter(|(key, _)| *key != "managedFields");
                (
                    key.clone(),
                    Value::Object(kept.map(|(k, v)| (k.clone(), v.clone())).collect()),
                )
            }
            _ => (key.clone(), value.clone()),
        });
    Value::Object(copy.collect())
}

/// Writes the managers into an object; without any the field is absent. Entries that are known already, from the
/// object itself or from the `others`, are not made again.
pub(super) fn write_to(object: &mut Value, managers: &Managers, others: &[Value]) {
    let mut known = remove_from(object);
    if managers.is_empty() {
        return;
    }
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert(
            "managedFields".into(),
            Value::Array(encode_managers(managers, &mut known, others)),
        );
    }
}

/// Whether a write asks to forget all ownership: an empty list, or a list of one empty entry.
pub(super) fn asks_for_reset(object: &Value) -> bool {
    match list_of(object) {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => true,
            [only] => match only {
                Value::Object(entry) => entry
                    .values()
                    .all(|value| value.is_null() || value.as_str().is_some_and(str::is_empty)),
                Value::Null => true,
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// The name by which a client without `fieldManager` is known: its user agent up to the first
/// slash, without unprintable characters and cut to 128 bytes.
#[must_use]
pub fn manager_of_user_agent(user_agent: &str) -> String {
    let prefix = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in prefix.chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > 128 {
            break;
        }
        name.push(c);
    }
    name
}
