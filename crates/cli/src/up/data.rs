//! The outcome for other programs.

use everflow_json::{Value, json};
use everflow_local::picture::{Node, Picture, State};

use super::repository::Opened;

/// The outcome as data.
pub fn data(picture: &Picture, opened: &Opened) -> Value {
    let nodes = |nodes: &[Node]| nodes.iter().map(node).collect::<Vec<_>>();
    let missing: Vec<Value> = opened
        .missing
        .iter()
        .map(|missing| {
            json!({
                "group": missing.group,
                "kind": missing.kind,
                "versions": missing.versions,
                "neededBy": missing.users,
            })
        })
        .collect();
    let former: Vec<Value> = opened
        .former
        .iter()
        .map(|former| {
            json!({
                "apiVersion": former.api_version,
                "kind": former.kind,
                "instead": former.instead,
                "usedBy": former.users,
            })
        })
        .collect();
    let left_out: Vec<Value> = opened
        .left_out
        .iter()
        .map(|remote| json!({ "address": remote.address, "file": remote.file }))
        .collect();
    json!({
        "ready": picture.is_ready(),
        "leftOut": left_out,
        "formerVersions": former,
        "sources": nodes(&picture.sources),
        "kustomizations": nodes(&picture.kustomizations),
        "helmReleases": nodes(&picture.releases),
        "others": nodes(&picture.others),
        "missingKinds": missing,
    })
}

fn node(node: &Node) -> Value {
    let mut value = json!({
        "kind": node.id.kind,
        "namespace": node.id.namespace,
        "name": node.id.name,
        "state": node.state.word(),
        "reason": node.reason,
        "message": node.message,
    });
    if !node.revision.is_empty() {
        value["revision"] = json!(node.revision);
    }
    if !node.waits_for.is_empty() {
        value["waitsFor"] = json!(node.waits_for);
    }
    if !node.children.is_empty() {
        value["objects"] = node.children.iter().map(self::node).collect();
    }
    value
}

/// The outcome as JUnit's XML, one test for each object of Flux.
pub fn junit(picture: &Picture, seconds: f64) -> String {
    let nodes: Vec<&Node> = picture.all().collect();
    let count = |wanted: fn(State) -> bool| nodes.iter().filter(|node| wanted(node.state)).count();
    let failures = count(is_failure);
    let skipped = count(is_left_out);
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"everflow\" tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n",
        nodes.len()
    );
    for node in nodes {
        let class = escaped(&format!("{}.{}", node.id.kind, node.id.namespace));
        let name = escaped(&node.id.name);
        xml += &format!("  <testcase classname=\"{class}\" name=\"{name}\"");
        let message = escaped(&node.message);
        xml += &match node.state {
            state if is_failure(state) => format!(
                ">\n    <failure type=\"{}\" message=\"{}\">{message}</failure>\n  </testcase>\n",
                escaped(&node.reason),
                escaped(node.message.lines().next().unwrap_or_default())
            ),
            state if is_left_out(state) => {
                format!(">\n    <skipped message=\"{message}\"/>\n  </testcase>\n")
            }
            _ => "/>\n".to_owned(),
        };
    }
    xml + "</testsuite>\n"
}

fn is_failure(state: State) -> bool {
    matches!(state, State::Failed | State::Blocked) || state.is_moving()
}

fn is_left_out(state: State) -> bool {
    matches!(
        state,
        State::Skipped | State::Unsupported | State::Suspended
    )
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
    }
    out
}
