//! Several replicas share the work: the objects are cut into shards, each with a Lease of its own.
//!
//! Which shard an object is in follows from its name alone. A replica works on the objects of the shards whose Leases it
//! holds, under the epoch of each. [`assign`] says who should hold what; the Leases decide who does.

mod assign;
mod election;
mod member;
mod plan;
mod speed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::lease::Epoch;
use crate::queue::Key;

pub use assign::assign;
pub use election::{ShardElection, ShardOptions};
pub use member::{Member, REPLICAS_LABEL};
pub use speed::{is_slow, median};

/// The most shards there may be: more would only cost requests.
pub const MOST_SHARDS: usize = 64;

/// The shard that an object is in. It never changes as long as the number of shards does not.
pub fn shard_of(key: &Key, shards: usize) -> usize {
    let mut hash = Sha256::new();
    for part in [&key.namespace, &key.name, &key.kind] {
        hash.update(part.as_bytes());
        hash.update([b'/']);
    }
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    let shards = u64::try_from(shards.max(1)).unwrap_or(1);
    usize::try_from(u64::from_be_bytes(first) % shards).unwrap_or_default()
}

/// The name of a shard's Lease. It says how many shards there are: another number makes other shards.
pub fn shard_lease(base: &str, shard: usize, shards: usize) -> String {
    format!("{base}-shard-{shard}-of-{shards}")
}

/// Who holds the Lease of an installation whose replicas share the work: it keeps out whoever would share it otherwise.
pub fn layout_identity(shards: usize) -> String {
    format!("everflow-{shards}-shards")
}

/// The number of shards that [`layout_identity`] tells.
pub fn layout_shards(identity: &str) -> Option<usize> {
    let count = identity
        .strip_prefix("everflow-")?
        .strip_suffix("-shards")?;
    count.parse().ok().filter(|count| *count > 0)
}

/// The shards that this process works on.
#[derive(Debug, Clone)]
pub struct Shards {
    count: usize,
    held: BTreeMap<usize, Epoch>,
    only: Option<Arc<BTreeSet<Key>>>,
}

impl Shards {
    /// None of so many. With `only`, whatever is held, nothing else is worked on.
    pub fn none(count: usize, only: Option<Arc<BTreeSet<Key>>>) -> Self {
        Shards {
            count: count.max(1),
            held: BTreeMap::new(),
            only,
        }
    }

    /// The same with these held.
    #[must_use]
    pub fn holding(&self, held: BTreeMap<usize, Epoch>) -> Self {
        Shards {
            held,
            ..self.clone()
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those that are held.
    pub fn held(&self) -> &BTreeMap<usize, Epoch> {
        &self.held
    }

    /// The epoch under which an object is worked on here, if it is.
    pub fn owns(&self, key: &Key) -> Option<&Epoch> {
        if self.held.is_empty() || self.only.as_ref().is_some_and(|only| !only.contains(key)) {
            return None;
        }
        self.held.get(&shard_of(key, self.count))
    }

    /// Whether the same is held under the same epochs.
    pub(crate) fn is_same(&self, other: &Shards) -> bool {
        self.held.len() == other.held.len()
            && self
                .held
                .iter()
                .zip(&other.held)
                .all(|((one, mine), (two, theirs))| one == two && mine.is(theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_of_an_object_is_the_same_in_every_version() {
        let key = Key::new("Kustomization", "flux-system", "apps");
        assert_eq!(
            [1, 2, 8, 64].map(|count| shard_of(&key, count)),
            [0, 0, 2, 26]
        );
    }

    #[test]
    fn objects_are_spread_over_all_shards() {
        let mut counts = [0_usize; 8];
        for number in 0..8_000 {
            let key = Key::new("Kustomization", "apps", format!("team-{number}"));
            counts[shard_of(&key, 8)] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1_150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_layout_tells_its_number_of_shards() {
        assert_eq!(layout_shards(&layout_identity(8)), Some(8));
        for other in [
            "source-controller-7d9_0123",
            "everflow-0-shards",
            "everflow-x-shards",
            "",
        ] {
            assert_eq!(layout_shards(other), None);
        }
    }
}
