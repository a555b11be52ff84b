//! Objects that are not as the release has them.

use everflow_api::Reason;
use everflow_api::condition::ConditionStatus;
use everflow_api::helm::{HelmRelease, latest};
use everflow_api::inventory::ObjectId;
use everflow_api::names::condition::{DRIFTED, READY};
use everflow_api::object::Object;
use everflow_time::Timestamp;

use super::attempt::mark;
use super::notice::{About, Notice};

/// How an object differs from its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is gone.
    Removed,
    /// So many fields are to be added, changed and removed.
    Fields {
        /// Added.
        additions: usize,
        /// Changed.
        changes: usize,
        /// Removed.
        removals: usize,
    },
}

/// An object that differs from its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The object.
    pub id: ObjectId,
    /// How it differs.
    pub changed: Changed,
}

/// What differs, a line for each object.
pub fn drift_message(release: &str, drifts: &[Drift]) -> String {
    let line = |drift: &Drift| {
        let subject = drift.id.subject();
        match drift.changed {
            Changed::Removed => format!("{subject} removed"),
            Changed::Fields {
                additions,
                changes,
                removals,
            } => format!(
                "{subject} changed ({additions} additions, {changes} changes, {removals} removals)"
            ),
        }
    };
    let lines: Vec<String> = drifts.iter().map(line).collect();
    format!(
        "Cluster state of release {release} has drifted from the desired state:\n{}",
        lines.join("\n")
    )
}

/// Notes that objects differ. While they are put right it is not known whether all is ready.
pub fn mark_drift(
    object: &mut Object<HelmRelease>,
    drifts: &[Drift],
    is_corrected: bool,
    now: Timestamp,
) -> Option<Notice> {
    let release = latest(&object.status.history)?.full_name();
    let message = drift_message(&release, drifts);
    let notice = Notice::warning(Reason::DriftDetected, message.clone(), &About::default());
    mark(
        object,
        DRIFTED,
        ConditionStatus::True,
        Reason::DriftDetected,
        message,
        now,
    );
    if is_corrected {
        let message = "correcting cluster drift";
        mark(
            object,
            READY,
            ConditionStatus::Unknown,
            Reason::Progressing,
            message,
            now,
        );
    }
    Some(notice)
}

/// What came of putting objects right: what was created or configured, and what could not be.
pub fn note_correction(
    object: &Object<HelmRelease>,
    corrected: &[(ObjectId, &str)],
    errors: &[String],
) -> Option<Notice> {
    let current = latest(&object.status.history)?;
    let about = About::snapshot(current);
    let release = current.full_name();
    let line = |(id, action): &(ObjectId, &str)| format!("{} {action}", id.subject());
    let lines = corrected
        .iter()
        .map(line)
        .collect::<Vec<String>>()
        .join("\n");
    if errors.is_empty() {
        let message = format!("Cluster state of release {release} has been corrected:\n{lines}");
        return (!corrected.is_empty())
            .then(|| Notice::normal(Reason::DriftCorrected, message, &about));
    }
    let partially = match corrected.is_empty() {
        true => "",
        false => "partially ",
    };
    let mut message = format!(
        "Failed to {partially}correct cluster state of release {release}:\n{}",
        errors.join("\n")
    );
    if !corrected.is_empty() {
        message.push_str(&format!("\n\nSuccessful corrections:\n{lines}"));
    }
    Some(Notice::warning(
        Reason::DriftCorrectionFailed,
        message,
        &about,
    ))
}
