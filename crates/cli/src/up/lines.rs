//! A picture as lines of text.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::inventory::ObjectId;
use everflow_local::picture::{Node, Picture, SKIPPED, State};

/// Whether lines have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// For a terminal.
    Colours,
    /// For files and pipes.
    Plain,
}

impl Paint {
    pub fn wrap(self, state: State, text: &str) -> String {
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
        // The same for all of them: the summary says it once.
        State::Unsupported => String::new(),
        State::Skipped if node.reason == SKIPPED => "--offline".to_owned(),
        State::Skipped if made_elsewhere(node) => {
            "its source is made by an ArtifactGenerator, which is not supported yet".to_owned()
        }
        State::Blocked | State::Waiting if !node.waits_for.is_empty() => {
            format!("waits for {}", node.waits_for.join(", "))
        }
        _ => first.to_owned(),
    }
}

fn made_elsewhere(node: &Node) -> bool {
    let mut names = node.waits_for.iter();
    names.any(|name| name.starts_with("ExternalArtifact/"))
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
            // Objects of Flux have lines of their own.
            let troubled = node.children.iter().filter(|child| {
                child.state != State::Ready && !child.id.group.ends_with("toolkit.fluxcd.io")
            });
            lines.extend(troubled.map(|child| format!("      {}", line(child, paint))));
        }
    }
    lines
}

/// How many of its objects are as they should be.
pub fn counted(node: &Node) -> String {
    let ready = node
        .children
        .iter()
        .filter(|child| {
            !matches!(child.state, State::Failed | State::Blocked) && !child.state.is_moving()
        })
        .count();
    match node.children.len() {
        0 => String::new(),
        all => format!("  ({ready}/{all} objects)"),
    }
}

/// How many objects that wait for others are named.
const NAMED: usize = 20;
/// How many lines of one message are shown.
const LINES: usize = 12;

/// The end of it all: causes first, then what follows from them, then the counts.
pub fn summary(picture: &Picture, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut hints = Vec::new();
    let (causes, waiting) = picture.causes();
    for node in causes {
        let sign = paint.wrap(node.state, sign(node.state));
        lines.push(format!("{sign} {}", node.id.subject()));
        lines.extend(why(node).into_iter().map(|text| format!("    {text}")));
        if let Some(hint) = hint(&node.message)
            && !hints.contains(&hint)
        {
            lines.push(format!("    → {hint}"));
            hints.push(hint);
        }
    }
    lines.extend(waiting.iter().take(NAMED).map(|node| line(node, paint)));
    if waiting.len() > NAMED {
        lines.push(format!("  and {} more that wait", waiting.len() - NAMED));
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.extend(contested(picture));
    lines.extend(left_alone(picture));
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

/// What is deployed twice: all is ready, and will not stay so.
fn contested(picture: &Picture) -> Vec<String> {
    let ready = picture.kustomizations.iter();
    let ready = ready.filter(|node| node.state == State::Ready);
    let mut lines = Vec::new();
    for node in ready {
        let sentences = node.message.split(['\n', ';']);
        let twice = sentences.filter(|text| text.contains(" is applied by Kustomization/"));
        lines.extend(twice.map(|text| format!("⚠ {}: {}", node.id.subject(), text.trim())));
    }
    lines.extend(untold(picture, &lines));
    lines
}

/// What is deployed twice, and no Kustomization has noticed yet.
fn untold(picture: &Picture, told: &[String]) -> Vec<String> {
    let mut owners: BTreeMap<&ObjectId, &Node> = BTreeMap::new();
    let mut lines = Vec::new();
    for node in &picture.kustomizations {
        for child in &node.children {
            let Some(other) = owners.insert(&child.id, node) else {
                continue;
            };
            let object = child.id.subject();
            let known = format!(": {object} is applied by ");
            if !told.iter().any(|line| line.contains(&known)) {
                let (one, two) = (node.id.subject(), other.id.subject());
                lines.push(format!(
                    "⚠ {one}{known}{two} too: take it out of one of the two"
                ));
            }
        }
    }
    lines
}

/// What nobody took care of, each message once.
fn left_alone(picture: &Picture) -> Vec<String> {
    let left = picture.all().filter(|node| {
        node.state == State::Unsupported || (node.state == State::Skipped && node.reason == SKIPPED)
    });
    let messages: BTreeSet<&str> = left.map(|node| node.message.as_str()).collect();
    let messages = messages.into_iter().filter(|message| !message.is_empty());
    messages.map(str::to_owned).collect()
}

/// Why something is not as it should be.
fn why(node: &Node) -> Vec<String> {
    let message = node.message.trim();
    let mut lines = match (node.reason.as_str(), message) {
        ("", "") => vec!["no attempt has ended yet".to_owned()],
        (reason, message) => {
            let mut folded = folded(message);
            if let Some(first) = folded.first_mut() {
                *first = format!("{reason}: {first}");
            }
            if folded.len() > LINES {
                let more = folded.len() - LINES;
                folded.truncate(LINES);
                folded.push(format!("and {more} more lines; -o json has them all"));
            }
            folded
        }
    };
    if node.state.is_moving() {
        let open = node.children.iter().filter(|it| it.state != State::Ready);
        lines.extend(open.take(LINES).map(|child| line(child, Paint::Plain)));
    }
    lines
}

/// The lines of a message, those about several objects that say the same only once.
fn folded(message: &str) -> Vec<String> {
    let mut lines: Vec<(&str, &str, usize)> = Vec::new();
    for line in message.lines() {
        let (subject, rest) = match line.split_once(' ') {
            Some((subject, rest)) if subject.contains('/') => (subject, rest),
            _ => ("", line),
        };
        let kind = |subject: &str| subject.split('/').next().unwrap_or_default().to_owned();
        let same = lines.iter_mut().find(|(known, text, _)| {
            !subject.is_empty() && *text == rest && kind(known) == kind(subject)
        });
        match same {
            Some((_, _, more)) => *more += 1,
            None => lines.push((subject, rest, 0)),
        }
    }
    let told = |(subject, rest, more): (&str, &str, usize)| match (subject, more) {
        ("", _) => rest.to_owned(),
        (subject, 0) => format!("{subject} {rest}"),
        (subject, more) => format!("{subject} and {more} more {rest}"),
    };
    lines.into_iter().map(told).collect()
}

/// What a person at this program can do about it.
fn hint(message: &str) -> Option<&'static str> {
    let has = |text: &str| message.contains(text);
    if has("not served any more, write") {
        Some("--assume-crds takes former versions for those of today")
    } else if has("no matches for kind") {
        Some("--crds DIR adds definitions, --assume-crds accepts the kind without one")
    } else if has("substitute from '") && has("not found") {
        Some("--with FILE gives the cluster what others make, --placeholders goes on without it")
    } else if has("sops") && (has("decrypt") || has("not found")) {
        Some("--age-key FILE decrypts, --placeholders goes on without the key")
    } else if has("KubeConfig") && has("not found") {
        Some("--with FILE gives the cluster what others make")
    } else if has("secrets \"") && has("not found") {
        Some("--with FILE gives the cluster what others make, --placeholders goes on without it")
    } else if has("namespaces \"") && has("not found") {
        Some("--create-namespaces creates those that the repository uses and does not define")
    } else if has("not configured on this cluster") || has("not configured for dual-stack") {
        Some("the cluster here has IPv4 only; one with both would take it")
    } else if has("spec.minReplicas: Invalid value: 0") {
        Some("for clusters with that feature gate: --feature-gates HPAScaleToZero=true")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
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
                "⊘ Kustomization/flux-system/apps  blocked: waits for Kustomization/flux-system/infra",
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

    #[test]
    fn what_holds_for_many_is_said_once() {
        let mut release = node(
            "web",
            State::Unsupported,
            "HelmReleases are not supported yet",
        );
        release.id.kind = "HelmRelease".into();
        let mut contested = node("ok", State::Ready, "");
        contested.message =
            "Applied revision: r; ConfigMap/n/a is applied by Kustomization/n/b too: take it out"
                .into();
        let picture = Picture {
            kustomizations: vec![contested],
            others: vec![release.clone(), release.clone()],
            ..Picture::default()
        };
        assert_eq!(
            line(&release, Paint::Plain),
            "⊝ HelmRelease/flux-system/web  not supported yet"
        );
        assert_eq!(
            summary(&picture, Paint::Plain),
            [
                "⚠ Kustomization/flux-system/ok: ConfigMap/n/a is applied by Kustomization/n/b too: take it out",
                "HelmReleases are not supported yet",
                "1 ready, 2 not supported yet; 0 objects deployed",
            ]
        );
    }

    #[test]
    fn what_is_deployed_twice_is_seen_in_the_inventories() {
        let mut shared = node("settings", State::Ready, "");
        shared.id.kind = "ConfigMap".into();
        let mut one = node("one", State::Ready, "");
        one.children = vec![shared.clone()];
        let mut two = node("two", State::Ready, "");
        two.children = vec![shared];
        let picture = Picture {
            kustomizations: vec![one, two],
            ..Picture::default()
        };
        assert_eq!(
            summary(&picture, Paint::Plain)[0],
            "⚠ Kustomization/flux-system/two: ConfigMap/flux-system/settings is applied by Kustomization/flux-system/one too: take it out of one of the two"
        );
    }

    #[test]
    fn the_same_of_many_objects_is_said_once() {
        let message = "A/n/one dry-run failed: no\nA/n/two dry-run failed: no\nB/n/x dry-run failed: no\nlast words";
        assert_eq!(
            folded(message),
            [
                "A/n/one and 1 more dry-run failed: no",
                "B/n/x dry-run failed: no",
                "last words",
            ]
        );
    }
}
