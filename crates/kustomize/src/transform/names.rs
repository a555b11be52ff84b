//! `namePrefix`, `nameSuffix`, and the hashes of generated objects.

use everflow_limits::Budget;
use everflow_yaml::cost;
use smol_str::SmolStr;

use super::walk_spec;
use crate::error::Result;
use crate::fieldspec::{Create, FieldSpec, Steps};
use crate::generate::hash;
use crate::node_ops::{self, raw_text};
use crate::resid::Gvk;
use crate::resmap::ResMap;

/// A prefix or suffix.
pub struct Affix {
    text: SmolStr,
    specs: Vec<(FieldSpec, Steps)>,
}

/// Where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In front.
    Prefix,
    /// At the end.
    Suffix,
}

/// Objects whose names others depend on from outside.
fn is_skipped(gvk: &Gvk) -> bool {
    match gvk.kind.as_str() {
        "CustomResourceDefinition" | "Namespace" => true,
        "APIService" => gvk.group == "apiregistration.k8s.io",
        _ => false,
    }
}

impl Affix {
    /// For the fields of the specs.
    pub fn new(text: &str, specs: &[FieldSpec]) -> Self {
        Affix {
            text: text.into(),
            specs: specs
                .iter()
                .map(|spec| (spec.clone(), spec.steps()))
                .collect(),
        }
    }

    pub(super) fn apply(&self, resources: &mut ResMap, side: Side, budget: &Budget) -> Result<()> {
        let schemas = std::rc::Rc::clone(resources.schemas());
        for resource in resources.all_mut() {
            budget.check()?;
            let original = resource.original_id();
            if resource.is_empty() || is_skipped(&original.gvk) {
                continue;
            }
            for (spec, steps) in &self.specs {
                budget.check()?;
                if !original.gvk.is_selected_by(&spec.gvk) {
                    continue;
                }
                if spec.path() == "metadata/name" && !self.text.is_empty() {
                    match side {
                        Side::Prefix => resource.prefixes.push(self.text.clone()),
                        Side::Suffix => resource.suffixes.push(self.text.clone()),
                    }
                    resource.store_previous_id(budget)?;
                }
                if !resource.gvk().is_selected_by(&spec.gvk) {
                    continue;
                }
                let id = resource.id().clone();
                walk_spec(
                    &mut resource.node,
                    &id,
                    spec,
                    steps,
                    Create::Text,
                    budget,
                    &mut |node| {
                        let old = raw_text(node);
                        // The field, and the identity that may be read from it.
                        budget.charge(2 * (cost::of_scalar(old) + self.text.len()))?;
                        let new = match side {
                            Side::Prefix => smol_str::format_smolstr!("{}{old}", self.text),
                            Side::Suffix => smol_str::format_smolstr!("{old}{}", self.text),
                        };
                        node_ops::overwrite_untagged(node, new)
                    },
                )?;
            }
            resource.refresh_id(&schemas);
        }
        Ok(())
    }
}

/// Adds the hash of its content to the name of every object that wants one.
pub(super) fn add_hashes(resources: &mut ResMap, budget: &Budget) -> Result<()> {
    if !resources.iter().any(|resource| resource.needs_hash) {
        return Ok(());
    }
    let schemas = std::rc::Rc::clone(resources.schemas());
    for resource in resources.all_mut() {
        if !resource.needs_hash {
            continue;
        }
        let _text = budget.hold(cost::of_printing(&resource.node))?;
        let hash = hash::of(resource)?;
        resource.store_previous_id(budget)?;
        let name = format!("{}-{hash}", resource.id().name);
        resource.set_name(&name);
        resource.refresh_id(&schemas);
    }
    Ok(())
}
