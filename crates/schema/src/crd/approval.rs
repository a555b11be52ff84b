//! Groups of the Kubernetes project: definitions in them need to be approved.

use everflow_json::{Value, json};

use super::node;
use crate::structural::FieldError;

const ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    Invalid,
    Bypassed,
    Approved,
}

fn state(definition: &Value) -> (State, String) {
    const MORE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let given = node::text(&definition["metadata"]["annotations"], ANNOTATION);
    if given.is_empty() {
        let why =
            format!("protected groups must have approval annotation \"{ANNOTATION}\", {MORE}");
        return (State::Missing, why);
    }
    if given.starts_with("unapproved") {
        return (State::Bypassed, format!("not approved: \"{given}\""));
    }
    let host = given.split_once("://").map_or("", |(_, rest)| rest);
    if !host.is_empty() && !host.starts_with('/') {
        return (State::Approved, format!("approved in {given}"));
    }
    let why = format!(
        "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a \
         reason starting with \"unapproved\", {MORE}"
    );
    (State::Invalid, why)
}

fn is_protected(definition: &Value) -> bool {
    let group = node::text(&definition["spec"], "group");
    ["k8s.io", "kubernetes.io"].iter().any(|owner| {
        group == *owner
            || group
                .strip_suffix(owner)
                .is_some_and(|rest| rest.ends_with('.'))
    })
}

/// What is wrong with the approval of a definition; what was so before may stay.
pub(super) fn check(definition: &Value, old: Option<&Value>) -> Option<FieldError> {
    if !is_protected(definition) {
        return None;
    }
    let (now, why) = state(definition);
    if old.is_some_and(|old| state(old).0 == now) {
        return None;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match now {
        State::Missing => Some(FieldError::required(field, why)),
        State::Invalid => {
            let given = node::text(&definition["metadata"]["annotations"], ANNOTATION);
            Some(FieldError::invalid(field, json!(given), why))
        }
        State::Bypassed | State::Approved => None,
    }
}

/// What the condition `KubernetesAPIApprovalPolicyConformant` of a definition says: status, reason
/// and message. Definitions of other groups have none.
pub fn approval_condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    if !is_protected(definition) {
        return None;
    }
    let (state, message) = state(definition);
    let (status, reason) = match state {
        State::Missing => ("False", "MissingAnnotation"),
        State::Invalid => ("False", "InvalidAnnotation"),
        State::Bypassed => ("False", "UnapprovedAnnotation"),
        State::Approved => ("True", "ApprovedAnnotation"),
    };
    Some((status, reason, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_project_are_approved() {
        let definition = |group: &str, given: &str| json!({"metadata": {"annotations": {ANNOTATION: given}}, "spec": {"group": group}});
        assert!(check(&definition("example.io", ""), None).is_none());
        assert!(check(&definition("a.x-k8s.io", ""), None).is_none());
        let missing = definition("a.k8s.io", "");
        assert!(check(&missing, None).is_some());
        assert!(check(&missing, Some(&missing)).is_none());
        assert!(check(&definition("a.k8s.io", "nonsense"), None).is_some());
        let url = "https://github.com/kubernetes-sigs/gateway-api/pull/1";
        let approved = definition("gateway.networking.k8s.io", url);
        assert!(check(&approved, None).is_none());
        assert_eq!(approval_condition(&approved).unwrap().0, "True");
    }
}
