//! Ownership after a write of an object whose managers all speak the version of the write.
//!
//! Nearly all writes are such. Then one comparison says for all managers what changed, no object has to be converted,
//! and most sets stay as they are.

use everflow_json::Value;
use everflow_schema::SchemaView;

use super::field_manager::{CURRENT_OPERATION, FieldManager, STRIPPED, Writer};
use super::managed::{Managers, Operation};
use crate::fieldpath::FieldSet;
use crate::typed::{Comparison, TypedValue};

impl FieldManager<'_> {
    /// Changes the managers to what they are after a write. None means unknown: they are as they were, and
    /// [`FieldManager::update_in_any_version`] says.
    ///
    /// The lists of managers in the objects are not looked at.
    pub(super) fn update_fast_path(
        &self,
        live: &Value,
        new: &Value,
        managers: &mut Managers,
        writer: Writer<'_>,
    ) -> Option<()> {
        let speaks_it = managers.values().all(|manager| {
            // The write runs under this name until it is known whether it changes anything.
            manager.api_version == self.api_version && manager.name != CURRENT_OPERATION
        });
        let schema = self
            .versions
            .schema(self.api_version)
            .filter(|_| speaks_it)?;
        let changes = TypedValue::compare_fast_path(live, new, schema)?;
        let changes = match changes.is_same() {
            true => changes,
            false => changes.map(|set| self.reset.filter(set)),
        };
        self.take_over(managers, changes, schema, writer);
        Some(())
    }

    /// Gives what changed to the writer, and takes it from all others.
    fn take_over(
        &self,
        managers: &mut Managers,
        changes: Comparison,
        schema: SchemaView<'_>,
        writer: Writer<'_>,
    ) {
        for manager in managers.values_mut() {
            if let Some(set) = TypedValue::reconciled(&manager.set, schema) {
                manager.set = set;
            }
        }
        let Comparison {
            removed,
            modified,
            added,
        } = changes;
        let changed = modified.into_union(added);
        let taken = match changed.meets(&STRIPPED) {
            true => changed.difference(&STRIPPED),
            false => changed.clone(),
        };
        let (id, writing) = self.manager(writer.manager, Operation::Update);
        for (known, manager) in managers.iter_mut() {
            let keeps_all = *known == id && is_taken_back(&manager.set, &changed, &taken);
            if !keeps_all {
                subtract(&mut manager.set, &changed);
            }
            subtract(&mut manager.set, &removed);
        }
        managers.retain(|_, manager| !manager.set.is_empty());
        if !taken.is_empty() {
            let manager = managers.entry(id).or_insert(writing);
            if !manager.set.contains_all(&taken) {
                manager.set = std::mem::take(&mut manager.set).into_union(taken);
            }
            manager.time = Some(writer.now.to_owned());
        }
        super::cap::cap(managers);
    }
}

/// Whether a set gets all back that it loses to a write: what changed belongs to it, as far as it belongs to anybody.
fn is_taken_back(set: &FieldSet, changed: &FieldSet, taken: &FieldSet) -> bool {
    changed == taken && set.contains_all(changed)
}

fn subtract(set: &mut FieldSet, gone: &FieldSet) {
    if set.overlaps(gone) {
        *set = set.difference(gone);
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::{Map, json};
    use everflow_schema::builtin;

    use super::*;
    use crate::apply::{ResetFields, SingleVersion, zero_object};

    /// Numbers that only look random.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % limit
        }

        fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
            all[self.below(all.len())].clone()
        }
    }

    /// Sets or removes the value at a path of names and positions.
    fn put(object: &mut Value, path: &[&str], value: Option<Value>) {
        let (last, parents) = path.split_last().unwrap();
        let mut at = object;
        for step in parents {
            at = match at {
                Value::Array(items) if !items.is_empty() => &mut items[0],
                Value::Object(fields) => fields
                    .entry(*step)
                    .or_insert_with(|| Value::Object(Map::new())),
                _ => return,
            };
        }
        if let Value::Object(fields) = at {
            match value {
                Some(value) => drop(fields.insert((*last).into(), value)),
                None => drop(fields.remove(last)),
            }
        }
    }

    const PATHS: &[&[&str]] = &[
        &["metadata", "labels", "a"],
        &["metadata", "labels", "b"],
        &["metadata", "labels"],
        &["metadata", "generation"],
        &["metadata", "resourceVersion"],
        &["metadata", "finalizers"],
        &["metadata", "managedFields"],
        &["metadata"],
        &["spec", "replicas"],
        &["spec", "paused"],
        &["spec", "selector"],
        &["spec", "selector", "matchLabels", "a"],
        &["spec", "strategy", "rollingUpdate", "maxSurge"],
        &["spec", "template", "spec", "containers"],
        &["spec", "template", "spec", "containers", "0", "image"],
        &["spec", "template", "spec", "containers", "0", "ports"],
        &[
            "spec",
            "template",
            "spec",
            "containers",
            "0",
            "resources",
            "limits",
            "cpu",
        ],
        &["spec", "template", "spec", "nodeSelector"],
        &["spec", "template", "metadata", "creationTimestamp"],
        &["spec", "unknown"],
        &["status", "observedGeneration"],
        &["status", "conditions"],
    ];

    fn values() -> Vec<Option<Value>> {
        vec![
            None,
            None,
            Some(Value::Null),
            Some(json!({})),
            Some(json!([])),
            Some(json!("text")),
            Some(json!("other")),
            Some(json!(1)),
            Some(json!(1.0)),
            Some(json!(2)),
            Some(json!(true)),
            Some(json!({"a": "b"})),
            Some(json!({"a": "c", "d": "e"})),
            Some(json!(["x", "y"])),
            Some(json!(["x", "x"])),
            Some(json!([{"name": "app", "image": "one"}, {"name": "side", "image": "two"}])),
            Some(json!([{"name": "side", "image": "two"}, {"name": "app", "image": "two"}])),
            Some(json!([{"name": "app"}, {"name": "app"}])),
            Some(json!([{"containerPort": 80}, {"containerPort": 443, "protocol": "TCP"}])),
            Some(json!([{"type": "Ready", "status": "True"}])),
            Some(json!([{"type": "Ready", "status": "False"}, {"type": "Live", "status": "True"}])),
        ]
    }

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "app", "uid": "1", "labels": {"a": "b"}},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "app", "image": "one"}]}
                }
            }
        })
    }

    /// A list that says what no server would: fields of nobody are owned, and parts of what is one value.
    fn told_by_client() -> Value {
        let owned = json!({
            "f:metadata": {"f:generation": {}, "f:resourceVersion": {}, "f:labels": {"f:a": {}}},
            "f:spec": {"f:replicas": {}, "f:selector": {"f:matchLabels": {"f:a": {}}}},
            "f:status": {"f:observedGeneration": {}}
        });
        let entry = |manager: &str| {
            json!({
                "manager": manager, "operation": "Update", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "fieldsV1": owned
            })
        };
        Value::Array(vec![entry("one"), entry("two")])
    }

    #[test]
    fn fast_path_gives_what_any_version_gives() {
        let (api_version, kind) = ("apps/v1", "Deployment");
        let schema = builtin().schema("apps", "v1", kind).unwrap();
        let zero = zero_object(schema, api_version, kind);
        let versions = SingleVersion::new(api_version, schema);
        let (values, mut dice) = (values(), Dice(7));
        let (mut quick, mut changed) = (0, 0);
        for _ in 0..400 {
            let mut live = zero.clone();
            let mut next = deployment();
            for _ in 0..12 {
                let subresource = dice.one_of(&["", "", "", "status"]);
                let reset = match dice.below(3) {
                    0 => ResetFields::Nothing,
                    _ => ResetFields::of_builtin("apps", "deployments", subresource),
                };
                let manager = FieldManager {
                    versions: &versions,
                    api_version,
                    kind,
                    subresource,
                    reset: &reset,
                    zero: &zero,
                };
                let writer = Writer {
                    manager: match dice.below(60) {
                        0 => CURRENT_OPERATION,
                        other => ["one", "two", "three", ""][other % 4],
                    },
                    now: dice.one_of(&["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
                };
                let mut in_full = next.clone();
                let managers = manager.managers_of_write(&live, &in_full);
                let mut copy = managers.clone();
                let is_quick = manager
                    .update_fast_path(&live, &next, &mut copy, writer)
                    .is_some();
                quick += usize::from(is_quick);
                if !managers.is_empty() || live == zero {
                    let done = manager.update_in_any_version(&live, &mut in_full, managers, writer);
                    let shown = manager.update_or_forget(&live, next.clone(), writer);
                    assert_eq!(shown, in_full, "from {live} by {next}");
                    assert_eq!(shown.to_string(), in_full.to_string());
                    assert!(done.is_ok() || !is_quick);
                    changed += usize::from(shown.get("metadata") != live.get("metadata"));
                    // Objects that have lost their managers are of no more use.
                    if shown.pointer("/metadata/managedFields").is_some() {
                        live = shown;
                    }
                }
                next = live.clone();
                put(&mut next, &["metadata", "uid"], Some(json!("1")));
                if dice.below(5) == 0 {
                    put(
                        &mut next,
                        &["metadata", "managedFields"],
                        Some(told_by_client()),
                    );
                }
                for _ in 0..dice.below(4) {
                    put(&mut next, dice.one_of(PATHS), dice.one_of(&values));
                }
            }
        }
        // Both ways are gone often.
        assert!(quick > 1000 && changed > 1000, "{quick} and {changed}");
    }
}
