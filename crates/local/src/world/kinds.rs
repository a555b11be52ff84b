//! The kinds of Flux and its neighbours that a world has.

use everflow_api::inventory::ObjectId;
use everflow_controllers::{ControllerKind, resources};
use everflow_runtime::client::Resource;

use crate::neighbours;
use crate::picture::{ACCEPTED, NOT_SUPPORTED};
use crate::stand_in::Unsupported;

/// The kinds that worlds have controllers for.
pub fn delivered() -> Vec<ControllerKind> {
    ControllerKind::deploying()
}

/// Kinds of Flux that nobody here takes care of: Receivers, which nobody calls here, and those that are not
/// supported yet.
pub fn unsupported() -> Vec<Unsupported> {
    let receivers = Unsupported {
        resource: resources::RECEIVERS,
        reason: ACCEPTED,
        message: "accepted: no webhooks come in here".to_owned(),
    };
    let others = neighbours::KINDS.iter().map(|resource| Unsupported {
        resource: resource.clone(),
        reason: NOT_SUPPORTED,
        message: format!(
            "{} are not supported yet: nothing was done",
            several(&resource.kind)
        ),
    });
    [receivers].into_iter().chain(others).collect()
}

/// A kind as a word for several objects of it.
fn several(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

/// Whether every world has a kind, of those that Kubernetes does not have.
pub fn has_kind(group: &str, kind: &str) -> bool {
    let mut beside = neighbours::KINDS.iter();
    everflow_api::crd::kind(Some(group), kind).is_some()
        || beside.any(|known| known.group == group && known.kind == kind)
}

/// All kinds of Flux that are looked at.
pub(super) fn flux_kinds() -> Vec<Resource> {
    let mut kinds: Vec<Resource> = ControllerKind::deploying()
        .iter()
        .map(|kind| kind.resource())
        .collect();
    let more = [resources::RECEIVERS, resources::EXTERNAL_ARTIFACTS];
    for kind in more.into_iter().chain(neighbours::KINDS.iter().cloned()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// The kind of an object, if it is one of them.
pub(super) fn flux_kind(id: &ObjectId) -> Option<Resource> {
    flux_kinds()
        .into_iter()
        .find(|resource| resource.group == id.group && resource.kind == id.kind)
}
