//! The objects of a build in order, with an index by identity.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use everflow_limits::Budget;

use crate::error::{Error, Result};
use crate::resid::{Gvk, ResId};
use crate::resource::{Behavior, Resource};
use crate::schema::Schemas;
use crate::selector::{Selector, SelectorPattern};

/// Objects in the order they were added.
#[derive(Clone, Debug)]
pub struct ResMap {
    resources: Vec<Resource>,
    schemas: Rc<Schemas>,
    /// Made when it is first needed, dropped when many identities change at once.
    index: Option<Index>,
    has_empty: bool,
    /// Whether some were left out because they are on other machines.
    has_gaps: bool,
}

/// Positions by a hash of (parts of) today's and former identities. An entry may be out of date, so
/// what is found has to be checked; nothing that is current is missing.
#[derive(Clone, Debug, Default)]
struct Index {
    positions: HashMap<u64, Positions>,
}

/// A few positions, most often one.
#[derive(Clone, Debug)]
pub enum Positions {
    One(u32),
    Many(Vec<u32>),
}

impl Positions {
    /// All of them.
    pub fn as_slice(&self) -> &[u32] {
        match self {
            Positions::One(position) => std::slice::from_ref(position),
            Positions::Many(positions) => positions,
        }
    }

    /// Adds one unless it is there.
    pub fn add(&mut self, position: usize) {
        let position = position as u32;
        match self {
            Positions::One(known) if *known == position => {}
            Positions::One(known) => *self = Positions::Many(vec![*known, position]),
            Positions::Many(known) => {
                if known.last() != Some(&position) && !known.contains(&position) {
                    known.push(position);
                }
            }
        }
    }
}

impl Index {
    fn add(&mut self, key: u64, position: usize) {
        self.positions
            .entry(key)
            .and_modify(|positions| positions.add(position))
            .or_insert(Positions::One(position as u32));
    }

    fn add_resource(&mut self, position: usize, resource: &Resource) {
        let id = resource.id();
        self.add_id(position, &id.gvk.kind, &id.name, id.effective_namespace());
        for previous in &resource.previous {
            let namespace = if previous.namespace.is_empty() {
                "default"
            } else {
                &previous.namespace
            };
            self.add_id(position, &previous.kind, &previous.name, namespace);
        }
    }

    fn add_id(&mut self, position: usize, kind: &str, name: &str, namespace: &str) {
        self.add(key(&[kind, name, namespace]), position);
        self.add(key(&[kind, name]), position);
        self.add(key(&[name]), position);
    }

    fn find(&self, parts: &[&str]) -> Vec<usize> {
        let mut found: Vec<usize> = self
            .positions
            .get(&key(parts))
            .map_or(&[][..], Positions::as_slice)
            .iter()
            .map(|position| *position as usize)
            .collect();
        found.sort_unstable();
        found
    }
}

fn key(parts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

impl ResMap {
    /// No objects.
    pub fn new(schemas: Rc<Schemas>) -> Self {
        ResMap {
            resources: Vec::new(),
            schemas,
            index: None,
            has_empty: false,
            has_gaps: false,
        }
    }

    /// Whether some objects were left out because they are on other machines.
    pub fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// Notes that some objects were left out.
    pub fn note_gap(&mut self) {
        self.has_gaps = true;
    }

    /// What is known about kinds.
    pub fn schemas(&self) -> &Rc<Schemas> {
        &self.schemas
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// True without objects.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The objects in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Resource> {
        self.resources.iter()
    }

    /// The objects in order, for changes that may touch any identity.
    pub fn all_mut(&mut self) -> &mut [Resource] {
        self.index = None;
        &mut self.resources
    }

    /// The objects in order, for changes that touch no identity.
    pub fn contents_mut(&mut self) -> &mut [Resource] {
        &mut self.resources
    }

    /// Gives the objects away.
    pub fn into_resources(self) -> Vec<Resource> {
        self.resources
    }

    /// One object.
    pub fn get(&self, position: usize) -> &Resource {
        &self.resources[position]
    }

    /// One object, for changing it; [`ResMap::refresh`] has to follow.
    pub fn get_mut(&mut self, position: usize) -> &mut Resource {
        &mut self.resources[position]
    }

    /// Takes note of what changed in an object.
    pub fn refresh(&mut self, position: usize) {
        let resource = &mut self.resources[position];
        if resource.is_empty() {
            self.has_empty = true;
            return;
        }
        resource.refresh_id(&self.schemas);
        if let Some(index) = &mut self.index {
            index.add_resource(position, resource);
        }
    }

    /// Drops the objects that were deleted.
    pub fn drop_empty(&mut self) {
        if self.has_empty {
            self.resources.retain(|resource| !resource.is_empty());
            self.index = None;
            self.has_empty = false;
        }
    }

    fn index(&mut self) -> &mut Index {
        self.index.get_or_insert_with(|| {
            let mut index = Index::default();
            for (position, resource) in self.resources.iter().enumerate() {
                index.add_resource(position, resource);
            }
            index
        })
    }

    fn find_current(&mut self, id: &ResId) -> Vec<usize> {
        let found = self
            .index()
            .find(&[&id.gvk.kind, &id.name, id.effective_namespace()]);
        found
            .into_iter()
            .filter(|position| self.resources[*position].id().same_object(id))
            .collect()
    }

    /// Adds an object whose identity must be new.
    pub fn append(&mut self, resource: Resource) -> Result<()> {
        if !self.find_current(resource.id()).is_empty() {
            return Err(Error::Conflict(format!(
                "may not add resource with an already registered id: {}",
                resource.id()
            )));
        }
        self.push(resource);
        Ok(())
    }

    fn push(&mut self, resource: Resource) {
        let position = self.resources.len();
        if let Some(index) = &mut self.index {
            index.add_resource(position, &resource);
        }
        self.resources.push(resource);
    }

    /// Adds many objects whose identities must be new.
    pub fn append_all(&mut self, resources: Vec<Resource>) -> Result<()> {
        if self.resources.is_empty() {
            check_unique(&resources)?;
            self.resources = resources;
            self.index = None;
            return Ok(());
        }
        resources
            .into_iter()
            .try_for_each(|resource| self.append(resource))
    }

    /// Checks that no two objects have one identity, as adding them anew would.
    pub fn check_unique(&self) -> Result<()> {
        check_unique(&self.resources)
    }

    /// Checks that the object at a position shares its identity with no other.
    pub fn check_unique_at(&mut self, position: usize) -> Result<()> {
        let id = self.resources[position].id().clone();
        if self.find_current(&id).len() > 1 {
            return Err(Error::Conflict(format!(
                "may not add resource with an already registered id: {id}"
            )));
        }
        Ok(())
    }

    /// The objects that have or had an identity.
    pub fn find_by_any_id(&mut self, id: &ResId) -> Vec<usize> {
        let found = self
            .index()
            .find(&[&id.gvk.kind, &id.name, id.effective_namespace()]);
        found
            .into_iter()
            .filter(|position| {
                let resource = &self.resources[*position];
                !resource.is_empty()
                    && (resource.id().same_object(id)
                        || resource
                            .previous_ids()
                            .any(|previous| previous.same_object(id)))
            })
            .collect()
    }

    /// The objects that have or had a name.
    pub fn find_by_any_name(&mut self, name: &str) -> Vec<usize> {
        let found = self.index().find(&[name]);
        found
            .into_iter()
            .filter(|position| !self.resources[*position].is_empty())
            .collect()
    }

    /// The objects that have or had a type and name, in whatever namespace.
    pub fn find_in_any_namespace(&mut self, id: &ResId) -> Vec<usize> {
        let found = self.index().find(&[&id.gvk.kind, &id.name]);
        let fits = |other: &ResId| other.name == id.name && other.gvk == id.gvk;
        found
            .into_iter()
            .filter(|position| {
                let resource = &self.resources[*position];
                !resource.is_empty()
                    && (fits(resource.id()) || resource.previous_ids().any(|id| fits(&id)))
            })
            .collect()
    }

    /// The one object that a patch without a target is for; none when it may be among those that
    /// were left out.
    pub fn find_patch_target(&mut self, id: &ResId) -> Result<Option<usize>> {
        let found = self.find_by_any_id(id);
        let problem = match found[..] {
            [one] => return Ok(Some(one)),
            [] if self.has_gaps => return Ok(None),
            [] => "no matches",
            _ => "multiple matches",
        };
        Err(Error::Patch(format!(
            "{problem} for Id {id}; failed to find unique target for patch {id}"
        )))
    }

    /// The objects that a source selector fits, today or formerly.
    pub fn find_selected_by(&self, selector: &ResId) -> Vec<usize> {
        let fits = |resource: &Resource| {
            resource
                .plain_ids()
                .iter()
                .any(|id| id.is_selected_by(selector))
        };
        let indexed = self.index.as_ref().filter(|_| !selector.name.is_empty());
        match indexed {
            Some(index) => index
                .find(&[&selector.name])
                .into_iter()
                .filter(|position| fits(&self.resources[*position]))
                .collect(),
            None => (0..self.resources.len())
                .filter(|position| {
                    let resource = &self.resources[*position];
                    let named = selector.name.is_empty()
                        || resource.id().name == selector.name
                        || resource.previous.iter().any(|p| p.name == selector.name);
                    named && fits(resource)
                })
                .collect(),
        }
    }

    /// Makes the index now, for callers that can only read later.
    pub fn prepare_index(&mut self) {
        self.index();
    }

    /// The objects that may fit a pattern today or formerly; each has to be checked.
    pub fn candidates_by_any_id(&mut self, pattern: &SelectorPattern) -> Vec<usize> {
        match pattern.name.literal() {
            Some(name) => self.index().find(&[name]),
            None => (0..self.resources.len()).collect(),
        }
    }

    /// The objects that a patch target selects.
    pub fn select(&mut self, selector: &Selector, budget: &Budget) -> Result<Vec<usize>> {
        let pattern = selector.compile()?;
        let labels = selector.labels()?;
        let annotations = selector.annotations()?;
        let mut selected = Vec::new();
        for position in self.candidates_by_any_id(&pattern) {
            budget.check()?;
            let resource = &self.resources[position];
            let id = resource.id();
            if !pattern.fits_gvk(&id.gvk) {
                continue;
            }
            let first = resource.previous.first();
            let name_fits = pattern.name.matches(&id.name)
                || first.is_some_and(|first| pattern.name.matches(&first.name));
            let namespace_fits = pattern.namespace.matches(id.effective_namespace())
                || first.is_some_and(|first| {
                    pattern
                        .namespace
                        .matches(resource.previous_id(first).effective_namespace())
                });
            if name_fits
                && namespace_fits
                && labels.matches(|key| resource.label(key))
                && annotations.matches(|key| resource.annotation(key))
            {
                selected.push(position);
            }
        }
        Ok(selected)
    }

    /// Takes in generated objects: new, or over what is there, as their behaviour says.
    pub fn absorb(&mut self, mut resource: Resource, budget: &Budget) -> Result<()> {
        let id = resource.id().clone();
        let matches = self.find_by_any_id(&id);
        let behavior = resource.behavior.unwrap_or_default();
        match (&matches[..], behavior) {
            ([], Behavior::Merge | Behavior::Replace) => Err(Error::Conflict(format!(
                "id {} does not exist; cannot merge or replace",
                go_id(&id)
            ))),
            ([], _) => self.append(resource),
            ([position], Behavior::Merge | Behavior::Replace) => {
                let old = &self.resources[*position];
                crate::generate::lay_over(&mut resource, old, behavior, budget)?;
                resource.refresh_id(&self.schemas);
                let current = self.find_current(resource.id());
                if current[..] != [*position] {
                    let problem = if current.is_empty() {
                        format!("cannot find resource with id {} to replace", resource.id())
                    } else {
                        format!("in Replace: id matched {} resources", current.len())
                    };
                    return Err(Error::Conflict(problem));
                }
                self.resources[*position] = resource;
                self.refresh(*position);
                Ok(())
            }
            ([_], _) => Err(Error::Conflict(format!(
                "id {} exists; can not use behavior: '{}', behavior must be merge or replace",
                go_id(&id),
                behavior.name()
            ))),
            _ => Err(Error::Conflict(format!(
                "found multiple objects that could accept merge of {id}"
            ))),
        }
    }

    /// Sorts the objects by type, and those of one type by identity. Types are few: each gets its
    /// place once.
    pub fn sort_by_type_and_id(
        &mut self,
        compare_types: impl Fn(&Gvk, &Gvk) -> Ordering,
        compare_ids: impl Fn(&ResId, &ResId) -> Ordering,
    ) {
        let mut types: Vec<&Gvk> = Vec::new();
        let mut numbers: HashMap<&Gvk, usize> = HashMap::new();
        let type_of: Vec<usize> = self
            .resources
            .iter()
            .map(|resource| {
                *numbers.entry(resource.gvk()).or_insert_with(|| {
                    types.push(resource.gvk());
                    types.len() - 1
                })
            })
            .collect();
        let mut sorted: Vec<usize> = (0..types.len()).collect();
        sorted.sort_by(|a, b| compare_types(types[*a], types[*b]));
        let mut places = vec![0; sorted.len()];
        for (place, number) in sorted.into_iter().enumerate() {
            places[number] = place;
        }
        let mut order: Vec<(usize, usize)> = type_of
            .into_iter()
            .enumerate()
            .map(|(position, number)| (places[number], position))
            .collect();
        order.sort_by(|a, b| {
            let ids = || compare_ids(self.resources[a.1].id(), self.resources[b.1].id());
            a.0.cmp(&b.0).then_with(ids)
        });
        let mut old: Vec<Option<Resource>> = self.resources.drain(..).map(Some).collect();
        self.resources.extend(
            order
                .iter()
                .filter_map(|(_, position)| old[*position].take()),
        );
        self.index = None;
    }

    /// Keeps the objects that a test passes.
    pub fn retain(&mut self, keep: impl FnMut(&Resource) -> bool) {
        self.resources.retain(keep);
        self.index = None;
    }
}

/// Checks that no two objects have one identity, as adding them to a map would.
pub fn check_unique<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Result<()> {
    let resources = resources.into_iter();
    let mut seen = HashSet::with_capacity(resources.size_hint().1.unwrap_or_default());
    for resource in resources {
        let id = resource.id();
        if !seen.insert((&id.name, id.effective_namespace(), &id.gvk)) {
            return Err(Error::Conflict(format!(
                "may not add resource with an already registered id: {id}"
            )));
        }
    }
    Ok(())
}

/// An identity as Go prints the struct.
fn go_id(id: &ResId) -> String {
    format!(
        "resid.ResId{{Gvk:resid.Gvk{{Group:{:?}, Version:{:?}, Kind:{:?}, isClusterScoped:{}}}, Name:{:?}, Namespace:{:?}}}",
        id.gvk.group, id.gvk.version, id.gvk.kind, id.cluster_scoped, id.name, id.namespace
    )
}
