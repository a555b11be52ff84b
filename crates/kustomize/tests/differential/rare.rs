//! The fields of a kustomization that few use.

use crate::objects::{NAMES, api_version, indent};
use crate::overlays::{Files, Known, pick_known};
use crate::random::Random;

/// Some rare fields; each comes at most once.
pub fn fields(r: &mut Random, files: &mut Files, directory: &str, known: &[Known]) -> String {
    let mut out = String::new();
    if r.one_in(12) {
        out.push_str(&sort_options(r));
    }
    if r.one_in(10) {
        out.push_str(&format!(
            "buildMetadata: [{}]\n",
            r.pick(&[
                "originAnnotations",
                "transformerAnnotations",
                "managedByLabel",
                "originAnnotations, transformerAnnotations",
                "managedByLabel, originAnnotations",
                "managedByLabel, transformerAnnotations",
            ])
        ));
    }
    if r.one_in(8) {
        out.push_str(&configuration(r, files, directory));
    }
    if r.one_in(10) {
        out.push_str(&crds(r, files, directory));
    }
    if r.one_in(14) {
        out.push_str(&openapi(files, directory));
    }
    if r.one_in(8) && !known.is_empty() {
        out.push_str(&json6902(r, files, directory, known));
    }
    if r.one_in(6) && !known.is_empty() {
        out.push_str(&replacements(r, files, directory, known));
    }
    if r.one_in(6) {
        out.push_str(&plugins(r, known));
    }
    if r.one_in(12) {
        out.push_str(&generator_plugins(r, known));
    }
    if r.one_in(10) {
        out.push_str(&legacy(r, files, directory));
    }
    if r.one_in(8) && !known.is_empty() {
        out.push_str(&vars(r, directory, known));
    }
    out
}

fn sort_options(r: &mut Random) -> String {
    let choices = if r.one_in(5) { 5 } else { 3 };
    match r.below(choices) {
        0 => "sortOptions: {order: fifo}\n",
        1 => "sortOptions: {order: legacy}\n",
        2 => "sortOptions:\n  order: legacy\n  legacySortOptions:\n    orderFirst: [Deployment, Namespace]\n    orderLast: [ConfigMap]\n",
        3 => "sortOptions:\n  order: fifo\n  legacySortOptions: {orderFirst: [A]}\n",
        _ => "sortOptions:\n  order: legacy\n  legacySortOptions: {orderFirst: [], orderLast: [Service, Widget]}\n",
    }
    .to_owned()
}

fn configuration(r: &mut Random, files: &mut Files, directory: &str) -> String {
    let choices = if r.one_in(6) { 8 } else { 7 };
    let text = match r.below(choices) {
        0 => {
            "namePrefix:\n- path: metadata/name\n  kind: Widget\n- path: spec/ref/name\n  kind: Widget\n"
        }
        1 => {
            "nameReference:\n- kind: Secret\n  version: v1\n  fieldSpecs:\n  - {path: spec/ref, kind: Widget}\n- kind: Widget\n  group: example.com\n  fieldSpecs:\n  - {path: data/host, kind: ConfigMap}\n"
        }
        2 => {
            "images:\n- path: spec/base/x\n  kind: Widget\n- path: spec/items/value\n  kind: Widget\n"
        }
        3 => "replicas:\n- path: spec/size\n  kind: Widget\n  create: true\n",
        4 => {
            "commonAnnotations:\n- path: spec/notes\n  kind: Widget\n  create: true\nlabels:\n- path: spec/marks\n  kind: Widget\n  create: true\ntemplateLabels:\n- path: spec/template/metadata/labels\n  kind: Widget\n  create: true\n"
        }
        5 => {
            "varReference:\n- {path: spec, kind: Widget}\n- {path: spec/items/name, kind: Widget}\n- {path: metadata/annotations}\n"
        }
        6 => {
            "namespace:\n- {path: spec/ref/namespace, kind: Widget, create: true}\n- {path: metadata/name, kind: Namespace, create: true}\n"
        }
        _ => "commonLabels:\n- {path: metadata/labels, create: false, kind: Widget}\n",
    };
    files.insert(format!("{directory}/rare-config.yaml"), text.to_owned());
    "configurations: [rare-config.yaml]\n".to_owned()
}

fn crds(r: &mut Random, files: &mut Files, directory: &str) -> String {
    let mut definitions = String::new();
    // Now and then as large as those of real operators.
    let extra = if r.one_in(6) { 3000 } else { r.below(5) };
    for number in 0..extra {
        definitions.push_str(&format!(
            "  \"com.example.v1.Extra{number}\": {{\"Schema\": {{\"description\": \"number {number} with a rather long description\", \"properties\": {{\"a\": {{\"type\": \"string\"}}}}}}}},\n"
        ));
    }
    let text = format!(
        "{{\n{definitions}  \"com.example.v1.Widget\": {{\"Schema\": {{\"properties\": {{\n    \"apiVersion\": {{\"type\": \"string\"}}, \"kind\": {{\"type\": \"string\"}}, \"metadata\": {{\"$ref\": \"x\"}},\n    \"spec\": {{\"$ref\": \"com.example.v1.WidgetSpec\"}}}}}}}},\n  \"com.example.v1.WidgetSpec\": {{\"Schema\": {{\"properties\": {{\n    \"ref\": {{\"x-kubernetes-object-ref-api-version\": \"v1\", \"x-kubernetes-object-ref-kind\": \"{}\", \"x-kubernetes-object-ref-name-key\": \"name\", \"properties\": {{\"name\": {{\"type\": \"string\"}}}}}},\n    \"marks\": {{\"x-kubernetes-label-selector\": \"\"}}, \"notes\": {{\"x-kubernetes-annotation\": \"\"}}}}}}}}\n}}\n",
        r.pick(&["ConfigMap", "Secret", "Service"])
    );
    files.insert(format!("{directory}/crd.json"), text);
    "crds: [crd.json]\n".to_owned()
}

fn openapi(files: &mut Files, directory: &str) -> String {
    files.insert(
        format!("{directory}/schema.json"),
        "{\"definitions\": {\"v1.Widget\": {\"type\": \"object\", \"x-kubernetes-group-version-kind\": [{\"group\": \"example.com\", \"kind\": \"Widget\", \"version\": \"v1\"}], \"properties\": {\"spec\": {\"type\": \"object\", \"properties\": {\"items\": {\"type\": \"array\", \"x-kubernetes-patch-merge-key\": \"name\", \"x-kubernetes-patch-strategy\": \"merge\", \"items\": {\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}}}}}}}}}}\n".to_owned(),
    );
    "openapi: {path: schema.json}\n".to_owned()
}

/// What a patch may be for.
pub fn selector(r: &mut Random, target: &Known) -> String {
    let group = api_version(&target.kind)
        .split_once('/')
        .map_or("", |p| p.0);
    match r.below(9) {
        0 => format!("kind: ^{}$\nname: ^{}$", target.kind, target.name),
        1 => format!("name: {}|{}", target.name, r.pick(&NAMES)),
        2 => format!("kind: {}\nversion: v1", target.kind),
        3 => format!("group: {group}\nversion: v.*\nkind: .*t"),
        4 => "labelSelector: app in (web, labelled),tier!=2".to_owned(),
        5 => "annotationSelector: note notin (hello)".to_owned(),
        6 => "labelSelector: '!app'".to_owned(),
        7 => "kind: .*\nname: '[a-d].*'\nnamespace: ''".to_owned(),
        _ => format!("kind: {}\nname: {}", target.kind, target.name),
    }
}

fn operations(r: &mut Random) -> String {
    let operation =
        |op: &str, path: &str, rest: &str| format!("- op: {op}\n  path: {path}\n{rest}");
    let mut out = String::new();
    for _ in 0..1 + r.below(2) {
        // Most objects have what these need.
        let choices = if r.one_in(6) { 16 } else { 4 };
        out.push_str(&match r.below(choices) {
            0 => operation("add", "/a.b~1c~0d", "  value: escaped\n"),
            1 => operation(
                "add",
                "/metadata/labels",
                "  value: {n: 1.0, t: \"1\", b: true}\n",
            ),
            2 => operation("copy", "/spare", "  from: /metadata\n"),
            3 => operation(
                "add",
                "/extra",
                "  value: {list: [1, 2.5, null, {a: b}], text: \"x\\ny\"}\n",
            ),
            4 => operation("test", "/kind", "  value: Deployment\n"),
            5 => operation("add", "/spec/ports/-", "  value: {port: 2, name: \"2\"}\n"),
            6 => operation("remove", "/spec/ports/5", ""),
            7 => operation("replace", "/spec/replicas", "  value: 3\n"),
            8 => operation("add", "/metadata/labels", "  value: {}\n"),
            9 => operation("add", "/metadata/labels/x", "  value: 1.0\n"),
            10 => operation(
                "replace",
                "/spec/template/spec/containers/0",
                "  value: {name: c0, image: \"a:1\"}\n",
            ),
            11 => operation("add", "/data/new", "  value: |\n    two\n    lines\n"),
            12 => operation("add", "/metadata/namespace", "  value: moved\n"),
            13 => operation("replace", "/kind", "  value: Widget\n"),
            14 => operation("add", "\"\"", "  value: {kind: X}\n"),
            _ => operation("add", "/spec/deep/er", "  value: [1, null, {a: b}]\n"),
        });
    }
    out
}

fn json6902(r: &mut Random, files: &mut Files, directory: &str, known: &[Known]) -> String {
    let Some(target) = pick_known(r, known, &[]) else {
        return String::new();
    };
    let text = operations(r);
    let target = if r.one_in(10) {
        selector(r, &target)
    } else {
        format!("version: v1\nkind: {}\nname: {}", target.kind, target.name)
    };
    let target = indent(&target, 4);
    if r.one_in(2) {
        files.insert(format!("{directory}/operations.yaml"), text);
        return format!("patchesJson6902:\n- target:\n{target}  path: operations.yaml\n");
    }
    format!(
        "patchesJson6902:\n- target:\n{target}  patch: |-\n{}",
        indent(&text, 4)
    )
}

fn replacements(r: &mut Random, files: &mut Files, directory: &str, known: &[Known]) -> String {
    let (Some(source), Some(target)) = (pick_known(r, known, &[]), pick_known(r, known, &[]))
    else {
        return String::new();
    };
    let mut out = format!(
        "- source:\n    kind: {}\n    name: {}\n{}",
        source.kind,
        source.name,
        r.pick(&[
            "",
            "",
            "",
            "",
            "",
            "    fieldPath: kind\n",
            "    fieldPath: metadata\n",
            "    fieldPath: metadata.name\n",
            "    fieldPath: spec.template.spec.containers.[name=c0].image\n    options: {delimiter: ':', index: 0}\n",
            "    fieldPath: spec.template.spec.containers.0.image\n    options: {delimiter: ':', index: -1}\n",
            "    fieldPath: data.key\n",
            "    fieldPath: metadata.name\n    options: {delimiter: '-', index: 9}\n",
            "    fieldPath: spec.ports.0.port\n",
            "    fieldPath: spec.selector\n",
            "    group: apps\n",
        ])
    );
    out.push_str("  targets:\n");
    for _ in 0..1 + r.below(2) {
        out.push_str(&format!(
            "  - select: {{{}}}\n",
            r.pick(&[
                "kind: Deployment",
                "kind: Deployment|StatefulSet",
                "name: web",
                "kind: Service, namespace: shop",
                "kind: .*, name: a.*",
                "version: v1",
                "group: apps",
            ])
        ));
        if r.one_in(3) {
            out.push_str(&format!(
                "    reject:\n    - {{kind: {}, name: {}}}\n    - {{name: cache}}\n",
                target.kind, target.name
            ));
        }
        out.push_str("    fieldPaths:\n");
        for _ in 0..1 + r.below(2) {
            out.push_str(&format!(
                "    - {}\n",
                r.pick(&[
                    "metadata.annotations.[a.b/c]",
                    "metadata.annotations.a\\.b/c",
                    "spec.template.spec.containers.[name=c0].env.[name=E0].value",
                    "spec.template.spec.containers.[image=.*].image",
                    "spec.template.spec.containers.*.image",
                    "spec.ports.*.name",
                    "spec.ports.[port=80].targetPort",
                    "spec.template.spec.containers.0.args.0",
                    "spec.template.spec.containers.5.image",
                    "metadata.name",
                    "metadata.namespace",
                    "data.new",
                    "spec.replicas",
                    "spec.list.-",
                    "spec.a.b.0.c",
                ])
            ));
        }
        out.push_str(r.pick(&[
            "    options: {create: true}\n",
            "    options: {create: true}\n",
            "    options: {create: true}\n",
            "    options: {create: true}\n",
            "    options: {create: true}\n",
            "    options: {create: true}\n",
            "    options: {create: true}\n",
            "",
            "    options: {delimiter: '-', index: 0}\n",
            "    options: {delimiter: '-', index: -1, create: true}\n",
            "    options: {delimiter: ':', index: 1}\n",
            "    options: {delimiter: '-', index: 7}\n",
            "    options: {encoding: base64}\n",
        ]));
    }
    if r.one_in(3) {
        files.insert(format!("{directory}/replace.yaml"), out);
        return "replacements:\n- path: replace.yaml\n".to_owned();
    }
    format!("replacements:\n{out}")
}

fn plugins(r: &mut Random, known: &[Known]) -> String {
    let name = pick_known(r, known, &[]).map_or("web".to_owned(), |known| known.name);
    let plugin = match r.below(11) {
        0 => "kind: PatchTransformer\nmetadata: {name: p}\npatch: '[{\"op\": \"add\", \"path\": \"/metadata/annotations/plug\", \"value\": \"in\"}]'\ntarget: {kind: ConfigMap}\n".to_owned(),
        1 => format!("kind: ReplicaCountTransformer\nmetadata: {{name: p}}\nreplica: {{name: {name}, count: 4}}\nfieldSpecs:\n- {{path: spec/replicas, kind: Deployment, create: true}}\n"),
        2 => "kind: ImageTagTransformer\nmetadata: {name: p}\nimageTag: {name: nginx, newTag: plugged}\nfieldSpecs:\n- path: spec/base/x\n".to_owned(),
        3 => "kind: SuffixTransformer\nmetadata: {name: p}\nsuffix: -plug\nfieldSpecs:\n- {path: metadata/name, kind: ConfigMap}\n".to_owned(),
        4 => "kind: PatchStrategicMergeTransformer\nmetadata: {name: p}\npatches: '{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"web\"}, \"data\": {\"p\": \"q\"}}'\n".to_owned(),
        5 => "kind: PatchJson6902Transformer\nmetadata: {name: p}\ntarget: {version: v1, kind: ConfigMap, name: web}\njsonOp: '[{\"op\": \"add\", \"path\": \"/data\", \"value\": {\"k\": \"v\"}}]'\n".to_owned(),
        6 => "kind: ReplacementTransformer\nmetadata: {name: p}\nreplacements:\n- source: {kind: ConfigMap, name: web}\n  targets:\n  - select: {kind: Deployment}\n    fieldPaths: [metadata.annotations.cm]\n    options: {create: true}\n".to_owned(),
        7 => "kind: ValueAddTransformer\nmetadata: {name: p}\nvalue: added\ntargets:\n- selector: {kind: ConfigMap}\n  fieldPath: data/added\n".to_owned(),
        8 => "kind: NamespaceTransformer\nmetadata: {name: p, namespace: only-unset}\nunsetOnly: true\nfieldSpecs: []\n".to_owned(),
        9 => "kind: LabelTransformer\nmetadata: {name: p}\nlabels: {from: plugin}\nfieldSpecs:\n- {path: spec/template/metadata/labels, create: true, kind: Deployment}\n".to_owned(),
        _ => "kind: HashTransformer\nmetadata: {name: p}\n".to_owned(),
    };
    let text = format!("apiVersion: builtin\n{plugin}");
    format!("transformers:\n- |-\n{}", indent(&text, 2))
}

fn generator_plugins(r: &mut Random, known: &[Known]) -> String {
    let web = |known: &Known| {
        known.kind == "ConfigMap" && known.name == "web" && known.namespace.is_empty()
    };
    let choices = if known.iter().any(web) { 3 } else { 2 };
    let plugin = match r.below(choices) {
        0 => "kind: ConfigMapGenerator\nmetadata: {name: made}\nliterals: [a=b]\n",
        1 => {
            "kind: SecretGenerator\nmetadata: {name: made, namespace: shop}\ntype: x/y\nliterals: [a=b, c='d e']\noptions: {disableNameSuffixHash: true}\n"
        }
        _ => {
            "kind: ConfigMapGenerator\nmetadata: {name: web}\nbehavior: merge\nliterals: [merged=yes]\n"
        }
    };
    let text = format!("apiVersion: builtin\n{plugin}");
    format!("generators:\n- |-\n{}", indent(&text, 2))
}

fn legacy(r: &mut Random, files: &mut Files, directory: &str) -> String {
    files.insert(
        format!("{directory}/old.env"),
        "A=1\nB=\"two\"\n".to_owned(),
    );
    let choices = if r.one_in(6) { 5 } else { 4 };
    match r.below(choices) {
        0 => "imageTags:\n- {name: nginx, newTag: old}\n",
        1 => "configMapGenerator:\n- name: old\n  env: old.env\n",
        2 => "commonLabels: {old: label}\n",
        3 => "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: named}\n",
        _ => "unknownField: x\n",
    }
    .to_owned()
}

fn vars(r: &mut Random, directory: &str, known: &[Known]) -> String {
    let mut out = String::from("vars:\n");
    let own = format!("OWN_{directory}");
    let first = match directory {
        "base0" => "VAR_A",
        "top" => "VAR_B",
        _ => "VAR_C",
    };
    for name in [first, &own] {
        let Some(target) = pick_known(r, known, &[]) else {
            continue;
        };
        out.push_str(&format!(
            "- name: {name}\n  objref: {{kind: {}, name: {}, apiVersion: {}}}\n",
            target.kind,
            target.name,
            api_version(&target.kind)
        ));
        match r.below(6) {
            0 => out.push_str("  fieldref: {fieldpath: metadata.namespace}\n"),
            1 => out.push_str("  fieldref: {fieldpath: spec.replicas}\n"),
            2 => {
                out.push_str("  fieldref: {fieldpath: 'spec.template.spec.containers[0].image'}\n")
            }
            3 => out.push_str("  fieldref: {fieldpath: 'metadata.labels.app'}\n"),
            _ => {}
        }
    }
    out
}
