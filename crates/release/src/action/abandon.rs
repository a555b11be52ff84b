//! Breaking off an action that nobody wants any more.

use crate::action::Expected;
use crate::record::{RecordWrite, Status, StoredRecord};

/// The write that ends an action in the middle, because something else is asked for by now. The revision
/// becomes a failed one: what it applied is in the cluster, and the next action starts from there.
pub fn abandon(stored: &StoredRecord, storage_namespace: &str) -> (RecordWrite, Expected) {
    let mut release = stored.release.clone();
    let what = match Status::of(&release.info.status) {
        Status::PendingUpgrade => "Upgrade",
        Status::PendingRollback => "Rollback",
        _ => "Release",
    };
    release.info.description = format!(
        "{what} \"{}\" failed: interrupted, because something newer is asked for",
        release.name
    );
    Status::Failed.as_str().clone_into(&mut release.info.status);
    let write = RecordWrite {
        release,
        storage_namespace: storage_namespace.to_owned(),
        progress: None,
        made_from: stored.place.made_from.clone(),
    };
    let expected = Expected::Version(stored.place.resource_version.clone());
    (write, expected)
}
