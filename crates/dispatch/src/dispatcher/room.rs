//! How much the notifications may hold that wait: anyone can post events, and providers that are away keep theirs.

use std::collections::BTreeMap;

use crate::journal::Entry;

/// What all notifications together may hold, in bytes.
pub(crate) const ROOM: usize = 48 << 20;
/// What those of the Alerts of one namespace may hold: one that is flooded leaves room to others.
pub(crate) const SHARE: usize = ROOM / 4;
/// What a notification takes beside its texts.
const LEAST: usize = 512;

/// Of so many notifications one must have gone before it is worth counting what is held.
const WORTH: usize = 64;

/// What is held, by the namespace of the Alert. Notifications that were sent are noticed when it is counted anew, which
/// happens when there seems to be no room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    held: BTreeMap<String, usize>,
    /// How many there were when it was counted.
    counted: usize,
    /// How many have gone since.
    gone: usize,
}

impl Room {
    /// Whether there is room for one more, which it takes then. `all` are those that wait.
    pub(crate) fn take<'e, I>(&mut self, entry: &Entry, all: impl FnOnce() -> I) -> bool
    where
        I: Iterator<Item = &'e Entry>,
    {
        let bytes = weight(entry);
        if !self.has(entry, bytes) {
            // Counting takes long when there are many, and each event of a flood would have it done.
            if self.gone * WORTH < self.counted {
                return false;
            }
            self.count(all());
            if !self.has(entry, bytes) {
                return false;
            }
        }
        self.add(entry, bytes);
        true
    }

    /// Notes that a notification has gone.
    pub(crate) fn note_gone(&mut self) {
        self.gone += 1;
    }

    fn count<'e>(&mut self, all: impl Iterator<Item = &'e Entry>) {
        self.held.clear();
        (self.counted, self.gone) = (0, 0);
        for entry in all {
            self.counted += 1;
            self.add(entry, weight(entry));
        }
    }

    fn has(&self, entry: &Entry, bytes: usize) -> bool {
        let own = self.held.get(namespace(entry)).copied();
        let all: usize = self.held.values().sum();
        own.unwrap_or_default() + bytes <= SHARE && all + bytes <= ROOM
    }

    fn add(&mut self, entry: &Entry, bytes: usize) {
        *self.held.entry(namespace(entry).to_owned()).or_default() += bytes;
    }
}

fn namespace(entry: &Entry) -> &str {
    entry
        .alert
        .split_once('/')
        .map_or("", |(namespace, _)| namespace)
}

fn weight(entry: &Entry) -> usize {
    let event = &entry.event;
    let metadata = event.metadata.iter();
    let metadata: usize = metadata
        .map(|(key, value)| key.len() + value.len() + LEAST / 8)
        .sum();
    LEAST + event.message.len() + event.involved.path().len() + metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(alert: &str, bytes: usize) -> Entry {
        let text = format!(
            "{{\"involvedObject\":{{\"kind\":\"K\",\"name\":\"n\",\"namespace\":\"t\"}},\"severity\":\"info\",\
             \"timestamp\":\"2026-01-02T03:04:05Z\",\"message\":\"{}\",\"reason\":\"r\",\"reportingController\":\"c\"}}",
            "x".repeat(bytes)
        );
        Entry {
            id: 1,
            at: everflow_time::Timestamp::default(),
            alert: alert.to_owned(),
            provider: "p/p".to_owned(),
            event: everflow_notify::Event::read(text.as_bytes()).unwrap(),
            identity: [0; 32],
            held: None,
        }
    }

    #[test]
    fn floods_of_one_namespace_leave_room_to_others() {
        let mut room = Room::default();
        let large = entry("flooded/a", 1 << 20);
        let mut waiting: Vec<Entry> = Vec::new();
        for _ in 0..100 {
            if room.take(&large, || waiting.iter()) {
                waiting.push(large.clone());
            }
        }
        assert_eq!(waiting.len(), SHARE / ((1 << 20) + LEAST));
        assert!(room.take(&entry("other/a", 1 << 20), || waiting.iter()));
        // What was sent makes room.
        waiting.truncate(1);
        room.note_gone();
        assert!(room.take(&large, || waiting.iter()));
    }

    #[test]
    fn full_queue_is_not_weighed_for_each_event() {
        let mut room = Room::default();
        let large = entry("flooded/a", 64 << 10);
        let mut waiting: Vec<Entry> = Vec::new();
        let mut counts = 0;
        let mut offer = |room: &mut Room, waiting: &mut Vec<Entry>| {
            let all = || {
                counts += 1;
                waiting.iter()
            };
            let is_taken = room.take(&large, all);
            if is_taken {
                waiting.push(large.clone());
            }
            (is_taken, counts)
        };
        while offer(&mut room, &mut waiting).0 {}
        let (_, before) = offer(&mut room, &mut waiting);
        for _ in 0..50 {
            assert_eq!(offer(&mut room, &mut waiting), (false, before));
        }
        for _ in 0..=waiting.len() / WORTH {
            waiting.pop();
            room.note_gone();
        }
        assert_eq!(offer(&mut room, &mut waiting), (true, before + 1));
    }

    #[test]
    fn all_namespaces_together_have_a_bound() {
        let mut room = Room::default();
        let mut waiting: Vec<Entry> = Vec::new();
        for number in 0..100 {
            let large = entry(&format!("n{number}/a"), 1 << 20);
            if room.take(&large, || waiting.iter()) {
                waiting.push(large);
            }
        }
        assert_eq!(waiting.len(), ROOM / ((1 << 20) + 600));
    }
}
