//! No effect by a replica whose time of leadership is over.
//!
//! A holder may count on the Lease for [`LASTS`] from its last renewal, and nobody else may write meanwhile. A request
//! that was sent in time and is done late counts as of when it was sent: no client can take it back.

use std::time::Duration;

use super::{Commit, Finding, lately_restored};
use crate::replica;
use crate::shared::Shared;

/// How long after a renewal a holder may write, and a little for clocks that run fast or slow.
const LASTS: Duration = Duration::from_millis(30_100);

/// Who held the Lease since when.
#[derive(Debug, Default)]
pub struct Leases {
    /// The moment of each write of the Lease, and its holder.
    holders: Vec<(Duration, String)>,
}

impl Leases {
    /// Remembers who writes the Lease.
    pub fn note(&mut self, commit: &Commit<'_>) {
        if commit.table != "coordination.k8s.io/leases" || commit.key != replica::LEASE {
            return;
        }
        let holder = commit
            .new
            .and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        self.holders
            .push((commit.at, holder.unwrap_or_default().to_owned()));
    }

    pub(super) fn commit(
        &self,
        shared: &Shared,
        commit: &Commit<'_>,
        replica: usize,
    ) -> Option<Finding> {
        if lately_restored(shared, commit.at) {
            return None;
        }
        let at = commit.late.unwrap_or(commit.at);
        let known = self.holders.partition_point(|(since, _)| *since <= at);
        let (since, holder) = self.holders.get(known.checked_sub(1)?)?;
        let why = match holder {
            holder if holder.is_empty() => "while nobody holds the Lease".to_owned(),
            holder if *holder != replica::identity(replica) => {
                format!("while {holder} holds the Lease")
            }
            _ if at.saturating_sub(*since) > LASTS => {
                let age = at.saturating_sub(*since).as_secs_f64();
                format!("{age:.1}s after it last renewed the Lease")
            }
            _ => return None,
        };
        let text = format!("{} writes {} {why}", commit.who, commit.name());
        Some(commit.finding("one leader", text))
    }
}
