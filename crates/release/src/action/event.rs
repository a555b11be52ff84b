//! Names of actions and of the moments at which hooks run.

use std::fmt;

/// What is done to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionKind {
    /// Its first revision is made.
    Install,
    /// Another revision is made of a chart.
    Upgrade,
    /// Another revision is made of an older one.
    Rollback,
    /// It is deleted.
    Uninstall,
    /// It is deleted because an action on it failed.
    UninstallRemediation,
    /// Its tests run.
    Test,
}

impl ActionKind {
    const ALL: [(ActionKind, &'static str); 6] = [
        (ActionKind::Install, "install"),
        (ActionKind::Upgrade, "upgrade"),
        (ActionKind::Rollback, "rollback"),
        (ActionKind::Uninstall, "uninstall"),
        (ActionKind::UninstallRemediation, "uninstall-remediation"),
        (ActionKind::Test, "test"),
    ];

    /// The word for it in snapshots.
    pub fn as_str(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(kind, _)| *kind == self)
            .map_or("", |(_, word)| *word)
    }

    /// The action with this word.
    pub fn of(text: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|(_, word)| *word == text).map(|(kind, _)| *kind)
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A moment at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Before the objects of an install.
    PreInstall,
    /// After them.
    PostInstall,
    /// Before the objects of an upgrade.
    PreUpgrade,
    /// After them.
    PostUpgrade,
    /// Before the objects of a rollback.
    PreRollback,
    /// After them.
    PostRollback,
    /// Before objects are deleted.
    PreDelete,
    /// After that.
    PostDelete,
    /// When the release is tested.
    Test,
}

impl Event {
    const ALL: [(Event, &'static str); 9] = [
        (Event::PreInstall, "pre-install"),
        (Event::PostInstall, "post-install"),
        (Event::PreUpgrade, "pre-upgrade"),
        (Event::PostUpgrade, "post-upgrade"),
        (Event::PreRollback, "pre-rollback"),
        (Event::PostRollback, "post-rollback"),
        (Event::PreDelete, "pre-delete"),
        (Event::PostDelete, "post-delete"),
        (Event::Test, "test"),
    ];

    /// The word for it in the annotation of hooks.
    pub fn as_str(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(event, _)| *event == self)
            .map_or("", |(_, word)| *word)
    }

    /// The event with this word.
    pub fn of(text: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|(_, word)| *word == text).map(|(event, _)| *event)
    }

    /// Whether objects are applied after its hooks.
    pub fn precedes_objects(self) -> bool {
        matches!(
            self,
            Event::PreInstall | Event::PreUpgrade | Event::PreRollback
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
