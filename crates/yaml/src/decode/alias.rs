//! Which node each alias stands for.

use crate::node::{Node, Value};
use std::collections::HashMap;

/// The node behind each alias of a document: the last one before it with the anchor of that name.
#[derive(Default)]
pub(crate) struct AliasTargets<'n> {
    targets: HashMap<*const Node, &'n Node>,
}

impl<'n> AliasTargets<'n> {
    pub(crate) fn find(root: &'n Node) -> Self {
        let mut anchors: HashMap<&str, &'n Node> = HashMap::new();
        let mut targets = HashMap::new();
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            if let Some(anchor) = node.anchor() {
                anchors.insert(anchor, node);
            }
            match &node.value {
                Value::Alias(name) => {
                    if let Some(target) = anchors.get(name.as_str()) {
                        targets.insert(node as *const Node, *target);
                    }
                }
                Value::Sequence(items) => stack.extend(items.iter().rev()),
                Value::Mapping(mapping) => {
                    for entry in mapping.entries.iter().rev() {
                        stack.push(&entry.value);
                        stack.push(&entry.key);
                    }
                }
                Value::Scalar(_) => {}
            }
        }
        AliasTargets { targets }
    }

    pub(crate) fn get(&self, alias: &Node) -> Option<&'n Node> {
        self.targets.get(&(alias as *const Node)).copied()
    }
}
