//! An object during a build: its tree, what it was called before, and what kustomize notes on it.

use std::collections::HashMap;

use everflow_limits::Budget;
use everflow_yaml::{Mapping, Node, Style, Value};
use smol_str::SmolStr;

use crate::error::{Error, Result};
use crate::node_ops::{self, is_null_or_empty, raw_text, untagged};
use crate::resid::{Gvk, ResId};
use crate::schema::Schemas;

const INTERNAL: &str = "internal.config.kubernetes.io/";
const PREVIOUS_NAMES: &str = "internal.config.kubernetes.io/previousNames";
const PREVIOUS_NAMESPACES: &str = "internal.config.kubernetes.io/previousNamespaces";
const PREVIOUS_KINDS: &str = "internal.config.kubernetes.io/previousKinds";
const PREFIXES: &str = "internal.config.kubernetes.io/prefixes";
const SUFFIXES: &str = "internal.config.kubernetes.io/suffixes";
const BEHAVIOR: &str = "internal.config.kubernetes.io/generatorBehavior";
const NEEDS_HASH: &str = "internal.config.kubernetes.io/needsHashSuffix";
const ALLOW_NAME_CHANGE: &str = "internal.config.kubernetes.io/allowNameChange";
const ALLOW_KIND_CHANGE: &str = "internal.config.kubernetes.io/allowKindChange";
const HELM_GENERATED: &str = "internal.config.kubernetes.io/helm-generated";
/// Where an object came from.
pub const ORIGIN: &str = "config.kubernetes.io/origin";
/// What changed an object.
pub const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";
/// Objects that are only there for kustomize itself.
const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";

/// From so many entries on a map is not searched for each of them.
const MANY: usize = 64;

/// Annotations that never reach the output.
const BUILD_ANNOTATIONS: [&str; 19] = [
    PREVIOUS_KINDS,
    PREVIOUS_NAMES,
    PREFIXES,
    SUFFIXES,
    PREVIOUS_NAMESPACES,
    ALLOW_NAME_CHANGE,
    ALLOW_KIND_CHANGE,
    "internal.config.kubernetes.io/refBy",
    BEHAVIOR,
    NEEDS_HASH,
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/id",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
    HELM_GENERATED,
];

/// What happens when a generated object is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behavior {
    /// Nothing was said.
    #[default]
    Unspecified,
    /// It must not be there.
    Create,
    /// The new one takes its place.
    Replace,
    /// The new one is laid over it.
    Merge,
}

impl Behavior {
    /// Reads the `behavior` field.
    pub fn parse(text: &str) -> Self {
        match text {
            "create" => Behavior::Create,
            "replace" => Behavior::Replace,
            "merge" => Behavior::Merge,
            _ => Behavior::Unspecified,
        }
    }

    /// How messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Behavior::Unspecified => "unspecified",
            Behavior::Create => "create",
            Behavior::Replace => "replace",
            Behavior::Merge => "merge",
        }
    }
}

/// A name an object had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousId {
    /// Name.
    pub name: SmolStr,
    /// Namespace with defaults filled in.
    pub namespace: SmolStr,
    /// Kind.
    pub kind: SmolStr,
}

/// An object during a build.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// The object itself; null once it has been deleted.
    pub node: Node,
    id: ResId,
    /// Former identities, oldest first.
    pub previous: Vec<PreviousId>,
    /// Prefixes its name got, oldest first.
    pub prefixes: Vec<SmolStr>,
    /// Suffixes its name got, oldest first.
    pub suffixes: Vec<SmolStr>,
    /// How it meets an object of the same name; only generated objects have one.
    pub behavior: Option<Behavior>,
    /// Whether its name gets a hash of its content.
    pub needs_hash: bool,
    /// It comes from a chart.
    pub helm_generated: bool,
    /// A patch that was allowed to change its name left its mark.
    pub name_change_allowed: bool,
    /// A patch that was allowed to change its kind left its mark.
    pub kind_change_allowed: bool,
    /// The vars that read a field of it.
    pub ref_vars: Vec<SmolStr>,
    /// The values that stand in several places at once; see [`node_ops::share_mark`].
    shared: Vec<Value>,
}

impl Resource {
    /// Wraps a tree.
    pub fn new(node: Node, schemas: &Schemas) -> Self {
        let mut resource = Resource {
            node,
            ..Resource::default()
        };
        resource.absorb_build_annotations();
        resource.refresh_id(schemas);
        resource
    }

    /// The current identity.
    pub fn id(&self) -> &ResId {
        &self.id
    }

    /// The current type.
    pub fn gvk(&self) -> &Gvk {
        &self.id.gvk
    }

    /// Reads the identity from the tree again.
    pub fn refresh_id(&mut self, schemas: &Schemas) {
        let api_version = self.node.get("apiVersion").map_or("", raw_text);
        let kind = self.node.get("kind").map_or("", raw_text);
        let name = self.meta_text("name");
        let namespace = self.meta_text("namespace");
        let unchanged = self.id.name == name
            && self.id.namespace == namespace
            && self.id.gvk.kind == kind
            && self.id.gvk.api_version() == api_version;
        if unchanged {
            return;
        }
        self.id = ResId {
            cluster_scoped: schemas.is_cluster_scoped(api_version, kind),
            gvk: Gvk::new(api_version, kind),
            name: name.into(),
            namespace: namespace.into(),
        };
    }

    /// The identity it had first.
    pub fn original_id(&self) -> ResId {
        match self.previous.first() {
            Some(previous) => self.previous_id(previous),
            None => self.id.clone(),
        }
    }

    /// A former identity; its group and version are today's.
    pub fn previous_id(&self, previous: &PreviousId) -> ResId {
        ResId {
            gvk: Gvk {
                kind: previous.kind.clone(),
                ..self.id.gvk.clone()
            },
            name: previous.name.clone(),
            namespace: previous.namespace.clone(),
            cluster_scoped: false,
        }
    }

    /// All former identities.
    pub fn previous_ids(&self) -> impl Iterator<Item = ResId> {
        self.previous
            .iter()
            .map(|previous| self.previous_id(previous))
    }

    /// Today's identity and all former ones, without regard to scope.
    pub fn plain_ids(&self) -> Vec<ResId> {
        let mut current = self.id.clone();
        current.cluster_scoped = false;
        std::iter::once(current)
            .chain(self.previous_ids())
            .collect()
    }

    /// Notes today's identity before it changes.
    pub fn store_previous_id(&mut self, budget: &Budget) -> Result<()> {
        budget.charge(size_of::<PreviousId>() + self.id.name.len())?;
        self.previous.push(PreviousId {
            name: self.id.name.clone(),
            namespace: self.id.effective_namespace().into(),
            kind: self.id.gvk.kind.clone(),
        });
        Ok(())
    }

    /// True when nothing is left of it.
    pub fn is_empty(&self) -> bool {
        is_null_or_empty(&self.node)
    }

    /// Deletes it; it is dropped after the transformer.
    pub fn delete(&mut self) {
        self.node = Node::default();
    }

    fn meta_text(&self, field: &str) -> &str {
        match self.node.get("metadata").and_then(|meta| meta.get(field)) {
            Some(node) if !is_null_or_empty(node) => raw_text(node),
            _ => "",
        }
    }

    fn meta_map(&self, field: &str) -> Option<&Mapping> {
        self.node.get("metadata")?.get(field)?.as_mapping()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta_map("labels")?.get(key).map(raw_text)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta_map("annotations")?.get(key).map(raw_text)
    }

    /// Sets `metadata.name`.
    pub fn set_name(&mut self, name: &str) {
        self.set_meta("name", name);
    }

    /// Sets or clears `metadata.namespace`.
    pub fn set_namespace(&mut self, namespace: &str) {
        if !namespace.is_empty() {
            self.set_meta("namespace", namespace);
        } else if let Some(meta) = self.node.get_mut("metadata").and_then(Node::as_mapping_mut) {
            meta.remove("namespace");
        }
    }

    fn set_meta(&mut self, field: &str, text: &str) {
        if let Some(root) = self.node.as_mapping_mut()
            && let Some(meta) = node_ops::mapping_at(root, "metadata")
        {
            node_ops::set_untagged(meta, field, text);
        }
    }

    /// Sets `kind`.
    pub fn set_kind(&mut self, kind: &str) {
        if let Some(root) = self.node.as_mapping_mut() {
            node_ops::set_untagged(root, "kind", kind);
        }
    }

    /// Sets `apiVersion`.
    pub fn set_api_version(&mut self, api_version: &str) {
        if let Some(root) = self.node.as_mapping_mut() {
            node_ops::set_untagged(root, "apiVersion", api_version);
        }
    }

    /// All entries of `labels` or `annotations` as texts.
    pub fn meta_pairs(&self, field: &str) -> Vec<(SmolStr, SmolStr)> {
        let Some(map) = self.meta_map(field) else {
            return Vec::new();
        };
        map.entries
            .iter()
            .map(|entry| (raw_text(&entry.key).into(), raw_text(&entry.value).into()))
            .collect()
    }

    /// Writes `labels` or `annotations` anew, every value as a string; none at all removes the field.
    pub fn set_meta_pairs(&mut self, field: &str, pairs: Vec<(SmolStr, SmolStr)>) {
        let Some(root) = self.node.as_mapping_mut() else {
            return;
        };
        let Some(meta) = node_ops::mapping_at(root, "metadata") else {
            return;
        };
        meta.remove(field);
        if pairs.is_empty() {
            return;
        }
        let mut map = Mapping::default();
        // Of a key that comes twice the last value counts, in the place of the first.
        let mut places: HashMap<SmolStr, usize> = HashMap::new();
        let are_many = pairs.len() > MANY;
        for (key, value) in pairs {
            let value = Node::string(value);
            if !are_many {
                node_ops::set_field(&mut map, &key, value);
                continue;
            }
            match places.get(&key) {
                Some(place) => node_ops::overwrite(&mut map.entries[*place].value, value),
                None => {
                    node_ops::append_field(&mut map, &key, value);
                    places.insert(key, map.len() - 1);
                }
            }
        }
        node_ops::append_field(meta, field, Node::new(Value::Mapping(map)));
    }

    /// Sets one annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        let mut pairs = self.meta_pairs("annotations");
        match pairs.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = value.into(),
            None => pairs.push((key.into(), value.into())),
        }
        self.set_meta_pairs("annotations", pairs);
    }

    /// True when kustomize must not print it.
    pub fn is_local_config(&self) -> bool {
        self.annotation(LOCAL_CONFIG)
            .is_some_and(|value| value != "false")
    }

    /// Makes annotations fit for the output: all values are strings, and what kustomize noted for
    /// itself is gone.
    pub fn finish_annotations(&mut self, keep_origin: bool, keep_transformations: bool) {
        let Some(meta) = self.node.get("metadata") else {
            return;
        };
        let Some(annotations) = meta.get("annotations") else {
            return;
        };
        let clean = annotations.as_mapping().is_some_and(|map| {
            !map.is_empty()
                && map.entries.iter().all(|entry| {
                    let key = raw_text(&entry.key);
                    // Text in a block changes when it is written anew.
                    let is_block = matches!(entry.value.style, Style::Literal | Style::Folded);
                    node_ops::is_text(&entry.value)
                        && !is_block
                        && !key.contains("config.k")
                        && node_ops::is_text(&untagged(key))
                })
        });
        if clean {
            return;
        }
        let dropped = |key: &str| {
            BUILD_ANNOTATIONS.contains(&key)
                || (key == ORIGIN && !keep_origin)
                || (key == TRANSFORMATIONS && !keep_transformations)
        };
        let mut pairs = self.meta_pairs("annotations");
        pairs.retain(|(key, _)| !dropped(key));
        self.set_meta_pairs("annotations", pairs);
    }

    // ---- what kustomize notes on objects as annotations ----

    /// Takes kustomize's own annotations out of the tree and into fields.
    pub fn absorb_build_annotations(&mut self) {
        let internal = self.meta_map("annotations").is_some_and(|map| {
            map.entries
                .iter()
                .any(|e| raw_text(&e.key).starts_with(INTERNAL))
        });
        if !internal {
            return;
        }
        let list = |resource: &Resource, key: &str| -> Vec<SmolStr> {
            match resource.annotation(key) {
                Some(text) => text.split(',').map(SmolStr::new).collect(),
                None => Vec::new(),
            }
        };
        let names = list(self, PREVIOUS_NAMES);
        let namespaces = list(self, PREVIOUS_NAMESPACES);
        let kinds = list(self, PREVIOUS_KINDS);
        self.previous = names
            .into_iter()
            .zip(namespaces)
            .zip(kinds)
            .map(|((name, namespace), kind)| PreviousId {
                name,
                namespace,
                kind,
            })
            .collect();
        self.prefixes = list(self, PREFIXES);
        self.suffixes = list(self, SUFFIXES);
        self.behavior = self.annotation(BEHAVIOR).map(Behavior::parse);
        self.needs_hash = self.annotation(NEEDS_HASH) == Some("enabled");
        self.helm_generated = self.annotation(HELM_GENERATED) == Some("true");
        self.name_change_allowed = self.annotation(ALLOW_NAME_CHANGE) == Some("enabled");
        self.kind_change_allowed = self.annotation(ALLOW_KIND_CHANGE) == Some("enabled");
        if let Some(map) = self
            .node
            .get_mut("metadata")
            .and_then(|meta| meta.get_mut("annotations"))
            .and_then(Node::as_mapping_mut)
        {
            const ABSORBED: [&str; 10] = [
                PREVIOUS_NAMES,
                PREVIOUS_NAMESPACES,
                PREVIOUS_KINDS,
                PREFIXES,
                SUFFIXES,
                BEHAVIOR,
                NEEDS_HASH,
                HELM_GENERATED,
                ALLOW_NAME_CHANGE,
                ALLOW_KIND_CHANGE,
            ];
            map.entries
                .retain(|entry| !ABSORBED.contains(&raw_text(&entry.key)));
        }
    }

    /// What the annotations of the object would be if the notes stood there.
    fn build_annotations(&self) -> Vec<(&'static str, String)> {
        let join = |texts: &[SmolStr]| texts.join(",");
        let mut pairs = Vec::new();
        if !self.previous.is_empty() {
            let part = |of: fn(&PreviousId) -> &SmolStr| {
                let texts: Vec<&str> = self.previous.iter().map(|p| of(p).as_str()).collect();
                texts.join(",")
            };
            pairs.push((PREVIOUS_NAMES, part(|previous| &previous.name)));
            pairs.push((PREVIOUS_NAMESPACES, part(|previous| &previous.namespace)));
            pairs.push((PREVIOUS_KINDS, part(|previous| &previous.kind)));
        }
        if !self.prefixes.is_empty() {
            pairs.push((PREFIXES, join(&self.prefixes)));
        }
        if !self.suffixes.is_empty() {
            pairs.push((SUFFIXES, join(&self.suffixes)));
        }
        if let Some(behavior) = self.behavior {
            pairs.push((BEHAVIOR, behavior.name().to_owned()));
        }
        if self.needs_hash {
            pairs.push((NEEDS_HASH, "enabled".to_owned()));
        }
        if self.helm_generated {
            pairs.push((HELM_GENERATED, "true".to_owned()));
        }
        if self.name_change_allowed {
            pairs.push((ALLOW_NAME_CHANGE, "enabled".to_owned()));
        }
        if self.kind_change_allowed {
            pairs.push((ALLOW_KIND_CHANGE, "enabled".to_owned()));
        }
        pairs
    }

    /// Puts the notes into the tree as annotations, for steps that can see or remove them.
    pub fn write_build_annotations(&mut self) {
        let pairs = self.build_annotations();
        if pairs.is_empty() {
            return;
        }
        let Some(root) = self.node.as_mapping_mut() else {
            return;
        };
        let Some(meta) = node_ops::mapping_at(root, "metadata") else {
            return;
        };
        let Some(annotations) = node_ops::mapping_at(meta, "annotations") else {
            return;
        };
        for (key, value) in pairs {
            node_ops::set_field(annotations, key, Node::string(value));
        }
    }

    /// A copy of the tree with the notes in it.
    pub fn with_build_annotations(&self) -> Node {
        let mut copy = self.clone();
        copy.write_build_annotations();
        copy.node
    }

    /// Forgets the notes that live in annotations, before they are read from the tree again.
    pub fn forget_notes(&mut self) {
        self.previous.clear();
        self.prefixes.clear();
        self.suffixes.clear();
        self.behavior = None;
        self.needs_hash = false;
        self.helm_generated = false;
        self.name_change_allowed = false;
        self.kind_change_allowed = false;
    }

    /// A copy of the notes, to bring them back after a step that may lose them.
    pub fn clone_notes(&self) -> Notes {
        Notes {
            previous: self.previous.clone(),
            prefixes: self.prefixes.clone(),
            suffixes: self.suffixes.clone(),
            behavior: self.behavior,
            needs_hash: self.needs_hash,
            helm_generated: self.helm_generated,
            name_change_allowed: self.name_change_allowed,
            kind_change_allowed: self.kind_change_allowed,
        }
    }

    /// Brings back notes. What was not noted before stays as it is.
    pub fn restore_notes(&mut self, notes: Notes) {
        if !notes.previous.is_empty() {
            self.previous = notes.previous;
        }
        if !notes.prefixes.is_empty() {
            self.prefixes = notes.prefixes;
        }
        if !notes.suffixes.is_empty() {
            self.suffixes = notes.suffixes;
        }
        if notes.behavior.is_some() {
            self.behavior = notes.behavior;
        }
        self.needs_hash |= notes.needs_hash;
        self.helm_generated |= notes.helm_generated;
        self.name_change_allowed |= notes.name_change_allowed;
        self.kind_change_allowed |= notes.kind_change_allowed;
    }

    // ---- values that stand in several places at once ----

    /// Starts a group of places that share a value, and returns its mark.
    pub fn share(&mut self, value: &Node) -> SmolStr {
        self.shared.push(value.value.clone());
        smol_str::format_smolstr!("{}", self.shared.len() - 1)
    }

    /// The mark that the next [`Resource::share`] returns.
    pub fn next_share(&self) -> SmolStr {
        smol_str::format_smolstr!("{}", self.shared.len())
    }

    /// Forgets all groups, because the tree was made anew.
    pub fn unshare(&mut self) {
        self.shared.clear();
    }

    /// Brings a change in one place of a group to all others.
    pub fn after_change(&mut self) {
        if self.shared.is_empty() {
            return;
        }
        let mut changed: Vec<Option<Value>> = vec![None; self.shared.len()];
        find_changes(&self.node, &self.shared, &mut changed);
        if changed.iter().all(Option::is_none) {
            return;
        }
        for (known, new) in self.shared.iter_mut().zip(&changed) {
            if let Some(new) = new {
                known.clone_from(new);
            }
        }
        spread_changes(&mut self.node, &changed);
    }

    /// Checks that the object can be printed and named.
    pub fn require_metadata(node: &Node) -> Result<()> {
        let kind = node.get("kind").map_or("", node_ops::text);
        let api_version = node.get("apiVersion").map_or("", node_ops::text);
        let meta = node.get("metadata").filter(|meta| !is_null_or_empty(meta));
        let name = meta
            .and_then(|meta| meta.get("name"))
            .filter(|name| !is_null_or_empty(name))
            .map_or("", raw_text);
        let has_meta = meta.is_some_and(|meta| {
            ["name", "namespace", "labels", "annotations"]
                .iter()
                .any(|field| {
                    meta.get(field)
                        .is_some_and(|value| !is_null_or_empty(value))
                })
        });
        if kind.is_empty() && api_version.is_empty() && !has_meta {
            let written = ["kind", "apiVersion"].iter().any(|field| {
                node.get(field)
                    .is_some_and(|value| !is_null_or_empty(value))
            });
            if !written {
                return Err(Error::Resource("missing Resource metadata".to_owned()));
            }
        }
        let describe = || {
            let namespace = meta
                .and_then(|m| m.get("namespace"))
                .map_or("", node_ops::text);
            format!("{{{{{api_version} {kind}}} {{{{{name} {namespace}}} map[] map[]}}}}")
        };
        if kind.is_empty() {
            return Err(Error::Resource(format!(
                "missing kind in object {}",
                describe()
            )));
        }
        if kind.ends_with("List") || !name.is_empty() {
            return Ok(());
        }
        Err(Error::Resource(format!(
            "missing metadata.name in object {}",
            describe()
        )))
    }
}

/// What kustomize notes on an object.
#[derive(Clone, Debug)]
pub struct Notes {
    previous: Vec<PreviousId>,
    prefixes: Vec<SmolStr>,
    suffixes: Vec<SmolStr>,
    behavior: Option<Behavior>,
    needs_hash: bool,
    helm_generated: bool,
    name_change_allowed: bool,
    kind_change_allowed: bool,
}

fn mark_of(node: &Node) -> Option<usize> {
    node.extras.as_ref()?.anchor.as_ref()?.parse().ok()
}

fn same_value(a: &Value, b: &Value) -> bool {
    matches!((a, b), (Value::Scalar(a), Value::Scalar(b)) if a == b)
}

fn find_changes(node: &Node, shared: &[Value], changed: &mut [Option<Value>]) {
    if let Some(mark) = mark_of(node)
        && let Some(known) = shared.get(mark)
        && !same_value(known, &node.value)
    {
        changed[mark] = Some(node.value.clone());
    }
    match &node.value {
        Value::Mapping(mapping) => {
            let mut entries: Vec<_> = mapping.entries.iter().collect();
            entries.sort_by(|a, b| raw_text(&a.key).cmp(raw_text(&b.key)));
            for entry in entries {
                find_changes(&entry.value, shared, changed);
            }
        }
        Value::Sequence(items) => items
            .iter()
            .for_each(|item| find_changes(item, shared, changed)),
        _ => {}
    }
}

fn spread_changes(node: &mut Node, changed: &[Option<Value>]) {
    if let Some(mark) = mark_of(node)
        && let Some(Some(new)) = changed.get(mark)
    {
        node.value = new.clone();
    }
    match &mut node.value {
        Value::Mapping(mapping) => mapping
            .entries
            .iter_mut()
            .for_each(|entry| spread_changes(&mut entry.value, changed)),
        Value::Sequence(items) => items
            .iter_mut()
            .for_each(|item| spread_changes(item, changed)),
        _ => {}
    }
}
