//! `labels`, `commonLabels` and `commonAnnotations`.

use std::collections::BTreeMap;

use everflow_limits::Budget;
use everflow_yaml::Node;

use super::SpecSet;
use crate::error::Result;
use crate::fieldspec::{Create, FieldSpec};
use crate::node_ops::{self, raw_text};
use crate::resmap::ResMap;
use crate::resource::Resource;

/// Entries for maps of labels or annotations.
pub struct Entries {
    entries: BTreeMap<String, String>,
    specs: SpecSet,
}

impl Entries {
    /// For the fields of the specs.
    pub fn new(entries: &BTreeMap<String, String>, specs: &[FieldSpec]) -> Self {
        Entries {
            entries: entries.clone(),
            specs: SpecSet::new(specs),
        }
    }

    pub(super) fn apply(&self, resources: &mut ResMap, budget: &Budget) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        for resource in resources.contents_mut() {
            if !resource.is_empty() {
                self.apply_to(resource, budget)?;
            }
        }
        Ok(())
    }

    fn apply_to(&self, resource: &mut Resource, budget: &Budget) -> Result<()> {
        let id = resource.id().clone();
        for (key, value) in &self.entries {
            let mut added = 0;
            let mut touched_shared = false;
            let new_mark = resource.next_share();
            let mut node = std::mem::take(&mut resource.node);
            let result = self.specs.walk(
                &mut node,
                &id,
                Create::Mapping,
                budget,
                |_| true,
                |map| {
                    // The value stands in the map and is remembered as one that is shared.
                    budget.charge(node_ops::ENTRY + key.len() + 2 * value.len())?;
                    let mut entry = Node::string(value.as_str());
                    match map.get(key) {
                        Some(old) => {
                            budget.release(node_ops::ENTRY + key.len() + raw_text(old).len());
                            touched_shared |=
                                node_ops::share_mark(old).is_some() && raw_text(old) != value;
                        }
                        None => {
                            added += 1;
                            node_ops::set_share_mark(&mut entry, Some(new_mark.clone()));
                        }
                    }
                    node_ops::set_entry(map, key, entry)
                },
            );
            resource.node = node;
            result?;
            if added > 0 {
                resource.share(&Node::string(value.as_str()));
            }
            if touched_shared {
                resource.after_change();
            }
        }
        Ok(())
    }
}
