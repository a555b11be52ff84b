//! Lists that merge by key.
//!
//! The order and the odd cases (elements without a key, keys that are only partly given) follow
//! kyaml step by step, because they show in what is printed.

use everflow_limits::Budget;
use everflow_yaml::{Node, Value};

use super::{DIRECTIVE, Directive, Merger, Outcome, directive_of};
use crate::error::Result;
use crate::node_ops::{
    self, is_null_or_empty, is_null_or_empty_map, raw_text, untagged, wrong_kind,
};
use crate::schema::Schema;

/// What the value of an element under a merge key takes, with its copies.
const VALUE: usize = 96;

/// Takes the directive out of a list: an element that is nothing but `$patch: ...`.
pub(super) fn take_directive(patch: &mut Node) -> Result<Directive> {
    let Some(items) = patch.as_sequence_mut() else {
        return Ok(Directive::Merge);
    };
    let marked = items.iter().find(|item| item.get(DIRECTIVE).is_some());
    let Some(element) = marked.filter(|item| item.as_mapping().is_some_and(|m| m.len() == 1))
    else {
        return Ok(Directive::Merge);
    };
    let text = element.get(DIRECTIVE).map_or("", raw_text).to_owned();
    let directive = directive_of(&text)?;
    items.retain(|item| {
        let is_directive = item
            .get(DIRECTIVE)
            .is_some_and(|value| text.is_empty() || raw_text(value) == text);
        !is_null_or_empty_map(item) && !is_directive
    });
    Ok(directive)
}

impl Merger<'_> {
    pub(super) fn walk_keyed_list(
        &self,
        dest: Option<&mut Node>,
        patch: Option<Node>,
        schema: Option<&Schema>,
        keys: Vec<String>,
    ) -> Result<Outcome> {
        let Some(dest) = dest.filter(|dest| !dest.is_null()) else {
            let mut patch = patch.unwrap_or_default();
            self.clean_keyed_list(&mut patch, schema, keys)?;
            return Ok(Outcome::Set(patch));
        };
        let Some(mut patch) = patch else {
            self.merge_lists(dest, None, schema, keys)?;
            return Ok(Outcome::Dest);
        };
        if patch.is_null() {
            return Ok(Outcome::Clear);
        }
        match take_directive(&mut patch)? {
            Directive::Delete => Ok(Outcome::Clear),
            Directive::Replace => {
                self.clean_keyed_list(&mut patch, schema, keys)?;
                Ok(Outcome::Set(patch))
            }
            Directive::Merge => {
                self.merge_lists(dest, Some(patch), schema, keys)?;
                Ok(Outcome::Dest)
            }
        }
    }

    /// Merges a list that comes from the patch alone with itself, which cleans its elements.
    pub(super) fn clean_keyed_list(
        &self,
        list: &mut Node,
        schema: Option<&Schema>,
        keys: Vec<String>,
    ) -> Result<bool> {
        let Value::Sequence(items) = &mut list.value else {
            return Ok(true);
        };
        let mut merge = ListMerge::new(std::mem::take(items), Patch::Same);
        merge.run(self, schema, keys)?;
        *items = merge.finish();
        Ok(true)
    }

    fn merge_lists(
        &self,
        dest: &mut Node,
        patch: Option<Node>,
        schema: Option<&Schema>,
        keys: Vec<String>,
    ) -> Result<()> {
        let patch = match patch.map(|patch| patch.value) {
            None => Patch::Missing,
            Some(Value::Sequence(items)) => Patch::List(items),
            Some(_) => Patch::Missing,
        };
        let Value::Sequence(items) = &mut dest.value else {
            return Ok(());
        };
        let mut merge = ListMerge::new(std::mem::take(items), patch);
        let result = merge.run(self, schema, keys);
        *items = merge.finish();
        result
    }
}

/// Where the elements of the patch are.
enum Patch {
    /// There is no patch for this list.
    Missing,
    /// The list is the patch.
    Same,
    /// A list of its own.
    List(Vec<Node>),
}

/// Two lists in the middle of being merged. Elements live in one place and the lists hold their
/// numbers, because an element may be in several lists at once.
struct ListMerge {
    elements: Vec<Node>,
    dest: Vec<usize>,
    patch: Vec<usize>,
    same: bool,
    merged: Vec<usize>,
}

impl ListMerge {
    fn new(dest: Vec<Node>, patch: Patch) -> Self {
        let mut elements = dest;
        let dest: Vec<usize> = (0..elements.len()).collect();
        let same = matches!(patch, Patch::Same);
        let mut numbers = Vec::new();
        if let Patch::List(items) = patch {
            numbers = (elements.len()..elements.len() + items.len()).collect();
            elements.extend(items);
        }
        ListMerge {
            elements,
            dest,
            patch: numbers,
            same,
            merged: Vec::new(),
        }
    }

    fn finish(mut self) -> Vec<Node> {
        self.dest
            .iter()
            .map(|number| std::mem::take(&mut self.elements[*number]))
            .collect()
    }

    fn run(
        &mut self,
        merger: &Merger<'_>,
        schema: Option<&Schema>,
        keys: Vec<String>,
    ) -> Result<()> {
        merger
            .held
            .borrow_mut()
            .grow(self.elements.len() * (1 + keys.len()) * VALUE)?;
        let element_schema = schema.and_then(Schema::elements);
        let (keys, mut values) = if keys.is_empty() {
            (vec![String::new()], self.primitive_values())
        } else {
            let values = self.key_values(&keys);
            (keys, values)
        };
        if keys.len() > 1 {
            fill_gaps(&mut values, merger.budget)?;
        }
        let mut used = Vec::new();
        for value in &values {
            merger.budget.check()?;
            let (valid_keys, valid_values) = valid_keys(&values, value, &keys);
            self.merge_element(merger, element_schema.as_ref(), &valid_keys, &valid_values)?;
            used = valid_keys;
        }
        if !values.is_empty() {
            self.append_rest(&used, merger.budget)?;
        }
        Ok(())
    }

    fn merge_element(
        &mut self,
        merger: &Merger<'_>,
        schema: Option<&Schema>,
        keys: &[String],
        values: &[String],
    ) -> Result<()> {
        let value = self.walk_element(merger, schema, keys, values)?;
        let gone = value.is_none_or(|number| is_null_or_empty_map(&self.elements[number]));
        let Some(number) = value.filter(|_| !gone) else {
            self.dest = self.set_element(&self.dest, None, keys, values)?;
            return Ok(());
        };
        for (key, value) in keys.iter().zip(values) {
            let element = &mut self.elements[number];
            if value.is_empty() || element.get(key).is_some() {
                continue;
            }
            match &mut element.value {
                Value::Mapping(mapping) => {
                    node_ops::set_field(mapping, key, untagged(value.as_str()))
                }
                Value::Scalar(_) if key.is_empty() => {
                    node_ops::overwrite_untagged(element, value.as_str())?;
                }
                _ => return Err(wrong_kind("MappingNode", element)),
            }
        }
        self.merged = self.set_element(&self.merged, Some(number), keys, values)?;
        Ok(())
    }

    fn walk_element(
        &mut self,
        merger: &Merger<'_>,
        schema: Option<&Schema>,
        keys: &[String],
        values: &[String],
    ) -> Result<Option<usize>> {
        let (keys, values) = valid_keys(&[values.to_vec()], values, keys);
        let dest = self.find(&self.dest, &keys, &values);
        let patch = if self.same {
            dest
        } else {
            self.find(&self.patch, &keys, &values)
        };
        let schema = schema.cloned();
        match (dest, patch) {
            (None, None) => Ok(None),
            (Some(dest), Some(patch)) if dest == patch => {
                let keep = merger.clean(&mut self.elements[dest], schema)?;
                Ok(keep.then_some(dest))
            }
            (Some(dest), patch) => {
                let patch = patch.map(|patch| merger.copy(&self.elements[patch]));
                let patch = patch.transpose()?;
                Ok(
                    match merger.walk(Some(&mut self.elements[dest]), patch, schema)? {
                        Outcome::Dest => Some(dest),
                        Outcome::Clear => None,
                        Outcome::Set(node) => Some(self.add(node)),
                    },
                )
            }
            (None, Some(patch)) => {
                let node = merger.copy(&self.elements[patch])?;
                Ok(match merger.walk(None, Some(node), schema)? {
                    Outcome::Set(node) => {
                        self.elements[patch] = node;
                        Some(patch)
                    }
                    _ => None,
                })
            }
        }
    }

    fn add(&mut self, node: Node) -> usize {
        self.elements.push(node);
        self.elements.len() - 1
    }

    /// The values that elements have under the merge keys, the patch's first, each once.
    fn key_values(&self, keys: &[String]) -> Vec<Vec<String>> {
        let mut seen = std::collections::HashSet::new();
        let mut values = Vec::new();
        for number in self.patch.iter().chain(&self.dest) {
            let element = &self.elements[*number];
            let value: Vec<String> = keys.iter().map(|key| key_value(element, key)).collect();
            if seen.insert(value.clone()) {
                values.push(value);
            }
        }
        values
    }

    fn primitive_values(&self) -> Vec<Vec<String>> {
        let mut seen = std::collections::HashSet::new();
        let mut values = Vec::new();
        for number in self.patch.iter().chain(&self.dest) {
            let text = raw_text(&self.elements[*number]).to_owned();
            if seen.insert(text.clone()) {
                values.push(vec![text]);
            }
        }
        values
    }

    fn find(&self, list: &[usize], keys: &[String], values: &[String]) -> Option<usize> {
        if keys.first().is_none_or(String::is_empty) {
            let wanted = values.first().map_or("", String::as_str);
            return list
                .iter()
                .copied()
                .find(|number| raw_text(&self.elements[*number]) == wanted);
        }
        if keys.len() != values.len() {
            return None;
        }
        list.iter().copied().find(|number| {
            let element = &self.elements[*number];
            keys.iter().zip(values).all(|(key, value)| {
                element
                    .get(key)
                    .is_some_and(|field| raw_text(field) == value)
            })
        })
    }

    /// The list with the matching elements replaced (or, without a new element, removed); a new
    /// element that matches none is added at the end.
    fn set_element(
        &self,
        list: &[usize],
        element: Option<usize>,
        keys: &[String],
        values: &[String],
    ) -> Result<Vec<usize>> {
        let wants_maps = keys.first().is_some_and(|key| !key.is_empty())
            && values.first().is_some_and(|value| !value.is_empty());
        let mut out = Vec::with_capacity(list.len() + 1);
        let mut found_any = false;
        for number in list.iter().copied() {
            let node = &self.elements[number];
            if is_null_or_empty_map(node) {
                continue;
            }
            if node.as_mapping().is_none() && wants_maps {
                out.push(number);
                continue;
            }
            if !element_matches(node, keys, values)? {
                if !values.is_empty() {
                    out.push(number);
                }
                continue;
            }
            found_any = true;
            out.extend(element);
        }
        if let Some(element) = element
            && !self.elements[element].is_null()
            && !found_any
        {
            out.push(element);
        }
        Ok(out)
    }

    /// Brings the elements that the patch does not name behind those it does.
    fn append_rest(&mut self, keys: &[String], budget: &Budget) -> Result<()> {
        let rest = std::mem::take(&mut self.dest);
        for number in rest {
            budget.check()?;
            let element = &self.elements[number];
            if keys.first().is_none_or(String::is_empty) {
                let text = vec![raw_text(element).to_owned()];
                self.merged =
                    self.set_element(&self.merged, Some(number), &[String::new()], &text)?;
                continue;
            }
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                match element_field(element, key)? {
                    Some(field) => values.push(raw_text(field).to_owned()),
                    None => self.merged.push(number),
                }
            }
            if keys.len() > 1 {
                self.merged = self.set_element(&self.merged, None, keys, &values)?;
            }
            self.merged = self.set_element(&self.merged, Some(number), keys, &values)?;
        }
        self.dest = std::mem::take(&mut self.merged);
        Ok(())
    }
}

fn element_field<'a>(element: &'a Node, key: &str) -> Result<Option<&'a Node>> {
    match &element.value {
        Value::Mapping(mapping) => Ok(mapping.get(key)),
        _ if element.is_null() => Ok(None),
        _ => Err(wrong_kind("MappingNode", element)),
    }
}

fn element_matches(node: &Node, keys: &[String], values: &[String]) -> Result<bool> {
    let mut matched = false;
    for (position, key) in keys.iter().enumerate() {
        if let Some(value) = values.get(position) {
            matched = if key.is_empty() {
                node_ops::require_scalar(node)?;
                node_ops::text(node) == value
            } else {
                element_field(node, key)?
                    .is_some_and(|field| value.is_empty() || raw_text(field) == value)
            };
        }
        if !matched {
            return Ok(false);
        }
    }
    Ok(matched)
}

fn key_value(element: &Node, key: &str) -> String {
    match element.get(key) {
        Some(field) if !is_null_or_empty(field) => raw_text(field).to_owned(),
        _ => String::new(),
    }
}

/// The keys that any element has a value for, and the element's values under them.
fn valid_keys(
    all: &[Vec<String>],
    values: &[String],
    keys: &[String],
) -> (Vec<String>, Vec<String>) {
    let used: Vec<bool> = (0..keys.len())
        .map(|position| {
            all.iter()
                .any(|values| values.get(position).is_some_and(|value| !value.is_empty()))
        })
        .collect();
    if !used.contains(&true) {
        return (keys.to_vec(), values.to_vec());
    }
    let chosen = |texts: &[String]| {
        texts
            .iter()
            .zip(&used)
            .filter(|(_, used)| **used)
            .map(|(text, _)| text.clone())
            .collect()
    };
    (chosen(keys), chosen(values))
}

/// Fills the values that one element lacks from another that agrees with it otherwise.
fn fill_gaps(values: &mut [Vec<String>], budget: &Budget) -> Result<()> {
    for first in 0..values.len() {
        budget.check()?;
        for second in 0..values.len() {
            if let Some(filled) = agree(&values[first], &values[second]) {
                values[first].clone_from(&filled);
                values[second] = filled;
            }
        }
    }
    Ok(())
}

fn agree(first: &[String], second: &[String]) -> Option<Vec<String>> {
    if first.len() != second.len() {
        return None;
    }
    let mut common = false;
    let mut filled = Vec::with_capacity(first.len());
    for (a, b) in first.iter().zip(second) {
        if a == b {
            common = true;
        } else if !a.is_empty() && !b.is_empty() {
            return None;
        }
        filled.push(if a.is_empty() { b.clone() } else { a.clone() });
    }
    common.then_some(filled)
}
