//! The values of `sigs.k8s.io/yaml` with the places they came from.

use crate::decode::{AliasTargets, Decoder, GoKey, plain_tree};
use crate::error::Error;
use crate::load::{Limits, Loader};
use crate::node::{Dialect, Entry, Mapping, Node, ScalarKind, Style, Value};
use indexmap::IndexMap;

/// The first document as a tree that holds what [`super::yaml_to_json`] returns: aliases replaced,
/// merge keys applied, of duplicate keys the last. Keys and values keep their positions, so an
/// error about a value can name its line.
pub fn load(input: &[u8]) -> Result<Node, Error> {
    load_with(input, false, Limits::DEFAULT)
}

/// As [`load`], with duplicate keys refused if `strict`, and with other limits.
pub fn load_with(input: &[u8], strict: bool, limits: Limits) -> Result<Node, Error> {
    let root = Loader::new(Dialect::Sigs).limits(limits).load(input)?;
    if plain_tree(&root, limits).is_some() {
        return Ok(root);
    }
    // Finds every error, and with them the trees that are too large to build.
    Decoder::new(Dialect::Sigs, strict, limits)
        .decode(&root)?
        .into_sigs_json()?;
    let targets = AliasTargets::find(&root);
    Ok(Resolver { targets }.node(&root))
}

struct Resolver<'n> {
    targets: AliasTargets<'n>,
}

type Entries = IndexMap<GoKey, Entry>;

impl<'n> Resolver<'n> {
    fn target(&self, node: &'n Node) -> &'n Node {
        match &node.value {
            Value::Alias(_) => self.targets.get(node).unwrap_or(node),
            _ => node,
        }
    }

    fn node(&self, node: &'n Node) -> Node {
        let node = self.target(node);
        let value = match &node.value {
            Value::Sequence(items) => {
                Value::Sequence(items.iter().map(|item| self.node(item)).collect())
            }
            Value::Mapping(mapping) => {
                let mut entries = Entries::new();
                self.fill(mapping, &mut entries);
                Value::Mapping(Mapping {
                    entries: entries.into_values().collect(),
                })
            }
            scalar => scalar.clone(),
        };
        let mut extras = node.extras.clone();
        if let Some(extras) = &mut extras {
            extras.anchor = None;
        }
        Node {
            value,
            style: node.style,
            position: node.position,
            extras,
        }
    }

    fn fill(&self, mapping: &'n Mapping, entries: &mut Entries) {
        for Entry { key, value } in &mapping.entries {
            if is_merge(key) {
                match &value.value {
                    // Earlier ones win, so they come last.
                    Value::Sequence(items) => {
                        for item in items.iter().rev() {
                            self.merge(item, entries);
                        }
                    }
                    _ => self.merge(value, entries),
                }
                continue;
            }
            let key = self.node(key);
            if let Some(name) = go_key(&key) {
                let value = self.node(value);
                entries.insert(name, Entry { key, value });
            }
        }
    }

    fn merge(&self, source: &'n Node, entries: &mut Entries) {
        if let Value::Mapping(mapping) = &self.target(source).value {
            self.fill(mapping, entries);
        }
    }
}

fn is_merge(key: &Node) -> bool {
    key.as_text() == Some("<<")
        && match key.tag() {
            None => key.style == Style::Plain,
            Some(tag) => tag == "!" || tag == "!!merge",
        }
}

fn go_key(key: &Node) -> Option<GoKey> {
    let Value::Scalar(scalar) = &key.value else {
        return None;
    };
    Some(match scalar.kind {
        ScalarKind::Null => GoKey::Null,
        ScalarKind::Bool(value) => GoKey::Bool(value),
        ScalarKind::Int(value) => GoKey::Int(value),
        ScalarKind::Uint(value) => GoKey::Uint(value),
        ScalarKind::Float(value) => GoKey::Float(value),
        _ => GoKey::Str(scalar.text.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;

    #[test]
    fn values_are_those_of_yaml_to_json_with_their_places() {
        let input =
            b"base: &b {x: 1, z: 2}\nx: 0\n<<: *b\nz: 3\nlist: [*b]\nlist2: &l [a]\nlist: *l\n";
        let node = load(input).unwrap();
        let json = super::super::yaml_to_json(input).unwrap();
        assert_eq!(node.to_json().unwrap(), json);
        assert_eq!(node.get("x").unwrap().as_text(), Some("1"));
        let z = node.get("z").unwrap();
        assert_eq!(z.as_text(), Some("3"));
        assert_eq!(z.position, Position { line: 4, column: 4 });
    }

    #[test]
    fn errors_are_those_of_the_decoder() {
        let error = load(b"a: 1\nb: &x [*x]\n").unwrap_err();
        assert_eq!(error.to_string(), "yaml: anchor 'x' value contains itself");
        assert_eq!(error.position(), Position { line: 2, column: 8 });
        let error = load_with(b"a: 1\na: 2\n", true, Limits::DEFAULT).unwrap_err();
        assert_eq!(
            error.to_string(),
            "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"
        );
    }
}
