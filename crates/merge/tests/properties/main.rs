//! Properties that hold for all documents: nothing panics, apply is idempotent, ownership fits the
//! object, and independent appliers may come in any order.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code)]
mod generate;

use everflow_json::{Map, Value, json};
use everflow_merge::apply::{FieldManager, ResetFields, SingleVersion, Writer, decode};
use everflow_merge::typed::{Duplicates, TypedValue};
use everflow_merge::{MergeError, json_patch, merge_patch, strategic};
use everflow_schema::{Schema, SchemaView, builtin};
use proptest::collection::vec;
use proptest::prelude::*;

use generate::{Write, any_json, check, deployment, operation, widget, widget_schema, writes};

#[test]
fn patches_never_panic() {
    check(
        200,
        (any_json(), vec(operation(), 0..5)),
        |(document, patch)| {
            let _ = json_patch::apply(&document, &Value::Array(patch));
            Ok(())
        },
    );
    let deployment = builtin().schema("apps", "v1", "Deployment").unwrap();
    check(
        300,
        (any_json(), any_json(), any_json()),
        move |(a, b, c)| {
            let _ = json_patch::apply(&a, &b);
            let _ = merge_patch::apply(&a, &b);
            let _ = merge_patch::create(&a, &b);
            let _ = merge_patch::create_three_way(&a, &b, &c);
            let _ = strategic::apply(&a, &b, deployment);
            let _ = strategic::create(&a, &b, deployment);
            let _ = strategic::create_three_way(&a, &b, &c, deployment);
            let _ = strategic::has_conflicts(&a, &b, deployment);
            Ok(())
        },
    );
}

#[test]
fn typed_walks_never_panic() {
    let deployment = builtin().schema("apps", "v1", "Deployment").unwrap();
    let zero = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    check(
        200,
        (any_json(), any_json(), any_json()),
        move |(mut live, mut applied, entries)| {
            for document in [&mut live, &mut applied] {
                if let Value::Object(fields) = document {
                    fields.insert("apiVersion".into(), json!("apps/v1"));
                    fields.insert("kind".into(), json!("Deployment"));
                }
            }
            if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("managedFields".into(), entries);
            }
            let versions = SingleVersion::new("apps/v1", deployment);
            let manager = FieldManager {
                versions: &versions,
                api_version: "apps/v1",
                kind: "Deployment",
                subresource: "",
                reset: &ResetFields::Nothing,
                zero: &zero,
            };
            let _ = manager.apply(&live, &applied, WRITER, false);
            let _ = manager.apply(&live, &applied, WRITER, true);
            let _ = manager.update_or_forget(&live, applied, WRITER);
            Ok(())
        },
    );
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    let mut deep = json!("x");
    for _ in 0..400 {
        let mut map = Map::new();
        map.insert("a".into(), Value::Array(vec![deep]));
        deep = Value::Object(map);
    }
    let deployment = builtin().schema("apps", "v1", "Deployment").unwrap();
    let flat = json!({});
    let refused = |result: Result<Value, MergeError>| {
        assert!(
            matches!(result, Err(MergeError::TooDeep { .. })),
            "{result:?}"
        );
    };
    refused(json_patch::apply(&deep, &json!([])));
    refused(merge_patch::apply(&flat, &deep));
    refused(merge_patch::create(&flat, &deep));
    refused(strategic::apply(&flat, &deep, deployment));
    refused(strategic::create(&deep, &flat, deployment));
    refused(
        TypedValue::new(deep.clone(), deployment, Duplicates::Allow).map(TypedValue::into_value),
    );
}

const WRITER: Writer<'static> = Writer {
    manager: "tester",
    now: "2026-01-01T00:00:00Z",
};

struct Widgets {
    schema: Schema,
    zero: Value,
}

impl Widgets {
    fn new() -> Self {
        Self {
            schema: widget_schema(),
            zero: json!({"apiVersion": "x.io/v1", "kind": "Widget"}),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let versions = SingleVersion::new("x.io/v1", self.schema.view());
        work(&FieldManager {
            versions: &versions,
            api_version: "x.io/v1",
            kind: "Widget",
            subresource: "",
            reset: &ResetFields::Nothing,
            zero: &self.zero,
        })
    }

    fn run(&self, live: &Value, write: &Write) -> Value {
        let now = "2026-01-01T00:00:00Z";
        let mut object = self.with(|fields| match write {
            Write::Apply {
                manager, document, ..
            } => fields
                .apply(live, document, Writer { manager, now }, true)
                .unwrap(),
            Write::Update { manager, document } => {
                let mut document = document.clone();
                document["metadata"]["uid"] = json!("u");
                fields
                    .update(live, document, Writer { manager, now })
                    .unwrap()
            }
        });
        object["metadata"]["uid"] = json!("u");
        object
    }
}

#[test]
fn apply_is_idempotent_and_ownership_fits_the_object() {
    let widgets = Widgets::new();
    check(150, writes(), move |writes| {
        let mut live = widgets.zero.clone();
        for write in &writes {
            live = widgets.run(&live, write);
            if let Write::Apply { .. } = write {
                prop_assert_eq!(
                    &widgets.run(&live, write),
                    &live,
                    "applied twice: {:?}",
                    write
                );
            }
            let typed =
                TypedValue::new(live.clone(), widgets.schema.view(), Duplicates::Allow).unwrap();
            // Updates own empty containers, too: those are what a comparison with nothing shows.
            let nothing = TypedValue::new(
                widgets.zero.clone(),
                widgets.schema.view(),
                Duplicates::Allow,
            )
            .unwrap();
            let added = nothing.compare(&typed).unwrap().added;
            let present = typed.with_named_fields(&typed.field_set()).union(&added);
            for owner in decode(&live).unwrap() {
                let missing = owner.set.difference(&present);
                prop_assert!(
                    missing.is_empty(),
                    "{} owns what is not there: {:?} in {}",
                    owner.name,
                    missing.paths(),
                    live
                );
            }
        }
        Ok(())
    });
}

#[test]
fn fields_dropped_by_an_applier_are_removed_unless_owned_by_others() {
    let widgets = Widgets::new();
    check(100, (widget(), widget()), move |(first, second)| {
        let by = |manager, document: &Value| Write::Apply {
            manager,
            document: document.clone(),
            force: true,
        };
        let once = widgets.run(&widgets.zero, &by("one", &second));
        let both = widgets.run(
            &widgets.run(&widgets.zero, &by("one", &first)),
            &by("one", &second),
        );
        // Only empty containers may remain of the first document.
        prop_assert_eq!(without_empty(&strip(&both)), without_empty(&strip(&once)));
        Ok(())
    });
}

#[test]
fn independent_appliers_commute() {
    let widgets = Widgets::new();
    check(100, (widget(), widget()), move |(first, mut second)| {
        // Disjoint by construction: each applier has fields of its own.
        for field in ["text", "count", "atomic", "whole", "any"] {
            if first["spec"].get(field).is_some()
                && let Some(spec) = second["spec"].as_object_mut()
            {
                spec.remove(field);
            }
        }
        for list in ["map", "set", "dict"] {
            rename(&mut second["spec"][list]);
        }
        if let Some(spec) = second["spec"].as_object_mut() {
            spec.retain(|_, value| !value.is_null());
        }
        let by = |manager, document: &Value| Write::Apply {
            manager,
            document: document.clone(),
            force: true,
        };
        let (one, two) = (by("one", &first), by("two", &second));
        let forward = widgets.run(&widgets.run(&widgets.zero, &one), &two);
        let backward = widgets.run(&widgets.run(&widgets.zero, &two), &one);
        prop_assert_eq!(sorted(&strip(&forward)), sorted(&strip(&backward)));
        let owners = |object: &Value| -> Vec<(String, String)> {
            let managers = decode(object).unwrap();
            managers
                .into_iter()
                .map(|owner| (owner.name, owner.set.to_fields_v1_text()))
                .collect()
        };
        prop_assert_eq!(owners(&forward), owners(&backward));
        Ok(())
    });
}

/// Makes the keys and items of a value differ from all generated ones.
fn rename(value: &mut Value) {
    match value {
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::String(text) => *text = format!("{text}2").into(),
                    item => {
                        let name = item["name"].as_str().unwrap_or_default().to_owned();
                        item["name"] = json!(format!("{name}2"));
                    }
                }
            }
        }
        Value::Object(map) => {
            *map = std::mem::take(map)
                .into_iter()
                .map(|(key, value)| (format!("{key}2"), value))
                .collect();
        }
        _ => {}
    }
}

fn strip(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"] = Value::Null;
    object
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), without_empty(value)))
                .filter(|(_, value)| match value {
                    Value::Null => false,
                    Value::Object(map) => !map.is_empty(),
                    Value::Array(items) => !items.is_empty(),
                    _ => true,
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

fn deployment_schema() -> SchemaView<'static> {
    builtin().schema("apps", "v1", "Deployment").unwrap()
}

#[test]
fn created_patches_lead_to_the_target() {
    check(150, (any_json(), any_json()), |(old, new)| {
        let (old, new) = (without_empty(&old), without_empty(&new));
        if old.is_object() && new.is_object() {
            let patch = merge_patch::create(&old, &new).unwrap();
            prop_assert_eq!(merge_patch::apply(&old, &patch).unwrap(), new);
        }
        Ok(())
    });
    check(150, (deployment(), deployment()), |(old, new)| {
        let patch = strategic::create(&old, &new, deployment_schema()).unwrap();
        // The real code sorts the old list of scalars before it compares, and so misses a change
        // of nothing but the order that ends up sorted; the peer test shows the same.
        let unordered = |object: &Value| {
            let mut object = without_empty(object);
            if let Some(list) = object.pointer_mut("/metadata/finalizers") {
                *list = sorted(list);
            }
            object
        };
        let reached = strategic::apply(&old, &patch, deployment_schema()).unwrap();
        prop_assert_eq!(unordered(&reached), unordered(&new), "by {}", patch);
        Ok(())
    });
}

#[test]
fn three_way_patches_apply_what_changed_and_keep_the_rest() {
    check(
        100,
        (deployment(), deployment(), deployment()),
        |(original, modified, current)| {
            let schema = deployment_schema();
            let patch =
                strategic::create_three_way(&original, &modified, &current, schema).unwrap();
            let reached = strategic::apply(&current, &patch, schema).unwrap();
            // Applying again from what is reached changes nothing.
            let again =
                strategic::create_three_way(&modified, &modified, &reached, schema).unwrap();
            prop_assert_eq!(strategic::apply(&reached, &again, schema).unwrap(), reached);
            Ok(())
        },
    );
}
