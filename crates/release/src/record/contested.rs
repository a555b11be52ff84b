//! Objects of a release that others change back again and again, noted beside its record: every process that comes
//! to the release knows of them.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_api::inventory::ObjectId;
use everflow_json::{Map, Value, json};
use everflow_time::Timestamp;

/// How long a contested object is left alone at first, and at most.
const ALONE: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(86_400));

/// Objects that are left alone, by how often that was found out and when last. A new revision begins without any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contested {
    known: BTreeMap<ObjectId, (u32, Timestamp)>,
}

impl Contested {
    /// Whether an object was contested at any time since the revision was made.
    pub fn knows(&self, id: &ObjectId) -> bool {
        self.known.contains_key(id)
    }

    /// Whether an object is left alone now.
    pub fn is_left_alone(&self, id: &ObjectId, now: Timestamp) -> bool {
        let found = self.known.get(id);
        found.is_some_and(|(times, since)| now.since(*since).unsigned() <= span(*times))
    }

    /// Notes that an object is contested; for so long it is left alone. Each time it is for twice as long.
    pub fn note(&mut self, id: &ObjectId, now: Timestamp) -> Duration {
        let entry = self.known.entry(id.clone()).or_insert((0, now));
        *entry = (entry.0.saturating_add(1), now);
        span(entry.0)
    }

    /// The text of the annotation.
    pub fn to_text(&self) -> String {
        let mut note = Map::new();
        for (id, (times, since)) in &self.known {
            let entry = json!({"times": times, "since": since.to_string()});
            note.insert(id.to_string().into(), entry);
        }
        Value::Object(note).to_string()
    }

    /// Reads the annotation; what is not as we write it is passed by.
    pub fn of(text: &str) -> Self {
        let read: Option<Value> = everflow_json::from_str(text).ok();
        let entries = read.as_ref().and_then(Value::as_object).into_iter();
        let entry = |(id, entry): (&str, &Value)| {
            let times = u32::try_from(entry["times"].as_u64()?).ok()?;
            let since = Timestamp::parse(entry["since"].as_str()?)?;
            Some((id.parse().ok()?, (times, since)))
        };
        let known = entries
            .flatten()
            .filter_map(|(id, value)| entry((id.as_ref(), value)))
            .collect();
        Contested { known }
    }
}

fn span(times: u32) -> Duration {
    let doubled = 1_u32 << times.saturating_sub(1).min(16);
    ALONE.0.saturating_mul(doubled).min(ALONE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ObjectId {
        ObjectId::of(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": "web"}}))
    }

    #[test]
    fn contested_object_is_left_alone_for_twice_as_long_each_time() {
        let (id, start) = (id(), Timestamp::from_seconds(1_000));
        let mut contested = Contested::default();
        assert!(!contested.is_left_alone(&id, start));
        assert_eq!(contested.note(&id, start), Duration::from_secs(600));
        assert!(contested.is_left_alone(&id, start + Duration::from_secs(600)));
        let later = start + Duration::from_secs(601);
        assert!(!contested.is_left_alone(&id, later) && contested.knows(&id));
        assert_eq!(contested.note(&id, later), Duration::from_secs(1_200));
        for _ in 0..40 {
            contested.note(&id, later);
        }
        assert_eq!(contested.note(&id, later), ALONE.1);
    }

    #[test]
    fn note_is_read_as_it_is_written() {
        let mut contested = Contested::default();
        contested.note(&id(), Timestamp::from_seconds(1_700_000_000));
        assert_eq!(Contested::of(&contested.to_text()), contested);
        for text in ["", "[]", "{\"x\":1}", "{\"a_b_c_d\":{\"times\":\"x\"}}"] {
            assert_eq!(Contested::of(text), Contested::default());
        }
    }
}
