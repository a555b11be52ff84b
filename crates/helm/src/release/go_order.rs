//! Records as Go prints them: the fields of structs in the order of their declaration.
//!
//! Digests are taken of such texts, and a record written so is the record that helm writes.

use everflow_json::{Map, Value};
use everflow_yaml::gojson::{HtmlEscape, to_string, write_escaped};

use super::{HookRecord, Info, Release};
use crate::chart::fields::{DEPENDENCY, MAINTAINER, METADATA};

/// The fields of a record, in Go's order.
const RELEASE: [&str; 9] = [
    "name",
    "info",
    "chart",
    "config",
    "manifest",
    "hooks",
    "version",
    "namespace",
    "apply_method",
];
const INFO: [&str; 8] = [
    "first_deployed",
    "last_deployed",
    "deleted",
    "description",
    "status",
    "rollback_revision",
    "notes",
    "resources",
];
const CHART: [&str; 8] = [
    "metadata",
    "lock",
    "templates",
    "values",
    "schema",
    "schemamodtime",
    "files",
    "modtime",
];
const FILE: [&str; 3] = ["name", "data", "modtime"];
const LOCK: [&str; 3] = ["generated", "digest", "dependencies"];
const HOOK: [&str; 9] = [
    "name",
    "kind",
    "path",
    "manifest",
    "events",
    "last_run",
    "weight",
    "delete_policies",
    "output_log_policies",
];
const LAST_RUN: [&str; 3] = ["started_at", "completed_at", "phase"];

/// What a field holds, as far as it matters for the order in it.
enum Shape {
    /// Sorted keys all the way down.
    Plain,
    /// A struct, with the shapes of its fields.
    Struct(&'static [&'static str], fn(&str) -> Shape),
    /// A list of structs.
    List(&'static [&'static str], fn(&str) -> Shape),
}

fn plain(_: &str) -> Shape {
    Shape::Plain
}

fn of_release(field: &str) -> Shape {
    match field {
        "info" => Shape::Struct(&INFO, plain),
        "chart" => Shape::Struct(&CHART, of_chart),
        "hooks" => Shape::List(&HOOK, of_hook),
        _ => Shape::Plain,
    }
}

fn of_chart(field: &str) -> Shape {
    match field {
        "metadata" => Shape::Struct(&METADATA, of_metadata),
        "lock" => Shape::Struct(&LOCK, of_metadata),
        "templates" | "files" => Shape::List(&FILE, plain),
        _ => Shape::Plain,
    }
}

fn of_metadata(field: &str) -> Shape {
    match field {
        "maintainers" => Shape::List(&MAINTAINER, plain),
        "dependencies" => Shape::List(&DEPENDENCY, plain),
        _ => Shape::Plain,
    }
}

fn of_hook(field: &str) -> Shape {
    match field {
        "last_run" => Shape::Struct(&LAST_RUN, plain),
        _ => Shape::Plain,
    }
}

/// The text of a whole record. Fields that Go does not know come last.
pub fn release_text(release: &Release) -> String {
    let mut out = String::new();
    push(
        &mut out,
        &release.to_json(),
        &Shape::Struct(&RELEASE, of_release),
        true,
    );
    out
}

/// The text of `info` without what Go does not know.
pub fn info_text(info: &Info) -> String {
    known(&info.to_json(), &Shape::Struct(&INFO, plain))
}

/// The text of `chart.metadata` without what Go does not know.
pub fn metadata_text(metadata: &Value) -> String {
    match metadata {
        Value::Object(_) => known(metadata, &Shape::Struct(&METADATA, of_metadata)),
        _ => "{}".to_owned(),
    }
}

/// The text of a hook.
pub fn hook_text(hook: &HookRecord) -> String {
    known(&hook.to_json(), &Shape::Struct(&HOOK, of_hook))
}

fn known(value: &Value, shape: &Shape) -> String {
    let mut out = String::new();
    push(&mut out, value, shape, false);
    out
}

fn push(out: &mut String, value: &Value, shape: &Shape, unknown: bool) {
    match (shape, value) {
        (Shape::Struct(fields, of), Value::Object(map)) => push_map(out, map, fields, *of, unknown),
        (Shape::List(fields, of), Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push(out, item, &Shape::Struct(fields, *of), unknown);
            }
            out.push(']');
        }
        _ => out.push_str(&to_string(value)),
    }
}

fn push_map(out: &mut String, map: &Map, fields: &[&str], of: fn(&str) -> Shape, unknown: bool) {
    let others = map
        .keys()
        .map(|key| key.as_str())
        .filter(|key| unknown && !fields.contains(key));
    out.push('{');
    let start = out.len();
    for field in fields.iter().copied().chain(others) {
        let Some(value) = map.get(field) else {
            continue;
        };
        if out.len() > start {
            out.push(',');
        }
        write_escaped(out, field, HtmlEscape::On);
        out.push(':');
        push(out, value, &of(field), unknown);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn fields_come_in_the_order_of_the_structs_and_unknown_ones_last() {
        let record = json!({
            "version": 1, "name": "web", "zzz": 1, "future": {"b": 1, "a": 2},
            "info": {"status": "deployed", "first_deployed": "t", "other": 1},
            "chart": {
                "files": [{"data": "eA==", "name": "x"}],
                "metadata": {"type": "application", "name": "web", "maintainers": [{"url": "u", "name": "n"}]},
            },
            "config": {"b": "<&>", "a": 1.0},
            "hooks": [{"weight": 1, "name": "h", "last_run": {"phase": "", "started_at": "s"}}],
        });
        let release = Release::from_json(record).unwrap();
        assert_eq!(
            release_text(&release),
            "{\"name\":\"web\",\"info\":{\"first_deployed\":\"t\",\"status\":\"deployed\",\"other\":1},\
             \"chart\":{\"metadata\":{\"name\":\"web\",\"maintainers\":[{\"name\":\"n\",\"url\":\"u\"}],\
             \"type\":\"application\"},\"files\":[{\"name\":\"x\",\"data\":\"eA==\"}]},\
             \"config\":{\"a\":1,\"b\":\"\\u003c\\u0026\\u003e\"},\"hooks\":[{\"name\":\"h\",\
             \"last_run\":{\"started_at\":\"s\",\"phase\":\"\"},\"weight\":1}],\"version\":1,\
             \"future\":{\"a\":2,\"b\":1},\"zzz\":1}"
        );
        assert_eq!(
            info_text(&release.info),
            "{\"first_deployed\":\"t\",\"status\":\"deployed\"}"
        );
    }
}
