//! Rules about single objects.

use everflow_json::Value;

use super::names;
use crate::chart::decode::Decoder;
use crate::objects::KubeVersion;

/// Kinds that are deprecated, one per line: API version, kind, the Kubernetes versions that deprecate
/// and remove it, and what to use instead.
const DEPRECATED: &str = include_str!("deprecated.txt");

/// The few fields that the rules look at.
#[derive(Default)]
pub(super) struct Head {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Head {
    pub(super) fn read(object: &Value) -> Result<Self, String> {
        let mut head = Head::default();
        let mut decoder = Decoder::default();
        if let Some(fields) = decoder.object(object, "k8sYamlStruct", "rules.k8sYamlStruct") {
            head.api_version = decoder.string(&fields, "apiVersion");
            head.kind = decoder.string(&fields, "Kind");
            if let Some((path, metadata)) = fields.get("Metadata") {
                let path = path.replacen("k8sYamlStruct", "k8sYamlMetadata", 1);
                if let Some(metadata) = decoder.object(metadata, &path, "rules.k8sYamlMetadata") {
                    decoder.string(&metadata, "Namespace");
                    head.name = decoder.string(&metadata, "Name");
                }
            }
        }
        decoder.finish()?;
        Ok(head)
    }

    pub(super) fn name_rule(&self) -> Result<(), String> {
        let name = &self.name;
        let problems: Vec<String> = names::problems(&self.kind, name)
            .into_iter()
            .map(|problem| format!("metadata.name: Invalid value: {name:?}: {problem}"))
            .collect();
        let all = match &problems[..] {
            [] => return Ok(()),
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Err(format!(
            "object name does not conform to Kubernetes naming requirements: {name:?}: {all}"
        ))
    }

    pub(super) fn deprecation_rule(&self, version: &KubeVersion) -> Result<(), String> {
        let fits = |parts: &Vec<&str>| {
            parts.first() == Some(&self.api_version.as_str())
                && parts.get(1) == Some(&self.kind.as_str())
        };
        let Some(parts) = DEPRECATED
            .lines()
            .map(|line| line.splitn(5, ' ').collect::<Vec<_>>())
            .find(fits)
        else {
            return Ok(());
        };
        let number = |text: &str| text.trim_end_matches('+').parse::<u32>().unwrap_or(0);
        let current = (number(&version.major), number(&version.minor));
        let since = parts.get(2).copied().unwrap_or_default();
        let (major, minor) = since.split_once('.').unwrap_or((since, "0"));
        if current < (number(major), number(minor)) {
            return Ok(());
        }
        let mut text = format!(
            "{} {} is deprecated in v{since}+",
            self.api_version, self.kind
        );
        if let Some(removed) = parts.get(3).filter(|removed| **removed != "-") {
            text.push_str(&format!(", unavailable in v{removed}+"));
        }
        if let Some(instead) = parts.get(4) {
            text.push_str(&format!("; use {instead}"));
        }
        Err(text)
    }

    pub(super) fn selector_rule(&self, manifest: &str) -> Result<(), String> {
        let wants = ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"];
        let has = manifest.contains("matchLabels") || manifest.contains("matchExpressions");
        match wants.contains(&self.kind.as_str()) && !has {
            false => Ok(()),
            true => Err(format!(
                "a {} must contain matchLabels or matchExpressions, and {:?} does not",
                self.kind, self.name
            )),
        }
    }

    pub(super) fn list_rule(&self, object: &Value) -> Result<(), String> {
        if self.kind != "List" {
            return Ok(());
        }
        let keeps = object["items"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|item| {
                item.pointer("/metadata/annotations/helm.sh~1resource-policy")
                    .is_some()
            });
        match keeps {
            false => Ok(()),
            true => Err(
                "annotation 'helm.sh/resource-policy' within List objects are ignored".to_owned(),
            ),
        }
    }
}
