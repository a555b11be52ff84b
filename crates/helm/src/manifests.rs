//! Rendered files into manifests and hooks, in the order in which they are installed.

use everflow_gotemplate::Meter;
use everflow_json::Value;
use everflow_limits::{Exceeded, at_most};
use everflow_sprig::cost;
use everflow_yaml::documents::helm_manifests;

use crate::chart::decode::Decoder;
use crate::values::Warnings;

/// One manifest that is not a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The template it comes from.
    pub path: String,
    /// Its text.
    pub content: String,
    /// Its kind.
    pub kind: String,
}

/// A manifest that runs at a certain moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The object's name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The template it comes from.
    pub path: String,
    /// Its text.
    pub manifest: String,
    /// The moments: `pre-install`, `test` and so on.
    pub events: Vec<String>,
    /// Lower weights run first.
    pub weight: i64,
    /// When it is deleted.
    pub delete_policies: Vec<String>,
    /// When its logs are kept.
    pub output_log_policies: Vec<String>,
}

/// Why manifests cannot be sorted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// A document is no manifest.
    #[error("YAML parse error on {path}: {reason}")]
    Unreadable {
        /// The template it comes from.
        path: String,
        /// Why.
        reason: String,
    },
    /// The manifests are too many or too large.
    #[error("{path}: {source}")]
    Exceeded {
        /// The template where it was too much.
        path: String,
        /// What was used up.
        source: Exceeded,
    },
}

/// The most objects that a chart may render to, unless it is said otherwise.
pub const MAX_OBJECTS: u64 = 50_000;
/// The option that sets it.
pub const OBJECTS_FLAG: &str = "--max-build-objects";

const EVENTS: [&str; 9] = [
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
];

/// The order in which kinds are installed; kinds that are not named come last, by name.
pub const INSTALL_ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// What a manifest takes beside its text.
const DOCUMENT_BYTES: usize = 512;

/// Splits rendered files (by path) into hooks and manifests, `most` in all, both in install order.
pub fn sort_manifests<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f [u8])>,
    warnings: &mut Warnings,
    most: u64,
    meter: &Meter<'_>,
) -> Result<(Vec<Hook>, Vec<Manifest>), ManifestError> {
    let mut files: Vec<(&str, &[u8])> = files.into_iter().collect();
    files.sort_by_key(|(path, _)| *path);
    let mut hooks = Vec::new();
    let mut manifests = Vec::new();
    for (path, text) in files {
        let base = path.rsplit('/').next().unwrap_or(path);
        if base.starts_with('_') {
            continue;
        }
        let used_up = |source| ManifestError::Exceeded {
            path: path.to_owned(),
            source,
        };
        for document in helm_manifests(text) {
            let count = (hooks.len() + manifests.len()) as u64 + 1;
            let checked = at_most(count, most, "objects in one chart", OBJECTS_FLAG);
            checked.map_err(used_up)?;
            meter.check().map_err(used_up)?;
            // The manifest's own text is kept, beside what reading it takes.
            let bytes = DOCUMENT_BYTES + 2 * path.len() + 3 * document.len();
            meter.add_buffer(bytes).map_err(used_up)?;
            let _held = meter.hold(cost::of_yaml(document)).map_err(used_up)?;
            sort_document(path, document, &mut hooks, &mut manifests, warnings)?;
        }
    }
    hooks.sort_by(|left: &Hook, right: &Hook| rank(&left.kind).cmp(&rank(&right.kind)));
    manifests.sort_by(|left: &Manifest, right: &Manifest| rank(&left.kind).cmp(&rank(&right.kind)));
    Ok((hooks, manifests))
}

/// Splits at lines that begin with `---`, blocks and strings notwithstanding; documents of white
/// space are dropped.
pub fn split_manifests(text: &str) -> Vec<&str> {
    helm_manifests(text.as_bytes())
        .into_iter()
        // Cut at ASCII marks, so that every part is still UTF-8.
        .filter_map(|document| std::str::from_utf8(document).ok())
        .collect()
}

fn rank(kind: &str) -> (usize, &str) {
    match INSTALL_ORDER.iter().position(|known| *known == kind) {
        Some(rank) => (rank, ""),
        None => (INSTALL_ORDER.len(), kind),
    }
}

fn sort_document(
    path: &str,
    document: &[u8],
    hooks: &mut Vec<Hook>,
    manifests: &mut Vec<Manifest>,
    warnings: &mut Warnings,
) -> Result<(), ManifestError> {
    let text = String::from_utf8_lossy(document).into_owned();
    let head = Head::read(document).map_err(|reason| ManifestError::Unreadable {
        path: path.to_owned(),
        reason,
    })?;
    let Some(moments) = head.annotation("helm.sh/hook") else {
        manifests.push(Manifest {
            path: path.to_owned(),
            content: text,
            kind: head.kind,
        });
        return Ok(());
    };
    let mut events = Vec::new();
    for moment in moments.split(',') {
        let moment = moment.trim().to_lowercase();
        match moment.as_str() {
            "test-success" => events.push("test".to_owned()),
            known if EVENTS.contains(&known) => events.push(moment),
            _ => {
                warnings.push(format!(
                    "level=INFO msg=\"skipping unknown hooks\" hookTypes={}",
                    log_value(moments)
                ));
                return Ok(());
            }
        }
    }
    let list = |annotation: &str| -> Vec<String> {
        head.annotation(annotation)
            .map(|values| values.split(',').map(|v| v.trim().to_lowercase()).collect())
            .unwrap_or_default()
    };
    hooks.push(Hook {
        events,
        weight: head
            .annotation("helm.sh/hook-weight")
            .and_then(|weight| weight.parse().ok())
            .unwrap_or(0),
        delete_policies: list("helm.sh/hook-delete-policy"),
        output_log_policies: list("helm.sh/hook-output-log-policy"),
        name: head.name,
        kind: head.kind,
        path: path.to_owned(),
        manifest: text,
    });
    Ok(())
}

/// A value in a log line: quoted where it would not read as one word.
fn log_value(text: &str) -> String {
    let plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_graphic() && !"=\"".contains(c));
    match plain {
        true => text.to_owned(),
        false => everflow_gotemplate::gofmt::quote(text.as_bytes()),
    }
}

/// The few fields that decide what a document is.
struct Head {
    kind: String,
    name: String,
    annotations: Vec<(String, String)>,
}

impl Head {
    fn read(document: &[u8]) -> Result<Self, String> {
        let yaml: Value = everflow_yaml::sigs::yaml_to_json(document)
            .map_err(|error| format!("error converting YAML to JSON: {error}"))?;
        let mut head = Head {
            kind: String::new(),
            name: String::new(),
            annotations: Vec::new(),
        };
        let mut decoder = Decoder::default();
        if let Some(fields) = decoder.object(&yaml, "SimpleHead", "util.SimpleHead") {
            decoder.string(&fields, "apiVersion");
            head.kind = decoder.string(&fields, "kind");
            if let Some(metadata) = decoder.nameless_object(
                &fields,
                "metadata",
                "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \
                 \"json:\\\"annotations\\\"\" }",
            ) {
                head.name = decoder.string(&metadata, "name");
                head.annotations = decoder.string_map(&metadata, "annotations");
            }
        }
        decoder.finish()?;
        Ok(head)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_metadata_name_no_type() {
        let reason = |document: &str| Head::read(document.as_bytes()).err().unwrap_or_default();
        let start = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
        assert_eq!(
            reason("metadata: {annotations: {a: {b: 1}}}"),
            format!("{start} object into Go struct field .metadata.annotations of type string")
        );
        assert_eq!(
            reason("metadata: {annotations: x}"),
            format!(
                "{start} string into Go struct field .metadata.annotations of type map[string]string"
            )
        );
        assert_eq!(
            reason("kind: [1]"),
            format!("{start} array into Go struct field SimpleHead.kind of type string")
        );
    }

    #[test]
    fn documents_split_at_dashes_and_blank_ones_go() {
        let text = "\n---\n# c\na: 1\n---   \n\n---\nb: |\n  x\n---y: 2\n";
        assert_eq!(
            split_manifests(text),
            ["# c\na: 1\n", "b: |\n  x\n", "y: 2\n"]
        );
    }
}
