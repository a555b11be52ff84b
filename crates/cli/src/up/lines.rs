//! A picture as lines of text.

use std::collections::BTreeSet;

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
    let first = headline(&node.message);
    match node.state {
        State::Ready if node.revision.is_empty() => String::new(),
        State::Ready => short(&node.revision),
        // The same for all of them: the summary says it once.
        State::Unsupported => String::new(),
        State::Skipped if node.reason == SKIPPED => "--offline".to_owned(),
        State::Skipped if made_elsewhere(node) => {
            "its source is made by an ArtifactGenerator, which is not supported yet".to_owned()
        }
        State::Skipped if !node.waits_for.is_empty() => {
            format!("needs {}", node.waits_for.join(", "))
        }
        State::Blocked | State::Waiting if !node.waits_for.is_empty() => {
            format!("waits for {}", node.waits_for.join(", "))
        }
        _ => first,
    }
}

/// The first line of a message, and the last where the first only leads to something.
pub fn headline(message: &str) -> String {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    match lines.next_back() {
        Some(last) if first.ends_with(['`', ':']) => format!("{first}…{last}"),
        // Where a template fails comes first, what it fails with last.
        Some(last) if ends_with_place(first) => format!("{first}: {}", last.trim()),
        _ => first.to_owned(),
    }
}

/// Whether a text ends with `FILE:LINE:COLUMN`.
fn ends_with_place(text: &str) -> bool {
    let mut parts = text.rsplitn(3, ':');
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
    is_number(parts.next()) && is_number(parts.next())
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
        ("HelmReleases", &picture.releases),
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

/// How many objects that wait for others, or fail as others do, are named.
const NAMED: usize = 20;
/// So many that fail as others do are worth a line of their own.
const ALIKE: usize = 3;
/// How many reasons are shown why something was left out.
const LEFT: usize = 10;
/// How many lines of one message are shown.
const LINES: usize = 12;

/// The end of it all: causes first, then what follows from them, then the counts.
pub fn summary(picture: &Picture, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut hints = Vec::new();
    let (causes, waiting) = picture.causes();
    let (causes, alike) = apart(causes);
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
    for state in [State::Failed, State::Blocked] {
        let alike = alike.iter().filter(|node| node.state == state);
        lines.extend(as_others(&alike.copied().collect::<Vec<_>>(), paint));
    }
    lines.extend(waiting.iter().take(NAMED).map(|node| line(node, paint)));
    if waiting.len() > NAMED {
        lines.push(format!("  and {} more that wait", waiting.len() - NAMED));
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.extend(super::contested::lines(picture));
    lines.extend(left_alone(picture));
    let counts = picture.counts().into_iter().rev();
    let counts: Vec<String> = counts
        .map(|(state, count)| paint.wrap(state, &format!("{count} {}", state.word())))
        .collect();
    let objects: usize = picture.deploying().map(|node| node.children.len()).sum();
    lines.push(format!("{}; {objects} objects deployed", counts.join(", ")));
    lines
}

/// Those to be shown in full, and those that fail for reasons which these show already.
fn apart(causes: Vec<&Node>) -> (Vec<&Node>, Vec<&Node>) {
    let mut shown: BTreeSet<String> = BTreeSet::new();
    let (alike, full): (Vec<&Node>, Vec<&Node>) = causes.iter().partition(|node| {
        let reasons: Vec<String> = node.message.lines().map(reason).collect();
        let known = reasons.iter().all(|reason| shown.contains(reason));
        shown.extend(reasons);
        known && matches!(node.state, State::Failed | State::Blocked)
    });
    match alike.len() < ALIKE {
        true => (causes, Vec::new()),
        false => (full, alike),
    }
}

/// A line of a message without what is different for each object: names and places.
fn reason(line: &str) -> String {
    let Some((subject, rest)) = line
        .split_once(' ')
        .filter(|(first, _)| first.contains('/'))
    else {
        return line.to_owned();
    };
    let kind = subject.split('/').next().unwrap_or_default();
    let name = subject.trim_end_matches(':').rsplit('/').next();
    let rest = rest.replace(&format!("\"{}\"", name.unwrap_or_default()), "\"\"");
    match rest.strip_prefix("is in ") {
        Some(place) => {
            let remedy = place.split_once(": ").map_or("", |(_, remedy)| remedy);
            format!("{kind} is there: {remedy}")
        }
        None => format!("{kind} {rest}"),
    }
}

fn as_others(alike: &[&Node], paint: Paint) -> Option<String> {
    let first = alike.first()?;
    let sign = paint.wrap(first.state, sign(first.state));
    let names: Vec<String> = alike.iter().take(NAMED).map(|it| it.id.subject()).collect();
    let more = match alike.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{sign} for the same reasons as above: {}{more}",
        names.join(", ")
    ))
}

/// What nobody took care of, each message once.
fn left_alone(picture: &Picture) -> Vec<String> {
    let left = picture.all().filter(|node| {
        node.state == State::Unsupported || (node.state == State::Skipped && node.reason == SKIPPED)
    });
    let messages: BTreeSet<&str> = left.map(|node| node.message.as_str()).collect();
    let messages = messages.into_iter().filter(|message| !message.is_empty());
    let mut messages: Vec<String> = messages.map(str::to_owned).collect();
    if messages.len() > LEFT {
        let more = messages.len() - LEFT;
        messages.truncate(LEFT);
        messages.push(format!(
            "and {more} more that were left out; -o json has them all"
        ));
    }
    messages
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
        (subject, more) => match subject.strip_suffix(':') {
            Some(subject) => format!("{subject} and {more} more: {rest}"),
            None => format!("{subject} and {more} more {rest}"),
        },
    };
    lines.into_iter().map(told).collect()
}

/// What a person at this program can do about it.
fn hint(message: &str) -> Option<&'static str> {
    let has = |text: &str| message.contains(text);
    if has("not served any more, write") {
        Some("--assume-crds takes former versions for those of today")
    } else if has("no such host") || has("connection refused") {
        Some(
            "--offline takes what was fetched before and skips the rest, --source NAME=DIR takes a directory",
        )
    } else if has("invalid chart reference") {
        Some("spec.chart.spec.chart is a path from the root of the repository")
    } else if has("no matches for kind") {
        Some("--crds DIR adds definitions, --assume-crds accepts the kind without one")
    } else if (has("substitute from '") || has("chart values reference")) && has("not found") {
        Some("--with FILE gives the cluster what others make, --placeholders goes on without it")
    } else if has("configuring decryption is required") {
        // Only the Kustomization itself can say so.
        None
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
    } else if has("failed to allocate IP") && has("is not in the valid range") {
        Some("the Services of the cluster here have the addresses that the message names")
    } else if has("variable not set (strict mode)") {
        Some(
            "for Flux before 2.9, or with that feature gate: --feature-gates StrictPostBuildSubstitutions=false",
        )
    } else if has("failed for release") && (has(".yaml:") || has("schema(s)")) {
        Some(
            "everflow build helmrelease NAME --path DIR renders it alone, with the values that it gets",
        )
    } else if has("spec.minReplicas: Invalid value: 0") {
        Some("for clusters with that feature gate: --feature-gates HPAScaleToZero=true")
    } else {
        None
    }
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
    fn causes_are_printed_first() {
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
    fn notice_about_many_objects_is_printed_once() {
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
    fn identical_message_of_many_objects_is_printed_once() {
        let message = "A/n/one dry-run failed: no\nA/n/two dry-run failed: no\nB/n/x dry-run failed: no\nA/n/one: mend it\nA/n/two: mend it\nlast words";
        assert_eq!(
            folded(message),
            [
                "A/n/one and 1 more dry-run failed: no",
                "B/n/x dry-run failed: no",
                "A/n/one and 1 more: mend it",
                "last words",
            ]
        );
    }

    #[test]
    fn headline_elides_the_quoted_block_and_keeps_the_ending() {
        let message = "trouble with config: `\nname: web\n`: must specify --enable-helm";
        assert_eq!(
            headline(message),
            "trouble with config: `…`: must specify --enable-helm"
        );
        let message =
            "failed: web/templates/a.yaml:5:15\n  executing \"a\" at <.Values.x>:\n    nil pointer";
        assert_eq!(
            headline(message),
            "failed: web/templates/a.yaml:5:15: nil pointer"
        );
        assert_eq!(headline("one\ntwo"), "one");
        assert_eq!(headline("one:"), "one:");
    }

    #[test]
    fn objects_with_the_same_failure_are_listed_by_name_only() {
        let failed = |name: &str| {
            let message = format!(
                "Scaler/n/{name} dry-run failed: Scaler \"{name}\" is invalid: no\nScaler/n/{name} is in apps/{name}.yaml:3: mend it"
            );
            node(name, State::Failed, &message)
        };
        let mut other = failed("z");
        other.message = "something else".into();
        let mut picture = Picture {
            kustomizations: vec![failed("a"), failed("b"), failed("c"), failed("d"), other],
            ..Picture::default()
        };
        let lines = summary(&picture, Paint::Plain);
        let alike = "✗ for the same reasons as above: Kustomization/flux-system/b, Kustomization/flux-system/c, Kustomization/flux-system/d";
        assert_eq!(lines[0], "✗ Kustomization/flux-system/a");
        assert_eq!(lines[3], "✗ Kustomization/flux-system/z");
        assert_eq!(lines[5], alike);
        picture.kustomizations.remove(1);
        let lines = summary(&picture, Paint::Plain);
        assert_eq!(lines[3], "✗ Kustomization/flux-system/c");
    }
}
