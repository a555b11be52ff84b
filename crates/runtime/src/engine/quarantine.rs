//! Objects on which the process died.
//!
//! Before an attempt works on foreign input, a mark with the object's name is made on disk; it goes when the
//! attempt ends. A mark that is found at the start means that the process died meanwhile: once may be chance,
//! for all that ran at that moment are marked; again is not. Such an object is tried later than the others,
//! one at a time and ever more rarely, so that they are delivered whatever it does.
//!
//! Marks are directories: making one needs no data on disk, and a process that dies leaves it behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everflow_env::disk::below;
use everflow_env::{
    Blocking, BoxFuture, Disk, Env, Job, Lane, LaneBlocking, Overdue, run_blocking,
};
use everflow_json::Value;

use super::Shared;
use crate::events::{Event, Severity};
use crate::queue::Key;

/// Where the marks are.
const DIRECTORY: &str = "in-flight";
/// The mark of an attempt that runs.
const RUNNING: &str = "running";
/// The mark that says how often the process has died, followed by a number.
const DEATHS: &str = "deaths-";
/// The reason of the Event.
const REASON: &str = "Quarantined";

/// After how many deaths an object is tried alone, and an Event says so. All that ran when the process died once are
/// under suspicion, so the first death says little of each.
const ALONE: u32 = 2;

/// How long after the start, or after its last attempt, an object is left alone.
fn pause(deaths: u32) -> Duration {
    Duration::from_secs(match deaths {
        0 => 0,
        1 => 5,
        2 => 30,
        3 => 2 * 60,
        4 => 8 * 60,
        5 => 30 * 60,
        _ => 60 * 60,
    })
}

/// What is known of an object on which the process died.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    deaths: u32,
    not_before: Duration,
    told: bool,
}

/// The objects on which the process died, and which of them is tried now.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    suspects: BTreeMap<Key, Suspect>,
    trying: Option<Key>,
}

/// Whether an object may be attempted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Like any other.
    Free,
    /// Not before this span is over. `announce` says that nobody has been told yet.
    Held {
        /// How long.
        span: Duration,
        /// How often the process died.
        deaths: u32,
        /// Whether an Event is due.
        announce: bool,
    },
}

impl Quarantine {
    pub(super) fn len(&self) -> usize {
        self.suspects.len()
    }

    fn add(&mut self, key: Key, deaths: u32, now: Duration) {
        let suspect = Suspect {
            deaths,
            not_before: now + pause(deaths),
            told: deaths < ALONE,
        };
        self.suspects.insert(key, suspect);
    }

    /// Whether an object may be attempted now. One that is tried alone counts as running until
    /// [`Quarantine::end`].
    pub(super) fn admit(&mut self, key: &Key, now: Duration) -> Admission {
        let Some(suspect) = self.suspects.get_mut(key) else {
            return Admission::Free;
        };
        let deaths = suspect.deaths;
        let mut span = suspect.not_before.saturating_sub(now);
        if span.is_zero() {
            if deaths < ALONE {
                return Admission::Free;
            }
            match &self.trying {
                None => {
                    self.trying = Some(key.clone());
                    return Admission::Free;
                }
                Some(other) if other == key => return Admission::Free,
                // Another one is tried now.
                Some(_) => span = Duration::from_secs(5),
            }
        }
        Admission::Held {
            span,
            deaths,
            announce: !std::mem::replace(&mut suspect.told, true),
        }
    }

    /// An attempt has ended and the process lives. Work that was done on foreign input clears the object.
    pub(super) fn end(&mut self, key: &Key, worked: bool) {
        if self.trying.as_ref() == Some(key) {
            self.trying = None;
        }
        if worked {
            self.suspects.remove(key);
        }
    }

    /// The object is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        self.end(key, true);
    }
}

/// The directory of an object's marks. Kinds and namespaces have no dots.
fn directory(key: &Key) -> Option<String> {
    let name = format!("{}.{}.{}", key.kind, key.namespace, key.name);
    // Longer names do not fit; they are not marked.
    (name.len() <= 255).then(|| below(DIRECTORY, &name))
}

fn key_of(name: &str) -> Option<Key> {
    let mut parts = name.splitn(3, '.');
    let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Key::new(kind, namespace, name))
}

/// Reads the marks that the last process left, and counts a death for what was running.
fn read_marks(disk: &dyn Disk) -> Vec<(Key, u32)> {
    let mut found = Vec::new();
    for entry in disk.list(DIRECTORY).unwrap_or_default() {
        let path = below(DIRECTORY, &entry.name);
        let Some(key) = key_of(&entry.name) else {
            continue;
        };
        let marks = disk.list(&path).unwrap_or_default();
        let count = |name: &str| {
            name.strip_prefix(DEATHS)
                .and_then(|text| text.parse::<u32>().ok())
        };
        let mut deaths = marks
            .iter()
            .filter_map(|mark| count(&mark.name))
            .max()
            .unwrap_or(0);
        if marks.iter().any(|mark| mark.name == RUNNING) {
            deaths = deaths.saturating_add(1);
            // The new count first: dying between the two must not forget it.
            let counted = disk.create_dir(&below(&path, &format!("{DEATHS}{deaths}")));
            let cleared = counted.and_then(|()| disk.remove_dir(&below(&path, RUNNING)));
            if cleared.is_err() {
                continue;
            }
        }
        if deaths > 0 {
            found.push((key, deaths));
        }
    }
    found
}

/// Finds out on which objects the last process died.
pub(super) async fn load(shared: &Shared) {
    let disk = shared.env.disk.clone();
    let found = run_blocking(&*shared.env.blocking, move || read_marks(&*disk)).await;
    let now = shared.now();
    for (key, deaths) in found.unwrap_or_default() {
        if shared.kinds.contains_key(&key.kind) {
            let (name, deaths_text) = (key.to_string(), deaths.to_string());
            let fields = [("object", name.as_str()), ("deaths", deaths_text.as_str())];
            shared
                .log
                .info("the process died while this object was attempted", &fields);
            shared.lock().quarantine.add(key, deaths, now);
        }
    }
}

/// Takes back the marks of attempts that were cut off in good order.
pub(super) async fn clear_running(shared: &Shared) {
    let disk = shared.env.disk.clone();
    let clear = run_blocking(&*shared.env.blocking, move || {
        for entry in disk.list(DIRECTORY).unwrap_or_default() {
            // A mark that stays costs its object a later turn.
            let _ = disk.remove_dir(&below(&below(DIRECTORY, &entry.name), RUNNING));
        }
    });
    let _ = everflow_env::within(&*shared.env.clock, Duration::from_millis(500), clear).await;
}

/// Tells of an object that is held back.
pub(super) fn announce(
    shared: &Shared,
    reporter: &str,
    object: &Value,
    deaths: u32,
    span: Duration,
) {
    let message = format!(
        "the process ended {deaths} times while it reconciled this object, which is set apart so that others are not held up: \
         it is tried again, alone, in {}s. Make its source smaller, or suspend it",
        span.as_secs()
    );
    let event = Event::new(Severity::Error, REASON, message);
    shared.recorder.emit(reporter, object, event);
}

/// Blocking work of one attempt, which is marked on disk before it touches foreign input.
#[derive(Debug)]
pub(super) struct MarkedBlocking {
    inner: LaneBlocking,
    mark: Arc<Mark>,
}

/// The mark of one attempt.
#[derive(Debug)]
pub(super) struct Mark {
    disk: Arc<dyn Disk>,
    directory: Option<String>,
    made: AtomicBool,
}

impl Mark {
    fn make(&self) {
        if let Some(directory) = &self.directory
            && !self.made.swap(true, Ordering::Relaxed)
        {
            // Without a mark the attempt is made all the same.
            let _ = self.disk.create_dir(&below(directory, RUNNING));
        }
    }

    /// Whether the attempt has worked on foreign input.
    pub(super) fn is_made(&self) -> bool {
        self.made.load(Ordering::Relaxed)
    }

    fn remove(&self) {
        if let Some(directory) = &self.directory {
            let _ = self.disk.remove_dir(directory);
        }
    }
}

impl Blocking for MarkedBlocking {
    fn run(&self, mut job: Job) -> BoxFuture<'static, ()> {
        if job.foreign {
            let (mark, work) = (self.mark.clone(), job.work);
            job.work = Box::new(move |budget| {
                mark.make();
                work(budget);
            });
        }
        self.inner.run(job)
    }

    fn overdue(&self) -> Vec<Overdue> {
        self.inner.overdue()
    }

    fn memory(&self) -> Option<Arc<everflow_limits::Pool>> {
        self.inner.memory()
    }
}

/// The world on behalf of one attempt, and its mark.
pub(super) fn marked(env: &Env, key: &Key) -> (Env, Arc<Mark>) {
    let mark = Arc::new(Mark {
        disk: env.disk.clone(),
        directory: directory(key),
        made: AtomicBool::new(false),
    });
    let lane = Lane {
        kind: key.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
    };
    let inner = LaneBlocking::new(env.blocking.clone(), lane);
    let mut env = env.clone();
    env.blocking = Arc::new(MarkedBlocking {
        inner,
        mark: mark.clone(),
    });
    (env, mark)
}

/// An attempt has ended: its mark goes, and the object is cleared if it did what it died of.
pub(super) async fn end(shared: &Shared, key: &Key, mark: Arc<Mark>) {
    let worked = mark.is_made();
    shared.lock().quarantine.end(key, worked);
    if worked {
        let remove = run_blocking(&*shared.env.blocking, move || mark.remove());
        // A disk that hangs must not hold the object.
        let _ = everflow_env::within(&*shared.env.clock, Duration::from_secs(1), remove).await;
    }
}

#[cfg(test)]
mod tests {
    use everflow_env::MemoryDisk;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(name: &str) -> Key {
        Key::new("Kustomization", "apps", name)
    }

    fn mark_of(disk: &MemoryDisk, key: &Key) -> Mark {
        Mark {
            disk: Arc::new(disk.clone()),
            directory: directory(key),
            made: AtomicBool::new(false),
        }
    }

    #[test]
    fn leftover_mark_counts_one_crash() {
        let disk = MemoryDisk::new();
        let bad = key("bad.name");
        mark_of(&disk, &bad).make();
        assert_eq!(read_marks(&disk), [(bad.clone(), 1)]);
        // Started and ended again without having tried it.
        assert_eq!(read_marks(&disk), [(bad.clone(), 1)]);
        mark_of(&disk, &bad).make();
        disk.crash();
        assert_eq!(read_marks(&disk), [(bad.clone(), 2)]);
        mark_of(&disk, &bad).remove();
        assert_eq!(read_marks(&disk), []);
    }

    #[test]
    fn quarantined_objects_are_retried_alone_with_growing_delay() {
        let mut quarantine = Quarantine::default();
        quarantine.add(key("once"), 1, Duration::ZERO);
        quarantine.add(key("bad"), 2, Duration::ZERO);
        quarantine.add(key("worse"), 2, Duration::ZERO);
        assert_eq!(quarantine.admit(&key("fine"), SECOND), Admission::Free);
        let held = |deaths, seconds, announce| Admission::Held {
            span: Duration::from_secs(seconds),
            deaths,
            announce,
        };
        assert_eq!(quarantine.admit(&key("once"), SECOND), held(1, 4, false));
        assert_eq!(quarantine.admit(&key("bad"), SECOND), held(2, 29, true));
        assert_eq!(quarantine.admit(&key("bad"), SECOND), held(2, 29, false));
        assert_eq!(quarantine.admit(&key("once"), 5 * SECOND), Admission::Free);
        assert_eq!(quarantine.admit(&key("bad"), 30 * SECOND), Admission::Free);
        assert_eq!(
            quarantine.admit(&key("worse"), 30 * SECOND),
            held(2, 5, true)
        );
        quarantine.end(&key("bad"), true);
        assert_eq!(
            quarantine.admit(&key("worse"), 35 * SECOND),
            Admission::Free
        );
        // It came to nothing that could have killed the process: it stays under suspicion.
        quarantine.end(&key("worse"), false);
        assert_eq!(quarantine.len(), 2);
        assert!(pause(3) > pause(2) && pause(100) == Duration::from_secs(3_600));
    }

    #[test]
    fn names_too_long_for_a_directory_are_not_marked() {
        assert_eq!(directory(&key(&"n".repeat(253))), None);
        assert_eq!(key_of("Kustomization.apps.a.b"), Some(key("a.b")));
        assert_eq!(key_of("lost+found"), None);
    }
}
