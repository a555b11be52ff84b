//! Field specs: which field of which kinds a transformer changes, and walking to it.

use std::fmt;

use everflow_limits::{Budget, Exceeded};
use everflow_yaml::{Limits, Node, Value};
use smol_str::SmolStr;

use crate::decode::Fields;
use crate::error::{Error, Result, Within};
use crate::node_ops::{self, kind_name};
use crate::path::{self, Part};
use crate::resid::Gvk;
use crate::selector::read_gvk;

/// How many parts a field path may have: as deep as YAML is read.
const MAX_PARTS: usize = Limits::DEFAULT.nesting;

/// How much of a path is shown that is too long.
const SHOWN: usize = 40;

/// A path in objects of some kinds. It never has more than [`MAX_PARTS`] parts, which are walked by
/// recursion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSpec {
    /// The kinds; empty parts fit anything.
    pub gvk: Gvk,
    /// Field names separated by `/`; lists on the way are walked element by element.
    path: SmolStr,
    /// Whether the field is made when it is missing.
    pub create: bool,
}

/// What specs take in memory, once they are ready for walking.
pub fn bytes(specs: &[FieldSpec]) -> usize {
    let parts = |spec: &FieldSpec| 1 + spec.path.matches('/').count();
    let each =
        |spec: &FieldSpec| size_of_val(spec) + spec.path.len() + parts(spec) * size_of::<Step>();
    specs.iter().map(each).sum()
}

/// Refuses a field path with more parts than are walked.
pub fn check_path(path: &str, delimiter: char) -> Result<()> {
    // Few paths are long, and of these some have their delimiters escaped.
    if path.matches(delimiter).count() < MAX_PARTS || split_path(path, delimiter).len() <= MAX_PARTS
    {
        return Ok(());
    }
    let shown: String = path.chars().take(SHOWN).collect();
    let exceeded = Exceeded::Depth {
        what: "a field path",
        limit: MAX_PARTS as u64,
    };
    Err(Error::from(exceeded).in_field(|| format!("{shown}...")))
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

    /// A spec for one field of some kinds.
    pub fn new(gvk: Gvk, path: &str, create: bool) -> Result<Self> {
        check_path(path, '/')?;
        Ok(FieldSpec {
            gvk,
            path: path.into(),
            create,
        })
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let gvk = read_gvk(fields)?;
        let path = fields.path("path", '/')?;
        Ok(FieldSpec {
            gvk,
            path: path.into(),
            create: fields.flag("create")?,
        })
    }

    /// The path as it was written.
    pub fn path(&self) -> &str {
        &self.path
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
                    Some(name) => Step::new(name, true),
                    None => Step::new(&part, false),
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
pub fn merge_specs(specs: &mut Vec<FieldSpec>, more: &[FieldSpec], budget: &Budget) -> Result<()> {
    more.iter().try_for_each(|spec| {
        budget.check()?;
        merge_spec(specs, spec)
    })
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
    leads: Leads,
}

/// Where a step leads from a map.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leads {
    /// To the field of its name.
    ToField,
    /// Nowhere: a name of blanks only is passed over.
    Nowhere,
    /// Out of the map: it is an index, a wildcard or a query, and maps have none of these.
    Astray,
}

impl Step {
    fn new(name: &str, is_list: bool) -> Self {
        let trimmed = name.trim();
        let leads = match path::parse_part(trimmed) {
            Ok(Part::Field(_)) if trimmed.is_empty() && !name.is_empty() => Leads::Nowhere,
            Ok(Part::Field(_)) => Leads::ToField,
            _ => Leads::Astray,
        };
        let name = match leads {
            Leads::ToField => trimmed,
            _ => name,
        };
        Step {
            name: name.into(),
            is_list,
            leads,
        }
    }

    fn astray(&self, node: &Node) -> Error {
        let error = match path::parse_part(self.name.trim()) {
            Err(error) => error,
            Ok(_) => node_ops::wrong_kind("SequenceNode", node),
        };
        error.within(format!("fieldName: {}", self.name))
    }
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
    /// Calls `set` on every node that the path leads to. What is made on the way is charged.
    pub fn walk(
        &self,
        node: &mut Node,
        create: Create,
        budget: &Budget,
        set: &mut dyn FnMut(&mut Node) -> Result<()>,
    ) -> Result<()> {
        let mut walk = Walk {
            create,
            budget,
            set,
        };
        walk.node(node, &self.parts)
    }
}

/// Many paths as one tree, to find out in one walk which of them lead anywhere in an object.
#[derive(Debug, Default)]
pub struct PathTree {
    branches: Vec<Branch>,
    /// Paths with odd steps: what they do has to be tried.
    always: Vec<usize>,
}

#[derive(Debug, Default)]
struct Branch {
    children: Vec<(SmolStr, usize)>,
    ends: Vec<usize>,
}

impl PathTree {
    /// The tree of some paths, each with a number of its own.
    pub fn new<'a>(
        paths: impl Iterator<Item = (usize, &'a Steps)>,
        budget: &Budget,
    ) -> Result<Self> {
        let mut tree = PathTree {
            branches: vec![Branch::default()],
            always: Vec::new(),
        };
        for (number, steps) in paths {
            tree.add(number, steps, budget)?;
        }
        Ok(tree)
    }

    fn add(&mut self, number: usize, steps: &Steps, budget: &Budget) -> Result<()> {
        let plain = |step: &Step| step.leads == Leads::ToField && !step.name.is_empty();
        if !steps.parts.iter().all(plain) {
            self.always.push(number);
            return Ok(());
        }
        let mut here = 0;
        for step in &steps.parts {
            budget.check()?;
            let children = &self.branches[here].children;
            let known = children.iter().find(|(name, _)| *name == step.name);
            here = match known {
                Some((_, child)) => *child,
                None => {
                    budget.charge(size_of::<Branch>() + size_of::<(SmolStr, usize)>())?;
                    let child = self.branches.len();
                    self.branches.push(Branch::default());
                    self.branches[here]
                        .children
                        .push((step.name.clone(), child));
                    child
                }
            };
        }
        self.branches[here].ends.push(number);
        Ok(())
    }

    /// Calls `found` for every path that a walk would not come back from with nothing done, and
    /// perhaps for a few more, in any order and more than once.
    pub fn find(&self, node: &Node, budget: &Budget, found: &mut dyn FnMut(usize)) -> Result<()> {
        self.always.iter().for_each(|number| found(*number));
        self.find_below(node, 0, budget, found)
    }

    fn find_below(
        &self,
        node: &Node,
        branch: usize,
        budget: &Budget,
        found: &mut dyn FnMut(usize),
    ) -> Result<()> {
        let children = &self.branches[branch].children;
        if children.is_empty() {
            return Ok(());
        }
        budget.check()?;
        match &node.value {
            Value::Sequence(items) => {
                for item in items {
                    self.find_below(item, branch, budget, found)?;
                }
            }
            Value::Mapping(mapping) => {
                for entry in &mapping.entries {
                    let name = node_ops::raw_text(&entry.key);
                    let child = children.iter().find(|(known, _)| known == name);
                    if let Some((_, child)) = child {
                        self.branches[*child].ends.iter().for_each(|n| found(*n));
                        self.find_below(&entry.value, *child, budget, found)?;
                    }
                }
            }
            _ => self.find_all(branch, budget, found)?,
        }
        Ok(())
    }

    fn find_all(&self, branch: usize, budget: &Budget, found: &mut dyn FnMut(usize)) -> Result<()> {
        budget.check()?;
        for (_, child) in &self.branches[branch].children {
            self.branches[*child].ends.iter().for_each(|n| found(*n));
            self.find_all(*child, budget, found)?;
        }
        Ok(())
    }
}

/// A walk to the nodes of one path.
struct Walk<'w> {
    create: Create,
    budget: &'w Budget,
    set: &'w mut dyn FnMut(&mut Node) -> Result<()>,
}

impl Walk<'_> {
    fn node(&mut self, node: &mut Node, steps: &[Step]) -> Result<()> {
        self.budget.check()?;
        let Some((step, rest)) = steps.split_first() else {
            return (self.set)(node);
        };
        if node.is_null() {
            return Ok(());
        }
        match &mut node.value {
            Value::Sequence(items) => items
                .iter_mut()
                .try_for_each(|item| self.node(item, steps))
                .within(|| {
                    let names: Vec<String> = steps
                        .iter()
                        .map(|step| {
                            format!("{}{}", step.name, if step.is_list { "[]" } else { "" })
                        })
                        .collect();
                    format!("visit traversal on path: [{}]", names.join(" "))
                }),
            Value::Mapping(_) => self.field(node, step, rest),
            _ => Err(Error::Field("expected sequence or mapping node".to_owned())),
        }
    }

    fn field(&mut self, node: &mut Node, step: &Step, rest: &[Step]) -> Result<()> {
        if step.name.is_empty() {
            return Err(Error::Field(
                "cannot set or create an empty field name".to_owned(),
            ));
        }
        match step.leads {
            Leads::ToField => {}
            Leads::Nowhere => return self.node(node, rest),
            Leads::Astray => return Err(step.astray(node)),
        }
        let made = if self.create == Create::Nothing || step.is_list {
            None
        } else if rest.is_empty() && self.create == Create::Text {
            Some(Node::string(""))
        } else {
            Some(Node::mapping())
        };
        let Some(mapping) = node.as_mapping_mut() else {
            return Ok(());
        };
        let position = mapping.position(&step.name);
        let position = match (position, &made) {
            (Some(position), _) => position,
            (None, None) => return Ok(()),
            (None, Some(made)) => {
                self.budget.charge(node_ops::ENTRY + step.name.len())?;
                node_ops::append_field(mapping, &step.name, made.clone());
                mapping.len() - 1
            }
        };
        let field = &mut mapping.entries[position].value;
        if field.is_null() {
            if step.is_list {
                field.value = Value::Sequence(Vec::new());
            } else if let Some(made) = made {
                field.value = made.value;
            }
        }
        debug_assert!(!kind_name(field).is_empty());
        self.node(field, rest)
    }
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
    fn paths_have_as_many_parts_as_yaml_has_levels() {
        let path = |parts: usize| vec!["b"; parts].join("/");
        assert!(FieldSpec::new(Gvk::default(), &path(1_000), true).is_ok());
        let error = FieldSpec::new(Gvk::default(), &path(1_001), true).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("b/b/b"), "{text}");
        assert!(text.contains("1000 levels"), "{text}");
        let escaped = vec!["b"; 5_000].join(r"\/");
        assert!(check_path(&escaped, '/').is_ok());
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
