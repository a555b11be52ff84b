//! What shapes an artifact beside the commit.

use everflow_api::Object;
use everflow_api::common::Artifact;
use everflow_api::source::{GitRepository, GitRepositoryStatus, GitVerificationMode};

fn same(one: &Artifact, other: &Artifact) -> bool {
    one.revision == other.revision && one.digest == other.digest
}

/// Whether other artifacts are to be put in than were.
pub(super) fn includes_changed(status: &GitRepositoryStatus, includes: &[Artifact]) -> bool {
    let before = &status.included_artifacts;
    before.len() != includes.len()
        || before
            .iter()
            .zip(includes)
            .any(|(one, other)| !same(one, other))
}

/// Whether the artifact must be made anew although the commit is the same.
pub(super) fn config_changed(object: &Object<GitRepository>, includes: &[Artifact]) -> bool {
    let (spec, status) = (&object.spec, &object.status);
    let mode = spec.verify.as_ref().map(|verify| {
        let mode = verify.mode.unwrap_or(GitVerificationMode::Head);
        mode.normalised().as_str()
    });
    let include_paths = |include: &everflow_api::source::GitRepositoryInclude| {
        let (from, to) = (include.from_path().to_owned(), include.to_path().to_owned());
        (include.repository.name.clone(), from, to)
    };
    spec.ignore != status.observed_ignore
        || spec.recurse_submodules != status.observed_recurse_submodules
        || spec.sparse_checkout != status.observed_sparse_checkout
        || mode.is_some_and(|mode| status.source_verification_mode.as_deref() != Some(mode))
        || !spec
            .include
            .iter()
            .map(include_paths)
            .eq(status.observed_include.iter().map(include_paths))
        || includes_changed(status, includes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn artifact_settings_are_compared_with_the_observed_status() {
        let object = |spec: everflow_json::Value, status: everflow_json::Value| {
            let mut value = json!({
                "metadata": {"name": "a", "namespace": "b"},
                "spec": {"url": "https://x", "interval": "1m"},
                "status": status,
            });
            for (key, content) in spec.as_object().unwrap() {
                value["spec"][key] = content.clone();
            }
            Object::<GitRepository>::read(&value).unwrap()
        };
        let changed = |spec, status| config_changed(&object(spec, status), &[]);
        assert!(!changed(json!({}), json!({})));
        assert!(changed(json!({"ignore": "x"}), json!({})));
        assert!(!changed(
            json!({"ignore": "x"}),
            json!({"observedIgnore": "x"})
        ));
        assert!(changed(json!({"sparseCheckout": ["a"]}), json!({})));
        assert!(changed(
            json!({}),
            json!({"observedRecurseSubmodules": true})
        ));
        let verify = json!({"verify": {"mode": "head", "secretRef": {"name": "k"}}});
        assert!(changed(verify.clone(), json!({})));
        assert!(!changed(verify, json!({"sourceVerificationMode": "HEAD"})));
        let include = json!({"include": [{"repository": {"name": "r"}}]});
        assert!(changed(include, json!({})));
    }
}
