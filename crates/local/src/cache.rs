//! What was fetched before, kept in a directory between runs.
//!
//! An entry is found by what its content depends on beside the moment: the address and what is asked for
//! there. How old it may be says the object's own interval; a chart of an exact version never changes.

use std::io;
use std::sync::Arc;

use everflow_api::view;
use everflow_env::Disk;
use everflow_env::disk::{read_all, write_whole};
use everflow_fetch::archive::{Algorithm, digest_of};
use everflow_json::{Value, json};
use everflow_runtime::attempt::Context;
use everflow_semver::Version;
use everflow_time::{Duration, Timestamp};

/// Larger content is not kept.
pub const LARGEST: u64 = 256 << 20;
/// No description is larger.
const LARGEST_NOTE: u64 = 1 << 20;
/// Fields of a spec that say when to fetch, and nothing about the content.
const OF_TIME: [&str; 3] = ["interval", "timeout", "suspend"];

/// A directory with what was fetched before.
#[derive(Debug, Clone)]
pub struct SourceCache {
    disk: Arc<dyn Disk>,
    /// What messages call it.
    name: String,
}

/// What an object's content depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey {
    file: String,
    /// Whether the same key always means the same content.
    fixed: bool,
    /// How old the content may get, where it may change.
    interval: std::time::Duration,
}

/// Something that was fetched before.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The status of the object then.
    pub status: Value,
    /// The artifact.
    pub bytes: Vec<u8>,
    /// When it was fetched.
    pub fetched: Timestamp,
}

impl SourceCache {
    /// A cache on a disk.
    pub fn new(disk: Arc<dyn Disk>, name: impl Into<String>) -> Self {
        SourceCache {
            disk,
            name: name.into(),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is kept under a key. What is damaged counts as not there.
    pub fn find(&self, key: &CacheKey) -> Option<Kept> {
        let (note, data) = places(key);
        let note = read_all(&*self.disk, &note, LARGEST_NOTE).ok()?;
        let note: Value = everflow_json::from_slice(&note).ok()?;
        let bytes = read_all(&*self.disk, &data, LARGEST).ok()?;
        let digest = digest_of(Algorithm::Sha256, &bytes);
        if note["digest"] != digest.as_str() {
            return None;
        }
        Some(Kept {
            status: note["status"].clone(),
            bytes,
            fetched: Timestamp::parse(note["fetched"].as_str()?)?,
        })
    }

    /// Keeps what was fetched. The description is written last: without it there is no entry.
    pub fn keep(
        &self,
        key: &CacheKey,
        status: &Value,
        bytes: &[u8],
        now: Timestamp,
    ) -> io::Result<()> {
        if bytes.len() as u64 > LARGEST {
            return Ok(());
        }
        let (note, data) = places(key);
        let text = json!({
            "digest": digest_of(Algorithm::Sha256, bytes).as_str(),
            "fetched": now.rfc3339_micro(),
            "status": status,
        });
        self.write(&data, bytes)?;
        self.write(&note, text.to_string().as_bytes())
    }

    /// Replaces a file whole: another run may read it, or write it too.
    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = format!("{path}.{}", std::process::id());
        write_whole(&*self.disk, &unfinished, bytes)?;
        self.disk.rename(&unfinished, path)
    }
}

impl CacheKey {
    /// Whether something that was fetched then may be used without asking.
    pub fn is_fresh(&self, fetched: Timestamp, now: Timestamp) -> bool {
        self.fixed || now.since(fetched).unsigned() < self.interval
    }

    /// The key of an object that is fetched; none where that cannot be told.
    pub fn of(object: &Value, context: &Context) -> Option<CacheKey> {
        let spec = &object["spec"];
        let kind = object["kind"].as_str()?;
        let namespace = view::namespace(object);
        let (origin, fixed) = match kind {
            "HelmRepository" if spec["type"] == "oci" => return None,
            "HelmChart" => {
                let source = &spec["sourceRef"];
                let store = context.store(source["kind"].as_str()?)?;
                let stored = store.get(namespace, source["name"].as_str()?)?.value();
                match source["kind"] == "HelmRepository" {
                    true => (without_times(&stored["spec"]), is_exact(spec)),
                    false => (json!(view::artifact_digest(&stored)?), true),
                }
            }
            _ => (Value::Null, false),
        };
        let what = json!({
            "kind": kind,
            // Names of Secrets mean nothing elsewhere.
            "namespace": namespace,
            "spec": without_times(spec),
            "origin": origin,
        });
        let digest = digest_of(Algorithm::Sha256, what.to_string().as_bytes());
        let interval = spec["interval"].as_str().unwrap_or_default();
        let interval = Duration::parse(interval).unwrap_or(Duration(0));
        Some(CacheKey {
            file: digest.hex().to_owned(),
            fixed,
            interval: interval.unsigned(),
        })
    }
}

/// Whether a chart of a repository is asked for by its exact version.
fn is_exact(spec: &Value) -> bool {
    let version = spec["version"].as_str().unwrap_or_default();
    Version::parse_strict(version.trim_start_matches('v')).is_ok()
}

fn without_times(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for field in OF_TIME {
        if let Some(map) = spec.as_object_mut() {
            map.remove(field);
        }
    }
    spec
}

fn places(key: &CacheKey) -> (String, String) {
    let file = &key.file;
    (
        format!("sources/{file}.json"),
        format!("sources/{file}.data"),
    )
}

#[cfg(test)]
mod tests {
    use everflow_env::MemoryDisk;
    use everflow_env::disk::write_whole;

    use super::*;

    fn key(fixed: bool) -> CacheKey {
        CacheKey {
            file: "f".into(),
            fixed,
            interval: std::time::Duration::from_secs(60),
        }
    }

    #[test]
    fn cached_sources_are_found_and_damaged_ones_ignored() {
        let disk = Arc::new(MemoryDisk::new());
        let cache = SourceCache::new(disk.clone(), "cache");
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(cache.find(&key(true)), None);
        let status = json!({"artifact": {"revision": "1.0.0"}});
        cache.keep(&key(true), &status, b"chart", now).unwrap();
        let kept = cache.find(&key(true)).unwrap();
        assert_eq!(
            (kept.status, kept.bytes.as_slice()),
            (status, &b"chart"[..])
        );
        assert_eq!(kept.fetched, now);
        write_whole(&*disk, "sources/f.data", b"other").unwrap();
        assert_eq!(cache.find(&key(true)), None);
    }

    #[test]
    fn mutable_sources_are_fresh_for_their_interval() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let fetched = at("2026-01-01T00:00:00Z");
        assert!(key(false).is_fresh(fetched, at("2026-01-01T00:00:59Z")));
        assert!(!key(false).is_fresh(fetched, at("2026-01-01T00:01:00Z")));
        assert!(key(true).is_fresh(fetched, at("2027-01-01T00:00:00Z")));
    }

    #[test]
    fn exact_versions_are_told_from_ranges() {
        for (version, exact) in [
            ("1.2.3", true),
            ("v1.2.3-rc.1+build", true),
            ("1.2", false),
            ("1.x", false),
            ("*", false),
            (">=1.0.0", false),
            ("", false),
        ] {
            assert_eq!(is_exact(&json!({"version": version})), exact, "{version}");
        }
    }
}
