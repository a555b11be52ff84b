//! The core of server-side apply: merging, pruning and passing ownership on.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::conflict::Conflicts;
use super::managed::{Manager, ManagerId, Managers};
use super::reset::ResetFields;
use super::versions::Versions;
use crate::MergeError;
use crate::fieldpath::{FieldSet, values_equal};
use crate::typed::{Comparison, Duplicates, TypedValue};

/// A typed object and the version it is in.
#[derive(Debug, Clone)]
pub(super) struct Versioned<'s> {
    pub(super) typed: TypedValue<'s>,
    pub(super) version: String,
}

/// The rules of one kind.
pub(super) struct Updater<'a> {
    pub(super) versions: &'a dyn Versions,
    pub(super) reset: &'a ResetFields,
}

/// The message of an error with a prefix, as the server nests them.
fn within(context: &str) -> impl Fn(MergeError) -> MergeError + '_ {
    move |error| match error {
        MergeError::TooDeep { .. } => error,
        error => MergeError::Apply {
            message: format!("{context}: {error}"),
        },
    }
}

impl<'a> Updater<'a> {
    /// The object in another version; none when that version is gone.
    fn convert<'v>(
        &self,
        object: &'v Versioned<'a>,
        version: &str,
    ) -> Result<Option<Cow<'v, Versioned<'a>>>, MergeError> {
        if object.version == version {
            return Ok(Some(Cow::Borrowed(object)));
        }
        let Some(schema) = self.versions.schema(version) else {
            return Ok(None);
        };
        let converted = self
            .versions
            .convert(object.typed.value(), version)
            .map_err(|message| MergeError::Apply { message })?;
        let typed = TypedValue::new(converted, schema, Duplicates::Refuse)?;
        Ok(Some(Cow::Owned(Versioned {
            typed,
            version: version.to_owned(),
        })))
    }

    fn compare(&self, old: &Versioned<'a>, new: &Versioned<'a>) -> Result<Comparison, MergeError> {
        let found = old
            .typed
            .compare(&new.typed)
            .map_err(within("failed to compare objects"))?;
        Ok(if found.is_same() {
            found
        } else {
            found.map(|set| self.reset.filter(set))
        })
    }

    /// Brings the sets in line with schemas that changed since; forgets managers of versions that
    /// are gone.
    fn reconcile(&self, live: &Versioned<'a>, managers: Managers) -> Result<Managers, MergeError> {
        let mut result = Managers::new();
        for (id, mut manager) in managers {
            let Some(object) = self.convert(live, &manager.api_version)? else {
                continue;
            };
            if let Some(set) = object.typed.reconcile(&manager.set) {
                manager.set = set;
            }
            result.insert(id, manager);
        }
        Ok(result)
    }

    /// Takes from all other managers what changed; refuses where that is a conflict and not
    /// forced. Returns what changed.
    fn pass_on(
        &self,
        old: &Versioned<'a>,
        new: &Versioned<'a>,
        managers: &mut Managers,
        workflow: &ManagerId,
        force: bool,
    ) -> Result<Comparison, MergeError> {
        let own = self.compare(old, new)?;
        let mut others: BTreeMap<String, Comparison> = BTreeMap::new();
        let mut conflicts: Vec<(ManagerId, FieldSet)> = Vec::new();
        let mut gone: Vec<ManagerId> = Vec::new();
        for (id, manager) in managers.iter().filter(|(id, _)| *id != workflow) {
            if manager.api_version != new.version && !others.contains_key(&manager.api_version) {
                let version = manager.api_version.as_str();
                let old = self
                    .convert(old, version)
                    .map_err(within("failed to convert old object"))?;
                let new = self
                    .convert(new, version)
                    .map_err(within("failed to convert new object"))?;
                let (Some(old), Some(new)) = (old, new) else {
                    gone.push(id.clone());
                    continue;
                };
                others.insert(version.to_owned(), self.compare(&old, &new)?);
            }
            let changes = others.get(&manager.api_version).unwrap_or(&own);
            let lost = manager
                .set
                .intersection(&changes.modified)
                .into_union(manager.set.intersection(&changes.added));
            if !lost.is_empty() {
                conflicts.push((id.clone(), lost));
            }
        }
        for id in gone {
            managers.remove(&id);
        }
        if !force && !conflicts.is_empty() {
            let lost = conflicts
                .into_iter()
                .filter_map(|(id, set)| managers.get_key_value(&id).map(|(id, m)| (id, m, set)));
            return Err(MergeError::Conflict(Conflicts::of_sets(lost)));
        }
        for (id, lost) in conflicts {
            if let Some(manager) = managers.get_mut(&id) {
                manager.set = manager.set.difference(&lost);
            }
        }
        for (_, manager) in managers.iter_mut().filter(|(id, _)| *id != workflow) {
            let changes = others.get(&manager.api_version).unwrap_or(&own);
            if !changes.removed.is_empty() {
                manager.set = manager.set.difference(&changes.removed);
            }
        }
        managers.retain(|_, manager| !manager.set.is_empty());
        Ok(own)
    }

    /// A write other than apply: the manager owns what it changed.
    pub(super) fn update(
        &self,
        live: &Versioned<'a>,
        new: &Versioned<'a>,
        managers: Managers,
        id: &ManagerId,
        manager: Manager,
    ) -> Result<Managers, MergeError> {
        let mut managers = self.reconcile(live, managers)?;
        let changes = self.pass_on(live, new, &mut managers, id, true)?;
        let changed = changes.modified.into_union(changes.added);
        let set = match managers.get(id) {
            Some(previous) => previous.set.difference(&changes.removed).union(&changed),
            None => changed,
        };
        let set = self.reset.filter(set);
        if set.is_empty() {
            managers.remove(id);
        } else {
            managers.insert(id.clone(), Manager { set, ..manager });
        }
        Ok(managers)
    }

    /// An apply: merges, prunes what the manager no longer applies, and passes ownership on.
    /// Returns the merged object, or none when it equals the live one.
    pub(super) fn apply(
        &self,
        live: &Versioned<'a>,
        applied: &Versioned<'a>,
        managers: Managers,
        id: &ManagerId,
        manager: Manager,
        force: bool,
    ) -> Result<(Option<Versioned<'a>>, Managers), MergeError> {
        let mut managers = self.reconcile(live, managers)?;
        let merged = live
            .typed
            .merge(&applied.typed)
            .map_err(within("failed to merge config"))?;
        let merged = Versioned {
            typed: merged,
            version: live.version.clone(),
        };
        let set = self.reset.filter(applied.typed.field_set());
        let last = managers.insert(id.clone(), Manager { set, ..manager });
        let new = self
            .prune(merged, &managers, id, last.as_ref())
            .map_err(within("failed to prune fields"))?;
        self.pass_on(live, &new, &mut managers, id, force)?;
        let changed = !values_equal(live.typed.value(), new.typed.value());
        Ok((changed.then_some(new), managers))
    }

    /// Removes what the manager applied last time, does not apply now, and nobody else owns.
    fn prune(
        &self,
        merged: Versioned<'a>,
        managers: &Managers,
        id: &ManagerId,
        last: Option<&Manager>,
    ) -> Result<Versioned<'a>, MergeError> {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else {
            return Ok(merged);
        };
        let applying = managers.get(id);
        let version = applying.map_or_else(|| merged.version.clone(), |m| m.api_version.clone());
        if let Some(applying) = applying
            && last.api_version == applying.api_version
            && merged.version == applying.api_version
            && last.set.difference(&applying.set).is_empty()
        {
            // Everything applied last time is applied again: there is nothing to remove.
            return Ok(merged);
        }
        let converted = self.convert(&merged, &last.api_version).map_err(within(
            "failed to convert merged object to last applied version",
        ))?;
        let Some(converted) = converted else {
            return Ok(merged);
        };
        let named = converted.typed.with_named_fields(&last.set);
        let pruned = Versioned {
            typed: converted.typed.without(&named),
            version: converted.version.clone(),
        };
        let pruned = self
            .add_back_owned(&converted, pruned, managers)
            .map_err(within("failed add back owned items"))?;
        let pruned = self
            .add_back_dangling(&converted, &pruned, last)
            .map_err(within("failed add back dangling items"))?;
        let converted_back = self.convert(&pruned, &version)?.map(Cow::into_owned);
        Ok(converted_back.unwrap_or(pruned))
    }

    /// Adds back what pruning removed and some manager owns.
    fn add_back_owned(
        &self,
        merged: &Versioned<'a>,
        pruned: Versioned<'a>,
        managers: &Managers,
    ) -> Result<Versioned<'a>, MergeError> {
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for manager in managers.values() {
            let set = owned.entry(manager.api_version.as_str()).or_default();
            *set = set.union(&manager.set);
        }
        let pruned_version = pruned.version.clone();
        // The version of the pruned object comes first: conversion may need what it lost.
        let first = owned.remove_entry(pruned_version.as_str());
        let mut state = (Cow::Borrowed(merged), pruned);
        for (version, set) in first.into_iter().chain(owned) {
            state = self.add_back_owned_in(state.0, state.1, version, &set)?;
        }
        Ok(state.1)
    }

    fn add_back_owned_in<'v>(
        &self,
        merged: Cow<'v, Versioned<'a>>,
        pruned: Versioned<'a>,
        version: &str,
        owned: &FieldSet,
    ) -> Result<(Cow<'v, Versioned<'a>>, Versioned<'a>), MergeError> {
        let context = format!("failed to convert merged object at version {version}");
        let converted = self.convert(&merged, version).map_err(within(&context))?;
        let merged = match converted {
            None => return Ok((merged, pruned)),
            Some(Cow::Borrowed(_)) => merged,
            Some(Cow::Owned(converted)) => Cow::Owned(converted),
        };
        let context = format!("failed to convert pruned object at version {version}");
        let Some(pruned_then) = self.convert(&pruned, version).map_err(within(&context))? else {
            return Ok((merged, pruned));
        };
        let typed = &merged.typed;
        let named = |set: &FieldSet| typed.with_named_fields(set);
        let kept = named(&pruned_then.typed.field_set()).union(&named(owned));
        let gone = named(&typed.field_set()).difference(&kept);
        let pruned = Versioned {
            typed: typed.without(&gone),
            version: merged.version.clone(),
        };
        Ok((merged, pruned))
    }

    /// Keeps pruning from removing what the manager did not own itself.
    fn add_back_dangling(
        &self,
        merged: &Versioned<'a>,
        pruned: &Versioned<'a>,
        last: &Manager,
    ) -> Result<Versioned<'a>, MergeError> {
        let converted = self.convert(pruned, &last.api_version).map_err(within(
            "failed to convert pruned object to last applied version",
        ))?;
        let Some(pruned) = converted else {
            return Ok(merged.clone());
        };
        let typed = &merged.typed;
        let named = |set: &FieldSet| typed.with_named_fields(set);
        let gone = named(&typed.field_set())
            .difference(&named(&pruned.typed.field_set()))
            .intersection(&named(&last.set));
        Ok(Versioned {
            typed: typed.without(&gone),
            version: merged.version.clone(),
        })
    }
}
