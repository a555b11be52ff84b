//! What an object's own labels and annotations ask for.

use everflow_json::Value;

/// The prefix of all keys below.
const PREFIX: &str = "kustomize.toolkit.fluxcd.io/";

/// What a label or an annotation asks for. Values are compared without regard to case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectPolicy {
    /// `reconcile: disabled` or `ssa: Ignore`: neither apply nor prune it.
    LeaveAlone,
    /// `ssa: IfNotPresent`: create it, never change it.
    OnlyCreate,
    /// `ssa: Merge`: keep the fields that others have added.
    Merge,
    /// `force: enabled`: recreate it where a field cannot change.
    Recreate,
    /// `prune: disabled`: never delete it.
    Keep,
    /// `substitute: disabled`: do not put variables in.
    NoSubstitution,
    /// `decrypt: disabled`: take it as it is.
    NoDecryption,
}

impl ObjectPolicy {
    fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            ObjectPolicy::LeaveAlone => &[("reconcile", "disabled"), ("ssa", "Ignore")],
            ObjectPolicy::OnlyCreate => &[("ssa", "IfNotPresent")],
            ObjectPolicy::Merge => &[("ssa", "Merge")],
            ObjectPolicy::Recreate => &[("force", "enabled")],
            ObjectPolicy::Keep => &[("prune", "disabled")],
            ObjectPolicy::NoSubstitution => &[("substitute", "disabled")],
            ObjectPolicy::NoDecryption => &[("decrypt", "disabled")],
        }
    }

    /// Whether the object asks for it.
    pub fn of(self, object: &Value) -> bool {
        let asks = |place: &str, key: &str, value: &str| {
            let all = object["metadata"][place].as_object();
            let found = all
                .into_iter()
                .flatten()
                .find(|(name, _)| name.strip_prefix(PREFIX) == Some(key));
            found
                .and_then(|(_, found)| found.as_str())
                .is_some_and(|found| found.eq_ignore_ascii_case(value))
        };
        let places = ["labels", "annotations"];
        let keys = self.keys().iter();
        keys.copied()
            .any(|(key, value)| places.iter().any(|place| asks(place, key, value)))
    }
}

/// Whether a live object must not be deleted: it, or someone else, asks to keep it.
pub fn survives_prune(live: &Value) -> bool {
    ObjectPolicy::Keep.of(live) || ObjectPolicy::LeaveAlone.of(live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn labels_and_annotations_count_in_any_case() {
        let object = json!({"metadata": {
            "labels": {"kustomize.toolkit.fluxcd.io/prune": "Disabled"},
            "annotations": {"kustomize.toolkit.fluxcd.io/ssa": "ignore"},
        }});
        assert!(ObjectPolicy::Keep.of(&object));
        assert!(ObjectPolicy::LeaveAlone.of(&object));
        assert!(!ObjectPolicy::OnlyCreate.of(&object));
        assert!(!ObjectPolicy::Recreate.of(&json!({})));
        assert!(survives_prune(&object));
    }
}
