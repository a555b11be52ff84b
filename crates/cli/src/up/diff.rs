//! `everflow diff`: what a change of the repository changes in the cluster.

mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use everflow_api::inventory::ObjectId;
use everflow_json::{Value, json};
use everflow_local::tree::shown;
use everflow_local::{git, golden};

use super::{Common, Format, Progress, Scratch, Session};
use crate::exit::Failure;
use crate::output::{DataFormat, print_data, print_text};

/// `everflow diff`
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<crate::flux::diff::What>,
    #[command(flatten)]
    common: Common,
    /// The revision to compare with: a branch, a tag, a commit, HEAD~2
    #[arg(long, value_name = "REF", default_value = "HEAD")]
    against: String,
    /// Also write a summary in Markdown to this file, for the comment on a pull request
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    object: ObjectId,
    before: Option<Value>,
    after: Option<Value>,
}

/// Runs `everflow diff`.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(other) = &args.other {
        return crate::flux::diff::run(other);
    }
    let progress = Progress::default();
    super::in_runtime(super::unless_interrupted(diff(args, &progress), &progress))
}

async fn diff(args: &Args, progress: &Progress) -> Result<(), Failure> {
    let path: PathBuf = args.common.path.clone();
    let opened = git::tree_at(&path, &args.against);
    let then = opened.map_err(|error| Failure::Usage(error.to_string()))?;
    // Both at once: two processors are better than one.
    let (before, after) = tokio::join!(
        manifests(&args.common, Some(then.clone()), &args.against, progress),
        manifests(&args.common, None, "the directory", progress)
    );
    let mut after = after?;
    let mut before = match before {
        // It may have had more places to begin, of which only the one of today is of interest.
        Err(Failure::Usage(why)) if args.common.entry.is_none() => {
            let same = Common {
                entry: Some(shown(&after.entry).to_owned()),
                ..args.common.clone()
            };
            match manifests(&same, Some(then), &args.against, progress).await {
                Err(Failure::Usage(_)) => return Err(Failure::Usage(why)),
                again => again?,
            }
        }
        before => before?,
    };
    let contested: Vec<ObjectId> = before
        .contested
        .intersection(&after.contested)
        .cloned()
        .collect();
    for id in &contested {
        before.manifests.remove(id);
        after.manifests.remove(id);
        eprint(&format!(
            "⚠ {} is not compared: several Kustomizations or HelmReleases apply it, and which comes last is chance\n",
            id.subject()
        ));
    }
    for (chart, (version, digest)) in &after.charts {
        let is_same_version =
            |(known, other): &(String, String)| known == version && other != digest;
        if before.charts.get(chart).is_some_and(is_same_version) {
            eprint(&format!(
                "⚠ {} has changed and its version {version} has not: a cluster that has it keeps the old one; raise \
                 the version in Chart.yaml, or set reconcileStrategy: Revision\n",
                chart.subject()
            ));
        }
    }
    let changes = changes(before.manifests, after.manifests);
    if let Some(file) = &args.summary {
        let text = summary::markdown(&changes, shown(&after.entry));
        std::fs::write(file, text)
            .map_err(|error| Failure::Work(format!("cannot write {}: {error}", file.display())))?;
    }
    match args.common.output {
        Some(Format::Json) => print_data(&data(&changes), DataFormat::Json)?,
        Some(Format::Yaml) => print_data(&data(&changes), DataFormat::Yaml)?,
        Some(Format::Junit) => {
            return Err(Failure::Usage(
                "diff has no JUnit output; use json or yaml".into(),
            ));
        }
        None => print_text(&text(&changes))?,
    }
    match changes.is_empty() {
        true => Ok(()),
        false => Err(Failure::Differences),
    }
}

/// What is deployed.
struct Deployed {
    /// Where it begins.
    entry: String,
    manifests: BTreeMap<ObjectId, Value>,
    /// What several Kustomizations or HelmReleases apply.
    contested: BTreeSet<ObjectId>,
    /// Charts that are made anew with a new version only, with version and digest.
    charts: BTreeMap<ObjectId, (String, String)>,
}

/// What is deployed from a tree: the files on disk, or those of a commit.
async fn manifests(
    options: &Common,
    tree: Option<everflow_local::tree::Tree>,
    what: &str,
    progress: &Progress,
) -> Result<Deployed, Failure> {
    let quiet = Common {
        output: Some(Format::Json),
        rendered_as_of: Some(super::SAME_MOMENT),
        ..options.clone()
    };
    let scratch = Scratch::new()?;
    let session = Session::start_with(&quiet, &scratch, tree, progress).await;
    let mut session = session.map_err(|failure| match failure {
        Failure::Usage(text) => Failure::Usage(format!("{what}: {text}")),
        other => other,
    })?;
    session.settle(session.time_left()).await?;
    let deployed = session.world.manifests().await;
    let deployed = deployed.map_err(|error| Failure::Work(error.to_string()))?;
    let charts = session.world.versioned_charts().await;
    let charts = charts.map_err(|error| Failure::Work(error.to_string()))?;
    if let Some(note) = super::first_cause(&session.picture) {
        eprint(&format!("⚠ {what}: not all was deployed: {note}\n"));
    }
    session.world.stop().await;
    Ok(Deployed {
        entry: session.opened.entry.directory,
        manifests: deployed.all,
        contested: deployed.contested,
        charts,
    })
}

fn eprint(text: &str) {
    use std::io::Write as _;
    // Nobody reads standard error: nothing to do about it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// What becomes of objects between two states.
pub(super) fn changes(
    before: BTreeMap<ObjectId, Value>,
    mut after: BTreeMap<ObjectId, Value>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for (object, old) in before {
        let new = after.remove(&object);
        if new.as_ref() != Some(&old) {
            changes.push(Change {
                object,
                before: Some(old),
                after: new,
            });
        }
    }
    let created = after.into_iter().map(|(object, new)| Change {
        object,
        before: None,
        after: Some(new),
    });
    changes.extend(created);
    changes.sort_by(|one, two| one.object.cmp(&two.object));
    changes
}

impl Change {
    fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "created",
            (_, None) => "deleted",
            _ => "configured",
        }
    }
}

/// Changes for the reader.
pub(super) fn text(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        text += &format!("► {} {}\n", change.object.subject(), change.word());
        if let (Some(before), Some(after)) = (&change.before, &change.after) {
            let yaml = |value: &Value| everflow_yaml::emit::sigs(value);
            for line in golden::difference(&yaml(before), &yaml(after)).lines() {
                text += &format!("  {line}\n");
            }
        }
    }
    text
}

fn data(changes: &[Change]) -> Value {
    let change = |change: &Change| {
        json!({
            "object": change.object.subject(),
            "change": change.word(),
            "before": change.before,
            "after": change.after,
        })
    };
    json!({ "changes": changes.iter().map(change).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_go_and_change() {
        let object = |name: &str, value: i64| {
            let id = ObjectId {
                kind: "ConfigMap".into(),
                name: name.into(),
                ..ObjectId::default()
            };
            (id, json!({ "data": value }))
        };
        let before = BTreeMap::from([object("a", 1), object("b", 1), object("c", 1)]);
        let after = BTreeMap::from([object("b", 1), object("c", 2), object("d", 1)]);
        let changes = changes(before, after);
        let words: Vec<&str> = changes.iter().map(Change::word).collect();
        assert_eq!(words, ["deleted", "configured", "created"]);
        assert_eq!(
            text(&changes),
            "► ConfigMap/a deleted\n► ConfigMap/c configured\n  - data: 1\n  + data: 2\n► ConfigMap/d created\n"
        );
    }
}
