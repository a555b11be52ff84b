//! Who asks.

use std::collections::BTreeMap;

/// The caller of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The stable id.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further facts.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A caller that may do everything.
    pub fn admin() -> Self {
        User {
            name: "admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        }
    }

    /// The caller without credentials.
    pub fn anonymous() -> Self {
        User {
            name: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
            ..User::default()
        }
    }

    /// Whether the caller is in a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }

    /// Puts the caller into a group.
    pub fn join(&mut self, group: &str) {
        if !self.in_group(group) {
            self.groups.push(group.to_owned());
        }
    }
}
