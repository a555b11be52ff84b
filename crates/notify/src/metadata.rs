//! The metadata of events: which keys count, and whose value does when several set one.

use std::collections::BTreeMap;

use everflow_api::names::group;
use everflow_api::notification::AlertSpec;

use crate::Event;

pub(crate) const COMMIT: &str = "commit";
pub(crate) const CHANGE_REQUEST: &str = "change_request";
pub(crate) const REVISION: &str = "revision";
pub(crate) const ORIGIN_REVISION: &str = "originRevision";
pub(crate) const SUMMARY: &str = "summary";
const TOKEN: &str = "token";
const COMMIT_STATUS: &str = "commit_status";
const UPDATE: &str = "update";
/// Keys of the object's own group that no receiver is told.
const LEFT_OUT: [&str; 2] = ["checksum", "digest"];

impl Event {
    /// Leaves out what is not meant for receivers: keys of other groups, checksums and digests. To be done once,
    /// when the event comes in.
    pub fn clean(&mut self) {
        let own = self.involved.group().to_owned();
        self.metadata.retain(|key, _| {
            let own_key = of_group(key, &own);
            let is_left_out = own_key
                .is_some_and(|rest| LEFT_OUT.iter().any(|name| name.eq_ignore_ascii_case(rest)));
            !is_left_out && (own_key.is_some() || of_group(key, group::EVENT).is_some())
        });
    }

    /// Leaves out the key that only tells equal events apart. To be done after the duplicates are gone.
    pub fn drop_token(&mut self) {
        let key = self.own_key(TOKEN);
        self.metadata.remove(&key);
    }

    /// The value of a key of the object's own group.
    pub(crate) fn own(&self, name: &str) -> Option<&str> {
        self.metadata.get(&self.own_key(name)).map(String::as_str)
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.own(TOKEN)
    }

    fn own_key(&self, name: &str) -> String {
        format!("{}/{name}", self.involved.group())
    }

    /// Whether it only tells that the status of a commit should be set once more.
    pub(crate) fn is_commit_status_update(&self) -> bool {
        self.own(COMMIT_STATUS) == Some(UPDATE)
    }

    /// Whether the event itself, and not an Alert, names a commit.
    pub(crate) fn names_commit(&self) -> bool {
        self.names(COMMIT)
    }

    /// Whether the event itself, and not an Alert, names a pull or merge request.
    pub(crate) fn names_change_request(&self) -> bool {
        self.names(CHANGE_REQUEST)
    }

    fn names(&self, key: &str) -> bool {
        let key = format!("{}/{key}", group::EVENT);
        self.metadata
            .get(&key)
            .is_some_and(|value| !value.is_empty())
    }

    /// The event as an Alert has it sent: with the metadata of all who have a say, and what clashes.
    pub fn combined(&self, alert: &AlertSpec) -> Combined {
        let mut sources: BTreeMap<&str, Vec<(&'static str, &str)>> = BTreeMap::new();
        let mut add = |key, from, value| sources.entry(key).or_default().push((from, value));
        for (key, value) in &self.metadata {
            if let Some(key) = of_group(key, group::EVENT) {
                add(key, "involved object annotations", value.as_str());
            }
        }
        for (key, value) in &alert.event_metadata {
            add(key, "Alert object .spec.eventMetadata", value);
        }
        if let Some(summary) = alert.summary.as_deref().filter(|text| !text.is_empty()) {
            add(SUMMARY, "Alert object .spec.summary", summary);
        }
        for (key, value) in &self.metadata {
            if let Some(key) = of_group(key, self.involved.group()) {
                add(key, "involved object controller metadata", value);
            }
        }
        let mut event = self.clone();
        if !sources.is_empty() {
            // The last source counts most.
            let values = sources.iter().filter_map(|(key, all)| {
                all.last()
                    .map(|(_, value)| ((*key).to_owned(), (*value).to_owned()))
            });
            event.metadata = values.collect();
        }
        let conflicts = sources.into_iter().filter(|(_, all)| all.len() > 1);
        let conflicts = conflicts.map(|(key, all)| {
            let names: Vec<&str> = all.into_iter().map(|(from, _)| from).collect();
            (key.to_owned(), names.join(", "))
        });
        Combined {
            conflicts: conflicts.collect(),
            event,
        }
    }
}

/// An event with the metadata that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Combined {
    /// The event.
    pub event: Event,
    /// Keys that several have set, and who.
    pub conflicts: BTreeMap<String, String>,
}

impl Combined {
    /// What is said of keys that several have set.
    pub const CONFLICT: &'static str = "metadata key conflicts detected (please refer to the Alert API docs and Flux RFC 0008 for more information)";
}

/// The key without its group, when it has this one.
fn of_group<'k>(key: &'k str, group: &str) -> Option<&'k str> {
    key.strip_prefix(group)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ObjectReference;

    fn event(metadata: &[(&str, &str)]) -> Event {
        Event {
            involved: ObjectReference {
                api_version: "kustomize.toolkit.fluxcd.io/v1".to_owned(),
                ..ObjectReference::default()
            },
            metadata: metadata
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Event::default()
        }
    }

    #[test]
    fn keys_of_other_groups_checksums_and_digests_are_left_out() {
        let mut event = event(&[
            ("plain", "1"),
            ("helm.toolkit.fluxcd.io/revision", "2"),
            ("kustomize.toolkit.fluxcd.io/revision", "3"),
            ("kustomize.toolkit.fluxcd.io/Digest", "4"),
            ("kustomize.toolkit.fluxcd.io/checksum", "5"),
            ("kustomize.toolkit.fluxcd.io/token", "6"),
            ("event.toolkit.fluxcd.io/checksum", "7"),
        ]);
        event.clean();
        assert_eq!(event.token(), Some("6"));
        event.drop_token();
        let keys: Vec<&str> = event.metadata.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "event.toolkit.fluxcd.io/checksum",
                "kustomize.toolkit.fluxcd.io/revision"
            ]
        );
    }

    #[test]
    fn the_controller_wins_over_the_alert_and_the_alert_over_annotations() {
        let event = event(&[
            ("event.toolkit.fluxcd.io/a", "annotation"),
            ("event.toolkit.fluxcd.io/summary", "annotation"),
            ("kustomize.toolkit.fluxcd.io/a", "controller"),
        ]);
        let alert = AlertSpec {
            event_metadata: BTreeMap::from([("a".to_owned(), "alert".to_owned())]),
            summary: Some("s".to_owned()),
            ..AlertSpec::default()
        };
        let combined = event.combined(&alert);
        assert_eq!(combined.event.metadata["a"], "controller");
        assert_eq!(combined.event.metadata["summary"], "s");
        assert_eq!(
            combined.conflicts["a"],
            "involved object annotations, Alert object .spec.eventMetadata, involved object controller metadata"
        );
        assert_eq!(combined.conflicts.len(), 2);
    }
}
