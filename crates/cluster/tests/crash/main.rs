//! The durable store after a crash at any moment: nothing acknowledged is lost, nothing half-written is seen.
//!
//! Everything that reaches the disk is recorded. For every moment of the recording the disk is rebuilt as a crash at that
//! moment could leave it, and the store is opened on it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod disk;
mod full;
mod killed;

use std::collections::BTreeMap;

use disk::{Image, Recorder};
use everflow_cluster::store::disk::DiskJournal;
use everflow_cluster::store::{Store, StoreError};
use everflow_json::{Value, json};

type Expected = BTreeMap<String, String>;

/// A sequence of numbers that is the same on every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

fn object(name: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"text": text}})
}

/// Writes something and says what the store holds afterwards.
fn write(store: &Store, numbers: &mut Numbers, held: &mut Expected) {
    let key = format!("n/{}", numbers.below(12));
    // Some objects are larger than a page of the disk.
    let text = format!(
        "{}-{}",
        numbers.below(1_000_000),
        "x".repeat(numbers.below(9_000))
    );
    match store.get("t", &key) {
        None => {
            store.create("t", &key, object(&key, &text)).unwrap();
            held.insert(key, text);
        }
        Some(current) if numbers.below(4) == 0 => {
            store.delete("t", &key, current.revision, None).unwrap();
            held.remove(&key);
        }
        Some(current) => {
            store
                .update("t", &key, current.revision, object(&key, &text))
                .unwrap();
            held.insert(key, text);
        }
    }
}

fn held_by(store: &Store) -> Expected {
    store
        .list("t", "", None, 0)
        .items
        .iter()
        .map(|stored| {
            let name = stored.value["metadata"]["name"].as_str().unwrap();
            let text = stored.value["data"]["text"].as_str().unwrap();
            (name.to_owned(), text.to_owned())
        })
        .collect()
}

fn open(image: Image) -> Result<Store, StoreError> {
    Store::open(100, Box::new(DiskJournal::on(image)?))
}

#[test]
fn every_moment_of_a_crash_leaves_a_prefix_of_the_writes() {
    let recorder = Recorder::default();
    let store = Store::open(100, Box::new(DiskJournal::on(recorder.clone()).unwrap())).unwrap();
    let mut numbers = Numbers(11);
    let mut held = Expected::new();
    // After how many steps of the disk each write was acknowledged, and what was held then.
    let mut acknowledged = vec![(recorder.steps(), store.revision(), held.clone())];
    for _ in 0..100 {
        write(&store, &mut numbers, &mut held);
        acknowledged.push((recorder.steps(), store.revision(), held.clone()));
    }
    let first = acknowledged[0].0;
    let last = recorder.steps();
    let mut points = 0;
    for moment in first..=last {
        let done = acknowledged.partition_point(|(steps, _, _)| *steps <= moment) - 1;
        for image in recorder.crashes(moment, &mut numbers) {
            let store = open(image).unwrap_or_else(|error| panic!("after step {moment}: {error}"));
            let found = held_by(&store);
            let may_be = &acknowledged[done..acknowledged.len().min(done + 2)];
            let matching = may_be.iter().find(|(_, _, held)| *held == found);
            let (_, revision, _) =
                matching.unwrap_or_else(|| panic!("after step {moment}: not what was written"));
            assert_eq!(store.revision(), *revision, "after step {moment}");
            points += 1;
        }
    }
    println!("{points} crashes in {} steps of the disk", last - first);
    assert!(points > 2_000, "only {points}");
}

#[test]
fn failed_disk_write_leaves_the_store_unchanged() {
    let recorder = Recorder::default();
    let store = Store::open(100, Box::new(DiskJournal::on(recorder.clone()).unwrap())).unwrap();
    let mut numbers = Numbers(5);
    let mut held = Expected::new();
    for _ in 0..5 {
        write(&store, &mut numbers, &mut held);
    }
    let revision = store.revision();
    recorder.fail();
    let refused = store.create("t", "n/new", object("n/new", "x"));
    assert!(matches!(refused, Err(StoreError::Durable(_))));
    assert_eq!(held_by(&store), held);
    assert_eq!(store.revision(), revision);
}

#[test]
fn reopened_store_refuses_watches_from_before_its_history() {
    let recorder = Recorder::default();
    let first = Store::open(100, Box::new(DiskJournal::on(recorder.clone()).unwrap())).unwrap();
    let made = first.create("t", "n/a", object("n/a", "x")).unwrap();
    first.delete("t", "n/a", made.revision, None).unwrap();
    let newest = first.revision();
    drop(first);
    let again = open(recorder.image()).unwrap();
    assert_eq!(again.revision(), newest);
    // A watcher that saw the object must not believe that nothing happened.
    assert_eq!(
        again.changes("t", made.revision, 10).unwrap_err(),
        StoreError::TooOld(made.revision)
    );
    assert!(again.changes("t", newest, 10).unwrap().is_empty());
    assert!(
        again
            .create("t", "n/a", object("n/a", "y"))
            .unwrap()
            .revision
            > newest
    );
}
