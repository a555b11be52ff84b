//! Objects as they are kept.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use everflow_cluster::store::Stored as Served;
use everflow_json::{Map, Value, text};
use smol_str::SmolStr;

use crate::client::{Seen, annotation, generation, meta_text};

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

/// An object as it is stored: what is looked at often, and the rest in the form that costs least.
#[derive(Clone, PartialEq)]
pub struct Stored {
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
    content: Content,
}

/// What there is of an object.
#[derive(Clone)]
enum Content {
    /// Compact text.
    Text {
        text: Box<[u8]>,
        /// Where in the text the status is; empty when there is none.
        status: (u32, u32),
    },
    /// A tree of what is kept, for stores whose server is in the same process and holds trees itself.
    Tree(Value),
    /// The very object that this server has, of which a part is kept.
    Served(Arc<Served>, Keep),
}

impl Eq for Stored {}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Content::Text { text, .. }, Content::Text { text: other, .. }) => text == other,
            (Content::Served(one, keep), Content::Served(two, other))
                if Arc::ptr_eq(one, two) && keep == other =>
            {
                true
            }
            _ => self.value() == other.value(),
        }
    }
}

impl Content {
    fn value(&self) -> Value {
        match self {
            Content::Text { text, .. } => text::read(text).unwrap_or_default(),
            Content::Tree(tree) => tree.clone(),
            Content::Served(served, keep) => kept(&served.value, *keep),
        }
    }

    /// The status, as the tree that has it or as text; nothing when there is none.
    fn status(&self) -> Option<Cow<'_, Value>> {
        let tree: &Value = match self {
            Content::Text { .. } => {
                return text::read(self.status_text()?).ok().map(Cow::Owned);
            }
            Content::Tree(tree) => tree,
            Content::Served(_, Keep::Metadata) => return None,
            Content::Served(served, _) => &served.value,
        };
        tree.get("status").map(Cow::Borrowed)
    }

    fn status_text(&self) -> Option<&[u8]> {
        match self {
            Content::Text { text, status } => {
                let (from, to) = *status;
                text.get(from as usize..to as usize)
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Objects may hold secrets.
        write!(f, "{}/{}@{}", self.namespace, self.name, self.revision)
    }
}

impl Stored {
    /// Whether something has the name, the unique id and the revision of an object.
    pub fn is_one(object: &Value) -> bool {
        let has = |field| !meta_text(object, field).is_empty();
        let version = meta_text(object, "resourceVersion").parse::<u64>();
        has("name") && has("uid") && version.is_ok()
    }

    /// Reads what the server sent. An object without a name, a unique id or a revision is none.
    pub fn read(object: &Value, keep: Keep) -> Option<Self> {
        Self::with(object, || {
            let mut bytes = Vec::with_capacity(1_024);
            let status = write(object, keep, &mut bytes)?;
            Some(Content::Text {
                text: bytes.into_boxed_slice(),
                status,
            })
        })
    }

    /// As [`Stored::read`], kept as a tree.
    pub fn as_tree(object: &Value, keep: Keep) -> Option<Self> {
        Self::with(object, || Some(Content::Tree(kept(object, keep))))
    }

    /// As [`Stored::read`], of what a watch told: an object of a server in the same process is not copied.
    pub fn of_seen(object: &Seen, keep: Keep) -> Option<Self> {
        match object {
            Seen::Read(object) => Self::read(object, keep),
            Seen::Shared(served) => {
                Self::with(object, || Some(Content::Served(served.clone(), keep)))
            }
        }
    }

    fn with(object: &Value, content: impl FnOnce() -> Option<Content>) -> Option<Self> {
        let text = |field| SmolStr::from(meta_text(object, field));
        let (name, uid) = (text("name"), text("uid"));
        let version: u64 = meta_text(object, "resourceVersion").parse().ok()?;
        if !Stored::is_one(object) {
            return None;
        }
        Some(Stored {
            namespace: text("namespace"),
            name,
            uid,
            revision: version,
            generation: generation(object),
            deleting: !meta_text(object, "deletionTimestamp").is_empty(),
            requested_at: annotation(object, REQUESTED_AT)
                .filter(|value| !value.is_empty())
                .map(SmolStr::from),
            content: content()?,
        })
    }

    /// Whether it has the same status as another one.
    pub fn has_status_of(&self, other: &Stored) -> bool {
        match (self.content.status_text(), other.content.status_text()) {
            (Some(one), Some(two)) => one == two,
            _ => self.content.status() == other.content.status(),
        }
    }

    /// The status alone.
    pub fn status(&self) -> Value {
        self.content
            .status()
            .map(Cow::into_owned)
            .unwrap_or_default()
    }

    /// The object.
    pub fn value(&self) -> Value {
        self.content.value()
    }

    /// The object, without a copy where a tree of it is kept.
    pub fn lean(&self) -> Cow<'_, Value> {
        match &self.content {
            Content::Tree(tree) => Cow::Borrowed(tree),
            _ => Cow::Owned(self.value()),
        }
    }

    /// The object to look at, without a copy where that can be: it may show more than is kept.
    pub fn look(&self) -> Cow<'_, Value> {
        match &self.content {
            Content::Text { .. } => Cow::Owned(self.value()),
            Content::Tree(tree) => Cow::Borrowed(tree),
            Content::Served(served, _) => Cow::Borrowed(&served.value),
        }
    }

    /// Namespace and name.
    pub fn key(&self) -> Name {
        (self.namespace.clone(), self.name.clone())
    }

    /// How many bytes it takes; trees count as nothing, for they are the server's or soon will be gone.
    pub fn size(&self) -> usize {
        let text = match &self.content {
            Content::Text { text, .. } => text.len(),
            _ => 0,
        };
        size_of::<Self>() + text
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

/// What is kept of an object.
fn kept(object: &Value, keep: Keep) -> Value {
    let Some(map) = object.as_object() else {
        return Value::Null;
    };
    let fields = map.iter().filter(|(field, _)| keeps(keep, field));
    let fields = fields.map(|(field, value)| {
        let value = match (left_out(keep, field), value) {
            ([], value) => value.clone(),
            (out, Value::Object(part)) => without(part, out)
                .map(|(field, value)| (field.clone(), value.clone()))
                .collect(),
            (_, value) => value.clone(),
        };
        (field.clone(), value)
    });
    fields.collect()
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
