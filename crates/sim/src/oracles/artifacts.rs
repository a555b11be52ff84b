//! What a status names is served, with the digest that it says.

use std::collections::BTreeMap;

use everflow_env::disk::read_all;
use everflow_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Commit, Finding};
use crate::disk::Change;
use crate::shared::Shared;

/// Which replica published what statuses name now.
#[derive(Debug, Default)]
pub struct Artifacts {
    /// Table and key of the source: replica, path, digest.
    named: BTreeMap<(String, String), (usize, String, String)>,
}

/// What keeps a file from being served as a status says.
fn flaw(shared: &Shared, replica: usize, path: &str, digest: &str) -> Option<&'static str> {
    let replicas = shared.replicas();
    let state = replicas.get(replica)?;
    let Ok(bytes) = read_all(&state.files, path, 1 << 24) else {
        return Some("is not there");
    };
    let found: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match digest.strip_prefix("sha256:") {
        Some(wanted) if wanted != found => Some("has another digest"),
        _ => None,
    }
}

impl Artifacts {
    pub(super) fn commit(
        &mut self,
        shared: &Shared,
        commit: &Commit<'_>,
        replica: usize,
    ) -> Option<Finding> {
        if !commit.table.starts_with("source.toolkit.fluxcd.io/") {
            return None;
        }
        let place = (commit.table.to_owned(), commit.key.to_owned());
        let Some(new) = commit.new else {
            self.named.remove(&place);
            return None;
        };
        let text = |field: &str| -> Option<&str> {
            new.pointer("/status/artifact")?
                .get(field)
                .and_then(Value::as_str)
        };
        let (Some(path), Some(digest)) = (text("path"), text("digest")) else {
            self.named.remove(&place);
            return None;
        };
        let is_new = commit.old.and_then(|old| old.pointer("/status/artifact"))
            != new.pointer("/status/artifact");
        if !is_new {
            return None;
        }
        let entry = (replica, path.to_owned(), digest.to_owned());
        self.named.insert(place, entry);
        let flaw = flaw(shared, replica, path, digest)?;
        let text = format!(
            "{} names {path} for {}, which {flaw}",
            commit.who,
            commit.name()
        );
        Some(commit.finding("artifacts are served", text))
    }

    pub(super) fn disk(
        &mut self,
        shared: &Shared,
        replica: usize,
        change: Change<'_>,
    ) -> Vec<Finding> {
        let touched = match change {
            Change::Remove(path) => path,
            Change::Rename(from, _) => from,
            Change::Create(_) | Change::Sync(_) => return Vec::new(),
        };
        let below = format!("{touched}/");
        let touches = |path: &str| path == touched || path.starts_with(&below);
        self.broken(shared, replica, "is taken away while it is named", touches)
    }

    pub(super) fn died(&mut self, shared: &Shared, replica: usize, wiped: bool) -> Vec<Finding> {
        if wiped {
            // Nobody can serve what is lost; it must be made again in time.
            self.named.retain(|_, (whose, _, _)| *whose != replica);
            return Vec::new();
        }
        self.broken(shared, replica, "did not survive the crash", |_| true)
    }

    fn broken(
        &self,
        shared: &Shared,
        replica: usize,
        what: &str,
        touches: impl Fn(&str) -> bool,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        let Some(server) = shared.server() else {
            return found;
        };
        for ((table, key), (whose, path, digest)) in &self.named {
            if *whose != replica || !touches(path) {
                continue;
            }
            let Some(stored) = server.store().get(table, key) else {
                continue;
            };
            let named = stored.value.pointer("/status/artifact/path");
            let going = !stored.value["metadata"]["deletionTimestamp"].is_null();
            if going || named.and_then(Value::as_str) != Some(path) {
                continue;
            }
            if flaw(shared, replica, path, digest).is_some() {
                found.push(Finding {
                    oracle: "artifacts are served",
                    at: shared.history.now(),
                    text: format!("{path} of {key} {what}"),
                });
            }
        }
        found
    }
}
