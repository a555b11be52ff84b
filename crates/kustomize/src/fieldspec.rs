//! Field specs: which field of which kinds a transformer changes, and walking to it.

use std::fmt;

use everflow_yaml::{Node, Value};
use smol_str::SmolStr;

use crate::decode::Fields;
use crate::error::{Error, Result, Within};
use crate::node_ops::{self, kind_name};
use crate::resid::Gvk;
use crate::selector::read_gvk;

/// A path in objects of some kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSpec {
    /// The kinds; empty parts fit anything.
    pub gvk: Gvk,
    /// Field names separated by `/`; lists on the way are walked element by element.
    pub path: SmolStr,
    /// Whether the field is made when it is missing.
    pub create: bool,
}

impl FieldSpec {
    /// A spec for every kind.
    pub fn everywhere(path: &str, create: bool) -> Self {
        FieldSpec {
            gvk: Gvk::default(),
            path: path.into(),
            create,
        }
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(FieldSpec {
            gvk: read_gvk(fields)?,
            path: fields.text("path")?.into(),
            create: fields.flag("create")?,
        })
    }

    /// Reads a line of our tables: `GROUP VERSION KIND PATH [create]`, `-` for any.
    pub(crate) fn from_table_line(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let gvk = gvk_from_words(&mut words)?;
        Some(FieldSpec {
            gvk,
            path: words.next()?.into(),
            create: words.next() == Some("create"),
        })
    }

    /// The path in parts, ready for walking.
    pub fn steps(&self) -> Steps {
        Steps {
            parts: split_path(&self.path, '/')
                .into_iter()
                .map(|part| match part.strip_suffix("[]") {
                    Some(name) => Step {
                        name: name.into(),
                        is_list: true,
                    },
                    None => Step {
                        name: part.into(),
                        is_list: false,
                    },
                })
                .collect(),
        }
    }
}

/// Reads three words as group, version and kind.
pub(crate) fn gvk_from_words<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Gvk> {
    let mut next = || {
        words
            .next()
            .map(|word| SmolStr::new(if word == "-" { "" } else { word }))
    };
    Some(Gvk {
        group: next()?,
        version: next()?,
        kind: next()?,
    })
}

impl fmt::Display for FieldSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.gvk, self.create, self.path)
    }
}

/// Adds a spec unless one for the same field is there already.
pub fn merge_spec(specs: &mut Vec<FieldSpec>, spec: &FieldSpec) -> Result<()> {
    let known = specs
        .iter()
        .find(|known| known.gvk.is_selected_by(&spec.gvk) && known.path == spec.path);
    match known {
        Some(known) if known.create != spec.create => {
            Err(Error::Configuration("conflicting fieldspecs".to_owned()))
        }
        Some(_) => Ok(()),
        None => {
            specs.push(spec.clone());
            Ok(())
        }
    }
}

/// Adds many specs.
pub fn merge_specs(specs: &mut Vec<FieldSpec>, more: &[FieldSpec]) -> Result<()> {
    more.iter().try_for_each(|spec| merge_spec(specs, spec))
}

/// Splits a path at a delimiter that may be escaped with a backslash.
pub fn split_path(path: &str, delimiter: char) -> Vec<String> {
    let mut parts: Vec<&str> = path.split(delimiter).collect();
    if parts.len() > 1 && parts[0].is_empty() {
        parts.remove(0);
    }
    let mut out: Vec<String> = Vec::with_capacity(parts.len());
    for part in parts {
        match out.last_mut() {
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push(delimiter);
                last.push_str(part);
            }
            _ => out.push(part.to_owned()),
        }
    }
    out
}

/// A path ready for walking.
#[derive(Clone, Debug)]
pub struct Steps {
    parts: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    name: SmolStr,
    is_list: bool,
}

/// What a walk makes when the field is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// Nothing; missing fields are skipped.
    Nothing,
    /// Maps on the way and a map at the end.
    Mapping,
    /// Maps on the way and a string at the end.
    Text,
}

impl Steps {
    /// Calls `set` on every node that the path leads to.
    pub fn walk(
        &self,
        node: &mut Node,
        create: Create,
        set: &mut dyn FnMut(&mut Node) -> Result<()>,
    ) -> Result<()> {
        walk(node, &self.parts, create, set)
    }
}

fn walk(
    node: &mut Node,
    steps: &[Step],
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<()> {
    let Some((step, rest)) = steps.split_first() else {
        return set(node);
    };
    if node.is_null() {
        return Ok(());
    }
    match &mut node.value {
        Value::Sequence(items) => items
            .iter_mut()
            .try_for_each(|item| walk(item, steps, create, set))
            .within(|| {
                let names: Vec<String> = steps
                    .iter()
                    .map(|step| format!("{}{}", step.name, if step.is_list { "[]" } else { "" }))
                    .collect();
                format!("visit traversal on path: [{}]", names.join(" "))
            }),
        Value::Mapping(_) => walk_field(node, step, rest, create, set),
        _ => Err(Error::Field("expected sequence or mapping node".to_owned())),
    }
}

fn walk_field(
    node: &mut Node,
    step: &Step,
    rest: &[Step],
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<()> {
    if step.name.is_empty() {
        return Err(Error::Field(
            "cannot set or create an empty field name".to_owned(),
        ));
    }
    if step.name.starts_with(|c: char| c.is_ascii_digit()) && step.name.parse::<u32>().is_ok() {
        return Err(
            node_ops::wrong_kind("SequenceNode", node).within(format!("fieldName: {}", step.name))
        );
    }
    let made = if create == Create::Nothing || step.is_list {
        None
    } else if rest.is_empty() && create == Create::Text {
        Some(Node::string(""))
    } else {
        Some(Node::mapping())
    };
    let Some(mapping) = node.as_mapping_mut() else {
        return Ok(());
    };
    if made.is_some() && mapping.get(&step.name).is_none() {
        let empty = made.clone().unwrap_or_default();
        node_ops::append_field(mapping, &step.name, empty);
    }
    let Some(field) = mapping.get_mut(&step.name) else {
        return Ok(());
    };
    if field.is_null() {
        if step.is_list {
            field.value = Value::Sequence(Vec::new());
        } else if let Some(made) = made {
            field.value = made.value;
        }
    }
    debug_assert!(!kind_name(field).is_empty());
    walk(field, rest, create, set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_delimiters_stay_in_the_name() {
        assert_eq!(
            split_path(r"metadata/annotations/a.b\/c", '/'),
            ["metadata", "annotations", "a.b/c"]
        );
        assert_eq!(split_path("/spec/x", '/'), ["spec", "x"]);
        assert_eq!(split_path("a", '/'), ["a"]);
    }

    #[test]
    fn specs_for_the_same_field_must_agree() {
        let mut specs = vec![FieldSpec::everywhere("metadata/labels", true)];
        merge_spec(&mut specs, &FieldSpec::everywhere("metadata/labels", true)).unwrap();
        assert_eq!(specs.len(), 1);
        let error = merge_spec(&mut specs, &FieldSpec::everywhere("metadata/labels", false));
        assert_eq!(error.unwrap_err().to_string(), "conflicting fieldspecs");
    }
}
