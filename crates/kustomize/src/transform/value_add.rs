//! The `ValueAddTransformer` plugin: puts one value into many fields.

use everflow_limits::Budget;
use everflow_yaml::cost;

use crate::error::Result;
use crate::fieldspec::split_path;
use crate::node_ops::{self, raw_text};
use crate::path::lookup_or_create;
use crate::paths;
use crate::resmap::ResMap;
use crate::selector::Selector;

use super::namespace::{Namespace, Subjects};

/// A value and where it goes.
pub struct ValueAdd {
    pub value: String,
    pub targets: Vec<ValueTarget>,
}

/// Fields of some objects.
pub struct ValueTarget {
    pub selector: Option<Selector>,
    pub field_path: String,
    /// Where in a path of directories the value goes; 0 for the whole field.
    pub position: i64,
}

impl ValueAdd {
    pub(super) fn apply(&self, resources: &mut ResMap, budget: &Budget) -> Result<()> {
        let schemas = std::rc::Rc::clone(resources.schemas());
        for target in &self.targets {
            let positions = match &target.selector {
                Some(selector) => resources.select(selector, budget)?,
                None => (0..resources.len()).collect(),
            };
            for position in positions {
                budget.check()?;
                let resource = resources.get_mut(position);
                if target.field_path == "metadata/namespace" {
                    Namespace::new(&self.value, &[], false, Subjects::NamedDefault)
                        .apply_to(resource, &schemas, budget)?;
                } else {
                    let path = split_path(&target.field_path, '/');
                    let node = lookup_or_create(&mut resource.node, &path, budget)?;
                    node_ops::require_scalar(node)?;
                    let _parts = budget.hold(raw_text(node).len() * size_of::<&str>())?;
                    let value = if target.position > 0 {
                        insert_part(raw_text(node), target.position - 1, &self.value)
                    } else {
                        self.value.clone()
                    };
                    budget.charge(cost::of_scalar(&value))?;
                    budget.release(cost::of_scalar(raw_text(node)));
                    node_ops::overwrite_untagged(node, value)?;
                }
                resource.after_change();
                resources.refresh(position);
            }
        }
        Ok(())
    }
}

/// Puts a part into a slash-separated path.
fn insert_part(path: &str, position: i64, part: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let position = usize::try_from(position).unwrap_or(0).min(parts.len());
    parts.insert(position, part);
    let joined = paths::clean(&parts.join("/"));
    if rooted { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_inserted() {
        assert_eq!(insert_part("", 0, "PEACH"), "PEACH");
        assert_eq!(insert_part("/", 0, "PEACH"), "/PEACH");
        assert_eq!(insert_part("pie", 0, "PEACH"), "PEACH/pie");
        assert_eq!(insert_part("/raw", 9, "PEACH"), "/raw/PEACH");
        assert_eq!(
            insert_part("/a/nice/warm/pie", 3, "PEACH"),
            "/a/nice/warm/PEACH/pie"
        );
    }
}
