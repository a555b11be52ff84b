//! Disks that fail for a while: full ones, and ones whose cache forgets what it could not write.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redb::StorageBackend;

use super::*;

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Nothing can be written.
    Full,
    /// What was written since the last sync does not reach the disk, though it can still be read.
    SyncLost,
    /// The sync tells of an error, but everything is on the disk.
    SyncDone,
}

#[derive(Debug, Default)]
struct State {
    /// What the cache shows.
    shown: Vec<u8>,
    /// What survives when the power goes.
    kept: Vec<u8>,
    dirty: Vec<Range<usize>>,
    /// The fault, after so many more steps.
    fault: Option<(Fault, usize)>,
}

/// A disk behind a cache. Clones share it.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn of(bytes: &[u8]) -> Self {
        let disk = Disk::default();
        disk.0.lock().unwrap().shown = bytes.to_vec();
        disk.0.lock().unwrap().kept = bytes.to_vec();
        disk
    }

    fn fail(&self, fault: Fault, after: usize) {
        self.0.lock().unwrap().fault = Some((fault, after));
    }

    fn mend(&self) {
        self.0.lock().unwrap().fault = None;
    }

    /// What a store finds after the process died, and after the power went.
    fn restarts(&self) -> [Disk; 2] {
        let state = self.0.lock().unwrap();
        [Disk::of(&state.shown), Disk::of(&state.kept)]
    }

    fn journal(&self) -> Box<DiskJournal> {
        let disk = self.clone();
        let journal = DiskJournal::reopening(move || Ok(disk.clone()), Duration::ZERO);
        Box::new(journal.unwrap())
    }

    fn store(&self) -> Store {
        Store::open(100, self.journal()).unwrap()
    }
}

impl State {
    /// The fault that strikes now.
    fn fault(&mut self) -> Option<Fault> {
        match &mut self.fault {
            Some((fault, 0)) => Some(*fault),
            Some((_, after)) => {
                *after -= 1;
                None
            }
            None => None,
        }
    }

    fn sync(&mut self) {
        self.kept.resize(self.shown.len(), 0);
        for range in std::mem::take(&mut self.dirty) {
            // The file may be shorter again.
            let range = range.start.min(self.shown.len())..range.end.min(self.shown.len());
            self.kept[range.clone()].copy_from_slice(&self.shown[range]);
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().shown.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let from = offset as usize;
        let part = state.shown.get(from..from + out.len());
        out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().shown.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        match state.fault() {
            Some(Fault::SyncLost) => {
                state.dirty.clear();
                Err(io::Error::other("the sync failed"))
            }
            fault => {
                state.sync();
                match fault {
                    Some(Fault::SyncDone) => Err(io::Error::other("the sync failed")),
                    _ => Ok(()),
                }
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.fault() == Some(Fault::Full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let range = offset as usize..offset as usize + data.len();
        if state.shown.len() < range.end {
            state.shown.resize(range.end, 0);
        }
        state.shown[range.clone()].copy_from_slice(data);
        state.dirty.push(range);
        Ok(())
    }
}

/// Tries a write. What the store would hold with it, and whether it was acknowledged.
fn try_write(store: &Store, numbers: &mut Numbers, held: &Expected) -> (Expected, bool) {
    let key = format!("n/{}", numbers.below(12));
    let filler = "x".repeat(numbers.below(9_000));
    let text = format!("{}-{filler}", numbers.below(1_000_000));
    let mut with = held.clone();
    let done = match store.get("t", &key) {
        None => {
            with.insert(key.clone(), text.clone());
            store.create("t", &key, object(&key, &text)).map(drop)
        }
        Some(current) if numbers.below(4) == 0 => {
            with.remove(&key);
            let deleted = store.delete("t", &key, current.revision, None);
            deleted.map(drop)
        }
        Some(current) => {
            with.insert(key.clone(), text.clone());
            let value = object(&key, &text);
            store.update("t", &key, current.revision, value).map(drop)
        }
    };
    match &done {
        Ok(()) | Err(StoreError::Durable(_)) => {}
        Err(other) => panic!("{other}"),
    }
    (with, done.is_ok())
}

#[test]
fn a_store_goes_on_after_faults_of_the_disk_with_what_it_acknowledged() {
    let mut faults = 0;
    for seed in 0..30 {
        let mut numbers = Numbers(seed);
        let disk = Disk::default();
        let store = disk.store();
        let mut held = Expected::new();
        // What writes that failed since the last acknowledged one may have left.
        let mut doubtful: Vec<Expected> = Vec::new();
        for step in 0..60 {
            let place = format!("seed {seed}, step {step}");
            let struck = numbers.below(4) == 0;
            if struck {
                let fault = [Fault::Full, Fault::SyncLost, Fault::SyncDone][numbers.below(3)];
                disk.fail(fault, numbers.below(12));
            }
            let revision = store.revision();
            let (with, acknowledged) = try_write(&store, &mut numbers, &held);
            match acknowledged {
                true => {
                    held = with;
                    doubtful.clear();
                    assert_eq!(store.revision(), revision + 1, "{place}");
                }
                false => {
                    faults += 1;
                    doubtful.push(with);
                    assert_eq!(store.revision(), revision, "{place}");
                }
            }
            assert_eq!(held_by(&store), held, "{place}");
            // It may last for more than one write.
            if numbers.below(3) > 0 {
                disk.mend();
            }
            let looked_at = !acknowledged || numbers.below(5) == 0;
            for restarted in disk.restarts().into_iter().filter(|_| looked_at) {
                let again = restarted.store();
                let found = held_by(&again);
                let known = found == held || doubtful.contains(&found);
                assert!(known, "{place}: not what was written");
                assert!(again.revision() >= store.revision(), "{place}");
            }
        }
        disk.mend();
        let last = store.create("t", "n/last", object("n/last", "x"));
        assert!(last.is_ok(), "seed {seed}: {last:?}");
    }
    assert!(faults > 150, "only {faults}");
}

#[test]
fn a_full_disk_is_written_to_again_when_there_is_room() {
    let disk = Disk::default();
    let store = disk.store();
    let made = store.create("t", "n/a", object("n/a", "x")).unwrap();
    disk.fail(Fault::Full, 0);
    for _ in 0..3 {
        let refused = store.update("t", "n/a", made.revision, object("n/a", "y"));
        assert!(matches!(refused, Err(StoreError::Durable(_))));
    }
    disk.mend();
    let made = store
        .update("t", "n/a", made.revision, object("n/a", "y"))
        .unwrap();
    store.delete("t", "n/a", made.revision, None).unwrap();
    for restarted in disk.restarts() {
        assert!(held_by(&restarted.store()).is_empty());
    }
}

#[test]
fn a_write_that_failed_but_was_stored_is_undone_by_the_next_one() {
    let disk = Disk::default();
    let store = disk.store();
    let kept = store.create("t", "n/kept", object("n/kept", "x")).unwrap();
    disk.fail(Fault::SyncDone, 0);
    let refused = store.create("t", "n/refused", object("n/refused", "x"));
    assert!(matches!(refused, Err(StoreError::Durable(_))));
    // It is on the disk, and nobody has seen it.
    assert_eq!(held_by(&disk.restarts()[1].store()).len(), 2);
    disk.mend();
    let next = store.create("t", "n/next", object("n/next", "x")).unwrap();
    assert_eq!(next.revision, kept.revision + 1);
    for restarted in disk.restarts() {
        let again = restarted.store();
        assert_eq!(held_by(&again), held_by(&store));
        assert_eq!(again.revision(), next.revision);
    }
}

#[test]
fn data_file_changed_by_another_process_is_not_written() {
    let disk = Disk::default();
    let store = disk.store();
    store.create("t", "n/a", object("n/a", "x")).unwrap();
    disk.fail(Fault::Full, 0);
    let refused = store.create("t", "n/b", object("n/b", "x"));
    assert!(matches!(refused, Err(StoreError::Durable(_))));
    disk.mend();
    let other = disk.store();
    for name in ["n/c", "n/d", "n/e"] {
        other.create("t", name, object(name, "x")).unwrap();
    }
    drop(other);
    let refused = store.create("t", "n/b", object("n/b", "x"));
    let Err(StoreError::Durable(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(text.contains("changed by somebody else"), "{text}");
}

#[test]
fn journal_is_reopened_only_after_a_pause() {
    let disk = Disk::default();
    let opened = Arc::new(Mutex::new(0));
    let (counted, of) = (opened.clone(), disk.clone());
    let open = move || {
        *counted.lock().unwrap() += 1;
        Ok(of.clone())
    };
    let journal = DiskJournal::reopening(open, Duration::from_millis(200)).unwrap();
    let store = Store::open(100, Box::new(journal)).unwrap();
    disk.fail(Fault::Full, 0);
    let begun = std::time::Instant::now();
    for number in 0..1_000 {
        let key = format!("n/{number}");
        assert!(store.create("t", &key, object(&key, "x")).is_err());
    }
    let most = 3 + begun.elapsed().as_millis() / 200;
    assert!(*opened.lock().unwrap() <= most);
    disk.mend();
    std::thread::sleep(Duration::from_millis(250));
    store.create("t", "n/a", object("n/a", "x")).unwrap();
}
