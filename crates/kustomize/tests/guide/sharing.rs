//! One cache for many builds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_kustomize::{
    Cache, FileView, Located, MemoryView, Options, Plugins, ViewError, build_cached,
};
use everflow_limits::Budget;

use crate::{MAP, view};

#[test]
fn an_unchanged_tree_is_not_built_again() {
    let cache = Cache::default();
    let build = |text: &str| {
        let view = view(&[("kustomization.yaml", text), ("map.yaml", MAP)]);
        build_cached(
            &view,
            "/app",
            &Options::default(),
            Plugins::default(),
            &cache,
            &Budget::unlimited(),
        )
        .unwrap()
    };
    let first = build("resources: [map.yaml]\n");
    let again = build("resources: [map.yaml]\n");
    assert!(Arc::ptr_eq(&first, &again));
    let changed = build("namePrefix: a-\nresources: [map.yaml]\n");
    assert!(!Arc::ptr_eq(&first, &changed));
    assert_eq!(changed.objects[0].id.name, "a-settings");
    assert_eq!(changed.objects[0].original_id.name, "settings");
}

#[test]
fn a_new_file_that_was_missing_before_counts_as_a_change() {
    let cache = Cache::default();
    let build = |files: &[(&str, &str)]| {
        build_cached(
            &view(files),
            "/app",
            &Options::default(),
            Plugins::default(),
            &cache,
            &Budget::unlimited(),
        )
        .map(|output| output.objects.len())
        .map_err(|error| error.to_string())
    };
    let one = [
        ("kustomization.yaml", "resources: [map.yaml]\n"),
        ("map.yaml", MAP),
    ];
    assert_eq!(build(&one), Ok(1));
    let two = [one[0], one[1], ("kustomization.yml", "resources: []\n")];
    assert!(
        build(&two)
            .unwrap_err()
            .contains("Found multiple kustomization files")
    );
}

/// A view that counts how often each file is read.
struct Counting {
    view: MemoryView,
    reads: RefCell<BTreeMap<String, usize>>,
}

impl FileView for Counting {
    fn locate(&self, path: &str) -> Result<Located, ViewError> {
        self.view.locate(path)
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, ViewError> {
        *self.reads.borrow_mut().entry(path.to_owned()).or_default() += 1;
        self.view.read(path)
    }
}

#[test]
fn a_base_of_many_overlays_is_parsed_once() {
    const OVERLAYS: usize = 20;
    let objects: String = (0..200)
        .map(|number| MAP.replace("settings", &format!("map-{number}")) + "---\n")
        .collect();
    let mut files = MemoryView::new();
    files.insert("/base/kustomization.yaml", *b"resources: [objects.yaml]\n");
    files.insert("/base/objects.yaml", objects.into_bytes());
    for number in 0..OVERLAYS {
        let text = format!("namePrefix: o{number}-\nresources: [../base]\n");
        files.insert(
            &format!("/overlay{number}/kustomization.yaml"),
            text.into_bytes(),
        );
    }
    let view = Counting {
        view: files,
        reads: RefCell::default(),
    };
    let cache = Cache::default();
    let build_all = || {
        for number in 0..OVERLAYS {
            let directory = format!("/overlay{number}");
            let options = Options::default();
            let output = build_cached(
                &view,
                &directory,
                &options,
                Plugins::default(),
                &cache,
                &Budget::unlimited(),
            )
            .unwrap();
            assert_eq!(output.objects.len(), 200);
        }
    };
    build_all();
    // One parsed file of objects for all, and one finished build for each.
    assert_eq!(cache.len(), 1 + OVERLAYS);
    view.reads.borrow_mut().clear();
    build_all();
    // Nothing changed: each build reads its files to hash them, and that is all.
    assert_eq!(cache.len(), 1 + OVERLAYS);
    assert_eq!(view.reads.borrow()["/base/objects.yaml"], OVERLAYS);
    assert_eq!(view.reads.borrow()["/overlay3/kustomization.yaml"], 1);
}

#[test]
fn a_cache_stays_within_its_bound() {
    let cache = Cache::new(10_000);
    for number in 0..200 {
        let map = MAP.replace("settings", &format!("map-{number}"));
        let view = view(&[
            ("kustomization.yaml", "resources: [map.yaml]\n"),
            ("map.yaml", &map),
        ]);
        let options = Options::default();
        build_cached(
            &view,
            "/app",
            &options,
            Plugins::default(),
            &cache,
            &Budget::unlimited(),
        )
        .unwrap();
        assert!(cache.len() < 200, "{}", cache.len());
    }
}
