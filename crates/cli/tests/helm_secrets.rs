//! Secrets in values do not reach what is printed when a render fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::process::Command;

const SECRET: &str = "hunter2-correct-horse-battery-staple";

/// Renders a chart of one template and gives standard output and error of the failed run.
fn failure(name: &str, template: &str, extra: &[(&str, &str)], arguments: &[&str]) -> String {
    let root: PathBuf =
        std::env::temp_dir().join(format!("everflow-secrets-{}-{name}", std::process::id()));
    let mut files = vec![
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        (
            "values.yaml",
            "password: unset\nnested: {password: unset}\n",
        ),
        ("templates/a.yaml", template),
    ];
    files.extend(extra);
    for (file, text) in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let values = root.join("secret-values.yaml");
    std::fs::write(
        &values,
        format!("password: {SECRET}\nnested: {{password: {SECRET}}}\n"),
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_everflow"))
        .args(["helm", "template", "rel"])
        .arg(&root)
        .arg("--values")
        .arg(&values)
        .args(arguments)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    assert!(!output.status.success(), "{name} should fail");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn failed_renders_do_not_print_values() {
    let templates = [
        ("field", "{{ .Values.password.inner }}"),
        ("call", "{{ .Values.nested | b64enc }}"),
        ("index", "{{ index .Values.nested \"password\" \"x\" }}"),
        (
            "include",
            "{{ define \"t\" }}{{ .x.y }}{{ end }}{{ include \"t\" .Values }}",
        ),
        (
            "required",
            "{{ required \"a name is needed\" .Values.missing }}",
        ),
        ("compare", "{{ lt .Values.password 3 }}"),
        (
            "yaml",
            "kind: Secret\npassword: {{ .Values.password }}\n bad: - x\n",
        ),
        (
            "json",
            "kind: Secret\nmetadata:\n  annotations:\n    a: [{{ .Values.password }}]\n",
        ),
        ("release", "{{ .Release.Name.x }}{{ .Values.password }}"),
    ];
    for (name, template) in templates {
        let text = failure(name, template, &[], &[]);
        assert!(!text.contains(SECRET), "{name}: {text}");
    }
}

#[test]
fn broken_schemas_and_values_do_not_print_values() {
    let schema = "{\"properties\": {\"nested\": {\"type\": \"string\"}, \
                  \"password\": {\"type\": \"integer\"}}}";
    let text = failure("schema", "a: b\n", &[("values.schema.json", schema)], &[]);
    assert!(text.contains("got string, want integer"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    let schema = "{\"properties\": {\"password\": {\"pattern\": \"^x+$\"}}}";
    let text = failure("pattern", "a: b\n", &[("values.schema.json", schema)], &[]);
    assert!(text.contains("'(hidden)' does not match pattern"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    let broken = format!("password: {SECRET}\n  bad: [\n");
    let text = failure(
        "values",
        "a: b\n",
        &[("more.yaml", &broken)],
        &["--values", "/nonexistent/more.yaml"],
    );
    assert!(!text.contains(SECRET), "{text}");
}
