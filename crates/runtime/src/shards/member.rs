//! What each replica tells the others of itself, in a Lease of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everflow_json::Value;

use crate::client::{annotation, revision};

/// The label of all Leases of an installation; its value is the name of the first.
pub const REPLICAS_LABEL: &str = "replicas.everflow.dev/of";
/// How many shards the replica shares.
const SHARDS: &str = "replicas.everflow.dev/shards";
/// Where its artifacts are.
const ADDRESS: &str = "replicas.everflow.dev/address";
/// How long its requests to the API servers take, in seconds.
const LATENCY: &str = "replicas.everflow.dev/api-latency";
/// Whether it is much slower than the others and wants no shards.
const SLOW: &str = "replicas.everflow.dev/slow";

/// The shards that a guest asks for.
const WANTS: &str = "replicas.everflow.dev/wants";

/// What a replica tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// Who it is.
    pub identity: String,
    /// How many shards it shares.
    pub shards: usize,
    /// Where its artifacts are, as `host:port`.
    pub address: Option<String>,
    /// How long its requests take.
    pub latency: Option<Duration>,
    /// Whether it wants no shards because of that.
    pub slow: bool,
    /// The shards that it asks for as a guest, who takes no share.
    pub wants: BTreeSet<usize>,
}

impl Member {
    /// Reads a member's Lease. `None` for other Leases.
    pub fn read(lease: &Value) -> Option<Member> {
        let shards = annotation(lease, SHARDS)?.parse().ok()?;
        let identity = lease["spec"]["holderIdentity"].as_str()?;
        let latency = annotation(lease, LATENCY).and_then(|text| text.parse::<f64>().ok());
        Some(Member {
            identity: identity.to_owned(),
            shards,
            address: annotation(lease, ADDRESS)
                .filter(|text| !text.is_empty())
                .map(str::to_owned),
            latency: latency.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            slow: annotation(lease, SLOW) == Some("true"),
            wants: annotation(lease, WANTS)
                .unwrap_or_default()
                .split(',')
                .filter_map(|number| number.parse().ok())
                .collect(),
        })
    }

    /// The annotations that tell it.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let latency = self
            .latency
            .map(|span| format!("{:.3}", span.as_secs_f64()));
        let wants: Vec<String> = self.wants.iter().map(ToString::to_string).collect();
        let all = [
            (SHARDS, self.shards.to_string()),
            (ADDRESS, self.address.clone().unwrap_or_default()),
            (LATENCY, latency.unwrap_or_default()),
            (SLOW, self.slow.to_string()),
            (WANTS, wants.join(",")),
        ];
        all.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// The name of a member's Lease.
    pub fn lease_name(base: &str, identity: &str) -> String {
        let plain = |letter: char| match letter {
            'a'..='z' | '0'..='9' | '-' => letter,
            'A'..='Z' => letter.to_ascii_lowercase(),
            _ => '-',
        };
        let identity: String = identity.chars().map(plain).collect();
        let identity = identity.trim_matches('-');
        format!("{base}-member-{identity}")
    }
}

/// A member as it was seen last.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) member: Member,
    pub(super) lease: Value,
    pub(super) since: Duration,
}

impl Seen {
    /// Takes in a Lease that may be news.
    pub(super) fn update(&mut self, member: Member, lease: Value, now: Duration) {
        if revision(&lease) > revision(&self.lease) {
            (self.member, self.lease, self.since) = (member, lease, now);
        }
    }

    /// Whether it has been heard of within the time that its Lease lasts.
    pub(super) fn is_alive(&self, now: Duration) -> bool {
        now < self.ends()
    }

    pub(super) fn ends(&self) -> Duration {
        let seconds = self.lease["spec"]["leaseDurationSeconds"].as_u64();
        self.since + Duration::from_secs(seconds.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn member_round_trips_through_lease_annotations() {
        let member = Member {
            identity: "engine-7d9_0F".into(),
            shards: 8,
            address: Some("10.1.2.3:9090".into()),
            latency: Some(Duration::from_millis(12)),
            slow: true,
            wants: [3, 7].into(),
        };
        let mut lease = json!({"metadata": {}, "spec": {"holderIdentity": "engine-7d9_0F"}});
        for (name, value) in member.annotations() {
            lease["metadata"]["annotations"][name.as_str()] = value.into();
        }
        assert_eq!(Member::read(&lease), Some(member));
        let other = json!({"metadata": {"name": "x"}, "spec": {"holderIdentity": "a"}});
        assert_eq!(Member::read(&other), None);
    }

    #[test]
    fn names_of_members_are_names_of_objects() {
        assert_eq!(
            Member::lease_name("source-controller-leader-election", "Pod.a_0f"),
            "source-controller-leader-election-member-pod-a-0f"
        );
    }
}
