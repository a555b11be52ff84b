//! Hostile repositories and charts against the program as it ships: each ends in an error that says what is too
//! large, within bounded time and memory, and nobody beside it suffers.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Bytes of address space that the program may have: far less than each attack would take.
const ADDRESS_SPACE: u64 = 6 << 30;
/// Everything ends within this time; debug builds are slow.
const PATIENCE: Duration = Duration::from_secs(90);

/// A directory that was just made.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("attack-{name}"));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Tree(root)
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn path(&self, below: &str) -> String {
        self.0.join(below).to_str().unwrap().to_owned()
    }
}

/// Runs the program with bounded memory; it must end by itself and not be killed by a signal.
fn everflow(arguments: &[&str]) -> (Output, String) {
    let begun = Instant::now();
    let kilobytes = ADDRESS_SPACE / 1024;
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -v {kilobytes}; exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_everflow"))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    let shown: String = said.chars().take(2_000).collect();
    assert!(
        output.status.code().is_some(),
        "{arguments:?} died: {shown}"
    );
    assert!(begun.elapsed() < PATIENCE, "{arguments:?}: {shown}");
    (output, shown)
}

fn refused(arguments: &[&str], words: &[&str]) {
    let (output, said) = everflow(arguments);
    assert!(!output.status.success(), "{arguments:?}: {said}");
    for word in words {
        assert!(
            said.contains(word),
            "{arguments:?} does not say {word:?}: {said}"
        );
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n";

fn long_field_path(segments: usize) -> String {
    let path = vec!["b"; segments].join(".");
    format!(
        "resources: [a.yaml]\nreplacements:\n- source: {{kind: ConfigMap, fieldPath: data.k}}\n  targets:\n  - select: {{kind: ConfigMap}}\n    fieldPaths: [{path}]\n    options: {{create: true}}\n"
    )
}

fn doubling_replacements(times: usize) -> String {
    let one = "- source: {kind: ConfigMap, name: a, fieldPath: data.k}\n  targets:\n  - select: {kind: ConfigMap, name: a}\n    fieldPaths: [data.k]\n    options: {delimiter: \"-\", index: 99}\n";
    format!("resources: [a.yaml]\nreplacements:\n{}", one.repeat(times))
}

/// Directories of which each has two bases of the next level: 2^levels objects.
fn doubling_bases(tree: &Tree, below: &str, levels: usize) {
    for level in 0..levels {
        for name in ["a", "b"] {
            let next = level + 1;
            let text = match next == levels {
                true => format!("namePrefix: {name}{level}-\nresources: [map.yaml]\n"),
                false => {
                    format!("namePrefix: {name}{level}-\nresources: [../a{next}, ../b{next}]\n")
                }
            };
            let directory = format!("{below}/{name}{level}");
            tree.write(&format!("{directory}/kustomization.yaml"), &text);
            tree.write(&format!("{directory}/map.yaml"), MAP);
        }
    }
}

#[test]
fn kustomize_builds_that_explode_are_refused() {
    let tree = Tree::new("kustomize");
    tree.write("paths/a.yaml", MAP);
    tree.write("paths/kustomization.yaml", &long_field_path(20_000));
    refused(&["kustomize", "build", &tree.path("paths")], &["levels"]);
    let configured = "resources: [a.yaml]\nnamePrefix: x-\nconfigurations: [c.yaml]\n";
    tree.write("specs/kustomization.yaml", configured);
    tree.write("specs/a.yaml", MAP);
    let path = vec!["b"; 50_000].join("/");
    tree.write(
        "specs/c.yaml",
        &format!("namePrefix:\n- path: {path}\n  create: true\n"),
    );
    refused(&["kustomize", "build", &tree.path("specs")], &["levels"]);
    tree.write("text/a.yaml", MAP);
    tree.write("text/kustomization.yaml", &doubling_replacements(40));
    refused(&["kustomize", "build", &tree.path("text")], &["memory"]);
    doubling_bases(&tree, "bases", 30);
    refused(
        &["kustomize", "build", &tree.path("bases/a0")],
        &["--max-build-"],
    );
}

#[test]
fn charts_that_explode_are_refused() {
    let tree = Tree::new("charts");
    let chart = |name: &str, template: &str| {
        tree.write(
            &format!("{name}/Chart.yaml"),
            &format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n"),
        );
        tree.write(&format!("{name}/templates/a.yaml"), template);
        tree.path(name)
    };
    let lists = chart(
        "lists",
        "{{ $l := list \"a\" }}{{ range until 40 }}{{ $l = concat $l $l }}{{ end }}a: {{ len $l }}\n",
    );
    refused(
        &["helm", "template", "x", &lists],
        &["lists/templates/a.yaml", "memory"],
    );
    let maps = chart(
        "maps",
        "{{ $d := dict \"a\" \"b\" }}{{ range until 40 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}a: {{ toYaml $d | len }}\n",
    );
    refused(
        &["helm", "template", "x", &maps],
        &["maps/templates/a.yaml"],
    );
    for (name, template) in [
        (
            "regexes",
            "a: {{ regexReplaceAll \"(a?)\" (repeat 1000000 \"a\") (repeat 1000 \"$1\") | len }}\n",
        ),
        (
            "empty-groups",
            "a: {{ regexReplaceAll \"(b?)a\" (repeat 1000000 \"a\") (repeat 1000 \"$1\") | len }}\n",
        ),
    ] {
        let chart = chart(name, template);
        refused(
            &["helm", "template", "x", &chart],
            &[&format!("{name}/templates/a.yaml")],
        );
    }
    let mut schema = String::from("{\"definitions\": {");
    for level in 0..40 {
        let next = level + 1;
        let reference = format!("{{\"$ref\": \"#/definitions/d{next}\"}}");
        let _ = write!(
            schema,
            "\"d{level}\": {{\"allOf\": [{reference}, {reference}]}}, "
        );
    }
    schema.push_str("\"d40\": {\"type\": \"object\"}}, \"$ref\": \"#/definitions/d0\"}");
    let schemas = chart("schemas", "a: b\n");
    tree.write("schemas/values.schema.json", &schema);
    // Each place of the schema is asked once for each value: there is nothing to refuse.
    let (output, said) = everflow(&["helm", "template", "x", &schemas]);
    assert!(output.status.success(), "{said}");
}

#[test]
fn charts_cannot_read_what_is_not_theirs() {
    let tree = Tree::new("reach");
    tree.write("secret.txt", "correct-horse");
    tree.write("values.yaml", "correct: horse\n");
    tree.write("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n");
    let template = "{{ range list \"../secret.txt\" \"/etc/passwd\" \"./../values.yaml\" }}x{{ . | b64enc | trimAll \"=\" }}: {{ $.Files.Get . | quote }}\n{{ end }}\
                    glob: {{ $.Files.Glob \"../*\" | len }}\nlookup: {{ lookup \"v1\" \"Secret\" \"\" \"\" | len }}\nhost: {{ getHostByName \"localhost\" | quote }}\n";
    tree.write("c/templates/a.yaml", template);
    let (output, said) = everflow(&["helm", "template", "x", &tree.path("c")]);
    assert!(output.status.success(), "{said}");
    for line in ["glob: 0", "lookup: 0", "host: \"\""] {
        assert!(said.contains(line), "{said}");
    }
    assert!(!said.contains("horse") && !said.contains("root:"), "{said}");
    for function in ["env", "expandenv"] {
        let template = format!("a: {{{{ {function} \"HOME\" }}}}\n");
        tree.write("c/templates/a.yaml", &template);
        refused(
            &["helm", "template", "x", &tree.path("c")],
            &["not defined"],
        );
    }
}

#[test]
fn hostile_kustomizations_do_not_keep_others_from_being_ready() {
    let tree = Tree::new("neighbours");
    let kustomization = |name: &str, more: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n  interval: 10m\n  retryInterval: 2m\n  timeout: 20s\n  prune: true\n  path: ./{name}\n  targetNamespace: default\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}---\n"
        )
    };
    let huge = format!(
        "  postBuild: {{substitute: {{a: '{}'}}}}\n",
        "x".repeat(100_000)
    );
    let all = [
        kustomization("good", ""),
        kustomization("paths", ""),
        kustomization("text", ""),
        kustomization("bases/a0", "").replace("name: bases/a0", "name: bases"),
        kustomization("variables", &huge),
    ];
    tree.write("clusters/x/all.yaml", &all.concat());
    tree.write("good/a.yaml", MAP);
    tree.write("paths/a.yaml", MAP);
    tree.write("paths/kustomization.yaml", &long_field_path(20_000));
    tree.write("text/a.yaml", MAP);
    tree.write("text/kustomization.yaml", &doubling_replacements(40));
    doubling_bases(&tree, "bases", 30);
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: v}}\ndata: {{k: '{}'}}\n",
        "${a//x/${a}}".repeat(20)
    );
    tree.write("variables/a.yaml", &text);
    let root = tree.path("");
    let arguments = [
        "up",
        &root,
        "--entry",
        "clusters/x",
        "--offline",
        "--timeout",
        "60s",
        "-o",
        "json",
    ];
    let (output, _) = everflow(&arguments);
    let data = everflow_json::from_slice::<everflow_json::Value>(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let nodes = data["kustomizations"].as_array().unwrap();
    let state = |name: &str| {
        let node = nodes.iter().find(|node| node["name"] == name);
        node.unwrap_or_else(|| panic!("{name} is not shown"))
            .to_string()
    };
    assert!(state("good").contains("\"ready\""), "{}", state("good"));
    for (name, word) in [
        ("paths", "levels"),
        ("text", "memory"),
        ("bases", "--max-build-"),
    ] {
        assert!(state(name).contains(word), "{name}: {}", state(name));
    }
}
