//! What is shown of an object.

use everflow_dispatch::{LAST_DELIVERY, LAST_ERROR};
use everflow_json::Value;
use everflow_runtime::client::annotation;

use super::kinds::{Columns, Kind};

/// How many characters of a hash are shown.
const SHOWN_HASH: usize = 8;

/// How a row begins.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub with_namespace: bool,
    /// `gitrepository/fleet` instead of `fleet`.
    pub with_kind: bool,
    pub with_source: bool,
}

/// The header of a kind.
pub fn header(kind: &Kind, shape: Shape) -> Vec<&'static str> {
    let mut header = Vec::new();
    if shape.with_namespace {
        header.push("NAMESPACE");
    }
    header.push("NAME");
    if shape.with_source && has_source(kind) {
        header.push("SOURCE");
    }
    match kind.columns {
        Columns::Artifact | Columns::Applied | Columns::Released => {
            header.extend(["REVISION", "SUSPENDED"]);
        }
        Columns::Scanned => header.extend(["LAST SCAN", "SUSPENDED"]),
        Columns::Ran => header.extend(["LAST RUN", "SUSPENDED"]),
        Columns::Picked => header.extend(["IMAGE", "TAG"]),
        Columns::Plain => header.push("SUSPENDED"),
        Columns::Bare => {}
    }
    header.extend(["READY", "MESSAGE"]);
    header
}

/// The row of an object.
pub fn cells(kind: &Kind, object: &Value, shape: Shape) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    let mut cells = Vec::new();
    if shape.with_namespace {
        cells.push(text(&meta["namespace"]));
    }
    let name = text(&meta["name"]);
    cells.push(match shape.with_kind {
        true => format!("{}/{name}", kind.name().to_lowercase()),
        false => name,
    });
    if shape.with_source && has_source(kind) {
        cells.push(source(kind, object));
    }
    match kind.columns {
        Columns::Artifact | Columns::Applied | Columns::Released => {
            cells.push(shorten_hashes(&revision(kind, object)));
            cells.push(suspended(object));
        }
        Columns::Scanned => {
            cells.push(text(&object["status"]["lastScanResult"]["scanTime"]));
            cells.push(suspended(object));
        }
        Columns::Ran => {
            cells.push(text(&object["status"]["lastAutomationRunTime"]));
            cells.push(suspended(object));
        }
        Columns::Picked => {
            let latest = &object["status"]["latestRef"];
            cells.extend([text(&latest["name"]), text(&latest["tag"])]);
        }
        Columns::Plain => cells.push(suspended(object)),
        Columns::Bare => {}
    }
    let (ready, message) = readiness(kind, object);
    cells.push(ready);
    cells.push(shorten_hashes(&message));
    cells
}

fn has_source(kind: &Kind) -> bool {
    matches!(
        kind.columns,
        Columns::Applied | Columns::Released | Columns::Artifact
    )
}

fn suspended(object: &Value) -> String {
    match object["spec"]["suspend"] == true {
        true => "True".to_owned(),
        false => "False".to_owned(),
    }
}

/// The revision that an object stands at.
pub fn revision(kind: &Kind, object: &Value) -> String {
    let status = &object["status"];
    let value = match kind.columns {
        Columns::Artifact => &status["artifact"]["revision"],
        Columns::Applied => &status["lastAppliedRevision"],
        Columns::Released => match &status["history"][0]["chartVersion"] {
            Value::Null => &status["lastAttemptedRevision"],
            version => version,
        },
        Columns::Scanned | Columns::Picked | Columns::Ran | Columns::Plain | Columns::Bare => {
            &Value::Null
        }
    };
    value.as_str().unwrap_or_default().to_owned()
}

/// A condition of an object.
pub fn condition<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == name)
}

/// Kinds without a controller of their own are ready as they are.
pub fn is_static(kind: &Kind, object: &Value) -> bool {
    match kind.name() {
        "Alert" | "Provider" => true,
        "HelmRepository" => object["spec"]["type"] == "oci",
        _ => false,
    }
}

fn readiness(kind: &Kind, object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(ready) = condition(object, "Ready") {
        return (text(&ready["status"]), text(&ready["message"]));
    }
    if is_static(kind, object) {
        let name = match kind.name() {
            "HelmRepository" => "Helm repository",
            name => name,
        };
        let told = delivery(object).unwrap_or_else(|| format!("{name} is Ready"));
        return ("True".to_owned(), told);
    }
    ("False".to_owned(), "waiting to be reconciled".to_owned())
}

/// What became of the notifications of an Alert, where that is known.
fn delivery(object: &Value) -> Option<String> {
    let delivered = annotation(object, LAST_DELIVERY);
    let delivered = delivered.map(|moment| format!("last delivery {moment}"));
    let failed = annotation(object, LAST_ERROR).map(|error| format!("last error {error}"));
    let told: Vec<String> = delivered.into_iter().chain(failed).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn source(kind: &Kind, object: &Value) -> String {
    let spec = &object["spec"];
    let reference = match kind.name() {
        "Kustomization" | "HelmChart" => &spec["sourceRef"],
        "HelmRelease" => match &spec["chartRef"] {
            Value::Null => &spec["chart"]["spec"]["sourceRef"],
            reference => reference,
        },
        _ => return spec["url"].as_str().unwrap_or_default().to_owned(),
    };
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let namespace = match text("namespace") {
        "" => object["metadata"]["namespace"].as_str().unwrap_or_default(),
        namespace => namespace,
    };
    format!("{}/{namespace}/{}", text("kind"), text("name"))
}

/// Long hashes by their first characters.
pub fn shorten_hashes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let length = rest
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        let shown = if length >= 32 { SHOWN_HASH } else { length };
        out.push_str(&rest[..shown]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_shortened_and_nothing_else() {
        assert_eq!(
            shorten_hashes("main@sha1:33f6f4172e6750286597b4740387695183024b25 of cafe"),
            "main@sha1:33f6f417 of cafe"
        );
        assert_eq!(shorten_hashes("1.0.0"), "1.0.0");
        assert_eq!(shorten_hashes(""), "");
    }
}
