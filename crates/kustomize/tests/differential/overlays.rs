//! Random trees of kustomizations.

use std::collections::BTreeMap;

use crate::objects::{KINDS, NAMES, NAMESPACES, api_version, indent, object};
use crate::random::Random;
use crate::{odd, rare};

pub type Files = BTreeMap<String, String>;

/// An object that a kustomization can count on.
#[derive(Clone, Debug)]
pub struct Known {
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

/// A tree of kustomizations; `top` is to be built.
pub fn tree(seed: u64) -> Files {
    let mut r = Random::new(seed);
    let mut files = Files::new();
    let mut bases: Vec<(String, Vec<Known>)> = Vec::new();
    for number in 0..1 + r.below(2) {
        let directory = format!("base{number}");
        let own = number == 0 || r.one_in(2);
        let known = layer(&mut r, &mut files, &directory, &[], own);
        bases.push((directory, known));
    }
    let mut middle = Vec::new();
    if r.one_in(2) {
        // Most often one level more, now and then four.
        let levels = if r.one_in(4) { 2 + r.below(3) } else { 1 };
        let mut below = bases[0].clone();
        for level in 0..levels {
            let directory = format!("middle{level}");
            let own = r.one_in(2);
            let known = layer(&mut r, &mut files, &directory, &[below], own);
            below = (directory, known);
        }
        middle.push(below);
        middle.extend(bases[1..].iter().cloned());
    } else {
        middle = bases;
    }
    let own = r.one_in(2);
    layer(&mut r, &mut files, "top", &middle, own);
    files
}

fn layer(
    r: &mut Random,
    files: &mut Files,
    directory: &str,
    includes: &[(String, Vec<Known>)],
    own: bool,
) -> Vec<Known> {
    let mut known: Vec<Known> = includes
        .iter()
        .flat_map(|(_, known)| known.clone())
        .collect();
    let mut resources: Vec<String> = includes
        .iter()
        .map(|(name, _)| format!("../{name}"))
        .collect();
    if own {
        let count = if r.one_in(150) { 150 } else { 1 + r.below(6) };
        let mut seen: Vec<(String, String, String)> = Vec::new();
        let mut documents = Vec::new();
        for _ in 0..count {
            let kind = r.pick(&KINDS);
            let numbered;
            let mut name = r.pick(&NAMES);
            if count > 10 {
                numbered = format!("{name}-{}", r.below(200));
                name = &numbered;
            }
            let cluster = matches!(
                kind,
                "Namespace" | "ClusterRole" | "ClusterRoleBinding" | "CustomResourceDefinition"
            );
            let namespace = if cluster || !r.one_in(4) {
                ""
            } else {
                r.pick(&NAMESPACES)
            };
            let id = (kind.to_owned(), name.to_owned(), namespace.to_owned());
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            documents.push(object(r, kind, name, namespace));
            known.push(Known {
                kind: kind.to_owned(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            });
        }
        let text = odd::dress(r, documents.join("---\n"));
        files.insert(format!("{directory}/objects.yaml"), text);
        let at = r.below(resources.len() + 1);
        resources.insert(at, "objects.yaml".to_owned());
    }
    let mut out = String::new();
    out.push_str("resources:\n");
    for path in &resources {
        out.push_str(&format!("- {path}\n"));
    }
    out.push_str(&settings(r, files, directory, &mut known));
    if r.one_in(3) {
        out.push_str(&rare::fields(r, files, directory, &known));
        // A field that comes twice makes the file invalid, which is tried now and then.
        if !r.one_in(40) {
            out = drop_repeated_fields(&out);
        }
    }
    if r.one_in(4) {
        let component = format!("{directory}-component");
        let mut text = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n".to_owned();
        let mut copy = known.clone();
        text.push_str(&settings(r, files, &component, &mut copy));
        if r.one_in(3) {
            text.push_str(&rare::fields(r, files, &component, &copy));
        }
        text.push_str("namespace: comp\n");
        let text = drop_repeated_fields(&text);
        files.insert(format!("{component}/kustomization.yaml"), text);
        out.push_str(&format!("components:\n- ../{component}\n"));
    }
    files.insert(format!("{directory}/kustomization.yaml"), out);
    known
}

/// Keeps the first of fields that come twice.
fn drop_repeated_fields(text: &str) -> String {
    let mut seen = Vec::new();
    let mut keep = true;
    let mut out = String::new();
    for line in text.lines() {
        if !line.starts_with([' ', '-']) {
            let field = line.split(':').next().unwrap_or_default().to_owned();
            keep = !seen.contains(&field);
            seen.push(field);
        }
        if keep {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn settings(r: &mut Random, files: &mut Files, directory: &str, known: &mut Vec<Known>) -> String {
    let mut out = String::new();
    if r.one_in(3) {
        out.push_str(&format!(
            "namespace: {}\n",
            r.pick(&["shop", "ops", "prod"])
        ));
    }
    if r.one_in(3) {
        out.push_str(&format!("namePrefix: {}\n", r.pick(&["dev-", "a-", "x"])));
    }
    if r.one_in(4) {
        out.push_str(&format!("nameSuffix: {}\n", r.pick(&["-v1", "-z"])));
    }
    if r.one_in(5) {
        out.push_str("commonLabels:\n  app: shop\n  env: dev\n");
    }
    if r.one_in(4) {
        out.push_str(&labels(r));
    }
    if r.one_in(5) {
        out.push_str("commonAnnotations:\n  note: common\n  \"1\": one\n");
        if !r.one_in(20) {
            out = out.replace("  \"1\": one\n", "");
        }
    }
    if r.one_in(3) {
        out.push_str(&images(r));
    }
    if r.one_in(5)
        && let Some(target) = pick_known(r, known, &["Deployment", "StatefulSet"])
    {
        out.push_str(&format!(
            "replicas:\n- name: {}\n  count: {}\n",
            target.name,
            r.below(9)
        ));
    }
    if r.one_in(3) {
        out.push_str(&generators(r, files, directory, known));
    }
    if r.one_in(2) && !known.is_empty() {
        out.push_str(&patches(r, files, directory, known));
    }
    if r.one_in(6) && !known.is_empty() {
        out.push_str(&strategic_patches(r, known));
    }
    if r.one_in(7) && !known.is_empty() {
        out.push_str(&replacements(r, known));
    }
    if r.one_in(6)
        && let Some(target) = pick_known(r, known, &["Service", "ConfigMap", "Deployment"])
    {
        let name = match directory {
            "base0" => "VAR_A",
            "top" => "VAR_B",
            _ => r.pick(&["VAR_A", "VAR_B", "VAR_C"]),
        };
        out.push_str(&format!(
            "vars:\n- name: {name}\n  objref:\n    apiVersion: {}\n    kind: {}\n    name: {}\n",
            api_version(&target.kind),
            target.kind,
            target.name
        ));
        if target.kind == "Service" && r.one_in(2) {
            out.push_str("  fieldref:\n    fieldPath: spec.ports[0].port\n");
        }
    }
    if r.one_in(10) {
        out.push_str("buildMetadata: [originAnnotations, transformerAnnotations]\n");
    }
    if r.one_in(12) {
        out.push_str("sortOptions:\n  order: fifo\n");
    }
    if r.one_in(10) {
        files.insert(
            format!("{directory}/config.yaml"),
            "nameReference:\n- kind: ConfigMap\n  version: v1\n  fieldSpecs:\n  - path: spec/ref/name\n    kind: Widget\nnamespace:\n- path: spec/ns\n  kind: Widget\n  create: true\ncommonLabels:\n- path: spec/labels\n  kind: Widget\n  create: true\nvarReference:\n- path: data/key\n  kind: ConfigMap\n".to_owned(),
        );
        out.push_str("configurations: [config.yaml]\n");
    }
    if r.one_in(8) {
        out.push_str(&transformers(r));
    }
    out
}

pub fn pick_known(r: &mut Random, known: &[Known], kinds: &[&str]) -> Option<Known> {
    let fitting: Vec<&Known> = known
        .iter()
        .filter(|known| kinds.is_empty() || kinds.contains(&known.kind.as_str()))
        .collect();
    if fitting.is_empty() {
        return None;
    }
    Some(fitting[r.below(fitting.len())].clone())
}

fn labels(r: &mut Random) -> String {
    let mut out = String::from("labels:\n- pairs:\n    app: labelled\n    rank: \"7\"\n");
    match r.below(6) {
        0 => out.push_str("  includeSelectors: true\n"),
        1 => out.push_str("  includeTemplates: true\n"),
        3 => out.push_str("  includeTemplates: true\n  fields:\n  - {path: spec/extra, kind: Widget, create: true}\n- pairs: {second: entry}\n  includeSelectors: true\n"),
        4 => out.push_str("- pairs: {second: entry}\n  fields:\n  - {path: spec/selector/matchLabels, kind: Deployment}\n"),
        2 => out.push_str("  fields:\n  - path: spec/extra\n    kind: Widget\n    create: true\n"),
        _ => {}
    }
    out
}

fn images(r: &mut Random) -> String {
    let mut out = String::from("images:\n");
    for _ in 0..1 + r.below(2) {
        out.push_str(&format!(
            "- name: {}\n",
            r.pick(&["nginx", "team/app", "app", "registry:5000/team/app", "re.*"])
        ));
        match r.below(5) {
            0 => out.push_str("  newTag: \"2.0\"\n"),
            1 => out.push_str("  newName: mirror/img\n"),
            2 => out.push_str("  newName: mirror/img\n  newTag: v9\n"),
            3 => out.push_str("  digest: sha256:ffff\n"),
            _ => out.push_str("  tagSuffix: -x\n"),
        }
    }
    out
}

fn generators(
    r: &mut Random,
    files: &mut Files,
    directory: &str,
    known: &mut Vec<Known>,
) -> String {
    let mut out = String::new();
    let field = r.pick(&["configMapGenerator", "secretGenerator"]);
    let kind = if field == "configMapGenerator" {
        "ConfigMap"
    } else {
        "Secret"
    };
    let existing = pick_known(r, known, &[kind]).filter(|_| r.one_in(3));
    let fresh = format!("gen-{directory}");
    let name = existing
        .as_ref()
        .map_or(fresh.as_str(), |known| &known.name)
        .to_owned();
    out.push_str(&format!("{field}:\n- name: {name}\n"));
    if let Some(existing) = &existing {
        if !existing.namespace.is_empty() {
            out.push_str(&format!("  namespace: {}\n", existing.namespace));
        }
        out.push_str(&format!("  behavior: {}\n", r.pick(&["merge", "replace"])));
    }
    match r.below(3) {
        0 => out.push_str("  literals:\n  - a=1\n  - b=\"two words\"\n  - c=x=y\n"),
        1 => {
            files.insert(
                format!("{directory}/app.env"),
                "# comment\nA=1\n  B= two\nC\n".to_owned(),
            );
            out.push_str("  envs:\n  - app.env\n");
        }
        _ => {
            files.insert(
                format!("{directory}/settings.ini"),
                "[main]\nkey = value\n\ttabbed\nlong = the quick brown fox jumps over the lazy dog and then some more words\n".to_owned(),
            );
            out.push_str("  files:\n  - settings.ini\n  - renamed=settings.ini\n");
        }
    }
    match r.below(5) {
        0 => out.push_str("  options:\n    disableNameSuffixHash: true\n"),
        1 => out.push_str("  options:\n    labels:\n      gen: \"yes\"\n    immutable: true\n"),
        _ => {}
    }
    if r.one_in(5) {
        out.push_str("generatorOptions:\n  annotations:\n    made: here\n");
    }
    if existing.is_none() {
        known.push(Known {
            kind: kind.to_owned(),
            name,
            namespace: String::new(),
        });
    }
    out
}

fn identity(target: &Known) -> String {
    let mut out = format!(
        "apiVersion: {}\nkind: {}\nmetadata:\n  name: {}\n",
        api_version(&target.kind),
        target.kind,
        target.name
    );
    if !target.namespace.is_empty() {
        out.push_str(&format!("  namespace: {}\n", target.namespace));
    }
    out
}

fn strategic(r: &mut Random, target: &Known) -> String {
    let mut out = identity(target);
    if r.one_in(12) {
        out.push_str("$patch: delete\n");
        return out;
    }
    let workload = matches!(
        target.kind.as_str(),
        "Deployment" | "StatefulSet" | "DaemonSet"
    );
    match r.below(if workload { 10 } else { 5 }) {
        0 => out.push_str("  labels:\n    patched: \"true\"\n    app: other\n"),
        1 => out.push_str("  annotations:\n    note: null\n    added: x\n"),
        2 => out.push_str("  annotations: null\n"),
        3 if target.kind == "ConfigMap" => out.push_str("data:\n  key: patched\n  extra: 5\n"),
        3 | 4 => out.push_str("spec:\n  added: {a: 1, b: null}\n"),
        5 => out.push_str("spec:\n  template:\n    spec:\n      containers:\n      - name: c0\n        image: patched:1\n        env:\n        - name: E0\n          value: patched\n        - name: NEW\n          value: \"1\"\n"),
        6 => out.push_str("spec:\n  template:\n    spec:\n      containers:\n      - name: sidecar\n        image: side\n      - name: c1\n        $patch: delete\n"),
        7 => out.push_str("spec:\n  replicas: 7\n  template:\n    metadata:\n      labels:\n        app: patched\n    spec:\n      volumes:\n      - name: v0\n        $patch: delete\n      - name: extra\n        emptyDir: {}\n"),
        8 => out.push_str("spec:\n  template:\n    spec:\n      containers:\n      - name: c0\n        ports:\n        - containerPort: 80\n          name: web\n        - containerPort: 9090\n        args: null\n"),
        _ => out.push_str("spec:\n  selector: null\n  template:\n    spec:\n      $patch: replace\n      containers:\n      - name: only\n        image: only\n"),
    }
    out
}

fn operations(r: &mut Random, target: &Known) -> String {
    match r.below(6) {
        0 => "- op: add\n  path: /metadata/labels\n  value: {json: patched}\n".to_owned(),
        1 => "- op: add\n  path: /metadata/annotations/json\n  value: patched\n".to_owned(),
        2 => "- op: replace\n  path: /metadata/name\n  value: renamed\n".to_owned(),
        3 if target.kind == "Widget" => "- op: remove\n  path: /spec\n".to_owned(),
        4 if target.kind == "Deployment" => {
            "- op: replace\n  path: /spec/template/spec/containers/0/image\n  value: json:1\n- op: add\n  path: /spec/template/spec/containers/-\n  value: {name: last, image: l}\n".to_owned()
        }
        _ => "[{\"op\": \"add\", \"path\": \"/extra\", \"value\": {\"n\": 1.5, \"big\": 9007199254740993}}]\n".to_owned(),
    }
}

fn target_selector(r: &mut Random, target: &Known) -> String {
    if r.one_in(3) {
        return rare::selector(r, target);
    }
    match r.below(7) {
        0 => format!("kind: {}", target.kind),
        1 => format!("kind: {}\nname: {}", target.kind, target.name),
        2 => format!("name: {}.*", &target.name[..1]),
        3 => "labelSelector: app=web".to_owned(),
        4 => "annotationSelector: note".to_owned(),
        5 => format!("kind: {}\nnamespace: default", target.kind),
        _ => format!(
            "group: {}\nkind: {}|Service",
            api_version(&target.kind)
                .split('/')
                .next()
                .filter(|g| *g != "v1")
                .unwrap_or(""),
            target.kind
        ),
    }
}

fn patches(r: &mut Random, files: &mut Files, directory: &str, known: &[Known]) -> String {
    let mut out = String::from("patches:\n");
    for number in 0..1 + r.below(3) {
        let Some(target) = pick_known(r, known, &[]) else {
            continue;
        };
        let json = r.one_in(3);
        let text = if json {
            operations(r, &target)
        } else {
            strategic(r, &target)
        };
        if r.one_in(3) {
            let path = format!("patch{number}.yaml");
            files.insert(format!("{directory}/{path}"), text);
            out.push_str(&format!("- path: {path}\n"));
        } else {
            out.push_str(&format!("- patch: |-\n{}", indent(&text, 4)));
        }
        if json || r.one_in(3) {
            out.push_str(&format!(
                "  target:\n{}",
                indent(&target_selector(r, &target), 4)
            ));
        }
        if !json && r.one_in(8) {
            out.push_str("  options:\n    allowNameChange: true\n");
        }
    }
    out
}

fn strategic_patches(r: &mut Random, known: &[Known]) -> String {
    match pick_known(r, known, &[]) {
        None => String::new(),
        Some(target) => format!(
            "patchesStrategicMerge:\n- |-\n{}",
            indent(&strategic(r, &target), 2)
        ),
    }
}

fn replacements(r: &mut Random, known: &[Known]) -> String {
    let mut out = String::from("replacements:\n");
    let Some(source) = pick_known(r, known, &[]) else {
        return String::new();
    };
    if r.one_in(6) {
        out.push_str("- sourceValue: fixed\n");
    } else {
        out.push_str(&format!(
            "- source:\n    kind: {}\n    name: {}\n",
            source.kind, source.name
        ));
        match r.below(9) {
            0 => out.push_str("    fieldPath: metadata.namespace\n"),
            1 => out.push_str("    fieldPath: metadata.name\n    options:\n      delimiter: '-'\n      index: 0\n"),
            2 => out.push_str("    fieldPath: metadata.labels\n"),
            _ => {}
        }
    }
    let Some(target) = pick_known(r, known, &[]) else {
        return String::new();
    };
    out.push_str("  targets:\n");
    out.push_str(&format!("  - select:\n      kind: {}\n", target.kind));
    if r.one_in(2) {
        out.push_str(&format!("      name: {}\n", target.name));
    }
    if r.one_in(5) {
        out.push_str(&format!("    reject:\n    - name: {}\n", r.pick(&NAMES)));
    }
    out.push_str("    fieldPaths:\n");
    out.push_str(&format!(
        "    - {}\n",
        r.pick(&[
            "metadata.annotations.from",
            "metadata.labels.app",
            "spec.template.spec.containers.[name=c0].image",
            "spec.template.spec.containers.*.env.[name=E0].value",
            "data.key",
            "spec.created.deep.field",
            "data.config\\.yaml.server.port",
            "spec.ports.0.name",
        ])
    ));
    match r.below(8) {
        0..=5 => out.push_str("    options:\n      create: true\n"),
        6 => {
            out.push_str("    options:\n      delimiter: ':'\n      index: 1\n      create: true\n")
        }
        _ => {}
    }
    out
}

fn transformers(r: &mut Random) -> String {
    let plugin = match r.below(4) {
        0 => {
            "apiVersion: builtin\nkind: NamespaceTransformer\nmetadata:\n  name: ns\n  namespace: plugged\nsetRoleBindingSubjects: allServiceAccounts\nunsetOnly: true\nfieldSpecs:\n- path: metadata/name\n  kind: Namespace\n  create: true\n"
        }
        1 => {
            "apiVersion: builtin\nkind: PrefixTransformer\nmetadata:\n  name: p\nprefix: plug-\nfieldSpecs:\n- path: metadata/name\n"
        }
        2 => {
            "apiVersion: builtin\nkind: LabelTransformer\nmetadata:\n  name: l\nlabels:\n  plugin: 5\nfieldSpecs:\n- path: metadata/labels\n  create: true\n"
        }
        _ => {
            "apiVersion: builtin\nkind: AnnotationsTransformer\nmetadata:\n  name: a\nannotations:\n  plugin: 'yes'\nfieldSpecs:\n- path: metadata/annotations\n  create: true\n"
        }
    };
    format!("transformers:\n- |-\n{}", indent(plugin, 2))
}
