//! Templates of the language alone: the functions of charts are tried by the crate `helm`.

use std::sync::Arc;

use everflow_corpus::hostile::{Reader, texts};
use everflow_gotemplate::{Functions, GoType, Limits, Meter, Numbers, Signature, Templates, Value};
use everflow_limits::{Budget, Stop};

/// All of them.
pub const ALL: &[Reader] = &[Reader::new("template", template, seeds)
    .tokens(TOKENS)
    .cases(600)];

const TOKENS: &[&str] = &[
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "{{/*",
    "*/}}",
    "{{if .a}}",
    "{{range .list}}",
    "{{with .n}}",
    "{{else}}",
    "{{end}}",
    "{{define \"a\"}}",
    "{{template \"a\" .}}",
    "{{block \"b\" .}}",
    "{{break}}",
    "(",
    ")",
    "(len ",
    "(list ",
    "(and ",
    " | ",
    "| len ",
    ".a",
    ".n.x",
    ".x.x",
    "$",
    "$x := ",
    "index ",
    "slice ",
    "printf \"%9999999d\" ",
    "print ",
    "call ",
    "\"",
    "`",
    "'",
    "0x1p",
    "1e9",
];

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "{{define \"a\"}}{{.}}{{end}}{{range $i, $x := .list}}{{if eq $i 1}}{{template \"a\" $x}}{{else}}-{{end}}{{end}}",
        "{{- with .n -}} {{ printf \"%05d %q %v\" 7 \"x\" .x }} {{ index .x 0 }} {{- end }}{{/* c */}}",
        "{{ $v := list 1 2 (list 3 4) }}{{ len $v | printf \"%d\" | print }}{{ slice .a 0 1 }}",
    ])
}

fn template(bytes: &[u8]) -> bool {
    let mut functions = Functions::new();
    let signature = Signature::variadic(&[GoType::Any], GoType::ANY_SLICE);
    functions.add("list", signature, |_, args| {
        Ok(Value::list(args.all().to_vec()))
    });
    let limits = Limits {
        steps: 20_000,
        output_bytes: 1 << 20,
        ..Limits::default()
    };
    let budget = Budget::new(Stop::new(), 8 << 20);
    let meter = Meter::new(&limits, &budget);
    let mut templates = Templates::new("set", Arc::new(functions));
    if templates.parse("main", bytes, &meter).is_err() {
        return false;
    }
    let data =
        everflow_json::json!({"a": "x", "list": [1, "b", null, {"c": 2}], "n": {"x": [true]}});
    let data = Value::from_json(&data, Numbers::Float64, &meter).unwrap();
    let run = |name: &str| {
        let meter = Meter::new(&limits, &budget);
        let done = templates.execute(name, &data, &mut (), &meter);
        done.map_err(|error| error.to_string())
    };
    let names = templates.names();
    let others = names.iter().take(20);
    others.for_each(|name| drop(run(&name.to_str_lossy())));
    run("main").is_ok()
}
