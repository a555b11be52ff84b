//! What everflow notes beside a record, in annotations of its Secret.
//!
//! Annotations were chosen over labels and over fields of the record. Helm writes Secrets anew, with the
//! labels of the record and no annotations: a label would be inherited by revisions of the CLI, and a
//! note about our own action would outlive a write of Helm's. Fields that Helm does not know would be
//! dropped by it, too, but they would be part of the record that Flux and Helm read, and could only be
//! seen by decoding it; annotations are seen by a watch of metadata.

use everflow_json::{Map, Value, json};
use everflow_time::Timestamp;

use crate::action::{ActionKind, Event};

/// The annotation that says who is at work on a revision, and how far the work has come. It is there
/// only while an action is under way.
pub const PROGRESS: &str = "release.everflow.dev/progress";
/// The annotation that says for which HelmRelease, and from what, a revision was made.
pub const MADE_FROM: &str = "release.everflow.dev/made-from";

/// The annotation that says which objects others change back again and again.
pub const CONTESTED: &str = "release.everflow.dev/contested";

/// A process that acts on releases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// Who it is; different for each process.
    pub identity: String,
    /// The Lease that lets it act, as NAMESPACE/NAME; none where there is no election.
    pub lease: Option<String>,
    /// Which time of leadership it is. Each change of the Lease's holder makes it greater.
    pub epoch: u64,
}

/// How far an action has come, as far as the record itself does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The record is there.
    Started,
    /// Hooks run. Those that were started in this action say in the record how they ended.
    Hooks(Event),
    /// All objects are applied or deleted, and their health or their end is waited for since then.
    Waiting(Timestamp),
    /// The action has failed. What it leaves behind is cleaned up.
    Failing,
    /// The action has failed, and nobody is at it any more. Only records of uninstalls say so: others
    /// have a status for it.
    Failed,
}

impl Stage {
    fn to_text(self) -> String {
        match self {
            Stage::Started => "started".to_owned(),
            Stage::Hooks(event) => format!("hooks/{event}"),
            Stage::Waiting(since) => format!("waiting/{since}"),
            Stage::Failing => "failing".to_owned(),
            Stage::Failed => "failed".to_owned(),
        }
    }

    fn of(text: &str) -> Option<Self> {
        match text.split_once('/') {
            None if text == "started" => Some(Stage::Started),
            None if text == "failing" => Some(Stage::Failing),
            None if text == "failed" => Some(Stage::Failed),
            Some(("hooks", event)) => Event::of(event).map(Stage::Hooks),
            Some(("waiting", since)) => Timestamp::parse(since).map(Stage::Waiting),
            _ => None,
        }
    }
}

/// An action that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Which action.
    pub action: ActionKind,
    /// Who is at it.
    pub holder: Holder,
    /// How many processes have been at it, this one included.
    pub attempt: u64,
    /// The revision that the cluster was at when it began, where there was one.
    pub base: Option<i64>,
    /// How far it has come.
    pub stage: Stage,
    /// Since when the holder is at it, when it was not the first. Waits begin anew then.
    pub since: Option<Timestamp>,
    /// Why it has failed, if it has.
    pub failure: Option<String>,
}

impl Progress {
    /// An action that begins.
    pub fn new(action: ActionKind, holder: Holder, base: Option<i64>) -> Self {
        Progress {
            action,
            holder,
            attempt: 1,
            base,
            stage: Stage::Started,
            since: None,
            failure: None,
        }
    }

    /// The text of the annotation.
    pub fn to_text(&self) -> String {
        let mut note = Map::new();
        note.insert("action".into(), json!(self.action.as_str()));
        note.insert("holder".into(), json!(self.holder.identity));
        if let Some(lease) = &self.holder.lease {
            note.insert("lease".into(), json!(lease));
        }
        note.insert("epoch".into(), json!(self.holder.epoch));
        note.insert("attempt".into(), json!(self.attempt));
        if let Some(base) = self.base {
            note.insert("base".into(), json!(base));
        }
        note.insert("stage".into(), json!(self.stage.to_text()));
        if let Some(since) = self.since {
            note.insert("since".into(), json!(since.to_string()));
        }
        if let Some(failure) = &self.failure {
            note.insert("failure".into(), json!(failure));
        }
        Value::Object(note).to_string()
    }

    /// Reads the annotation; none when it is not as we write it.
    pub fn of(text: &str) -> Option<Self> {
        let note: Value = everflow_json::from_str(text).ok()?;
        Some(Progress {
            action: ActionKind::of(note["action"].as_str()?)?,
            holder: Holder {
                identity: note["holder"].as_str()?.to_owned(),
                lease: note["lease"].as_str().map(str::to_owned),
                epoch: note["epoch"].as_u64()?,
            },
            attempt: note["attempt"].as_u64()?,
            base: note["base"].as_i64(),
            stage: Stage::of(note["stage"].as_str()?)?,
            since: note["since"].as_str().and_then(Timestamp::parse),
            failure: note["failure"].as_str().map(str::to_owned),
        })
    }

    /// The same action in the hands of another holder.
    pub fn taken_over(&self, holder: &Holder, now: Timestamp) -> Self {
        Progress {
            holder: holder.clone(),
            attempt: self.attempt.saturating_add(1),
            since: Some(now),
            ..self.clone()
        }
    }
}

/// For which HelmRelease a revision was made, and from what that its record does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MadeFrom {
    /// The namespace of the HelmRelease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// The digest of the post-renderers, empty when there are none.
    pub post_renderers: String,
    /// The digest of the common metadata, empty when there is none.
    pub common_metadata: String,
}

impl MadeFrom {
    /// The text of the annotation.
    pub fn to_text(&self) -> String {
        let mut note = Map::new();
        let object = format!("{}/{}", self.namespace, self.name);
        let fields = [
            ("helmRelease", &object),
            ("uid", &self.uid),
            ("postRenderers", &self.post_renderers),
            ("commonMetadata", &self.common_metadata),
        ];
        for (key, text) in fields {
            if !text.is_empty() {
                note.insert(key.into(), json!(text));
            }
        }
        Value::Object(note).to_string()
    }

    /// Reads the annotation; none when it is not as we write it.
    pub fn of(text: &str) -> Option<Self> {
        let note: Value = everflow_json::from_str(text).ok()?;
        let (namespace, name) = note["helmRelease"].as_str()?.split_once('/')?;
        let text = |key: &str| note[key].as_str().unwrap_or_default().to_owned();
        Some(MadeFrom {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: text("uid"),
            post_renderers: text("postRenderers"),
            common_metadata: text("commonMetadata"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(stage: Stage) -> Progress {
        Progress {
            action: ActionKind::Upgrade,
            holder: Holder {
                identity: "engine-0".into(),
                lease: Some("flux-system/leader".into()),
                epoch: 7,
            },
            attempt: 2,
            base: Some(3),
            stage,
            since: Some(Timestamp::from_seconds(5)),
            failure: Some("failed pre-upgrade: \"x\"".into()),
        }
    }

    #[test]
    fn notes_are_read_as_they_are_written() {
        let stages = [
            Stage::Started,
            Stage::Hooks(Event::PreUpgrade),
            Stage::Waiting(Timestamp::from_seconds(1_700_000_000)),
            Stage::Failing,
            Stage::Failed,
        ];
        for stage in stages {
            let progress = progress(stage);
            assert_eq!(Progress::of(&progress.to_text()), Some(progress));
        }
        let from = MadeFrom {
            namespace: "apps".into(),
            name: "web".into(),
            uid: "u".into(),
            post_renderers: "sha256:1".into(),
            common_metadata: String::new(),
        };
        assert_eq!(MadeFrom::of(&from.to_text()), Some(from));
    }

    #[test]
    fn invalid_progress_notes_are_ignored() {
        for text in ["", "{}", "[1]", "{\"action\":\"dance\"}"] {
            assert_eq!(Progress::of(text), None);
            assert_eq!(MadeFrom::of(text), None);
        }
        let strange = progress(Stage::Started).to_text().replace("started", "x/y");
        assert_eq!(Progress::of(&strange), None);
    }

    #[test]
    fn another_holder_is_another_attempt_at_the_same_stage() {
        let progress = progress(Stage::Failing);
        let other = Holder {
            epoch: 8,
            ..progress.holder.clone()
        };
        let now = Timestamp::from_seconds(9);
        let taken = progress.taken_over(&other, now);
        assert_eq!((taken.attempt, taken.holder), (3, other));
        assert_eq!((taken.stage, taken.since), (Stage::Failing, Some(now)));
    }
}
