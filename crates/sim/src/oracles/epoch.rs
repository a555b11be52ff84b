//! No effect by a replica whose time of leadership is over.

use super::{Commit, Finding};
use crate::replica;
use crate::shared::Shared;

pub(super) fn commit(shared: &Shared, commit: &Commit<'_>, replica: usize) -> Option<Finding> {
    let store = shared.server()?.store();
    let lease = store.get("coordination.k8s.io/leases", replica::LEASE)?;
    let holder = lease.value["spec"]["holderIdentity"].as_str()?;
    if holder.is_empty() || holder == replica::identity(replica) {
        return None;
    }
    let text = format!(
        "{} writes {} while {holder} holds the Lease",
        commit.who,
        commit.name()
    );
    Some(commit.finding("one leader", text))
}
