//! Strategic merge patches as kustomize applies them.
//!
//! A patch is laid over an object field by field. `null` removes a field, `$patch: delete` and
//! `$patch: replace` remove or replace a map or list, and lists with merge keys merge element by
//! element, the patch's elements first.

mod list;

use std::cell::RefCell;

use everflow_limits::{Budget, Held};
use everflow_yaml::{Mapping, Node, Style, Value, cost};

use crate::error::{Error, Result};
use crate::node_ops::{self, kind_name, wrong_kind};
use crate::schema::{Schema, Schemas};
use crate::yaml_io;

const DIRECTIVE: &str = "$patch";

/// Lays a patch over an object, which stays charged for what it is then. `false` when the patch deletes
/// the object.
pub fn apply(schemas: &Schemas, object: &mut Node, patch: Node, budget: &Budget) -> Result<bool> {
    let before = cost::of_tree(object);
    let held = budget.hold(cost::of_tree(&patch))?;
    let merger = Merger {
        schemas,
        budget,
        held: RefCell::new(held),
    };
    match merger.walk(Some(object), Some(patch), None)? {
        Outcome::Clear => return Ok(false),
        Outcome::Dest => {}
        Outcome::Set(node) => *object = node,
    }
    let after = cost::of_tree(object);
    merger
        .held
        .into_inner()
        .keep(after.saturating_sub(before))?;
    budget.release(before.saturating_sub(after));
    Ok(true)
}

/// What becomes of a place after a patch was laid over it.
enum Outcome {
    /// It goes away.
    Clear,
    /// It is what it was, changed in place.
    Dest,
    /// Something else takes its place.
    Set(Node),
}

/// What a patch says about the map or list it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Nothing,
    Mapping,
    Sequence,
    Scalar,
}

fn shape(node: Option<&Node>) -> Shape {
    match node {
        Some(node) if !node.is_null() => match &node.value {
            Value::Mapping(_) => Shape::Mapping,
            Value::Sequence(_) => Shape::Sequence,
            _ => Shape::Scalar,
        },
        _ => Shape::Nothing,
    }
}

struct Merger<'a> {
    schemas: &'a Schemas,
    budget: &'a Budget,
    /// Charged until the patch is laid over.
    held: RefCell<Held<'a>>,
}

impl Merger<'_> {
    /// A copy of an element of the patch, which may be wanted in many places.
    fn copy(&self, node: &Node) -> Result<Node> {
        self.held.borrow_mut().grow(cost::of_tree(node))?;
        Ok(node.clone())
    }

    fn walk(
        &self,
        dest: Option<&mut Node>,
        patch: Option<Node>,
        schema: Option<Schema>,
    ) -> Result<Outcome> {
        self.budget.check()?;
        let schema = schema.or_else(|| {
            self.schema_of(dest.as_deref())
                .or_else(|| self.schema_of(patch.as_ref()))
        });
        let (mine, theirs) = (shape(dest.as_deref()), shape(patch.as_ref()));
        let kind = if mine == Shape::Nothing { theirs } else { mine };
        if theirs != Shape::Nothing
            && theirs != kind
            && let Some(patch) = &patch
        {
            let expected = dest.as_deref().map_or("ScalarNode", kind_name);
            return Err(wrong_kind(expected, patch));
        }
        match kind {
            Shape::Mapping => self.walk_map(dest, patch, schema),
            Shape::Nothing => Ok(walk_nothing(dest.as_deref(), patch)),
            Shape::Scalar => Ok(patch.map_or(Outcome::Dest, Outcome::Set)),
            Shape::Sequence => match schema.as_ref().and_then(Schema::merge_keys) {
                Some(keys) => self.walk_keyed_list(dest, patch, schema.as_ref(), keys),
                None => Ok(patch.map_or(Outcome::Dest, Outcome::Set)),
            },
        }
    }

    fn schema_of(&self, node: Option<&Node>) -> Option<Schema> {
        let node = node?;
        let kind = node.get("kind").map(node_ops::text)?;
        let api_version = node.get("apiVersion").map(node_ops::text)?;
        if kind.is_empty() || api_version.is_empty() {
            return None;
        }
        self.schemas.kind(api_version, kind)
    }

    fn walk_map(
        &self,
        dest: Option<&mut Node>,
        patch: Option<Node>,
        schema: Option<Schema>,
    ) -> Result<Outcome> {
        let Some(dest) = dest.filter(|dest| !dest.is_null()) else {
            let Some(mut patch) = patch else {
                return Ok(Outcome::Dest);
            };
            if take_map_directive(&mut patch).ok() == Some(Directive::Delete) {
                return Ok(Outcome::Clear);
            }
            self.clean_fields(&mut patch, schema.as_ref())?;
            return Ok(Outcome::Set(patch));
        };
        let Some(mut patch) = patch else {
            self.keep_fields(dest, schema.as_ref())?;
            return Ok(Outcome::Dest);
        };
        if patch.is_null() {
            return Ok(Outcome::Clear);
        }
        match take_map_directive(&mut patch)? {
            Directive::Delete => Ok(Outcome::Clear),
            Directive::Replace => {
                self.clean_fields(&mut patch, schema.as_ref())?;
                Ok(Outcome::Set(patch))
            }
            Directive::Merge => {
                self.merge_fields(dest, patch, schema.as_ref())?;
                Ok(Outcome::Dest)
            }
        }
    }

    /// Merges two maps field by field.
    fn merge_fields(&self, dest: &mut Node, patch: Node, schema: Option<&Schema>) -> Result<()> {
        let Value::Mapping(patch) = patch.value else {
            return Ok(());
        };
        let Some(dest) = dest.as_mapping_mut() else {
            return Ok(());
        };
        let patched: Vec<&str> = patch
            .entries
            .iter()
            .map(|e| node_ops::raw_text(&e.key))
            .collect();
        let mut untouched: Vec<String> = Vec::new();
        for entry in &dest.entries {
            self.budget.check()?;
            let key = node_ops::raw_text(&entry.key);
            if !patched.contains(&key) {
                untouched.push(key.to_owned());
            }
        }
        for key in untouched {
            self.keep_field(dest, &key, schema)?;
        }
        let mut seen: Vec<String> = Vec::with_capacity(patch.entries.len());
        for entry in patch.entries {
            let key = node_ops::raw_text(&entry.key).to_owned();
            if seen.contains(&key) {
                continue;
            }
            let style = entry.key.style;
            let schema = schema.and_then(|schema| schema.field(&key));
            let outcome = self.walk(dest.get_mut(&key), Some(entry.value), schema)?;
            set_outcome(dest, &key, style, outcome);
            seen.push(key);
        }
        Ok(())
    }

    /// Walks a map that the patch does not touch.
    fn keep_fields(&self, dest: &mut Node, schema: Option<&Schema>) -> Result<()> {
        let Some(mapping) = dest.as_mapping_mut() else {
            return Ok(());
        };
        let keys: Vec<String> = mapping
            .entries
            .iter()
            .map(|entry| node_ops::raw_text(&entry.key).to_owned())
            .collect();
        keys.iter()
            .try_for_each(|key| self.keep_field(mapping, key, schema))
    }

    fn keep_field(&self, dest: &mut Mapping, key: &str, schema: Option<&Schema>) -> Result<()> {
        self.budget.check()?;
        let schema = schema.and_then(|schema| schema.field(key));
        let Some(field) = dest.get_mut(key) else {
            return Ok(());
        };
        // Scalars stay; only maps and lists can hold something that has to go.
        if shape(Some(field)) == Shape::Scalar {
            return Ok(());
        }
        let outcome = self.walk(Some(field), None, schema)?;
        set_outcome(dest, key, Style::Plain, outcome);
        Ok(())
    }

    /// Takes nulls and directives out of a map that comes from the patch alone.
    fn clean_fields(&self, patch: &mut Node, schema: Option<&Schema>) -> Result<()> {
        let Some(mapping) = patch.as_mapping_mut() else {
            return Ok(());
        };
        let keys: Vec<String> = mapping
            .entries
            .iter()
            .map(|entry| node_ops::raw_text(&entry.key).to_owned())
            .collect();
        for key in keys {
            let schema = schema.and_then(|schema| schema.field(&key));
            let keep = match mapping.get_mut(&key) {
                Some(field) => self.clean(field, schema)?,
                None => true,
            };
            if !keep {
                mapping.remove(&key);
            }
        }
        Ok(())
    }

    /// Cleans one value of the patch; `false` when it goes away.
    fn clean(&self, node: &mut Node, schema: Option<Schema>) -> Result<bool> {
        self.budget.check()?;
        let schema = schema.or_else(|| self.schema_of(Some(node)));
        match shape(Some(node)) {
            Shape::Nothing => Ok(false),
            Shape::Scalar => Ok(true),
            Shape::Mapping => {
                if take_map_directive(node)? == Directive::Delete {
                    return Ok(false);
                }
                self.clean_fields(node, schema.as_ref())?;
                Ok(true)
            }
            Shape::Sequence => match schema.as_ref().and_then(Schema::merge_keys) {
                Some(keys) => {
                    if list::take_directive(node)? == Directive::Delete {
                        return Ok(false);
                    }
                    self.clean_keyed_list(node, schema.as_ref(), keys)
                }
                None => Ok(true),
            },
        }
    }
}

/// Nothing on either side but nulls.
fn walk_nothing(dest: Option<&Node>, patch: Option<Node>) -> Outcome {
    match (dest, patch) {
        (_, Some(null)) => Outcome::Set(null),
        // A null that is written out stays; one that is only left empty goes.
        (Some(dest), None) if !node_ops::raw_text(dest).is_empty() => Outcome::Dest,
        _ => Outcome::Clear,
    }
}

fn set_outcome(dest: &mut Mapping, key: &str, style: Style, outcome: Outcome) {
    match outcome {
        Outcome::Dest => {}
        Outcome::Clear => {
            dest.remove(key);
        }
        Outcome::Set(node) if node.is_null() => {
            dest.remove(key);
        }
        Outcome::Set(node) => node_ops::set_field_styled(dest, key, style, node),
    }
}

fn directive_of(text: &str) -> Result<Directive> {
    match text {
        "delete" => Ok(Directive::Delete),
        "replace" => Ok(Directive::Replace),
        "merge" => Ok(Directive::Merge),
        other => Err(Error::Patch(format!("unknown patch strategy '{other}'"))),
    }
}

/// Takes the directive out of a map.
fn take_map_directive(patch: &mut Node) -> Result<Directive> {
    let Some(mapping) = patch.as_mapping_mut() else {
        return Err(Error::Patch(format!(
            "no implemented strategic merge patch strategy for ('{}')",
            yaml_io::quote_node(patch)
        )));
    };
    let Some(value) = mapping.get(DIRECTIVE) else {
        return Ok(Directive::Merge);
    };
    let directive = directive_of(node_ops::raw_text(value))?;
    mapping.remove(DIRECTIVE);
    Ok(directive)
}

#[cfg(test)]
mod tests;
