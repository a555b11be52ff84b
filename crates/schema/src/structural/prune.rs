//! Removes what a structural schema does not know.

use everflow_json::{Text, Value, format_text};

use crate::model::{ObjectType, Shape, Type, TypeId, TypeTable};
use crate::schema::SchemaView;

/// What pruning has to know besides the schema.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prune {
    /// The value is a whole object: `apiVersion`, `kind` and `metadata` stay as they are.
    pub resource_root: bool,
}

/// Removes the fields that the schema does not know and returns their paths, sorted.
///
/// The paths are those of `unknown field "spec.bogus"` messages.
pub fn prune(value: &mut Value, schema: SchemaView<'_>, options: Prune) -> Vec<String> {
    let mut pruner = Pruner {
        types: schema.types,
        path: Vec::new(),
        unknown: Vec::new(),
    };
    pruner.node(value, Some(schema.root), options.resource_root);
    pruner.unknown.sort();
    pruner.unknown
}

const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

struct Pruner<'s> {
    types: &'s TypeTable,
    path: Vec<Text>,
    unknown: Vec<String>,
}

impl<'s> Pruner<'s> {
    fn node(&mut self, value: &mut Value, type_id: Option<TypeId>, as_resource: bool) {
        let node = type_id.and_then(|id| self.types.get(id));
        if let Some(node) = node.filter(|node| node.preserve_unknown_fields) {
            return self.keep(value, node, as_resource);
        }
        match value {
            Value::Object(fields) => {
                let resource = as_resource || node.is_some_and(|node| node.embedded_resource);
                fields.retain(|name, inner| {
                    let is_object_field = OBJECT_FIELDS.contains(&name.as_str());
                    if resource && is_object_field {
                        return true;
                    }
                    let known = node.and_then(|node| child(node, name));
                    match known {
                        // There is nothing inside of a scalar.
                        Some(next) if inner.is_array() || inner.is_object() => {
                            self.within(name, |pruner| pruner.node(inner, next, false));
                        }
                        Some(_) => {}
                        None if !self.path.is_empty() || !is_object_field => self.record(name),
                        None => {}
                    }
                    known.is_some()
                });
            }
            Value::Array(items) => {
                let next = node.and_then(Type::as_list).map(|list| list.item);
                for (at, item) in items.iter_mut().enumerate() {
                    self.within(&format_text!("[{at}]"), |pruner| {
                        pruner.node(item, next, false)
                    });
                }
            }
            _ => {}
        }
    }

    /// Keeps unknown fields of this level, but prunes inside the known ones.
    fn keep(&mut self, value: &mut Value, node: &'s Type, as_resource: bool) {
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields.iter_mut() {
                    let resource = as_resource || node.embedded_resource;
                    if resource && OBJECT_FIELDS.contains(&name.as_str()) {
                        continue;
                    }
                    if let Some(next) = child(node, name) {
                        self.within(name, |pruner| pruner.node(inner, next, false));
                    }
                }
            }
            Value::Array(items) => {
                let Some(next) = node.as_list().and_then(|list| self.types.get(list.item)) else {
                    return;
                };
                for (at, item) in items.iter_mut().enumerate() {
                    self.within(&format_text!("[{at}]"), |pruner| {
                        pruner.keep(item, next, false)
                    });
                }
            }
            _ => {}
        }
    }

    fn within(&mut self, step: &Text, work: impl FnOnce(&mut Self)) {
        self.path.push(step.clone());
        work(self);
        self.path.pop();
    }

    fn record(&mut self, name: &str) {
        let mut path = String::new();
        for step in self.path.iter().map(Text::as_str).chain([name]) {
            if !path.is_empty() && !step.starts_with('[') {
                path.push('.');
            }
            path.push_str(step);
        }
        self.unknown.push(path);
    }
}

/// The schema of a field: outer `None` when there is none, inner `None` when the schema allows
/// any value but describes nothing inside it (`additionalProperties: true`).
fn child(node: &Type, name: &str) -> Option<Option<TypeId>> {
    let Shape::Object(object) = &node.shape else {
        return None;
    };
    let ObjectType {
        additional_allowed, ..
    } = object;
    match object.child(name) {
        Some(known) => Some(Some(known)),
        None => additional_allowed.is_some().then_some(None),
    }
}
