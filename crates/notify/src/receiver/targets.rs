//! What the resources of a Receiver stand for.

use std::collections::BTreeMap;

use everflow_api::Object;
use everflow_api::notification::{EventKind, Receiver, ReceiverResource};

use super::Options;

/// Objects of one kind in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The index of the resource, for its filter.
    pub resource: usize,
    /// The version of their API.
    pub api_version: String,
    /// Their kind.
    pub kind: EventKind,
    /// Where they are.
    pub namespace: String,
    /// Which of them.
    pub select: Select,
}

/// Which objects of a kind and a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Select {
    /// The one with this name: when there is none, the answer is 500.
    Name(String),
    /// Those with these labels, if there are any.
    Labels(BTreeMap<String, String>),
}

/// The versions that are meant when none is given.
fn default_version(kind: EventKind) -> Option<&'static str> {
    use EventKind as Kind;
    match kind {
        Kind::Bucket
        | Kind::HelmChart
        | Kind::HelmRepository
        | Kind::GitRepository
        | Kind::OciRepository => Some("source.toolkit.fluxcd.io/v1"),
        Kind::ImageRepository => Some("image.toolkit.fluxcd.io/v1"),
        Kind::ArtifactGenerator => Some("source.extensions.fluxcd.io/v1beta1"),
        _ => None,
    }
}

/// The targets of a Receiver, and what is wrong with its other resources.
pub(super) fn targets(
    receiver: &Object<Receiver>,
    options: &Options,
) -> (Vec<Target>, Vec<String>) {
    let own = receiver.metadata.namespace();
    let mut targets = Vec::new();
    let mut problems = Vec::new();
    for (index, resource) in receiver.spec.resources.iter().enumerate() {
        match target(index, resource, own, options) {
            Ok(target) => targets.push(target),
            Err(why) => problems.push(format!("resources[{index}]: {why}")),
        }
    }
    (targets, problems)
}

fn target(
    index: usize,
    resource: &ReceiverResource,
    own: &str,
    options: &Options,
) -> Result<Target, String> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let namespace = given(&resource.namespace).unwrap_or_else(|| own.to_owned());
    if options.no_cross_namespace_refs && namespace != own {
        return Err("cross-namespace references are not allowed".to_owned());
    }
    let kind = resource.kind;
    let default = || default_version(kind).map(str::to_owned);
    let api_version = given(&resource.api_version)
        .or_else(default)
        .ok_or_else(|| format!("apiVersion must be specified for kind {:?}", kind.as_str()))?;
    let has_labels =
        !resource.match_labels.is_empty() || resource.extra.contains_key("matchLabels");
    let select = match resource.name.as_str() {
        "*" if has_labels => Select::Labels(resource.match_labels.clone()),
        "*" => return Err("matchLabels field not set when using wildcard '*' as name".to_owned()),
        name => Select::Name(name.to_owned()),
    };
    Ok(Target {
        resource: index,
        api_version,
        kind,
        namespace,
        select,
    })
}
