//! What is known of the objects of a kind, and how fresh that is.

mod object;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_env::{Clock, watch};
use everflow_json::Value;
use smol_str::SmolStr;
use tokio::sync::{Notify, mpsc};

pub use object::{CachedObject, Keep, Name};

use crate::client::{meta_text, revision};

/// A change of an object: how it was and how it is; `None` when it was or is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Namespace and name.
    pub name: Name,
    /// Before.
    pub old: Option<Arc<CachedObject>>,
    /// Now.
    pub new: Option<Arc<CachedObject>>,
}

impl Change {
    /// Whether it shows that the server has gone back, restored from a backup: only then a store takes older for newer.
    pub fn goes_back(&self) -> bool {
        let both = self.old.as_ref().zip(self.new.as_ref());
        both.is_some_and(|(old, new)| new.revision <= old.revision)
    }
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
    answered: watch::Sender<bool>,
    resync_requested: Notify,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<Name, Arc<CachedObject>>,
    /// The revision up to which the server has told everything.
    revision: u64,
    /// When the server was heard last.
    heard: Option<Duration>,
    unreadable: BTreeMap<Name, String>,
    /// The server was asked about an object and knows another one, or an older version of it, than was told here.
    resync_requested: bool,
    /// How often the server was found to have gone back.
    rewinds: u64,
    /// How often an object came, changed or went.
    changes: u64,
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
                answered: watch::Sender::new(false),
                resync_requested: Notify::new(),
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
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<CachedObject>> {
        let key = (namespace.into(), name.into());
        self.lock().objects.get(&key).cloned()
    }

    /// All objects by namespace and name, or those of one namespace.
    pub fn list(&self, namespace: Option<&str>) -> Vec<Arc<CachedObject>> {
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

    /// How often an object came, changed or went.
    pub fn changes(&self) -> u64 {
        self.lock().changes
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

    /// Says that the server was asked and has no such kind: there is nothing to be told for now.
    pub(crate) fn kind_is_missing(&self) {
        self.shared.answered.send_replace(true);
    }

    /// Waits until all there is has been told once, or the server has answered that there is no such kind.
    pub async fn answered(&self) {
        let mut answered = self.shared.answered.subscribe();
        let _ = answered.wait_for(|answered| *answered).await;
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

    /// Whether an object makes no sense, and is not known for that.
    pub(crate) fn cannot_read(&self, object: &Value) -> bool {
        let known = |name: &Name| self.lock().unreadable.contains_key(name);
        !CachedObject::is_one(object)
            && !known(&(
                meta_text(object, "namespace").into(),
                meta_text(object, "name").into(),
            ))
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
        let Some(stored) = CachedObject::read(object, self.shared.keep) else {
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

    /// The server knows nothing of what is known here: it was restored from a backup, or an event was lost. All is read
    /// again, and nothing of ours stays.
    pub fn request_resync(&self) {
        self.lock().resync_requested = true;
        self.shared.resync_requested.notify_one();
    }

    /// Waits until a resync is requested.
    pub(crate) async fn resync_requested(&self) {
        while !self.is_resync_requested() {
            self.shared.resync_requested.notified().await;
        }
    }

    /// Whether a resync was requested that no list has answered yet.
    pub(crate) fn is_resync_requested(&self) -> bool {
        self.lock().resync_requested
    }

    /// An object came or changed, by the watch.
    pub(crate) fn set(&self, object: &Value) -> Verdict {
        let mut inner = self.lock();
        inner.heard = Some(self.shared.clock.elapsed());
        if let Some(version) = inner.knows(object) {
            inner.revision = inner.revision.max(version);
            return Verdict::Old;
        }
        let Some(stored) = CachedObject::read(object, self.shared.keep) else {
            // The first time it may be the event, and not the object, that cannot be read.
            return match inner.note_unreadable(object) {
                true => Verdict::OutOfOrder,
                false => Verdict::Old,
            };
        };
        inner.unreadable.remove(&stored.key());
        let told = inner.revision;
        inner.revision = told.max(stored.revision);
        match inner.objects.get(&stored.key()) {
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
    pub(crate) fn replace(&self, objects: &[Value], revision: u64, rewound: bool) {
        let mut inner = self.lock();
        inner.heard = Some(self.shared.clock.elapsed());
        inner.unreadable.clear();
        inner.resync_requested = false;
        let mut there: BTreeMap<Name, CachedObject> = BTreeMap::new();
        for object in objects {
            match CachedObject::read(object, self.shared.keep) {
                Some(stored) => {
                    there.insert(stored.key(), stored);
                }
                None => drop(inner.note_unreadable(object)),
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
            // A list says how everything is at its revision: what is older in it than here was set back.
            let known_then = |known: &CachedObject| rewound || known.revision <= revision;
            let news = known.is_none_or(|known| {
                stored.revision > known.revision || (known_then(known) && **known != stored)
            });
            if news {
                inner.put(stored);
            }
        }
        inner.rewinds += u64::from(rewound);
        inner.revision = match rewound {
            true => revision,
            false => inner.revision.max(revision),
        };
        drop(inner);
        self.shared.synced.send_replace(true);
        self.shared.answered.send_replace(true);
    }

    /// How often the server was found to have gone back: it was restored from a backup, and revisions from before may
    /// stand for something else now.
    pub fn rewinds(&self) -> u64 {
        self.lock().rewinds
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
    /// The revision of an object that came, when it or a newer one is known: what we wrote
    /// ourselves mostly is, and need not be read again.
    fn knows(&self, object: &Value) -> Option<u64> {
        let text = |field| SmolStr::from(meta_text(object, field));
        let known = self.objects.get(&(text("namespace"), text("name")))?;
        let came = meta_text(object, "resourceVersion").parse().ok()?;
        (came <= known.revision).then_some(came)
    }

    fn put(&mut self, stored: CachedObject) {
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
        self.changes += 1;
        self.subscribers
            .retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }

    /// Says whether it was not known yet.
    fn note_unreadable(&mut self, object: &Value) -> bool {
        let key = (
            SmolStr::from(meta_text(object, "namespace")),
            SmolStr::from(meta_text(object, "name")),
        );
        let why = "it has no name, unique id or resourceVersion that can be read";
        self.unreadable.insert(key, why.to_owned()).is_none()
    }
}

#[cfg(test)]
mod tests;
