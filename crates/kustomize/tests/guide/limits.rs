//! Inputs that are meant to hurt end in an error or in bounded time.

use std::time::Instant;

use everflow_kustomize::{MemoryView, Options, Plugins, build};
use everflow_limits::Budget;
use proptest::prelude::*;

use crate::{MAP, built, fails, view};

#[test]
fn a_thousand_components_are_no_trouble() {
    let mut view = MemoryView::new();
    let mut text = "resources: [map.yaml]\ncomponents:\n".to_owned();
    for number in 0..1000 {
        text.push_str(&format!("- ../c{number}\n"));
        view.insert(
            &format!("/c{number}/kustomization.yaml"),
            format!("kind: Component\nlabels: [{{pairs: {{l{number}: x}}}}]\n").into_bytes(),
        );
    }
    view.insert("/app/kustomization.yaml", text.into_bytes());
    view.insert("/app/map.yaml", MAP.as_bytes());
    let started = Instant::now();
    let output = build(
        &view,
        "/app",
        &Options::default(),
        Plugins::default(),
        &Budget::unlimited(),
    )
    .unwrap();
    assert_eq!(output.objects.len(), 1);
    assert!(started.elapsed().as_secs() < 20);
}

#[test]
fn a_long_chain_of_bases_ends() {
    let mut view = MemoryView::new();
    for number in 0..1000 {
        view.insert(
            &format!("/b{number}/kustomization.yaml"),
            format!("resources: [../b{}]\n", number + 1).into_bytes(),
        );
    }
    let error = build(
        &view,
        "/b0",
        &Options::default(),
        Plugins::default(),
        &Budget::unlimited(),
    )
    .unwrap_err();
    assert_eq!(error.reason(), "LimitExceeded");
}

#[test]
fn expressions_cannot_explode() {
    for name in ["((((a{99}){99}){99}){99}){99}", "(x+x+)+y", "(a|aa)+$"] {
        let started = Instant::now();
        let _ = built(&[
            (
                "kustomization.yaml",
                &format!(
                    "resources: [map.yaml]\npatches:\n- target: {{name: '{name}'}}\n  patch: '[{{op: remove, path: /data}}]'\n"
                ),
            ),
            ("map.yaml", &MAP.replace("settings", &"a".repeat(200))),
        ]);
        assert!(started.elapsed().as_secs() < 5, "{name}");
    }
}

#[test]
fn huge_files_are_refused() {
    let mut view = view(&[("kustomization.yaml", "resources: [huge.yaml]\n")]);
    view.insert("/app/huge.yaml", vec![b'a'; 100 << 20]);
    let error = build(
        &view,
        "/app",
        &Options::default(),
        Plugins::default(),
        &Budget::unlimited(),
    )
    .unwrap_err();
    assert_eq!(error.reason(), "LimitExceeded");
    assert!(error.to_string().contains("huge.yaml"));
}

#[test]
fn deep_and_widening_yaml_is_refused() {
    let deep = format!(
        "{MAP}data: {}{}\n",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(
        built(&[
            ("kustomization.yaml", "resources: [m.yaml]\n"),
            ("m.yaml", &deep)
        ])
        .is_err()
    );
    let mut bomb = format!("{MAP}data:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let item = format!("*a{}", level - 1);
        bomb.push_str(&format!(
            "  a{level}: &a{level} [{}]\n",
            vec![item; 10].join(", ")
        ));
    }
    fails(
        &[
            ("kustomization.yaml", "resources: [m.yaml]\n"),
            ("m.yaml", &bomb),
        ],
        "m.yaml",
    );
}

fn fragment() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "resources:",
        "- map.yaml",
        "- ../app",
        "patches:",
        "- patch: |-",
        "    metadata: {name: settings}",
        "namePrefix: a",
        "namespace: ''",
        "labels:",
        "- pairs: {a: b}",
        "  includeSelectors: true",
        "configMapGenerator:",
        "- name: x",
        "  literals: [a=b, c]",
        "replacements:",
        "- source: {kind: ConfigMap}",
        "  targets: [{select: {}, fieldPaths: [a.b.[c=d].0]}]",
        "vars:",
        "- name: V",
        "  objref: {kind: ConfigMap, name: settings}",
        "images:",
        "- name: '['",
        "  newTag: '1'",
        "transformers:",
        "- |",
        "  kind: PatchTransformer",
        "  apiVersion: builtin",
        "  metadata: {name: z}",
        "  patch: '[{op: add, path: /metadata, value: null}]'",
        "  target: {kind: .*}",
        "null",
        "{}",
        "[",
        "\"",
        "\u{0}",
        "&a",
        "*a",
        "<<: *a",
        "sortOptions: {order: legacy}",
        "buildMetadata: [originAnnotations, transformerAnnotations]",
        "components: [../app]",
    ]);
    prop::collection::vec(words, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn no_kustomization_makes_a_build_panic(text in fragment(), map in fragment()) {
        let map = format!("{MAP}{map}");
        let _ = built(&[("kustomization.yaml", &text), ("map.yaml", &map)]);
        let with_resource = format!("resources: [map.yaml]\n{text}");
        let _ = built(&[("kustomization.yaml", &with_resource), ("map.yaml", &map)]);
        let _ = built(&[("kustomization.yaml", &with_resource), ("map.yaml", MAP)]);
    }

    #[test]
    fn no_bytes_make_a_build_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut view = view(&[("kustomization.yaml", "resources: [map.yaml]\nnamePrefix: a-\n")]);
        view.insert("/app/map.yaml", [MAP.as_bytes(), &bytes].concat());
        let _ = build(&view, "/app", &Options::default(), Plugins::default(), &Budget::unlimited())
            .and_then(|output| output.to_yaml());
    }
}
