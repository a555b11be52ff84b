//! The built-in transformers.

pub mod images;
pub mod json_patch;
pub mod labels;
pub mod name_references;
pub mod names;
pub mod namespace;
pub mod order;
pub mod patch;
pub mod replicas;
pub mod value_add;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use everflow_limits::Budget;
use everflow_yaml::Node;

use crate::error::{Result, Within};
use crate::fieldspec::{Create, FieldSpec, Steps};
use crate::options::Release;
use crate::replacement::{self, Replacement};
use crate::resid::{Gvk, ResId};
use crate::resmap::ResMap;

/// A transformer with its settings.
pub enum Transformer {
    /// Strategic merge patches that find their targets by name.
    StrategicMerge(patch::StrategicMerge),
    /// A patch of either kind.
    Patch(patch::PatchEntry),
    /// A JSON patch.
    Json6902(json_patch::Json6902),
    /// Sets namespaces.
    Namespace(namespace::Namespace),
    /// Adds a prefix to names.
    Prefix(names::Affix),
    /// Adds a suffix to names.
    Suffix(names::Affix),
    /// Sets labels or annotations.
    Entries(labels::Entries),
    /// Sets replica counts.
    Replicas(replicas::Replicas),
    /// Changes images.
    Image(images::ImageChange),
    /// Copies fields.
    Replacements(Vec<Replacement>),
    /// Adds a value to fields.
    ValueAdd(value_add::ValueAdd),
    /// Adds hashes to names.
    Hash,
    /// Several, one after the other.
    All(Vec<Transformer>),
}

impl Transformer {
    /// Changes the objects. What grows is charged.
    pub fn apply(&self, resources: &mut ResMap, release: Release, budget: &Budget) -> Result<()> {
        budget.check()?;
        match self {
            Transformer::StrategicMerge(patch) => patch.apply(resources, budget),
            Transformer::Patch(patch) => patch.apply(resources, budget),
            Transformer::Json6902(patch) => patch.apply(resources, budget),
            Transformer::Namespace(namespace) => namespace.apply(resources, budget),
            Transformer::Prefix(affix) => affix.apply(resources, names::Side::Prefix, budget),
            Transformer::Suffix(affix) => affix.apply(resources, names::Side::Suffix, budget),
            Transformer::Entries(entries) => entries.apply(resources, budget),
            Transformer::Replicas(replicas) => replicas.apply(resources, budget),
            Transformer::Image(image) => image.apply(resources, release, budget),
            Transformer::Replacements(replacements) => {
                resources.prepare_index();
                replacement::apply(resources, replacements, release, budget)
            }
            Transformer::ValueAdd(value) => value.apply(resources, budget),
            Transformer::Hash => names::add_hashes(resources, budget),
            Transformer::All(all) => all
                .iter()
                .try_for_each(|transformer| transformer.apply(resources, release, budget)),
        }
    }
}

/// Field specs ready for use, with those for each kind found once.
pub struct SpecSet {
    specs: Vec<(FieldSpec, Steps)>,
    by_kind: RefCell<HashMap<Gvk, Rc<[usize]>>>,
}

impl SpecSet {
    /// Compiles specs.
    pub fn new(specs: &[FieldSpec]) -> Self {
        SpecSet {
            specs: specs
                .iter()
                .map(|spec| (spec.clone(), spec.steps()))
                .collect(),
            by_kind: RefCell::default(),
        }
    }

    fn for_kind(&self, gvk: &Gvk) -> Rc<[usize]> {
        if let Some(known) = self.by_kind.borrow().get(gvk) {
            return Rc::clone(known);
        }
        let found: Rc<[usize]> = (0..self.specs.len())
            .filter(|index| gvk.is_selected_by(&self.specs[*index].0.gvk))
            .collect();
        self.by_kind
            .borrow_mut()
            .insert(gvk.clone(), Rc::clone(&found));
        found
    }

    /// Walks to every field of an object that a spec names and that `wanted` lets through.
    pub fn walk(
        &self,
        node: &mut Node,
        id: &ResId,
        create: Create,
        budget: &Budget,
        wanted: impl Fn(&FieldSpec) -> bool,
        mut set: impl FnMut(&mut Node) -> Result<()>,
    ) -> Result<()> {
        for index in self.for_kind(&id.gvk).iter() {
            let (spec, steps) = &self.specs[*index];
            if wanted(spec) {
                walk_spec(node, id, spec, steps, create, budget, &mut set)?;
            }
        }
        Ok(())
    }
}

/// Walks to the field of one spec.
pub fn walk_spec(
    node: &mut Node,
    id: &ResId,
    spec: &FieldSpec,
    steps: &Steps,
    create: Create,
    budget: &Budget,
    set: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<()> {
    let create = if spec.create { create } else { Create::Nothing };
    steps
        .walk(node, create, budget, set)
        .within(|| format!("considering field '{}' of object {id}", spec.path()))
}
