//! kyaml, as kustomize uses it: trees that keep their look, and their JSON.

use crate::decode::{AliasTargets, Decoder, plain_document, plain_tree};
use crate::error::{Error, Limit};
use crate::load::{Limits, Loader};
use crate::node::{Dialect, Entry, Mapping, Node, Scalar, ScalarKind, Style, Value};
use crate::read::Input;
use crate::read::resolve_plain;
use everflow_json::Value as Json;
use indexmap::IndexMap;
use smol_str::SmolStr;
use std::collections::HashSet;

/// The first document as a tree, with comments and with aliases as they stand.
pub fn load(input: &[u8]) -> Result<Node, Error> {
    Loader::new(Dialect::Kyaml).keep_comments(true).load(input)
}

/// What a plain scalar with this text means.
pub fn resolve(text: &str) -> ScalarKind {
    resolve_plain(Dialect::Kyaml, text)
}

/// `yaml.Unmarshal` of go-yaml v3 into `any`, as JSON: the first document, merge keys applied.
/// Duplicate keys are errors, and so is a map with a key that is not a string.
pub fn yaml_to_json(input: &[u8]) -> Result<Json, Error> {
    yaml_to_json_within(input, Limits::DEFAULT)
}

/// As [`yaml_to_json`], with other limits.
pub fn yaml_to_json_within(input: &[u8], limits: Limits) -> Result<Json, Error> {
    limits.check_size(input)?;
    if let Some(json) = plain_document(&Input::new(input), Dialect::Kyaml, true, limits)? {
        return Ok(json);
    }
    let root = Loader::new(Dialect::Kyaml).limits(limits).load(input)?;
    decode(&root, limits)
}

fn decode(root: &Node, limits: Limits) -> Result<Json, Error> {
    if let Some(json) = plain_tree(root, limits) {
        return Ok(json);
    }
    Decoder::new(Dialect::Kyaml, false, limits)
        .decode(root)?
        .into_go_json()
}

impl Node {
    /// The plain values of a tree, as kyaml's `RNode.MarshalJSON` sees them.
    pub fn to_json(&self) -> Result<Json, Error> {
        Decoder::new(Dialect::Kyaml, false, Limits::DEFAULT)
            .decode_object(self)?
            .into_go_json()
    }

    /// A tree of plain values: maps sorted by key, text of several lines in literal style.
    pub fn from_json(json: &Json) -> Node {
        let scalar =
            |text: SmolStr, kind: ScalarKind| Node::new(Value::Scalar(Scalar { text, kind }));
        match json {
            Json::Null => Node::default(),
            Json::Bool(value) => {
                let text = if *value { "true" } else { "false" };
                scalar(SmolStr::new_static(text), ScalarKind::Bool(*value))
            }
            Json::Number(number) => {
                let text = match number.as_f64() {
                    Some(value) if number.is_f64() => crate::gojson::format_shortest(value),
                    _ => number.to_string(),
                };
                // kyaml reads the text it printed, so a float like `1` becomes an integer.
                let kind = resolve_plain(Dialect::Kyaml, &text);
                scalar(text.into(), kind)
            }
            Json::String(text) => {
                let mut node = Node::string(text.as_str());
                if text.contains('\n') {
                    node.style = Style::Literal;
                }
                node
            }
            Json::Array(items) => Node::sequence(items.iter().map(Node::from_json).collect()),
            Json::Object(object) => {
                let entries = object
                    .iter()
                    .map(|(key, value)| Entry {
                        key: Node::string(key.as_str()),
                        value: Node::from_json(value),
                    })
                    .collect();
                Node::new(Value::Mapping(Mapping { entries }))
            }
        }
    }

    /// `RNode.DeAnchor`: puts in place of each alias what it stands for, applies merge keys and
    /// drops the names of anchors.
    pub fn de_anchor(&self) -> Result<Node, Error> {
        self.de_anchor_within(Limits::DEFAULT)
    }

    /// As [`Node::de_anchor`], with other limits. kustomize dies of an alias inside its own anchor;
    /// this is an error here.
    pub fn de_anchor_within(&self, limits: Limits) -> Result<Node, Error> {
        self.de_anchor_counted(limits, &mut 0)
    }

    /// As [`Node::de_anchor_within`], for one of several documents: what aliases have added to all of them so far
    /// counts to one limit.
    pub(crate) fn de_anchor_counted(
        &self,
        limits: Limits,
        added: &mut usize,
    ) -> Result<Node, Error> {
        let mut expander = Expander {
            targets: AliasTargets::find(self),
            active: HashSet::new(),
            limits,
            added: *added,
            alias_depth: 0,
            depth: 0,
        };
        let expanded = expander.node(self);
        *added = expander.added;
        expanded
    }
}

impl Node {
    /// True if [`Node::de_anchor`] would change the tree.
    pub fn needs_de_anchor(&self) -> bool {
        let mut stack = vec![self];
        while let Some(node) = stack.pop() {
            if node.anchor().is_some() {
                return true;
            }
            match &node.value {
                Value::Alias(_) => return true,
                Value::Scalar(_) => {}
                Value::Sequence(items) => stack.extend(items),
                Value::Mapping(mapping) => {
                    for entry in &mapping.entries {
                        if entry.key.as_text() == Some("<<") || is_merge(&entry.key) {
                            return true;
                        }
                        // Scalars without an anchor need no visit of their own.
                        for node in [&entry.key, &entry.value] {
                            if node.extras.is_some() || !matches!(node.value, Value::Scalar(_)) {
                                stack.push(node);
                            }
                        }
                    }
                }
            }
        }
        false
    }
}

struct Expander<'n> {
    targets: AliasTargets<'n>,
    active: HashSet<*const Node>,
    limits: Limits,
    added: usize,
    alias_depth: usize,
    depth: usize,
}

impl<'n> Expander<'n> {
    fn node(&mut self, node: &'n Node) -> Result<Node, Error> {
        self.depth += 1;
        if self.depth > self.limits.nesting.saturating_add(1) {
            return Err(self.limit(Limit::Nesting(self.limits.nesting), node));
        }
        if self.alias_depth > 0 {
            self.added += 1;
            if self.added > self.limits.expansion {
                return Err(self.limit(Limit::Expansion(self.limits.expansion), node));
            }
        }
        let expanded = match &node.value {
            Value::Alias(name) => self.alias(node, name),
            Value::Scalar(_) => Ok(without_anchor(node, node.value.clone())),
            Value::Sequence(items) => {
                let items = items
                    .iter()
                    .map(|item| self.node(item))
                    .collect::<Result<_, _>>()?;
                Ok(without_anchor(node, Value::Sequence(items)))
            }
            Value::Mapping(mapping) => {
                let mapping = self.mapping(mapping)?;
                Ok(without_anchor(node, Value::Mapping(mapping)))
            }
        };
        self.depth -= 1;
        expanded
    }

    fn limit(&self, limit: Limit, node: &Node) -> Error {
        Error::Limit {
            limit,
            position: node.position,
        }
    }

    fn alias(&mut self, node: &'n Node, name: &str) -> Result<Node, Error> {
        let Some(target) = self.targets.get(node) else {
            return Err(Error::decode_at(
                format!("unknown anchor '{name}' referenced"),
                node.position,
            ));
        };
        let id: *const Node = node;
        if !self.active.insert(id) {
            return Err(Error::decode_at(
                format!("anchor '{name}' value contains itself"),
                node.position,
            ));
        }
        self.alias_depth += 1;
        let expanded = self.node(target);
        self.alias_depth -= 1;
        self.active.remove(&id);
        expanded
    }

    fn mapping(&mut self, mapping: &'n Mapping) -> Result<Mapping, Error> {
        let mut merges = mapping.entries.iter().filter(|entry| is_merge(&entry.key));
        let merge = merges.next().map(|entry| &entry.value);
        if merges.next().is_some() {
            return Err(Error::refused("duplicate merge key"));
        }
        // kyaml removes the first key with this text, whether it merges or not.
        let removed = mapping
            .entries
            .iter()
            .position(|entry| entry.key.as_text() == Some("<<"));
        let mut own = Mapping::default();
        for (index, Entry { key, value }) in mapping.entries.iter().enumerate() {
            if Some(index) != removed {
                own.entries.push(Entry {
                    key: self.node(key)?,
                    value: self.node(value)?,
                });
            }
        }
        match merge {
            Some(merge) => self.merge(merge, own),
            None => Ok(own),
        }
    }

    /// Own keys stay in place; merged ones follow, those of the weakest source first.
    fn merge(&mut self, merge: &'n Node, own: Mapping) -> Result<Mapping, Error> {
        let text = |entry: &Entry| SmolStr::new(entry.key.as_text().unwrap_or_default());
        let present: HashSet<SmolStr> = own.entries.iter().map(text).collect();
        let mut merged: IndexMap<SmolStr, Entry> = IndexMap::new();
        for source in self.merge_sources(merge, false)?.into_iter().rev() {
            let Value::Mapping(source) = self.node(source)?.value else {
                continue;
            };
            for entry in source.entries {
                let name = text(&entry);
                if !present.contains(&name) {
                    merged.insert(name, entry);
                }
            }
        }
        let mut out = own;
        out.entries.extend(merged.into_values());
        Ok(out)
    }

    /// The maps to merge, the strongest first.
    fn merge_sources(&self, merge: &'n Node, nested: bool) -> Result<Vec<&'n Node>, Error> {
        match &merge.value {
            Value::Mapping(_) => Ok(vec![merge]),
            Value::Alias(_) => match self.targets.get(merge) {
                Some(target) if !matches!(target.value, Value::Mapping(_)) => Err(Error::refused(
                    "invalid map merge: received alias for a non-map value",
                )),
                _ => Ok(vec![merge]),
            },
            Value::Sequence(_) if nested => Err(Error::refused(
                "invalid map merge: received a nested sequence",
            )),
            Value::Sequence(items) => {
                let mut sources = Vec::new();
                for item in items {
                    sources.extend(self.merge_sources(item, true)?);
                }
                Ok(sources)
            }
            Value::Scalar(_) => Err(Error::refused(
                "map merge requires map or sequence of maps as the value",
            )),
        }
    }
}

fn is_merge(key: &Node) -> bool {
    match key.tag() {
        Some("!!merge") => true,
        Some(tag) if tag != "!" => false,
        _ => matches!(&key.value, Value::Scalar(scalar) if scalar.kind == ScalarKind::Merge),
    }
}

fn without_anchor(node: &Node, value: Value) -> Node {
    let mut extras = node.extras.clone();
    if let Some(present) = &mut extras {
        present.anchor = None;
        if **present == crate::node::Extras::default() {
            extras = None;
        }
    }
    Node {
        value,
        style: node.style,
        position: node.position,
        extras,
    }
}
