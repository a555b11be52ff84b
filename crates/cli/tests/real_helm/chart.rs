//! Random charts: templates, values of every kind, dependencies with all their switches.

use std::fs;
use std::path::Path;

use crate::template::{PARTIALS, Writer};
use everflow_corpus::Random;

const SCALARS: &[&str] = &[
    "1",
    "-7",
    "0x1F",
    "010",
    "0o17",
    "1_000",
    "1.5",
    "1e6",
    ".5",
    "1.0",
    "true",
    "no",
    "\"yes\"",
    "~",
    "\"\"",
    "'it''s'",
    "plain text",
    "2024-01-02",
    "12:30",
    "\"tab\\tnew\\nline\"",
    "123456789012",
    "1e21",
    "\"{{ .Release.Name }}\"",
    "é",
];
const TEXTS: &[&str] = &[
    "alpha",
    "\"two words\"",
    "\"\"",
    "Mixed-Case_1",
    "\"1.20\"",
    "\"a,b,c\"",
    "ünïcode",
];
const NUMBERS: &[&str] = &["0", "1", "-5", "3.25", "80", "1e3", "12345678"];
const KINDS: &[&str] = &[
    "ConfigMap",
    "Secret",
    "Service",
    "Deployment",
    "Namespace",
    "ClusterRole",
    "Job",
    "Ingress",
    "Widget",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PriorityClass",
    "APIService",
];
const FLAG_SETS: &[(&str, &[&str])] = &[
    (
        "--set",
        &[
            "s1=x",
            "m1.a=5,m1.b=yes",
            "l1[1]=z",
            "m1.nested.a=null",
            "s2=a\\,b",
            "one.i1=9",
            "global.g=top",
            "tags.back=false",
            "l1={p,q}",
            "m2=null",
            "two.enabled=false",
        ],
    ),
    (
        "--set-string",
        &["i1=007", "m1.port=8080", "x1=true", "one.s1=sub"],
    ),
    (
        "--set-json",
        &[
            "m2={\"a\":[1,2.5,null]}",
            "x2=[{\"b\":1}]",
            "{\"m1\":{\"c\":{\"d\":1}}}",
        ],
    ),
    ("--set-literal", &["s3=a,b={c}", "one.s2=x=y"]),
    ("--values", &["user.yaml"]),
    ("--kube-version", &["1.30.2"]),
    ("--api-versions", &["widgets.example.com/v1"]),
    ("--is-upgrade", &[]),
    ("--no-hooks", &[]),
    ("--include-crds", &[]),
    (
        "--set",
        &["s1", "l1[x]=1", "=1", "m1[0]=1", "a.b.c=1,a.b=2"],
    ),
];

fn scalar(random: &mut Random) -> String {
    (*random.pick(SCALARS)).to_owned()
}

/// Something in flow style.
fn flow(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 2 } else { 4 }) {
        0 | 1 => scalar(random),
        2 => flow_list(random, depth - 1),
        _ => flow_map(random, depth - 1),
    }
}

fn flow_list(random: &mut Random, depth: usize) -> String {
    let count = random.below(4);
    let items: Vec<_> = (0..count).map(|_| flow(random, depth)).collect();
    format!("[{}]", items.join(", "))
}

fn flow_map(random: &mut Random, depth: usize) -> String {
    let mut entries = Vec::new();
    for key in ["a", "b", "c", "name", "port", "\"1\""] {
        if random.one_in(2) {
            entries.push(format!("{key}: {}", flow(random, depth)));
        }
    }
    entries.push(format!(
        "nested: {{a: {}, z: {}}}",
        scalar(random),
        scalar(random)
    ));
    format!("{{{}}}", entries.join(", "))
}

fn values(random: &mut Random, share: usize) -> String {
    let mut text = String::new();
    let mut put = |random: &mut Random, key: &str, value: String| {
        if random.below(100) < share {
            text.push_str(&format!("{key}: {value}\n"));
        }
    };
    for key in ["s1", "s2", "s3"] {
        let value = (*random.pick(TEXTS)).to_owned();
        put(random, key, value);
    }
    for key in ["i1", "i2", "f1"] {
        let value = (*random.pick(NUMBERS)).to_owned();
        put(random, key, value);
    }
    for key in ["b1", "b2"] {
        let value = (*random.pick(&["true", "false"])).to_owned();
        put(random, key, value);
    }
    for key in ["l1", "l2"] {
        let value = flow_list(random, 2);
        put(random, key, value);
    }
    for key in ["m1", "m2"] {
        let value = flow_map(random, 2);
        put(random, key, value);
    }
    for key in ["x1", "x2"] {
        let value = flow(random, 3);
        put(random, key, value);
    }
    put(random, "n1", "null".to_owned());
    put(
        random,
        "t1",
        "\"{{ .Values.s1 | upper }}-{{ include \\\"p0\\\" . | trunc 20 }}\"".to_owned(),
    );
    put(
        random,
        "t2",
        "\"{{ range $i, $v := .Values.l1 }}{{ $i }}:{{ $v }} {{ end }}\"".to_owned(),
    );
    let global = format!(
        "{{g: {}, a: {}, nested: {{a: {}}}}}",
        scalar(random),
        scalar(random),
        flow(random, 1)
    );
    put(random, "global", global);
    text
}

/// A chart on disk and the flags to render it with.
pub struct RandomChart {
    pub flags: Vec<String>,
    pub templates: usize,
}

struct Files<'p>(&'p Path);

impl Files<'_> {
    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Writes a random chart.
pub fn write(directory: &Path, seed: u64) -> RandomChart {
    let random = &mut Random(seed);
    let files = Files(directory);
    files.write("user.yaml", &user_values(random));
    let mut count = 0;
    write_library(random, &files);
    let parts = [
        ("root", "chart", 24),
        ("one", "chart/charts/one", 7),
        ("two", "chart/charts/two", 6),
        ("inner", "chart/charts/one/charts/inner", 3),
    ];
    for (name, path, templates) in parts {
        files.write(&format!("{path}/Chart.yaml"), &chart_yaml(random, name));
        let mut own = values(random, if name == "root" { 100 } else { 85 });
        if name == "root" {
            own.push_str(&format!(
                "one: {{s1: from-root, m1: {}}}\n",
                flow_map(random, 1)
            ));
            own.push_str(&format!(
                "two: {{enabled: {}}}\n",
                random.pick(&["true", "false", "true"])
            ));
            let tags: &&str = random.pick(&["tags: {back: true}\n", "tags: {back: false}\n", ""]);
            own.push_str(tags);
        }
        own.push_str(&format!(
            "exports: {{data: {{imported: {}}}}}\n",
            flow(random, 1)
        ));
        files.write(&format!("{path}/values.yaml"), &own);
        if random.one_in(4) {
            files.write(&format!("{path}/values.schema.json"), &schema(random));
        }
        files.write(&format!("{path}/conf/b.ini"), "[b]\nx = 1\n");
        files.write(&format!("{path}/conf/a.bin"), "a\u{1}b");
        files.write(&format!("{path}/data.txt"), "some\nlines: {{ .x }}\n");
        if name != "inner" {
            files.write(&format!("{path}/templates/_helpers.tpl"), &partials(random));
        }
        for index in 0..templates {
            files.write(
                &format!("{path}/templates/t{index}.yaml"),
                &template(random, name, index),
            );
            count += 1;
        }
    }
    RandomChart {
        flags: flags(random),
        templates: count,
    }
}

/// A library of partials, one of which the other charts define, too.
fn write_library(random: &mut Random, files: &Files<'_>) {
    let path = "chart/charts/shelf";
    files.write(
        &format!("{path}/Chart.yaml"),
        "apiVersion: v2\nname: shelf\nversion: 2.0.0\ntype: library\n",
    );
    files.write(&format!("{path}/values.yaml"), &values(random, 30));
    let body = Writer::new(random, 0).body(2);
    files.write(
        &format!("{path}/templates/_shelf.tpl"),
        &format!(
            "{{{{- define \"shelf.merged\" -}}}}\n\
             {{{{- $top := first . }}}}{{{{- $over := fromYaml (include (index . 1) $top) }}}}\n\
             {{{{- toYaml (mergeOverwrite (deepCopy $top.Values.m1) $over (dict \"shelf\" $top.Chart.Name)) }}}}\n\
             {{{{- end -}}}}\n\
             {{{{- define \"shelf.over\" -}}}}\na: {{{{ .Values.s1 | quote }}}}\nnested:\n  a: 2\n  z: {{{{ .Values.i1 }}}}\n{{{{- end -}}}}\n\
             {{{{- define \"p1\" -}}}}{body}{{{{- end -}}}}\n"
        ),
    );
    // Not rendered: libraries have partials only.
    files.write(
        &format!("{path}/templates/ignored.yaml"),
        "{{ fail \"no\" }}",
    );
}

/// A schema that most values keep.
fn schema(random: &mut Random) -> String {
    let mut rules = Vec::new();
    for (key, fitting) in [
        ("s1", "\"string\""),
        ("i1", "\"number\""),
        ("b1", "\"boolean\""),
        ("m1", "\"object\""),
        ("l1", "\"array\""),
        (
            "x1",
            "[\"string\", \"number\", \"object\", \"array\", \"boolean\", \"null\"]",
        ),
    ] {
        let wanted = match random.one_in(12) {
            true => *random.pick(&["\"string\"", "\"integer\"", "\"object\"", "\"null\""]),
            false => fitting,
        };
        let more = *random.pick(&[
            "",
            "",
            ", \"minLength\": 1",
            ", \"maximum\": 1000000",
            ", \"minItems\": 1",
            ", \"required\": [\"nested\"]",
            ", \"enum\": [\"alpha\", 1, true, {}]",
        ]);
        rules.push(format!("{key:?}: {{\"type\": {wanted}{more}}}"));
    }
    let draft = *random.pick(&[
        "",
        "\"$schema\": \"http://json-schema.org/draft-07/schema#\", ",
        "\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", ",
    ]);
    let open = *random.pick(&["", "", ", \"additionalProperties\": false"]);
    format!(
        "{{{draft}\"type\": \"object\", \"properties\": {{{}}}{open}}}",
        rules.join(", ")
    )
}

fn user_values(random: &mut Random) -> String {
    let mut text = values(random, 25);
    if random.one_in(2) {
        text.push_str(&format!("one: {}\n", flow_map(random, 1)));
    }
    if random.one_in(3) {
        text.push_str("two: {s1: null, m1: {a: null, nested: null}, global: {g: low}}\n");
    }
    text
}

fn chart_yaml(random: &mut Random, name: &str) -> String {
    let mut text = format!(
        "apiVersion: v2\nname: {name}\nversion: 1.{}.3\nappVersion: \"{}\"\n",
        random.below(9),
        random.below(30)
    );
    if name == "root" {
        let import = *random.pick(&[
            "[data]",
            "[{child: m1, parent: m2}]",
            "[{child: exports.data, parent: took}]",
            "[]",
        ]);
        let alias = *random.pick(&["", ", alias: renamed"]);
        text.push_str(&format!(
            "dependencies:\n- {{name: one, version: '>=1', repository: '', import-values: {import}{alias}}}\n\
             - {{name: two, version: 1.x, repository: '', condition: two.enabled, tags: [back]}}\n\
             - {{name: shelf, version: '2', repository: ''}}\n"
        ));
    }
    if name == "one" && random.one_in(2) {
        text.push_str(
            "dependencies:\n- {name: inner, version: '*', repository: '', import-values: [data]}\n",
        );
    }
    text
}

fn partials(random: &mut Random) -> String {
    let mut text = String::new();
    for (index, name) in PARTIALS.iter().enumerate() {
        if random.one_in(5) && index > 1 {
            continue;
        }
        let body = Writer::new(random, index).body(1);
        text.push_str(&format!(
            "{{{{- define {name:?} -}}}}{body}{{{{- end }}}}\n"
        ));
    }
    // Everyone may include all of them, so that the parent's last word is all there need be.
    text
}

fn template(random: &mut Random, chart: &str, index: usize) -> String {
    let name = format!("{chart}-t{index}");
    let body = Writer::new(random, 2).body(3);
    let hook = match random.below(6) {
        0 => format!(
            "\n  annotations: {{\"helm.sh/hook\": \"{}\", \"helm.sh/hook-weight\": \"{}\"}}",
            random.pick(&[
                "pre-install",
                "post-upgrade,pre-install",
                "test",
                "pre-delete",
                "nonsense"
            ]),
            random.pick(&["0", "-5", "3", "x"])
        ),
        _ => String::new(),
    };
    format!(
        "{{{{- define {name:?} }}}}{body}{{{{ end -}}}}\nkind: {}\nmetadata:\n  name: {name}{hook}\nout: {{{{ include {name:?} . | toJson }}}}\n",
        random.pick(KINDS)
    )
}

fn flags(random: &mut Random) -> Vec<String> {
    let mut flags = Vec::new();
    for _ in 0..random.below(5) {
        let last = if random.one_in(12) {
            FLAG_SETS.len()
        } else {
            FLAG_SETS.len() - 1
        };
        let (flag, choices) = FLAG_SETS[random.below(last)];
        flags.push(flag.to_owned());
        if !choices.is_empty() {
            flags.push((*random.pick(choices)).to_owned());
        }
    }
    flags
}
