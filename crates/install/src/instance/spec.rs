//! The fields of a FluxInstance as options.

use std::collections::BTreeMap;

use everflow_json::Value;

use crate::component::{Component, is_of_flux};
use crate::error::Error;
use crate::names::PLATFORM_ADMIN;
use crate::options::{Options, Sharding, Storage};

/// What the sizes of a cluster mean: attempts at once, memory, and how long to wait for a dependency.
const SIZES: [(&str, u32, &str, &str); 3] = [
    ("small", 5, "512Mi", "10s"),
    ("medium", 10, "1Gi", "5s"),
    ("large", 20, "3Gi", "5s"),
];

/// Reads the fields over options that say the rest; what has no effect here is told in notes.
pub(super) fn options(
    instance: &Value,
    base: &Options,
    notes: &mut Vec<String>,
) -> Result<Options, Error> {
    check_kind(instance)?;
    let spec = &instance["spec"];
    let mut options = base.clone();
    if let Some(namespace) = instance["metadata"]["namespace"].as_str() {
        options.namespace = namespace.to_owned();
    }
    components(spec, &mut options, notes)?;
    distribution(spec, &mut options, notes);
    cluster(&spec["cluster"], &mut options, notes)?;
    options.labels.extend(texts(spec, "labels")?);
    options.annotations.extend(texts(spec, "annotations")?);
    volumes(spec, &mut options, notes)?;
    Ok(options)
}

fn check_kind(instance: &Value) -> Result<(), Error> {
    let text = |field: &str| instance[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if kind != "FluxInstance" || version != "fluxcd.controlplane.io/v1" {
        let why =
            format!("{version:?} {kind:?} is not a FluxInstance of fluxcd.controlplane.io/v1");
        return Err(Error::field("apiVersion, kind", why));
    }
    match instance["metadata"]["name"].as_str() {
        Some("flux") => {}
        name => {
            let name = name.unwrap_or_default();
            let why = format!("{name:?} must be flux: a cluster has one instance");
            return Err(Error::field("metadata.name", why));
        }
    }
    for field in ["version", "registry"] {
        if instance["spec"]["distribution"][field].as_str().is_none() {
            return Err(Error::field(
                format!("spec.distribution.{field}"),
                "is required",
            ));
        }
    }
    Ok(())
}

fn components(spec: &Value, options: &mut Options, notes: &mut Vec<String>) -> Result<(), Error> {
    let Some(names) = spec["components"]
        .as_array()
        .filter(|list| !list.is_empty())
    else {
        return Ok(());
    };
    options.components.clear();
    for (index, name) in names.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if is_of_flux(name) {
            notes.push(format!(
                "spec.components[{index}]: {name} is not supported yet and left out"
            ));
            continue;
        }
        let component = Component::parse(name).map_err(|error| {
            Error::field(format!("spec.components[{index}]"), error.to_string())
        })?;
        if !options.has(component) {
            options.components.push(component);
        }
    }
    Ok(())
}

fn distribution(spec: &Value, options: &mut Options, notes: &mut Vec<String>) {
    let distribution = &spec["distribution"];
    if let Some(secret) = distribution["imagePullSecret"].as_str() {
        options.image_pull_secret = secret.to_owned();
    }
    let registry = distribution["registry"].as_str().unwrap_or_default();
    notes.push(format!(
        "spec.distribution: {registry} has Flux's images; the image is {} (--registry, --image)",
        options.image()
    ));
}

fn cluster(cluster: &Value, options: &mut Options, notes: &mut Vec<String>) -> Result<(), Error> {
    if let Some(domain) = cluster["domain"].as_str() {
        options.cluster_domain = domain.to_owned();
    }
    if let Some(wanted) = cluster["networkPolicy"].as_bool() {
        options.network_policies = wanted;
    }
    if cluster["multitenant"] == true {
        options.multitenant = true;
        options.platform_admin = PLATFORM_ADMIN.to_owned();
    }
    if let Some(account) = cluster["tenantDefaultServiceAccount"].as_str() {
        options.default_service_account = account.to_owned();
    }
    let without_effect = [
        "multitenantWorkloadIdentity",
        "tenantDefaultDecryptionServiceAccount",
        "tenantDefaultKubeConfigServiceAccount",
    ];
    for field in without_effect {
        if !matches!(&cluster[field], Value::Null | Value::Bool(false)) {
            notes.push(format!(
                "spec.cluster.{field}: identities of clouds are not supported yet"
            ));
        }
    }
    if cluster["objectLevelWorkloadIdentity"] == true {
        let gate = "--feature-gates=ObjectLevelWorkloadIdentity=true";
        options.extra_args.push(gate.to_owned());
    }
    options.openshift = cluster["type"] == "openshift";
    if let Some(size) = cluster["size"].as_str() {
        let known = SIZES.iter().find(|(name, ..)| *name == size);
        let Some((_, concurrent, memory, dependency)) = known else {
            let why = format!("{size:?} is not one of small, medium and large");
            return Err(Error::field("spec.cluster.size", why));
        };
        options.concurrent = Some(*concurrent);
        options.memory_limit = (*memory).to_owned();
        options.requeue_dependency = (*dependency).to_owned();
    }
    Ok(())
}

fn texts(spec: &Value, field: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut found = BTreeMap::new();
    let entries = spec["commonMetadata"][field].as_object();
    for (key, value) in entries.into_iter().flat_map(|map| map.iter()) {
        let Some(text) = value.as_str() else {
            let path = format!("spec.commonMetadata.{field}.{key}");
            return Err(Error::field(path, "must be a text: put it in quotes"));
        };
        found.insert(key.to_string(), text.to_owned());
    }
    Ok(found)
}

fn volumes(spec: &Value, options: &mut Options, notes: &mut Vec<String>) -> Result<(), Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let storage = &spec["storage"];
    if storage.is_object() {
        let size = text(&storage["size"]);
        if super::quantity(&size).is_none() {
            let why = format!("{size:?} is not a quantity such as 10Gi");
            return Err(Error::field("spec.storage.size", why));
        }
        let class = text(&storage["class"]);
        options.storage = Some(Storage { class, size });
        notes.push(
            "spec.storage: each replica has a volume of its own of that class and size, which goes with its pod: \
             artifacts are made anew"
                .to_owned(),
        );
    }
    let sharding = &spec["sharding"];
    if sharding.is_object() {
        let shards = sharding["shards"].as_array().into_iter().flatten();
        let shards: Vec<String> = shards.map(text).collect();
        if shards.is_empty() {
            return Err(Error::field(
                "spec.sharding.shards",
                "at least one is needed",
            ));
        }
        if sharding["storage"] == "persistent" && options.storage.is_none() {
            let why = "persistent needs spec.storage";
            return Err(Error::field("spec.sharding.storage", why));
        }
        let key = match sharding["key"].as_str() {
            None | Some("") => "sharding.fluxcd.io/key".to_owned(),
            Some(key) => key.to_owned(),
        };
        options.sharding = Some(Sharding { key, shards });
    }
    Ok(())
}
