//! `replicas`: how many copies of a workload run.

use everflow_limits::Budget;

use crate::error::{Error, Result};
use crate::fieldspec::{Create, FieldSpec, Steps};
use crate::kustomization::Replica;
use crate::node_ops;
use crate::resmap::ResMap;

use super::walk_spec;

/// A replica count for objects of one name.
pub struct Replicas {
    replica: Replica,
    specs: Vec<(FieldSpec, Steps)>,
}

impl Replicas {
    /// For the fields of the specs.
    pub fn new(replica: &Replica, specs: &[FieldSpec]) -> Self {
        Replicas {
            replica: replica.clone(),
            specs: specs
                .iter()
                .map(|spec| (spec.clone(), spec.steps()))
                .collect(),
        }
    }

    pub(super) fn apply(&self, resources: &mut ResMap, budget: &Budget) -> Result<()> {
        let name = self.replica.name.as_str();
        let candidates = resources.find_by_any_name(name);
        let mut found = false;
        for (spec, steps) in &self.specs {
            for position in &candidates {
                budget.check()?;
                let resource = resources.get_mut(*position);
                let fits = resource
                    .plain_ids()
                    .iter()
                    .any(|id| id.name == name && id.gvk.is_selected_by(&spec.gvk));
                if !fits {
                    continue;
                }
                found = true;
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
                        node_ops::require_scalar(node)?;
                        node_ops::overwrite(node, node_ops::integer(self.replica.count));
                        Ok(())
                    },
                )?;
                resources.refresh(*position);
            }
        }
        if found {
            return Ok(());
        }
        let kinds: Vec<String> = self
            .specs
            .iter()
            .map(|(spec, _)| spec.gvk.to_string())
            .collect();
        Err(Error::Configuration(format!(
            "resource with name {name} does not match a config with the following GVK [{}]",
            kinds.join(" ")
        )))
    }
}
