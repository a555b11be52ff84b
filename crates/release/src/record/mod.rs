//! Release records: what is in storage about the revisions of a release, and how it gets there.
//!
//! A record is made from a rendered chart (`build`), stands in a Secret (`secret`) and is looked at
//! without its chart and its manifest ([`Summary`]). What everflow adds stands in annotations of the
//! Secret ([`mark`]): Helm does not keep these when it writes, so they never speak of what it wrote.

mod build;
mod contested;
pub mod mark;
mod origin;
mod prune;
mod read;
mod scan;
mod secret;
mod snapshot;
mod stream;
mod summary;

use std::fmt;

pub use build::{NewRecord, first_record, next_record, record_for_rollback, retire_replaced};
pub use contested::Contested;
pub use prune::surplus;
pub use read::{Entry, Place, Storage, StoredRecord, StoredSummary};
pub use secret::{LARGEST_RECORD, RecordWrite};
pub(crate) use snapshot::selects;
pub use snapshot::{is_observed, snapshot, test_hooks};
pub use summary::{HookRun, Summary, manifest_digest};

/// How a release stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Status {
    /// Nobody knows.
    #[default]
    Unknown,
    /// It is what was asked for last.
    Deployed,
    /// It was deleted, and its record kept.
    Uninstalled,
    /// A newer revision took its place.
    Superseded,
    /// An action on it failed.
    Failed,
    /// It is being deleted.
    Uninstalling,
    /// It is being installed.
    PendingInstall,
    /// It is being upgraded to.
    PendingUpgrade,
    /// It is being rolled back to.
    PendingRollback,
}

impl Status {
    const ALL: [(Status, &'static str); 9] = [
        (Status::Unknown, "unknown"),
        (Status::Deployed, "deployed"),
        (Status::Uninstalled, "uninstalled"),
        (Status::Superseded, "superseded"),
        (Status::Failed, "failed"),
        (Status::Uninstalling, "uninstalling"),
        (Status::PendingInstall, "pending-install"),
        (Status::PendingUpgrade, "pending-upgrade"),
        (Status::PendingRollback, "pending-rollback"),
    ];

    /// Reads Helm's word for it; a word that is not known is [`Status::Unknown`].
    pub fn of(text: &str) -> Self {
        let mut all = Self::ALL.iter();
        all.find(|(_, word)| *word == text)
            .map_or(Status::Unknown, |(status, _)| *status)
    }

    /// Helm's word for it.
    pub fn as_str(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(status, _)| *status == self)
            .map_or("unknown", |(_, word)| *word)
    }

    /// Whether a revision is on its way.
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback
        )
    }

    /// Whether an action is under way, deletion included.
    pub fn is_in_progress(self) -> bool {
        self.is_pending() || self == Status::Uninstalling
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
