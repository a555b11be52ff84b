//! The queue on disk: what is still to be delivered, and what was told lately.
//!
//! A journal is a file that only grows: one line for each notification that was taken, one when it is done with. Lines
//! are written in batches and synced before anybody is told that they are safe. When a file has grown too long, what is
//! still alive is written to a new one. After a crash the last line may be torn: reading a file ends there.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;

use everflow_env::Disk;
use everflow_env::disk::{FileWriter, below, read_all};
use everflow_json::{Value, json};
use everflow_notify::Event;
use everflow_time::{Duration, Timestamp};
use sha2::{Digest as _, Sha256};

/// Where the files are.
const DIRECTORY: &str = "notifications";
const PREFIX: &str = "queue-";
/// A file that is longer is replaced by a new one.
const LONGEST: u64 = 8 << 20;
/// A file that is longer than this is no journal of ours.
const LARGEST: u64 = 256 << 20;

/// What an event is told apart by.
pub(crate) type Identity = [u8; 32];

/// A notification that is still to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number: it grows.
    pub(crate) id: u64,
    /// When it was taken.
    pub(crate) at: Timestamp,
    /// `NAMESPACE/NAME` of the Alert.
    pub(crate) alert: String,
    /// `NAMESPACE/NAME` of the Provider as of then.
    pub(crate) provider: String,
    /// The event.
    pub(crate) event: Event,
    /// What the event is told apart by; of a group the newest.
    pub(crate) identity: Identity,
    /// How many events it stands for; more than one are a group that waits.
    pub(crate) held: Option<usize>,
}

/// A line of the journal.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    /// A notification was taken.
    Taken(Arc<Entry>),
    /// It is done with.
    Done(u64),
    /// An event was told, here or by another replica.
    Told(Timestamp, Identity),
}

/// The journal and what is alive in it.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    writer: Option<Box<dyn FileWriter>>,
    number: u64,
    length: u64,
    /// How long the file was when it was begun.
    begun: u64,
    alive: BTreeMap<u64, Arc<Entry>>,
    told: BTreeMap<Identity, Timestamp>,
    /// For so long it is remembered what was told.
    memory: Duration,
}

/// What a journal held when it was opened.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What is still to be delivered, the oldest first.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// What was told lately.
    pub(crate) told: Vec<(Timestamp, Identity)>,
    /// What could not be read.
    pub(crate) problems: Vec<String>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({} alive)", self.alive.len())
    }
}

impl Journal {
    /// Opens the journal, reads what is in it and begins a new file.
    pub(crate) fn open(disk: Arc<dyn Disk>, memory: Duration, now: Timestamp) -> (Self, Found) {
        let mut journal = Journal {
            disk,
            writer: None,
            number: 0,
            length: 0,
            begun: 0,
            alive: BTreeMap::new(),
            told: BTreeMap::new(),
            memory,
        };
        let mut found = Found::default();
        let old = match journal.files() {
            Ok(old) => old,
            Err(error) => {
                found.problems.push(error.to_string());
                Vec::new()
            }
        };
        for number in &old {
            journal.number = journal.number.max(*number);
            match read_all(&*journal.disk, &path(*number), LARGEST) {
                Ok(bytes) => journal.replay(&bytes),
                Err(error) => found.problems.push(format!("{}: {error}", path(*number))),
            }
        }
        if let Err(error) = journal.begin(now) {
            found.problems.push(error.to_string());
        }
        found.entries = journal.alive.values().cloned().collect();
        let told = journal.told.iter().map(|(identity, at)| (*at, *identity));
        found.told = told.collect();
        found.told.sort_unstable();
        (journal, found)
    }

    /// The numbers of the files that are there, the oldest first.
    fn files(&self) -> io::Result<Vec<u64>> {
        self.disk.create_dir(DIRECTORY)?;
        let names = self.disk.list(DIRECTORY)?.into_iter();
        let numbers = names.filter_map(|entry| entry.name.strip_prefix(PREFIX)?.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn replay(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            // What follows a torn line was never promised to anybody.
            let Some(record) = read_line(line) else {
                return;
            };
            self.note(&record);
        }
    }

    fn note(&mut self, record: &Record) {
        match record {
            Record::Taken(entry) => {
                self.told.insert(entry.identity, entry.at);
                self.alive.insert(entry.id, entry.clone());
            }
            Record::Done(id) => {
                self.alive.remove(id);
            }
            Record::Told(at, identity) => {
                self.told.insert(*identity, *at);
            }
        }
    }

    /// Begins a new file with what is alive, and removes the others.
    fn begin(&mut self, now: Timestamp) -> io::Result<()> {
        let memory = self.memory;
        self.told.retain(|_, at| now.since(*at) < memory);
        let old = self.files()?;
        self.number += 1;
        let mut text = Vec::new();
        for entry in self.alive.values() {
            write_line(&Record::Taken(entry.clone()), &mut text);
        }
        for (identity, at) in &self.told {
            write_line(&Record::Told(*at, *identity), &mut text);
        }
        let mut writer = self.disk.create(&path(self.number))?;
        writer.write_all(&text)?;
        writer.sync()?;
        self.disk.sync_dir(DIRECTORY)?;
        self.length = text.len() as u64;
        self.begun = self.length;
        self.writer = Some(writer);
        for number in old.into_iter().filter(|number| *number != self.number) {
            self.disk.remove(&path(number))?;
        }
        Ok(())
    }

    /// Writes records and makes them durable. What is alive is known even when the disk fails.
    pub(crate) fn write(&mut self, records: &[Record], now: Timestamp) -> io::Result<()> {
        let mut text = Vec::new();
        for record in records {
            self.note(record);
            write_line(record, &mut text);
        }
        // What is alive may be long by itself: it is not written anew each time.
        if self.writer.is_none() || self.length > LONGEST.max(2 * self.begun) {
            return self.begin(now);
        }
        let written = self.writer.as_mut().map_or(Ok(()), |writer| {
            writer.write_all(&text)?;
            writer.sync()
        });
        self.length += text.len() as u64;
        if written.is_err() {
            // Part of a line may stand there: what comes next belongs into another file.
            self.writer = None;
        }
        written
    }
}

fn path(number: u64) -> String {
    below(DIRECTORY, &format!("{PREFIX}{number}"))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Identity> {
    let mut identity = Identity::default();
    if text.len() != 2 * identity.len() || !text.is_ascii() {
        return None;
    }
    for (index, byte) in identity.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(identity)
}

fn write_line(record: &Record, out: &mut Vec<u8>) {
    let value = match record {
        Record::Taken(entry) => json!({
            "id": entry.id, "at": nanos(entry.at), "alert": entry.alert, "provider": entry.provider,
            "event": entry.event.to_json(), "identity": hex(&entry.identity), "held": entry.held,
        }),
        Record::Done(id) => json!({ "done": id }),
        Record::Told(at, identity) => json!({"told": hex(identity), "at": nanos(*at)}),
    };
    let text = value.to_string();
    out.extend(hex(&Sha256::digest(&text)[..4]).into_bytes());
    out.push(b' ');
    out.extend(text.into_bytes());
    out.push(b'\n');
}

fn nanos(at: Timestamp) -> Vec<i64> {
    vec![at.seconds, i64::from(at.nanos)]
}

fn read_line(line: &[u8]) -> Option<Record> {
    let (sum, text) = line.split_at_checked(8)?;
    let text = text.strip_prefix(b" ")?;
    if hex(&Sha256::digest(text)[..4]).as_bytes() != sum {
        return None;
    }
    let value: Value = everflow_json::text::read(text).ok()?;
    let at = || {
        Some(Timestamp {
            seconds: value["at"][0].as_i64()?,
            nanos: u32::try_from(value["at"][1].as_i64()?).ok()?,
        })
    };
    if let Some(id) = value["done"].as_u64() {
        return Some(Record::Done(id));
    }
    if let Some(identity) = value["told"].as_str() {
        return Some(Record::Told(at()?, unhex(identity)?));
    }
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    Some(Record::Taken(Arc::new(Entry {
        id: value["id"].as_u64()?,
        at: at()?,
        alert: text("alert")?,
        provider: text("provider")?,
        event: Event::read(text("event")?.as_bytes()).ok()?,
        identity: unhex(&text("identity")?)?,
        held: value["held"].as_u64().map(|count| count as usize),
    })))
}

#[cfg(test)]
mod tests {
    use everflow_env::MemoryDisk;

    use super::*;

    const MEMORY: Duration = Duration::from_seconds(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    fn entry(id: u64) -> Arc<Entry> {
        let body = format!(
            r#"{{"involvedObject":{{"kind":"Kustomization","name":"x{id}"}},"message":"a\nb"}}"#
        );
        Arc::new(Entry {
            id,
            at: at(id as i64),
            alert: "n/a".to_owned(),
            provider: "n/p".to_owned(),
            event: Event::read(body.as_bytes()).unwrap(),
            identity: [id as u8; 32],
            held: (id == 2).then_some(4),
        })
    }

    fn reopen(disk: &MemoryDisk, now: i64) -> (Journal, Found) {
        let (journal, found) = Journal::open(Arc::new(disk.clone()), MEMORY, at(now));
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        (journal, found)
    }

    #[test]
    fn pending_notifications_survive_a_crash() {
        let disk = MemoryDisk::new();
        let (mut journal, found) = reopen(&disk, 0);
        assert!(found.entries.is_empty());
        let taken: Vec<Record> = (1..4).map(|id| Record::Taken(entry(id))).collect();
        journal.write(&taken, at(5)).unwrap();
        journal.write(&[Record::Done(1)], at(6)).unwrap();
        disk.crash();
        for _ in 0..2 {
            let (_, found) = reopen(&disk, 7);
            assert_eq!(found.entries, [entry(2), entry(3)]);
            assert_eq!(found.told.len(), 3, "{:?}", found.told);
        }
        // What was told long ago is forgotten.
        assert_eq!(reopen(&disk, 1_000).1.told.len(), 0);
    }

    #[test]
    fn journal_with_many_live_entries_is_not_rewritten_on_every_write() {
        let disk = MemoryDisk::new();
        let (mut journal, _) = reopen(&disk, 0);
        for id in 1..=5 {
            let mut large = (*entry(id)).clone();
            large.event.message = "x".repeat(3 << 20);
            let taken = Record::Taken(Arc::new(large));
            journal.write(&[taken], at(1)).unwrap();
        }
        let begun = journal.number;
        for id in 6..30 {
            journal.write(&[Record::Taken(entry(id))], at(1)).unwrap();
        }
        assert!(journal.number <= begun + 1, "{begun}: {}", journal.number);
    }

    #[test]
    fn a_torn_line_ends_its_file_only() {
        let disk = MemoryDisk::new();
        let (mut journal, _) = reopen(&disk, 0);
        journal.write(&[Record::Taken(entry(1))], at(1)).unwrap();
        let mut bytes = read_all(&disk, &path(1), 1 << 20).unwrap();
        bytes.extend(b"0011aabb {\"id\":9");
        everflow_env::disk::write_whole(&disk, &path(1), &bytes).unwrap();
        let (_, found) = reopen(&disk, 2);
        assert_eq!(found.entries, [entry(1)]);
    }

    #[test]
    fn full_disk_is_reported_and_later_entries_go_to_a_new_file() {
        let disk = MemoryDisk::new();
        let (mut journal, _) = reopen(&disk, 0);
        disk.set_capacity(Some(1));
        assert!(journal.write(&[Record::Taken(entry(1))], at(1)).is_err());
        disk.set_capacity(None);
        journal.write(&[Record::Taken(entry(2))], at(2)).unwrap();
        assert_eq!(reopen(&disk, 3).1.entries, [entry(1), entry(2)]);
    }
}
