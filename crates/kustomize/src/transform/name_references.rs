//! Bringing references up to date after names have changed.
//!
//! Each kind has a list of fields that hold the name of an object of some other kind. A field is
//! changed when exactly one object once had the name it holds and could be meant.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use everflow_limits::Budget;
use everflow_yaml::{Node, Value, cost};
use smol_str::SmolStr;

use crate::config::NameReference;
use crate::error::{Error, Result, Within};
use crate::fieldspec::{Create, FieldSpec, PathTree, Steps};
use crate::node_ops::{self, raw_text};
use crate::path::lookup;
use crate::resid::{Gvk, NOT_A_NAMESPACE, ResId};
use crate::resmap::{Positions, ResMap};
use crate::resource::Resource;
use crate::yaml_io;

/// Fixes all references.
pub fn fix(resources: &mut ResMap, references: &[NameReference], budget: &Budget) -> Result<()> {
    let targets = Targets::new(resources);
    if targets.by_name.is_empty() {
        return check_bindings(resources);
    }
    let fields: Vec<Field<'_>> = references
        .iter()
        .flat_map(|reference| {
            reference.referrers.iter().map(|spec| Field {
                target: &reference.target,
                spec,
                steps: spec.steps(),
                is_role_ref: spec.path().ends_with("roleRef/name"),
            })
        })
        .collect();
    let mut by_kind: HashMap<Gvk, PathTree> = HashMap::new();
    let mut present: Vec<usize> = Vec::new();
    let mut is_present: Vec<bool> = vec![false; fields.len()];
    for position in 0..resources.len() {
        budget.check()?;
        let original = resources.get(position).original_id();
        let paths = match by_kind.entry(original.gvk) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let gvk = new.key().clone();
                let fields = fields.iter().enumerate();
                let wanted = fields.filter(|(_, field)| gvk.is_selected_by(&field.spec.gvk));
                let steps = wanted.map(|(index, field)| (index, &field.steps));
                new.insert(PathTree::new(steps, budget)?)
            }
        };
        present
            .drain(..)
            .for_each(|index| is_present[index] = false);
        let node = &resources.get(position).node;
        paths.find(node, budget, &mut |index| {
            if !std::mem::replace(&mut is_present[index], true) {
                present.push(index);
            }
        })?;
        present.sort_unstable();
        if present.is_empty() && resources.get(position).gvk().kind != "RoleBinding" {
            continue;
        }
        let binding = binding_namespaces(resources.get(position))?;
        // The tree is taken out while others are looked at; what is needed of the object is its
        // identity, prefixes and suffixes.
        let mut node = std::mem::take(&mut resources.get_mut(position).node);
        let referrer = Referrer {
            resource: resources.get(position),
            resources,
            targets: &targets,
            binding: &binding,
            changed: Cell::new(false),
            shared: Cell::new(false),
            budget,
        };
        let result = present
            .iter()
            .try_for_each(|index| referrer.fix_field(&mut node, &fields[*index]));
        let (changed, shared) = (referrer.changed.get(), referrer.shared.get());
        resources.get_mut(position).node = node;
        result?;
        if shared {
            resources.get_mut(position).after_change();
        }
        if changed {
            resources.refresh(position);
        }
    }
    Ok(())
}

fn check_bindings(resources: &ResMap) -> Result<()> {
    resources
        .iter()
        .filter(|resource| resource.gvk().kind == "RoleBinding")
        .try_for_each(|resource| binding_namespaces(resource).map(drop))
}

/// A field that may hold a name.
struct Field<'a> {
    target: &'a Gvk,
    spec: &'a FieldSpec,
    steps: Steps,
    is_role_ref: bool,
}

/// The objects whose names have changed, found by former names.
struct Targets {
    /// By former name, and by former name and today's namespace.
    by_name: HashMap<SmolStr, Positions>,
    by_name_and_namespace: HashMap<(SmolStr, SmolStr), Positions>,
    /// Today's namespaces of the objects that came from a namespace.
    original_namespaces: HashMap<SmolStr, HashSet<SmolStr>>,
}

impl Targets {
    fn new(resources: &ResMap) -> Self {
        let mut targets = Targets {
            by_name: HashMap::new(),
            by_name_and_namespace: HashMap::new(),
            original_namespaces: HashMap::new(),
        };
        for (position, resource) in resources.iter().enumerate() {
            let namespace = SmolStr::new(resource.id().effective_namespace());
            let mut names: Vec<&SmolStr> = resource.previous.iter().map(|p| &p.name).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                targets
                    .by_name
                    .entry(name.clone())
                    .and_modify(|positions| positions.add(position))
                    .or_insert(Positions::One(position as u32));
                targets
                    .by_name_and_namespace
                    .entry((name.clone(), namespace.clone()))
                    .and_modify(|positions| positions.add(position))
                    .or_insert(Positions::One(position as u32));
            }
            let original = resource.original_id();
            targets
                .original_namespaces
                .entry(original.effective_namespace().into())
                .or_default()
                .insert(namespace);
        }
        targets
    }
}

/// The namespaces of service accounts that a role binding names.
fn binding_namespaces(resource: &Resource) -> Result<Vec<SmolStr>> {
    if resource.gvk().kind != "RoleBinding" {
        return Ok(Vec::new());
    }
    let subjects = resource.node.get("subjects").and_then(Node::as_sequence);
    let mut namespaces = Vec::new();
    for subject in subjects.unwrap_or_default() {
        let (Some(namespace), Some(kind)) = (subject.get("namespace"), subject.get("kind")) else {
            continue;
        };
        if raw_text(kind) != "ServiceAccount" {
            continue;
        }
        if !node_ops::is_text(namespace) {
            return Err(Error::Reference(format!(
                "Invalid Input: namespace is blank for resource \"{}\"\n",
                resource.id()
            )));
        }
        namespaces.push(raw_text(namespace).into());
    }
    Ok(namespaces)
}

/// An object whose references are being fixed.
struct Referrer<'a> {
    resource: &'a Resource,
    resources: &'a ResMap,
    targets: &'a Targets,
    binding: &'a [SmolStr],
    changed: Cell<bool>,
    /// A value was changed that stands in several places at once.
    shared: Cell<bool>,
    budget: &'a Budget,
}

impl Referrer<'_> {
    fn id(&self) -> &ResId {
        self.resource.id()
    }

    fn fix_field(&self, node: &mut Node, field: &Field<'_>) -> Result<()> {
        let role = if field.is_role_ref {
            role_ref_gvk(node)
        } else {
            None
        };
        field
            .steps
            .walk(node, Create::Nothing, self.budget, &mut |found| {
                self.fix(found, field, role.as_ref())
            })
            .within(|| {
                format!(
                    "considering field '{}' of object {}",
                    field.spec.path(),
                    self.id()
                )
            })
            .within(|| {
                format!(
                    "updating name reference in '{}' field of '{}'",
                    field.spec.path(),
                    self.id()
                )
            })
    }

    fn fix(&self, node: &mut Node, field: &Field<'_>, role: Option<&Gvk>) -> Result<()> {
        if node.is_null() {
            return Ok(());
        }
        match &mut node.value {
            Value::Scalar(_) => self.fix_scalar(node, field, role),
            Value::Mapping(_) => self.fix_mapping(node, field, role),
            Value::Sequence(items) => items.iter_mut().try_for_each(|item| match &item.value {
                _ if item.is_null() => Ok(()),
                Value::Scalar(_) => self.fix_scalar(item, field, role),
                Value::Mapping(_) => self.fix_mapping(item, field, role),
                _ => Err(Error::Field(
                    "expected to be either a string or a map of string".to_owned(),
                )),
            }),
            Value::Alias(_) => Ok(()),
        }
    }

    /// A field that holds a name.
    fn fix_scalar(&self, node: &mut Node, field: &Field<'_>, role: Option<&Gvk>) -> Result<()> {
        self.budget.check()?;
        let old = SmolStr::new(raw_text(node));
        let candidates = self.candidates(&old);
        let same_name = |a: &Resource, b: &Resource| a.id().name == b.id().name;
        let Some(found) = self.select(&old, candidates, field, role, same_name)? else {
            return Ok(());
        };
        let new = &found.id().name;
        if *new == old {
            return Ok(());
        }
        self.note_change(node);
        self.budget.charge(cost::of_scalar(new))?;
        self.budget.release(cost::of_scalar(&old));
        node_ops::overwrite_untagged(node, new.clone())
    }

    /// A field that holds a map with a name and perhaps a namespace.
    fn fix_mapping(&self, node: &mut Node, field: &Field<'_>, role: Option<&Gvk>) -> Result<()> {
        self.budget.check()?;
        let Some(name) = node.get("name") else {
            return Err(Error::Field(
                "path config error; no 'name' field in node".to_owned(),
            ));
        };
        let old = SmolStr::new(raw_text(name));
        let candidates = match node.get("namespace") {
            None => self.candidates(&old),
            Some(namespace) => self.candidates_in(&old, raw_text(namespace)),
        };
        let same = |a: &Resource, b: &Resource| {
            a.id().name == b.id().name && a.id().namespace == b.id().namespace
        };
        let Some(found) = self.select(&old, candidates, field, role, same)? else {
            return Ok(());
        };
        let id = found.id();
        if id.name == old && id.namespace.is_empty() {
            return Ok(());
        }
        let Some(mapping) = node.as_mapping_mut() else {
            return Ok(());
        };
        for field in ["name", "namespace"] {
            mapping
                .get(field)
                .into_iter()
                .for_each(|node| self.note_change(node));
        }
        // A namespace may be new.
        self.budget
            .charge(node_ops::ENTRY + id.name.len() + id.namespace.len())?;
        node_ops::set_untagged(mapping, "name", &id.name);
        if !id.namespace.is_empty() {
            node_ops::set_untagged(mapping, "namespace", &id.namespace);
        }
        Ok(())
    }

    fn note_change(&self, node: &Node) {
        self.changed.set(true);
        if node_ops::share_mark(node).is_some() {
            self.shared.set(true);
        }
    }

    /// The objects that once had a name and that this one may refer to.
    fn candidates(&self, name: &SmolStr) -> Vec<usize> {
        if self.id().cluster_scoped {
            let found = self.targets.by_name.get(name);
            return found.map_or(Vec::new(), |positions| {
                positions.as_slice().iter().map(|p| *p as usize).collect()
            });
        }
        let mut found: Vec<usize> = self
            .reachable_namespaces()
            .filter_map(|namespace| {
                self.targets
                    .by_name_and_namespace
                    .get(&(name.clone(), namespace))
            })
            .flat_map(|positions| positions.as_slice())
            .map(|position| *position as usize)
            .filter(|position| self.is_reachable(self.resources.get(*position)))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn reachable_namespaces(&self) -> impl Iterator<Item = SmolStr> {
        let own = SmolStr::new(self.id().effective_namespace());
        let cluster = SmolStr::new_static(NOT_A_NAMESPACE);
        let bound = self.binding.iter().map(|namespace| {
            if namespace.is_empty() {
                SmolStr::new_static("default")
            } else {
                namespace.clone()
            }
        });
        [own, cluster].into_iter().chain(bound)
    }

    fn is_reachable(&self, target: &Resource) -> bool {
        let id = target.id();
        self.id().cluster_scoped
            || id.cluster_scoped
            || id.effective_namespace() == self.id().effective_namespace()
            || self.binding.contains(&id.namespace)
    }

    /// [`Referrer::candidates`] that came from a namespace, or else are in it today.
    fn candidates_in(&self, name: &SmolStr, namespace: &str) -> Vec<usize> {
        if namespace == NOT_A_NAMESPACE {
            return Vec::new();
        }
        let came_from = self.targets.original_namespaces.get(namespace);
        let any_original = came_from.is_some_and(|current| {
            self.id().cluster_scoped
                || self
                    .reachable_namespaces()
                    .any(|reachable| current.contains(&reachable))
        });
        let mut candidates = self.candidates(name);
        candidates.retain(|position| {
            let resource = self.resources.get(*position);
            if any_original {
                resource.original_id().effective_namespace() == namespace
            } else {
                resource.id().effective_namespace() == namespace
            }
        });
        candidates
    }

    /// Picks the one object that is meant.
    fn select(
        &self,
        _name: &str,
        mut candidates: Vec<usize>,
        field: &Field<'_>,
        role: Option<&Gvk>,
        same: impl Fn(&Resource, &Resource) -> bool,
    ) -> Result<Option<&Resource>> {
        let once_was = |resource: &Resource, gvk: &Gvk| {
            resource.previous.iter().any(|previous| {
                let own = Gvk {
                    kind: previous.kind.clone(),
                    ..resource.gvk().clone()
                };
                own.is_selected_by(gvk)
            })
        };
        candidates.retain(|position| {
            let resource = self.resources.get(*position);
            once_was(resource, field.target)
                && role.is_none_or(|role| once_was(resource, role))
                && self.is_in_place(resource)
        });
        let get = |candidates: &[usize]| candidates.first().map(|p| self.resources.get(*p));
        if candidates.len() == 1 {
            return Ok(get(&candidates));
        }
        candidates
            .retain(|position| affixes_agree(self.resources.get(*position), self.resource, true));
        if candidates.len() > 1 {
            candidates.retain(|position| {
                affixes_agree(self.resources.get(*position), self.resource, false)
            });
        }
        let Some(first) = get(&candidates) else {
            return Ok(None);
        };
        let all_same = candidates
            .iter()
            .all(|position| same(first, self.resources.get(*position)));
        if all_same {
            return Ok(Some(first));
        }
        Err(self.ambiguous(&candidates)?)
    }

    fn is_in_place(&self, target: &Resource) -> bool {
        let id = target.id();
        self.id().cluster_scoped
            || id.cluster_scoped
            || id.gvk.kind == "ServiceAccount"
            || id.effective_namespace() == self.id().effective_namespace()
    }

    fn ambiguous(&self, candidates: &[usize]) -> Result<Error> {
        let found: Vec<&Resource> = candidates.iter().map(|p| self.resources.get(*p)).collect();
        let ids: Vec<String> = found
            .iter()
            .map(|resource| resource.id().to_string())
            .collect();
        let print = |resource: &Resource| {
            yaml_io::print_object(&resource.with_build_annotations()).unwrap_or_default()
        };
        let mut text = format!(
            "found multiple possible referrals: {}\n\n**** Too many possible referral targets to referrer:\n{}\n",
            ids.join(", "),
            self.id()
        );
        for (number, resource) in found.into_iter().enumerate() {
            self.budget.charge(cost::of_printing(&resource.node))?;
            text.push_str(&format!(
                "--- possible referral {number}:\n{}\n",
                print(resource)
            ));
        }
        Ok(Error::Reference(text))
    }
}

/// The type that a `roleRef` names.
fn role_ref_gvk(node: &Node) -> Option<Gvk> {
    let text = |field: &str| {
        lookup(node, &["roleRef", field])
            .ok()
            .flatten()
            .map(|node| SmolStr::new(raw_text(node)))
    };
    Some(Gvk {
        group: text("apiGroup")?,
        version: SmolStr::default(),
        kind: text("kind")?,
    })
}

/// True when the shorter list of affixes is the end of the longer one, on both sides.
fn affixes_agree(a: &Resource, b: &Resource, allow_empty: bool) -> bool {
    let agree = |a: &[SmolStr], b: &[SmolStr]| {
        let common = a.len().min(b.len());
        (allow_empty && common == 0) || ends_agree(a, b)
    };
    agree(&a.prefixes, &b.prefixes) && agree(&a.suffixes, &b.suffixes)
}

fn ends_agree(a: &[SmolStr], b: &[SmolStr]) -> bool {
    let common = a.len().min(b.len());
    if common == 0 {
        return a.len() == b.len();
    }
    a[a.len() - common..] == b[b.len() - common..]
}
