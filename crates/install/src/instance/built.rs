//! The objects that a FluxInstance stands for.

use std::collections::BTreeSet;

use everflow_json::Value;

use super::carry::{Patched, carry};
use super::patches::{Patch, is_same};
use super::{spec, stand_ins, sync};
use crate::component::{Component, is_of_flux};
use crate::error::Error;
use crate::names::SERVICE_ACCOUNT;
use crate::options::{LeaseTimes, Options};

/// What a FluxInstance comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The objects, in the order in which they are applied.
    pub objects: Vec<Value>,
    /// What its fields say, without its patches.
    pub options: Options,
    /// What of the instance has no effect, or another one than with Flux.
    pub notes: Vec<String>,
}

/// Builds a FluxInstance. `base` says what it has no fields for: the image, the number of replicas, what the pods keep
/// apart from.
///
/// # Errors
/// A field that makes no sense, or a patch that cannot be applied, by its place in the list.
pub fn build(instance: &Value, base: &Options) -> Result<Built, Error> {
    let mut notes = Vec::new();
    let options = spec::options(instance, base, &mut notes)?;
    let mut objects = crate::manifests(&options)?;
    let mut synced = sync::objects(instance, &options)?;
    for object in &mut synced {
        crate::common_metadata(&options, object);
    }
    objects.extend(synced);
    let mut work = Work::new(&options, objects);
    let patches = instance["spec"]["kustomize"]["patches"].as_array();
    for (index, value) in patches.into_iter().flatten().enumerate() {
        work.patch(&Patch::read(index, value)?)?;
    }
    let (objects, told) = work.finish();
    check_leases(&objects)?;
    notes.extend(told);
    Ok(Built {
        objects,
        options,
        notes,
    })
}

/// Times of leases may come from several patches; together they must make sense.
fn check_leases(objects: &[Value]) -> Result<(), Error> {
    for object in objects
        .iter()
        .filter(|object| object["kind"] == "Deployment")
    {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array();
        for container in containers.into_iter().flatten() {
            let args = container["args"].as_array().into_iter().flatten();
            LeaseTimes::of_args(args.filter_map(Value::as_str)).check()?;
        }
    }
    Ok(())
}

/// Objects while patches are applied to them.
struct Work {
    /// Ours, in order.
    objects: Vec<Value>,
    /// What stands for Flux's Deployments and ServiceAccounts.
    stand_ins: Vec<Value>,
    deployments: Vec<Patched>,
    accounts: Vec<Patched>,
    notes: BTreeSet<(usize, String)>,
}

/// Whether an object has a stand-in, which patches are for in its place.
fn is_stood_for(object: &Value) -> bool {
    object["kind"] == "Deployment"
        || object["kind"] == "ServiceAccount" && object["metadata"]["name"] == SERVICE_ACCOUNT
}

impl Work {
    fn new(options: &Options, objects: Vec<Value>) -> Self {
        let (mut stand_ins, mut deployments, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
        for component in Component::ALL {
            if !options.has(component) {
                continue;
            }
            let deployment = stand_ins::deployment(component, options);
            deployments.push(Patched::new(component, &deployment));
            stand_ins.push(deployment);
            let account = stand_ins::service_account(component, options);
            // With a namesake of ours it is that one which patches are for.
            if !objects.iter().any(|object| is_same(object, &account)) {
                accounts.push(Patched::new(component, &account));
                stand_ins.push(account);
            }
        }
        Work {
            objects,
            stand_ins,
            deployments,
            accounts,
            notes: BTreeSet::new(),
        }
    }

    fn patch(&mut self, patch: &Patch<'_>) -> Result<(), Error> {
        let others = self.objects.iter().filter(|object| !is_stood_for(object));
        let all: Vec<Value> = self.stand_ins.iter().chain(others).cloned().collect();
        if patch.selects(&all)?.contains(&true) {
            let after = patch.apply(&all)?;
            self.take_stand_ins(patch, &after)?;
            self.take_objects(&after, |object| !is_stood_for(object));
            return Ok(());
        }
        // It may have been written for ours.
        let own = self.objects.iter().filter(|object| is_stood_for(object));
        let own: Vec<Value> = own.cloned().collect();
        if patch.selects(&own)?.contains(&true) {
            let after = patch.apply(&own)?;
            if after.len() != own.len() {
                return Err(patch.failed("it removes what the installation consists of"));
            }
            self.take_objects(&after, is_stood_for);
            return Ok(());
        }
        let (target, name) = (patch.target(), patch.body_name());
        if patch.has_target() || is_of_flux(&name) {
            let text = format!("it is for nothing that there is: {target}");
            self.notes.insert((patch.index, text));
            return Ok(());
        }
        Err(patch.failed(format!("there is no {target} to be patched")))
    }

    fn take_stand_ins(&mut self, patch: &Patch<'_>, after: &[Value]) -> Result<(), Error> {
        for object in &mut self.stand_ins {
            match after.iter().find(|other| is_same(object, other)) {
                Some(other) => *object = other.clone(),
                None => {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let why = format!(
                        "it removes or renames {name}: leave a controller out of spec.components to be without it"
                    );
                    return Err(patch.failed(why));
                }
            }
        }
        let named = |kind: &str, component: Component| {
            let found = self.stand_ins.iter().find(|object| {
                object["kind"] == kind && object["metadata"]["name"] == component.name()
            });
            found.cloned().unwrap_or_default()
        };
        for one in &mut self.deployments {
            one.becomes(&named("Deployment", one.component), patch.index);
        }
        for one in &mut self.accounts {
            one.becomes(&named("ServiceAccount", one.component), patch.index);
        }
        Ok(())
    }

    /// Takes what became of those of our objects that were patched; one that is missing was removed by the patch.
    fn take_objects(&mut self, after: &[Value], was_patched: impl Fn(&Value) -> bool) {
        let objects = std::mem::take(&mut self.objects).into_iter();
        let kept = objects.filter_map(|object| match was_patched(&object) {
            true => after.iter().find(|other| is_same(&object, other)).cloned(),
            false => Some(object),
        });
        self.objects = kept.collect();
    }

    /// Ours with what became of the stand-ins.
    fn finish(mut self) -> (Vec<Value>, Vec<String>) {
        for object in &mut self.objects {
            if object["kind"] == "Deployment" {
                carry(&self.deployments, object, &mut self.notes);
            } else if is_stood_for(object) {
                carry(&self.accounts, object, &mut self.notes);
            }
        }
        let notes = self.notes.into_iter();
        let notes = notes.map(|(index, text)| format!("spec.kustomize.patches[{index}]: {text}"));
        (self.objects, notes.collect())
    }
}
