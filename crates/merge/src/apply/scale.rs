//! Ownership of replicas between an object and its scale subresource.

use std::collections::BTreeMap;

use everflow_json::Value;

use super::managed::{Manager, Managers, decode_managers, encode_managers};
use crate::MergeError;
use crate::fieldpath::{FieldPath, FieldSet};

/// The API version of the Scale kind.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the versions of a kind keep their replicas; none for versions without scale.
pub type ReplicasPaths = BTreeMap<String, Option<FieldPath>>;

fn replicas_in_scale() -> FieldPath {
    FieldPath::of_fields(&["spec", "replicas"])
}

/// The `managedFields` that the scale subresource shows: the owners of the replicas.
///
/// # Errors
/// [`MergeError::ManagedFields`] for entries that cannot be read.
pub fn entries_for_scale(
    parent: &[Value],
    paths: &ReplicasPaths,
) -> Result<Vec<Value>, MergeError> {
    let mut managers = decode_managers(parent)?;
    managers.retain(|_, manager| {
        matches!(paths.get(&manager.api_version), Some(Some(path)) if manager.set.contains(&path.0))
    });
    let mut set = FieldSet::new();
    set.insert(&replicas_in_scale().0);
    for manager in managers.values_mut() {
        manager.set = set.clone();
        manager.api_version = SCALE_VERSION.to_owned();
    }
    Ok(encode_managers(&managers, &mut [], &[]))
}

/// The `managedFields` of the object after a write through scale that left `scale` there.
///
/// # Errors
/// [`MergeError::ManagedFields`] for entries that cannot be read.
pub fn entries_from_scale(
    parent: &[Value],
    scale: &[Value],
    api_version: &str,
    paths: &ReplicasPaths,
) -> Result<Vec<Value>, MergeError> {
    let parent = decode_managers(parent)?;
    let times: BTreeMap<_, _> = parent
        .iter()
        .map(|(id, manager)| (id.clone(), manager.time.clone()))
        .collect();
    let mut scale = decode_managers(scale)?;
    let mut result = Managers::new();
    for (id, mut manager) in parent {
        let Some(path) = paths.get(&manager.api_version) else {
            continue;
        };
        let owned = path.as_ref().filter(|path| manager.set.contains(&path.0));
        // Appliers keep their identity through scale; updaters carry its version there, so
        // their replicas move to an entry of its own.
        if let Some(path) = owned
            && scale.remove(&id).is_none()
        {
            let mut stolen = FieldSet::new();
            stolen.insert(&path.0);
            manager.set = manager.set.difference(&stolen);
        }
        if !manager.set.is_empty() {
            result.insert(id, manager);
        }
    }
    let in_parent = paths.get(api_version).and_then(Option::as_ref);
    for (id, manager) in scale {
        let (true, Some(path)) = (manager.set.contains(&replicas_in_scale().0), in_parent) else {
            continue;
        };
        let mut set = FieldSet::new();
        set.insert(&path.0);
        let time = times.get(&id).cloned().flatten();
        result.insert(
            id,
            Manager {
                api_version: api_version.to_owned(),
                time,
                set,
                ..manager
            },
        );
    }
    Ok(encode_managers(&result, &mut [], &[]))
}
