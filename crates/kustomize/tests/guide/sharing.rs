//! One cache for many builds.

use std::sync::Arc;

use everflow_kustomize::{Cache, Options, Plugins, build_cached};

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
