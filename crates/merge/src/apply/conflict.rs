//! Conflicts: fields that an applier wants to change and others own.

use std::collections::BTreeMap;
use std::fmt;

use super::managed::{Manager, ManagerId, Operation};
use crate::fieldpath::{FieldPath, FieldSet};
use crate::go_text;

/// One field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as messages name it: `"kubectl" with subresource "status" using apps/v1`.
    pub manager: String,
    /// The field.
    pub path: FieldPath,
    pub(super) owner: ManagerId,
}

/// All conflicts of an apply; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// A cause of the answer's `details`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictCause {
    /// `conflict with "kubectl"`.
    pub message: String,
    /// `.spec.replicas`.
    pub field: String,
}

impl Conflicts {
    /// The reason of each cause in the answer.
    pub const CAUSE_REASON: &'static str = "FieldManagerConflict";

    /// The conflicts from what each owner loses.
    pub(super) fn of_sets<'m>(
        lost: impl IntoIterator<Item = (&'m ManagerId, &'m Manager, FieldSet)>,
    ) -> Self {
        let mut conflicts = Vec::new();
        for (id, manager, set) in lost {
            let name = manager_text(manager);
            conflicts.extend(set.paths().into_iter().map(|path| Conflict {
                manager: name.clone(),
                path,
                owner: id.clone(),
            }));
        }
        Self(conflicts)
    }

    /// All fields in conflict.
    pub(super) fn fields(&self) -> FieldSet {
        let mut set = FieldSet::new();
        for conflict in &self.0 {
            set.insert(&conflict.path.0);
        }
        set
    }

    /// The causes for the answer's `details`.
    #[must_use]
    pub fn causes(&self) -> Vec<ConflictCause> {
        self.0
            .iter()
            .map(|conflict| ConflictCause {
                message: format!("conflict with {}", conflict.manager),
                field: conflict.path.to_string(),
            })
            .collect()
    }
}

fn manager_text(manager: &Manager) -> String {
    let mut text = go_text::quote(&manager.name);
    if !manager.subresource.is_empty() {
        text.push_str(" with subresource ");
        text.push_str(&go_text::quote(&manager.subresource));
    }
    if manager.operation == Operation::Update {
        text.push_str(" using ");
        text.push_str(&manager.api_version);
    }
    text
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            let Conflict { manager, path, .. } = only;
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {manager}: {path}"
            );
        }
        let mut by_owner: BTreeMap<&ManagerId, Vec<&Conflict>> = BTreeMap::new();
        for conflict in &self.0 {
            by_owner.entry(&conflict.owner).or_default().push(conflict);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, conflicts) in by_owner.values().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let manager = conflicts
                .first()
                .map_or("", |conflict| conflict.manager.as_str());
            write!(f, "conflicts with {manager}:")?;
            for conflict in conflicts {
                write!(f, "\n- {}", conflict.path)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
