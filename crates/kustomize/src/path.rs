//! Field paths: finding nodes by names, list indexes and `[key=value]` parts.

use everflow_limits::Budget;
use everflow_yaml::{Node, Value, cost};

use crate::error::{Error, Result, Within};
use crate::fieldspec::split_path;
use crate::node_ops::{self, raw_text, untagged, wrong_kind};
use crate::pattern::{self, Expression};
use crate::yaml_io;

/// Splits a path at dots that are neither escaped nor inside brackets.
pub fn split_field_path(path: &str, delimiter: char) -> Vec<String> {
    let parts = split_path(path, delimiter);
    let mut out = Vec::with_capacity(parts.len());
    let mut parts = parts.into_iter();
    while let Some(part) = parts.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            out.push(part);
            continue;
        }
        let mut bracketed = part;
        for more in parts.by_ref() {
            bracketed.push(delimiter);
            bracketed.push_str(&more);
            if more.ends_with(']') {
                break;
            }
        }
        if bracketed.contains('=') {
            out.push(bracketed);
        } else {
            out.push(bracketed.trim_matches(['[', ']']).to_owned());
        }
    }
    out
}

/// Turns `ports[0]` into the two parts `ports` and `0`.
pub fn convert_list_index(parts: Vec<String>) -> Vec<String> {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        let index = part
            .strip_suffix(']')
            .and_then(|head| head.rsplit_once('['))
            .filter(|(_, index)| !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()));
        match index {
            Some((name, index)) => {
                if !name.is_empty() {
                    out.push(name.to_owned());
                }
                out.push(index.to_owned());
            }
            None => out.push(part),
        }
    }
    out
}

/// One part of a path, as kyaml reads it.
pub enum Part<'a> {
    Index(usize),
    Last,
    Element(&'a str, &'a str),
    Field(&'a str),
}

pub fn parse_part(part: &str) -> Result<Part<'_>> {
    if let Ok(index) = part.parse::<i64>() {
        return usize::try_from(index)
            .map(Part::Index)
            .map_err(|_| Error::Field(format!("array index {index} cannot be negative")));
    }
    match part {
        "-" => Ok(Part::Last),
        "*" => Err(Error::Field(
            "wildcard is not supported in PathGetter".to_owned(),
        )),
        _ if is_element(part) => split_element(part).map(|(key, value)| Part::Element(key, value)),
        _ => Ok(Part::Field(part)),
    }
}

fn is_element(part: &str) -> bool {
    part.starts_with('[') && part.ends_with(']')
}

fn split_element(part: &str) -> Result<(&str, &str)> {
    let inner = part.strip_suffix(']').unwrap_or(part);
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    inner.split_once('=').ok_or_else(|| {
        Error::Field(
            "list path element must contain fieldName=fieldValue for element to match".to_owned(),
        )
    })
}

/// Where a part of a path leads from a node.
enum Step<'p> {
    Item(usize),
    Field(&'p str),
}

/// Follows one part of a path; `None` when it leads nowhere.
fn step<'p>(node: &Node, part: &'p str) -> Result<Option<Step<'p>>> {
    Ok(match parse_part(part)? {
        Part::Index(index) => elements(node)?.get(index).map(|_| Step::Item(index)),
        Part::Last => elements(node)?.len().checked_sub(1).map(Step::Item),
        Part::Element(key, value) => elements(node)?
            .iter()
            .position(|item| match key.is_empty() {
                true => raw_text(item) == value,
                false => item.get(key).is_some_and(|field| raw_text(field) == value),
            })
            .map(Step::Item),
        Part::Field(name) => field_of(node, name)?.map(|_| Step::Field(name)),
    })
}

/// Finds one node; `None` when the path leads nowhere.
pub fn lookup<'a, S: AsRef<str>>(node: &'a Node, path: &[S]) -> Result<Option<&'a Node>> {
    let mut here = node;
    for part in path {
        let part = part.as_ref().trim();
        if part.is_empty() {
            continue;
        }
        let next = match step(here, part)? {
            None => None,
            Some(Step::Item(index)) => elements(here)?.get(index),
            Some(Step::Field(name)) => field_of(here, name)?,
        };
        match next {
            Some(next) => here = next,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

/// [`lookup`] for changing what is found.
pub fn lookup_mut<'a, S: AsRef<str>>(
    node: &'a mut Node,
    path: &[S],
) -> Result<Option<&'a mut Node>> {
    let mut here = node;
    for part in path {
        let part = part.as_ref().trim();
        if part.is_empty() {
            continue;
        }
        let next = match step(here, part)? {
            None => None,
            Some(Step::Item(index)) => elements_mut(here)?.get_mut(index),
            Some(Step::Field(name)) => here.get_mut(name),
        };
        match next {
            Some(next) => here = next,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

/// Finds a scalar, making it and what leads to it when missing. What is made is charged.
pub fn lookup_or_create<'a>(
    node: &'a mut Node,
    path: &[String],
    budget: &Budget,
) -> Result<&'a mut Node> {
    let parts: Vec<&str> = path
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty())
        .collect();
    let mut here = node;
    for (position, part) in parts.iter().enumerate() {
        let next = parts.get(position + 1).copied();
        here = match parse_part(part)? {
            Part::Index(index) => elements_mut(here)?
                .get_mut(index)
                .ok_or_else(|| Error::Field(format!("index {index} is out of range")))?,
            Part::Last => elements_mut(here)?
                .last_mut()
                .ok_or_else(|| Error::Field("list has no last element".to_owned()))?,
            Part::Element(key, value) => {
                if here.as_sequence().is_none() && !here.is_null() {
                    return Err(wrong_kind("SequenceNode", here));
                }
                let Some(items) = here.as_sequence_mut() else {
                    return Err(Error::Field(format!(
                        "cannot create element {part} in null"
                    )));
                };
                let found = items.iter().position(|item| {
                    if key.is_empty() {
                        raw_text(item) == value
                    } else {
                        item.get(key).is_some_and(|field| raw_text(field) == value)
                    }
                });
                let index = match found {
                    Some(index) => index,
                    None => {
                        budget.charge(2 * node_ops::ENTRY + part.len())?;
                        items.push(new_element(key, value));
                        items.len() - 1
                    }
                };
                &mut items[index]
            }
            Part::Field(name) => {
                if field_of(here, name)?.is_none() {
                    budget.charge(node_ops::ENTRY + name.len())?;
                    let made = empty_for(next, Shape::Scalar);
                    node_ops::set_entry(here, name, made)?;
                }
                here.get_mut(name)
                    .ok_or_else(|| Error::Field(format!("cannot create field {name}")))?
            }
        };
    }
    Ok(here)
}

fn new_element(key: &str, value: &str) -> Node {
    if key.is_empty() {
        return untagged(value);
    }
    let mut element = Node::mapping();
    if let Some(mapping) = element.as_mapping_mut() {
        node_ops::append_field(mapping, key, untagged(value));
    }
    element
}

fn field_of<'a>(node: &'a Node, name: &str) -> Result<Option<&'a Node>> {
    match &node.value {
        Value::Mapping(mapping) => Ok(mapping.get(name)),
        _ if node.is_null() => Ok(None),
        _ => Err(wrong_kind("MappingNode", node)),
    }
}

fn elements(node: &Node) -> Result<&[Node]> {
    match &node.value {
        Value::Sequence(items) => Ok(items),
        _ if node.is_null() => Ok(&[]),
        _ => Err(wrong_kind("SequenceNode", node)),
    }
}

fn elements_mut(node: &mut Node) -> Result<&mut [Node]> {
    if node.is_null() {
        return Ok(&mut []);
    }
    if node.as_sequence().is_none() {
        return Err(wrong_kind("SequenceNode", node));
    }
    Ok(node.as_sequence_mut().map_or(&mut [], Vec::as_mut_slice))
}

/// The shape of what a path may create at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A scalar.
    Scalar,
    /// A list.
    Sequence,
    /// A map.
    Mapping,
}

impl Shape {
    /// The shape of a node.
    pub fn of(node: &Node) -> Self {
        match &node.value {
            Value::Mapping(_) => Shape::Mapping,
            Value::Sequence(_) => Shape::Sequence,
            _ => Shape::Scalar,
        }
    }
}

fn empty_for(next: Option<&str>, last: Shape) -> Node {
    let shape = match next {
        Some(part) if is_element(part) || part.parse::<u32>().is_ok() => Shape::Sequence,
        Some(part) if !part.is_empty() => Shape::Mapping,
        _ => last,
    };
    match shape {
        Shape::Scalar => untagged(""),
        Shape::Sequence => Node::sequence(Vec::new()),
        Shape::Mapping => Node::mapping(),
    }
}

/// Visits every node that a path leads to: `*` stands for all elements, and the value in
/// `[key=value]` is a regular expression. Returns how many nodes were visited. What is made on the way
/// is charged.
pub fn visit_matches(
    node: &mut Node,
    path: &[String],
    create: Option<Shape>,
    budget: &Budget,
    visit: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<usize> {
    let mut visits = Visits {
        create,
        budget,
        visit,
        count: 0,
    };
    visits.node(node, path)?;
    Ok(visits.count)
}

struct Visits<'v> {
    create: Option<Shape>,
    budget: &'v Budget,
    visit: &'v mut dyn FnMut(&mut Node) -> Result<()>,
    count: usize,
}

impl Visits<'_> {
    fn node(&mut self, node: &mut Node, path: &[String]) -> Result<()> {
        self.budget.check()?;
        let Some((part, rest)) = path.split_first() else {
            self.count += 1;
            return (self.visit)(node);
        };
        if let Ok(index) = part.parse::<i64>()
            && let Ok(index) = usize::try_from(index)
        {
            return self.index(node, index, part, rest);
        }
        if is_element(part) {
            return self.elements(node, part, rest);
        }
        if part == "*" {
            return elements_mut(node)?
                .iter_mut()
                .try_for_each(|item| self.node(item, rest));
        }
        self.field(node, part, rest)
    }

    fn field(&mut self, node: &mut Node, name: &str, rest: &[String]) -> Result<()> {
        if field_of(node, name)?.is_none() {
            let Some(last) = self.create else {
                return Ok(());
            };
            let mut made = empty_for(rest.first().map(String::as_str), last);
            if node.is_null() {
                // A null cannot hold fields; what is set there is lost.
                return self.node(&mut made, rest);
            }
            self.budget.charge(node_ops::ENTRY + name.len())?;
            node_ops::set_entry(node, name, made)?;
        }
        let Some(field) = node.get_mut(name) else {
            return Ok(());
        };
        if !rest.is_empty() && matches!(field.value, Value::Scalar(_)) {
            // Text may hold YAML of its own; what is set in it here does not come back into the text.
            let (mut inner, _held) = yaml_io::parse_inner(raw_text(field), self.budget)?;
            return self.node(&mut inner, rest);
        }
        self.node(field, rest)
    }

    fn index(&mut self, node: &mut Node, index: usize, part: &str, rest: &[String]) -> Result<()> {
        let mut length = elements(node)?.len();
        if length == index
            && let Some(last) = self.create
        {
            let made = empty_for(rest.first().map(String::as_str), last);
            if let Some(items) = node.as_sequence_mut() {
                self.budget.charge(node_ops::ENTRY)?;
                items.push(made);
                length += 1;
            } else if !node.is_null() {
                return Err(wrong_kind("SequenceNode", node)
                    .within(format!("failed to append element for {part:?}")));
            }
        }
        let Some(element) = elements_mut(node)?.get_mut(index) else {
            return Err(Error::Field(format!(
                "index {index} specified but only {length} elements found"
            )));
        };
        self.node(element, rest)
    }

    fn elements(&mut self, node: &mut Node, part: &str, rest: &[String]) -> Result<()> {
        let (key, value) = split_element(part)?;
        let before = self.count;
        self.matching_elements(node, key, value, rest)?;
        if self.count > before || self.create.is_none() {
            return Ok(());
        }
        match node.as_sequence_mut() {
            Some(items) => {
                self.budget.charge(2 * node_ops::ENTRY + part.len())?;
                items.push(new_element(key, value));
            }
            None => {
                return Err(wrong_kind("SequenceNode", node))
                    .within(|| format!("failed to create element for {part:?}"));
            }
        }
        self.matching_elements(node, key, value, rest)
    }

    fn matching_elements(
        &mut self,
        node: &mut Node,
        key: &str,
        value: &str,
        rest: &[String],
    ) -> Result<()> {
        let items = elements_mut(node)?;
        if items.is_empty() {
            return Ok(());
        }
        let expression = pattern::compile(value)?;
        for item in items {
            self.budget.check()?;
            let tried = if key.is_empty() {
                Some(&*item)
            } else {
                item.get(key)
            };
            if !tried.is_some_and(|node| has_match(node, &expression)) {
                continue;
            }
            if key.is_empty() {
                self.count += 1;
                (self.visit)(item)?;
            } else {
                self.node(item, rest)?;
            }
        }
        Ok(())
    }
}

/// Whether an expression matches a part of a value as kyaml prints it. Values that are too long for it
/// are not tried.
fn has_match(node: &Node, expression: &Expression) -> bool {
    if expression.is_too_long_for(cost::of_printing(node)) {
        return false;
    }
    expression.is_match(yaml_io::print_node(node).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_kustomize_splits_them() {
        assert_eq!(
            split_field_path(r"metadata.annotations.a\.b/c", '.'),
            ["metadata", "annotations", "a.b/c"]
        );
        assert_eq!(
            split_field_path("spec.containers.[name=a.b].image", '.'),
            ["spec", "containers", "[name=a.b]", "image"]
        );
        assert_eq!(split_field_path("data.[a.b]", '.'), ["data", "a.b"]);
        assert_eq!(
            convert_list_index(vec!["ports[0]".to_owned(), "name".to_owned()]),
            ["ports", "0", "name"]
        );
    }
}
