//! A picture as lines of text.

use everflow_local::picture::{Node, Picture, State};

/// Whether lines have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// For a terminal.
    Colours,
    /// For files and pipes.
    Plain,
}

impl Paint {
    fn wrap(self, state: State, text: &str) -> String {
        let code = match state {
            State::Ready => "32",
            State::Failed => "31",
            State::Blocked | State::Waiting => "33",
            State::Progressing => "36",
            State::Skipped | State::Unsupported | State::Suspended => "90",
        };
        match self {
            Paint::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
            Paint::Plain => text.to_owned(),
        }
    }
}

/// The sign of a state, as Flux's program has them.
pub fn sign(state: State) -> &'static str {
    match state {
        State::Ready => "✔",
        State::Failed => "✗",
        State::Blocked => "⊘",
        State::Waiting => "◌",
        State::Progressing => "◎",
        State::Skipped => "⊝",
        State::Unsupported => "⊝",
        State::Suspended => "⏸",
    }
}

/// One object on one line.
pub fn line(node: &Node, paint: Paint) -> String {
    let sign = paint.wrap(node.state, sign(node.state));
    let what = node.id.subject();
    let how = paint.wrap(node.state, node.state.word());
    match remark(node) {
        remark if remark.is_empty() => format!("{sign} {what}  {how}"),
        remark => format!("{sign} {what}  {how}: {remark}"),
    }
}

/// Why it stands so, on one line.
fn remark(node: &Node) -> String {
    let first = node.message.lines().next().unwrap_or_default();
    match node.state {
        State::Ready if node.revision.is_empty() => String::new(),
        State::Ready => short(&node.revision),
        State::Blocked | State::Waiting if !node.waits_for.is_empty() => {
            format!("waits for {}", node.waits_for.join(", "))
        }
        _ => first.to_owned(),
    }
}

/// A revision with the first twelve digits of its hash.
fn short(revision: &str) -> String {
    match revision.rsplit_once(':') {
        Some((head, hash)) if hash.len() > 12 && hash.is_ascii() => {
            format!("{head}:{}", &hash[..12])
        }
        _ => revision.to_owned(),
    }
}

/// The whole tree. Objects that are as they should be are counted; the others are named.
pub fn tree(picture: &Picture, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for (title, nodes) in [
        ("Sources", &picture.sources),
        ("Kustomizations", &picture.kustomizations),
        ("Others", &picture.others),
    ] {
        if nodes.is_empty() {
            continue;
        }
        lines.push(title.to_owned());
        for node in nodes {
            lines.push(format!("  {}{}", line(node, paint), counted(node)));
            let troubled = node
                .children
                .iter()
                .filter(|child| child.state != State::Ready);
            lines.extend(troubled.map(|child| format!("      {}", line(child, paint))));
        }
    }
    lines
}

fn counted(node: &Node) -> String {
    let ready = node
        .children
        .iter()
        .filter(|child| child.state == State::Ready)
        .count();
    match node.children.len() {
        0 => String::new(),
        all => format!("  ({ready}/{all} objects)"),
    }
}

/// The end of it all: causes first, then what follows from them, then the counts.
pub fn summary(picture: &Picture, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for node in picture.troubles() {
        let sign = paint.wrap(node.state, sign(node.state));
        lines.push(format!("{sign} {}", node.id.subject()));
        lines.extend(why(node).into_iter().map(|text| format!("    {text}")));
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    let counts = picture.counts().into_iter().rev();
    let counts: Vec<String> = counts
        .map(|(state, count)| paint.wrap(state, &format!("{count} {}", state.word())))
        .collect();
    let objects: usize = picture
        .kustomizations
        .iter()
        .map(|node| node.children.len())
        .sum();
    lines.push(format!("{}; {objects} objects deployed", counts.join(", ")));
    lines
}

/// Why something is not as it should be.
fn why(node: &Node) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if !node.waits_for.is_empty() {
        lines.push(format!("waits for {}", node.waits_for.join(", ")));
    }
    let message = node.message.trim();
    match (node.reason.as_str(), message) {
        ("", "") => lines.push("no attempt has ended yet".to_owned()),
        (reason, message) => {
            let mut parts = message.lines();
            lines.push(format!("{reason}: {}", parts.next().unwrap_or_default()));
            lines.extend(parts.map(str::to_owned));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use everflow_api::inventory::ObjectId;

    use super::*;

    fn node(name: &str, state: State, message: &str) -> Node {
        Node {
            id: ObjectId {
                namespace: "flux-system".into(),
                name: name.into(),
                group: "kustomize.toolkit.fluxcd.io".into(),
                kind: "Kustomization".into(),
            },
            state,
            reason: "BuildFailed".into(),
            message: message.into(),
            revision: "main@sha1:0123456789abcdef".into(),
            waits_for: Vec::new(),
            children: Vec::new(),
        }
    }

    #[test]
    fn causes_come_first() {
        let mut blocked = node("apps", State::Blocked, "");
        blocked.waits_for = vec!["Kustomization/flux-system/infra".into()];
        let picture = Picture {
            kustomizations: vec![
                blocked,
                node("infra", State::Failed, "no such file\nmore"),
                node("ok", State::Ready, ""),
            ],
            ..Picture::default()
        };
        let lines = summary(&picture, Paint::Plain);
        assert_eq!(
            lines,
            [
                "✗ Kustomization/flux-system/infra",
                "    BuildFailed: no such file",
                "    more",
                "⊘ Kustomization/flux-system/apps",
                "    waits for Kustomization/flux-system/infra",
                "    BuildFailed: ",
                "",
                "1 ready, 1 blocked, 1 failed; 0 objects deployed",
            ]
        );
        let drawn = tree(&picture, Paint::Plain);
        assert_eq!(
            drawn[3],
            "  ✔ Kustomization/flux-system/ok  ready: main@sha1:0123456789ab"
        );
    }
}
