//! Release records: what helm remembers of an install in a Secret or ConfigMap.

mod chart_record;
pub mod go_order;
mod storage;

use std::collections::BTreeMap;

use everflow_json::{Map, Value, json};

pub use chart_record::chart_record;
pub(crate) use chart_record::{dependency_record, metadata_record};
pub use storage::{
    RecordError, decode, encode, from_object, from_object_within, object_name, to_config_map,
    to_secret,
};

use crate::manifests::Hook;

/// A release at one revision. Fields that this version does not know are kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Release {
    /// The release's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The revision, from 1.
    pub version: i64,
    /// When and how it went.
    pub info: Info,
    /// The chart as helm stores it; see [`chart_record`].
    pub chart: Value,
    /// The user's values.
    pub config: Map,
    /// What was installed.
    pub manifest: String,
    /// The hooks.
    pub hooks: Vec<HookRecord>,
    /// `ssa` or `csa`, empty in records of helm 3.
    pub apply_method: String,
    /// The user's labels; they stand on the object, not in the record.
    pub labels: BTreeMap<String, String>,
    /// What else the record held.
    pub unknown: Map,
}

/// When and how a release went. Times are kept as text: records of older versions hold forms that
/// would not survive a round trip.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// RFC 3339, or empty.
    pub first_deployed: String,
    /// RFC 3339, or empty.
    pub last_deployed: String,
    /// RFC 3339, or empty.
    pub deleted: String,
    /// One sentence.
    pub description: String,
    /// `deployed`, `failed`, `pending-install` and so on.
    pub status: String,
    /// The revision this one was rolled back to, or 0.
    pub rollback_revision: i64,
    /// The rendered `NOTES.txt`.
    pub notes: String,
    /// What else the record held.
    pub unknown: Map,
}

/// A hook with its last run.
#[derive(Debug, Clone, PartialEq)]
pub struct HookRecord {
    /// The hook.
    pub hook: Hook,
    /// RFC 3339, or empty.
    pub started_at: String,
    /// RFC 3339, or empty.
    pub completed_at: String,
    /// `Succeeded`, `Failed`, `Running`, `Unknown` or empty.
    pub phase: String,
}

impl From<Hook> for HookRecord {
    fn from(hook: Hook) -> Self {
        HookRecord {
            hook,
            started_at: String::new(),
            completed_at: String::new(),
            phase: String::new(),
        }
    }
}

impl Release {
    /// The record's JSON.
    pub fn to_json(&self) -> Value {
        let mut record = self.unknown.clone();
        put_text(&mut record, "name", &self.name);
        record.insert("info".into(), self.info.to_json());
        record.insert("chart".into(), self.chart.clone());
        if !self.config.is_empty() {
            record.insert("config".into(), Value::Object(self.config.clone()));
        }
        put_text(&mut record, "manifest", &self.manifest);
        if !self.hooks.is_empty() {
            let hooks = self.hooks.iter().map(HookRecord::to_json).collect();
            record.insert("hooks".into(), Value::Array(hooks));
        }
        put_number(&mut record, "version", self.version);
        put_text(&mut record, "namespace", &self.namespace);
        put_text(&mut record, "apply_method", &self.apply_method);
        Value::Object(record)
    }

    /// A release from a record's JSON; the labels stand elsewhere.
    pub fn from_json(json: Value) -> Result<Self, RecordError> {
        let Value::Object(mut record) = json else {
            return Err(RecordError::NotARecord);
        };
        let hooks = match record.remove("hooks") {
            Some(Value::Array(hooks)) => hooks
                .into_iter()
                .filter_map(HookRecord::from_json)
                .collect(),
            _ => Vec::new(),
        };
        Ok(Release {
            name: take_text(&mut record, "name"),
            namespace: take_text(&mut record, "namespace"),
            version: take_number(&mut record, "version"),
            info: Info::from_json(record.remove("info")),
            chart: record.remove("chart").unwrap_or_default(),
            config: match record.remove("config") {
                Some(Value::Object(config)) => config,
                _ => Map::new(),
            },
            manifest: take_text(&mut record, "manifest"),
            hooks,
            apply_method: take_text(&mut record, "apply_method"),
            labels: BTreeMap::new(),
            unknown: record,
        })
    }
}

impl Info {
    fn to_json(&self) -> Value {
        let mut info = self.unknown.clone();
        put_text(&mut info, "first_deployed", &self.first_deployed);
        put_text(&mut info, "last_deployed", &self.last_deployed);
        put_text(&mut info, "deleted", &self.deleted);
        put_text(&mut info, "description", &self.description);
        put_text(&mut info, "status", &self.status);
        put_number(&mut info, "rollback_revision", self.rollback_revision);
        put_text(&mut info, "notes", &self.notes);
        Value::Object(info)
    }

    /// Reads the field `info` of a record.
    pub fn from_json(json: Option<Value>) -> Self {
        let Some(Value::Object(mut info)) = json else {
            return Info::default();
        };
        Info {
            first_deployed: take_text(&mut info, "first_deployed"),
            last_deployed: take_text(&mut info, "last_deployed"),
            deleted: take_text(&mut info, "deleted"),
            description: take_text(&mut info, "description"),
            status: take_text(&mut info, "status"),
            rollback_revision: take_number(&mut info, "rollback_revision"),
            notes: take_text(&mut info, "notes"),
            unknown: info,
        }
    }
}

impl HookRecord {
    fn to_json(&self) -> Value {
        let mut run = Map::new();
        put_text(&mut run, "started_at", &self.started_at);
        put_text(&mut run, "completed_at", &self.completed_at);
        run.insert("phase".into(), json!(self.phase));
        let mut record = Map::new();
        put_text(&mut record, "name", &self.hook.name);
        put_text(&mut record, "kind", &self.hook.kind);
        put_text(&mut record, "path", &self.hook.path);
        put_text(&mut record, "manifest", &self.hook.manifest);
        put_list(&mut record, "events", &self.hook.events);
        record.insert("last_run".into(), Value::Object(run));
        put_number(&mut record, "weight", self.hook.weight);
        put_list(&mut record, "delete_policies", &self.hook.delete_policies);
        put_list(
            &mut record,
            "output_log_policies",
            &self.hook.output_log_policies,
        );
        Value::Object(record)
    }

    /// Reads one entry of the field `hooks` of a record.
    pub fn from_json(json: Value) -> Option<Self> {
        let Value::Object(mut record) = json else {
            return None;
        };
        let mut run = match record.remove("last_run") {
            Some(Value::Object(run)) => run,
            _ => Map::new(),
        };
        Some(HookRecord {
            started_at: take_text(&mut run, "started_at"),
            completed_at: take_text(&mut run, "completed_at"),
            phase: take_text(&mut run, "phase"),
            hook: Hook {
                name: take_text(&mut record, "name"),
                kind: take_text(&mut record, "kind"),
                path: take_text(&mut record, "path"),
                manifest: take_text(&mut record, "manifest"),
                events: take_list(&mut record, "events"),
                weight: take_number(&mut record, "weight"),
                delete_policies: take_list(&mut record, "delete_policies"),
                output_log_policies: take_list(&mut record, "output_log_policies"),
            },
        })
    }
}

/// Go's `omitempty`.
fn put_text(map: &mut Map, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.into(), json!(text));
    }
}

fn put_number(map: &mut Map, key: &str, number: i64) {
    if number != 0 {
        map.insert(key.into(), json!(number));
    }
}

fn put_list(map: &mut Map, key: &str, items: &[String]) {
    if !items.is_empty() {
        map.insert(key.into(), json!(items));
    }
}

fn take_text(map: &mut Map, key: &str) -> String {
    match map.remove(key) {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn take_number(map: &mut Map, key: &str) -> i64 {
    map.remove(key)
        .and_then(|value| value.as_i64())
        .unwrap_or(0)
}

fn take_list(map: &mut Map, key: &str) -> Vec<String> {
    match map.remove(key) {
        Some(Value::Array(items)) => items
            .into_iter()
            .filter_map(|item| match item {
                Value::String(text) => Some(text.to_string()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
