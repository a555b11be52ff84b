//! Objects as they are kept.

use std::fmt;

use everflow_json::{Map, Value, text};
use smol_str::SmolStr;

use crate::client::{annotation, generation, meta_text};

/// The annotation that asks for an attempt at once.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// How much of each object is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Keep {
    /// All but `managedFields`, which nobody reads and which are half of an object.
    #[default]
    WithoutManagedFields,
    /// The same without the templates of Pods and claims either, which are most of a workload.
    WithoutTemplates,
    /// Only the metadata, without `managedFields`. The server is asked for no more.
    Metadata,
}

/// Namespace and name.
pub type Name = (SmolStr, SmolStr);

/// An object as the server sent it, in compact form: what is looked at often, and the rest as text.
#[derive(Clone, PartialEq, Eq)]
pub struct CachedObject {
    /// The namespace, empty for objects of the whole cluster.
    pub namespace: SmolStr,
    /// The name.
    pub name: SmolStr,
    /// The unique id.
    pub uid: SmolStr,
    /// The version of the object.
    pub revision: u64,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// The value of the annotation that asks for an attempt.
    pub requested_at: Option<SmolStr>,
    /// What is kept of it.
    text: Box<[u8]>,
    /// Where in the text the status is; empty when there is none.
    status: (u32, u32),
}

impl fmt::Debug for CachedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Objects may hold secrets.
        write!(f, "{}/{}@{}", self.namespace, self.name, self.revision)
    }
}

impl CachedObject {
    /// Whether something has the name, the unique id and the revision of an object.
    pub fn is_one(object: &Value) -> bool {
        let has = |field| !meta_text(object, field).is_empty();
        let version = meta_text(object, "resourceVersion").parse::<u64>();
        has("name") && has("uid") && version.is_ok()
    }

    /// Reads what the server sent. An object without a name, a unique id or a revision is none.
    pub fn read(object: &Value, keep: Keep) -> Option<Self> {
        let text = |field| SmolStr::from(meta_text(object, field));
        let (name, uid) = (text("name"), text("uid"));
        let version: u64 = meta_text(object, "resourceVersion").parse().ok()?;
        if !CachedObject::is_one(object) {
            return None;
        }
        let mut bytes = Vec::with_capacity(1_024);
        let status = write(object, keep, &mut bytes)?;
        Some(CachedObject {
            namespace: text("namespace"),
            name,
            uid,
            revision: version,
            generation: generation(object),
            deleting: !meta_text(object, "deletionTimestamp").is_empty(),
            requested_at: annotation(object, REQUESTED_AT)
                .filter(|value| !value.is_empty())
                .map(SmolStr::from),
            text: bytes.into_boxed_slice(),
            status,
        })
    }

    fn status_text(&self) -> &[u8] {
        let (from, to) = self.status;
        let text = self.text.get(from as usize..to as usize);
        text.unwrap_or_default()
    }

    /// Whether it has the same status as another one.
    pub fn has_status_of(&self, other: &CachedObject) -> bool {
        self.status_text() == other.status_text()
    }

    /// The status alone; null when there is none.
    pub fn status(&self) -> Value {
        text::read(self.status_text()).unwrap_or_default()
    }

    /// The object.
    pub fn value(&self) -> Value {
        text::read(&self.text).unwrap_or_default()
    }

    /// Namespace and name.
    pub fn key(&self) -> Name {
        (self.namespace.clone(), self.name.clone())
    }

    /// How many bytes it takes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// The field of the metadata that is never kept.
const MANAGED_FIELDS: &[&str] = &["managedFields"];
/// What workloads are kept without.
const TEMPLATES: &[&str] = &["template", "volumeClaimTemplates"];

/// Whether a field of an object is kept at all.
fn keeps(keep: Keep, field: &str) -> bool {
    keep != Keep::Metadata || ["apiVersion", "kind", "metadata"].contains(&field)
}

/// The fields that are not kept of a part of an object.
fn left_out(keep: Keep, field: &str) -> &'static [&'static str] {
    match field {
        "metadata" => MANAGED_FIELDS,
        "spec" if keep == Keep::WithoutTemplates => TEMPLATES,
        _ => &[],
    }
}

fn without<'m>(
    map: &'m Map,
    left_out: &'m [&str],
) -> impl Iterator<Item = (&'m everflow_json::Text, &'m Value)> {
    map.iter()
        .filter(|(field, _)| !left_out.contains(&field.as_str()))
}

/// Writes what is kept of an object, and says where its status is.
fn write(object: &Value, keep: Keep, bytes: &mut Vec<u8>) -> Option<(u32, u32)> {
    let mut status = (0, 0);
    let map = object.as_object()?;
    bytes.push(b'{');
    let mut first = true;
    for (field, value) in map {
        if !keeps(keep, field) {
            continue;
        }
        if !std::mem::take(&mut first) {
            bytes.push(b',');
        }
        text::write_string(field, bytes);
        bytes.push(b':');
        let from = u32::try_from(bytes.len()).ok()?;
        match (left_out(keep, field), value) {
            (out @ [_, ..], Value::Object(part)) => text::write_entries(without(part, out), bytes),
            _ => text::write(value, bytes),
        }
        if field == "status" {
            status = (from, u32::try_from(bytes.len()).ok()?);
        }
    }
    bytes.push(b'}');
    Some(status)
}
