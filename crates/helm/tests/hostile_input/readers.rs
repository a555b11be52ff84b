//! Charts, templates, values, schemas, indexes and release records.

use std::io::Write as _;

use everflow_corpus::hostile::{Reader, texts};
use everflow_gotemplate::Meter;
use everflow_helm::chart::{ChartFile, load_archive, load_files, load_values};
use everflow_helm::index::read_index;
use everflow_helm::json_schema::JsonSchema;
use everflow_helm::manifests::{sort_manifests, split_manifests};
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, template as render};
use everflow_helm::values::Warnings;
use everflow_helm::{Limits, release, strvals};
use everflow_json::{Map, json};
use everflow_limits::{Budget, Stop};
use everflow_sprig::FixedSource;

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("archive", archive, || vec![packed()]).cases(300),
    Reader::new("chart", chart, || {
        texts(&[
            "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies: [{name: d, version: '>=1', repository: 'file://../d', condition: d.on, alias: e}]\n\0a: 1\nd: {on: true}\n",
            "apiVersion: v1\nname: c\nversion: 1.0.0\nkubeVersion: '>=1.20'\ntype: library\n",
        ])
    })
    .tokens(YAML),
    Reader::new("template", template, templates)
        .tokens(ACTIONS)
        .cases(800),
    Reader::new("values", values, || texts(&["a: {b: [1, null]}\nc: 1e3\n"])).tokens(YAML),
    Reader::new("set", set, || texts(&["a.b[2].c=1,d={x,y},e\\.f=g"])).tokens(&[
        ".", ",", "=", "[", "]", "{", "}", "[99999]", "\\", "a[0]", "a[0][0]", "null",
    ]),
    Reader::new("schema", schema, || {
        texts(&[
            r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"integer","minimum":1}}}"##,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"if":{"required":["a"]},"then":{"properties":{"a":{"pattern":"^x+$"}}}}]}"##,
        ])
    })
    .tokens(&[
        "{\"a\":", "[", "\"$ref\":\"#\",", "\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}],",
        "\"anyOf\":[", "\"$id\":\"x\",", "\"$dynamicRef\":\"#x\",", "\"pattern\":\"(a*)*\",",
        "\"uniqueItems\":true,", "\"not\":", "\"unevaluatedProperties\":false,", "1e400",
    ]),
    Reader::new("index", index, || {
        texts(&[
            "apiVersion: v1\nentries:\n  app:\n    - {apiVersion: v2, name: app, version: 1.0.0, urls: [app-1.0.0.tgz], digest: abc, created: 2024-01-01T00:00:00Z}\n",
            r#"{"apiVersion":"v1","entries":{"app":[{"apiVersion":"v2","name":"app","version":"1.0.0","urls":["a.tgz"]}]}}"#,
        ])
    })
    .tokens(YAML),
    Reader::new("record", record, || vec![release_record()]),
    Reader::new("manifests", manifests, || {
        texts(&[
            "---\n# Source: a\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: 'pre-install,post-delete', helm.sh/hook-weight: '-5'}}\n---\nkind: Service\n",
        ])
    })
    .tokens(YAML),
];

const YAML: &[&str] = &[
    "[",
    "{a: ",
    "- ",
    "&x ",
    "*x",
    "<<: *x\n",
    "\n---\n",
    "|\n ",
    "null",
    "1e999",
    "dependencies:\n",
    "  - name: x\n",
    "import-values: [{child: a, parent: b}]\n",
    "helm.sh/hook: test\n",
    "helm.sh/hook-weight: '99999999999999999999'\n",
    "tags: [x]\n",
    "version: '*'\n",
    "entries:\n",
];

const ACTIONS: &[&str] = &[
    "{{",
    "}}",
    "{{- range $k, $v := .Values }}",
    "{{ end }}",
    "{{ if ",
    "{{ define \"x\" }}",
    "{{ include \"x\" . }}",
    "{{ tpl .Values.self . }}",
    "{{ template \"x\" . }}",
    "(",
    ")",
    "(dict \"a\" ",
    "(list ",
    "| toYaml ",
    "| fromYaml ",
    "| fromJson ",
    "| nindent 99 ",
    "| b64enc ",
    "| repeat 9999 ",
    "| regexReplaceAll \"(a?)\" ",
    "\"$1$1\" ",
    "| splitList \"\" ",
    "until 99999 ",
    "untilStep 0 9 0 ",
    "seq 1 99999 ",
    "merge ",
    "mergeOverwrite ",
    "deepCopy ",
    "concat ",
    "lookup \"v1\" \"Secret\" \"\" \"\" ",
    "semverCompare ",
    "date \"2006\" ",
    "now ",
    "printf \"%*d\" ",
    "$x := ",
    "$x = ",
    ".Values.a",
    ".Files.Get ",
    ".Files.Glob \"**\"",
    "genCA \"x\" 1 ",
    "derivePassword 1 ",
    "required \"x\" ",
    "fail ",
    "substr 0 -1 ",
    "shuffle ",
    "wrap 0 ",
    "dig \"a\" ",
    "set ",
    "unset ",
    "pluck ",
    "ternary ",
    "kindOf ",
    "toToml ",
    "urlParse ",
];

fn templates() -> Vec<Vec<u8>> {
    texts(&[
        "{{ define \"x\" }}{{ .Values.a | quote }}{{ end }}a: {{ include \"x\" . | nindent 2 }}\n",
        "{{- range $i, $e := list 1 2 3 }}\nx{{ add $i $e | toString | b64enc | trimSuffix \"=\" }}: {{ dict \"a\" (list $e) | toYaml | nindent 4 }}\n{{- end }}\n",
        "a: {{ $x := fromYaml \"a: {b: c}\" }}{{ $x.a.b }}{{ tpl \"{{ .Values.a }}\" . }}{{ regexReplaceAll \"(b+)\" \"abbc\" \"${1}x\" }}\n",
        "a: {{ with (mergeOverwrite (dict \"a\" 1) (dict \"b\" (list 1 2))) }}{{ toJson . }}{{ end }}\nb: {{ semverCompare \">=1.2\" \"1.3.0\" }}\n",
    ])
}

fn budget() -> Budget {
    Budget::new(Stop::new(), 8 << 20)
}

fn limits() -> Limits {
    Limits {
        output_bytes: 1 << 20,
        steps: 20_000,
        text_bytes: 4 << 20,
        ..Limits::default()
    }
}

const METADATA: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";

fn packed() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in [
        ("c/Chart.yaml", METADATA),
        ("c/values.yaml", "a: 1\n"),
        ("c/templates/t.yaml", "a: {{ .Values.a }}\n"),
        (
            "c/charts/d/Chart.yaml",
            "apiVersion: v2\nname: d\nversion: 1.0.0\n",
        ),
        ("c/crds/x.yaml", "kind: X\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, path, content.as_bytes())
            .unwrap();
    }
    gzipped(&builder.into_inner().unwrap())
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn archive(bytes: &[u8]) -> bool {
    load_archive(bytes, &mut Warnings::default())
        .map_err(|error| error.to_string())
        .is_ok()
}

/// The metadata and the values of a chart, parted by a zero byte.
fn chart(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let files = ["Chart.yaml", "values.yaml"].map(|name| {
        let content = parts.next().unwrap_or_default();
        ChartFile::new(name, content.to_vec())
    });
    let loaded = load_files(files.to_vec(), &mut Warnings::default());
    if let Ok(chart) = &loaded {
        let budget = budget();
        let meter = Meter::new(&limits(), &budget);
        let _ = chart.metadata.to_template_value(true, &meter);
        let _ = chart.default_values(&meter);
    }
    loaded.is_ok()
}

fn template(bytes: &[u8]) -> bool {
    let files = vec![
        ChartFile::new("Chart.yaml", METADATA.as_bytes().to_vec()),
        ChartFile::new("values.yaml", b"a: x\n".to_vec()),
        ChartFile::new("files/a.txt", b"text".to_vec()),
        ChartFile::new("templates/t.yaml", bytes.to_vec()),
    ];
    let mut warnings = Warnings::default();
    let Ok(chart) = load_files(files, &mut warnings) else {
        return false;
    };
    let options = ReleaseOptions {
        limits: limits(),
        ..ReleaseOptions::default()
    };
    let values = json!({"self": "{{ tpl .Values.self . }}", "list": [1, "b", null]});
    let mut sources = Sources::new(FixedSource::new(0, 0, 1));
    let values = values.as_object().unwrap();
    let rendered = render(
        chart,
        values,
        &options,
        &mut sources,
        &mut warnings,
        &budget(),
    );
    rendered.map_err(|error| error.to_string()).is_ok()
}

fn values(bytes: &[u8]) -> bool {
    load_values(bytes).is_ok()
}

fn set(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    for set in [
        strvals::set_string,
        strvals::set_literal,
        strvals::set_json,
        strvals::set_json_argument,
    ] {
        let _ = set(&text, &mut Map::new(), &budget());
    }
    strvals::set(&text, &mut Map::new(), &budget()).is_ok()
}

fn schema(bytes: &[u8]) -> bool {
    let Ok(schema) = everflow_json::from_slice(bytes) else {
        return false;
    };
    let budget = budget();
    let meter = Meter::new(&limits(), &budget);
    let Ok(schema) = JsonSchema::new(schema, &meter) else {
        return false;
    };
    let value = json!({"a": 1, "b": ["x", "x", {"a": [1, 2]}], "c": {"a": "xx", "b": {"c": null}}});
    schema.validate(&value, &meter).is_ok()
}

fn index(bytes: &[u8]) -> bool {
    let mut aside = Vec::new();
    let Ok(outline) = read_index(bytes, &mut aside) else {
        return false;
    };
    let mut written = Vec::new();
    outline
        .write(std::io::Cursor::new(aside), &mut written)
        .is_ok()
}

fn release_record() -> Vec<u8> {
    use base64::Engine as _;
    let release = json!({
        "name": "r", "namespace": "n", "version": 1, "manifest": "---\n", "config": {},
        "info": {"status": "deployed", "first_deployed": "2024-01-01T00:00:00Z", "last_deployed": "2024-01-01T00:00:00Z"},
        "chart": {"metadata": {"name": "c", "version": "1.0.0", "apiVersion": "v2"}, "templates": [], "values": {}},
        "hooks": [],
    });
    let packed = gzipped(everflow_json::to_string(&release).unwrap().as_bytes());
    base64::engine::general_purpose::STANDARD
        .encode(packed)
        .into_bytes()
}

fn record(bytes: &[u8]) -> bool {
    release::decode(&String::from_utf8_lossy(bytes)).is_ok()
}

fn manifests(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let _ = split_manifests(&text);
    let budget = budget();
    let meter = Meter::new(&limits(), &budget);
    let files = [("templates/a.yaml", bytes)];
    sort_manifests(files, &mut Warnings::default(), 1_000, &meter).is_ok()
}
