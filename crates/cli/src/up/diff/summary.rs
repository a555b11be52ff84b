//! What a change of the repository changes, as Markdown for the comment on a pull request.

use std::fmt::Write as _;

use everflow_json::Value;
use everflow_local::golden;

use super::Change;

/// How long a comment may be; code hosts refuse those beyond 65,536 letters.
const MOST: usize = 60_000;

/// Kinds whose deletion takes more with it than the object.
const WEIGHTY: [&str; 5] = [
    "CustomResourceDefinition",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StatefulSet",
];

/// The summary: how many objects change, what is dangerous about it, and the lines that differ.
pub(super) fn markdown(changes: &[Change], entry: &str) -> String {
    let mut text = format!("### Everflow: {} in `{entry}`\n\n", counted(changes));
    let weighty = changes
        .iter()
        .filter(|change| change.after.is_none() && WEIGHTY.contains(&change.object.kind.as_str()));
    for change in weighty {
        let _ = writeln!(
            text,
            "> ⚠️ `{}` would be deleted, and with it what it holds.\n",
            change.object.subject()
        );
    }
    let mut left_out = 0;
    let (gone, rest): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|change| change.after.is_none());
    for change in gone.into_iter().chain(rest) {
        let section = section(change);
        match text.len() + section.len() > MOST {
            true => left_out += 1,
            false => text.push_str(&section),
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            text,
            "{left_out} more left out, for a comment has an end: run `everflow diff` to see them."
        );
    }
    format!("{}\n", text.trim_end())
}

/// `2 objects created, 1 deleted`
fn counted(changes: &[Change]) -> String {
    let words = ["created", "configured", "deleted"];
    let counts = words.map(|word| {
        let count = changes
            .iter()
            .filter(|change| change.word() == word)
            .count();
        (count, word)
    });
    let mut counts = counts.iter().filter(|(count, _)| *count > 0);
    let Some((count, word)) = counts.next() else {
        return "nothing changes".to_owned();
    };
    let objects = match count {
        1 => "object",
        _ => "objects",
    };
    let rest: Vec<String> = counts
        .map(|(count, word)| format!(", {count} {word}"))
        .collect();
    format!("{count} {objects} {word}{}", rest.concat())
}

/// One object: a line, and behind it what differs.
fn section(change: &Change) -> String {
    let subject = change.object.subject();
    let word = change.word();
    let before = change.before.as_ref().map(yaml).unwrap_or_default();
    let after = change.after.as_ref().map(yaml).unwrap_or_default();
    let lines = golden::difference(&before, &after);
    if change.after.is_none() {
        return format!("- `{subject}` {word}\n");
    }
    // What is deployed may itself contain a fence.
    let fence = "`".repeat(longest_run(&lines).max(2) + 1);
    format!(
        "\n<details><summary><code>{subject}</code> {word}</summary>\n\n{fence}diff\n{lines}{fence}\n\n</details>\n"
    )
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|letter| letter != '`');
    runs.map(str::len).max().unwrap_or_default()
}

/// A manifest without what nobody may read in a comment.
fn yaml(manifest: &Value) -> String {
    let mut manifest = manifest.clone();
    if manifest["kind"] == "Secret" {
        for field in ["data", "stringData"] {
            for (_, value) in manifest[field].as_object_mut().into_iter().flatten() {
                *value = Value::from("***");
            }
        }
    }
    everflow_yaml::emit::sigs(&manifest)
}

#[cfg(test)]
mod tests {
    use everflow_api::inventory::ObjectId;
    use everflow_json::json;

    use super::*;

    fn change(kind: &str, before: Option<Value>, after: Option<Value>) -> Change {
        let object = ObjectId {
            kind: kind.into(),
            name: "a".into(),
            ..ObjectId::default()
        };
        Change {
            object,
            before,
            after,
        }
    }

    #[test]
    fn changes_are_counted_and_shown() {
        let changes = [
            change(
                "ConfigMap",
                Some(json!({"data": 1})),
                Some(json!({"data": 2})),
            ),
            change("Service", None, Some(json!({"spec": 1}))),
            change("Job", Some(json!({"spec": 1})), None),
        ];
        let text = markdown(&changes, "clusters/staging");
        let head =
            "### Everflow: 1 object created, 1 configured, 1 deleted in `clusters/staging`\n";
        assert!(text.starts_with(head), "{text}");
        assert!(
            text.contains("```diff\n- data: 1\n+ data: 2\n```"),
            "{text}"
        );
        assert!(text.contains("- `Job/a` deleted\n"), "{text}");
    }

    #[test]
    fn diff_without_changes_says_so() {
        assert_eq!(markdown(&[], "."), "### Everflow: nothing changes in `.`\n");
    }

    #[test]
    fn values_of_secrets_are_not_shown() {
        let secret = |value: &str| Some(json!({"kind": "Secret", "data": {"password": value}}));
        let changes = [change("Secret", secret("b2xk"), secret("bmV3"))];
        let text = markdown(&changes, ".");
        assert!(!text.contains("b2xk") && !text.contains("bmV3"), "{text}");
    }

    #[test]
    fn deletion_of_objects_that_hold_data_is_warned_about() {
        let gone = [change("PersistentVolumeClaim", Some(json!({})), None)];
        assert!(markdown(&gone, ".").contains("> ⚠️ `PersistentVolumeClaim/a`"));
    }

    #[test]
    fn comments_have_an_end() {
        let large = || Some(json!({"data": "x".repeat(10_000)}));
        let many: Vec<Change> = (0..20)
            .map(|_| change("ConfigMap", None, large()))
            .collect();
        let text = markdown(&many, ".");
        assert!(
            text.len() < 65_536 && text.contains("more left out"),
            "{}",
            text.len()
        );
    }

    #[test]
    fn code_fences_in_manifests_do_not_end_the_comment_block() {
        let text = Some(json!({"data": "```\nx\n```"}));
        let text = markdown(&[change("ConfigMap", None, text)], ".");
        assert!(text.contains("````diff\n"), "{text}");
    }
}
