//! What is known of the objects of a kind, and how fresh that is.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_env::Clock;
use serde_json::Value;
use smol_str::SmolStr;
use tokio::sync::{mpsc, watch};

use crate::client::{annotation, generation, meta_text, revision};

/// The annotation that asks for an attempt at once.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// How much of each object is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Keep {
    /// All but `managedFields`, which nobody reads and which are half of an object.
    #[default]
    WithoutManagedFields,
    /// All.
    Everything,
    /// Only the metadata, without `managedFields`. The server is asked for no more.
    Metadata,
}

/// Namespace and name.
pub type Name = (SmolStr, SmolStr);

/// An object as it is stored: what is looked at often, and the rest as compact text.
#[derive(Clone, PartialEq, Eq)]
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
    text: Box<[u8]>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Objects may hold secrets.
        write!(f, "{}/{}@{}", self.namespace, self.name, self.revision)
    }
}

impl Stored {
    /// Reads what the server sent. An object without a name, a unique id or a revision is none.
    pub fn read(object: &Value, keep: Keep) -> Option<Self> {
        let text = |field| SmolStr::from(meta_text(object, field));
        let (name, uid) = (text("name"), text("uid"));
        let version: u64 = meta_text(object, "resourceVersion").parse().ok()?;
        if name.is_empty() || uid.is_empty() {
            return None;
        }
        let mut bytes = Vec::with_capacity(1_024);
        write(object, keep, &mut bytes)?;
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
            text: bytes.into_boxed_slice(),
        })
    }

    /// The object.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
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

fn write(object: &Value, keep: Keep, bytes: &mut Vec<u8>) -> Option<()> {
    if keep == Keep::Everything {
        return serde_json::to_writer(bytes, object).ok();
    }
    let map = object.as_object()?;
    bytes.push(b'{');
    let mut first = true;
    for (field, value) in map {
        if keep == Keep::Metadata && !["apiVersion", "kind", "metadata"].contains(&field.as_str()) {
            continue;
        }
        if !std::mem::take(&mut first) {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut *bytes, field).ok()?;
        bytes.push(b':');
        match (field.as_str(), value) {
            ("metadata", Value::Object(metadata)) if metadata.contains_key("managedFields") => {
                let mut metadata = metadata.clone();
                metadata.remove("managedFields");
                serde_json::to_writer(&mut *bytes, &metadata).ok()?;
            }
            _ => serde_json::to_writer(&mut *bytes, value).ok()?,
        }
    }
    bytes.push(b'}');
    Some(())
}

/// A change of an object: how it was and how it is; `None` when it was or is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Namespace and name.
    pub name: Name,
    /// Before.
    pub old: Option<Arc<Stored>>,
    /// Now.
    pub new: Option<Arc<Stored>>,
}

/// What a store says about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was news.
    Accepted,
    /// It was known, or older than what is known.
    Old,
    /// It should not come at this point: something may have been missed.
    OutOfOrder,
}

/// The objects of a kind, or of a part of it. Clones share it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    keep: Keep,
    inner: Mutex<Inner>,
    synced: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<Name, Arc<Stored>>,
    /// The revision up to which the server has told everything.
    revision: u64,
    /// When the server was heard last.
    heard: Option<Duration>,
    unreadable: BTreeMap<Name, String>,
    subscribers: Vec<mpsc::UnboundedSender<Change>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Store")
            .field("objects", &inner.objects.len())
            .field("revision", &inner.revision)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// A store that has heard nothing yet.
    pub fn new(clock: Arc<dyn Clock>, keep: Keep) -> Self {
        Store {
            shared: Arc::new(Shared {
                clock,
                keep,
                inner: Mutex::default(),
                synced: watch::Sender::new(false),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        let inner = self.shared.inner.lock();
        inner.unwrap_or_else(PoisonError::into_inner)
    }

    /// How much of each object is kept.
    pub fn keeps(&self) -> Keep {
        self.shared.keep
    }

    /// An object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let key = (namespace.into(), name.into());
        self.lock().objects.get(&key).cloned()
    }

    /// All objects by namespace and name, or those of one namespace.
    pub fn list(&self, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let inner = self.lock();
        match namespace {
            None => inner.objects.values().cloned().collect(),
            Some(namespace) => {
                let from = (SmolStr::from(namespace), SmolStr::default());
                let all = inner
                    .objects
                    .range((Bound::Included(from), Bound::Unbounded));
                all.take_while(|((space, _), _)| space == namespace)
                    .map(|(_, stored)| stored.clone())
                    .collect()
            }
        }
    }

    /// The names of all objects.
    pub fn names(&self) -> Vec<Name> {
        self.lock().objects.keys().cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether there are none. Mind [`Store::is_synced`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The revision up to which the server has told everything.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// How long ago the server was heard; `None` before it ever was.
    pub fn age(&self) -> Option<Duration> {
        let heard = self.lock().heard?;
        Some(self.shared.clock.elapsed().saturating_sub(heard))
    }

    /// Whether all there is has been told at least once. Before that, what is missing here says
    /// nothing.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until all there is has been told once.
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives as long as the store does.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// How many bytes the objects take.
    pub fn size(&self) -> usize {
        self.lock()
            .objects
            .values()
            .map(|stored| stored.size())
            .sum()
    }

    /// Objects that came but make no sense, and why.
    pub fn unreadable(&self) -> BTreeMap<Name, String> {
        self.lock().unreadable.clone()
    }

    /// From now on, all changes. What is there already comes first.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        for (name, stored) in &inner.objects {
            let change = Change {
                name: name.clone(),
                old: None,
                new: Some(stored.clone()),
            };
            // The receiver is in our hands.
            let _ = sender.send(change);
        }
        inner.subscribers.push(sender);
        receiver
    }

    /// Takes in the server's answer to a write of ours. It is never put over something newer,
    /// and an object that went meanwhile does not come back by it.
    pub fn learn(&self, object: &Value) {
        let Some(stored) = Stored::read(object, self.shared.keep) else {
            return;
        };
        let mut inner = self.lock();
        let known = inner.objects.get(&stored.key());
        let newer = match known {
            Some(known) => stored.revision > known.revision,
            // The server has told everything up to its revision: had it been there, it would be
            // here.
            None => stored.revision > inner.revision,
        };
        if newer && self.is_synced() {
            inner.put(stored);
        }
    }

    /// Takes in that an object with this unique id was found to be gone.
    pub fn learn_gone(&self, name: &Name, uid: &str) {
        let mut inner = self.lock();
        if inner
            .objects
            .get(name)
            .is_some_and(|known| known.uid == uid)
        {
            inner.take(name);
        }
    }

    /// An object came or changed, by the watch.
    pub(crate) fn set(&self, object: &Value) -> Verdict {
        let mut inner = self.lock();
        inner.heard = Some(self.shared.clock.elapsed());
        let Some(stored) = Stored::read(object, self.shared.keep) else {
            inner.note_unreadable(object);
            return Verdict::Old;
        };
        inner.unreadable.remove(&stored.key());
        let told = inner.revision;
        inner.revision = told.max(stored.revision);
        match inner.objects.get(&stored.key()) {
            Some(known) if stored.revision <= known.revision => Verdict::Old,
            None if stored.revision <= told => Verdict::OutOfOrder,
            _ => {
                inner.put(stored);
                Verdict::Accepted
            }
        }
    }

    /// An object went, by the watch.
    pub(crate) fn gone(&self, object: &Value) -> Verdict {
        let mut inner = self.lock();
        inner.heard = Some(self.shared.clock.elapsed());
        let key = (
            SmolStr::from(meta_text(object, "namespace")),
            SmolStr::from(meta_text(object, "name")),
        );
        let went = revision(object);
        inner.unreadable.remove(&key);
        inner.revision = inner.revision.max(went);
        match inner.objects.get(&key) {
            Some(known) if known.revision <= went => {
                inner.take(&key);
                Verdict::Accepted
            }
            _ => Verdict::Old,
        }
    }

    /// Everything up to a revision has been told.
    pub(crate) fn bookmark(&self, revision: u64) {
        let mut inner = self.lock();
        inner.heard = Some(self.shared.clock.elapsed());
        inner.revision = inner.revision.max(revision);
    }

    /// Everything there is at a revision. What we wrote later than that stays. `rewound` says that
    /// the server's revisions went back: then nothing of ours stays.
    pub(crate) fn replace(&self, objects: Vec<Value>, revision: u64, rewound: bool) {
        let mut inner = self.lock();
        inner.heard = Some(self.shared.clock.elapsed());
        inner.unreadable.clear();
        let mut there: BTreeMap<Name, Stored> = BTreeMap::new();
        for object in &objects {
            match Stored::read(object, self.shared.keep) {
                Some(stored) => {
                    there.insert(stored.key(), stored);
                }
                None => inner.note_unreadable(object),
            }
        }
        let went: Vec<Name> = inner
            .objects
            .iter()
            .filter(|(key, known)| {
                !there.contains_key(*key) && (rewound || known.revision <= revision)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in went {
            inner.take(&key);
        }
        for (key, stored) in there {
            let known = inner.objects.get(&key);
            let news = known.is_none_or(|known| {
                stored.revision > known.revision || (rewound && **known != stored)
            });
            if news {
                inner.put(stored);
            }
        }
        inner.revision = match rewound {
            true => revision,
            false => inner.revision.max(revision),
        };
        drop(inner);
        self.shared.synced.send_replace(true);
    }

    /// Whether metadata read from the server says the same as the store.
    pub(crate) fn agrees(&self, objects: &[Value], revision: u64) -> bool {
        let inner = self.lock();
        let there: BTreeMap<Name, (u64, &str)> = objects
            .iter()
            .map(|object| {
                let key = (
                    meta_text(object, "namespace").into(),
                    meta_text(object, "name").into(),
                );
                (
                    key,
                    (crate::client::revision(object), meta_text(object, "uid")),
                )
            })
            .collect();
        let same = there.iter().all(|(key, (version, uid))| {
            inner.unreadable.contains_key(key)
                || inner.objects.get(key).is_some_and(|known| {
                    known.revision > revision || (known.revision == *version && known.uid == *uid)
                })
        });
        let none_left = inner
            .objects
            .iter()
            .all(|(key, known)| there.contains_key(key) || known.revision > revision);
        same && none_left
    }
}

impl Inner {
    fn put(&mut self, stored: Stored) {
        let name = stored.key();
        let new = Arc::new(stored);
        let old = self.objects.insert(name.clone(), new.clone());
        self.tell(Change {
            name,
            old,
            new: Some(new),
        });
    }

    fn take(&mut self, name: &Name) {
        if let Some(old) = self.objects.remove(name) {
            self.tell(Change {
                name: name.clone(),
                old: Some(old),
                new: None,
            });
        }
    }

    fn tell(&mut self, change: Change) {
        self.subscribers
            .retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }

    fn note_unreadable(&mut self, object: &Value) {
        let key = (
            SmolStr::from(meta_text(object, "namespace")),
            SmolStr::from(meta_text(object, "name")),
        );
        let why = "it has no name, unique id or resourceVersion that can be read";
        self.unreadable.insert(key, why.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_env::SimulatedClock;
    use serde_json::json;

    fn toy(name: &str, uid: &str, version: u64) -> Value {
        json!({
            "kind": "Toy",
            "metadata": {
                "name": name, "namespace": "n", "uid": uid,
                "resourceVersion": version.to_string(), "generation": 3,
                "managedFields": [{"manager": "m"}],
            },
            "spec": {"size": version},
        })
    }

    fn store() -> Store {
        Store::new(Arc::new(SimulatedClock::new()), Keep::default())
    }

    fn sizes(store: &Store) -> Vec<(String, u64)> {
        let all = store.list(None);
        all.iter()
            .map(|stored| (stored.name.to_string(), stored.revision))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn older_never_goes_over_newer() {
        let store = store();
        assert_eq!((store.age(), store.is_synced()), (None, false));
        store.learn(&toy("early", "u0", 5));
        assert!(store.is_empty(), "before the first list nothing is known");
        store.replace(vec![toy("a", "u1", 10), toy("b", "u2", 11)], 12, false);
        assert_eq!(store.set(&toy("a", "u1", 9)), Verdict::Old);
        assert_eq!(store.set(&toy("a", "u1", 10)), Verdict::Old);
        assert_eq!(store.set(&toy("a", "u1", 13)), Verdict::Accepted);
        store.learn(&toy("a", "u1", 12));
        assert_eq!(sizes(&store), [("a".into(), 13), ("b".into(), 11)]);
        // Our own write runs ahead of the watch; the watch then tells the same.
        store.learn(&toy("b", "u2", 14));
        assert_eq!(store.set(&toy("b", "u2", 14)), Verdict::Old);
        assert_eq!(store.gone(&toy("b", "u2", 15)), Verdict::Accepted);
        // A late answer of ours does not bring it back.
        store.learn(&toy("b", "u2", 14));
        assert_eq!(store.set(&toy("b", "u2", 12)), Verdict::OutOfOrder);
        assert_eq!(sizes(&store), [("a".into(), 13)]);
        // A list from before our write does not undo it.
        store.learn(&toy("c", "u3", 20));
        store.replace(vec![toy("a", "u1", 13)], 18, false);
        assert_eq!(sizes(&store), [("a".into(), 13), ("c".into(), 20)]);
        // Recreated under the same name: the end of the first is not the end of the second.
        store.learn(&toy("a", "u9", 25));
        assert_eq!(store.gone(&toy("a", "u1", 24)), Verdict::Old);
        assert_eq!(store.get("n", "a").unwrap().uid, "u9");
        // A server restored from a backup.
        store.replace(vec![toy("a", "u1", 3)], 4, true);
        assert_eq!(
            (sizes(&store), store.revision()),
            (vec![("a".into(), 3)], 4)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_unreadable_object_harms_no_other() {
        let store = store();
        let mut broken = toy("x", "u", 1);
        broken["metadata"]["uid"] = json!(7);
        store.replace(vec![broken, toy("a", "u1", 2)], 3, false);
        assert_eq!(sizes(&store), [("a".into(), 2)]);
        assert_eq!(store.unreadable().len(), 1);
        assert_eq!(store.set(&toy("x", "u", 4)), Verdict::Accepted);
        assert!(store.unreadable().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn subscribers_hear_all_changes_in_order() {
        let store = store();
        store.replace(vec![toy("a", "u1", 2)], 3, false);
        let mut changes = store.subscribe();
        store.set(&toy("a", "u1", 4));
        store.gone(&toy("a", "u1", 5));
        let mut told = Vec::new();
        while let Ok(change) = changes.try_recv() {
            let version = |stored: Option<Arc<Stored>>| stored.map(|stored| stored.revision);
            told.push((version(change.old), version(change.new)));
        }
        assert_eq!(told, [(None, Some(2)), (Some(2), Some(4)), (Some(4), None)]);
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let kept = |keep| Stored::read(&toy("a", "u", 1), keep).unwrap().value();
        assert_eq!(kept(Keep::WithoutManagedFields)["spec"]["size"], 1);
        assert_eq!(
            kept(Keep::WithoutManagedFields)["metadata"]["generation"],
            3
        );
        assert!(
            kept(Keep::WithoutManagedFields)["metadata"]
                .get("managedFields")
                .is_none()
        );
        assert_eq!(kept(Keep::Everything), toy("a", "u", 1));
        assert!(kept(Keep::Metadata).get("spec").is_none());
        let shown = format!(
            "{:?}",
            Stored::read(&toy("a", "u", 1), Keep::Everything).unwrap()
        );
        assert_eq!(shown, "n/a@1");
    }
}
