//! The built-in generators.

pub mod hash;
pub mod kv;

use base64::Engine;
use everflow_limits::Budget;
use everflow_yaml::{Mapping, Node, Style, Value, cost};
use smol_str::SmolStr;

use crate::error::{Error, Result};
use crate::kustomization::GeneratorArgs;
use crate::loader::Loader;
use crate::node_ops::{self, raw_text};
use crate::resource::{Behavior, Resource};
use crate::schema::Schemas;

/// Which kind of object is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `configMapGenerator`
    ConfigMap,
    /// `secretGenerator`
    Secret,
}

/// Generates a ConfigMap or Secret.
pub fn generate(
    kind: Kind,
    args: &GeneratorArgs,
    loader: &Loader<'_>,
    schemas: &Schemas,
) -> Result<Resource> {
    let budget = loader.meter().budget;
    if args.name.is_empty() {
        return Err(Error::Configuration(
            "a configmap must have a name".to_owned(),
        ));
    }
    let pairs = kv::load(args, loader)?;
    budget.charge(pairs.iter().map(cost_of).sum())?;
    let mut root = Mapping::default();
    let mut set = |name: &str, value: Node| node_ops::append_field(&mut root, name, value);
    set("apiVersion", Node::string("v1"));
    let kind_name = match kind {
        Kind::ConfigMap => "ConfigMap",
        Kind::Secret => "Secret",
    };
    set("kind", Node::string(kind_name));
    let metadata = metadata(args);
    budget.charge(cost::of_tree(&metadata))?;
    set("metadata", metadata);
    match kind {
        Kind::ConfigMap => set_config_map_data(&mut root, &pairs),
        Kind::Secret => {
            let secret_type = if args.secret_type.is_empty() {
                "Opaque"
            } else {
                &args.secret_type
            };
            node_ops::append_field(&mut root, "type", Node::string(secret_type));
            let mut data = Mapping::default();
            for (key, value) in &pairs {
                node_ops::append_field(&mut data, key, text_node(encode_base64(value)));
            }
            node_ops::append_field(&mut root, "data", Node::new(Value::Mapping(data)));
        }
    }
    if args
        .options
        .as_ref()
        .is_some_and(|options| options.immutable)
    {
        node_ops::append_field(&mut root, "immutable", node_ops::boolean(true));
    }
    let mut resource = Resource::new(Node::new(Value::Mapping(root)), schemas);
    resource.needs_hash = !args
        .options
        .as_ref()
        .is_some_and(|options| options.disable_name_suffix_hash);
    resource.behavior = Some(Behavior::parse(&args.behavior));
    Ok(resource)
}

/// What a pair takes in an object: as it is, or longer by a third as Base64.
fn cost_of((key, value): &(String, Vec<u8>)) -> usize {
    node_ops::ENTRY + key.len() + value.len() + value.len() / 2
}

fn metadata(args: &GeneratorArgs) -> Node {
    let mut meta = Mapping::default();
    node_ops::append_field(&mut meta, "name", Node::string(args.name.as_str()));
    if !args.namespace.is_empty() {
        node_ops::append_field(
            &mut meta,
            "namespace",
            Node::string(args.namespace.as_str()),
        );
    }
    if let Some(options) = &args.options {
        for (field, pairs) in [
            ("labels", &options.labels),
            ("annotations", &options.annotations),
        ] {
            if pairs.is_empty() {
                continue;
            }
            let mut map = Mapping::default();
            for (key, value) in pairs {
                node_ops::append_field(&mut map, key, Node::string(value.as_str()));
            }
            node_ops::append_field(&mut meta, field, Node::new(Value::Mapping(map)));
        }
    }
    Node::new(Value::Mapping(meta))
}

fn set_config_map_data(root: &mut Mapping, pairs: &[(String, Vec<u8>)]) {
    for (key, value) in pairs {
        let (field, text) = match std::str::from_utf8(value) {
            Ok(text) => ("data", text.to_owned()),
            Err(_) => ("binaryData", encode_base64(value)),
        };
        // Each key comes once.
        if let Some(map) = node_ops::mapping_at(root, field) {
            node_ops::append_field(map, key, text_node(text));
        }
    }
}

fn text_node(text: String) -> Node {
    let literal = text.contains('\n');
    let mut node = Node::string(text);
    if literal {
        node.style = Style::Literal;
    }
    node
}

/// Base64 in lines of 70 characters; a single line has no line end.
fn encode_base64(bytes: &[u8]) -> String {
    const LINE: usize = 70;
    let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
    if encoded.len() < LINE {
        return encoded;
    }
    let mut out = String::with_capacity(encoded.len() + encoded.len() / LINE + 1);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        out.push_str(line);
        out.push('\n');
        rest = more;
    }
    out
}

/// Lays a generated object over the one that is there.
pub fn lay_over(
    new: &mut Resource,
    old: &Resource,
    behavior: Behavior,
    budget: &Budget,
) -> Result<()> {
    // At most all of the old one comes into the new one.
    budget.charge(cost::of_tree(&old.node))?;
    let labels = merged(old.meta_pairs("labels"), new.meta_pairs("labels"));
    new.set_meta_pairs("labels", labels);
    let origin = old
        .annotation(crate::resource::ORIGIN)
        .map(str::to_owned)
        .filter(|_| behavior == Behavior::Merge);
    let annotations = merged(old.meta_pairs("annotations"), new.meta_pairs("annotations"));
    new.set_meta_pairs("annotations", annotations);
    new.previous.clone_from(&old.previous);
    new.prefixes.clone_from(&old.prefixes);
    new.suffixes.clone_from(&old.suffixes);
    new.behavior = old.behavior;
    new.needs_hash &= old.needs_hash;
    new.helm_generated = old.helm_generated;
    new.ref_vars.clone_from(&old.ref_vars);
    new.set_name(&old.id().name);
    new.set_namespace(&old.id().namespace);
    if behavior != Behavior::Merge {
        return Ok(());
    }
    merge_data(&mut new.node, &old.node, "data");
    merge_data(&mut new.node, &old.node, "binaryData");
    if let Some(origin) = origin {
        new.set_annotation(crate::resource::ORIGIN, &origin);
    }
    Ok(())
}

type Pairs = Vec<(SmolStr, SmolStr)>;

fn merged(old: Pairs, new: Pairs) -> Pairs {
    let mut out: std::collections::BTreeMap<SmolStr, SmolStr> = old.into_iter().collect();
    out.extend(new);
    out.into_iter().collect()
}

fn merge_data(new: &mut Node, old: &Node, field: &str) {
    let texts = |node: &Node| -> Pairs {
        let map = node.get(field).and_then(Node::as_mapping);
        map.map_or(&[][..], |map| &map.entries)
            .iter()
            .map(|e| (raw_text(&e.key).into(), node_ops::text(&e.value).into()))
            .collect()
    };
    let pairs = merged(texts(old), texts(new));
    let Some(root) = new.as_mapping_mut() else {
        return;
    };
    root.remove(field);
    if pairs.is_empty() {
        return;
    }
    let mut map = Mapping::default();
    for (key, value) in pairs {
        node_ops::append_field(&mut map, &key, text_node(value.into()));
    }
    node_ops::append_field(root, field, Node::new(Value::Mapping(map)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_breaks_long_lines() {
        assert_eq!(encode_base64(b"hello"), "aGVsbG8=");
        let long = encode_base64(&[0; 60]);
        assert_eq!(long.lines().map(str::len).collect::<Vec<_>>(), [70, 10]);
        assert!(long.ends_with('\n'));
    }
}
