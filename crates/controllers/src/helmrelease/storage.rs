//! The records of a release, as the server has them.

use std::collections::BTreeMap;

use everflow_api::Reason;
use everflow_env::{Place, run_budgeted};
use everflow_json::Value;
use everflow_limits::{Budget, Stop};
use everflow_release::names::ReleaseTarget;
use everflow_release::record::{Entry, Storage, StoredRecord};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::Selection;

use super::attempt::{Attempt, Halt};
use crate::resources;
use crate::stop::{EventText, Failure};
use crate::target::Target;

/// The records of one release: what is known of each, and the Secrets for as long as the attempt lasts.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) storage: Storage,
    secrets: BTreeMap<i64, Value>,
    /// What one piece of work may use of memory.
    share: u64,
}

impl Records {
    fn of(secrets: Vec<Value>, budget: &Budget) -> Self {
        let mut records = Records {
            share: budget.share(),
            ..Records::default()
        };
        let mut entries = Vec::with_capacity(secrets.len());
        for secret in secrets {
            let entry = Entry::of_within(&secret, budget);
            records.secrets.insert(entry.version(), secret);
            entries.push(entry);
        }
        records.storage = Storage::of_entries(entries);
        records
    }

    /// The whole record of a revision; none when there is none that can be read.
    pub(super) fn whole(&self, version: i64) -> Option<StoredRecord> {
        self.whole_within(version, &self.budget())
    }

    /// The same, where what several records take counts together.
    pub(super) fn whole_within(&self, version: i64, budget: &Budget) -> Option<StoredRecord> {
        StoredRecord::of(self.secrets.get(&version)?, budget).ok()
    }

    /// What working on the records, and on what is made from them, may use: people write such Secrets too.
    pub(super) fn budget(&self) -> Budget {
        Budget::new(Stop::new(), self.share)
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
                let work = move |budget: &Budget| Records::of(list.items, budget);
                let records = run_budgeted(&*self.context.env.blocking, work).await;
                records.ok_or_else(|| {
                    let why = "reading the release records broke off";
                    Failure::new(Reason::StateError, why.to_owned()).into()
                })
            }
            Err(error @ ClientError::Fenced { .. }) => Err(Halt::unanswered(error)),
            Err(error) => {
                let message = format!(
                    "Could not determine release state: failed to retrieve last release from storage: query: \
                     failed to query with labels: {error}"
                );
                let failure = Failure::new(Reason::StateError, message);
                let failure = failure.telling(EventText::Nothing);
                Err(failure.passing(error.is_transient()).into())
            }
        }
    }
}
