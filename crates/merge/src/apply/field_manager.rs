//! The field manager: ownership over all writes of an object.

use std::borrow::Cow;
use std::sync::LazyLock;

use everflow_json::Value;
use everflow_schema::SchemaView;

use super::cap::cap;
use super::conflict::Conflicts;
use super::last_applied::{KUBECTL, last_applied, record};
use super::managed::{
    Manager, ManagerId, Managers, Operation, asks_for_reset, copy_without, decode_managers,
    entries_of, remove_from, share_list, write_to,
};
use super::reset::ResetFields;
use super::updater::{Updater, Versioned};
use super::versions::Versions;
use crate::MergeError;
use crate::fieldpath::FieldSet;
use crate::typed::{Duplicates, TypedValue};

/// The manager of fields that were there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The name under which a write is tracked until it is known whether it changed anything.
pub(super) const CURRENT_OPERATION: &str = "current-operation";

/// Merges applied documents and tracks ownership for one kind in one version.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The version that the request speaks, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The subresource that the request names; empty for the object itself.
    pub subresource: &'a str,
    /// What the resource resets on every write.
    pub reset: &'a ResetFields,
    /// An object of the kind with nothing set, as the server sees it: built-in kinds have their
    /// struct fields even then.
    pub zero: &'a Value,
}

/// Who writes, and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The manager's name.
    pub manager: &'a str,
    /// The time of the write (RFC 3339, UTC, whole seconds).
    pub now: &'a str,
}

impl<'a> FieldManager<'a> {
    /// Records a create, update or patch: `new` is the whole object after it, `live` the one
    /// before it (the zero object for a create).
    ///
    /// `new` has to carry `metadata.managedFields` as the client left it: an empty list or one
    /// empty entry resets ownership, an absent list keeps it.
    ///
    /// # Errors
    /// When the objects do not fit the schema. The server then stores the object without
    /// `managedFields`, see [`FieldManager::update_or_forget`].
    pub fn update(
        &self,
        live: &Value,
        mut new: Value,
        writer: Writer<'_>,
    ) -> Result<Value, MergeError> {
        self.update_in_place(live, &mut new, writer)?;
        Ok(new)
    }

    /// As [`FieldManager::update`]; where that fails the object has no `managedFields`.
    #[must_use]
    pub fn update_or_forget(&self, live: &Value, mut new: Value, writer: Writer<'_>) -> Value {
        // Whatever fails does so before the new list is written, and after the old one is removed.
        let _ = self.update_in_place(live, &mut new, writer);
        new
    }

    fn update_in_place(
        &self,
        live: &Value,
        new: &mut Value,
        writer: Writer<'_>,
    ) -> Result<(), MergeError> {
        let mut managers = self.managers_of_write(live, new);
        let is_create = uid(live).is_empty();
        if managers.is_empty() && !is_create {
            remove_from(new);
            return Ok(());
        }
        let fast_path = self.update_fast_path(live, new, &mut managers, writer);
        if fast_path.is_some() {
            write_to(new, &managers, entries_of(live));
            return Ok(());
        }
        self.update_in_any_version(live, new, managers, writer)
    }

    /// A write of an object with any managers.
    pub(super) fn update_in_any_version(
        &self,
        live: &Value,
        new: &mut Value,
        managers: Managers,
        writer: Writer<'_>,
    ) -> Result<(), MergeError> {
        // Lists that are equal differ nowhere, and cost less than a copy of the old object without one.
        let Some(replaced) = share_list(live, new) else {
            remove_from(new);
            return self.update_without_lists(live, new, managers, writer);
        };
        match self.update_managers(live, new, managers, writer) {
            Ok(managers) => write_to(new, &managers, &[]),
            Err(_) => {
                // What is wrong is said of the objects without their lists.
                replaced.put_back(new);
                let managers = self.managers_of_write(live, new);
                remove_from(new);
                self.update_without_lists(live, new, managers, writer)?;
            }
        }
        Ok(())
    }

    fn update_without_lists(
        &self,
        live: &Value,
        new: &mut Value,
        managers: Managers,
        writer: Writer<'_>,
    ) -> Result<(), MergeError> {
        let live = copy_without(live);
        let managers = self.update_managers(&live, new, managers, writer)?;
        write_to(new, &managers, &[]);
        Ok(())
    }

    /// Applies a document: merges it into `live` (the zero object for a create) and tracks what
    /// the manager owns. Defaults and server-set fields are the caller's.
    ///
    /// # Errors
    /// - [`MergeError::BadRequest`] (400): wrong kind or version, `managedFields` in the document.
    /// - [`MergeError::Conflict`] (409): others own what would change, and `force` is not set.
    /// - [`MergeError::Apply`] (500): the document does not fit the schema, and other failures.
    pub fn apply(
        &self,
        live: &Value,
        applied: &Value,
        writer: Writer<'_>,
        force: bool,
    ) -> Result<Value, MergeError> {
        self.check_kind(applied)?;
        let managers = decode_managers(entries_of(live)).map_err(|error| MergeError::Apply {
            message: format!("failed to decode managed fields: {error}"),
        })?;
        let plain_live = copy_without(live);
        let retry = (writer.manager == KUBECTL).then(|| managers.clone());
        let mut run = self.apply_as(&plain_live, applied, managers, writer, force);
        if let (Err(MergeError::Conflict(_)), Some(managers)) = (&run, retry)
            && let Err(MergeError::Conflict(conflicts)) = run
        {
            run = self.resolve_for_kubectl(&plain_live, applied, managers, writer, conflicts);
        }
        let (mut object, managers) = run?;
        if writer.manager == KUBECTL && last_applied(&object).is_some() {
            record(&mut object, applied);
        }
        write_to(&mut object, &managers, entries_of(live));
        Ok(object)
    }

    fn check_kind(&self, applied: &Value) -> Result<(), MergeError> {
        let text = |field: &str| {
            applied
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if text("apiVersion") != self.api_version || text("kind") != self.kind {
            let message = format!(
                "invalid object type: {}",
                kind_text(text("apiVersion"), text("kind"))
            );
            return Err(MergeError::BadRequest { message });
        }
        Ok(())
    }

    /// The managers to start from on a write that may bring its own list.
    pub(super) fn managers_of_write(&self, live: &Value, new: &Value) -> Managers {
        let of_live = || decode_managers(entries_of(live)).unwrap_or_default();
        if !self.subresource.is_empty() {
            return of_live();
        }
        if asks_for_reset(new) {
            return Managers::new();
        }
        match decode_managers(entries_of(new)) {
            Ok(managers) if !managers.is_empty() => managers,
            _ => of_live(),
        }
    }

    fn updater(&self) -> Updater<'_> {
        Updater {
            versions: self.versions,
            reset: self.reset,
        }
    }

    fn schema(&self) -> Result<SchemaView<'_>, MergeError> {
        let schema = self.versions.schema(self.api_version);
        schema.ok_or_else(|| MergeError::Apply {
            message: format!(
                "no corresponding type for {}",
                kind_text(self.api_version, self.kind)
            ),
        })
    }

    fn typed<'v>(
        &'v self,
        object: &'v Value,
        duplicates: Duplicates,
    ) -> Result<Versioned<'v>, MergeError> {
        Ok(Versioned {
            typed: TypedValue::of(Cow::Borrowed(object), self.schema()?, duplicates)?,
            version: self.api_version.to_owned(),
        })
    }

    fn typed_beside_managed_fields<'v>(
        &'v self,
        object: &'v Value,
    ) -> Result<Versioned<'v>, MergeError> {
        Ok(Versioned {
            typed: TypedValue::beside_managed_fields(object, self.schema()?)?,
            version: self.api_version.to_owned(),
        })
    }

    pub(super) fn manager(&self, name: &str, operation: Operation) -> (ManagerId, Manager) {
        let name = if name.is_empty() { "unknown" } else { name };
        let id = ManagerId::new(name, operation, self.api_version, self.subresource);
        let manager = Manager {
            name: name.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            set: FieldSet::new(),
        };
        (id, manager)
    }

    /// What the managers own after a write. Both objects have the same list of managers, or none.
    fn update_managers(
        &self,
        live: &Value,
        new: &Value,
        managers: Managers,
        writer: Writer<'_>,
    ) -> Result<Managers, MergeError> {
        let failed = |what: &str, object: &Value, error: MergeError| MergeError::Apply {
            message: format!(
                "failed to convert {what} object ({}) to smd typed: {error}",
                self.object_text(object)
            ),
        };
        let typed_new = self
            .typed_beside_managed_fields(new)
            .map_err(|error| failed("new", new, error))?;
        let typed_live = self
            .typed_beside_managed_fields(live)
            .map_err(|error| failed("live", live, error))?;
        // The write runs under a name of its own, to see whether it changed anything.
        let (self_id, self_manager) = self.manager(CURRENT_OPERATION, Operation::Update);
        let mut managers =
            self.updater()
                .update(&typed_live, &typed_new, managers, &self_id, self_manager)?;
        strip(&mut managers, &self_id);
        if let Some(taken) = managers.remove(&self_id) {
            let (id, manager) = self.manager(writer.manager, Operation::Update);
            let set = match managers.get(&id) {
                Some(previous) => taken.set.union(&previous.set),
                None => taken.set,
            };
            let time = Some(writer.now.to_owned());
            managers.insert(
                id,
                Manager {
                    set,
                    time,
                    ..manager
                },
            );
        }
        cap(&mut managers);
        Ok(managers)
    }

    /// One try of an apply; `live` is without `managedFields`.
    fn apply_as(
        &self,
        live: &Value,
        applied: &Value,
        mut managers: Managers,
        writer: Writer<'_>,
        force: bool,
    ) -> Result<(Value, Managers), MergeError> {
        if managers.is_empty() {
            let before = Writer {
                manager: BEFORE_FIRST_APPLY,
                now: writer.now,
            };
            managers = self
                .update_managers(self.zero, live, managers, before)
                .map_err(|error| MergeError::Apply {
                    message: format!("failed to create manager for existing fields: {error}"),
                })?;
        }
        if applied
            .pointer("/metadata/managedFields")
            .is_some_and(Value::is_array)
        {
            let message = "metadata.managedFields must be nil".to_owned();
            return Err(MergeError::BadRequest { message });
        }
        let typed_applied = self.typed(applied, Duplicates::Refuse).map_err(|error| {
            let object = self.object_text(applied);
            MergeError::Apply {
                message: format!("failed to create typed patch object ({object}): {error}"),
            }
        })?;
        let typed_live = self.typed(live, Duplicates::Allow).map_err(|error| {
            let object = self.object_text(live);
            MergeError::Apply {
                message: format!("failed to create typed live object ({object}): {error}"),
            }
        })?;
        let (id, mut manager) = self.manager(writer.manager, Operation::Apply);
        // The time stays what it was unless the object changes.
        manager.time = managers.get(&id).and_then(|known| known.time.clone());
        let (merged, mut managers) =
            self.updater()
                .apply(&typed_live, &typed_applied, managers, &id, manager, force)?;
        strip(&mut managers, &id);
        let object = match merged {
            Some(merged) => {
                if let Some(manager) = managers.get_mut(&id) {
                    manager.time = Some(writer.now.to_owned());
                }
                merged.typed.into_value()
            }
            None => live.clone(),
        };
        Ok((object, managers))
    }

    /// Lets `kubectl` take over the fields that its last-applied annotation shows as its own.
    fn resolve_for_kubectl(
        &self,
        live: &Value,
        applied: &Value,
        managers: Managers,
        writer: Writer<'_>,
        conflicts: Conflicts,
    ) -> Result<(Value, Managers), MergeError> {
        let Some(allowed) = self.fields_of_last_applied(live) else {
            return Err(MergeError::Conflict(conflicts));
        };
        if conflicts.fields().difference(&allowed).is_empty() {
            return self.apply_as(live, applied, managers, writer, true);
        }
        let left = conflicts
            .0
            .into_iter()
            .filter(|conflict| !allowed.contains(&conflict.path.0));
        Err(MergeError::Conflict(Conflicts(left.collect())))
    }

    /// The fields of the last-applied annotation that still have the applied values.
    fn fields_of_last_applied(&self, live: &Value) -> Option<FieldSet> {
        let applied: Value = everflow_json::from_str(last_applied(live)?).ok()?;
        if applied.get("apiVersion").and_then(Value::as_str) != Some(self.api_version) {
            return None;
        }
        let live = self.typed(live, Duplicates::Refuse).ok()?;
        let applied = self.typed(&applied, Duplicates::Refuse).ok()?;
        let changes = applied.typed.compare(&live.typed).ok()?;
        Some(
            applied
                .typed
                .field_set()
                .difference(&changes.modified)
                .difference(&changes.added)
                .difference(&changes.removed),
        )
    }

    fn object_text(&self, object: &Value) -> String {
        let meta = |field: &str| {
            object
                .get("metadata")
                .and_then(|meta| meta.get(field))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let text = |field: &str| {
            object
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        format!(
            "{}/{}; {}",
            meta("namespace"),
            meta("name"),
            kind_text(text("apiVersion"), text("kind"))
        )
    }
}

/// `apps/v1, Kind=Deployment`; the core group is empty: `/v1, Kind=Pod`. A version that cannot be
/// read hides the kind, too.
fn kind_text(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version.contains('/') {
        return "/, Kind=".to_owned();
    }
    format!("{group}/{version}, Kind={kind}")
}

fn uid(object: &Value) -> &str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("uid"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Identity and server-set metadata belong to nobody.
pub(super) static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_field_paths(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

fn strip(managers: &mut Managers, id: &ManagerId) {
    let Some(manager) = managers.get_mut(id) else {
        return;
    };
    if manager.set.meets(&STRIPPED) {
        manager.set = manager.set.difference(&STRIPPED);
    }
    if manager.set.is_empty() {
        managers.remove(id);
    }
}
