//! Unfinished work leaves nothing behind.

use everflow_env::Disk as _;

use super::Finding;
use crate::shared::Shared;

/// Work that is under way may have this many places at once.
const FEW: usize = 4;

/// Looks at the temporary areas of all disks.
pub(crate) fn debris(shared: &Shared) -> Vec<Finding> {
    let at = shared.history.now();
    let mut found = Vec::new();
    for (index, state) in shared.replicas().iter().enumerate() {
        let Ok(left) = state.files.list(everflow_fetch::TEMPORARY) else {
            continue;
        };
        if left.len() > FEW {
            let names: Vec<String> = left.into_iter().map(|entry| entry.name).collect();
            found.push(Finding {
                oracle: "nothing is left behind",
                at,
                text: format!("on the disk of replica {index}: {}", names.join(", ")),
            });
        }
    }
    found
}
