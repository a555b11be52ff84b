//! What can go wrong when objects are applied.

use std::time::Duration;

use everflow_runtime::Error as ClientError;
use thiserror::Error;

use crate::immutable::is_immutable;
use crate::inventory::Entry;

/// What can go wrong.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The server refuses an object, or does not know its kind.
    #[error("{}", refused(.entry, .source))]
    DryRun {
        /// Which object.
        entry: Box<Entry>,
        /// Why.
        source: ClientError,
    },
    /// The server took an object in a dry run and refused it afterwards.
    #[error("{} apply failed: {source}", .entry.id.subject())]
    Apply {
        /// Which object.
        entry: Box<Entry>,
        /// Why.
        source: ClientError,
    },
    /// An object cannot be looked at.
    #[error("{} query failed: {source}", .entry.id.subject())]
    Look {
        /// Which object.
        entry: Box<Entry>,
        /// Why.
        source: ClientError,
    },
    /// Fields of others cannot be taken over.
    #[error("{} metadata.managedFields cleanup failed: {source}", .entry.id.subject())]
    Takeover {
        /// Which object.
        entry: Box<Entry>,
        /// Why.
        source: ClientError,
    },
    /// An object that must be recreated cannot be deleted.
    #[error("{} immutable field detected, failed to delete object: {source}", .entry.id.subject())]
    Recreate {
        /// Which object.
        entry: Box<Entry>,
        /// Why.
        source: ClientError,
    },
    /// An object that must be recreated does not go.
    #[error(
        "{} immutable field detected, failed to wait for object to be deleted: still there after {}s{}",
        .entry.id.subject(), .span.as_secs(), held(.finalizers)
    )]
    NotGone {
        /// Which object.
        entry: Box<Entry>,
        /// How long it was waited for.
        span: Duration,
        /// What holds it.
        finalizers: Vec<String>,
    },
    /// An object was deleted that may come back.
    #[error(
        "{} is deleted, but a request to apply it that got no answer may still be done: it is looked for again in {}s",
        .entry.id.subject(), .left.as_secs() + 1
    )]
    MayLand {
        /// Which object.
        entry: Box<Entry>,
        /// How long that may take.
        left: Duration,
    },
    /// A Secret that is still encrypted.
    #[error(
        "{} is SOPS encrypted, configuring decryption is required for this secret to be reconciled",
        .entry.id.subject()
    )]
    Encrypted {
        /// Which object.
        entry: Box<Entry>,
    },
    /// A rule of spec.ignore makes no sense.
    #[error("spec.ignore[{at}]: {why}")]
    Ignore {
        /// Which rule.
        at: usize,
        /// What is wrong with it.
        why: String,
    },
    /// An object cannot be deleted.
    #[error("{} delete failed: {source}", .entry.id.subject())]
    Delete {
        /// Which object.
        entry: Box<Entry>,
        /// Why.
        source: ClientError,
    },
}

impl ApplyError {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            ApplyError::DryRun { .. } => "DryRunFailed",
            ApplyError::Apply { .. } => "ApplyFailed",
            ApplyError::Look { .. } => "QueryFailed",
            ApplyError::Takeover { .. } => "TakeoverFailed",
            ApplyError::Recreate { .. } | ApplyError::NotGone { .. } => "RecreateFailed",
            ApplyError::Encrypted { .. } => "Encrypted",
            ApplyError::Ignore { .. } => "InvalidIgnoreRule",
            ApplyError::Delete { .. } | ApplyError::MayLand { .. } => "DeleteFailed",
        }
    }

    /// The object it is about.
    pub fn entry(&self) -> Option<&Entry> {
        match self {
            ApplyError::DryRun { entry, .. }
            | ApplyError::Apply { entry, .. }
            | ApplyError::Look { entry, .. }
            | ApplyError::Takeover { entry, .. }
            | ApplyError::Recreate { entry, .. }
            | ApplyError::NotGone { entry, .. }
            | ApplyError::Encrypted { entry }
            | ApplyError::MayLand { entry, .. }
            | ApplyError::Delete { entry, .. } => Some(entry),
            ApplyError::Ignore { .. } => None,
        }
    }

    /// What to do about it, where that can be said.
    pub fn remedy(&self) -> Option<String> {
        let ApplyError::DryRun { entry, source } = self else {
            return None;
        };
        let text = match source {
            ClientError::NoKind { kind, version } => match served_instead(version, kind) {
                Some(served) => {
                    return Some(format!("not served any more, write apiVersion: {served}"));
                }
                None => {
                    "apply the CustomResourceDefinition of this kind first, from a Kustomization that this one has in dependsOn, or correct apiVersion and kind"
                }
            },
            ClientError::NotFound(_) if entry.id.namespace.is_empty() => {
                "give it a metadata.namespace, or the Kustomization a spec.targetNamespace"
            }
            ClientError::NotFound(_) => {
                "add the Namespace to the build, or to a Kustomization that this one has in dependsOn"
            }
            source if is_immutable(source) => {
                "to have it deleted and created anew, give it the annotation kustomize.toolkit.fluxcd.io/force: enabled, or the Kustomization spec.force: true"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// What the client said, if it was asked.
    pub fn client(&self) -> Option<&ClientError> {
        match self {
            ApplyError::DryRun { source, .. }
            | ApplyError::Apply { source, .. }
            | ApplyError::Look { source, .. }
            | ApplyError::Takeover { source, .. }
            | ApplyError::Recreate { source, .. }
            | ApplyError::Delete { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether the API server was busy or away, so that the same may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        let returns = matches!(self, ApplyError::MayLand { .. });
        returns || self.client().is_some_and(ClientError::is_transient)
    }

    /// Whether leadership ended in the middle.
    pub fn is_fenced(&self) -> bool {
        matches!(self.client(), Some(ClientError::Fenced { .. }))
    }
}

fn refused(entry: &Entry, source: &ClientError) -> String {
    let subject = entry.id.subject();
    if matches!(source, ClientError::NotFound(_)) {
        return match entry.id.namespace.is_empty() {
            true => format!("{subject} namespace not specified: {NO_SUCH_RESOURCE}"),
            false => format!("{subject} not found: {source}"),
        };
    }
    match source.refusal().map(|refusal| refusal.reason.as_str()) {
        None | Some("") => format!("{subject} dry-run failed: {source}"),
        Some(reason) => format!("{subject} dry-run failed ({reason}): {source}"),
    }
}

/// What Go's clients say of an address that the server does not know.
const NO_SUCH_RESOURCE: &str = "the server could not find the requested resource";

/// What to write instead of a version of one of Flux's or Kubernetes' kinds that is not served.
pub fn served_instead(api_version: &str, kind: &str) -> Option<String> {
    if let Some(served) = everflow_api::crd::served_instead(api_version, kind) {
        return Some(served);
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let all = everflow_schema::builtin().resources().iter();
    let mut same = all.filter(|known| known.kind == kind);
    let mut others = same.clone();
    if others.any(|known| known.group == group && known.version == version) {
        return None;
    }
    // Where the group is gone, its kinds moved to others.
    let known = same.find(|known| known.group == group || group == "extensions")?;
    Some(match known.group.is_empty() {
        true => known.version.to_string(),
        false => format!("{}/{}", known.group, known.version),
    })
}

/// Whether somebody looks after the kinds of a group although no other controllers run: Kubernetes'
/// own, and Flux's.
pub fn is_looked_after(group: &str) -> bool {
    let mut builtin = everflow_schema::builtin().resources().iter();
    group.ends_with(".toolkit.fluxcd.io") || builtin.any(|known| known.group == group)
}

fn held(finalizers: &[String]) -> String {
    held_by(finalizers).map_or_else(String::new, |held| format!(", {held}"))
}

/// What holds an object that is to go, in words.
pub fn held_by(finalizers: &[String]) -> Option<String> {
    let some = !finalizers.is_empty();
    some.then(|| format!("held by finalizers: {}", finalizers.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_versions_have_a_remedy() {
        let instead = |version: &str, kind: &str| served_instead(version, kind);
        for (version, kind, served) in [
            (
                "helm.toolkit.fluxcd.io/v2beta1",
                "HelmRelease",
                "helm.toolkit.fluxcd.io/v2",
            ),
            (
                "source.toolkit.fluxcd.io/v1beta2",
                "OCIRepository",
                "source.toolkit.fluxcd.io/v1",
            ),
            ("policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
            ("extensions/v1beta1", "Ingress", "networking.k8s.io/v1"),
        ] {
            assert_eq!(instead(version, kind).as_deref(), Some(served), "{version}");
        }
        for (version, kind) in [
            ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
            ("autoscaling/v1", "HorizontalPodAutoscaler"),
            ("v1", "Secret"),
            ("example.com/v1beta1", "Ingress"),
        ] {
            assert_eq!(instead(version, kind), None, "{version}");
        }
    }
}
