//! The records of a release, as the server has them.

use std::collections::BTreeMap;

use everflow_api::Reason;
use everflow_env::Place;
use everflow_json::Value;
use everflow_release::names::ReleaseTarget;
use everflow_release::record::{Entry, Storage, StoredRecord};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::Selection;

use super::attempt::{Attempt, Halt};
use crate::resources;
use crate::stop::{Failure, Tell};
use crate::target::Target;

/// The records of one release: what is known of each, and the Secrets for as long as the attempt lasts.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) storage: Storage,
    secrets: BTreeMap<i64, Value>,
}

impl Records {
    fn of(secrets: Vec<Value>) -> Self {
        let mut records = Records::default();
        let mut entries = Vec::with_capacity(secrets.len());
        for secret in secrets {
            let entry = Entry::of(&secret);
            records.secrets.insert(entry.version(), secret);
            entries.push(entry);
        }
        records.storage = Storage::of_entries(entries);
        records
    }

    /// The whole record of a revision; none when there is none that can be read.
    pub(super) fn whole(&self, version: i64) -> Option<StoredRecord> {
        StoredRecord::of(self.secrets.get(&version)?).ok()
    }

    /// Takes in what the server made of a write.
    pub(super) fn put(&mut self, secret: Value) {
        let entry = Entry::of(&secret);
        let version = entry.version();
        self.storage.put(entry);
        self.secrets.insert(version, secret);
    }

    /// Forgets a Secret that was deleted.
    pub(super) fn forget(&mut self, name: &str) {
        let version = self.version_of(name);
        if let Some(version) = version {
            self.secrets.remove(&version);
            self.storage.forget(version);
        }
    }

    /// The Secret of a name, as it was last seen.
    pub(super) fn secret(&self, name: &str) -> Option<&Value> {
        self.secrets.get(&self.version_of(name)?)
    }

    fn version_of(&self, name: &str) -> Option<i64> {
        let mut all = self.secrets.iter();
        all.find(|(_, secret)| secret["metadata"]["name"] == name)
            .map(|(version, _)| *version)
    }
}

impl Attempt<'_> {
    /// Reads the records of a release from the server.
    pub(super) async fn records(
        &self,
        target: &Target,
        release: &ReleaseTarget,
    ) -> Result<Records, Halt> {
        let selection = Selection::labelled(format!("name={},owner=helm", release.name));
        let namespace = Some(release.storage_namespace.as_str());
        let listed = target
            .client
            .list_all(&resources::SECRETS, namespace, &selection)
            .await;
        match listed {
            Ok(mut list) => {
                self.context.env.planted(Place::Records, &mut list.items);
                Ok(Records::of(list.items))
            }
            Err(error @ ClientError::Fenced { .. }) => Err(Halt::unanswered(error)),
            Err(error) => {
                let message = format!(
                    "Could not determine release state: failed to retrieve last release from storage: query: \
                     failed to query with labels: {error}"
                );
                let failure = Failure::new(Reason::StateError, message);
                let failure = failure.telling(Tell::Nothing);
                Err(failure.passing(error.is_transient()).into())
            }
        }
    }
}
