//! Rendered files into manifests and hooks, in the order in which they are installed.

use serde_json::Value;

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

/// A document that is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("YAML parse error on {path}: {reason}")]
pub struct ManifestError {
    /// The template it comes from.
    pub path: String,
    /// Why.
    pub reason: String,
}

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

/// Splits rendered files (by path) into hooks and manifests, both in install order.
pub fn sort_manifests<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f str)>,
    warnings: &mut Warnings,
) -> Result<(Vec<Hook>, Vec<Manifest>), ManifestError> {
    let mut files: Vec<(&str, &str)> = files.into_iter().collect();
    files.sort_by_key(|(path, _)| *path);
    let mut hooks = Vec::new();
    let mut manifests = Vec::new();
    for (path, text) in files {
        let base = path.rsplit('/').next().unwrap_or(path);
        if base.starts_with('_') || text.trim().is_empty() {
            continue;
        }
        for document in split_manifests(text) {
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
    let text = text.trim_start();
    let mut documents = Vec::new();
    let mut start = 0;
    let mut line_start = 0;
    while line_start <= text.len() {
        let rest = &text[line_start..];
        if let Some(after) = rest.strip_prefix("---") {
            documents.push(&text[start..line_start]);
            let after = after.trim_start_matches([' ', '\t']);
            start = text.len() - after.len();
        }
        match rest.find('\n') {
            Some(end) => line_start += end + 1,
            None => break,
        }
    }
    documents.push(&text[start..]);
    documents
        .into_iter()
        .filter(|document| !document.trim().is_empty())
        .map(str::trim_start)
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
    document: &str,
    hooks: &mut Vec<Hook>,
    manifests: &mut Vec<Manifest>,
    warnings: &mut Warnings,
) -> Result<(), ManifestError> {
    let head = Head::read(document).map_err(|reason| ManifestError {
        path: path.to_owned(),
        reason,
    })?;
    let Some(moments) = head.annotation("helm.sh/hook") else {
        manifests.push(Manifest {
            path: path.to_owned(),
            content: document.to_owned(),
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
        manifest: document.to_owned(),
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
    fn read(document: &str) -> Result<Self, String> {
        let yaml: Value = everflow_yaml::sigs::yaml_to_json(document.as_bytes())
            .map_err(|error| format!("error converting YAML to JSON: {error}"))?;
        let mut head = Head {
            kind: String::new(),
            name: String::new(),
            annotations: Vec::new(),
        };
        let mut decoder = Decoder::default();
        if let Some(fields) = decoder.top(&yaml, "util.SimpleHead", "SimpleHead") {
            decoder.string(&fields, "apiVersion");
            head.kind = decoder.string(&fields, "kind");
            if let Some((path, value)) = fields.get("metadata")
                && let Some(metadata) = decoder.object(
                    value,
                    &path,
                    "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \
                     \"json:\\\"annotations\\\"\" }",
                )
            {
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
    fn documents_split_at_dashes_and_blank_ones_go() {
        let text = "\n---\n# c\na: 1\n---   \n\n---\nb: |\n  x\n---y: 2\n";
        assert_eq!(
            split_manifests(text),
            ["# c\na: 1\n", "b: |\n  x\n", "y: 2\n"]
        );
    }
}
