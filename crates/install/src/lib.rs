//! What an installation of Everflow consists of.
//!
//! [`manifests`] makes the objects from [`Options`], in the order in which they are applied. [`instance`] makes both
//! from a FluxInstance: options from its fields, and what its patches ask of Flux's Deployments carried over to ours.
//! Everything here takes data and returns data.
//!
//! ```
//! use everflow_install::{Options, manifests, to_yaml};
//! let options = Options { namespace: "delivery".into(), ..Options::default() };
//! let objects = manifests(&options)?;
//! assert!(to_yaml(&objects).contains("name: delivery"));
//! # Ok::<(), everflow_install::Error>(())
//! ```
#![forbid(unsafe_code)]

mod component;
mod deployment;
mod error;
pub mod instance;
mod names;
mod network;
mod options;
mod rbac;
mod selector;

use everflow_json::{Value, json};

pub use component::Component;
pub use error::Error;
pub use names::{
    CONTAINER, DEPLOYMENT, PART_OF_FLUX, PLATFORM_ADMIN, PODS, SERVICE_ACCOUNT, VERSION,
};
pub use options::{LeaseTimes, OWN_LEASE_TIMES, Options, Sharding, Storage};
pub use selector::LabelSelector;

/// The objects of an installation, in the order in which they are applied: definitions, the namespace, the rest.
///
/// # Errors
/// An option that makes no sense is named, with what to write instead.
pub fn manifests(options: &Options) -> Result<Vec<Value>, Error> {
    options.check()?;
    let mut objects = definitions();
    if options.flux_instance {
        objects.extend(instance_definitions());
    }
    objects.extend(without_definitions(options)?);
    for object in &mut objects {
        common_metadata(options, object);
    }
    Ok(objects)
}

/// The definitions of Flux's kinds, labelled as parts of Flux.
pub fn definitions() -> Vec<Value> {
    labelled(everflow_api::crd::crds())
}

/// The definitions of FluxInstance and FluxReport, labelled in the same way.
pub fn instance_definitions() -> Vec<Value> {
    labelled(instance::definitions())
}

fn labelled(mut definitions: Vec<Value>) -> Vec<Value> {
    for definition in &mut definitions {
        // They are everybody's: nothing in them says in which namespace the controllers run.
        definition["metadata"]["labels"] = json!({
            "app.kubernetes.io/part-of": "flux",
            "app.kubernetes.io/version": VERSION,
        });
    }
    definitions
}

fn without_definitions(options: &Options) -> Result<Vec<Value>, Error> {
    let mut objects = vec![network::namespace(options)];
    objects.push(deployment::quota(options));
    objects.extend(rbac::service_accounts(options));
    objects.extend(rbac::roles(options));
    objects.extend(network::services(options));
    objects.extend(deployment::deployments(options));
    objects.extend(deployment::budgets(options));
    objects.extend(network::policies(options));
    objects.extend(network::pod_monitor(options));
    Ok(objects)
}

fn common_metadata(options: &Options, object: &mut Value) {
    let maps = [
        ("labels", &options.labels),
        ("annotations", &options.annotations),
    ];
    for (field, entries) in maps {
        for (key, value) in entries {
            object["metadata"][field][key.as_str()] = json!(value);
        }
    }
}

/// The objects as one stream of YAML documents.
pub fn to_yaml(objects: &[Value]) -> String {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&everflow_yaml::emit::sigs(object));
    }
    text
}
