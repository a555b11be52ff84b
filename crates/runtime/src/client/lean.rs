//! Objects read without their `managedFields`, which are half of an object and which hardly anybody
//! looks at: skipping them costs a fraction of building them.

use everflow_json::text::{read, read_without};
use everflow_json::{Map, Value};

/// The field of the metadata that is left out.
const MANAGED_FIELDS: &str = "managedFields";

/// How much of an object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// All but its `managedFields`.
    WithoutManagedFields,
}

impl Part {
    /// Of an object's text.
    pub(super) fn of_text(self, bytes: &[u8]) -> everflow_json::Result<Value> {
        match self {
            Part::Whole => read(bytes),
            Part::WithoutManagedFields => read_without(bytes, &["metadata", MANAGED_FIELDS]),
        }
    }

    /// Of an object.
    pub(super) fn of_tree(self, object: &Value) -> Value {
        match (self, object) {
            (Part::WithoutManagedFields, Value::Object(map)) => {
                let fields = map.iter().map(|(field, value)| {
                    let kept = match value {
                        Value::Object(metadata) if field == "metadata" => without_managed(metadata),
                        value => value.clone(),
                    };
                    (field.clone(), kept)
                });
                fields.collect()
            }
            (_, object) => object.clone(),
        }
    }
}

fn without_managed(metadata: &Map) -> Value {
    let kept = metadata
        .iter()
        .filter(|(field, _)| *field != MANAGED_FIELDS);
    kept.map(|(field, value)| (field.clone(), value.clone()))
        .collect()
}

/// Reads an event of a watch.
pub(super) fn event(bytes: &[u8]) -> everflow_json::Result<Value> {
    read_without(bytes, &["object", "metadata", MANAGED_FIELDS])
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn only_managed_fields_of_the_metadata_are_left_out() {
        let whole = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "labels": {"managedFields": "x"}}});
        let lean = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "labels": {"managedFields": "x"}}});
        let part = Part::WithoutManagedFields;
        assert_eq!(part.of_text(whole.to_string().as_bytes()).unwrap(), lean);
        assert_eq!(part.of_tree(&whole), lean);
        let told = json!({"type": "ADDED", "object": whole});
        let read = event(told.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!({"type": "ADDED", "object": lean}));
    }

    #[test]
    fn what_is_no_object_is_read_as_it_is() {
        for text in [
            "null",
            "[1,2]",
            r#"{"metadata":null}"#,
            r#"{"metadata":[]}"#,
        ] {
            let plain: Value = everflow_json::from_str(text).unwrap();
            let part = Part::WithoutManagedFields;
            assert_eq!(part.of_text(text.as_bytes()).unwrap(), plain);
            assert_eq!(part.of_tree(&plain), plain);
        }
        for text in ["", "{", r#"{"metadata":{"managedFields":[}}"#, "{} x"] {
            let read = Part::WithoutManagedFields.of_text(text.as_bytes());
            assert!(read.is_err(), "{text}");
        }
    }
}
