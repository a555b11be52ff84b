//! Small trees that grow.

use everflow_kustomize::{Cache, Error, MemoryView, Options, Plugins, build_cached};
use everflow_limits::{Budget, Exceeded, Stop};

use crate::{MAP, MEMORY, SHARE, alone, built_within_share, view};

/// A text of so many letters.
fn text(letters: usize) -> String {
    "x".repeat(letters)
}

/// So many objects, each in a namespace of its own.
fn maps(count: usize) -> String {
    let map = |number| format!("---\n{MAP}  namespace: n{number}\n");
    (0..count).map(map).collect()
}

fn list(count: usize, item: &str) -> String {
    format!("[{}]", vec![item; count].join(", "))
}

#[track_caller]
fn outgrows(name: &str, view: &MemoryView) -> Error {
    let error = match built_within_share(view) {
        Err(error) => error,
        Ok(text) => panic!("{name}: {} bytes", text.len()),
    };
    let limit = SHARE as u64;
    assert_eq!(
        error.exceeded(),
        Some(&Exceeded::Memory { limit }),
        "{name}: {error}"
    );
    let message = error.to_string();
    assert!(message.contains("--max-work-memory"), "{name}: {message}");
    assert!(message.len() < 2_000, "{name}");
    error
}

/// `/app` with a kustomization of these lines and a file of objects.
fn bomb(name: &str, lines: &str, objects: &str) {
    let files = [
        (
            "kustomization.yaml",
            format!("resources: [objects.yaml]\n{lines}"),
        ),
        ("objects.yaml", objects.to_owned()),
    ];
    let error = outgrows(name, &view(&files));
    assert!(error.to_string().starts_with("/app/"), "{name}: {error}");
}

#[test]
fn replacements_that_double_a_text() {
    let _alone = alone();
    let double = "{source: {kind: ConfigMap, fieldPath: data.k}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.k], options: {delimiter: '-', index: 99}}]}";
    let data = format!("{MAP}data: {{k: abc}}\n");
    bomb(
        "text",
        &format!("replacements: {}\n", list(40, double)),
        &data,
    );
    let inside = "{source: {kind: ConfigMap, fieldPath: data}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.NAME], options: {create: true}}]}";
    let all: Vec<String> = (0..60)
        .map(|number| inside.replace("NAME", &format!("n{number}")))
        .collect();
    bomb(
        "map",
        &format!("replacements: [{}]\n", all.join(", ")),
        &data,
    );
    let wide = format!(
        "{{source: {{kind: ConfigMap, fieldPath: data.k}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{}], options: {{create: true}}}}]}}",
        (0..2_000)
            .map(|number| format!("w.n{number}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let long = format!("{MAP}data: {{k: {}}}\n", text(100_000));
    bomb("many places", &format!("replacements: [{wide}]\n"), &long);
}

#[test]
fn values_inside_texts_that_are_mostly_indentation() {
    let _alone = alone();
    let deep = format!("{}{}{}", "{\"a\": ".repeat(900), "{}", "}".repeat(900));
    let inner = deep.replace('"', "\\\"");
    let objects = format!(
        "{MAP}data: {{k: \"{inner}\\n  \"}}\nlist: {}\n",
        list(20_000, "1")
    );
    let path = format!("data.k.{}", vec!["a"; 90].join("."));
    let lines = format!(
        "replacements: [{{source: {{kind: ConfigMap, fieldPath: list}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{path}.b], options: {{create: true}}}}]}}]\n"
    );
    // 90 levels fit, 900 do not.
    let files = |lines: &str| {
        view(&[
            (
                "kustomization.yaml",
                format!("resources: [o.yaml]\n{lines}"),
            ),
            ("o.yaml", objects.clone()),
        ])
    };
    let small = built_within_share(&files(&lines));
    assert!(small.is_ok(), "{:?}", small.map(|text| text.len()));
    let path = format!("data.k.{}", vec!["a"; 899].join("."));
    let error = built_within_share(&files(&format!(
        "replacements: [{{source: {{kind: ConfigMap, fieldPath: list}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{path}.b], options: {{create: true}}}}]}}]\n"
    )));
    assert!(error.unwrap_err().exceeded().is_some());
}

#[test]
fn objects_that_are_mostly_indentation_when_they_are_printed() {
    let _alone = alone();
    let deep = |inner: &str| format!("{}{inner}{}", "{a: ".repeat(900), "}".repeat(900));
    let objects = format!("{MAP}data: {}\n", deep(&list(20_000, "1")));
    let files = [
        ("kustomization.yaml", "resources: [o.yaml]\n".to_owned()),
        ("o.yaml", objects),
    ];
    let error = outgrows("print", &view(&files));
    assert!(error.to_string().contains("settings"), "{error}");
}

#[test]
fn patches_that_add_to_many_objects() {
    let _alone = alone();
    let objects = maps(1_000);
    let patch = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{k: {}}}}}",
        list(1_000, "1")
    );
    let lines = format!("patches: [{{target: {{kind: ConfigMap}}, patch: '{patch}'}}]\n");
    bomb("strategic", &lines, &objects);
    let patch = format!(
        r#"[{{"op": "add", "path": "/data", "value": {}}}]"#,
        list(1_000, "1")
    );
    let lines = format!("patches: [{{target: {{kind: ConfigMap}}, patch: '{patch}'}}]\n");
    bomb("JSON", &lines, &objects);
}

#[test]
fn json_patches_that_copy() {
    let _alone = alone();
    let copies: Vec<String> = (0..20)
        .map(|number| format!(r#"{{"op": "copy", "from": "/data", "path": "/data/c{number}"}}"#))
        .collect();
    let one = format!(
        "{{target: {{kind: ConfigMap}}, patch: '[{}]'}}",
        copies[..9].join(", ")
    );
    let objects = format!("{MAP}data: {{k: {}}}\n", list(100, "1"));
    bomb(
        "doubling",
        &format!("patches: [{one}]\n"),
        &format!("{MAP}data: {{k: {}}}\n", list(3_000, "1")),
    );
    bomb(
        "again and again",
        &format!("patches: {}\n", list(50, &one)),
        &objects,
    );
}

#[test]
fn labels_names_and_images_that_are_long() {
    let _alone = alone();
    let long = text(100_000);
    let objects = maps(1_000);
    for (name, lines) in [
        ("annotation", format!("commonAnnotations: {{a: {long}}}\n")),
        ("prefix", format!("namePrefix: {long}\n")),
        (
            "fields",
            format!(
                "labels:\n- pairs: {{a: b}}\n  fields: [{}]\n",
                (0..300)
                    .map(|number| format!("{{path: f{number}/a/b/c/d, create: true}}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        ),
        (
            "value",
            format!(
                "transformers:\n- |\n  apiVersion: builtin\n  kind: ValueAddTransformer\n  metadata: {{name: v}}\n  value: {long}\n  targets: [{{fieldPath: data/x}}]\n"
            ),
        ),
        (
            "origins",
            format!(
                "buildMetadata: [originAnnotations, transformerAnnotations]\nimages: {}\n",
                list(500, "{name: a, newTag: b}")
            ),
        ),
    ] {
        bomb(name, &lines, &objects);
    }
    let containers = list(1_000, "{image: 'a:1'}");
    bomb(
        "images",
        &format!("images: [{{name: a, newName: {long}}}]\n"),
        &format!("{MAP}spec: {{containers: {containers}}}\n"),
    );
}

#[test]
fn prefixes_of_bases_in_a_row() {
    let _alone = alone();
    let mut files = vec![("/d0/objects.yaml".to_owned(), maps(50))];
    for level in 0..150 {
        let resource = match level {
            0 => "objects.yaml".to_owned(),
            level => format!("../d{}", level - 1),
        };
        let directory = match level {
            149 => "app".to_owned(),
            level => format!("d{level}"),
        };
        files.push((
            format!("/{directory}/kustomization.yaml"),
            format!("resources: [{resource}]\nnamePrefix: {}\n", text(300)),
        ));
    }
    let files: MemoryView = files
        .into_iter()
        .map(|(path, text)| (path, text.into_bytes()))
        .collect();
    outgrows("prefixes", &files);
}

#[test]
fn vars_that_are_put_in_very_often() {
    let _alone = alone();
    let objects = format!(
        "{MAP}data: {{k: {}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{env: [{{value: '{}'}}]}}]}}\n",
        text(100_000),
        "$(V)".repeat(1_000)
    );
    let lines = "vars: [{name: V, objref: {apiVersion: v1, kind: ConfigMap, name: settings}, fieldref: {fieldPath: data.k}}]\n";
    bomb("vars", lines, &objects);
}

#[test]
fn files_that_are_named_very_often() {
    let _alone = alone();
    let large = text(1 << 20);
    for (name, lines) in [
        (
            "files",
            (0..200)
                .map(|number| format!("- {{name: g{number}, files: [large]}}\n"))
                .collect::<String>(),
        ),
        (
            "keys",
            format!(
                "- {{name: g, files: [{}]}}\n",
                (0..200)
                    .map(|number| format!("k{number}=large"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        ),
    ] {
        for kind in ["configMapGenerator", "secretGenerator"] {
            let files = [
                ("kustomization.yaml", format!("{kind}:\n{lines}")),
                ("large", large.clone()),
            ];
            outgrows(name, &view(&files));
        }
    }
    let options: Vec<String> = (0..500).map(|number| format!("l{number}: x")).collect();
    let generators: String = (0..1_000)
        .map(|number| format!("- {{name: g{number}}}\n"))
        .collect();
    let files = [(
        "kustomization.yaml",
        format!(
            "generatorOptions: {{labels: {{{}}}}}\nconfigMapGenerator:\n{generators}",
            options.join(", ")
        ),
    )];
    outgrows("labels of generators", &view(&files));
}

#[test]
fn texts_whose_trees_are_large() {
    let _alone = alone();
    let aliases = {
        let mut text = format!("{MAP}data:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let item = format!("*a{}", level - 1);
            text.push_str(&format!("  a{level}: &a{level} {}\n", list(9, &item)));
        }
        text
    };
    for (name, kustomization, objects) in [
        (
            "list",
            String::new(),
            format!("{MAP}data: {}\n", list(300_000, "1")),
        ),
        (
            "map",
            String::new(),
            format!(
                "{MAP}data: {{{}}}\n",
                (0..200_000)
                    .map(|n| format!("{n}: "))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
        (
            "block",
            String::new(),
            format!("{MAP}data:\n{}", "- - - - 1\n".repeat(100_000)),
        ),
        (
            "images",
            format!("images: {}\n", list(100_000, "{}")),
            MAP.to_owned(),
        ),
        (
            "patches",
            format!("patches: {}\n", list(100_000, "{}")),
            MAP.to_owned(),
        ),
        (
            "labels",
            format!("labels: {}\n", list(20_000, "{pairs: {a: b}}")),
            MAP.to_owned(),
        ),
        (
            "generators",
            format!("configMapGenerator: {}\n", list(100_000, "{}")),
            MAP.to_owned(),
        ),
        (
            "charts",
            format!("helmCharts: {}\n", list(100_000, "{}")),
            MAP.to_owned(),
        ),
        (
            "replacements",
            format!("replacements: {}\n", list(100_000, "{}")),
            MAP.to_owned(),
        ),
    ] {
        bomb(name, &kustomization, &objects);
    }
    // Aliases may fill what is left; then the reader says how many there are.
    let files = [
        ("kustomization.yaml", "resources: [o.yaml]\n".to_owned()),
        ("o.yaml", aliases),
    ];
    let error = built_within_share(&view(&files)).unwrap_err();
    assert_eq!(error.reason(), "LimitExceeded");
}

#[test]
fn field_specs_for_many_kinds_and_lists_of_names() {
    let _alone = alone();
    let kinds: String = (0..300)
        .map(|number| {
            format!(
                "---\napiVersion: a/v1\nkind: K{number}\nmetadata: {{name: a}}\nspec: {{a: 1}}\n"
            )
        })
        .collect();
    let specs: Vec<String> = (0..2_000)
        .map(|number| format!("{{path: spec/f{number}/x}}"))
        .collect();
    let specs = specs.join(", ");
    let files = [
        (
            "kustomization.yaml",
            "resources: [o.yaml]\nnamePrefix: x-\nconfigurations: [c.yaml]\n".to_owned(),
        ),
        (
            "c.yaml",
            format!("nameReference: [{{kind: K1, fieldSpecs: [{specs}]}}]\n"),
        ),
        ("o.yaml", kinds),
    ];
    outgrows("kinds", &view(&files));
    let files = [
        (
            "kustomization.yaml",
            "resources: [o.yaml]\nnamePrefix: x-\nconfigurations: [c.yaml]\n".to_owned(),
        ),
        (
            "c.yaml",
            format!("nameReference: [{{kind: K1, fieldSpecs: [{specs}]}}]\n"),
        ),
        (
            "o.yaml",
            format!(
                "apiVersion: a/v1\nkind: K1\nmetadata: {{name: a}}\nspec: {}\n",
                list(20_000, "x")
            ),
        ),
    ];
    // Each of the names is looked at for each of the fields, and each field is remembered once.
    let _ = built_within_share(&view(&files));
}

#[test]
fn a_cache_has_room_for_what_it_keeps_and_is_charged_once() {
    let _alone = alone();
    let cache = Cache::new(4 << 20);
    let double = "{source: {kind: ConfigMap, fieldPath: data.k}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.k], options: {delimiter: '-', index: 99}}]}";
    let before = MEMORY.current_usage();
    for number in 0..40 {
        let files = [
            (
                "kustomization.yaml",
                format!("resources: [o.yaml]\nreplacements: {}\n", list(16, double)),
            ),
            (
                "o.yaml",
                format!(
                    "{MAP}data: {{k: abc, n: {number}}}\nlist: {}\n",
                    list(1_000, "1")
                ),
            ),
        ];
        let budget = Budget::new(Stop::new(), SHARE as u64);
        let view = view(&files);
        let build = || {
            build_cached(
                &view,
                "/app",
                &Options::default(),
                Plugins::default(),
                &cache,
                &budget,
            )
        };
        build().unwrap();
        let used = budget.used();
        assert!(used > 0);
        build().unwrap();
        assert_eq!(budget.used(), used);
    }
    let kept = MEMORY.current_usage() - before;
    assert!(kept < 6 << 20, "{kept}");
}

#[test]
fn aliases_of_all_documents_of_a_file_count_together() {
    let _alone = alone();
    let texts = list(10, "t");
    let object = |number: usize| {
        let mut object = format!("---\n{MAP}  namespace: n{number}\na0: &a0 {texts}\n");
        for level in 1..4 {
            let below = list(10, &format!("*a{}", level - 1));
            object.push_str(&format!("a{level}: &a{level} {below}\n"));
        }
        object
    };
    let objects: String = (0..200).map(object).collect();
    let patch = "resources: [m.yaml]\npatches: [{path: objects.yaml}]\n";
    // What is no patch is told in kustomize's words.
    for (kustomization, why) in [
        ("resources: [objects.yaml]\n", "aliases expand to more than"),
        (patch, "unable to parse SM or JSON patch"),
    ] {
        let view = view(&[
            ("kustomization.yaml", kustomization),
            ("m.yaml", MAP),
            ("objects.yaml", objects.as_str()),
        ]);
        let message = built_within_share(&view).unwrap_err().to_string();
        assert!(message.contains("objects.yaml"), "{message}");
        assert!(message.contains(why), "{message}");
    }
}
