//! Field paths with more parts than anything can be deep.

use everflow_limits::{Budget, Exceeded};

use crate::{MAP, alone, built, view};

/// A kustomization with a path of `b`s somewhere, the file that the path is in, and the field as the
/// error names it.
struct Case {
    files: Vec<(&'static str, String)>,
    file: &'static str,
    field: &'static str,
}

fn case(kustomization: String, field: &'static str) -> Case {
    Case {
        files: vec![("kustomization.yaml", kustomization)],
        file: "/app/kustomization.yaml",
        field,
    }
}

fn with_file(
    kustomization: &str,
    name: &'static str,
    file: &'static str,
    text: String,
    field: &'static str,
) -> Case {
    Case {
        files: vec![
            ("kustomization.yaml", kustomization.to_owned()),
            (name, text),
        ],
        file,
        field,
    }
}

fn plugin(kind: &str, settings: &str, field: &'static str) -> Case {
    let plugin =
        format!("apiVersion: builtin\nkind: {kind}\nmetadata: {{name: plugin}}\n{settings}");
    let plugin = plugin.replace('\n', "\n  ");
    case(format!("transformers:\n- |\n  {plugin}"), field)
}

fn replacement(path: &str) -> String {
    format!(
        "{{source: {{kind: ConfigMap}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{path}], options: {{create: true}}}}]}}"
    )
}

/// All places where a path can stand.
fn cases(parts: usize) -> Vec<Case> {
    let dots = vec!["b"; parts].join(".");
    let slashes = vec!["b"; parts].join("/");
    let spec = format!("{{path: {slashes}, create: true}}");
    let target = "target: {kind: ConfigMap, name: settings}";
    let pointer = format!(r#"[{{"op": "add", "path": "/{slashes}", "value": 1}}]"#);
    let from = format!(r#"[{{"op": "copy", "from": "/{slashes}", "path": "/x"}}]"#);
    let mut cases = vec![
        case(
            format!("replacements: [{}]\n", replacement(&dots)),
            "Kustomization.replacements.targets.fieldPaths",
        ),
        case(
            format!(
                "replacements: [{{source: {{kind: ConfigMap, fieldPath: {dots}}}, targets: [{{select: {{name: none}}}}]}}]\n"
            ),
            "Kustomization.replacements.source.fieldPath",
        ),
        with_file(
            "replacements: [{path: r.yaml}]\n",
            "r.yaml",
            "/app/r.yaml",
            replacement(&dots),
            "Replacement.targets.fieldPaths",
        ),
        case(
            format!("labels: [{{pairs: {{a: b}}, fields: [{spec}]}}]\n"),
            "Kustomization.labels.fields.path",
        ),
        case(
            format!(
                "vars: [{{name: V, objref: {{apiVersion: v1, kind: ConfigMap, name: settings}}, fieldref: {{fieldPath: {dots}}}}}]\n"
            ),
            "Kustomization.vars.fieldref.fieldPath",
        ),
        case(
            format!("patches: [{{{target}, patch: '{pointer}'}}]\n"),
            "operation 0: path",
        ),
        case(
            format!("patches: [{{{target}, patch: '{from}'}}]\n"),
            "operation 0: from",
        ),
        with_file(
            &format!("patches: [{{{target}, path: p.yaml}}]\n"),
            "p.yaml",
            "/app/p.yaml",
            pointer.clone(),
            "operation 0: path",
        ),
        with_file(
            "patchesJson6902: [{target: {version: v1, kind: ConfigMap, name: settings}, path: p.yaml}]\n",
            "p.yaml",
            "/app/p.yaml",
            pointer.clone(),
            "operation 0: path",
        ),
        plugin(
            "PatchTransformer",
            &format!("patch: '{pointer}'\n{target}\n"),
            "operation 0: path",
        ),
        plugin(
            "ReplacementTransformer",
            &format!("replacements: [{}]\n", replacement(&dots)),
            "ReplacementTransformer.replacements.targets.fieldPaths",
        ),
        plugin(
            "ValueAddTransformer",
            &format!("value: x\ntargets: [{{fieldPath: {slashes}}}]\n"),
            "ValueAddTransformer.targets.fieldPath",
        ),
    ];
    for (kind, settings, field) in [
        ("PrefixTransformer", "prefix: x-", "PrefixTransformer"),
        ("SuffixTransformer", "suffix: -x", "SuffixTransformer"),
        ("LabelTransformer", "labels: {a: b}", "LabelTransformer"),
        (
            "AnnotationsTransformer",
            "annotations: {a: b}",
            "AnnotationsTransformer",
        ),
        (
            "ImageTagTransformer",
            "imageTag: {name: a, newTag: b}",
            "ImageTagTransformer",
        ),
        (
            "ReplicaCountTransformer",
            "replica: {name: settings, count: 1}",
            "ReplicaCountTransformer",
        ),
        (
            "NamespaceTransformer",
            "unsetOnly: false",
            "NamespaceTransformer",
        ),
    ] {
        cases.push(plugin(
            kind,
            &format!("{settings}\nfieldSpecs: [{spec}]\n"),
            field,
        ));
    }
    let using = "namePrefix: x-\nnameSuffix: -x\nnamespace: ns\ncommonLabels: {a: b}\n\
                 commonAnnotations: {a: b}\nimages: [{name: a, newTag: b}]\n\
                 labels: [{pairs: {a: b}}]\nreplicas: [{name: settings, count: 1}]\n\
                 configurations: [c.yaml]\n";
    for list in [
        "namePrefix",
        "nameSuffix",
        "namespace",
        "commonLabels",
        "labels",
        "templateLabels",
        "commonAnnotations",
        "images",
        "replicas",
        "varReference",
    ] {
        cases.push(with_file(
            using,
            "c.yaml",
            "/app/c.yaml",
            // Some of these specs set text, some maps.
            format!(
                "replicas: [{{path: spec/r, create: true, kind: ConfigMap}}]\n{list}: [{{path: z/{list}/{slashes}, create: true, kind: ConfigMap}}]\n"
            )
            .replace(
                if list == "replicas" { "replicas: [{path: spec/r, create: true, kind: ConfigMap}]\n" } else { "\0" },
                "",
            ),
            "TransformerConfig.",
        ));
    }
    cases.push(with_file(
        using,
        "c.yaml",
        "/app/c.yaml",
        format!(
            "replicas: [{{path: spec/r, create: true, kind: ConfigMap}}]\nnameReference: [{{kind: Secret, fieldSpecs: [{spec}]}}]\n"
        ),
        "TransformerConfig.nameReference.fieldSpecs.path",
    ));
    for property in [
        format!("? {slashes}\n      : {{x-kubernetes-identity: ''}}"),
        format!(
            "x: {{x-kubernetes-object-ref-api-version: v1, x-kubernetes-object-ref-kind: Secret, x-kubernetes-object-ref-name-key: {slashes}}}"
        ),
    ] {
        cases.push(with_file(
            "crds: [crd.yaml]\n",
            "crd.yaml",
            "/app/crd.yaml",
            format!(
                "com.example.v1.ConfigMap:\n  Schema:\n    properties:\n      kind: {{}}\n      apiVersion: {{}}\n      metadata: {{}}\n      {property}\n"
            ),
            "",
        ));
    }
    cases
}

fn build_case(case: &Case) -> Result<String, everflow_kustomize::Error> {
    let mut files = case.files.clone();
    files[0].1.insert_str(0, "resources: [map.yaml]\n");
    files.push(("map.yaml", MAP.to_owned()));
    built(&view(&files), &Budget::unlimited())
}

#[test]
fn long_field_paths_are_refused_with_file_and_field() {
    let _alone = alone();
    for parts in [20_000, 50_000] {
        for case in cases(parts) {
            let error = build_case(&case).unwrap_err();
            let text = error.to_string();
            let limit = 1_000;
            assert!(
                matches!(error.exceeded(), Some(Exceeded::Depth { limit: l, .. }) if *l == limit),
                "{text}"
            );
            assert!(text.starts_with(&format!("{}: ", case.file)), "{text}");
            assert!(text.contains(case.field), "{} in {text}", case.field);
            assert!(text.contains("1000 levels"), "{text}");
            assert!(text.len() < 500, "{}", text.len());
        }
    }
}

#[test]
fn paths_of_900_parts_work() {
    let _alone = alone();
    for case in cases(900) {
        match build_case(&case) {
            Ok(_) => {}
            // There is no such field to copy from, no parent to add to, and no such value.
            Err(error) => assert!(error.exceeded().is_none(), "{}: {error}", case.field),
        }
    }
    let deep = format!(
        "replacements: [{}]\n",
        replacement(&vec!["b"; 900].join("."))
    );
    let text = build_case(&case(deep, "")).unwrap();
    assert!(text.contains("settings") && text.lines().count() > 900);
}

#[test]
fn maps_that_are_copied_into_themselves_do_not_get_too_deep() {
    let _alone = alone();
    let one = "{source: {kind: ConfigMap, fieldPath: data}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.x]}]}";
    for times in [10, 900, 20_000] {
        let files = [
            (
                "kustomization.yaml",
                format!(
                    "resources: [map.yaml]\nreplacements: [{}]\n",
                    vec![one; times].join(", ")
                ),
            ),
            ("map.yaml", format!("{MAP}data: {{x: {{y: z}}}}\n")),
        ];
        let result = built(&view(&files), &Budget::unlimited());
        match times {
            20_000 => {
                let error = result.unwrap_err();
                assert!(error.to_string().contains("1000 levels"), "{error}");
            }
            _ => assert!(result.unwrap().lines().count() > times),
        }
    }
}

#[test]
fn deep_objects_and_deep_patches_fit_on_the_stack_of_a_thread() {
    let _alone = alone();
    const DEEP: usize = 995;
    let nested = |leaf: &str| format!("{}{leaf}{}", "{a: ".repeat(DEEP), "}".repeat(DEEP));
    let lists = format!("{}1{}", "[".repeat(DEEP), "]".repeat(DEEP));
    let schema = r##"{"definitions": {"T": {"x-kubernetes-group-version-kind": [{"group": "a", "version": "v1", "kind": "T"}], "properties": {"l": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name", "items": {"$ref": "#/definitions/T"}}}}}}"##;
    let keyed = |leaf: &str| {
        let levels = DEEP / 2;
        format!(
            "apiVersion: a/v1\nkind: T\nmetadata: {{name: t}}\n{}{leaf}{}\n",
            "l: [{name: x, ".repeat(levels),
            "}]".repeat(levels)
        )
    };
    let files = [
        (
            "kustomization.yaml",
            "resources: [map.yaml, t.yaml]\nopenapi: {path: schema.json}\n\
             patches: [{path: p.yaml}, {path: t-p.yaml}, {target: {kind: ConfigMap}, patch: '[{\"op\": \"add\", \"path\": \"/x\", \"value\": 1}]'}]\n\
             commonLabels: {a: b}\nnamePrefix: x-\nimages: [{name: a, newTag: b}]\nbuildMetadata: [originAnnotations, transformerAnnotations]\n"
                .to_owned(),
        ),
        ("map.yaml", format!("{MAP}data: {}\nlists: {lists}\n", nested("{b: c}"))),
        ("p.yaml", format!("{MAP}data: {}\nlists: {lists}\n", nested("{b: d}"))),
        ("t.yaml", keyed("v: 1")),
        ("t-p.yaml", keyed("v: 2")),
        ("schema.json", schema.to_owned()),
    ];
    let error = built(&view(&files), &Budget::unlimited()).unwrap_err();
    // JSON patches are for objects of 512 levels.
    assert!(error.to_string().contains("patching ConfigMap"), "{error}");
    let mut files = files;
    files[0].1 = files[0]
        .1
        .replace(", {target: {kind: ConfigMap}, patch:", "] #");
    let text = built(&view(&files), &Budget::unlimited()).unwrap();
    assert!(text.contains("b: d") && text.contains("v: 2"));
}
