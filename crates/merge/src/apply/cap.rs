//! Keeps the number of updaters bounded: the oldest ones become one.

use std::collections::BTreeMap;

use super::managed::{Manager, ManagerId, Managers, Operation, seconds};

/// More updaters than this are not kept apart.
pub const MAX_UPDATE_MANAGERS: usize = 10;

const OLD_UPDATES: &str = "ancient-changes";

/// Merges the oldest updaters, version by version, until few enough are left.
pub(super) fn cap(managers: &mut Managers) {
    let updates = |manager: &&Manager| manager.operation == Operation::Update;
    if managers.values().filter(updates).count() <= MAX_UPDATE_MANAGERS {
        return;
    }
    let mut updaters: Vec<(i64, ManagerId)> = managers
        .iter()
        .filter(|(_, manager)| manager.operation == Operation::Update)
        .map(|(id, manager)| (seconds(manager), id.clone()))
        .collect();
    updaters.sort();
    let mut left = updaters.len();
    let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
    for (_, id) in updaters {
        if left <= MAX_UPDATE_MANAGERS {
            return;
        }
        let Some(manager) = managers.get(&id).cloned() else {
            continue;
        };
        let version = manager.api_version.clone();
        let bucket_id = ManagerId::new(OLD_UPDATES, Operation::Update, &version, "");
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, id);
            continue;
        };
        if !managers.contains_key(&bucket_id)
            && let Some(oldest) = managers.remove(first)
        {
            managers.insert(bucket_id.clone(), bucket(&oldest));
        }
        if let Some(known) = managers.get(&bucket_id) {
            let merged = Manager {
                set: manager.set.union(&known.set),
                ..bucket(&manager)
            };
            managers.insert(bucket_id.clone(), merged);
        }
        if id != bucket_id {
            managers.remove(&id);
        }
        left -= 1;
    }
}

/// The entry that takes the place of an old updater; the time is the one of the merged entry.
fn bucket(manager: &Manager) -> Manager {
    Manager {
        name: OLD_UPDATES.to_owned(),
        subresource: String::new(),
        ..manager.clone()
    }
}
